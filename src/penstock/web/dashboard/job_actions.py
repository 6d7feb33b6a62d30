"""What can be done to jobs by the dashboard, each with its preview.

A change is previewed: a first page says what will happen to each job. The change is then conditional on that page: a
job that is in another state by then is left alone, and reported. What no state guards (a new job, an event) happens
once for each form, however often that is sent. What was done is written down (audit.py).
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args

from penstock.clock import span, utc_text
from penstock.errors import PenstockError
from penstock.jobs.model import transitions
from penstock.jobs.model.derived_state import is_due
from penstock.jobs.model.job import BadJob, Job, another_like, checked_name
from penstock.jobs.model.state import BadTransition, State
from penstock.jobs.model.transitions import ChangedJob
from penstock.jobs.store.store import JobStore
from penstock.web.dashboard import audit

Verb = Literal["cancel", "retry", "run", "reschedule", "event", "clone"]
VERBS: Final = get_args(Verb)
LABELS: Final = {
    "cancel": "Cancel",
    "retry": "Retry",
    "run": "Run now",
    "reschedule": "Reschedule",
    "event": "Send an event to",
    "clone": "Run again",
}
MOST_JOBS: Final = 500
"""In one request; for more, repeat it or use `penstock jobs cancel`."""


@dataclass(frozen=True, slots=True)
class Change:
    """A verb, and what it is told: a time, an event or arguments."""

    verb: Verb
    at: float = 0.0
    """`reschedule`: the new time."""
    event: str = ""
    data: object = None
    """`event`: its data."""
    args: Mapping[str, Any] | None = None
    """`clone`: the arguments that replace those of the same names."""
    once: str = ""
    """The name of the form that asked for it."""

    @property
    def done(self) -> str:
        """What the activity log says."""
        match self.verb:
            case "cancel":
                return "cancelled"
            case "retry":
                return "retried"
            case "run":
                return "made due now"
            case "reschedule":
                return f"rescheduled to {utc_text(self.at)}"
            case "event":
                return f"sent the event {self.event}"
            case "clone":
                return "cloned"


class BadChange(PenstockError):
    """What was typed is no time, no event or no arguments."""


_DISTANCE: Final = re.compile(r"(\d{1,6})\s?(s|m|h|d)")
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_LONGEST_TEXT: Final = 100_000


def parse_change(verb: Verb, fields: Mapping[str, Sequence[str]], now: float) -> Change:
    """What a form says. Raises BadChange."""
    text = {name: (fields.get(name) or [""])[0].strip()[:_LONGEST_TEXT] for name in ("when", "event", "data", "args")}
    once = form_name(fields)
    match verb:
        case "reschedule":
            return Change(verb, at=_time(text["when"], now))
        case "event":
            try:
                name, data = checked_name(text["event"], "event"), _json(text["data"] or "null")
                return Change(verb, event=name, data=data, once=once)
            except BadJob as error:
                raise BadChange(str(error)) from None
        case "clone":
            args = _json(text["args"] or "{}")
            if not isinstance(args, dict):
                raise BadChange('Arguments are a JSON object, such as {"project": "bodwassho"}.')
            return Change(verb, args=args, once=once)
        case _:
            return Change(verb)


def new_form_name() -> str:
    """What a form carries in `once`, so that it has its effect once."""
    return secrets.token_urlsafe(9)


def form_name(fields: Mapping[str, Sequence[str]]) -> str:
    """The name that a form was sent with; a new one where it was made by hand."""
    return (fields.get("once") or [""])[0][:_LONGEST_NAME] or new_form_name()


_LONGEST_NAME: Final = 40


def _once_key(name: str, what: object) -> str:
    """What the same form with the same contents has in common, each time that it is sent."""
    text = json.dumps([name, what], sort_keys=True, default=str)
    return f"dashboard {hashlib.sha256(text.encode()).hexdigest()[:40]}"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadChange(f"This is no JSON: {error}.") from None


def _time(text: str, now: float) -> float:
    """`2h` from now, or a date and time in UTC."""
    found = _DISTANCE.fullmatch(text)
    if found is not None:
        return now + int(found[1]) * _UNITS[found[2]]
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise BadChange(f"{text[:50]!r} is no time: write 30m, 2h or 3d, or 2026-11-19 09:00 (UTC).") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


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


def plan(change: Change, jobs: Sequence[Job], now: float = 0.0) -> list[JobEffect]:
    """Pure: what the change would do to each job in its present state."""
    return [JobEffect(job, *_effect(change, job, now)) for job in jobs]


def _effect(change: Change, job: Job, now: float) -> tuple[bool, str]:
    match change.verb, job.state:
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
        case "reschedule", State.QUEUED if can_reschedule(job):
            return True, f"becomes due in {span(max(0.0, change.at - now))}" if change.at else "becomes due then"
        case "run" | "reschedule", State.QUEUED:
            return False, "is kept by something else than the time: nothing happens"
        case "run" | "reschedule", _:
            return False, f"is {job.state.value}: only jobs that are due later are {_MOVED[change.verb]}"
        case "event", State.QUEUED if job.wait is not None and job.wait.event == change.event:
            return True, "waits for this event, and continues with it"
        case "event", State.QUEUED | State.PROCESSING:
            return True, "gets it as soon as it waits for it"
        case "clone", _ if job.secret:
            return False, "has secret arguments: enqueue it by code"
        case "clone", _:
            return True, "stays as it is; a new job like it is made"
    return False, f"is {job.state.value} already: nothing happens"


_MOVED: Final = {"run": "run now", "reschedule": "rescheduled"}


def can_reschedule(job: Job) -> bool:
    """Whether a time decides when it begins."""
    is_kept = job.is_waiting or job.parked or job.wait is not None or job.pool or job.pulled_from
    return job.state is State.QUEUED and not is_kept


def can_run_now(job: Job, now: float) -> bool:
    """Whether the time is all that keeps it."""
    return can_reschedule(job) and not is_due(job, now)


def apply(store: JobStore, change: Change, job_id: str, seen: State, who: str = "local") -> Outcome:
    """Does it if the job is still in the state that was seen, and writes down who did."""
    try:
        what = _apply(store, change, job_id, seen, who)
    except (PenstockError, OSError) as error:
        return Outcome(job_id, False, str(error))
    if change.verb != "clone":  # which writes its own line
        audit.record(store, who, change.done, job_id)
    return Outcome(job_id, True, what)


def _apply(store: JobStore, change: Change, job_id: str, seen: State, who: str) -> str:
    match change.verb:
        case "cancel":
            after = _cancel(store, job_id, seen, who)
            return "asked to stop" if after.state is State.PROCESSING else "cancelled now"
        case "retry":
            _retry(store, job_id, seen)
            return "queued now"
        case "run":
            _reschedule(store, job_id, seen, store.clock.now(), who)
            return "due now"
        case "reschedule":
            after = _reschedule(store, job_id, seen, change.at, who)
            return f"due at {utc_text(after.run_at)}"
        case "event":
            key = _once_key(change.once, [change.event, change.data])
            store.workflows.send(job_id, change.event, change.data, event_id=key)
            return f"has the event {change.event}"
        case "clone":
            job = store.get(job_id)
            if job.secret:
                raise BadChange("Some of its arguments are secret, and cannot be copied here.")
            args = {**store.load(job, job.args), **(change.args or {})}
            return f"{clone(store, job, args, who, change.once).id} was made"


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


def _reschedule(store: JobStore, job_id: str, seen: State, at: float, who: str) -> Job:
    def change(current: Job) -> ChangedJob:
        _check(current, seen)
        return transitions.reschedule(current, at, store.clock.now(), reason_of(who))

    return store.change(store.get(job_id), change)


def _check(current: Job, seen: State) -> None:
    if current.state is not seen:
        raise StateChanged(_changed_text(current.id, seen, current.state))


def _changed_text(job_id: str, seen: State, now: State) -> str:
    return f"{job_id} was {seen.value} when you looked and is {now.value} now: it was left alone."


# ── clones ───────────────────────────────────────────────────────────────────────────────────────


def clone(store: JobStore, job: Job, args: dict[str, object], who: str, once: str) -> Job:
    """A new job like this one with other arguments. It has no key of the old one's, and waits for nobody.

    A form that is sent twice, by a double click or when its answer is loaded again, makes one job.
    """
    new = replace(another_like(job, args), idempotency_key=_once_key(once, [job.id, args]))
    made, is_new = store.create(new)
    if is_new:
        audit.record(store, who, f"cloned as {made.id}", job.id)
    return made
