"""The one place where an item changes: whatever is kept in step with items is kept in step here.

1. The item, its index rows, its expiry, its stream record and its journal entry change in one transaction.
2. An index row exists if and only if the item has a value for each of the index's key attributes.
3. Nothing here refuses a change: all checks come before, so that an error leaves nothing half-done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from penstock.engine import streams
from penstock.engine.catalog.table_schema import IndexInfo, TableInfo, index_tail
from penstock.engine.context import OperationContext
from penstock.engine.items import expiry_rows, journal
from penstock.engine.items.bulk_rows import delete_keys, put_index_rows, put_rows
from penstock.wire.values import Item, equal


@dataclass(slots=True)
class Change:
    """An item before and after. `old` and `new` are None where there is no item."""

    table: TableInfo
    key: bytes
    old: Item | None
    new: Item | None
    size: int = 0
    """Bytes of `new`."""
    by_ttl: bool = False
    """Whether the sweeper made it: its stream record then names the service."""


def old_item(context: OperationContext, table: TableInfo, key: bytes) -> Item | None:
    """The item as it is now."""
    row = context.db.execute(table.sql_get, (key,)).fetchone()
    if row is None:
        return None
    context.db.refuse_long_work(row[0])
    item: Item = orjson.loads(row[0])
    return item


def write(context: OperationContext, change: Change) -> None:
    """Makes the change, and all that goes with it."""
    table = change.table
    data = b""
    if change.new is not None:
        data = orjson.dumps(change.new)
        context.db.execute(table.sql_put, (change.key, change.size, data))
    elif change.old is not None:
        context.db.execute(table.sql_delete, (change.key,))
    if table.watched:
        _follow(context, change, data)


def write_many(context: OperationContext, changes: Sequence[Change]) -> None:
    """Makes changes that follow one another, none of which deletes an item; in as few statements as there may be."""
    by_table: dict[int, list[Change]] = {}
    for change in changes:
        by_table.setdefault(change.table.id, []).append(change)
    for of_table in by_table.values():
        table = of_table[0].table
        written = [(change.key, change.size, orjson.dumps(change.new)) for change in of_table]
        put_rows(context, table, {row[0]: row for row in written}.values(), new=False)
        if table.watched:
            _follow_indexes_of_many(context, of_table)
            for change, row in zip(of_table, written, strict=True):
                _follow_beside_indexes(context, change, row[2])


def put_unread(context: OperationContext, change: Change) -> None:
    """Puts an item where no condition asks for the old one: that is read only if there is one; `change.old` says."""
    data = orjson.dumps(change.new)
    if not _insert(context, change, data):
        change.old = old_item(context, change.table, change.key)
        context.db.execute(change.table.sql_put, (change.key, change.size, data))
        if change.table.watched:
            _follow(context, change, data)


def put_new(context: OperationContext, change: Change) -> bool:
    """Puts an item where there is none; whether there was none, else nothing is changed. It takes no look before."""
    return _insert(context, change, orjson.dumps(change.new))


def _insert(context: OperationContext, change: Change, data: bytes) -> bool:
    table = change.table
    if not context.db.execute(table.sql_insert, (change.key, change.size, data)).rowcount:
        return False
    if table.watched:
        _follow(context, change, data)
    return True


def put_unwatched(context: OperationContext, table: TableInfo, key: bytes, item: Item, size: int) -> None:
    """Puts an item into a table where nothing else is kept in step and nobody asked for the old item."""
    context.db.execute(table.sql_put, (key, size, orjson.dumps(item)))


def _follow(context: OperationContext, change: Change, data: bytes) -> None:
    """Keeps in step what stands beside the item; `data` is the new item's JSON."""
    if change.table.indexes:
        follow_indexes(context, change)
    _follow_beside_indexes(context, change, data)


def _follow_beside_indexes(context: OperationContext, change: Change, data: bytes) -> None:
    record = change.table.record
    ttl = record.get("ttl")
    if ttl:
        expiry_rows.follow(context, change, ttl["AttributeName"])
    stream, pitr = record.get("stream"), record.get("pitr")
    if (stream or pitr) and not _is_same(change.old, change.new):
        if stream:
            streams.append(context, change, stream, data)
        if pitr:
            journal.append(context, change)


def _is_same(old: Item | None, new: Item | None) -> bool:
    """Whether a write has changed nothing: then nobody is told of it."""
    if old is None or new is None:
        return old is new
    return old == new or (old.keys() == new.keys() and all(equal(value, new[name]) for name, value in old.items()))


# ── index rows (2) ────────────────────────────────────────────────────────────────────────────────


def follow_indexes(context: OperationContext, change: Change) -> None:
    """Keeps the index rows in step; an index none of whose key attributes has come, gone or changed is left alone."""
    if change.old is None or change.new is None:
        _put_or_delete_index_rows(context, change)
        return
    execute = context.db.execute
    for index, before, after in _index_moves(change):
        if before is not None and after is not None:
            # An index that is being filled may not have the old row yet.
            if execute(index.sql_move, (after, before)).rowcount:
                continue
        elif before is not None:
            execute(index.sql_delete, (before,))
        if after is not None:
            execute(index.sql_put, (after, change.key))


def _index_moves(change: Change) -> list[tuple[IndexInfo, bytes | None, bytes | None]]:
    """The indexes in which the item's row comes, goes or moves, with the row's keys before and after."""
    table, old, new = change.table, change.old or {}, change.new or {}
    moved = [name for name in table.index_kinds if old.get(name) != new.get(name)]
    found: list[tuple[IndexInfo, bytes | None, bytes | None]] = []
    if not moved:
        return found
    tail = index_tail(table.key, new or old, change.key)
    for index in table.index_list:
        if index.own_names.isdisjoint(moved):
            continue
        before, after = index.start(old), index.start(new)
        if before != after:
            found.append((index, before and before + tail, after and after + tail))
    return found


def _follow_indexes_of_many(context: OperationContext, changes: Sequence[Change]) -> None:
    """The same for changes that follow one another: of what they do to a row, the last counts."""
    left: dict[str, dict[bytes, bytes | None]] = {}  # the rows of each index's storage; None for one that is gone
    for change in changes:
        for index, before, after in _index_moves(change):
            rows = left.setdefault(index.storage, {})
            if before is not None:
                rows[before] = None
            if after is not None:
                rows[after] = change.key
    for storage, rows in left.items():
        delete_keys(context, storage, [key for key, item_key in rows.items() if item_key is None])
        put_index_rows(context, storage, [(key, item_key) for key, item_key in rows.items() if item_key is not None])


def _put_or_delete_index_rows(context: OperationContext, change: Change) -> None:
    """The same for an item that was not there, or is no longer."""
    table, new = change.table, change.new
    item = new or change.old
    if item is None:
        return
    tail: bytes | None = None
    for index in table.index_list:
        start = index.start(item)
        if start is None:
            continue
        if tail is None:
            tail = index_tail(table.key, item, change.key)
        if new is not None:
            context.db.execute(index.sql_put, (start + tail, change.key))
        else:
            context.db.execute(index.sql_delete, (start + tail,))
