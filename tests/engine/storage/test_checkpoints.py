"""engine/storage/checkpoints.py: the log is copied in the background, and stays short."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from sample_tables import make, table

from penstock.engine import Engine
from penstock.engine.storage import checkpoints, database_file


def batch(first: int, size: int = 4000) -> dict[str, Any]:
    puts = [
        {"PutRequest": {"Item": {"id": {"N": str(number)}, "text": {"S": "x" * size}}}}
        for number in range(first, first + 25)
    ]
    return {"RequestItems": {"plain": puts}}


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "penstock-checkpoints"]


def test_the_log_does_not_grow_with_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_file, "CHECKPOINT_PAGES", 400)
    monkeypatch.setattr(checkpoints, "ROWS", 250)
    monkeypatch.setattr(checkpoints, "AHEAD_ROWS", 500)
    path = tmp_path / "a.db"
    with Engine(str(path)) as engine:
        make(engine, table("plain", "id:N"))
        longest = 0
        for number in range(0, 2000, 25):
            engine.execute("BatchWriteItem", batch(number))
            longest = max(longest, Path(f"{path}-wal").stat().st_size)
        assert threads()
    # More than 30 MB of pages went through it.
    assert longest < 20_000_000
    assert not threads()
    assert not Path(f"{path}-wal").exists()


def test_a_log_that_one_transaction_made_long_is_cut_when_it_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_file, "CHECKPOINT_PAGES", 100)
    monkeypatch.setattr(database_file, "LOG_BYTES", 1_000_000)
    path = tmp_path / "a.db"
    with Engine(str(path)) as engine:
        make(engine, table("plain", "id:N"))
        with engine.writing() as call:
            for number in range(0, 500, 25):
                engine_batch(call, number)
        assert Path(f"{path}-wal").stat().st_size > 1_500_000
        for number in range(3):
            engine.execute("BatchWriteItem", batch(number, size=10))
        assert Path(f"{path}-wal").stat().st_size <= 1_000_000


def engine_batch(call: Any, first: int) -> None:
    from penstock.engine.registry import OPERATIONS

    OPERATIONS["BatchWriteItem"].run(call, batch(first))


def test_a_few_writes_start_no_thread(tmp_path: Path) -> None:
    with Engine(str(tmp_path / "a.db")) as engine:
        make(engine, table("plain", "id:N"))
        for number in range(0, 500, 25):
            engine.execute("BatchWriteItem", batch(number, size=10))
        assert not threads()


def test_a_checkpoint_that_fails_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "ROWS", 50)
    monkeypatch.setattr(checkpoints, "AHEAD_ROWS", 60)
    monkeypatch.setattr(checkpoints, "AHEAD_SECONDS", 600.0)
    with Engine(str(tmp_path / "a.db")) as engine:
        make(engine, table("plain", "id:N"))

        def fail() -> Any:
            raise sqlite3.OperationalError("disk I/O error")

        monkeypatch.setattr(engine.store._checkpoints, "_connect", fail)
        for number in range(0, 500, 25):
            engine.execute("BatchWriteItem", batch(number, size=10))
        assert engine.execute("Scan", {"TableName": "plain", "Select": "COUNT"})["Count"] == 500
