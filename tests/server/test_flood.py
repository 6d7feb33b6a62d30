"""Clients that are many, slow or wrong: bounded, no harm to others. Numbers: connection_limits.py, group_commit.py."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from raw_http import EchoEngine, RawClient, request, until

from penstock.engine.engine import Pending
from penstock.engine.settings import DEFAULT_SCOPE
from penstock.server import connection as protocol
from penstock.server import connection_limits, group_commit
from penstock.server import server as run
from penstock.server.connection import Connection
from penstock.server.replies import PLAIN
from penstock.server.server import ServerThread, running_server

ROOT = Path(__file__).parents[2]
MEGABYTE = 1024 * 1024


@pytest.fixture
def clients(echo_server: ServerThread) -> Iterator[Any]:
    """Makes clients, and ends them."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(RawClient(echo_server.url, timeout=60))


@pytest.fixture
def fast_server() -> Iterator[ServerThread]:
    with running_server(EchoEngine()) as server:
        yield server


def arriving(client: RawClient, count: int) -> bool:
    """Whether so many bytes arrive."""
    buffer = bytearray(MEGABYTE)
    while count > 0:
        try:
            received = client.socket.recv_into(buffer)
        except ConnectionResetError:
            return False
        if not received:
            return False
        count -= received
    return True


def test_of_those_who_do_not_read_the_slowest_go_when_too_much_is_unsent_2(
    fast_server: ServerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "UNSENT_BYTES", 85 * MEGABYTE)
    limits = fast_server._server.limits
    first, second, third = (RawClient(fast_server.url, timeout=60) for _ in range(3))
    for number, client in enumerate((first, second), start=1):
        client.send(request("Scan", {"Size": 40 * MEGABYTE}))  # of which the kernel takes ten at most
        until(lambda number=number: len(limits._unsent) == number)
    third.send(request("Scan", {"Size": 40 * MEGABYTE}))
    until(lambda: len(limits) == 2)
    assert [arriving(client, 40 * MEGABYTE) for client in (first, second, third)] == [False, True, True]
    until(lambda: not limits._unsent)
    assert limits._unsent_bytes == 0
    for client in (first, second, third):
        client.socket.close()


class _BusyLoop:
    """An event loop that takes what it is given only when it is told to."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def call_soon_threadsafe(self, function: Any, *arguments: Any) -> None:
        self.given.append(lambda: function(*arguments))

    def is_closed(self) -> bool:
        return False


def test_threads_make_no_more_large_answers_than_the_loop_takes_5() -> None:
    made: list[str] = []
    taken: list[bytes] = []

    def answer(operation: str, *_: Any) -> bytes:
        made.append(operation)
        return bytes(MEGABYTE)

    loop, engine = _BusyLoop(), SimpleNamespace(answer=answer, without_waiting=ExitStack)
    group = group_commit.GroupCommit(cast("Any", engine), cast("Any", loop))
    reader = cast("Any", SimpleNamespace(is_gone=False, answered_alone=lambda style, body: taken.append(body)))
    gone = cast("Any", SimpleNamespace(is_gone=True))
    group.run_heavy(Pending("Scan", {}, DEFAULT_SCOPE), gone, PLAIN)
    for _ in range(20):
        group.run_heavy(Pending("Scan", {}, DEFAULT_SCOPE), reader, PLAIN)
    until(lambda: len(made) >= group_commit.HEAVY_THREADS)
    for number in range(20):
        until(lambda: loop.given)
        assert (len(loop.given), len(taken)) == (1, number)
        assert len(made) <= number + 1 + group_commit.HEAVY_THREADS
        loop.given.pop()()
    assert len(taken) == len(made) == 20  # and nothing was read for the client that had gone
    group.close()


def test_calls_whose_answers_may_be_large_are_alone_in_the_engine_and_keep_their_places_2(
    clients: Any, engine: EchoEngine
) -> None:
    client = clients()
    names = ["GetItem", "Query", "Query", "GetItem", "BatchGetItem", "PutItem", "PutItem"]
    client.send(b"".join(request(name, {"Id": place}) for place, name in enumerate(names)))
    assert [client.read().json()["Request"]["Id"] for _ in names] == list(range(7))
    assert engine.order == [f"{name}:{place}" for place, name in enumerate(names)]
    assert max(engine.groups) <= 2, "the two PutItems may share a commit"


def test_large_answers_hold_up_nobody_who_asks_for_little_5(
    clients: Any, engine: EchoEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "LARGE_SECONDS", 600)
    greedy, modest = clients(), clients()
    assert greedy.ask(request("Query", {"Size": 500_000})).status == 200
    greedy.send(request("Query", {"Id": "large", "Sleep": 1}))
    assert modest.ask(request("GetItem", {"Id": "small"})).status == 200
    assert greedy.read().status == 200
    assert engine.order[1:] == ["GetItem:small", "Query:large"]


def test_a_pass_answers_only_so_many_calls_5(clients: Any, engine: EchoEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "PASS_CALLS", 3)
    client = clients()
    client.send(b"".join(request(body={"Id": number}) for number in range(20)))
    assert [client.read().json()["Request"]["Id"] for _ in range(20)] == list(range(20))
    assert max(engine.groups) <= 3


def test_while_many_wait_a_connection_has_one_turn_whatever_it_asks_for_2(
    fast_server: ServerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "PASS_CALLS", 1)
    engine = cast(EchoEngine, fast_server.engine)
    with RawClient(fast_server.url, timeout=60) as greedy, RawClient(fast_server.url, timeout=60) as modest:
        greedy.send(b"".join(request(body={"Id": number, "Sleep": 0.1}) for number in range(25)))
        until(lambda: engine.order)
        modest.ask(request(body={"Id": "small"}))
        assert "GetItem:24" not in engine.order, "it did not wait for all of the other's"
        assert [greedy.read().json()["Request"]["Id"] for _ in range(25)] == list(range(25))


def test_thousands_of_requests_in_one_go_are_answered_in_order_and_parsed_as_they_are_due(
    clients: Any, echo_server: ServerThread
) -> None:
    client, most = clients(), 0
    names = ["GetItem"] * 20 + ["Scan", "Query"]
    calls = [request(names[number % len(names)], {"Id": number}) for number in range(2_000)]

    def send() -> None:
        client.send(b"".join(calls))
        client.socket.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    sender.start()
    for number in range(2_000):
        assert client.read().json()["Request"]["Id"] == number
        most = max([most, *(len(one._backlog) for one in echo_server._server.limits)])
    sender.join()
    assert client.at_end()
    assert most < 200, "what has to wait waits as bytes"


def test_a_new_connection_takes_the_place_of_the_one_that_has_been_silent_for_longest_1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "most_connections", lambda: 3)
    with running_server(EchoEngine()) as server, ExitStack() as stack:
        first, *others = [stack.enter_context(RawClient(server.url)) for _ in range(4)]
        # The fourth has made room for itself: its own connection is the newest.
        assert [client.ask(request()).status for client in others] == [200] * 3
        assert first.at_end()


def test_where_all_are_being_answered_the_new_connection_is_ended_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "most_connections", lambda: 1)
    engine = EchoEngine()
    with running_server(engine) as server, RawClient(server.url, timeout=60) as busy:
        busy.send(request("Scan", {"Sleep": 1}))
        until(lambda: any(one._busy for one in server._server.limits))
        with RawClient(server.url) as late:
            assert late.at_end()
        assert busy.read().status == 200
        assert busy.ask(request()).status == 200


def test_a_body_that_has_stalled_makes_room_for_one_that_arrives_3(
    clients: Any, echo_server: ServerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "HELD_BYTES", 3_000_000)
    monkeypatch.setattr(protocol, "STALLED_TICKS", 0)
    data = request(body=b" " * 2_000_000 + b"{}")
    stalled, prompt = clients(), clients()
    stalled.send(data[:1_900_000])
    until(lambda: echo_server._server.limits._held_bytes > 1_500_000)
    assert prompt.ask(data).status == 200
    assert stalled.read().status == 408


def test_a_body_that_drips_is_cut_off_4(fast_server: ServerThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "REQUEST_SECONDS", 1)
    with RawClient(fast_server.url, timeout=0.1) as client:
        client.send(request(body=b" " * 100_000 + b"{}")[:1000])
        for _ in range(300):
            client.send(b" ")
            try:
                assert client.read().status == 408
                return
            except TimeoutError:
                continue
    pytest.fail("the body may drip for ever")


def test_a_slow_reader_that_goes_on_reading_is_not_cut_off_4() -> None:
    transport = SimpleNamespace(size=10 * MEGABYTE, aborted=False, is_closing=lambda: False)
    transport.get_write_buffer_size = lambda: transport.size
    transport.set_write_buffer_limits = lambda high: None
    transport.write = transport.pause_reading = lambda *_: None
    transport.abort = lambda: setattr(transport, "aborted", True)
    nothing: Any = SimpleNamespace(add=None, add_wide=None)
    server = SimpleNamespace(
        replies=None,
        group_commit=nothing,
        tick=0,
        limits=connection_limits.ConnectionLimits(),
    )
    connection = Connection(cast(Any, server))
    connection.connection_made(cast(Any, transport))
    connection.pause_writing()
    for tick in range(1, 200):
        transport.size -= 8 * 1024
        connection.sweep(tick)
    assert not transport.aborted
    for tick in range(200, 200 + protocol.STALLED_SECONDS + 1):
        transport.size -= 1
        connection.sweep(tick)
    assert transport.aborted


def test_a_body_of_millions_of_lists_is_refused_unparsed(clients: Any) -> None:
    client = clients()
    answer = client.ask(request(body=b'{"Id":[' + b"[]," * 2_100_000 + b"[]]}"))
    assert (answer.status, answer.error) == (400, "SerializationException")
    assert client.ask(request(body=b'{"Id":"' + b"[]" * 1_100_000 + b'"}')).status == 200


@pytest.mark.parametrize(("files", "most"), [(64, 16), (20, 8), (1024, 976), (1_000_000, 8192), (-1, 8192)])
def test_there_are_as_many_connections_as_files_may_be_open_1(
    files: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (files, files))
    assert connection_limits.most_connections() == most


def test_the_flood_in_its_short_form_finds_nothing() -> None:
    attacks = ["few files", "half heads"]
    options = [word for attack in attacks for word in ("--only", attack)]
    command = [sys.executable, "-m", "trust.flood", "--seconds", "0.2", "--longest", "120", *options]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "The server stayed up, within its bounds, and served the others." in ended.stdout
