"""Backups: made at one moment, outliving their table, listed and restored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from watched_tables import create_table, delete, enable_ttl, items, open_engine, put, run_all_due, switch_recovery

from penstock.clock import ManualClock
from penstock.engine.engine import Engine
from penstock.engine.settings import Scope
from penstock.errors import (
    AccessDeniedException,
    BackupInUseException,
    BackupNotFoundException,
    TableNotFoundException,
    ValidationException,
)

NOW = 1_700_000_000.0
NO_BACKUP = "arn:aws:dynamodb:us-east-1:000000000000:table/jobs/backup/01700000000000-0123abcd"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture(params=["memory", "file"])
def engine(request: pytest.FixtureRequest, clock: ManualClock, path: str) -> Iterator[Engine]:
    with open_engine(":memory:" if request.param == "memory" else path, clock) as engine:
        create_table(engine)
        yield engine


def back_up(engine: Engine, name: str = "nightly", table: str = "jobs") -> str:
    details = engine.execute("CreateBackup", {"TableName": table, "BackupName": name})["BackupDetails"]
    arn: str = details["BackupArn"]
    return arn


def restore(engine: Engine, arn: str, into: str = "restored", **overrides: Any) -> dict[str, Any]:
    request = {"BackupArn": arn, "TargetTableName": into, **overrides}
    description: dict[str, Any] = engine.execute("RestoreTableFromBackup", request)["TableDescription"]
    return description


def listed(engine: Engine, **filters: Any) -> list[str]:
    return [one["BackupName"] for one in engine.execute("ListBackups", filters)["BackupSummaries"]]


def test_a_restored_backup_has_the_items_of_its_moment(engine: Engine) -> None:
    put(engine, "a", n={"N": "1"})
    put(engine, "b")
    arn = back_up(engine)
    put(engine, "a", n={"N": "2"})
    delete(engine, "b")
    put(engine, "c")
    restore(engine, arn)
    assert items(engine, "restored") == {"a": {"id": {"S": "a"}, "n": {"N": "1"}}, "b": {"id": {"S": "b"}}}


def test_a_backup_survives_its_table(engine: Engine) -> None:
    put(engine, "a")
    arn = back_up(engine)
    engine.execute("DeleteTable", {"TableName": "jobs"})
    assert listed(engine, TableName="jobs") == ["nightly"]
    restore(engine, arn, "jobs")
    assert list(items(engine)) == ["a"]


def test_a_new_backup_is_creating_and_then_available(engine: Engine) -> None:
    put(engine, "a")
    details = engine.execute("CreateBackup", {"TableName": "jobs", "BackupName": "nightly"})["BackupDetails"]
    assert details == {
        "BackupArn": details["BackupArn"],
        "BackupName": "nightly",
        "BackupSizeBytes": 3,
        "BackupStatus": "CREATING",
        "BackupType": "USER",
        "BackupCreationDateTime": NOW,
    }
    described = engine.execute("DescribeBackup", {"BackupArn": details["BackupArn"]})["BackupDescription"]
    assert described["BackupDetails"] == details | {"BackupStatus": "AVAILABLE"}


def test_a_backup_describes_the_table_it_is_of(engine: Engine) -> None:
    definitions = [{"AttributeName": name, "AttributeType": "S"} for name in ("id", "kind")]
    index = {
        "IndexName": "by_kind",
        "KeySchema": [{"AttributeName": "kind", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }
    create_table(engine, "full", "KEYS_ONLY", AttributeDefinitions=definitions, GlobalSecondaryIndexes=[index])
    enable_ttl(engine, "full")
    put(engine, "a", "full")
    table = engine.execute("DescribeTable", {"TableName": "full"})["Table"]
    description = engine.execute("DescribeBackup", {"BackupArn": back_up(engine, table="full")})["BackupDescription"]
    assert description["SourceTableDetails"] == {
        "TableName": "full",
        "TableId": table["TableId"],
        "TableArn": table["TableArn"],
        "TableSizeBytes": 3,
        "ItemCount": 1,
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "TableCreationDateTime": NOW,
        "ProvisionedThroughput": {"ReadCapacityUnits": 0, "WriteCapacityUnits": 0},
        "BillingMode": "PAY_PER_REQUEST",
    }
    assert description["SourceTableFeatureDetails"] == {
        "GlobalSecondaryIndexes": [
            index | {"ProvisionedThroughput": {"ReadCapacityUnits": 0, "WriteCapacityUnits": 0}}
        ],
        "StreamDescription": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
        "TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": "ends"},
    }


def test_a_deleted_backup_is_gone_at_once(engine: Engine) -> None:
    arn = back_up(engine)
    answer = engine.execute("DeleteBackup", {"BackupArn": arn})["BackupDescription"]
    assert answer["BackupDetails"]["BackupStatus"] == "DELETED"
    assert listed(engine) == []
    for operation in ("DescribeBackup", "DeleteBackup"):
        with pytest.raises(BackupNotFoundException, match=f"^Backup not found: {arn}$"):
            engine.execute(operation, {"BackupArn": arn})
    with engine.reading() as call:
        assert call.db.execute("SELECT count(*) FROM sqlite_master WHERE name GLOB 'b[0-9]*'").fetchone() == (0,)


def test_names_need_not_differ(engine: Engine) -> None:
    assert len({back_up(engine), back_up(engine), back_up(engine)}) == 3
    assert listed(engine) == ["nightly"] * 3


def test_backups_are_listed_in_pages_in_the_order_they_were_made(engine: Engine, clock: ManualClock) -> None:
    create_table(engine, "others")
    for n in range(5):
        back_up(engine, f"backup{n}", "others" if n % 2 else "jobs")
        clock.advance(1)
    seen: list[str] = []
    request: dict[str, Any] = {"Limit": 2}
    while True:
        page = engine.execute("ListBackups", request)
        seen += [one["BackupName"] for one in page["BackupSummaries"]]
        if "LastEvaluatedBackupArn" not in page:
            break
        request["ExclusiveStartBackupArn"] = page["LastEvaluatedBackupArn"]
    assert seen == [f"backup{n}" for n in range(5)]
    assert listed(engine, TableName="others") == ["backup1", "backup3"]


def test_a_time_range_includes_its_start_and_not_its_end(engine: Engine, clock: ManualClock) -> None:
    for n in range(3):
        back_up(engine, f"backup{n}")
        clock.advance(10)
    assert listed(engine, TimeRangeLowerBound=NOW + 10) == ["backup1", "backup2"]
    assert listed(engine, TimeRangeUpperBound=NOW + 10) == ["backup0"]
    with pytest.raises(ValidationException, match="lower bound must be less than or equal"):
        listed(engine, TimeRangeLowerBound=NOW + 10, TimeRangeUpperBound=NOW)


def test_a_table_deleted_under_recovery_leaves_a_system_backup(engine: Engine, clock: ManualClock) -> None:
    put(engine, "a")
    switch_recovery(engine)
    engine.execute("DeleteTable", {"TableName": "jobs"})
    assert listed(engine) == []
    assert listed(engine, BackupType="ALL") == ["jobs$DeletedTableBackup"]
    (summary,) = engine.execute("ListBackups", {"BackupType": "SYSTEM"})["BackupSummaries"]
    assert summary["BackupExpiryDateTime"] == NOW + 35 * 86_400
    with pytest.raises(ValidationException, match="not allowed to delete the system backup with arn"):
        engine.execute("DeleteBackup", {"BackupArn": summary["BackupArn"]})
    restore(engine, summary["BackupArn"])
    assert list(items(engine, "restored")) == ["a"]
    clock.advance(35 * 86_400)
    run_all_due(engine)
    assert listed(engine, BackupType="ALL") == []


def test_two_tables_of_a_name_deleted_in_a_moment_leave_two_backups(engine: Engine) -> None:
    for _ in range(2):
        switch_recovery(engine)
        engine.execute("DeleteTable", {"TableName": "jobs"})
        create_table(engine)
    assert len(listed(engine, BackupType="SYSTEM")) == 2


def test_a_missing_table_cannot_be_backed_up(engine: Engine) -> None:
    with pytest.raises(TableNotFoundException, match=r"^Table not found: missing$"):
        back_up(engine, table="missing")


@pytest.mark.parametrize("operation", ["DescribeBackup", "DeleteBackup", "RestoreTableFromBackup"])
@pytest.mark.parametrize(
    ("arn", "error"),
    [
        (NO_BACKUP, BackupNotFoundException),
        (NO_BACKUP.replace("000000000000", "111111111111"), AccessDeniedException),
        ("arn:aws:dynamodb:us-east-1:000000000000:table/jobs", ValidationException),
        ("x" * 48, ValidationException),
    ],
)
def test_an_arn_of_no_backup_is_refused(engine: Engine, operation: str, arn: str, error: type[Exception]) -> None:
    request = {"BackupArn": arn}
    if operation.startswith("Restore"):
        request["TargetTableName"] = "restored"
    with pytest.raises(error):
        engine.execute(operation, request)


def test_another_regions_backups_are_not_seen(engine: Engine) -> None:
    arn = back_up(engine)
    other = Scope(region="eu-west-1")
    assert engine.execute("ListBackups", {}, other) == {"BackupSummaries": []}
    with pytest.raises(BackupNotFoundException):
        engine.execute("DescribeBackup", {"BackupArn": arn}, other)


def test_a_backup_being_restored_is_in_use(path: str, clock: ManualClock) -> None:
    with open_engine(path, clock, table_delay_seconds=10) as engine:
        create_table(engine)
        clock.advance(10)
        arn = back_up(engine)
        restore(engine, arn)
        with pytest.raises(BackupInUseException, match=f"^Backup is being used to restore another table: {arn}$"):
            restore(engine, arn, "second")
        with pytest.raises(BackupInUseException, match=f"^Backup is being used to restore table: {arn}$"):
            engine.execute("DeleteBackup", {"BackupArn": arn})
        clock.advance(10)
        run_all_due(engine)
        engine.execute("DeleteBackup", {"BackupArn": arn})


def test_a_backup_lies_in_the_file(path: str, clock: ManualClock) -> None:
    with open_engine(path, clock) as engine:
        create_table(engine)
        put(engine, "a")
        arn = back_up(engine)
        engine.execute("DeleteTable", {"TableName": "jobs"})
    with open_engine(path, clock) as engine:
        restore(engine, arn)
        assert list(items(engine, "restored")) == ["a"]
