"""Large tables are restored in steps, while the new table is CREATING.

1. The record of a table that is being restored has "restore", which says what its items are copied from and which
   place has been reached. Its `active_at` lies beyond every clock until all items, and the rows of its indexes, are
   there: nobody reads or writes it before.
2. A backup does not change; it cannot be deleted while it is copied from.
3. A table at a time T is its items now, with every change undone from the first one made after T on (journal.py). That
   holds for each range of keys by itself, at whatever time it is copied. So each step first takes what is new in the
   journal: the keys that have changed since T (`t{id}_undo`), and of each the first earlier item; then it copies items
   that have not changed. The source cannot be deleted meanwhile, nor its recovery switched off, and the journal is not
   trimmed past T.
4. The place in the journal never lies behind its end, where numbers could be given again: an entry of no item, the
   bookmark, is always at the place or further on.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from copy import deepcopy
from typing import TYPE_CHECKING, Final

import orjson

from penstock.engine.catalog import index_backfill
from penstock.engine.catalog.table_schema import Record, TableInfo, compile_table
from penstock.engine.context import OperationContext
from penstock.engine.maintenance import dropped_tables, steps
from penstock.engine.maintenance.maintenance import chore
from penstock.engine.recovery import restored_indexes
from penstock.engine.settings import Scope
from penstock.engine.storage import database_file
from penstock.engine.storage.database_file import Connection
from penstock.wire.values import base64_text, binary

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

_LOG = logging.getLogger(__name__)

_NOT_YET: Final = float(2**53)
"""The `active_at` of a table that is not ready: programs that know nothing of steps see it CREATING, too."""


def begin_from_backup(context: OperationContext, record: Record, backup_id: int) -> TableInfo:
    """Makes the table; its items follow in the background."""
    return _begin(context, record, {"backup": backup_id, "cursor": ""})


def begin_from_journal(context: OperationContext, record: Record, source: TableInfo, at: float) -> TableInfo:
    """The same for the items that another table had at a time."""
    restore = {"table": source.id, "at": at, "cursor": "", "bookmark": _put_bookmark(context, source.id, at)}
    table = _begin(context, record, restore)
    database_file.create_keys(context.db, _undo(table))
    return table


def _begin(context: OperationContext, record: Record, restore: Record) -> TableInfo:
    if "active_at" in record:
        restore["active_at"] = record["active_at"]
    record |= {"restore": restore, "active_at": _NOT_YET, "unsettled": True}
    for index in _indexes(record):
        index["backfill_cursor"] = ""
    context.engine.maintenance.wake()
    return index_backfill.create_table(context, context.scope, record)


def _indexes(record: Record) -> list[Record]:
    return [*record.get("LocalSecondaryIndexes", ()), *record.get("GlobalSecondaryIndexes", ())]


def _undo(table: TableInfo) -> str:
    """The SQL table of the keys that have changed since the time that the table is restored to."""
    return f"{table.storage}_undo"


# ── steps ────────────────────────────────────────────────────────────────────────────────────────


@chore
def restore_tables(engine: Engine) -> float | None:
    """One step of every table that is being restored."""
    more = False
    for table in _restored_now(engine):
        if engine.maintenance.is_passed_over(table.name):
            continue
        try:
            more = _restore_on(engine, table) or more
        except sqlite3.DatabaseError as error:  # a damaged backup keeps no other table waiting
            engine.maintenance.pass_over(table.name, error)
    return 0.0 if more else None


def _restored_now(engine: Engine) -> list[TableInfo]:
    with engine.reading() as context:
        rows = context.db.execute(
            "SELECT id, account, region, record FROM tables WHERE instr(record, ?) ORDER BY id", (b'"restore":{',)
        ).fetchall()
    found = (compile_table(row[0], Scope(row[1], row[2]), orjson.loads(row[3])) for row in rows)
    return [table for table in found if "restore" in table.record]


def _restore_on(engine: Engine, stale: TableInfo) -> bool:
    """One step; whether there are more."""
    unfilled = next((index for index in stale.index_list if index.backfilling), None)
    if "cursor" not in stale.record["restore"] and unfilled is not None:
        restored_indexes.fill_on(engine, stale, unfilled)
        return True
    first = _first_place(engine, stale.record["restore"])
    with steps.step(engine, "restore") as (context, rows):
        table = engine.catalog.find(context.db, stale.scope, stale.name)
        if table is None or table.id != stale.id or "restore" not in table.record:
            return False  # another process was first
        record: Record = deepcopy(dict(table.record))
        restore = record["restore"]
        if "table" in restore:
            restore.setdefault("place", first)
        if "cursor" not in restore:
            _finish(context, table, record)
            return True  # to settle it, and to sweep what it needed
        if not dropped_tables.is_there(context.db, _source(restore)):
            _give_up(context, table)
            return True
        if not _copy(context, table, restore, rows):
            del restore["cursor"]
        engine.catalog.save(context.db, table, record)
    return True


def _copy(context: OperationContext, table: TableInfo, restore: Record, rows: int) -> bool:
    """Copies some items; whether there may be more."""
    db = context.db
    if "backup" in restore:
        return _copy_range(db, table, restore, _source(restore), rows, "")
    if not _take_journal(context, table, restore, rows):
        return True  # all that has changed must be known before an item is copied
    source = _source(restore)
    unchanged = f"AND NOT EXISTS (SELECT 1 FROM {_undo(table)} AS changed WHERE changed.key = {source}.key)"  # noqa: S608
    return _copy_range(db, table, restore, source, rows, unchanged)


def _copy_range(db: Connection, table: TableInfo, restore: Record, source: str, rows: int, which: str) -> bool:
    after = binary(restore["cursor"])
    end = steps.range_end(db, source, after, rows)
    if end is None:
        return False
    db.execute(
        f"INSERT OR IGNORE INTO {table.storage} SELECT key, size, item FROM {source} "  # noqa: S608
        f"WHERE key > ? AND key <= ? {which}",
        (after, end),
    )
    restore["cursor"] = base64_text(end)
    return True


def _source(restore: Record) -> str:
    """The SQL table that items are copied from."""
    return f"b{restore['backup']}" if "backup" in restore else f"t{restore['table']}"


def _give_up(context: OperationContext, table: TableInfo) -> None:
    """An older program has deleted the source meanwhile: what is there is not the whole of any moment."""
    _LOG.error("The table %s could not be restored: its source is gone.", table.name)
    dropped_tables.discard(context, _undo(table))
    index_backfill.drop_table(context, table)


def _finish(context: OperationContext, table: TableInfo, record: Record) -> None:
    """The table is there."""
    restore = record.pop("restore")
    if "table" in restore:
        context.db.execute("DELETE FROM journal WHERE sequence = ?", (restore["bookmark"],))
        dropped_tables.discard(context, _undo(table))
    record["active_at"] = restore.get("active_at", context.now)
    context.engine.catalog.save(context.db, table, record)


# ── the journal ──────────────────────────────────────────────────────────────────────────────────


def _put_bookmark(context: OperationContext, source_id: int, at: float) -> int:
    """Adds the entry of no item, and no earlier than `at`, which nothing trims. Its number."""
    cursor = context.db.execute(
        "INSERT INTO journal (table_id, at, key, size, item) VALUES (?, ?, x'', NULL, NULL)",
        (source_id, max(context.now, at)),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _first_place(engine: Engine, restore: Record) -> int | None:
    """The number before that of the first change to undo. To look for it takes no lock, and needs to be done once."""
    if "table" not in restore or "place" in restore:
        return None
    with engine.reading() as context:
        first = context.db.execute(
            "SELECT min(sequence) FROM journal WHERE table_id = ? AND at > ?", (restore["table"], restore["at"])
        ).fetchone()[0]
    bookmark: int = restore["bookmark"]
    return min(bookmark, first or bookmark) - 1


def _take_journal(context: OperationContext, table: TableInfo, restore: Record, rows: int) -> bool:
    """Takes some entries; whether there are no more, as this transaction sees it."""
    db, undo = context.db, _undo(table)
    end = _journal_end(db, restore, rows)
    if end is None:
        return True
    bounds = {"table": restore["table"], "place": restore["place"], "end": end}
    db.execute(
        f"INSERT OR IGNORE INTO {table.storage} SELECT key, size, item FROM journal "  # noqa: S608
        "WHERE item IS NOT NULL AND sequence IN (SELECT min(sequence) FROM journal "
        "WHERE sequence > :place AND sequence <= :end AND table_id = :table GROUP BY key) "
        f"AND NOT EXISTS (SELECT 1 FROM {undo} AS changed WHERE changed.key = journal.key)",
        bounds,
    )
    db.execute(
        f"INSERT OR IGNORE INTO {undo} SELECT key FROM journal "  # noqa: S608
        "WHERE sequence > :place AND sequence <= :end AND table_id = :table",
        bounds,
    )
    is_last = bool(db.execute("SELECT max(sequence) <= ? FROM journal", (end,)).fetchone()[0])
    if end >= restore["bookmark"]:
        db.execute("DELETE FROM journal WHERE sequence = ?", (restore["bookmark"],))
        restore["bookmark"] = _put_bookmark(context, restore["table"], restore["at"])
    restore["place"] = end
    return is_last


def _journal_end(db: Connection, restore: Record, rows: int) -> int | None:
    """The number of the last of the next entries, so many or so large; None where there are none."""
    end, size = None, 0
    found = db.execute(
        "SELECT sequence, table_id, size FROM journal WHERE sequence > ? ORDER BY sequence LIMIT ?",
        (restore["place"], rows),
    )
    with closing(found):
        for sequence, table_id, item_bytes in found:
            end = sequence
            size += (item_bytes or 0) if table_id == restore["table"] else 0
            if size >= steps.MOST_BYTES:
                break
    return end
