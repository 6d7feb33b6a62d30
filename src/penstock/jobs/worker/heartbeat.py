"""What goes on beside a worker's tasks: leases renewed, time limits kept, schedules fired, a sign of life given."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.clock import utc_text
from penstock.errors import PenstockError
from penstock.jobs.model.job import JobCancelled
from penstock.jobs.model.new_job import NewJob
from penstock.jobs.worker.context import Run
from penstock.jobs.worker.registry import BEAT_SECONDS, Firing, Registry
from penstock.leases import RENEWALS, LeaseLost

if TYPE_CHECKING:
    from penstock.jobs.app import App
    from penstock.jobs.scheduler.cron import Schedule
    from penstock.jobs.worker.worker import Worker

_LOG = logging.getLogger("penstock.jobs")
_LONGEST_PAUSE_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 0.2


class Keeper:
    """One thread for all of a worker's runs."""

    def __init__(self, worker: Worker, app: App, registry: Registry) -> None:
        self._worker = worker
        self._app = app
        self._registry = registry
        self._changed = threading.Condition()
        self._futures: dict[Run, Future[Any]] = {}
        self._beat_at = 0.0
        self._fire_at = 0.0
        self._ended = False
        self._thread = threading.Thread(target=self._keep, name="penstock-keeper", daemon=True)
        self.stop_reason = "its worker stops"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join(timeout=BEAT_SECONDS)
        try:
            self._registry.leave(self._worker.name)
        except PenstockError as error:
            _LOG.warning("The worker could not sign off: %s", error)

    def watch(self, run: Run) -> None:
        """From now on; short jobs are over before their first renewal, and cost nothing here."""
        lease = run.job.lease
        if lease is not None:
            pause = lease.seconds / RENEWALS
            left = run.seconds_left
            if min(pause, pause if left is None else left) < _LONGEST_PAUSE_SECONDS:
                with self._changed:
                    self._changed.notify()

    def cancel_at_limit(self, run: Run, future: Future[Any]) -> None:
        """Until it is done: a worker that lives for long must not keep what all its async tasks have returned."""
        if run.seconds_left is not None:
            self._futures[run] = future
            future.add_done_callback(lambda _: self._futures.pop(run, None))

    def _keep(self) -> None:
        while True:
            pause = self._round()
            with self._changed:
                if self._ended:
                    return
                self._changed.wait(pause)
                if self._ended:
                    return

    def _round(self) -> float:
        pause = _LONGEST_PAUSE_SECONDS
        try:
            for run in self._worker.runs:
                pause = min(pause, self._look_after(run))
            self._beat()
            self._fire()
        except Exception as error:  # the database is away: leases that run out meanwhile are lost, and told so
            _LOG.warning("A worker's upkeep failed, and is tried again: %s", error)
            pause = _AGAIN_SECONDS
        return max(pause, 0.01)

    def _look_after(self, run: Run) -> float:
        """Renews it if it is due; how long until something is due again."""
        left = run.seconds_left
        if left is not None and left <= 0:
            self._over(run)
            return _LONGEST_PAUSE_SECONDS
        due = run.renewal_due_in()
        if due <= 0:
            self._renew(run)
            due = _AGAIN_SECONDS
        return due if left is None else min(due, left)

    def _renew(self, run: Run) -> None:
        try:
            run.renew()
        except JobCancelled:
            pass  # the task is told where it reports
        except LeaseLost as lost:
            _LOG.warning("%s", lost)
        except PenstockError as error:
            if run.has_expired:
                run.give_up(LeaseLost(run.id, None, f"it could not be renewed: {error}"))

    def _over(self, run: Run) -> None:
        limit = self._app.tasks[run.job.task].settings.time_limit_seconds or 0.0
        future = self._futures.pop(run, None)
        self._worker.fail_at_limit(run, limit)
        if future is not None:
            future.cancel()

    def _beat(self) -> None:
        if time.monotonic() >= self._beat_at:
            self._registry.beat(self._worker.info())
            self._beat_at = time.monotonic() + BEAT_SECONDS

    # ── schedules ────────────────────────────────────────────────────────────────────────────────

    def _fire(self) -> None:
        """Enqueues what is due by the clock: one job for each time, since its id is made of the time.

        A schedule that was never seen begins now. Of times that passed without a worker, the last is made up for.
        """
        now = self._app.store.clock.now()
        if not self._app.schedules or now < self._fire_at:
            return
        known = self._registry.firings()
        for schedule in self._app.schedules.values():
            seen = known.get(schedule.name)
            if seen is None:
                self._registry.fired(Firing(schedule.name, now))
            else:
                self._fire_one(schedule, seen.at, now)
        self._fire_at = min(schedule.after(now) for schedule in self._app.schedules.values())

    def _fire_one(self, schedule: Schedule, since: float, now: float) -> None:
        at, missed = schedule.latest(since, now)
        if at is None:
            return
        if missed > 1:
            _LOG.warning(
                "%s: %s times passed without a worker; only the last is made up for.", schedule.name, missed - 1
            )
        task = self._app.tasks[schedule.name]
        new = task.new_job((), {}, now)
        when = utc_text(at).replace(":", "").replace("-", "")
        self._app.store.create(_with_id(new, f"cron_{schedule.name}_{when}"))
        self._registry.fired(Firing(schedule.name, at))
        self._worker.feed.wake()


def _with_id(new: NewJob, job_id: str) -> NewJob:
    return replace(new, id=job_id)
