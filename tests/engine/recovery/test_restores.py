"""Point-in-time recovery and what a restored table takes over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from watched_tables import (
    create_table,
    delete,
    enable_ttl,
    items,
    open_engine,
    put,
    run_all_due,
    stream_arn,
    switch_recovery,
)

from penstock.clock import ManualClock
from penstock.engine.engine import Engine
from penstock.errors import (
    DynamoDBError,
    InvalidRestoreTimeException,
    PointInTimeRecoveryUnavailableException,
    TableAlreadyExistsException,
    TableInUseException,
    TableNotFoundException,
    ValidationException,
)

NOW = 1_700_000_000.0
DAY = 86_400.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture(params=["memory", "file"])
def engine(request: pytest.FixtureRequest, clock: ManualClock, path: str) -> Iterator[Engine]:
    with open_engine(":memory:" if request.param == "memory" else path, clock) as engine:
        create_table(engine)
        yield engine


def restore(engine: Engine, at: float | None = None, into: str = "restored", **more: Any) -> dict[str, Any]:
    time = {"UseLatestRestorableTime": True} if at is None else {"RestoreDateTime": at}
    request = {"SourceTableName": "jobs", "TargetTableName": into, **time, **more}
    description: dict[str, Any] = engine.execute("RestoreTableToPointInTime", request)["TableDescription"]
    return description


def recovery(engine: Engine, table: str = "jobs") -> dict[str, Any]:
    answer = engine.execute("DescribeContinuousBackups", {"TableName": table})["ContinuousBackupsDescription"]
    assert answer["ContinuousBackupsStatus"] == "ENABLED"
    found: dict[str, Any] = answer["PointInTimeRecoveryDescription"]
    return found


def journal_rows(engine: Engine) -> int:
    with engine.reading() as call:
        rows: int = call.db.execute("SELECT count(*) FROM journal").fetchone()[0]
        return rows


# ── the switch ───────────────────────────────────────────────────────────────────────────────────


def test_recovery_is_off_until_it_is_switched_on(engine: Engine, clock: ManualClock) -> None:
    assert recovery(engine) == {"PointInTimeRecoveryStatus": "DISABLED"}
    switch_recovery(engine)
    clock.advance(10)
    assert recovery(engine) == {
        "PointInTimeRecoveryStatus": "ENABLED",
        "RecoveryPeriodInDays": 35,
        "EarliestRestorableDateTime": NOW,
        "LatestRestorableDateTime": NOW + 10,
    }


def test_switching_on_twice_changes_the_period_alone(engine: Engine, clock: ManualClock) -> None:
    switch_recovery(engine)
    clock.advance(10)
    switch_recovery(engine, RecoveryPeriodInDays=7)
    switch_recovery(engine)
    assert recovery(engine)["RecoveryPeriodInDays"] == 7
    assert recovery(engine)["EarliestRestorableDateTime"] == NOW


def test_switching_off_and_on_begins_anew(engine: Engine, clock: ManualClock) -> None:
    switch_recovery(engine, RecoveryPeriodInDays=7)
    put(engine, "a")
    switch_recovery(engine, False)
    run_all_due(engine)
    assert journal_rows(engine) == 0
    clock.advance(10)
    switch_recovery(engine)
    assert recovery(engine)["EarliestRestorableDateTime"] == NOW + 10
    assert recovery(engine)["RecoveryPeriodInDays"] == 35


def test_a_longer_period_does_not_bring_back_what_a_shorter_one_let_go(engine: Engine, clock: ManualClock) -> None:
    switch_recovery(engine, RecoveryPeriodInDays=1)
    clock.advance(5 * DAY)
    switch_recovery(engine, RecoveryPeriodInDays=35)
    assert recovery(engine)["EarliestRestorableDateTime"] == NOW + 4 * DAY


@pytest.mark.parametrize("days", [0, 36])
def test_a_period_out_of_range_is_refused(engine: Engine, days: int) -> None:
    with pytest.raises(ValidationException):
        switch_recovery(engine, RecoveryPeriodInDays=days)


def test_a_period_cannot_be_given_when_switching_off(engine: Engine) -> None:
    with pytest.raises(ValidationException, match="Cannot specify RecoveryPeriodInDays when disabling"):
        switch_recovery(engine, False, RecoveryPeriodInDays=7)


def test_a_missing_table_has_no_recovery(engine: Engine) -> None:
    with pytest.raises(TableNotFoundException, match=r"^Table not found: missing$"):
        recovery(engine, "missing")
    with pytest.raises(TableNotFoundException, match=r"^Table not found: missing$"):
        switch_recovery(engine, table="missing")


# ── the time ─────────────────────────────────────────────────────────────────────────────────────


def test_a_table_is_restored_as_it_was(engine: Engine, clock: ManualClock) -> None:
    put(engine, "before", n={"N": "0"})
    switch_recovery(engine)
    put(engine, "a", n={"N": "1"})
    clock.advance(10)
    put(engine, "a", n={"N": "2"})
    delete(engine, "before")
    put(engine, "later")
    restore(engine, NOW + 9)
    assert items(engine, "restored") == {
        "before": {"id": {"S": "before"}, "n": {"N": "0"}},
        "a": {"id": {"S": "a"}, "n": {"N": "1"}},
    }
    restore(engine, into="latest")
    assert items(engine, "latest") == items(engine)


def test_a_change_of_the_very_moment_is_included(engine: Engine, clock: ManualClock) -> None:
    switch_recovery(engine)
    clock.advance(10)
    put(engine, "a")
    clock.advance(10)
    delete(engine, "a")
    restore(engine, NOW + 10)
    assert list(items(engine, "restored")) == ["a"]


def test_expired_items_come_back(engine: Engine, clock: ManualClock) -> None:
    enable_ttl(engine)
    switch_recovery(engine)
    put(engine, "a", ends={"N": str(int(NOW) + 5)})
    clock.advance(10)
    run_all_due(engine)
    assert items(engine) == {}
    restore(engine, NOW + 4)
    assert list(items(engine, "restored")) == ["a"]


def test_the_window_moves_on(engine: Engine, clock: ManualClock) -> None:
    switch_recovery(engine, RecoveryPeriodInDays=2)
    put(engine, "a", n={"N": "1"})
    clock.advance(DAY)
    put(engine, "a", n={"N": "2"})
    clock.advance(1.5 * DAY)
    run_all_due(engine)
    assert journal_rows(engine) == 1
    with pytest.raises(InvalidRestoreTimeException):
        restore(engine, NOW)
    restore(engine, NOW + DAY / 2 + 1)
    assert items(engine, "restored")["a"]["n"] == {"N": "1"}


def test_the_journal_is_trimmed_in_steps(engine: Engine, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.engine.items.pitr_journal.TRIM_STEP", 3)
    switch_recovery(engine, RecoveryPeriodInDays=1)
    for n in range(8):
        put(engine, f"{n}")
    clock.advance(DAY + 1)
    assert engine.maintenance.run_due() == 0.0
    assert journal_rows(engine) == 5
    run_all_due(engine)
    assert journal_rows(engine) == 0


def test_a_write_that_changes_nothing_is_not_journaled(engine: Engine) -> None:
    switch_recovery(engine)
    put(engine, "a")
    put(engine, "a")
    delete(engine, "not there")
    assert journal_rows(engine) == 1


@pytest.mark.parametrize("at", [NOW - 1, NOW + 11, 0, 1e11])
def test_a_time_outside_the_window_is_refused(engine: Engine, clock: ManualClock, at: float) -> None:
    switch_recovery(engine)
    clock.advance(10)
    with pytest.raises(InvalidRestoreTimeException) as refused:
        restore(engine, at)
    assert str(refused.value).endswith(
        "must be within EarliestRestorableDateTime '2023-11-14T22:13:20Z' "
        "and LatestRestorableDateTime '2023-11-14T22:13:30Z'"
    )


def test_the_earliest_time_that_is_told_can_be_asked_for(engine: Engine, clock: ManualClock) -> None:
    clock.advance(0.75)
    switch_recovery(engine)
    restore(engine, recovery(engine)["EarliestRestorableDateTime"])


# ── a clock that is set back ─────────────────────────────────────────────────────────────────────

HOUR = 3_600.0


@pytest.fixture
def set_back(engine: Engine, clock: ManualClock) -> None:
    """A table with two changes, the clock an hour back since, and a third change."""
    clock.advance(0.5)
    switch_recovery(engine)
    put(engine, "a", n={"N": "1"})
    clock.advance(10)
    put(engine, "a", n={"N": "2"})
    clock.advance(-HOUR)
    put(engine, "a", n={"N": "3"})
    put(engine, "b")


@pytest.mark.usefixtures("set_back")
def test_a_restore_to_the_latest_time_has_what_was_written_since(engine: Engine) -> None:
    restore(engine)
    assert items(engine, "restored") == items(engine)


@pytest.mark.usefixtures("set_back")
def test_a_restore_to_the_latest_time_that_is_told_has_it_too(engine: Engine) -> None:
    assert recovery(engine)["LatestRestorableDateTime"] == NOW + 11, "whole seconds: the next one"
    restore(engine, recovery(engine)["LatestRestorableDateTime"])
    assert items(engine, "restored") == items(engine)


@pytest.mark.usefixtures("set_back")
def test_a_restore_to_a_time_before_it_was_set_back_is_as_it_was(engine: Engine) -> None:
    restore(engine, NOW + 5)
    assert items(engine, "restored")["a"]["n"] == {"N": "1"}
    with pytest.raises(InvalidRestoreTimeException):
        restore(engine, NOW - HOUR + 20)  # what the clock says now: the journal does not know such a time


@pytest.mark.usefixtures("set_back")
def test_time_goes_on_when_the_clock_has_caught_up(engine: Engine, clock: ManualClock) -> None:
    clock.advance(HOUR + 10)
    put(engine, "a", n={"N": "4"})
    assert recovery(engine)["LatestRestorableDateTime"] == NOW + 20
    restore(engine, NOW + 12)
    assert items(engine, "restored")["a"]["n"] == {"N": "3"}
    assert "b" in items(engine, "restored")


def test_the_time_of_a_journal_does_not_fall_with_a_restart_or_in_another_process(
    path: str, clock: ManualClock
) -> None:
    with open_engine(path, clock) as engine:
        create_table(engine)
        switch_recovery(engine)
        put(engine, "a")
        behind = ManualClock(NOW - HOUR)
        with open_engine(path, behind) as other:
            put(other, "b")
            restore(other)
    with open_engine(path, behind) as again:
        assert set(items(again, "restored")) == {"a", "b"}
        put(again, "c")
        restore(again, into="restored-again")
        assert set(items(again, "restored-again")) == {"a", "b", "c"}


def test_recovery_that_is_switched_on_and_then_set_back_has_a_window(engine: Engine, clock: ManualClock) -> None:
    switch_recovery(engine)
    clock.advance(-HOUR)
    put(engine, "a")
    found = recovery(engine)
    assert found["EarliestRestorableDateTime"] == found["LatestRestorableDateTime"] == NOW
    restore(engine, NOW)
    assert list(items(engine, "restored")) == ["a"]


def test_what_can_be_restored_is_not_trimmed_by_a_clock_that_is_behind(engine: Engine, clock: ManualClock) -> None:
    switch_recovery(engine, RecoveryPeriodInDays=1)
    put(engine, "a", n={"N": "1"})
    clock.advance(DAY / 2)
    put(engine, "a", n={"N": "2"})
    clock.advance(-HOUR)
    run_all_due(engine)
    assert journal_rows(engine) == 2
    clock.advance(HOUR + DAY)
    run_all_due(engine)
    assert journal_rows(engine) == 1
    assert recovery(engine)["EarliestRestorableDateTime"] == NOW + DAY / 2


# ── the request ──────────────────────────────────────────────────────────────────────────────────


def refused(engine: Engine, **request: Any) -> DynamoDBError:
    with pytest.raises(DynamoDBError) as error:
        engine.execute("RestoreTableToPointInTime", {"TargetTableName": "restored", **request})
    return error.value


def test_checks_come_in_dynamodbs_order(engine: Engine) -> None:
    latest = {"UseLatestRestorableTime": True}
    neither = refused(engine, SourceTableName="missing")
    assert neither.message == (
        "Invalid Request: Either one of RestoreDateTime or UseLatestRestorableTime must be specified, but not both"
    )
    both = refused(engine, SourceTableName="missing", RestoreDateTime=1, **latest)
    assert both.message.startswith("Invalid Request: Both RestoreDateTime and UseLatestRestorableTime cannot be set")
    missing = refused(engine, SourceTableName="missing", **latest)
    assert (missing.code, missing.message) == ("TableNotFoundException", "Table not found: missing")
    off = refused(engine, SourceTableName="jobs", TargetTableName="jobs", **latest)
    assert isinstance(off, PointInTimeRecoveryUnavailableException)
    assert off.message == "Point in time recovery is not enabled for table 'jobs'"
    switch_recovery(engine)
    early = refused(engine, SourceTableName="jobs", TargetTableName="jobs", RestoreDateTime=1)
    assert isinstance(early, InvalidRestoreTimeException)
    taken = refused(engine, SourceTableName="jobs", TargetTableName="jobs", **latest)
    assert isinstance(taken, TableAlreadyExistsException)
    assert taken.message == "Table already exists: jobs"


def test_the_source_is_named_once(engine: Engine) -> None:
    arn = engine.execute("DescribeTable", {"TableName": "jobs"})["Table"]["TableArn"]
    latest = {"UseLatestRestorableTime": True}
    assert isinstance(refused(engine, **latest), ValidationException)
    both = refused(engine, SourceTableName="jobs", SourceTableArn=arn, **latest)
    assert both.message == "Must provide exactly one of: sourceTableArn, sourceTableName"
    for wrong in ("jobs", arn.replace(":table/", ":fable/"), arn.replace("000000000000", "111111111111")):
        assert isinstance(refused(engine, SourceTableArn=wrong, **latest), ValidationException)
    switch_recovery(engine)
    request = {"SourceTableArn": arn, "TargetTableName": "restored", **latest}
    engine.execute("RestoreTableToPointInTime", request)


def test_the_answer_tells_where_the_table_comes_from(engine: Engine) -> None:
    switch_recovery(engine)
    description = restore(engine, NOW)
    assert description["TableStatus"] == "CREATING"
    assert description["RestoreSummary"] == {
        "SourceTableArn": description["TableArn"].replace("restored", "jobs"),
        "RestoreDateTime": NOW,
        "RestoreInProgress": True,
    }


def test_a_restore_takes_its_time_where_tables_do(path: str, clock: ManualClock) -> None:
    with open_engine(path, clock, table_delay_seconds=10) as engine:
        create_table(engine)
        clock.advance(10)
        made = engine.execute("CreateBackup", {"TableName": "jobs", "BackupName": "backup"})
        arn = made["BackupDetails"]["BackupArn"]
        request = {"BackupArn": arn, "TargetTableName": "restored"}
        engine.execute("RestoreTableFromBackup", request)
        table = engine.execute("DescribeTable", {"TableName": "restored"})["Table"]
        assert (table["TableStatus"], table["RestoreSummary"]["RestoreInProgress"]) == ("CREATING", True)
        with pytest.raises(TableInUseException, match=r"^Table: restored is already being restored from backup: "):
            engine.execute("RestoreTableFromBackup", request)
        clock.advance(10)
        run_all_due(engine)
        table = engine.execute("DescribeTable", {"TableName": "restored"})["Table"]
        assert (table["TableStatus"], "RestoreSummary" in table) == ("ACTIVE", False)


# ── what is taken over ───────────────────────────────────────────────────────────────────────────

FULL: dict[str, Any] = {
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("id", "at", "kind", "day")],
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}, {"AttributeName": "at", "KeyType": "RANGE"}],
    "LocalSecondaryIndexes": [
        {
            "IndexName": "by_day",
            "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}, {"AttributeName": "day", "KeyType": "RANGE"}],
            "Projection": {"ProjectionType": "ALL"},
        }
    ],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "by_kind",
            "KeySchema": [{"AttributeName": "kind", "KeyType": "HASH"}],
            "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["note"]},
            "ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 5},
        }
    ],
    "BillingMode": "PROVISIONED",
    "ProvisionedThroughput": {"ReadCapacityUnits": 7, "WriteCapacityUnits": 6},
    "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
    "Tags": [{"Key": "team", "Value": "blue"}],
    "DeletionProtectionEnabled": True,
    "TableClass": "STANDARD_INFREQUENT_ACCESS",
}


@pytest.fixture
def backup(engine: Engine) -> str:
    """The ARN of a backup of a table that has everything."""
    create_table(engine, "full", **FULL)
    enable_ttl(engine, "full")
    switch_recovery(engine, table="full")
    for n in range(10):
        extra = {"kind": {"S": "x"}} if n % 2 else {"day": {"S": "mo"}}
        put(engine, f"{n}", "full", at={"S": "0"}, note={"S": "n"}, **extra)
    details = engine.execute("CreateBackup", {"TableName": "full", "BackupName": "backup"})["BackupDetails"]
    arn: str = details["BackupArn"]
    return arn


def from_backup(engine: Engine, backup: str, **overrides: Any) -> dict[str, Any]:
    engine.execute("RestoreTableFromBackup", {"BackupArn": backup, "TargetTableName": "restored", **overrides})
    table: dict[str, Any] = engine.execute("DescribeTable", {"TableName": "restored"})["Table"]
    return table


def units(described: dict[str, Any]) -> tuple[int, int]:
    given = described["ProvisionedThroughput"]
    return given["ReadCapacityUnits"], given["WriteCapacityUnits"]


def test_keys_indexes_and_capacity_are_taken_over(engine: Engine, backup: str) -> None:
    table = from_backup(engine, backup)
    source = engine.execute("DescribeTable", {"TableName": "full"})["Table"]
    assert units(table) == (7, 6)
    for member in ("KeySchema", "AttributeDefinitions"):
        assert table[member] == source[member]
    for kind in ("LocalSecondaryIndexes", "GlobalSecondaryIndexes"):
        (index,), (old,) = table[kind], source[kind]
        assert {**index, "IndexArn": ""} == {**old, "IndexArn": ""}
    assert len(items(engine, "restored", IndexName="by_day")) == 5
    assert len(items(engine, "restored", IndexName="by_kind")) == 5


def test_nothing_else_is_taken_over(engine: Engine, backup: str) -> None:
    table = from_backup(engine, backup)
    for member in ("StreamSpecification", "LatestStreamArn", "TableClassSummary"):
        assert member not in table
    assert table["DeletionProtectionEnabled"] is False
    assert recovery(engine, "restored")["PointInTimeRecoveryStatus"] == "DISABLED"
    ttl = engine.execute("DescribeTimeToLive", {"TableName": "restored"})["TimeToLiveDescription"]
    assert ttl == {"TimeToLiveStatus": "DISABLED"}
    assert engine.execute("ListTagsOfResource", {"ResourceArn": table["TableArn"]})["Tags"] == []
    assert table["TableId"] != engine.execute("DescribeTable", {"TableName": "full"})["Table"]["TableId"]


def test_writes_to_a_restored_table_keep_its_indexes(engine: Engine, backup: str) -> None:
    from_backup(engine, backup)
    put(engine, "1", "restored", at={"S": "0"})
    put(engine, "new", "restored", at={"S": "0"}, kind={"S": "x"})
    assert set(items(engine, "restored", IndexName="by_kind")) == {"3", "5", "7", "9", "new"}
    assert stream_arn(engine, "full")  # The source's stream goes on.


def test_empty_overrides_leave_the_indexes_out(engine: Engine, backup: str) -> None:
    table = from_backup(engine, backup, GlobalSecondaryIndexOverride=[], LocalSecondaryIndexOverride=[])
    assert "GlobalSecondaryIndexes" not in table
    assert "LocalSecondaryIndexes" not in table
    assert [one["AttributeName"] for one in table["AttributeDefinitions"]] == ["at", "id"]


def test_an_override_may_rename_an_index(engine: Engine, backup: str) -> None:
    renamed = FULL["GlobalSecondaryIndexes"][0] | {"IndexName": "renamed"}
    from_backup(engine, backup, GlobalSecondaryIndexOverride=[renamed])
    assert len(items(engine, "restored", IndexName="renamed")) == 5


def test_capacity_can_be_overridden(engine: Engine, backup: str) -> None:
    table = from_backup(engine, backup, ProvisionedThroughputOverride={"ReadCapacityUnits": 9, "WriteCapacityUnits": 8})
    assert units(table) == (9, 8)
    assert units(table["GlobalSecondaryIndexes"][0]) == (5, 5)


def test_the_capacity_mode_can_be_overridden(engine: Engine, backup: str) -> None:
    maxima = {"MaxReadRequestUnits": 50, "MaxWriteRequestUnits": 40}
    table = from_backup(engine, backup, BillingModeOverride="PAY_PER_REQUEST", OnDemandThroughputOverride=maxima)
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert table["OnDemandThroughput"] == maxima
    assert units(table) == units(table["GlobalSecondaryIndexes"][0]) == (0, 0)


INDEX: dict[str, Any] = FULL["GlobalSecondaryIndexes"][0]
SOME = {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        (
            {"GlobalSecondaryIndexOverride": [INDEX | {"Projection": {"ProjectionType": "ALL"}}]},
            "Index by_kind does not match a secondary index that existed in the source table",
        ),
        (
            {
                "GlobalSecondaryIndexOverride": [
                    INDEX | {"KeySchema": [{"AttributeName": "day", "KeyType": "HASH"}], "IndexName": "another"}
                ]
            },
            "Index another does not match a secondary index",
        ),
        (
            {"GlobalSecondaryIndexOverride": [INDEX, INDEX | {"IndexName": "twice"}]},
            "Index twice does not match a secondary index",
        ),
        (
            {
                "GlobalSecondaryIndexOverride": [INDEX | {"IndexName": "by_day"}],
                "LocalSecondaryIndexOverride": [FULL["LocalSecondaryIndexes"][0] | {"IndexName": "by_day"}],
            },
            "Duplicate index name: by_day",
        ),
        (
            {"GlobalSecondaryIndexOverride": [{k: v for k, v in INDEX.items() if k != "ProvisionedThroughput"}]},
            "Must specify provisioned throughput for index by_kind",
        ),
        (
            {"BillingModeOverride": "PAY_PER_REQUEST", "ProvisionedThroughputOverride": SOME},
            "Cannot override ProvisionedThroughput if BillingMode is overridden to PAY_PER_REQUEST",
        ),
        (
            {"OnDemandThroughputOverride": {"MaxReadRequestUnits": 5}},
            "Cannot override MaxReadRequestUnits for OnDemandThroughput unless",
        ),
        (
            {"BillingModeOverride": "PAY_PER_REQUEST", "OnDemandThroughputOverride": {"MaxReadRequestUnits": 0}},
            "Requested MaxReadRequestUnits for OnDemandThroughput is outside of valid range",
        ),
    ],
)
def test_overrides_that_do_not_fit_are_refused(
    engine: Engine, backup: str, overrides: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValidationException) as error:
        from_backup(engine, backup, **overrides)
    assert text in error.value.message
    assert engine.execute("ListTables", {})["TableNames"] == ["full", "jobs"]


def test_provisioned_capacity_must_be_said_where_there_was_none(engine: Engine) -> None:
    request = {"TableName": "jobs", "BackupName": "backup"}
    arn = engine.execute("CreateBackup", request)["BackupDetails"]["BackupArn"]
    with pytest.raises(ValidationException, match="Must override ProvisionedThroughput if BillingMode is overridden"):
        from_backup(engine, arn, BillingModeOverride="PROVISIONED")
    with pytest.raises(ValidationException, match="Cannot override ProvisionedThroughput unless BillingMode is"):
        from_backup(engine, arn, ProvisionedThroughputOverride=SOME)
    table = from_backup(engine, arn, BillingModeOverride="PROVISIONED", ProvisionedThroughputOverride=SOME)
    assert units(table) == (1, 1)


def test_a_large_tables_indexes_are_filled_in_the_background(
    engine: Engine, backup: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.engine.items.index_backfill.FILL_AT_ONCE", 4)
    monkeypatch.setattr("penstock.engine.items.index_backfill.FILL_STEP", 3)
    table = from_backup(engine, backup)
    assert table["GlobalSecondaryIndexes"][0]["IndexStatus"] == "CREATING"
    run_all_due(engine)
    assert len(items(engine, "restored", IndexName="by_kind")) == 5
    assert len(items(engine, "restored", IndexName="by_day")) == 5


# ── a law ────────────────────────────────────────────────────────────────────────────────────────

STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "delete", "transact"]), st.sampled_from("abcd"), st.integers(0, 4)), max_size=30
)


@settings(max_examples=60)
@given(STEPS, st.data())
def test_a_restore_to_any_moment_equals_the_table_of_that_moment(
    steps: list[tuple[str, str, int]], data: st.DataObject
) -> None:
    clock = ManualClock(NOW)
    with open_engine(clock=clock) as engine:
        create_table(engine)
        put(engine, "a", n={"N": "9"})
        switch_recovery(engine)
        moments = [(NOW, items(engine))]
        for kind, key, n in steps:
            clock.advance(n / 2)
            if kind == "delete":
                delete(engine, key)
            elif kind == "put":
                put(engine, key, n={"N": str(n)})
            else:
                writes = [{"Put": {"TableName": "jobs", "Item": {"id": {"S": one}}}} for one in {key, "d"}]
                engine.execute("TransactWriteItems", {"TransactItems": writes})
            moments.append((clock.now(), items(engine)))
        at, _ = data.draw(st.sampled_from(moments))
        expected = [state for moment, state in moments if moment <= at][-1]
        restore(engine, at)
        assert items(engine, "restored") == expected


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(["put", "delete"]), st.sampled_from("abc"), st.integers(-9, 9)), max_size=30))
def test_a_restore_to_the_latest_time_is_the_table_whatever_the_clock_does(steps: list[tuple[str, str, int]]) -> None:
    clock = ManualClock(NOW)
    with open_engine(clock=clock) as engine:
        create_table(engine)
        switch_recovery(engine)
        for kind, key, n in steps:
            clock.advance(n / 4)
            if kind == "delete":
                delete(engine, key)
            else:
                put(engine, key, n={"N": str(n)})
        restore(engine)
        assert items(engine, "restored") == items(engine)
        with engine.reading() as call:
            times = [at for (at,) in call.db.execute("SELECT at FROM journal ORDER BY sequence")]
        assert times == sorted(times)
