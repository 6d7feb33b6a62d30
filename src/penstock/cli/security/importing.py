"""`penstock security import`."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.kit.options import dry_run_option, json_option
from penstock.cli.security.exporting import show_moved
from penstock.cli.security.options import company_option, opened, storage_options
from penstock.systems.security_assistant.json_shelf import JOBS_FILE, JsonShelf
from penstock.systems.security_assistant.moving import copy_jobs


@click.command("import")
@click.argument("source", type=click.Path(exists=True, file_okay=False))
@click.option("--replace", is_flag=True, help="Replace jobs that are there in another version.")
@company_option
@storage_options
@dry_run_option
@json_option
def command(source: str, replace: bool, company: str | None, dry_run: bool, as_json: bool, **place: str | None) -> None:
    """Read the jobs of SOURCE/jobs.json, with their events, into the storage. Files are not copied.

    \b
    Example:
      penstock security import local_output --url aws://eu-west-2 --files s3://security-assistant-files
    """
    if not (Path(source) / JOBS_FILE).is_file():
        raise click.UsageError(f"{source} has no {JOBS_FILE}.")
    with opened(place, make=True) as storage:
        moved = copy_jobs(
            JsonShelf(source),
            storage.shelf,
            now=storage.now(),
            company=company,
            replace_existing=replace,
            dry_run=dry_run,
        )
        where = storage.shelf.where
    show_moved(moved, where, dry_run=dry_run, as_json=as_json)
