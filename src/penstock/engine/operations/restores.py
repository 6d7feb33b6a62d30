"""RestoreTableFromBackup, RestoreTableToPointInTime."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from math import floor
from typing import Any

from penstock.engine.catalog.table_schema import Record, TableInfo
from penstock.engine.context import Call, parse_table_arn
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
def restore_table_from_backup(call: Call, request: Request) -> Response:
    scope, _, _ = backups.parse_arn(call, request["BackupArn"])
    _check_region(call, scope, request)
    backup = backups.find(call, request["BackupArn"])
    _refuse_taken(call, request["TargetTableName"])
    refuse_creating(backup)
    refuse_in_use(call, backup, "another table")
    summary = {
        "SourceBackupArn": backup.arn,
        "SourceTableArn": backup.table_arn,
        "RestoreDateTime": backup.created_at,
    }

    def create(record: Record) -> TableInfo:
        if not steps.is_small(call.db, backup.storage):
            return restore_steps.begin_from_backup(call, record, backup.id)
        return restores.create(call, record, lambda into: _copy(call, backup.storage, into))

    return _restore(call, backup.table, request, summary, create)


def _copy(call: Call, storage: str, into: str) -> None:
    call.db.execute(f"INSERT INTO {into} SELECT key, size, item FROM {storage}")  # noqa: S608


@operation("RestoreTableToPointInTime", kind="write")
def restore_table_to_point_in_time(call: Call, request: Request) -> Response:
    """Checks in DynamoDB's order: the request's shape, the source, its recovery, the time, the target."""
    _check_times(request)
    source = _source(call, request)
    if not source.record.get("pitr"):
        raise PointInTimeRecoveryUnavailableException(
            f"Point in time recovery is not enabled for table '{source.name}'"
        )
    at = _restore_time(call, source, request)
    _refuse_taken(call, request["TargetTableName"])
    summary = {"SourceTableArn": source.arn, "RestoreDateTime": round(at, 3)}

    def create(record: Record) -> TableInfo:
        if not steps.is_small(call.db, source.storage) or not journal.is_short(call, source, at):
            return restore_steps.begin_from_journal(call, record, source, at)
        return restores.create(call, record, lambda into: journal.copy_as_of(call, source, at, into))

    return _restore(call, dict(source.record), request, summary, create)


def _restore(
    call: Call, source: Record, request: Request, summary: dict[str, Any], create: Callable[[Record], TableInfo]
) -> Response:
    """`create` makes the table of a record, at once where it is small."""
    check_encryption(request.get("SSESpecificationOverride"))
    record = restores.restored_record(call, source, request)
    delay(call, record, "active_at")
    summary["RestoreInProgress"] = True
    record["RestoreSummary"] = summary
    table = create(record)
    return {"TableDescription": as_created(describe_briefly(call, table)) | {"RestoreSummary": summary}}


def _refuse_taken(call: Call, name: str) -> None:
    table = find_table(call, name)
    if table is None:
        clear_remains(call, name)
        return
    source = table.record.get("RestoreSummary", {}).get("SourceBackupArn")
    if source is not None and call.now < table.record.get("active_at", 0.0):
        raise TableInUseException(f"Table: {name} is already being restored from backup: {source}")
    raise TableAlreadyExistsException(f"Table already exists: {name}")


def _check_region(call: Call, scope: Scope, request: Request) -> None:
    if scope.region != call.scope.region and "SSESpecificationOverride" not in request:
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


def _source(call: Call, request: Request) -> TableInfo:
    arn, name = request.get("SourceTableArn"), request.get("SourceTableName")
    if arn is not None and name is not None:
        raise ValidationException("Must provide exactly one of: sourceTableArn, sourceTableName")
    if arn is None and name is None:
        raise ValidationException("The parameter 'TableName' is required but was not present in the request")
    if arn is not None:
        scope, name = _parse(call, arn)
        _check_region(call, scope, request)
    table = find_table(call, arn or name or "")
    if table is None or not call.is_ready(table):
        raise TableNotFoundException(f"Table not found: {name}")
    return table


def _parse(call: Call, arn: str) -> tuple[Scope, str]:
    if not arn.startswith("arn:"):
        raise ValidationException(f"One or more parameter values were invalid: ARNs must start with 'arn:': {arn}")
    try:
        scope, name = parse_table_arn(arn, call.scope)
    except ResourceNotFoundException:
        raise ValidationException("sourceTableArn is not a valid ARN") from None
    if scope.account != call.scope.account:
        raise ValidationException(
            "This action is only supported by accounts that match the resource owner\u2019s account."
        )
    return scope, name


def _restore_time(call: Call, source: TableInfo, request: Request) -> float:
    latest = journal.time_of(call, source.id, source.record)
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
