"""Index rows, kept in step with the items that they point at (changes.py, 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.engine.call import Call
from penstock.engine.rows import delete_keys, put_index_rows
from penstock.engine.schema import IndexInfo, TableInfo, index_tail

if TYPE_CHECKING:
    from penstock.engine.changes import Change


def follow(call: Call, change: Change) -> None:
    """Keeps the index rows in step; an index none of whose key attributes has come, gone or changed is left alone."""
    table, old, new = change.table, change.old, change.new
    if old is None or new is None:
        _come_or_gone(call, change)
        return
    moved = [name for name in table.index_kinds if old.get(name) != new.get(name)]
    if not moved:
        return
    tail = index_tail(table.key, new, change.key)
    execute = call.db.execute
    for index in table.index_list:
        if index.own_names.isdisjoint(moved):
            continue
        before, after = index.start(old), index.start(new)
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


def follow_many(call: Call, table: TableInfo, changes: Sequence[Change]) -> None:
    """The same for changes that follow one another: of what they do to a row, the last counts."""
    for index in table.index_list:
        left: dict[bytes, bytes | None] = {}
        for change in changes:
            _note(left, index, table, change)
        gone = [key for key, item_key in left.items() if item_key is None]
        put = [(key, item_key) for key, item_key in left.items() if item_key is not None]
        delete_keys(call, index.storage, gone)
        put_index_rows(call, index.storage, put)


def _note(left: dict[bytes, bytes | None], index: IndexInfo, table: TableInfo, change: Change) -> None:
    old, new = change.old, change.new
    if old is not None and new is not None and all(old.get(name) == new.get(name) for name in index.own_names):
        return
    before = None if old is None else index.start(old)
    after = None if new is None else index.start(new)
    if before == after:
        return
    tail = index_tail(table.key, new or old or {}, change.key)
    if before is not None:
        left[before + tail] = None
    if after is not None:
        left[after + tail] = change.key


def _come_or_gone(call: Call, change: Change) -> None:
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
            call.db.execute(index.sql_put, (start + tail, change.key))
        else:
            call.db.execute(index.sql_delete, (start + tail,))
