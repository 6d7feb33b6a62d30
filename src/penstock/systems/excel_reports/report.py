"""Making a report, step by step (S0.13), so that a worker which dies can be taken over.

1. What a step has made is a file, and a checkpoint says so: the next attempt reuses it, checked by its hash.
2. The job's records are written under the worker's token: one that was taken over writes nothing more.
3. The job has ended before its work has: an attempt that finds it completed has nothing to do.
"""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from penstock.clock import utc_text
from penstock.errors import DynamoDBError, PenstockError, TransportError
from penstock.files import Files
from penstock.files.content import SavedFile
from penstock.files.errors import StoreUnreachable
from penstock.files.file_store import LONGEST_URL_SECONDS
from penstock.jobs.context import JobContext
from penstock.jobs.model.job import JobCancelled, JobNotFound, JobRequeued
from penstock.leases import LeaseLost
from penstock.retry import RetryPolicy
from penstock.systems.excel_reports.options import ReportOptions, checked_options
from penstock.systems.excel_reports.project import MadeUpProject, Row, Source
from penstock.systems.excel_reports.records import IMAGES_END, STEPS, JobExists, ReportJob
from penstock.systems.excel_reports.store import ReportJobs
from penstock.systems.excel_reports.workbook import ReportBook, Statistics

_LOG = logging.getLogger("penstock.excel_reports")

RETRIES: Final = RetryPolicy(3, on=(TransportError, DynamoDBError, StoreUnreachable))
"""What may pass is tried again; a report that cannot be made fails at once."""
_BATCHES: Final = 6
"""Images are told of so often."""


class ReportMaker:
    """Makes reports of a source's projects; `jobs` is where it tells how far it is."""

    def __init__(self, jobs: ReportJobs, files: Files, source: Source | None = None) -> None:
        self._jobs = jobs
        self._files = files
        self._source = source or MadeUpProject()

    def make(self, ctx: JobContext, id_project: str, options: dict[str, Any]) -> dict[str, Any]:
        """The task: the facts of the finished report. What it raises is in the job's records, too."""
        try:
            job = self._begin(ctx, id_project, options)
            if job.status == "completed":
                return dict(job.result or {})
            return _Making(ctx, self._jobs, self._files, self._source, job).report()
        except (LeaseLost, JobRequeued):
            raise  # another worker goes on
        except JobCancelled as cancelled:
            self._fail(ctx, cancelled)
            raise
        except Exception as error:
            if not RETRIES.allows(error, ctx.job.failures):
                self._fail(ctx, error)
            raise

    def _fail(self, ctx: JobContext, error: Exception) -> None:
        """The reason itself is what the worker must hear of, whether or not it can be stored here."""
        try:
            self._jobs.fail_job(ctx.id, error, token=ctx.job.token)
        except PenstockError as trouble:
            _LOG.warning("%s: its failure could not be stored: %s", ctx.id, trouble)

    def _begin(self, ctx: JobContext, id_project: str, options: dict[str, Any]) -> ReportJob:
        """The job, being processed. Whoever enqueued it may have died before its record was made."""
        try:
            job = self._jobs.get_job(ctx.id)
        except JobNotFound:
            job = create_or_get(self._jobs, ctx.id, id_project, options)
        if job.status == "completed":
            return job
        if job.status == "failed":
            self._jobs.update_job_status(ctx.id, "pending", token=ctx.job.token)
        return self._jobs.update_job_status(ctx.id, "processing", token=ctx.job.token)


def create_or_get(jobs: ReportJobs, job_id: str, id_project: str, options: dict[str, Any]) -> ReportJob:
    """The job's record, made by this call or by another that was quicker."""
    try:
        return jobs.create_job(id_project, options, job_id=job_id)
    except JobExists:
        return jobs.get_job(job_id)


class _Making:
    """One attempt at one report."""

    def __init__(self, ctx: JobContext, jobs: ReportJobs, files: Files, source: Source, job: ReportJob) -> None:
        self._ctx = ctx
        self._jobs = jobs
        self._files = files
        self._source = source
        self._job = job
        self._options: ReportOptions = checked_options(job.options)

    def report(self) -> dict[str, Any]:
        project, options = self._job.id_project, self._options
        self._report_step("starting")
        self._report_step("initializing", attempt=self._ctx.attempt)
        self._report_step("fetching-products")
        products = self._step_file("products.jsonl", lambda: _lines(self._source.products(project, options)))
        self._report_step("fetching-users")
        users = self._step_file("users.jsonl", lambda: _lines(self._source.users(project, options)))
        saved, statistics = self._workbook(products, users)
        self._report_step("finalizing", fileSize=saved.size)
        return self._complete(saved, statistics)

    def _workbook(self, products: SavedFile, users: SavedFile) -> tuple[SavedFile, dict[str, Any]]:
        found = self._ctx.resume("report")
        if found is not None:
            return SavedFile.parse(found["file"]), found["statistics"]
        self._report_step("generating-excel")
        with tempfile.TemporaryDirectory(prefix="penstock-report-") as folder:
            path = Path(folder) / "report.xlsx"
            statistics = self._write_workbook(path, products, users).form()
            self._report_step("uploading", fileSize=path.stat().st_size)
            with path.open("rb") as stream:
                saved = self._files.save(self._key(self._file_name()), stream)
        self._ctx.checkpoint("report", {"file": saved.form(), "statistics": statistics})
        return saved, statistics

    def _write_workbook(self, path: Path, products: SavedFile, users: SavedFile) -> Statistics:
        options = self._options
        book = ReportBook(options.title or self._job.id_project, by_category=options.by_category)
        shown = min(options.images, options.products)
        book.add_products(self._rows(products), shown)
        book.add_users(self._rows(users))
        for place, png in enumerate(self._images(products, shown)):
            book.add_picture(place, png)
        return book.save(path)

    def _images(self, products: SavedFile, count: int) -> Iterator[bytes]:
        """The pictures of the first products; each is fetched once, whatever the number of attempts."""
        self._report_step("downloading-images", images=count)
        first, batch = STEPS["downloading-images"], max(1, -(-count // _BATCHES))
        rows = self._rows(products)
        for place in range(count):
            yield self._image(next(rows)["image"])
            done = place + 1
            if done % batch == 0 or done == count:
                progress = first + (IMAGES_END - first) * done / count
                self._report_step("downloading-images", round(progress, 1), downloaded=done)

    def _image(self, name: str) -> bytes:
        key = self._key(f"images/{name}")
        if self._files.exists(key):
            return self._files.read(key)
        png = self._source.image(self._job.id_project, name)
        self._files.save(key, png)
        return png

    def _complete(self, saved: SavedFile, statistics: dict[str, Any]) -> dict[str, Any]:
        seconds = int(min(self._jobs.ttl_seconds, LONGEST_URL_SECONDS))
        job = self._jobs.complete_job(
            self._ctx.id,
            file_name=saved.key.rpartition("/")[2],
            file_key=saved.key,
            download_url=self._files.url(saved.key, seconds=max(1, seconds)),
            statistics={**statistics, "fileSize": saved.size},
            token=self._ctx.job.token,
        )
        return dict(job.result or {})

    # ── what the steps share ─────────────────────────────────────────────────────────────────────

    def _report_step(self, step: str, progress: float | None = None, **fields: Any) -> None:
        """Progress, in the job's records; and a look whether this attempt should stop."""
        percent = STEPS[step] if progress is None else progress
        self._ctx.progress(percent, step)  # first: it raises where another worker has the job
        self._jobs.update_job_progress(self._ctx.id, percent, step, token=self._ctx.job.token, **fields)

    def _step_file(self, name: str, lines: Callable[[], Iterator[bytes]]) -> SavedFile:
        """The file of a step, made by this attempt or by an earlier one (1)."""
        key = self._key(name)
        return SavedFile.parse(self._ctx.step(name, lambda: self._files.save(key, lines()).form()))

    def _rows(self, file: SavedFile) -> Iterator[Row]:
        with self._files.open(file.key, expect=file) as stream:
            for number, line in enumerate(stream, start=1):
                if number % _ROWS_BETWEEN_LOOKS == 0:
                    self._ctx.log(f"{file.key}: {number:,} rows")  # raises where this attempt should stop
                yield orjson.loads(line)

    def _key(self, name: str) -> str:
        return f"{self._ctx.id}/{name}"

    def _file_name(self) -> str:
        project = re.sub(r"[^A-Za-z0-9._-]+", "_", self._job.id_project).strip("._")[:_NAME_CHARACTERS]
        return f"{project or 'report'}_{utc_text(self._job.created_at)[:10]}.xlsx"


_NAME_CHARACTERS: Final = 100
_ROWS_BETWEEN_LOOKS: Final = 5_000
"""Of a large report: a few seconds' work."""


def _lines(rows: Iterator[Row]) -> Iterator[bytes]:
    return (orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
