"""A table's definition and items to a folder (dump_folder), by parallel scan; stopped anywhere, it continues.

1. The state file says, for the parts that are whole, where each segment stood when the last of them was closed.
2. What was read after that is read again: an item is in exactly one part, unless it was written meanwhile.
3. Each item is as it was at some moment during the dump; the whole is no snapshot. (A restore from a point in time is.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from penstock.client.database import Database
from penstock.client.wrappers.pacing import Pacer
from penstock.clock import Clock, SystemClock, utc_text
from penstock.errors import PenstockError
from penstock.tables.data import dump_folder
from penstock.tables.data.dump_folder import (
    DATA,
    DEFINITION,
    STATE,
    SUMMARY,
    VERSION,
    Dump,
    FolderError,
    Part,
    PartWriter,
)
from penstock.tables.data.transfers import ItemTable, Places
from penstock.tables.definitions.export_file import export_text
from penstock.tables.plan.survey import Live, required

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
        dump_folder.replace_file(folder / STATE, orjson.dumps(form, option=orjson.OPT_INDENT_2))

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
    live = required(db, table)
    state = _begin(db, table, folder, live, segments, clock)
    _scan(ItemTable.of(db, table, pacer), folder, state, live, progress, part_bytes)
    summary = {
        "version": VERSION,
        "tableName": table,
        "startTime": state.started_at,
        "endTime": utc_text(clock.now()),
        "exportTime": state.started_at,
        "itemCount": sum(part.items for part in state.parts),
        "manifestFilesS3Key": dump_folder.FILES,
        "outputFormat": "DYNAMODB_JSON",
    }
    dump_folder.write_manifests(folder, state.parts, summary)
    (folder / STATE).unlink(missing_ok=True)
    return dump_folder.open_dump(folder)


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
    dump_folder.replace_file(folder / DEFINITION, export_text(live.table).encode())
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
