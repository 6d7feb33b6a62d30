"""A job of a system that keeps its own table: shown, not changed, and read again while it runs."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from penstock.jobs.model.job import History
from penstock.jobs.sources import JobSource
from penstock.web.dashboard.site import Site

_REFRESH_SECONDS: Final = 5
_LOG_LINES: Final = 200


def system_job(site: Site, request: Request, source: JobSource, history: History) -> Response:
    job = history.job
    return site.page(
        request,
        "system_job.html",
        job=job,
        source=source,
        lines=history.entries[-_LOG_LINES:],
        refresh_seconds=None if job.is_terminal else _REFRESH_SECONDS,
    )
