"""`penstock tables restore`: a table from a point in time, a backup or a dump, with all its settings."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from penstock.cli.kit.databases import absent_file, open_database
from penstock.cli.kit.options import dry_run_option, json_option, resumable
from penstock.cli.kit.output import ProgressLine, print_json
from penstock.cli.tables.options import pacer_of, permitted, rate_option, url_option
from penstock.tables.data import backups
from penstock.tables.data.backups import Backup, DumpFolder, PointInTime, Source


@click.command("restore")
@click.argument("table", metavar="NEW")
@click.option("--from", "origin", metavar="TABLE", help="Restore from this table's point-in-time recovery.")
@click.option("--at", metavar="TIME", help="The moment, such as 2025-06-16T21:19:33Z; else the latest.")
@click.option("--backup", metavar="ARN", help="Restore from this backup.")
@click.option("--dump", type=click.Path(path_type=Path), metavar="DIR", help="Restore from a dumped folder.")
@click.option("--definition", type=click.Path(path_type=Path), metavar="FILE", help="The settings; else the source's.")
@click.option("--finish", is_flag=True, help="NEW is restored: only put its settings back and verify them.")
@url_option
@rate_option
@dry_run_option
@json_option
def command(
    table: str,
    origin: str | None,
    at: str | None,
    backup: str | None,
    dump: Path | None,
    definition: Path | None,
    finish: bool,
    url: str,
    rate: float | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Restore into the new table NEW, and finish the job: TTL, tags, stream, recovery, protection; then verify.

    \b
    Examples:
      penstock tables restore orders-2 --from orders --at 2026-11-15T12:00:00Z --url aws://eu-west-2
      penstock tables restore orders-2 --backup arn:aws:dynamodb:… --definition orders.json --url aws://eu-west-2
      penstock tables restore orders-2 --dump backup/orders --url local.db

    Nothing that exists is written over. Exit code 1 if the restored table differs from its source's definition.
    """
    source = _source(origin, at, backup, dump)
    line = ProgressLine(quiet=as_json)
    absent = absent_file(dump is not None, dry_run=dry_run)
    # A dump is loaded by us and goes on by itself; DynamoDB's own restores go on without us.
    with (
        permitted("restore", *_tables(source, table)),
        open_database(url, absent) as db,
        resumable(f"{table} may be there in part (add --finish once DynamoDB has made it)."),
    ):
        done = backups.restore(
            db,
            source,
            table,
            definition=definition,
            finish=finish,
            dry_run=dry_run,
            tell=line.tell,
            pacer=pacer_of(db, rate),
            progress=line.items,
        )
    line.end()
    if as_json:
        print_json(asdict(done) | ({"dry_run": True} if dry_run else {}))
        return
    if dry_run:
        click.echo(f"{table}: would be restored with {done.items:,} items and the settings of {done.settings_from}")
    else:
        told = f"restored with {done.items:,} items; its settings are those of {done.settings_from}, verified"
        click.echo(f"{table}: {told}")
    if done.unknown:
        click.echo(f"  not known from a backup, and left at their defaults: {', '.join(done.unknown)} (--definition)")


def _tables(source: Source, new: str) -> tuple[str, ...]:
    """Whose rights are needed: a backup's name has its table's."""
    match source:
        case PointInTime(origin):
            return origin, new
        case Backup(arn):
            return arn.partition(":table/")[2].partition("/")[0] or arn, new
        case DumpFolder():
            return (new,)


def _source(origin: str | None, at: str | None, backup: str | None, dump: Path | None) -> Source:
    if sum(one is not None for one in (origin, backup, dump)) != 1:
        raise click.UsageError("Give one of --from TABLE, --backup ARN and --dump DIR.")
    if at is not None and origin is None:
        raise click.UsageError("--at belongs to --from TABLE.")
    if origin is not None:
        return PointInTime(origin, backups.parse_moment(at or "latest"))
    return Backup(backup) if backup is not None else DumpFolder(dump or Path())
