"""`/jobs`: the list, with the filter in the URL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from penstock.jobs.model.job import Job
from penstock.jobs.model.new_job import is_id
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore
from penstock.web.dashboard.census import Count
from penstock.web.dashboard.desk import Desk
from penstock.web.dashboard.filters import Filter
from penstock.web.dashboard.live import Feed, Message, fragment

PAGE_JOBS: Final = 50
_MOST_LOOKED_AT: Final = 1_000
_LISTS_A_POLL: Final = 4
"""Lists with different filters that are read in one poll; more of them take turns."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of jobs. `looked_at` is how many were read to find them."""

    jobs: tuple[Job, ...]
    token: str | None
    looked_at: int


def listed(store: JobStore, wanted: Filter, token: str | None, limit: int = PAGE_JOBS) -> Listed:
    """The jobs that the filter wants, newest first. Words are looked for in at most a thousand jobs a page."""
    found: list[Job] = []
    looked_at = 0
    step = limit if not wanted.words else _MOST_LOOKED_AT // 4
    while True:
        page = store.find(state=wanted.state, task=wanted.task, tenant=wanted.tenant, limit=step, token=token)
        for number, job in enumerate(page.jobs):
            if not wanted.has_words(job):
                continue
            found.append(job)
            if len(found) == limit:
                is_last = number + 1 == len(page.jobs) and page.token is None
                return Listed(tuple(found), None if is_last else store.layout.place(job), looked_at + number + 1)
        looked_at += len(page.jobs)
        token = page.token
        if token is None or looked_at >= _MOST_LOOKED_AT:
            return Listed(tuple(found), token, looked_at)


def routes(desk: Desk) -> list[Route]:
    def show(request: Request) -> Response:
        text = request.query_params.get("q", "")
        token = request.query_params.get("from") or None
        wanted = Filter.parse(text)
        if len(wanted.words) == 1 and token is None and _is_known(desk.source.store(), wanted.words[0]):
            return RedirectResponse(f"/jobs/{wanted.words[0]}", 303)
        live = "jobs?" + urlencode({"key": _key(text, token)})
        return desk.page(request, "jobs.html", live=live, **_context(desk, text, token))

    return [Route("/jobs", show)]


def feeds(desk: Desk) -> dict[str, Feed]:
    return {"jobs": _JobsFeed(desk)}


class _JobsFeed:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._turn = 0

    def poll(self, keys: Sequence[str]) -> Mapping[str, Sequence[Message]]:
        found: dict[str, Sequence[Message]] = {}
        for key in self._in_turn(keys):
            text, _, token = key.partition("\n")
            context = _context(self._desk, text, token or None)
            found[key] = [fragment("jobs", self._desk.fragment("jobs_live.html", **context))]
        return found

    def _in_turn(self, keys: Sequence[str]) -> list[str]:
        start = self._turn % max(1, len(keys))
        self._turn += _LISTS_A_POLL
        return [*keys[start:], *keys[:start]][:_LISTS_A_POLL]

    def missed(self, key: str, after: int) -> Sequence[Message]:
        return ()


def _key(text: str, token: str | None) -> str:
    return f"{text}\n{token or ''}"


def _is_known(store: JobStore, word: str) -> bool:
    """Whether it is a job's id: then there is nothing to list."""
    return word.startswith("job_") and is_id(word) and bool(store.get_those_there([word]))


def _context(desk: Desk, text: str, token: str | None) -> dict[str, Any]:
    wanted = Filter.parse(text)
    found = listed(desk.source.store(), wanted, token)
    tabs: list[tuple[str, Filter, Count | None]] = [("All", wanted.with_state(None), None)]
    counts = desk.board.counts() if _counts_apply(wanted) else {}
    tabs += [(state.value.capitalize(), wanted.with_state(state), counts.get(state)) for state in State]
    return {
        "text": text,
        "wanted": wanted,
        "found": found,
        "tabs": [(label, urlencode({"q": str(to)}), to.state is wanted.state, number) for label, to, number in tabs],
        "next": None if found.token is None else urlencode({"q": text, "from": found.token}),
        "is_first": token is None,
    }


def _counts_apply(wanted: Filter) -> bool:
    """The counts are of all jobs: beside a filter they would tell of something else."""
    return wanted.task is None and wanted.tenant is None and not wanted.words
