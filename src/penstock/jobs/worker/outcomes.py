"""How a worker stores what became of a job, and counts it.

1. What cannot be stored for a passing reason (the database is away, or throttles) is tried again for as long as the
   job's lease lasts; then the lease runs out, and another worker goes on.
2. Only what is wrong with the outcome itself, such as a result that is not JSON, is a failure of the task.
3. Whatever a task has raised can be stored: its text is cut, and half surrogate pairs are spelt out.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.jobs.context import Attempt
from penstock.jobs.model.job import Job, JobCancelled, JobError
from penstock.jobs.store.store import JobStore
from penstock.jobs.tasks import Task
from penstock.leases import LeaseLost
from penstock.retry import Backoff, Failure

_LOG = logging.getLogger("penstock.jobs")

_STORE_AGAIN: Final = Backoff(0.1, 2.0, 1.0)


@dataclass(slots=True)
class Counts:
    """What a worker has done."""

    completed: int = 0
    failed: int = 0
    retried: int = 0
    requeued: int = 0
    cancelled: int = 0
    lost: int = 0

    @property
    def total(self) -> int:
        return self.completed + self.failed + self.retried + self.requeued + self.cancelled + self.lost


class Outcomes:
    """Of one worker's jobs. Safe to share between its threads."""

    def __init__(self, store: JobStore, wake: Callable[[], None], on_end: Callable[[Job, str], None]) -> None:
        self.counts = Counts()
        self.blocked: dict[str, float] = {}
        """Concurrency keys of which as many jobs run as may, and until when that is believed."""
        self._store = store
        self._wake_fetcher = wake
        self._on_end = on_end
        self._counting = threading.Lock()

    def end(self, attempt: Attempt, how: str, end: Callable[[Job], Job], *, patient: bool = True) -> None:
        """Stores the outcome (1)."""
        lease = attempt.job.lease
        until = time.monotonic() + (lease.seconds if patient and lease is not None else 0.0)
        failures = 0
        while True:
            try:
                attempt.finish(end)
            except LeaseLost as lost:
                self.count_lost(attempt, lost)
            except JobCancelled:
                self.end(attempt, "cancelled", self._store.end_cancelled, patient=patient)
            except (PenstockError, OSError) as error:
                if _may_pass(error) and time.monotonic() < until:
                    failures += 1
                    time.sleep(_STORE_AGAIN.wait(failures))
                    continue
                self._end_unstored(attempt, how, error)
            else:
                self.count(how, attempt.job)
            return

    def store_failure(
        self, attempt: Attempt, task: Task[Any, Any], error: BaseException, *, patient: bool = True
    ) -> None:
        """The task has raised this: it is retried, or has failed."""
        retries = task.settings.retries
        failures = attempt.job.failures
        at = self._store.clock.now() + retries.delay(failures) if retries.allows(error, failures) else None
        stored = job_error(error)
        how = "failed" if at is None else "retried"
        self.end(attempt, how, lambda job: self._store.fail(job, stored, retry_at=at), patient=patient)

    def count_lost(self, attempt: Attempt, lost: LeaseLost) -> None:
        """Another worker has the job now."""
        _LOG.warning("%s", lost)
        self.count("lost", attempt.job)

    def count(self, how: str, job: Job) -> None:
        """One more; and the fetcher is woken where that lets other jobs begin."""
        with self._counting:
            setattr(self.counts, how, getattr(self.counts, how) + 1)
        if job.concurrency_key is not None:  # a job that waited for its slot may be ready now
            self.blocked.pop(job.concurrency_key, None)
            self._wake_fetcher()
        if job.has_children and job.is_terminal:
            self._wake_fetcher()
        try:
            self._on_end(job, how)
        except Exception:
            _LOG.exception("%s has %s, and its on_end raised", job.id, how)

    def _end_unstored(self, attempt: Attempt, how: str, error: Exception) -> None:
        if how == "completed" and not _may_pass(error):
            self.end(attempt, "failed", lambda job: self._store.fail(job, job_error(error)))  # (2)
        else:
            _LOG.error("%s has %s, which could not be stored: %s", attempt.job.id, how, error)
            self.count("lost", attempt.job)


def job_error(error: BaseException) -> JobError:
    """An exception as it is stored (3)."""
    failure = Failure.of(error)
    return JobError(failure.kind, failure.message, failure.trace)


def _may_pass(error: Exception) -> bool:
    return isinstance(error, PenstockError) and error.retryable
