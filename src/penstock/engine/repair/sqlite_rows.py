"""Rows as SQLite writes them into pages, and what the rows of a table are like (https://sqlite.org/fileformat2.html)."""

from __future__ import annotations

import re
import sqlite3
import struct
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

Key = bytes | int
Row = tuple[Any, ...]

_CREATE = re.compile(r"CREATE TABLE \"?\w+\"? ?\(.*\)( WITHOUT ROWID)?", re.DOTALL)
_INTEGERS: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
"""Serial types of integers and their bytes."""
_CONSTANTS: Final = {0: None, 8: 0, 9: 1}


class Broken(Exception):
    """A page or a row that cannot be what it should be."""


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "BLOB": (bytes,),
    "INTEGER": (int,),
    "TEXT": (str,),
    "REAL": (float, int),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """What the rows of a table are like: of each column its types, and whether it may be missing."""

    columns: tuple[tuple[tuple[type, ...], bool], ...]
    number_column: int | None
    """The column that stands for the row's number, which is not in its record."""
    is_clustered: bool

    def placed(self, key: Key | None, row: Row) -> Row:
        place = self.number_column
        if place is None or len(row) <= place or row[place] is not None:
            return row
        return (*row[:place], key, *row[place + 1 :])

    def fits(self, row: Row) -> bool:
        return len(row) == len(self.columns) and all(
            optional if value is None else isinstance(value, types)
            for value, (types, optional) in zip(row, self.columns, strict=True)
        )


def shape_of(name: str, text: str) -> Shape:
    """SQLite itself says what its statement makes."""
    if name == "sqlite_sequence":
        return Shape((((str,), False), ((int,), False)), None, False)
    if not _CREATE.fullmatch(text):  # a file that somebody made could have any statement there
        raise ValueError(text)
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(text)
        found = db.execute('SELECT type, "notnull", pk FROM pragma_table_info(?)', (name,)).fetchall()
    is_clustered = "WITHOUT ROWID" in text
    columns = tuple((_TYPES.get(kind, (object,)), not (required or key)) for kind, required, key in found)
    number = next((place for place, row in enumerate(found) if row[0] == "INTEGER" and row[2]), None)
    return Shape(columns, None if is_clustered else number, is_clustered)


def varint(data: bytes, place: int) -> tuple[int, int]:
    """A number of one to nine bytes, and the place behind it."""
    value = 0
    for count in range(8):
        byte = data[place + count]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + count + 1
    value = value << 8 | data[place + 8]
    return value - (1 << 64) if value >> 63 else value, place + 9


def columns(record: bytes) -> Row:
    end, place = varint(record, 0)
    kinds = []
    while place < end:
        kind, place = varint(record, place)
        kinds.append(kind)
    values: list[Any] = []
    place = end
    for kind in kinds:
        value, place = _value(record, kind, place)
        values.append(value)
    if place != len(record) or not values:
        raise Broken("its record has another length than it says")
    return tuple(values)


def _value(record: bytes, kind: int, place: int) -> tuple[Any, int]:
    if kind in _INTEGERS:
        end = place + _INTEGERS[kind]
        return int.from_bytes(record[place:end], "big", signed=True), end
    if kind == 7:
        return struct.unpack(">d", record[place : place + 8])[0], place + 8
    if kind in _CONSTANTS:
        return _CONSTANTS[kind], place
    if kind < 12:
        raise Broken("its record has a column of no kind")
    end = place + (kind - 12) // 2
    raw = record[place:end]
    if end > len(record):
        raise Broken("its record has another length than it says")
    return (raw if kind % 2 == 0 else raw.decode()), end
