"""Starting and stopping, in a thread and as a process. The numbers cite the promises in server.py."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_http import EchoEngine, RawClient, request

from penstock.cli.main import cli
from penstock.server import connection
from penstock.server.server import AddressError, ServerThread, listen, running_server, url_of


def test_a_stopped_server_has_answered_what_it_had_begun_2() -> None:
    server = ServerThread(EchoEngine())
    server.start()
    with RawClient(server.url) as busy, RawClient(server.url) as half, RawClient(server.url) as idle:
        idle.ask(request())
        data = request(body={"Id": 2})
        half.ask(request() + data[:150])  # the half has come with it
        busy.send(request("Scan", {"Id": 1, "Sleep": 0.4}))
        time.sleep(0.1)
        stopper = threading.Thread(target=server.stop, args=(60.0,))
        stopper.start()
        assert idle.at_end()
        time.sleep(0.1)
        half.send(data[150:])
        assert half.read().status == 200
        assert busy.read().json()["Request"]["Id"] == 1
        assert busy.at_end() and half.at_end()
        stopper.join()
    with pytest.raises(OSError):
        RawClient(server.url)


def test_a_server_stops_in_spite_of_a_request_that_never_arrives() -> None:
    server = ServerThread(EchoEngine())
    server.start()
    with RawClient(server.url) as client:
        client.ask(request() + request()[:50])  # the half has come with it
        stopper = threading.Thread(target=server.stop, kwargs={"grace_seconds": 0.2}, daemon=True)
        stopper.start()
        stopper.join(60)
        assert not stopper.is_alive()
        assert client.at_end()


def test_what_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REQUEST_SECONDS", 0)
    monkeypatch.setattr(connection, "IDLE_SECONDS", 1)
    with running_server(EchoEngine()) as server, RawClient(server.url) as half, RawClient(server.url) as idle:
        half.send(request()[:60])
        assert half.read().status == 408
        assert half.at_end()
        assert idle.ask(request()).status == 200
        assert idle.at_end()


def test_a_taken_port_is_said_with_what_to_do() -> None:
    (sock,) = listen("127.0.0.1", 0)
    port = sock.getsockname()[1]
    with sock, pytest.raises(AddressError, match=rf"Port {port} on 127.0.0.1 is taken.*--port"):
        listen("127.0.0.1", port)


def test_a_host_that_is_none_is_said() -> None:
    with pytest.raises(AddressError, match=r"no host 'no\.such\.host\.invalid'"):
        listen("no.such.host.invalid", 0)


def test_all_addresses_of_a_host_share_one_port() -> None:
    sockets = listen("localhost", 0)
    assert len({sock.getsockname()[1] for sock in sockets}) == 1
    assert re.fullmatch(r"http://(127\.0\.0\.1|\[::1\]):\d+", url_of(sockets[0]))
    for sock in sockets:
        sock.close()


# ── random bytes (connection.py, 5) ──


@pytest.fixture(scope="module")
def hardy() -> Iterator[ServerThread]:
    with running_server(EchoEngine()) as server:
        yield server


pieces = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"POST / HTTP/1.1\r\n",
            b"GET / HTTP/1.0\r\n",
            b"Content-Length: 10\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"X-Amz-Target: DynamoDB_20120810.Scan\r\n",
            b"Content-Type: application/x-amz-json-1.0\r\n",
            b"Expect: 100-continue\r\n",
            b"Connection: upgrade\r\nUpgrade: h2c\r\n",
            b"Accept-Encoding: *;q=\r\n",
            b"Authorization: AWS4-,,=\r\n",
            b"\r\n",
            b"\r\n\r\n",
            b"5\r\nhello\r\n0\r\n\r\n",
            b'{"Size":5000}',
            request(body={"Id": 1}),
            request(method="OPTIONS", Origin="x"),
        ]
    ),
)


@settings(max_examples=150)
@given(st.lists(pieces, max_size=12))
def test_no_bytes_kill_the_server_or_give_a_500(hardy: ServerThread, parts: list[bytes]) -> None:
    with RawClient(hardy.url) as client:
        try:
            client.send(b"".join(parts))
            client.socket.shutdown(socket.SHUT_WR)
            answer = b""
            while data := client.socket.recv(1 << 20):
                answer += data
        except ConnectionError:
            answer = b""
    assert re.search(rb"HTTP/1.1 5\d\d ", answer) is None
    with RawClient(hardy.url) as client:
        assert client.ask(request()).status == 200


def test_any_cut_of_a_request_into_two_is_the_same_request(hardy: ServerThread) -> None:
    data = request(body={"Id": 1}, chunks=7)
    for at in random.Random(3).sample(range(1, len(data)), 60):
        with RawClient(hardy.url) as client:
            client.send(data[:at])
            time.sleep(0.001)
            assert client.ask(data[at:]).json()["Request"] == {"Id": 1}


# ── the command ──


def start(*arguments: str, cwd: Path, wait: bool = True) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-c", "from penstock.cli.main import main; main()", "serve", *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline() if wait else ""


def test_serve_says_its_url_in_one_line_and_ends_with_0_on_sigterm(tmp_path: Path) -> None:
    process, line = start("--port", "0", cwd=tmp_path)
    url = re.search(r"http://127\.0\.0\.1:\d+", line)
    assert url is not None and "penstock.db" in line
    with RawClient(url[0]) as client:
        assert client.ask(request("ListTables")).json() == {"TableNames": []}
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    assert (tmp_path / "penstock.db").exists()
    assert process.communicate() == ("", "")


def test_serve_prints_json_when_asked(tmp_path: Path) -> None:
    process, line = start("--memory", "--port", "0", "--json", cwd=tmp_path)
    ready = json.loads(line)
    assert ready["db"] == ":memory:" and ready["pid"] == process.pid
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0
    assert not list(tmp_path.iterdir())


def test_a_second_signal_ends_it_at_once_2(tmp_path: Path) -> None:
    process, line = start("--memory", "--port", "0", "--json", cwd=tmp_path)
    url = json.loads(line)["url"]
    with RawClient(url) as client, RawClient(url) as idle:
        idle.ask(request())
        client.ask(request() + request()[:40])  # the half has come with it
        process.send_signal(signal.SIGTERM)
        assert idle.at_end()  # it has heard
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 1  # 0 is an end in time


def test_serve_on_a_taken_port_says_so_and_ends_with_1(tmp_path: Path) -> None:
    (sock,) = listen("127.0.0.1", 0)
    with sock:
        port = str(sock.getsockname()[1])
        process, _ = start("--port", port, cwd=tmp_path, wait=False)
        _, errors = process.communicate(timeout=10)
    assert process.returncode == 1
    assert f"Port {port} on 127.0.0.1 is taken" in errors and "Traceback" not in errors
    assert not list(tmp_path.iterdir())


def test_serving_the_world_without_keys_is_warned_of(tmp_path: Path) -> None:
    process, _ = start("--memory", "--port", "0", "--host", "0.0.0.0", cwd=tmp_path)
    process.terminate()
    assert "--credentials" in process.communicate(timeout=10)[1]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["serve", "--memory", "--db", "x.db"], 2, "either --db FILE or --memory"),
        (["serve", "--port", "99999"], 2, "99999"),
        (["serve", "--credentials", "absent.json"], 1, "absent.json"),
        (["nothing"], 2, "No such command"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(arguments: list[str], code: int, words: str) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == code and words in result.output


def test_every_command_has_help_with_an_example() -> None:
    for arguments in ([], *[[name] for name in cli.list_commands(click.Context(cli))]):
        result = CliRunner().invoke(cli, [*arguments, "--help"], prog_name="penstock")
        assert result.exit_code == 0
        assert re.search(r"Examples?:\n\s+penstock ", result.output), arguments


def test_the_version_is_told() -> None:
    assert re.fullmatch(r"penstock \d+\.\d+\.\d+\n", CliRunner().invoke(cli, ["--version"]).output)


def test_serving_imports_its_own_rooms_and_nothing_heavy() -> None:
    code = """
import sys
import penstock.cli.main, penstock.cli.database.serve
from penstock.engine import Engine
from penstock.server import running_server
with Engine(":memory:") as engine, running_server(engine):
    print(*sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ), timeout=60
    )
    imported = [name.split(".") for name in done.stdout.split()]
    rooms = {"cli", "clock", "engine", "errors", "expressions", "server", "wire"}
    assert {name[1] for name in imported if name[0] == "penstock" and len(name) > 1} == rooms
    installed = {"boto3", "botocore", "dask", "jinja2", "numpy", "openpyxl", "pypdf", "rich", "starlette", "uvicorn"}
    standard = {"email", "http", "multiprocessing", "unittest", "xml", "zipfile"}
    assert not {name[0] for name in imported} & (installed | standard)
