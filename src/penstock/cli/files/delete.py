"""`penstock files delete`."""

from __future__ import annotations

import click

from penstock.cli.files.group import NOT_FOUND
from penstock.cli.files.options import home_argument, opened
from penstock.cli.kit.options import confirm, dry_run_option, json_option, resumable, yes_option
from penstock.cli.kit.output import count_text, print_json


@click.command("delete")
@home_argument
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@dry_run_option
@yes_option
@json_option
def command(home: str, keys: tuple[str, ...], dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete the files of HOME that have these exact keys.

    \b
    Examples:
      penstock files delete out/ jobs/j1/report.xlsx --dry-run
      penstock files delete s3://my-bucket/reports j1/a.json j1/b.json --yes

    If one of them is not there, nothing is deleted (exit code 4).
    """
    files = opened(home)
    missing = [key for key in keys if not files.exists(key)]
    if missing:
        click.echo(f"Error: {files.where} has no {', '.join(missing)}. Nothing was deleted.", err=True)
        raise click.exceptions.Exit(NOT_FOUND)
    if not as_json:
        for key in keys:
            click.echo(f"  - {key}")
    if not dry_run:
        confirm(f"Delete {count_text(len(keys))} of {files.where}?", yes=yes)
        with resumable("those before the one it was at are deleted."):
            for key in keys:
                files.delete(key)
    if as_json:
        print_json({"deleted": [] if dry_run else list(keys), "would_delete": list(keys) if dry_run else []})
    else:
        click.echo(f"{'Would delete' if dry_run else 'Deleted'} {count_text(len(keys))}.")
