"""`python -m bench.instructions [PART ...] [--source DIR]`: machine instructions of hot paths, counted by valgrind.

Seconds depend on who else uses the machine; instructions do not, so that a change of two in a hundred shows. The
kernel's are not counted, and one costs more than another: what is gained is told by the clock, in an A/B of many runs.

Each part runs in a process of its own, with few and with many repetitions; the difference is what one costs. `--source`
counts another checkout's `src`. Needs valgrind (Debian: `apt install valgrind`); a part takes half a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from unittest.mock import Mock

import penstock
from penstock.engine import Engine
from penstock.jobs.tasks import Task
from penstock.records.processor import RecordProcessor
from penstock.server.connection import Connection
from penstock.server.group_commit import GroupCommit
from penstock.server.server import Options, Server
from penstock.tables.apply.apply import make
from penstock.tables.definitions.aws_shapes import create_request
from penstock.tables.definitions.definition import Index, Table

ROOT = Path(__file__).parent.parent
FEW, MANY = 70, 490
TOGETHER = 7
STREAMED = Table("Readings", ("Sensor:S", "At:N"), stream="NEW_AND_OLD_IMAGES")
TABLE = Table("Records", ("AccountId:S", "RunTime:S"), indexes=(Index("Processed", "Processed:N"),))
COUNTED = re.compile(r"I\s+refs:\s+([\d,]+)")


def get(folder: Path, count: int) -> None:
    """A GetItem in process."""
    with penstock.connect(folder / "x.db") as db:
        make(db, TABLE, TABLE.name)
        key = {"AccountId": {"S": "a"}, "RunTime": {"S": "1"}}
        db.execute("PutItem", {"TableName": TABLE.name, "Item": {**key, "Text": {"S": "x" * 500}}})
        for _ in range(count):
            db.execute("GetItem", {"TableName": TABLE.name, "Key": key})


def put(folder: Path, count: int) -> None:
    """A PutItem in process, of an item of ten attributes in one index."""
    with penstock.connect(folder / "x.db") as db:
        make(db, TABLE, TABLE.name)
        rest = {f"attribute{number}": {"S": "x" * 40} for number in range(7)}
        for number in range(count):
            key = {"AccountId": {"S": f"a{number % 97}"}, "RunTime": {"S": f"{number:08}"}, "Processed": {"N": "0"}}
            db.execute("PutItem", {"TableName": TABLE.name, "Item": {**key, **rest}})


def stream_put(folder: Path, count: int) -> None:
    """A PutItem in process, into a table with a stream and a number as sort key."""
    with penstock.connect(folder / "x.db") as db:
        make(db, STREAMED, STREAMED.name)
        rest = {f"attribute{number}": {"S": "x" * 40} for number in range(8)}
        for number in range(count):
            key = {"Sensor": {"S": f"a{number % 97}"}, "At": {"N": str(1_700_000_000 + number // 2)}}
            db.execute("PutItem", {"TableName": STREAMED.name, "Item": {**key, **rest}})


def query(folder: Path, count: int) -> None:
    """A Query in process, of ten items of ten attributes by a range of sort keys."""
    with penstock.connect(folder / "x.db") as db:
        make(db, TABLE, TABLE.name)
        rest = {f"attribute{number}": {"S": "x" * 40} for number in range(8)}
        for number in range(40):
            key = {"AccountId": {"S": "a"}, "RunTime": {"S": f"{number:08}"}}
            db.execute("PutItem", {"TableName": TABLE.name, "Item": {**key, **rest}})
        request = {
            "TableName": TABLE.name,
            "KeyConditionExpression": "AccountId = :a AND RunTime >= :r",
            "ExpressionAttributeValues": {":a": {"S": "a"}, ":r": {"S": "00000030"}},
        }
        for _ in range(count):
            db.execute("Query", request)


def enqueue(folder: Path, count: int) -> None:
    """`task.enqueue` of a job without arguments."""
    app, task = _app(folder)
    for _ in range(count):
        task.enqueue()
    app.close()


def job(folder: Path, count: int) -> None:
    """A job found, claimed and completed, seven by one commit, as a worker of eight threads does it."""
    app, task = _app(folder)
    task.enqueue_many([{} for _ in range(MANY + 2 * TOGETHER)])
    store, running, done = app.store, list[penstock.Job](), 0
    found: list[penstock.Job] = []
    while done < count:
        if len(found) < TOGETHER:
            ids = {one.id for one in running}
            found = [one for one in store.claimable("default", 96, evenly=True).jobs if one.id not in ids]
        taken, found = found[:TOGETHER], found[TOGETHER:]
        asked = [(one, "null") for one in running], [(one, 30.0) for one in taken]
        ended, claimed = store.complete_and_claim(*asked, "worker")
        done += len(ended)
        running = [one for one in claimed if one is not None]
    app.close()


def record(folder: Path, count: int) -> None:
    """A record of an index, claimed and marked, of a function that does nothing, by one worker."""
    with penstock.connect(folder / "x.db") as db:
        make(db, TABLE, TABLE.name)
        records = ({"AccountId": f"a{n % 97}", "RunTime": f"{n:08}", "Processed": 0} for n in range(count))
        db.table(TABLE.name).batch_write(records)
        processor = RecordProcessor(
            db.table(TABLE.name), index="Processed", value=0, set={"Processed": 1}, max_workers=1
        )
        assert processor.process_all(lambda _: None).processed == count


def _app(folder: Path) -> tuple[penstock.App, Task[[], None]]:
    app = penstock.App(folder / "x.db")

    @app.task()
    def no_op(_: penstock.JobContext) -> None: ...

    return app, no_op


def http_get(folder: Path, count: int) -> None:
    """A GetItem over HTTP, the server's side, eight connections at a time."""
    body = b'{"TableName":"Records","Key":{"AccountId":{"S":"a"},"RunTime":{"S":"1"}}}'
    _serve(folder, "GetItem", (body for _ in range(count)))


def http_put(folder: Path, count: int) -> None:
    """A PutItem over HTTP, likewise."""
    item = b'{"TableName":"Records","Item":{"AccountId":{"S":"a"},"RunTime":{"S":"%08d"},"Text":{"S":"%b"}}}'
    _serve(folder, "PutItem", (item % (number, b"x" * 100) for number in range(count)))


CONNECTIONS = 8
HEAD = (
    "POST / HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nContent-Type: application/x-amz-json-1.0\r\n"
    "X-Amz-Target: DynamoDB_20120810.{}\r\nX-Amz-Date: 20260101T{:06}Z\r\nAuthorization: AWS4-HMAC-SHA256 "
    "Credential=KEY/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature={:064}\r\n"
    "Content-Length: {}\r\n\r\n"
)


def _serve(folder: Path, operation: str, bodies: Iterable[bytes]) -> None:
    """Gives requests to connections as a transport would, and runs what these ask an event loop for."""
    pending: list[Callable[[], None]] = []
    loop = Mock(spec=["call_soon", "time"], call_soon=pending.append, time=lambda: 0.0)
    with Engine(str(folder / "x.db")) as engine:
        engine.execute("CreateTable", create_request(TABLE, TABLE.name))
        server = Server(engine, [], Options())
        server.group_commit = GroupCommit(engine, loop)
        connections = [Connection(server) for _ in range(CONNECTIONS)]
        written: list[bytes] = []
        for connection in connections:
            connection.connection_made(_Transport(written))
        for number, body in enumerate(bodies):
            head = HEAD.format(operation, number, number, len(body)).encode()
            connections[number % CONNECTIONS].data_received(head + body)
            while pending and number % CONNECTIONS == CONNECTIONS - 1:
                pending.pop(0)()
        assert all(answer.startswith(b"HTTP/1.1 200 ") for answer in written)
        server.group_commit.close()


class _Transport(asyncio.Transport):
    def __init__(self, written: list[bytes]) -> None:
        super().__init__()
        self.write = written.append  # type: ignore[assignment,method-assign]

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...


_COUNTED = (get, put, stream_put, query, http_get, http_put, enqueue, job, record)
PARTS: dict[str, Callable[[Path, int], None]] = {one.__name__.replace("_", "-"): one for one in _COUNTED}


def counted(part: str, count: int, source: Path) -> int:
    """Instructions of a process that does it so often."""
    words = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", sys.executable]
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}", "PYTHONHASHSEED": "1"}
    words += ["-m", "bench.instructions", "--run", part, str(count)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600, check=False)
    found = COUNTED.search(done.stderr)
    if done.returncode or found is None:
        raise SystemExit(f"{part} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return int(found[1].replace(",", ""))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=(__doc__ or "").split(": ", 1)[1])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(PARTS)}; all where none is given")
    parser.add_argument("--source", type=Path, default=ROOT / "src", help="the folder that `penstock` is imported from")
    parser.add_argument("--run", nargs=2, metavar=("PART", "COUNT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        with tempfile.TemporaryDirectory() as folder:
            PARTS[options.run[0]](Path(folder), int(options.run[1]))
        return
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}: choose from {', '.join(PARTS)}")
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is not there: `apt install valgrind`.")
    for part in options.parts or PARTS:
        each = (counted(part, MANY, options.source) - counted(part, FEW, options.source)) / (MANY - FEW)
        about = (PARTS[part].__doc__ or "").rstrip(".")
        sys.stdout.write(f"{part:10} {each / 1000:7,.0f} thousand instructions   {about}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
