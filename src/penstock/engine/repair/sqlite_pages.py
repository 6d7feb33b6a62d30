"""SQLite's trees, read page by page where SQLite itself stops at the first page that is damaged.

1. A tree is walked in the order of its keys. A page that is not what its place in the tree calls for becomes a `Lost`
   with the keys between which it lay, and the walk goes on behind it.
2. A row is given only if its record can be read whole and its key is where it must be. Whether it is the row that was
   once written is for those to judge who know what it means: SQLite's pages have no checksums.
3. The walk ends, whatever the pages say: no page is visited twice.

The format is SQLite's (https://sqlite.org/fileformat2.html); the file must have no log beside it.
"""

from __future__ import annotations

import os
import re
import sqlite3
import struct
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

# ── rows ──────────────────────────────────────────────────────────────────────────────────────────


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


# ── pages ─────────────────────────────────────────────────────────────────────────────────────────


_HEADER_BYTES: Final = 100
_SCHEMA_PAGE: Final = 1
_INDEX_NODE, _TABLE_NODE, _INDEX_LEAF, _TABLE_LEAF = 2, 5, 10, 13
_INDEX_KINDS: Final = (_INDEX_NODE, _INDEX_LEAF)
_TABLE_KINDS: Final = (_TABLE_NODE, _TABLE_LEAF)
_DEEPEST: Final = 40
_NO_ROW: Final = "it is no row of this table"


@dataclass(frozen=True, slots=True)
class Lost:
    """What could not be read: a page and all that hangs on it, or one row of a page (its `key`, where that could)."""

    page: int
    reason: str
    after: Key | None = None
    before: Key | None = None
    is_row: bool = False
    key: Key | None = None

    def covers(self, key: Key) -> bool:
        """Whether a row of this key may have been there."""
        if self.key is not None:
            return key == self.key
        return _is_between(key, self.after, self.before)


_Found = tuple[Key | None, Row] | Lost


@dataclass(frozen=True, slots=True)
class _Node:
    kind: int
    data: bytes
    cells: tuple[int, ...]
    right: int


@dataclass(slots=True)
class _Way:
    """How far a walk has come: the kinds of pages it goes over, those it was at, and the last key."""

    kinds: tuple[int, int]
    seen: set[int] = field(default_factory=set)
    place: Key | None = None


class Trees:
    """The trees of one file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        header = self._file.read(_HEADER_BYTES)
        size = struct.unpack(">H", header[16:18])[0]
        self.page_bytes = 65536 if size == 1 else size
        self._usable = self.page_bytes - header[20]
        self.pages = os.fstat(self._file.fileno()).st_size // self.page_bytes
        self._free = struct.unpack(">II", header[32:40])
        self._roots: dict[str, tuple[int, Shape]] | None = None
        self._other_roots: list[int] = [_SCHEMA_PAGE]
        self.lost_schema: list[Lost] = []

    def close(self) -> None:
        self._file.close()

    def names(self) -> list[str]:
        """The SQL tables that can be found."""
        return list(self._schema())

    def rows(self, name: str) -> Iterator[Row | Lost]:
        """A table's rows, with all columns as they were declared, and what could not be read, in their order."""
        root, shape = self._schema()[name]
        kinds = _INDEX_KINDS if shape.is_clustered else _TABLE_KINDS
        for found in self._walk(root, _Way(kinds)):
            if isinstance(found, Lost):
                yield found
                continue
            row = shape.placed(*found)
            yield row if shape.fits(row) else Lost(root, _NO_ROW, is_row=True, key=found[0])

    def check_rows(self, name: str, rows: Iterable[Row]) -> Iterator[Row | Lost]:
        """The rows that SQLite reads of a table: its pages may be another's, and it would not say so."""
        root, shape = self._schema()[name]
        for row in rows:
            yield row if shape.fits(row) else Lost(root, _NO_ROW, is_row=True)

    def orphans(self) -> Iterator[Row]:
        """Rows of pages that are neither free nor in a tree: the page above them is lost. Of which table, is not known.

        None where it cannot be said which pages are free: what was deleted would come back.
        """
        free = self._free_pages()
        if free is None:
            return
        reached = set(free)
        for root in [*(root for root, _ in self._schema().values()), *self._other_roots]:
            self._reach(root, reached)
        for number in range(2, self.pages + 1):
            if number not in reached:
                yield from self._loose_rows(number)

    def _reach(self, root: int, reached: set[int]) -> None:
        """Adds the pages of a tree, without a look at what its rows hold."""
        waiting = [root]
        while waiting:
            number = waiting.pop()
            if number in reached:
                continue
            reached.add(number)
            try:
                node = self._node(number)
                is_leaf = node.kind in (_INDEX_LEAF, _TABLE_LEAF)
                waiting += [node.right] if node.right else []
                for cell in node.cells:
                    if not is_leaf:
                        waiting.append(struct.unpack(">I", node.data[cell : cell + 4])[0])
                    if node.kind != _TABLE_NODE:
                        self._reach_rest(node, cell if is_leaf else cell + 4, reached)
            except (Broken, IndexError, struct.error):
                continue

    def _reach_rest(self, node: _Node, place: int, reached: set[int]) -> None:
        """Adds the pages of a row that is too long for its own."""
        size, place = varint(node.data, place)
        if node.kind == _TABLE_LEAF:
            place = varint(node.data, place)[1]
        local = self._local_bytes(size, node.kind)
        if local >= size:
            return
        (number,) = struct.unpack(">I", node.data[place + local : place + local + 4])
        while 1 <= number <= self.pages and number not in reached:
            reached.add(number)
            (number,) = struct.unpack(">I", self._page(number)[:4])

    def _loose_rows(self, number: int) -> Iterator[Row]:
        try:
            node = self._node(number)
        except Broken:
            return
        if node.kind in (_INDEX_NODE, _INDEX_LEAF):
            for cell in node.cells:
                found = self._cell(number, node, cell, None, None)
                if not isinstance(found, Lost):
                    yield found[1]

    def _free_pages(self) -> set[int] | None:
        number, count = self._free
        free: set[int] = set()
        while number:
            if not 1 < number <= self.pages or number in free:
                return None
            data = self._page(number)
            free.add(number)
            number, leaves = struct.unpack(">II", data[:8])
            if leaves > self._usable // 4 - 2:
                return None
            free.update(struct.unpack(f">{leaves}I", data[8 : 8 + 4 * leaves]))
        return free if len(free) == count else None

    def _schema(self) -> dict[str, tuple[int, Shape]]:
        """Each table's root page, and what its rows are like."""
        if self._roots is None:
            self._roots = {}
            for found in self._walk(_SCHEMA_PAGE, _Way(_TABLE_KINDS)):
                if isinstance(found, Lost):
                    self.lost_schema.append(found)
                else:
                    self._note(found[1])
        return self._roots

    def _note(self, row: Row) -> None:
        assert self._roots is not None
        try:
            kind, name, _, root, text = row
            if kind == "table":
                self._roots[name] = root, shape_of(name, text)
            elif isinstance(root, int):
                self._other_roots.append(root)
        except (ValueError, sqlite3.Error):
            self.lost_schema.append(Lost(_SCHEMA_PAGE, "a definition is wrong", is_row=True))

    def _walk(self, number: int, way: _Way, high: Key | None = None, depth: int = 0) -> Iterator[_Found]:
        try:
            if number in way.seen or depth > _DEEPEST:
                raise Broken("the tree leads back to it")
            way.seen.add(number)
            node = self._node(number)
            if node.kind not in way.kinds:
                raise Broken("it is a page of another tree")
        except Broken as error:
            yield Lost(number, str(error), way.place, high)
            return
        for cell in node.cells:
            found = self._cell(number, node, cell, way.place, high)
            # What a row that is out of place says of those below it is not believed either.
            key = None if isinstance(found, Lost) else found[0]
            if node.kind in (_INDEX_NODE, _TABLE_NODE):
                (child,) = struct.unpack(">I", node.data[cell : cell + 4])
                yield from self._walk(child, way, high if key is None else key, depth + 1)
            if node.kind != _TABLE_NODE:  # whose cells only say where to go
                yield found
            if key is not None:
                way.place = key
        if node.right:
            yield from self._walk(node.right, way, high, depth + 1)

    def _node(self, number: int) -> _Node:
        if not 1 <= number <= self.pages:
            raise Broken(f"there is no page {number} in the file")
        data = self._page(number)
        start = _HEADER_BYTES if number == _SCHEMA_PAGE else 0
        kind, _, count, _ = struct.unpack(">BHHH", data[start : start + 7])
        if kind not in (_INDEX_NODE, _TABLE_NODE, _INDEX_LEAF, _TABLE_LEAF):
            raise Broken("it is no page of a tree")
        is_leaf = kind in (_INDEX_LEAF, _TABLE_LEAF)
        first = start + (8 if is_leaf else 12)
        right = 0 if is_leaf else struct.unpack(">I", data[start + 8 : start + 12])[0]
        if first + 2 * count > self._usable or (not is_leaf and not right):
            raise Broken("its count of rows is wrong")
        cells = struct.unpack(f">{count}H", data[first : first + 2 * count])
        if any(not first + 2 * count <= cell <= self._usable - 4 for cell in cells):
            raise Broken("it points outside of itself")
        return _Node(kind, data, cells, right)

    def _cell(self, number: int, node: _Node, cell: int, low: Key | None, high: Key | None) -> _Found:
        key: Key | None = None
        number_of_row: int | None = None
        try:
            place = cell if node.kind in (_INDEX_LEAF, _TABLE_LEAF) else cell + 4
            if node.kind == _TABLE_NODE:
                key = varint(node.data, place)[0]
                row: Row = ()
            else:
                size, place = varint(node.data, place)
                if node.kind == _TABLE_LEAF:
                    key = number_of_row = varint(node.data, place)[0]
                    place = varint(node.data, place)[1]
                key, row = self._record(node, size, place, number_of_row)
            if not _is_between(key, low, high):
                raise Broken("its key is not where it must be")
            return key, row
        except Broken as error:
            return Lost(number, str(error), low, high, True, key)
        except (IndexError, TypeError, struct.error, UnicodeError):
            return Lost(number, "its record is wrong", low, high, True, key)

    def _record(self, node: _Node, size: int, place: int, number: int | None) -> tuple[Key | None, Row]:
        local = self._local_bytes(size, node.kind)
        data = node.data[place : place + local]
        if len(data) < local:
            raise Broken("its record is longer than its page")
        if local < size:
            (overflow,) = struct.unpack(">I", node.data[place + local : place + local + 4])
            data += self._overflow(overflow, size - local)
        row = columns(data)
        if number is not None:
            return number, row
        # A key of several columns, or of a text, has an order that is not looked into.
        return (row[0] if isinstance(row[0], bytes) else None), row

    def _local_bytes(self, size: int, kind: int) -> int:
        """How much of a record lies in its own page."""
        usable = self._usable
        most = usable - 35 if kind == _TABLE_LEAF else (usable - 12) * 64 // 255 - 23
        if size <= most:
            return size
        least = (usable - 12) * 32 // 255 - 23
        some = least + (size - least) % (usable - 4)
        return some if some <= most else least

    def _overflow(self, number: int, size: int) -> bytes:
        if size > self.pages * self.page_bytes:
            raise Broken("its length is wrong")
        parts = []
        while size > 0:
            if not 1 <= number <= self.pages:
                raise Broken("the pages of its rest are lost")
            data = self._page(number)
            (number,) = struct.unpack(">I", data[:4])
            parts.append(data[4 : min(self._usable, 4 + size)])
            size -= len(parts[-1])
        return b"".join(parts)

    def _page(self, number: int) -> bytes:
        return os.pread(self._file.fileno(), self.page_bytes, (number - 1) * self.page_bytes)


def _is_between(key: Key | None, low: Key | None, high: Key | None) -> bool:
    """Whether the key is above `low` and below `high`. Of numbers, `high` is one: a node says the last below it."""
    if isinstance(key, bytes):
        return not (isinstance(low, bytes) and key <= low) and not (isinstance(high, bytes) and key >= high)
    if isinstance(key, int):
        return not (isinstance(low, int) and key <= low) and not (isinstance(high, int) and key > high)
    return True
