"""`/jobs`: the list of jobs, its search box, and cancelling or retrying many jobs.

1. The search box is the URL's query (`?q=status:failed kind:monthly_report tenant:acme bodwassho`). A word without a
   colon is searched for in a job's own text.
2. A change is previewed: a first page says what will happen to each job. The change is then conditional on that page:
   a job that is in another state by then is left alone, and reported.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from penstock.errors import PenstockError
from penstock.jobs.model import transitions
from penstock.jobs.model.job import Job, is_id
from penstock.jobs.model.state import BadTransition, State
from penstock.jobs.model.transitions import ChangedJob
from penstock.jobs.sources import AllJobs, JobQuery, JobSource, StoreSource, place_of
from penstock.jobs.store.store import JobStore
from penstock.web.dashboard.job_counts import Count
from penstock.web.dashboard.poller import Feed, KeyedFeed
from penstock.web.dashboard.site import Site
from penstock.web.problems import Problem

_STATES: Final = {**{state.value: state for state in State}, "running": State.PROCESSING, "waiting": State.QUEUED}
_LONGEST: Final = 1_000


@dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs to list. `problems` lists the parts that were not understood: they are left out."""

    state: State | None = None
    task: str | None = None
    tenant: str | None = None
    words: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Filter:
        criteria = cls()
        for part in _parts(text[:_LONGEST]):
            name, colon, value = part.partition(":")
            match name.lower() if colon else "":
                case "status" | "state":
                    criteria = criteria._with_state(value)
                case "kind" | "task":
                    criteria = replace(criteria, task=value or None)
                case "tenant":
                    criteria = replace(criteria, tenant=value)
                case _:
                    criteria = replace(criteria, words=(*criteria.words, part))
        return criteria

    def _with_state(self, value: str) -> Filter:
        state = _STATES.get(value.lower())
        if state is not None:
            return replace(self, state=state)
        known = ", ".join(state.value for state in State)
        return replace(self, problems=(*self.problems, f"There is no status {value!r}; there are {known}."))

    def __str__(self) -> str:
        """The text that parses to this."""
        parts = [] if self.state is None else [f"status:{self.state.value}"]
        if self.task is not None:
            parts.append(_quote(f"kind:{self.task}"))
        if self.tenant is not None:
            parts.append(_quote(f"tenant:{self.tenant}"))
        return " ".join([*parts, *(_quote(word) for word in self.words)])

    def with_state(self, state: State | None) -> Filter:
        return replace(self, state=state, problems=())

    def has_words(self, job: Job) -> bool:
        """Whether every word is somewhere in the job's own text, in any case."""
        if not self.words:
            return True
        error = "" if job.error is None else f"{job.error.kind} {job.error.message}"
        owner = "" if job.lease is None else job.lease.owner
        arguments = "" if job.secret else job.args.text or ""  # a search must not tell what a screen does not show
        text = "\n".join(
            (job.id, job.task, job.schedule, job.queue, job.tenant, job.step, error, owner, arguments)
        ).lower()
        return all(word.lower() in text for word in self.words)


def _parts(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True)
    lexer.whitespace_split = True
    lexer.quotes = '"'
    lexer.escape = ""
    lexer.commenters = ""
    try:
        return [part for part in lexer if part]
    except ValueError:  # a quote that is not closed yet: somebody is typing
        return text.replace('"', " ").split()


def _quote(part: str) -> str:
    part = part.replace('"', "")
    return f'"{part}"' if any(letter.isspace() for letter in part) or not part else part


# ── the list ─────────────────────────────────────────────────────────────────────────────────────

PAGE_JOBS: Final = 50
_MOST_SEARCHED: Final = 1_000
_MOST_SCANNED: Final = 2_000
"""Items of a table without an index by time, for one page."""


@dataclass(frozen=True, slots=True)
class JobPage:
    """A page of jobs. `looked_at` is how many were read to find them."""

    jobs: tuple[Job, ...]
    token: str | None
    looked_at: int
    sources: Mapping[str, JobSource] = field(default_factory=dict)
    """By id: where each was found."""
    notes: tuple[str, ...] = ()


def find_jobs(jobs: AllJobs, criteria: Filter, token: str | None, limit: int = PAGE_JOBS) -> JobPage:
    """The jobs that the filter wants, newest first. A page searches at most a thousand jobs for words."""
    matches: list[Job] = []
    sources: dict[str, JobSource] = {}
    looked_at = 0
    step = limit if not criteria.words else _MOST_SEARCHED // 4
    query = JobQuery(criteria.state, criteria.task, criteria.tenant, limit=step, most_scanned=_MOST_SCANNED)
    while True:
        page = jobs.find(replace(query, before=token))
        sources |= page.sources
        for number, job in enumerate(page.jobs):
            if not criteria.has_words(job):
                continue
            matches.append(job)
            if len(matches) == limit:
                is_last = number + 1 == len(page.jobs) and page.token is None
                next_token = None if is_last else place_of(job)
                return JobPage(tuple(matches), next_token, looked_at + number + 1, sources, page.notes)
        looked_at += len(page.jobs)
        token = page.token
        if token is None or looked_at >= _MOST_SEARCHED:
            return JobPage(tuple(matches), token, looked_at, sources, page.notes)


def routes(site: Site) -> list[Route]:
    def show(request: Request) -> Response:
        text = request.query_params.get("q", "")
        token = request.query_params.get("from") or None
        criteria = Filter.parse(text)
        if len(criteria.words) == 1 and token is None and _is_known(site.source.jobs(), criteria.words[0]):
            return RedirectResponse(f"/jobs/{criteria.words[0]}", 303)
        live = "jobs?" + urlencode({"key": _key(text, token)})
        return site.page(request, "jobs.html", live=live, **_context(site, text, token))

    return [
        Route("/jobs", show),
        Route("/jobs/preview", _preview_route(site), methods=["POST"]),
        Route("/jobs/apply", _apply_route(site), methods=["POST"]),
    ]


def feeds(site: Site) -> dict[str, Feed]:
    def draw(key: str) -> str:
        text, _, token = key.partition("\n")
        return site.live_fragment("jobs_live.html", **_context(site, text, token or None))

    return {"jobs": KeyedFeed("jobs", draw)}


def _key(text: str, token: str | None) -> str:
    return f"{text}\n{token or ''}"


def _is_known(jobs: AllJobs, word: str) -> bool:
    """Whether it is the id of a job: then the page redirects to that job."""
    if not (word.startswith("job_") and is_id(word)):
        return False
    return any(source.history(word) is not None for source in jobs.sources)


def _context(site: Site, text: str, token: str | None) -> dict[str, Any]:
    criteria = Filter.parse(text)
    jobs = site.source.jobs()
    page = find_jobs(jobs, criteria, token)
    tabs: list[tuple[str, Filter, Count | None]] = [("All", criteria.with_state(None), None)]
    counts = site.overview.counts() if _counts_apply(jobs, criteria) else {}
    tabs += [(state.value.capitalize(), criteria.with_state(state), counts.get(state)) for state in State]
    return {
        "text": text,
        "criteria": criteria,
        "page": page,
        "changeable": {job_id for job_id, source in page.sources.items() if source.table == site.source.table},
        "tabs": [(label, urlencode({"q": str(to)}), to.state is criteria.state, number) for label, to, number in tabs],
        "next": None if page.token is None else urlencode({"q": text, "from": page.token}),
        "is_first": token is None,
    }


def _counts_apply(jobs: AllJobs, criteria: Filter) -> bool:
    """The counts are of all jobs of one store: beside a filter, or other jobs, they would mislead."""
    is_one_store = len(jobs.sources) == 1 and jobs.sources[0].store is not None
    return is_one_store and criteria.task is None and criteria.tenant is None and not criteria.words


# ── cancelling and retrying ──────────────────────────────────────────────────────────────────────

Verb = Literal["cancel", "retry"]
Handler = Callable[[Request], Awaitable[Response]]
MOST_JOBS: Final = 500
"""In one request; for more, repeat it or use `penstock jobs cancel`."""
_REASON: Final = "from the dashboard"


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


def plan(verb: Verb, jobs: Sequence[Job]) -> list[JobEffect]:
    """Pure: what the verb would do to each job in its present state."""
    return [JobEffect(job, *_effect(verb, job)) for job in jobs]


def _effect(verb: Verb, job: Job) -> tuple[bool, str]:
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
    return False, f"is {job.state.value} already: nothing happens"


def apply(store: JobStore, verb: Verb, job_id: str, seen: State) -> Outcome:
    """Does it if the job is still in the state that was seen."""
    try:
        after = _cancel(store, job_id, seen) if verb == "cancel" else _retry(store, job_id, seen)
    except PenstockError as error:
        return Outcome(job_id, False, str(error))
    what = "asked to stop" if after.state is State.PROCESSING else f"{after.state.value} now"
    return Outcome(job_id, True, what)


def _cancel(store: JobStore, job_id: str, seen: State) -> Job:
    def change(current: Job) -> ChangedJob:
        _check(current, seen)
        now = store.clock.now()
        if current.state is State.PROCESSING:
            return transitions.request_cancel(current, _REASON, now)
        return transitions.cancel(current, _REASON, now)

    return store.change(store.get(job_id), change, ending=True)


def _retry(store: JobStore, job_id: str, seen: State) -> Job:
    try:
        _check(store.get(job_id), seen)
        return store.retry(job_id)
    except BadTransition as error:
        raise StateChanged(_changed_text(job_id, seen, error.state)) from None


def _check(current: Job, seen: State) -> None:
    if current.state is not seen:
        raise StateChanged(_changed_text(current.id, seen, current.state))


def _changed_text(job_id: str, seen: State, now: State) -> str:
    return f"{job_id} was {seen.value} when you looked and is {now.value} now: it was left alone."


def _preview_route(site: Site) -> Handler:
    async def preview(request: Request) -> Response:
        fields = await site.access.read_form(request)
        verb = _verb(fields)
        jobs, more = await run_in_threadpool(_selected_jobs, site, verb, fields)
        if not jobs:
            raise Problem(400, "No job was chosen.", "Go back and tick some, or choose all that match.")
        lines = plan(verb, jobs)
        return site.page(request, "preview.html", verb=verb, lines=lines, more=more, most=MOST_JOBS)

    return preview


def _apply_route(site: Site) -> Handler:
    async def act(request: Request) -> Response:
        fields = await site.access.read_form(request)
        verb = _verb(fields)
        chosen = [_parse_seen(text) for text in fields.get("seen", [])][:MOST_JOBS]
        store = await run_in_threadpool(site.source.store)
        outcomes = [await run_in_threadpool(apply, store, verb, job_id, state) for job_id, state in chosen]
        return site.page(request, "outcome.html", verb=verb, outcomes=outcomes)

    return act


def _verb(fields: dict[str, list[str]]) -> Verb:
    match fields.get("verb", [""])[0]:
        case "cancel":
            return "cancel"
        case "retry":
            return "retry"
    raise Problem(400, "Jobs are cancelled or retried.", "Go back and use one of the buttons.")


def _selected_jobs(site: Site, verb: Verb, fields: dict[str, list[str]]) -> tuple[list[Job], bool]:
    """The ticked jobs, or all matching jobs that the verb affects; and whether there are more."""
    store = site.source.store()
    if "all" not in fields:
        ids = fields.get("job", [])
        return store.get_existing(ids[:MOST_JOBS]), len(ids) > MOST_JOBS
    criteria = Filter.parse(fields.get("q", [""])[0])
    states = (State.QUEUED, State.PROCESSING) if verb == "cancel" else (State.FAILED,)
    jobs: list[Job] = []
    more = False
    for state in states if criteria.state is None else (criteria.state,):
        page = find_jobs(AllJobs([StoreSource(store)]), criteria.with_state(state), None, MOST_JOBS)
        jobs += page.jobs
        more = more or page.token is not None
    return jobs[:MOST_JOBS], more or len(jobs) > MOST_JOBS


def _parse_seen(text: str) -> tuple[str, State]:
    state, _, job_id = text.partition(" ")
    try:
        return job_id, State(state)
    except ValueError:
        raise Problem(400, "The form does not say in which state a job was seen.", "Load the page again.") from None
