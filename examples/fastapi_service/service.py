"""A web service that enqueues jobs and shows their progress in the browser.

PENSTOCK_DB=jobs.db uvicorn service:service            the web server; start as many as you want
PENSTOCK_DB=jobs.db penstock worker tasks:jobs         the workers, in processes of their own
PENSTOCK_DB=jobs.db SERVICE_WORKER=1 uvicorn service:service      or both in one process
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI, Header, HTTPException, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.middleware.base import RequestResponseEndpoint

import penstock

from tasks import jobs, report

_POLL_SECONDS: Final = 0.3
"""How often an open page asks for news of its job: two small reads each time."""
_STREAM_POLLS: Final = 1_000
"""Then the stream ends, and the browser opens the next one where this one stopped."""
_BLOCK_BYTES: Final = 64 * 1024
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


# ── the app's life ───────────────────────────────────────────────────────────────────────────────


@contextmanager
def worker_in_this_process() -> Iterator[None]:
    """For a small service. A task that needs the CPU slows the requests down: give it a process of its own then."""
    worker = penstock.Worker(jobs, concurrency=4, grace_seconds=5)
    thread = threading.Thread(target=worker.run, name="worker")
    thread.start()
    try:
        yield
    finally:
        worker.stop("the web server stops")  # what runs is requeued at its next report
        thread.join()


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    with jobs:  # closes the database; it is opened at its first use
        await run_in_threadpool(lambda: jobs.store)  # so that a wrong PENSTOCK_DB fails now, not at the first request
        if os.environ.get("SERVICE_WORKER"):
            with worker_in_this_process():
                yield
        else:
            yield


service = FastAPI(title="Reports", lifespan=lifespan)


# ── who asks, and for which job ──────────────────────────────────────────────────────────────────


def job_app() -> penstock.App:
    """The app, as a dependency: tests override it."""
    return jobs


def current_user() -> str:
    """Your login goes here. A job belongs to the user who made it (its tenant), and nobody else sees it."""
    return "demo"


JobApp = Annotated[penstock.App, Depends(job_app)]
User = Annotated[str, Depends(current_user)]


def own_job(job_id: str, app: JobApp, user: User) -> penstock.Job:
    try:
        job = app.get(job_id)
    except penstock.JobNotFound:
        job = None
    if job is None or job.tenant != user:
        raise HTTPException(404, f"You have no job {job_id}.")
    return job


OwnJob = Annotated[penstock.Job, Depends(own_job)]


# ── requests ─────────────────────────────────────────────────────────────────────────────────────


class ReportRequest(BaseModel):
    project: str = Field(min_length=1, max_length=100)
    pages: int = Field(default=30, ge=1, le=500)


class JobView(BaseModel):
    id: str
    state: str
    progress: float | None = None
    error: str | None = None
    result: Any = None
    files: list[str] = []


def view_of(app: penstock.App, job: penstock.Job) -> JobView:
    is_completed = job.state is penstock.State.COMPLETED
    return JobView(
        id=job.id,
        state=job.state.value,
        progress=job.progress,
        error=None if job.error is None else job.error.message,
        result=app.result(job.id) if is_completed else None,
        files=[file.name for file in app.store.history(job.id).files] if is_completed else [],
    )


@service.post("/jobs", status_code=202)
def create_report(wanted: ReportRequest, app: JobApp, user: User) -> JobView:
    job = report.options(tenant=user).enqueue(project=wanted.project, pages=wanted.pages)
    return view_of(app, job)


@service.get("/jobs/{job_id}")
def show_job(job: OwnJob, app: JobApp) -> JobView:
    return view_of(app, job)


@service.post("/jobs/{job_id}/cancel")
def cancel_job(job: OwnJob, app: JobApp) -> JobView:
    try:
        return view_of(app, app.cancel(job.id, "cancelled in the browser"))
    except penstock.BadTransition as error:
        raise HTTPException(409, str(error)) from error


@service.get("/jobs/{job_id}/files/{name}")
def download_file(job: OwnJob, name: str, app: JobApp) -> StreamingResponse:
    saved = next((file.saved for file in app.store.history(job.id).files if file.name == name), None)
    if saved is None or app.store.files is None:
        raise HTTPException(404, f"{job.id} has no file {name}.")
    stream = app.store.files.open(saved.key, expect=saved)
    return StreamingResponse(
        iter(lambda: stream.read(_BLOCK_BYTES), b""),
        media_type="application/octet-stream",
        headers={"Content-Disposition": "attachment", "Content-Length": str(saved.size)},
    )


# ── progress ─────────────────────────────────────────────────────────────────────────────────────


@service.get("/jobs/{job_id}/events", response_class=EventSourceResponse)
async def stream_progress(
    job: OwnJob, app: JobApp, last_event_id: Annotated[int, Header(ge=0)] = 0
) -> AsyncIterable[ServerSentEvent]:
    """The job's numbered log, as it grows. A browser that reconnects says which number it has seen last."""
    number = last_event_id
    for _ in range(_STREAM_POLLS):
        current = await run_in_threadpool(app.get, job.id)
        entries = await run_in_threadpool(app.store.entries, job.id, after=number)  # after the job: none is missed
        for entry in entries:
            number = entry.number
            data = {"number": number, "progress": entry.progress, "step": entry.step, "message": entry.message}
            yield ServerSentEvent(event="progress", id=str(number), raw_data=json.dumps(data))
        if current.is_terminal:
            view = await run_in_threadpool(view_of, app, current)
            yield ServerSentEvent(event="end", raw_data=view.model_dump_json())
            return
        await asyncio.sleep(_POLL_SECONDS)


# ── the page ─────────────────────────────────────────────────────────────────────────────────────


@service.middleware("http")
async def add_headers(request: Request, call_next: RequestResponseEndpoint) -> Response:
    response = await call_next(request)
    if request.url.path not in ("/docs", "/redoc"):  # FastAPI's own pages load scripts from elsewhere
        response.headers["Content-Security-Policy"] = _POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
    return response


service.mount("/", StaticFiles(directory=Path(__file__).parent / "static", html=True))
