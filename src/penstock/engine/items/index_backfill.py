"""Tables and indexes as they come and go in the file.

1. A new index exists for writers from the moment its record is saved; items older than that are added by walking
   the table in key order, a bounded number in each transaction. The place reached is kept in the index's record
   (`backfill_cursor`, base64 of a row key), so that the walk goes on after a crash.
2. An item whose value the new index cannot hold is passed over, as DynamoDB does.
3. A small table's index is filled inside the call that makes it: there is then no waiting.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import orjson

from penstock.engine import maintenance
from penstock.engine.catalog import row_keys
from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.table_schema import IndexInfo, Record, TableInfo, VectorIndexInfo
from penstock.engine.items import pitr_journal, vector_rows
from penstock.engine.maintenance import chore
from penstock.engine.settings import Scope
from penstock.engine.storage import file_format
from penstock.wire.values import base64_text, binary

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

FILL_AT_ONCE = 5_000
"""Rows up to which an index is filled within the call that makes it."""

FILL_STEP = 1_000
"""The most rows in one background transaction (steps.py)."""


def create_table(context: OperationContext, scope: Scope, record: Record) -> TableInfo:
    """Adds the table to the catalog and makes its SQL tables. Each index record must have its `id`."""
    table = context.engine.catalog.add(context.db, scope, record)
    file_format.create_items(context.db, table.storage)
    for index in table.index_list:
        file_format.create_index(context.db, index.storage)
    for vectors in table.vectors.values():
        file_format.create_vectors(context.db, vectors.storage)
    return table


def drop_table(context: OperationContext, table: TableInfo) -> None:
    """Removes the table, its indexes and everything kept with it; what is large becomes garbage."""
    for index in all_indexes(table):
        maintenance.discard(context, index.storage)
    maintenance.discard(context, f"{table.storage}_ttl")
    backup = table.record.get("becomes_backup")
    if backup is None:
        maintenance.discard_items(context, table.storage)
    else:
        file_format.rename(context.db, table.storage, f"b{backup}")
        context.engine.maintenance.wake()
    pitr_journal.forget(context, table)
    context.engine.catalog.remove(context.db, table)


AnyIndex = IndexInfo | VectorIndexInfo


def all_indexes(table: TableInfo) -> list[AnyIndex]:
    """Every index of a table, of whichever kind."""
    return [*table.index_list, *table.vectors.values()]


def index_named(table: TableInfo | None, name: str) -> AnyIndex | None:
    return None if table is None else table.indexes.get(name) or table.vectors.get(name)


def add_index(context: OperationContext, table: TableInfo, record: Record, new: Record) -> TableInfo:
    """Saves `record`, in which the index `new` is new, and begins to fill that index."""
    new["backfill_cursor"] = ""
    table = context.engine.catalog.save(context.db, table, record)
    index = index_named(table, new["IndexName"])
    assert index is not None
    create = file_format.create_index if isinstance(index, IndexInfo) else file_format.create_vectors
    create(context.db, index.storage)
    rows = context.db.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM {table.storage} LIMIT ?)",  # noqa: S608
        (FILL_AT_ONCE + 1,),
    ).fetchone()[0]
    if rows > FILL_AT_ONCE:
        context.engine.maintenance.wake()
        return table
    return fill(context, table, index, FILL_AT_ONCE)


def drop_index(context: OperationContext, table: TableInfo, index: AnyIndex, record: Record) -> TableInfo:
    """Saves `record`, from which the index is gone, and drops the index's rows."""
    maintenance.discard(context, index.storage)
    return context.engine.catalog.save(context.db, table, record)


def fill(context: OperationContext, table: TableInfo, index: AnyIndex, most_rows: int) -> TableInfo:
    """Takes the filling of an index on by so many rows; saves the place reached."""
    cursor = binary(index.record["backfill_cursor"])
    rows = context.db.execute(
        f"SELECT key, item FROM {table.storage} WHERE key > ? ORDER BY key LIMIT ?",  # noqa: S608
        (cursor, most_rows),
    ).fetchall()
    put_rows(context, index, rows)
    place = base64_text(rows[-1][0]) if len(rows) == most_rows else None
    return save_place(context, table, index.name, place)


def put_rows(context: OperationContext, index: AnyIndex, items: Sequence[tuple[bytes, bytes]]) -> None:
    """Adds the rows of items, given as they lie in the file, to an index."""
    if isinstance(index, VectorIndexInfo):
        vector_rows.put_rows(context, index, items)
        return
    entries = ((row_keys.index_key(index, orjson.loads(item), key), key) for key, item in items)
    context.db.executemany(index.sql_put, [(entry, key) for entry, key in entries if entry is not None])


def save_place(context: OperationContext, table: TableInfo, index: str, place: str | None) -> TableInfo:
    """Saves how far an index is filled; None: all of it is."""
    record: dict[str, Any] = deepcopy(dict(table.record))
    for one in index_records(record):
        if one["IndexName"] != index:
            continue
        if place is None:
            del one["backfill_cursor"]
        else:
            one["backfill_cursor"] = place
    return context.engine.catalog.save(context.db, table, record)


def index_records(record: Record) -> list[Record]:
    """The records of all indexes in a table's record."""
    kinds = ("LocalSecondaryIndexes", "GlobalSecondaryIndexes", "VectorIndexes")
    return [one for kind in kinds for one in record.get(kind, ())]


@chore
def fill_indexes(engine: Engine) -> float | None:
    """One step of every index that is being filled."""
    more = False
    for table in _tables(engine):
        for index in all_indexes(table):
            if index.backfilling and "restore" not in table.record:  # else restores.py fills it
                more = _filled_on(engine, table, index.name) or more
    return 0.0 if more else None


def _filled_on(engine: Engine, table: TableInfo, name: str) -> bool:
    try:
        return _fill_step(engine, table, name)
    except sqlite3.DatabaseError as error:  # a damaged table keeps no other waiting
        engine.maintenance.pass_over(table.name, error)
        return False


def _fill_step(engine: Engine, stale: TableInfo, name: str) -> bool:
    with maintenance.step(engine, "fill") as (context, rows):
        table = engine.catalog.find(context.db, stale.scope, stale.name)
        index = index_named(table, name)
        if table is None or index is None or not index.backfilling or "restore" in table.record:
            return False
        filled = index_named(fill(context, table, index, min(rows, FILL_STEP)), name)
        return filled is not None and filled.backfilling


def _tables(engine: Engine) -> list[TableInfo]:
    with engine.reading() as context:
        return list(engine.catalog.all(context.db))
