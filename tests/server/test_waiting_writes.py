"""Writes that wait for another process hold up nobody. The number cites group_commit.py."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from raw_http import Answer, EchoEngine, RawClient, request

from penstock.engine import Engine, Settings
from penstock.engine.engine import Pending
from penstock.server import group_commit
from penstock.server.group_commit import may_write
from penstock.server.server import ServerThread, running_server

SCHEMA = {
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}
HEALTH = request(method="GET", path="/healthz")


def put(key: str) -> bytes:
    return request("PutItem", {"TableName": "tab", "Item": {"pk": {"S": key}}})


def get(key: str) -> bytes:
    return request("GetItem", {"TableName": "tab", "Key": {"pk": {"S": key}}})


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerThread]:
    with (
        Engine(str(tmp_path / "x.db"), settings=Settings(busy_seconds=600)) as engine,
        running_server(engine) as server,
    ):
        engine.execute("CreateTable", {"TableName": "tab", **SCHEMA})
        engine.execute("PutItem", {"TableName": "tab", "Item": {"pk": {"S": "old"}}})
        yield server


@pytest.fixture
def other(server: ServerThread, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another process that writes, for as long as it likes."""
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield other
    other.close()


@pytest.fixture
def clients(server: ServerThread) -> Iterator[Any]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(RawClient(server.url, timeout=120))


def test_a_write_that_waits_holds_up_no_read_6(clients: Any, other: sqlite3.Connection) -> None:
    writer, reader = clients(), clients()
    writer.send(put("new"))
    for _ in range(3):
        assert reader.ask(get("old")).json()["Item"] == {"pk": {"S": "old"}}
        assert reader.ask(request("Scan", {"TableName": "tab"})).json()["Count"] == 1
        assert reader.ask(HEALTH).status == 200
    other.execute("ROLLBACK")
    assert writer.read().status == 200
    assert reader.ask(get("new")).json()["Item"] == {"pk": {"S": "new"}}


def test_what_follows_a_waiting_write_on_its_connection_comes_after_it_6(
    clients: Any, other: sqlite3.Connection
) -> None:
    client, reader = clients(), clients()
    client.send(get("new") + put("new") + get("new"))
    assert client.read().json() == {}
    assert reader.ask(get("new")).json() == {}
    client.send(get("new"))
    other.execute("ROLLBACK")
    answers: list[Answer] = [client.read() for _ in range(3)]
    assert [one.json() for one in answers] == [{}, {"Item": {"pk": {"S": "new"}}}, {"Item": {"pk": {"S": "new"}}}]


def test_tables_that_wait_to_be_made_hold_up_no_scan_6(clients: Any, other: sqlite3.Connection) -> None:
    makers = [clients() for _ in range(2 * group_commit.HEAVY_THREADS)]
    for number, maker in enumerate(makers):
        maker.send(request("CreateTable", {"TableName": f"tab{number}", **SCHEMA}))
    reader = clients()
    assert reader.ask(request("Scan", {"TableName": "tab"})).json()["Count"] == 1
    select = {"Statement": "SELECT * FROM tab"}
    assert len(reader.ask(request("ExecuteStatement", select)).json()["Items"]) == 1
    other.execute("ROLLBACK")
    assert [maker.read().status for maker in makers] == [200] * len(makers)


def test_a_server_stops_although_a_write_waits(server: ServerThread, clients: Any, other: sqlite3.Connection) -> None:
    client = clients()
    client.send(put("new"))
    while not server._server.group_commit._is_writing:
        assert clients().ask(HEALTH).status == 200
    server.stop(grace_seconds=0)
    other.execute("ROLLBACK")
    engine = cast(Engine, server.engine)
    assert engine.execute("GetItem", {"TableName": "tab", "Key": {"pk": {"S": "new"}}}) == {}
    engine.execute("PutItem", {"TableName": "tab", "Item": {"pk": {"S": "new"}}})


def test_a_server_whose_file_stays_locked_answers_every_write_of_a_group_at_once(tmp_path: Path) -> None:
    with Engine(str(tmp_path / "x.db"), settings=Settings(busy_seconds=0.01)) as engine:
        engine.execute("CreateTable", {"TableName": "tab", **SCHEMA})
        other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        begins: list[str] = []
        engine.store.connection().set_trace_callback(begins.append)
        item = {"TableName": "tab", "Item": {"pk": {"S": "a"}}}
        reading = Pending("GetItem", {"TableName": "tab", "Key": {"pk": {"S": "a"}}})
        answers = engine.answer_many([Pending("PutItem", item), reading, Pending("PutItem", item)])
        assert [getattr(one, "code", one) for one in answers] == ["InternalServerError", b"{}", "InternalServerError"]
        assert "locked" in str(answers[0])
        other.close()


def test_writes_that_wait_share_the_next_transaction_6() -> None:
    engine = EchoEngine()
    engine.must_wait = True
    with running_server(engine) as server, ExitStack() as stack:
        clients = [stack.enter_context(RawClient(server.url, timeout=120)) for _ in range(9)]
        clients[0].send(request("PutItem", {"Id": 0, "Sleep": 0.5}))
        while not server._server.group_commit._is_writing:
            threading.Event().wait(0.001)
        for number, client in enumerate(clients[1:], start=1):
            client.send(request("PutItem", {"Id": number}))
        while len(server._server.group_commit._deferred) < 8:
            threading.Event().wait(0.001)
        assert [client.read().json()["Request"]["Id"] for client in clients] == list(range(9))
        assert engine.groups[-1] == 8


def test_many_connections_that_read_and_write_beside_another_process_lose_nothing(
    server: ServerThread, tmp_path: Path
) -> None:
    ended = threading.Event()

    def disturb() -> None:
        other = sqlite3.connect(tmp_path / "x.db", isolation_level=None, timeout=60)
        while not ended.is_set():
            other.execute("BEGIN IMMEDIATE")
            ended.wait(0.002)
            other.execute("ROLLBACK")
            ended.wait(0.001)
        other.close()

    def work(name: int) -> int:
        with RawClient(server.url, timeout=120) as client:
            wrong = 0
            for number in range(0, 60, 3):
                keys = [f"{name}-{number + more}" for more in range(3)]
                client.send(b"".join(put(key) + get(key) for key in keys))
                for key in keys:
                    wrong += client.read().status != 200
                    wrong += client.read().json() != {"Item": {"pk": {"S": key}}}
            return wrong

    disturber = threading.Thread(target=disturb)
    disturber.start()
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(8))) == 0
    ended.set()
    disturber.join()


def test_a_read_does_not_see_a_deferred_write_that_came_after_it_6() -> None:
    engine = EchoEngine()
    engine.must_wait = True
    with running_server(engine) as server, RawClient(server.url, timeout=120) as client:
        client.send(request("GetItem", {"Id": 0, "Sleep": 0.3}) + request("PutItem", {"Id": 1}))
        assert [client.read().json()["Request"]["Id"] for _ in range(2)] == [0, 1]
        assert engine.order == ["GetItem:0", "PutItem:1"]


@pytest.mark.parametrize(
    ("operation", "asked", "writes"),
    [
        ("Scan", {}, False),
        ("CreateTable", {}, True),
        ("ExecuteStatement", {"Statement": "  select * from t"}, False),
        ("ExecuteStatement", {"Statement": "INSERT INTO t VALUE {}"}, True),
        ("ExecuteStatement", {"Statement": 5}, True),
        ("ExecuteStatement", {}, True),
        ("BatchExecuteStatement", {"Statements": [{"Statement": "SELECT * FROM t"}]}, False),
        ("BatchExecuteStatement", {"Statements": [{"Statement": "SELECT"}, {"Statement": "DELETE"}]}, True),
        ("BatchExecuteStatement", {"Statements": [5]}, True),
        ("ExecuteTransaction", {}, True),
    ],
)
def test_a_statement_that_selects_waits_for_no_write(operation: str, asked: dict[str, Any], writes: bool) -> None:
    assert may_write(Pending(operation, asked)) is writes
