"""CreateTable, UpdateTable, DeleteTable, DescribeTable, ListTables, DescribeLimits, DescribeEndpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from penstock.engine import streams
from penstock.engine.catalog.catalog import RESOURCE_POLICY, OperationContext
from penstock.engine.catalog.table_schema import Record, TableInfo
from penstock.engine.items import index_backfill, pitr_journal
from penstock.engine.operations.aws_only import refuse_replicas
from penstock.engine.operations.resources import checked_tags, new_policy
from penstock.engine.operations.table_description import (
    NO_THROUGHPUT,
    billing_mode,
    changed,
    delay,
    describe,
    describe_briefly,
    dropped,
    dropped_indexes,
    encryption,
    existing_table,
    find_table,
    in_use,
    index_status,
    online_indexes,
    refuse_unless_active,
    table_status,
    throughput,
    unsettle,
)
from penstock.engine.operations.table_updates import check_against, check_request, with_known_actions
from penstock.engine.operations.table_validation import check_creation
from penstock.engine.registry import Request, Response, operation
from penstock.errors import ResourceInUseException, ValidationException

# ── CreateTable ───────────────────────────────────────────────────────────────────────────────────


_TABLE_ARN = re.compile(r"arn:.*:table/([A-Za-z0-9_.-]{3,255})")

_KEPT_AS_GIVEN = (
    "AttributeDefinitions",
    "KeySchema",
    "TableClass",
    "DeletionProtectionEnabled",
    "OnDemandThroughput",
    "WarmThroughput",
    "SSESpecification",
)


@operation("CreateTable", "write")
def create_table(context: OperationContext, request: Request) -> Response:
    check_creation(request)
    tags = checked_tags(request.get("Tags", []))
    name = _name(context, request["TableName"])
    if find_table(context, name) is not None:
        raise ResourceInUseException(f"Table already exists: {name}")
    clear_remains(context, name)
    record = new_record(context, name, request)
    if tags:
        record["tags"] = tags
    if request.get("StreamSpecification", {}).get("StreamEnabled"):
        streams.open_stream(context, context.scope, record, request["StreamSpecification"]["StreamViewType"])
    table = index_backfill.create_table(context, context.scope, record)
    return {"TableDescription": as_created(describe_briefly(context, table))}


def clear_remains(context: OperationContext, name: str) -> None:
    """Sweeps a deleted table whose name is wanted again, and whose time has come."""
    remains = context.find(name)
    if remains is not None:
        index_backfill.drop_table(context, remains)


def as_created(description: dict[str, Any]) -> dict[str, Any]:
    """The description as it is answered: whatever the delay, a new table is never ACTIVE at once."""
    description["TableStatus"] = "CREATING"
    description.get("BillingModeSummary", {}).pop("LastUpdateToPayPerRequestDateTime", None)
    description.get("TableThroughputModeSummary", {}).pop("LastUpdateToPayPerRequestDateTime", None)
    for index in online_indexes(description):
        index["IndexStatus"] = "CREATING"
        index.pop("Backfilling", None)
    return description


def index_record(number: int, index: dict[str, Any]) -> Record:
    """A global index as the catalog keeps it."""
    throughput = index.get("ProvisionedThroughput")
    record = {
        "id": number,
        "IndexName": index["IndexName"],
        "KeySchema": index["KeySchema"],
        "Projection": projection(index),
        "ProvisionedThroughput": NO_THROUGHPUT | (throughput or {}),
    }
    for member in ("OnDemandThroughput", "WarmThroughput"):
        if index.get(member):
            record[member] = index[member]
    return record


def vector_record(number: int, index: dict[str, Any]) -> Record:
    """A vector index as the catalog keeps it."""
    members = ("IndexName", "VectorAttribute", "Dimensions", "DistanceFunction", "SearchSchema")
    given = {member: index[member] for member in members if member in index}
    return {"id": number, **given, "Projection": projection(index)}


def projection(index: dict[str, Any]) -> dict[str, Any]:
    """The projection, its names in order, as DynamoDB gives them back."""
    given = index["Projection"]
    if "NonKeyAttributes" not in given:
        return {"ProjectionType": given["ProjectionType"]}
    return {"ProjectionType": "INCLUDE", "NonKeyAttributes": sorted(given["NonKeyAttributes"])}


def _name(context: OperationContext, given: str) -> str:
    """The name of the table to be made: an ARN means it where it is of this account and region."""
    if not given.startswith("arn:"):
        return given
    match = _TABLE_ARN.fullmatch(given)
    if match is None or context.scope.arn(f"table/{match[1]}") != given:
        raise ValidationException(f"1 validation error detected: Invalid AWS region in '{given}'")
    return match[1]


def new_record(context: OperationContext, name: str, request: Request) -> Record:
    """The record of a table to be made, by a request that has been checked."""
    billing = request.get("BillingMode", "PROVISIONED")
    record: Record = {
        "TableName": name,
        "TableId": str(uuid4()),
        "created_at": context.now,
        "BillingMode": billing,
        "ProvisionedThroughput": NO_THROUGHPUT | request.get("ProvisionedThroughput", {}),
        **{member: request[member] for member in _KEPT_AS_GIVEN if request.get(member)},
        **_index_records(request),
    }
    if billing == "PAY_PER_REQUEST":
        record["on_demand_since"] = round(context.now, 3)
    if "ResourcePolicy" in request:
        record[RESOURCE_POLICY] = new_policy(context, request["ResourcePolicy"])
    delay(context, record, "active_at")
    return record


def _index_records(request: Request) -> Record:
    local = request.get("LocalSecondaryIndexes", [])
    world = request.get("GlobalSecondaryIndexes", [])
    vectors = request.get("VectorIndexes", [])
    records: Record = {"next_index_id": len(local) + len(world) + len(vectors)}
    if local:
        records["LocalSecondaryIndexes"] = [
            {"id": n, "IndexName": one["IndexName"], "KeySchema": one["KeySchema"], "Projection": projection(one)}
            for n, one in enumerate(local)
        ]
    if world:
        records["GlobalSecondaryIndexes"] = [index_record(n, one) for n, one in enumerate(world, len(local))]
    if vectors:
        first = len(local) + len(world)
        records["VectorIndexes"] = [vector_record(n, one) for n, one in enumerate(vectors, first)]
    return records


# ── UpdateTable ───────────────────────────────────────────────────────────────────────────────────


_MOMENT = 0.001  # a change is over after it was asked for, even where delays are zero


@operation("UpdateTable", "write")
def update_table(context: OperationContext, request: Request) -> Response:
    request = with_known_actions(request)
    check_request(request)
    table = existing_table(context, request["TableName"])
    check_against(table, request, context.now)
    refuse_replicas(table, request)
    record = changed(table)
    _change_capacity(context, record, request)
    _change_indexes_capacity(context, record, request)
    _change_settings(context, table, record, request)
    if _takes_time(request):
        delay(context, record, "updating_until")
    before, table = table, _save(context, table, record, request)
    return {"TableDescription": _as_updating(context, before, table, request)}


def _change_capacity(context: OperationContext, record: Record, request: Request) -> None:
    mode, before = request.get("BillingMode"), billing_mode(record)
    if mode is not None:
        record["BillingMode"] = mode
    if "ProvisionedThroughput" in request:
        record["ProvisionedThroughput"] = _new_units(context, throughput(record), request["ProvisionedThroughput"])
    if mode == "PAY_PER_REQUEST" and before != mode:
        record["on_demand_since"] = round(context.now, 3)
        for part in (record, *record.get("GlobalSecondaryIndexes", ())):
            part["ProvisionedThroughput"] = dict(NO_THROUGHPUT)
    if mode == "PROVISIONED" and before != mode:
        for part in (record, *record.get("GlobalSecondaryIndexes", ())):
            part.pop("OnDemandThroughput", None)
    if "OnDemandThroughput" in request:
        _change_maximum(record, request["OnDemandThroughput"])


def _new_units(context: OperationContext, current: Mapping[str, Any], wanted: Mapping[str, int]) -> dict[str, Any]:
    """The new throughput, and when it last rose and fell."""
    units = {**current, **wanted}
    over = round(context.now + max(context.engine.settings.table_delay_seconds, _MOMENT), 3)
    rises = [wanted[name] - current[name] for name in wanted]
    if any(rise > 0 for rise in rises):
        units["LastIncreaseDateTime"] = over
    if any(rise < 0 for rise in rises) and any(current[name] for name in wanted):
        units["LastDecreaseDateTime"] = over
        units["NumberOfDecreasesToday"] = current["NumberOfDecreasesToday"] + 1
    return units


def _change_maximum(part: Record, wanted: Mapping[str, int]) -> None:
    """-1 takes a maximum away."""
    merged = {**part.get("OnDemandThroughput", {}), **wanted}
    part["OnDemandThroughput"] = {member: units for member, units in merged.items() if units != -1}
    if not part["OnDemandThroughput"]:
        del part["OnDemandThroughput"]


def _change_indexes_capacity(context: OperationContext, record: Record, request: Request) -> None:
    for update in request.get("GlobalSecondaryIndexUpdates", ()):
        wanted = update.get("Update")
        if wanted is None:
            continue
        index = next(i for i in record["GlobalSecondaryIndexes"] if i["IndexName"] == wanted["IndexName"])
        if "ProvisionedThroughput" in wanted:
            index["ProvisionedThroughput"] = _new_units(context, throughput(index), wanted["ProvisionedThroughput"])
        if "OnDemandThroughput" in wanted:
            _change_maximum(index, wanted["OnDemandThroughput"])
        if "WarmThroughput" in wanted:
            index["WarmThroughput"] = {**index.get("WarmThroughput", {}), **wanted["WarmThroughput"]}
        if context.engine.settings.table_delay_seconds > 0:
            index["updating_until"] = context.now + context.engine.settings.table_delay_seconds
            unsettle(context, record)


def _change_settings(context: OperationContext, table: TableInfo, record: Record, request: Request) -> None:
    for member in ("TableClass", "DeletionProtectionEnabled", "SSESpecification"):
        if member in request:
            record[member] = request[member]
    if "WarmThroughput" in request:
        record["WarmThroughput"] = {**record.get("WarmThroughput", {}), **request["WarmThroughput"]}
    stream = request.get("StreamSpecification")
    if stream is not None and stream["StreamEnabled"]:
        streams.open_stream(context, table.scope, record, stream["StreamViewType"])
    elif stream is not None:
        streams.close_stream(context, record)


def _takes_time(request: Request) -> bool:
    """Whether the table itself is UPDATING for a while."""
    updates = request.get("GlobalSecondaryIndexUpdates", ())
    members = ("ProvisionedThroughput", "BillingMode", "StreamSpecification", "TableClass", "VectorIndexUpdates")
    return any(member in request for member in members) or any("Update" not in one for one in updates)


def _save(context: OperationContext, table: TableInfo, record: Record, request: Request) -> TableInfo:
    """Saves the record; an index that is made or deleted goes with it."""
    for kind, updates in _INDEX_UPDATES.items():
        for update in request.get(updates, ()):
            if "Create" in update:
                return _create_index(context, table, record, request, kind, update["Create"])
            if "Delete" in update:
                return _delete_index(context, table, record, kind, update["Delete"]["IndexName"])
    return context.engine.catalog.save(context.db, table, record)


_INDEX_UPDATES = {"GlobalSecondaryIndexes": "GlobalSecondaryIndexUpdates", "VectorIndexes": "VectorIndexUpdates"}


def _create_index(
    context: OperationContext, table: TableInfo, record: Record, request: Request, kind: str, wanted: dict[str, Any]
) -> TableInfo:
    number = record.get("next_index_id", len(table.index_list))
    record["next_index_id"] = number + 1
    index = index_record(number, wanted) if kind == "GlobalSecondaryIndexes" else vector_record(number, wanted)
    seconds = context.engine.settings.index_delay_seconds
    if seconds > 0:
        index["active_at"] = context.now + seconds
        unsettle(context, record)
    record.setdefault(kind, []).append(index)
    known = {one["AttributeName"] for one in record["AttributeDefinitions"]}
    record["AttributeDefinitions"] += [
        one for one in request.get("AttributeDefinitions", ()) if one["AttributeName"] not in known
    ]
    _keep_used_definitions(record)
    return index_backfill.add_index(context, table, record, index)


def _delete_index(context: OperationContext, table: TableInfo, record: Record, kind: str, name: str) -> TableInfo:
    index = index_backfill.index_named(table, name)
    assert index is not None
    record[kind] = [one for one in record[kind] if one["IndexName"] != name]
    if not record[kind]:
        del record[kind]
    _keep_used_definitions(record)
    seconds = context.engine.settings.table_delay_seconds
    if seconds > 0:
        deleted = {**index.record, "deleted_at": context.now + seconds}
        record["dropped_indexes"] = [*record.get("dropped_indexes", ()), deleted]
        unsettle(context, record)
    return index_backfill.drop_index(context, table, index, record)


def _keep_used_definitions(record: Record) -> None:
    """Definitions are those of key attributes, and no others."""
    parts = (
        record,
        *record.get("LocalSecondaryIndexes", ()),
        *record.get("GlobalSecondaryIndexes", ()),
    )
    used = {one["AttributeName"] for part in parts for one in part["KeySchema"]}
    used |= {one["AttributeName"] for part in record.get("VectorIndexes", ()) for one in part.get("SearchSchema", ())}
    record["AttributeDefinitions"] = [one for one in record["AttributeDefinitions"] if one["AttributeName"] in used]


def _as_updating(context: OperationContext, before: TableInfo, table: TableInfo, request: Request) -> dict[str, Any]:
    """The description as it is answered: changes have begun, and none is over."""
    description = describe(context, table, counts=False)
    if _takes_time(request) and _has_changed(before, request):
        description["TableStatus"] = "UPDATING"
    if "ProvisionedThroughput" in request and billing_mode(before.record) == "PROVISIONED":
        description["ProvisionedThroughput"] = _still(context, throughput(before.record), throughput(table.record))
    if "WarmThroughput" in request:
        description["WarmThroughput"]["Status"] = "UPDATING"
    if "SSESpecification" in request:
        described = encryption(before) if (before.record.get("SSESpecification") or {}).get("Enabled") else {}
        description["SSEDescription"] = described | {"Status": "UPDATING"}
    for update in request.get("GlobalSecondaryIndexUpdates", ()):
        _show_index_update(context, before, description, update)
    for update in request.get("VectorIndexUpdates", ()):
        _show_vector_update(before, description, update)
    return description


def _has_changed(before: TableInfo, request: Request) -> bool:
    """Naming the capacity mode that a table has is no change."""
    changes = set(request) - {"TableName", "AttributeDefinitions"}
    return changes != {"BillingMode"} or request["BillingMode"] != billing_mode(before.record)


def _still(context: OperationContext, old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The old throughput, with the time of the change that has begun."""
    description = dict(old)
    for member in ("LastIncreaseDateTime", "LastDecreaseDateTime"):
        if new.get(member) != old.get(member):
            description[member] = round(context.now, 3)
    return description


def _show_index_update(
    context: OperationContext, before: TableInfo, description: dict[str, Any], update: Mapping[str, Any]
) -> None:
    ((action, wanted),) = update.items()
    name = wanted["IndexName"]
    world = description.setdefault("GlobalSecondaryIndexes", [])
    current = next((one for one in world if one["IndexName"] == name), None)
    if action == "Delete":
        old = next(one for one in _described_before(context, before) if one["IndexName"] == name)
        if current is None:
            world.append(old | {"IndexStatus": "DELETING"})
        return
    assert current is not None
    if action == "Create":
        current.update(IndexStatus="CREATING", Backfilling=False)
        return
    current["IndexStatus"] = "UPDATING"
    if "WarmThroughput" in wanted:
        current["WarmThroughput"]["Status"] = "UPDATING"
    if "ProvisionedThroughput" in wanted and billing_mode(before.record) == "PROVISIONED":
        old_units = throughput(before.indexes[name].record)
        current["ProvisionedThroughput"] = _still(context, old_units, current["ProvisionedThroughput"])


def _show_vector_update(before: TableInfo, description: dict[str, Any], update: Mapping[str, Any]) -> None:
    ((action, wanted),) = update.items()
    name = wanted["IndexName"]
    shown = description.setdefault("VectorIndexes", [])
    current = next((one for one in shown if one["IndexName"] == name), None)
    if action == "Create":
        assert current is not None
        current.update(IndexStatus="CREATING", Backfilling=False)
    elif current is None:
        shown.append(dropped(before, before.vectors[name].record))


def _described_before(context: OperationContext, before: TableInfo) -> list[dict[str, Any]]:
    """Global indexes as they were, without their sizes: their rows are gone."""
    return [
        {
            "IndexName": index.name,
            "KeySchema": index.record["KeySchema"],
            "Projection": index.record["Projection"],
            "IndexArn": f"{before.arn}/index/{index.name}",
            "IndexSizeBytes": 0,
            "ItemCount": 0,
            "ProvisionedThroughput": throughput(index.record),
        }
        for index in before.index_list
        if not index.local
    ]


# ── DeleteTable ───────────────────────────────────────────────────────────────────────────────────

# What DynamoDB no longer tells of a table that goes.
_UNTOLD = frozenset({"AttributeDefinitions", "KeySchema", "CreationDateTime"})


@operation("DeleteTable", "write")
def delete_table(context: OperationContext, request: Request) -> Response:
    table = existing_table(context, request["TableName"])
    _refuse(context, table)
    record = changed(table)
    from penstock.engine.recovery import backups  # what only deletes need is not there when a command starts

    backups.keep_deleted(context, table, record)
    streams.close_stream(context, record)
    record["deleted_at"] = context.now
    delay(context, record, "deleted_at")
    table = context.engine.catalog.save(context.db, table, record)
    described = describe_briefly(context, table)
    response = {"TableDescription": {name: one for name, one in described.items() if name not in _UNTOLD}}
    if record["deleted_at"] <= context.now:
        index_backfill.drop_table(context, table)
    return response


def _refuse_read(context: OperationContext, table: TableInfo) -> None:
    """A table stays until what is copied from it has been copied."""
    from penstock.engine.recovery import backups

    if backups.is_backed_up_now(context.db, table):
        raise in_use(f"Table is being backed up: {table.name}")
    if pitr_journal.restores_of(context.db, table.id):
        raise in_use(f"Table is being restored to a point in time: {table.name}")


def _refuse(context: OperationContext, table: TableInfo) -> None:
    refuse_unless_active(table, context.now)
    if table.record.get("DeletionProtectionEnabled"):
        raise ValidationException(
            "Resource cannot be deleted as it is currently protected against deletion. "
            "Disable deletion protection first."
        )
    _refuse_read(context, table)
    statuses = [index_status(table.record, index, context.now) for index in online_indexes(table.record)]
    if any(status != "ACTIVE" for status in statuses) or dropped_indexes(table.record, context.now):
        raise in_use("Cannot delete table while indexes are being created, updated, or deleted.")
    if table_status(table.record, context.now) == "UPDATING":
        raise in_use(f"Table is being updated: {table.name}")


# ── DescribeTable, ListTables ─────────────────────────────────────────────────────────────────────


@operation("DescribeTable", "snapshot")
def describe_table(context: OperationContext, request: Request) -> Response:
    return {"Table": describe(context, existing_table(context, request["TableName"]))}


_PAGE = 100


@operation("ListTables", "snapshot")
def list_tables(context: OperationContext, request: Request) -> Response:
    limit = request.get("Limit", _PAGE)
    names = _names(context, request.get("ExclusiveStartTableName", ""), limit + 1)
    response: Response = {"TableNames": names[:limit]}
    if len(names) > limit:
        response["LastEvaluatedTableName"] = names[limit - 1]
    return response


def _names(context: OperationContext, after: str, count: int) -> list[str]:
    """The first `count` names after `after`; tables whose deletion is over are passed over."""
    names: list[str] = []
    while len(names) < count:
        page = context.engine.catalog.names(context.db, context.scope, after, count)
        names += [name for name in page if find_table(context, name) is not None]
        if len(page) < count:
            break
        after = page[-1]
    return names[:count]


# ── DescribeLimits, DescribeEndpoints: what AWS answers for a new account ─────────────────────────


@operation("DescribeLimits", "read")
def describe_limits(context: OperationContext, request: Request) -> Response:
    return {
        "AccountMaxReadCapacityUnits": 80_000,
        "AccountMaxWriteCapacityUnits": 80_000,
        "TableMaxReadCapacityUnits": 40_000,
        "TableMaxWriteCapacityUnits": 40_000,
    }


@operation("DescribeEndpoints", "read")
def describe_endpoints(context: OperationContext, request: Request) -> Response:
    address = f"dynamodb.{context.scope.region}.amazonaws.com"
    return {"Endpoints": [{"Address": address, "CachePeriodInMinutes": 1440}]}
