"""`/`: the overview."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.jobs.model.derived_state import DerivedState
from penstock.jobs.model.state import State
from penstock.web.dashboard.charts import job_charts
from penstock.web.dashboard.ended_jobs import SPANS, bars
from penstock.web.dashboard.job_counts import Overview
from penstock.web.dashboard.poller import Feed, KeyedFeed
from penstock.web.dashboard.site import Site

_TILES: Final = (
    DerivedState.FAILED,
    DerivedState.LOST,
    DerivedState.BLOCKED,
    DerivedState.RETRYING,
    DerivedState.RUNNING,
    DerivedState.READY,
    DerivedState.SCHEDULED,
    DerivedState.WAITING,
    DerivedState.COMPLETED,
    DerivedState.CANCELLED,
)
"""What is wrong comes first."""
_SHOWN_GROUPS: Final = 6
_SHOWN_BLOCKED: Final = 6


def routes(site: Site) -> list[Route]:
    def show(request: Request) -> Response:
        span = request.query_params.get("span", "")
        span = span if span in SPANS else _USUAL
        live = "overview" if span == _USUAL else f"overview?key={span}"
        return site.page(request, "overview.html", live=live, **_context(site, site.overview.current(), span))

    return [Route("/", show)]


_USUAL: Final = "1h"


def feeds(site: Site) -> dict[str, Feed]:
    def draw(key: str) -> str | None:
        if key not in ("", *SPANS):
            return None
        context = _context(site, site.overview.refresh(), key or _USUAL, is_live=True)
        return site.live_fragment("overview_live.html", **context)

    return {"overview": KeyedFeed("overview", draw)}


def _context(site: Site, overview: Overview, name: str, *, is_live: bool = False) -> dict[str, Any]:
    span, store, at = SPANS[name], site.source.store(), overview.finished.at
    since = None
    if name == _USUAL:
        sample = overview.finished.jobs
        ends = [(job.ended_at, job.state is State.FAILED, 1) for job in sample if job.ended_at is not None]
    else:
        read, at = site.ended.refresh if is_live else site.ended.current, overview.at
        view = read(store, overview.at)
        ends, since = list(view.ends), view.since
    drawn = bars(ends, span, at)
    failed = sum(one.failed for one in drawn)
    spent = site.spent
    attended = {queue for worker in overview.workers for queue in worker.queues}
    return {
        "overview": overview,
        "groups": sorted(overview.groups, key=lambda one: one.last.failed_at, reverse=True)[:_SHOWN_GROUPS],
        "unattended": [
            (name, queue.states[DerivedState.READY])
            for name, queue in sorted(overview.survey.queues.items())
            if overview.workers and name not in attended and queue.states[DerivedState.READY]
        ],
        "blocked": overview.survey.blocked[:_SHOWN_BLOCKED],
        "states": _TILES,
        "spans": SPANS,
        "span": span,
        "since": since,
        "chart": job_charts.throughput(drawn, span.words),
        "bars": [one for one in reversed(drawn) if one.completed or one.failed],
        "ended": failed + sum(one.completed for one in drawn),
        "failed": failed,
        "busy": sum(worker.running for worker in overview.workers),
        "silent": sum(worker.is_silent(overview.at) for worker in overview.workers),
        "places": sum(worker.concurrency for worker in overview.workers),
        "polling_units": sum(worker.read_units for worker in overview.workers),
        "spent": spent,
        "prices": site.source.meter.prices,
    }
