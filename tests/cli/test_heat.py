"""`penstock heat`, and what it shows: the counts of a run in a file, in memory and of a server (heat.py, 1-2)."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import cli
from penstock.client import remote_heat
from penstock.clock import ManualClock
from penstock.engine import Engine
from penstock.engine.capacity import hot_keys
from penstock.engine.settings import Settings, Throttling
from penstock.errors import ThrottlingException
from penstock.server.server import Options, running_server
from penstock.web.dashboard.charts import heat_map

TABLE = {
    "TableName": "jobs",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}
SMALL = Throttling(partition_write_units=10, partition_read_units=30)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["heat", *arguments])


def engine_on(path: str, settings: Settings | None = None) -> Engine:
    return Engine(path, clock=ManualClock(), settings=settings or Settings(heat=True))


def load(engine: Engine, hot: int = 30, others: int = 10) -> None:
    engine.execute("CreateTable", TABLE)
    for n in range(hot):
        put(engine, "hot", n)
    for n in range(others):
        put(engine, f"n{n}", n)


def put(engine: Engine, name: str, n: int) -> None:
    engine.execute("PutItem", {"TableName": "jobs", "Item": {"id": {"S": name}, "n": {"N": str(n)}}})


def told(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.output)
    return answer


def test_a_file_tells_the_heat_of_its_run(path: str) -> None:
    with engine_on(path) as engine:
        load(engine)
    (resource,) = told(run("--db", path, "--json", "--top", "1"))["resources"]
    assert (resource["table"], resource["index"], resource["reads"], resource["writes"]) == ("jobs", None, 0.0, 40.0)
    assert resource["keys"] == [{"key": "hot", "reads": 0.0, "writes": 30.0, "throttled": 0, "over": 0.0}]
    assert len(resource["partitions"]) == 1


def test_a_file_tells_the_heat_of_a_run_that_goes_on(path: str) -> None:
    with engine_on(path) as engine:
        load(engine)
        engine.maintenance.run_due()  # what its thread does each second
        (resource,) = told(run("--db", path, "--json"))["resources"]
        assert resource["writes"] == 40.0


def test_text_shows_bars(path: str) -> None:
    with engine_on(path) as engine:
        load(engine, others=2)
    lines = run("--db", path).output.splitlines()
    assert lines[0] == "jobs: 0.0 read and 32.0 write units"
    assert lines[1] == "  hottest keys"
    assert lines[2] == f"    hot  {'█' * 24}   93.8 %  30.0 units"
    assert lines[3].startswith("    n0   █ ")
    assert "  hottest partitions" in lines


def test_throttles_are_shown(path: str) -> None:
    with engine_on(path, Settings(throttling=SMALL)) as engine, pytest.raises(ThrottlingException):
        load(engine)
    output = run("--db", path).output
    assert output.splitlines()[0] == "jobs: 0.0 read and 10.0 write units, 1 throttled"


def test_a_later_run_replaces_an_earlier_one_and_processes_of_one_run_are_added_up(path: str) -> None:
    with engine_on(path) as engine:
        load(engine)
    clock = ManualClock(1_700_000_100)
    settings = Settings(heat=True)
    with Engine(path, clock=clock, settings=settings) as one, Engine(path, clock=clock, settings=settings) as other:
        put(one, "x", 1)
        put(other, "x", 2)
        put(other, "y", 2)
    (resource,) = told(run("--db", path, "--json"))["resources"]
    assert {key["key"]: key["writes"] for key in resource["keys"]} == {"x": 2.0, "y": 1.0}


def test_an_index_has_heat_of_its_own(path: str) -> None:
    index = {
        "IndexName": "by-state",
        "KeySchema": [{"AttributeName": "state", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "ALL"},
    }
    definitions = [*TABLE["AttributeDefinitions"], {"AttributeName": "state", "AttributeType": "S"}]  # type: ignore[misc]
    with engine_on(path) as engine:
        engine.execute("CreateTable", {**TABLE, "AttributeDefinitions": definitions, "GlobalSecondaryIndexes": [index]})
        for n in range(20):
            item = {"id": {"S": f"n{n}"}, "state": {"S": "queued"}}
            engine.execute("PutItem", {"TableName": "jobs", "Item": item})
        update = {
            "TableName": "jobs",
            "Key": {"id": {"S": "n1"}},
            "UpdateExpression": "SET n = :n",
            "ExpressionAttributeValues": {":n": {"N": "1"}},
        }
        engine.execute("UpdateItem", update)
    resources = {one["index"]: one for one in told(run("--db", path, "--json"))["resources"]}
    assert [(key["key"], key["writes"]) for key in resources["by-state"]["keys"]] == [("queued", 21.0)]
    assert "jobs / by-state: 0.0 read and 21.0 write units" in run("--db", path).output


def test_a_running_server_tells_its_heat() -> None:
    with Engine(settings=Settings(heat=True)) as engine, running_server(engine) as server:
        load(engine)
        (resource,) = told(run("--db", server.url, "--json"))["resources"]
        assert resource["keys"][0]["key"] == "hot"
        assert "hottest partitions" in run("--db", server.url + "/").output


def test_a_server_that_checks_signatures_tells_strangers_nothing() -> None:
    options = Options(secrets={"KEY": "secret"})
    with Engine(settings=Settings(heat=True)) as engine, running_server(engine, options=options) as server:
        result = run("--db", server.url)
    assert result.exit_code == 1
    assert "HTTP 404" in result.output


def test_errors_say_what_to_do(path: str, tmp_path: Path) -> None:
    with Engine(path):
        pass
    assert "penstock serve --heat" in run("--db", path).output
    assert "no such file" in run("--db", str(tmp_path / "nothing.db")).output
    (tmp_path / "text").write_text("This is no database, whatever it is called. " * 50)
    assert "Name a file of Penstock's" in run("--db", str(tmp_path / "text")).output
    assert "Check that the server runs" in run("--db", "http://127.0.0.1:9").output
    assert run().exit_code == 2
    assert run("--db", "file:///etc/passwd").exit_code == 2
    with Engine() as engine, running_server(engine) as server:
        assert "does not tell its heat" in run("--db", server.url).output


class Answers:
    """A server that gives one answer to everything, and keeps the paths that it was asked for."""

    def __init__(self, answer: bytes) -> None:
        self.paths: list[bytes] = []
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Answers:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                self.paths.append(connection.recv(65536).split(b" ")[1])
                connection.sendall(self._answer)


def http_answer(body: bytes, status: bytes = b"200 OK", *headers: bytes) -> bytes:
    head = b"".join(header + b"\r\n" for header in (b"Content-Length: %d" % len(body), *headers))
    return b"HTTP/1.1 " + status + b"\r\n" + head + b"\r\n" + body


def test_a_redirect_is_not_followed() -> None:
    with Answers(http_answer(b'{"resources": []}')) as other:
        with Answers(http_answer(b"", b"302 Found", b"Location: " + other.url.encode() + b"/heat")) as server:
            result = run("--db", server.url)
        assert other.paths == []
    assert result.exit_code == 1
    assert "does not tell its heat (HTTP 302)" in result.output
    assert "penstock serve --heat" in result.output


def test_an_answer_without_end_is_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_heat, "MOST_BYTES", 1000)
    with Answers(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 1_000_000) as server:
        result = run("--db", server.url)
    assert result.exit_code == 1
    assert "more than 1,000 bytes. Check the URL." in result.output


RESOURCE = {"table": "t", "index": None, "reads": 1.0, "writes": 0.0, "throttled": 0, "keys": [], "partitions": []}
KEY = {"key": "k", "reads": 1.0, "writes": 0.0, "throttled": 0, "over": 0.0}
PARTITION = {"low": "0" * 16, "high": "f" * 16, "reads": 1.0, "writes": 0.0, "throttled": 0, "over": 0.0}


def without(whole: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in whole.items() if key != name}


def test_the_sample_of_heat_is_shown() -> None:
    whole = {"resources": [{**RESOURCE, "keys": [KEY], "partitions": [PARTITION]}]}
    with Answers(http_answer(orjson.dumps(whole))) as server:
        assert run("--db", server.url).exit_code == 0


BROKEN = [
    b"",
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"HTTP/1.1 abc\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1000 + b"\r\n",
    *(
        http_answer(body)
        for body in (b"", b"<html>", b"[]", b"null", b"{}", b'{"resources": 1}', b'{"resources": [1]}', b"[" * 5000)
    ),
    *(http_answer(orjson.dumps({"resources": [without(RESOURCE, name)]})) for name in RESOURCE if name != "index"),
    *(http_answer(orjson.dumps({"resources": [{**RESOURCE, "keys": [without(KEY, name)]}]})) for name in KEY),
    *(
        http_answer(orjson.dumps({"resources": [{**RESOURCE, "partitions": [without(PARTITION, name)]}]}))
        for name in PARTITION
    ),
    http_answer(orjson.dumps({"resources": [{**RESOURCE, "partitions": [{**PARTITION, "low": "xyz"}]}]})),
    http_answer(orjson.dumps({"resources": [{**RESOURCE, "reads": "1"}]})),
    http_answer(orjson.dumps({"resources": [{**RESOURCE, "reads": -1}]})),
]


@pytest.mark.parametrize("answer", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_answer_is_an_error_with_the_next_step(answer: bytes) -> None:
    with Answers(answer) as server:
        result = run("--db", server.url)
        assert heat_map._read_served(server.url) is None
    assert result.exit_code == 1, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Check" in result.output


@pytest.mark.parametrize("url", ["http://", "http://[::1", "http://a b", "http://localhost:port"])
def test_a_url_that_cannot_be_is_an_error_with_the_next_step(url: str) -> None:
    result = run("--db", url)
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit), result.exception
    assert "Check" in result.output


def test_control_characters_in_keys_stay_out_of_the_terminal(path: str) -> None:
    with engine_on(path) as engine:
        engine.execute("CreateTable", TABLE)
        put(engine, "\x1b[2Jbad\n" + "x" * 100, 1)
    output = run("--db", path).output
    assert "\x1b" not in output
    assert "?[2Jbad?" in output
    assert "…" in output


def test_the_sketch_keeps_every_heavy_key() -> None:
    random = Random(1)
    sketch, exact = hot_keys.Sketch(50), Counter[str]()
    for _ in range(20_000):
        key = f"k{min(int(random.paretovariate(0.6)), 5_000)}"
        exact[key] += 1
        sketch[key].add("Write", 1.0)
    assert len(sketch.counts) == 50
    for key, count in exact.items():
        if count > 20_000 / 50:
            found = sketch.counts[key]
            assert found.units - found.over <= count <= found.units


def test_a_file_that_is_held_costs_the_counts_and_nothing_else(path: str, caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine(path, settings=Settings(heat=True, busy_seconds=0.01))
    load(engine)
    holder = sqlite3.connect(path)
    holder.execute("BEGIN IMMEDIATE")
    engine.execute("GetItem", {"TableName": "jobs", "Key": {"id": {"S": "hot"}}})  # all before may be written by now
    engine.close()
    holder.close()
    assert "could not be written" in caplog.text


def test_the_oldest_runs_make_room(path: str) -> None:
    for n in range(55):
        with Engine(path, clock=ManualClock(1_700_000_000 + n), settings=Settings(heat=True)) as engine:
            if n == 0:
                engine.execute("CreateTable", TABLE)
            put(engine, f"n{n}", n)
    with Engine(path) as engine, engine.reading() as call:
        assert call.db.execute("SELECT count(*) FROM heat").fetchone()[0] == 50


def test_serve_has_the_switches() -> None:
    help_text = CliRunner().invoke(cli, ["serve", "--help"]).output
    assert "--throttle" in help_text
    assert "--heat" in help_text
