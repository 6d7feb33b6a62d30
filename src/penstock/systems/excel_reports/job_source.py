"""Reports as jobs, for `penstock jobs list` and the dashboard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.client.database import Database
from penstock.client.items.expressions import F
from penstock.files import Files
from penstock.jobs.model.job import Entry, History, Job, JobNotFound
from penstock.jobs.model.json_text import to_json
from penstock.jobs.model.state import State
from penstock.jobs.sources import (
    NEVER_EXPIRES,
    JobQuery,
    JobSource,
    ReadOnlySource,
    TableDescription,
    error_of,
    newest_jobs,
    scan_items,
)
from penstock.systems.excel_reports.records import MAIN, TASK, BadReport, Log, ReportJob, job_of
from penstock.systems.excel_reports.store import ReportJobs
from penstock.systems.excel_reports.tables import variant_of


@dataclass(frozen=True, slots=True)
class ReportSource(ReadOnlySource):
    """The reports of a table, in either layout. It has no index, as it was designed: all of it is read."""

    reports: ReportJobs
    system: str = "excel-reports"
    commands: str = "penstock excel"

    @property
    def table(self) -> str:
        return self.reports.table

    def find(self, query: JobQuery, notes: list[str]) -> Sequence[Job]:
        keys = ("jobId", "recordId") if self.reports.layout == "safe" else ("recordId",)
        now = self.reports.clock.now()
        items = scan_items(self.reports.db, self.table, keys, query, notes, filter=F("recordType") == MAIN)
        return newest_jobs((report_job(job_of(item)) for item in items if item.get("ttl", now + 1) > now), query)

    def history(self, job_id: str) -> History | None:
        try:
            found = self.reports.get_job_with_logs(job_id)
        except JobNotFound:
            return None
        return History(report_job(found.job), tuple(_entry(log) for log in found.logs))


def report_job(report: ReportJob) -> Job:
    error = report.error
    try:
        state = report.state
    except BadReport:
        state = State.FAILED
    return Job(
        id=report.job_id,
        task=TASK,
        state=state,
        created_at=report.created_at,
        updated_at=report.updated_at,
        run_at=report.created_at,
        expires_at=min(report.expires_at, NEVER_EXPIRES),
        progress=float(report.progress),
        step=report.step_name,
        entries=report.last_number or 0,
        error=None if error is None else error_of(error.get("category"), error.get("message")),
        ended_at=report.completed_at,
    )


def _entry(log: Log) -> Entry:
    data = to_json(dict(log.fields), "a record") if log.fields else None
    return Entry(log.number, log.at, float(log.progress), log.step_name, data=data)


def report_source(db: Database, table: TableDescription, files: Files | None) -> JobSource | None:
    layout = variant_of(table.keys)
    if layout is None or table.indexes:
        return None
    return ReportSource(ReportJobs(db, layout=layout, table=table.name))
