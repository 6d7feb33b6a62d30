"""What may happen to a drawing, as pure functions: a drawing's job, and what it is afterwards.

1. States, versions, times, leases and counts change as those of every job (jobs/model/transitions.py).
2. A stage's number is raised when it begins, by its holder only: no two attempts ever write a file of the same name.
3. A checkpoint sets the count of dead workers to 0: only a stage that kills again and again fails its job.
4. A job that has ended expires 30 days later; one that has not does not expire.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from penstock.files.content import SavedFile
from penstock.jobs.model import transitions
from penstock.jobs.model.job import Job, JobError
from penstock.jobs.model.state import State
from penstock.jobs.model.transitions import ChangedJob, copy_with
from penstock.jobs.sources import NEVER_EXPIRES
from penstock.leases import LeaseLost, grant
from penstock.systems.security_assistant.jobs.job import KEEP_SECONDS, Checkpoint, DrawingJob

Change = Callable[[DrawingJob], DrawingJob]

_NOT_STORED: Final = {"events": (), "error": None, "progress": 0.0, "suspect": False}
"""What a drawing has in its own way: events in a table of their own, an error with its stage, checkpoints."""


def started(job: DrawingJob, owner: str, seconds: float, now: float) -> DrawingJob:
    """A worker has claimed it."""
    return _after(job, transitions.start(job.lifecycle, grant(job.lifecycle.token, owner, now, seconds), now))


def taken_over(job: DrawingJob, owner: str, seconds: float, now: float) -> DrawingJob:
    """Its worker has died: another one continues it, unless it has lost too many in one stage (3)."""
    # One drawing at a time: whoever dies beside it dies of it.
    after = _after(job, transitions.take_over(copy_with(job.lifecycle, {"suspect": True}), owner, seconds, now))
    if not after.is_terminal:
        return after
    last = "" if job.lease is None else job.lease.owner
    message = f"It has lost {after.lifecycle.crashes} workers in one stage, the last one {last}."
    return replace(after, error={"kind": "Parked", "message": f"{message} Find out why, then resume it."})


def renewed(job: DrawingJob, now: float) -> DrawingJob:
    if job.lease is None:
        raise LeaseLost(job.id)
    return _after(job, transitions.renew_lease(job.lifecycle, now))


def stage_started(job: DrawingJob, stage: str, stale: frozenset[str], now: float) -> DrawingJob:
    """It has a number of its own now (2); the lease is renewed with it.

    `stale` are the checkpoints of this stage and of those after it: they were made from other data.
    """
    numbers = {**job.stage_versions, stage: job.stage_versions.get(stage, 0) + 1}
    kept = {name: point for name, point in job.checkpoints.items() if name not in stale}
    return replace(renewed(job, now), stage_versions=numbers, checkpoints=kept)


def stage_completed(
    job: DrawingJob,
    name: str,
    point: Checkpoint,
    outputs: Mapping[str, SavedFile],
    metadata: Mapping[str, Any],
    now: float,
) -> DrawingJob:
    """Its checkpoint, whose file is there already; `outputs` are files for people, by kind."""
    after = renewed(job, now)
    return replace(
        after,
        lifecycle=copy_with(after.lifecycle, {"crashes": 0}),
        checkpoints={**job.checkpoints, name: point},
        saved={**job.saved, **{file.key: file for file in outputs.values()}},
        output_files={**job.output_files, **{kind: file.key for kind, file in outputs.items()}},
        metadata={**job.metadata, **metadata},
    )


def requeued(job: DrawingJob, now: float) -> DrawingJob:
    """Its worker's time is up: another one continues it after the last checkpoint."""
    return _after(job, transitions.requeue(job.lifecycle, "", now))


def retrying(job: DrawingJob, error: Mapping[str, Any], at: float, now: float) -> DrawingJob:
    return _after(job, transitions.schedule_retry(job.lifecycle, _job_error(error), at, now), error=error)


def completed(job: DrawingJob, metadata: Mapping[str, Any], now: float) -> DrawingJob:
    after = transitions.complete(job.lifecycle, None, now)
    return _after(job, after, metadata={**job.metadata, **metadata}, error=None)


def failed(job: DrawingJob, error: Mapping[str, Any], now: float) -> DrawingJob:
    return _after(job, transitions.fail(job.lifecycle, _job_error(error), now), error=error)


def retried(job: DrawingJob, now: float) -> DrawingJob:
    """A failed job, once more, with the checkpoints it has."""
    return _after(job, transitions.retry(job.lifecycle, now))


def check_held(held: DrawingJob, current: DrawingJob) -> None:
    """Raises LeaseLost where the job is another worker's now, or nobody's."""
    if current.state is not State.PROCESSING or current.lifecycle.token != held.lifecycle.token:
        owner = current.lease.owner if current.lease else None
        raise LeaseLost(held.id, owner, "" if owner else f"it is {current.state}")


def _job_error(error: Mapping[str, Any]) -> JobError:
    return JobError(error["kind"], error["message"])


def _after(job: DrawingJob, changed: ChangedJob, **changes: Any) -> DrawingJob:
    before, after = job.lifecycle, changed.job
    waits = after.state is State.QUEUED and after.run_at > after.updated_at
    run_at = after.run_at if waits else after.created_at
    lifecycle = copy_with(after, {**_NOT_STORED, "run_at": run_at, "expires_at": _expiry(before, after)})
    return replace(job, lifecycle=lifecycle, **changes)


def _expiry(before: Job, after: Job) -> int:
    if after.is_terminal and after.ended_at is not None:
        return int(after.ended_at) + KEEP_SECONDS
    return NEVER_EXPIRES if before.is_terminal else before.expires_at
