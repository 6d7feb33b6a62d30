"""The items of tables: dump, load, diff-data, backup and restore."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import click

from penstock.cli.kit import groups
from penstock.cli.kit.completion import complete_tables
from penstock.cli.kit.databases import absent_file, open_database
from penstock.cli.kit.exit_codes import DIFFERENT, FAILED
from penstock.cli.kit.options import db_option, dry_run_option, json_option, refuse_host, resumable
from penstock.cli.kit.output import ProgressLine, print_json, print_result
from penstock.cli.tables.dumps import (
    EXPORT,
    Asked,
    Load,
    dump_several,
    dump_to_file,
    dump_to_folder,
    dump_to_s3,
    format_option,
    interrupted_text,
    load_place,
    no_new_file_if_failed,
)
from penstock.cli.tables.options import pacer_of, policy_hint, rate_option, segments_option, table_argument
from penstock.client.database import Database
from penstock.errors import PenstockError
from penstock.tables.data import backups
from penstock.tables.data import compare as table_compare
from penstock.tables.data import dump as table_dump
from penstock.tables.data.backups import Backup, DumpFolder, PointInTime, Source
from penstock.tables.data.compare import Comparison, Difference
from penstock.tables.data.dump import replace_file
from penstock.tables.data.item_files import Format, is_bucket, item_file
from penstock.tables.data.transfers import ItemTable
from penstock.tables.definitions.export_file import export_text
from penstock.tables.definitions.own_tables import own_tables
from penstock.tables.plan.survey import Live, require_table


def _chosen(db: Database, tables: tuple[str, ...], start: str | None) -> list[str]:
    """The tables that are named; else all that begin so, but for those in which Penstock keeps its own state."""
    if tables:
        return list(dict.fromkeys(tables))  # the right to list tables is not needed (iam_policy.py)
    chosen = [one for one in db.tables() if one not in own_tables() and one.startswith(start or "")]
    if not chosen:
        raise PenstockError(f"{db.name} has no tables{f' that begin with {start}' if start else ''}.")
    return chosen


@groups.command("dump")
@click.argument("tables", nargs=-1, metavar="[TABLE]…", shell_complete=complete_tables)
@click.option(
    "--all", "everything", is_flag=True, help="Every table of the database but Penstock's own, such as penstock-state."
)
@click.option("--prefix", "start", metavar="TEXT", help="Every table whose name begins with it.")
@click.option("--out", required=True, metavar="PLACE", help="A new folder, a file (.jsonl, .csv, .gz), s3://…, or -.")
@format_option
@segments_option(table_dump.SEGMENTS)
@db_option()
@rate_option
@dry_run_option
@json_option
def dump(
    tables: tuple[str, ...],
    everything: bool,
    start: str | None,
    out: str,
    format: Format | None,
    segments: int,
    target: str,
    rate: float | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Write the definitions and items of tables to a folder, a file, S3 or stdout.

    \b
    Examples:
      penstock tables dump orders --out backup/orders --db aws://eu-west-2
      penstock tables dump --all --out s3://my-bucket/nightly --db aws://eu-west-2
      penstock tables dump orders --out - | penstock tables load - --table orders --create --db local.db
      penstock tables dump orders --out orders.csv

    A folder has DynamoDB's export format; several tables have a folder each, in S3 a file each. Read only. After an
    interruption, run it again to continue. Each item is as it was at some moment of the dump. To get one moment of the
    whole table, dump a table restored from a point in time.
    """
    if sum((bool(tables), everything, start is not None)) != 1:
        raise click.UsageError("Which tables? Give their names, --prefix TEXT or --all.")
    asked = Asked(out, format, segments, rate, dry_run, as_json)
    with policy_hint("dump", *tables), open_database(target) as db, resumable(interrupted_text(asked)):
        names = _chosen(db, tables, start)
        if len(tables) == 1 and format == EXPORT:
            (dump_to_s3 if is_bucket(out) else dump_to_folder)(db, names[0], asked)
        elif format == EXPORT:
            raise click.UsageError(f"--format {EXPORT} takes one table; without it, several have a folder each.")
        elif len(tables) != 1:
            dump_several(db, names, asked)
        elif (file := item_file(out, format)) is not None or is_bucket(out):
            dump_to_file(db, names[0], file, asked)
        else:
            dump_to_folder(db, names[0], asked)


@groups.command("load")
@click.argument("source", metavar="PLACE")
@click.option("--table", metavar="NAME", shell_complete=complete_tables, help="The table to load into.")
@click.option("--create", is_flag=True, help="Make the table as it was dumped, if it is missing.")
@click.option("--merge", is_flag=True, help="Put the items over those that the table has.")
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where progress is kept, for a folder; else in PLACE.",
)
@format_option
@db_option()
@rate_option
@dry_run_option
@json_option
def load(
    source: str,
    table: str | None,
    create: bool,
    merge: bool,
    state: Path | None,
    format: Format | None,
    target: str,
    rate: float | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Load what `dump`, or an export of DynamoDB to S3, has written: a folder, a file, s3://… or stdin (-).

    \b
    Examples:
      penstock tables load backup/orders --table orders --create --db local.db
      penstock tables load backup/orders --table orders --db aws://eu-west-2 --rate 500
      penstock tables load s3://my-bucket/nightly --create --db local.db
      penstock tables load orders.csv --table orders --merge

    Without --table, a folder is loaded into the table that its manifest names. A dump of several tables is loaded
    under their names; --table takes one of them. Everything is verified before anything is written, except on stdin.
    After an interruption, run it again to continue; a file is loaded from its beginning, so give --merge then. A load
    that made the table and failed leaves nothing.
    """
    asked = Load(source, table, create, merge, state, format, dry_run, as_json)
    with (
        policy_hint("load", *(() if table is None else (table,))),
        no_new_file_if_failed(target, dry_run=dry_run),
        open_database(target, absent_file(create, dry_run=dry_run), maker="--create") as db,
        resumable(f"a part of the items is in {table or 'the tables'}."),
    ):
        load_place(db, asked, pacer_of(db, rate))


@groups.command("diff-data", exit_codes={DIFFERENT: "they differ"})
@click.argument("first", metavar="A", shell_complete=complete_tables)
@click.argument("second", metavar="B", shell_complete=complete_tables)
@click.option("--other-db", "other_target", metavar="TARGET", callback=refuse_host, help="The database of B.  [A's]")
@click.option(
    "--show", type=click.IntRange(min=0), default=table_compare.SHOWN, show_default=True, help="Differences shown."
)
@click.option("--ignore", multiple=True, metavar="ATTRIBUTE", help="An attribute that does not count.")
@segments_option(table_compare.SEGMENTS)
@db_option()
@rate_option
@json_option
def diff_data(
    first: str,
    second: str,
    other_target: str | None,
    show: int,
    ignore: tuple[str, ...],
    segments: int,
    target: str,
    rate: float | None,
    as_json: bool,
) -> None:
    """Compare the items of two tables with the same key.

    \b
    Examples:
      penstock tables diff-data orders orders-restored --db aws://eu-west-2
      penstock tables diff-data orders orders --db aws://eu-west-2 --other-db local.db --ignore updatedAt

    Read only.
    """
    line = ProgressLine(quiet=as_json)
    with (
        policy_hint("diff-data", first, second),
        open_database(target) as db,
        nullcontext(db) if other_target is None else open_database(other_target) as other,
        resumable("nothing was changed."),
    ):
        for place, name in ((db, first), (other, second)):
            require_table(place, name, settings=False)
        comparison = table_compare.compare(
            ItemTable.of(db, first, pacer_of(db, rate)),
            ItemTable.of(other, second, pacer_of(other, rate)),
            segments=segments,
            shown=show,
            ignored=frozenset(ignore),
            progress=line.items,
        )
        if first == second:
            comparison.first, comparison.second = f"{first} in {db.name}", f"{second} in {other.name}"
    line.end()
    if as_json:
        differences = [one.form() for one in comparison.differences]
        print_json(asdict(comparison) | {"differences": differences, "same": comparison.same})
    else:
        _show_comparison(comparison)
    if not comparison.same:
        raise click.exceptions.Exit(DIFFERENT)


def _show_comparison(comparison: Comparison) -> None:
    click.echo(
        f"{comparison.first}: {comparison.first_items:,} items, {comparison.second}: {comparison.second_items:,} items"
    )
    if comparison.same:
        click.echo("The same.")
        return
    click.echo(
        f"{comparison.only_in_first:,} only in {comparison.first}, "
        f"{comparison.only_in_second:,} only in {comparison.second}, "
        f"{comparison.different:,} different"
    )
    for one in comparison.differences:
        click.echo(f"  {_difference_text(one, comparison)}")
    rest = comparison.only_in_first + comparison.only_in_second + comparison.different - len(comparison.differences)
    if rest > 0:
        click.echo(f"  … and {rest:,} more")


def _difference_text(one: Difference, comparison: Comparison) -> str:
    key = ", ".join(f"{name}={next(iter(value.values()))}" for name, value in one.key.items())
    match one.kind:
        case "only in first":
            return f"- {key}  only in {comparison.first}"
        case "only in second":
            return f"+ {key}  only in {comparison.second}"
        case "different":
            return f"~ {key}  {', '.join(one.attributes)}"


@groups.command("backup")
@table_argument
@click.option("--name", metavar="NAME", help="The backup's name; else the table's with the time.")
@click.option(
    "--definition",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the table's definition there: a backup has no tags, recovery or protection.",
)
@db_option()
@dry_run_option
@json_option
def backup(table: str, name: str | None, definition: Path | None, target: str, dry_run: bool, as_json: bool) -> None:
    """Make a DynamoDB backup of one table, which its database keeps, and wait until it can be used.

    It is not a copy of a database file: that is `penstock backup SOURCE DEST`.

    \b
    Examples:
      penstock tables backup orders --db aws://eu-west-2 --definition orders.json
      penstock tables restore orders-again --backup ARN --definition orders.json --db aws://eu-west-2
    """
    line = ProgressLine(quiet=as_json)
    with policy_hint("backup", table), open_database(target) as db, resumable("the backup continues in the database."):
        live = _table_to_back_up(db, table)
        backup = name or backups.default_name(table, time.time())
        if dry_run:
            form = {"table": table, "name": backup, "items": live.facts.items, "dry_run": True}
            print_result(form, f"{table}: {live.facts.items:,} items would be backed up as {backup}", as_json=as_json)
            return
        if definition is not None:
            replace_file(definition, export_text(live.table).encode())
        made = backups.back_up(db, table, backup, tell=line.tell)
    line.end()
    details, source = made["BackupDetails"], made["SourceTableDetails"]
    arn, name, items = details["BackupArn"], details["BackupName"], source["ItemCount"]
    form = {"table": table, "arn": arn, "name": name, "items": items}
    print_result(form, f"{table}: {items:,} items backed up as {name}\n  {arn}", as_json=as_json)


def _table_to_back_up(db: Database, name: str) -> Live:
    try:
        return require_table(db, name)
    except PenstockError as error:
        if name.endswith(".db") or Path(name).is_file():
            raise PenstockError(
                f"{error} {name} looks like a database file: `penstock backup {name} DEST` copies one."
            ) from error
        raise


@groups.command("restore", exit_codes={FAILED: "failed, or the restored table differs from its definition"})
@click.argument("table", metavar="NEW")
@click.option(
    "--from", "origin", metavar="TABLE", shell_complete=complete_tables,
    help="Restore from this table's point-in-time recovery.",
)  # fmt: skip
@click.option("--at", metavar="TIME", help="The moment, such as 2025-06-16T21:19:33Z; else the latest.")
@click.option("--backup", metavar="ARN", help="Restore from this backup.")
@click.option("--dump", type=click.Path(path_type=Path), metavar="DIR", help="Restore from a dumped folder.")
@click.option("--definition", type=click.Path(path_type=Path), metavar="FILE", help="The settings; else the source's.")
@click.option("--finish", is_flag=True, help="NEW is restored: only put its settings back and verify them.")
@db_option()
@rate_option
@dry_run_option
@json_option
def restore(
    table: str,
    origin: str | None,
    at: str | None,
    backup: str | None,
    dump: Path | None,
    definition: Path | None,
    finish: bool,
    target: str,
    rate: float | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Restore into the new table NEW, set its TTL, tags, stream, recovery and protection, and verify it.

    \b
    Examples:
      penstock tables restore orders-2 --from orders --at 2026-11-15T12:00:00Z --db aws://eu-west-2
      penstock tables restore orders-2 --backup arn:aws:dynamodb:… --definition orders.json --db aws://eu-west-2
      penstock tables restore orders-2 --dump backup/orders --db local.db

    It never writes to an existing table.
    """
    source = _source(origin, at, backup, dump)
    line = ProgressLine(quiet=as_json)
    absent = absent_file(dump is not None, dry_run=dry_run)
    # A dump is loaded by this process, and continues when it is run again; DynamoDB's own restores continue without it.
    with (
        policy_hint("restore", *_tables(source, table)),
        open_database(target, absent) as db,
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
        text = f"restored with {done.items:,} items; its settings are those of {done.settings_from}, verified"
        click.echo(f"{table}: {text}")
    if done.unknown:
        click.echo(f"  not known from a backup, and left at their defaults: {', '.join(done.unknown)} (--definition)")


def _tables(source: Source, new: str) -> tuple[str, ...]:
    """The tables that permissions are needed for: a backup's ARN contains its table's name."""
    match source:
        case PointInTime(origin):
            return origin, new
        case Backup(arn):
            return backups.table_of(arn), new
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
