"""Pages: what Query and Scan read, in key order, until Limit items or 1 MB have been looked at.

1. Everything read counts towards the page, whether a filter then keeps it or not.
2. The item that fills the page belongs to it; LastEvaluatedKey is its key.
3. Without filter and projection no item is decoded but the last one, whose key may be needed.
4. What an index of keys alone holds stands in its rows: the items are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from penstock.engine.catalog.table_schema import IndexInfo, TableInfo
from penstock.engine.context import OperationContext
from penstock.wire.limits import PAGE_BYTES
from penstock.wire.values import Item, item_size

Projector = Callable[[Item], Item]
Filter = Callable[[Item], bool]


@dataclass(slots=True)
class Walk:
    """Which rows, in which order. Bounds are row keys of the table or the index; `low` and `high` may be open."""

    table: TableInfo
    index: IndexInfo | None
    low: bytes | None = None
    low_open: bool = False
    high: bytes | None = None
    high_open: bool = True
    forward: bool = True
    single: bool = False
    """No more than one row: there is nothing to go on with after it."""


@dataclass(slots=True)
class Page:
    items: list[Any] = field(default_factory=list)
    count: int = 0
    scanned: int = 0
    size: int = 0
    """Bytes looked at, which the reading costs."""
    fetched: list[int] = field(default_factory=list)
    """Sizes of items read from the table for an index that does not hold them whole."""
    last: Item | None = None
    """The key of the last item looked at, if the page was filled."""


def read_page(
    context: OperationContext,
    walk: Walk,
    *,
    limit: int | None,
    keep: Filter | None,
    project: Projector | None,
    count_only: bool,
    whole_items: bool = False,
) -> Page:
    """One page. `whole_items`: a local index shall give attributes that it does not hold.

    A filter sees no more of an item than the index holds, even then (docs/decisions/0040-filters-on-indexes.md).
    """
    page = Page()
    index = walk.index
    held = None if index is None or whole_items else index.held_in_keys
    narrow = index is not None and index.projected is not None and held is None
    view = index.view if index is not None and narrow else None
    if index is not None and held is not None:
        looked_at = _held(context, walk, index, limit, held)
    else:
        looked_at = _decoded(context, walk, limit, narrow or keep is not None or project is not None)
    for item, blob, size in looked_at:
        page.scanned += 1
        page.size += _index_size(index, item) if narrow else size
        if whole_items and narrow:
            page.fetched.append(size)
        if item is None:
            page.count += 1
            if not count_only:
                page.items.append(orjson.Fragment(blob))
        else:
            held_part = item if view is None else view(item)
            if keep is None or keep(held_part):
                _take(page, item if whole_items else held_part, project, count_only)
        if page.size >= PAGE_BYTES or page.scanned == limit:
            page.last = None if walk.single else _position(walk, item or orjson.loads(blob))
            break
    return page


_LookedAt = Iterator[tuple[Item | None, bytes, int]]
"""Items with their JSON and sizes, as far as they were read."""


def _decoded(context: OperationContext, walk: Walk, limit: int | None, wanted: bool) -> _LookedAt:
    if walk.index is None:
        source = f"SELECT r.item, r.size FROM {walk.table.storage} r"  # noqa: S608
    else:
        # CROSS JOIN keeps SQLite from walking the table instead of the index.
        source = (
            f"SELECT t.item, t.size FROM {walk.index.storage} r "  # noqa: S608
            f"CROSS JOIN {walk.table.storage} t ON t.key = r.item_key"
        )
    for blob, size in _rows(context, source, walk, limit):
        yield orjson.loads(blob) if wanted else None, blob, size


def _held(
    context: OperationContext, walk: Walk, index: IndexInfo, limit: int | None, read: Callable[[bytes, bytes], Item]
) -> _LookedAt:
    source = f"SELECT r.key, r.item_key FROM {index.storage} r"  # noqa: S608
    for key, item_key in _rows(context, source, walk, limit):
        item = read(key, item_key)
        yield item, b"", item_size(item)


def _take(page: Page, item: Item, project: Projector | None, count_only: bool) -> None:
    page.count += 1
    if not count_only:
        page.items.append(item if project is None else project(item))


def _index_size(index: IndexInfo | None, item: Item | None) -> int:
    assert index is not None and item is not None
    return item_size(index.view(item))


def _position(walk: Walk, item: Item) -> Item:
    names = walk.table.key_names if walk.index is None else walk.index.key_names
    return {name: item[name] for name in names}


def _rows(context: OperationContext, source: str, walk: Walk, limit: int | None) -> Iterator[tuple[Any, Any]]:
    """What the source selects of the rows of the walk."""
    conditions: list[str] = []
    bounds: list[bytes | int] = []
    if walk.low is not None:
        conditions.append("r.key > ?" if walk.low_open else "r.key >= ?")
        bounds.append(walk.low)
    if walk.high is not None:
        conditions.append("r.key < ?" if walk.high_open else "r.key <= ?")
        bounds.append(walk.high)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    order = "ASC" if walk.forward else "DESC"
    sql = f"{source}{where} ORDER BY r.key {order}"
    if limit is not None:
        sql += " LIMIT ?"
        bounds.append(limit)
    cursor = context.db.execute(sql, bounds)
    # Few rows at a time: a page may be full long before the partition ends.
    cursor.arraysize = 64
    try:
        while rows := cursor.fetchmany():
            yield from rows
    finally:
        cursor.close()
