"""Workers killed at random while they run jobs with checkpoints: `python -m bench kills`.

Three worker processes share a database file; one of them, drawn at random, is ended by SIGKILL every so often and
another started. Each job does four steps and keeps each as a checkpoint. A job that was hit three times while it ran
alone, without a step between, has failed, and is retried as an operator would. At the end a checker that knows every
job looks at the whole store: each has completed exactly once, has each of its checkpoints, and keeps the rules of
penstock.testing.invariants. Fewer:
`python -m bench kills --set jobs=100 --set kills=5`.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import penstock
from bench.options import Options
from bench.report import Section, Table, count
from bench.sections import alone
from penstock.jobs.model.state import State
from penstock.jobs.model.transitions import KILLED_WORKERS
from penstock.testing.fault_lab import FaultLab
from penstock.testing.invariants import broken_rules

STEPS = 4
SLOTS = 4
PAUSE = (0.3, 1.2)
MODULE = f"""
import time
import penstock

app = penstock.App()

@app.task(lease_seconds=1)
def steps(ctx: penstock.JobContext, number: int, seconds: float) -> list[int]:
    done = []
    for step in range({STEPS}):
        time.sleep(seconds)
        done.append(ctx.step(f"step{{step}}", lambda step=step: number * 10 + step))
        ctx.progress(100 * (step + 1) / {STEPS})
    return done
"""


@dataclass(frozen=True)
class Plan:
    jobs: int
    kills: int
    workers: int
    seed: int


PLANS = {"full": Plan(jobs=2_000, kills=200, workers=3, seed=1), "quick": Plan(jobs=24, kills=2, workers=2, seed=1)}


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    with tempfile.TemporaryDirectory(prefix="penstock-kills-") as folder:
        took, failed, taken, faults = killed(Path(folder), plan)
    table = Table(f"{plan.jobs:,} jobs of {STEPS} steps, {plan.kills} workers killed", ["", ""])
    table.rows = [
        ["seconds", f"{took:.0f}"],
        ["failed after three crashes, and retried", count(failed)],
        ["attempts that jobs took", ", ".join(f"{one}: {number:,} jobs" for one, number in sorted(taken.items()))],
        ["faults found", count(len(faults))],
    ]
    section = Section("kills", "Workers killed at random", [table], faults[:20])
    section.notes += [] if faults else ["Every job completed exactly once; no checkpoint is lost."]
    section.figures = {f"faults/{plan.kills} kills of {plan.jobs} jobs": len(faults), "seconds": took}
    return section


def killed(folder: Path, plan: Plan) -> tuple[float, int, Counter[int], list[str]]:
    """How long it took, how many failed, how many attempts jobs took, and what is wrong at the end."""
    (folder / "killed_jobs.py").write_text(MODULE)
    sys.path.insert(0, str(folder))
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    environment = {"PENSTOCK_DB": str(folder / "kills.db"), "PYTHONPATH": path}
    before = dict(os.environ)
    os.environ.update(environment)
    draw = random.Random(plan.seed)
    began = time.monotonic()
    try:
        with FaultLab("killed_jobs:app", folder=folder, environment=environment) as lab:
            ids = _enqueued(lab, plan)
            _kill(lab, plan, draw, began)
            failed = finished(lab, ids)
            faults = found(lab.app, ids)
            taken = Counter(lab.app.get(one).attempt for one in ids)
    finally:
        sys.path.remove(str(folder))
        os.environ.clear()
        os.environ.update(before)
    took = time.monotonic() - began
    sys.stderr.write(f"{plan.jobs} jobs, {plan.kills} kills in {took:.0f} s; {failed} failed and retried\n")
    sys.stderr.write(f"attempts: {dict(sorted(taken.items()))}\n")
    return took, failed, taken, faults


def _enqueued(lab: FaultLab, plan: Plan) -> dict[str, int]:
    """The jobs' ids, each with its number. A step takes so long that the work lasts as long as the killing."""
    seconds = 0.8 * plan.kills * sum(PAUSE) / 2 * plan.workers * SLOTS / (plan.jobs * STEPS)
    steps = lab.app.tasks["steps"]
    return {steps.enqueue(number=number, seconds=seconds).id: number for number in range(plan.jobs)}


def _kill(lab: FaultLab, plan: Plan, draw: random.Random, began: float) -> None:
    workers = [lab.start(concurrency=SLOTS) for _ in range(plan.workers)]
    for kill in range(1, plan.kills + 1):
        time.sleep(draw.uniform(*PAUSE))
        place = draw.randrange(len(workers))
        workers[place].kill()
        workers[place] = lab.start(concurrency=SLOTS)
        if kill % 20 == 0:
            sys.stderr.write(f"{kill} kills, {states(lab.app)} in {time.monotonic() - began:.0f} s\n")


def finished(lab: FaultLab, ids: dict[str, int]) -> int:
    """Waits for all, and retries what failed; how many were."""
    failed = 0
    for ended in lab.wait(*ids, timeout_seconds=900):
        if ended.error is not None and ended.error.kind == KILLED_WORKERS:
            failed += 1
            lab.app.retry(ended.id)
    lab.wait(*ids, timeout_seconds=300)
    return failed


def states(app: penstock.App) -> str:
    counts: Counter[str] = Counter()
    token = None
    while True:
        page = app.store.find(limit=1_000, token=token)
        counts.update(job.state.value for job in page.jobs)
        token = page.token
        if token is None:
            return ", ".join(f"{number} {state}" for state, number in sorted(counts.items()))


def found(app: penstock.App, ids: dict[str, int]) -> list[str]:
    """Everything that is wrong."""
    faults: list[str] = []
    for job_id, number in ids.items():
        history = app.store.history(job_id)
        faults += broken_rules(history)
        wanted = [number * 10 + step for step in range(STEPS)]
        if history.job.state is not State.COMPLETED:
            faults.append(f"{job_id} is {history.job.state}")
        elif app.store.load(history.job, history.job.result) != wanted:
            faults.append(f"{job_id} has another result than it should")
        points = {point.name: app.store.load(history.job, point.data) for point in history.checkpoints}
        if points != {f"step{step}": value for step, value in enumerate(wanted)}:
            faults.append(f"{job_id} has lost checkpoints: it has {points}")
        if sum(event.type == "completed" for event in history.events) != 1:
            faults.append(f"{job_id} has not completed exactly once")
    return faults


if __name__ == "__main__":
    alone("kills")
