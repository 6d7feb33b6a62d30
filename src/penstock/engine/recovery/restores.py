"""Restored tables: a new table made of an old one's definition and items.

1. A small table is restored in one transaction; a large one in steps, while it is CREATING (restore_steps.py). Until
   it has all of its items nobody can read it.
2. It takes over keys, indexes, capacity mode and encryption, and nothing else: no tags, policy, TTL, stream, recovery,
   table class or deletion protection.
3. An override may leave indexes out or rename them, never add one.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final
from uuid import uuid4

import orjson

from penstock.engine.catalog import index_backfill
from penstock.engine.catalog.table_schema import IndexInfo, Record, TableInfo
from penstock.engine.context import OperationContext
from penstock.errors import ValidationException

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
    for name in [index.name for index in table.index_list if not index.local]:
        table = _fill_global(context, table, name)
    return table


def _fill_local(context: OperationContext, table: TableInfo, index: IndexInfo) -> None:
    rows = context.db.execute(f"SELECT key, item FROM {table.storage} ORDER BY key")  # noqa: S608
    while batch := rows.fetchmany(index_backfill.FILL_STEP):
        entries = ((index.entry(orjson.loads(item), key), key) for key, item in batch)
        context.db.executemany(
            f"INSERT INTO {index.storage} (key, item_key) VALUES (?, ?)",  # noqa: S608
            [(entry, key) for entry, key in entries if entry is not None],
        )


def _fill_global(context: OperationContext, table: TableInfo, name: str) -> TableInfo:
    """Fills a small table's index at once; a large one's is filled in the background, as a new index is."""
    record: Record = deepcopy(dict(table.record))
    _named(record["GlobalSecondaryIndexes"], name)["backfill_cursor"] = ""
    table = context.engine.catalog.save(context.db, table, record)
    rows = context.db.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM {table.storage} LIMIT ?)",  # noqa: S608
        (index_backfill.FILL_AT_ONCE + 1,),
    ).fetchone()[0]
    if rows > index_backfill.FILL_AT_ONCE:
        context.engine.maintenance.wake()
        return table
    return index_backfill.fill(context, table, table.indexes[name], index_backfill.FILL_AT_ONCE + 1)


def _named(indexes: list[Record], name: str) -> Record:
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
    record["next_index_id"] = next_id


def _matched(old: list[Record], wanted: Record) -> tuple[Record, Record]:
    """The source's index that the override means: the one of the same keys and projection."""
    for one in old:
        if one["KeySchema"] == wanted["KeySchema"] and _shape(one) == _shape(wanted):
            return one, wanted
    raise _invalid(
        f"Index {wanted['IndexName']} does not match a secondary index that existed in the source table "
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
    used = {part["AttributeName"] for schema in schemas for part in schema}
    return [one for one in source["AttributeDefinitions"] if one["AttributeName"] in used]


def _invalid(text: str) -> ValidationException:
    return ValidationException(f"Invalid Request: {text}")
