"""A worker's part in schedules (jobs/scheduler/schedules.py): it enqueues the jobs of those that are due."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from penstock.errors import PenstockError
from penstock.jobs.app import App
from penstock.jobs.model.job import BadJob, Job
from penstock.jobs.scheduler.schedules import LEFT_SECONDS, SavedSchedule
from penstock.jobs.worker.registry import WorkerRegistry

_LOG = logging.getLogger("penstock.jobs")

LOOK_SECONDS: Final = 2.0
"""How soon a schedule that was created or changed is seen: half a read unit each."""


class Scheduler:
    """Any number of workers may have one each: every time is still one job."""

    def __init__(self, app: App, registry: WorkerRegistry, wake: Callable[[], None]) -> None:
        self._app = app
        self._registry = registry
        self._wake = wake
        self._look_at = 0.0
        self._has_declared = False

    def enqueue_due(self) -> None:
        """A schedule that was never seen begins now. Of times that passed without a worker, the last is made up for."""
        now = self._app.store.clock.now()
        if now < self._look_at:
            return
        if not self._has_declared:
            self._app.schedules.declare(self._registry.firings)
            self._has_declared = True
        due = self._app.schedules.due(now)
        for saved in due.schedules:
            self._enqueue_one(saved, now)
        # Those that have fired stand at their next times now, which the index was not asked for.
        fired = (replace(saved, since=now).next_at for saved in due.schedules)
        times = [at for at in (due.next_at, *fired) if at is not None]
        self._look_at = now if due.more else min(*times, now + LOOK_SECONDS) if times else now + LOOK_SECONDS

    def _enqueue_one(self, saved: SavedSchedule, now: float) -> None:
        at, missed = saved.times.latest(saved.since, now)
        if at is None:
            return
        if saved.declared and saved.name not in self._app.schedules.declared:
            # Another program's code declares it, and may have been changed: that program's workers enqueue it.
            if now > (saved.next_at or now) + LEFT_SECONDS:
                self._app.schedules.leave(saved)
            return
        if missed > 1:
            _LOG.warning("%s: %s times passed without a worker; only the last is made up for.", saved.name, missed - 1)
        try:
            new = self._app.schedules.new_job(saved, at)
        except BadJob as error:  # the task was changed, and does not take its arguments any more
            _LOG.warning("The schedule %s has no job for %s: %s", saved.name, at, error)
            self._app.schedules.advance(saved, at, saved.last_job)
            return
        job_id = new.id or ""
        try:
            job, _ = self._app.store.create(new)
        except BadJob:  # a worker with other arguments, of another version of the app, was first
            job = self._app.store.get(job_id)
        self._app.schedules.advance(saved, at, job.id)
        if job.id != job_id:
            self._report_skipped(job_id, job)
        self._wake()

    def _report_skipped(self, skipped: str, job: Job) -> None:
        _LOG.warning("%s is skipped: %s has not ended. cron_overlap=True allows both.", skipped, job.id)
        with suppress(PenstockError):  # it has just ended, and expired
            self._app.store.log(job.id, f"{skipped} was skipped: this job had not ended.")
