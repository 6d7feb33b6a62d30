"""Operations on large tables proceed in steps: each transaction is bounded, and what they leave is of one moment."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from watched_tables import (
    Item,
    create_table,
    delete,
    disable_ttl,
    enable_ttl,
    items,
    open_engine,
    put,
    run_all_due,
    switch_recovery,
)

from penstock.clock import ManualClock
from penstock.engine.engine import Engine
from penstock.engine.items.bulk_rows import Loading
from penstock.engine.items.pitr_journal import trim_journal
from penstock.engine.maintenance import MOST_ROWS, STEP_SECONDS, Maintenance, StepSizes
from penstock.engine.recovery.restores import restore_tables
from penstock.engine.repair.examine import examine
from penstock.engine.repair.rescue import rescue
from penstock.engine.settings import DEFAULT_SCOPE
from penstock.engine.storage import file_format
from penstock.engine.storage.database_file import Connection
from penstock.engine.ttl_sweeper import sweep
from penstock.errors import (
    BackupInUseException,
    ContinuousBackupsUnavailableException,
    ResourceInUseException,
    ResourceNotFoundException,
    TableInUseException,
)

NOW = 1_700_000_000.0
ITEMS = 60
STEP = 7
AT_ONCE = 10
MOST = AT_ONCE + 6
"""Rows that a transaction may change: those of a step or of what is done at once, and a few of catalogs."""

DEFINITIONS = [{"AttributeName": name, "AttributeType": "S"} for name in ("id", "kind", "day")]
KEY = [{"AttributeName": "id", "KeyType": "HASH"}, {"AttributeName": "day", "KeyType": "RANGE"}]
BY_KIND = {
    "IndexName": "by_kind",
    "KeySchema": [{"AttributeName": "kind", "KeyType": "HASH"}],
    "Projection": {"ProjectionType": "ALL"},
}
LOCAL = {
    "IndexName": "local",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}, {"AttributeName": "kind", "KeyType": "RANGE"}],
    "Projection": {"ProjectionType": "KEYS_ONLY"},
}
INDEXED: dict[str, Any] = {
    "AttributeDefinitions": DEFINITIONS,
    "KeySchema": KEY,
    "GlobalSecondaryIndexes": [BY_KIND],
    "LocalSecondaryIndexes": [LOCAL],
}
LATEST = {"UseLatestRestorableTime": True}


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a table of some dozens of items what one of a million is."""
    make_steps_small(monkeypatch)


def make_steps_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.engine.maintenance.AT_ONCE_ROWS", AT_ONCE)
    monkeypatch.setattr("penstock.engine.maintenance.MOST_ROWS", STEP)
    monkeypatch.setattr("penstock.engine.items.index_backfill.FILL_AT_ONCE", AT_ONCE)
    monkeypatch.setattr("penstock.engine.items.index_backfill.FILL_STEP", STEP)
    monkeypatch.setattr("penstock.engine.ttl_sweeper.FILL_STEP", STEP)
    monkeypatch.setattr("penstock.engine.items.expiry_rows.FILL_AT_ONCE", AT_ONCE)
    monkeypatch.setattr("penstock.engine.items.pitr_journal.TRIM_STEP", STEP)
    monkeypatch.setattr("penstock.engine.recovery.restores.RUN_ROWS", 2 * STEP)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture(params=["memory", "file"])
def engine(request: pytest.FixtureRequest, clock: ManualClock, path: str) -> Iterator[Engine]:
    with open_engine(":memory:" if request.param == "memory" else path, clock) as engine:
        fill(engine)
        yield engine


def fill(engine: Engine) -> None:
    create_table(engine, **INDEXED)
    for n in range(ITEMS):
        put_numbered(engine, n)


def put_numbered(engine: Engine, n: int, **attributes: dict[str, Any]) -> None:
    common = {"day": {"S": "mo"}, "kind": {"S": f"k{n % 3}"}, "ends": {"N": str(int(NOW) + 10**6 + n)}}
    put(engine, f"n{n}", **common | attributes)


def remove_numbered(engine: Engine, n: int) -> None:
    engine.execute("DeleteItem", {"TableName": "jobs", "Key": {"id": {"S": f"n{n}"}, "day": {"S": "mo"}}})


def back_up(engine: Engine, table: str = "jobs") -> str:
    answer = engine.execute("CreateBackup", {"TableName": table, "BackupName": "monday"})
    arn: str = answer["BackupDetails"]["BackupArn"]
    return arn


def backup_status(engine: Engine, arn: str) -> str:
    answer = engine.execute("DescribeBackup", {"BackupArn": arn})["BackupDescription"]
    status: str = answer["BackupDetails"]["BackupStatus"]
    return status


def restore(engine: Engine, arn: str, into: str = "restored") -> None:
    engine.execute("RestoreTableFromBackup", {"BackupArn": arn, "TargetTableName": into})


def recover(engine: Engine, at: float | None = None, source: str = "jobs") -> None:
    time: dict[str, Any] = LATEST if at is None else {"RestoreDateTime": at}
    request = {"SourceTableName": source, "TargetTableName": "restored", **time}
    engine.execute("RestoreTableToPointInTime", request)


def table_status(engine: Engine, table: str = "restored") -> str:
    status: str = engine.execute("DescribeTable", {"TableName": table})["Table"]["TableStatus"]
    return status


def drop_index(engine: Engine) -> None:
    deletion = {"GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "by_kind"}}]}
    engine.execute("UpdateTable", {"TableName": "jobs", **deletion})


def names_in(engine: Engine) -> set[str]:
    with engine.reading() as call:
        return {name for (name,) in call.db.execute("SELECT name FROM sqlite_master")}


# ── each transaction is bounded ──────────────────────────────────────────────────────────────────


@contextmanager
def changes_of_transactions(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many rows each transaction changes or drops with its table."""
    found: list[int] = []
    dropped = 0
    db = engine.store.connection()
    before = db.total_changes
    drop = file_format.drop

    def counting(connection: Connection, name: str) -> None:
        nonlocal dropped
        if name in {one for (one,) in connection.execute("SELECT name FROM sqlite_master")}:
            dropped += connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
        drop(connection, name)

    def note(statement: str) -> None:
        nonlocal before, dropped
        if statement == "COMMIT":
            found.append(db.total_changes - before + dropped)
            before, dropped = db.total_changes, 0

    monkeypatch.setattr(file_format, "drop", counting)
    db.set_trace_callback(note)
    try:
        yield found
    finally:
        db.set_trace_callback(None)


def _delete_table(engine: Engine) -> None:
    engine.execute("DeleteTable", {"TableName": "jobs"})


def _delete_backup(engine: Engine) -> None:
    (backup,) = engine.execute("ListBackups", {})["BackupSummaries"]
    engine.execute("DeleteBackup", {"BackupArn": backup["BackupArn"]})


def _restore(engine: Engine) -> None:
    (backup,) = engine.execute("ListBackups", {})["BackupSummaries"]
    restore(engine, backup["BackupArn"])


def _backed_up(engine: Engine) -> None:
    back_up(engine)
    run_all_due(engine)


def _recoverable(engine: Engine) -> None:
    switch_recovery(engine)
    assert isinstance(engine.clock, ManualClock)
    engine.clock.advance(1)
    for n in range(ITEMS):
        put_numbered(engine, n, more={"S": "x"})


def _expiring(engine: Engine) -> None:
    enable_ttl(engine)
    run_all_due(engine)


def _nothing(engine: Engine) -> None:
    pass


@pytest.mark.parametrize(
    ("before", "operation"),
    [
        (_nothing, back_up),
        (_backed_up, _restore),
        (_recoverable, recover),
        (_recoverable, lambda engine: recover(engine, NOW)),
        (_nothing, _delete_table),
        (_recoverable, _delete_table),
        (_backed_up, _delete_backup),
        (_nothing, drop_index),
        (_nothing, enable_ttl),
        (_expiring, disable_ttl),
        (_recoverable, lambda engine: switch_recovery(engine, False)),
    ],
    ids=[
        "CreateBackup",
        "RestoreTableFromBackup",
        "RestoreTableToPointInTime",
        "RestoreTableToPointInTime of long ago",
        "DeleteTable",
        "DeleteTable with recovery",
        "DeleteBackup",
        "UpdateTable that deletes an index",
        "UpdateTimeToLive on",
        "UpdateTimeToLive off",
        "UpdateContinuousBackups off",
    ],
)
def test_no_transaction_of_a_long_operation_changes_many_rows(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    before: Callable[[Engine], object],
    operation: Callable[[Engine], object],
) -> None:
    before(engine)
    with changes_of_transactions(engine, monkeypatch) as found:
        operation(engine)
        run_all_due(engine)
    # A step of a restore to a point in time takes from the journal, notes the keys, and copies.
    assert max(found) <= MOST + 2 * STEP
    assert not [name for name in names_in(engine) if name.startswith("garbage") or name.endswith(("_new", "_undo"))]


def test_a_table_kept_after_its_deletion_is_not_copied(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    switch_recovery(engine)
    (before,) = [name for name in names_in(engine) if name[0] == "t" and name[1:].isdigit()]
    with changes_of_transactions(engine, monkeypatch) as found:
        _delete_table(engine)
    assert max(found) < STEP
    names = names_in(engine)
    assert before not in names and "b1" in names
    (backup,) = engine.execute("ListBackups", {"BackupType": "SYSTEM"})["BackupSummaries"]
    assert backup["BackupStatus"] == "CREATING"
    run_all_due(engine)
    described = engine.execute("DescribeBackup", {"BackupArn": backup["BackupArn"]})["BackupDescription"]
    assert described["BackupDetails"]["BackupStatus"] == "AVAILABLE"
    assert described["SourceTableDetails"]["ItemCount"] == ITEMS


def test_a_table_whose_deletion_takes_time_is_kept_when_it_goes(path: str, clock: ManualClock) -> None:
    with open_engine(path, clock, table_delay_seconds=10) as engine:
        create_table(engine)
        clock.advance(10)
        for n in range(ITEMS):
            put(engine, f"n{n}")
        switch_recovery(engine)
        _delete_table(engine)
        run_all_due(engine)
        assert examine(path).sound
        (backup,) = engine.execute("ListBackups", {"BackupType": "SYSTEM"})["BackupSummaries"]
        with pytest.raises(BackupInUseException):
            restore(engine, backup["BackupArn"])
        clock.advance(10)
        run_all_due(engine)
        restore(engine, backup["BackupArn"])
        run_all_due(engine)
        clock.advance(10)
        run_all_due(engine)
        assert len(items(engine, "restored")) == ITEMS


def test_updating_a_large_table_does_not_count_it(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.engine.operations.table_description.COUNTED_EXACTLY", AT_ONCE)
    found: list[str] = []
    db = engine.store.connection()
    db.set_trace_callback(found.append)
    engine.execute("UpdateTable", {"TableName": "jobs", "DeletionProtectionEnabled": True})
    db.set_trace_callback(None)
    counts = [one for one in found if "count(*)" in one]
    assert counts and all(f"LIMIT {AT_ONCE + 1}" in one for one in counts)


# ── what is seen meanwhile ───────────────────────────────────────────────────────────────────────


def test_a_large_backup_is_creating_until_it_is_whole(engine: Engine) -> None:
    arn = back_up(engine)
    assert backup_status(engine, arn) == "CREATING"
    (listed,) = engine.execute("ListBackups", {})["BackupSummaries"]
    assert listed["BackupStatus"] == "CREATING"
    for refused in (lambda: restore(engine, arn), lambda: engine.execute("DeleteBackup", {"BackupArn": arn})):
        with pytest.raises(BackupInUseException, match=f"^Backup is being created: {arn}$"):
            refused()
    with pytest.raises(ResourceInUseException, match=r"Table is being backed up: jobs$"):
        _delete_table(engine)
    size = sum(1 for _ in items(engine))
    run_all_due(engine)
    assert backup_status(engine, arn) == "AVAILABLE"
    described = engine.execute("DescribeBackup", {"BackupArn": arn})["BackupDescription"]
    assert described["SourceTableDetails"]["ItemCount"] == size
    assert described["BackupDetails"]["BackupSizeBytes"] > size
    _delete_table(engine)


def test_a_large_table_is_creating_until_it_is_restored(engine: Engine) -> None:
    arn = back_up(engine)
    run_all_due(engine)
    restore(engine, arn)
    table = engine.execute("DescribeTable", {"TableName": "restored"})["Table"]
    assert (table["TableStatus"], table["RestoreSummary"]["RestoreInProgress"]) == ("CREATING", True)
    with pytest.raises(ResourceNotFoundException):
        engine.execute("Scan", {"TableName": "restored"})
    with pytest.raises(TableInUseException, match="already being restored"):
        restore(engine, arn)
    with pytest.raises(BackupInUseException, match="being used to restore table"):
        engine.execute("DeleteBackup", {"BackupArn": arn})
    with pytest.raises(ResourceInUseException, match="Table is being created: restored"):
        engine.execute("DeleteTable", {"TableName": "restored"})
    run_all_due(engine)
    table = engine.execute("DescribeTable", {"TableName": "restored"})["Table"]
    assert (table["TableStatus"], table.get("RestoreSummary")) == ("ACTIVE", None)
    assert items(engine, "restored") == items(engine)
    for index in ("by_kind", "local"):
        assert len(items(engine, "restored", IndexName=index)) == ITEMS
    engine.execute("DeleteBackup", {"BackupArn": arn})


def test_a_restored_table_takes_at_least_the_time_that_tables_take(path: str, clock: ManualClock) -> None:
    with open_engine(path, clock, table_delay_seconds=10) as engine:
        create_table(engine)
        clock.advance(10)
        for n in range(ITEMS):
            put(engine, f"n{n}")
        arn = back_up(engine)
        run_all_due(engine)
        restore(engine, arn)
        run_all_due(engine)
        assert table_status(engine) == "CREATING"
        clock.advance(10)
        run_all_due(engine)
        assert table_status(engine) == "ACTIVE"
        assert len(items(engine, "restored")) == ITEMS


def test_the_source_of_a_restore_stays_as_long_as_it_is_needed(engine: Engine) -> None:
    _recoverable(engine)
    recover(engine)
    with pytest.raises(ResourceInUseException, match=r"Table is being restored to a point in time: jobs$"):
        _delete_table(engine)
    with pytest.raises(ContinuousBackupsUnavailableException):
        switch_recovery(engine, False)
    run_all_due(engine)
    switch_recovery(engine, False)
    _delete_table(engine)
    run_all_due(engine)


def test_an_expired_backup_stays_while_it_is_restored(engine: Engine, clock: ManualClock) -> None:
    switch_recovery(engine)
    expected = items(engine)
    _delete_table(engine)
    run_all_due(engine)
    (backup,) = engine.execute("ListBackups", {"BackupType": "SYSTEM"})["BackupSummaries"]
    restore(engine, backup["BackupArn"])
    clock.advance(36 * 86_400)
    run_all_due(engine)
    assert items(engine, "restored") == expected
    clock.advance(2)
    run_all_due(engine)
    assert engine.execute("ListBackups", {"BackupType": "ALL"})["BackupSummaries"] == []


def test_the_journal_keeps_what_a_restore_needs(engine: Engine, clock: ManualClock) -> None:
    expected = items(engine)
    switch_recovery(engine, RecoveryPeriodInDays=1)
    clock.advance(1)
    for n in range(ITEMS):
        put_numbered(engine, n, more={"S": "x"})
    recover(engine, NOW)
    clock.advance(2 * 86_400)
    run_all_due(engine)
    assert items(engine, "restored") == expected
    run_all_due(engine)
    with engine.reading() as call:
        assert call.db.execute("SELECT count(*) FROM journal").fetchone() == (0,)


def test_a_reader_that_knows_the_table_of_old_does_not_read_garbage(path: str, clock: ManualClock) -> None:
    with open_engine(path, clock) as one, open_engine(path, clock) as other:
        fill(one)
        get = {"TableName": "jobs", "Key": {"id": {"S": "n1"}, "day": {"S": "mo"}}}
        assert "Item" in other.execute("GetItem", get)
        _delete_table(one)
        assert any(name.startswith("garbage_t") for name in names_in(other))
        with pytest.raises(ResourceNotFoundException):
            other.execute("GetItem", get)
        create_table(one, **INDEXED)
        assert other.execute("GetItem", get) == {}


def test_expiries_can_be_switched_on_while_those_of_before_are_deleted(engine: Engine, clock: ManualClock) -> None:
    for _ in range(3):
        enable_ttl(engine)
        while sweep(engine) == 0.0:
            pass
        disable_ttl(engine)
    assert len([name for name in names_in(engine) if name.startswith("garbage")]) == 3
    enable_ttl(engine)
    run_all_due(engine)
    clock.advance(10**6 + ITEMS)
    run_all_due(engine)
    assert items(engine) == {}


@pytest.mark.parametrize("work", ["backup", "restore", "recover"])
def test_what_is_copied_from_a_table_that_an_older_program_has_dropped_is_given_up(
    path: str, clock: ManualClock, work: str, caplog: pytest.LogCaptureFixture
) -> None:
    with open_engine(path, clock) as engine:
        fill(engine)
        source = "t1"
        if work == "backup":
            back_up(engine)
        elif work == "restore":
            _backed_up(engine)
            _restore(engine)
            source = "b1"
        else:
            _recoverable(engine)
            recover(engine)
        engine.maintenance.run_due()
        with engine.writing() as call:
            call.db.execute(f"DROP TABLE {source}")
        run_all_due(engine)
        assert "is gone" in caplog.text
        assert engine.execute("ListTables", {})["TableNames"] == ["jobs"]
        left = {"jobs"} if work == "restore" else set()
        assert {one["TableName"] for one in engine.execute("ListBackups", {})["BackupSummaries"]} == left
        assert not [name for name in names_in(engine) if "garbage" in name or name.endswith(("_new", "_undo"))]


# ── of one moment ────────────────────────────────────────────────────────────────────────────────

CHANGES = st.lists(
    st.tuples(st.sampled_from(["put", "delete", "batch", "load", "step", "step"]), st.integers(0, ITEMS + 20)),
    max_size=60,
)


def change(engine: Engine, kind: str, n: int, clock: ManualClock, table: str = "jobs") -> None:
    """One of the ways in which items change; or time passes, and background work is done."""
    clock.advance(0.5)
    if kind == "put":
        put(engine, f"n{n}", table, n={"N": "1"})
    elif kind == "delete":
        delete(engine, f"n{n}", table)
    elif kind == "batch":
        puts = [{"PutRequest": {"Item": {"id": {"S": f"n{n + more}"}, "n": {"N": "2"}}}} for more in range(5)]
        engine.execute("BatchWriteItem", {"RequestItems": {table: puts}})
    elif kind == "load":
        load(engine, n, table)
    else:
        engine.maintenance.run_due()


def load(engine: Engine, n: int, table: str) -> None:
    """As the client's batches do in process: rows are put, and deleted, without a look at the items."""
    loading = Loading.of(engine, DEFAULT_SCOPE, table)
    if loading is None:
        return
    group: dict[bytes, Any] = {}
    for more in range(4):
        key: Item = {"id": {"S": f"n{n + more}"}}
        row = loading.row(key | {"n": {"N": "3"}}, 9)
        assert row is not None
        group[row[0]] = row if more else key
    assert loading.write(group)


@settings(max_examples=40, deadline=None)
@given(CHANGES)
def test_a_backup_is_the_table_of_its_moment_whatever_is_written_meanwhile(changes: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch, open_engine(clock=(clock := ManualClock(NOW))) as engine:
        make_steps_small(monkeypatch)
        create_table(engine)
        for n in range(0, 2 * ITEMS, 2):
            put(engine, f"n{n}")
        expected = items(engine)
        arn = back_up(engine)
        for kind, n in changes:
            change(engine, kind, n, clock)
        after = items(engine)
        run_all_due(engine)
        assert items(engine) == after, "the copying changes nothing"
        described = engine.execute("DescribeBackup", {"BackupArn": arn})["BackupDescription"]
        assert described["SourceTableDetails"]["ItemCount"] == len(expected)
        restore(engine, arn)
        run_all_due(engine)
        assert items(engine, "restored") == expected


@settings(max_examples=40, deadline=None)
@given(CHANGES, CHANGES, st.booleans())
def test_a_restore_is_the_table_of_its_time_whatever_is_written_meanwhile(
    before: list[tuple[str, int]], during: list[tuple[str, int]], has_another: bool
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch, open_engine(clock=(clock := ManualClock(NOW))) as engine:
        make_steps_small(monkeypatch)
        create_table(engine)
        for n in range(0, 2 * ITEMS, 2):
            put(engine, f"n{n}")
        switch_recovery(engine)
        expected, at = items(engine), clock.now()
        if has_another:  # its entries stand between ours in the journal, and go before them
            create_table(engine, "other")
            switch_recovery(engine, table="other")
        for kind, n in before:
            change(engine, kind, n, clock)
        recover(engine, at)
        for kind, n in during:
            change(engine, kind, n, clock)
            if has_another and n % 3:
                change(engine, kind, n, clock, "other")
            elif has_another:
                switch_recovery(engine, False, "other")
                switch_recovery(engine, True, "other")
        run_all_due(engine)
        assert table_status(engine) == "ACTIVE"
        assert items(engine, "restored") == expected


def test_a_restore_misses_no_change_where_the_journals_numbers_are_given_again(
    engine: Engine, clock: ManualClock
) -> None:
    switch_recovery(engine)
    create_table(engine, "other")
    switch_recovery(engine, table="other")
    clock.advance(1)
    expected = items(engine)
    recover(engine)
    restore_tables(engine)
    for n in range(STEP):
        put(engine, f"n{n}", "other")
    restore_tables(engine)  # which looks at the other table's entries
    switch_recovery(engine, False, "other")
    while trim_journal(engine) == 0.0:
        pass
    for n in range(ITEMS):
        put_numbered(engine, n, more={"S": "later"})
    run_all_due(engine)
    assert items(engine, "restored") == expected


# ── cut off after each step ──────────────────────────────────────────────────────────────────────


def states(path: str, clock: ManualClock, before: Callable[[Engine], object], work: Callable[[Engine], object],
           folder: Path) -> Iterator[Path]:  # fmt: skip
    """The file as a kill would leave it: after the call, and after each round of background work."""
    with open_engine(path, clock) as engine:
        fill(engine)
        before(engine)
        work(engine)
        number, more = 0, True
        while more:
            state = folder / f"{number}.db"
            shutil.copy(path, state)
            shutil.copy(f"{path}-wal", f"{state}-wal")
            yield state
            number, more = number + 1, engine.maintenance.run_due() == 0.0


@pytest.mark.parametrize("work", ["backup", "restore", "recover", "delete", "delete with recovery", "index"])
def test_what_is_cut_off_after_any_step_is_ended_by_whoever_opens_the_file(
    path: str, clock: ManualClock, tmp_path: Path, work: str
) -> None:
    before, operation = {
        "backup": (_nothing, back_up),
        "restore": (_backed_up, _restore),
        "recover": (_recoverable, recover),
        "delete": (_nothing, _delete_table),
        "delete with recovery": (_recoverable, _delete_table),
        "index": (_nothing, drop_index),
    }[work]
    seen = 0
    for state in states(path, clock, before, operation, tmp_path):
        seen += 1
        assert examine(str(state)).sound
        with open_engine(str(state), clock) as engine:
            run_all_due(engine)
            tables = engine.execute("ListTables", {})["TableNames"]
            assert ("jobs" in tables) is not work.startswith("delete")
            assert [len(items(engine, table)) for table in tables] == [ITEMS] * len(tables)
            assert [table_status(engine, table) for table in tables] == ["ACTIVE"] * len(tables)
            backups = engine.execute("ListBackups", {"BackupType": "ALL"})["BackupSummaries"]
            assert [one["BackupStatus"] for one in backups] == ["AVAILABLE"] * len(backups)
            assert not [name for name in names_in(engine) if "garbage" in name or name.endswith(("_new", "_undo"))]
        assert examine(str(state)).sound
    assert seen > ITEMS // STEP


def test_a_rescue_leaves_out_what_was_not_whole(path: str, clock: ManualClock, tmp_path: Path) -> None:
    with open_engine(path, clock) as engine:
        fill(engine)
        arn = back_up(engine)
        run_all_due(engine)
        restore(engine, arn)
        back_up(engine)
        engine.maintenance.run_due()
    new = str(tmp_path / "rescued.db")
    rescued = rescue(path, new)
    assert [note.split(" had not ended")[0].split()[1] for note in rescued.notes] == ["restore", "backup"]
    with open_engine(new, clock) as engine:
        run_all_due(engine)
        assert engine.execute("ListTables", {})["TableNames"] == ["jobs"]
        (left,) = engine.execute("ListBackups", {})["BackupSummaries"]
        assert (left["BackupArn"], left["BackupStatus"]) == (arn, "AVAILABLE")
        restore(engine, arn)
        run_all_due(engine)
        assert items(engine, "restored") == items(engine)


@pytest.mark.parametrize("operation", [back_up, _delete_table, drop_index])
def test_work_that_was_left_is_taken_up_when_the_file_is_opened(
    path: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, operation: Callable[[Engine], object]
) -> None:
    with open_engine(path, clock) as engine:
        fill(engine)
        operation(engine)
    woken: list[bool] = []
    monkeypatch.setattr(Maintenance, "_start", lambda self: woken.append(True))
    with open_engine(path, clock) as engine:
        assert woken
        run_all_due(engine)
    woken.clear()
    with open_engine(path, clock):
        assert not woken


def test_a_round_waits_for_the_transaction_that_has_asked_for_it(
    path: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the thread would see nothing to do, and look again after seconds."""
    rounds: list[list[str]] = []
    ended = threading.Event()

    def run_due(self: Maintenance) -> None:
        with self._engine.reading() as call:
            rounds.append([name for (name,) in call.db.execute("SELECT name FROM tables")])
        ended.set()

    monkeypatch.setattr(Maintenance, "take_up", lambda self: None)  # who reads of a new table asks for a round as well
    with Engine(path, clock=clock) as engine:
        monkeypatch.setattr(Maintenance, "run_due", run_due)
        create_table(engine)
        with engine.writing() as call:
            call.db.execute("UPDATE tables SET name = 'renamed'")
            engine.maintenance.wake()
            assert not ended.wait(0.05)
        assert ended.wait(30)
    assert rounds[0] == ["renamed"]


# ── how large a step is ──────────────────────────────────────────────────────────────────────────


def test_steps_become_smaller_where_they_take_long_and_never_larger_than_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.engine.maintenance.MOST_ROWS", MOST_ROWS)
    sizes = StepSizes()
    first = sizes.rows("copy")
    sizes.note("copy", STEP_SECONDS * 2)
    assert sizes.rows("copy") == first // 2
    for _ in range(100):
        sizes.note("copy", STEP_SECONDS * 50)
    assert 1 <= sizes.rows("copy") < first // 10
    for _ in range(100):
        sizes.note("copy", 0.0)
    assert sizes.rows("copy") == MOST_ROWS
    assert sizes.rows("delete") == first, "each kind of work has its own"


def test_a_step_takes_few_items_where_they_are_large(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.engine.maintenance.MOST_BYTES", 100)
    for n in range(ITEMS):
        put_numbered(engine, n, text={"S": "x" * 60})
    with changes_of_transactions(engine, monkeypatch) as found:
        back_up(engine)
        run_all_due(engine)
    assert max(found[1:]) <= 3, "a step is two items of some 90 bytes, and the place that was reached"
