"""One table as one file: JSON lines or CSV; on the disk, in S3, on stdout and stdin.

1. JSON lines are the definition ({"Table": …}, as `penstock tables export` has it), a line {"Item": …} for each item,
   and {"End": {"items": …}}. What begins with a definition and has no such end is half a dump, and is refused. Lines
   without a definition, which others wrote, need no end.
2. CSV has typed columns, and is exact (item_text.py). It has neither definition nor end.
3. A file or an object has its name when it is whole. Only stdout shows what is not: then the exit code tells.
4. A file is read twice: every line of it is right before the first item is written. stdin is read once.
5. A load that made the table and failed deletes it.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import IO, Any, Literal
from urllib.parse import urlsplit

import orjson

from penstock.client.database import Database
from penstock.client.wrappers.pacing import Pacer
from penstock.errors import PenstockError
from penstock.files import Files, open_files
from penstock.tables.data.dump import AT_ONCE, Loaded, Progress, discard, prepare, sync_folder
from penstock.tables.data.item_text import csv_lines, read_csv, read_items
from penstock.tables.data.transfers import ItemTable, Places
from penstock.tables.definitions.definition import Table
from penstock.tables.definitions.export_file import export_form, read_export
from penstock.tables.plan.survey import Live, inspect, require_table
from penstock.wire.values import Item

Format = Literal["jsonl", "csv", "dynamodb-export"]

STANDARD = "-"
_ENDINGS: dict[str, Format] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}


@dataclass(frozen=True, slots=True)
class ItemFile:
    """A path, `s3://bucket/key`, or `-`."""

    where: str
    format: Format

    @property
    def name(self) -> str:
        return "stdin" if self.where == STANDARD else self.where

    @property
    def is_object(self) -> bool:
        return is_bucket(self.where)

    @property
    def is_compressed(self) -> bool:
        return _path_of(self.where).endswith(".gz")

    def exists(self) -> bool:
        if self.is_object:
            files, key = object_home(self.where)
            return files.exists(key)
        return self.where != STANDARD and Path(self.where).exists()


def is_bucket(where: str) -> bool:
    return where.lower().startswith("s3://")


def item_file(where: str, format: Format | None = None) -> ItemFile | None:
    """The file of this name, by its ending or as `format` says; None for a folder."""
    if where == STANDARD:
        return ItemFile(where, format or "jsonl")
    path = _path_of(where)
    found = next((kind for ending, kind in _ENDINGS.items() if path.removesuffix(".gz").endswith(ending)), None)
    if found is None and format is None:
        return None
    return ItemFile(where, format or found or "jsonl")


def _path_of(where: str) -> str:
    return urlsplit(where).path if is_bucket(where) else where


def object_home(url: str) -> tuple[Files, str]:
    """The folder of an object, and its name there."""
    parts = urlsplit(url)
    folder, _, name = parts.path.rpartition("/")
    return open_files(parts._replace(path=folder).geturl()), name


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Dumped:
    items: int
    bytes: int


def dump_file(
    db: Database,
    table: str,
    target: ItemFile,
    *,
    segments: int,
    pacer: Pacer | None = None,
    progress: Progress | None = None,
    stdout: IO[bytes] | None = None,
) -> Dumped:
    """Writes all items of the table. Raises PenstockError where there is such a file already."""
    live = require_table(db, table)
    check_absent(target)
    counted = _Counter(live, progress)
    scanned = ItemTable.of(db, table, pacer).rounds(Places(segments), ahead=True)
    items = counted.items(item for pages in scanned for page in pages for item in page.items)
    if target.format == "csv":
        lines: Iterator[bytes] = (line.encode() for line in csv_lines(items, live.table.key.names))
    else:
        lines = _json_lines(live.table, items, counted)
    blocks = _compressed(lines) if target.is_compressed else _joined(lines)
    size = _save(target, blocks, stdout)
    return Dumped(counted.done, size)


def check_absent(target: ItemFile) -> None:
    if target.exists():
        raise PenstockError(f"{target.where}: there is such a file already. Give another name, or delete it.")


class _Counter:
    def __init__(self, live: Live, progress: Progress | None) -> None:
        self.done = 0
        self._about, self._progress = live.facts.items, progress

    def items(self, items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            self.done += 1
            if self._progress is not None:
                self._progress(self.done, max(self.done, self._about))
            yield item


def _json_lines(table: Table, items: Iterable[Item], counted: _Counter) -> Iterator[bytes]:
    yield orjson.dumps(export_form(table)) + b"\n"
    for item in items:
        yield orjson.dumps({"Item": item}) + b"\n"
    yield orjson.dumps({"End": {"items": counted.done}}) + b"\n"


_BLOCK_BYTES = 256 * 1024


def _joined(lines: Iterator[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= _BLOCK_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def _compressed(lines: Iterator[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(3, wbits=31)  # gzip, with no name and no time: the same items are the same bytes
    for block in _joined(lines):
        if packed := packer.compress(block):
            yield packed
    yield packer.flush()


def _save(target: ItemFile, blocks: Iterator[bytes], stdout: IO[bytes] | None) -> int:
    if target.where == STANDARD:
        assert stdout is not None
        return _write(stdout, blocks)
    if target.is_object:
        files, key = object_home(target.where)
        return files.save(key, blocks).size
    path = Path(target.where)
    unfinished = path.with_name(f"{path.name}.{token_hex(4)}.part")
    try:
        with unfinished.open("xb") as file:
            size = _write(file, blocks)
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    return size


def _write(file: IO[bytes], blocks: Iterator[bytes]) -> int:
    size = 0
    for block in blocks:
        file.write(block)
        size += len(block)
    file.flush()
    return size


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


class ItemReader:
    """The items of a file, one at a time; `definition` is known with the first, if the file has one."""

    def __init__(self, source: ItemFile, stdin: IO[bytes] | None = None) -> None:
        self.source = source
        self.definition: Table | None = None
        self.count = 0
        self._stdin = stdin
        self._told: int | None = None

    def items(self, types: Callable[[], dict[str, str]]) -> Iterator[tuple[str, Item]]:
        """Each with where it stands. `types` are those of the key, for the columns of a CSV file that have none."""
        name = self.source.name
        with self._open() as stream:
            try:
                if self.source.format == "csv":
                    lines = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
                    found = read_csv(lines, types(), name=name)
                else:
                    found = read_items(self._lines(stream), exact=True, name=name)
                for at, item in found:
                    self.count += 1
                    yield f"{name}, line {at}", item
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise PenstockError(f"{name}: it is cut off or broken ({error}). Dump the table again.") from None
            except UnicodeDecodeError as error:
                raise PenstockError(f"{name}: it is not in UTF-8 ({error.reason}).") from None
        if self.definition is not None and self._told != self.count:
            told = "has no end" if self._told is None else f"tells {self._told:,} items"
            raise PenstockError(f"{name}: it {told}, and has {self.count:,} items: half a dump. Dump the table again.")

    @contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        if self.source.where == STANDARD:
            yield self._stdin or sys.stdin.buffer
            return
        if self.source.is_object:
            files, key = object_home(self.source.where)
            opened: IO[bytes] = files.open(key)
        else:
            opened = Path(self.source.where).open("rb")  # noqa: SIM115 - closed below, as the object is
        with opened as raw:
            yield gzip.GzipFile(fileobj=raw, mode="rb") if self.source.is_compressed else raw  # type: ignore[misc]

    def _lines(self, stream: IO[bytes]) -> Iterator[bytes]:
        """The lines of items; those of the dump itself are blank, so that numbers of lines are right (1)."""
        for at, line in enumerate(stream, 1):
            if at == 1 and (definition := _definition(line, self.source.name)) is not None:
                self.definition = definition
                yield b""
            elif self._told is not None and line.strip():
                raise PenstockError(f"{self.source.name}, line {at}: there is more after the end of the dump.")
            elif self.definition is not None and line.startswith(b'{"End":') and (end := _end(line)) is not None:
                self._told = end
                yield b""
            else:
                yield line


def _definition(line: bytes, name: str) -> Table | None:
    try:
        form = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if isinstance(form, dict) and isinstance(form.get("Table"), dict) and "KeySchema" in form["Table"]:
        return read_export(line, name)
    return None


def _end(line: bytes) -> int | None:
    try:
        return int(orjson.loads(line)["End"]["items"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return None


# ── loading ──────────────────────────────────────────────────────────────────────────────────────


def load_file(
    db: Database,
    source: ItemFile,
    table: str,
    *,
    create: bool = False,
    merge: bool = False,
    pacer: Pacer | None = None,
    progress: Progress | None = None,
    dry_run: bool = False,
    definition: Table | None = None,
    stdin: IO[bytes] | None = None,
) -> Loaded:
    """Loads all items into the table; `create` makes one that is missing, as the file or `definition` says.

    Raises before anything is written if a line of a file is no item for this table.
    """
    total = 0
    live = inspect(db, table, settings=False)
    found = None if live is None else live.table
    if source.where != STANDARD:
        reader = ItemReader(source)
        for _ in _checked(reader, lambda: found or definition or reader.definition):
            total += 1
        definition = definition or reader.definition
    reader = ItemReader(source, stdin)
    items = _checked(reader, lambda: found or definition or reader.definition)
    first = next(items, None)  # with it the definition is known
    made = definition or reader.definition
    created = prepare(db, table, lambda: _known(made, source), create=create, merge=merge, dry_run=dry_run)
    if dry_run:
        return Loaded(table, total, 1, 0, created)
    written = 0
    try:
        into = ItemTable.of(db, table, pacer)
        for chunk in _chunks(first, items):
            written += into.write({into.text_of(item): item for item in chunk}.values())
            if progress is not None:
                progress(written, max(written, total))
    except BaseException as error:
        if created:
            with suppress(PenstockError):
                discard(db, table)
        if isinstance(error, PenstockError) and written and not created:
            raise PenstockError(
                f"{error} {written:,} items before it were written; load again with --merge."
            ) from error
        raise
    return Loaded(table, written, 1, 0, created)


def _chunks(first: Item | None, items: Iterator[Item]) -> Iterator[list[Item]]:
    chunk = [] if first is None else [first]
    while chunk := [*chunk, *islice(items, AT_ONCE - len(chunk))]:
        yield chunk
        chunk = []


def _known(definition: Table | None, source: ItemFile) -> Table:
    if definition is None:
        raise PenstockError(
            f"{source.name}: it has no definition to make the table of. "
            "Make the table first, and load without --create."
        )
    return definition


def _checked(reader: ItemReader, table: Callable[[], Table | None]) -> Iterator[Item]:
    """The items, each of which has the key of the table; one without a table is as its own definition says."""

    def types() -> dict[str, str]:
        known = table()
        return {} if known is None else {one.name: one.type for one in known.key.attributes}

    key: dict[str, str] | None = None
    for where, item in reader.items(types):
        key = types() if key is None else key
        for name, kind in key.items():
            if kind not in item.get(name, {}):
                has: Any = next(iter(item[name])) if name in item else "none"
                raise PenstockError(f"{where}: the key needs {name}:{kind}, and the item has {has}.")
        yield item
