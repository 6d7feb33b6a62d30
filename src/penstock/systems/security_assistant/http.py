"""The HTTP API of the security assistant (S2.17).

POST /process-drawing        202, with the job's id and where to ask for its status
GET  /status/{id}            the job, or 404
GET  /download/{id}/{kind}   a file of the job; 423 while it is not ready
GET  /health

The caller says whose job it is: `?company=7central`, or the header X-Company-Id. Where tokens are set, it is the
company of the bearer's token, and another one is refused. A job of another company is not there.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from penstock.clock import utc_text
from penstock.extras import extra
from penstock.files.errors import FileMissing
from penstock.jobs.model.job import JobNotFound
from penstock.jobs.model.state import State
from penstock.systems.security_assistant.drawing.agents import Agents, default_agents
from penstock.systems.security_assistant.drawing.context import CONTEXT_BYTES, BadContext
from penstock.systems.security_assistant.drawing.pdf import (
    DRAWING_BYTES,
    BadDrawing,
    DrawingTooLarge,
    NotPdf,
)
from penstock.systems.security_assistant.jobs.job import BadName, DrawingJob, part_of
from penstock.systems.security_assistant.jobs.processor import Workers
from penstock.systems.security_assistant.jobs.stages import KINDS, NewDrawing, file_of_kind, stages_of, submit_drawing
from penstock.systems.security_assistant.jobs.storage import Storage

with extra("systems", "The security assistant"):
    from fastapi import Depends, FastAPI, Query, Request
    from pydantic import BaseModel, Field
    from starlette.concurrency import run_in_threadpool
    from starlette.datastructures import UploadFile
    from starlette.responses import Response

    from penstock.web.api.application import ApiRouter, file_answer, make_api, refusals, url_for
    from penstock.web.problems import Problem

PDF: Final = "application/pdf"
FORM: Final = "multipart/form-data"
_FIELDS: Final = {
    "company_id": "Whose job it is.",
    "client_name": "The client, for example St. Mary's Hospital.",
    "project_name": "The project, for example Emergency Wing Expansion.",
}
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


class Accepted(BaseModel):
    """The drawing will be processed."""

    job_id: str
    status: str
    status_url: str = Field(description="Where to ask how far it is.")


class StageView(BaseModel):
    """A stage of a job; `timestamp` is null while it has not been done."""

    name: str
    timestamp: str | None
    version: int
    summary: dict[str, Any]


class JobView(BaseModel):
    """A job."""

    job_id: str
    company_id: str
    client_name: str
    project_name: str
    status: str = Field(description="queued, processing, completed or failed")
    created_at: str
    updated_at: str
    stages: list[StageView]
    metadata: dict[str, Any]
    downloads: dict[str, str] = Field(description="What is ready, and where it is.")
    error: dict[str, Any] | None = None


class DrawingQuery(BaseModel):
    """The fields of a form, for a drawing that is the body itself."""

    company_id: str | None = Field(default=None, description=_FIELDS["company_id"])
    client_name: str | None = Field(default=None, description=_FIELDS["client_name"])
    project_name: str | None = Field(default=None, description=_FIELDS["project_name"])
    file_name: str | None = Field(default=None, description=f"With {PDF}: the drawing's name.")


@dataclass(frozen=True, slots=True)
class Tenants:
    """Who may ask: a company for each token. Without tokens, whoever can reach the API may ask for any company."""

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


class _Assistant:
    """What the handlers work with."""

    def __init__(self, storage: Storage, tenants: Tenants, workers: Workers) -> None:
        self.storage = storage
        self.tenants = tenants
        self.workers = workers
        self.uploads = asyncio.Semaphore(_UPLOADS_AT_ONCE)

    def health(self) -> dict[str, Any]:
        """Asks the storage something."""
        self.storage.query_by_status("processing", limit=1)
        return {"storage": self.storage.store.where}

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """The workers, for as long as the server runs."""
        manager = self.workers.running()
        await run_in_threadpool(manager.__enter__)
        try:
            yield
        finally:
            await run_in_threadpool(manager.__exit__, None, None, None)


def security_api(
    storage: Storage,
    *,
    agents: Agents | None = None,
    tenants: Tenants | None = None,
    hosts: Iterable[str] = (),
    concurrency: int = 1,
) -> FastAPI:
    """The ASGI application. It also processes drawings, `concurrency` at once; 0 leaves that to other workers."""
    assistant = _Assistant(storage, tenants or Tenants(), Workers(storage, agents or default_agents(), concurrency))
    return make_api(
        "Security assistant",
        router,
        state=assistant,
        description="A security drawing in, a component schedule out.",
        health=assistant.health,
        statuses=_STATUSES,
        hosts=hosts,
        body_bytes={"/process-drawing": DRAWING_BYTES + CONTEXT_BYTES + _OVERHEAD_BYTES},
        lifespan=assistant.lifespan,
    )


# ── endpoints ────────────────────────────────────────────────────────────────────────────────────


async def _assistant(request: Request) -> _Assistant:
    assistant: _Assistant = request.app.state.service
    return assistant


Assistant = Annotated[_Assistant, Depends(_assistant)]


def _job(
    id: str,
    assistant: Assistant,
    request: Request,
    company: Annotated[str | None, Query(description="Whose job it is; the header X-Company-Id says the same.")] = None,
) -> DrawingJob:
    return assistant.storage.for_company(assistant.tenants.company(request, company)).job(id)


Job = Annotated[DrawingJob, Depends(_job)]
router = ApiRouter()


@router.post(
    "/process-drawing",
    summary="Have a component schedule made of a drawing",
    status_code=202,
    responses=refusals(
        {
            400: "It is no PDF, or a field is wrong",
            413: "It is too large",
            415: f"Neither {FORM} nor {PDF}",
            422: "The PDF cannot be used",
        }
    ),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {FORM: {"schema": _FORM_SCHEMA}, PDF: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def process_drawing(
    query: Annotated[DrawingQuery, Query()], assistant: Assistant, request: Request, response: Response
) -> Accepted:
    if assistant.tenants.tokens:  # before the body is read: it is long
        assistant.tenants.company(request, None)
    async with assistant.uploads:
        new = await _drawing_of(request, query)
        assistant.tenants.company(request, new.company_id)
        job = await run_in_threadpool(submit_drawing, assistant.storage.for_company(new.company_id), new)
    assistant.workers.wake()
    url = url_for(request, f"/status/{job.id}?company={job.company}")
    response.headers["Location"] = url
    return Accepted(job_id=job.id, status=job.state.value, status_url=url)


@router.get(
    "/status/{id}",
    summary="A job",
    responses=refusals({400: "The company is missing", 404: "There is no such job"}),
)
def status(job: Job, request: Request) -> JobView:
    ready = [kind for kind in KINDS if file_of_kind(job, kind)]
    return JobView(
        job_id=job.id,
        company_id=job.company,
        client_name=job.client_name,
        project_name=job.project_name,
        status=job.state.value,
        created_at=utc_text(job.created_at),
        updated_at=utc_text(job.lifecycle.updated_at),
        stages=[_stage(job, stage.name, stage.checkpoint) for stage in stages_of(job)],
        metadata=dict(job.metadata),
        downloads={kind: url_for(request, f"/download/{job.id}/{kind}?company={job.company}") for kind in ready},
        error=None if job.error is None else dict(job.error),
    )


@router.get(
    "/download/{id}/{kind}",
    summary=f"A file of a job: {', '.join(KINDS)}",
    response_class=Response,
    responses={
        **file_answer("application/octet-stream"),
        **refusals({404: "There is no such job or kind", 423: "It is not ready"}),
    },
)
def download(job: Job, kind: str, assistant: Assistant) -> Response:
    key = file_of_kind(job, kind) if kind in KINDS else None
    if key is None:
        raise _not_there(job, kind)
    data = assistant.storage.for_company(job.company).get(key, expect=job.saved.get(key))
    name = key.rpartition("/")[2]
    media_type = job.saved[key].content_type if key in job.saved else "application/json"
    return Response(data, headers={"Content-Disposition": f'attachment; filename="{name}"'}, media_type=media_type)


def _not_there(job: DrawingJob, kind: str) -> Problem:
    if kind not in KINDS:
        return Problem(404, f"There is no kind {kind[:50]!r} of file.", f"There are {', '.join(KINDS)}.")
    if kind == "context":
        return Problem(404, f"{job.id} has no context.", "It was made without one.")
    if job.state is State.FAILED and job.error is not None:
        return Problem(404, f"{job.id} has failed: {job.error['message']}", "Mend the drawing, and send it again.")
    message = f"{job.id} is {job.state.value}: its {kind} file is not ready."
    return Problem(423, message, "Ask for its status, and again when it has completed.", headers={"Retry-After": "2"})


def _stage(job: DrawingJob, name: str, checkpoint: str) -> StageView:
    point = job.checkpoints.get(checkpoint)
    if point is None:
        return StageView(name=name, timestamp=None, version=0, summary={})
    return StageView(name=name, timestamp=point.timestamp, version=point.version, summary=dict(point.summary or {}))


# ── what was sent ────────────────────────────────────────────────────────────────────────────────


async def _drawing_of(request: Request, query: DrawingQuery) -> NewDrawing:
    """A form with files, or a PDF with everything else in the query. Raises Problem."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == FORM:
        return await _of_form(request)
    if kind == PDF:
        texts = query.model_dump(exclude_none=True)
        return _new(texts, query.file_name or "drawing.pdf", await request.body(), None)
    message = f"The body is {FORM} or {PDF}, not {kind[:100] or 'without a type'}."
    raise Problem(415, message, "Send the drawing as the form's field `file`.")


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
