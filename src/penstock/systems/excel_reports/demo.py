"""A small complete showing, for `penstock demo`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from penstock.client.database import Database
from penstock.errors import PenstockError
from penstock.files import open_files
from penstock.jobs.layouts.tables import DEFAULT_TABLE
from penstock.systems.demos import files_beside
from penstock.systems.excel_reports.records import JobWithLogs
from penstock.systems.excel_reports.service import ExcelReports

PROJECT: Final = "mlab_bodwassho_usa_3"
_LOOK_SECONDS: Final = 0.02


def demo(db: Database, folder: Path, progress: Callable[[float, str], None]) -> dict[str, object]:
    """Makes one report with all of its steps; where it is, and what went into it."""
    home = files_beside(db, folder)
    service = ExcelReports(db, open_files(home), work=DEFAULT_TABLE)  # where `penstock up` looks
    service.prepare()
    progress(0.0, f"a report of {PROJECT}")
    job = service.generate(PROJECT, {"products": 500, "byCategory": True})
    found = _watch(service, job.job_id, progress)
    if found.job.result is None:
        raise PenstockError(f"{job.job_id}: {(found.job.error or {}).get('message')}")
    statistics = found.job.result["statistics"]
    return {
        "job": job.job_id,
        "records": len(found.logs) + 1,
        "products": statistics["totalProducts"],
        "users": statistics["totalUsers"],
        "images": statistics["totalImages"],
        "sheets": statistics["totalSheets"],
        "report": str(home / found.job.result["fileKey"]),
    }


def _watch(service: ExcelReports, job_id: str, progress: Callable[[float, str], None]) -> JobWithLogs:
    worker = threading.Thread(target=service.worker(until_empty=True, concurrency=1).run, daemon=True)
    worker.start()
    while worker.is_alive():
        job = service.jobs.get_job(job_id)
        progress(job.progress / 100, job.step_name)
        worker.join(_LOOK_SECONDS)
    progress(1.0, "the report is made")
    return service.read(job_id)
