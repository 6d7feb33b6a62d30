"""UpdateContinuousBackups, DescribeContinuousBackups."""

from __future__ import annotations

from copy import deepcopy
from math import floor
from typing import Any

from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.context import OperationContext
from penstock.engine.recovery import journal
from penstock.engine.registry import Request, Response, operation
from penstock.errors import ContinuousBackupsUnavailableException, TableNotFoundException, ValidationException


@operation("UpdateContinuousBackups", kind="write")
def update_continuous_backups(context: OperationContext, request: Request) -> Response:
    """Switches point-in-time recovery; said twice, it changes nothing."""
    wanted = request["PointInTimeRecoverySpecification"]
    days = wanted.get("RecoveryPeriodInDays")
    if not wanted["PointInTimeRecoveryEnabled"] and days is not None:
        raise ValidationException(
            "Invalid Request: Cannot specify RecoveryPeriodInDays when disabling point-in-time recovery."
        )
    table = _found(context, request["TableName"])
    record = deepcopy(dict(table.record))
    if wanted["PointInTimeRecoveryEnabled"]:
        journal.enable(context, table, record, days)
    else:
        _refuse_in_use(context, table)
        journal.disable(context, record)
    if record != table.record:
        table = context.engine.catalog.save(context.db, table, record)
    return _described(context, table)


@operation("DescribeContinuousBackups", kind="read")
def describe_continuous_backups(context: OperationContext, request: Request) -> Response:
    return _described(context, _found(context, request["TableName"]))


def _refuse_in_use(context: OperationContext, table: TableInfo) -> None:
    """A restore goes by the journal, to which every change must be added until the restore has ended."""
    if journal.restores_of(context.db, table.id):
        raise ContinuousBackupsUnavailableException(
            f"Table {table.name} is being restored to a point in time. Please retry later."
        )


def _found(context: OperationContext, name: str) -> TableInfo:
    table = context.find(name)
    if table is None or context.now < table.record.get("active_at", 0.0):
        raise TableNotFoundException(f"Table not found: {name}")
    return table


def _described(context: OperationContext, table: TableInfo) -> Response:
    recovery: dict[str, Any] = {"PointInTimeRecoveryStatus": "DISABLED"}
    if table.record.get("pitr"):
        now = journal.time_of(context, table.id, table.record)
        recovery = {
            "PointInTimeRecoveryStatus": "ENABLED",
            "RecoveryPeriodInDays": table.record["pitr"]["days"],
            # Whole seconds: that is all an SDK sends back as RestoreDateTime.
            "EarliestRestorableDateTime": floor(journal.earliest(table.record, now)),
            "LatestRestorableDateTime": floor(now),
        }
    return {
        "ContinuousBackupsDescription": {
            "ContinuousBackupsStatus": "ENABLED",
            "PointInTimeRecoveryDescription": recovery,
        }
    }
