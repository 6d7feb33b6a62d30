"""How a process waits for a file that another writes to. The numbers are the invariants of storage/write_lock.py."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator

import pytest

from penstock.engine.storage import write_lock
from penstock.engine.storage.write_lock import WriteLock

BUSY_SECONDS = 60.0


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
