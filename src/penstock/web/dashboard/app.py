"""The dashboard as an ASGI application."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from penstock.clock import Clock
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.jobs.model.job import JobNotFound
from penstock.web.dashboard import pages
from penstock.web.dashboard.desk import Desk
from penstock.web.dashboard.live import DEFAULT_PAUSE_SECONDS, Hub, running
from penstock.web.dashboard.security import HEADERS, Keeper, Secured
from penstock.web.dashboard.source import NoJobs, Source
from penstock.web.guard import Guard
from penstock.web.problems import Problem

BODY_BYTES: Final = 512 * 1024
"""A form with five hundred jobs, or an item to be stored."""
_LOG = logging.getLogger("penstock.web")


def make_dashboard(
    source: Source,
    *,
    read_only: bool = False,
    token: str | None = None,
    hosts: Iterable[str] = (),
    pause_seconds: float = DEFAULT_PAUSE_SECONDS,
    clock: Clock | None = None,
) -> Starlette:
    """The application; `state.hub` is its poller.

    `hosts` are names beside this machine's own that it may be called by.
    """
    keeper = Keeper(token=token, read_only=read_only)
    desk = Desk(source, keeper, clock)
    hub = Hub(pages.feeds(desk), pause_seconds)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with running(hub):
            with suppress(PenstockError, OSError):  # the first page then says what is wrong
                await run_in_threadpool(desk.board.refresh)
            yield

    app = Starlette(
        routes=[*pages.routes(desk), _live_route(hub), _static_route()],
        middleware=[
            Middleware(Secured, keeper=keeper),
            Middleware(Guard, hosts=tuple(hosts), body_bytes=lambda method, path: BODY_BYTES),
        ],
        exception_handlers=_handlers(desk),
        lifespan=lifespan,
    )
    app.state.hub = hub
    app.state.desk = desk
    return app


def _live_route(hub: Hub) -> BaseRoute:
    async def live(request: Request) -> Response:
        feed = request.path_params["feed"]
        if feed not in hub.feeds:
            raise Problem(404, f"There is nothing live called {feed[:50]}.", "Load the page again.")
        key = request.query_params.get("key", "")
        told = request.headers.get("last-event-id") or request.query_params.get("after", "")
        after = int(told) if told.isascii() and told.isdigit() and len(told) < _LONGEST_NUMBER else None
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(hub.follow(feed, key, after), 200, headers, "text/event-stream")

    return Route("/live/{feed}", live)


_LONGEST_NUMBER: Final = 12


def _static_route() -> BaseRoute:
    class Kept(StaticFiles):
        def file_response(self, *args: Any, **options: Any) -> Response:
            response = super().file_response(*args, **options)
            response.headers["Cache-Control"] = "public, max-age=31536000, immutable"  # its address has its hash
            return response

    return Mount("/static", Kept(packages=[("penstock.web.dashboard", "static")]))


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────


def _handlers(desk: Desk) -> Mapping[Any, Any]:
    def problem(request: Request, error: Problem) -> Response:
        return desk.page(request, "problem.html", error.status, message=error.message, next_step=error.next_step)

    def http(request: Request, error: HTTPException) -> Response:
        path = request.url.path[:100]
        message = (
            f"There is no page {path}." if error.status_code == 404 else f"{request.method} {path}: {error.detail}."
        )
        return desk.page(
            request, "problem.html", error.status_code, message=message, next_step="Start at the overview."
        )

    def ours(request: Request, error: PenstockError) -> Response:
        if isinstance(error, ResourceNotFoundException):
            desk.source.forget()
        if isinstance(error, NoJobs | ResourceNotFoundException):
            return desk.page(request, "no_jobs.html", table=desk.source.table)
        if isinstance(error, JobNotFound):
            return desk.page(request, "problem.html", 404, message=str(error), next_step="Look for it among the jobs.")
        _LOG.warning("%s %s: %s", request.method, request.url.path, error)
        return desk.page(request, "away.html", 503, message=str(error), refresh_seconds=_REFRESH_SECONDS)

    def anything(request: Request, error: Exception) -> Response:
        message = "The dashboard has failed to make this page."
        response = desk.page(request, "problem.html", 500, message=message, next_step="See the log of `penstock up`.")
        response.headers.update(HEADERS)  # what handles this is outside of the middleware
        return response

    return {Problem: problem, HTTPException: http, PenstockError: ours, Exception: anything}


_REFRESH_SECONDS: Final = 5
