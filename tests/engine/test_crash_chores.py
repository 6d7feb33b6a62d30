"""kill -9 in the middle of large work: an index is being filled, a table restored, items expire, a batch is loaded.

The file is sound after each, nothing is half-done, and whoever opens it next takes the work up where it was.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash_chores import ENDED, ITEMS, TABLE, finish, make
from sample_tables import every_item, records

from penstock.engine import Engine
from penstock.engine.repair.examination import examine
from penstock.errors import ResourceNotFoundException

pytestmark = pytest.mark.crash

KILLS = 8
"""For each kind of work: the first soon after its beginning, the last after its end."""


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


@pytest.mark.parametrize("work", ["fill", "restore", "sweep", "load"])
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
        steps = steps * 9 // 4
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
        left = len(every_item(engine, "Scan", {"TableName": TABLE}))
        if work == "fill":
            assert_index_is_whole_or_absent(engine)
        elif work == "restore":
            assert_restored_or_absent(engine)
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


def assert_restored_or_absent(engine: Engine) -> None:
    try:
        engine.execute("DescribeTable", {"TableName": "again"})
    except ResourceNotFoundException:
        return
    assert len(every_item(engine, "Scan", {"TableName": "again"})) == ITEMS
    assert len(every_item(engine, "Scan", {"TableName": "again", "IndexName": "by-owner"})) == ITEMS
