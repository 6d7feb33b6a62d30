"""Four processes on one file: every record is run once, and never by two at once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

from record_worlds import filled, processed

from penstock.client.database import Database

WORKER = Path(__file__).with_name("record_worker.py")
COUNT = 400


def test_four_processes_share_a_table(db: Database, tmp_path: Path) -> None:
    table = filled(db, COUNT)
    log = tmp_path / "log"
    command = [sys.executable, str(WORKER), db.name, str(log)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    try:
        told = [int(worker.communicate(timeout=120)[0]) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert sum(told) == COUNT
    assert processed(table) == set(range(COUNT))
    assert_none_at_once(log.read_text().splitlines())


def assert_none_at_once(lines: list[str]) -> None:
    """Each record's runs follow one another, by the clock that the processes share."""
    begun = Counter[str]()
    running: set[str] = set()
    for number, what, _ in sorted((line.split() for line in lines), key=lambda words: int(words[2])):
        if what == "begin":
            assert number not in running
            running.add(number)
            begun[number] += 1
        else:
            running.remove(number)
    assert begun == Counter(str(number) for number in range(COUNT))
