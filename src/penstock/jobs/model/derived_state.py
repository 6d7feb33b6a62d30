"""The states that people think in, derived from the five that are stored.

A stored state says what may happen to a job next. A derived one says what it is doing, or what keeps it: it depends on
the job, on the time, on paused queues and on workers whose processes have ended. `derive` is pure; nothing is stored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from penstock.clock import end_of_millisecond
from penstock.jobs.model.job import LIMIT_POOL, RATE_POOL, TASK_POOL, BadJob, Job
from penstock.jobs.model.state import State


class DerivedState(StrEnum):
    """What a job does, or why it does nothing."""

    READY = "ready"
    """A worker may take it now."""
    SCHEDULED = "scheduled"
    """It is due later."""
    RETRYING = "retrying"
    """Its last attempt failed, and the next one is due later."""
    WAITING = "waiting"
    """It waits for other jobs, for its children, for an event, or sleeps."""
    BLOCKED = "blocked"
    """It is due, and something keeps it: a paused queue, a concurrency key, a rate, a task that no worker has."""
    RUNNING = "running"
    LOST = "lost"
    """Its worker's process has ended, or no longer renews its lease."""
    FAILED = "failed"
    CANCELLED = "cancelled"
    COMPLETED = "completed"


STORED: Final = {
    **dict.fromkeys(
        (
            DerivedState.READY,
            DerivedState.SCHEDULED,
            DerivedState.RETRYING,
            DerivedState.WAITING,
            DerivedState.BLOCKED,
        ),
        State.QUEUED,
    ),
    DerivedState.RUNNING: State.PROCESSING,
    DerivedState.LOST: State.PROCESSING,
    DerivedState.FAILED: State.FAILED,
    DerivedState.CANCELLED: State.CANCELLED,
    DerivedState.COMPLETED: State.COMPLETED,
}
"""The stored state of a job that is in a derived one."""
STATE_NAMES: Final = (*DerivedState, *(state for state in State if state.value not in set(DerivedState)))
"""All names that a filter by state takes: the derived states, then `queued` and `processing`."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A job's derived state, why it is in it, and until when as far as the clock decides."""

    state: DerivedState
    why: str = ""
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Conditions:
    """What decides a job's situation beside the job itself."""

    now: float
    paused: Collection[str] = frozenset()
    """Queues."""
    ended: Collection[str] = frozenset()
    """Workers whose processes have provably ended."""
    tasks: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Of each queue that a live worker looks at, the tasks that its workers have."""


def is_due(job: Job, now: float) -> bool:
    """Stored times are rounded to milliseconds: a job that was made just now is due."""
    return job.run_at <= end_of_millisecond(now)


def derive(job: Job, around: Conditions) -> Situation:
    match job.state:
        case State.QUEUED:
            return _queued(job, around)
        case State.PROCESSING:
            return _processing(job, around)
        case State.FAILED:
            error = job.error
            return Situation(DerivedState.FAILED, "" if error is None else f"{error.kind}: {error.message}")
        case State.CANCELLED:
            by = "" if job.cancelled_by is None else f"{job.cancelled_by} did not complete"
            return Situation(DerivedState.CANCELLED, job.cancel_reason or by)
        case State.COMPLETED:
            return Situation(DerivedState.COMPLETED)


def _queued(job: Job, around: Conditions) -> Situation:
    if job.pulled_from:
        return Situation(DerivedState.BLOCKED, f"a copy from {job.pulled_from}: no worker starts it")
    waits = _awaited(job, around.now)
    if waits is not None:
        return waits
    if not is_due(job, around.now):
        if job.rate_at == job.run_at:
            return Situation(DerivedState.BLOCKED, f"rate {job.rate} of {job.rate_key!r}", job.run_at)
        if job.failures and job.error is not None:
            return Situation(DerivedState.RETRYING, f"{job.error.kind}: {job.error.message}", job.run_at)
        return Situation(DerivedState.SCHEDULED, "", job.run_at)
    blocked = _blocked(job, around)
    return Situation(DerivedState.BLOCKED, blocked) if blocked else Situation(DerivedState.READY)


def _awaited(job: Job, now: float) -> Situation | None:
    wait = job.wait
    if job.reviving:
        return Situation(DerivedState.WAITING, "the jobs that were cancelled because of it are revived first")
    if job.is_waiting:
        if wait is not None and wait.children:
            return Situation(DerivedState.WAITING, f"{wait.children:,} of its children")
        if len(job.waiting_for) == 1:
            return Situation(DerivedState.WAITING, next(iter(job.waiting_for)))
        number = len(job.waiting_for) or job.dependency_count
        return Situation(DerivedState.WAITING, f"{number:,} jobs")
    if wait is None or not (job.parked or job.run_at > now):
        return None
    if wait.event:
        return Situation(DerivedState.WAITING, f"the event {wait.event!r}", None if job.parked else job.run_at)
    return Situation(DerivedState.WAITING, "sleeps", job.run_at)


def _blocked(job: Job, around: Conditions) -> str:
    """What keeps a job that is due; "" where nothing does."""
    return why_blocked(job.queue, job.task, _kept_by(job), around)


def _kept_by(job: Job) -> str:
    match job.pool:
        case pool if pool == LIMIT_POOL:
            return f"concurrency key {job.concurrency_key!r}, {job.max_concurrent:,} at once"
        case pool if pool == RATE_POOL:
            return f"rate {job.rate} of {job.rate_key!r}"
        case pool if pool == TASK_POOL:
            return _no_worker(job.queue, job.task)
    return ""


def _no_worker(queue: str, task: str) -> str:
    return f"no worker of the queue {queue} has the task {task}"


def why_blocked(queue: str, task: str, kept_by: str, around: Conditions) -> str:
    """What keeps a job that is due, where `kept_by` is what does so in a queue that is not paused."""
    if queue in around.paused:
        return f"the queue {queue} is paused"
    if kept_by:
        return kept_by
    return "" if task in around.tasks.get(queue, (task,)) else _no_worker(queue, task)


def _processing(job: Job, around: Conditions) -> Situation:
    lease = job.lease
    if lease is None:
        return Situation(DerivedState.RUNNING)
    if lease.owner in around.ended:
        return Situation(DerivedState.LOST, f"the process of {lease.owner} has ended")
    if lease.takeable_at <= around.now:
        return Situation(DerivedState.LOST, f"{lease.owner} does not renew its lease", lease.takeable_at)
    return Situation(DerivedState.RUNNING, "" if job.cancel_reason is None else "is asked to stop")


def parse_state(text: str) -> tuple[State, DerivedState | None]:
    """The stored state that a name is about, and the derived one if it is one's name. Raises BadJob."""
    try:
        derived = DerivedState(text)
    except ValueError:
        try:
            return State(text), None
        except ValueError:
            raise BadJob(f"There is no state {text!r:.100}: there are {', '.join(STATE_NAMES)}.") from None
    return STORED[derived], None if derived.value in set(State) else derived
