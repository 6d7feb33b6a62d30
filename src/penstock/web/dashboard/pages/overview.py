"""`/`: how it stands, at a glance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.jobs.model.state import State
from penstock.web.dashboard import charts
from penstock.web.dashboard.board import Overview
from penstock.web.dashboard.desk import Desk
from penstock.web.dashboard.live import Feed, Message, fragment


def routes(desk: Desk) -> list[Route]:
    def show(request: Request) -> Response:
        return desk.page(request, "overview.html", live="overview", **_context(desk, desk.board.current()))

    return [Route("/", show)]


def feeds(desk: Desk) -> dict[str, Feed]:
    return {"overview": _OverviewFeed(desk)}


class _OverviewFeed:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def poll(self, keys: Sequence[str]) -> Mapping[str, Sequence[Message]]:
        context = _context(self._desk, self._desk.board.refresh())
        messages = [fragment("overview", self._desk.fragment("overview_live.html", **context))]
        return dict.fromkeys(keys, messages)

    def missed(self, key: str, after: int) -> Sequence[Message]:
        return ()


def _context(desk: Desk, found: Overview) -> dict[str, Any]:
    ends = [(job.ended_at, job.state is State.FAILED) for job in found.finished.jobs if job.ended_at is not None]
    failed = sum(1 for _, is_failed in ends if is_failed)
    spent = desk.spent
    return {
        "found": found,
        "states": list(State),
        "chart": charts.throughput(ends, found.finished.at),
        "ended": len(ends),
        "failed": failed,
        "busy": sum(worker.running for worker in found.workers),
        "places": sum(worker.concurrency for worker in found.workers),
        "polling_units": sum(worker.read_units for worker in found.workers),
        "spent": spent,
        "prices": desk.source.meter.prices,
    }
