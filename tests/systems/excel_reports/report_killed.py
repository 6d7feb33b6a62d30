"""A worker that kills itself when a step is reached: `report_killed.py DB LAYOUT STEP`; counts what it fetches.

Each fetch of products, users or a picture is a line in DB.fetched.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from penstock.client.database import connect
from penstock.files import open_files
from penstock.systems.excel_reports.options import ReportOptions
from penstock.systems.excel_reports.service import ExcelReports
from penstock.systems.excel_reports.sources.made_up import MadeUpProject
from penstock.systems.excel_reports.sources.source import Row
from penstock.systems.excel_reports.store import ReportJobs

LEASE_SECONDS = 1.0
"""Of the one that is killed: so long the next one waits."""


class CountedProject(MadeUpProject):
    def __init__(self, path: Path, id_project: str, options: ReportOptions) -> None:
        super().__init__(id_project, options)
        self._path = path

    def _note(self, what: str) -> None:
        with self._path.open("a") as file:
            file.write(f"{what}\n")

    def products(self) -> Iterator[Row]:
        self._note("products")
        return super().products()

    def users(self) -> Iterator[Row]:
        self._note("users")
        return super().users()

    def picture(self, name: str) -> bytes:
        self._note(name)
        return super().picture(name)


def service_of(db: Any, path: str, layout: str, lease_seconds: float = 60.0) -> ExcelReports:
    source = partial(CountedProject, Path(f"{path}.fetched"))
    chosen: Any = layout
    return ExcelReports(db, open_files(f"{path}.files"), layout=chosen, source=source, lease_seconds=lease_seconds)


def main(path: str, layout: str, step: str) -> None:
    kept = ReportJobs.update_job_progress

    def deadly(self: ReportJobs, job_id: str, progress: float, step_name: str, **fields: Any) -> Any:
        told = kept(self, job_id, progress, step_name, **fields)
        if step_name == step and fields.get("downloaded", 1):
            os.kill(os.getpid(), signal.SIGKILL)
        return told

    ReportJobs.update_job_progress = deadly  # type: ignore[method-assign]
    if step == "completed":
        ended = ReportJobs.complete_job

        def complete(self: ReportJobs, *args: Any, **facts: Any) -> Any:
            ended(self, *args, **facts)
            os.kill(os.getpid(), signal.SIGKILL)

        ReportJobs.complete_job = complete  # type: ignore[method-assign]
    with connect(path) as db:
        service_of(db, path, layout, LEASE_SECONDS).worker(until_empty=True, concurrency=1).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
