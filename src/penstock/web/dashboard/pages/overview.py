"""`/`: the overview."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.jobs.model.derived_state import DerivedState
from penstock.jobs.model.state import State
from penstock.web.dashboard.charts import job_charts
from penstock.web.dashboard.job_counts import Overview
from penstock.web.dashboard.job_survey import group_failures
from penstock.web.dashboard.poller import Feed, PageFeed
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


def routes(site: Site) -> list[Route]:
    def show(request: Request) -> Response:
        return site.page(request, "overview.html", live="overview", **_context(site, site.overview.current()))

    return [Route("/", show)]


def feeds(site: Site) -> dict[str, Feed]:
    def draw() -> str:
        return site.live_fragment("overview_live.html", **_context(site, site.overview.refresh()))

    return {"overview": PageFeed("overview", draw)}


def _context(site: Site, overview: Overview) -> dict[str, Any]:
    ends = [(job.ended_at, job.state is State.FAILED) for job in overview.finished.jobs if job.ended_at is not None]
    failed = sum(1 for _, is_failed in ends if is_failed)
    spent = site.spent
    groups = group_failures(overview.survey.failures)
    return {
        "overview": overview,
        "groups": sorted(groups, key=lambda one: one.last.failed_at, reverse=True)[:_SHOWN_GROUPS],
        "states": _TILES,
        "chart": job_charts.throughput(ends, overview.finished.at),
        "ended": len(ends),
        "failed": failed,
        "busy": sum(worker.running for worker in overview.workers),
        "places": sum(worker.concurrency for worker in overview.workers),
        "polling_units": sum(worker.read_units for worker in overview.workers),
        "spent": spent,
        "prices": site.source.meter.prices,
    }
