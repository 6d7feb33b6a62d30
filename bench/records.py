"""Records processed in parallel: `python -m bench records` and `python -m bench memory`.

What each part does stands in record_parts.py; each runs in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.options import Options
from bench.report import Section, Table, count, megabytes, times
from bench.sections import alone

ROOT = Path(__file__).parent.parent
LIMIT_SECONDS = 1800


@dataclass(frozen=True)
class Plan:
    records: int


@dataclass(frozen=True)
class MemoryPlan:
    small: int
    large: int


PLANS = {"full": Plan(10_000), "quick": Plan(400)}
MEMORY_PLANS = {"full": MemoryPlan(10_000, 1_000_000), "quick": MemoryPlan(300, 1_000)}


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    section = Section("records", "Records")
    for measure in (_efficiency, _overhead, _chunks, _processes):
        section.tables.append(measure(plan.records, section))
    section.notes = [
        f"{plan.records:,} records (a quarter of them in chunks, and where the function computes), 8 threads, on the "
        "embedded engine, on a file. Figures by the clock need two free cores.",
        "CPU is user and system time of the process, of a function that does nothing where overhead is meant.",
        "Every record was run once: a second run of one would have ended this with an error.",
    ]
    return section


def run_memory(options: Options) -> Section:
    """The most memory that a process of records takes, with few and with many."""
    plan = options.plan(MEMORY_PLANS)
    table = Table("The highest resident memory of the process", ["records", "memory", "seconds"])
    section = Section("memory", "Memory of processing records", [table])
    for number in (plan.small, plan.large):
        (told,) = _part("memory", number)
        table.rows.append([count(told["records"]), megabytes(told["bytes"]), f"{told['seconds']:.0f}"])
        section.figures[f"bytes/{number}"] = told["bytes"]
    section.notes.append("One record in ten fails: what a run keeps of failures counts too.")
    return section


def _part(name: str, records: int) -> list[dict[str, Any]]:
    words = [sys.executable, "-m", "bench.record_parts", name, str(records)]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=LIMIT_SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words[1:])} ended with {done.returncode}; what it said stands above")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _efficiency(records: int, section: Section) -> Table:
    table = Table("A function that sleeps 5 ms", ["", "part of the ideal", "threads that only sleep", "µs of CPU"])
    for told in _part("efficiency", records):
        shown = [f"{told['part']:.1%}", f"{told['bare']:.1%}", f"{told['cpu'] * 1e6:.0f}"]
        table.rows.append([told["how"], *shown])
        section.figures |= {f"efficiency/{told['how']}": told["part"], "efficiency/bare": told["bare"]}
    return table


def _overhead(records: int, section: Section) -> Table:
    columns = ["", "threads", "µs of CPU a record", "a plain UpdateItem", "ratio"]
    table = Table("Leasing, marking and metrics", columns)
    for told in _part("overhead", records):
        cpu, plain = told["cpu"] * 1e6, told["plain"] * 1e6
        table.rows.append([told["how"], str(told["workers"]), f"{cpu:.0f}", f"{plain:.0f}", times(cpu / plain)])
        section.figures[f"overhead/{told['how']}/{told['workers']}"] = cpu
    return table


def _chunks(records: int, section: Section) -> Table:
    (told,) = _part("chunks", records)
    table = Table("Function times drawn from an exponential distribution", ["", "seconds", ""])
    table.rows.append(["chunks that wait for their slowest", f"{told['chunks']:.2f}", times(1.0)])
    table.rows.append(["the pool", f"{told['pool']:.2f}", f"{told['chunks'] / told['pool']:.2f} × as fast"])
    section.figures |= {"seconds/chunks": told["chunks"], "seconds/pool": told["pool"]}
    return table


def _processes(records: int, section: Section) -> Table:
    columns = ["processes", "the function", "records a second", "µs of CPU a record", "claims in vain"]
    table = Table("Several processes on one table", columns)
    for told in _part("processes", records):
        name = f"{told['work']}/{told['processes']}"
        shown = [count(told["rate"]), f"{told['cpu'] * 1e6:.0f}", count(told["vain"])]
        table.rows.append([str(told["processes"]), told["work"], *shown])
        section.figures[f"rate/{name}"] = told["rate"]
    return table


if __name__ == "__main__":
    alone("records")
