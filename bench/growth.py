"""What growth costs: `python -m bench growth`, 10³ to 10⁶ items; to 10⁷ with --large.

The same calls, each on a random place of the whole key space, on one file a size, in turn. Items are small (some 70
bytes), so that ten million of them are a file that can be had in minutes; --keep DIR keeps it.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import workload
from bench.kept import grown, kept
from bench.options import Options
from bench.report import Section, Table, times
from bench.sections import alone
from bench.workload import Execute, Json

ROWS = 25
PADDING = 16
PAGE = 100
SMALLEST = 1_000
OPERATIONS = ("GetItem", "PutItem", "Query of 25", f"Scan page of {PAGE}")
Taken = dict[tuple[str, int], list[tuple[float, float]]]


@dataclass(frozen=True)
class Plan:
    largest: int
    rounds: int
    calls: int


PLANS = {
    "full": Plan(largest=1_000_000, rounds=7, calls=1500),
    "large": Plan(largest=10_000_000, rounds=7, calls=1500),
    "quick": Plan(largest=10_000, rounds=3, calls=100),
}


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    sizes = grown(options, SMALLEST, plan.largest, "growth")
    with ExitStack() as stack:
        databases = {size: _opened(options, size, stack) for size in sizes}
        taken = _in_turn(plan, databases)
    section = Section("growth", "Growth")
    for operation in OPERATIONS:
        for size in sizes:
            wall, cpu = _medians(taken[operation, size])
            section.figures |= {f"{operation}/{size}/wall": wall, f"{operation}/{size}/cpu": cpu}
    section.tables = [_table(section, sizes)]
    section.notes = [
        f"Medians of {plan.rounds} rounds of {plan.calls:,} calls, in which the sizes take turns; items of some 70 "
        f"bytes, {ROWS} in a partition. The files fit into the machine's memory, the larger ones not "
        "into SQLite's own cache: their pages are read from the system's.",
    ]
    return section


def _opened(options: Options, size: int, stack: ExitStack) -> Execute:
    import penstock

    path = stack.enter_context(kept(options, f"growth-{size}", lambda path: _make(path, size)))
    execute: Execute = stack.enter_context(penstock.connect(str(path))).execute
    return execute


def _make(path: Path, size: int) -> None:
    import penstock

    with penstock.connect(str(path)) as database:
        workload.create_table(database.execute)
        workload.load_fast(database, size, ROWS, padding=PADDING)


def _in_turn(plan: Plan, databases: dict[int, Execute]) -> Taken:
    taken: Taken = {}
    chooser = random.Random(11)
    for size, execute in databases.items():  # once uncounted: pages are read, plans are made
        for _, call in _calls(execute, size // ROWS, chooser):
            _microseconds(call, plan.calls)
    for _ in range(plan.rounds):
        for size, execute in databases.items():
            for operation, call in _calls(execute, size // ROWS, chooser):
                taken.setdefault((operation, size), []).append(_microseconds(call, plan.calls))
    return taken


def _calls(execute: Execute, partitions: int, chooser: random.Random) -> Iterator[tuple[str, Callable[[], Json]]]:
    """The calls, each on a random place of the whole key space. What is put is what was there."""

    def place() -> tuple[int, int]:
        return chooser.randrange(partitions), chooser.randrange(ROWS)

    def put() -> Json:
        return execute("PutItem", {"TableName": workload.TABLE, "Item": workload.item(*place(), padding=PADDING)})

    def page() -> Json:
        start = workload.key(*place())
        return execute("Scan", {"TableName": workload.TABLE, "Limit": PAGE, "ExclusiveStartKey": start})

    yield "GetItem", lambda: execute("GetItem", workload.get_item(*place()))
    yield "PutItem", put
    yield "Query of 25", lambda: execute("Query", workload.query(place()[0]))
    yield f"Scan page of {PAGE}", page


def _microseconds(call: Callable[[], object], calls: int) -> tuple[float, float]:
    """Wall and CPU time of one call."""
    began, began_cpu = time.perf_counter(), time.process_time()
    for _ in range(calls):
        call()
    cpu, wall = time.process_time() - began_cpu, time.perf_counter() - began
    return wall / calls * 1e6, cpu / calls * 1e6


def _medians(samples: list[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(wall for wall, _ in samples), statistics.median(cpu for _, cpu in samples)


def _table(section: Section, sizes: list[int]) -> Table:
    title = "Microseconds a call in process, on a file: wall (CPU)"
    columns = ["", *(f"{size:,} items" for size in sizes), "largest / smallest, wall", "CPU"]
    table = Table(title, columns)
    for operation in OPERATIONS:
        walls, cpus = ([section.figures[f"{operation}/{size}/{kind}"] for size in sizes] for kind in ("wall", "cpu"))
        cells = [f"{wall:.1f} ({cpu:.1f})" for wall, cpu in zip(walls, cpus, strict=True)]
        table.rows.append([operation, *cells, times(walls[-1] / walls[0]), times(cpus[-1] / cpus[0])])
    return table


if __name__ == "__main__":
    alone("growth")
