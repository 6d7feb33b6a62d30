"""What the commands of `penstock excel` share: where the jobs and the files are, and how a job is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from penstock.cli.kit import databases
from penstock.cli.kit.databases import Absent
from penstock.cli.kit.exit_codes import NOT_FOUND, WORK_FAILED, CommandFailed
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.files import Files, open_files
from penstock.jobs.app import FILES_VARIABLE
from penstock.jobs.model.job import JobNotFound
from penstock.systems.excel_reports.records import BadReport, Log, ReportJob
from penstock.systems.excel_reports.service import ExcelReports
from penstock.systems.excel_reports.settings import (
    DEFAULT_TTL_HOURS,
    TABLE_VARIABLE,
    TTL_VARIABLE,
    Settings,
    checked_hours,
)
from penstock.systems.excel_reports.tables import JOBS
from penstock.systems.layouts import Layout

job_argument = click.argument("job_id", metavar="JOB")


@dataclass(frozen=True, slots=True)
class Place:
    """Where reports are: --db, --files, --table, --layout, --ttl-hours."""

    url: str
    files: str | None
    layout: Layout
    settings: Settings

    @contextmanager
    def opened(self, absent: Absent = "refused") -> Iterator[ExcelReports]:
        """What is not found, or cannot be, ends with its own exit code."""
        with databases.open_database(self.url, absent, maker="penstock excel generate") as db:
            service = ExcelReports(db, self._home(), layout=self.layout, settings=self.settings)
            try:
                if absent == "made":
                    service.prepare()
                yield service
            except ResourceNotFoundException as error:
                raise PenstockError(
                    f"{self.url} has no table {self.settings.table}: no report has been asked for yet, or the jobs are "
                    f"in another one (--table, {TABLE_VARIABLE})."
                ) from error
            except JobNotFound as error:
                raise CommandFailed(NOT_FOUND, str(error)) from error
            except BadReport as error:
                raise click.UsageError("\n".join(error.errors)) from error
            finally:
                service.app.close()

    def _home(self) -> Files:
        if self.files is not None:
            return open_files(self.files)
        if "://" in self.url:
            raise click.UsageError("Where do the reports go? Give --files FOLDER or --files s3://bucket/prefix.")
        return open_files(f"{self.url}.files")


def place_options(command: Callable[..., None]) -> Callable[..., None]:
    """--db, --files, --table, --layout and --ttl-hours, given as one `place`."""

    @wraps(command)
    def placed(
        *args: Any, url: str, files: str | None, table: str, layout: Layout, ttl_hours: float, **options: Any
    ) -> None:
        try:
            settings = Settings(table, checked_hours(ttl_hours))
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        command(*args, place=Place(url, files, layout, settings), **options)

    for option in reversed(_OPTIONS):
        placed = option(placed)
    return placed


_OPTIONS = (
    click.option(
        "--url",
        "--db",
        required=True,
        envvar="PENSTOCK_URL",
        metavar="URL",
        help="Where the jobs live: a file, http://127.0.0.1:8000, or aws://eu-west-2. Also PENSTOCK_URL.",
    ),
    click.option(
        "--files",
        envvar=FILES_VARIABLE,
        metavar="HOME",
        help=f"Where the reports go: a folder, or s3://bucket/prefix. Also {FILES_VARIABLE}.  [default: FILE.files]",
    ),
    click.option(
        "--table",
        default=JOBS,
        show_default=True,
        envvar=TABLE_VARIABLE,
        metavar="NAME",
        help=f"Their table. Also {TABLE_VARIABLE}.",
    ),
    click.option(
        "--layout",
        type=click.Choice(["safe", "compat"]),
        default="safe",
        show_default=True,
        help="The table's key: jobId and recordId, or recordId alone.",
    ),
    click.option(
        "--ttl-hours",
        type=float,
        default=DEFAULT_TTL_HOURS,
        show_default=True,
        envvar=TTL_VARIABLE,
        help=f"How long a job is kept. Also {TTL_VARIABLE}.",
    ),
)


def job_line(job: ReportJob) -> str:
    return f"{job.job_id}  {job.status:<10}  {job.progress:>5g} %  {job.step_name:<18}  {job.id_project}"


def log_line(log: Log) -> str:
    """`  12   80 %  downloading-images  downloaded=24`."""
    shown = {name: value for name, value in log.fields.items() if not isinstance(value, dict | list)}
    facts = "  ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in shown.items()
    )
    return f"{log.number:>4}  {log.progress:>5g} %  {log.step_name:<18}  {facts}".rstrip()


def end_with(job: ReportJob) -> None:
    """Exit code 3 for a report that has failed."""
    if job.status == "failed":
        raise click.exceptions.Exit(WORK_FAILED)
