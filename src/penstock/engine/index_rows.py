"""Index rows, kept in step with the items that they point at (changes.py, 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.call import Call
from penstock.engine.schema import TableInfo, index_tail
from penstock.wire.values import Item

if TYPE_CHECKING:
    from penstock.engine.changes import Change


def follow(call: Call, change: Change) -> None:
    """Keeps the index rows in step; an index none of whose key attributes has come, gone or changed is left alone."""
    table, old, new = change.table, change.old, change.new
    moved = _moved(table, old, new)
    if not moved:
        return
    tail = index_tail(table.key, new or old or {}, change.key)
    execute = call.db.execute
    for index in table.index_list:
        if index.own_names.isdisjoint(moved):
            continue
        before = None if old is None else index.start(old)
        after = None if new is None else index.start(new)
        if before == after:
            continue
        if before is not None and after is not None:
            # An index that is being filled may not have the old row yet.
            if execute(index.sql_move, (after + tail, before + tail)).rowcount:
                continue
        elif before is not None:
            execute(index.sql_delete, (before + tail,))
        if after is not None:
            execute(index.sql_put, (after + tail, change.key))


def _moved(table: TableInfo, old: Item | None, new: Item | None) -> list[str]:
    """The attributes of indexes' keys that are not in both items with the same value."""
    if old is None or new is None:
        item = new or old or {}
        return [name for name in table.index_kinds if name in item]
    return [name for name in table.index_kinds if old.get(name) != new.get(name)]
