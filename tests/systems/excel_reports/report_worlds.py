"""Report jobs on every database and in both layouts."""

from __future__ import annotations

from typing import Any, get_args

from penstock.client.database import Database
from penstock.clock import ManualClock
from penstock.systems.excel_reports.store import ReportJobs
from penstock.systems.schema_variants import SchemaVariant

START = 2_000_000_000.789
"""In the future: the engine has the machine's clock, and deletes what has expired by it."""
LAYOUTS = get_args(SchemaVariant)

SEED_MAIN = {
    "recordId": "job_job_mbzlks74_rfi5i0_1734383256789_abc123",
    "jobId": "job_mbzlks74_rfi5i0",
    "recordType": "main_job",
    "sequenceNumber": 0,
    "idProject": "mlab_bodwassho_usa_3",
    "status": "pending",
    "progress": 0,
    "createdAt": "2025-06-16T21:19:33.789Z",
    "updatedAt": "2025-06-16T21:19:33.789Z",
    "ttl": 2_000_080_000,
    "options": {},
    "metadata": {"totalSteps": 5, "currentStep": 0, "stepName": "initializing"},
}
"""As the table's first description has it, but for its ttl, which is the future."""

SEED_LOG = {
    "recordId": "job_mbzlks74_rfi5i0_seq001_2025-06-16_21_20_15_abc",
    "jobId": "job_mbzlks74_rfi5i0",
    "recordType": "progress_log",
    "sequenceNumber": 1,
    "timestamp": "2025-06-16T21:20:15.564Z",
    "progress": 15,
    "stepName": "starting",
    "ttl": 2_000_080_000,
}


def new_jobs(db: Database, layout: SchemaVariant, clock: ManualClock | None = None, **options: Any) -> ReportJobs:
    jobs = ReportJobs(db, layout=layout, clock=clock or ManualClock(START), **options)
    jobs.create_table()
    return jobs


def items_of(jobs: ReportJobs) -> list[dict[str, Any]]:
    return list(jobs.db.table(jobs.table).scan())
