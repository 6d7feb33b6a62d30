"""`penstock security export`."""

from __future__ import annotations

import click

from penstock.cli.kit.options import dry_run_option, json_option
from penstock.cli.kit.output import print_json
from penstock.cli.security.options import company_option, opened, storage_options
from penstock.systems.security_assistant.job import counted
from penstock.systems.security_assistant.json_shelf import JsonShelf
from penstock.systems.security_assistant.moving import Moved, copy_jobs


@click.command("export")
@click.argument("target", type=click.Path(file_okay=False))
@click.option("--replace", is_flag=True, help="Replace jobs that are there in another version.")
@company_option
@storage_options
@dry_run_option
@json_option
def command(target: str, replace: bool, company: str | None, dry_run: bool, as_json: bool, **place: str | None) -> None:
    """Write all jobs, with their events, into TARGET/jobs.json. Files are not copied.

    \b
    Example:
      penstock security export local_output --db jobs.db

    Doing it twice is doing it once.
    """
    with opened(place) as storage:
        moved = copy_jobs(
            storage.shelf,
            JsonShelf(target),
            now=storage.now(),
            company=company,
            replace_existing=replace,
            dry_run=dry_run,
        )
    show_moved(moved, f"{target}/jobs.json", dry_run=dry_run, as_json=as_json)


def show_moved(moved: Moved, target: str, *, dry_run: bool, as_json: bool) -> None:
    """Exit code 1 if jobs were left as they are in the target, in another version."""
    if as_json:
        print_json(moved.form() | {"dry_run": dry_run})
    else:
        verb = "Would copy" if dry_run else "Copied"
        told = f"{counted(moved.copied, 'job')} and {counted(moved.events, 'event')}"
        click.echo(f"{verb} {told} to {target}; {moved.same} were there already.")
        if moved.replaced:
            click.echo(f"{'Would replace' if dry_run else 'Replaced'} {moved.replaced}.")
        for key in moved.kept:
            click.echo(f"  kept as it is there: {key}. Give --replace to replace it.", err=True)
    if moved.kept:
        raise click.exceptions.Exit(1)
