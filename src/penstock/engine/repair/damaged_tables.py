"""A snapshot's rows as tables and items.

1. An item is good if its JSON can be read and its key is the key of its row: a page that was written over with
   something plausible does not pass for data.
2. Rows of pages that nothing leads to any more belong to the one table or backup whose lost ranges and key they fit; a
   row that fits two, or none, belongs to none.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

from penstock.engine.catalog import row_keys
from penstock.engine.catalog.row_keys import HASH_BYTES
from penstock.engine.catalog.table_schema import TableInfo, compile_table
from penstock.engine.repair.file_snapshot import Snapshot
from penstock.engine.repair.sqlite_pages import Lost, Row
from penstock.engine.settings import Scope
from penstock.errors import DynamoDBError, StorageError
from penstock.wire import numbers
from penstock.wire.values import Item, item_size

_CATALOG = "tables"
_LOST_ROW = "its item cannot be read"


@dataclass(frozen=True, slots=True)
class Good:
    """An item that can be read. `size` is what it has, `noted_size` what its row says."""

    key: bytes
    item: Item
    data: bytes
    size: int
    noted_size: int


class Reading:
    """Everything in a snapshot that means something. Use it with `with`."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.names = set(snapshot.names())
        self.tables: list[TableInfo] = []
        self.lost_definitions: list[Lost] = []
        self._lost: dict[str, list[Lost]] = {}
        self._lost_rows: dict[str, list[Lost]] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-repair-")
        self.scratch = sqlite3.connect(Path(self._folder.name) / "scratch", isolation_level=None)
        self.scratch.execute("PRAGMA journal_mode = OFF")
        self.scratch.execute("PRAGMA synchronous = OFF")
        self.scratch.execute("BEGIN")  # it is thrown away: nothing of it need ever be committed
        self._read_catalog()
        self._find_loose()

    def __enter__(self) -> Reading:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.scratch.close()
        self._folder.cleanup()

    def rows(self, name: str) -> Iterator[Row | Lost]:
        """An SQL table's rows, and what could not be read; nothing where it is not there."""
        if name not in self.names:
            return iter(())
        if not self.snapshot.is_damaged(name):
            return self.snapshot.rows(name)
        if name not in self._lost_rows:
            self._lost_rows[name] = self._keep(name)
        return chain(self._lost_rows[name], self.scratch.execute(f'SELECT * FROM "kept_{name}"'))  # noqa: S608

    def _keep(self, name: str) -> list[Lost]:
        """Puts the rows of a damaged table aside, because it takes long to read its pages; what is lost of it."""
        lost: list[Lost] = []

        def good() -> Iterator[Row]:
            for row in self.snapshot.rows(name):
                if isinstance(row, Lost):
                    lost.append(row)
                else:
                    yield row

        rows = good()
        first = next(rows, (None,))
        columns = [f"c{place}" for place in range(len(first))]
        self.scratch.execute(f'CREATE TABLE "kept_{name}" ({", ".join(columns)})')
        if first != (None,):
            statement = f'INSERT INTO "kept_{name}" VALUES ({", ".join("?" * len(columns))})'  # noqa: S608
            self.scratch.executemany(statement, chain([first], rows))
        return lost

    def items(self, table: TableInfo) -> Iterator[Good | Lost]:
        """A table's items in the order of their keys, and what could not be read."""
        return self.items_in(table, table.storage)

    def items_in(self, table: TableInfo, name: str) -> Iterator[Good | Lost]:
        """The same of an SQL table that holds items of such a table: a backup's."""
        for row in self.rows(name):
            yield row if isinstance(row, Lost) else _judged(table, row)

    def loose_items(self, table: TableInfo) -> Iterator[Good]:
        """Items of a table in pages that nothing leads to."""
        rows = self.scratch.execute(
            "SELECT key, size, item FROM loose WHERE home = ? GROUP BY key HAVING count(*) = 1", (table.storage,)
        )
        for row in rows:
            found = _judged(table, row)
            if isinstance(found, Good):
                yield found

    def lost_parts(self, table: TableInfo) -> list[Lost]:
        """The pages and rows of a table that could not be read."""
        return self._lost.get(table.storage, [])

    def _read_catalog(self) -> None:
        for row in self.rows(_CATALOG):
            if isinstance(row, Lost):
                self.lost_definitions.append(row)
                continue
            try:
                table_id, account, region, name, record = row
                table = compile_table(table_id, Scope(account, region), orjson.loads(record))
                if table.name != name:
                    raise ValueError
                self.tables.append(table)
            except (ValueError, TypeError, KeyError, IndexError, AttributeError):
                self.lost_definitions.append(Lost(0, "its JSON is wrong", is_row=True, key=row[0]))

    def _find_loose(self) -> None:
        self.scratch.execute("CREATE TABLE loose (home TEXT, key BLOB, size INTEGER, item BLOB)")
        self.scratch.execute("CREATE INDEX loose_by_key ON loose (home, key)")
        if self.snapshot.pages_are_sound:
            return
        homes = {table.storage: table for table in self.tables} | self._backups()
        for name in filter(self.snapshot.is_damaged, homes):
            lost = [row for row in self.rows(name) if isinstance(row, Lost)]
            if lost:
                self._lost[name] = lost
        damaged = {name: table for name, table in homes.items() if name in self._lost}
        if damaged:
            for row in self.snapshot.orphans():
                self._adopt(row, damaged)
            self._forget_those_in_place()

    def _backups(self) -> dict[str, TableInfo]:
        """Backups hold items too, with the same keys as their table's: a page may be of either."""
        found = {}
        for row in self.rows("backups"):
            try:
                table = orjson.loads(row[-1])["table"]  # type: ignore[index]
                found[f"b{row[0]}"] = compile_table(0, Scope(), table)  # type: ignore[index]
            except (ValueError, TypeError, KeyError, IndexError, AttributeError):
                continue  # it is named as lost elsewhere
        return found

    def _adopt(self, row: Row, damaged: dict[str, TableInfo]) -> None:
        if len(row) != 3 or not isinstance(row[0], bytes):
            return
        fitting = [
            name
            for name, table in damaged.items()
            if any(lost.covers(row[0]) for lost in self._lost[name]) and isinstance(_judged(table, row), Good)
        ]
        if len(fitting) == 1:
            self.scratch.execute("INSERT INTO loose VALUES (?, ?, ?, ?)", (fitting[0], *row))

    def _forget_those_in_place(self) -> None:
        """Where the bounds of what is lost are not known exactly, they reach over rows that are not."""
        for name in self._lost:
            keys = ((name, row[0]) for row in self.rows(name) if not isinstance(row, Lost))
            self.scratch.executemany("DELETE FROM loose WHERE home = ? AND key = ?", keys)


@contextmanager
def explain_no_room(path: str) -> Iterator[None]:
    """Where what is put aside does not fit: says where that is."""
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        raise StorageError(
            f"{path}: could not be examined: {error}. See that {tempfile.gettempdir()} has room for a copy of it, "
            "or name another folder in TMPDIR."
        ) from error


def _judged(table: TableInfo, row: Row) -> Good | Lost:
    key: Any = row[0]
    try:
        _, noted_size, data = row
        item = orjson.loads(data)
        if isinstance(noted_size, int) and row_keys.row_key(table, item) == key:
            return Good(key, item, data, item_size(item), noted_size)
    except (ValueError, TypeError, KeyError, AttributeError, DynamoDBError):
        pass
    return Lost(0, _LOST_ROW, is_row=True, key=key if isinstance(key, bytes) else None)


def key_text(table: TableInfo, key: bytes) -> str:
    """A row key in words: `id=o17, at=5`. What cannot be told is shown as it lies."""
    start = HASH_BYTES + 2
    end = start + int.from_bytes(key[HASH_BYTES:start], "big")
    values = [key[start:end], key[end:]]
    return ", ".join(
        f"{part.name}={_render_value(raw, part.kind)}" for part, raw in zip(table.key, values, strict=False)
    )


def _render_value(raw: bytes, kind: str) -> str:
    if kind == "S":
        return raw.decode(errors="replace")
    if kind == "N" and (number := _number(raw)) is not None:
        return number
    return f"0x{raw.hex()}"


def _number(raw: bytes) -> str | None:
    """The number that `wire.numbers.encode` made these bytes of."""
    if raw == b"\x80\x00":
        return "0"
    if len(raw) < 3 or raw[-1] not in (0x00, 0x66):
        return None
    negative = raw[-1] == 0x66
    lead = 255 - raw[0] if negative else raw[0]
    pairs = [101 - byte if negative else byte - 1 for byte in raw[1:-1]]
    digits = tuple(digit for pair in pairs for digit in divmod(pair, 10))
    if not all(0 <= digit <= 9 for digit in digits):
        return None
    return numbers.from_decimal(Decimal((negative, digits, (lead - 192) * 2 - len(digits))))
