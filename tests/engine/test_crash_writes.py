"""kill -9 at any moment: the file opens, all that was acknowledged is there, and every index agrees with its table."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import IO, Any

import pytest
from crash_writer import KEYS, TABLE, Writer, item, key
from sample_tables import assert_indexes_agree, every_item, index, make, records, table

from penstock.engine import Engine

pytestmark = pytest.mark.crash

DEFINITION = table(
    TABLE,
    "pk:S / sk:N",
    globals_=(index("by_owner", "owner:S / due:N", "KEYS_ONLY"),),
    locals_=(index("by_due", "pk:S / due:N"),),
)
Known = dict[int, int | None]
STREAMED = DEFINITION | {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}}


@pytest.fixture
def crashing(path: str) -> str:
    with Engine(path) as engine:
        make(engine, STREAMED)
    return path


class Writers:
    """Starts writers, one after the other, and kills them."""

    def __init__(self) -> None:
        script = str(Path(__file__).with_name("crash_writer.py"))
        self.process = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def start(self, path: str, seed: int) -> int:
        """The process id of a writer that is about to begin."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{path} {seed}\n".encode())
        self.process.stdin.flush()
        return int(self.process.stdout.readline().removeprefix(b"pid "))

    def kill(self, pid: int, after_writes: int, after_seconds: float) -> list[Known]:
        """Lets it write so many times and a moment longer; the acknowledged writes in their order."""
        assert self.process.stdout is not None
        lines = [self.process.stdout.readline() for _ in range(after_writes)]
        time.sleep(after_seconds)  # the moment of the kill is what is random here: no clock can be moved
        os.kill(pid, signal.SIGKILL)
        lines += iter(self.process.stdout.readline, b"dead\n")
        return [dict(json.loads(line)) for line in lines]

    def close(self) -> None:
        self.process.communicate()


@pytest.fixture
def writers() -> Iterator[Writers]:
    writers = Writers()
    yield writers
    writers.close()


def check(path: str, known: Known) -> Known:
    """Checks the file after a kill; what every key now holds."""
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()
    with Engine(path) as engine:
        assert_indexes_agree(engine, TABLE)
        items = {int(one["sk"]["N"]): one for one in every_item(engine, "Scan", {"TableName": TABLE})}
    found = {number: int(items[number]["version"]["N"]) if number in items else None for number in range(KEYS)}
    for number, one in items.items():
        assert one == item(number, int(one["version"]["N"])), "an item is torn"
    assert_acknowledged(known, found)
    return found


def assert_acknowledged(known: Known, found: Known) -> None:
    """Each key holds what was acknowledged last, or the one write that was under way when the process died."""
    newer = {number for number in range(KEYS) if found[number] != known.get(number)}
    versions = {found[number] for number in newer}
    assert len(versions) <= 1, f"more than one unacknowledged write: {versions}"
    version = versions.pop() if versions else None
    if version is not None:
        assert version > max((one for one in known.values() if one), default=0), "an acknowledged write is lost"
        # Of writes to six items, all or none: puts in groups, batches and transactions alike.
        assert len(newer) in (1, 6), f"half a transaction: {newer}"
    else:
        assert len(newer) <= 1, f"acknowledged writes are lost: {newer}"


def test_nothing_acknowledged_is_lost_in_a_hundred_kills(crashing: str, writers: Writers) -> None:
    random = Random(7)
    known: Known = {}
    writes = 0
    for seed in range(1, 101):
        pid = writers.start(crashing, seed)
        acknowledged = writers.kill(pid, random.randrange(30), random.uniform(0.0, 0.003))
        writes += len(acknowledged)
        for one in acknowledged:
            known.update(one)
        known = check(crashing, known)
    assert writes > 500, "too few writes to have tested anything"

    assert_stream_tells_the_whole_story(crashing)


def assert_stream_tells_the_whole_story(path: str) -> None:
    """Each record begins where the one before it ended, and the last ones are the table."""
    with Engine(path) as engine:
        told: dict[str, Any] = {}
        for record in records(engine, TABLE):
            change = record["dynamodb"]
            key = json.dumps(change["Keys"], sort_keys=True)
            assert change.get("OldImage") == told.get(key), "a record is missing"
            told[key] = change.get("NewImage")
        items = every_item(engine, "Scan", {"TableName": TABLE})
    left = [image for image in told.values() if image is not None]
    assert sorted(map(json.dumps, left)) == sorted(map(json.dumps, items))


# ── the same through the server ──────────────────────────────────────────────────────────────────


class Client:
    """The least HTTP client: one request a connection."""

    def __init__(self, url: str) -> None:
        self.url = url

    def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        headers = {
            "X-Amz-Target": f"DynamoDB_20120810.{operation}",
            "Content-Type": "application/x-amz-json-1.0",
            "Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/dynamodb/aws4_request, "
            "SignedHeaders=host;x-amz-date, Signature=0",
            "X-Amz-Date": "20260101T000000Z",
        }
        call = urllib.request.Request(self.url, json.dumps(request).encode(), headers)
        with urllib.request.urlopen(call, timeout=10) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found


def start_server(path: str) -> tuple[subprocess.Popen[bytes], str]:
    program = "from penstock.cli.main import main; main()"
    command = [sys.executable, "-c", program, "serve", "--db", path, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    return process, _url(process.stdout)


def _url(out: IO[bytes]) -> str:
    while line := out.readline():
        text = line.decode()
        if "http://" in text:
            return "http://" + text.split("http://")[1].split()[0].rstrip(".,/")
    raise AssertionError("the server did not say where it listens")


def test_nothing_that_the_server_acknowledged_is_lost(crashing: str) -> None:
    random = Random(11)
    known: Known = {}
    for seed in range(1, 11):
        process, url = start_server(crashing)
        client = Client(url)
        writer = Writer(client.execute, None, random, seed * 1_000_000)
        kinds = [writer.put, writer.update, writer.delete, writer.batch, writer.transaction]
        dies_after = random.randrange(5, 25)
        try:
            for _ in range(dies_after):
                writer.version += 1
                known.update(random.choice(kinds)())
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
        known = check(crashing, known)


def test_the_keys_of_the_writer_are_distinct() -> None:
    assert len({json.dumps(key(number)) for number in range(KEYS)}) == KEYS
