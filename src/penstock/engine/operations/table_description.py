"""A table as DynamoDB describes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.engine.catalog.table_schema import IndexInfo, TableInfo
from penstock.engine.context import OperationContext
from penstock.engine.operations.table_sizes import Size, size_of_index, size_of_table
from penstock.engine.operations.table_states import (
    dropped_indexes,
    index_status,
    is_backfilling,
    is_building,
    table_status,
)
from penstock.engine.streams import stream_records

ON_DEMAND_WARM = {"ReadUnitsPerSecond": 12_000, "WriteUnitsPerSecond": 4_000}
"""What a new on-demand table can take at once."""

NO_THROUGHPUT = {"NumberOfDecreasesToday": 0, "ReadCapacityUnits": 0, "WriteCapacityUnits": 0}

_NOTHING = Size(0, 0)


def describe(context: OperationContext, table: TableInfo, *, counts: bool = True) -> dict[str, Any]:
    """What DescribeTable answers. Inside a write transaction large tables are not counted (table_sizes.py)."""
    record = table.record
    description = describe_briefly(context, table, size_of_table(context, table, counts=counts), counts=counts)
    description["DeletionProtectionEnabled"] = record.get("DeletionProtectionEnabled", False)
    description["WarmThroughput"] = warm_throughput(record) | {"Status": "ACTIVE"}
    return description


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
        **stream_records.described(table.scope, dict(record)),
        **_settings(table),
        **_restore(context, record),
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
    world += [_dropped(table, index) for index in dropped_indexes(table.record, context.now)]
    return {
        **({"LocalSecondaryIndexes": local} if local else {}),
        **({"GlobalSecondaryIndexes": world} if world else {}),
    }


def _index(context: OperationContext, table: TableInfo, index: IndexInfo, counts: bool) -> dict[str, Any]:
    size = size_of_index(context, table, index, counts=counts)
    return _index_shape(table, index.record) | {"IndexSizeBytes": size.bytes, "ItemCount": size.items}


def _index_shape(table: TableInfo, record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "IndexName": record["IndexName"],
        "KeySchema": record["KeySchema"],
        "Projection": record["Projection"],
        "IndexArn": f"{table.arn}/index/{record['IndexName']}",
    }


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
        state["WarmThroughput"] = record["WarmThroughput"] | {"Status": "ACTIVE"}
    return state


def _dropped(table: TableInfo, record: Mapping[str, Any]) -> dict[str, Any]:
    return _index_shape(table, record) | {
        "IndexStatus": "DELETING",
        "ProvisionedThroughput": throughput(record),
        "IndexSizeBytes": 0,
        "ItemCount": 0,
    }


def _settings(table: TableInfo) -> dict[str, Any]:
    record = table.record
    shown: dict[str, Any] = {}
    if (record.get("SSESpecification") or {}).get("Enabled"):
        shown["SSEDescription"] = _encryption(table)
    if "TableClass" in record:
        shown["TableClassSummary"] = {"TableClass": record["TableClass"]}
    for member in ("OnDemandThroughput", "DeletionProtectionEnabled"):
        if member in record:
            shown[member] = record[member]
    if "WarmThroughput" in record:
        shown["WarmThroughput"] = warm_throughput(record) | {"Status": "ACTIVE"}
    return shown


def _restore(context: OperationContext, record: Mapping[str, Any]) -> dict[str, Any]:
    """Where a table is being restored from; DynamoDB no longer tells once it is ACTIVE."""
    is_restoring = "RestoreSummary" in record and context.now < record.get("active_at", 0.0)
    return {"RestoreSummary": record["RestoreSummary"]} if is_restoring else {}


def _encryption(table: TableInfo) -> dict[str, Any]:
    scope = table.scope
    key = table.record["SSESpecification"].get("KMSMasterKeyId", "alias/aws/dynamodb")
    if not key.startswith("arn:"):
        resource = key if key.startswith("alias/") else f"key/{key}"
        key = f"arn:aws:kms:{scope.region}:{scope.account}:{resource}"
    return {"Status": "ENABLED", "SSEType": "KMS", "KMSMasterKeyArn": key}
