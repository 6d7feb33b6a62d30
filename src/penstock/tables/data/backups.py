"""Backups and restores that finish the job.

1. A restore of DynamoDB's leaves out tags, TTL, stream, recovery and protection. Here it ends when the new table has
   them and equals the definition of its source, or says what differs.
2. The definition is, in this order: the one that is given, the live source's, what the backup itself remembers.
3. A restore goes only into a table that does not exist. Interrupted, it is finished by `finish`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock.client.database import Database
from penstock.client.wrappers.pacing import Pacer
from penstock.errors import (
    PenstockError,
    PointInTimeRecoveryUnavailableException,
    TableNotFoundException,
    UnknownOperationException,
)
from penstock.tables.apply.apply import Tell, reconcile, wait_until_active
from penstock.tables.data.dump import default_state, load, open_dump, read_definition
from penstock.tables.definitions import aws_shapes
from penstock.tables.definitions.definition import Table
from penstock.tables.definitions.export_file import read_export
from penstock.tables.plan.changes import Change, describe_whole
from penstock.tables.plan.survey import inspect, require_table

RESTORE_SECONDS = 24 * 3600.0
"""A restore's time grows with the table; a day is what the largest take."""

_POLL_SECONDS = (0.02, 5.0)


@dataclass(frozen=True, slots=True)
class PointInTime:
    """A moment of a table that has point-in-time recovery; None is the latest."""

    table: str
    at: float | None


@dataclass(frozen=True, slots=True)
class Backup:
    arn: str


@dataclass(frozen=True, slots=True)
class DumpFolder:
    folder: Path


Source = PointInTime | Backup | DumpFolder


@dataclass(frozen=True, slots=True)
class Restored:
    """A restored table: how many items it tells, where its settings came from, and what could not be known."""

    table: str
    items: int
    settings_from: str
    unknown: tuple[str, ...] = ()


class NotAsBefore(PenstockError):
    """The restored table differs from the definition of its source."""

    def __init__(self, table: str, left: list[Change]) -> None:
        super().__init__(table, left)
        self.table = table
        self.left = left

    def __str__(self) -> str:
        shown = "".join(f"\n  {describe_whole(one)}" for one in self.left)
        return f"{self.table} is restored, but to be as its source it needs:{shown}\nRun it again with --finish."


@dataclass(frozen=True, slots=True)
class _Definition:
    """The definition that a restored table must have; without one, what its backup remembers."""

    told_by: str
    table: Table | None
    features: Mapping[str, Any] = field(default_factory=dict)

    def of(self, restored: Table) -> Table:
        """A backup remembers TTL and stream; keys and indexes are those that the restore has made of it."""
        if self.table is not None:
            return self.table
        stream = {"StreamSpecification": self.features.get("StreamDescription")}
        ttl = aws_shapes.ttl_of(self.features.get("TimeToLiveDescription", {}))
        return restored.replace(ttl=ttl, stream=aws_shapes.stream_of(stream))

    @property
    def unknown(self) -> tuple[str, ...]:
        return () if self.table is not None else ("tags", "point-in-time recovery", "table class", "protection")


def back_up(db: Database, table: str, name: str, *, tell: Tell, seconds: float = RESTORE_SECONDS) -> dict[str, Any]:
    """Makes a backup and waits until it can be used; DynamoDB's description of it."""
    try:
        answer = _execute(db, "CreateBackup", {"TableName": table, "BackupName": name})
    except TableNotFoundException:
        raise PenstockError(f"There is no table {table} in {db.name}.") from None
    arn = answer["BackupDetails"]["BackupArn"]
    pause, ends_at = _POLL_SECONDS[0], time.monotonic() + seconds
    while True:
        description: dict[str, Any] = db.execute("DescribeBackup", {"BackupArn": arn})["BackupDescription"]
        status = description["BackupDetails"]["BackupStatus"]
        if status == "AVAILABLE":
            return description
        tell(f"the backup of {table} is {status}")
        if time.monotonic() > ends_at:
            raise PenstockError(f"The backup {arn} is still {status} after {seconds:.0f} s.")
        time.sleep(pause)
        pause = min(pause * 1.5, _POLL_SECONDS[1])


def list_backups(db: Database, table: str | None = None) -> list[dict[str, Any]]:
    """DynamoDB's summaries of all backups, or of one table's, the oldest first."""
    request: dict[str, Any] = {"BackupType": "ALL"} | ({} if table is None else {"TableName": table})
    found: list[dict[str, Any]] = []
    while True:
        answer = _execute(db, "ListBackups", request)
        found += answer.get("BackupSummaries", ())
        last = answer.get("LastEvaluatedBackupArn")
        if last is None:
            return sorted(found, key=lambda one: (str(one.get("TableName")), str(one.get("BackupArn"))))
        request["ExclusiveStartBackupArn"] = last


def describe(db: Database, arn: str) -> dict[str, Any]:
    """DynamoDB's description of a backup; raises BackupNotFoundException."""
    description: dict[str, Any] = _execute(db, "DescribeBackup", {"BackupArn": arn})["BackupDescription"]
    return description


def delete(db: Database, arn: str) -> None:
    """Deletes a backup; raises BackupNotFoundException."""
    _execute(db, "DeleteBackup", {"BackupArn": arn})


def table_of(arn: str) -> str:
    """The table's name, which a backup's ARN contains."""
    return arn.partition(":table/")[2].partition("/")[0] or arn


def _execute(db: Database, operation: str, request: dict[str, Any]) -> dict[str, Any]:
    """Like `execute`; an endpoint without backups, such as DynamoDB Local, is told from one that refuses."""
    try:
        return db.execute(operation, request)
    except UnknownOperationException:
        raise PenstockError(
            f"{db.name} has no {operation}. `penstock tables dump` writes a table to a folder, and "
            "`penstock tables restore NEW --dump DIR` makes it again."
        ) from None


def default_name(table: str, now: float) -> str:
    """`orders-2026-11-15T21-19-33`."""
    return f"{table}-{datetime.fromtimestamp(now, UTC):%Y-%m-%dT%H-%M-%S}"


def parse_moment(text: str) -> float | None:
    """`latest`, or a time such as 2025-06-16T21:19:33Z; without a zone it is UTC."""
    if text == "latest":
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise PenstockError(f"{text!r} is no time. Write 2025-06-16T21:19:33Z, or latest.") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def restore(
    db: Database,
    source: Source,
    table: str,
    *,
    definition: Path | None = None,
    finish: bool = False,
    dry_run: bool = False,
    tell: Tell,
    pacer: Pacer | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Restored:
    """Restores into a new table, puts its settings back and verifies them. With `finish`, only the latter two.

    With `dry_run` everything is checked, and what would be restored is given.
    """
    wanted = _find_definition(db, source, definition)
    exists = inspect(db, table, settings=False) is not None
    if finish and not exists:
        raise PenstockError(f"There is no table {table} to finish. Run it without --finish.")
    if not finish and exists and not _has_partial_load(db, source, table):
        raise PenstockError(f"There is a table {table} already. Restore into another name, or --finish this one.")
    if dry_run:
        return Restored(table, _items(db, source, table if finish else None), wanted.told_by, wanted.unknown)
    if not finish:
        _start_restore(db, source, table, pacer, progress)
    tell(f"waiting for {table}")
    wait_until_active(db, table, tell, seconds=RESTORE_SECONDS)
    left = reconcile(db, table, wanted.of(require_table(db, table).table), tell)
    if left:
        raise NotAsBefore(table, list(left))
    return Restored(table, _items(db, source, table), wanted.told_by, wanted.unknown)


def _items(db: Database, source: Source, restored: str | None) -> int:
    """Of the restored table, which DynamoDB counts every six hours; of its source if there is no such table yet."""
    match source:
        case DumpFolder(folder):
            return open_dump(folder).items
        case Backup(arn) if restored is None:
            description = _execute(db, "DescribeBackup", {"BackupArn": arn})["BackupDescription"]
            return int(description["SourceTableDetails"].get("ItemCount", 0))
        case PointInTime(name) if restored is None:
            return require_table(db, name, settings=False).facts.items
        case _:
            return require_table(db, str(restored), settings=False).facts.items


def _has_partial_load(db: Database, source: Source, table: str) -> bool:
    """Whether an earlier run has loaded a part of the dump: then this one loads the rest."""
    return isinstance(source, DumpFolder) and default_state(source.folder, db, table).exists()


def _start_restore(
    db: Database, source: Source, table: str, pacer: Pacer | None, progress: Callable[[int, int], object] | None
) -> None:
    match source:
        case PointInTime(name, at):
            moment = {"UseLatestRestorableTime": True} if at is None else {"RestoreDateTime": at}
            request = {"SourceTableName": name, "TargetTableName": table, **moment}
            try:
                _execute(db, "RestoreTableToPointInTime", request)
            except PointInTimeRecoveryUnavailableException:
                raise PenstockError(f"{name} has no point-in-time recovery. Give --backup or --dump.") from None
        case Backup(arn):
            _execute(db, "RestoreTableFromBackup", {"BackupArn": arn, "TargetTableName": table})
        case DumpFolder(folder):
            load(db, folder, table, create=True, pacer=pacer, progress=progress)


def _find_definition(db: Database, source: Source, given: Path | None) -> _Definition:
    if given is not None:
        try:
            return _Definition(str(given), read_export(given.read_bytes(), str(given)))
        except OSError as error:
            raise PenstockError(f"{given}: {error.strerror}. Give a file of `penstock tables export`.") from error
    match source:
        case PointInTime(name):
            return _Definition(f"the table {name}", require_table(db, name).table)
        case DumpFolder(folder):
            open_dump(folder)
            return _Definition(str(folder), read_definition(folder))
        case Backup(arn):
            return _of_backup(db, arn)


def _of_backup(db: Database, arn: str) -> _Definition:
    description = _execute(db, "DescribeBackup", {"BackupArn": arn})["BackupDescription"]
    name, features = description["SourceTableDetails"]["TableName"], description.get("SourceTableFeatureDetails", {})
    live = inspect(db, name)
    if live is not None:
        return _Definition(f"the table {name}", live.table)
    return _Definition("the backup itself", None, features)
