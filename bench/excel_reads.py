"""What reading one report's job costs while its table grows: `python -m bench excel`.

A job is 20 records. The whole job is read by `ReportJobs.get_job_with_logs`: in the safe layout one Query, in compat a
Scan of the table, page by page. Counted are requests, DynamoDB's read units (strongly consistent), and the CPU time of
this process, in which the embedded engine runs; the median of several reads.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench.options import Options
from bench.report import Section, Table
from bench.sections import alone
from penstock.client.database import Database, connect
from penstock.systems.excel_reports.records import (
    COMPLETION,
    PROGRESS,
    Log,
    ReportJob,
    log_item,
    log_record_id,
    main_item,
    main_record_id,
)
from penstock.systems.excel_reports.store import ReportJobs
from penstock.systems.schema_variants import SchemaVariant

LAYOUTS: tuple[SchemaVariant, ...] = ("safe", "compat")
RECORDS_OF_A_JOB = 20
_START = 2_000_000_000.0


@dataclass(frozen=True)
class Reading:
    """What one read of a whole job took."""

    layout: SchemaVariant
    records: int
    requests: int
    units: float
    cpu_ms: float
    loaded_seconds: float


@dataclass(frozen=True)
class Plan:
    largest: int


SMALLEST = 1_000
PLANS = {"full": Plan(1_000_000), "quick": Plan(10_000)}


def run(options: Options) -> Section:
    plan = options.plan(PLANS)
    sizes = [SMALLEST * 10**power for power in range(7) if SMALLEST * 10**power <= plan.largest]
    readings = [_measured(layout, size) for layout in LAYOUTS for size in sizes]
    section = Section("excel", "Reading one report's job", [_table(readings)])
    for one in readings:
        section.figures |= {
            f"{what}/{one.layout}/{one.records}": getattr(one, what) for what in ("requests", "units", "cpu_ms")
        }
    section.notes.append(f"A job of {RECORDS_OF_A_JOB} records, read whole and strongly consistent.")
    return section


def _measured(layout: SchemaVariant, records: int) -> Reading:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder, connect(f"{folder}/jobs.db") as db:
        jobs = ReportJobs(db, layout=layout)
        jobs.create_table()
        began = time.perf_counter()
        db.table(jobs.table).batch_write(_items(records), deadline_seconds=600)
        loaded = time.perf_counter() - began
        wanted = _job_id(records // RECORDS_OF_A_JOB // 2)
        times = [_cpu_ms(jobs, wanted) for _ in range(3 if layout == "compat" else 51)]
        requests, units = _counted(db, jobs, wanted)
        return Reading(layout, records, requests, units, statistics.median(times), loaded)


def _cpu_ms(jobs: ReportJobs, job_id: str) -> float:
    began = time.process_time()
    found = jobs.get_job_with_logs(job_id)
    spent = (time.process_time() - began) * 1000
    assert len(found.logs) == RECORDS_OF_A_JOB - 1
    return spent


def _counted(db: Database, jobs: ReportJobs, job_id: str) -> tuple[int, float]:
    """Requests and read units of the same read, as DynamoDB counts them."""
    spent: list[float] = []
    execute = db.execute

    def counting(operation: str, request: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = execute(operation, {**(request or {}), "ReturnConsumedCapacity": "TOTAL"})
        spent.append(answer["ConsumedCapacity"]["CapacityUnits"])
        return answer

    db.execute = counting  # type: ignore[method-assign]
    try:
        jobs.get_job_with_logs(job_id)
    finally:
        db.execute = execute  # type: ignore[method-assign]
    return len(spent), sum(spent)


def _job_id(number: int) -> str:
    return f"job_mbzlks74_{number:06d}"


def _items(records: int) -> Iterator[dict[str, Any]]:
    """One job's items again and again, each time under another id."""
    first = _job_id(0)
    pattern = tuple(_job_items(first))
    for number in range(records // RECORDS_OF_A_JOB):
        job_id = _job_id(number)
        for item in pattern:
            yield {**item, "jobId": job_id, "recordId": item["recordId"].replace(first, job_id)}


def _job_items(job_id: str) -> Iterator[dict[str, Any]]:
    expires_at = int(_START) + 86_400
    options = {"products": 200, "users": 60, "images": 24, "byCategory": False}
    record_id = main_record_id(job_id) or ""
    last = RECORDS_OF_A_JOB - 1
    job = ReportJob(
        record_id,
        job_id,
        "mlab_bodwassho_usa_3",
        "completed",
        _START,
        _START,
        expires_at,
        100,
        options,
        last_number=last,
    )
    yield main_item(job)
    for number in range(1, last + 1):
        kind = COMPLETION if number == last else PROGRESS
        log = Log(log_record_id(job_id, number, _START), job_id, kind, number, _START, number * 5, "downloading-images")
        yield log_item(log, expires_at)


def _table(readings: list[Reading]) -> Table:
    columns = ["layout", "records", "requests", "read units", "ms of CPU", "loaded in, s"]
    rows = [
        [one.layout, f"{one.records:,}", f"{one.requests:,}", f"{one.units:,.1f}", f"{one.cpu_ms:,.2f}",
         f"{one.loaded_seconds:,.1f}"]
        for one in readings
    ]  # fmt: skip
    return Table("One job among so many records", columns, rows)


if __name__ == "__main__":
    alone("excel")
