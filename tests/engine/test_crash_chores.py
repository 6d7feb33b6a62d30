"""kill -9 in the middle of large work: an index is being filled, a table restored or deleted, items expire …

The file is sound after each, nothing is half-done, and whoever opens it next takes the work up where it was.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crash_chores import ENDED, ITEMS, TABLE, WORKS, finish, item, make, small_steps
from sample_tables import every_item, records

from penstock.engine import Engine
from penstock.engine.repair.examine import examine
from penstock.errors import ResourceNotFoundException

pytestmark = pytest.mark.crash

KILLS = 14
"""For each kind of work, at most: the first soon after its beginning, the last after its end."""


class Deaths:
    def __init__(self) -> None:
        script = str(Path(__file__).with_name("crash_chores.py"))
        self.process = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, path: Path, work: str, steps: int) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{path} {work} {steps}\n".encode())
        self.process.stdin.flush()
        return self.process.stdout.readline().decode().strip()


@pytest.fixture(scope="module")
def die() -> Iterator[Deaths]:
    deaths = Deaths()
    yield deaths
    deaths.process.communicate()


@pytest.fixture(autouse=True)
def in_small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was cut off is taken up in steps as small as those that were."""
    for name in (
        "items.index_backfill.FILL_AT_ONCE",
        "items.index_backfill.FILL_STEP",
        "items.expiry_rows.FILL_AT_ONCE",
        "ttl_sweeper.FILL_STEP",
    ):
        monkeypatch.setattr(f"penstock.engine.{name}", 50)
    for name in (
        "ttl_sweeper.SWEEP_STEP",
        "maintenance.AT_ONCE_ROWS",
        "maintenance.MOST_ROWS",
        "recovery.restores.RUN_ROWS",
    ):
        monkeypatch.setattr(f"penstock.engine.{name}", 50)
    small_steps()  # monkeypatch puts back what was before


@pytest.mark.parametrize("work", [*WORKS, "load"])
def test_work_that_is_killed_anywhere_is_whole_or_taken_up_again(die: Deaths, tmp_path: Path, work: str) -> None:
    start = tmp_path / "start.db"
    make(str(start), work)
    died, steps = 0, 8
    for number in range(KILLS):
        path = tmp_path / f"{number}.db"
        shutil.copy(start, path)
        ended = die(path, work, steps)
        assert ended in ("dead", "done"), ended
        found = examine(str(path))
        assert found.sound, found
        check(work, str(path))
        assert examine(str(path)).sound
        if ended == "done":
            break
        died += 1
        steps = steps * 7 // 4
    assert died > 3, "too few kills to have tested anything"


def check(work: str, path: str) -> None:
    with Engine(path) as engine:
        engine.maintenance.stop()
        if work == "load":
            items = every_item(engine, "Scan", {"TableName": "plain"})
            numbers = sorted(int(one["number"]["N"]) for one in items)
            # The client writes groups in their order: what is there is a beginning.
            assert numbers == list(range(len(numbers)))
            return
        finish(engine)
        assert_nothing_is_left_over(engine)
        if work.startswith("delete") and work != "delete-backup":
            assert_deleted_or_whole(engine, is_kept=work == "delete-recovered")
            return
        left = len(every_item(engine, "Scan", {"TableName": TABLE}))
        if work in ("fill", "drop-index"):
            assert_index_is_whole_or_absent(engine)
        elif work in ("restore", "recover"):
            assert_restored_or_absent(engine)
        elif work in ("back-up", "delete-backup"):
            assert_backups_are_whole(engine)
        else:
            assert left in (ITEMS, ITEMS - ENDED), "expired by halves"
            removed = [one for one in records(engine, TABLE) if one["eventName"] == "REMOVE"]
            assert len(removed) == ITEMS - left


def assert_index_is_whole_or_absent(engine: Engine) -> None:
    table = engine.execute("DescribeTable", {"TableName": TABLE})["Table"]
    for index in table.get("GlobalSecondaryIndexes", ()):
        assert index["IndexStatus"] == "ACTIVE"
        request = {"TableName": TABLE, "IndexName": index["IndexName"]}
        assert len(every_item(engine, "Scan", request)) == ITEMS


def assert_nothing_is_left_over(engine: Engine) -> None:
    """No garbage, no half of a backup, none of what copying needs."""
    with engine.reading() as call:
        names = {name for (name,) in call.db.execute("SELECT name FROM sqlite_master")}
        backups = {f"b{number}" for (number,) in call.db.execute("SELECT id FROM backups")}
    assert not [name for name in names if name.startswith("garbage") or name.endswith(("_new", "_undo"))]
    assert {name for name in names if name.startswith("b") and name[1:2].isdigit()} == backups
    with engine.reading() as call:
        assert call.db.execute("SELECT count(*) FROM journal WHERE key = x''").fetchone() == (0,)


def assert_deleted_or_whole(engine: Engine, *, is_kept: bool) -> None:
    if TABLE in engine.execute("ListTables", {})["TableNames"]:
        assert len(every_item(engine, "Scan", {"TableName": TABLE})) == ITEMS
        assert len(every_item(engine, "Scan", {"TableName": TABLE, "IndexName": "by-owner"})) == ITEMS
        return
    kept = engine.execute("ListBackups", {"BackupType": "SYSTEM"})["BackupSummaries"]
    assert len(kept) == is_kept
    for backup in kept:
        assert_backup_is_whole(engine, backup)


def assert_backups_are_whole(engine: Engine) -> None:
    for backup in engine.execute("ListBackups", {})["BackupSummaries"]:
        assert_backup_is_whole(engine, backup)


def assert_backup_is_whole(engine: Engine, backup: dict[str, Any]) -> None:
    assert backup["BackupStatus"] == "AVAILABLE"
    engine.execute("RestoreTableFromBackup", {"TargetTableName": "again", "BackupArn": backup["BackupArn"]})
    finish(engine)
    assert_restored_or_absent(engine)


def assert_restored_or_absent(engine: Engine) -> None:
    try:
        engine.execute("DescribeTable", {"TableName": "again"})
    except ResourceNotFoundException:
        return
    restored = {one["id"]["S"]: one for one in every_item(engine, "Scan", {"TableName": "again"})}
    assert restored == {f"n{number}": item(number) for number in range(ITEMS)}, "not the items of one moment"
    assert len(every_item(engine, "Scan", {"TableName": "again", "IndexName": "by-owner"})) == ITEMS
