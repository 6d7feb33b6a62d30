"""Workers killed at random while they run jobs with checkpoints: `python -m bench.kills [--jobs 2000 --kills 200]`.

Three worker processes share a database file; one of them, drawn at random, is ended by SIGKILL every so often and
another started. Each job does four steps and keeps each as a checkpoint. A job that was hit three times is parked, as
it should be, and retried as an operator would. At the end a checker that knows every job looks at the whole store:
each has completed exactly once, has each of its checkpoints, and keeps the rules of penstock.testing.invariants. What
it finds is printed, and ends it with 1.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import penstock
from penstock.jobs.state import State
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
def steps(run: penstock.Run, number: int, seconds: float) -> list[int]:
    done = []
    for step in range({STEPS}):
        time.sleep(seconds)
        done.append(run.step(f"step{{step}}", lambda step=step: number * 10 + step))
        run.progress(100 * (step + 1) / {STEPS})
    return done
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-kills-") as folder:
        return run(Path(folder), options)


def run(folder: Path, options: argparse.Namespace) -> int:
    (folder / "killed_jobs.py").write_text(MODULE)
    sys.path.insert(0, str(folder))
    environment = {"PENSTOCK_URL": str(folder / "kills.db"), "PYTHONPATH": str(folder)}
    os.environ.update(environment)
    draw = random.Random(options.seed)
    began = time.monotonic()
    with FaultLab("killed_jobs:app", folder=folder, environment=environment) as lab:
        # So long that the work lasts as long as the killing.
        seconds = 0.8 * options.kills * sum(PAUSE) / 2 * options.workers * SLOTS / (options.jobs * STEPS)
        steps = lab.app.tasks["steps"]
        ids = {lab.app.enqueue(steps, number=number, seconds=seconds).id: number for number in range(options.jobs)}
        workers = [lab.start(concurrency=SLOTS) for _ in range(options.workers)]
        for kill in range(1, options.kills + 1):
            time.sleep(draw.uniform(*PAUSE))
            place = draw.randrange(len(workers))
            workers[place].kill()
            workers[place] = lab.start(concurrency=SLOTS)
            if kill % 20 == 0:
                print(f"{kill} kills, {count(lab.app)} in {time.monotonic() - began:.0f} s", flush=True)
        parked = finished(lab, ids)
        faults = found(lab.app, ids)
        taken = Counter(lab.app.get(one).attempt for one in ids)
    took = time.monotonic() - began
    print(f"{options.jobs} jobs, {options.kills} kills in {took:.0f} s; {parked} parked and retried")
    print(f"attempts: {dict(sorted(taken.items()))}")
    print("\n".join(faults[:20]) if faults else "Every job completed exactly once; no checkpoint is lost.")
    return 1 if faults else 0


def finished(lab: FaultLab, ids: dict[str, int]) -> int:
    """Waits for all, and retries what is parked; how many were."""
    parked = 0
    for ended in lab.wait(*ids, timeout_seconds=900):
        if ended.error is not None and ended.error.kind == "Parked":
            parked += 1
            lab.app.retry(ended.id)
    lab.wait(*ids, timeout_seconds=300)
    return parked


def count(app: penstock.App) -> str:
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
    sys.exit(main())
