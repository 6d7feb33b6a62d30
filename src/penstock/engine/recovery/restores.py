"""Restored tables: a new table made of an old one's definition and items.

1. A small table is restored in one transaction; a large one in steps, while it is CREATING. Until it has all of its
   items nobody can read it.
2. It takes over keys, indexes, capacity mode and encryption, and nothing else: no tags, policy, TTL, stream, recovery,
   table class or deletion protection. An override may leave indexes out or rename them, never add one.
3. The record of a table that is being restored has "restore", which says what its items are copied from and which
   place has been reached. Its `active_at` lies beyond every clock until all items, and the rows of its indexes, are
   there: nobody reads or writes it before.
4. A backup does not change; it cannot be deleted while it is copied from.
5. A table at a time T is its items now, with every change undone from the first one made after T on (pitr_journal.py).
   That holds for each range of keys by itself, at whatever time it is copied. So each step first takes what is new in
   the journal: the keys that have changed since T (`t{id}_undo`), and of each the first earlier item; then it copies
   items that have not changed. The source cannot be deleted meanwhile, nor its recovery switched off, and the journal
   is not trimmed past T.
6. The place in the journal never lies behind its end, where numbers could be given again: an entry of no item, the
   bookmark, is always at the place or further on.
7. The indexes are filled in the order of their own keys. Nobody writes to the table yet, so that what was read of it
   stays true: entries are gathered from many items, a *run*, put in order, and then written. A page is written for
   several rows, where an index that is filled beside writers (index_backfill.py) writes one for each.
8. A run lies in memory, and is bounded. The place in the index's record moves on when all of the run is written: a run
   that was cut off is begun anew, and writes the same rows.
"""

from __future__ import annotations

import heapq
import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from copy import deepcopy
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import orjson

from penstock.engine import maintenance
from penstock.engine.catalog import row_keys
from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.table_schema import IndexInfo, Record, TableInfo, compile_table
from penstock.engine.items import index_backfill
from penstock.engine.maintenance import chore
from penstock.engine.settings import Scope
from penstock.engine.storage import file_format
from penstock.engine.storage.database_file import Connection
from penstock.errors import ValidationException
from penstock.wire.values import base64_text, binary

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

_TAKEN_OVER: Final = ("KeySchema", "OnDemandThroughput", "SSESpecification")
_ON_DEMAND: Final = "PAY_PER_REQUEST"
_PROVISIONED: Final = "PROVISIONED"


def restored_record(context: OperationContext, source: Record, request: Record) -> Record:
    """The record of the new table, by the source's record and the request's overrides."""
    record: Record = {name: deepcopy(source[name]) for name in _TAKEN_OVER if name in source}
    record["TableName"] = request["TargetTableName"]
    record["TableId"] = str(uuid4())
    record["created_at"] = context.now
    _set_capacity(record, source, request)
    _set_indexes(record, source, request)
    if "SSESpecificationOverride" in request:
        record["SSESpecification"] = request["SSESpecificationOverride"]
    record["AttributeDefinitions"] = _used_definitions(source, record)
    return record


def create(context: OperationContext, record: Record, copy: Callable[[str], None]) -> TableInfo:
    """Makes the table; `copy` puts the items into the SQL table whose name it is given."""
    table = index_backfill.create_table(context, context.scope, record)
    copy(table.storage)
    for index in table.index_list:
        if index.local:
            _fill_local(context, table, index)
    for name in [*(index.name for index in table.index_list if not index.local), *table.vectors]:
        table = _fill_global(context, table, name)
    return table


def _fill_local(context: OperationContext, table: TableInfo, index: IndexInfo) -> None:
    rows = context.db.execute(f"SELECT key, item FROM {table.storage} ORDER BY key")  # noqa: S608
    while batch := rows.fetchmany(index_backfill.FILL_STEP):
        entries = ((row_keys.index_key(index, orjson.loads(item), key), key) for key, item in batch)
        context.db.executemany(
            f"INSERT INTO {index.storage} (key, item_key) VALUES (?, ?)",  # noqa: S608
            [(entry, key) for entry, key in entries if entry is not None],
        )


def _fill_global(context: OperationContext, table: TableInfo, name: str) -> TableInfo:
    """Fills a small table's index at once; a large one's is filled in the background, as a new index is."""
    record: Record = deepcopy(dict(table.record))
    _index_record(index_backfill.index_records(record), name)["backfill_cursor"] = ""
    table = context.engine.catalog.save(context.db, table, record)
    rows = context.db.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM {table.storage} LIMIT ?)",  # noqa: S608
        (index_backfill.FILL_AT_ONCE + 1,),
    ).fetchone()[0]
    if rows > index_backfill.FILL_AT_ONCE:
        context.engine.maintenance.wake()
        return table
    index = index_backfill.index_named(table, name)
    assert index is not None
    return index_backfill.fill(context, table, index, index_backfill.FILL_AT_ONCE + 1)


def _index_record(indexes: list[Record], name: str) -> Record:
    return next(index for index in indexes if index["IndexName"] == name)


# ── overrides ────────────────────────────────────────────────────────────────────────────────────


def _set_capacity(record: Record, source: Record, request: Record) -> None:
    wanted = request.get("BillingModeOverride")
    units = request.get("ProvisionedThroughputOverride")
    mode = wanted or source.get("BillingMode", _PROVISIONED)
    if units is not None and mode == _ON_DEMAND:
        raise _invalid(
            "Cannot override ProvisionedThroughput if BillingMode is overridden to PAY_PER_REQUEST"
            if wanted
            else "Cannot override ProvisionedThroughput unless BillingMode is PROVISIONED"
        )
    if units is None and wanted == _PROVISIONED and source.get("BillingMode") == _ON_DEMAND:
        raise _invalid("Must override ProvisionedThroughput if BillingMode is overridden to PROVISIONED")
    record["BillingMode"] = mode
    record["ProvisionedThroughput"] = _throughput(units or source.get("ProvisionedThroughput"), mode)
    if mode == _ON_DEMAND:
        record["on_demand_since"] = round(record["created_at"], 3)
    _set_on_demand(record, request, mode)


def _set_on_demand(record: Record, request: Record, mode: str) -> None:
    maxima = request.get("OnDemandThroughputOverride")
    if mode == _PROVISIONED:
        record.pop("OnDemandThroughput", None)
        if maxima:
            raise _invalid(
                "Cannot override MaxReadRequestUnits for OnDemandThroughput unless "
                "BillingModeOverride is PAY_PER_REQUEST"
            )
    if maxima:
        for name, value in maxima.items():
            if value < 1 and value != -1:
                raise _invalid(f"Requested {name} for OnDemandThroughput is outside of valid range")
        record["OnDemandThroughput"] = dict(maxima)


def _set_indexes(record: Record, source: Record, request: Record) -> None:
    next_id = 1
    for kind, override in (
        ("LocalSecondaryIndexes", "LocalSecondaryIndexOverride"),
        ("GlobalSecondaryIndexes", "GlobalSecondaryIndexOverride"),
    ):
        old = [one for one in source.get(kind, ()) if "deleted_at" not in one]
        wanted = request.get(override)
        chosen = [(one, one) for one in old] if wanted is None else [_matched(old, one) for one in wanted]
        made = []
        for before, after in chosen:
            made.append(_index(record, before, after, next_id, kind, wanted is not None))
            next_id += 1
        if made:
            record[kind] = made
    vectors = _vector_indexes(source, request)
    if vectors and record["BillingMode"] != _ON_DEMAND:
        raise _invalid("Vector indexes are only supported for PAY_PER_REQUEST tables")
    if vectors:
        record["VectorIndexes"] = [one | {"id": number} for number, one in enumerate(vectors, next_id)]
    record["next_index_id"] = next_id + len(vectors)
    _refuse_repeated_names(record)


def _refuse_repeated_names(record: Record) -> None:
    """An override names indexes anew, and could give two of them one name."""
    seen: set[str] = set()
    for kind in ("LocalSecondaryIndexes", "GlobalSecondaryIndexes", "VectorIndexes"):
        for index in record.get(kind, ()):
            if index["IndexName"] in seen:
                raise ValidationException(
                    f"One or more parameter values were invalid: Duplicate index name: {index['IndexName']}"
                )
            seen.add(index["IndexName"])


_VECTOR_SHAPE: Final = ("VectorAttribute", "Dimensions", "DistanceFunction", "SearchSchema")


def _vector_indexes(source: Record, request: Record) -> list[Record]:
    """The vector indexes of the new table: the source's, or those of them that the override names anew."""
    old, wanted = [*source.get("VectorIndexes", ())], request.get("VectorIndexOverride")
    named = [(one, one["IndexName"]) for one in old]
    if wanted is not None:
        named = [(_matched_vectors(old, one), one["IndexName"]) for one in wanted]
    return [
        {
            "IndexName": name,
            **{member: one[member] for member in _VECTOR_SHAPE if member in one},
            "Projection": one["Projection"],
        }
        for one, name in named
    ]


def _matched_vectors(left: list[Record], wanted: Record) -> Record:
    for place, one in enumerate(left):
        if all(one.get(member) == wanted.get(member) for member in _VECTOR_SHAPE) and _shape(one) == _shape(wanted):
            return left.pop(place)
    raise _unknown_index(wanted["IndexName"])


def _matched(left: list[Record], wanted: Record) -> tuple[Record, Record]:
    """The source's index that the override means: the one of the same keys and projection, of those that are `left`.

    Each is made once: a table restored under other names has no more indexes than its source.
    """
    for place, one in enumerate(left):
        if one["KeySchema"] == wanted["KeySchema"] and _shape(one) == _shape(wanted):
            return left.pop(place), wanted
    raise _unknown_index(wanted["IndexName"])


def _unknown_index(name: str) -> ValidationException:
    return _invalid(
        f"Index {name} does not match a secondary index that existed in the source table "
        "and cannot be created during the restore operation"
    )


def _shape(index: Record) -> tuple[str, list[str]]:
    projection = index.get("Projection") or {}
    return projection.get("ProjectionType", "ALL"), sorted(projection.get("NonKeyAttributes", ()))


def _index(record: Record, before: Record, after: Record, index_id: int, kind: str, overridden: bool) -> Record:
    made: Record = {
        "id": index_id,
        "IndexName": after["IndexName"],
        "KeySchema": before["KeySchema"],
        "Projection": before["Projection"],
    }
    if kind == "LocalSecondaryIndexes":
        return made
    units = after.get("ProvisionedThroughput")
    if overridden:
        _check_index_units(record["BillingMode"], after["IndexName"], units)
    made["ProvisionedThroughput"] = _throughput(units, record["BillingMode"])
    if record["BillingMode"] == _ON_DEMAND and "OnDemandThroughput" in after:
        made["OnDemandThroughput"] = after["OnDemandThroughput"]
    return made


def _check_index_units(mode: str, name: str, units: Record | None) -> None:
    if mode == _PROVISIONED and units is None:
        raise _invalid(f"Must specify provisioned throughput for index {name}")
    if mode == _ON_DEMAND and units is not None:
        raise _invalid(
            f"Cannot override ProvisionedThroughput if BillingMode is overridden to PAY_PER_REQUEST for index {name}"
        )


def _throughput(units: Record | None, mode: str) -> Record:
    given = units if units is not None and mode == _PROVISIONED else {}
    return {
        "NumberOfDecreasesToday": 0,
        "ReadCapacityUnits": given.get("ReadCapacityUnits", 0),
        "WriteCapacityUnits": given.get("WriteCapacityUnits", 0),
    }


def _used_definitions(source: Record, record: Record) -> list[dict[str, Any]]:
    """The definitions of attributes that a key is left for."""
    schemas = [record["KeySchema"]]
    for kind in ("LocalSecondaryIndexes", "GlobalSecondaryIndexes"):
        schemas += [index["KeySchema"] for index in record.get(kind, ())]
    schemas += [index.get("SearchSchema", []) for index in record.get("VectorIndexes", ())]
    used = {part["AttributeName"] for schema in schemas for part in schema}
    return [one for one in source["AttributeDefinitions"] if one["AttributeName"] in used]


def _invalid(text: str) -> ValidationException:
    return ValidationException(f"Invalid Request: {text}")


# ── large tables, in steps ────────────────────────────────────────────────────────────────────────


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
    file_format.create_keys(context.db, _undo(table))
    return table


def begin_import(context: OperationContext, record: Record, transfer_id: int) -> TableInfo:
    """The same for items that an import brings (transfers/import_run.py), which says when it has brought them all."""
    return _begin(context, record, {"import": transfer_id, "cursor": ""})


def end_import(context: OperationContext, table: TableInfo) -> TableInfo:
    """All items are there: the indexes follow, and then the table is ACTIVE."""
    record = deepcopy(dict(table.record))
    record["restore"].pop("cursor", None)
    context.engine.maintenance.wake()
    return context.engine.catalog.save(context.db, table, record)


def _begin(context: OperationContext, record: Record, restore: Record) -> TableInfo:
    if "active_at" in record:
        restore["active_at"] = record["active_at"]
    record |= {"restore": restore, "active_at": _NOT_YET, "unsettled": True}
    for index in index_backfill.index_records(record):
        index["backfill_cursor"] = ""
    context.engine.maintenance.wake()
    return index_backfill.create_table(context, context.scope, record)


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
    if "import" in stale.record["restore"] and "cursor" in stale.record["restore"]:
        return False  # its items are still being imported
    unfilled = next((index for index in index_backfill.all_indexes(stale) if index.backfilling), None)
    if "cursor" not in stale.record["restore"] and unfilled is not None:
        if isinstance(unfilled, IndexInfo):
            fill_on(engine, stale, unfilled)
        else:
            _fill_vectors_on(engine, stale, unfilled.name)
        return True
    first = _first_place(engine, stale.record["restore"])
    with maintenance.step(engine, "restore") as (context, rows):
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
        if not maintenance.is_there(context.db, _source(restore)):
            _give_up(context, table)
            return True
        if not _copy(context, table, restore, rows):
            del restore["cursor"]
        engine.catalog.save(context.db, table, record)
    return True


def _fill_vectors_on(engine: Engine, stale: TableInfo, name: str) -> None:
    """One step of a vector index: its rows lie in the order in which they come."""
    with maintenance.step(engine, "vectors") as (context, rows):
        table = engine.catalog.find(context.db, stale.scope, stale.name)
        index = table.vectors.get(name) if table is not None and table.id == stale.id else None
        if table is not None and index is not None and index.backfilling:
            index_backfill.fill(context, table, index, rows)


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
    end = maintenance.range_end(db, source, after, rows)
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
    maintenance.discard(context, _undo(table))
    index_backfill.drop_table(context, table)


def _finish(context: OperationContext, table: TableInfo, record: Record) -> None:
    """The table is there."""
    restore = record.pop("restore")
    if "table" in restore:
        context.db.execute("DELETE FROM journal WHERE sequence = ?", (restore["bookmark"],))
        maintenance.discard(context, _undo(table))
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
            if size >= maintenance.MOST_BYTES:
                break
    return end


# ── their indexes ─────────────────────────────────────────────────────────────────────────────────


RUN_ROWS = 50_000
RUN_BYTES: Final = 16 * 1024 * 1024
"""Of keys in a run: with what Python needs for them it takes about twice as much."""


class Run:
    """What has been gathered from the place that the filling of an index has reached."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.end = binary(place)
        self.is_last = False
        self.is_gathered = False
        self.pieces: list[list[tuple[bytes, bytes]]] = []
        """Each in order. To sort all of a run at once would keep other threads waiting for tens of milliseconds."""
        self.in_order: Iterator[tuple[bytes, bytes]] = iter(())
        self.rows = 0
        """That are not written yet."""
        self.bytes = 0


def fill_on(engine: Engine, table: TableInfo, index: IndexInfo) -> None:
    """One step of filling an index of a table that nobody writes to."""
    runs = engine.maintenance.index_runs
    run, place = runs.get(index.storage), index.record["backfill_cursor"]
    if run is None or run.place != place:
        run = runs[index.storage] = Run(place)
    if not run.is_gathered:
        _gather(engine, table, index, run)
        return
    del runs[index.storage]  # unless all goes well: rows that were taken and not written are gathered again
    if _write(engine, table, index, run):
        runs[index.storage] = run


def _gather(engine: Engine, table: TableInfo, index: IndexInfo, run: Run) -> None:
    """Reads some items more. It needs no lock but Python's own, for which other threads wait: so it takes steps too."""
    sizes, began = engine.maintenance.step_sizes, perf_counter()
    with engine.reading() as context:
        end = maintenance.range_end(context.db, table.storage, run.end, sizes.rows("gather"))
        found = context.db.execute(
            f"SELECT key, item FROM {table.storage} WHERE key > ? AND key <= ?",  # noqa: S608
            (run.end, end or b""),
        ).fetchall()
    entries = ((row_keys.index_key(index, orjson.loads(item), key), key) for key, item in found)
    piece = sorted((entry, key) for entry, key in entries if entry is not None)
    run.pieces.append(piece)
    run.rows += len(piece)
    run.bytes += sum(len(entry) + len(key) for entry, key in piece)
    run.is_last = end is None
    run.end = end or run.end
    if run.is_last or run.rows >= RUN_ROWS or run.bytes >= RUN_BYTES:
        run.in_order = heapq.merge(*run.pieces)
        run.is_gathered = True
    sizes.note("gather", perf_counter() - began)


def _write(engine: Engine, stale: TableInfo, index: IndexInfo, run: Run) -> bool:
    """Writes some rows of the run; whether there are more, and they are still wanted."""
    with maintenance.step(engine, "run") as (context, rows):
        table = engine.catalog.find(context.db, stale.scope, stale.name)
        now = table.indexes.get(index.name) if table is not None and table.id == stale.id else None
        if table is None or now is None or now.record.get("backfill_cursor") != run.place:
            return False  # another process was first
        some = list(islice(run.in_order, rows))
        run.rows -= len(some)
        context.db.executemany(index.sql_put, some)
        if not run.rows:
            index_backfill.save_place(context, table, index.name, None if run.is_last else base64_text(run.end))
    return bool(run.rows)
