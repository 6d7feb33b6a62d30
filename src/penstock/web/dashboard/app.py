"""The dashboard as an ASGI application: its routes, its middleware, its error pages, and how it is served."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, suppress
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
from penstock.jobs.metrics.instruments import Registry
from penstock.jobs.model.job import JobNotFound
from penstock.web.dashboard import pages
from penstock.web.dashboard.metrics import metrics_routes
from penstock.web.dashboard.poller import DEFAULT_PAUSE_SECONDS, Poller, running_poller
from penstock.web.dashboard.security import HEADERS, AccessControl, AccessMiddleware
from penstock.web.dashboard.site import Site
from penstock.web.dashboard.source import NoJobs, Source
from penstock.web.guard import Guard, PathDispatch, SecurityHeaders
from penstock.web.problems import Problem
from penstock.web.server import running_app, serve

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
    api: Starlette | None = None,
    metrics: Registry | None = None,
) -> Starlette:
    """The application; `state.poller` is its poller.

    `hosts` are the host names that it accepts beside this machine's own. `api` answers what is below its prefix
    (web/jobs_api.py). `metrics` are those of a worker in this process.
    """
    access = AccessControl(token=token, read_only=read_only)
    site = Site(source, access, clock)
    poller = Poller(pages.feeds(site), pause_seconds)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with running_poller(poller):
            with suppress(PenstockError, OSError):  # the first page then shows the error
                await run_in_threadpool(site.overview.refresh)
            yield

    app = Starlette(
        routes=[*pages.routes(site), *metrics_routes(site, metrics), _live_route(poller), _static_route()],
        middleware=[
            *([] if api is None else [Middleware(PathDispatch, prefix=api.state.prefix, other=api)]),
            Middleware(SecurityHeaders, headers=HEADERS),
            Middleware(Guard, hosts=tuple(hosts), body_bytes=lambda method, path: BODY_BYTES, page=site.refusal),
            Middleware(AccessMiddleware, access=access, page=site.refusal),
        ],
        exception_handlers=_handlers(site),
        lifespan=lifespan,
    )
    app.state.poller = poller
    app.state.site = site
    return app


def _live_route(poller: Poller) -> BaseRoute:
    async def live(request: Request) -> Response:
        feed = request.path_params["feed"]
        if feed not in poller.feeds:
            raise Problem(404, f"There is nothing live called {feed[:50]}.", "Load the page again.")
        key = request.query_params.get("key", "")
        last = request.headers.get("last-event-id") or request.query_params.get("after", "")
        after = int(last) if last.isascii() and last.isdigit() and len(last) < _LONGEST_NUMBER else None
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(poller.follow(feed, key, after), 200, headers, "text/event-stream")

    return Route("/live/{feed}", live)


_LONGEST_NUMBER: Final = 12


def _static_route() -> BaseRoute:
    class CachedFiles(StaticFiles):
        def file_response(self, *args: Any, **options: Any) -> Response:
            response = super().file_response(*args, **options)
            response.headers["Cache-Control"] = "public, max-age=31536000, immutable"  # the URL contains the hash
            return response

    return Mount("/static", CachedFiles(packages=[("penstock.web.dashboard", "static")]))


# ── error pages ──────────────────────────────────────────────────────────────────────────────────


def _handlers(site: Site) -> Mapping[Any, Any]:
    def problem(request: Request, error: Problem) -> Response:
        return site.page(request, "problem.html", error.status, message=error.message, next_step=error.next_step)

    def http(request: Request, error: HTTPException) -> Response:
        path = request.url.path[:100]
        message = (
            f"There is no page {path}." if error.status_code == 404 else f"{request.method} {path}: {error.detail}."
        )
        return site.page(
            request, "problem.html", error.status_code, message=message, next_step="Start at the overview."
        )

    def penstock_error(request: Request, error: PenstockError) -> Response:
        if isinstance(error, ResourceNotFoundException):
            site.source.forget()
        if isinstance(error, NoJobs | ResourceNotFoundException):
            return site.page(request, "no_jobs.html", table=site.source.table)
        if isinstance(error, JobNotFound):
            return site.page(request, "problem.html", 404, message=str(error), next_step="Look for it among the jobs.")
        _LOG.warning("%s %s: %s", request.method, request.url.path, error)
        return site.page(request, "away.html", 503, message=str(error), refresh_seconds=_REFRESH_SECONDS)

    def unexpected(request: Request, error: Exception) -> Response:
        message = "The dashboard has failed to make this page."
        response = site.page(request, "problem.html", 500, message=message, next_step="See the log of `penstock up`.")
        response.headers.update(HEADERS)  # this handler runs outside of the middleware
        return response

    return {Problem: problem, HTTPException: http, PenstockError: penstock_error, Exception: unexpected}


_REFRESH_SECONDS: Final = 5


# ── serving ──────────────────────────────────────────────────────────────────────────────────────

_CONNECTIONS: Final = 2_000
_GRACE_SECONDS: Final = 3


def serve_dashboard(app: Starlette, sockets: list[socket.socket], ready: Callable[[str], None]) -> None:
    """Serves on what `penstock.server.server.listen` gave until a signal; `ready` is called with the URL.

    The streams of open pages are closed first, so that they do not delay the shutdown.
    """
    close = app.state.poller.close
    serve(app, sockets, ready, connections=_CONNECTIONS, grace_seconds=_GRACE_SECONDS, ending=close)


def running_dashboard(app: Starlette, port: int = 0) -> AbstractContextManager[str]:
    """Serves in a thread on a port of this machine; the URL."""
    close = app.state.poller.close
    return running_app(app, port, connections=_CONNECTIONS, grace_seconds=_GRACE_SECONDS, ending=close)
