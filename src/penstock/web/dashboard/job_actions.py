"""What can be done to jobs by the dashboard, each with its preview.

A change is previewed: a first page says what will happen to each job. The change is then conditional on that page: a
job that is in another state by then is left alone, and reported. What was done is written down (audit.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from penstock.errors import PenstockError
from penstock.jobs.model import transitions
from penstock.jobs.model.job import Job, NewJob
from penstock.jobs.model.state import BadTransition, State
from penstock.jobs.model.transitions import ChangedJob
from penstock.jobs.store.store import JobStore
from penstock.web.dashboard import audit

Verb = Literal["cancel", "retry", "run"]
VERBS: Final = get_args(Verb)
LABELS: Final = {"cancel": "Cancel", "retry": "Retry", "run": "Run now"}
MOST_JOBS: Final = 500
"""In one request; for more, repeat it or use `penstock jobs cancel`."""
_DONE: Final = {"cancel": "cancelled", "retry": "retried", "run": "made due now"}


@dataclass(frozen=True, slots=True)
class JobEffect:
    """What will happen to a job; `happens` is false where nothing can."""

    job: Job
    happens: bool
    what: str


@dataclass(frozen=True, slots=True)
class Outcome:
    job_id: str
    done: bool
    what: str


class StateChanged(PenstockError):
    """The job is no longer in the state that the page showed."""


def plan(verb: Verb, jobs: Sequence[Job], now: float = 0.0) -> list[JobEffect]:
    """Pure: what the verb would do to each job in its present state."""
    return [JobEffect(job, *_effect(verb, job, now)) for job in jobs]


def _effect(verb: Verb, job: Job, now: float) -> tuple[bool, str]:
    match verb, job.state:
        case "cancel", State.QUEUED:
            return True, "is cancelled at once: it will not run"
        case "cancel", State.PROCESSING if job.cancel_reason is not None:
            return False, "has been asked already, and stops at its next report"
        case "cancel", State.PROCESSING:
            return True, "is asked to stop, and stops at its next report"
        case "retry", State.FAILED:
            return True, "is queued again; its checkpoints are kept, its failures count from 0"
        case "retry", _:
            return False, f"is {job.state.value}: only failed jobs are retried"
        case "run", State.QUEUED if can_run_now(job, now):
            return True, "becomes due now; it runs as soon as a worker is free"
        case "run", State.QUEUED:
            return False, "is kept by something else than the time: nothing happens"
        case "run", _:
            return False, f"is {job.state.value}: only jobs that are due later are run now"
    return False, f"is {job.state.value} already: nothing happens"


def can_run_now(job: Job, now: float) -> bool:
    """Whether the time is all that keeps it."""
    is_free = not (job.is_waiting or job.parked or job.wait is not None or job.pool or job.pulled_from)
    return job.state is State.QUEUED and job.run_at > now and is_free


def apply(store: JobStore, verb: Verb, job_id: str, seen: State, who: str = "local") -> Outcome:
    """Does it if the job is still in the state that was seen, and writes down who did."""
    try:
        match verb:
            case "cancel":
                after = _cancel(store, job_id, seen, who)
            case "retry":
                after = _retry(store, job_id, seen)
            case "run":
                after = _run(store, job_id, seen, who)
    except PenstockError as error:
        return Outcome(job_id, False, str(error))
    audit.record(store, who, _DONE[verb], job_id)
    if verb == "run":
        return Outcome(job_id, True, "due now")
    what = "asked to stop" if after.state is State.PROCESSING else f"{after.state.value} now"
    return Outcome(job_id, True, what)


def reason_of(who: str) -> str:
    return "from the dashboard" if who == "local" else f"from the dashboard, by {who}"


def _cancel(store: JobStore, job_id: str, seen: State, who: str) -> Job:
    def change(current: Job) -> ChangedJob:
        _check(current, seen)
        now = store.clock.now()
        if current.state is State.PROCESSING:
            return transitions.request_cancel(current, reason_of(who), now)
        return transitions.cancel(current, reason_of(who), now)

    return store.change(store.get(job_id), change, ending=True)


def _retry(store: JobStore, job_id: str, seen: State) -> Job:
    try:
        _check(store.get(job_id), seen)
        return store.retry(job_id)
    except BadTransition as error:
        raise StateChanged(_changed_text(job_id, seen, error.state)) from None


def _run(store: JobStore, job_id: str, seen: State, who: str) -> Job:
    def change(current: Job) -> ChangedJob:
        _check(current, seen)
        now = store.clock.now()
        return transitions.reschedule(current, now, now, reason_of(who))

    return store.change(store.get(job_id), change)


def _check(current: Job, seen: State) -> None:
    if current.state is not seen:
        raise StateChanged(_changed_text(current.id, seen, current.state))


def _changed_text(job_id: str, seen: State, now: State) -> str:
    return f"{job_id} was {seen.value} when you looked and is {now.value} now: it was left alone."


# ── clones ───────────────────────────────────────────────────────────────────────────────────────


def clone(store: JobStore, job: Job, args: dict[str, object], who: str) -> Job:
    """A new job like this one with other arguments. It has no key of the old one's, and waits for nobody."""
    new = NewJob(
        job.task,
        args,
        queue=job.queue,
        tenant=job.tenant,
        priority=job.priority,
        retries=job.retries,
        concurrency_key=job.concurrency_key,
        max_concurrent=job.max_concurrent or 1,
        rate_key=job.rate_key,
        rate=job.rate,
        secret=job.secret,
        tags=job.tags,
        webhook=job.webhook,
    )
    made, _ = store.create(new)
    audit.record(store, who, f"cloned as {made.id}", job.id)
    return made
