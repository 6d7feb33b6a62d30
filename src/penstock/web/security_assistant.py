"""The HTTP face of the security assistant (S2.17).

POST /process-drawing        202, with the job's id and where to ask for its status
GET  /status/{id}            the job, or 404
GET  /download/{id}/{kind}   a file of the job; 423 while it is not ready
GET  /health

Whose job it is must be said: `?company=7central`, or the header X-Company-Id. Where tokens are set, it is the company
of the bearer's token, and another one is refused. A job of another company is not there.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from penstock.clock import utc_text
from penstock.files.errors import FileMissing
from penstock.jobs.model.job import JobNotFound
from penstock.jobs.model.state import State
from penstock.systems.security_assistant.agents import Agents, default_agents
from penstock.systems.security_assistant.context import CONTEXT_BYTES, BadContext
from penstock.systems.security_assistant.drawing import (
    DRAWING_BYTES,
    BadDrawing,
    DrawingTooLarge,
    NotPdf,
)
from penstock.systems.security_assistant.intake import NewDrawing, take_in
from penstock.systems.security_assistant.job import DrawingJob
from penstock.systems.security_assistant.names import BadName, part_of
from penstock.systems.security_assistant.stages import KINDS, file_of_kind, stages_of
from penstock.systems.security_assistant.storage import Storage
from penstock.systems.security_assistant.workers import Workers
from penstock.web.faces import Call, Endpoint, make_face
from penstock.web.problems import Problem, json_answer

PDF: Final = "application/pdf"
FORM: Final = "multipart/form-data"
_FIELDS: Final = {
    "company_id": "Whose job it is.",
    "client_name": "The client, for example St. Mary's Hospital.",
    "project_name": "The project, for example Emergency Wing Expansion.",
}
_COMPANY: Final = {"company": "Whose job it is; the header X-Company-Id says the same."}
_OVERHEAD_BYTES: Final = 64 * 1024
"""Of a form, beside its files."""
_UPLOADS_AT_ONCE: Final = 4
"""A drawing that is being checked is in memory; others wait their turn."""
_STATUSES: Final = {
    JobNotFound: 404,
    FileMissing: 404,
    BadName: 400,
    NotPdf: 400,
    DrawingTooLarge: 413,
    BadContext: 422,
    BadDrawing: 422,
}
_FORM_SCHEMA: Final = {
    "type": "object",
    "required": ["file", *_FIELDS],
    "properties": {
        "file": {"type": "string", "format": "binary", "description": "The drawing, a PDF."},
        "context": {"type": "string", "format": "binary", "description": "A document: .docx, .txt or .md."},
        **{name: {"type": "string", "description": words} for name, words in _FIELDS.items()},
    },
}


@dataclass(frozen=True, slots=True)
class Accepted:
    """The drawing will be processed."""

    job_id: str
    status: str
    status_url: Annotated[str, "Where to ask how far it is."]


@dataclass(frozen=True, slots=True)
class StageView:
    """A stage of a job; `timestamp` is null while it has not been done."""

    name: str
    timestamp: str | None
    version: int
    summary: dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobView:
    """A job."""

    job_id: str
    company_id: str
    client_name: str
    project_name: str
    status: Annotated[str, "queued, processing, completed or failed"]
    created_at: str
    updated_at: str
    stages: list[StageView]
    metadata: dict[str, Any]
    downloads: Annotated[dict[str, str], "What is ready, and where it is."]
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Tenants:
    """Who may ask: a company for each token. Without tokens, whoever can reach the face may ask for any company."""

    tokens: Mapping[str, str] = field(default_factory=dict)

    def company(self, request: Request, named: str | None) -> str:
        """Whose jobs this request is about. Raises Problem 401, 403, and 400 where nobody is named."""
        if self.tokens:
            owner = self._bearer(request)
            if named is not None and part_of(named, "company") != owner:
                raise Problem(403, "The token is of another company.", "Leave the company out, or use its own token.")
            return owner
        company = named or request.headers.get("x-company-id")
        if not company:
            raise Problem(400, "Whose job is meant is not said.", "Add ?company=NAME, or the header X-Company-Id.")
        return company

    def _bearer(self, request: Request) -> str:
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        found = ""
        for token, owner in self.tokens.items():  # all of them, so that the time tells nothing
            if hmac.compare_digest(token.encode(), given.strip().encode()):
                found = owner
        if kind.lower() != "bearer" or not found:
            headers = {"WWW-Authenticate": "Bearer"}
            raise Problem(
                401, "This needs a token.", "Send Authorization: Bearer TOKEN.", kind="unauthorized", headers=headers
            )
        return found


def security_face(
    storage: Storage,
    *,
    agents: Agents | None = None,
    tenants: Tenants | None = None,
    hosts: Iterable[str] = (),
    concurrency: int = 1,
) -> Starlette:
    """The ASGI application. It also processes drawings, `concurrency` at once; 0 leaves that to other workers."""
    workers = Workers(storage, agents or default_agents(), concurrency)
    face = _Face(storage, tenants or Tenants(), workers)
    refused = {400: "It is no PDF, or a field is wrong", 413: "It is too large", 422: "The PDF cannot be used"}
    endpoints = (
        Endpoint(
            "POST",
            "/process-drawing",
            face.process,
            "Have a component schedule made of a drawing",
            {202: Accepted, **refused, 415: f"Neither {FORM} nor {PDF}"},
            media={FORM: _FORM_SCHEMA, PDF: {"type": "string", "format": "binary"}},
            query={**_FIELDS, "file_name": f"With {PDF}: the drawing's name."},
            body_bytes=DRAWING_BYTES + CONTEXT_BYTES + _OVERHEAD_BYTES,
        ),
        Endpoint(
            "GET",
            "/status/{id}",
            face.status,
            "A job",
            {200: JobView, 400: "The company is missing", 404: "There is no such job"},
            query=_COMPANY,
        ),
        Endpoint(
            "GET",
            "/download/{id}/{kind}",
            face.download,
            f"A file of a job: {', '.join(KINDS)}",
            {200: "application/octet-stream", 404: "There is no such job or kind", 423: "It is not ready"},
            query=_COMPANY,
        ),
    )
    return make_face(
        "Security assistant",
        endpoints,
        description="A security drawing in, a component schedule out.",
        health=face.health,
        statuses=_STATUSES,
        hosts=hosts,
        lifespan=lambda app: _working(workers),
    )


@asynccontextmanager
async def _running(workers: Workers) -> AsyncIterator[None]:
    manager = workers.running()
    await run_in_threadpool(manager.__enter__)
    try:
        yield
    finally:
        await run_in_threadpool(manager.__exit__, None, None, None)


def _working(workers: Workers) -> AbstractAsyncContextManager[None]:
    return _running(workers)


class _Face:
    def __init__(self, storage: Storage, tenants: Tenants, workers: Workers) -> None:
        self._storage = storage
        self._tenants = tenants
        self._workers = workers
        self._uploads = asyncio.Semaphore(_UPLOADS_AT_ONCE)

    def health(self) -> dict[str, Any]:
        """Asks the storage something."""
        self._storage.query_by_status("processing", limit=1)
        return {"storage": self._storage.shelf.where}

    async def process(self, call: Call) -> Response:
        if self._tenants.tokens:  # before the body is read: it is long
            self._tenants.company(call.request, None)
        async with self._uploads:
            new = await _drawing_of(call)
            self._tenants.company(call.request, new.company_id)
            job = await run_in_threadpool(take_in, self._storage.for_company(new.company_id), new)
        self._workers.wake()
        url = call.url(f"/status/{job.id}?company={job.company}")
        form = {"job_id": job.id, "status": job.state.value, "status_url": url}
        return json_answer(form, 202, {"Location": url})

    def status(self, call: Call) -> Response:
        return json_answer(_view(self._job(call), call))

    def download(self, call: Call) -> Response:
        job, kind = self._job(call), call.path["kind"]
        key = file_of_kind(job, kind) if kind in KINDS else None
        if key is None:
            raise _not_there(job, kind)
        data = self._storage.for_company(job.company).get(key, expect=job.saved.get(key))
        name = key.rpartition("/")[2]
        kind_of = job.saved[key].content_type if key in job.saved else "application/json"
        return Response(data, headers={"Content-Disposition": f'attachment; filename="{name}"'}, media_type=kind_of)

    def _job(self, call: Call) -> DrawingJob:
        company = self._tenants.company(call.request, call.query.get("company"))
        return self._storage.for_company(company).job(call.path["id"])


def _not_there(job: DrawingJob, kind: str) -> Problem:
    if kind not in KINDS:
        return Problem(404, f"There is no kind {kind[:50]!r} of file.", f"There are {', '.join(KINDS)}.")
    if kind == "context":
        return Problem(404, f"{job.id} has no context.", "It was made without one.")
    if job.state is State.FAILED and job.error is not None:
        return Problem(404, f"{job.id} has failed: {job.error['message']}", "Mend the drawing, and send it again.")
    told = f"{job.id} is {job.state.value}: its {kind} file is not ready."
    return Problem(423, told, "Ask for its status, and again when it has completed.", headers={"Retry-After": "2"})


def _view(job: DrawingJob, call: Call) -> dict[str, Any]:
    ready = {kind: file_of_kind(job, kind) for kind in KINDS}
    return {
        "job_id": job.id,
        "company_id": job.company,
        "client_name": job.client_name,
        "project_name": job.project_name,
        "status": job.state.value,
        "created_at": utc_text(job.created_at),
        "updated_at": utc_text(job.updated_at),
        "stages": [_stage(job, stage.name, stage.checkpoint) for stage in stages_of(job)],
        "metadata": dict(job.metadata),
        "downloads": {
            kind: call.url(f"/download/{job.id}/{kind}?company={job.company}") for kind, key in ready.items() if key
        },
        "error": None if job.error is None else dict(job.error),
    }


def _stage(job: DrawingJob, name: str, checkpoint: str) -> dict[str, Any]:
    point = job.checkpoints.get(checkpoint)
    if point is None:
        return {"name": name, "timestamp": None, "version": 0, "summary": {}}
    return {
        "name": name,
        "timestamp": point.timestamp,
        "version": point.version,
        "summary": dict(point.summary or {}),
    }


# ── what was sent ────────────────────────────────────────────────────────────────────────────────


async def _drawing_of(call: Call) -> NewDrawing:
    """A form with files, or a PDF with everything else in the query. Raises Problem."""
    kind = call.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == FORM:
        return await _of_form(call.request)
    if kind == PDF:
        data = await call.request.body()
        return _new(call.query, call.query.get("file_name") or "drawing.pdf", data, None)
    told = f"The body is {FORM} or {PDF}, not {kind[:100] or 'without a type'}."
    raise Problem(415, told, "Send the drawing as the form's field `file`.")


async def _of_form(request: Request) -> NewDrawing:
    async with request.form(max_files=4, max_fields=16) as form:
        errors = [
            f"{name[:100]} is not known; there are file, context, {', '.join(_FIELDS)}"
            for name in form
            if name not in ("file", "context", *_FIELDS)
        ]
        errors += [f"{name} is given twice" for name in form if len(form.getlist(name)) > 1]
        drawing, context = form.get("file"), form.get("context")
        if not isinstance(drawing, UploadFile):
            errors.append("file is missing: it is the drawing, sent as a file")
        if context is not None and not isinstance(context, UploadFile):
            errors.append("context is a file")
        if errors:
            raise Problem(400, "The form has errors.", "See `errors`, and /openapi.json.", errors=errors)
        assert isinstance(drawing, UploadFile)
        document = None if not isinstance(context, UploadFile) else (context.filename or "", await context.read())
        texts = {name: value for name, value in form.items() if isinstance(value, str)}
        return _new(texts, drawing.filename or "drawing.pdf", await drawing.read(), document)


def _new(texts: Mapping[str, str], name: str, pdf: bytes, context: tuple[str, bytes] | None) -> NewDrawing:
    missing = [f"{field} is missing: {words}" for field, words in _FIELDS.items() if not texts.get(field, "").strip()]
    if missing:
        raise Problem(400, "The request has errors.", "See `errors`, and /openapi.json.", errors=missing)
    return NewDrawing(
        company_id=texts["company_id"],
        client_name=texts["client_name"],
        project_name=texts["project_name"],
        file_name=name,
        pdf=pdf,
        context_name=context[0] if context else "",
        context=context[1] if context else None,
    )
