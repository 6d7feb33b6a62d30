"""A process that cannot connect to anything (jobs/copies/network_block.py cites by number), each in its own process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

BEGIN = """
import socket, subprocess, sys
from penstock.jobs.copies.network_block import NetworkBlock, NetworkBlocked
block = NetworkBlock()
block.begin()
"""


@pytest.fixture
def listener() -> Iterator[tuple[str, int]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", BEGIN + code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def refused(call: str) -> str:
    caught = "except NetworkBlocked as error:\n    print(error.place)\n    assert '--network' in str(error)"
    return run(f"try:\n    {call}\n{caught}")


@pytest.mark.parametrize(
    ("call", "place"),
    [
        ("socket.create_connection(('prod.example.org', 443))", "prod.example.org:443"),
        ("socket.gethostbyname('prod.example.org')", "prod.example.org"),
        ("socket.socket().connect(('192.0.2.1', 443))", "192.0.2.1:443"),
        ("socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))", "192.0.2.1:53"),
        ("socket.socket(type=socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, ('192.0.2.1', 53))", "192.0.2.1:53"),
        ("socket.socket(socket.AF_UNIX).connect('/var/run/prod.sock')", "/var/run/prod.sock"),
        ("__import__('urllib.request').request.urlopen('http://prod.example.org/')", "prod.example.org:80"),
    ],
)
def test_every_way_out_is_blocked_and_named(call: str, place: str) -> None:  # (1)
    assert refused(call) == place


def test_loopback_is_blocked_too(listener: tuple[str, int]) -> None:  # (1)
    assert refused(f"socket.create_connection({listener!r})") == f"127.0.0.1:{listener[1]}"


def test_boto3_says_what_was_blocked_without_trying_for_long() -> None:
    code = """
import boto3
client = boto3.client("dynamodb", region_name="eu-west-2", aws_access_key_id="a", aws_secret_access_key="b")
try:
    client.list_tables()
except Exception as error:
    print(error)
print(sum(block.places.values()))
"""
    said = run(code)
    assert "dynamodb.eu-west-2.amazonaws.com:443 was blocked" in said
    assert said.endswith("\n1")


def test_what_a_task_has_caught_is_counted() -> None:
    code = """
for _ in range(3):
    try:
        socket.create_connection(("prod.example.org", 443))
    except Exception:
        pass
print(block.places)
"""
    assert run(code) == "{'prod.example.org:443': 3}"


def test_async_programs_still_run() -> None:
    assert run("import asyncio\nprint(asyncio.run(asyncio.sleep(0, 'slept')))") == "slept"


def test_subprocesses_are_blocked_where_the_kernel_allows_it(listener: tuple[str, int]) -> None:  # (2)
    code = f"""
call = "import socket; socket.create_connection({listener!r}, 5)"
done = subprocess.run([sys.executable, "-c", call], capture_output=True)
print(block.by_kernel, done.returncode)
"""
    said = run(code)
    if said.startswith("False"):
        pytest.skip("this kernel gives no network of its own to a process like this one")
    assert said == "True 1"


def test_the_user_stays_the_same_and_can_write(tmp_path: object) -> None:  # (2)
    code = f"""
import os, pathlib
path = pathlib.Path({str(tmp_path)!r}) / "kept"
path.write_text("x")
print(os.geteuid(), path.stat().st_uid)
"""
    assert run(code) == f"{os.geteuid()} {os.geteuid()}"
