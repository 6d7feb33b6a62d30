"""`penstock tables backup`: a backup, made and waited for."""

from __future__ import annotations

import time
from pathlib import Path

import click

from penstock.cli.kit.databases import open_database
from penstock.cli.kit.options import dry_run_option, json_option, resumable
from penstock.cli.kit.output import ProgressLine, print_json
from penstock.cli.tables.options import permitted, url_option
from penstock.tables.data import backups
from penstock.tables.data.dump_folder import replace_file
from penstock.tables.formats.export_file import export_text
from penstock.tables.plan.inspect import required


@click.command("backup")
@click.argument("table")
@click.option("--name", metavar="NAME", help="The backup's name; else the table's with the time.")
@click.option(
    "--definition",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the table's definition there: a backup has no tags, recovery or protection.",
)
@url_option
@dry_run_option
@json_option
def command(table: str, name: str | None, definition: Path | None, url: str, dry_run: bool, as_json: bool) -> None:
    """Make a backup of a table and wait until it can be used.

    \b
    Examples:
      penstock tables backup orders --url aws://eu-west-2 --definition orders.json
      penstock tables restore orders-again --backup ARN --definition orders.json --url aws://eu-west-2
    """
    line = ProgressLine(quiet=as_json)
    with permitted("backup", table), open_database(url) as db, resumable("the backup goes on by itself."):
        live = required(db, table)
        backup = name or backups.default_name(table, time.time())
        if dry_run:
            _show_planned(table, backup, live.facts.items, as_json)
            return
        if definition is not None:
            replace_file(definition, export_text(live.table).encode())
        made = backups.back_up(db, table, backup, tell=line.tell)
    line.end()
    details, source = made["BackupDetails"], made["SourceTableDetails"]
    if as_json:
        print_json(
            {"table": table, "arn": details["BackupArn"], "name": details["BackupName"], "items": source["ItemCount"]}
        )
        return
    click.echo(f"{table}: {source['ItemCount']:,} items backed up as {details['BackupName']}")
    click.echo(f"  {details['BackupArn']}")


def _show_planned(table: str, backup: str, items: int, as_json: bool) -> None:
    if as_json:
        print_json({"table": table, "name": backup, "items": items, "dry_run": True})
    else:
        click.echo(f"{table}: {items:,} items would be backed up as {backup}")
