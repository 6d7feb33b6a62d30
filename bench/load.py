"""Many items of 1 KB into an empty table, items a second: `python -m bench load`."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.loads import TABLE, definition
from bench.options import Options
from bench.report import Section, Table, count, times
from bench.sections import alone
from bench.servers import penstock, running

ROOT = Path(__file__).parent.parent
MEMORY_FILES = Path("/dev/shm")
TITLES = {
    "boto3": "boto3 `batch_writer`, over HTTP",
    "http": "penstock `table.batch()`, over HTTP",
    "process": "penstock `table.batch()`, in process",
    "sqlite": "SQLite alone: rows ready-made and sorted, one transaction",
    "values": "Python's values to JSON alone",
}
Taken = dict[str, list[dict[str, float]]]


@dataclass(frozen=True)
class Plan:
    items: int
    rounds: int


PLANS = {"full": Plan(items=100_000, rounds=2), "quick": Plan(items=2_000, rounds=1)}


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    section = Section("load", "Load")
    places = {"disk": Path(tempfile.gettempdir())}
    if MEMORY_FILES.is_dir() and os.access(MEMORY_FILES, os.W_OK):
        places["files in memory"] = MEMORY_FILES
    for name, place in places.items():
        taken = _measured(plan, place)
        section.tables.append(_table(plan, name, taken))
        section.figures |= {f"{name}/{subject}": plan.items / _median(taken[subject], "wall") for subject in taken}
    section.notes = [
        f"Medians of {plan.rounds} rounds; in each, the subjects run in turn, each in a process of its own.",
        "boto3 and ours load the same server, started anew for each; in process there is no server.",
        "CPU: of the process that loads, and of the server. boto3 sends and waits in turn, so it takes their sum at "
        "least; ours takes at least the larger one, and in process the larger of two threads, given two cores.",
    ]
    return section


def _measured(plan: Plan, place: Path) -> Taken:
    taken: Taken = {subject: [] for subject in TITLES}
    for number in range(plan.rounds):
        with tempfile.TemporaryDirectory(prefix="bench-", dir=place) as directory:
            _round(plan, Path(directory), taken, backwards=bool(number % 2))
    return taken


def _round(plan: Plan, directory: Path, figures: Taken, *, backwards: bool) -> None:
    """Every subject once; every other round in the opposite order."""
    for subject in reversed(TITLES) if backwards else TITLES:
        if subject in ("boto3", "http"):
            with running(penstock(), directory / subject) as server:
                server.execute("CreateTable", definition())
                client = "boto3" if subject == "boto3" else "penstock"
                before = server.cpu_seconds()
                told = _load(plan, client, server.url)
                figures[subject].append({**told, "server": server.cpu_seconds() - before})
                _check(plan, int(server.execute("Scan", {"TableName": TABLE, "Select": "COUNT"})["Count"]))
        else:
            client = "penstock" if subject == "process" else subject
            figures[subject].append(_load(plan, client, str(directory / f"{subject}.db")))


def _check(plan: Plan, found: int) -> None:
    """A page's worth at least has come: a load that wrote nothing is fast."""
    if found < min(plan.items, 900):
        raise RuntimeError(f"the table has {found} items in its first page")


def _load(plan: Plan, subject: str, where: str) -> dict[str, float]:
    words = [sys.executable, "-m", "bench.loads", subject, where, "--items", str(plan.items)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=900, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def _table(plan: Plan, name: str, figures: Taken) -> Table:
    columns = ["", "items a second", "µs an item", "µs of CPU", "µs of the server's", "memory grew by", "against boto3"]
    table = Table(f"{plan.items:,} items of 1 KB, {name}", columns)
    wall = {subject: _median(told, "wall") for subject, told in figures.items()}
    for subject, title in TITLES.items():
        told = figures[subject]
        each = [_median(told, what) / plan.items * 1e6 for what in ("wall", "cpu", "server")]
        grown = f"{_median(told, 'grown') / 1e6:.0f} MB"
        against = times(wall["boto3"] / wall[subject])
        table.rows.append([title, count(plan.items / wall[subject]), *map("{:.1f}".format, each), grown, against])
    return table


def _median(told: list[dict[str, float]], what: str) -> float:
    return statistics.median(one.get(what, 0.0) for one in told)


if __name__ == "__main__":
    alone("load")
