"""How a worker stores what became of a job, and counts it.

1. What cannot be stored for a passing reason (the database is away, or throttles) is tried again (context.py, 4). An
   attempt that was abandoned all the same is reported when the database is back: its job is requeued at once, unless
   another worker has taken it, and this is no crash of its worker's.
2. Only what is wrong with the outcome itself, such as a result that is not JSON, is a failure of the task.
3. Whatever a task has raised can be stored: its text is cut, and half surrogate pairs are spelt out.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.jobs.context import Attempt
from penstock.jobs.model.job import Job, JobCancelled, JobError, JobRequeued
from penstock.jobs.model.transitions import MOST_REQUEUES
from penstock.jobs.store.patience import is_outage
from penstock.jobs.store.store import JobStore
from penstock.jobs.tasks import BadArguments, Task
from penstock.leases import LeaseLost
from penstock.retry import Failure

_LOG = logging.getLogger("penstock.jobs")

_NO_CHECKPOINT: Final = (
    "its soft time limit of {:g} s was over before it had kept a checkpoint: the next attempt would get no further. "
    "Call ctx.checkpoint(…) as it goes (ctx.progress keeps nothing), or give the task a longer time_limit_seconds."
)
_TOO_MANY_REQUEUES: Final = (
    f"it asked to be requeued {MOST_REQUEUES + 1} times without a new checkpoint (MOST_REQUEUES is {MOST_REQUEUES}). "
    "Call ctx.checkpoint(…) when it gets further; to wait for something, enqueue a job with a delay."
)


class RequeueLimit(PenstockError):
    """The task has asked to be requeued too often without getting further."""


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
        self.abandoned: list[Attempt] = []
        """Attempts whose jobs are still this worker's in the database, and that nobody works on."""
        self._store = store
        self._wake_fetcher = wake
        self._on_end = on_end
        self._counting = threading.Lock()

    def end(self, attempt: Attempt, how: str, end: Callable[[Job], Job]) -> None:
        """Stores the outcome (1)."""
        try:
            attempt.finish(end, briefly=how == "requeued")
        except LeaseLost as lost:
            if attempt.is_abandoned and how != "requeued":
                _LOG.error("%s has %s, which could not be stored.", attempt.job.id, how, extra=attempt.log_fields)
            self.count_lost(attempt, lost)
        except JobCancelled:
            self.end(attempt, "cancelled", self._store.end_cancelled)
        except (PenstockError, OSError) as error:
            self._end_unstored(attempt, how, error)
        else:
            self.count(how, attempt.job)

    def store_raised(self, attempt: Attempt, task: Task[Any, Any], error: BaseException) -> None:
        """The task has not returned: what it raised says how the attempt ends."""
        if isinstance(error, asyncio.CancelledError):
            error = attempt.reason_to_end() or error
        if isinstance(error, TypeError):
            error = _bad_arguments(attempt, task) or error
        match error:
            case LeaseLost():
                self.count_lost(attempt, error)
            case JobCancelled():
                self.end(attempt, "cancelled", self._store.end_cancelled)
            case JobRequeued():
                self.store_requeue(attempt, task, error)
            case _:
                self.store_failure(attempt, task, error)

    def store_failure(self, attempt: Attempt, task: Task[Any, Any], error: BaseException) -> None:
        """The task has raised this: it is retried, or has failed."""
        retries = task.settings.retries
        failures = attempt.job.failures
        is_retried = retries.allows(error, failures) and not isinstance(error, BadArguments)
        at = self._store.clock.now() + retries.delay(failures) if is_retried else None
        stored = job_error(error)
        how = "failed" if at is None else "retried"
        self.end(attempt, how, lambda job: self._store.fail(job, stored, retry_at=at))

    def store_requeue(self, attempt: Attempt, task: Task[Any, Any], requeue: JobRequeued) -> None:
        """The task goes on later; unless it would begin at the same place again, and so for ever."""
        requeues = 0 if attempt.has_checkpoint else attempt.job.requeues + (requeue.asked_by == "task")
        if requeue.asked_by == "soft limit" and not attempt.has_checkpoint:
            self.store_failure(
                attempt, task, TimeoutError(_NO_CHECKPOINT.format(task.settings.soft_time_limit_seconds or 0.0))
            )
        elif requeues > MOST_REQUEUES:
            self.store_failure(attempt, task, RequeueLimit(_TOO_MANY_REQUEUES))
        else:
            self.end(attempt, "requeued", lambda job: self._store.requeue(job, str(requeue), requeues))

    def count_lost(self, attempt: Attempt, lost: LeaseLost) -> None:
        """Another worker has the job now, or may take it."""
        if attempt.is_counted:
            return  # its worker has given it back, and has not waited for it
        attempt.is_counted = True
        if not attempt.is_given_up:
            _LOG.warning("%s", lost, extra=attempt.log_fields)
        if attempt.is_abandoned:
            self.abandoned.append(attempt)
        self.count("lost", attempt.job)

    def count_left(self, attempt: Attempt) -> None:
        """Its worker ends, and what becomes of it is not stored."""
        if attempt.lost is None:
            attempt.is_abandoned = True
            attempt.lost = LeaseLost(attempt.job.id, None, "its worker ends, and could not give it back")
        self.count_lost(attempt, attempt.lost)

    def requeue_abandoned(self) -> None:
        """Reports what was abandoned (1). Raises where the database is still away."""
        while self.abandoned:
            job = self.abandoned[0].job
            try:
                self._store.requeue(job, "its database was away for too long")
            except JobCancelled:
                self._store.end_cancelled(job)
            except PenstockError as error:
                if is_outage(error):
                    raise
                _LOG.warning("%s was abandoned, and is not requeued: %s", job.id, error)
            self.abandoned.pop(0)
            self._wake_fetcher()

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
        if how == "completed":
            self.end(attempt, "failed", lambda job: self._store.fail(job, job_error(error)))  # (2)
        else:
            _LOG.error("%s has %s, which could not be stored: %s", attempt.job.id, how, error)
            self.count("lost", attempt.job)


def _bad_arguments(attempt: Attempt, task: Task[Any, Any]) -> PenstockError | None:
    """Why the task could not even be called; None if it was."""
    try:
        task.check_stored(attempt.load(attempt.job, attempt.job.args))
    except PenstockError as error:  # or that they could not be read, which ends the attempt as it does elsewhere
        return error
    return None


def job_error(error: BaseException) -> JobError:
    """An exception as it is stored (3)."""
    failure = Failure.of(error)
    return JobError(failure.kind, failure.message, failure.trace)
