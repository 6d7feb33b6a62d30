"""Cancelling and retrying jobs: first a page that says what will happen to each, then it happens.

What is done is conditional on what the page said: a job that is in another state by then is left alone, and told of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.errors import PenstockError
from penstock.jobs.model import transitions
from penstock.jobs.model.job import Job
from penstock.jobs.model.state import BadTransition, State
from penstock.jobs.model.transitions import Changed
from penstock.jobs.store.store import JobStore
from penstock.web.dashboard.desk import Desk
from penstock.web.dashboard.filters import Filter
from penstock.web.dashboard.pages.jobs import listed
from penstock.web.problems import Problem

Verb = Literal["cancel", "retry"]
MOST_JOBS: Final = 500
"""In one go: more are done by doing it again, or by `penstock jobs cancel`."""
_REASON: Final = "from the dashboard"


@dataclass(frozen=True, slots=True)
class Line:
    """What will happen to a job; `happens` is false where nothing can."""

    job: Job
    happens: bool
    what: str


@dataclass(frozen=True, slots=True)
class Outcome:
    job_id: str
    done: bool
    what: str


class Moved(PenstockError):
    """The job is not in the state that the page showed."""


def plan(verb: Verb, jobs: Sequence[Job]) -> list[Line]:
    """Pure: what the verb would do to each as it is now."""
    return [Line(job, *_fate(verb, job)) for job in jobs]


def _fate(verb: Verb, job: Job) -> tuple[bool, str]:
    match verb, job.state:
        case "cancel", State.QUEUED:
            return True, "is cancelled at once: it will not run"
        case "cancel", State.PROCESSING if job.cancel_reason is not None:
            return False, "has been told already, and stops at its next report"
        case "cancel", State.PROCESSING:
            return True, "is told to stop, and does at its next report"
        case "retry", State.FAILED:
            return True, "is queued again; its checkpoints are kept, its failures count from 0"
        case "retry", _:
            return False, f"is {job.state.value}: only failed jobs are retried"
    return False, f"is {job.state.value} already: nothing happens"


def apply(store: JobStore, verb: Verb, job_id: str, seen: State) -> Outcome:
    """Does it if the job is still in the state that was seen."""
    try:
        after = _cancel(store, job_id, seen) if verb == "cancel" else _retry(store, job_id, seen)
    except PenstockError as error:
        return Outcome(job_id, False, str(error))
    told = "told to stop" if after.state is State.PROCESSING else f"{after.state.value} now"
    return Outcome(job_id, True, told)


def _cancel(store: JobStore, job_id: str, seen: State) -> Job:
    def change(current: Job) -> Changed:
        _check(current, seen)
        now = store.clock.now()
        if current.state is State.PROCESSING:
            return transitions.cancel_asked(current, _REASON, now)
        return transitions.cancelled(current, _REASON, now)

    return store.change(store.get(job_id), change, ending=True)


def _retry(store: JobStore, job_id: str, seen: State) -> Job:
    try:
        _check(store.get(job_id), seen)
        return store.retry(job_id)
    except BadTransition as moved:
        raise Moved(_moved(job_id, seen, moved.state)) from None


def _check(current: Job, seen: State) -> None:
    if current.state is not seen:
        raise Moved(_moved(current.id, seen, current.state))


def _moved(job_id: str, seen: State, now: State) -> str:
    return f"{job_id} was {seen.value} when you looked and is {now.value} now: it was left alone."


# ── the pages ────────────────────────────────────────────────────────────────────────────────────


def routes(desk: Desk) -> list[Route]:
    async def preview(request: Request) -> Response:
        fields = await desk.keeper.form_of(request)
        verb = _verb(fields)
        jobs, more = await run_in_threadpool(_chosen, desk, verb, fields)
        if not jobs:
            raise Problem(400, "No job was chosen.", "Go back and tick some, or choose all that match.")
        lines = plan(verb, jobs)
        return desk.page(request, "preview.html", verb=verb, lines=lines, more=more, most=MOST_JOBS)

    async def act(request: Request) -> Response:
        fields = await desk.keeper.form_of(request)
        verb = _verb(fields)
        chosen = [_seen(text) for text in fields.get("seen", [])][:MOST_JOBS]
        store = await run_in_threadpool(desk.source.store)
        outcomes = [await run_in_threadpool(apply, store, verb, job_id, state) for job_id, state in chosen]
        return desk.page(request, "outcome.html", verb=verb, outcomes=outcomes)

    return [
        Route("/jobs/preview", preview, methods=["POST"]),
        Route("/jobs/apply", act, methods=["POST"]),
    ]


def _verb(fields: dict[str, list[str]]) -> Verb:
    match fields.get("verb", [""])[0]:
        case "cancel":
            return "cancel"
        case "retry":
            return "retry"
    raise Problem(400, "Jobs are cancelled or retried.", "Go back and use one of the buttons.")


def _chosen(desk: Desk, verb: Verb, fields: dict[str, list[str]]) -> tuple[list[Job], bool]:
    """Those that were ticked, or all that match and that the verb does something to; and if there are more."""
    store = desk.source.store()
    if "all" not in fields:
        ids = fields.get("job", [])
        return store.get_those_there(ids[:MOST_JOBS]), len(ids) > MOST_JOBS
    wanted = Filter.parse(fields.get("q", [""])[0])
    states = (State.QUEUED, State.PROCESSING) if verb == "cancel" else (State.FAILED,)
    found: list[Job] = []
    more = False
    for state in states if wanted.state is None else (wanted.state,):
        page = listed(store, wanted.with_state(state), None, MOST_JOBS)
        found += page.jobs
        more = more or page.token is not None
    return found[:MOST_JOBS], more or len(found) > MOST_JOBS


def _seen(text: str) -> tuple[str, State]:
    state, _, job_id = text.partition(" ")
    try:
        return job_id, State(state)
    except ValueError:
        raise Problem(400, "The form does not say in which state a job was seen.", "Load the page again.") from None
