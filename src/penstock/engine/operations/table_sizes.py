"""How many items a table or index holds, and their bytes.

DynamoDB counts every six hours. Here a small table is counted exactly each time. A large one is counted at most
so often that counting takes one per cent of the time; in between, the figures of the last count are given. A write
transaction (`counts` is False) never counts a large one, because others wait for it: it gives those figures, however
old, and where there are none the number that it has counted.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import orjson

from penstock.engine.catalog.table_schema import IndexInfo, TableInfo
from penstock.engine.context import OperationContext
from penstock.wire.values import item_size

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

COUNTED_EXACTLY = 5_000
"""Rows up to which a table is counted each time: a millisecond or two."""

_COUNTING_CACHE_BYTES = 1024 * 1024
_SAMPLED_ITEMS = 100
_REST_PER_WORK = 100


class Size(NamedTuple):
    items: int
    bytes: int


class _Counted(NamedTuple):
    size: Size
    good_until: float


# The figures of large tables' last counts, for each engine, by the SQL table that was counted.
_COUNTED: WeakKeyDictionary[Engine, dict[str, _Counted]] = WeakKeyDictionary()


def size_of_table(context: OperationContext, table: TableInfo, *, counts: bool = True) -> Size:
    return _size(context, table.storage, f"SELECT size FROM {table.storage}", counts)  # noqa: S608


def size_of_index(context: OperationContext, table: TableInfo, index: IndexInfo, *, counts: bool = True) -> Size:
    """An index's bytes are the number of its entries times the mean size of some of its items."""
    entries = _size(context, index.storage, f"SELECT 0 AS size FROM {index.storage}", counts).items  # noqa: S608
    return Size(entries, round(entries * _mean_bytes(context, table, index)))


def _size(context: OperationContext, storage: str, rows: str, counts: bool) -> Size:
    counted = _COUNTED.setdefault(context.engine, {})
    known = counted.get(storage)
    if known is not None and (perf_counter() < known.good_until or not counts):
        return known.size
    started = perf_counter()
    size = _count(context, f"{rows} LIMIT {COUNTED_EXACTLY + 1}")
    if size.items > COUNTED_EXACTLY and counts:
        size = _count_large(context, rows)
        took = perf_counter() - started
        counted[storage] = _Counted(size, perf_counter() + took * _REST_PER_WORK)
    return size


def _count(context: OperationContext, rows: str) -> Size:
    row = context.db.execute(f"SELECT count(*), coalesce(sum(size), 0) FROM ({rows})").fetchone()  # noqa: S608
    return Size(*row)


def _count_large(context: OperationContext, rows: str) -> Size:
    """The same; of the pages that are read for it, which nobody needs again, few are kept in memory."""
    (usual,) = context.db.execute("PRAGMA cache_size").fetchone()
    context.db.execute(f"PRAGMA cache_size = {-_COUNTING_CACHE_BYTES // 1024}")
    try:
        return _count(context, rows)
    finally:
        context.db.execute(f"PRAGMA cache_size = {usual}")


def _mean_bytes(context: OperationContext, table: TableInfo, index: IndexInfo) -> float:
    items = context.db.execute(
        f"SELECT item FROM (SELECT item_key FROM {index.storage} LIMIT {_SAMPLED_ITEMS}) "  # noqa: S608
        f"JOIN {table.storage} ON key = item_key"
    ).fetchall()
    sizes = [item_size(index.view(orjson.loads(item))) for (item,) in items]
    return sum(sizes) / len(sizes) if sizes else 0.0
