"""How soon a job goes on whose worker was killed, on one machine: `python -m bench takeover`.

Two workers wait at one database, with the lease that they have by default, 30 s. A job is enqueued, and whichever
worker runs it is killed (SIGKILL). What counts is the time from the kill until the job runs again in the other one.
Then a new worker takes the place of the killed one, and all of that again.
"""

from __future__ import annotations

import os
import signal
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
from bench.options import Options
from bench.report import Section, Table
from bench.sections import alone
from bench.servers import penstock as penstock_server
from bench.servers import running
from penstock.leases import DEFAULT_LEASE_SECONDS

GIVE_UP_SECONDS = 2 * DEFAULT_LEASE_SECONDS
POLL_SECONDS = 0.002
BEFORE_SECONDS = 1.0
"""For which a job has run when its worker is killed: no worker is at its start."""
MODULE = """
import os, time
import penstock

app = penstock.App(os.environ["TAKEOVER_DB"], files=os.environ["TAKEOVER_FILES"])

@app.task()
def hold(ctx: penstock.JobContext) -> None:
    with open(os.environ["TAKEOVER_TRACE"], "a") as trace:
        trace.write(f"{time.time()} {os.getpid()}\\n")
    if ctx.attempt == 1:
        time.sleep(3600)
"""


@dataclass(frozen=True)
class Plan:
    kills: int


PLANS = {"full": Plan(kills=15), "quick": Plan(kills=1)}


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    table = Table(
        "Seconds from the kill of a worker until another one runs its job", ["database", "kills", "median", "worst"]
    )
    section = Section("takeover", "A killed worker's job on the same machine", [table])
    for place in ("file", "server"):
        seconds = _measure(place, plan)
        median, worst = statistics.median(seconds), max(seconds)
        table.rows.append([place, str(plan.kills), f"{median:.2f}", f"{worst:.2f}"])
        section.figures |= {f"{place}/median": median, f"{place}/worst": worst}
    section.notes = [
        f"Both workers have the defaults, a lease of {DEFAULT_LEASE_SECONDS:.0f} s among them. Each job had run for "
        f"{BEFORE_SECONDS:.0f} s when its worker was killed."
    ]
    return section


def _measure(place: str, plan: Plan) -> list[float]:
    with tempfile.TemporaryDirectory(prefix="bench-") as name, ExitStack() as stack:
        folder = Path(name)
        url = str(folder / "jobs.db")
        if place == "server":
            server = stack.enter_context(running(penstock_server(), folder))
            url = f"http://127.0.0.1:{server.port}"
        app = stack.enter_context(penstock.App(url, files=folder / "files"))
        task = app.task("hold")(_elsewhere)
        (folder / "takeover_app.py").write_text(MODULE)
        workers = [stack.enter_context(_worker(folder, url)) for _ in range(2)]
        seconds = []
        for number in range(plan.kills):
            job = task.enqueue()
            begun = _begun(folder, 2 * number + 1)[-1]
            time.sleep(BEFORE_SECONDS)
            killed = next(one for one in workers if one.pid == begun.pid)
            killed_at = time.time()
            killed.send_signal(signal.SIGKILL)
            seconds.append(_begun(folder, 2 * number + 2)[-1].at - killed_at)
            app.wait(job.id)
            workers.remove(killed)
            workers.append(stack.enter_context(_worker(folder, url)))
        return seconds


@dataclass(frozen=True)
class _Begun:
    """An attempt that has begun: when, and in which process."""

    at: float
    pid: int


def _begun(folder: Path, number: int) -> list[_Begun]:
    """So many attempts, once there are."""
    trace, deadline = folder / "trace", time.monotonic() + GIVE_UP_SECONDS
    while time.monotonic() < deadline:
        text = trace.read_text() if trace.exists() else ""
        lines = [line.split() for line in text.splitlines(keepends=True) if line.endswith("\n")]
        if len(lines) >= number:
            return [_Begun(float(at), int(pid)) for at, pid in lines]
        time.sleep(POLL_SECONDS)
    raise RuntimeError(f"the job did not run within {GIVE_UP_SECONDS:.0f} s")


@contextmanager
def _worker(folder: Path, url: str) -> Iterator[subprocess.Popen[bytes]]:
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {"TAKEOVER_DB": url, "TAKEOVER_FILES": str(folder / "files"), "TAKEOVER_TRACE": str(folder / "trace")}
    command = [sys.executable, "-m", "penstock", "worker", "takeover_app:app", "--quiet"]
    process = subprocess.Popen(command, env={**os.environ, **settings, "PYTHONPATH": os.pathsep.join(paths)})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _elsewhere(ctx: penstock.JobContext) -> None:
    raise NotImplementedError  # the workers have their own


if __name__ == "__main__":
    alone("takeover")
