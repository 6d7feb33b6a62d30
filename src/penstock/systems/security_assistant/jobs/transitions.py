"""What may happen to a job, as pure functions: a job, and what it is afterwards.

1. Each raises the version by one; two changes of one version cannot both be written.
2. States change by the one table of `penstock.jobs.model.state`.
3. A stage's number is raised when it begins, by its holder only: no two attempts ever write a file of the same name.
4. A checkpoint makes the deaths of workers forgotten: only a stage that kills again and again parks its job.
5. A job that has ended expires 30 days later; one that has not does not expire.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from penstock.clock import utc_text
from penstock.files.content import SavedFile
from penstock.jobs.model.state import State, target
from penstock.leases import LeaseLost, grant
from penstock.stored_text import cut
from penstock.systems.security_assistant.jobs.job import KEEP_SECONDS, Checkpoint, DrawingJob

Change = Callable[[DrawingJob], DrawingJob]

MOST_CRASHES: Final = 3
_MESSAGE_CHARACTERS: Final = 4_000


def started(job: DrawingJob, owner: str, seconds: float, now: float) -> DrawingJob:
    """A worker has claimed it."""
    lease = grant(job.token, owner, now, seconds)
    first = now if job.started_at is None else job.started_at
    attempt = job.attempt + 1
    return _moved(job, "started", now, lease=lease, token=lease.token, attempt=attempt, started_at=first, retry_at=None)


def taken_over(job: DrawingJob, owner: str, seconds: float, now: float) -> DrawingJob:
    """Its worker has died: another one goes on, unless it has lost too many in one stage (4)."""
    crashes = job.crashes + 1
    if crashes >= MOST_CRASHES:
        gone = "" if job.lease is None else job.lease.owner
        told = f"It has lost {crashes} workers in one stage, the last one {gone}. Find out why, then resume it."
        return _ended(job, "parked", now, crashes=crashes, error=error_form("Parked", told))
    lease = grant(job.token, owner, now, seconds)
    return _moved(job, "taken_over", now, lease=lease, token=lease.token, attempt=job.attempt + 1, crashes=crashes)


def renewed(job: DrawingJob, now: float) -> DrawingJob:
    if job.lease is None:
        raise LeaseLost(job.id)
    return _later(job, now, lease=job.lease.renew(now))


def stage_begun(job: DrawingJob, stage: str, stale: frozenset[str], now: float) -> DrawingJob:
    """It has a number of its own now (3); the lease is renewed with it.

    `stale` are the checkpoints of this stage and of those after it: they were made from other data.
    """
    numbers = {**job.stage_versions, stage: job.stage_versions.get(stage, 0) + 1}
    kept = {name: point for name, point in job.checkpoints.items() if name not in stale}
    return replace(renewed(job, now), stage_versions=numbers, checkpoints=kept)


def stage_done(
    job: DrawingJob,
    name: str,
    point: Checkpoint,
    files: Mapping[str, SavedFile],
    now: float,
    *,
    outputs: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> DrawingJob:
    """Its checkpoint, whose file is there already."""
    return replace(
        renewed(job, now),
        checkpoints={**job.checkpoints, name: point},
        saved={**job.saved, **files},
        output_files={**job.output_files, **(outputs or {})},
        metadata={**job.metadata, **(metadata or {})},
        crashes=0,
    )


def handed_over(job: DrawingJob, now: float) -> DrawingJob:
    """Its worker's time is up: another one goes on after the last checkpoint."""
    return _moved(job, "handed_over", now, lease=None)


def retrying(job: DrawingJob, error: Mapping[str, Any], at: float, now: float) -> DrawingJob:
    return _moved(job, "retrying", now, lease=None, error=error, failures=job.failures + 1, retry_at=at)


def completed(job: DrawingJob, metadata: Mapping[str, Any], now: float) -> DrawingJob:
    return _ended(job, "completed", now, metadata={**job.metadata, **metadata}, error=None)


def failed(job: DrawingJob, error: Mapping[str, Any], now: float) -> DrawingJob:
    return _ended(job, "failed", now, error=error, failures=job.failures + 1)


def retried(job: DrawingJob, now: float) -> DrawingJob:
    """A failed job, once more, with the checkpoints it has."""
    return _moved(job, "retried", now, ended_at=None, expires_at=None, failures=0, crashes=0, retry_at=None)


def error_form(kind: str, message: str, stage: str = "") -> dict[str, Any]:
    form = {"kind": kind, "message": cut(message, _MESSAGE_CHARACTERS)}
    return form | {"stage": stage} if stage else form


def check_held(held: DrawingJob, current: DrawingJob) -> None:
    """Raises LeaseLost where the job is another worker's now, or nobody's."""
    if current.state is not State.PROCESSING or current.token != held.token:
        owner = current.lease.owner if current.lease else None
        raise LeaseLost(held.id, owner, "" if owner else f"it is {current.state}")


def checkpoint(saved: SavedFile, version: int, summary: Mapping[str, Any] | None, now: float) -> Checkpoint:
    return Checkpoint(utc_text(now), saved.key, version, saved.sha256, saved.size, summary)


def _ended(job: DrawingJob, event: str, now: float, **changes: Any) -> DrawingJob:
    at = max(now, job.updated_at)
    return _moved(job, event, now, lease=None, retry_at=None, ended_at=at, expires_at=int(at) + KEEP_SECONDS, **changes)


def _moved(job: DrawingJob, event: str, now: float, **changes: Any) -> DrawingJob:
    return _later(job, now, state=target(job.id, job.state, event), **changes)


def _later(job: DrawingJob, now: float, **changes: Any) -> DrawingJob:
    return replace(job, version=job.version + 1, updated_at=max(now, job.updated_at), **changes)
