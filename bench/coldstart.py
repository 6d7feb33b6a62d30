"""How long a command takes to start: `python -m bench coldstart`.

Each start is a process of its own, in terms of `python3 -c pass`. The starts take turns, so that whoever else uses the
machine slows all of them, and the median counts. Where valgrind is, the instructions of the promised ones are counted
too: these are the same on a busy machine, but the kernel's are not among them.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import click

import penstock
from bench.instructions import COUNTED
from bench.options import Options
from bench.promised import COLD_STARTS
from bench.report import Section, Table, times
from bench.sections import alone
from bench.servers import penstock as penstock_server
from bench.servers import running
from penstock.cli.main import cli

JOBS = 50


@dataclass(frozen=True)
class Plan:
    rounds: int
    help_rounds: int
    pages: int  # of the help pages, so many
    starts: int  # of the server


PLANS = {
    "full": Plan(rounds=25, help_rounds=5, pages=1000, starts=15),
    "quick": Plan(rounds=3, help_rounds=1, pages=5, starts=1),
}


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        folder = Path(directory)
        starts = promised(folder)
        for words in starts.values():
            subprocess.run(words, env=environment(folder), capture_output=True, check=True)  # which writes the bytecode
        seconds = medians(starts, plan.rounds, folder)
        ready, beside = server_ready(plan.starts, folder)
        helps = {
            "penstock " + " ".join([*names, "--help"]): [*PENSTOCK, *names, "--help"]
            for names in islice(commands(), plan.pages)
        }
        pages = medians({"pass": starts["pass"], **helps}, plan.help_rounds, folder, warm=True)
        counts = (
            {name: instructions(words, folder) for name, words in starts.items()} if shutil.which("valgrind") else {}
        )
    section = Section("coldstart", "Cold start of every command")
    section.figures = {f"{name}/ratio": value / seconds["pass"] for name, value in seconds.items() if name != "pass"}
    section.figures |= {"pass/seconds": seconds["pass"], "server ready/ratio": ready / beside}
    section.figures |= {f"{name}/ratio": value / pages["pass"] for name, value in pages.items() if name != "pass"}
    section.figures |= {f"{name}/instructions": float(count) for name, count in counts.items()}
    section.tables += [promised_table(section.figures, counts), pages_table(section.figures, list(helps))]
    section.notes.append(
        f"Medians of {plan.rounds} processes each, in turns; `python3 -c pass` took {seconds['pass'] * 1e3:.1f} ms. "
        f"The file of `jobs list` has {JOBS} jobs. The server is ready with its first answer, on a new file."
    )
    return section


PENSTOCK = [sys.executable, "-m", "penstock"]


def promised(folder: Path) -> dict[str, list[str]]:
    """What the promises are about; the server is started by `server_ready`."""
    file = folder / "jobs.db"
    with penstock.connect(file) as db:
        app = penstock.App(db)

        @app.task()
        def work(number: int) -> int:
            return number

        work.enqueue_many([{"number": number} for number in range(JOBS)])
    return {
        "pass": [sys.executable, "-c", "pass"],
        "import penstock": [sys.executable, "-c", "import penstock"],
        "penstock --help": [*PENSTOCK, "--help"],
        "penstock jobs list": [*PENSTOCK, "jobs", "list", "--db", str(file)],
    }


def environment(folder: Path) -> dict[str, str]:
    """As after an installation by pip: with bytecode, also in a clone where Python may not write any."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PYTHONHASHSEED": "0"}


def medians(starts: dict[str, list[str]], rounds: int, folder: Path, *, warm: bool = False) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in starts}
    for number in range(rounds + warm):
        for name, words in starts.items():
            began = time.perf_counter()
            subprocess.run(words, env=environment(folder), stdout=subprocess.DEVNULL, check=True)
            if number >= warm:
                taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in taken.items()}


def server_ready(starts: int, folder: Path) -> tuple[float, float]:
    """Seconds from exec to the first answer, and of `python3 -c pass` in turns with it."""
    ready, beside = [], []
    before = dict(os.environ)
    os.environ.update(environment(folder))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        for number in range(starts + 1):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", "pass"], check=True)
            beside.append(time.perf_counter() - began)
            with running(penstock_server(), folder / f"server-{number}") as server:
                ready.append(server.ready_seconds)
    finally:
        os.environ.clear()
        os.environ.update(before)
    return statistics.median(ready[1:]), statistics.median(beside[1:])


def commands(group: click.Group = cli, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every group and command, by its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if found is None or found.hidden:
            continue
        yield (*names, name)
        if isinstance(found, click.Group):
            yield from commands(found, (*names, name))


def instructions(words: list[str], folder: Path) -> int:
    """Of the second run: in the first, slow as it is under valgrind, an open database's thread imports what has no
    bytecode yet, since a usual start is over before that thread begins."""
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    for _ in range(2):
        done = subprocess.run([*tool, *words], env=environment(folder), capture_output=True, text=True, check=True)
    counted = COUNTED.findall(done.stderr)
    return int(counted[-1].replace(",", "")) if counted else 0


def promised_table(figures: dict[str, float], counts: dict[str, int]) -> Table:
    table = Table("In terms of `python3 -c pass`", ["start", "asked at most", "time", "instructions"])
    for name, asked in COLD_STARTS.items():
        count = f"{times(counts[name] / counts['pass'])}, {counts[name] / 1e6:,.0f} M" if counts.get(name) else "–"
        table.rows.append([f"`{name}`", times(asked), times(figures[f"{name}/ratio"]), count])
    return table


def pages_table(figures: dict[str, float], pages: list[str]) -> Table:
    table = Table("Help pages, the slowest first", ["command", "time"])
    for name in sorted(pages, key=lambda one: -figures[f"{one}/ratio"]):
        table.rows.append([f"`{name}`", times(figures[f"{name}/ratio"])])
    return table


if __name__ == "__main__":
    alone("coldstart")
