"""Enqueues what is due by the clock: one job for each time, since its id is made of the time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from penstock.clock import utc_text
from penstock.jobs.app import App
from penstock.jobs.cron import Schedule
from penstock.jobs.worker.registry import Firing, Registry

_LOG = logging.getLogger("penstock.jobs")


class Scheduler:
    """An app's schedules. Any number of workers may have one each: every time is still one job."""

    def __init__(self, app: App, registry: Registry, wake: Callable[[], None]) -> None:
        self._app = app
        self._registry = registry
        self._wake = wake
        self._due_at = 0.0

    def enqueue_due(self) -> None:
        """A schedule that was never seen begins now. Of times that passed without a worker, the last is made up for."""
        schedules, now = self._app.schedules.values(), self._app.store.clock.now()
        if not schedules or now < self._due_at:
            return
        known = self._registry.firings()
        for schedule in schedules:
            seen = known.get(schedule.name)
            if seen is None:
                self._registry.fired(Firing(schedule.name, now))
            else:
                self._enqueue_one(schedule, seen.at, now)
        self._due_at = min(schedule.after(now) for schedule in schedules)

    def _enqueue_one(self, schedule: Schedule, since: float, now: float) -> None:
        at, missed = schedule.latest(since, now)
        if at is None:
            return
        if missed > 1:
            _LOG.warning(
                "%s: %s times passed without a worker; only the last is made up for.", schedule.name, missed - 1
            )
        when = utc_text(at).replace(":", "").replace("-", "")
        new = self._app.tasks[schedule.name].new_job((), {})
        self._app.store.create(replace(new, id=f"cron_{schedule.name}_{when}"))
        self._registry.fired(Firing(schedule.name, at))
        self._wake()
