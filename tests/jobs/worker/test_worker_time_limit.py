"""A worker with a time limit: it stops by itself, in time, and what it ran is continued by the next."""

from __future__ import annotations

import time

import pytest
from worker_worlds import work

import penstock
from penstock.jobs.model.state import State
from penstock.jobs.worker.worker import DEFAULT_GRACE_SECONDS, Worker, _stop_times


@pytest.mark.parametrize(
    ("grace", "limit", "expected"),
    [
        (None, None, (DEFAULT_GRACE_SECONDS, None)),
        (4.0, None, (4.0, None)),
        (None, 900.0, (30.0, 865.0)),  # Lambda's longest
        (None, 60.0, (15.0, 40.0)),
        (None, 4.0, (1.0, 2.6)),
        (0.0, 10.0, (0.0, 9.0)),
    ],
)
def test_the_grace_and_the_last_writes_are_part_of_the_limit(
    grace: float | None, limit: float | None, expected: tuple[float, float | None]
) -> None:
    assert _stop_times(grace, limit) == pytest.approx(expected)


def test_a_limit_that_leaves_no_time_for_work_is_refused(app: penstock.App) -> None:
    @app.task()
    def noop() -> None: ...

    for limit, grace in ((10, 10), (10, 30), (0, None), (-1, None), (float("nan"), None)):
        with pytest.raises(penstock.PenstockError, match="leaves no time for work"):
            Worker(app, time_limit_seconds=limit, grace_seconds=grace)


def test_a_worker_requeues_what_runs_when_its_time_is_nearly_up(app: penstock.App) -> None:
    is_short = True

    @app.task()
    def long(ctx: penstock.JobContext) -> str:
        first = ctx.step("first", lambda: "of attempt 1")
        while is_short:
            time.sleep(0.01)
            ctx.log("still at it")
        return first

    job = long.enqueue()
    counts = Worker(app, time_limit_seconds=1.0, idle_seconds=0.05).run()
    assert counts.requeued == 1
    stopped = app.get(job.id)
    assert stopped.state is State.QUEUED
    assert "its worker's time is nearly up" in str(stopped.events)
    is_short = False
    assert work(app).completed == 1
    assert app.result(job.id) == "of attempt 1"
