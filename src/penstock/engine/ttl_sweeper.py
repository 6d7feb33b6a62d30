"""The TTL sweeper: deletes items that have ended, late as DynamoDB does.

1. An item is deleted only if its attribute, read in the deleting transaction, says that it has ended: a write that
   gave it more time is never lost.
2. Deletions go the way of every other change, so that indexes, streams and the journal follow.
3. Each transaction is bounded; a table whose TTL was switched off meanwhile is left alone.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

import orjson

from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.table_schema import TableInfo, compile_table
from penstock.engine.items import expiry_rows, write_steps
from penstock.engine.items.index_backfill import FILL_STEP
from penstock.engine.maintenance import chore
from penstock.engine.settings import Scope
from penstock.wire.values import Item

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

SWEEP_STEP: Final = 200
"""Items deleted in one transaction: some milliseconds in which other writers wait."""


@chore
def sweep(engine: Engine) -> float | None:
    """One step for each table with TTL; seconds until the next one has something to do."""
    waits = [wait or _swept(engine, table) for table, wait in _tables_with_ttl(engine)]
    # Another process, or a put, may bring an earlier end than those we know: nobody wakes us for that.
    return min([*waits, engine.settings.ttl_sweep_seconds]) if waits else None


def _swept(engine: Engine, table: TableInfo) -> float:
    try:
        return _sweep_table(engine, table)
    except sqlite3.DatabaseError as error:
        engine.maintenance.pass_over(table.name, error)
        return engine.settings.ttl_sweep_seconds


def _sweep_table(engine: Engine, stale: TableInfo) -> float:
    with engine.writing() as context:
        table = engine.catalog.find(context.db, stale.scope, stale.name)
        if table is None or table.id != stale.id or not _is_due(context, table):
            return engine.settings.ttl_sweep_seconds
        if expiry_rows.is_filling(table):
            table = expiry_rows.fill(context, table, FILL_STEP)
        _delete_expired(context, table)
        return 0.0 if expiry_rows.is_filling(table) else _wait(context, table)


def _is_due(context: OperationContext, table: TableInfo) -> bool:
    return table.ttl_attribute is not None and context.is_ready(table)


def _wait(context: OperationContext, table: TableInfo) -> float:
    """Seconds until the table's next deletion."""
    settings = context.engine.settings
    end = expiry_rows.next_end(context, table)
    if end is None:
        return settings.ttl_sweep_seconds
    return max(0.0, end + settings.ttl_lag_seconds - context.now)


def _delete_expired(context: OperationContext, table: TableInfo) -> None:
    until = context.now - context.engine.settings.ttl_lag_seconds
    for at, key in expiry_rows.expired_rows(context, table, until, SWEEP_STEP):
        old = write_steps.old_item(context, table, key)
        if old is None or not _has_expired(context, table, old, until):
            expiry_rows.forget(context, table, at, key)
            continue
        write_steps.write(context, write_steps.Change(table, key, old, None, by_ttl=True))
        # The item's own end may have been another one than this row's.
        expiry_rows.forget(context, table, at, key)


def _has_expired(context: OperationContext, table: TableInfo, item: Item, until: float) -> bool:
    assert table.ttl_attribute is not None
    end = expiry_rows.expiry(item, table.ttl_attribute)
    return end is not None and context.now - expiry_rows.LONGEST_PAST_SECONDS <= end <= until


def _tables_with_ttl(engine: Engine) -> list[tuple[TableInfo, float]]:
    """Tables with TTL, and the seconds until each has something to do."""
    with engine.reading() as context:
        # One snapshot: a TTL that is being switched off takes its SQL table with it.
        context.db.execute("BEGIN")
        try:
            return [
                (table, wait) for table in _with_ttl(context) if (wait := _wait_or_damage(context, table)) is not None
            ]
        finally:
            context.db.execute("ROLLBACK")


def _wait_or_damage(context: OperationContext, table: TableInfo) -> float | None:
    """The same; None for a table that cannot be read: the others do not wait for it."""
    try:
        return 0.0 if expiry_rows.is_filling(table) else _wait(context, table)
    except sqlite3.DatabaseError as error:
        context.engine.maintenance.pass_over(table.name, error)
        return None


def _with_ttl(context: OperationContext) -> list[TableInfo]:
    # The text is looked for in SQL: a thousand tables without TTL are not decoded each second.
    rows = context.db.execute(
        "SELECT id, account, region, record FROM tables WHERE instr(record, ?) ORDER BY id", (b'"ttl":{',)
    ).fetchall()
    found = (compile_table(row[0], Scope(row[1], row[2]), orjson.loads(row[3])) for row in rows)
    return [table for table in found if table.ttl_attribute is not None]
