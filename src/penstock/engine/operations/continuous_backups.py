"""UpdateContinuousBackups, DescribeContinuousBackups."""

from __future__ import annotations

from copy import deepcopy
from math import floor
from typing import Any

from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.context import Call
from penstock.engine.recovery import journal
from penstock.engine.registry import Request, Response, operation
from penstock.errors import ContinuousBackupsUnavailableException, TableNotFoundException, ValidationException


@operation("UpdateContinuousBackups", kind="write")
def update_continuous_backups(call: Call, request: Request) -> Response:
    """Switches point-in-time recovery; said twice, it changes nothing."""
    wanted = request["PointInTimeRecoverySpecification"]
    days = wanted.get("RecoveryPeriodInDays")
    if not wanted["PointInTimeRecoveryEnabled"] and days is not None:
        raise ValidationException(
            "Invalid Request: Cannot specify RecoveryPeriodInDays when disabling point-in-time recovery."
        )
    table = _found(call, request["TableName"])
    record = deepcopy(dict(table.record))
    if wanted["PointInTimeRecoveryEnabled"]:
        journal.enable(call, table, record, days)
    else:
        _refuse_in_use(call, table)
        journal.disable(call, record)
    if record != table.record:
        table = call.engine.catalog.save(call.db, table, record)
    return _described(call, table)


@operation("DescribeContinuousBackups", kind="read")
def describe_continuous_backups(call: Call, request: Request) -> Response:
    return _described(call, _found(call, request["TableName"]))


def _refuse_in_use(call: Call, table: TableInfo) -> None:
    """A restore goes by the journal, to which every change must be added until the restore has ended."""
    if journal.restores_of(call.db, table.id):
        raise ContinuousBackupsUnavailableException(
            f"Table {table.name} is being restored to a point in time. Please retry later."
        )


def _found(call: Call, name: str) -> TableInfo:
    table = call.find(name)
    if table is None or call.now < table.record.get("active_at", 0.0):
        raise TableNotFoundException(f"Table not found: {name}")
    return table


def _described(call: Call, table: TableInfo) -> Response:
    recovery: dict[str, Any] = {"PointInTimeRecoveryStatus": "DISABLED"}
    if table.record.get("pitr"):
        now = journal.time_of(call, table.id, table.record)
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
