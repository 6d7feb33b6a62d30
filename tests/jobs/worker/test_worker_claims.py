"""What a worker takes next under a backlog: priorities, pauses, cancellations, limits, and other workers' tasks."""

from __future__ import annotations

import threading
import time

import pytest
from worker_worlds import work

import penstock
from penstock.jobs.model.state import State

OLD_SECONDS = 0.15
"""After so long, candidates that were read ahead are too old."""


def test_an_urgent_job_starts_next_whatever_the_backlog(app: penstock.App) -> None:
    begun: list[str] = []

    @app.task()
    def note(ctx: penstock.JobContext, name: str) -> None:
        if not begun:
            note.options(priority=9).enqueue(name="urgent")
            time.sleep(OLD_SECONDS)
        begun.append(name)

    note.options(priority=1).enqueue_many([{"name": f"low {n}"} for n in range(60)])
    work(app, concurrency=1)
    assert begun[:3] == ["low 0", "urgent", "low 1"]
    assert len(begun) == 61


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_pause_holds_for_jobs_that_were_read_ahead(app: penstock.App, concurrency: int) -> None:
    begun: list[str] = []
    paused = threading.Event()

    @app.task()
    def note(ctx: penstock.JobContext) -> None:
        begun.append(ctx.id)
        if len(begun) == 1:
            app.store.pause("default")
            paused.set()
        assert paused.wait(30)
        time.sleep(OLD_SECONDS)

    note.enqueue_many([{} for _ in range(60)])
    work(app, concurrency=concurrency)
    assert len(begun) <= concurrency
    app.store.resume("default")
    assert app.store.find(state=State.PROCESSING).jobs == ()
    assert len(app.store.find(state=State.QUEUED, limit=100).jobs) == 60 - len(begun)


def test_a_job_that_is_cancelled_while_it_is_a_candidate_does_not_run(app: penstock.App) -> None:
    begun: list[str] = []

    @app.task()
    def note(ctx: penstock.JobContext) -> None:
        begun.append(ctx.id)
        if len(begun) == 1:
            for job in jobs[1:]:
                app.cancel(job.id)

    jobs = note.enqueue_many([{} for _ in range(20)])
    work(app, concurrency=1)
    assert begun == [jobs[0].id]
