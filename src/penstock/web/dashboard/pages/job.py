"""`/jobs/{id}`: one job, live: its progress, attempts, log, checkpoints, files and cost."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from penstock.clock import span
from penstock.errors import PenstockError
from penstock.jobs.explain import explain, gather
from penstock.jobs.model.derived_state import DerivedState
from penstock.jobs.model.job import BadJob, Checkpoint, Entry, History, Job, JobNotFound, Payload
from penstock.jobs.sources import JobSource
from penstock.jobs.store.conditions import Situations
from penstock.jobs.store.store import JobStore
from penstock.web.dashboard.charts import job_charts
from penstock.web.dashboard.charts.job_graph import draw_graph
from penstock.web.dashboard.job_actions import can_reschedule, can_run_now, clone, form_name, new_form_name
from penstock.web.dashboard.job_log import (
    LEVELS,
    PAGE_LINES,
    LogPage,
    log_text,
    read_history,
    read_page,
    rows_of,
    search_log,
)
from penstock.web.dashboard.job_relations import (
    WorkflowStep,
    read_graph,
    read_operations,
    related,
    workflow_steps,
)
from penstock.web.dashboard.poller import Feed, Message, fragment
from penstock.web.dashboard.site import Site, disposition, download, pretty
from penstock.web.dashboard.traceback_frames import parse_traceback
from penstock.web.problems import Problem
from penstock.wire.values import item_size

LOG_LINES: Final = PAGE_LINES


def routes(site: Site) -> list[Route]:
    def show(request: Request) -> Response:
        source, history = _find(site, request.path_params["job_id"])
        if source.store is None:
            return _system_job(site, request, source, history)
        store, job = source.store, history.job
        page, search = _log_page(store, job, request.query_params)
        is_newest = page.is_newest and not search
        context = {
            **_context(site, store, history),
            "rows": page.rows,
            "last": page.rows[-1].number if page.rows else 0,
            "earlier": page.earlier,
            "search": search,
            "more": None if page.searched_to is None else urlencode({**search, "from": page.searched_to}),
            "levels": LEVELS,
            "is_newest": is_newest,
            "comparison": _comparison(store, history, request.query_params),
        }
        is_ours = source.table in {one.table for one in site.source.changeable()}
        if not is_ours:  # a system's jobs are changed by its commands
            context |= {name: False for name in context if name.startswith("can_")}
        live = "job?" + urlencode({"key": job.id}) if is_newest and is_ours else None
        return site.page(request, "job.html", live=live, **context)

    def log(request: Request) -> Response:
        store = _store_of(site, request.path_params["job_id"])
        job = store.get(request.path_params["job_id"])
        headers = {"Content-Disposition": disposition(f"{job.id}.txt")}
        return StreamingResponse(log_text(store, job), 200, headers, "text/plain; charset=utf-8")

    def file(request: Request) -> Response:
        store = _store_of(site, request.path_params["job_id"])
        history = store.history(request.path_params["job_id"])
        name = request.path_params["name"]
        job_file = next((one for one in history.files if one.name == name), None)
        if job_file is None:
            raise Problem(404, f"{history.job.id} has no file {name[:100]}.", "See the list on the job's page.")
        if store.files is None:
            raise Problem(404, "This dashboard does not know where the files are.", "Give `penstock up --files PLACE`.")
        return download(store.files.open(job_file.saved.key, expect=job_file.saved), name, job_file.saved.size)

    return [
        Route("/jobs/{job_id}", show),
        Route("/jobs/{job_id}/log.txt", log),
        Route("/jobs/{job_id}/clone", _clone_route(site), methods=["GET", "POST"]),
        Route("/jobs/{job_id}/files/{name:path}", file),
    ]


def _clone_route(site: Site) -> Callable[[Request], Awaitable[Response]]:
    """The job's arguments as a form; what it sends is a new job."""

    async def show(request: Request) -> Response:
        fields = await site.access.read_form(request) if request.method == "POST" else {}
        store = await run_in_threadpool(_store_of, site, request.path_params["job_id"])
        job = await run_in_threadpool(store.get, request.path_params["job_id"])
        if job.secret:
            raise Problem(403, "Some arguments of this job are secret, and are not shown here.", "Enqueue it by code.")
        before = await run_in_threadpool(_editable_args, store, job)
        context: dict[str, Any] = {"job": job, "text": before, "problem": "", "changes": ()}
        if request.method == "POST":
            context["text"] = fields.get("args", [""])[0]
            args, context["problem"] = _parse_args(context["text"])
            if args is not None and fields.get("do") == ["run"]:
                try:
                    made = await run_in_threadpool(
                        clone, store, job, args, site.access.visitor(request), form_name(fields)
                    )
                except BadJob as error:
                    context["problem"] = str(error)
                else:
                    return RedirectResponse(f"/jobs/{made.id}", 303)
            one, other = (text.splitlines()[:_MOST_DIFF_LINES] for text in (before, pretty(args)))
            lines = difflib.unified_diff(one, other, "now", "then", lineterm="", n=2)
            context["changes"] = () if args is None else [(_DIFF_CLASSES.get(line[:1], ""), line) for line in lines]
        status = 400 if context["problem"] else 200
        return site.page(request, "clone.html", status, once=new_form_name(), **context)

    return show


_EDITABLE_BYTES: Final = 300_000
"""Of a form that must stay below the limit of a request."""


def _editable_args(store: JobStore, job: Job) -> str:
    """The arguments, whole: a text that was cut would be other arguments."""
    try:
        text = pretty(store.load_to_show(job, job.args), sys.maxsize)
    except (PenstockError, OSError) as error:
        raise Problem(409, f"The arguments cannot be loaded: {error}", "Enqueue it by code.") from None
    if len(quote_plus(text)) > _EDITABLE_BYTES:
        raise Problem(413, "The arguments of this job are too long to be edited here.", "Enqueue it by code.")
    return text


def _parse_args(text: str) -> tuple[dict[str, object] | None, str]:
    """The arguments, or None and what is wrong with them."""
    try:
        args = json.loads(text)
    except ValueError as error:
        return None, f"This is no JSON: {error}."
    if not isinstance(args, dict):
        return None, 'Arguments are a JSON object, such as {"project": "bodwassho"}.'
    return args, ""


def _store_of(site: Site, job_id: str) -> JobStore:
    """The job store that has the job. Raises JobNotFound."""
    store = site.source.store_of(job_id)
    if store is None:
        raise JobNotFound(job_id)
    return store


def _find(site: Site, job_id: str) -> tuple[JobSource, History]:
    """The job, where it can be changed before where it can only be read. Raises JobNotFound."""
    for source in sorted(site.source.jobs().sources, key=lambda one: one.store is None):
        try:
            found = source.history(job_id) if source.store is None else read_history(source.store, job_id)
        except JobNotFound:
            continue
        if found is not None:
            return source, found
    raise JobNotFound(job_id)


def _log_page(store: JobStore, job: Job, query: Mapping[str, str]) -> tuple[LogPage, dict[str, str]]:
    """The part of the log that is asked for, and the search if it is one."""
    search = {name: query[name][:200] for name in ("find", "level") if query.get(name)}
    if search:
        after = _number(query.get("from", "")) or 0
        return search_log(store, job, search.get("find", ""), search.get("level", ""), after), search
    line = _number(query.get("line", ""))
    upto = _number(query.get("upto", "")) if line is None else line + PAGE_LINES // 2
    return read_page(store, job, upto), {}


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < _LONGEST_NUMBER else None


_REFRESH_SECONDS: Final = 5


def _system_job(site: Site, request: Request, source: JobSource, history: History) -> Response:
    """A job of a system that has its own table: shown, not changed, and read again while it runs."""
    refresh = None if history.job.is_terminal else _REFRESH_SECONDS
    rows = [row for entry in history.entries[-LOG_LINES:] for row in rows_of(entry)]
    return site.page(request, "system_job.html", job=history.job, source=source, rows=rows, refresh_seconds=refresh)


def feeds(site: Site) -> dict[str, Feed]:
    return {"job": _JobFeed(site)}


# ── live ─────────────────────────────────────────────────────────────────────────────────────────

_RENDERED_A_POLL: Final = 20
"""Changed jobs that one poll reads whole; more of them take turns."""
_EXPLAINED_A_POLL: Final = 4
_EXPLAIN_SECONDS: Final = 5.0
_SHORT_LOG: Final = 300
_LONG_LOG_SECONDS: Final = 10.0
_LINES_A_SECOND: Final = 500
"""The longer a log, the less often it is read whole."""


@dataclass(slots=True)
class _FollowedJob:
    """What the feed knows of a followed job."""

    version: int = 0
    line: int | None = None
    drawn_at: float = 0.0
    read_at: float = 0.0
    history: History | None = None


class _JobFeed:
    """Reads all followed jobs in one batch, then those that have changed whole: a bounded number a poll."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._seen: dict[str, _FollowedJob] = {}

    def poll(self, keys: Sequence[str]) -> Mapping[str, Sequence[Message]]:
        self._seen = {key: self._seen.get(key) or _FollowedJob() for key in keys}
        stores = {
            job.id: (source.store, job)
            for source in reversed(self._site.source.changeable())
            for job in source.store.get_existing(keys)
        }
        now = self._site.clock.now()
        jobs = [job for _, job in stores.values()]
        changed = [job for job in jobs if job.version != self._seen[job.id].version]
        stale = [job for job in jobs if not job.is_terminal and now - self._seen[job.id].drawn_at > _EXPLAIN_SECONDS]
        changed.sort(key=lambda job: self._seen[job.id].drawn_at)
        stale = sorted((job for job in stale if job not in changed), key=lambda job: self._seen[job.id].drawn_at)
        messages = {}
        for job in [*changed[:_RENDERED_A_POLL], *stale[:_EXPLAINED_A_POLL]]:
            try:
                messages[job.id] = self._messages(stores[job.id][0], job, now)
            except JobNotFound:
                continue  # it has expired just now
        return messages

    def _messages(self, store: JobStore, job: Job, now: float) -> list[Message]:
        seen = self._seen[job.id]
        after = seen.line
        if after is None or job.entries - after > LOG_LINES:
            # The newest line is always sent: a subscriber that lacks those before it then asks for them (poller.py, 3).
            after = max(0, job.entries - 1)
        entries = store.entries(job.id, after=after) if job.entries > after else []
        lines = [self._line(entry) for entry in entries]
        history = self._history(store, job, entries, seen, now)
        drawn = self._site.live_fragment("job_live.html", **_context(self._site, store, history))
        seen.version, seen.drawn_at = history.job.version, now
        seen.line = max([after, *(entry.number for entry in entries)])
        return [*lines, fragment("job", drawn)]

    def _history(self, store: JobStore, job: Job, entries: list[Entry], seen: _FollowedJob, now: float) -> History:
        """Reads a short log whole. A long one is read whole every 10 seconds or more, and extended in between."""
        last = seen.history
        wait = max(_LONG_LOG_SECONDS, job.entries / _LINES_A_SECOND)
        if last is None or job.entries <= _SHORT_LOG or job.is_terminal or now - seen.read_at > wait:
            last, seen.read_at = read_history(store, job.id), now
        else:
            known = last.entries[-1].number if last.entries else 0
            last = replace(last, job=job, entries=(*last.entries, *(one for one in entries if one.number > known)))
        seen.history = last
        return last

    def lines_after(self, key: str, after: int) -> Sequence[Message]:
        return [self._line(entry) for entry in _store_of(self._site, key).entries(key, after=after)]

    def _line(self, entry: Entry) -> Message:
        return Message("line", self._site.live_fragment("log_line.html", rows=rows_of(entry)), number=entry.number)


# ── the page ─────────────────────────────────────────────────────────────────────────────────────


_SHOWN_CHECKPOINTS: Final = 10


def _context(site: Site, store: JobStore, history: History) -> dict[str, Any]:
    job, now = history.job, store.clock.now()
    situations = Situations(store)
    situation = situations.of(job)
    graph = read_graph(store, job, situations.of)
    is_lost = situation.state is DerivedState.LOST
    pace = job_charts.Pace() if is_lost else job_charts.pace(job, history.entries)
    life = job_charts.stretches(job, history.events, now)
    if is_lost:
        life[-1] = replace(life[-1], outcome="lost")
    if pace.ends_at is not None and pace.ends_at < now:  # it has slowed down: nobody knows when it ends
        pace = replace(pace, ends_at=None)
    return {
        "job": job,
        "situation": situation,
        "history": history,
        "why": explain(job, gather(store, job)),
        "args": _value(store, job, job.args),
        "blocks": parse_traceback(job.error.trace) if job.error is not None and job.error.trace else [],
        "errors": {one.attempt: one.detail for one in history.events if one.type in _FAILS and one.detail},
        "related": related(graph),
        "graph": draw_graph(graph),
        "left_out": graph.left_out,
        "workflow": _workflow(store, history, now),
        "checkpoints": [(point, _value(store, job, point.data)) for point in history.checkpoints[-_SHOWN_CHECKPOINTS:]],
        "pace": pace,
        "curve": job_charts.progress_curve(job, history.entries, pace),
        "steps": job_charts.step_bars(job, history.entries, job.updated_at),
        "life": life,
        "timeline": job_charts.timeline(life),
        "cost": cost_of(store, history),
        "result": None if job.result is None else _value(store, job, job.result),
        "can_cancel": not job.is_terminal and job.cancel_reason is None,
        "can_retry": job.state.value == "failed",
        "can_run": can_run_now(job, now),
        "can_reschedule": can_reschedule(job),
        "can_send": not job.is_terminal,
        "can_clone": not job.secret,
    }


_FAILS: Final = frozenset({"retrying", "failed", "parked"})


@dataclass(frozen=True, slots=True)
class StepLine:
    """A step of a workflow as the page shows it."""

    step: WorkflowStep
    seconds: float
    bar: Markup
    value: str | None


def _workflow(store: JobStore, history: History, now: float) -> list[StepLine]:
    """Steps and waits as a waterfall, with what they were called with and what they gave."""
    steps = workflow_steps(history, read_operations(store, history))
    if not any(one.kind != "step" for one in steps) and len(steps) < 2:
        return []
    low = min(one.start for one in steps)
    high = max(now if one.end is None else one.end for one in steps)
    lines = []
    for one in steps:
        end = now if one.end is None else one.end
        kind = "bar-waiting" if one.kind != "step" else "meter-done"
        bar = job_charts.span_bar(one.start, end, low, high, f"{one.name}: {span(end - one.start)}", kind)
        value = None if one.value is None else _value(store, history.job, one.value)
        lines.append(StepLine(one, end - one.start, bar, value))
    return lines


def _value(store: JobStore, job: Job, payload: Payload) -> str:
    """A payload as text, or why it cannot be loaded."""
    try:
        return pretty(store.load_to_show(job, payload))
    except (PenstockError, OSError) as error:
        return f"({error})"


_LONGEST_NUMBER: Final = 12


# ── checkpoints ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two checkpoints, and the diff of their JSON: (class, line)."""

    before: str
    after: str
    lines: tuple[tuple[str, str], ...]


_MOST_DIFF_LINES: Final = 2_000
_DIFF_CLASSES: Final = {"+": "diff-add", "-": "diff-del", "@": "diff-place"}


def _comparison(store: JobStore, history: History, query: Mapping[str, str]) -> Comparison | None:
    points = {point.name: point for point in history.checkpoints}
    before, after = points.get(query.get("before", "")), points.get(query.get("after", ""))
    if before is None or after is None:
        return None
    one, other = (_checkpoint_lines(store, history.job, point) for point in (before, after))
    lines = _diff(one, other, _label(before), _label(after))
    return Comparison(before.name, after.name, tuple(lines[:_MOST_DIFF_LINES]))


def _diff(one: list[str], other: list[str], before: str, after: str) -> list[tuple[str, str]]:
    lines = difflib.unified_diff(one, other, before, after, lineterm="", n=2)
    return [(_DIFF_CLASSES.get(line[:1], ""), line) for line in lines]


def _checkpoint_lines(store: JobStore, job: Job, point: Checkpoint) -> list[str]:
    return _value(store, job, point.data).splitlines()[:_MOST_DIFF_LINES]


def _label(point: Checkpoint) -> str:
    return f"{point.name} (version {point.version})"


# ── cost ─────────────────────────────────────────────────────────────────────────────────────────

_UNIT_BYTES: Final = 1024
_INDEXES: Final = 4
_SAMPLE: Final = 100
"""Entries that are measured: the lines of a long log are much alike."""
_MOVES: Final = 2
"""A row that moves within an index is deleted and written."""


@dataclass(frozen=True, slots=True)
class Cost:
    main: int
    """Writes of the main record."""
    records: int
    """Log entries, checkpoints, files."""
    indexes: int

    @property
    def write_units(self) -> int:
        return self.main + self.records + self.indexes


def cost_of(store: JobStore, history: History) -> Cost:
    """An estimate, in write units.

    DynamoDB reports a call's consumption to the caller only, and nobody stores it by job. But a job's records show
    its writes: `version` counts those of the main record, and each other record was written once, those of a report
    in a transaction with the main record (which costs twice).
    """
    job, layout = history.job, store.layout
    each = _units(item_size(layout.main(job)))
    reports = len(history.entries)
    newest = [layout.entry(job, entry).item for entry in history.entries[-_SAMPLE:]]
    others = [layout.checkpoint(job, point).item for point in history.checkpoints]
    others += [layout.file(job, file).item for file in history.files]
    entry_units = sum(_units(item_size(item)) for item in newest) * reports // max(1, len(newest))
    records = 2 * (entry_units + sum(_units(item_size(item)) for item in others))
    # A new job has a row in each index. A change of state moves it in two of them; a report moves its lease in one.
    moves = _MOVES * (2 * max(0, len(history.events) - 1) + reports)
    return Cost(each * (job.version + reports), records, _INDEXES + moves)


def _units(size: int) -> int:
    return max(1, -(-size // _UNIT_BYTES))
