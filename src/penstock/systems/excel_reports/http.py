"""The HTTP API of Excel reports (S0.12).

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
from typing import Annotated, Any, Final

from penstock.extras import extra
from penstock.files.errors import FileMissing
from penstock.jobs.model.job import JobNotFound
from penstock.jobs.model.state import BadTransition
from penstock.systems.excel_reports.options import ReportOptions
from penstock.systems.excel_reports.records import BadReport, JobWithLogs, job_form, log_form
from penstock.systems.excel_reports.service import ExcelReports

with extra("systems", "An Excel report"):
    from fastapi import Depends, FastAPI, Request
    from pydantic import BaseModel, ConfigDict, Field
    from pydantic.alias_generators import to_camel
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import Response, StreamingResponse

    from penstock.web.api.application import ApiRouter, file_answer, make_api, refusals, url_for
    from penstock.web.api.validation import StrictModel
    from penstock.web.problems import Problem, json_answer

XLSX: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_BLOCK: Final = 64 * 1024
_STATUSES: Final = {JobNotFound: 404, BadReport: 400, BadTransition: 409, FileMissing: 404}


class GenerateReport(StrictModel):
    """A request for a report."""

    id_project: str = Field(
        alias="idProject", min_length=1, max_length=200, description="The project, for example mlab_bodwassho_usa_3."
    )
    options: ReportOptions = ReportOptions()


class _Answer(BaseModel):
    """In camelCase, as jobs are stored."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class Accepted(_Answer):
    """The report will be made."""

    job_id: str
    status: str
    status_url: str = Field(description="Where to ask how far it is.")


class HistoryRecord(_Answer):
    """A numbered record; one of completion or failure has further members."""

    sequence_number: int
    record_type: str
    timestamp: str
    progress: float
    step_name: str


class JobView(_Answer):
    """A job with its history."""

    job_id: str
    id_project: str
    status: str = Field(description="pending, processing, completed or failed")
    progress: float
    created_at: str
    updated_at: str
    completed_at: str | None
    options: dict[str, Any]
    metadata: dict[str, Any] = Field(description="totalSteps, currentStep, stepName")
    history: list[HistoryRecord]
    result: dict[str, Any] = Field(default={}, description="fileName, fileKey, downloadUrl, processingTime, statistics")
    error: dict[str, Any] = Field(default={}, description="category, message")


def excel_api(service: ExcelReports, *, hosts: Iterable[str] = (), concurrency: int = 1) -> FastAPI:
    """The ASGI application. It also works on reports, `concurrency` at once; 0 leaves that to other workers."""

    def health() -> Mapping[str, Any]:
        jobs = service.jobs
        jobs.db.execute("DescribeTable", {"TableName": jobs.table})
        return {"table": jobs.table, "layout": jobs.layout, "lostReports": jobs.lost_reports}

    return make_api(
        "Excel reports",
        router,
        state=service,
        description="Reports of a project's products and users, as .xlsx files.",
        health=health,
        statuses=_STATUSES,
        hosts=hosts,
        lifespan=lambda app: _worker_beside(service, concurrency),
    )


async def _service(request: Request) -> ExcelReports:
    service: ExcelReports = request.app.state.service
    return service


Service = Annotated[ExcelReports, Depends(_service)]
router = ApiRouter()


@router.post(
    "/generate-report",
    summary="Ask for a report",
    status_code=202,
    responses=refusals({400: "It has errors; all of them are listed", 413: "It is too long"}),
)
def generate(wanted: GenerateReport, service: Service, request: Request, response: Response) -> Accepted:
    job = service.generate(wanted.id_project, wanted.options)
    response.headers["Location"] = url = url_for(request, f"/jobs/{job.job_id}")
    return Accepted(job_id=job.job_id, status=job.status, status_url=url)


@router.get(
    "/jobs/{id}",
    summary="A job with its history",
    response_model=JobView,
    responses=refusals({404: "There is no such job"}),
)
def read_job(id: str, service: Service, request: Request) -> Response:
    found = service.read(id)
    form = {**job_form(found.job), "history": [log_form(log) for log in found.logs]}
    if form.get("result", {}).get("downloadUrl", "").startswith("file:"):
        # A path of this machine is no use to others.
        form["result"]["downloadUrl"] = url_for(request, f"/jobs/{found.job.job_id}/report")
    return json_answer(form)  # as it is stored: the model describes it


@router.get(
    "/jobs/{id}/report",
    summary="The report itself",
    response_class=StreamingResponse,
    responses={
        **file_answer(XLSX),
        **refusals({404: "There is no such job", 409: "It has failed", 423: "It is not ready"}),
    },
)
def download_report(id: str, service: Service) -> Response:
    result = _result(service.read(id))
    stream = service.files.open(result["fileKey"])

    def blocks() -> Iterator[bytes]:
        with stream:
            while block := stream.read(_BLOCK):
                yield block

    file_name = re.sub(r"[^A-Za-z0-9._-]", "_", result["fileName"])
    headers = {"Content-Disposition": f'attachment; filename="{file_name}"'}
    return StreamingResponse(blocks(), media_type=XLSX, headers=headers)


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


def _worker_beside(service: ExcelReports, concurrency: int) -> AbstractAsyncContextManager[None]:
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
            with service.expired_files.removing():
                yield
        finally:
            worker.stop("the server stops")
            await run_in_threadpool(thread.join)

    return lifespan()
