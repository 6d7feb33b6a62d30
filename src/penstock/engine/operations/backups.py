"""CreateBackup, DescribeBackup, ListBackups, DeleteBackup."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from penstock.engine.catalog.table_schema import Record
from penstock.engine.context import OperationContext, parse_table_arn
from penstock.engine.recovery import backups
from penstock.engine.recovery.backups import Backup
from penstock.engine.registry import Request, Response, operation
from penstock.errors import (
    BackupInUseException,
    BackupNotFoundException,
    TableNotFoundException,
    ValidationException,
)

_DEFAULT_LIMIT: Final = 100


@operation("CreateBackup", kind="write")
def create_backup(context: OperationContext, request: Request) -> Response:
    """A small table's is made at once; the answer says CREATING all the same, as DynamoDB's does."""
    table = context.find(request["TableName"])
    if table is None or not context.is_ready(table):
        raise TableNotFoundException(f"Table not found: {request['TableName']}")
    return {"BackupDetails": _details(backups.create(context, table, request["BackupName"]), "CREATING")}


@operation("DescribeBackup", kind="read")
def describe_backup(context: OperationContext, request: Request) -> Response:
    backup = _visible(context, request["BackupArn"])
    if backup.is_creating:
        context.engine.maintenance.take_up()
    return {"BackupDescription": _description(backup, _status(backup))}


@operation("DeleteBackup", kind="write")
def delete_backup(context: OperationContext, request: Request) -> Response:
    backup = _visible(context, request["BackupArn"])
    if backup.expires_at is not None:
        end = datetime.fromtimestamp(backup.expires_at, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        raise ValidationException(
            "Invalid Request: User is not allowed to delete the system backup with arn "
            f"{backup.arn}. It will automatically expire on {end}"
        )
    refuse_creating(backup)
    refuse_in_use(context, backup, "table")
    backups.remove(context, backup)
    return {"BackupDescription": _description(backup, "DELETED")}


@operation("ListBackups", kind="read")
def list_backups(context: OperationContext, request: Request) -> Response:
    """Backups in the order they were made; without a BackupType, those that users made."""
    limit = request.get("Limit", _DEFAULT_LIMIT)
    found = backups.page(context.db, context.scope, _filter(context, request), _start(context, request), limit + 1)
    response: Response = {"BackupSummaries": [_summary(one) for one in found[:limit]]}
    if len(found) > limit:
        response["LastEvaluatedBackupArn"] = found[limit - 1].arn
    return response


def refuse_creating(backup: Backup) -> None:
    """A backup cannot be deleted or restored before all of it is there."""
    if backup.is_creating:
        raise BackupInUseException(f"Backup is being created: {backup.arn}")


def refuse_in_use(context: OperationContext, backup: Backup, what: str) -> None:
    """A backup cannot be deleted, or restored once more, while a table is being restored from it."""
    for table in context.engine.catalog.all(context.db):
        source = table.record.get("RestoreSummary", {}).get("SourceBackupArn")
        if source == backup.arn and context.now < table.record.get("active_at", 0.0):
            raise BackupInUseException(f"Backup is being used to restore {what}: {backup.arn}")


def _visible(context: OperationContext, arn: str) -> Backup:
    """The backup, if it is one of the caller's region."""
    backup = backups.find(context, arn)
    if backup.scope != context.scope:
        raise BackupNotFoundException(f"Backup not found: {arn}")
    return backup


def _filter(context: OperationContext, request: Request) -> backups.Filter:
    since, before = (
        float(request[name]) if name in request else None for name in ("TimeRangeLowerBound", "TimeRangeUpperBound")
    )
    if since is not None and before is not None and since > before:
        raise ValidationException(
            "One or more parameter values were invalid: "
            "Time range lower bound must be less than or equal to upper bound"
        )
    name = request.get("TableName")
    if name is not None and name.startswith("arn:"):
        _, name = parse_table_arn(name, context.scope)
    kind = request.get("BackupType", backups.USER)
    return backups.Filter(name, None if kind == "ALL" else kind, since, before)


def _start(context: OperationContext, request: Request) -> tuple[str, str]:
    arn = request.get("ExclusiveStartBackupArn")
    if arn is None:
        return "", ""
    scope, table_name, name = backups.parse_arn(context, arn)
    if scope != context.scope:
        raise ValidationException("Invalid Request: The supplied ExclusiveStartBackupArn does not match the region")
    return name, table_name


def _details(backup: Backup, status: str) -> dict[str, Any]:
    details = {
        "BackupArn": backup.arn,
        "BackupName": backup.title,
        "BackupSizeBytes": backup.record["bytes"],
        "BackupStatus": status,
        "BackupType": backup.type,
        "BackupCreationDateTime": backup.created_at,
    }
    if backup.expires_at is not None:
        details["BackupExpiryDateTime"] = round(backup.expires_at, 3)
    return details


def _summary(backup: Backup) -> dict[str, Any]:
    table = {
        "TableName": backup.table_name,
        "TableId": backup.table["TableId"],
        "TableArn": backup.table_arn,
    }
    return table | _details(backup, _status(backup))


def _status(backup: Backup) -> str:
    return "CREATING" if backup.is_creating else "AVAILABLE"


def _description(backup: Backup, status: str) -> dict[str, Any]:
    return {
        "BackupDetails": _details(backup, status),
        "SourceTableDetails": _source(backup),
        "SourceTableFeatureDetails": {} if backup.type == backups.SYSTEM else _features(backup.table),
    }


def _source(backup: Backup) -> dict[str, Any]:
    record = backup.table
    details = {
        "TableName": backup.table_name,
        "TableId": record["TableId"],
        "TableArn": backup.table_arn,
        "TableSizeBytes": backup.record["bytes"],
        "ItemCount": backup.record["items"],
        "KeySchema": record["KeySchema"],
        "TableCreationDateTime": round(record["created_at"], 3),
        "ProvisionedThroughput": _throughput(record),
        "BillingMode": record.get("BillingMode", "PROVISIONED"),
    }
    if "OnDemandThroughput" in record:
        details["OnDemandThroughput"] = record["OnDemandThroughput"]
    return details


def _features(record: Record) -> dict[str, Any]:
    features: dict[str, Any] = {}
    if record.get("LocalSecondaryIndexes"):
        features["LocalSecondaryIndexes"] = [_index(one) for one in record["LocalSecondaryIndexes"]]
    if record.get("GlobalSecondaryIndexes"):
        features["GlobalSecondaryIndexes"] = [
            _index(one) | {"ProvisionedThroughput": _throughput(one)} for one in record["GlobalSecondaryIndexes"]
        ]
    if record.get("StreamSpecification"):
        features["StreamDescription"] = record["StreamSpecification"]
    if record.get("ttl"):
        features["TimeToLiveDescription"] = {
            "TimeToLiveStatus": "ENABLED",
            "AttributeName": record["ttl"]["AttributeName"],
        }
    encryption = record.get("SSESpecification") or {}
    if encryption.get("Enabled"):
        features["SSEDescription"] = {"Status": "ENABLED", "SSEType": "KMS"}
    return features


def _index(record: Record) -> dict[str, Any]:
    return {name: record[name] for name in ("IndexName", "KeySchema", "Projection")}


def _throughput(record: Record) -> dict[str, Any]:
    units = record.get("ProvisionedThroughput") or {}
    return {name: units.get(name, 0) for name in ("ReadCapacityUnits", "WriteCapacityUnits")}
