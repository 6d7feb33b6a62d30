"""`/jobs`: the list of jobs, and what is done to many of them; `/failures`: failed jobs by error and task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final, cast
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from penstock.jobs.model.derived_state import DerivedState
from penstock.jobs.model.job import Job, is_id
from penstock.jobs.model.state import State
from penstock.jobs.sources import AllJobs
from penstock.web.dashboard import audit
from penstock.web.dashboard.charts import job_charts
from penstock.web.dashboard.job_actions import (
    LABELS,
    MOST_JOBS,
    VERBS,
    BadChange,
    Change,
    Verb,
    apply,
    new_form_name,
    parse_change,
    plan,
)
from penstock.web.dashboard.job_counts import Count, Overview
from penstock.web.dashboard.job_list import (
    COLUMNS,
    NOT_BY_FAILURE,
    SORTS,
    Filter,
    JobPage,
    find_failed,
    find_jobs,
    find_sorted,
    time_of,
)
from penstock.web.dashboard.job_survey import group_failures
from penstock.web.dashboard.poller import Feed, KeyedFeed, PageFeed
from penstock.web.dashboard.site import Site
from penstock.web.problems import Problem

Handler = Callable[[Request], Awaitable[Response]]
Fields = dict[str, list[str]]


def routes(site: Site) -> list[Route]:
    def show(request: Request) -> Response:
        text = request.query_params.get("q", "")
        token = request.query_params.get("from") or None
        criteria = Filter.parse(text)
        if len(criteria.words) == 1 and token is None and _is_known(site.source.jobs(), criteria.words[0]):
            return RedirectResponse(f"/jobs/{criteria.words[0]}", 303)
        sort = request.query_params.get("sort", "")
        sort = sort if sort.removeprefix("-") in SORTS else ""
        live = None if sort else "jobs?" + urlencode({"key": _key(text, token)})
        return site.page(request, "jobs.html", live=live, **_context(site, text, token, sort, is_live=False))

    def failures(request: Request) -> Response:
        return site.page(request, "failures.html", live="failures", **_failures(site, is_live=False))

    def activity(request: Request) -> Response:
        lines = audit.newest(site.source.store(), _AUDIT_LINES)
        return site.page(request, "activity.html", lines=lines)

    return [
        Route("/jobs", show),
        Route("/failures", failures),
        Route("/activity", activity),
        Route("/jobs/preview", _preview_route(site), methods=["POST"]),
        Route("/jobs/apply", _apply_route(site), methods=["POST"]),
    ]


_AUDIT_LINES: Final = 200


def feeds(site: Site) -> dict[str, Feed]:
    def draw(key: str) -> str:
        text, _, token = key.partition("\n")
        return site.live_fragment("jobs_live.html", **_context(site, text, token or None, "", is_live=True))

    def draw_failures() -> str:
        return site.live_fragment("failures_live.html", **_failures(site, is_live=True))

    return {"jobs": KeyedFeed("jobs", draw), "failures": PageFeed("failures", draw_failures)}


def _key(text: str, token: str | None) -> str:
    return f"{text}\n{token or ''}"


def _is_known(jobs: AllJobs, word: str) -> bool:
    """Whether it is the id of a job: then the page redirects to that job."""
    if not (word.startswith("job_") and is_id(word)):
        return False
    return any(source.history(word) is not None for source in jobs.sources)


def _context(site: Site, text: str, token: str | None, sort: str, *, is_live: bool) -> dict[str, Any]:
    criteria = Filter.parse(text)
    all_jobs = site.source.jobs()
    jobs = AllJobs(criteria.sources_of(all_jobs.sources))
    if not jobs.sources:
        told = f"No table {criteria.table!r} has jobs."
        criteria = replace(criteria, problems=(*criteria.problems, told))
    has_store = any(one.store is not None and one.table == site.source.table for one in all_jobs.sources)
    overview = (site.overview.refresh() if is_live else site.overview.current()) if has_store else None
    if sort:
        page = find_sorted(jobs, criteria, sort, _offset(token), site.clock.now())
    else:
        page = _page(site, jobs, criteria, token)
    changeable = {one.table for one in site.source.changeable()}
    counts = {} if overview is None or not _counts_apply(criteria) else _counts(overview, jobs)
    columns = COLUMNS[criteria.state_name]
    tabs: list[tuple[str, Filter, Count | None]] = [("All", criteria.with_state(None), None)]
    tabs += [(state.value.capitalize(), criteria.with_state(state.value), counts.get(state)) for state in DerivedState]
    here = criteria.state_name
    sorted_by = {"sort": sort} if sort else {}
    return {
        "text": text,
        "criteria": criteria,
        "columns": columns,
        "times": {row.job.id: time_of(row, columns) for row in page.rows},
        "page": page,
        "changeable": {row.job.id for row in page.rows if row.source.table in changeable},
        "tabs": [(label, urlencode({"q": str(to)}), to.state_name == here, number) for label, to, number in tabs],
        "tables": _table_choices(criteria, all_jobs),
        "next": None if page.token is None else urlencode({"q": text, **sorted_by, "from": page.token}),
        "sort": sort,
        "sort_links": {name: urlencode({"q": text, "sort": _next_sort(name, sort)}) for name in SORTS},
        "is_first": token is None,
    }


def _offset(token: str | None) -> int:
    return int(token) if token is not None and token.isascii() and token.isdigit() and len(token) < 7 else 0


def _next_sort(name: str, sort: str) -> str:
    """What a press on a column's head asks for: the largest first, then the smallest, then the usual order."""
    return {f"-{name}": name, name: ""}.get(sort, f"-{name}")


def _page(site: Site, jobs: AllJobs, criteria: Filter, token: str | None) -> JobPage:
    now = site.clock.now()
    if criteria.state is not State.FAILED:
        return find_jobs(jobs, criteria, token, now)
    if not any(one.store is not None and one.table == site.source.table for one in jobs.sources):
        return find_jobs(jobs, criteria, token, now)
    survey = site.overview.current().survey
    page = None
    if token is None or "T" not in token:  # a token of a list by when jobs were made begins with a date
        page = find_failed(jobs, site.source.store(), survey, criteria, token)
    if page is None:
        made = find_jobs(jobs, criteria, token if token is None or "T" in token else None, now)
        page = JobPage(made.rows, made.token, made.looked_at, (*made.notes, *((NOT_BY_FAILURE,) if made.rows else ())))
    return page


def _table_choices(criteria: Filter, jobs: AllJobs) -> list[tuple[str, str, str, bool]]:
    """The name, the system, the address and whether it is chosen, of each table; none where there is no choice."""
    systems: dict[str, list[str]] = {}
    for one in sorted(jobs.sources, key=lambda source: source.system != "jobs"):
        systems.setdefault(one.table, []).extend([] if one.system == "jobs" else [one.system])
    if len(systems) < 2:
        return []
    named = [("All tables", "", None), *((name, ", ".join(some), name) for name, some in systems.items())]
    return [
        (name, system, urlencode({"q": str(criteria.with_table(table))}), criteria.table == table)
        for name, system, table in named
    ]


def _counts(overview: Overview, jobs: AllJobs) -> Mapping[DerivedState, Count]:
    names = {one.table for one in jobs.sources}
    return overview.of_table(names.pop()) if len(names) == 1 else overview.of_all()


def _counts_apply(criteria: Filter) -> bool:
    """The counts are of all jobs of a table, or of all tables: beside a filter they would mislead."""
    others = (criteria.task, criteria.tenant, criteria.queue, criteria.error, criteria.key, criteria.tag)
    return all(one is None for one in others) and not criteria.words


# ── failures ─────────────────────────────────────────────────────────────────────────────────────

_SHOWN_GROUPS: Final = 100
_TREND_SECONDS: Final = 86_400.0


def _failures(site: Site, *, is_live: bool) -> dict[str, Any]:
    overview = site.overview.refresh() if is_live else site.overview.current()
    retrying = overview.survey.retrying
    groups = group_failures(overview.failures, retrying) if retrying else overview.groups
    now = overview.at - overview.at % 3600 + 3600
    return {
        "groups": [
            (
                group,
                job_charts.trend([one.failed_at for one in (*group.failures, *group.retrying)], now, _TREND_SECONDS),
            )
            for group in groups[:_SHOWN_GROUPS]
        ],
        "left_out": max(0, len(groups) - _SHOWN_GROUPS),
        "number": len(overview.failures),
        "retrying": len(overview.survey.retrying),
        "is_whole": overview.survey.failures_whole and overview.others_whole,
    }


# ── changing many ────────────────────────────────────────────────────────────────────────────────


_INPUTS: Final[Mapping[str, tuple[str, ...]]] = {
    "reschedule": ("when",),
    "event": ("event", "data"),
    "clone": ("args",),
}
"""What each verb must be told."""


def _preview_route(site: Site) -> Handler:
    async def preview(request: Request) -> Response:
        fields = await site.access.read_form(request)
        verb = _verb(fields)
        jobs, more = await run_in_threadpool(_selected_jobs, site, verb, fields)
        if not jobs:
            raise Problem(400, "No job was chosen.", "Go back and tick some, or choose all that match.")
        return _preview(site, request, fields, jobs, more)

    return preview


def _preview(
    site: Site, request: Request, fields: Fields, jobs: list[Job], more: bool = False, *, status: int = 200
) -> Response:
    """What will happen to each. A verb that must be told something asks for it here."""
    verb, now = _verb(fields), site.clock.now()
    inputs = {name: fields.get(name, [""])[0] for name in _INPUTS.get(verb, ())}
    if verb == "event" and not inputs["event"]:
        inputs["event"] = next((job.wait.event for job in jobs if job.wait is not None and job.wait.event), "")
    change, problem = Change(verb), ""
    is_told = any(name in fields for name in inputs)
    try:
        change = parse_change(verb, fields, now) if is_told else Change(verb, event=inputs.get("event", ""))
    except BadChange as error:
        problem, status = str(error), 400
    back = f"/jobs?{urlencode({'q': fields.get('q', [''])[0]})}" if "q" in fields else "/jobs"
    shown = {"verb": verb, "label": LABELS[verb], "lines": plan(change, jobs, now), "more": more, "most": MOST_JOBS}
    shown |= {
        "once": new_form_name(),
        "back": back,
        "inputs": inputs,
        "problem": problem,
        "query": fields.get("q", [""])[0],
    }
    return site.page(request, "preview.html", status, **shown)


def _apply_route(site: Site) -> Handler:
    async def act(request: Request) -> Response:
        fields = await site.access.read_form(request)
        verb = _verb(fields)
        who = site.access.visitor(request)
        chosen = [_parse_seen(text) for text in fields.get("seen", [])][:MOST_JOBS]
        try:
            change = parse_change(verb, fields, site.clock.now())
        except BadChange:
            jobs = await run_in_threadpool(site.source.existing, [job_id for job_id, _ in chosen])
            return await run_in_threadpool(_preview, site, request, fields, jobs)
        stores = await run_in_threadpool(site.source.stores_of, [job_id for job_id, _ in chosen])
        outcomes = [
            await run_in_threadpool(apply, stores[job_id], change, job_id, state, who) for job_id, state in chosen
        ]
        site.overview.forget()
        return site.page(request, "outcome.html", verb=verb, label=LABELS[verb], outcomes=outcomes)

    return act


def _verb(fields: dict[str, list[str]]) -> Verb:
    verb = fields.get("verb", [""])[0]
    if verb not in VERBS:
        raise Problem(400, f"There is no action {verb[:50]!r}.", "Go back and use one of the buttons.")
    return cast(Verb, verb)


def _selected_jobs(site: Site, verb: Verb, fields: dict[str, list[str]]) -> tuple[list[Job], bool]:
    """The ticked jobs, or all matching jobs that the verb affects; and whether there are more."""
    if "group" in fields:
        ids = _group_ids(site, verb, fields["group"][0])
        return site.source.existing(ids[:MOST_JOBS]), len(ids) > MOST_JOBS
    if "all" not in fields:
        ids = fields.get("job", []) or [_parse_seen(text)[0] for text in fields.get("seen", [])]
        return site.source.existing(ids[:MOST_JOBS]), len(ids) > MOST_JOBS
    criteria = Filter.parse(fields.get("q", [""])[0])
    jobs: list[Job] = []
    more = False
    for state in _AFFECTED[verb] if criteria.state is None else (criteria.state_name,):
        wanted = criteria.with_state(state)
        page = find_jobs(
            AllJobs(criteria.sources_of(site.source.changeable())), wanted, None, site.clock.now(), MOST_JOBS
        )
        jobs += page.jobs
        more = more or page.token is not None
    return jobs[:MOST_JOBS], more or len(jobs) > MOST_JOBS


_AFFECTED: Final[Mapping[str, tuple[str, ...]]] = {
    "cancel": ("queued", "processing"),
    "retry": ("failed",),
    "run": ("scheduled", "retrying"),
    "reschedule": ("scheduled", "retrying"),
    "event": ("waiting",),
    "clone": ("failed",),
}
"""The states that a verb is about, where the filter names none."""


def _group_ids(site: Site, verb: Verb, key: str) -> list[str]:
    """The failed jobs of a group; those that are to be cancelled are the ones that will be retried."""
    wanted = tuple(key.replace("\r\n", "\n").split("\n", 2))  # browsers send line breaks as two characters
    overview = site.overview.current()
    some = overview.survey.retrying if verb == "cancel" else overview.failures
    return [one.job_id for one in some if one.group == wanted]


def _parse_seen(text: str) -> tuple[str, State]:
    state, _, job_id = text.partition(" ")
    try:
        return job_id, State(state)
    except ValueError:
        raise Problem(400, "The form does not say in which state a job was seen.", "Load the page again.") from None
