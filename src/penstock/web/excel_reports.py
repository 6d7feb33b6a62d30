"""The HTTP face of Excel reports (S0.12).

POST /generate-report        202, with the job's id and where to ask for its status
GET  /jobs/{id}              the job with its history, or 404
GET  /jobs/{id}/report       the file; 423 as long as there is none
GET  /health
"""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from penstock.files.errors import FileMissing
from penstock.jobs.model.job import JobNotFound
from penstock.jobs.model.state import BadTransition
from penstock.systems.excel_reports.options import ReportOptions
from penstock.systems.excel_reports.records import BadReport, JobWithLogs, job_form, log_form
from penstock.systems.excel_reports.service import ExcelReports
from penstock.systems.shapes import Length, Named
from penstock.web.faces import Call, Endpoint, make_face
from penstock.web.problems import Problem, json_answer

XLSX: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_BLOCK: Final = 64 * 1024
_STATUSES: Final = {JobNotFound: 404, BadReport: 400, BadTransition: 409, FileMissing: 404}


@dataclass(frozen=True, slots=True)
class GenerateReport:
    """A wish for a report."""

    id_project: Annotated[str, Named("idProject"), Length(1, 200), "The project, for example mlab_bodwassho_usa_3."]
    options: ReportOptions = field(default_factory=ReportOptions)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The report will be made."""

    job_id: Annotated[str, Named("jobId")]
    status: str
    status_url: Annotated[str, Named("statusUrl"), "Where to ask how far it is."]


@dataclass(frozen=True, slots=True)
class HistoryRecord:
    """A numbered record; one of completion or failure has further members."""

    number: Annotated[int, Named("sequenceNumber")]
    record_type: Annotated[str, Named("recordType")]
    timestamp: str
    progress: float
    step_name: Annotated[str, Named("stepName")]


@dataclass(frozen=True, slots=True)
class JobView:
    """A job with its history."""

    job_id: Annotated[str, Named("jobId")]
    id_project: Annotated[str, Named("idProject")]
    status: Annotated[str, "pending, processing, completed or failed"]
    progress: float
    created_at: Annotated[str, Named("createdAt")]
    updated_at: Annotated[str, Named("updatedAt")]
    completed_at: Annotated[str | None, Named("completedAt")]
    options: dict[str, Any]
    metadata: Annotated[dict[str, Any], "totalSteps, currentStep, stepName"]
    history: list[HistoryRecord]
    result: Annotated[dict[str, Any], "fileName, fileKey, downloadUrl, processingTime, statistics"] = field(
        default_factory=dict
    )
    error: Annotated[dict[str, Any], "category, message"] = field(default_factory=dict)


def excel_face(service: ExcelReports, *, hosts: Iterable[str] = (), concurrency: int = 1) -> Starlette:
    """The ASGI application. It also works on reports, `concurrency` at once; 0 leaves that to other workers."""
    face = _Face(service)
    endpoints = (
        Endpoint(
            "POST",
            "/generate-report",
            face.generate,
            "Ask for a report",
            {202: Accepted, 400: "It has errors; all of them are listed", 413: "It is too long"},
            body=GenerateReport,
        ),
        Endpoint("GET", "/jobs/{id}", face.job, "A job with its history", {200: JobView, 404: "There is no such job"}),
        Endpoint(
            "GET",
            "/jobs/{id}/report",
            face.report,
            "The report itself",
            {200: XLSX, 404: "There is no such job", 409: "It has failed", 423: "It is not ready"},
        ),
    )
    return make_face(
        "Excel reports",
        endpoints,
        description="Reports of a project's products and users, as .xlsx files.",
        health=face.health,
        statuses=_STATUSES,
        hosts=hosts,
        lifespan=lambda app: _working(service, concurrency),
    )


class _Face:
    def __init__(self, service: ExcelReports) -> None:
        self._service = service

    def generate(self, call: Call) -> Response:
        job = self._service.generate(call.body.id_project, call.body.options)
        url = call.url(f"/jobs/{job.job_id}")
        return json_answer({"jobId": job.job_id, "status": job.status, "statusUrl": url}, 202, {"Location": url})

    def job(self, call: Call) -> Response:
        found = self._service.read(call.path["id"])
        form = {**job_form(found.job), "history": [log_form(log) for log in found.logs]}
        if form.get("result", {}).get("downloadUrl", "").startswith("file:"):
            # A path of this machine is no use to others.
            form["result"]["downloadUrl"] = call.url(f"/jobs/{found.job.job_id}/report")
        return json_answer(form)

    def report(self, call: Call) -> Response:
        result = _result(self._service.read(call.path["id"]))
        stream = self._service.files.open(result["fileKey"])

        def blocks() -> Iterator[bytes]:
            with stream:
                while block := stream.read(_BLOCK):
                    yield block

        shown = re.sub(r"[^A-Za-z0-9._-]", "_", result["fileName"])
        name = {"Content-Disposition": f'attachment; filename="{shown}"'}
        return StreamingResponse(blocks(), media_type=XLSX, headers=name)

    def health(self) -> Mapping[str, Any]:
        jobs = self._service.jobs
        jobs.db.execute("DescribeTable", {"TableName": jobs.table})
        return {"table": jobs.table, "layout": jobs.layout, "lostReports": jobs.lost_reports}


def _result(found: JobWithLogs) -> Mapping[str, Any]:
    job = found.job
    if job.status == "failed":
        raise Problem(409, f"{job.job_id} has failed: {(job.error or {}).get('message', '')}", "Ask for another one.")
    if job.result is None:
        raise Problem(
            423,
            f"{job.job_id} is {job.status}, at {job.progress:g} %.",
            "Ask again in a moment.",
            headers={"Retry-After": "1"},
        )
    return job.result


def _working(service: ExcelReports, concurrency: int) -> AbstractAsyncContextManager[None]:
    """A worker beside the server, in threads of its own, for as long as the server runs."""

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        if not concurrency:
            yield
            return
        worker = await run_in_threadpool(service.worker, concurrency=concurrency)
        thread = threading.Thread(target=worker.run, name="penstock-excel-worker", daemon=True)
        thread.start()
        try:
            yield
        finally:
            worker.stop("the server stops")
            await run_in_threadpool(thread.join)

    return lifespan()
