"""A process that appends progress to a job: `report_writer.py DB LAYOUT JOB WRITER COUNT`."""

from __future__ import annotations

import sys

from penstock.client.database import connect
from penstock.systems.excel_reports.store import ReportJobs


def main(path: str, layout: str, job_id: str, writer: str, count: str) -> None:
    with connect(path) as db:
        jobs = ReportJobs(db, layout="safe" if layout == "safe" else "compat")
        for number in range(int(count)):
            assert jobs.append_progress_log(job_id, 20, f"step {writer}", writer=writer, turn=number) is not None


if __name__ == "__main__":
    main(*sys.argv[1:])
