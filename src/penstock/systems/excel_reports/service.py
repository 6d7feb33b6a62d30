"""Excel reports as a whole: asking for one, working on it, and reading how far it is.

The job that clients see is in the table of this system, as it always was. The work on it is a job of Penstock's own, of
the same id, in a table beside it: leases, takeovers and checkpoints are there. docs/decisions/0010 says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final
from weakref import WeakSet

from penstock.client.database import Database
from penstock.clock import Clock
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.files import Files
from penstock.jobs.app import App
from penstock.jobs.context import JobContext
from penstock.jobs.model.job import Job, JobNotFound, NewJob
from penstock.jobs.model.state import BadTransition, State
from penstock.jobs.worker.worker import Worker
from penstock.systems.excel_reports.book.template import DEFAULT, Template
from penstock.systems.excel_reports.expired_files import ExpiredFiles
from penstock.systems.excel_reports.options import MOST_IMAGES, JobOptions, ReportOptions, checked_options
from penstock.systems.excel_reports.records import TASK, JobWithLogs, ReportJob, Settings, new_job_id
from penstock.systems.excel_reports.report import RETRIES, OpenSource, ReportMaker, create_or_get
from penstock.systems.excel_reports.sources.made_up import MadeUpProject
from penstock.systems.excel_reports.sources.places import CheckedSource, open_sources
from penstock.systems.excel_reports.sources.source import Source
from penstock.systems.excel_reports.store import ReportJobs, detect_layout
from penstock.systems.schema_variants import SchemaVariant

DEFAULT_LEASE_SECONDS: Final = 30.0


class ExcelReports:
    """Reports in one database, their files in one home."""

    def __init__(
        self,
        db: Database,
        files: Files,
        *,
        layout: SchemaVariant | None = None,
        settings: Settings | None = None,
        sources: Sequence[str] = (),
        template: Template | None = None,
        source: OpenSource = MadeUpProject,
        clock: Clock | None = None,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        work: str | None = None,
    ) -> None:
        """Raises BadReport for a table of another layout; without one, the table's own is detected.

        New jobs have the `sources` (such as "data/" or "reports:orders") and the `template`. A Python function is
        called only if it is one of the `sources`. `source` opens the source of jobs that have none. `work` is the table
        of the work on the reports, `{table}-work` unless it is named.
        """
        settings = settings or Settings()
        self.files = files
        self.sources = tuple(sources)
        self.template = template or DEFAULT
        self._open_own = source
        layout = detect_layout(db, settings.table, layout)
        self.jobs = ReportJobs(db, layout=layout, table=settings.table, ttl_hours=settings.ttl_hours, clock=clock)
        self.app = App(
            db,
            table=work or work_table(settings.table),
            files=files,
            keep_seconds=max(1, self.jobs.ttl_seconds),
            clock=clock,
        )
        self._workers: WeakSet[Worker] = WeakSet()
        self.expired_files = ExpiredFiles(self.jobs, files)
        maker = ReportMaker(self.jobs, files, self._open_source, self.expired_files)

        @self.app.task(TASK, retries=RETRIES, lease_seconds=lease_seconds)
        def excel_report(ctx: JobContext, id_project: str, options: dict[str, Any]) -> dict[str, Any]:
            return maker.make(ctx, id_project, options)

    def prepare(self) -> None:
        """Makes the table of jobs where it is missing; the one of the work is made when it is first used."""
        try:
            self.jobs.db.execute("DescribeTable", {"TableName": self.jobs.table})
        except ResourceNotFoundException:
            self.jobs.create_table()

    # ── asking ───────────────────────────────────────────────────────────────────────────────────

    def generate(self, id_project: str, options: Mapping[str, Any] | ReportOptions | None = None) -> ReportJob:
        """A job for a report; a worker will make it. Raises BadReport with all that is wrong, and makes no job then."""
        checked = self._checked(options)
        if checked.source:
            self._open_sources(id_project, checked).check()
        job_id = new_job_id(self.jobs.clock.now())
        form = checked.form()
        # The record first, so that a project's bad name is refused; a worker makes it anew where it is missing.
        job = create_or_get(self.jobs, job_id, id_project, form)
        args = {"id_project": id_project, "options": form}
        try:
            self.app.store.create(NewJob(TASK, args, retries=RETRIES.times, id=job_id))
        except PenstockError as error:
            with suppress(PenstockError):  # the first trouble is the one to tell
                self.jobs.fail_job(job_id, error)
            raise
        self._wake()
        return job

    def _checked(self, options: Mapping[str, Any] | ReportOptions | None) -> JobOptions:
        if isinstance(options, ReportOptions):
            form = options.model_dump(by_alias=True, exclude_unset=True)
        else:
            form = dict(options or {})
        if self.sources:
            form.setdefault("source", list(self.sources))
        if form.get("source"):
            form.setdefault("images", MOST_IMAGES)  # all that a sheet may have
            form.setdefault("template", self.template.form())
        return checked_options(form)

    def _open_source(self, id_project: str, options: JobOptions) -> Source:
        return self._open_sources(id_project, options) if options.source else self._open_own(id_project, options)

    def _open_sources(self, id_project: str, options: JobOptions) -> CheckedSource:
        hosts = options.template.picture_hosts
        return open_sources(options.source, id_project, self.jobs.db, allowed=self.sources, picture_hosts=hosts)

    def retry(self, job_id: str) -> ReportJob:
        """Another attempt at a report that failed: what it had made is reused. Raises BadTransition, JobNotFound."""
        job = self.read(job_id).job
        if job.status != "failed":
            raise BadTransition(job_id, "retried", job.state)
        # The record first: a worker may begin as soon as the work is queued.
        after = self.jobs.update_job_status(job_id, "pending")
        try:
            self.app.retry(job_id)
        except PenstockError as error:
            with suppress(PenstockError):
                self.jobs.fail_job(job_id, error)
            raise
        self._wake()
        return after

    def _wake(self) -> None:
        """Workers of this process need not wait until they look again."""
        for worker in list(self._workers):
            worker.fetcher.wake()

    def worker(self, **options: Any) -> Worker:
        """One that makes reports, in this process; `options` are a Worker's."""
        self.expired_files.remove_if_due()
        worker = Worker(self.app, **options)
        self._workers.add(worker)
        return worker

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def read(self, job_id: str) -> JobWithLogs:
        """The job with its history, and a download URL that is valid now. Raises JobNotFound."""
        found = self.jobs.get_job_with_logs(job_id)
        if not found.job.is_terminal and self._settle(found.job):
            found = self.jobs.get_job_with_logs(job_id)
        return replace(found, job=self._with_url(found.job))

    def _settle(self, job: ReportJob) -> bool:
        """Whether the work had ended without a word in the job's records, and now there is one.

        So it is where the work killed its workers too often, or was cancelled before any began it.
        """
        work = self._work(job.job_id)
        if work is None or work.state not in (State.FAILED, State.CANCELLED):
            return False
        reason = f"It was cancelled: {work.cancel_reason}" if work.error is None else work.error.message
        with suppress(BadTransition):  # another reader was quicker
            self.jobs.fail_job(job.job_id, reason, token=max(work.token, job.fence) or None)
        return True

    def _work(self, job_id: str) -> Job | None:
        try:
            return self.app.store.get(job_id)
        except JobNotFound:
            return None

    def _with_url(self, job: ReportJob) -> ReportJob:
        if job.result is None or "fileKey" not in job.result:
            return job
        try:
            url = self.files.url(job.result["fileKey"])
        except PenstockError:  # the files are elsewhere: the stored URL is what there is
            return job
        return replace(job, result={**job.result, "downloadUrl": url})


def work_table(table: str) -> str:
    """The table of the work on the jobs of a table."""
    return f"{table}-work"
