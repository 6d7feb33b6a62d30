"""A worker whose database fails at the worst moment: when a task has returned and its outcome is to be stored."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import PenstockError, ThrottlingException
from penstock.jobs.model.state import State
from penstock.jobs.worker.worker import Worker


class Outage:
    """The store's way to complete a job fails so many times, and then works again."""

    def __init__(self, app: penstock.App, monkeypatch: pytest.MonkeyPatch, error: PenstockError, times: int) -> None:
        self.left = times
        complete = app.store.complete

        def failing(*args: Any, **kwargs: Any) -> Any:
            if self.left:
                self.left -= 1
                raise error
            return complete(*args, **kwargs)

        def never(*args: Any, **kwargs: Any) -> Any:
            raise error

        monkeypatch.setattr(app.store, "complete", failing)
        monkeypatch.setattr(app.store, "complete_and_claim", never)


def run_once(app: penstock.App, lease_seconds: float) -> tuple[penstock.App, str]:
    @app.task(lease_seconds=lease_seconds, retries=5)
    def report(ctx: penstock.JobContext) -> str:
        return "done"

    return app, report.enqueue().id


def test_a_throttled_end_is_stored_when_the_throttling_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with penstock.App(tmp_path / "jobs.db") as app:
        _, job_id = run_once(app, lease_seconds=30)
        Outage(app, monkeypatch, ThrottlingException("slower"), times=3)
        counts = Worker(app, burst=True, concurrency=1, idle_seconds=0.05).run()
        job = app.get(job_id)
        assert (job.state, job.attempt, job.failures, job.error) == (State.COMPLETED, 1, 0, None)
        assert (counts.completed, counts.failed, counts.lost) == (1, 0, 0)


def test_an_end_that_cannot_be_stored_for_long_is_no_failure_of_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with penstock.App(tmp_path / "jobs.db") as app:
        _, job_id = run_once(app, lease_seconds=0.5)
        outage = Outage(app, monkeypatch, ThrottlingException("slower"), times=1_000_000)
        worker = Worker(app, burst=True, concurrency=1, idle_seconds=0.05, on_end=lambda job, how: worker.stop())
        with caplog.at_level(logging.ERROR, "penstock.jobs"):
            counts = worker.run()
        assert (counts.lost, counts.failed) == (1, 0)
        assert "has completed, which could not be stored" in caplog.text
        job = app.get(job_id)
        assert (job.state, job.failures, job.error) == (State.PROCESSING, 0, None)
        outage.left = 0
        Worker(app, burst=True, concurrency=1, idle_seconds=0.05).run()
        assert app.get(job_id).state is State.COMPLETED
