"""CreateBackup, DescribeBackup, ListBackups, DeleteBackup; continuous backups; restores from both."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime
from math import floor
from typing import Any, Final

from penstock.engine import maintenance
from penstock.engine.catalog.catalog import OperationContext, parse_table_arn
from penstock.engine.catalog.table_schema import Record, TableInfo
from penstock.engine.items import pitr_journal
from penstock.engine.operations.table_description import delay, describe_briefly, find_table
from penstock.engine.operations.table_validation import check_encryption
from penstock.engine.operations.tables import as_created, clear_remains
from penstock.engine.recovery import backups, restores
from penstock.engine.recovery.backups import Backup
from penstock.engine.registry import Request, Response, operation
from penstock.engine.settings import Scope
from penstock.errors import (
    BackupInUseException,
    BackupNotFoundException,
    ContinuousBackupsUnavailableException,
    InvalidRestoreTimeException,
    PointInTimeRecoveryUnavailableException,
    ResourceNotFoundException,
    TableAlreadyExistsException,
    TableInUseException,
    TableNotFoundException,
    ValidationException,
)

# ── backups ───────────────────────────────────────────────────────────────────────────────────────


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
        _, name = parse_table_arn(name)
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
    if record.get("VectorIndexes"):
        features["VectorIndexes"] = [_vector_index(one) for one in record["VectorIndexes"]]
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


_VECTOR_MEMBERS: Final = (
    "IndexName",
    "VectorAttribute",
    "Dimensions",
    "DistanceFunction",
    "SearchSchema",
    "Projection",
)


def _vector_index(record: Record) -> dict[str, Any]:
    return {name: record[name] for name in _VECTOR_MEMBERS if name in record}


def _throughput(record: Record) -> dict[str, Any]:
    units = record.get("ProvisionedThroughput") or {}
    return {name: units.get(name, 0) for name in ("ReadCapacityUnits", "WriteCapacityUnits")}


# ── UpdateContinuousBackups, DescribeContinuousBackups ────────────────────────────────────────────


@operation("UpdateContinuousBackups", kind="write")
def update_continuous_backups(context: OperationContext, request: Request) -> Response:
    """Switches point-in-time recovery; said twice, it changes nothing."""
    wanted = request["PointInTimeRecoverySpecification"]
    days = wanted.get("RecoveryPeriodInDays")
    if not wanted["PointInTimeRecoveryEnabled"] and days is not None:
        raise ValidationException(
            "Invalid Request: Cannot specify RecoveryPeriodInDays when disabling point-in-time recovery."
        )
    table = _existing_table(context, request["TableName"])
    record = deepcopy(dict(table.record))
    if wanted["PointInTimeRecoveryEnabled"]:
        pitr_journal.enable(context, table, record, days)
    else:
        _refuse_in_use(context, table)
        pitr_journal.disable(context, record)
    if record != table.record:
        table = context.engine.catalog.save(context.db, table, record)
    return _describe(context, table)


@operation("DescribeContinuousBackups", kind="read")
def describe_continuous_backups(context: OperationContext, request: Request) -> Response:
    return _describe(context, _existing_table(context, request["TableName"]))


def _refuse_in_use(context: OperationContext, table: TableInfo) -> None:
    """Restores and exports go by the journal, to which every change must be added until they have ended."""
    if pitr_journal.restores_of(context.db, table.id):
        raise ContinuousBackupsUnavailableException(
            f"Table {table.name} is being restored to a point in time. Please retry later."
        )
    if pitr_journal.exports_of(context.db, table.id):
        raise ContinuousBackupsUnavailableException(f"Table {table.name} is being exported. Please retry later.")


def _existing_table(context: OperationContext, name: str) -> TableInfo:
    table = context.find(name)
    if table is None or context.now < table.record.get("active_at", 0.0):
        raise TableNotFoundException(f"Table not found: {name}")
    return table


def _describe(context: OperationContext, table: TableInfo) -> Response:
    recovery: dict[str, Any] = {"PointInTimeRecoveryStatus": "DISABLED"}
    if table.record.get("pitr"):
        now = pitr_journal.time_of(context, table.id, table.record)
        recovery = {
            "PointInTimeRecoveryStatus": "ENABLED",
            "RecoveryPeriodInDays": table.record["pitr"]["days"],
            # Whole seconds: that is all an SDK sends back as RestoreDateTime.
            "EarliestRestorableDateTime": floor(pitr_journal.earliest(table.record, now)),
            "LatestRestorableDateTime": floor(now),
        }
    return {
        "ContinuousBackupsDescription": {
            "ContinuousBackupsStatus": "ENABLED",
            "PointInTimeRecoveryDescription": recovery,
        }
    }


# ── RestoreTableFromBackup, RestoreTableToPointInTime ─────────────────────────────────────────────


_INVALID = "Invalid Request: "


@operation("RestoreTableFromBackup", kind="write")
def restore_table_from_backup(context: OperationContext, request: Request) -> Response:
    scope, _, _ = backups.parse_arn(context, request["BackupArn"])
    _check_region(context, scope, request)
    backup = backups.find(context, request["BackupArn"])
    _refuse_taken(context, request["TargetTableName"])
    refuse_creating(backup)
    refuse_in_use(context, backup, "another table")
    summary = {
        "SourceBackupArn": backup.arn,
        "SourceTableArn": backup.table_arn,
        "RestoreDateTime": backup.created_at,
    }

    def create(record: Record) -> TableInfo:
        if not maintenance.is_small(context.db, backup.storage):
            return restores.begin_from_backup(context, record, backup.id)
        return restores.create(context, record, lambda into: _copy(context, backup.storage, into))

    return _restore(context, backup.table, request, summary, create)


def _copy(context: OperationContext, storage: str, into: str) -> None:
    context.db.execute(f"INSERT INTO {into} SELECT key, size, item FROM {storage}")  # noqa: S608


@operation("RestoreTableToPointInTime", kind="write")
def restore_table_to_point_in_time(context: OperationContext, request: Request) -> Response:
    """Checks in DynamoDB's order: the request's shape, the source, its recovery, the time, the target."""
    _check_times(request)
    source = _source_table(context, request)
    if not source.record.get("pitr"):
        raise PointInTimeRecoveryUnavailableException(
            f"Point in time recovery is not enabled for table '{source.name}'"
        )
    at = _restore_time(context, source, request)
    _refuse_taken(context, request["TargetTableName"])
    summary = {"SourceTableArn": source.arn, "RestoreDateTime": round(at, 3)}

    def create(record: Record) -> TableInfo:
        if not maintenance.is_small(context.db, source.storage) or not pitr_journal.is_short(context, source, at):
            return restores.begin_from_journal(context, record, source, at)
        return restores.create(context, record, lambda into: pitr_journal.copy_as_of(context, source, at, into))

    return _restore(context, dict(source.record), request, summary, create)


def _restore(
    context: OperationContext,
    source: Record,
    request: Request,
    summary: dict[str, Any],
    create: Callable[[Record], TableInfo],
) -> Response:
    """`create` makes the table of a record, at once where it is small."""
    check_encryption(request.get("SSESpecificationOverride"))
    record = restores.restored_record(context, source, request)
    delay(context, record, "active_at")
    summary["RestoreInProgress"] = True
    record["RestoreSummary"] = summary
    table = create(record)
    return {"TableDescription": as_created(describe_briefly(context, table)) | {"RestoreSummary": summary}}


def _refuse_taken(context: OperationContext, name: str) -> None:
    table = find_table(context, name)
    if table is None:
        clear_remains(context, name)
        return
    source = table.record.get("RestoreSummary", {}).get("SourceBackupArn")
    if source is not None and context.now < table.record.get("active_at", 0.0):
        raise TableInUseException(f"Table: {name} is already being restored from backup: {source}")
    raise TableAlreadyExistsException(f"Table already exists: {name}")


def _check_region(context: OperationContext, scope: Scope, request: Request) -> None:
    if scope.region != context.scope.region and "SSESpecificationOverride" not in request:
        raise ValidationException(_INVALID + "sseSpecificationOverride must be provided for cross-region restores")


def _check_times(request: Request) -> None:
    if request.get("UseLatestRestorableTime"):
        if "RestoreDateTime" in request:
            raise ValidationException(
                _INVALID + "Both RestoreDateTime and UseLatestRestorableTime cannot be set for point-in-time restore "
                "request. Please specify either RestoreDateTime time or UseLatestRestorableTime"
            )
    elif "RestoreDateTime" not in request:
        raise ValidationException(
            _INVALID + "Either one of RestoreDateTime or UseLatestRestorableTime must be specified, but not both"
        )


def _source_table(context: OperationContext, request: Request) -> TableInfo:
    arn, name = request.get("SourceTableArn"), request.get("SourceTableName")
    if arn is not None and name is not None:
        raise ValidationException("Must provide exactly one of: sourceTableArn, sourceTableName")
    if arn is None and name is None:
        raise ValidationException("The parameter 'TableName' is required but was not present in the request")
    if arn is not None:
        scope, name = _parse(context, arn)
        _check_region(context, scope, request)
    table = find_table(context, arn or name or "")
    if table is None or not context.is_ready(table):
        raise TableNotFoundException(f"Table not found: {name}")
    return table


def _parse(context: OperationContext, arn: str) -> tuple[Scope, str]:
    if not arn.startswith("arn:"):
        raise ValidationException(f"One or more parameter values were invalid: ARNs must start with 'arn:': {arn}")
    try:
        scope, name = parse_table_arn(arn)
    except ResourceNotFoundException:
        raise ValidationException("sourceTableArn is not a valid ARN") from None
    if scope.account != context.scope.account:
        raise ValidationException(
            "This action is only supported by accounts that match the resource owner\u2019s account."
        )
    return scope, name


def _restore_time(context: OperationContext, source: TableInfo, request: Request) -> float:
    latest = pitr_journal.time_of(context, source.id, source.record)
    if "RestoreDateTime" not in request:
        return latest
    restore_at = float(request["RestoreDateTime"])
    earliest = floor(pitr_journal.earliest(source.record, latest))
    if not earliest <= restore_at <= latest:
        raise InvalidRestoreTimeException(
            f"RestoreDateTime '{_moment(restore_at)}' must be within EarliestRestorableDateTime '{_moment(earliest)}' "
            f"and LatestRestorableDateTime '{_moment(latest)}'"
        )
    return restore_at


def _moment(at: float) -> str:
    try:
        return datetime.fromtimestamp(floor(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{float(at):g}"  # Past what a calendar knows.
