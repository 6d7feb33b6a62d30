"""`/workers`: who works, on what, and which schedules there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.jobs.model.state import State
from penstock.jobs.scheduler.cron import Schedule
from penstock.jobs.store.side_items import Queue
from penstock.jobs.worker.registry import Registry
from penstock.web.dashboard.desk import Desk
from penstock.web.dashboard.live import Feed, Message, fragment

_RUNNING_SHOWN = 100


@dataclass(frozen=True, slots=True)
class ScheduleLine:
    """A schedule: when it last fired, and when it fires next where its text is known."""

    name: str
    fired_at: float | None
    text: str = ""
    next_at: float | None = None


def routes(desk: Desk) -> list[Route]:
    def show(request: Request) -> Response:
        return desk.page(request, "workers.html", live="workers", **_context(desk))

    return [Route("/workers", show)]


def feeds(desk: Desk) -> dict[str, Feed]:
    return {"workers": _WorkersFeed(desk)}


class _WorkersFeed:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def poll(self, keys: Sequence[str]) -> Mapping[str, Sequence[Message]]:
        messages = [fragment("workers", self._desk.fragment("workers_live.html", **_context(self._desk)))]
        return dict.fromkeys(keys, messages)

    def missed(self, key: str, after: int) -> Sequence[Message]:
        return ()


def _context(desk: Desk) -> dict[str, Any]:
    store = desk.source.store()
    now = store.clock.now()
    registry = Registry(store.db, store.layout)
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
        "schedules": schedule_lines(desk.source.schedules, fired, now),
        "now": now,
    }


def schedule_lines(known: Mapping[str, Schedule], fired: Mapping[str, float], now: float) -> list[ScheduleLine]:
    """All that have fired and all that are known, by name."""
    found = []
    for name in sorted({*known, *fired}):
        schedule = known.get(name)
        text = "" if schedule is None else f"{schedule.text} ({schedule.timezone})"
        next_at = None if schedule is None else schedule.after(now)
        found.append(ScheduleLine(name, fired.get(name), text, next_at))
    return found
