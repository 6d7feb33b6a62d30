"""CreateTable."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

from penstock.engine.catalog import index_backfill
from penstock.engine.catalog.table_schema import Record
from penstock.engine.context import OperationContext
from penstock.engine.operations.resource_policies import new_policy
from penstock.engine.operations.table_description import NO_THROUGHPUT, describe_briefly
from penstock.engine.operations.table_states import delay, find_table
from penstock.engine.operations.table_validation import check_creation
from penstock.engine.operations.tags import checked_tags
from penstock.engine.registry import Request, Response, operation
from penstock.engine.streams import stream_records
from penstock.errors import ResourceInUseException, ValidationException

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
    record = _record(context, name, request)
    if tags:
        record["tags"] = tags
    if request.get("StreamSpecification", {}).get("StreamEnabled"):
        stream_records.open_stream(context, context.scope, record, request["StreamSpecification"]["StreamViewType"])
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
    for index in description.get("GlobalSecondaryIndexes", ()):
        index["IndexStatus"] = "CREATING"
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


def _record(context: OperationContext, name: str, request: Request) -> Record:
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
        record["ResourcePolicy"] = new_policy(context, request["ResourcePolicy"])
    delay(context, record, "active_at")
    return record


def _index_records(request: Request) -> Record:
    local = request.get("LocalSecondaryIndexes", [])
    world = request.get("GlobalSecondaryIndexes", [])
    records: Record = {"next_index_id": len(local) + len(world)}
    if local:
        records["LocalSecondaryIndexes"] = [
            {"id": n, "IndexName": one["IndexName"], "KeySchema": one["KeySchema"], "Projection": projection(one)}
            for n, one in enumerate(local)
        ]
    if world:
        records["GlobalSecondaryIndexes"] = [index_record(n, one) for n, one in enumerate(world, len(local))]
    return records
