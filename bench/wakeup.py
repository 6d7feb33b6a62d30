"""How soon an idle worker starts a job that another process has enqueued: `python -m bench wakeup`.

A worker process waits at a database: a file, and the same behind `penstock serve`. This process enqueues a job now and
then, with a random pause between two, and each job returns when it began; what counts is the time from before the call
that enqueues it. Then the same while a third process writes items to another table of that database, at a steady rate.
The worker's CPU is measured while nobody enqueues anything. Each is done several times, and the best run is told: what
else the machine does only adds to it.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import penstock
from bench import workload
from bench.options import Options
from bench.report import Section, Table
from bench.sections import alone
from bench.servers import penstock as penstock_server
from bench.servers import running

PAUSE = (0.05, 0.3)
OTHER = workload.TABLE
SETTLE_SECONDS = 2.0  # until the worker polls as seldom as it will, and the writer has started
MODULE = """
import os, time
import penstock

app = penstock.App(os.environ["WAKEUP_DB"], files=os.environ["WAKEUP_FILES"])

@app.task()
def begun(ctx: penstock.JobContext) -> float:
    return time.time()
"""


@dataclass(frozen=True)
class Plan:
    jobs: int
    idle_seconds: float
    writes_a_second: float
    runs: int


PLANS = {
    "full": Plan(jobs=60, idle_seconds=8, writes_a_second=1_000, runs=3),
    "quick": Plan(jobs=5, idle_seconds=0.5, writes_a_second=200, runs=1),
}


@dataclass(frozen=True)
class Measured:
    """Milliseconds until a job began, and the share of a core that the idle worker took, in percent."""

    median: float
    worst: float
    cpu: float


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    columns = ["where", "beside it", "start, median ms", "worst ms", "idle worker, % of a core"]
    table = Table(f"From the enqueueing in another process to the start of the task; {plan.jobs} jobs", columns)
    section = Section("wakeup", "Wake-up: a job of another process", [table])
    beside = f"{plan.writes_a_second:,.0f} other writes a second"
    for place in ("file", "server"):
        runs = [_measure(place, plan) for _ in range(plan.runs)]
        for column, name in enumerate(("nothing", beside)):
            best = min((one[column] for one in runs), key=lambda measured: measured.worst)
            cpu = min(one[column].cpu for one in runs)
            table.rows.append([place, name, f"{best.median:.1f}", f"{best.worst:.1f}", f"{cpu:.2f}"])
            key = f"{place}/{'beside writes' if column else 'idle'}"
            section.figures |= {f"{key}/median": best.median, f"{key}/worst": best.worst, f"{key}/cpu": cpu}
    section.notes = [
        f"The best of {plan.runs} runs. A job's time begins before the call that enqueues it; between two jobs there "
        f"are {PAUSE[0] * 1000:.0f} to {PAUSE[1] * 1000:.0f} ms. The other writes replace items of another table.",
    ]
    return section


def _measure(place: str, plan: Plan) -> tuple[Measured, Measured]:
    """Idle, and beside other writes."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name, ExitStack() as stack:
        folder = Path(name)
        url = str(folder / "jobs.db")
        if place == "server":
            server = stack.enter_context(running(penstock_server(), folder))
            url = f"http://127.0.0.1:{server.port}"
        db = stack.enter_context(penstock.connect(url))
        workload.create_table(db.execute)
        app = stack.enter_context(penstock.App(db, files=folder / "files"))
        task = app.task("begun")(_begun)
        assert app.store
        worker = stack.enter_context(_worker(folder, url))
        app.wait(task.enqueue().id)  # it has started
        time.sleep(SETTLE_SECONDS)
        idle = _measure_once(app, task, worker, plan)
        stack.enter_context(_writer(url, plan.writes_a_second))
        time.sleep(SETTLE_SECONDS)
        return idle, _measure_once(app, task, worker, plan)


def _measure_once(app: penstock.App, task: penstock.Task, worker: subprocess.Popen[bytes], plan: Plan) -> Measured:  # type: ignore[type-arg]
    before, began = _cpu_seconds(worker), time.monotonic()
    time.sleep(plan.idle_seconds)
    cpu = (_cpu_seconds(worker) - before) / (time.monotonic() - began)
    jobs = []
    for _ in range(plan.jobs):
        sent = time.time()
        jobs.append((sent, task.enqueue()))
        time.sleep(random.uniform(*PAUSE))
    times = [(app.result(job.id, timeout_seconds=60) - sent) * 1e3 for sent, job in jobs]
    return Measured(statistics.median(times), max(times), cpu * 100)


def _begun(ctx: penstock.JobContext) -> float:
    raise NotImplementedError  # the worker has its own


@contextmanager
def _worker(folder: Path, url: str) -> Iterator[subprocess.Popen[bytes]]:
    (folder / "wakeup_app.py").write_text(MODULE)
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {"WAKEUP_DB": url, "WAKEUP_FILES": str(folder / "files"), "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "penstock", "worker", "wakeup_app:app", "--quiet"]
    with _process(command, settings) as process:
        yield process


@contextmanager
def _writer(url: str, rate: float) -> Iterator[subprocess.Popen[bytes]]:
    with _process([sys.executable, "-m", "bench.wakeup", "--writer", url, str(rate)], {}) as process:
        yield process


@contextmanager
def _process(command: list[str], settings: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, **settings})
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """Of the process so far, where the system tells."""
    stat = Path(f"/proc/{process.pid}/stat")
    if not stat.exists():
        return 0.0
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def write(url: str, rate: float) -> None:
    """The third process: replaces items until it is ended."""
    with penstock.connect(url) as db:
        began, number = time.monotonic(), 0
        while True:
            key = {"pk": {"S": f"p{number % 1000}"}, "sk": {"S": "s"}}
            db.execute("PutItem", {"TableName": OTHER, "Item": {**key, "n": {"N": str(number)}}})
            number += 1
            time.sleep(max(0.0, began + number / rate - time.monotonic()))


if __name__ == "__main__":
    write(sys.argv[2], float(sys.argv[3])) if sys.argv[1:2] == ["--writer"] else alone("wakeup")
