"""RestoreTableFromBackup, RestoreTableToPointInTime."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from math import floor
from typing import Any

from penstock.engine.catalog.table_schema import Record, TableInfo
from penstock.engine.context import OperationContext, parse_table_arn
from penstock.engine.maintenance import steps
from penstock.engine.operations.backups import refuse_creating, refuse_in_use
from penstock.engine.operations.create_table import as_created, clear_remains
from penstock.engine.operations.table_description import describe_briefly
from penstock.engine.operations.table_states import delay, find_table
from penstock.engine.operations.table_validation import check_encryption
from penstock.engine.recovery import backups, journal, restore_steps, restores
from penstock.engine.registry import Request, Response, operation
from penstock.engine.settings import Scope
from penstock.errors import (
    InvalidRestoreTimeException,
    PointInTimeRecoveryUnavailableException,
    ResourceNotFoundException,
    TableAlreadyExistsException,
    TableInUseException,
    TableNotFoundException,
    ValidationException,
)

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
        if not steps.is_small(context.db, backup.storage):
            return restore_steps.begin_from_backup(context, record, backup.id)
        return restores.create(context, record, lambda into: _copy(context, backup.storage, into))

    return _restore(context, backup.table, request, summary, create)


def _copy(context: OperationContext, storage: str, into: str) -> None:
    context.db.execute(f"INSERT INTO {into} SELECT key, size, item FROM {storage}")  # noqa: S608


@operation("RestoreTableToPointInTime", kind="write")
def restore_table_to_point_in_time(context: OperationContext, request: Request) -> Response:
    """Checks in DynamoDB's order: the request's shape, the source, its recovery, the time, the target."""
    _check_times(request)
    source = _source(context, request)
    if not source.record.get("pitr"):
        raise PointInTimeRecoveryUnavailableException(
            f"Point in time recovery is not enabled for table '{source.name}'"
        )
    at = _restore_time(context, source, request)
    _refuse_taken(context, request["TargetTableName"])
    summary = {"SourceTableArn": source.arn, "RestoreDateTime": round(at, 3)}

    def create(record: Record) -> TableInfo:
        if not steps.is_small(context.db, source.storage) or not journal.is_short(context, source, at):
            return restore_steps.begin_from_journal(context, record, source, at)
        return restores.create(context, record, lambda into: journal.copy_as_of(context, source, at, into))

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


def _source(context: OperationContext, request: Request) -> TableInfo:
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
        scope, name = parse_table_arn(arn, context.scope)
    except ResourceNotFoundException:
        raise ValidationException("sourceTableArn is not a valid ARN") from None
    if scope.account != context.scope.account:
        raise ValidationException(
            "This action is only supported by accounts that match the resource owner\u2019s account."
        )
    return scope, name


def _restore_time(context: OperationContext, source: TableInfo, request: Request) -> float:
    latest = journal.time_of(context, source.id, source.record)
    if "RestoreDateTime" not in request:
        return latest
    asked = float(request["RestoreDateTime"])
    earliest = floor(journal.earliest(source.record, latest))
    if not earliest <= asked <= latest:
        raise InvalidRestoreTimeException(
            f"RestoreDateTime '{_moment(asked)}' must be within EarliestRestorableDateTime '{_moment(earliest)}' "
            f"and LatestRestorableDateTime '{_moment(latest)}'"
        )
    return asked


def _moment(at: float) -> str:
    try:
        return datetime.fromtimestamp(floor(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{float(at):g}"  # Past what a calendar knows.
