"""Making a report, step by step (S0.13), so that a worker which dies can be taken over.

1. What a step has made is a file, and a checkpoint says so: the next attempt reuses it, checked by its hash.
2. The job's records are written under the worker's token: one that was taken over writes nothing more.
3. The job has ended before its work has: an attempt that finds it completed has nothing to do.
"""

from __future__ import annotations

import hashlib
import logging
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import orjson

from penstock.clock import utc_text
from penstock.errors import DynamoDBError, PenstockError, TransportError
from penstock.files import Files
from penstock.files.content import SavedFile
from penstock.files.errors import StoreUnreachable
from penstock.files.file_store import LONGEST_URL_SECONDS
from penstock.jobs.context import JobContext
from penstock.jobs.model.job import JobCancelled, JobNotFound, JobRequeued
from penstock.leases import LeaseLost
from penstock.retry import RetryPolicy
from penstock.systems.excel_reports.book.columns import Column, chart_templates, heading_of, inferred, sheet_columns
from penstock.systems.excel_reports.book.pictures import Picture, fitted, stored
from penstock.systems.excel_reports.book.profile import Profile
from penstock.systems.excel_reports.book.row_order import sorted_rows
from penstock.systems.excel_reports.book.template import SheetTemplate, Template
from penstock.systems.excel_reports.book.totals import Statistics, pictures_note
from penstock.systems.excel_reports.book.workbook import ReportBook, SheetPlan
from penstock.systems.excel_reports.expired_files import ExpiredFiles
from penstock.systems.excel_reports.options import JobOptions, checked_options
from penstock.systems.excel_reports.records import IMAGES_END, STEPS, BadReport, JobExists, ReportJob
from penstock.systems.excel_reports.sources.errors import SourceError, SourceMissing, SourceUnreachable
from penstock.systems.excel_reports.sources.source import MOST_COLUMNS, Dataset, Row, Source, parse_source
from penstock.systems.excel_reports.store import ReportJobs

_LOG = logging.getLogger("penstock.excel_reports")

RETRIES: Final = RetryPolicy(
    3, on=(TransportError, DynamoDBError, StoreUnreachable, SourceUnreachable, ConnectionError, TimeoutError)
)
"""What may pass is tried again; a report that cannot be made fails at once."""
_FETCHED_PERCENT: Final = 45
"""Before the workbook is begun. With two datasets, the second is fetched at 35."""
_BATCHES: Final = 6
"""Images are told of so often."""


OpenSource = Callable[[str, JobOptions], Source]
"""The source of a project's report. If it has a `template`, its sheets look like that."""


class ReportMaker:
    """Makes reports of a source's projects; `jobs` is where it tells how far it is."""

    def __init__(self, jobs: ReportJobs, files: Files, open_source: OpenSource, expired: ExpiredFiles) -> None:
        self._jobs = jobs
        self._files = files
        self._open_source = open_source
        self._expired = expired

    def make(self, ctx: JobContext, id_project: str, options: dict[str, Any]) -> dict[str, Any]:
        """The task: the facts of the finished report. What it raises is in the job's records, too."""
        try:
            job = self._begin(ctx, id_project, options)
            if job.status == "completed":
                return dict(job.result or {})
            self._expired.register(ctx.id)
            found = _Making(ctx, self._jobs, self._files, self._open_source, job).report()
            self._expired.remove_if_due()
            return found
        except (LeaseLost, JobRequeued):
            raise  # another worker goes on
        except JobCancelled as cancelled:
            self._fail(ctx, cancelled)
            raise
        except Exception as error:
            if not RETRIES.allows(error, ctx.job.failures):
                self._fail(ctx, error)
            raise

    def _fail(self, ctx: JobContext, error: Exception) -> None:
        """The reason itself is what the worker must hear of, whether or not it can be stored here."""
        try:
            self._jobs.fail_job(ctx.id, error, token=ctx.job.token)
        except PenstockError as trouble:
            _LOG.warning("%s: its failure could not be stored: %s", ctx.id, trouble)

    def _begin(self, ctx: JobContext, id_project: str, options: dict[str, Any]) -> ReportJob:
        """The job, being processed. Whoever enqueued it may have died before its record was made."""
        try:
            job = self._jobs.get_job(ctx.id)
        except JobNotFound:
            job = create_or_get(self._jobs, ctx.id, id_project, options)
        if job.status == "completed":
            return job
        if job.status == "failed":
            self._jobs.update_job_status(ctx.id, "pending", token=ctx.job.token)
        return self._jobs.update_job_status(ctx.id, "processing", token=ctx.job.token)


def create_or_get(jobs: ReportJobs, job_id: str, id_project: str, options: dict[str, Any]) -> ReportJob:
    """The job's record, made by this call or by another that was quicker."""
    try:
        return jobs.create_job(id_project, options, job_id=job_id)
    except JobExists:
        return jobs.get_job(job_id)


@dataclass(frozen=True, slots=True)
class _Fetched:
    """A dataset's rows, and what is in them."""

    name: str
    file: SavedFile
    profile: Profile
    header: tuple[str, ...] = ()
    """Of a list without rows."""


@dataclass(frozen=True, slots=True)
class _Planned:
    """A sheet that is to be written."""

    plan: SheetPlan
    rows: _Fetched
    sort: tuple[str, ...]


@dataclass(slots=True)
class _Pictures:
    """By their names, as cells have them."""

    fitted: dict[str, Picture] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """Why."""
    shown: int = 0


class _Making:
    """One attempt at one report."""

    def __init__(
        self, ctx: JobContext, jobs: ReportJobs, files: Files, open_source: OpenSource, job: ReportJob
    ) -> None:
        self._ctx = ctx
        self._jobs = jobs
        self._files = files
        self._job = job
        self._options: JobOptions = checked_options(job.options)
        self._source = open_source(job.id_project, self._options)
        own = getattr(self._source, "template", None)
        self._template: Template = self._options.template if own is None else own

    def report(self) -> dict[str, Any]:
        self._report_step("starting")
        self._report_step("initializing", attempt=self._ctx.attempt)
        fetched = self._fetch()
        saved, statistics = self._workbook(fetched)
        self._report_step("finalizing", fileSize=saved.size)
        return self._complete(saved, statistics)

    # ── fetching ─────────────────────────────────────────────────────────────────────────────────

    def _fetch(self) -> list[_Fetched]:
        """The rows of every dataset that has a sheet, as files. Those of an earlier attempt are not fetched again."""
        names: list[str] | None = self._ctx.resume("datasets")
        datasets: dict[str, Dataset] = {}
        if names is None or any(self._ctx.resume(_rows_name(place)) is None for place in range(len(names))):
            datasets = {one.name: one for one in self._chosen(self._source.datasets())}
            if names is None:
                names = list(datasets)
                self._ctx.checkpoint("datasets", names)
        found = []
        for place, name in enumerate(names):
            first = STEPS["fetching-products"]
            part = (_FETCHED_PERCENT - first) * place / len(names)
            self._report_step(f"fetching-{name}"[:_STEP_CHARACTERS], round(first + part, 1))
            made = self._ctx.step(_rows_name(place), partial(self._save_rows, place, name, datasets))
            profile = Profile.of_form(made["profile"])
            found.append(_Fetched(name, SavedFile.parse(made["file"]), profile, tuple(made.get("header", ()))))
        return found

    def _chosen(self, datasets: Sequence[Dataset]) -> list[Dataset]:
        """Those that the template has a sheet for; without one, all of them."""
        if not self._template.sheets:
            return list(datasets)
        by_name = {one.name.casefold(): one for one in datasets}
        wanted = dict.fromkeys(sheet.source.casefold() for sheet in self._template.sheets)
        missing = [sheet.source for sheet in self._template.sheets if sheet.source.casefold() not in by_name]
        if missing:
            there = ", ".join(one.name for one in datasets) or "none"
            raise BadReport([f"template: there is no dataset {name!r}; the source has {there}" for name in missing])
        return [by_name[name] for name in wanted]

    def _save_rows(self, place: int, name: str, datasets: Mapping[str, Dataset]) -> dict[str, Any]:
        if name not in datasets:
            raise SourceMissing(f"{name} was in the source when the report was begun, and is gone")
        profile = Profile()
        rows = self._watched(profile.counted(datasets[name].rows()), name)
        saved = self._files.save(self._key(_rows_name(place)), _lines(rows))
        header = [] if profile.rows else list(datasets[name].header())
        return {"file": saved.form(), "profile": profile.form(), "header": header}

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def _workbook(self, fetched: list[_Fetched]) -> tuple[SavedFile, dict[str, Any]]:
        found = self._ctx.resume("report")
        if found is not None:
            return SavedFile.parse(found["file"]), found["statistics"]
        self._report_step("generating-excel")
        planned = self._plans(fetched)
        with tempfile.TemporaryDirectory(prefix="penstock-report-") as folder:
            path = Path(folder) / "report.xlsx"
            statistics = self._write_workbook(path, planned).form()
            self._report_step("uploading", fileSize=path.stat().st_size)
            with path.open("rb") as stream:
                saved = self._files.save(self._key(self._file_name()), stream)
        self._ctx.checkpoint("report", {"file": saved.form(), "statistics": statistics})
        return saved, statistics

    def _plans(self, fetched: list[_Fetched]) -> list[_Planned]:
        by_name = {one.name.casefold(): one for one in fetched}
        sheets = self._template.sheets or tuple(
            SheetTemplate(name=heading_of(one.name)[:200] or "Sheet", dataset=one.name) for one in fetched
        )
        planned = []
        for sheet in sheets:
            rows = by_name[sheet.source.casefold()]
            columns = sheet_columns(sheet, rows.profile, self._template.currency)
            columns = columns or tuple(Column(name, heading_of(name)) for name in rows.header)
            columns = columns or (Column("", "(no columns)"),)
            charts = sheet.charts if sheet.charts is not None else chart_templates(columns, rows.profile)
            there = {column.field for column in columns}
            wanted = dict.fromkeys(field for chart in charts for field in (chart.by, chart.value))
            beside = [inferred(one, rows.profile.columns[one]) for one in wanted if one in rows.profile.columns]
            others = tuple(column for column in beside if column.field not in there)
            plan = SheetPlan(sheet.name, columns, self._split(sheet, rows.profile), sheet.totals, charts, others)
            planned.append(_Planned(plan, rows, sheet.sort))
        return planned

    def _split(self, sheet: SheetTemplate, profile: Profile) -> str:
        if sheet.split or not self._options.by_category:
            return sheet.split
        return next((name for name in profile.columns if name.casefold() == "category"), "")

    def _write_workbook(self, path: Path, planned: list[_Planned]) -> Statistics:
        pictures = self._pictures(planned)
        title = self._options.title or self._template.title or self._job.id_project
        book = ReportBook(path, title, subtitle=self._subtitle(), made_at=self._job.created_at)
        for one in planned:
            book.add_sheet(one.plan, self._sorted(one), pictures.fitted, self._options.images)
            shows = any(column.kind == "picture" for column in one.plan.columns)
            if shows and self._options.source and one.rows.profile.rows > self._options.images:
                book.note(f"{one.plan.name}: only the first {self._options.images:,} rows show their pictures.")
            if one.rows.profile.left_out:
                book.note(f"{one.plan.name}: columns beyond the first {MOST_COLUMNS} are left out.")
        book.statistics.images = pictures.shown
        book.statistics.missing_images = len(pictures.missing)
        if pictures.missing:
            book.note(pictures_note(pictures.missing, len(pictures.fitted) + len(pictures.missing)))
        return book.save()

    def _subtitle(self) -> str:
        made = f"{self._job.id_project}  ·  {utc_text(self._job.created_at)[:16].replace('T', ' ')} UTC"
        sources = ", ".join(parse_source(text).shown for text in self._options.source)
        return f"{made}  ·  {sources}" if sources else made

    def _sorted(self, one: _Planned) -> Iterator[Row]:
        rows = self._rows(one.rows.file)
        if not one.sort:
            return rows
        columns = {column.field: column for column in one.plan.columns}

        def value_of(row: Row, field: str) -> Any:
            column = columns.get(field)
            return row.get(field) if column is None else column.value(row.get(field))

        return sorted_rows(rows, one.sort, value_of)

    # ── pictures ─────────────────────────────────────────────────────────────────────────────────

    def _pictures(self, planned: list[_Planned]) -> _Pictures:
        """The pictures of the first rows of each sheet; each is fetched once, whatever the number of attempts."""
        found = _Pictures()
        cells = [name for one in planned for name in self._picture_names(one)]
        names = list(dict.fromkeys(cells))
        self._report_step("downloading-images", images=len(cells))
        first, batch = STEPS["downloading-images"], max(1, -(-len(names) // _BATCHES))
        for done, name in enumerate(names, start=1):
            try:
                found.fitted[name] = self._picture(name)
            except SourceError as error:
                found.missing[name] = str(error).removeprefix(name).lstrip(": ")
            if done % batch == 0 or done == len(names):
                progress = first + (IMAGES_END - first) * done / len(names)
                self._report_step("downloading-images", round(progress, 1), downloaded=len(found.fitted))
        found.shown = sum(name in found.fitted for name in cells)
        return found

    def _picture_names(self, one: _Planned) -> Iterator[str]:
        fields = [column.field for column in one.plan.columns if column.kind == "picture"]
        if not fields or not self._options.images:
            return
        for row in islice(self._sorted(one), self._options.images):
            yield from (str(row[field]) for field in fields if row.get(field))

    def _picture(self, name: str) -> Picture:
        key = self._key(f"images/{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:32]}")
        if self._files.exists(key):
            return stored(self._files.read(key))
        picture = fitted(self._fetched_picture(name))
        self._files.save(key, picture.data)
        return picture

    def _fetched_picture(self, name: str) -> bytes:
        """A host that does not answer is asked again once: the report is not made anew for a picture."""
        try:
            return self._source.picture(name)
        except SourceUnreachable:
            return self._source.picture(name)

    def _complete(self, saved: SavedFile, statistics: dict[str, Any]) -> dict[str, Any]:
        seconds = int(min(self._jobs.ttl_seconds, LONGEST_URL_SECONDS))
        job = self._jobs.complete_job(
            self._ctx.id,
            file_name=saved.key.rpartition("/")[2],
            file_key=saved.key,
            download_url=self._files.url(saved.key, seconds=max(1, seconds)),
            statistics={**statistics, "fileSize": saved.size},
            token=self._ctx.job.token,
        )
        return dict(job.result or {})

    # ── what the steps share ─────────────────────────────────────────────────────────────────────

    def _report_step(self, step: str, progress: float | None = None, **fields: Any) -> None:
        """Progress, in the job's records; and a look whether this attempt should stop."""
        percent = STEPS[step] if progress is None else progress
        self._ctx.progress(percent, step)  # first: it raises where another worker has the job
        self._jobs.update_job_progress(self._ctx.id, percent, step, token=self._ctx.job.token, **fields)

    def _rows(self, file: SavedFile) -> Iterator[Row]:
        with self._files.open(file.key, expect=file) as stream:
            yield from self._watched((orjson.loads(line) for line in stream), file.key)

    def _watched(self, rows: Iterable[Row], what: str) -> Iterator[Row]:
        for number, row in enumerate(rows, start=1):
            if number % _ROWS_BETWEEN_LOOKS == 0:
                self._ctx.log(f"{what}: {number:,} rows")  # raises where this attempt should stop
            yield row

    def _key(self, name: str) -> str:
        return f"{self._ctx.id}/{name}"

    def _file_name(self) -> str:
        project = re.sub(r"[^\w.-]+", "_", self._job.id_project).strip("._")[:_NAME_CHARACTERS]
        return f"{project or 'report'}_{utc_text(self._job.created_at)[:10]}.xlsx"


_NAME_CHARACTERS: Final = 100
_STEP_CHARACTERS: Final = 100
_ROWS_BETWEEN_LOOKS: Final = 5_000
"""Of a large report: a few seconds' work."""


def _lines(rows: Iterable[Row]) -> Iterator[bytes]:
    return (orjson.dumps(row, default=str, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


def _rows_name(place: int) -> str:
    """Of a dataset's file and checkpoint: its own name may be anything."""
    return f"rows-{place + 1}.jsonl"
