"""How a process waits for a file that another writes to. The numbers are the invariants of storage/turns.py."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from penstock.engine.storage import turns
from penstock.engine.storage.turns import Turns

BUSY_SECONDS = 60.0


class Counted(sqlite3.Connection):
    """It knows what it was asked."""

    asked: list[str]

    def execute(self, sql: str, *parameters: object) -> sqlite3.Cursor:
        self.asked.append(sql)
        return super().execute(sql, *parameters)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: object) -> str:
    return f"{tmp_path}/turns.db"


@pytest.fixture
def connection(path: str) -> Iterator[Counted]:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, factory=Counted)
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


def has_waited(turns_of_one: Turns) -> Turns:
    turns_of_one._alone_from = float("inf")
    return turns_of_one


def test_who_writes_alone_asks_once(connection: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_WAITED_SECONDS", BUSY_SECONDS)  # however busy the machine is
    ours = Turns(BUSY_SECONDS)
    for _ in range(3):
        ours.begin(connection)
        connection.execute("COMMIT")
    assert connection.asked == ["BEGIN IMMEDIATE", "COMMIT"] * 3  # (3)


def test_who_has_waited_asks_by_itself_the_next_time(connection: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_WAITED_SECONDS", 0.0)
    monkeypatch.setattr(turns, "_NOT_ALONE_SECONDS", BUSY_SECONDS)
    ours = Turns(BUSY_SECONDS)
    for _ in range(2):
        ours.begin(connection)
        connection.execute("COMMIT")
    assert connection.asked[:3] == ["BEGIN IMMEDIATE", "COMMIT", "PRAGMA busy_timeout = 0"]


def test_it_asks_until_the_other_is_done_and_leaves_the_connection_as_it_was(
    connection: Counted, holder: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            holder.execute("ROLLBACK")

    monkeypatch.setattr(turns.time, "sleep", sleep)
    has_waited(Turns(BUSY_SECONDS)).begin(connection)
    assert connection.in_transaction
    assert connection.asked.count("BEGIN IMMEDIATE") == 4
    assert min(waits) >= 0.001  # (1)
    assert connection.execute("PRAGMA busy_timeout").fetchone() == (BUSY_SECONDS * 1_000,)


def test_it_gives_up_with_sqlites_own_error(connection: Counted, holder: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.OperationalError, match="locked") as caught:
        has_waited(Turns(0.01)).begin(connection)  # (2)
    assert caught.value.sqlite_errorcode == sqlite3.SQLITE_BUSY
    assert connection.execute("PRAGMA busy_timeout").fetchone() == (10,)


def test_what_is_not_about_a_lock_is_told_at_once(connection: Counted) -> None:
    connection.execute("BEGIN")
    with pytest.raises(sqlite3.OperationalError, match="within a transaction"):
        has_waited(Turns(BUSY_SECONDS)).begin(connection)
