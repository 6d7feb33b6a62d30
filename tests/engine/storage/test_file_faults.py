"""A stopped writer, a full disk, a read-only file: each call is done, or refused with a reason; then all goes on."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sample_tables import make, table

from penstock.engine import Engine
from penstock.engine.repair.examine import examine
from penstock.engine.settings import Settings
from penstock.errors import PenstockError

pytestmark = pytest.mark.crash

PUT = {"TableName": "plain", "Item": {"pk": {"S": "mine"}}}
GET = {"TableName": "plain", "Key": {"pk": {"S": "first"}}}


@pytest.fixture
def file(path: str) -> str:
    with Engine(path) as engine:
        make(engine, table("plain", "pk:S"))
        engine.execute("PutItem", {"TableName": "plain", "Item": {"pk": {"S": "first"}}})
    return path


# ── a writer that is stopped in the middle of its transaction ────────────────────────────────────

_STOPS = """
import os, signal, sys
from penstock.engine import Engine
from penstock.engine.registry import OPERATIONS
with Engine(sys.argv[1]) as engine:
    with engine.writing() as call:
        OPERATIONS["PutItem"].run(call, {"TableName": "plain", "Item": {"pk": {"S": "theirs"}}})
        os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_who_waits_for_a_stopped_writer_is_told_which_one_and_nothing_is_lost(file: str) -> None:
    writer = subprocess.Popen([sys.executable, "-c", _STOPS, file])
    try:
        _, status = os.waitpid(writer.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        with Engine(file, settings=Settings(busy_seconds=0.1)) as engine:
            with pytest.raises(PenstockError) as caught:
                engine.execute("PutItem", PUT)
            text = str(caught.value)
            assert f"{file}: database is locked" in text
            if f" {writer.pid} " in _locks():
                assert f"Process {writer.pid} (" in text and f"kill -CONT {writer.pid}" in text
            assert engine.execute("GetItem", GET)["Item"] == {"pk": {"S": "first"}}, "readers need not wait"
            os.kill(writer.pid, signal.SIGCONT)
            assert writer.wait(timeout=60) == 0
            engine.execute("PutItem", PUT)
            found = engine.execute("Scan", {"TableName": "plain"})["Items"]
            assert sorted(item["pk"]["S"] for item in found) == ["first", "mine", "theirs"]
    finally:
        writer.kill()
        writer.wait()
    assert examine(file).sound


def _locks() -> str:
    try:
        return Path("/proc/locks").read_text()
    except OSError:
        return ""


# ── a full disk: no file may grow beyond a limit ─────────────────────────────────────────────────

_LIMIT = 400_000
_FULL = """
import json, resource, sys
from penstock.engine import Engine
from penstock.errors import InternalServerError

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

def put(key):
    engine.execute("PutItem", {"TableName": "plain", "Item": {"pk": {"S": key}, "text": {"S": "x" * 3000}}})

def keys():
    found, start = [], {}
    while True:
        page = engine.execute("Scan", {"TableName": "plain", "ProjectionExpression": "pk"} | start)
        found += [item["pk"]["S"] for item in page["Items"]]
        if "LastEvaluatedKey" not in page:
            return sorted(found)
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

engine = Engine(sys.argv[1])
limit(int(sys.argv[2]))
put("same")
for number in range(100):  # their log is many times the limit, the table stays as long as it is
    put("same")
done, refusals = ["first", "same"], []
for number in range(200):
    try:
        put(f"n{number}")
        done.append(f"n{number}")
    except InternalServerError as error:
        refusals.append(str(error))
while_full = keys()
limit(resource.RLIM_INFINITY)
put("later")
later = keys()
engine.close()
print(json.dumps([sorted(done), refusals, while_full, later]))
"""


def test_on_a_full_disk_each_write_is_there_or_refused_and_with_room_writes_go_on(file: str) -> None:
    command = [sys.executable, "-c", _FULL, file, str(_LIMIT)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr
    done, refusals, while_full, later = json.loads(ended.stdout)
    assert 20 < len(done) < 150 and len(done) + len(refusals) == 202
    assert all(f"{file}: " in text and "full" in text for text in refusals)
    assert while_full == done
    assert later == sorted([*done, "later"])
    assert examine(file).sound
    with Engine(file) as engine:
        assert engine.execute("Scan", {"TableName": "plain", "Select": "COUNT"})["Count"] == len(later)


@pytest.fixture
def server(file: str) -> Iterator[tuple[int, str]]:
    program = "from penstock.cli.main import main; main()"
    command = [sys.executable, "-c", program, "serve", "--db", file, "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    yield process.pid, json.loads(process.stdout.readline())["url"]
    process.terminate()
    process.communicate(timeout=60)


def post(url: str, operation: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    headers = {
        "X-Amz-Target": f"DynamoDB_20120810.{operation}",
        "Content-Type": "application/x-amz-json-1.0",
        "Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/dynamodb/aws4_request, "
        "SignedHeaders=host;x-amz-date, Signature=0",
        "X-Amz-Date": "20260101T000000Z",
    }
    try:
        call = urllib.request.Request(url, json.dumps(request).encode(), headers)
        with urllib.request.urlopen(call, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux limits another process")
def test_over_http_a_full_disk_is_a_500_that_says_so(server: tuple[int, str], file: str) -> None:
    pid, url = server
    large = {"TableName": "plain", "Item": {"pk": {"S": "large"}, "text": {"S": "x" * 300_000}}}
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    status, told = post(url, "PutItem", large)
    assert status == 500 and told["__type"].endswith("#InternalServerError")
    assert file in told["message"] and "full" in told["message"]
    assert post(url, "GetItem", GET) == (200, {"Item": {"pk": {"S": "first"}}})
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert post(url, "PutItem", large) == (200, {})


# ── a log that cannot begin again ────────────────────────────────────────────────────────────────


def test_on_a_small_disk_the_log_takes_a_part_of_what_is_free(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.engine.storage.database_file._free_bytes", lambda folder: 4_000_000)
    with Engine(file) as engine:
        for number in range(300):
            item = {"pk": {"S": f"n{number % 20}"}, "text": {"S": "x" * 3000}}
            engine.execute("PutItem", {"TableName": "plain", "Item": item})
            assert Path(f"{file}-wal").stat().st_size < 1_500_000


# ── files that may only be read ──────────────────────────────────────────────────────────────────

_READS = """
import os, pathlib, sys
from penstock.engine import Engine
from penstock.engine.repair.examine import examine
if os.geteuid() == 0:
    for folder in list(pathlib.Path(sys.argv[1]).parents)[1:]:
        if len(folder.parts) > 2:
            folder.chmod(0o755)
    os.setgid(65534); os.setuid(65534)
print(examine(sys.argv[1]).sound)
try:
    Engine(sys.argv[1])
except Exception as error:
    print(type(error).__name__, error)
"""


def test_a_file_and_a_folder_that_may_only_be_read_can_be_examined_and_are_refused_by_name(file: str) -> None:
    folder = Path(file).parent
    Path(file).chmod(0o444)
    folder.chmod(0o555)
    try:
        command = [sys.executable, "-c", _READS, file]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    finally:
        folder.chmod(0o755)
    sound, refusal = ended.stdout.splitlines()
    assert sound == "True"
    assert refusal.startswith(f"StorageError {file}: ") and "penstock backup" in refusal
    assert [one.name for one in folder.iterdir()] == [Path(file).name]
