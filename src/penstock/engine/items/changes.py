"""The one place where an item changes: whatever is kept in step with items is kept in step here.

1. The item, its index rows, its expiry, its stream record and its journal entry change in one transaction.
2. An index row exists if and only if the item has a value for each of the index's key attributes.
3. Nothing here refuses a change: all checks come before, so that an error leaves nothing half-done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.context import OperationContext
from penstock.engine.items import index_rows
from penstock.engine.items.bulk_rows import put_rows
from penstock.engine.recovery import journal
from penstock.engine.streams import stream_records
from penstock.engine.ttl import expiry_rows
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
            index_rows.follow_many(context, of_table)
            for change, row in zip(of_table, written, strict=True):
                _follow_beside_indexes(context, change, row[2])


def put_unread(context: OperationContext, change: Change) -> None:
    """Puts an item where no condition asks for the old one: that is read only if there is one; `change.old` says."""
    data = orjson.dumps(change.new)
    if not _inserted(context, change, data):
        change.old = old_item(context, change.table, change.key)
        context.db.execute(change.table.sql_put, (change.key, change.size, data))
        if change.table.watched:
            _follow(context, change, data)


def put_new(context: OperationContext, change: Change) -> bool:
    """Puts an item where there is none; whether there was none, else nothing is changed. It takes no look before."""
    return _inserted(context, change, orjson.dumps(change.new))


def _inserted(context: OperationContext, change: Change, data: bytes) -> bool:
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
        index_rows.follow(context, change)
    _follow_beside_indexes(context, change, data)


def _follow_beside_indexes(context: OperationContext, change: Change, data: bytes) -> None:
    record = change.table.record
    ttl = record.get("ttl")
    if ttl:
        expiry_rows.follow(context, change, ttl["AttributeName"])
    stream, pitr = record.get("stream"), record.get("pitr")
    if (stream or pitr) and not _is_same(change.old, change.new):
        if stream:
            stream_records.append(context, change, stream, data)
        if pitr:
            journal.append(context, change)


def _is_same(old: Item | None, new: Item | None) -> bool:
    """Whether a write has changed nothing: then nobody is told of it."""
    if old is None or new is None:
        return old is new
    return old == new or (old.keys() == new.keys() and all(equal(value, new[name]) for name, value in old.items()))
