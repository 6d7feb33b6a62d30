"""Who runs a pipeline's job: one run at a time, by the job's lease.

1. A run holds its job from before its first write to after its last; what it writes is fenced by the lease's token.
2. A run that is alive is never taken over: its lease is renewed beside it. One that was killed is, when its lease has
   run out.
"""

from __future__ import annotations

import logging
import threading
import time
from types import TracebackType
from typing import Final

from penstock.errors import PenstockError
from penstock.jobs.model.job import Job, JobCancelled, JobNotFound
from penstock.jobs.model.new_job import BadJob, NewJob
from penstock.jobs.model.state import BadTransition, State
from penstock.jobs.store.store import JobStore
from penstock.jobs.worker.context import Run
from penstock.leases import LeaseLost, new_owner
from penstock.pipelines.errors import PipelineHeld
from penstock.pipelines.ledger import round_id

QUEUE: Final = "pipelines"
"""Of jobs that are run by whoever calls `run`: no worker looks there unless it is told to."""

_LOG = logging.getLogger("penstock.pipelines")
_PAUSES_SECONDS: Final = (0.02, 0.5)
_LONGEST_PAUSE_SECONDS: Final = 1.0
_SHORTEST_PAUSE_SECONDS: Final = 0.02
_TRIES: Final = 100


def claimed(
    store: JobStore, pipeline: str, job_id: str, number: int, *, lease_seconds: float, wait_seconds: float
) -> Job | None:
    """The round of the job, held by us; None where it has completed meanwhile. Raises PipelineHeld, JobCancelled."""
    new = NewJob(pipeline, {"job_id": job_id}, queue=QUEUE, id=round_id(job_id, number))
    owner = new_owner()
    end = time.monotonic() + wait_seconds
    tries = 0
    while True:
        job = _made(store, new)
        if job.state is State.COMPLETED:
            return None
        if job.state is State.CANCELLED:
            raise JobCancelled(job.id, job.cancel_reason or "")
        got = _claim(store, job, owner, lease_seconds)
        if got is not None:
            return got
        tries += 1
        _wait(store.get(job.id), end, tries)


def _made(store: JobStore, new: NewJob) -> Job:
    """The job, which is made if it is new."""
    assert new.id is not None
    try:
        job = store.get(new.id)
    except JobNotFound:
        job, _ = store.create(new)
    if job.task != new.task or store.load(job, job.args) != new.args:
        raise BadJob(f"{job.id} is no job of the pipeline {new.task}: something else has that id. Choose another one.")
    return job


def _claim(store: JobStore, job: Job, owner: str, lease_seconds: float) -> Job | None:
    """The job if it can be had now. One that failed, or was parked, is tried again: somebody has asked for it."""
    if job.state is State.FAILED:
        try:
            job = store.retry(job.id)
        except BadTransition:  # another run was quicker
            return None
    return store.claim(job, owner, lease_seconds)


def _wait(job: Job, end: float, tries: int) -> None:
    """Waits a little for whoever holds the job; raises PipelineHeld when the time is over."""
    lease = job.lease
    if job.state is State.PROCESSING and lease is not None:
        if time.monotonic() >= end:
            raise PipelineHeld(job.id, lease.owner, lease.takeable_at)
    elif tries > _TRIES:
        raise PenstockError(f"{job.id}: others took and left it {tries} times. Try again.")
    shortest, longest = _PAUSES_SECONDS
    time.sleep(min(longest, shortest * tries))


class Renewing:
    """Renews the lease of a run for as long as it is entered (2)."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="penstock-pipeline-lease", daemon=True)

    def __enter__(self) -> Renewing:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._ended.wait(self._pause()):
            if self._run.renewal_due_in() <= 0 and not self._renew():
                return

    def _pause(self) -> float:
        return max(_SHORTEST_PAUSE_SECONDS, min(self._run.renewal_due_in(), _LONGEST_PAUSE_SECONDS))

    def _renew(self) -> bool:
        """False when there is nothing to renew any more: the run is told at its next write."""
        try:
            self._run.renew()
        except LeaseLost:
            return False
        except JobCancelled:
            pass
        except Exception as error:  # the database is away: it is asked again until the lease is over
            _LOG.warning("%s: its lease could not be renewed: %s", self._run.id, error)
            if self._run.has_expired:
                self._run.give_up(LeaseLost(self._run.id, None, f"it could not be renewed: {error}"))
                return False
        return True
