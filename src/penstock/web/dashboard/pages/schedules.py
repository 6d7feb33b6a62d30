"""`/schedules`: tasks that are enqueued by the clock, with what may be done to each.

A change is previewed, and made only if the schedule is still as the preview showed it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, get_args
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.errors import PenstockError
from penstock.jobs.schedules import SavedSchedule, ScheduleNotFound
from penstock.jobs.worker.registry import WorkerRegistry
from penstock.web.dashboard.poller import Feed, PageFeed
from penstock.web.dashboard.site import Site
from penstock.web.problems import Problem

Verb = Literal["pause", "resume", "run", "delete"]
_SHOWN: Final = 100


def routes(site: Site) -> list[Route]:
    def show(request: Request) -> Response:
        token = request.query_params.get("from") or None
        live = "schedules" if token is None else None
        return site.page(request, "schedules.html", live=live, **_context(site, token))

    return [
        Route("/schedules", show),
        Route("/schedules/preview", _preview_route(site), methods=["POST"]),
        Route("/schedules/apply", _apply_route(site), methods=["POST"]),
    ]


def feeds(site: Site) -> dict[str, Feed]:
    return {"schedules": PageFeed("schedules", lambda: site.fragment("schedules_live.html", **_context(site, None)))}


def _context(site: Site, token: str | None) -> dict[str, Any]:
    store = site.source.store()
    page = site.source.schedules.list(limit=_SHOWN, token=token)
    return {
        "schedules": page.schedules,
        "known": WorkerRegistry(store.db, store.layout).live_tasks(store.clock.now()),
        "next": None if page.token is None else urlencode({"from": page.token}),
    }


def effect(verb: Verb, saved: SavedSchedule) -> tuple[bool, str]:
    """Whether the verb can be done to the schedule, and what happens. Pure."""
    match verb:
        case "pause" if saved.paused:
            return False, "is paused already"
        case "pause":
            return True, "enqueues nothing until it is resumed; its jobs that are queued or running stay"
        case "resume" if saved.paused:
            return True, "enqueues again from its next time on; the times of the pause are not made up for"
        case "resume":
            return False, "is not paused"
        case "run":
            return True, "enqueues one job now, unless one of its jobs has not ended; its times stay as they are"
        case "delete" if saved.declared and not saved.is_left:
            return False, "is declared in the code, with @app.task(cron=…): delete it there, or pause it"
        case "delete":
            return True, "is gone; its jobs stay"


def _seen(saved: SavedSchedule) -> str:
    """What the change of a schedule depends on; not the times at which it is due meanwhile."""
    return f"{saved.created_at} {saved.paused} {saved.cron} {saved.task}"


Handler = Callable[[Request], Awaitable[Response]]


def _preview_route(site: Site) -> Handler:
    async def preview(request: Request) -> Response:
        fields = await site.access.read_form(request)
        verb, name = _chosen(fields)
        saved = await run_in_threadpool(_get, site, name)
        happens, what = effect(verb, saved)
        context: dict[str, Any] = {
            "verb": verb,
            "schedule": saved,
            "happens": happens,
            "what": what,
            "seen": _seen(saved),
        }
        return site.page(request, "schedule_preview.html", **context)

    return preview


def _apply_route(site: Site) -> Handler:
    async def act(request: Request) -> Response:
        fields = await site.access.read_form(request)
        verb, name = _chosen(fields)
        outcome = await run_in_threadpool(_apply, site, verb, name, fields.get("seen", [""])[0])
        return site.page(request, "schedule_outcome.html", verb=verb, name=name, **outcome)

    return act


def _apply(site: Site, verb: Verb, name: str, seen: str) -> dict[str, Any]:
    """What became of it; `job` is the one that was enqueued."""
    schedules, saved = site.source.schedules, _get(site, name)
    if _seen(saved) != seen:
        return {"what": f"{name} has been changed since you looked: it was left alone.", "job": None}
    try:
        match verb:
            case "run":
                job = schedules.run(name)
                what = "One job is enqueued." if job.is_new else "Its last job has not ended: no other was enqueued."
                return {"what": what, "job": job}
            case "pause":
                schedules.pause(name)
            case "resume":
                schedules.resume(name)
            case "delete":
                schedules.delete(name)
    except PenstockError as error:
        return {"what": str(error), "job": None}
    return {"what": f"{name} {effect(verb, saved)[1]}.", "job": None}


def _get(site: Site, name: str) -> SavedSchedule:
    try:
        return site.source.schedules.get(name)
    except ScheduleNotFound:
        raise Problem(404, f"There is no schedule {name[:200]!r} any more.", "Look at the schedules again.") from None


def _chosen(fields: dict[str, list[str]]) -> tuple[Verb, str]:
    word, _, name = fields.get("do", [""])[0].partition(" ")
    for verb in get_args(Verb):
        if verb == word and name:
            return verb, name
    raise Problem(400, "Schedules are paused, resumed, run or deleted.", "Go back and use one of the buttons.")
