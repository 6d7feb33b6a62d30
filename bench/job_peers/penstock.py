"""Penstock on its embedded engine."""

from __future__ import annotations

from functools import partial

import penstock
from bench.job_peers import work
from penstock.engine.settings import Settings
from penstock.jobs.model.state import State

settings = Settings(synchronous="full" if work.synced else "normal")
app = penstock.App(penstock.connect(work.place / "jobs.db", settings=settings))


@app.task()
def no_op(_: penstock.JobContext) -> None:
    work.no_op()


@app.task(lease_seconds=5)
def steps(ctx: penstock.JobContext) -> None:
    work.note("begin")
    for number in range(1, work.STEPS + 1):
        ctx.step(f"step-{number}", partial(work.step, number))
    work.note("done")


def prepare() -> None:
    """Makes the file and its table."""
    app.store.find(limit=1)


def enqueue(count: int) -> None:
    for _ in range(count):
        no_op.enqueue()


def enqueue_all(count: int) -> None:
    no_op.enqueue_many({} for _ in range(count))


def enqueue_steps() -> None:
    steps.enqueue()


def left() -> int:
    return sum(len(app.store.find(state=state, limit=1).jobs) for state in (State.QUEUED, State.PROCESSING))
