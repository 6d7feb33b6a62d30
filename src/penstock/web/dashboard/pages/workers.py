"""`/workers`: the workers that are alive, their jobs, and the schedules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.jobs.cron import Schedule
from penstock.jobs.model.state import State
from penstock.jobs.store.side_items import Queue
from penstock.jobs.worker.registry import WorkerRegistry
from penstock.web.dashboard.poller import Feed, PageFeed
from penstock.web.dashboard.site import Site

_RUNNING_SHOWN = 100


@dataclass(frozen=True, slots=True)
class ScheduleLine:
    """A schedule: when it last fired, and when it fires next where its text is known."""

    name: str
    fired_at: float | None
    text: str = ""
    next_at: float | None = None


def routes(site: Site) -> list[Route]:
    def show(request: Request) -> Response:
        return site.page(request, "workers.html", live="workers", **_context(site))

    return [Route("/workers", show)]


def feeds(site: Site) -> dict[str, Feed]:
    return {"workers": PageFeed("workers", lambda: site.fragment("workers_live.html", **_context(site)))}


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
    fired = {name: firing.at for name, firing in registry.firings().items()}
    return {
        "workers": workers,
        "queues": queues,
        "running": running,
        "schedules": schedule_lines(site.source.schedules, fired, now),
        "now": now,
    }


def schedule_lines(known: Mapping[str, Schedule], fired: Mapping[str, float], now: float) -> list[ScheduleLine]:
    """All that have fired and all that are known, by name."""
    lines = []
    for name in sorted({*known, *fired}):
        schedule = known.get(name)
        text = "" if schedule is None else f"{schedule.text} ({schedule.timezone})"
        next_at = None if schedule is None else schedule.after(now)
        lines.append(ScheduleLine(name, fired.get(name), text, next_at))
    return lines
