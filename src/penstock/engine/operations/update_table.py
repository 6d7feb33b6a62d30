"""UpdateTable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.engine.catalog import index_backfill
from penstock.engine.catalog.table_schema import Record, TableInfo
from penstock.engine.context import OperationContext
from penstock.engine.operations.create_table import index_record
from penstock.engine.operations.table_description import NO_THROUGHPUT, billing_mode, describe, throughput
from penstock.engine.operations.table_states import changed, delay, existing_table, unsettle
from penstock.engine.operations.update_validation import check_against, check_request, with_known_actions
from penstock.engine.registry import Request, Response, operation
from penstock.engine.streams import stream_records

_MOMENT = 0.001  # a change is over after it was asked for, even where delays are zero


@operation("UpdateTable", "write")
def update_table(context: OperationContext, request: Request) -> Response:
    request = with_known_actions(request)
    check_request(request)
    table = existing_table(context, request["TableName"])
    check_against(table, request, context.now)
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
        stream_records.open_stream(context, table.scope, record, stream["StreamViewType"])
    elif stream is not None:
        stream_records.close_stream(context, record)


def _takes_time(request: Request) -> bool:
    """Whether the table itself is UPDATING for a while."""
    updates = request.get("GlobalSecondaryIndexUpdates", ())
    members = ("ProvisionedThroughput", "BillingMode", "StreamSpecification", "TableClass")
    return any(member in request for member in members) or any("Update" not in one for one in updates)


def _save(context: OperationContext, table: TableInfo, record: Record, request: Request) -> TableInfo:
    """Saves the record; an index that is made or deleted goes with it."""
    for update in request.get("GlobalSecondaryIndexUpdates", ()):
        if "Create" in update:
            return _create_index(context, table, record, request, update["Create"])
        if "Delete" in update:
            return _delete_index(context, table, record, update["Delete"]["IndexName"])
    return context.engine.catalog.save(context.db, table, record)


def _create_index(
    context: OperationContext, table: TableInfo, record: Record, request: Request, wanted: dict[str, Any]
) -> TableInfo:
    number = record.get("next_index_id", len(table.index_list))
    record["next_index_id"] = number + 1
    index = index_record(number, wanted)
    seconds = context.engine.settings.index_delay_seconds
    if seconds > 0:
        index["active_at"] = context.now + seconds
        unsettle(context, record)
    record.setdefault("GlobalSecondaryIndexes", []).append(index)
    known = {one["AttributeName"] for one in record["AttributeDefinitions"]}
    record["AttributeDefinitions"] += [
        one for one in request["AttributeDefinitions"] if one["AttributeName"] not in known
    ]
    _keep_used_definitions(record)
    return index_backfill.add_index(context, table, record)


def _delete_index(context: OperationContext, table: TableInfo, record: Record, name: str) -> TableInfo:
    index = table.indexes[name]
    world = [one for one in record["GlobalSecondaryIndexes"] if one["IndexName"] != name]
    record["GlobalSecondaryIndexes"] = world
    if not world:
        del record["GlobalSecondaryIndexes"]
    _keep_used_definitions(record)
    seconds = context.engine.settings.table_delay_seconds
    if seconds > 0:
        gone = {**index.record, "deleted_at": context.now + seconds}
        record["dropped_indexes"] = [*record.get("dropped_indexes", ()), gone]
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
    record["AttributeDefinitions"] = [one for one in record["AttributeDefinitions"] if one["AttributeName"] in used]


def _as_updating(context: OperationContext, before: TableInfo, table: TableInfo, request: Request) -> dict[str, Any]:
    """The description as it is answered: changes have begun, and none is over."""
    description = describe(context, table, counts=False)
    if _takes_time(request) and _has_changed(before, request):
        description["TableStatus"] = "UPDATING"
    if "ProvisionedThroughput" in request and billing_mode(before.record) == "PROVISIONED":
        description["ProvisionedThroughput"] = _still(context, throughput(before.record), throughput(table.record))
    for update in request.get("GlobalSecondaryIndexUpdates", ()):
        _show_index_update(context, before, description, update)
    return description


def _has_changed(before: TableInfo, request: Request) -> bool:
    """Naming the capacity mode that a table has is no change."""
    changes = set(request) - {"TableName", "AttributeDefinitions"}
    return changes != {"BillingMode"} or request["BillingMode"] != billing_mode(before.record)


def _still(context: OperationContext, old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The old throughput, with the time of the change that has begun."""
    shown = dict(old)
    for member in ("LastIncreaseDateTime", "LastDecreaseDateTime"):
        if new.get(member) != old.get(member):
            shown[member] = round(context.now, 3)
    return shown


def _show_index_update(
    context: OperationContext, before: TableInfo, description: dict[str, Any], update: Mapping[str, Any]
) -> None:
    ((action, wanted),) = update.items()
    name = wanted["IndexName"]
    world = description.setdefault("GlobalSecondaryIndexes", [])
    shown = next((one for one in world if one["IndexName"] == name), None)
    if action == "Delete":
        old = next(one for one in _described_before(context, before) if one["IndexName"] == name)
        if shown is None:
            world.append(old | {"IndexStatus": "DELETING"})
        return
    assert shown is not None
    if action == "Create":
        shown.update(IndexStatus="CREATING", Backfilling=False)
        return
    shown["IndexStatus"] = "UPDATING"
    if "ProvisionedThroughput" in wanted and billing_mode(before.record) == "PROVISIONED":
        old_units = throughput(before.indexes[name].record)
        shown["ProvisionedThroughput"] = _still(context, old_units, shown["ProvisionedThroughput"])


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
