"""Microseconds of client CPU a call, against our server in another process: `python -m bench clients`.

`python -m bench typed` measures those alone that give typed items, beside our Table.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import workload
from bench.client_calls import CLIENTS, OPERATIONS, PARTITION, ROWS
from bench.options import Options
from bench.report import Section, Table, times
from bench.sections import alone
from bench.servers import penstock, running

ROOT = Path(__file__).parent.parent
OURS = ("penstock", "penstock-async", "penstock-table", "penstock-typed")
TITLES = {
    "penstock": "penstock, transport",
    "penstock-async": "penstock, asyncio transport",
    "penstock-table": "penstock, Table",
    "penstock-typed": "penstock, typed items",
    "boto3": "boto3",
    "aiobotocore": "aiobotocore",
    "pydynox": "pydynox",
    "aiodynamo": "aiodynamo (aiohttp)",
    "pynamodb": "PynamoDB",
}
HEADINGS = {"GetItem": "GetItem", "PutItem": "PutItem", "BatchWriteItem": "25-item batch", "Query": "250-item Query"}
TYPED = ("penstock-table", "penstock-typed", "pydynox", "pynamodb")
COSTLY = ("BatchWriteItem", "Query")
Figures = dict[str, dict[str, list[dict[str, float]]]]


@dataclass(frozen=True)
class Plan:
    rounds: int
    calls: int  # of GetItem and PutItem in a round; a fifth of them of the costly ones


PLANS = {"full": Plan(rounds=20, calls=100), "quick": Plan(rounds=1, calls=40)}


class Worker:
    """A client in a process of its own that makes calls when told to."""

    def __init__(self, name: str, interpreter: str, url: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [interpreter, "-m", "bench.client_calls", name, url],
            cwd=ROOT,
            env={**os.environ, "AWS_EC2_METADATA_DISABLED": "true"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ready(self) -> str | None:
        """None, or why it cannot be measured."""
        assert self._process.stdout
        assert self._process.stderr
        if self._process.stdout.readline():
            return None
        lines = self._process.stderr.read().strip().splitlines() or ["no message"]
        return lines[-1][:200]

    def measure(self, operation: str, calls: int) -> dict[str, float]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{operation} {calls}\n")
        self._process.stdin.flush()
        figures: dict[str, float] = json.loads(self._process.stdout.readline())
        return figures

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


def run(options: Options) -> Section:
    """Every client that can be found."""
    return _measured(Section("clients", "Clients"), options, tuple(CLIENTS))


def run_typed(options: Options) -> Section:
    """Those that give typed items."""
    return _measured(Section("typed", "Typed items"), options, TYPED)


def _measured(section: Section, options: Options, clients: tuple[str, ...]) -> Section:
    plan = options.plan(PLANS)
    section.notes = [
        "CPU is the client process's own, all its threads (`process_time`); wall is what a caller waits. Calls come "
        f"one after another. {plan.rounds} rounds, in which the clients take turns. Where other work shares the "
        "machine, the least of them tells more about wall time than the median.",
        "The transports, boto3 and aiobotocore give DynamoDB's JSON; the others, and our Table, Python values.",
    ]
    taken: Figures = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as place, running(penstock(memory=True), Path(place)) as server:
        workload.load(server.execute, (workload.item(PARTITION, row) for row in range(ROWS)))
        with _workers(server.url, options, section, clients) as workers:
            for _ in range(plan.rounds):
                _round(plan, workers, taken)
    section.tables = [_table(taken, "cpu"), _table(taken, "wall"), _ratios(taken)]
    section.figures = {
        f"{operation}/{name}/{kind}": _median(taken, name, operation, kind)
        for name, operations in taken.items()
        for operation in operations
        for kind in ("cpu", "wall")
    }
    return section


@contextmanager
def _workers(url: str, options: Options, section: Section, clients: tuple[str, ...]) -> Iterator[list[Worker]]:
    """Those clients that can be measured; the others are told of."""
    peers = options.peers.for_clients() or sys.executable
    wanted = [name for name in clients if name in OURS or options.wants(name)]
    here = (*OURS, "boto3")  # which Penstock itself needs
    workers = [Worker(name, sys.executable if name in here else peers, url) for name in wanted]
    try:
        absent = {worker.name: why for worker in workers if (why := worker.ready()) is not None}
        section.notes += [f"{TITLES[name]}: not measured ({why})." for name, why in absent.items()]
        section.missing += ["clients"] if any(name not in OURS for name in absent) else []
        yield [worker for worker in workers if worker.name not in absent]
    finally:
        for worker in workers:
            worker.stop()


def _round(plan: Plan, workers: list[Worker], figures: Figures) -> None:
    for operation in OPERATIONS:
        calls = max(plan.calls // 5, 1) if operation in COSTLY else plan.calls
        for worker in workers:
            told = worker.measure(operation, calls)
            figures.setdefault(worker.name, {}).setdefault(operation, []).append(told)


def _median(figures: Figures, name: str, operation: str, kind: str) -> float:
    return statistics.median(told[kind] for told in figures[name][operation])


def _least(figures: Figures, name: str, operation: str, kind: str) -> float:
    return min(told[kind] for told in figures[name][operation])


def _table(figures: Figures, kind: str) -> Table:
    title = f"Microseconds a call, {kind if kind == 'wall' else 'client CPU'}: median (least) of the rounds"
    table = Table(title, ["", *HEADINGS.values()])
    for name in figures:
        pairs = ((_median(figures, name, one, kind), _least(figures, name, one, kind)) for one in OPERATIONS)
        table.rows.append([TITLES[name], *(f"{median:,.0f} ({least:,.0f})" for median, least in pairs)])
    return table


def _ratios(figures: Figures) -> Table:
    table = Table("Client CPU of others in terms of ours", ["", *HEADINGS.values()])
    for ours in OURS:
        for theirs in figures:
            if ours in figures and theirs not in OURS:
                ratios = (
                    _median(figures, theirs, operation, "cpu") / _median(figures, ours, operation, "cpu")
                    for operation in OPERATIONS
                )
                table.rows.append([f"{TITLES[theirs]} / {TITLES[ours]}", *map(times, ratios)])
    return table


if __name__ == "__main__":
    alone("clients")
