"""One matrix for each vector index that is searched, kept in step with the file.

1. Writes do not touch a matrix. A search first reads the rows that have changed since the last one, whichever process
   changed them: they have higher numbers (vector_rows.py, 3). Mostly there are none.
2. Only rows that are committed come into a matrix. A search inside a transaction reads none: it is refused if there are
   any, and the engine answers it by itself.
3. All matrices of an engine take `MOST_BYTES` at the most; those that were searched last stay. One that is larger by
   itself is read anew by each search.
4. What a matrix says may be older or newer than what is read of the items afterwards. The caller compares.
"""

from __future__ import annotations

import os
import threading
from array import array
from collections.abc import Collection, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import orjson

from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.table_schema import VectorIndexInfo
from penstock.engine.items.vector_rows import MARK
from penstock.engine.vectors.matrix import new_matrix, rows_with

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

MOST_BYTES = 1024 * 1024 * 1024
_READ_AT_ONCE: Final = 2000

_Row = tuple[int, bytes, bytes | None, bytes | None]


class InTransaction(Exception):
    """A search came with others in one transaction, and there is something new to read (2)."""


class CachedIndex:
    """The vectors of one index, their keys, and the values that a search chooses by."""

    def __init__(self, index: VectorIndexInfo) -> None:
        self.lock = threading.Lock()
        self._index = index
        self._clear()

    def _clear(self) -> None:
        self._number = 0
        self._matrix = new_matrix(self._index.function, self._index.dimensions)
        self._keys: list[bytes] = []
        self._rows: dict[bytes, int] = {}
        self._codes = [array("i") for _ in self._index.schema]
        self._values: list[dict[str, int]] = [{} for _ in self._index.schema]

    @property
    def memory(self) -> int:
        return self._matrix.memory + 200 * len(self._keys)

    def refresh(self, context: OperationContext) -> None:
        """Reads what has changed."""
        source = f"SELECT number, key, vector, chosen_by FROM {self._index.storage} WHERE number > ? ORDER BY number"  # noqa: S608
        began = self._number
        cursor = context.db.execute(source, (began,))
        while rows := list(islice(cursor, _READ_AT_ONCE)):
            if context.db.in_transaction:
                raise InTransaction
            if began and any(key == MARK for _, key, _, _ in rows):
                self._clear()
                began = 0
                cursor = context.db.execute(source, (began,))
                continue
            try:
                self._take([row for row in rows if row[1] != MARK])
            except BaseException:
                self._clear()  # it may hold a part of a row
                raise
            self._number = rows[-1][0]

    def _take(self, rows: list[_Row]) -> None:
        fresh: list[_Row] = []
        for row in rows:
            _, key, vector, chosen_by = row
            place = self._rows.get(key)
            if vector is None:
                if place is not None:
                    self._append(fresh)  # the last row, which moves to the place, may be one of them
                    fresh = []
                    self._take_out(place)
            elif place is None:
                self._rows[key] = len(self._keys)
                self._keys.append(key)
                fresh.append(row)
                continue
            else:
                self._matrix.put(place, vector)
                self._note_values(place, chosen_by)
        self._append(fresh)

    def _append(self, fresh: list[_Row]) -> None:
        first = len(self._keys) - len(fresh)
        self._matrix.extend([vector for _, _, vector, _ in fresh if vector is not None])
        for place, (_, _, _, chosen_by) in enumerate(fresh, first):
            for codes in self._codes:
                codes.append(0)
            self._note_values(place, chosen_by)

    def _note_values(self, place: int, chosen_by: bytes | None) -> None:
        if chosen_by is None:
            return
        for codes, known, text in zip(self._codes, self._values, orjson.loads(chosen_by), strict=True):
            codes[place] = -1 if text is None else known.setdefault(text, len(known))

    def _take_out(self, place: int) -> None:
        last = len(self._keys) - 1
        del self._rows[self._keys[place]]
        if place != last:
            self._keys[place] = self._keys[last]
            self._rows[self._keys[place]] = place
            for codes in self._codes:
                codes[place] = codes[last]
        self._keys.pop()
        for codes in self._codes:
            codes.pop()
        self._matrix.take_out(place)

    def candidates(
        self, query: bytes, most: int, chosen: Sequence[str | None], without: Collection[bytes]
    ) -> list[bytes]:
        """Keys among which the nearest are, of items with the `chosen` values (None: any)."""
        among: Sequence[int] | None = None
        for place, text in enumerate(chosen):
            if text is None:
                continue
            code = self._values[place].get(text)
            if code is None:
                return []
            among = rows_with(self._codes[place], code, among)
        left_out = {self._rows[key] for key in without if key in self._rows}
        return [self._keys[row] for row in self._matrix.candidates(query, most, among, left_out)]


_CACHES: WeakKeyDictionary[Engine, dict[str, CachedIndex]] = WeakKeyDictionary()
_LOCK = threading.Lock()


def cached_index(engine: Engine, index: VectorIndexInfo) -> CachedIndex:
    """The index's matrix; it may be empty, or old."""
    with _LOCK:
        caches = _CACHES.setdefault(engine, {})
        found = caches.pop(index.storage, None) or CachedIndex(index)
        caches[index.storage] = found  # as the last one: it is the one that was used last
    return found


def keep_within_bounds(engine: Engine) -> None:
    """Forgets the matrices that were not searched for longest, where all together are too large (3)."""
    with _LOCK:
        caches = _CACHES.get(engine, {})
        total = sum(one.memory for one in caches.values())
        for storage in list(caches):
            if total <= MOST_BYTES:
                return
            total -= caches.pop(storage).memory


def _forget_all() -> None:
    """In a process that was forked: another thread of its parent may have held a lock."""
    global _LOCK
    _LOCK = threading.Lock()
    _CACHES.clear()


os.register_at_fork(after_in_child=_forget_all)
