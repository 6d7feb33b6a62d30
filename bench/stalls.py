"""What a long operation on one table costs the others: `python -m bench stalls`.

A server has a table of many small items with an index, and a small table. Two processes of their own read and write the
small table at a steady rate, each call timed from the moment at which it was due: a call that a stalled one kept from
being sent has waited too. Meanwhile the large table is backed up, restored, deleted …, one after the other; each lasts
until its background work is over and its space is free. A third process reads from another server, which has nothing
else to do: what the same calls take at the same time on the same machine, whoever else uses it.
"""

from __future__ import annotations

import http.client
import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import workload
from bench.kept import kept
from bench.options import Options
from bench.report import Section, Table
from bench.sections import alone
from bench.servers import HEADERS, Server, penstock, running
from bench.workload import Json

ROOT = Path(__file__).parent.parent
LARGE = workload.TABLE
SMALL = "small"
SMALL_ITEMS = 1_000
ROWS = 25
PADDING = 16
INDEX = "by-name"
CHANGED_ITEMS = 1_000
GET, PUT = "GetItem", "PutItem"
IDLE = "idle server"
NOTHING = "nothing else"
LOCKED = "another process holds the write lock"
_POLL_SECONDS = 0.1
_PAUSE_SECONDS = 1.0  # before each operation: what the last one kept waiting has been answered
_LONGEST_SECONDS = 900.0
_GARBAGE = "SELECT count(*) FROM sqlite_master WHERE name GLOB 'garbage_*'"


@dataclass(frozen=True)
class Plan:
    items: int
    idle_seconds: float
    lock_seconds: float
    gets_a_second: float
    puts_a_second: float


PLANS = {
    "full": Plan(1_000_000, idle_seconds=10, lock_seconds=5, gets_a_second=250, puts_a_second=50),
    "quick": Plan(100_000, idle_seconds=2, lock_seconds=2, gets_a_second=250, puts_a_second=50),
}

Samples = list[tuple[float, float]]
"""When each call was due, and how many milliseconds later it was answered."""


@dataclass(frozen=True)
class Window:
    """One operation: from its call until nothing of it is left to do."""

    name: str
    began: float
    answered: float
    ended: float


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    with (
        kept(options, f"stalls-{plan.items}", lambda path: make(path, plan.items)) as path,
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
    ):
        shutil.copy(path, Path(folder) / path.name)
        with (
            running(penstock(), Path(folder)) as server,
            running(penstock(), Path(folder) / IDLE) as idle,
            clients(server, idle, plan) as stop,
        ):
            try:
                windows = list(_Operations(server, Path(folder) / path.name, plan).each())
            except OSError as error:
                log = (Path(folder) / "server.log").read_text()
                raise RuntimeError(f"the server ended ({server.process.poll()}): {log[-2000:]}") from error
            samples = stop()
    return _section(plan, windows, samples)


def make(path: Path, items: int) -> None:
    """Both tables; the large one's index is made at the end, which is faster."""
    import penstock

    with penstock.connect(str(path)) as database:
        workload.create_table(database.execute)
        workload.load_fast(database, items, ROWS, padding=PADDING)
        make_small(database.execute)
        database.execute("UpdateTable", {"TableName": LARGE, **_index_created()})
        _until(lambda: _is_active(database.execute, LARGE))


def make_small(execute: workload.Execute) -> None:
    """The table that the clients read and write."""
    workload.create_table(execute, SMALL)
    for number in range(SMALL_ITEMS):
        execute("PutItem", _request(PUT, number))


def _index_created() -> Json:
    keys = [{"AttributeName": "name", "KeyType": "HASH"}, {"AttributeName": "pk", "KeyType": "RANGE"}]
    index = {"IndexName": INDEX, "KeySchema": keys, "Projection": {"ProjectionType": "KEYS_ONLY"}}
    name = {"AttributeName": "name", "AttributeType": "S"}
    definitions = [*workload.CREATE_TABLE["AttributeDefinitions"], name]
    return {"AttributeDefinitions": definitions, "GlobalSecondaryIndexUpdates": [{"Create": index}]}


def _is_active(execute: workload.Execute, table: str) -> bool:
    described = execute("DescribeTable", {"TableName": table})["Table"]
    indexes = described.get("GlobalSecondaryIndexes", [])
    states = [described["TableStatus"], *(index["IndexStatus"] for index in indexes)]
    return all(state == "ACTIVE" for state in states)


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LONGEST_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not done after {_LONGEST_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)


# ── what is done to the large table ──────────────────────────────────────────────────────────────


class _Operations:
    def __init__(self, server: Server, path: Path, plan: Plan) -> None:
        self._execute = server.execute
        self._path = path
        self._plan = plan
        self._backup = ""

    def each(self) -> Iterator[Window]:
        self._execute(
            "UpdateContinuousBackups",
            {"TableName": LARGE, "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}},
        )
        self._change_items()
        yield self._window(NOTHING, lambda: time.sleep(self._plan.idle_seconds), lambda: True)
        yield self._window("CreateBackup", self._back_up, self._is_backed_up)
        yield self._window("RestoreTableFromBackup", self._restore, lambda: _is_active(self._execute, "restored"))
        yield self._window("RestoreTableToPointInTime", self._recover, lambda: _is_active(self._execute, "recovered"))
        yield self._window("DeleteTable", lambda: self._delete("restored"), self._is_clean)
        yield self._window("DeleteBackup", self._delete_backup, self._is_clean)
        yield self._window("UpdateTable that deletes an index", self._delete_index, self._is_clean)
        yield self._window("DeleteTable with recovery on", lambda: self._delete(LARGE), self._is_clean)
        yield self._window(LOCKED, self._lock, lambda: True)

    def _window(self, name: str, begin: Callable[[], object], is_over: Callable[[], bool]) -> Window:
        time.sleep(_PAUSE_SECONDS)
        began = time.monotonic()
        begin()
        answered = time.monotonic()
        _until(is_over)
        return Window(name, began, answered, time.monotonic())

    def _change_items(self) -> None:
        """So that the recovery has something to undo."""
        for number in range(CHANGED_ITEMS):
            item = workload.item(number % (self._plan.items // ROWS), 0, padding=PADDING + 1)
            self._execute("PutItem", {"TableName": LARGE, "Item": item})

    def _back_up(self) -> None:
        answer = self._execute("CreateBackup", {"TableName": LARGE, "BackupName": "monday"})
        self._backup = answer["BackupDetails"]["BackupArn"]

    def _is_backed_up(self) -> bool:
        answer = self._execute("DescribeBackup", {"BackupArn": self._backup})["BackupDescription"]
        is_there: bool = answer["BackupDetails"]["BackupStatus"] == "AVAILABLE"
        return is_there

    def _restore(self) -> None:
        self._execute("RestoreTableFromBackup", {"TargetTableName": "restored", "BackupArn": self._backup})

    def _recover(self) -> None:
        request = {"SourceTableName": LARGE, "TargetTableName": "recovered", "UseLatestRestorableTime": True}
        self._execute("RestoreTableToPointInTime", request)

    def _delete(self, table: str) -> None:
        self._execute("DeleteTable", {"TableName": table})

    def _delete_backup(self) -> None:
        self._execute("DeleteBackup", {"BackupArn": self._backup})

    def _delete_index(self) -> None:
        delete = {"GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": INDEX}}]}
        self._execute("UpdateTable", {"TableName": "recovered", **delete})

    def _is_clean(self) -> bool:
        """Whether no rows of what was deleted are left in the file."""
        with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)) as db:
            left: int = db.execute(_GARBAGE).fetchone()[0]
        return not left

    def _lock(self) -> None:
        words = [sys.executable, "-m", "bench.stalls", "--lock", str(self._path), str(self._plan.lock_seconds)]
        subprocess.run(words, cwd=ROOT, check=True, timeout=_LONGEST_SECONDS)


def lock(path: str, seconds: float) -> None:
    """What another process may do: it begins to write, and takes its time."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as db:
        db.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)
        db.execute("ROLLBACK")


# ── the clients of the small table ───────────────────────────────────────────────────────────────


@contextmanager
def clients(server: Server, idle: Server, plan: Plan) -> Iterator[Callable[[], dict[str, Samples]]]:
    """Those that measure; what is given ends them, and has their samples."""
    make_small(idle.execute)
    started = {
        GET: start_client(GET, server, plan.gets_a_second),
        PUT: start_client(PUT, server, plan.puts_a_second),
        IDLE: start_client(GET, idle, plan.gets_a_second),
    }

    def stop() -> dict[str, Samples]:
        return {name: json.loads(process.communicate("stop\n")[0]) for name, process in started.items()}

    try:
        yield stop
    finally:
        for process in started.values():
            process.kill()
            process.wait()


def start_client(operation: str, server: Server, rate: float) -> subprocess.Popen[str]:
    """One of the small table's clients, in a process of its own; it ends with a line that it is sent."""
    words = [sys.executable, "-m", "bench.stalls", "--client", operation, str(server.port), str(rate)]
    return subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def client(operation: str, port: int, rate: float) -> None:
    """Calls at the rate until a line is read; then prints when each was due and how long after that it was answered."""
    import threading

    ended: list[float] = []
    threading.Thread(target=lambda: (sys.stdin.readline(), ended.append(time.monotonic())), daemon=True).start()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {**HEADERS, "X-Amz-Target": f"DynamoDB_20120810.{operation}"}
    samples: Samples = []
    due, number = time.monotonic(), 0
    while not ended or due < ended[0]:  # what was kept waiting at the end is counted too
        due += 1 / rate
        number += 1
        time.sleep(max(0.0, due - time.monotonic()))
        connection.request("POST", "/", json.dumps(_request(operation, number)), headers)
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise SystemExit(f"{operation}: {response.status} {body[:300]!r}")
        samples.append((due, (time.monotonic() - due) * 1e3))
    sys.stdout.write(json.dumps(samples))


def _request(operation: str, number: int) -> Json:
    key = {"pk": {"S": f"p{number % SMALL_ITEMS}"}, "sk": {"S": "s"}}
    if operation == GET:
        return {"TableName": SMALL, "Key": key}
    return {"TableName": SMALL, "Item": {**key, "n": {"N": str(number)}}}


# ── what is told of it ───────────────────────────────────────────────────────────────────────────


def _section(plan: Plan, windows: list[Window], samples: dict[str, Samples]) -> Section:
    columns = ["while this runs", "answered after", "over after"]
    columns += [f"{name} {what}" for name in (GET, f"{IDLE}:", PUT) for what in ("p50", "p99", "longest")]
    table = Table(f"Milliseconds of calls on another table; {plan.items:,} items, one global index", columns)
    section = Section("stalls", "Long operations beside other tables", [table])
    for window in windows:
        cells = [f"{window.answered - window.began:.2f} s", f"{window.ended - window.began:.1f} s"]
        for operation in (GET, IDLE, PUT):
            told = _percentiles(samples[operation], window)
            section.figures |= {f"{operation}/{window.name}/{name}": value for name, value in told.items()}
            cells += [f"{value:.1f}" for value in told.values()]
        section.figures[f"seconds/{window.name}"] = window.ended - window.began
        table.rows.append([window.name, *cells])
    section.notes = [
        f"{plan.gets_a_second:.0f} GetItem and {plan.puts_a_second:.0f} PutItem a second, each from a process of its "
        "own; a call's time counts from when it was due. An operation is over when its background work is. “idle "
        "server” is the same GetItem, at the same time, of a server that has nothing else to do.",
        f"The last row: another process holds SQLite's write lock for {plan.lock_seconds:.0f} s, so that every "
        "PutItem waits for it, and no GetItem should.",
    ]
    return section


def _percentiles(samples: Samples, window: Window) -> dict[str, float]:
    """Of the calls that were due in the window."""
    times = sorted(taken for due, taken in samples if window.began <= due < window.ended)
    if not times:
        raise RuntimeError(f"no call was due during {window.name}")
    last = len(times) - 1
    return {"p50": times[last // 2], "p99": times[round(last * 0.99)], "longest": times[-1]}


def main() -> None:
    """One of the other processes: `--client OPERATION PORT RATE` or `--lock FILE SECONDS`."""
    role, first, second, *rest = sys.argv[1:]
    if role == "--client":
        client(first, int(second), float(rest[0]))
    else:
        lock(first, float(second))


if __name__ == "__main__":
    main() if {"--client", "--lock"} & set(sys.argv) else alone("stalls")
