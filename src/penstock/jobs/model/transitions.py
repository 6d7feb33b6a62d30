"""What may happen to a job, as pure functions: a job, and what it is afterwards.

1. Each raises its version by one, so that two changes of the same version cannot both be written.
2. Time does not go back: a clock that was set back does not make a job older than it was.
3. Progress does not go back either, and it is a number from 0 to 100.
4. A change of state goes by the table in state.py, and gives the event that tells of it.
5. Whatever others have written (errors, reasons) is cut to what an item can hold: a job can always be ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.jobs.model.job import Event, Job, JobError, Payload
from penstock.jobs.model.state import TARGETS, target
from penstock.leases import Lease, grant
from penstock.stored_text import cut

MOST_CRASHES: Final = 3
"""A job that has killed this many workers has failed: the next one would very likely die too."""

KILLED_WORKERS: Final = "WorkerDied"
"""The kind of error of such a job."""

FULL: Final = 100.0


KEPT_EVENTS: Final = 8
"""The main record holds so many, so that a change of state is one write of one item; then the older half moves out."""


class ChangedJob:
    """A job after a change, the event that tells of it, and older ones that its main record no longer holds."""

    __slots__ = ("event", "job", "moved_out")

    def __init__(self, job: Job, event: Event | None = None, moved_out: tuple[Event, ...] = ()) -> None:
        self.job = job
        self.event = event
        self.moved_out = moved_out


Change = Callable[[Job], ChangedJob]


def copy_with(job: Job, changes: Mapping[str, Any]) -> Job:
    """`dataclasses.replace` in a tenth of its time: every change of every job goes through here."""
    changed = object.__new__(Job)
    object.__setattr__(changed, "__dict__", {**job.__dict__, **changes})
    return changed


def create(job: Job, args: Payload) -> ChangedJob:
    """It is new, with these arguments."""
    event = Event(job.version, "created", job.created_at)
    return ChangedJob(copy_with(job, {"args": args, "events": (event,)}), event)


def start(job: Job, lease: Lease, now: float) -> ChangedJob:
    """A worker has claimed it: it is queued, and due."""
    first = now if job.started_at is None else job.started_at
    changes = {
        "lease": lease,
        "token": lease.token,
        "attempt": job.attempt + 1,
        "started_at": first,
        "turn": None,
        "pool": "",
    }
    return _move(job, "started", now, changes)


def take_over(job: Job, owner: str, seconds: float, now: float) -> ChangedJob:
    """Its worker has died: another one has taken it, unless it has killed too many."""
    gone = "" if job.lease is None else job.lease.owner
    crashes = job.crashes + 1
    if crashes >= MOST_CRASHES:
        error = JobError(
            KILLED_WORKERS,
            f"It has ended or lost {crashes} workers, the last one {gone}. Find out why, then "
            f"`penstock jobs retry {job.id}`.",
        )
        return _end(job, "parked", now, {"crashes": crashes, "error": error}, f"{crashes} workers lost", gone)
    lease = grant(job.token, owner, now, seconds)
    changes = {"lease": lease, "token": lease.token, "attempt": job.attempt + 1, "crashes": crashes}
    return _move(job, "taken_over", now, changes, f"from {gone}")


def requeue(job: Job, reason: str, now: float) -> ChangedJob:
    """Its worker gives it back, at a checkpoint or before it began."""
    return _move(job, "handed_over", now, {"lease": None, "run_at": now}, cut(reason, _DETAIL_CHARACTERS))


def schedule_retry(job: Job, error: JobError, at: float, now: float) -> ChangedJob:
    """The attempt failed; the next one begins at `at`."""
    error = _shorten(error)
    changes = {
        "lease": None,
        "run_at": min(max(now, at), now + _LONGEST_DELAY_SECONDS),  # also where `at` is no number
        "failures": job.failures + 1,
        "error": error,
    }
    return _move(job, "retrying", now, changes, cut(f"{error.kind}: {error.message}", _DETAIL_CHARACTERS))


def complete(job: Job, result: Payload | None, now: float) -> ChangedJob:
    return _end(job, "completed", now, {"result": result, "progress": FULL, "error": None})


def fail(job: Job, error: JobError, now: float) -> ChangedJob:
    error = _shorten(error)
    detail = cut(f"{error.kind}: {error.message}", _DETAIL_CHARACTERS)
    return _end(job, "failed", now, {"failures": job.failures + 1, "error": error}, detail)


def cancel(job: Job, reason: str, now: float) -> ChangedJob:
    reason = cut(reason, _DETAIL_CHARACTERS)
    return _end(job, "cancelled", now, {"cancel_reason": reason, "pool": ""}, reason)


def request_cancel(job: Job, reason: str, now: float) -> ChangedJob:
    """Its worker is told at its next report."""
    reason = cut(reason, _DETAIL_CHARACTERS)
    return _add_event(job, "cancel_asked", now, "", reason, {"cancel_reason": reason})


def retry(job: Job, now: float) -> ChangedJob:
    """A failed job, once more: its checkpoints are still there, its counts begin again."""
    changes = {"run_at": now, "failures": 0, "crashes": 0, "ended_at": None, "cancel_reason": None}
    return _move(job, "retried", now, changes)


def move_to_pool(job: Job, pool: str, now: float) -> ChangedJob:
    """It is queued and due, and waits there from now on; "" is among the ready ones."""
    return ChangedJob(_touch(job, now, {"pool": pool}))


def extend_retention(job: Job, expires_at: int, now: float) -> ChangedJob:
    """It expires later: it has not ended, and would be gone too soon."""
    return ChangedJob(_touch(job, now, {"expires_at": max(job.expires_at, expires_at)}))


def renew_lease(job: Job, now: float) -> ChangedJob:
    return ChangedJob(_touch(job, now, {"lease": None if job.lease is None else job.lease.renew(now)}))


def add_entry(
    job: Job, now: float, *, progress: float | None = None, step: str | None = None, renew: bool = True
) -> ChangedJob:
    """A numbered entry more; the lease is renewed with it."""
    lease = job.lease.renew(now) if renew and job.lease is not None else job.lease
    changes = {
        "entries": job.entries + 1,
        "progress": job.progress if progress is None else max(job.progress, progress),
        "step": job.step if step is None else cut(step, _STEP_CHARACTERS),
        "lease": lease,
    }
    return ChangedJob(_touch(job, now, changes))


def complete_parents(job: Job, parents: frozenset[str], now: float) -> ChangedJob:
    """Some of the jobs it waits for have completed."""
    return ChangedJob(_touch(job, now, _remove_parents(job, parents, now)))


def finish_registration(job: Job, completed: frozenset[str], now: float) -> ChangedJob:
    """All of those that it waits for will tell it, but for those that have completed."""
    return ChangedJob(_touch(job, now, {"unregistered": False, **_remove_parents(job, completed, now)}))


def _remove_parents(job: Job, parents: frozenset[str], now: float) -> dict[str, Any]:
    rest = job.waiting_for - parents
    # What becomes claimable now goes behind those that have been so for longer.
    return {"waiting_for": rest, "run_at": max(job.run_at, now) if job.waiting_for and not rest else job.run_at}


def add_child(job: Job, now: float) -> ChangedJob:
    """Another job waits for it."""
    return ChangedJob(_touch(job, now, {"has_children": True}))


def clear_children(job: Job, now: float) -> ChangedJob:
    """Everybody who waited for it knows."""
    return ChangedJob(_touch(job, now, {"has_children": False}))


_DETAIL_CHARACTERS: Final = 1_000
_LONGEST_DELAY_SECONDS: Final = 10 * 365 * 24 * 3600.0
_STEP_CHARACTERS: Final = 200
_KIND_CHARACTERS: Final = 200
_MESSAGE_CHARACTERS: Final = 4_000
_TRACE_CHARACTERS: Final = 16_000


def _shorten(error: JobError) -> JobError:
    """The beginning of its text and the end of its trace: that is where the reason is."""
    trace = cut(error.trace[-_TRACE_CHARACTERS:], _TRACE_CHARACTERS)
    return JobError(cut(error.kind, _KIND_CHARACTERS), cut(error.message, _MESSAGE_CHARACTERS), trace)


# `changes` are fields of the job; each of these adds its own to them.


def _end(job: Job, event: str, now: float, changes: dict[str, Any], detail: str = "", owner: str = "") -> ChangedJob:
    changes["lease"] = None
    changes["ended_at"] = max(now, job.updated_at)
    return _move(job, event, now, changes, detail, owner)


def _move(job: Job, event: str, now: float, changes: dict[str, Any], detail: str = "", owner: str = "") -> ChangedJob:
    changes["state"] = TARGETS.get((event, job.state)) or target(job.id, job.state, event)
    if not owner:
        holder = changes.get("lease") or job.lease
        owner = "" if holder is None else holder.owner
    return _add_event(job, event, now, owner, detail, changes)


def _add_event(job: Job, event: str, now: float, owner: str, detail: str, changes: dict[str, Any]) -> ChangedJob:
    """The changed job, with the event that tells of it among its newest."""
    attempt = changes.get("attempt", job.attempt)
    new = Event(job.version + 1, event, max(now, job.updated_at), attempt, owner, detail)
    kept: tuple[Event, ...] = (*job.events, new)
    moved_out: tuple[Event, ...] = ()
    if len(kept) > KEPT_EVENTS:
        moved_out, kept = kept[: KEPT_EVENTS // 2], kept[KEPT_EVENTS // 2 :]
    changes["events"] = kept
    return ChangedJob(_touch(job, now, changes), new, moved_out)


def _touch(job: Job, now: float, changes: dict[str, Any]) -> Job:
    changes["version"] = job.version + 1
    changes["updated_at"] = max(now, job.updated_at)
    return copy_with(job, changes)
