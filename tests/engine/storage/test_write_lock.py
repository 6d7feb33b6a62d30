"""How a process waits for a file that another writes to. The numbers are the invariants of storage/write_lock.py."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.engine import Engine
from penstock.engine.settings import Settings
from penstock.engine.storage import write_lock
from penstock.engine.storage.write_lock import WriteLock
from penstock.errors import DatabaseLocked

BUSY_SECONDS = 60.0
TABLE = {
    "TableName": "plain",
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}


class Counted(sqlite3.Connection):
    """It knows what it was asked."""

    asked: list[str]

    def execute(self, sql: str, *parameters: object) -> sqlite3.Cursor:
        self.asked.append(sql)
        return super().execute(sql, *parameters)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: object) -> str:
    return f"{tmp_path}/locked.db"


@pytest.fixture
def connection(path: str) -> Iterator[Counted]:
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, factory=Counted, check_same_thread=False)
    connection.asked = []
    connection.execute("PRAGMA journal_mode = WAL")
    connection.asked.clear()
    yield connection
    connection.close()


@pytest.fixture
def holder(connection: Counted, path: str) -> Iterator[sqlite3.Connection]:
    """Another, who writes."""
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    yield holder
    holder.close()


def test_who_writes_alone_asks_once_however_slow_the_machine(
    connection: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter(range(0, 100_000, 1000))
    monkeypatch.setattr(write_lock.time, "monotonic", lambda: next(moments))
    for _ in range(3):
        WriteLock(BUSY_SECONDS).begin(connection)
        connection.execute("COMMIT")
    assert connection.asked == ["BEGIN IMMEDIATE", "COMMIT"] * 3  # (3), (4)


def test_it_asks_until_the_other_is_done(
    connection: Counted, holder: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        if len(waits) == 3:
            holder.execute("ROLLBACK")
        return False

    lock = WriteLock(BUSY_SECONDS)
    monkeypatch.setattr(lock._stopped, "wait", wait)
    lock.begin(connection)
    assert connection.in_transaction
    assert connection.asked == ["BEGIN IMMEDIATE"] * 4
    assert min(waits) >= 0.001  # (1)


def test_it_gives_up_with_sqlites_own_error(connection: Counted, holder: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.OperationalError, match="locked") as caught:
        WriteLock(0.01).begin(connection)  # (2)
    assert caught.value.sqlite_errorcode == sqlite3.SQLITE_BUSY


def test_trying_does_not_wait(connection: Counted, holder: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = WriteLock(BUSY_SECONDS)
    monkeypatch.setattr(lock._stopped, "wait", lambda _: pytest.fail("it waits"))
    assert not lock.try_begin(connection)
    holder.execute("ROLLBACK")
    assert lock.try_begin(connection)


def test_who_waits_gives_up_when_nobody_is_to_wait(connection: Counted, holder: sqlite3.Connection) -> None:
    lock = WriteLock(BUSY_SECONDS)
    gave_up = threading.Event()

    def wait_for_it() -> None:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            lock.begin(connection)
        gave_up.set()

    waiter = threading.Thread(target=wait_for_it)
    connection.asked.clear()
    waiter.start()
    while not connection.asked:
        gave_up.wait(0.001)
    with lock.without_waiting():
        waiter.join()
    assert gave_up.is_set()
    holder.execute("ROLLBACK")
    lock.begin(connection)


def test_what_is_not_about_a_lock_is_told_at_once(connection: Counted) -> None:
    connection.execute("BEGIN")
    with pytest.raises(sqlite3.OperationalError, match="within a transaction"):
        WriteLock(BUSY_SECONDS).begin(connection)


WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("there", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that is stopped in a write transaction."""
    Engine(str(tmp_path / "frozen.db")).close()
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "frozen.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "there\n"
        os.kill(process.pid, signal.SIGSTOP)
        while process_state(process.pid) != "T":
            time.sleep(0.01)
        yield process
        process.kill()


def process_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="only Linux tells who has a lock")
def test_who_waits_for_a_frozen_process_gives_up_early_and_says_who_it_is(
    frozen: subprocess.Popen[str], tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_lock, "_LOGGED_SECONDS", 0.1)
    monkeypatch.setattr(write_lock, "_LOOK_SECONDS", 0.1)
    with Engine(str(tmp_path / "frozen.db"), settings=Settings(busy_seconds=600, frozen_seconds=0.5)) as engine:
        with pytest.raises(DatabaseLocked, match=f"Process {frozen.pid} .* is stopped: .* has waited .* s") as caught:
            engine.execute("CreateTable", TABLE)
        assert caught.value.retryable  # long before the 600 s
        assert f"Process {frozen.pid} (" in caplog.text and "a write has waited" in caplog.text
        os.kill(frozen.pid, signal.SIGCONT)
        frozen.kill()
        frozen.wait()
        engine.execute("CreateTable", TABLE)


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="only Linux tells who has a lock")
def test_who_waits_for_a_process_that_runs_waits_for_as_long_as_it_may(
    connection: Counted, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_lock, "_LOOK_SECONDS", 0.0)
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "there\n"
        lock = WriteLock(1.0, path, frozen_seconds=0.0)
        with pytest.raises(sqlite3.OperationalError, match="locked") as caught:
            lock.begin(connection)
        assert caught.value.waited_seconds >= 1.0  # type: ignore[attr-defined]
        process.kill()
