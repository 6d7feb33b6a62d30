"""Jobs a second with one, two and four worker processes on one file: `python -m bench processes`.

Jobs are enqueued first; then `penstock worker --processes N --burst` runs them all. The time is from the start of the
first job to the end of the last, as the jobs themselves say; the CPU is that of the workers, less what as many workers
take for one job. The numbers of processes are measured in turn, several times, and the medians are told: what else the
machine does falls on all of them alike.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import penstock
from bench.options import Options
from bench.report import Section, Table
from bench.sections import alone
from bench.servers import penstock as penstock_server
from bench.servers import running

KINDS = (("file", "nothing", (1, 2, 4)), ("file", "compute", (1, 2)), ("server", "nothing", (1,)))
"""Where, which task, and the numbers of processes."""
COMPUTED = 40_000
MODULE = f"""
import os
import penstock

app = penstock.App(os.environ["PROCESSES_DB"], files=os.environ["PROCESSES_FILES"])

@app.task()
def nothing() -> None:
    pass

@app.task()
def compute() -> int:
    return sum(number * number for number in range({COMPUTED}))
"""


@dataclass(frozen=True)
class Plan:
    jobs: int
    computing: int
    runs: int


PLANS = {"full": Plan(jobs=6_000, computing=800, runs=5), "quick": Plan(jobs=200, computing=20, runs=1)}


@dataclass(frozen=True)
class Measured:
    """Jobs a second, and milliseconds of the workers' CPU a job."""

    rate: float
    cpu: float


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    table = Table(
        "Jobs executed by several processes, 8 at a time each",
        ["where", "jobs", "processes", "jobs a second", "CPU a job, ms"],
    )
    section = Section("processes", "Jobs: several worker processes", [table])
    for place, task, numbers in KINDS:
        jobs = plan.computing if task == "compute" else plan.jobs
        runs = [{number: _measure(place, task, jobs, number) for number in numbers} for _ in range(plan.runs)]
        for number in numbers:
            rate = statistics.median(one[number].rate for one in runs)
            cpu = statistics.median(one[number].cpu for one in runs)
            table.rows.append([place, task, str(number), f"{rate:,.0f}", f"{cpu:.2f}"])
            section.figures |= {f"{place}/{task}/{number}/rate": rate, f"{place}/{task}/{number}/cpu": cpu}
    section.notes = [f"The medians of {plan.runs} runs, the numbers of processes in turn."]
    return section


def _measure(place: str, task: str, jobs: int, processes: int) -> Measured:
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        (folder / "processes_app.py").write_text(MODULE)
        with _database(place, folder) as url:
            started = _cpu_seconds()
            _work(folder, url, task, 1, processes)
            between = _cpu_seconds()
            seconds = _work(folder, url, task, jobs, processes)
            cpu = (_cpu_seconds() - between) - (between - started)
        return Measured(jobs / seconds, cpu / jobs * 1e3)


@contextmanager
def _database(place: str, folder: Path) -> Iterator[str]:
    if place == "file":
        yield str(folder / "jobs.db")
        return
    with running(penstock_server(), folder) as server:
        yield f"http://127.0.0.1:{server.port}"


def _work(folder: Path, url: str, task: str, jobs: int, processes: int) -> float:
    """Enqueues the jobs and runs them; the seconds from the first one's start to the last one's end."""
    with penstock.App(url, files=folder / "files") as app:
        ids = [job.id for job in app.task(task)(_elsewhere).enqueue_many([{}] * jobs)]
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {"PROCESSES_DB": url, "PROCESSES_FILES": str(folder / "files"), "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "penstock", "worker", "processes_app:app", "--quiet", "--burst"]
    subprocess.run([*command, "--processes", str(processes)], check=True, env={**os.environ, **settings})
    with penstock.App(url, files=folder / "files") as app:
        done = app.store.get_many(ids)
    return max(job.ended_at or 0.0 for job in done) - min(job.started_at or 0.0 for job in done)


def _elsewhere() -> None:
    raise NotImplementedError  # the workers have their own


def _cpu_seconds() -> float:
    """Of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    alone("processes")
