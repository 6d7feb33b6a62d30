"""Index rows, kept in step with the items that they point at (changes.py, 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.engine.catalog.table_schema import IndexInfo, index_tail
from penstock.engine.context import OperationContext
from penstock.engine.items.bulk_rows import delete_keys, put_index_rows

if TYPE_CHECKING:
    from penstock.engine.items.changes import Change


def follow(context: OperationContext, change: Change) -> None:
    """Keeps the index rows in step; an index none of whose key attributes has come, gone or changed is left alone."""
    if change.old is None or change.new is None:
        _come_or_gone(context, change)
        return
    execute = context.db.execute
    for index, before, after in _moves(change):
        if before is not None and after is not None:
            # An index that is being filled may not have the old row yet.
            if execute(index.sql_move, (after, before)).rowcount:
                continue
        elif before is not None:
            execute(index.sql_delete, (before,))
        if after is not None:
            execute(index.sql_put, (after, change.key))


def _moves(change: Change) -> list[tuple[IndexInfo, bytes | None, bytes | None]]:
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


def follow_many(context: OperationContext, changes: Sequence[Change]) -> None:
    """The same for changes that follow one another: of what they do to a row, the last counts."""
    left: dict[str, dict[bytes, bytes | None]] = {}  # the rows of each index's storage; None for one that is gone
    for change in changes:
        for index, before, after in _moves(change):
            rows = left.setdefault(index.storage, {})
            if before is not None:
                rows[before] = None
            if after is not None:
                rows[after] = change.key
    for storage, rows in left.items():
        delete_keys(context, storage, [key for key, item_key in rows.items() if item_key is None])
        put_index_rows(context, storage, [(key, item_key) for key, item_key in rows.items() if item_key is not None])


def _come_or_gone(context: OperationContext, change: Change) -> None:
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
