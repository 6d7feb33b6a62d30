"""`/jobs/{id}`: all of a job, live."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from penstock.errors import PenstockError
from penstock.jobs.explain import explain, gather
from penstock.jobs.model.job import Checkpoint, Entry, History, Job, JobNotFound, Payload
from penstock.jobs.store.store import JobStore
from penstock.web.dashboard import charts
from penstock.web.dashboard.cost import cost_of
from penstock.web.dashboard.desk import Desk
from penstock.web.dashboard.live import Feed, Message, fragment
from penstock.web.dashboard.rendering import pretty
from penstock.web.problems import Problem

LOG_LINES: Final = 200
_BLOCK_BYTES: Final = 256 * 1024


def routes(desk: Desk) -> list[Route]:
    def show(request: Request) -> Response:
        store = desk.source.store()
        history = store.history(request.path_params["job_id"])
        job = history.job
        lines = _lines_upto(history.entries, request.query_params.get("upto", ""))
        is_newest = not lines or lines[-1].number == history.entries[-1].number
        context = {
            **_context(desk, store, history),
            "args": _value(store, job, job.args),
            "lines": lines,
            "last": lines[-1].number if lines else 0,
            "earlier": lines[0].number - 1 if lines and lines[0].number > history.entries[0].number else None,
            "is_newest": is_newest,
            "comparison": _comparison(store, history, request.query_params),
        }
        live = "job?" + urlencode({"key": job.id}) if is_newest else None
        return desk.page(request, "job.html", live=live, **context)

    def download(request: Request) -> Response:
        store = desk.source.store()
        history = store.history(request.path_params["job_id"])
        name = request.path_params["name"]
        found = next((file for file in history.files if file.name == name), None)
        if found is None:
            raise Problem(404, f"{history.job.id} has no file {name[:100]}.", "See the list on the job's page.")
        if store.files is None:
            raise Problem(404, "This dashboard does not know where the files are.", "Give `penstock up --files PLACE`.")
        stream = store.files.open(found.saved.key, expect=found.saved)
        headers = {"Content-Disposition": disposition(name), "Content-Length": str(found.saved.size)}
        return StreamingResponse(_blocks(stream), 200, headers, "application/octet-stream")

    return [Route("/jobs/{job_id}", show), Route("/jobs/{job_id}/files/{name:path}", download)]


def feeds(desk: Desk) -> dict[str, Feed]:
    return {"job": _JobFeed(desk)}


# ── live ─────────────────────────────────────────────────────────────────────────────────────────

_RENDERED_A_POLL: Final = 20
"""Jobs that are read whole and drawn in one poll, of those that have changed; more of them take turns."""
_EXPLAINED_A_POLL: Final = 4
_EXPLAIN_SECONDS: Final = 5.0
_SHORT_LOG: Final = 300
_LONG_LOG_SECONDS: Final = 10.0
_LINES_A_SECOND: Final = 500
"""The longer a log, the more seldom it is read whole."""


@dataclass(slots=True)
class _Seen:
    """What the poller knows of a job that somebody watches."""

    version: int = 0
    line: int | None = None
    drawn_at: float = 0.0
    read_at: float = 0.0
    history: History | None = None


class _JobFeed:
    """All watched jobs are read in one batch; those that have changed are then read whole, a bounded number a poll."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._seen: dict[str, _Seen] = {}

    def poll(self, keys: Sequence[str]) -> Mapping[str, Sequence[Message]]:
        store = self._desk.source.store()
        self._seen = {key: self._seen.get(key) or _Seen() for key in keys}
        now = store.clock.now()
        jobs = store.get_those_there(keys)
        changed = [job for job in jobs if job.version != self._seen[job.id].version]
        stale = [job for job in jobs if not job.is_terminal and now - self._seen[job.id].drawn_at > _EXPLAIN_SECONDS]
        changed.sort(key=lambda job: self._seen[job.id].drawn_at)
        stale = sorted((job for job in stale if job not in changed), key=lambda job: self._seen[job.id].drawn_at)
        found = {}
        for job in [*changed[:_RENDERED_A_POLL], *stale[:_EXPLAINED_A_POLL]]:
            try:
                found[job.id] = self._messages(store, job, now)
            except JobNotFound:
                continue  # it has expired just now
        return found

    def _messages(self, store: JobStore, job: Job, now: float) -> list[Message]:
        seen = self._seen[job.id]
        after = seen.line
        if after is None or job.entries - after > LOG_LINES:
            # The newest line is always told: who has not seen those before it asks for them then (live.py, 3).
            after = max(0, job.entries - 1)
        entries = store.entries(job.id, after=after) if job.entries > after else []
        lines = [self._line(entry) for entry in entries]
        history = self._history(store, job, entries, seen, now)
        drawn = self._desk.fragment("job_live.html", **_context(self._desk, store, history))
        seen.version, seen.drawn_at = history.job.version, now
        seen.line = max([after, *(entry.number for entry in entries)])
        return [*lines, fragment("job", drawn)]

    def _history(self, store: JobStore, job: Job, entries: list[Entry], seen: _Seen, now: float) -> History:
        """Read whole while it is short; a long log is read again only now and then, and goes on with what is new."""
        last = seen.history
        wait = max(_LONG_LOG_SECONDS, job.entries / _LINES_A_SECOND)
        if last is None or job.entries <= _SHORT_LOG or job.is_terminal or now - seen.read_at > wait:
            last, seen.read_at = store.history(job.id), now
        else:
            known = last.entries[-1].number if last.entries else 0
            last = replace(last, job=job, entries=(*last.entries, *(one for one in entries if one.number > known)))
        seen.history = last
        return last

    def missed(self, key: str, after: int) -> Sequence[Message]:
        return [self._line(entry) for entry in self._desk.source.store().entries(key, after=after)]

    def _line(self, entry: Entry) -> Message:
        return Message("line", self._desk.fragment("log_line.html", entry=entry), number=entry.number)


# ── what is shown ────────────────────────────────────────────────────────────────────────────────


def _context(desk: Desk, store: JobStore, history: History) -> dict[str, Any]:
    job, now = history.job, store.clock.now()
    life = charts.stretches(job, history.events, now)
    return {
        "job": job,
        "history": history,
        "why": explain(job, gather(store, job)),
        "pace": charts.pace(job, history.entries),
        "curve": charts.progress_curve(job, history.entries, now),
        "life": life,
        "timeline": charts.timeline(life),
        "cost": cost_of(store, history),
        "result": None if job.result is None else _value(store, job, job.result),
        "can_cancel": not job.is_terminal and job.cancel_reason is None,
        "can_retry": job.state.value == "failed",
    }


def _value(store: JobStore, job: Job, payload: Payload) -> str:
    """A payload as text to read; where it cannot be loaded, why."""
    try:
        return pretty(store.load(job, payload))
    except (PenstockError, OSError) as error:
        return f"({error})"


_LONGEST_NUMBER: Final = 12


def _lines_upto(entries: Sequence[Entry], upto: str) -> list[Entry]:
    """A page of the log: the newest lines, or those up to a number."""
    if upto.isascii() and upto.isdigit() and len(upto) < _LONGEST_NUMBER:
        entries = [entry for entry in entries if entry.number <= int(upto)]
    return list(entries[-LOG_LINES:])


# ── checkpoints ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two checkpoints, and how the JSON of one becomes the other's: (class, line)."""

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
    lines = tuple(
        (_DIFF_CLASSES.get(line[:1], ""), line)
        for line in difflib.unified_diff(one, other, _named(before), _named(after), lineterm="", n=2)
    )
    return Comparison(before.name, after.name, lines[:_MOST_DIFF_LINES])


def _checkpoint_lines(store: JobStore, job: Job, point: Checkpoint) -> list[str]:
    return _value(store, job, point.data).splitlines()[:_MOST_DIFF_LINES]


def _named(point: Checkpoint) -> str:
    return f"{point.name} (version {point.version})"


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def disposition(name: str) -> str:
    """A header that saves, never shows: the last part of the name, without anything that a header could not hold."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1].strip(". ") or "file"
    plain = re.sub(r"[^A-Za-z0-9._ -]", "_", last)[:_LONGEST_NAME]
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(last[:_LONGEST_NAME], safe='')}"


_LONGEST_NAME: Final = 150


def _blocks(stream: Any) -> Iterator[bytes]:
    with stream:
        while block := stream.read(_BLOCK_BYTES):
            yield block
