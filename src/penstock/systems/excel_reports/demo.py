"""A small complete showing, for `penstock demo`."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from zipfile import ZipFile

from penstock.client.database import Database, connect
from penstock.clock import ManualClock
from penstock.engine.settings import Settings
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
_SWEEP_SECONDS: Final = 0.02
_LONGEST_SWEEP_SECONDS: Final = 10.0


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
    data = _bakery(folder)
    own = _own_data(service, data, lambda part, text: progress(_FIRST_REPORT + part * (1 - _FIRST_REPORT), text))
    return {
        "job": job.job_id,
        "records": len(found.logs) + 1,
        "products": statistics["totalProducts"],
        "users": statistics["totalUsers"],
        "images": statistics["totalImages"],
        "sheets": statistics["totalSheets"],
        "pages of the report": page_setup(home / found.job.result["fileKey"]),
        "products of a CSV file": (own.job.result or {})["statistics"]["totalProducts"],
        "notes in its report": len((own.job.result or {})["statistics"].get("notes", ())),
        "an expired report": _expired_report(data),
        "report": str(home / found.job.result["fileKey"]),
        "report of a CSV file": str(home / (own.job.result or {})["fileKey"]),
    }


def _bakery(folder: Path) -> Path:
    """A folder with a CSV file in which a price and a picture are missing."""
    data = folder / "bakery"
    data.mkdir(parents=True, exist_ok=True)
    (data / "products.csv").write_text(_BAKERY, encoding="utf-8")
    return data


def _own_data(service: ExcelReports, data: Path, progress: Callable[[float, str], None]) -> JobWithLogs:
    """A report of the folder's data: it has a note, and is made."""
    job = service.generate("bakery", {"source": [str(data)]})
    found = _watch(service, job.job_id, progress)
    if found.job.result is None:
        raise PenstockError(f"{job.job_id}: {(found.job.error or {}).get('message')}")
    return found


def page_setup(report: Path) -> str:
    """How a report is printed, as its file says: the paper's direction, repeated headers, charts on the cover."""
    with ZipFile(report) as book:
        sheets = [book.read(name) for name in book.namelist() if name.startswith("xl/worksheets/sheet")]
        landscape = sum(b'orientation="landscape"' in sheet for sheet in sheets)
        headers = book.read("xl/workbook.xml").count(b"_xlnm.Print_Titles")
        links = "xl/worksheets/_rels/sheet1.xml.rels"
        drawings = re.findall(rb"drawings/drawing\d+\.xml", book.read(links)) if links in book.namelist() else []
        charts = sum(book.read(f"xl/{name.decode()}").count(b"<c:chart ") for name in drawings)
    return f"{landscape} of {len(sheets)} sheets landscape, header repeated on {headers}, {charts} charts on the cover"


def _expired_report(data: Path) -> str:
    """What is removed of a report whose time is over, on a database of its own, whose clock can be moved."""
    clock = ManualClock(time.time())
    settings = Settings(ttl_sweep_seconds=_SWEEP_SECONDS)
    with TemporaryDirectory() as home, connect(":memory:", clock=clock, settings=settings) as db:
        files = open_files(home)
        service = ExcelReports(db, files, clock=clock)
        with closing(service.app):
            service.prepare()
            service.generate("bakery", {"source": [str(data)]})
            service.worker(until_empty=True, concurrency=1).run()
            records = _records(service)
            clock.advance(service.jobs.ttl_seconds + 1)
            removed = service.expired_files.remove()
            # The database deletes the records by their TTL, as DynamoDB does: a moment later.
            until = time.monotonic() + _LONGEST_SWEEP_SECONDS
            while _records(service) and time.monotonic() < until:
                time.sleep(_SWEEP_SECONDS)
            left = _records(service) + sum(1 for _ in files.list())
    return f"{records} records of its job and {removed.files} files removed, {left} left"


def _records(service: ExcelReports) -> int:
    counted: int = service.jobs.db.execute("Scan", {"TableName": service.jobs.table, "Select": "COUNT"})["Count"]
    return counted


def _watch(service: ExcelReports, job_id: str, progress: Callable[[float, str], None]) -> JobWithLogs:
    worker = threading.Thread(target=service.worker(until_empty=True, concurrency=1).run, daemon=True)
    worker.start()
    while worker.is_alive():
        job = service.jobs.get_job(job_id)
        progress(job.progress / 100, job.step_name)
        worker.join(_LOOK_SECONDS)
    progress(1.0, "the report is made")
    return service.read(job_id)
