"""`penstock tables dump`: a table's definition and items to a folder."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.kit.databases import open_database
from penstock.cli.kit.options import dry_run_option, json_option, resumable
from penstock.cli.kit.output import ProgressLine, print_json
from penstock.cli.tables.options import pacer_of, permitted, rate_option, url_option
from penstock.tables.data import dump as dumping
from penstock.tables.plan.costs import count
from penstock.tables.plan.inspect import Live, required


@click.command("dump")
@click.argument("table")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="An empty or new folder.")
@click.option("--segments", type=click.IntRange(1, 1000), default=dumping.SEGMENTS, show_default=True)
@url_option
@rate_option
@dry_run_option
@json_option
def command(table: str, out: Path, segments: int, url: str, rate: float | None, dry_run: bool, as_json: bool) -> None:
    """Write a table's definition and items to a folder, in DynamoDB's export format.

    \b
    Examples:
      penstock tables dump orders --out backup/orders --url aws://eu-west-2
      penstock tables load backup/orders --table orders --create --url local.db

    Read only. Interrupted, it continues where it was when it is run again. Each item is as it was at some moment
    of the dump; for one moment of the whole table, dump a table restored from a point in time.
    """
    line = ProgressLine(quiet=as_json)
    with permitted("dump", table), open_database(url) as db, resumable(f"{out} holds what was written so far."):
        if dry_run:
            _show_planned(required(db, table), out, as_json)
            return
        done = dumping.dump(db, table, out, segments=segments, pacer=pacer_of(db, rate), progress=line.items)
    line.end()
    size = sum(part.bytes for part in done.parts)
    if as_json:
        print_json({"table": table, "folder": str(out), "items": done.items, "parts": len(done.parts), "bytes": size})
        return
    click.echo(f"{table}: {count(done.items, 'item')} in {count(len(done.parts), 'part')}, {size:,} bytes, in {out}")


def _show_planned(live: Live, out: Path, as_json: bool) -> None:
    dumping.check_folder(out)
    facts = live.facts
    if as_json:
        print_json({"table": facts.name, "folder": str(out), "items": facts.items, "dry_run": True})
    else:
        click.echo(f"{facts.name}: {count(facts.items, 'item')} would be written to {out}")
