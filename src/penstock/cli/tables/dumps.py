"""Where `dump` writes to and `load` reads from: a folder, a file, S3, stdout and stdin; one table or several."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, cast

import click

from penstock.cli.kit.databases import missing_file
from penstock.cli.kit.exit_codes import INTERRUPTED
from penstock.cli.kit.options import same_command
from penstock.cli.kit.output import ProgressLine, print_json, print_result
from penstock.cli.tables.options import pacer_of
from penstock.client.database import Database, connect
from penstock.client.wrappers.pacing import Pacer
from penstock.tables.data import dump as table_dump
from penstock.tables.data import dump_sets, export_layout, item_files
from penstock.tables.data.dump import Loaded
from penstock.tables.data.dump_sets import Home, Pace
from penstock.tables.data.item_files import STANDARD, Format, ItemFile, is_bucket, item_file
from penstock.tables.plan.changes import count
from penstock.tables.plan.survey import inspect, require_table

EXPORT = "dynamodb-export"

format_option = click.option(
    "--format",
    type=click.Choice(["jsonl", "csv", EXPORT]),
    help=f"Of files; else by the name's ending, and jsonl for -. {EXPORT}: DynamoDB's, in a folder or s3://….",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """Of a dump."""

    out: str
    format: Format | None
    segments: int
    rate: float | None
    dry_run: bool
    as_json: bool


def interrupted_text(asked: Asked) -> str:
    if asked.out == STANDARD:
        return "what was written is no whole dump."
    return f"{asked.out} holds what was written so far, or nothing."


def dump_to_folder(db: Database, table: str, asked: Asked) -> None:
    out, as_json = Path(asked.out), asked.as_json
    if asked.dry_run:
        table_dump.check_folder(out)
        _show_dump_plan(db, table, asked)
        return
    line = ProgressLine(quiet=as_json)
    pacer = pacer_of(db, asked.rate)
    done = table_dump.dump(db, table, out, segments=asked.segments, pacer=pacer, progress=line.items)
    line.end()
    size = sum(part.bytes for part in done.parts)
    form = {"table": table, "folder": str(out), "items": done.items, "parts": len(done.parts), "bytes": size}
    text = f"{table}: {count(done.items, 'item')} in {count(len(done.parts), 'part')}, {size:,} bytes, in {out}"
    print_result(form, text, as_json=as_json)


def dump_to_s3(db: Database, table: str, asked: Asked) -> None:
    """A folder in DynamoDB's export format, and then its files in S3."""
    export_layout.check_absent(asked.out)
    if asked.dry_run:
        _show_dump_plan(db, table, asked)
        return
    with TemporaryDirectory(prefix="penstock-dump-") as place:
        folder = Path(place) / "dump"
        line = ProgressLine(quiet=asked.as_json)
        pacer = pacer_of(db, asked.rate)
        done = table_dump.dump(db, table, folder, segments=asked.segments, pacer=pacer, progress=line.items)
        line.end()
        export_layout.upload(folder, asked.out)
    form = {"table": table, "place": asked.out, "items": done.items, "parts": len(done.parts)}
    text = f"{table}: {count(done.items, 'item')} in {count(len(done.parts), 'part')}, in {asked.out}"
    print_result(form, text, as_json=asked.as_json)


def _show_dump_plan(db: Database, table: str, asked: Asked) -> None:
    facts = require_table(db, table).facts
    form = {"table": facts.name, "folder": asked.out, "items": facts.items, "dry_run": True}
    text = f"{facts.name}: {count(facts.items, 'item')} would be written to {asked.out}"
    print_result(form, text, as_json=asked.as_json)


def dump_to_file(db: Database, table: str, file: ItemFile | None, asked: Asked) -> None:
    if file is None:
        raise click.UsageError("Name the object .jsonl, .jsonl.gz, .csv or .csv.gz, or give --format.")
    if asked.dry_run:
        item_files.check_absent(file)
        _show_dump_plan(db, table, asked)
        return
    line = ProgressLine(quiet=asked.as_json)
    pacer = pacer_of(db, asked.rate)
    done = item_files.dump_file(
        db, table, file, segments=asked.segments, pacer=pacer, progress=line.items, stdout=_stdout()
    )
    line.end()
    text = f"{table}: {count(done.items, 'item')}, {done.bytes:,} bytes, in {file.where}"
    if file.where == STANDARD:
        click.echo(f"{table}: {count(done.items, 'item')}", err=True)  # stdout has the items
        return
    form = {"table": table, "file": file.where, "items": done.items, "bytes": done.bytes}
    print_result(form, text, as_json=asked.as_json)


def _stdout() -> IO[bytes]:
    """Bytes as they are in a pipe; on a terminal, without what it would obey."""
    sys.stdout.flush()
    return cast("IO[bytes]", _TerminalBytes() if sys.stdout.isatty() else sys.stdout.buffer)


class _TerminalBytes(io.RawIOBase):
    def write(self, block: Any) -> int:
        click.echo(bytes(block).decode("utf-8", "replace"), nl=False)
        return len(block)


def dump_several(db: Database, names: list[str], asked: Asked) -> None:
    if asked.out == STANDARD or (asked.format is None and item_file(asked.out) is not None):
        raise click.UsageError("Several tables go into a folder or s3://bucket/prefix, not into one file.")
    home = Home(asked.out)
    if asked.dry_run:
        dump_sets.begin_set(db, names, home, dry_run=True)
        for name in names:
            _show_dump_plan(db, name, asked)
        return
    line = ProgressLine(quiet=asked.as_json)

    def tell(name: str, items: int) -> None:
        line.end()
        if not asked.as_json:
            click.echo(f"{name}: {count(items, 'item')}")

    pace = Pace(asked.segments, pacer_of(db, asked.rate), line.items)
    done = dump_sets.dump_set(db, names, home, asked.format, pace, now=time.time(), tell=tell)
    line.end()
    items = sum(one["items"] for one in done)
    form = {"place": asked.out, "items": items, "tables": [{k: one[k] for k in ("table", "items")} for one in done]}
    print_result(form, f"{count(len(done), 'table')}, {count(items, 'item')}, in {asked.out}", as_json=asked.as_json)


# ── loading ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Load:
    source: str
    table: str | None
    create: bool
    merge: bool
    state: Path | None
    format: Format | None
    dry_run: bool
    as_json: bool


def load_place(db: Database, asked: Load, pacer: Pacer | None) -> None:
    line = ProgressLine(quiet=asked.as_json)
    file = None if asked.format == EXPORT else item_file(asked.source, asked.format)
    if file is None and asked.format is None and dump_sets.open_set(asked.source) is not None:
        _load_several(db, asked, Pace(1, pacer, line.items), line)
        return
    options: dict[str, Any] = {
        "create": asked.create,
        "merge": asked.merge,
        "pacer": pacer,
        "progress": line.items,
        "dry_run": asked.dry_run,
    }
    if file is not None:
        if asked.dry_run and file.where == STANDARD:
            raise click.UsageError("stdin can be read only once: --dry-run needs a file.")
        if asked.state is not None:
            raise click.UsageError("--state is for folders: a file is loaded from its beginning, again with --merge.")
        with _told_how_to_repeat(db, _named(asked.table), asked):
            done = item_files.load_file(db, file, _named(asked.table), **options)
    else:
        with _folder(asked.source) as folder:
            table = asked.table or _table_of(folder, asked)
            done = table_dump.load(db, folder, table, state_file=asked.state, **options)
    line.end()
    form = asdict(done) | ({"dry_run": True} if asked.dry_run else {})
    print_result(form, _loaded_text(done, asked), as_json=asked.as_json)


@contextmanager
def _told_how_to_repeat(db: Database, table: str, asked: Load) -> Iterator[None]:
    """A file is loaded from its beginning: a table that the load made is gone, one that was there has some items."""
    try:
        yield
    except KeyboardInterrupt:
        is_there = inspect(db, table, settings=False) is not None
        note = f"a part of the items is in {table}" if is_there else f"{table} was deleted again"
        merge = " --merge" if is_there and not asked.merge else ""
        click.echo(f"\nInterrupted: {note}. To load it from the beginning:\n  {same_command()}{merge}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


def _folder(source: str) -> AbstractContextManager[Path]:
    """The folder of an export, for as long as it is read."""
    if is_bucket(source):
        return export_layout.fetched(source)
    return nullcontext(export_layout.export_folder(Path(source)))


def _table_of(folder: Path, asked: Load) -> str:
    """The table that the export's summary names; the user is told."""
    table = _named(table_dump.open_dump(folder).table)
    if not asked.as_json:
        click.echo(f"Into {table}: the table of the export; --table NAME loads into another.", err=True)
    return table


def _named(table: str | None) -> str:
    if table is None:
        raise click.UsageError("Which table? Give --table NAME.")
    return table


def _load_several(db: Database, asked: Load, pace: Pace, line: ProgressLine) -> None:
    def tell(done: Loaded) -> None:
        line.end()
        if not asked.as_json:
            click.echo(_loaded_text(done, asked))

    loaded = dump_sets.load_set(
        db, asked.source, asked.table, create=asked.create, merge=asked.merge, pace=pace, state_file=asked.state,
        dry_run=asked.dry_run, tell=tell,
    )  # fmt: skip
    line.end()
    if asked.as_json:
        print_json({"tables": [asdict(one) for one in loaded]} | ({"dry_run": True} if asked.dry_run else {}))


def _loaded_text(done: Loaded, asked: Load) -> str:
    made = " (made as it was dumped)" if done.created else ""
    earlier = f", {done.parts_before} parts were there from before" if done.parts_before else ""
    return f"{done.table}{made}: {done.items:,} items {'would be loaded' if asked.dry_run else 'loaded'}{earlier}"


@contextmanager
def no_new_file_if_failed(target: str, *, dry_run: bool) -> Iterator[None]:
    """A database file that a failed command made, and that has no tables, is deleted."""
    new = None if dry_run else missing_file(target)
    try:
        yield
    except Exception:
        if new is not None and new.exists() and not _has_tables(target):
            for ending in ("", "-wal", "-shm"):
                Path(f"{new}{ending}").unlink(missing_ok=True)
        raise


def _has_tables(target: str) -> bool:
    with connect(target) as db:
        return bool(db.tables())
