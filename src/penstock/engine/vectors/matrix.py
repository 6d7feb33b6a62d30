"""The vectors of one index in memory, as rows of numbers of 32 bits, and which of them may be the nearest.

1. A matrix finds candidates, and nearest.py orders them by their exact scores. All of the nearest are among the
   candidates: every approximate distance has a bound of its error, by which no row is left out that could be one.
2. So the answers are the same with NumPy and without it; the first is a hundred times as fast.
3. A distance is what is to be small: minus the cosine, minus the dot product, the square of the straight line.
4. For cosines the rows are kept divided by their lengths: no product of them can overflow.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import mul
from typing import Any, Final, Protocol

from penstock.wire.float32 import BYTES, to_floats

try:
    import numpy as np
except ImportError:  # an extra: penstock[vectors]
    np = None  # type: ignore[assignment]

COSINE: Final = "COSINE"
DOT_PRODUCT: Final = "DOT_PRODUCT"
EUCLIDEAN: Final = "EUCLIDEAN"

_SINGLE: Final = 2.0**-23
_DOUBLE: Final = 2.0**-51
_SCORE_ROUNDING: Final = 2.0**-22
"""Scores that are equal once they are rounded to 32 bits are ordered by key: so near are the same."""
_TINY: Final = 1e-38
"""Products below this are lost in 32 bits; that many of them at the most."""
_LARGE: Final = 1e37
"""Lengths whose product is above this are multiplied in 64 bits."""
_BLOCK_ROWS: Final = 4096
_FIRST_ROWS: Final = 64


class Matrix(Protocol):
    """Rows 0 to `rows` - 1; a row that is taken out is replaced by the last one."""

    rows: int

    @property
    def memory(self) -> int:
        """The bytes that it takes."""

    def put(self, row: int, vector: bytes) -> None:
        """Replaces a row; `row` may be the next one."""

    def extend(self, vectors: Sequence[bytes]) -> None:
        """Adds rows at the end."""

    def take_out(self, row: int) -> None:
        """The last row moves to its place."""

    def candidates(self, query: bytes, most: int, among: Sequence[int] | None, without: Collection[int]) -> list[int]:
        """Rows among which the `most` nearest are: of those `among`, or of all; none of those `without`."""


def new_matrix(function: str, dimensions: int, *, numpy: bool = True) -> Matrix:
    """An empty one."""
    return NumPyMatrix(function, dimensions) if np is not None and numpy else PlainMatrix(function, dimensions)


def rows_with(codes: array[int], code: int, among: Sequence[int] | None) -> Sequence[int]:
    """The rows whose code is this one; of those `among`, or of all."""
    if np is not None:
        of_all = np.frombuffer(codes, dtype=np.int32)
        found: Any = np.flatnonzero(of_all == code) if among is None else np.asarray(among)[of_all[among] == code]
        return found  # type: ignore[no-any-return]
    if among is None:
        return [row for row, one in enumerate(codes) if one == code]
    return [row for row in among if codes[row] == code]


# ── with NumPy ────────────────────────────────────────────────────────────────────────────────────


class NumPyMatrix:
    def __init__(self, function: str, dimensions: int) -> None:
        self.rows = 0
        self._function = function
        self._dimensions = dimensions
        self._numbers: Any = np.empty((_FIRST_ROWS, dimensions), np.float32)
        self._lengths: Any = np.zeros(_FIRST_ROWS)
        self._longest = 0.0

    @property
    def memory(self) -> int:
        return int(self._numbers.nbytes + self._lengths.nbytes)

    def put(self, row: int, vector: bytes) -> None:
        if row == self.rows:
            self.extend([vector])
        else:
            self._fill(row, [vector])

    def extend(self, vectors: Sequence[bytes]) -> None:
        self._make_room(self.rows + len(vectors))
        for start in range(0, len(vectors), _BLOCK_ROWS):
            self._fill(self.rows + start, vectors[start : start + _BLOCK_ROWS])
        self.rows += len(vectors)

    def take_out(self, row: int) -> None:
        self.rows -= 1
        self._numbers[row] = self._numbers[self.rows]
        self._lengths[row] = self._lengths[self.rows]

    def _make_room(self, rows: int) -> None:
        have = len(self._numbers)
        if rows <= have:
            return
        # A half more: each row is copied three times at the most, and a third is empty at the most.
        room = max(rows, have + have // 2)
        numbers = np.empty((room, self._dimensions), np.float32)
        numbers[: self.rows] = self._numbers[: self.rows]
        lengths = np.zeros(room)
        lengths[: self.rows] = self._lengths[: self.rows]
        self._numbers, self._lengths = numbers, lengths

    def _fill(self, row: int, vectors: Sequence[bytes]) -> None:
        some = np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), self._dimensions)
        wide = some.astype(np.float64)
        lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
        if self._function == COSINE:
            some = wide / np.where(lengths == 0, 1.0, lengths)[:, None]
        self._numbers[row : row + len(vectors)] = some
        self._lengths[row : row + len(vectors)] = lengths
        self._longest = max(self._longest, float(lengths.max()))

    def candidates(self, query: bytes, most: int, among: Sequence[int] | None, without: Collection[int]) -> list[int]:
        numbers, lengths = self._numbers[: self.rows], self._lengths[: self.rows]
        if among is not None:
            numbers, lengths = numbers[among], lengths[among]
        if len(numbers) == 0:
            return []
        near, error = self._distances(numbers, lengths, np.frombuffer(query, "<f4").astype(np.float64))
        if without:
            rows = np.arange(self.rows) if among is None else np.asarray(among)
            near = np.where(np.isin(rows, list(without)), np.inf, near)
        error = error + np.abs(near, where=np.isfinite(near), out=np.zeros_like(near)) * _SCORE_ROUNDING
        if len(near) > most:
            limit = np.partition(near + error, most - 1)[most - 1]
            chosen = np.flatnonzero((near - error <= limit) & (near < np.inf))
        else:
            chosen = np.flatnonzero(near < np.inf)
        return [int(row) for row in (chosen if among is None else np.asarray(among)[chosen])]

    def _distances(self, numbers: Any, lengths: Any, query: Any) -> tuple[Any, Any]:
        length = float(np.sqrt(query @ query))
        terms = self._dimensions + 16
        if self._function == COSINE:
            unit = query / length if length else query
            return -(numbers @ unit.astype(np.float32)).astype(np.float64), terms * _SINGLE
        if self._longest * length < _LARGE:
            dots = (numbers @ query.astype(np.float32)).astype(np.float64)
            error = terms * _SINGLE * lengths * length + terms * _TINY
        else:
            blocks = range(0, len(numbers), _BLOCK_ROWS)
            dots = np.concatenate([numbers[at : at + _BLOCK_ROWS].astype(np.float64) @ query for at in blocks])
            error = terms * _DOUBLE * lengths * length
        if self._function == DOT_PRODUCT:
            return -dots, error
        squares = lengths * lengths + length * length
        return squares - 2 * dots, 2 * error + terms * _DOUBLE * squares


# ── without it ────────────────────────────────────────────────────────────────────────────────────


def _sum_of_products(one: Iterable[float], other: Iterable[float]) -> float:
    return sum(map(mul, one, other), 0.0)


# Since Python 3.12, and faster.
_dot: Callable[[Sequence[float], Sequence[float]], float] = getattr(math, "sumprod", _sum_of_products)


class PlainMatrix:
    def __init__(self, function: str, dimensions: int) -> None:
        self.rows = 0
        self._function = function
        self._dimensions = dimensions
        self._numbers = array("f")
        self._lengths = array("d")

    @property
    def memory(self) -> int:
        return len(self._numbers) * BYTES + len(self._lengths) * 8

    def put(self, row: int, vector: bytes) -> None:
        numbers = array("f", to_floats(vector))
        length = math.hypot(*numbers)
        if row == self.rows:
            self._numbers.extend(numbers)
            self._lengths.append(length)
            self.rows += 1
        else:
            self._numbers[row * self._dimensions : (row + 1) * self._dimensions] = numbers
            self._lengths[row] = length

    def extend(self, vectors: Sequence[bytes]) -> None:
        for vector in vectors:
            self.put(self.rows, vector)

    def take_out(self, row: int) -> None:
        last = self._row(self.rows - 1)
        self._numbers[row * self._dimensions : (row + 1) * self._dimensions] = last
        self._lengths[row] = self._lengths[-1]
        del self._numbers[-self._dimensions :]
        self._lengths.pop()
        self.rows -= 1

    def _row(self, row: int) -> array[float]:
        return self._numbers[row * self._dimensions : (row + 1) * self._dimensions]

    def candidates(self, query: bytes, most: int, among: Sequence[int] | None, without: Collection[int]) -> list[int]:
        wanted = to_floats(query)
        length = math.hypot(*wanted)
        rows = [row for row in (range(self.rows) if among is None else among) if row not in without]
        near = [self._distance(row, wanted, length) for row in rows]
        if len(rows) <= most:
            return rows
        limit = heapq.nsmallest(most, (distance + error for distance, error in near))[-1]
        return [row for row, (distance, error) in zip(rows, near, strict=True) if distance - error <= limit]

    def _distance(self, row: int, query: Sequence[float], length: float) -> tuple[float, float]:
        """How far a row is, and by how much that may be wrong."""
        own = self._lengths[row]
        terms = self._dimensions + 16
        if self._function == EUCLIDEAN:
            square = math.dist(self._row(row), query) ** 2
            return square, square * (terms * _DOUBLE + _SCORE_ROUNDING)
        dot = _dot(self._row(row), query)
        if self._function == DOT_PRODUCT:
            return -dot, terms * _DOUBLE * own * length + abs(dot) * _SCORE_ROUNDING
        cosine = dot / own / length if own and length else 0.0
        return -cosine, terms * _DOUBLE + _SCORE_ROUNDING
