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

from penstock.jobs.model.job import ANY_COMPLETED, Event, Job, JobError, Payload, Wait, job_of_fields, waiting_parts
from penstock.jobs.model.state import TARGETS, BadTransition, State, target
from penstock.leases import AbandonedLease, Lease, grant
from penstock.stored_text import cut

MOST_CRASHES: Final = 3
"""By default, a job that has killed this many workers while it ran alone has failed: the next would very likely die."""

MOST_REQUEUES: Final = 100
"""A task that asks to be requeued this often without a new checkpoint has failed: it would do so for ever."""

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
    return job_of_fields({**job.__dict__, **changes})


def create(job: Job, args: Payload) -> ChangedJob:
    """It is new, with these arguments."""
    detail = f"forked from {job.forked_from}" if job.forked_from else ""
    event = Event(job.version, "created", job.created_at, detail=detail)
    return ChangedJob(copy_with(job, {"args": args, "events": (event,)}), event)


def start(job: Job, lease: Lease, now: float, task_version: int = 1) -> ChangedJob:
    """A worker has claimed it: it is queued, and due. Its first start says with which version of its task it began."""
    first = now if job.started_at is None else job.started_at
    changes = {
        "lease": lease,
        "token": lease.token,
        "attempt": job.attempt + 1,
        "started_at": first,
        "turn": None,
        "pool": "",
        "rate_at": None,
    }
    if job.started_at is None and task_version != job.task_version:
        changes["task_version"] = task_version
    return _move(job, "started", now, changes)


def take_over(job: Job, owner: str, seconds: float, now: float, max_crashes: int = MOST_CRASHES) -> ChangedJob:
    """Its worker is gone: another one has taken it, unless it has killed too many.

    A job that ran beside others is only a suspect after a crash: it runs alone next, and is charged for a crash then.
    """
    gone = "" if job.lease is None else job.lease.owner
    why, excuse = "whose lease ran out", ""
    if isinstance(job.lease, AbandonedLease):
        why = "whose process has ended" if job.lease.has_ended else why
        excuse = job.lease.excuse
    crashes = job.crashes + (job.suspect and not excuse)
    if crashes > job.crashes and crashes >= max_crashes:
        error = JobError(
            KILLED_WORKERS,
            f"It has ended or lost {crashes} workers while it ran alone, the last one {gone}. Find out why, then "
            f"`penstock jobs retry {job.id}`.",
        )
        return _end(job, "parked", now, {"crashes": crashes, "error": error}, f"{crashes} workers lost", gone)
    lease = grant(job.token, owner, now, seconds)
    changes: dict[str, Any] = {"lease": lease, "token": lease.token, "attempt": job.attempt + 1}
    if excuse:
        return _move(job, "taken_over", now, changes, f"from {gone}: no crash, {excuse}")
    changes |= {"crashes": crashes, "suspect": True}
    charged = f"crash {crashes} of {max_crashes}" if job.suspect else "it runs alone now"
    return _move(job, "taken_over", now, changes, f"from {gone}, {why}: {charged}")


def start_copy(job: Job, lease: Lease, now: float) -> ChangedJob:
    """A copy that was pulled from another database begins an attempt, whatever its state.

    The table of states is about a job that workers and other jobs rely on. Nobody relies on a copy: it waits for no
    job, none waits for it, and what its original has become stays as it is.
    """
    detail = f"a copy from {job.pulled_from}, which was {job.state}"
    changes = {
        "state": State.PROCESSING,
        "lease": lease,
        "token": lease.token,
        "attempt": job.attempt + 1,
        "started_at": now if job.started_at is None else job.started_at,
        "ended_at": None,
        "result": None,
        "cancel_reason": None,
        "cancelled_by": None,
        "waiting_for": frozenset(),
        "waiting_parts": 0,
        "unregistered": False,
        "has_children": False,
        "reviving": False,
        "parked": False,
        "suspect": False,
        "crashes": 0,
        "turn": None,
        "pool": "",
    }
    return _add_event(job, "started", now, lease.owner, cut(detail, _DETAIL_CHARACTERS), changes)


def requeue(job: Job, reason: str, now: float, requeues: int | None = None, at: float | None = None) -> ChangedJob:
    """Its worker gives it back, at a checkpoint or before it began; `requeues` is the job's new count of them.

    It is due at once, or `at` that time.
    """
    changes = {
        "lease": None,
        "run_at": now if at is None else max(now, at),
        "requeues": job.requeues if requeues is None else requeues,
    }
    return _move(job, "handed_over", now, changes, cut(reason, _DETAIL_CHARACTERS))


def suspend(
    job: Job,
    wait: Wait,
    now: float,
    *,
    is_due: bool = False,
    waiting_for: frozenset[str] = frozenset(),
    parts: int = 0,
) -> ChangedJob:
    """Its task waits, and continues when the time, an event or the end of its children makes it due.

    No budget is used up: it has got here, and its worker lives. `is_due`: the event came at this moment.
    """
    changes = {
        "lease": None,
        "run_at": now if is_due or wait.until is None else max(now, wait.until),
        "wait": wait,
        "parked": bool(wait.event) and wait.until is None and not is_due,
        "suspect": False,
        "crashes": 0,
        "requeues": 0,
        "waiting_for": waiting_for,
        "waiting_parts": parts,
        "unregistered": bool(waiting_for or parts),
    }
    return _move(job, "suspended", now, changes, cut(f"{wait.key}: {wait.text}", _DETAIL_CHARACTERS))


def deliver(job: Job, event: str, now: float) -> ChangedJob:
    """An event has been sent to it: it is due now if it waits for that."""
    changes: dict[str, Any] = {"sent": job.sent + 1, "unread": job.unread + 1}
    waits = job.state is State.QUEUED and job.wait is not None and job.wait.event == event
    if waits and (job.parked or job.run_at > now):
        changes |= {"parked": False, "run_at": now}
    return ChangedJob(_touch(job, now, changes))


def keep_operation(job: Job, now: float, *, taken: int = 0, children: int = 0) -> ChangedJob:
    """It got further: its operation is stored, with so many events that it takes or children that it makes by it."""
    changes = {
        "lease": None if job.lease is None else job.lease.renew(now),
        "unread": job.unread - taken,
        "child_count": job.child_count + children,
        "crashes": 0,
        "suspect": False,
    }
    return ChangedJob(_touch(job, now, changes))


def schedule_retry(job: Job, error: JobError, at: float, now: float) -> ChangedJob:
    """The attempt failed; the next one begins at `at`."""
    error = _shorten(error)
    changes = {
        "lease": None,
        "run_at": min(max(now, at), now + _LONGEST_DELAY_SECONDS),  # also where `at` is no number
        "failures": job.failures + 1,
        "error": error,
        "wait": None,
        "suspect": False,  # it has run to an end, and its worker lives
    }
    return _move(job, "retrying", now, changes, cut(f"{error.kind}: {error.message}", _DETAIL_CHARACTERS))


def complete(job: Job, result: Payload | None, now: float) -> ChangedJob:
    return _end(job, "completed", now, {"result": result, "progress": FULL, "error": None})


def fail(job: Job, error: JobError, now: float) -> ChangedJob:
    error = _shorten(error)
    detail = cut(f"{error.kind}: {error.message}", _DETAIL_CHARACTERS)
    return _end(job, "failed", now, {"failures": job.failures + 1, "error": error}, detail)


def cancel(
    job: Job, reason: str, now: float, cancelled_by: str | None = None, *, cancel_children: bool = False
) -> ChangedJob:
    """`cancelled_by` is the job that did not complete and that this one depends on, if that is why."""
    reason = cut(reason, _DETAIL_CHARACTERS)
    changes = {"cancel_reason": reason, "cancelled_by": cancelled_by, "reviving": False, "pool": ""}
    changes |= _cancel_children(job, cancel_children)
    return _end(job, "cancelled", now, changes, reason)


def request_cancel(job: Job, reason: str, now: float, *, cancel_children: bool = False) -> ChangedJob:
    """Its worker is told at its next report."""
    reason = cut(reason, _DETAIL_CHARACTERS)
    changes = {"cancel_reason": reason, **_cancel_children(job, cancel_children)}
    return _add_event(job, "cancel_asked", now, "", reason, changes)


def _cancel_children(job: Job, wanted: bool) -> dict[str, Any]:
    """Whoever settles its end cancels them."""
    if not job.child_count or not (wanted or job.cancel_children):
        return {}
    return {"cancel_children": True, "has_children": True}


def retry(job: Job, now: float) -> ChangedJob:
    """A failed job, once more: its checkpoints are still there, its counts begin again."""
    changes = {
        "run_at": now,
        "failures": 0,
        "crashes": 0,
        "suspect": False,
        "requeues": 0,
        "ended_at": None,
        "cancel_reason": None,
        "wait": None,
    }
    return _move(job, "retried", now, {**changes, **_revive_children(job)})


def reschedule(job: Job, at: float, now: float, detail: str = "") -> ChangedJob:
    """A job that is due later becomes due at another time. Raises BadTransition of one that no time keeps."""
    if job.state is not State.QUEUED or job.is_waiting or job.parked or job.wait is not None or job.pool:
        raise BadTransition(job.id, "rescheduled", job.state)
    changes = {"run_at": max(at, now), "turn": None, "rate_at": None}
    return _add_event(job, "rescheduled", now, "", cut(detail, _DETAIL_CHARACTERS), changes)


def revive(job: Job, parent_id: str, now: float) -> ChangedJob:
    """The job that it was cancelled because of is queued again: it waits for all that it depends on."""
    if job.cancelled_by is None:
        raise BadTransition(job.id, "revived", job.state)
    changes = {
        "waiting_for": frozenset(job.depends_on),
        "waiting_parts": waiting_parts(job.dependency_count),
        "unregistered": True,
        "cancel_reason": None,
        "cancelled_by": None,
        "ended_at": None,
    }
    return _move(job, "revived", now, {**changes, **_revive_children(job)}, f"{parent_id} is queued again")


def refuse_revival(job: Job, reason: str, now: float) -> ChangedJob:
    """It stays cancelled for good."""
    return _add_event(job, "revival_refused", now, "", cut(reason, _DETAIL_CHARACTERS), {"cancelled_by": None})


def _revive_children(job: Job) -> dict[str, Any]:
    """Those that it cancelled must be revived before it can be claimed, and are told again when it ends."""
    if not job.has_children and not job.children_told:
        return {}
    return {"reviving": True, "has_children": True, "children_told": False}


def finish_revival(job: Job, now: float) -> ChangedJob:
    """All that it had cancelled wait for it again."""
    return ChangedJob(_touch(job, now, {"reviving": False}))


def move_to_pool(job: Job, pool: str, now: float) -> ChangedJob:
    """It is queued and due, and waits there from now on; "" is among the ready ones."""
    return ChangedJob(_touch(job, now, {"pool": pool}))


def give_slot(job: Job, at: float, now: float) -> ChangedJob:
    """It may start at that time, which is a slot of its rate key; until then nobody reads it."""
    return ChangedJob(_touch(job, now, {"pool": "", "run_at": max(at, job.run_at), "rate_at": at}))


def extend_retention(job: Job, expires_at: int, now: float) -> ChangedJob:
    """It expires later: it has not ended, and would be gone too soon."""
    return ChangedJob(_touch(job, now, {"expires_at": max(job.expires_at, expires_at)}))


def renew_lease(job: Job, now: float) -> ChangedJob:
    return ChangedJob(_touch(job, now, {"lease": None if job.lease is None else job.lease.renew(now)}))


def add_entry(
    job: Job,
    now: float,
    *,
    progress: float | None = None,
    step: str | None = None,
    renew: bool = True,
    is_newer: bool = False,
) -> ChangedJob:
    """A numbered entry more; the lease is renewed with it. `is_newer`: a newer checkpoint, which clears its crashes."""
    lease = job.lease.renew(now) if renew and job.lease is not None else job.lease
    changes = {
        "entries": job.entries + 1,
        "progress": job.progress if progress is None else max(job.progress, progress),
        "step": job.step if step is None else cut(step, _STEP_CHARACTERS),
        "lease": lease,
    }
    if is_newer:
        changes |= {"crashes": 0, "suspect": False}
    return ChangedJob(_touch(job, now, changes))


def end_parent(job: Job, parent_id: str, now: float) -> ChangedJob:
    """One of the jobs that it waits for has ended, and it waits for the others."""
    return _wait_for(job, job.waiting_for - {parent_id}, now, {})


def end_waiting(job: Job, now: float) -> ChangedJob:
    """It need not wait for any job any more."""
    return _wait_for(job, frozenset(), now, {"waiting_parts": 0})


def wait_again(job: Job, parent_id: str, now: float) -> ChangedJob:
    """A job that had ended, and that it did not wait for any more, is queued again."""
    if job.waiting_parts:  # a record of its own says for which
        return ChangedJob(_touch(job, now, {}))
    return ChangedJob(_touch(job, now, {"waiting_for": job.waiting_for | {parent_id}}))


def finish_registration(job: Job, completed: frozenset[str], now: float, *, waits: bool = False) -> ChangedJob:
    """All of those that it waits for will tell it, but for those that have completed.

    `waits`: there are some, in records of their own.
    """
    is_gathering = job.wait is not None and job.wait.children > 0
    is_enough = bool(completed) and job.depends_on_policy == ANY_COMPLETED and not is_gathering
    rest = frozenset() if is_enough else job.waiting_for - completed
    return _wait_for(job, rest, now, {"unregistered": False, "waiting_parts": job.waiting_parts if waits else 0})


def _wait_for(job: Job, rest: frozenset[str], now: float, changes: dict[str, Any]) -> ChangedJob:
    changes["waiting_for"] = rest
    changed = ChangedJob(_touch(job, now, changes))
    if job.is_waiting and not changed.job.is_waiting:
        # What becomes claimable now goes behind those that have been so for longer.
        changed.job = copy_with(changed.job, {"run_at": max(job.run_at, now)})
    return changed


def add_child(job: Job, now: float) -> ChangedJob:
    """Another job waits for it, or would if it had not ended."""
    told = job.is_terminal and not job.has_children
    return ChangedJob(_touch(job, now, {"children_told": True} if told else {"has_children": True}))


def clear_children(job: Job, now: float) -> ChangedJob:
    """Everybody who waited for it knows."""
    changes = {"has_children": False, "children_told": job.state is not State.COMPLETED}
    return ChangedJob(_touch(job, now, changes))


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
    changes["parked"] = False
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
