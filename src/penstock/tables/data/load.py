"""A dumped folder into a table: checked first, then a part at a time; stopped anywhere, it continues.

1. Nothing is written before every part's checksum was found right.
2. A part counts as loaded when DynamoDB has taken all its items; one that was begun is loaded once more, which changes
   nothing: the same items are put again.
3. A table that has items of its own is not written over unless asked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import orjson

from penstock.client.database import Database
from penstock.client.wrappers.pacing import Pacer
from penstock.errors import PenstockError
from penstock.tables.apply.apply import make
from penstock.tables.data import dump_folder
from penstock.tables.data.dump_folder import DEFINITION, Dump, FolderError
from penstock.tables.data.transfers import ItemTable
from penstock.tables.definitions.definition import Table
from penstock.tables.definitions.export_file import read_export
from penstock.tables.plan.survey import inspect

_AT_ONCE = 1_000
"""Items held in memory."""

Progress = Callable[[int, int], object]


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
    dumped = dump_folder.open_dump(folder)
    for part in dumped.parts:
        dump_folder.check_part(folder, part)
    state = LoadState.open(state_file or default_state(folder, db, table), dumped)
    before = len(state.done)
    created = _prepare(db, folder, table, create=create, merge=merge or state.begun, dry_run=dry_run)
    if dry_run:
        if not created:
            _check_key(ItemTable.of(db, table), folder, dumped)
        left = sum(part.items for part in dumped.parts if part.file not in state.done)
        return Loaded(table, left, len(dumped.parts) - before, before, created)
    items = ItemTable.of(db, table, pacer)
    _check_key(items, folder, dumped)
    state.save()
    written = _load(items, dumped, state, progress)
    state.forget()
    return Loaded(table, written, len(dumped.parts) - before, before, created)


def definition(folder: Path) -> Table:
    """The definition that was dumped with the items."""
    path = folder / DEFINITION
    if not path.exists():
        raise FolderError(path, "there is no definition", "Make the table first, and load without --create")
    return read_export(path.read_bytes(), str(path))


def _prepare(db: Database, folder: Path, table: str, *, create: bool, merge: bool, dry_run: bool) -> bool:
    """Whether the table had to be made."""
    found = inspect(db, table, settings=False)
    if found is None:
        if not create:
            raise PenstockError(f"There is no table {table} in {db.name}. Give --create to make it as it was dumped.")
        wanted = definition(folder)
        if not dry_run:
            make(db, wanted, table)
        return True
    if not merge and db.execute("Scan", {"TableName": table, "Limit": 1})["Items"]:
        raise PenstockError(f"{table} has items already. Give --merge to put the dumped items over them.")
    return False


def _check_key(items: ItemTable, folder: Path, dumped: Dump) -> None:
    """The first item tells whether the table is one for these items."""
    first = next((item for part in dumped.parts for item in dump_folder.read_part(folder, part)), None)
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
        read = dump_folder.read_part(dumped.folder, part)
        while chunk := list(islice(read, _AT_ONCE)):
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
            dump_folder.replace_file(self.path, orjson.dumps({"stamp": self.stamp, "done": self.done}))
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
