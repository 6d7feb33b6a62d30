"""A table as DynamoDB describes it: its state, its size, its definition.

1. The state of a table or index is never stored: it follows from times in the record. While something is under way, a
   record has `active_at` (when a new table is ready), `updating_until`, `deleted_at` (when a deleted table is gone) and
   `unsettled`, which says that one of them may lie ahead. A global index has `active_at` and `updating_until`. An index
   that was just deleted lies in `dropped_indexes` until its time has come. All are absent where delays are zero.
2. DynamoDB counts items every six hours. Here a small table is counted exactly each time. A large one is counted so
   seldom that counting takes one per cent of the time; in between, the figures of the last count are given. A write
   transaction (`counts` is False) never counts a large one, because others wait for it: it gives the last figures, and
   where there are none the number that it has counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5
from weakref import WeakKeyDictionary

import orjson

from penstock.engine import streams
from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.table_schema import IndexInfo, Record, TableInfo, VectorIndexInfo
from penstock.engine.items import index_backfill, vector_rows
from penstock.engine.maintenance import chore
from penstock.errors import ResourceInUseException, ResourceNotFoundException
from penstock.wire.values import item_size

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

# ── states ────────────────────────────────────────────────────────────────────────────────────────


_IN_USE = "Attempt to change a resource which is still in use: "


def table_status(record: Mapping[str, Any], now: float) -> str:
    """CREATING, ACTIVE, UPDATING or DELETING."""
    if "deleted_at" in record:
        return "DELETING"
    if now < record.get("active_at", 0.0):
        return "CREATING"
    if now < record.get("updating_until", 0.0) or dropped_indexes(record, now):
        return "UPDATING"
    return "ACTIVE"


def index_status(record: Mapping[str, Any], index: Mapping[str, Any], now: float) -> str:
    """CREATING, ACTIVE or UPDATING, of a global index that is in the record."""
    if now < record.get("active_at", 0.0) or is_building(index, now):
        return "CREATING"
    return "UPDATING" if now < index.get("updating_until", 0.0) else "ACTIVE"


def is_building(index: Mapping[str, Any], now: float) -> bool:
    """Whether an index that was added to a table is not ready yet."""
    return now < index.get("active_at", 0.0) or "backfill_cursor" in index


def is_backfilling(record: Mapping[str, Any], index: Mapping[str, Any], now: float) -> bool:
    """Building, and past the time in which DynamoDB allocates resources (while the table is UPDATING)."""
    return is_building(index, now) and now >= record.get("updating_until", 0.0)


def online_indexes(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The records of indexes that come and go while the table is in use: global and vector indexes."""
    return [*record.get("GlobalSecondaryIndexes", ()), *record.get("VectorIndexes", ())]


def dropped_indexes(record: Mapping[str, Any], now: float) -> list[dict[str, Any]]:
    """Indexes that are still seen as DELETING."""
    return [index for index in record.get("dropped_indexes", ()) if now < index["deleted_at"]]


def is_gone(table: TableInfo, now: float) -> bool:
    """Whether the table's deletion is over, though its record may not have been swept yet."""
    end: float | None = table.record.get("deleted_at")
    return end is not None and now >= end


def find_table(context: OperationContext, name: str) -> TableInfo | None:
    """The table in whatever state it is in; None if there is none."""
    table = context.find(name)
    return None if table is None or is_gone(table, context.now) else table


def existing_table(context: OperationContext, name: str) -> TableInfo:
    """The same; ResourceNotFoundException if there is none."""
    table = find_table(context, name)
    if table is None:
        raise ResourceNotFoundException(f"Requested resource not found: Table: {name} not found")
    return table


def in_use(why: str) -> ResourceInUseException:
    return ResourceInUseException(_IN_USE + why)


def refuse_unless_active(table: TableInfo, now: float) -> None:
    """A table that is being made or deleted cannot be changed."""
    status = table_status(table.record, now)
    if status in ("CREATING", "DELETING"):
        what = "created" if status == "CREATING" else "deleted"
        raise in_use(f"Table is being {what}: {table.name}")


def changed(table: TableInfo) -> Record:
    """A copy of the table's record, to be changed and saved."""
    return deepcopy(dict(table.record))


def delay(context: OperationContext, record: Record, member: str) -> None:
    """Puts the end of a table's transition into the record, if there is a delay at all."""
    seconds = context.engine.settings.table_delay_seconds
    if seconds > 0:
        record[member] = context.now + seconds
        unsettle(context, record)


def unsettle(context: OperationContext, record: Record) -> None:
    """Notes that the record has a time ahead of it."""
    record["unsettled"] = True
    context.engine.maintenance.wake()


@chore
def settle_tables(engine: Engine) -> float | None:
    """Removes deleted tables, and times that have passed, from the file."""
    waits = []
    with engine.reading() as context:
        unsettled = [table for table in engine.catalog.all(context.db) if "unsettled" in table.record]
    for stale in unsettled:
        with engine.writing() as context:
            table = engine.catalog.find(context.db, stale.scope, stale.name)
            wait = None if table is None or table.id != stale.id else _settle(context, table)
        if wait is not None:
            waits.append(wait)
    return min(waits, default=None)


def _settle(context: OperationContext, table: TableInfo) -> float | None:
    """One table; seconds until its next time comes, or None if it has none left."""
    if is_gone(table, context.now):
        index_backfill.drop_table(context, table)
        return 0.0  # what it leaves is swept
    ahead = [time for time in _times(table.record) if time > context.now]
    if ahead:
        return min(ahead) - context.now
    record = changed(table)
    for part in (record, *online_indexes(record)):
        for member in ("active_at", "updating_until"):
            part.pop(member, None)
    record.pop("dropped_indexes", None)
    record.pop("unsettled", None)
    context.engine.catalog.save(context.db, table, record)
    return None


def _times(record: Mapping[str, Any]) -> list[float]:
    parts = (record, *online_indexes(record), *record.get("dropped_indexes", ()))
    return [part[m] for part in parts for m in ("active_at", "updating_until", "deleted_at") if m in part]


# ── sizes ─────────────────────────────────────────────────────────────────────────────────────────


COUNTED_EXACTLY = 5_000
"""Rows up to which a table is counted each time: a millisecond or two."""

_COUNTING_CACHE_BYTES = 1024 * 1024
_SAMPLED_ITEMS = 100
_REST_PER_WORK = 100


class Size(NamedTuple):
    items: int
    bytes: int


class _Counted(NamedTuple):
    size: Size
    good_until: float


# The figures of large tables' last counts, for each engine, by the SQL table that was counted.
_COUNTED: WeakKeyDictionary[Engine, dict[str, _Counted]] = WeakKeyDictionary()


def size_of_table(context: OperationContext, table: TableInfo, *, counts: bool = True) -> Size:
    size = _size(context, table.storage, f"SELECT size FROM {table.storage}", counts)  # noqa: S608
    return size if not table.vectors else size._replace(bytes=max(0, size.bytes - _saved(context, table, counts)))


def _saved(context: OperationContext, table: TableInfo, counts: bool) -> int:
    """Bytes by which the table counts for less because vectors are indexed: each attribute once."""
    saved: dict[str, int] = {}
    for index in table.vectors.values():
        rows = f"SELECT saved AS size FROM {index.storage} WHERE vector IS NOT NULL"  # noqa: S608
        of_index = _size(context, f"{index.storage} saved", rows, counts).bytes
        saved[index.attribute] = max(saved.get(index.attribute, 0), of_index)
    return sum(saved.values())


def size_of_vectors(context: OperationContext, table: TableInfo, index: VectorIndexInfo, *, counts: bool) -> Size:
    """A vector index's; its bytes as those of the others."""
    rows = f"SELECT 0 AS size FROM {index.storage} WHERE vector IS NOT NULL"  # noqa: S608
    entries = _size(context, index.storage, rows, counts).items
    sample = context.db.execute(
        f"SELECT item FROM (SELECT key FROM {index.storage} WHERE vector IS NOT NULL LIMIT {_SAMPLED_ITEMS}) "  # noqa: S608
        f"JOIN {table.storage} USING (key)"
    ).fetchall()
    sizes = [vector_rows.entry_bytes(index, orjson.loads(item)) for (item,) in sample]
    return Size(entries, round(entries * sum(sizes) / len(sizes)) if sizes else 0)


def size_of_index(context: OperationContext, table: TableInfo, index: IndexInfo, *, counts: bool = True) -> Size:
    """An index's bytes are the number of its entries times the mean size of some of its items."""
    entries = _size(context, index.storage, f"SELECT 0 AS size FROM {index.storage}", counts).items  # noqa: S608
    return Size(entries, round(entries * _mean_bytes(context, table, index)))


def _size(context: OperationContext, storage: str, rows: str, counts: bool) -> Size:
    counted = _COUNTED.setdefault(context.engine, {})
    known = counted.get(storage)
    if known is not None and (perf_counter() < known.good_until or not counts):
        return known.size
    started = perf_counter()
    size = _count(context, f"{rows} LIMIT {COUNTED_EXACTLY + 1}")
    if size.items > COUNTED_EXACTLY and counts:
        size = _count_large(context, rows)
        took = perf_counter() - started
        counted[storage] = _Counted(size, perf_counter() + took * _REST_PER_WORK)
    return size


def _count(context: OperationContext, rows: str) -> Size:
    row = context.db.execute(f"SELECT count(*), coalesce(sum(size), 0) FROM ({rows})").fetchone()  # noqa: S608
    return Size(*row)


def _count_large(context: OperationContext, rows: str) -> Size:
    """The same; of the pages that are read for it, which nobody needs again, few are kept in memory."""
    (usual,) = context.db.execute("PRAGMA cache_size").fetchone()
    context.db.execute(f"PRAGMA cache_size = {-_COUNTING_CACHE_BYTES // 1024}")
    try:
        return _count(context, rows)
    finally:
        context.db.execute(f"PRAGMA cache_size = {usual}")


def _mean_bytes(context: OperationContext, table: TableInfo, index: IndexInfo) -> float:
    items = context.db.execute(
        f"SELECT item FROM (SELECT item_key FROM {index.storage} LIMIT {_SAMPLED_ITEMS}) "  # noqa: S608
        f"JOIN {table.storage} ON key = item_key"
    ).fetchall()
    sizes = [item_size(index.view(orjson.loads(item))) for (item,) in items]
    return sum(sizes) / len(sizes) if sizes else 0.0


# ── descriptions ──────────────────────────────────────────────────────────────────────────────────


ON_DEMAND_WARM = {"ReadUnitsPerSecond": 12_000, "WriteUnitsPerSecond": 4_000}
"""What a new on-demand table can take at once."""

NO_THROUGHPUT = {"NumberOfDecreasesToday": 0, "ReadCapacityUnits": 0, "WriteCapacityUnits": 0}

_NOTHING = Size(0, 0)


def describe(context: OperationContext, table: TableInfo, *, counts: bool = True) -> dict[str, Any]:
    """What DescribeTable answers. Inside a write transaction large tables are not counted (table_description.py)."""
    record = table.record
    description = describe_briefly(context, table, size_of_table(context, table, counts=counts), counts=counts)
    description["WarmThroughput"] = warm_throughput(record) | {"Status": "ACTIVE"}
    for index in description.get("GlobalSecondaryIndexes", ()):
        if "WarmThroughput" not in index and index["IndexStatus"] != "DELETING":
            index["WarmThroughput"] = index_warm_throughput(record, index) | {"Status": index["IndexStatus"]}
    return description


def index_warm_throughput(table: Mapping[str, Any], index: Mapping[str, Any]) -> dict[str, int]:
    """The same of a global index, which has its table's capacity mode."""
    return warm_throughput({**index, "BillingMode": billing_mode(table)})


def describe_briefly(
    context: OperationContext, table: TableInfo, size: Size = _NOTHING, *, counts: bool = False
) -> dict[str, Any]:
    """The same without what was never asked for, as CreateTable answers."""
    record = table.record
    return {
        "AttributeDefinitions": sorted(record["AttributeDefinitions"], key=lambda one: str(one["AttributeName"])),
        "TableName": table.name,
        "KeySchema": record["KeySchema"],
        "TableStatus": table_status(record, context.now),
        "CreationDateTime": round(record["created_at"], 3),
        "ProvisionedThroughput": throughput(record),
        "TableSizeBytes": size.bytes,
        "ItemCount": size.items,
        "TableArn": table.arn,
        "TableId": record["TableId"],
        **_billing(record),
        **_indexes(context, table, counts),
        **streams.describe(table.scope, dict(record)),
        **_settings(table),
        **_restore(context, record),
        "DeletionProtectionEnabled": record.get("DeletionProtectionEnabled", False),
    }


def warm_throughput(record: Mapping[str, Any]) -> dict[str, int]:
    """What the table can take at once: what was asked for, or what its capacity mode gives."""
    if billing_mode(record) == "PAY_PER_REQUEST":
        given = dict(ON_DEMAND_WARM)
    else:
        units = throughput(record)
        given = {
            "ReadUnitsPerSecond": units["ReadCapacityUnits"],
            "WriteUnitsPerSecond": units["WriteCapacityUnits"],
        }
    return given | (record.get("WarmThroughput") or {})


def billing_mode(record: Mapping[str, Any]) -> str:
    mode: str = record.get("BillingMode") or "PROVISIONED"
    return mode


def throughput(record: Mapping[str, Any]) -> dict[str, Any]:
    """A table's or an index's; nothing where it is on demand."""
    return NO_THROUGHPUT | (record.get("ProvisionedThroughput") or {})


def _billing(record: Mapping[str, Any]) -> dict[str, Any]:
    """Absent from a table that was always provisioned."""
    mode = billing_mode(record)
    since = record.get("on_demand_since")
    if mode == "PROVISIONED" and since is None:
        return {}
    last = {} if since is None else {"LastUpdateToPayPerRequestDateTime": since}
    return {
        "BillingModeSummary": {"BillingMode": mode, **last},
        "TableThroughputModeSummary": {"TableThroughputMode": mode, **last},
    }


def _indexes(context: OperationContext, table: TableInfo, counts: bool) -> dict[str, Any]:
    if "deleted_at" in table.record:
        return {}
    local = [_index(context, table, index, counts) for index in table.index_list if index.local]
    world = [
        _index(context, table, index, counts) | _global_state(context, table, index)
        for index in table.index_list
        if not index.local
    ]
    gone = dropped_indexes(table.record, context.now)
    world += [dropped(table, index) for index in gone if "VectorAttribute" not in index]
    vectors = [
        _vector_index(context, table, table.vectors[one["IndexName"]], counts)
        for one in table.record.get("VectorIndexes", ())
    ]
    vectors += [dropped(table, index) for index in gone if "VectorAttribute" in index]
    return {
        **({"LocalSecondaryIndexes": local} if local else {}),
        **({"GlobalSecondaryIndexes": world} if world else {}),
        **({"VectorIndexes": vectors} if vectors else {}),
    }


def _vector_index(context: OperationContext, table: TableInfo, index: VectorIndexInfo, counts: bool) -> dict[str, Any]:
    record, now = index.record, context.now
    size = size_of_vectors(context, table, index, counts=counts)
    state: dict[str, Any] = {"IndexStatus": index_status(table.record, record, now)}
    if is_building(record, now):
        state["Backfilling"] = is_backfilling(table.record, record, now)
    return _index_shape(table, record) | state | {"IndexSizeBytes": size.bytes, "ItemCount": size.items}


def _index(context: OperationContext, table: TableInfo, index: IndexInfo, counts: bool) -> dict[str, Any]:
    size = size_of_index(context, table, index, counts=counts)
    return _index_shape(table, index.record) | {"IndexSizeBytes": size.bytes, "ItemCount": size.items}


_SHAPE = ("IndexName", "KeySchema", "VectorAttribute", "Dimensions", "DistanceFunction", "SearchSchema", "Projection")


def _index_shape(table: TableInfo, record: Mapping[str, Any]) -> dict[str, Any]:
    given = {member: record[member] for member in _SHAPE if member in record}
    return given | {"IndexArn": f"{table.arn}/index/{record['IndexName']}"}


def _global_state(context: OperationContext, table: TableInfo, index: IndexInfo) -> dict[str, Any]:
    record = index.record
    state: dict[str, Any] = {
        "IndexStatus": index_status(table.record, record, context.now),
        "ProvisionedThroughput": throughput(record),
    }
    if is_building(record, context.now):
        state["Backfilling"] = is_backfilling(table.record, record, context.now)
    if "OnDemandThroughput" in record:
        state["OnDemandThroughput"] = record["OnDemandThroughput"]
    if "WarmThroughput" in record:
        warm = index_warm_throughput(table.record, record)
        state["WarmThroughput"] = warm | {"Status": state["IndexStatus"]}
    return state


def dropped(table: TableInfo, record: Mapping[str, Any]) -> dict[str, Any]:
    """An index that was just deleted."""
    units = {} if "VectorAttribute" in record else {"ProvisionedThroughput": throughput(record)}
    return _index_shape(table, record) | {"IndexStatus": "DELETING", **units, "IndexSizeBytes": 0, "ItemCount": 0}


def _settings(table: TableInfo) -> dict[str, Any]:
    record = table.record
    description: dict[str, Any] = {}
    if (record.get("SSESpecification") or {}).get("Enabled"):
        description["SSEDescription"] = encryption(table)
    if "TableClass" in record:
        description["TableClassSummary"] = {"TableClass": record["TableClass"]}
    if "OnDemandThroughput" in record:
        description["OnDemandThroughput"] = record["OnDemandThroughput"]
    if "WarmThroughput" in record:
        description["WarmThroughput"] = warm_throughput(record) | {"Status": "ACTIVE"}
    return description


def _restore(context: OperationContext, record: Mapping[str, Any]) -> dict[str, Any]:
    """Where a table is being restored from; DynamoDB no longer tells once it is ACTIVE."""
    is_restoring = "RestoreSummary" in record and context.now < record.get("active_at", 0.0)
    return {"RestoreSummary": record["RestoreSummary"]} if is_restoring else {}


def encryption(table: TableInfo) -> dict[str, Any]:
    return {"Status": "ENABLED", "SSEType": "KMS", "KMSMasterKeyArn": key_arn(table)}


def key_arn(table: TableInfo) -> str:
    """The ARN of a key, whatever the table was given: an alias stands for one key of its account and region."""
    scope = table.scope
    key: str = (table.record.get("SSESpecification") or {}).get("KMSMasterKeyId", "alias/aws/dynamodb")
    own = f"arn:aws:kms:{scope.region}:{scope.account}:"
    if key.startswith("arn:") and ":alias/" not in key:
        return key
    alias = key.removeprefix(own)
    if alias.startswith(("alias/", "arn:")):
        key = str(uuid5(NAMESPACE_URL, own + alias))
    return f"{own}key/{key}"
