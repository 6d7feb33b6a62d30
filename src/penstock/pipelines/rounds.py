"""A pipeline's job in the store: its rounds, who runs one, and what they have written down.

1. A job that has completed is never changed. Running it again is a job of its own, `{job_id}~2`, which reads what the
   ones before wrote: the newest of a name is what counts.
2. One run at a time, by the job's lease: a run holds its job from before its first write to after its last, and writes
   under that lease, only into its own job.
3. A run that is alive is never taken over: its lease is renewed beside it. One that was killed is, when its lease has
   run out.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.files import Files
from penstock.files.keys import checked_key
from penstock.jobs.context import JobContext
from penstock.jobs.model.job import BadJob, Job, JobCancelled, JobNotFound, JobRequeued, NewJob
from penstock.jobs.model.state import BadTransition, State
from penstock.jobs.store.store import JobStore
from penstock.leases import new_owner
from penstock.pipelines.definition import BadPipeline, PipelineHeld, required_job_id
from penstock.retry import Backoff

MOST_ROUNDS: Final = 1_000
_ROUND: Final = re.compile(r"~\d+$")
_NOTHING: Final = object()
_MOST_PERCENT: Final = 99.9
"""The last percent is the job's own end."""


class Ledger:
    """The checkpoints of a job and of the rounds before it; `ctx` is None for one who only reads."""

    def __init__(self, store: JobStore, rounds: Sequence[Job], ctx: JobContext | None = None) -> None:
        """`rounds` are the job's, the newest first; the run's own is the first."""
        self._store = store
        self._rounds = tuple(rounds)
        self.ctx = ctx

    @property
    def files(self) -> Files | None:
        return self._store.files

    def read(self, name: str) -> Any:
        """The newest value of that name; None without one. Raises FileMissing or FileChanged if it lay in a file."""
        older = self._rounds
        if self.ctx is not None:
            found = self.ctx.resume(name, _NOTHING)
            if found is not _NOTHING:
                return found
            older = self._rounds[1:]
        for job in older:
            checkpoint = self._store.checkpoint(job.id, name)
            if checkpoint is not None:
                return self._store.load(job, checkpoint.data)
        return None

    def write(self, name: str, value: Any, *, summary: str = "", percent: float | None = None) -> None:
        """Keeps it. A run that should stop is told so by `stop_if_asked` only: that is asked between two steps."""
        progress = None if percent is None else min(percent, _MOST_PERCENT)
        try:
            self._running.checkpoint(name, value, summary=summary, progress=progress)
        except JobRequeued:
            return  # what was to be written is written

    def stop_if_asked(self) -> None:
        """Raises JobRequeued where the run should end, and JobCancelled or LeaseLost where it has."""
        ctx = self._running
        ctx.stop_if_asked()
        if ctx.cancelled:
            ctx.log("it should stop")  # refused, with what is the matter

    def tell(self, step: str, message: str, percent: float) -> None:
        self._running.progress(min(percent, _MOST_PERCENT), step=step, message=message)

    @property
    def _running(self) -> JobContext:
        assert self.ctx is not None, "whoever only reads writes nothing"
        return self.ctx


def rounds(store: JobStore, job_id: str) -> list[Job]:
    """The job and its further rounds, the newest first; none where there is no such job."""
    found: list[Job] = []
    for number in range(1, MOST_ROUNDS):
        try:
            found.insert(0, store.get(round_id(job_id, number)))
        except JobNotFound:
            break
        if found[0].state is not State.COMPLETED:
            break
    return found


def round_id(job_id: str, number: int) -> str:
    """The id of the job that is a job's first, second, … round."""
    return job_id if number == 1 else f"{job_id}~{number}"


def checked_job_id(pipeline: str, job_id: str | None) -> str:
    """An id that a job of a pipeline may have. Raises JobIdRequired, BadJob."""
    job_id = required_job_id(job_id)
    checked_key(job_id)  # its files lie under it
    if _ROUND.search(job_id):
        problem = f"the job id {job_id!r} ends as that of a further round does: name the job itself"
        raise BadPipeline(pipeline, [problem])
    return job_id


QUEUE: Final = "pipelines"
"""Of jobs that are run by whoever calls `run`: no worker looks there unless it is told to."""

_POLLS: Final = Backoff(0.02, 1.5, 0.5)
_TRIES: Final = 100


def claim_round(
    store: JobStore, pipeline: str, job_id: str, number: int, *, lease_seconds: float, wait_seconds: float
) -> Job | None:
    """The round of the job, held by us; None where it has completed meanwhile. Raises PipelineHeld, JobCancelled."""
    new = NewJob(pipeline, {"job_id": job_id}, queue=QUEUE, id=round_id(job_id, number))
    owner = new_owner()
    end = time.monotonic() + wait_seconds
    tries = 0
    while True:
        job = _find_or_create(store, new)
        if job.state is State.COMPLETED:
            return None
        if job.state is State.CANCELLED:
            raise JobCancelled(job.id, job.cancel_reason or "")
        got = _claim(store, job, owner, lease_seconds)
        if got is not None:
            return got
        tries += 1
        _wait(store.get(job.id), end, tries)


def _find_or_create(store: JobStore, new: NewJob) -> Job:
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
    """The job if it can be had now. One that failed is tried again: somebody has asked for it."""
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
    time.sleep(_POLLS.bound(tries))
