"""The call that waits for changes. The numbers cite change_waits.py."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from raw_http import AUTHORIZATION, EchoEngine, RawClient, request, until

import penstock
from penstock.client.transports.credentials import Credentials, FixedCredentials
from penstock.engine import Engine
from penstock.server import change_waits
from penstock.server.server import Options, ServerThread, running_server

TARGET = "Penstock.WaitForChanges"
SCHEMA = {
    "TableName": "tab",
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}


def wait_call(**body: Any) -> bytes:
    return request(body=body, X_Amz_Target=TARGET)


def put(key: str) -> bytes:
    return request("PutItem", {"TableName": "tab", "Item": {"pk": {"S": key}}})


@pytest.fixture(params=["file", "memory"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with Engine(str(tmp_path / "x.db") if request.param == "file" else ":memory:") as engine:
        engine.execute("CreateTable", SCHEMA)
        yield engine


@pytest.fixture
def server(engine: Engine) -> Iterator[ServerThread]:
    with running_server(engine) as server:
        yield server


def version_now(client: RawClient) -> str:
    """The version after all that was written: the first wait is answered at once, because nobody has looked before."""
    version = ""
    while True:
        client.send(wait_call(Since=version, WaitSeconds=1))
        answer = client.read().json()
        if answer["Version"] == version:
            return version
        version = answer["Version"]


def waits_of(server: ServerThread) -> int:
    return len(server._server.change_waits._waits)


def begin_wait(server: ServerThread, client: RawClient, version: str) -> None:
    before = waits_of(server)
    client.send(wait_call(Since=version, WaitSeconds=20))
    until(lambda: waits_of(server) > before)


def test_a_call_is_answered_when_somebody_has_written(server: ServerThread) -> None:
    with RawClient(server.url) as waiting, RawClient(server.url) as writing:
        version = version_now(waiting)
        begin_wait(server, waiting, version)
        writing.send(put("a"))
        assert writing.read().status == 200
        assert waiting.read().json()["Version"] != version


def test_another_process_at_the_same_file_is_told_of_too(tmp_path: Path) -> None:
    """(1) As another process would: with a store of its own."""
    with Engine(str(tmp_path / "x.db")) as engine, running_server(engine) as server, RawClient(server.url) as waiting:
        engine.execute("CreateTable", SCHEMA)
        version = version_now(waiting)
        begin_wait(server, waiting, version)
        with Engine(str(tmp_path / "x.db")) as other:
            other.execute("PutItem", {"TableName": "tab", "Item": {"pk": {"S": "a"}}})
        assert waiting.read().json()["Version"] != version


def test_a_version_that_is_not_known_is_answered_at_once_and_so_is_a_call_without(server: ServerThread) -> None:
    with RawClient(server.url) as client:
        client.send(wait_call(Since="of-another-server", WaitSeconds=20))
        first = client.read().json()
        client.send(wait_call())
        assert client.read().json() == first


@pytest.mark.parametrize("body", [{"Since": 5}, {"Since": "x", "WaitSeconds": "long"}])
def test_what_is_no_version_and_no_time_is_refused(server: ServerThread, body: dict[str, Any]) -> None:
    with RawClient(server.url) as client:
        client.send(wait_call(**body))
        answer = client.read()
        assert (answer.status, answer.error) == (400, "ValidationException")


def test_other_requests_of_the_connection_wait_for_it_and_other_connections_do_not(server: ServerThread) -> None:
    """(2)"""
    with RawClient(server.url) as waiting, RawClient(server.url) as other:
        begin_wait(server, waiting, version_now(waiting))
        waiting.send(request("ListTables"))
        other.send(request("ListTables"))
        assert other.read().json() == {"TableNames": ["tab"]}
        other.send(put("a"))
        other.read()
        assert "Version" in waiting.read().json()
        assert waiting.read().json() == {"TableNames": ["tab"]}


def test_no_more_than_so_many_wait_and_one_that_has_gone_makes_room(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(3)"""
    monkeypatch.setattr("penstock.server.server.MOST_WAITS", 2)
    with running_server(engine) as server, ExitStack() as stack:
        first, second, third = (stack.enter_context(RawClient(server.url)) for _ in range(3))
        version = version_now(first)
        begin_wait(server, first, version)
        begin_wait(server, second, version)
        third.send(wait_call(Since=version, WaitSeconds=20))
        answer = third.read()
        assert (answer.status, answer.error) == (400, "LimitExceededException")
        first.socket.close()
        until(lambda: any(one.is_gone() for one in tuple(server._server.change_waits._waits)))
        third.send(wait_call(Since=version, WaitSeconds=20))
        until(lambda: waits_of(server) == 2 and not any(o.is_gone() for o in tuple(server._server.change_waits._waits)))


def test_a_call_waits_no_longer_than_it_may(server: ServerThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """(1)"""
    with RawClient(server.url) as client:
        version = version_now(client)
        monkeypatch.setattr(change_waits, "LONGEST_SECONDS", 0.01)
        client.send(wait_call(Since=version, WaitSeconds=1e9))
        assert client.read().json() == {"Version": version}


def test_a_server_that_stops_answers_all_who_wait_and_leaves_no_thread(engine: Engine) -> None:
    """(5) The grace, of an hour, is not waited for."""
    server = ServerThread(engine)
    server.start()
    with RawClient(server.url) as client:
        version = version_now(client)
        begin_wait(server, client, version)
        stopping = threading.Thread(target=server.stop, args=(3600.0,))
        stopping.start()
        assert client.read().json() == {"Version": version}
        stopping.join(60)
        assert not stopping.is_alive()
    assert not [one for one in threading.enumerate() if one.name == "penstock-changes"]


def test_nobody_watches_before_somebody_waits(server: ServerThread) -> None:
    """(2)"""
    with RawClient(server.url) as client:
        client.send(wait_call())
        client.read()
    assert not [one for one in threading.enumerate() if one.name == "penstock-changes"]


# ── who may ask ──────────────────────────────────────────────────────────────────────────────────


def test_it_needs_the_same_authorization_as_every_call(server: ServerThread) -> None:
    with RawClient(server.url) as client:
        client.send(request(X_Amz_Target=TARGET, drop=["Authorization"]))
        assert client.read().error == "MissingAuthenticationTokenException"
        client.send(request(X_Amz_Target=TARGET, Origin="https://elsewhere.example"))
        assert client.read().error == "AccessDeniedException"


def test_a_wrong_signature_is_refused_and_a_right_one_waits(engine: Engine) -> None:
    with running_server(engine, options=Options(secrets={"KEY": "secret"})) as server:
        with RawClient(server.url) as client:
            client.send(request(X_Amz_Target=TARGET, Authorization=AUTHORIZATION))
            assert client.read().status == 400
        for secret, offered in (("wrong", False), ("secret", True)):
            own = FixedCredentials(Credentials("KEY", secret))
            with penstock.connect(server.url, credentials=own, retries=None) as db:
                changes = db.changes()
                assert (changes is not None) is offered
                if changes is not None:
                    assert changes.wait(20)
                    changes.close()


def test_an_engine_that_tells_nothing_has_no_such_operation() -> None:
    with running_server(EchoEngine()) as server, RawClient(server.url) as client:
        client.send(wait_call())
        assert client.read().error == "UnknownOperationException"


# ── the client ───────────────────────────────────────────────────────────────────────────────────


def test_a_client_is_told_of_changes_and_closing_ends_its_wait(server: ServerThread) -> None:
    with penstock.connect(server.url) as db, closing(_changes(db)) as changes:
        assert changes.wait(20)
        answers: list[object] = []

        def follow() -> None:
            try:
                while True:
                    answers.append(changes.wait(20))
            except penstock.PenstockError as error:
                answers.append(error)

        thread = threading.Thread(target=follow)
        thread.start()
        until(lambda: waits_of(server) == 1)
        told = len(answers)
        db.execute("PutItem", {"TableName": "tab", "Item": {"pk": {"S": "a"}}})
        until(lambda: len(answers) > told)
        assert answers[told] is True
        changes.close()
        thread.join(60)
        assert isinstance(answers[-1], penstock.PenstockError)


def _changes(db: penstock.Database) -> Any:
    changes = db.changes()
    assert changes is not None
    return changes


def test_an_endpoint_that_is_no_server_of_ours_does_not_tell() -> None:
    with running_server(EchoEngine()) as server, penstock.connect(server.url) as db:
        assert db.changes() is None


def test_aws_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.transports.http.RemoteTransport.execute", lambda *_: pytest.fail("asked"))
    with penstock.connect("aws://eu-west-2") as db:
        assert db.changes() is None
