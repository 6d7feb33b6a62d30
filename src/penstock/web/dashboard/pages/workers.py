"""`/workers`: the workers that are alive and their jobs; `/queues`: the queues, with pausing and resuming.

A pause is undone by one press, so it is not asked for twice: the button says beside it what it will do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from penstock.jobs.model.derived_state import DerivedState
from penstock.jobs.model.job import checked_name
from penstock.jobs.model.state import State
from penstock.jobs.store.side_items import Queue
from penstock.jobs.worker.registry import WorkerInfo, WorkerRegistry
from penstock.web.dashboard import audit
from penstock.web.dashboard.job_actions import reason_of
from penstock.web.dashboard.job_counts import Overview
from penstock.web.dashboard.job_survey import QueueTally
from penstock.web.dashboard.poller import Feed, PageFeed
from penstock.web.dashboard.site import Site
from penstock.web.problems import Problem

_RUNNING_SHOWN: Final = 100
_MOST_QUEUES: Final = 100
_MOST_LIMITS: Final = 50
_OLD_SECONDS: Final = 30.0
"""Numbers that were counted for longer say so."""


@dataclass(frozen=True, slots=True)
class QueueLine:
    """A queue as its page shows it."""

    settings: Queue
    tally: QueueTally
    workers: tuple[WorkerInfo, ...]
    done: int
    """Jobs that ended lately, of the overview's sample."""
    waited: tuple[float, float] | None
    """The median and the 95th percentile of the seconds from when these were due to their start."""
    ran: tuple[float, float] | None
    per_minute: float | None
    """How many end a minute, of that sample."""

    def number(self, state: str) -> int:
        return self.tally.states[DerivedState(state)]

    @property
    def depth(self) -> int:
        """Jobs that could run now if nothing kept them."""
        return self.number("ready") + self.number("blocked")


def routes(site: Site) -> list[Route]:
    def show(request: Request) -> Response:
        return site.page(request, "workers.html", live="workers", **_context(site))

    def queues(request: Request) -> Response:
        return site.page(request, "queues.html", live="queues", **_queues(site, site.overview.current()))

    async def change(request: Request) -> Response:
        fields = await site.access.read_form(request)
        verb, _, name = fields.get("do", [""])[0].partition(" ")
        if verb not in ("pause", "resume"):
            raise Problem(400, "Queues are paused or resumed.", "Go back and use one of the buttons.")
        who = site.access.visitor(request)
        await run_in_threadpool(_change, site, verb, checked_name(name, "queue"), fields.get("reason", [""])[0], who)
        return RedirectResponse("/queues", 303)

    return [Route("/workers", show), Route("/queues", queues), Route("/queues/apply", change, methods=["POST"])]


def _change(site: Site, verb: str, name: str, reason: str, who: str) -> None:
    store = site.source.store()
    if verb == "pause":
        store.pause(name, reason.strip()[:200] or reason_of(who))
    else:
        store.resume(name)
    audit.record(store, who, f"{verb}d" if verb == "resume" else "paused", f"queue {name}")
    site.overview.forget()


def feeds(site: Site) -> dict[str, Feed]:
    def draw_queues() -> str:
        return site.live_fragment("queues_live.html", **_queues(site, site.overview.refresh()))

    return {
        "workers": PageFeed("workers", lambda: site.live_fragment("workers_live.html", **_context(site))),
        "queues": PageFeed("queues", draw_queues),
    }


def _context(site: Site) -> dict[str, Any]:
    store = site.source.store()
    now = store.clock.now()
    workers = WorkerRegistry(store.db, store.layout).workers(now, tidy=False)
    running: dict[str, list[str]] = {}
    for job in store.find(state=State.PROCESSING, limit=_RUNNING_SHOWN).jobs:
        if job.lease is not None:
            running.setdefault(job.lease.owner, []).append(job.id)
    silent = {worker.name for worker in workers if worker.is_silent(now)}
    return {"workers": workers, "running": running, "silent": silent}


def _queues(site: Site, overview: Overview) -> dict[str, Any]:
    store = site.source.store()
    of_workers = (queue for worker in overview.workers for queue in worker.queues)
    names = dict.fromkeys(["default", *of_workers, *sorted(overview.survey.queues)])
    lines = [_line(overview, store.queue(name)) for name in list(names)[:_MOST_QUEUES]]
    return {
        "queues": lines,
        "limits": overview.survey.limits[:_MOST_LIMITS],
        "sample": overview.finished,
        "is_whole": State.QUEUED in overview.survey.whole,
        "old": overview.at - (overview.survey.counted_since or overview.at) > _OLD_SECONDS,
        "counted_since": overview.survey.counted_since,
        "left_out": max(0, len(names) - _MOST_QUEUES),
    }


def _line(overview: Overview, settings: Queue) -> QueueLine:
    name = settings.name
    ended = [job for job in overview.finished.jobs if job.queue == name]
    waited = [job.started_at - max(job.run_at, job.created_at) for job in ended if job.started_at and job.attempt == 1]
    ran = [job.ended_at - job.started_at for job in ended if job.started_at and job.ended_at]
    return QueueLine(
        settings,
        overview.survey.queues.get(name) or QueueTally(name),
        tuple(worker for worker in overview.workers if name in worker.queues),
        len(ended),
        percentiles(waited),
        percentiles(ran),
        len(ended) / overview.finished.minutes if ended else None,
    )


def percentiles(seconds: list[float]) -> tuple[float, float] | None:
    """The median and the 95th percentile."""
    ordered = sorted(max(0.0, one) for one in seconds)
    if not ordered:
        return None
    return ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
