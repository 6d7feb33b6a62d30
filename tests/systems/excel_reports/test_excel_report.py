"""The report itself: S0.11 to S0.13, a real .xlsx file, made by workers that may die."""

from __future__ import annotations

import io
import os
import random
import signal
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest
import xlsxwriter
from openpyxl import load_workbook
from PIL import Image
from report_killed import CountedProject, service_of
from report_worlds import LAYOUTS, START

from penstock.client.database import Database, connect
from penstock.clock import ManualClock
from penstock.files import open_files
from penstock.files.errors import NotAllowed
from penstock.jobs.model.state import BadTransition
from penstock.systems.excel_reports.book.columns import sheet_columns
from penstock.systems.excel_reports.book.profile import Profile
from penstock.systems.excel_reports.book.sheet import cell_text, looks_like_formula, sheet_name
from penstock.systems.excel_reports.book.workbook import ReportBook, SheetPlan
from penstock.systems.excel_reports.demo import demo, page_setup
from penstock.systems.excel_reports.options import JobOptions, ReportOptions, checked_options
from penstock.systems.excel_reports.records import STEPS, BadReport
from penstock.systems.excel_reports.service import ExcelReports
from penstock.systems.excel_reports.sources.made_up import MadeUpProject, paint
from penstock.systems.excel_reports.sources.source import Row

PROJECT = "mlab_bodwassho_usa_3"
_HERE = Path(__file__).parent


@pytest.fixture
def db() -> Iterator[Database]:
    with connect(":memory:") as found:
        yield found


def new_service(db: Database, folder: Path, **options: Any) -> ExcelReports:
    service = ExcelReports(db, open_files(folder / "files"), **options)
    service.prepare()
    return service


def made(service: ExcelReports, options: dict[str, Any] | None = None) -> Any:
    job = service.generate(PROJECT, options)
    service.worker(until_empty=True, concurrency=1).run()
    return service.read(job.job_id)


def opened(service: ExcelReports, found: Any) -> Any:
    return load_workbook(io.BytesIO(service.files.read(found.job.result["fileKey"])))


# ── from the wish to the file ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("layout", LAYOUTS)
def test_S0_13_a_report_goes_through_its_steps_and_is_a_real_workbook(
    db: Database, tmp_path: Path, layout: Any
) -> None:
    service = new_service(db, tmp_path, layout=layout)
    found = made(service)
    assert (found.job.status, found.job.progress) == ("completed", 100)
    steps = [(log.step_name, log.progress) for log in found.logs]
    assert list(dict.fromkeys(name for name, _ in steps)) == list(STEPS)
    for name, percent in STEPS.items():
        assert (name, percent) in steps
    images = [progress for name, progress in steps if name == "downloading-images"]
    assert (images[0], images[-1], images == sorted(images)) == (50, 80, True)
    book = opened(service, found)
    assert book.sheetnames == ["Summary", "Products", "Users"]
    assert (book["Products"].max_row, book["Users"].max_row) == (202, 62)  # with heading and total


def test_S0_11_the_completion_tells_name_key_url_time_and_statistics(db: Database, tmp_path: Path) -> None:
    service = new_service(db, tmp_path)
    found = made(service)
    facts = found.completion.fields
    assert facts["fileName"].startswith(PROJECT)
    assert facts["fileKey"] == f"{found.job.job_id}/{facts['fileName']}"
    assert Path(facts["downloadUrl"].removeprefix("file://")).is_file()
    assert facts["processingTime"].endswith("s")
    assert (facts["statistics"]["totalProducts"], facts["statistics"]["totalImages"]) == (200, 24)
    assert found.job.result == facts


def test_S0_11_on_s3_the_download_url_is_signed(db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moto = pytest.importorskip("moto", reason="S3 is tested with moto: pip install 'moto[s3]'")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with moto.mock_aws():
        s3 = boto3.client("s3", region_name="us-east-1")
        s3.create_bucket(Bucket="reports")
        service = ExcelReports(db, open_files("s3://reports/excel", client=s3))
        service.prepare()
        found = made(service, {"products": 4, "images": 1})
        assert found.job.status == "completed", found.job.error
        assert "Signature" in found.job.result["downloadUrl"]
        assert opened(service, found)["Products"].max_row == 6


def test_S0_12_unknown_options_are_refused_with_all_errors(db: Database, tmp_path: Path) -> None:
    service = new_service(db, tmp_path)
    with pytest.raises(BadReport) as refused:
        service.generate(PROJECT, {"colour": 1, "products": -1, "users": "many", "byCategory": 1})
    assert len(refused.value.errors) == 4
    assert service.jobs.list_jobs() == []


def test_S0_13_the_same_project_is_made_of_the_same_rows() -> None:
    def rows(id_project: str, **options: Any) -> list[Row]:
        source = MadeUpProject(id_project, ReportOptions(products=30, users=20, **options))
        return [row for dataset in source.datasets() for row in dataset.rows()]

    first = rows(PROJECT)
    random.seed(5)
    assert first == rows(PROJECT)
    assert first != rows(PROJECT, seed=1)
    assert first != rows("another")


# ── the workbook ─────────────────────────────────────────────────────────────────────────────────


def product(**members: Any) -> Row:
    row = next(MadeUpProject(PROJECT, ReportOptions(products=1)).products())
    return {**row, **members}


def book_of(rows: list[Row], folder: Path, *, title: str = PROJECT, by_category: bool = False) -> Any:
    options = ReportOptions(images=0, byCategory=by_category)
    profile = Profile()
    for row in rows:
        profile.add(row)
    book = ReportBook(folder / "book.xlsx", title)
    for sheet in MadeUpProject(PROJECT, options).template.sheets:
        plan = SheetPlan(sheet.name, sheet_columns(sheet, profile), sheet.split, sheet.totals, sheet.charts or ())
        book.add_sheet(plan, rows if sheet.name == "Products" else [])
    book.save()
    return load_workbook(folder / "book.xlsx")


def test_S0_13_sheets_have_formats_a_frozen_heading_a_filter_and_pictures(db: Database, tmp_path: Path) -> None:
    service = new_service(db, tmp_path)
    found = made(service, {"products": 10, "images": 4, "byCategory": True})
    sheet = opened(service, found)["Products"]
    assert (sheet.freeze_panes, sheet.auto_filter.ref) == ("A2", "A1:K11")
    assert [cell.value for cell in sheet[1]][:3] == ["Picture", "Product", "SKU"]
    formats = {heading.value: cell.number_format for heading, cell in zip(sheet[1], sheet[2], strict=True)}
    assert formats["Price (€)"].startswith("#,##0.00")
    assert formats["Stock"].startswith("#,##0;")
    assert formats["Launched"] == "yyyy-mm-dd"
    assert sheet["J2"].is_date
    with zipfile.ZipFile(io.BytesIO(service.files.read(found.job.result["fileKey"]))) as parts:
        pictures = [name for name in parts.namelist() if name.startswith("xl/media/")]
        assert len(pictures) == 4
        assert Image.open(io.BytesIO(parts.read(pictures[0]))).size == (48, 48)
        assert parts.testzip() is None


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", '=HYPERLINK("http://x")', "#REF!"])
def test_S0_13_what_looks_like_a_formula_is_text(tmp_path: Path, text: str) -> None:
    book = book_of([product(name=text, category=text, note="plain")], tmp_path, title=text)
    cell = book["Products"]["C2"]
    assert (cell.value.strip(), cell.data_type) == (text.strip(), "s")
    assert cell.quotePrefix is (text != "#REF!")
    assert not book["Products"]["J2"].quotePrefix
    assert book["Summary"]["A1"].data_type == "s"
    assert not any(cell.data_type == "f" for sheet in book for row in sheet.iter_rows() for cell in row)


def test_S0_13_a_cell_holds_32767_characters_and_no_more(tmp_path: Path) -> None:
    rows = [product(note="x" * 32_767), product(note="x" * 32_768), product(note="🙂" * 20_000)]
    book = book_of(rows, tmp_path)
    texts = [book["Products"][f"J{row}"].value for row in (2, 3, 4)]
    assert texts[0] == "x" * 32_767
    assert (len(texts[1]), texts[1][-1]) == (32_767, "…")
    assert (texts[2][-2:], len(texts[2].encode("utf-16-le")) // 2) == ("🙂…", 32_767)
    summary = {row[0].value: row[1].value for row in book["Summary"].iter_rows(max_col=2)}
    assert summary["Shortened cells"] == 2


def test_S0_13_characters_that_xml_cannot_hold_are_replaced(tmp_path: Path) -> None:
    book = book_of([product(name="a\x00b\x1bc\ud800d")], tmp_path)
    assert book["Products"]["C2"].value == "a�b�c�d"
    assert cell_text("tab\tand\nline") == "tab\tand\nline"


def test_S0_13_sheet_names_keep_to_their_limits(tmp_path: Path) -> None:
    assert sheet_name("a/b:c*d?e[f]g\\h") == "a-b-c-d-e-f-g-h"
    assert sheet_name("'quoted'") == "quoted"
    assert (sheet_name(""), sheet_name("''"), sheet_name("History")) == ("Sheet", "Sheet", "History (2)")
    assert len(sheet_name("x" * 40)) == 31
    assert sheet_name("Users", ["USERS", "users (2)"]) == "Users (3)"
    assert len(sheet_name("y" * 40, [sheet_name("y" * 40)])) == 31
    rows = [product(category=name) for name in ("x" * 40, "x" * 41, "in", "Users", "a/b", "a:b")]
    book = book_of(rows, tmp_path, by_category=True)
    names = [name.casefold() for name in book.sheetnames]
    assert len(names) == len(set(names)) == 9


def test_S0_13_a_report_without_rows_is_a_report(db: Database, tmp_path: Path) -> None:
    service = new_service(db, tmp_path)
    found = made(service, {"products": 0, "users": 0})
    assert opened(service, found)["Products"].max_row == 1


def test_a_picture_is_a_png_of_its_name() -> None:
    assert paint("a") == paint("a") != paint("b")
    assert Image.open(io.BytesIO(paint("a"))).size == (48, 48)
    assert looks_like_formula(" =1")
    assert checked_options(None) == JobOptions()


# ── when something goes wrong ────────────────────────────────────────────────────────────────────


class Broken(MadeUpProject):
    def users(self) -> Iterator[Row]:
        raise NotAllowed("users", "they are not yours", "Ask their owner")


def test_S0_11_a_report_that_cannot_be_made_has_failed_and_says_why(db: Database, tmp_path: Path) -> None:
    service = new_service(db, tmp_path, source=Broken)
    found = made(service)
    assert (found.job.status, found.job.error["category"]) == ("failed", "access_denied")
    assert found.failure.number == len(found.logs)
    assert found.job.progress == STEPS["fetching-users"]


def test_S0_11_a_failed_report_is_tried_again_and_reuses_what_was_made(db: Database, tmp_path: Path) -> None:
    service = new_service(db, tmp_path, source=Broken)
    found = made(service)
    mended = new_service(db, tmp_path, source=partial(CountedProject, tmp_path / "fetched"))
    assert mended.retry(found.job.job_id).status == "pending"
    mended.worker(until_empty=True, concurrency=1).run()
    again = mended.read(found.job.job_id)
    assert (again.job.status, again.job.error) == ("completed", None)
    assert [log.number for log in again.logs] == list(range(1, len(again.logs) + 1))
    assert "products" not in (tmp_path / "fetched").read_text().split()
    with pytest.raises(BadTransition):
        mended.retry(found.job.job_id)


def test_a_report_that_is_cancelled_before_it_began_is_seen_to_have_failed(db: Database, tmp_path: Path) -> None:
    service = new_service(db, tmp_path)
    job = service.generate(PROJECT)
    service.app.cancel(job.job_id, "not needed")
    found = service.read(job.job_id)
    assert (found.job.status, found.job.error["message"]) == ("failed", "It was cancelled: not needed")


def test_a_report_that_kills_its_workers_is_seen_to_have_failed(db: Database, tmp_path: Path) -> None:
    clock = ManualClock(START)
    service = new_service(db, tmp_path, clock=clock)
    job = service.generate(PROJECT)
    service.jobs.update_job_progress(job.job_id, 50, "generating-excel")
    for number in range(5):  # the first crash makes it a suspect; the next three are its own
        assert service.read(job.job_id).job.status == "processing"
        service.app.store.claim(service.app.get(job.job_id), f"worker {number}", 30.0)
        clock.advance(60)
    found = service.read(job.job_id)
    assert (found.job.status, found.job.progress) == ("failed", 50)
    assert "ended or lost 3 workers" in found.job.error["message"]


def test_the_worker_makes_the_record_of_a_wish_whose_asker_died(db: Database, tmp_path: Path) -> None:
    service = new_service(db, tmp_path)
    job = service.generate(PROJECT, {"products": 3})
    db.table(service.jobs.table).delete({"jobId": job.job_id, "recordId": job.record_id})
    service.worker(until_empty=True, concurrency=1).run()
    assert service.read(job.job_id).job.status == "completed"


@pytest.mark.crash
@pytest.mark.parametrize("step", ["fetching-users", "downloading-images", "finalizing", "completed"])
def test_S0_13_a_killed_report_goes_on_with_what_was_made(tmp_path: Path, step: str) -> None:
    path = str(tmp_path / "reports.db")
    with connect(path) as db:
        service = service_of(db, path, "safe")
        service.prepare()
        job = service.generate(PROJECT, {"products": 40, "images": 12})
        command = [sys.executable, _HERE / "report_killed.py", path, "safe", step]
        # Who is killed leaves temporary files: they go with the test's own folder.
        killed = subprocess.run(command, env={**os.environ, "TMPDIR": str(tmp_path)}, timeout=120)
        assert killed.returncode == -signal.SIGKILL
        service.worker(until_empty=True, concurrency=1).run()
        found = service.read(job.job_id)
        assert (found.job.status, found.job.progress) == ("completed", 100)
        assert [log.number for log in found.logs] == list(range(1, len(found.logs) + 1))
        assert len([log for log in found.logs if log.record_type == "completion_log"]) == 1
        assert opened(service, found)["Products"].max_row == 42
        fetched = Counter(Path(f"{path}.fetched").read_text().split())
        assert fetched["products"] == 1
        assert all(times == 1 for name, times in fetched.items() if name.endswith(".png"))


def test_the_demo_shows_all_of_it(db: Database, tmp_path: Path) -> None:
    told: list[float] = []
    facts = demo(db, tmp_path, lambda fraction, text: told.append(fraction))
    assert Path(str(facts["report"])).is_file()
    assert facts["pages of the report"] == "X"
    assert (told[0], told[-1], told == sorted(told)) == (0.0, 1.0, True)


def test_how_a_report_is_printed_is_read_from_its_file(tmp_path: Path) -> None:
    report = tmp_path / "other.xlsx"
    with xlsxwriter.Workbook(report) as book:
        book.add_worksheet("Cover")
        book.add_worksheet("Rows").set_landscape()
    assert page_setup(report) == "1 of 2 sheets landscape, header repeated on 0, 0 charts on the cover"
