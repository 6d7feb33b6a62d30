"""What growth costs: `python -m bench growth`.

The same calls on a small and on a large file, in turn; the memory of a server with a large file; the time from exec
to the first answer.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import workload
from bench.report import Section, Table, count, times
from bench.servers import Server, Subject, find_peers, penstock, running
from bench.throughput import SCRIPTS
from bench.workload import Execute, Json

Measured = dict[tuple[str, str], list[tuple[float, float]]]

ROWS = 25
SCANNED_PAGES = 200
WIDE_BYTES = 8000
"""Data of the items that fill the file up: few enough to write in a minute, many enough to be a real tree."""


@dataclass(frozen=True)
class Plan:
    small: int
    large: int
    file_bytes: int
    rounds: int
    calls: int
    starts: int


def run(plan: Plan, given_peers: list[str], command: str) -> Section:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        root = Path(directory)
        tables = [_size_table(plan, root)]
        large = root / "large" / "penstock.db"
        _fill(large, plan)
        tables.append(_memory_table(large))
        tables.append(_start_table(plan, large, root, given_peers))
    return Section("Growth", command, tables)


def _size_table(plan: Plan, root: Path) -> Table:
    import penstock

    sizes = {"small": plan.small, "large": plan.large}
    databases = {}
    for name, items in sizes.items():
        (root / name).mkdir()
        databases[name] = penstock.connect(str(root / name / "penstock.db"))
        workload.load(databases[name].execute, workload.partitions(items // ROWS, ROWS))
    measured = _in_turn(plan, {name: database.execute for name, database in databases.items()}, sizes)
    for database in databases.values():
        database.close()
    return _compared(plan, measured)


def _compared(plan: Plan, measured: Measured) -> Table:
    title = "Microseconds a call in process, on a file: wall (CPU)"
    table = Table(title, ["", f"{plan.small:,} items", f"{plan.large:,} items", "ratio of wall", "ratio of CPU"])
    for operation in ("GetItem", "PutItem", "Query of 25"):
        walls, cpus = zip(*(_medians(measured[operation, name]) for name in ("small", "large")), strict=True)
        cells = [f"{wall:.1f} ({cpu:.1f})" for wall, cpu in zip(walls, cpus, strict=True)]
        table.rows.append([operation, *cells, times(walls[1] / walls[0]), times(cpus[1] / cpus[0])])
    return table


def _medians(samples: list[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(wall for wall, _ in samples), statistics.median(cpu for _, cpu in samples)


def _in_turn(plan: Plan, databases: dict[str, Execute], sizes: dict[str, int]) -> Measured:
    measured: Measured = {}
    chooser = random.Random(11)
    for _ in range(plan.rounds):
        for name, execute in databases.items():
            for operation, call in _calls(execute, sizes[name] // ROWS, chooser):
                measured.setdefault((operation, name), []).append(_microseconds(call, plan.calls))
    return measured


def _calls(execute: Execute, partitions: int, chooser: random.Random) -> Iterator[tuple[str, Callable[[], Json]]]:
    """The three calls, each on a random place of the whole key space."""

    def place() -> tuple[int, int]:
        return chooser.randrange(partitions), chooser.randrange(ROWS)

    yield "GetItem", lambda: execute("GetItem", workload.get_item(*place()))
    yield "PutItem", lambda: execute("PutItem", workload.put_item(*place()))
    yield "Query of 25", lambda: execute("Query", workload.query(place()[0]))


def _microseconds(call: Callable[[], object], calls: int) -> tuple[float, float]:
    """Wall and CPU time of one call."""
    began, began_cpu = time.perf_counter(), time.process_time()
    for _ in range(calls):
        call()
    cpu, wall = time.process_time() - began_cpu, time.perf_counter() - began
    return wall / calls * 1e6, cpu / calls * 1e6


def _fill(path: Path, plan: Plan) -> None:
    """Write wide items until the file has its size."""
    import penstock

    database = penstock.connect(str(path))
    wanted = max(0, plan.file_bytes - path.stat().st_size) // WIDE_BYTES
    start = plan.large // ROWS
    items = (workload.item(start + number // 100, number % 100, padding=WIDE_BYTES) for number in range(wanted))
    for request in workload.batches(items):
        database.execute("BatchWriteItem", request)
    database.close()


def _memory_table(path: Path) -> Table:
    size = sum(one.stat().st_size for one in path.parent.glob("penstock.db*"))
    table = Table(f"Memory of the server, file of {size / 1e9:.2f} GB", ["", "resident", "highest"])
    with running(penstock(), path.parent) as server:
        table.rows.append(["ready", *_megabytes(server)])
        _visit(server)
        table.rows.append(
            [f"after 9 s of gets, puts and queries and a scan of {SCANNED_PAGES} pages", *_megabytes(server)]
        )
    return table


def _megabytes(server: Server) -> list[str]:
    memory = server.memory()
    return [f"{memory['VmRSS'] / 1e6:.0f} MB", f"{memory['VmHWM'] / 1e6:.0f} MB"]


def _visit(server: Server) -> None:
    for script in ("get.lua", "put.lua", "query.lua"):
        words = ["wrk", "-t1", "-c16", "-d3s", "-s", str(SCRIPTS / script), server.url, "--", workload.TABLE, "1000"]
        subprocess.run(words, capture_output=True, check=True, timeout=60)
    page: Json = {}
    for _ in range(SCANNED_PAGES):
        page = server.execute("Scan", {"TableName": workload.TABLE, **page})
        if "LastEvaluatedKey" not in page:
            return
        page = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def _start_table(plan: Plan, large: Path, root: Path, given_peers: list[str]) -> Table:
    title = f"Milliseconds from exec to the first answer, median of {plan.starts}"
    table = Table(title, ["", "milliseconds", "of CPU"])
    table.rows.append(["penstock, new file", *_starts(plan, lambda n: root / f"new-{n}")])
    table.rows.append([f"penstock, {large.stat().st_size / 1e9:.1f} GB file", *_starts(plan, lambda _: large.parent)])
    peers, _ = find_peers(given_peers)
    for peer in peers:
        starts = [_ready(peer, root / f"{peer.name}-{number}") for number in range(min(3, plan.starts))]
        table.rows.append([f"{peer.name}, new file (median of {len(starts)})", *_milliseconds(starts)])
    return table


def _starts(plan: Plan, place: Callable[[int], Path]) -> list[str]:
    return _milliseconds([_ready(penstock(), place(number)) for number in range(plan.starts)])


def _ready(subject: Subject, directory: Path) -> tuple[float, float]:
    """Seconds until the server answered, and those that it and its children computed."""
    with running(subject, directory) as server:
        return server.ready_seconds, server.cpu_seconds()


def _milliseconds(starts: list[tuple[float, float]]) -> list[str]:
    return [count(statistics.median(column) * 1000) for column in zip(*starts, strict=True)]
