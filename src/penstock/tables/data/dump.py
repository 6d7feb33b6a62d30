"""A table's definition and items to a folder, by parallel scan, and back; stopped anywhere, both continue.

The folder has DynamoDB's export format, with the definition beside it:

    table.json               the definition, as `penstock tables export` writes it
    data/00000.json.gz …     the items: one {"Item": …} a line, compressed
    manifest-files.json      a line for each part: its name, item count and checksums
    manifest-summary.json    counts and times; written last

1. A part is written under another name, synced, then renamed: a part with its name is whole.
2. A folder without manifest-summary.json is half written, and is refused by everyone but the dump that continues it.
3. What is read was checked: size, MD5 and SHA-256 of a part are those of the manifest, or nothing of it is used.
4. The dump's state file says, for the parts that are whole, where each segment stood when the last of them was closed.
   What was read after that is read again: an item is in exactly one part, unless it was written meanwhile.
5. Each item is as it was at some moment during the dump; the whole is no snapshot. (A restore from a point in time is.)
6. A load writes nothing before every part's checksum was found right. A part counts as loaded when DynamoDB has taken
   all its items; one that was begun is loaded once more, which changes nothing.
7. A table that has items of its own is not written over unless asked.
8. A load that made the table and failed, for a reason that does not pass, deletes it. An interrupted one keeps it.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import orjson

from penstock.client.database import Database
from penstock.client.wrappers.pacing import Pacer
from penstock.clock import Clock, SystemClock, utc_text
from penstock.errors import PenstockError
from penstock.tables.apply.apply import change, delete, make
from penstock.tables.data.transfers import ItemTable, Places
from penstock.tables.definitions.definition import Table
from penstock.tables.definitions.export_file import export_text, read_export
from penstock.tables.plan.changes import SetDeletionProtection
from penstock.tables.plan.survey import Live, inspect, require_table
from penstock.wire.values import Item

DEFINITION = "table.json"
DATA = "data"
FILES = "manifest-files.json"
SUMMARY = "manifest-summary.json"
STATE = "dump-state.json"
VERSION = "2020-06-30"
"""Of the export format: DynamoDB's own."""

_LEVEL = 3  # of compression: twice as fast as the default for a tenth more bytes
_READ_BYTES = 1024 * 1024
_ION = ".ion.gz"  # as an export of DynamoDB may be


class FolderError(PenstockError):
    """A folder that cannot be loaded: which file, why, and what to do."""

    def __init__(self, file: Path, reason: str, next_step: str) -> None:
        super().__init__(str(file), reason, next_step)
        self.file = file
        self.reason = reason
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}. {self.next_step}."


@dataclass(frozen=True, slots=True)
class Part:
    """A file of items; `file` is relative to the folder."""

    file: str
    items: int
    bytes: int
    md5: str
    sha256: str | None
    """Absent in an export that AWS wrote."""

    def form(self) -> dict[str, Any]:
        return {
            "itemCount": self.items,
            "md5Checksum": self.md5,
            "sha256Checksum": self.sha256,
            "sizeBytes": self.bytes,
            "dataFileS3Key": self.file,
        }

    @classmethod
    def parse(cls, form: Any) -> Part:
        if not isinstance(form, dict):
            raise TypeError("it is no JSON object")
        file, md5, sha256 = form["dataFileS3Key"], form["md5Checksum"], form.get("sha256Checksum")
        if not isinstance(file, str) or not isinstance(md5, str):
            raise TypeError("dataFileS3Key and md5Checksum are texts")
        return cls(file, int(form["itemCount"]), int(form.get("sizeBytes", -1)), md5, sha256)


@dataclass(frozen=True, slots=True)
class Dump:
    """A whole dump: its folder, its parts, and what its summary says."""

    folder: Path
    parts: tuple[Part, ...]
    summary: dict[str, Any]

    @property
    def items(self) -> int:
        return int(self.summary["itemCount"])

    @property
    def table(self) -> str | None:
        """The table that it is of: a dump names it, DynamoDB's export has its ARN."""
        name, arn = self.summary.get("tableName"), self.summary.get("tableArn")
        if not name and isinstance(arn, str):
            name = arn.partition(":table/")[2]
        return name if isinstance(name, str) and name else None


class PartWriter:
    """A part on its way to the disk. It has its name when `close` returns, and not before."""

    def __init__(self, folder: Path, number: int) -> None:
        self.file = f"{DATA}/{number:05d}.json.gz"
        self.items = 0
        self.written_bytes = 0
        self._path = folder / self.file
        self._unfinished = self._path.with_suffix(".gz.part")
        self._raw: IO[bytes] = self._unfinished.open("wb")
        # Neither name nor time in the header: the same items are the same bytes.
        self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=self._raw, mtime=0)

    def write(self, items: Iterable[Item]) -> None:
        lines = [orjson.dumps({"Item": item}) for item in items]
        if lines:
            text = b"\n".join(lines) + b"\n"
            self._gzip.write(text)
            self.items += len(lines)
            self.written_bytes += len(text)

    def close(self) -> Part:
        self._gzip.close()
        self._raw.flush()
        os.fsync(self._raw.fileno())
        self._raw.close()
        md5, sha256, size = checksums(self._unfinished)
        self._unfinished.replace(self._path)
        sync_folder(self._path.parent)
        return Part(self.file, self.items, size, md5, sha256)

    def abandon(self) -> None:
        """Leaves nothing of a part that is not wanted."""
        self._gzip.close()
        self._raw.close()
        self._unfinished.unlink(missing_ok=True)


def checksums(path: Path) -> tuple[str, str, int]:
    """MD5 in base64 (as AWS writes it), SHA-256 in hex, and the size."""
    md5, sha256, size = hashlib.md5(usedforsecurity=False), hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            md5.update(block)
            sha256.update(block)
            size += len(block)
    return b64encode(md5.digest()).decode(), sha256.hexdigest(), size


def replace_file(path: Path, content: bytes) -> None:
    """The file has this content or the one before, whatever happens."""
    unfinished = path.with_name(path.name + ".new")
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return  # elsewhere a folder cannot be synced
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ── manifests ────────────────────────────────────────────────────────────────────────────────────


def write_manifests(folder: Path, parts: Iterable[Part], summary: dict[str, Any]) -> None:
    """The list of parts, then the summary: with it the dump is whole."""
    files = b"".join(orjson.dumps(part.form()) + b"\n" for part in parts)
    replace_file(folder / FILES, files)
    replace_file(
        folder / SUMMARY,
        orjson.dumps(
            {**summary, "manifestFilesSha256": hashlib.sha256(files).hexdigest()},
            option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE,
        ),
    )


def open_dump(folder: Path) -> Dump:
    """The dump in a folder, its manifests checked. Raises FolderError for what is none, or is half written."""
    if not folder.is_dir():
        raise FolderError(folder, "there is no such folder", "Give the folder that `penstock tables dump` wrote")
    summary_path, files_path = folder / SUMMARY, folder / FILES
    if not summary_path.exists():
        if (folder / STATE).exists():
            raise FolderError(folder, _unfinished(folder), "Run the same `penstock tables dump` again: it continues")
        raise FolderError(summary_path, "there is no such file", "Give a folder that `penstock tables dump` wrote")
    summary = _json(summary_path)
    if "exportFromTime" in summary:
        raise FolderError(folder, "it is an incremental export: changes, and not all items", "Export the whole table")
    files = files_path.read_bytes() if files_path.exists() else b""
    told = summary.get("manifestFilesSha256")
    if told is not None and hashlib.sha256(files).hexdigest() != told:
        raise FolderError(files_path, "it is not what the summary was written for", "Dump the table again")
    parts = tuple(_part(files_path, at, line) for at, line in enumerate(files.splitlines(), 1) if line.strip())
    if sum(part.items for part in parts) != summary.get("itemCount"):
        raise FolderError(files_path, f"its parts are not the {summary.get('itemCount')} items told", "Dump it again")
    return Dump(folder, parts, summary)


def _unfinished(folder: Path) -> str:
    state = _json(folder / STATE)
    return (
        f"the dump is half written ({len(state['parts'])} parts, {sum(p['itemCount'] for p in state['parts']):,} items)"
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        read = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise FolderError(path, f"broken JSON at line {error.lineno}: {error.msg}", "Dump the table again") from None
    if not isinstance(read, dict):
        raise FolderError(path, "it is no JSON object", "Dump the table again")
    return read


def _part(path: Path, line: int, text: bytes) -> Part:
    try:
        return Part.parse(orjson.loads(text))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise FolderError(path, f"line {line} is no part of a dump ({error})", "Dump the table again") from None


# ── parts ────────────────────────────────────────────────────────────────────────────────────────


def part_path(folder: Path, part: Part) -> Path:
    """Where a part lies. AWS names its parts by their place in the bucket; the folder has them under data/."""
    name = Path(part.file)
    own = folder / part.file
    return own if not name.is_absolute() and ".." not in name.parts and own.exists() else folder / DATA / name.name


def check_part(folder: Path, part: Part) -> None:
    """Raises FolderError unless the file is there and is what was written."""
    path = part_path(folder, part)
    if not path.is_file():
        raise FolderError(path, "the part is missing", "Copy the folder again, or dump the table again")
    md5, sha256, size = checksums(path)
    if md5 != part.md5 or (part.sha256 is not None and sha256 != part.sha256):
        told = f"{size:,} bytes instead of {part.bytes:,}" if part.bytes not in (-1, size) else "its checksum differs"
        raise FolderError(path, f"the part is not what was written: {told}", "Copy the folder again, or dump again")


def read_part(folder: Path, part: Part) -> Iterator[Item]:
    """The items of a part, one at a time. An export may come from anybody: it is read as an import reads it."""
    from penstock.engine.transfers.object_records import Bad, Garbage, ion_records, json_records

    path = part_path(folder, part)
    read = ion_records if path.name.endswith(_ION) else json_records
    at = 0
    with gzip.open(path, "rb") as file:
        try:
            for at, found in enumerate(read(iter(lambda: file.read(_READ_BYTES), b"")), 1):
                if isinstance(found.item, Bad):
                    raise FolderError(path, f"record {at} is no item ({found.item.reason})", "Export the table again")
                yield found.item
        except (Garbage, gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise FolderError(path, f"after {at:,} items: {error}", "Copy the file again, or export again") from None


# ── dumping ────────────────────────────────────────────────────────────────────────────────────────

PART_BYTES = 64 * 1024 * 1024
"""Of JSON in a part, before compression: what is read again after an interruption, at the most."""

SEGMENTS = 8

Progress = Callable[[int, int], object]
"""Told the items done, and about how many there are."""


@dataclass(slots=True)
class DumpState:
    """What a dump that was interrupted needs to go on."""

    table: str
    database: str
    started_at: str
    places: Places
    parts: list[Part]

    def save(self, folder: Path) -> None:
        form = {
            "table": self.table,
            "database": self.database,
            "started_at": self.started_at,
            "places": self.places.form(),
            "parts": [part.form() for part in self.parts],
        }
        replace_file(folder / STATE, orjson.dumps(form, option=orjson.OPT_INDENT_2))

    @classmethod
    def load(cls, folder: Path) -> DumpState | None:
        path = folder / STATE
        if not path.exists():
            return None
        try:
            form: dict[str, Any] = orjson.loads(path.read_bytes())
            parts = [Part.parse(one) for one in form["parts"]]
            return cls(form["table"], form["database"], form["started_at"], Places.parse(form["places"]), parts)
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise FolderError(
                path, f"it is no state of a dump ({error})", "Delete the folder, and dump again"
            ) from None


def dump(
    db: Database,
    table: str,
    folder: Path,
    *,
    progress: Progress | None = None,
    segments: int = SEGMENTS,
    pacer: Pacer | None = None,
    part_bytes: int = PART_BYTES,
    clock: Clock | None = None,
) -> Dump:
    """Writes the table to the folder, or finishes a dump of it that was begun there.

    Raises FolderError where the folder holds something else.
    """
    clock = clock or SystemClock()
    live = require_table(db, table)
    state = _begin(db, table, folder, live, segments, clock)
    _scan(ItemTable.of(db, table, pacer), folder, state, live, progress, part_bytes)
    summary = {
        "version": VERSION,
        "tableName": table,
        "startTime": state.started_at,
        "endTime": utc_text(clock.now()),
        "exportTime": state.started_at,
        "itemCount": sum(part.items for part in state.parts),
        "manifestFilesS3Key": FILES,
        "outputFormat": "DYNAMODB_JSON",
    }
    write_manifests(folder, state.parts, summary)
    (folder / STATE).unlink(missing_ok=True)
    return open_dump(folder)


def check_folder(folder: Path) -> DumpState | None:
    """The dump that was begun in a folder, None in one that is empty or new; raises FolderError for any other."""
    if (folder / SUMMARY).exists():
        raise FolderError(folder, "there is a whole dump in it already", "Give another folder, or delete this one")
    found = DumpState.load(folder)
    if found is None and folder.exists() and any(folder.iterdir()):
        raise FolderError(folder, "it is not empty, and holds no dump", "Give another folder")
    return found


def _begin(db: Database, table: str, folder: Path, live: Live, segments: int, clock: Clock) -> DumpState:
    found = check_folder(folder)
    if found is not None:
        if (found.table, found.database) != (table, db.name):
            raise FolderError(folder, f"a dump of {found.table} in {found.database} was begun in it", "Give another")
        return found
    try:
        (folder / DATA).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PenstockError(f"{folder}: {error.strerror}. Give another folder.") from error
    replace_file(folder / DEFINITION, export_text(live.table).encode())
    state = DumpState(table, db.name, utc_text(clock.now()), Places(segments), [])
    state.save(folder)
    return state


def _scan(
    items: ItemTable, folder: Path, state: DumpState, live: Live, progress: Progress | None, part_bytes: int
) -> None:
    for leftover in (folder / DATA).glob("*.part"):
        leftover.unlink()
    done = sum(part.items for part in state.parts)
    writer: PartWriter | None = None
    try:
        places = state.places.copy()
        for pages in items.rounds(places, ahead=True):
            writer = writer or PartWriter(folder, len(state.parts))
            for page in pages:
                writer.write(page.items)
                done += len(page.items)
            if progress is not None:
                progress(done, max(done, live.facts.items))
            if writer.written_bytes >= part_bytes:
                after = places.copy()
                after.move(pages)
                _close(writer, folder, state, after)
                writer = None
        if writer is not None and writer.items:
            _close(writer, folder, state, places)
            writer = None
    finally:
        if writer is not None:
            writer.abandon()


def _close(writer: PartWriter, folder: Path, state: DumpState, places: Places) -> None:
    """The part first, then the state that counts it: between the two, it is written once more."""
    state.parts.append(writer.close())
    state.places = places.copy()
    state.save(folder)


# ── loading ────────────────────────────────────────────────────────────────────────────────────────

AT_ONCE = 1_000
"""Items held in memory."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load did: items and parts written now, and parts that an earlier run had written."""

    table: str
    items: int
    parts: int
    parts_before: int
    created: bool


def load(
    db: Database,
    folder: Path,
    table: str,
    *,
    create: bool = False,
    merge: bool = False,
    pacer: Pacer | None = None,
    progress: Progress | None = None,
    state_file: Path | None = None,
    dry_run: bool = False,
) -> Loaded:
    """Loads a whole dump into the table; `create` makes one that is missing, `merge` allows one that has items.

    Raises FolderError before anything is written if the folder is not what was dumped. With `dry_run` everything is
    checked, and what would be loaded is given.
    """
    dumped = open_dump(folder)
    for part in dumped.parts:
        check_part(folder, part)
    state = LoadState.open(state_file or default_state(folder, db, table), dumped)
    before = len(state.done)
    may_merge = merge or state.begun
    created = prepare(db, table, lambda: read_definition(folder), create=create, merge=may_merge, dry_run=dry_run)
    if dry_run:
        if not created:
            _check_key(ItemTable.of(db, table), folder, dumped)
        left = sum(part.items for part in dumped.parts if part.file not in state.done)
        return Loaded(table, left, len(dumped.parts) - before, before, created)
    try:
        items = ItemTable.of(db, table, pacer)
        _check_key(items, folder, dumped)
        state.save()
        written = _load(items, dumped, state, progress)
    except PenstockError as error:
        if created and not error.retryable:  # it would fail again: nothing stays (8)
            discard(db, table)
            state.forget()
        raise
    state.forget()
    return Loaded(table, written, len(dumped.parts) - before, before, created)


def read_definition(folder: Path) -> Table:
    """The definition that was dumped with the items."""
    path = folder / DEFINITION
    if not path.exists():
        raise FolderError(path, "there is no definition", "Make the table first, and load without --create")
    return read_export(path.read_bytes(), str(path))


def prepare(
    db: Database, table: str, definition: Callable[[], Table], *, create: bool, merge: bool, dry_run: bool
) -> bool:
    """Whether the table had to be made."""
    found = inspect(db, table, settings=False)
    if found is None:
        if not create:
            raise PenstockError(f"There is no table {table} in {db.name}. Give --create to make it as it was dumped.")
        wanted = definition()
        if not dry_run:
            make(db, wanted, table)
        return True
    if not merge and db.execute("Scan", {"TableName": table, "Limit": 1})["Items"]:
        raise PenstockError(f"{table} has items already. Give --merge to put the dumped items over them.")
    return False


def discard(db: Database, table: str) -> None:
    """Deletes a table that a load has made, protected or not."""
    live = inspect(db, table, settings=False)
    if live is not None and live.table.deletion_protection:
        change(db, table, SetDeletionProtection(enabled=False))
    delete(db, table)


def _check_key(items: ItemTable, folder: Path, dumped: Dump) -> None:
    """The first item tells whether the table is one for these items."""
    first = next((item for part in dumped.parts for item in read_part(folder, part)), None)
    missing = [name for name in items.keys if first is not None and name not in first]
    if missing:
        raise PenstockError(
            f"{items.name} has the key {', '.join(items.keys)}, and the dumped items have no {', '.join(missing)}. "
            "Load into a table with their key; `penstock tables rekey` changes a table's key."
        )


def _load(items: ItemTable, dumped: Dump, state: LoadState, progress: Progress | None) -> int:
    done = sum(part.items for part in dumped.parts if part.file in state.done)
    written = 0
    for part in dumped.parts:
        if part.file in state.done:
            continue
        read = read_part(dumped.folder, part)
        while chunk := list(islice(read, AT_ONCE)):
            written += items.write(chunk)
            if progress is not None:
                progress(done + written, dumped.items)
        state.finish(part.file)
    return written


class LoadState:
    """Which parts are loaded, in a file beside the dump; the file is gone when all are."""

    def __init__(self, path: Path, stamp: str, done: list[str], *, begun: bool) -> None:
        self.path = path
        self.stamp = stamp
        self.done = done
        self.begun = begun

    @classmethod
    def open(cls, path: Path, dumped: Dump) -> LoadState:
        """The state of an earlier load of the same dump, or a new one."""
        stamp = hashlib.sha256(repr(dumped.parts).encode()).hexdigest()
        try:
            form = orjson.loads(path.read_bytes())
            done, same = list(form["done"]), form["stamp"] == stamp
        except FileNotFoundError:
            return cls(path, stamp, [], begun=False)
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise FolderError(path, "it is no state of a load", "Delete the file, and load again") from None
        return cls(path, stamp, done if same else [], begun=same)

    def finish(self, part: str) -> None:
        self.done.append(part)
        self.save()

    def save(self) -> None:
        try:
            replace_file(self.path, orjson.dumps({"stamp": self.stamp, "done": self.done}))
        except OSError as error:
            raise FolderError(
                self.path, str(error.strerror), "Give a file for the load's state with --state"
            ) from error

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)


def default_state(folder: Path, db: Database, table: str) -> Path:
    """A file for each table of each database that the dump is loaded into."""
    mark = hashlib.sha256(f"{db.name} {table}".encode()).hexdigest()[:12]
    return folder / f"load-state-{mark}.json"
