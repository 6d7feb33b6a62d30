"""`penstock tables load`: a dumped folder into a table."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from penstock.cli.kit.databases import absent_file, open_database
from penstock.cli.kit.options import dry_run_option, json_option, resumable
from penstock.cli.kit.output import ProgressLine, print_json
from penstock.cli.tables.options import pacer_of, permitted, rate_option, url_option
from penstock.tables.data import load as loading_data


@click.command("load")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--table", required=True, metavar="NAME", help="The table to load into.")
@click.option("--create", is_flag=True, help="Make the table as it was dumped, if it is missing.")
@click.option("--merge", is_flag=True, help="Put the items over those that the table has.")
@click.option("--state", type=click.Path(path_type=Path), metavar="FILE", help="Where progress is kept; else in DIR.")
@url_option
@rate_option
@dry_run_option
@json_option
def command(
    folder: Path,
    table: str,
    create: bool,
    merge: bool,
    state: Path | None,
    url: str,
    rate: float | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Load a folder that `dump`, or an export of DynamoDB to S3, has written.

    \b
    Examples:
      penstock tables load backup/orders --table orders --create --url local.db
      penstock tables load backup/orders --table orders --url aws://eu-west-2 --rate 500

    Checksums are verified before anything is written. Interrupted, it continues with the part it was at.
    """
    line = ProgressLine(quiet=as_json)
    with (
        permitted("load", table),
        open_database(url, absent_file(create, dry_run=dry_run), maker="--create") as db,
        resumable(f"a part of the items is in {table}."),
    ):
        done = loading_data.load(
            db,
            folder,
            table,
            create=create,
            merge=merge,
            pacer=pacer_of(db, rate),
            progress=line.items,
            state_file=state,
            dry_run=dry_run,
        )
    line.end()
    if as_json:
        print_json(asdict(done) | ({"dry_run": True} if dry_run else {}))
        return
    made = " (made as it was dumped)" if done.created else ""
    earlier = f", {done.parts_before} parts were there from before" if done.parts_before else ""
    deed = "would be loaded" if dry_run else "loaded"
    click.echo(f"{table}{made}: {done.items:,} items {deed}{earlier}")
