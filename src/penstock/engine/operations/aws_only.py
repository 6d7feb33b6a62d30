"""What only AWS has: global tables, Contributor Insights, Kinesis destinations, scaling of replicas, bulk puts.

1. What can be asked is answered as AWS answers for a table that has none of it: an empty list, DISABLED, "not found".
2. A request is checked, and its table looked for, before anything else is said of it.
3. A change that AWS itself refuses for such a table is refused in AWS's words. One that AWS would make is refused by
   its name, with the page that lists what there is. Nothing is answered as done that is not done.
"""

from __future__ import annotations

from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.operations.table_description import existing_table, table_status
from penstock.engine.operations.table_validation import OPERATIONS_PAGE, invalid, refuse_members
from penstock.engine.registry import Request, Response, operation
from penstock.errors import (
    GlobalTableNotFoundException,
    ResourceNotFoundException,
    UnknownOperationException,
    ValidationException,
)


def refuse_operation(name: str, why: str) -> UnknownOperationException:
    return UnknownOperationException(
        f"{name} is not supported by this endpoint: {why}. See {OPERATIONS_PAGE} of Penstock."
    )


# ── replicas ──────────────────────────────────────────────────────────────────────────────────────


def refuse_replicas(table: TableInfo, request: Request) -> None:
    """UpdateTable's changes of replicas: those that no regional table allows, then all others."""
    refuse_members(request, ("GlobalTableSettingsReplicationMode", "DisassociationProtectionEnabled"))
    updates = request.get("ReplicaUpdates")
    if updates is None:
        return
    regions = [action["RegionName"] for update in updates for action in update.values()]
    if table.scope.region in regions:
        raise ValidationException(
            "Cannot add or delete the local region through ReplicaUpdates. "
            "Use CreateTable, DeleteTable, or UpdateTable as required."
        )
    changed = [action["RegionName"] for update in updates for kind, action in update.items() if kind != "Create"]
    if changed:
        raise ValidationException(
            "Update global table operation failed because one or more replicas were not part of the global table. "
            f"Please retry the request without these replicas: [{', '.join(changed)}]."
        )
    raise invalid(
        "ReplicaUpdates is not supported by this endpoint: a table is in one region only. "
        f"See {OPERATIONS_PAGE} of Penstock."
    )


def _no_global_table(name: str, opening: str = "") -> GlobalTableNotFoundException:
    return GlobalTableNotFoundException(f"{opening}Global table with name: '{name}' does not exist.")


def _legacy() -> ValidationException:
    return invalid(
        "DynamoDB global tables version 2017.11.29 is not supported. We recommend using DynamoDB global tables version "
        "2019.11.21, instead of version 2017.11.29 (Legacy)."
    )


@operation("CreateGlobalTable", "read")
def create_global_table(context: OperationContext, request: Request) -> Response:
    """AWS itself has made no table of the version of 2017 since 2026."""
    raise _legacy()


@operation("UpdateGlobalTable", "read")
def update_global_table(context: OperationContext, request: Request) -> Response:
    updates = request["ReplicaUpdates"]
    if not all(updates) or not updates:
        raise ValidationException("One or more parameter values were invalid")
    if any("Create" in update for update in updates):
        raise _legacy()
    raise _no_global_table(request["GlobalTableName"], "Global table not found: ")


@operation("DescribeGlobalTable", "read")
def describe_global_table(context: OperationContext, request: Request) -> Response:
    raise _no_global_table(request["GlobalTableName"], "Global table not found: ")


@operation("DescribeGlobalTableSettings", "read")
def describe_global_table_settings(context: OperationContext, request: Request) -> Response:
    raise _no_global_table(request["GlobalTableName"])


@operation("UpdateGlobalTableSettings", "read")
def update_global_table_settings(context: OperationContext, request: Request) -> Response:
    raise _no_global_table(request["GlobalTableName"])


@operation("ListGlobalTables", "read")
def list_global_tables(context: OperationContext, request: Request) -> Response:
    return {"GlobalTables": []}


def _no_replicas(context: OperationContext, request: Request) -> ResourceNotFoundException:
    table = existing_table(context, request["TableName"])
    return ResourceNotFoundException(f"Global table with name: {table.name} does not exist.")


@operation("DescribeTableReplicaAutoScaling", "read")
def describe_table_replica_auto_scaling(context: OperationContext, request: Request) -> Response:
    raise _no_replicas(context, request)


@operation("UpdateTableReplicaAutoScaling", "read")
def update_table_replica_auto_scaling(context: OperationContext, request: Request) -> Response:
    raise _no_replicas(context, request)


# ── Contributor Insights ──────────────────────────────────────────────────────────────────────────


@operation("DescribeContributorInsights", "read")
def describe_contributor_insights(context: OperationContext, request: Request) -> Response:
    return _disabled(_with_index(context, request), request)


@operation("ListContributorInsights", "read")
def list_contributor_insights(context: OperationContext, request: Request) -> Response:
    """AWS leaves out what is DISABLED, which all tables and indexes are."""
    if "TableName" in request:
        existing_table(context, request["TableName"])
    return {"ContributorInsightsSummaries": []}


@operation("UpdateContributorInsights", "read")
def update_contributor_insights(context: OperationContext, request: Request) -> Response:
    """To disable what is disabled is no change, and AWS answers so."""
    table = _with_index(context, request)
    if request["ContributorInsightsAction"] == "DISABLE":
        return _disabled(table, request)
    if table_status(table.record, context.now) == "CREATING":
        raise ValidationException(
            "Table or Index is not in a valid state to update Key Access Insights: "
            "TableStatus must be ACTIVE to enable ContributorInsights."
        )
    why = "there is no CloudWatch to send counts to; `penstock heat` shows a table's most used keys"
    raise refuse_operation("UpdateContributorInsights with ENABLE", why)


def _with_index(context: OperationContext, request: Request) -> TableInfo:
    """The table; not found if the request names an index that is no global index of it."""
    table = existing_table(context, request["TableName"])
    name = request.get("IndexName")
    if name is not None and (name not in table.indexes or table.indexes[name].local):
        raise ResourceNotFoundException(
            f"Requested resource not found: Index: {name} not found for table: {table.name}"
        )
    return table


def _disabled(table: TableInfo, request: Request) -> Response:
    index = {"IndexName": request["IndexName"]} if "IndexName" in request else {}
    return {"TableName": table.name, **index, "ContributorInsightsStatus": "DISABLED"}


# ── Kinesis destinations ──────────────────────────────────────────────────────────────────────────


_NOT_VALID = "Table is not in a valid state to enable Kinesis Streaming Destination: "


@operation("DescribeKinesisStreamingDestination", "read")
def describe_kinesis_streaming_destination(context: OperationContext, request: Request) -> Response:
    table = existing_table(context, request["TableName"])
    return {"TableName": table.name, "KinesisDataStreamDestinations": []}


@operation("EnableKinesisStreamingDestination", "read")
def enable_kinesis_streaming_destination(context: OperationContext, request: Request) -> Response:
    existing_table(context, request["TableName"])
    why = "changes are not sent to Kinesis; read the table's own stream (StreamSpecification) instead"
    raise refuse_operation("EnableKinesisStreamingDestination", why)


@operation("DisableKinesisStreamingDestination", "read")
def disable_kinesis_streaming_destination(context: OperationContext, request: Request) -> Response:
    existing_table(context, request["TableName"])
    if "EnableKinesisStreamingConfiguration" in request:
        raise ValidationException("Stream cannot be disabled using EnableKinesisStreamingConfiguration parameters")
    raise ValidationException(f"{_NOT_VALID}KinesisStreamingDestination must be ACTIVE to perform DISABLE operation.")


@operation("UpdateKinesisStreamingDestination", "read")
def update_kinesis_streaming_destination(context: OperationContext, request: Request) -> Response:
    table = existing_table(context, request["TableName"])
    if not request.get("UpdateKinesisStreamingConfiguration"):
        raise ValidationException(
            "Streaming destination cannot be updated with given parameters: "
            "UpdateKinesisStreamingConfiguration cannot be null or contain only null values"
        )
    raise ValidationException(
        f"{_NOT_VALID}Kinesis streaming is not in ACTIVE state. Updates are only allowed in ACTIVE state. "
        f"TableName: {table.name}, kdsArn: {request['StreamArn']}"
    )


# ── bulk puts ─────────────────────────────────────────────────────────────────────────────────────


@operation("StartBulkPutItems", "read")
def start_bulk_put_items(context: OperationContext, request: Request) -> Response:
    existing_table(context, request["TableName"])
    why = "AWS has not published the format of its input; use ImportTable, BatchWriteItem or `penstock tables load`"
    raise refuse_operation("StartBulkPutItems", why)


@operation("ListBulkOperations", "read")
def list_bulk_operations(context: OperationContext, request: Request) -> Response:
    return {"BulkOperationsSummaryList": []}


@operation("DescribeBulkOperation", "read")
def describe_bulk_operation(context: OperationContext, request: Request) -> Response:
    raise _no_bulk_operation(request)


@operation("CancelBulkOperation", "read")
def cancel_bulk_operation(context: OperationContext, request: Request) -> Response:
    raise _no_bulk_operation(request)


def _no_bulk_operation(request: Request) -> ResourceNotFoundException:
    # AWS's code is documented, its text is not.
    return ResourceNotFoundException(
        f"Requested resource not found: Bulk operation: {request['BulkOperationArn']} not found"
    )
