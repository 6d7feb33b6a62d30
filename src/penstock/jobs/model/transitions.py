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


class Changed:
    """A job after a change, the event that tells of it, and older ones that its main record no longer holds."""

    __slots__ = ("event", "job", "moved_out")

    def __init__(self, job: Job, event: Event | None = None, moved_out: tuple[Event, ...] = ()) -> None:
        self.job = job
        self.event = event
        self.moved_out = moved_out


Change = Callable[[Job], Changed]


def altered(job: Job, changes: Mapping[str, Any]) -> Job:
    """`dataclasses.replace` in a tenth of its time: every change of every job goes through here."""
    changed = object.__new__(Job)
    object.__setattr__(changed, "__dict__", {**job.__dict__, **changes})
    return changed


def created(job: Job, args: Payload) -> Changed:
    """It is new, with these arguments."""
    event = Event(job.version, "created", job.created_at)
    return Changed(altered(job, {"args": args, "events": (event,)}), event)


def started(job: Job, owner: str, seconds: float, now: float) -> Changed:
    """A worker has claimed it: it is queued, and due."""
    lease = grant(job.token, owner, now, seconds)
    first = now if job.started_at is None else job.started_at
    changes = {"lease": lease, "token": lease.token, "attempt": job.attempt + 1, "started_at": first}
    return _moved(job, "started", now, changes)


def taken_over(job: Job, owner: str, seconds: float, now: float) -> Changed:
    """Its worker has died: another one has taken it, unless it has killed too many."""
    gone = "" if job.lease is None else job.lease.owner
    crashes = job.crashes + 1
    if crashes >= MOST_CRASHES:
        error = JobError(
            KILLED_WORKERS,
            f"It has ended or lost {crashes} workers, the last one {gone}. Find out why, then "
            f"`penstock jobs retry {job.id}`.",
        )
        return _ended(job, "parked", now, {"crashes": crashes, "error": error}, f"{crashes} workers lost", gone)
    lease = grant(job.token, owner, now, seconds)
    changes = {"lease": lease, "token": lease.token, "attempt": job.attempt + 1, "crashes": crashes}
    return _moved(job, "taken_over", now, changes, f"from {gone}")


def requeued(job: Job, reason: str, now: float) -> Changed:
    """Its worker gives it back, at a checkpoint or before it began."""
    return _moved(job, "handed_over", now, {"lease": None, "run_at": now}, cut(reason, _DETAIL_CHARACTERS))


def retrying(job: Job, error: JobError, at: float, now: float) -> Changed:
    """The attempt failed; the next one begins at `at`."""
    error = _shortened(error)
    changes = {
        "lease": None,
        "run_at": min(max(now, at), now + _LONGEST_DELAY_SECONDS),  # also where `at` is no number
        "failures": job.failures + 1,
        "error": error,
    }
    return _moved(job, "retrying", now, changes, cut(f"{error.kind}: {error.message}", _DETAIL_CHARACTERS))


def completed(job: Job, result: Payload | None, now: float) -> Changed:
    return _ended(job, "completed", now, {"result": result, "progress": FULL, "error": None})


def failed(job: Job, error: JobError, now: float) -> Changed:
    error = _shortened(error)
    detail = cut(f"{error.kind}: {error.message}", _DETAIL_CHARACTERS)
    return _ended(job, "failed", now, {"failures": job.failures + 1, "error": error}, detail)


def cancelled(job: Job, reason: str, now: float) -> Changed:
    reason = cut(reason, _DETAIL_CHARACTERS)
    return _ended(job, "cancelled", now, {"cancel_reason": reason}, reason)


def cancel_asked(job: Job, reason: str, now: float) -> Changed:
    """Its worker is told at its next report."""
    reason = cut(reason, _DETAIL_CHARACTERS)
    return _with_event(job, "cancel_asked", now, "", reason, {"cancel_reason": reason})


def retried(job: Job, now: float) -> Changed:
    """A failed job, once more: its checkpoints are still there, its counts begin again."""
    changes = {"run_at": now, "failures": 0, "crashes": 0, "ended_at": None, "cancel_reason": None}
    return _moved(job, "retried", now, changes)


def kept_longer(job: Job, expires_at: int, now: float) -> Changed:
    """It expires later: it has not ended, and would be gone too soon."""
    return Changed(_later(job, now, {"expires_at": max(job.expires_at, expires_at)}))


def renewed(job: Job, lease: Lease, now: float) -> Changed:
    return Changed(_later(job, now, {"lease": lease}))


def reported(
    job: Job, now: float, *, progress: float | None = None, step: str | None = None, renew: bool = True
) -> Changed:
    """A numbered entry more; the lease is renewed with it."""
    lease = job.lease.renewed(now) if renew and job.lease is not None else job.lease
    changes = {
        "entries": job.entries + 1,
        "progress": job.progress if progress is None else max(job.progress, progress),
        "step": job.step if step is None else cut(step, _STEP_CHARACTERS),
        "lease": lease,
    }
    return Changed(_later(job, now, changes))


def parents_completed(job: Job, parents: frozenset[str], now: float) -> Changed:
    """Some of the jobs it waits for have completed."""
    return Changed(_later(job, now, _without(job, parents, now)))


def registered(job: Job, completed: frozenset[str], now: float) -> Changed:
    """All of those that it waits for will tell it, but for those that have completed."""
    return Changed(_later(job, now, {"unregistered": False, **_without(job, completed, now)}))


def _without(job: Job, parents: frozenset[str], now: float) -> dict[str, Any]:
    rest = job.waiting_for - parents
    # What becomes claimable now goes behind those that have been so for longer.
    return {"waiting_for": rest, "run_at": max(job.run_at, now) if job.waiting_for and not rest else job.run_at}


def awaited(job: Job, now: float) -> Changed:
    """Another job waits for it."""
    return Changed(_later(job, now, {"has_children": True}))


def children_notified(job: Job, now: float) -> Changed:
    """Everybody who waited for it knows."""
    return Changed(_later(job, now, {"has_children": False}))


_DETAIL_CHARACTERS: Final = 1_000
_LONGEST_DELAY_SECONDS: Final = 10 * 365 * 24 * 3600.0
_STEP_CHARACTERS: Final = 200
_KIND_CHARACTERS: Final = 200
_MESSAGE_CHARACTERS: Final = 4_000
_TRACE_CHARACTERS: Final = 16_000


def _shortened(error: JobError) -> JobError:
    """The beginning of its text and the end of its trace: that is where the reason is."""
    trace = cut(error.trace[-_TRACE_CHARACTERS:], _TRACE_CHARACTERS)
    return JobError(cut(error.kind, _KIND_CHARACTERS), cut(error.message, _MESSAGE_CHARACTERS), trace)


# `changes` are fields of the job; each of these adds its own to them.


def _ended(job: Job, event: str, now: float, changes: dict[str, Any], detail: str = "", owner: str = "") -> Changed:
    changes["lease"] = None
    changes["ended_at"] = max(now, job.updated_at)
    return _moved(job, event, now, changes, detail, owner)


def _moved(job: Job, event: str, now: float, changes: dict[str, Any], detail: str = "", owner: str = "") -> Changed:
    changes["state"] = TARGETS.get((event, job.state)) or target(job.id, job.state, event)
    if not owner:
        holder = changes.get("lease") or job.lease
        owner = "" if holder is None else holder.owner
    return _with_event(job, event, now, owner, detail, changes)


def _with_event(job: Job, event: str, now: float, owner: str, detail: str, changes: dict[str, Any]) -> Changed:
    """The changed job, with the event that tells of it among its newest."""
    attempt = changes.get("attempt", job.attempt)
    new = Event(job.version + 1, event, max(now, job.updated_at), attempt, owner, detail)
    kept: tuple[Event, ...] = (*job.events, new)
    moved_out: tuple[Event, ...] = ()
    if len(kept) > KEPT_EVENTS:
        moved_out, kept = kept[: KEPT_EVENTS // 2], kept[KEPT_EVENTS // 2 :]
    changes["events"] = kept
    return Changed(_later(job, now, changes), new, moved_out)


def _later(job: Job, now: float, changes: dict[str, Any]) -> Job:
    changes["version"] = job.version + 1
    changes["updated_at"] = max(now, job.updated_at)
    return altered(job, changes)
