"""A table's items as they were at a time, and its changes between two times, out of the journal of its recovery.

1. An item at a time T is how it was before its first change after T (pitr_journal.py), and as it is now if there was
   none. That holds for each range of keys by itself, whenever it is read, as long as the journal has every change since
   T; so a table is read in many short snapshots, and nobody waits for it.
2. Which keys have changed is gathered from the journal into a temporary database of this process. It is brought up to
   date in the snapshot that a range is read in. After a crash it is gathered again.
3. The same table, times and bounds give the same images in the same order, whoever reads them and whenever: a step that
   is repeated writes the same file.
4. A table that is deleted meanwhile has left a backup of its last items, which are then those of now.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from penstock.engine import maintenance
from penstock.engine.recovery import backups
from penstock.engine.storage.database_file import Connection
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

ROWS: Final = 300
"""Rows that one snapshot reads at the most."""

_JOURNAL_ROWS: Final = 5_000
_LAST_SEQUENCE: Final = 2**62
_NEW = (
    "SELECT sequence, at, key FROM journal WHERE table_id = ? AND at >= ? AND (at > ? OR sequence > ?) "
    "ORDER BY at, sequence LIMIT ?"
)
_CHANGED = "CREATE TABLE changed (key BLOB PRIMARY KEY, old INTEGER, at REAL, new INTEGER) WITHOUT ROWID"


class Moment(NamedTuple):
    """A time in a table's journal: changes after it are those at a later time, or at its own with a higher number."""

    at: float
    sequence: int = _LAST_SEQUENCE


class Bounds(NamedTuple):
    """A range of row keys; an open end is not in it."""

    low: bytes = b""
    low_open: bool = True
    high: bytes | None = None
    high_open: bool = True


class Image(NamedTuple):
    """An item in the JSON that it has in the file. Of a change: before and after, None where there was no item."""

    key: bytes
    size: int
    new: bytes | None
    old: bytes | None = None
    written_at: float = 0.0


class SourceGone(PenstockError):
    """The table and its last backup are gone."""


class Source(NamedTuple):
    """The table that is read: its number in the catalog, and its id."""

    number: int
    table_id: str


class Images:
    """The images of one table within bounds: of one moment, or of a window if `until` is given (its end is not in it).

    `since` is the moment before the first change that matters.
    """

    def __init__(self, engine: Engine, source: Source, since: Moment, until: float | None, bounds: Bounds) -> None:
        self._engine = engine
        self._source = source
        self._place = since
        self._until = until
        self._bounds = bounds
        self._changed = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._changed.execute("PRAGMA synchronous = OFF")
        self._changed.execute(_CHANGED)

    def close(self) -> None:
        self._changed.close()

    def read(self, after: bytes | None) -> tuple[list[Image], bytes | None]:
        """The next images after a row key, and the place to go on after; None where there are no more."""
        while True:
            with self._snapshot() as db:
                if self._take_journal(db):
                    storage = self._storage(db)
                    read = self._read_moment if self._until is None else self._read_window
                    return read(db, storage, after)

    @contextmanager
    def _snapshot(self) -> Iterator[Connection]:
        with self._engine.reading() as context:
            context.db.execute("BEGIN")
            try:
                yield context.db
            finally:
                context.db.execute("ROLLBACK")

    # ── the journal ──────────────────────────────────────────────────────────────────────────────

    def _take_journal(self, db: Connection) -> bool:
        """Takes some entries; whether there are no more, as this snapshot sees it."""
        at, sequence = self._place
        rows = db.execute(_NEW, (self._source.number, at, at, sequence, _JOURNAL_ROWS)).fetchall()
        if rows:
            with closing(self._changed.cursor()) as cursor:
                cursor.execute("BEGIN")
                cursor.executemany(self._statement(before=True), self._entries(rows, before=True))
                cursor.executemany(self._statement(before=False), self._entries(rows, before=False))
                cursor.execute("COMMIT")
            self._place = Moment(rows[-1][1], rows[-1][0])
        return len(rows) < _JOURNAL_ROWS

    def _entries(self, rows: list[Any], *, before: bool) -> list[tuple[Any, ...]]:
        """The entries of the window, or those after it; the empty key is a restore's bookmark."""
        until = self._until
        if before:
            return [(key, number, at) for number, at, key in rows if key and (until is None or at < until)]
        return [(number, key) for number, at, key in rows if key and until is not None and at >= until]

    def _statement(self, *, before: bool) -> str:
        if before:  # in order of time: the first number stays, the last time does
            return "INSERT INTO changed VALUES (?, ?, ?, NULL) ON CONFLICT (key) DO UPDATE SET at = excluded.at"
        return "UPDATE changed SET new = ? WHERE key = ? AND new IS NULL"

    def _image(self, db: Connection, sequence: int) -> tuple[int, bytes | None]:
        size, item = db.execute("SELECT size, item FROM journal WHERE sequence = ?", (sequence,)).fetchone()
        return size or 0, item

    # ── ranges ───────────────────────────────────────────────────────────────────────────────────

    def _storage(self, db: Connection) -> str:
        """The SQL table of the items of now (4)."""
        name = f"t{self._source.number}"
        if maintenance.is_there(db, name):
            return name
        kept = backups.kept_of(db, self._source.table_id)
        if kept is None or not maintenance.is_there(db, kept.storage):
            raise SourceGone("The table was deleted, and so was the backup of its last items.")
        return kept.storage

    def _range(self, after: bytes | None) -> tuple[str, list[bytes]]:
        low, low_open, high, high_open = self._bounds
        if after is not None:
            low, low_open = after, True
        where, values = ("key > ?" if low_open else "key >= ?"), [low]
        if high is not None:
            where, values = f"{where} AND key {'<' if high_open else '<='} ?", [*values, high]
        return where, values

    def _read_moment(self, db: Connection, storage: str, after: bytes | None) -> tuple[list[Image], bytes | None]:
        where, values = self._range(after)
        now: dict[bytes, tuple[int, bytes]] = {}
        read = 0
        with closing(
            db.execute(
                f"SELECT key, size, item FROM {storage} WHERE {where} ORDER BY key LIMIT ?",  # noqa: S608
                (*values, ROWS),
            )
        ) as rows:
            for key, size, item in rows:
                now[key] = (size, item)
                read += size
                if read >= maintenance.MOST_BYTES:
                    break
        is_last = len(now) < ROWS and read < maintenance.MOST_BYTES
        changed = self._changed_keys(where, values, None if is_last else next(reversed(now)))
        end = None if is_last else next(reversed(now))
        if len(changed) == ROWS:  # many that are deleted now: they end the range sooner
            end = changed[-1][0] if end is None else min(end, changed[-1][0])
        images = {key: Image(key, size, item) for key, (size, item) in now.items() if end is None or key <= end}
        for key, old, _, _ in changed:
            if end is None or key <= end:
                size, before = self._image(db, old)
                images[key] = Image(key, size, before)
        return [images[key] for key in sorted(images) if images[key].new is not None], end

    def _changed_keys(self, where: str, values: list[bytes], last: bytes | None) -> list[Any]:
        if last is not None:
            where, values = f"{where} AND key <= ?", [*values, last]
        statement = f"SELECT key, old, at, new FROM changed WHERE {where} ORDER BY key LIMIT ?"  # noqa: S608
        return self._changed.execute(statement, (*values, ROWS)).fetchall()

    def _read_window(self, db: Connection, storage: str, after: bytes | None) -> tuple[list[Image], bytes | None]:
        where, values = self._range(after)
        changed = self._changed_keys(where, values, None)
        images: list[Image] = []
        for key, old, at, new in changed:
            size, before = self._image(db, old)
            if new is not None:
                new_size, now = self._image(db, new)
            else:
                row = db.execute(f"SELECT size, item FROM {storage} WHERE key = ?", (key,)).fetchone()  # noqa: S608
                new_size, now = row or (0, None)
            if before is not None or now is not None:  # else it came and went within
                images.append(Image(key, max(size, new_size), now, before, at))
        return images, changed[-1][0] if len(changed) == ROWS else None


def loaded(image: bytes | None) -> dict[str, Any] | None:
    """An image as an item."""
    return None if image is None else orjson.loads(image)
