"""Waiting for commits. The numbers cite change_watch.py."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from penstock.engine import Engine
from penstock.engine.storage import change_watch
from penstock.engine.storage.change_watch import ChangeWatch
from penstock.errors import StorageError

LONG = 60.0
WRITE = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
db.execute("CREATE TABLE IF NOT EXISTS other (x)")
db.execute("INSERT INTO other VALUES (1)")
"""


@pytest.fixture(params=["inotify", "looks"])
def signal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Once as it is on Linux, once as where there is no inotify."""
    if request.param == "looks":
        monkeypatch.setattr(change_watch, "_log_signal", lambda log: None)
    return str(request.param)


@pytest.fixture
def engine(tmp_path: Path, signal: str) -> Iterator[Engine]:
    with Engine(str(tmp_path / "x.db")) as engine:
        yield engine


@pytest.fixture
def watch(engine: Engine) -> Iterator[ChangeWatch]:
    watch = engine.changes()
    assert watch.wait(0)
    assert not watch.wait(0)
    yield watch
    watch.close()


def write(engine: Engine) -> None:
    subprocess.run([sys.executable, "-c", WRITE, engine.store.path], check=True)


def test_a_commit_of_another_process_ends_a_wait(engine: Engine, watch: ChangeWatch) -> None:
    with ThreadPoolExecutor(1) as other:
        written = other.submit(write, engine)
        assert watch.wait(LONG)
        written.result()


def test_a_commit_between_two_waits_is_not_missed(engine: Engine, watch: ChangeWatch) -> None:
    """(1)"""
    write(engine)
    assert watch.wait(0)
    assert not watch.wait(0)


def test_commits_of_other_threads_of_this_process_count(engine: Engine, watch: ChangeWatch) -> None:
    """(4)"""
    schema = {
        "TableName": "tab",
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
    }
    engine.execute("CreateTable", schema)
    assert watch.wait(LONG)


def test_a_commit_that_shows_long_after_its_log_was_written_is_seen(engine: Engine, tmp_path: Path) -> None:
    """(3) As with a slow sync: the signal has come and gone before there is anything to see."""
    watch = engine.changes()
    shown = threading.Event()
    looks = 0
    unchanged = watch._has_changed

    def has_changed() -> bool:
        nonlocal looks
        looks += 1
        if looks == 4:
            shown.set()
        return unchanged() if shown.is_set() else False

    watch.wait(0)
    watch._has_changed = has_changed  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as other:
        written = other.submit(write, engine)
        assert watch.wait(LONG)
        written.result()


def test_a_transaction_that_is_rolled_back_is_no_change(engine: Engine, watch: ChangeWatch, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as other:
        other.execute("PRAGMA cache_size = 1")  # it writes to the log before its end
        other.execute("BEGIN IMMEDIATE")
        other.execute("CREATE TABLE big (x)")
        other.executemany("INSERT INTO big VALUES (zeroblob(5000))", [()] * 100)
        other.execute("ROLLBACK")
    assert not watch.wait(0.05)


def test_closing_ends_a_wait(engine: Engine) -> None:
    watch = engine.changes()
    waits = threading.Event()

    def wait() -> bool:
        assert watch.wait(0)
        waits.set()
        return watch.wait(LONG * 60)

    with ThreadPoolExecutor(1) as other:
        waited = other.submit(wait)
        assert waits.wait(LONG)
        watch.close()
        assert waited.result(LONG) is False


def test_an_idle_watch_looks_at_nothing(tmp_path: Path) -> None:
    """(2) Counted in statements: with inotify, none while nobody writes."""
    if sys.platform != "linux":
        pytest.skip("inotify is Linux's")
    with Engine(str(tmp_path / "x.db")) as engine:
        watch = engine.changes()
        assert watch.wait(0)
        statements: list[str] = []
        assert watch._connection is not None
        watch._connection.set_trace_callback(statements.append)
        assert not watch.wait(0.2)
        assert len(statements) <= 2  # before the wait, and after it


def test_a_closed_database_ends_a_watch_with_an_error(tmp_path: Path) -> None:
    engine = Engine(str(tmp_path / "x.db"))
    watch = engine.changes()
    assert watch.wait(0)
    engine.close()
    with pytest.raises(StorageError, match="closed"):
        watch.wait(LONG)


def test_a_database_in_memory_tells_of_its_writes() -> None:
    with Engine() as engine:
        watch = engine.changes()
        assert watch.wait(0)
        assert not watch.wait(0)
        engine.store.connection().execute("CREATE TABLE other (x)")
        engine.store.connection().execute("INSERT INTO other VALUES (1)")
        assert watch.wait(LONG)
