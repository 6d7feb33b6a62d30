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
_BAKERY: Final = """name,price,category,createdAt,image
Roggenbrot,4.20,Brot,2026-06-16T06:00:00Z,
Brezel,0.95,Gebäck,2026-06-16T06:00:00Z,not-there.jpg
Apfelkuchen,,Kuchen,2026-06-17T06:00:00Z,
"""
_LOOK_SECONDS: Final = 0.02
_FIRST_REPORT: Final = 0.8
"""The part of the demo's time that the larger report takes."""


def demo(db: Database, folder: Path, progress: Callable[[float, str], None]) -> dict[str, object]:
    """Makes one report with all of its steps; where it is, and what went into it."""
    home = files_beside(db, folder)
    service = ExcelReports(db, open_files(home), work=DEFAULT_TABLE)  # where `penstock up` looks
    service.prepare()
    progress(0.0, f"a report of {PROJECT}")
    job = service.generate(PROJECT, {"products": 500, "byCategory": True})
    found = _watch(service, job.job_id, lambda part, text: progress(part * _FIRST_REPORT, text))
    if found.job.result is None:
        raise PenstockError(f"{job.job_id}: {(found.job.error or {}).get('message')}")
    statistics = found.job.result["statistics"]
    own = _own_data(service, folder, lambda part, text: progress(_FIRST_REPORT + part * (1 - _FIRST_REPORT), text))
    return {
        "job": job.job_id,
        "records": len(found.logs) + 1,
        "products": statistics["totalProducts"],
        "users": statistics["totalUsers"],
        "images": statistics["totalImages"],
        "sheets": statistics["totalSheets"],
        "products of a CSV file": (own.job.result or {})["statistics"]["totalProducts"],
        "notes in its report": len((own.job.result or {})["statistics"].get("notes", ())),
        "report": str(home / found.job.result["fileKey"]),
        "report of a CSV file": str(home / (own.job.result or {})["fileKey"]),
    }


def _own_data(service: ExcelReports, folder: Path, progress: Callable[[float, str], None]) -> JobWithLogs:
    """A report of a CSV file in which a price and a picture are missing: it has a note, and is made."""
    data = folder / "bakery"
    data.mkdir(parents=True, exist_ok=True)
    (data / "products.csv").write_text(_BAKERY, encoding="utf-8")
    job = service.generate("bakery", {"source": [str(data)]})
    found = _watch(service, job.job_id, progress)
    if found.job.result is None:
        raise PenstockError(f"{job.job_id}: {(found.job.error or {}).get('message')}")
    return found


def _watch(service: ExcelReports, job_id: str, progress: Callable[[float, str], None]) -> JobWithLogs:
    worker = threading.Thread(target=service.worker(until_empty=True, concurrency=1).run, daemon=True)
    worker.start()
    while worker.is_alive():
        job = service.jobs.get_job(job_id)
        progress(job.progress / 100, job.step_name)
        worker.join(_LOOK_SECONDS)
    progress(1.0, "the report is made")
    return service.read(job_id)
