"""The HTTP API of jobs, `penstock up --api`: everything that `app.jobs` and `penstock jobs` do, for programs in any
language.

1. A request carries `Authorization: Bearer TOKEN` where the server has a token. A cookie of the dashboard does not do:
   no page of another site can make a browser send what this API accepts.
2. A task is named, never imported: what a caller can start is what the workers have.
3. Every list has a limit and a token for its next page.
4. Errors are JSON with the next step (web/problems.py): 400 a request that cannot be read, 401 no token, 403 read-only,
   404 no such job, 409 a job in another state or a key that another job has, 413 too long, 422 a job that cannot be.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import Body, Depends, FastAPI, Path, Query, Request
from pydantic import AwareDatetime, BaseModel, Field
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.clock import utc_text
from penstock.errors import ResourceNotFoundException
from penstock.jobs.app import App
from penstock.jobs.forms import entry_form, event_form, job_form
from penstock.jobs.job_queries import BulkChange
from penstock.jobs.model.job import MOST_TAGS, BadJob, Job, JobNotFound, KeyTaken
from penstock.jobs.model.json_text import NotJson, to_json
from penstock.jobs.model.state import BadTransition, State
from penstock.jobs.model.workflow import EventRefused
from penstock.jobs.store.depths import read_depth
from penstock.jobs.store.store import JobStore
from penstock.jobs.worker.registry import WorkerRegistry
from penstock.web.api.application import JSON, ApiRouter, make_api, refusals
from penstock.web.api.validation import StrictModel
from penstock.web.dashboard.source import NoJobs, Source
from penstock.web.problems import Problem, unauthorized

PREFIX: Final = "/api/v1"
ENQUEUE_BYTES: Final = 1024 * 1024
"""Of a job with its arguments; what is longer belongs into a file, whose name is the argument."""
LONGEST_LIST: Final = 500
_NAME_CHARACTERS: Final = 200
_STATUSES: Final = {
    JobNotFound: (404, f"GET {PREFIX}/jobs lists the jobs that there are."),
    NoJobs: (404, f"No app has used this database yet: POST {PREFIX}/jobs, or start a worker."),
    ResourceNotFoundException: (
        404,
        "The table of the jobs was deleted: start a worker, or name another with --table.",
    ),
    BadTransition: (409, f"GET {PREFIX}/jobs/ID says in which state it is now."),
    KeyTaken: (409, "Use another key for another job, or the same arguments."),
    EventRefused: (409, "Read the job again: it has ended, or has events that it has not taken."),
    BadJob: (422, f"Change what the message names; {PREFIX}/openapi.json has the limits."),
    NotJson: (422, "Send what JSON can hold."),
}


class JobsService:
    """What the endpoints work on: the app of this process's worker, or the jobs of a database."""

    def __init__(self, source: Source, app: App | None = None) -> None:
        self.source = source
        self._app = app

    def app(self) -> App:
        """Raises NoJobs where no app has used the database yet."""
        return self._app or App.on_store(self.source.store())

    def app_to_enqueue(self) -> App:
        """The same; makes the table where there is none."""
        try:
            return self.app()
        except NoJobs:
            App(self.source.db, table=self.source.table, files=self.source.files).store  # noqa: B018 - makes the table
            return self.app()


def jobs_api(
    source: Source,
    app: App | None = None,
    *,
    token: str | None = None,
    read_only: bool = False,
    hosts: Iterable[str] = (),
) -> FastAPI:
    """The ASGI application, whose paths begin with PREFIX."""
    service = JobsService(source, app)

    def health() -> Mapping[str, Any]:
        return {"database": source.place, "table": service.app().store.layout.table}

    return make_api(
        "Penstock jobs",
        router,
        state=service,
        description="Enqueue jobs by the names of their tasks, follow them, cancel and retry them.",
        health=health,
        statuses=_STATUSES,
        hosts=hosts,
        body_bytes={f"{PREFIX}/jobs": ENQUEUE_BYTES},
        prefix=PREFIX,
        middleware=[Middleware(BearerToken, token=token, read_only=read_only)],
    )


class BearerToken:
    """ASGI middleware: refuses requests without the token, and changes in read-only mode."""

    def __init__(self, app: ASGIApp, token: str | None, read_only: bool) -> None:
        self._app = app
        self._token = token
        self._read_only = read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (self._app if refusal is None else refusal.response())(scope, receive, send)

    def _refusal(self, scope: Scope) -> Problem | None:
        if not has_token(scope, self._token):
            return unauthorized()
        if self._read_only and scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            return Problem(
                403, "This server is read-only.", "Start `penstock up` without --read-only to change things."
            )
        return None


def has_token(scope: Scope, token: str | None) -> bool:
    """Whether the request carries the token as a bearer token, or none is wanted."""
    scheme, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
    is_bearer = scheme.lower() == "bearer"
    return token is None or (is_bearer and hmac.compare_digest(given.strip().encode(), token.encode()))


# ── bodies and answers ───────────────────────────────────────────────────────────────────────────

Name = Annotated[str, Field(min_length=1, max_length=_NAME_CHARACTERS)]


class EnqueueRequest(StrictModel):
    """A job to be made."""

    task: Name = Field(description="The name of a task that a worker has.")
    args: dict[str, Any] = Field(default={}, description="Its arguments by name.")
    queue: Name | None = Field(default=None, description="Where it waits; the task's own queue, or default.")
    priority: int | None = Field(default=None, ge=0, le=9)
    tenant: str = Field(default="", max_length=_NAME_CHARACTERS)
    tags: list[Name] = Field(default=[], max_length=MOST_TAGS)
    delay_seconds: float | None = Field(default=None, ge=0)
    run_at: str | None = Field(default=None, max_length=64, description="A time with a time zone, instead of a delay.")
    idempotency_key: str | None = Field(default=None, description="A second request with it gets the first one's job.")
    unique_key: str | None = Field(default=None, description="At most one job with it has not ended.")
    concurrency_key: str | None = None
    max_concurrent: int | None = Field(default=None, ge=1)
    depends_on: list[Name] = Field(default=[], max_length=1_000)
    depends_on_policy: Literal["all_completed", "all_ended", "any_completed"] = "all_completed"


class Reason(StrictModel):
    reason: str = Field(default="", max_length=1_000)


class EventBody(StrictModel):
    data: Any = Field(default=None, description="What ctx.wait_for returns.")
    event_id: str | None = Field(
        default=None, min_length=1, max_length=200, description="Events of one job with the same id are one event."
    )


class Filter(StrictModel):
    """Which jobs; all members are optional."""

    task: Name | None = None
    tenant: str | None = None
    tag: Name | None = None
    since: str | None = Field(default=None, description="Made since this time, which has a time zone.")
    until: str | None = None
    limit: int | None = Field(default=None, ge=1, le=100_000, description="At most this many.")
    dry_run: bool = Field(default=False, description="Only count them.")


class RetryAllRequest(Filter):
    error: Name | None = Field(default=None, description="The type of the exception, such as ConnectionError.")


class CancelAllRequest(Filter):
    state: Literal["queued", "processing"] | None = None
    reason: str = Field(default="", max_length=1_000)


class LeaseView(BaseModel):
    owner: str
    until: str


class FailureView(BaseModel):
    kind: str
    message: str


class JobSummary(BaseModel):
    """A job as it is in lists."""

    id: str
    task: str
    state: State
    queue: str
    tenant: str
    priority: int
    progress: float
    step: str
    attempt: int
    failures: int
    crashes: int
    suspect: bool
    created_at: str
    updated_at: str
    run_at: str
    started_at: str | None
    ended_at: str | None
    expires_at: str
    lease: LeaseView | None
    error: FailureView | None
    cancel_reason: str | None
    tags: list[str]
    schedule: str | None
    waiting_for: list[str]
    wait: str | None = Field(description="What its task waits for: a time, an event, other jobs.")
    parent_id: str | None
    child_count: int
    forked_from: str | None
    pulled_from: str | None


class JobView(JobSummary):
    """A job with its arguments and its result."""

    args: dict[str, Any] | None
    result: Any
    unread: list[str] = Field(description="Why arguments or a result could not be read.")


class JobList(BaseModel):
    jobs: list[JobSummary]
    token: str | None = Field(description="Where the next page begins; null after the last one.")


class EntryView(BaseModel):
    number: int
    at: str
    progress: float | None
    step: str
    message: str
    data: Any
    attempt: int


class LogView(BaseModel):
    entries: list[EntryView]
    after: int | None = Field(description="What to ask for next: `?after=`; null if these were all.")


class EventView(BaseModel):
    number: int
    type: str
    at: str
    attempt: int
    owner: str
    detail: str


class EventsView(BaseModel):
    events: list[EventView]


class BulkView(BaseModel):
    matched: int
    changed: int
    refused: int
    refusals: list[str]
    dry_run: bool


class QueueView(BaseModel):
    name: str
    paused: bool
    reason: str
    ready: int
    waiting: int
    later_or_running: int
    counted_to_the_end: bool = Field(description="Whether there are no more than these.")
    oldest_ready_at: str | None


class QueuesView(BaseModel):
    queues: list[QueueView]


class WorkerView(BaseModel):
    name: str
    started_at: str
    seen_at: str
    queues: list[str]
    tasks: list[str]
    concurrency: int
    running: int
    done: int
    stopping: bool


class WorkersView(BaseModel):
    workers: list[WorkerView]


class ScheduleView(BaseModel):
    name: str
    task: str
    schedule: str = Field(description="The cron expression and its time zone.")
    paused: bool
    declared: bool = Field(description="Whether it is declared in the code: @app.task(cron=…).")
    fired_at: str | None
    next_at: str | None


class SchedulesView(BaseModel):
    schedules: list[ScheduleView]


# ── endpoints ────────────────────────────────────────────────────────────────────────────────────


async def _service(request: Request) -> JobsService:
    service: JobsService = request.app.state.service
    return service


Service = Annotated[JobsService, Depends(_service)]
JobId = Annotated[str, Path(min_length=1, max_length=_NAME_CHARACTERS)]
QueueName = Annotated[str, Path(min_length=1, max_length=_NAME_CHARACTERS)]
EventName = Annotated[str, Path(min_length=1, max_length=_NAME_CHARACTERS)]
router = ApiRouter(PREFIX)

_COMMON: Final = {401: "The token is missing", 503: "The database does not answer"}
_NO_JOB: Final = {**_COMMON, 404: "There is no such job"}
_CHANGES: Final = {**_NO_JOB, 403: "The server is read-only", 409: "The job is in another state"}


def answer(form: object, status: int = 200) -> Response:
    """By our own JSON: a job's arguments may hold integers of any length."""
    return Response(to_json(form, "the answer").lstrip(), status, {"Cache-Control": "no-store"}, JSON)


@router.post(
    "/jobs",
    status_code=201,
    summary="Enqueue a job",
    response_model=JobView,
    responses={
        200: {"model": JobView, "description": "The job was there already: it has the same key"},
        **refusals(
            {**_COMMON, 403: "The server is read-only", 409: "Another job has the key", 413: "It is too long"}
            | {422: "Such a job cannot be"}
        ),
    },
)
def enqueue(body: EnqueueRequest, service: Service) -> Response:
    app = service.app_to_enqueue()
    given = body.model_dump(exclude={"task", "args", "run_at", "delay_seconds"}, exclude_none=True)
    task = app.task_named(body.task)
    task = task.options(**given, run_at=_moment("run_at", body.run_at), delay=body.delay_seconds)
    job = task.enqueue_json(body.args)
    return answer(_view(job, app.store), 201 if job.is_new else 200)


@router.get("/jobs", summary="List jobs, newest first", response_model=JobList, responses=refusals(_COMMON))
def list_jobs(
    service: Service,
    state: State | None = None,
    task: Annotated[str | None, Query(max_length=_NAME_CHARACTERS)] = None,
    tenant: Annotated[str | None, Query(max_length=_NAME_CHARACTERS)] = None,
    tag: Annotated[str | None, Query(max_length=_NAME_CHARACTERS)] = None,
    since: AwareDatetime | None = None,
    until: AwareDatetime | None = None,
    limit: Annotated[int, Query(ge=1, le=LONGEST_LIST)] = 50,
    token: Annotated[str | None, Query(max_length=1_000)] = None,
) -> Response:
    page = service.app().jobs.page(
        state=state, task=task, tenant=tenant, tag=tag, since=since, until=until, limit=limit, token=token
    )
    return answer({"jobs": [job_form(job) for job in page.jobs], "token": page.token})


@router.post(
    "/jobs/retry-all",
    summary="Give failed jobs another attempt",
    response_model=BulkView,
    responses=refusals({**_COMMON, 403: "The server is read-only", 422: "A filter that cannot be"}),
)
def retry_all(body: RetryAllRequest, service: Service) -> Response:
    return answer(_bulk(service.app().jobs.retry_all(**_filters(body))))


@router.post(
    "/jobs/cancel-all",
    summary="Cancel jobs",
    response_model=BulkView,
    responses=refusals({**_COMMON, 403: "The server is read-only", 422: "A filter that cannot be"}),
)
def cancel_all(body: CancelAllRequest, service: Service) -> Response:
    return answer(_bulk(service.app().jobs.cancel_all(**_filters(body))))


@router.get("/jobs/{id}", summary="A job", response_model=JobView, responses=refusals(_NO_JOB))
def get_job(id: JobId, service: Service) -> Response:
    app = service.app()
    return answer(_view(app.get(id), app.store))


@router.get("/jobs/{id}/log", summary="Its numbered log", response_model=LogView, responses=refusals(_NO_JOB))
def get_log(
    id: JobId,
    service: Service,
    after: Annotated[int, Query(ge=0, le=999_999_999)] = 0,
    limit: Annotated[int, Query(ge=1, le=LONGEST_LIST)] = 100,
) -> Response:
    entries = service.app().jobs.log(id, after=after, limit=limit + 1)
    more = len(entries) > limit
    shown = entries[:limit]
    return answer({"entries": [entry_form(one) for one in shown], "after": shown[-1].number if more else None})


@router.get("/jobs/{id}/events", summary="What happened to it", response_model=EventsView, responses=refusals(_NO_JOB))
def get_events(id: JobId, service: Service) -> Response:
    return answer({"events": [event_form(one) for one in service.app().jobs.events(id)]})


@router.post("/jobs/{id}/cancel", summary="Cancel it", response_model=JobView, responses=refusals(_CHANGES))
def cancel(id: JobId, service: Service, body: Annotated[Reason, Body()] = Reason()) -> Response:  # noqa: B008 - frozen
    app = service.app()
    return answer(_view(app.cancel(id, body.reason), app.store))


@router.post(
    "/jobs/{id}/retry", summary="Give it another attempt", response_model=JobView, responses=refusals(_CHANGES)
)
def retry(id: JobId, service: Service) -> Response:
    app = service.app()
    return answer(_view(app.retry(id), app.store))


@router.post(
    "/jobs/{id}/events/{name}",
    summary="Send it an event, which its task waits for",
    response_model=JobView,
    responses=refusals(_CHANGES),
)
def send_event(
    id: JobId,
    name: EventName,
    service: Service,
    body: Annotated[EventBody, Body()] = EventBody(),  # noqa: B008 - frozen
) -> Response:
    app = service.app()
    return answer(_view(app.send_event(id, name, body.data, event_id=body.event_id), app.store))


@router.get("/queues", summary="The queues of the workers", response_model=QueuesView, responses=refusals(_COMMON))
def queues(service: Service) -> Response:
    app = service.app()
    return answer({"queues": [_queue(app.store, name) for name in queue_names(app)]})


@router.post(
    "/queues/{name}/pause",
    summary="Let workers take no more jobs from it",
    response_model=QueueView,
    responses=refusals({**_COMMON, 403: "The server is read-only"}),
)
def pause(name: QueueName, service: Service, body: Annotated[Reason, Body()] = Reason()) -> Response:  # noqa: B008 - frozen
    app = service.app()
    app.jobs.pause(name, body.reason)
    return answer(_queue(app.store, name))


@router.post(
    "/queues/{name}/resume",
    summary="Let workers take its jobs again",
    response_model=QueueView,
    responses=refusals({**_COMMON, 403: "The server is read-only"}),
)
def resume(name: QueueName, service: Service) -> Response:
    app = service.app()
    app.jobs.resume(name)
    return answer(_queue(app.store, name))


@router.get("/workers", summary="The workers that live", response_model=WorkersView, responses=refusals(_COMMON))
def workers(service: Service) -> Response:
    store = service.app().store
    found = WorkerRegistry(store.db, store.layout).workers(store.clock.now(), tidy=False)
    names = WorkerView.model_fields
    forms = [{name: value for name, value in asdict(one).items() if name in names} for one in found]
    return answer({"workers": [{**one, **_times(one, "started_at", "seen_at")} for one in forms]})


@router.get("/schedules", summary="What the clock enqueues", response_model=SchedulesView, responses=refusals(_COMMON))
def schedules(service: Service) -> Response:
    forms = [
        {
            "name": one.name,
            "task": one.task,
            "schedule": f"{one.cron} {one.timezone}",
            "paused": one.paused,
            "declared": one.declared,
            **_times({"fired_at": one.last_at, "next_at": one.next_at}),
        }
        for one in service.app().schedules
    ]
    return answer({"schedules": forms})


# ── values as JSON ───────────────────────────────────────────────────────────────────────────────


def queue_names(app: App) -> list[str]:
    """Those of the workers that live, of the app's tasks, and the default one."""
    store = app.store
    found = WorkerRegistry(store.db, store.layout).workers(store.clock.now(), tidy=False)
    own = [task.settings.queue for task in app.tasks.values()]
    return sorted({"default", *own, *(queue for worker in found for queue in worker.queues)})


def _view(job: Job, store: JobStore) -> dict[str, Any]:
    return job_form(job, store, payloads=True)


def _queue(store: JobStore, name: str) -> dict[str, Any]:
    queue, depth = store.queue(name), read_depth(store, name)
    return {
        "name": name,
        "paused": queue.paused,
        "reason": queue.reason,
        "ready": depth.ready,
        "waiting": depth.waiting,
        "later_or_running": depth.later,
        "counted_to_the_end": depth.is_exact,
        **_times({"oldest_ready_at": depth.oldest_at}),
    }


def _bulk(change: BulkChange) -> dict[str, Any]:
    return {**asdict(change), "refusals": list(change.refusals)}


def _filters(body: Filter) -> dict[str, Any]:
    moments = {name: _moment(name, getattr(body, name)) for name in ("since", "until")}
    return {**body.model_dump(exclude={"since", "until"}), **moments}


def _moment(name: str, text: str | None) -> Any:
    """A time with a time zone, as JSON has it: text."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadJob(f"{name} is a time such as 2030-01-31T06:00:00Z, not {text[:100]!r}.") from None
    if moment.utcoffset() is None:
        raise BadJob(f"{name} has no time zone ({text[:100]}): write 2030-01-31T06:00:00Z.")
    return moment


def _times(form: Mapping[str, Any], *names: str) -> dict[str, str | None]:
    return {name: None if form[name] is None else utc_text(form[name]) for name in names or form}
