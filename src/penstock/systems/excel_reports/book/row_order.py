"""Rows in an order, with bounded memory: sorted in runs that are merged."""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import IO, Any, Final

import orjson

from penstock.systems.excel_reports.sources.source import Row

ValueOf = Callable[[Row, str], Any]
_RUN_ROWS: Final = 20_000
"""That are in memory at once: some 20 MB of a usual table."""


def sorted_rows(
    rows: Iterable[Row], fields: Sequence[str], value_of: ValueOf = Row.get, *, run_rows: int = _RUN_ROWS
) -> Iterator[Row]:
    """By these fields; `-price` is from high to low. Numbers come before text, and empty cells last.

    `value_of` gives the number, day or text that is in a row's field.
    """
    wanted = [(field.removeprefix("-"), field.startswith("-")) for field in fields]

    def key(row: Row) -> tuple[_Place, ...]:
        return tuple(_Place(value_of(row, field), descending) for field, descending in wanted)

    source = iter(rows)
    with ExitStack() as stack:
        runs: list[Iterator[Row]] = []
        while run := sorted(islice(source, run_rows), key=key):
            if len(run) < run_rows and not runs:
                yield from run
                return
            file = stack.enter_context(tempfile.TemporaryFile(prefix="penstock-report-"))
            file.writelines(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in run)
            runs.append(_rows(file))
        yield from heapq.merge(*runs, key=key)


def _rows(file: IO[bytes]) -> Iterator[Row]:
    file.seek(0)
    return (orjson.loads(line) for line in file)


class _Place:
    """Where a cell comes in the order."""

    __slots__ = ("_descending", "_kind", "_value")
    _kind: int
    _value: Any

    def __init__(self, value: Any, descending: bool) -> None:
        self._descending = descending
        if value is None or value == "":
            self._kind, self._value = 2, 0
        elif isinstance(value, int | float):
            self._kind, self._value = 0, value
        else:
            self._kind, self._value = 1, str(value).casefold()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Place) and (self._kind, self._value) == (other._kind, other._value)

    def __lt__(self, other: _Place) -> bool:
        if self._kind != other._kind:
            return self._kind < other._kind
        return bool(other._value < self._value if self._descending else self._value < other._value)
