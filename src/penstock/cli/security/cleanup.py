"""`penstock security cleanup`."""

from __future__ import annotations

import click

from penstock.cli.kit.options import AgeType, confirm, dry_run_option, json_option, yes_option
from penstock.cli.kit.output import print_json
from penstock.cli.security.options import opened, storage_options
from penstock.systems.security_assistant.job import counted


@click.command("cleanup")
@click.option(
    "--older-than", type=AgeType(), default="24h", show_default=True, help="Leave files alone that are younger."
)
@storage_options
@dry_run_option
@yes_option
@json_option
def command(older_than: float, dry_run: bool, yes: bool, as_json: bool, **place: str | None) -> None:
    """Remove jobs that have expired (30 days after they ended), and files that belong to no job.

    \b
    Examples:
      penstock security cleanup --dry-run
      penstock security cleanup --older-than 7d --yes
    """
    with opened(place) as storage:
        names: list[str] = []
        found = storage.clean_up(older_than_seconds=older_than, dry_run=True, tell=names.append)
        files = found.files.orphans + found.files.leftovers
        if not as_json:
            for name in names:
                click.echo(f"  - {name}")
            told = f"{counted(found.jobs, 'expired job')}, {counted(files, 'file')} of no job"
            click.echo(f"Plan: {told} ({found.files.size:,} bytes).")
        if (found.jobs or files) and not dry_run:
            confirm(f"Remove them from {storage.shelf.where}?", yes=yes)
            found = storage.clean_up(older_than_seconds=older_than)
            files = found.files.orphans + found.files.leftovers
            if not as_json:
                click.echo(f"Removed {counted(found.jobs, 'job')} and {counted(files, 'file')}.")
    if as_json:
        print_json({"jobs": found.jobs, "files": files, "bytes": found.files.size, "names": names, "dry_run": dry_run})
