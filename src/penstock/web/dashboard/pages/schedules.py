"""`/schedules`: tasks that are enqueued by the clock; `/schedules/schedule?name=`: one of them, and its form.

1. Everything is previewed first, and done only if the schedule is still as the page showed it (its `revision`).
2. A form that is refused comes back with what was typed and the reason; nothing was written.
3. Secret arguments are not shown. An empty field keeps them, but not for another task, which might show them.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Literal, get_args
from urllib.parse import urlencode
from zoneinfo import ZoneInfo, available_timezones

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from penstock.errors import PenstockError
from penstock.jobs.model.derived_state import Situation
from penstock.jobs.model.job import BadJob, Job
from penstock.jobs.model.json_text import NotJson
from penstock.jobs.scheduler.cron import BadCron
from penstock.jobs.scheduler.schedules import BadSchedule, SavedSchedule, ScheduleChanged, ScheduleNotFound
from penstock.jobs.store.conditions import Situations
from penstock.jobs.worker.registry import WorkerRegistry
from penstock.web.dashboard import audit
from penstock.web.dashboard.job_list import Filter
from penstock.web.dashboard.poller import Feed, PageFeed
from penstock.web.dashboard.site import Site
from penstock.web.problems import Problem

Verb = Literal["pause", "resume", "run", "delete"]
_SHOWN: Final = 100
_TIMES: Final = 3
_SUGGESTED: Final = 500
"""Tasks that the form suggests."""
_LONGEST_PROBLEM: Final = 500
"""An error may quote what was typed."""


def routes(site: Site) -> list[Route]:
    def show(request: Request) -> Response:
        token = request.query_params.get("from") or None
        live = "schedules" if token is None else None
        return site.page(request, "schedules.html", live=live, **_context(site, token))

    return [
        Route("/schedules", show),
        Route("/schedules/preview", _preview_route(site), methods=["POST"]),
        Route("/schedules/apply", _apply_route(site), methods=["POST"]),
        *_form_routes(site),
    ]


def feeds(site: Site) -> dict[str, Feed]:
    return {
        "schedules": PageFeed("schedules", lambda: site.live_fragment("schedules_live.html", **_context(site, None)))
    }


def _context(site: Site, token: str | None) -> dict[str, Any]:
    page = site.source.schedules.list(limit=_SHOWN, token=token)
    last, store = [one.last_job for one in page.schedules if one.last_job], site.source.store()
    situations = Situations(store)
    return {
        "last_jobs": {job.id: situations.of(job) for job in store.get_existing(last)} if last else {},
        "schedules": page.schedules,
        "known": _live_tasks(site),
        "next": None if page.token is None else urlencode({"from": page.token}),
    }


def _live_tasks(site: Site) -> frozenset[str]:
    store = site.source.store()
    return WorkerRegistry(store.db, store.layout).live_tasks(store.clock.now())


# ── pause, resume, run, delete ───────────────────────────────────────────────────────────────────


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
            "seen": saved.revision,
        }
        return site.page(request, "schedule_preview.html", **context)

    return preview


def _apply_route(site: Site) -> Handler:
    async def act(request: Request) -> Response:
        fields = await site.access.read_form(request)
        verb, name = _chosen(fields)
        who = site.access.visitor(request)
        outcome = await run_in_threadpool(_apply, site, verb, name, fields.get("seen", [""])[0], who)
        return site.page(request, "schedule_outcome.html", verb=verb, name=name, **outcome)

    return act


def _apply(site: Site, verb: Verb, name: str, seen: str, who: str) -> dict[str, Any]:
    """What became of it; `job` is the one that was enqueued."""
    schedules, saved = site.source.schedules, _get(site, name)
    if saved.revision != seen:
        return {"what": f"{name} has been changed since you looked: it was left alone.", "job": None}
    try:
        match verb:
            case "run":
                job = schedules.run(name)
                what = "One job is enqueued." if job.is_new else "Its last job has not ended: no other was enqueued."
                audit.record(site.source.store(), who, "run now", f"schedule {name}")
                return {"what": what, "job": job}
            case "pause":
                schedules.pause(name)
            case "resume":
                schedules.resume(name)
            case "delete":
                schedules.delete(name)
    except PenstockError as error:
        return {"what": str(error), "job": None}
    audit.record(site.source.store(), who, _DONE[verb], f"schedule {name}")
    return {"what": f"{name} {effect(verb, saved)[1]}.", "job": None}


_DONE: Final = {"pause": "paused", "resume": "resumed", "delete": "deleted"}


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


# ── the form ─────────────────────────────────────────────────────────────────────────────────────

Step = Literal["preview", "save", "edit"]
_INPUT_ERRORS: Final = (BadSchedule, BadCron, BadJob, NotJson)


@dataclass(frozen=True, slots=True)
class ScheduleForm:
    """What was typed, or a schedule as one would type it."""

    name: str = ""
    task: str = ""
    cron: str = ""
    every: str = ""
    timezone: str = "UTC"
    args: str = "{}"
    overlap: bool = False
    paused: bool = False
    seen: str = ""
    """The revision that is to be changed; empty for a new schedule."""

    @classmethod
    def of_fields(cls, sent: dict[str, list[str]]) -> ScheduleForm:
        def text(name: str) -> str:
            return sent.get(name, [""])[0].strip()

        flags = {name: name in sent for name in ("overlap", "paused")}
        texts = {one.name: text(one.name) for one in fields(cls) if one.name not in flags}
        return cls(**texts, **flags)  # type: ignore[arg-type]  # the names of flags and texts do not overlap

    @classmethod
    def of_schedule(cls, saved: SavedSchedule) -> ScheduleForm:
        return cls(
            saved.name,
            saved.task,
            "" if saved.times.every else saved.cron,
            saved.cron.split()[-1] if saved.times.every else "",
            saved.timezone,
            "" if saved.secret else json.dumps(dict(saved.args), indent=2, ensure_ascii=False),
            saved.overlap,
            saved.paused,
            saved.revision,
        )

    def when(self) -> str:
        """Raises BadSchedule."""
        if bool(self.cron) == bool(self.every):
            raise BadSchedule("Give either a cron expression, such as 30 6 * * mon-fri, or an interval, such as 15m.")
        return self.cron or f"@every {self.every}"

    def arguments(self) -> dict[str, Any]:
        """Raises BadSchedule."""
        try:
            value = json.loads(self.args or "{}")
        except (ValueError, RecursionError) as error:
            raise BadSchedule(f'The arguments are not JSON ({error}): write {{"project": "acme"}}.') from None
        if not isinstance(value, dict):
            raise BadSchedule('The arguments are a JSON object, by their names: {"project": "acme"}.')
        return value

    def differences(self, other: ScheduleForm) -> list[tuple[str, str, str]]:
        """The fields that are not alike, with both texts."""
        pairs = ((one, _shown(getattr(self, one)), _shown(getattr(other, one))) for one in _LABELS)
        return [(_LABELS[name], mine, its) for name, mine, its in pairs if mine != its]


_LABELS: Final = {
    "task": "Kind",
    "cron": "Cron",
    "every": "Every",
    "timezone": "Time zone",
    "args": "Arguments",
    "overlap": "May overlap",
    "paused": "Paused",
}


def _shown(value: str | bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value.replace("\r\n", "\n")


def _form_routes(site: Site) -> list[Route]:
    def new(request: Request) -> Response:
        return _form_page(site, request, ScheduleForm())

    def show(request: Request) -> Response:
        saved = _get(site, request.query_params.get("name", ""))
        is_saved = "saved" in request.query_params
        return _form_page(site, request, ScheduleForm.of_schedule(saved), is_saved=is_saved)

    async def submit(request: Request) -> Response:
        sent = await site.access.read_form(request)
        return await run_in_threadpool(_submit, site, request, sent)

    return [
        Route("/schedules/new", new),
        Route("/schedules/schedule", show),
        Route("/schedules/form", submit, methods=["POST"]),
    ]


def _submit(site: Site, request: Request, sent: dict[str, list[str]]) -> Response:
    form, step = ScheduleForm.of_fields(sent), sent.get("step", ["preview"])[0]
    if step not in get_args(Step):
        raise Problem(400, "A schedule's form is previewed, saved or edited.", "Go back and use one of the buttons.")
    if step == "edit":
        return _form_page(site, request, form)
    try:
        before = site.source.schedules.get(form.name) if form.seen else None
        planned = _write(site, form, before, dry_run=step == "preview")
    except ScheduleChanged as conflict:
        again = replace(form, seen=conflict.now.revision)
        differences = ScheduleForm.of_schedule(conflict.now).differences(form)
        return _form_page(site, request, again, 409, differences=differences, is_conflict=True)
    except ScheduleNotFound:
        problem = (
            "Nothing was saved: somebody has deleted this schedule since you looked. Saving would create it again."
        )
        return _form_page(site, request, replace(form, seen=""), 409, problem=problem)
    except _INPUT_ERRORS as error:
        problem = f"Nothing was saved. {str(error)[:_LONGEST_PROBLEM]}"
        return _form_page(site, request, form, 400, problem=problem)
    if step == "save":
        what = "created" if before is None else "changed"
        audit.record(site.source.store(), site.access.visitor(request), what, f"schedule {planned.name}")
        return RedirectResponse(f"{_address(planned.name)}&saved=1", 303)
    return _preview_page(site, request, form, before, planned)


def _write(site: Site, form: ScheduleForm, before: SavedSchedule | None, *, dry_run: bool) -> SavedSchedule:
    """Creates or changes the schedule (`before`). Raises what the form has wrong, or ScheduleChanged."""
    schedules, when, args = site.source.schedules, form.when(), form.arguments()
    decided: dict[str, Any] = {
        "cron": when,
        "timezone": form.timezone or "UTC",
        "overlap": form.overlap,
        "paused": form.paused,
        "dry_run": dry_run,
    }
    if before is None:
        return schedules.create(form.name, form.task, args=args, **decided)
    is_other = form.task != before.task
    keeps = bool(before.secret) and not form.args
    if is_other and keeps and not before.declared:
        raise BadSchedule("Its arguments are secret, and are not handed to another task: type them again.")
    return schedules.change(
        form.name,
        task=form.task if is_other else None,
        args=None if keeps else args,
        if_revision=form.seen,
        **decided,
    )


def _preview_page(
    site: Site, request: Request, form: ScheduleForm, before: SavedSchedule | None, planned: SavedSchedule
) -> Response:
    after = ScheduleForm.of_schedule(planned)
    differences = [] if before is None else ScheduleForm.of_schedule(before).differences(after)
    return site.page(
        request,
        "schedule_save.html",
        form=form,
        planned=planned,
        is_new=before is None,
        differences=differences,
        lost_options={} if before is None or before.task == planned.task else before.options,
        times=_next_times(site, planned),
        has_worker=planned.task in _live_tasks(site),
    )


def _form_page(
    site: Site,
    request: Request,
    form: ScheduleForm,
    status: int = 200,
    *,
    problem: str | None = None,
    differences: list[tuple[str, str, str]] | None = None,
    is_conflict: bool = False,
    is_saved: bool = False,
) -> Response:
    saved = None
    if form.seen:
        try:
            saved = site.source.schedules.get(form.name)
        except ScheduleNotFound:  # it was deleted while somebody typed
            form = replace(form, seen="")
    known = _live_tasks(site)
    return site.page(
        request,
        "schedule.html",
        status,
        form=form,
        saved=saved,
        problem=problem,
        differences=differences or [],
        is_conflict=is_conflict,
        is_saved=is_saved,
        times=[] if saved is None else _next_times(site, saved),
        runs=[] if saved is None else _last_runs(site, saved),
        jobs=urlencode({"q": str(Filter(words=(form.name,)))}),
        known=known,
        tasks=sorted(known | site.source.tasks.keys())[:_SUGGESTED],
        zones=_zones(),
    )


def _last_runs(site: Site, saved: SavedSchedule) -> list[tuple[Job, Situation]]:
    """Its last jobs, among the newest of its task."""
    store = site.source.store()
    newest, situations = store.find(task=saved.task, limit=_LOOKED_AT).jobs, Situations(store)
    return [(job, situations.of(job)) for job in newest if job.schedule == saved.name][:_RUNS]


_LOOKED_AT: Final = 200
_RUNS: Final = 10


def _next_times(site: Site, saved: SavedSchedule) -> list[tuple[str, float]]:
    """The next times from now on, on the schedule's own clock and as seconds; of a paused one, if it were resumed."""
    zone = ZoneInfo(saved.timezone)
    times = saved.times.next_times(site.source.store().clock.now(), _TIMES)
    return [(f"{datetime.fromtimestamp(at, zone):%a %Y-%m-%d %H:%M:%S}", at) for at in times]


@lru_cache
def _zones() -> tuple[str, ...]:
    """Regions with their cities, and UTC; what the form suggests. Any other name of the machine's is taken too."""
    return ("UTC", *sorted(name for name in available_timezones() if "/" in name and not name.startswith("Etc/")))


def _address(name: str) -> str:
    return f"/schedules/schedule?{urlencode({'name': name})}"
