"""`/workers`: the workers that are alive, their jobs, and the queues."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.jobs.model.state import State
from penstock.jobs.store.side_items import Queue
from penstock.jobs.worker.registry import WorkerRegistry
from penstock.web.dashboard.poller import Feed, PageFeed
from penstock.web.dashboard.site import Site

_RUNNING_SHOWN = 100


def routes(site: Site) -> list[Route]:
    def show(request: Request) -> Response:
        return site.page(request, "workers.html", live="workers", **_context(site))

    return [Route("/workers", show)]


def feeds(site: Site) -> dict[str, Feed]:
    return {"workers": PageFeed("workers", lambda: site.live_fragment("workers_live.html", **_context(site)))}


def _context(site: Site) -> dict[str, Any]:
    store = site.source.store()
    now = store.clock.now()
    registry = WorkerRegistry(store.db, store.layout)
    workers = registry.workers(now, tidy=False)
    names = dict.fromkeys(["default", *(queue for worker in workers for queue in worker.queues)])
    queues: list[Queue] = [store.queue(name) for name in names]
    running: dict[str, list[str]] = {}
    for job in store.find(state=State.PROCESSING, limit=_RUNNING_SHOWN).jobs:
        if job.lease is not None:
            running.setdefault(job.lease.owner, []).append(job.id)
    return {
        "workers": workers,
        "queues": queues,
        "running": running,
        "now": now,
    }
