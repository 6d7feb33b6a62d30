"""Reports of data that did not come with the package: folders, URLs, tables and Python, in other people's styles."""

from __future__ import annotations

import io
import json
import threading
import zipfile
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook
from PIL import Image

from penstock.client.database import Database, connect
from penstock.files import open_files
from penstock.systems.excel_reports.book.template import read_template
from penstock.systems.excel_reports.records import BadReport
from penstock.systems.excel_reports.report import RETRIES
from penstock.systems.excel_reports.service import ExcelReports
from penstock.systems.excel_reports.sources.download import download
from penstock.systems.excel_reports.sources.errors import (
    BadData,
    SourceError,
    SourceMissing,
    SourceRefused,
    SourceUnreachable,
)
from penstock.systems.excel_reports.sources.places import open_sources
from penstock.systems.excel_reports.sources.source import shown_url
from penstock.systems.excel_reports.transitions import category_of

pytestmark = pytest.mark.filterwarnings("ignore:.*extension is not supported")

BAKERY = """Artikel-Nr;Bezeichnung;Warengruppe;Preis;Bestand;Geliefert;Aktiv;Bild;Bemerkung
00017;Roggenbrot;Brot;3,80 €;12;03.11.2026;ja;brot.jpg;=cmd|' /C calc'!A0
00018;Brezel;Gebäck;0,95 €;240;17.11.2026;ja;brezel.png;-10 % ab 18 Uhr
00019;Käsekuchen;Kuchen;;3;12.10.2026;nein;fehlt.jpg;@Filiale 2
"""


@pytest.fixture
def db() -> Iterator[Database]:
    with connect(":memory:") as found:
        yield found


def picture(kind: str, size: tuple[int, int]) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, "#7a4b1e").save(file, kind)
    return file.getvalue()


@pytest.fixture
def bakery(tmp_path: Path) -> Path:
    folder = tmp_path / "bakery"
    (folder / "photos").mkdir(parents=True)
    (folder / "artikel.csv").write_bytes(BAKERY.encode("cp1252"))
    (folder / "photos" / "brot.jpg").write_bytes(picture("JPEG", (1600, 900)))
    (folder / "photos" / "brezel.png").write_bytes(picture("PNG", (30, 90)))
    (tmp_path / "secret.png").write_bytes(picture("PNG", (10, 10)))
    return folder


def made(db: Database, folder: Path, *sources: str, **options: Any) -> Any:
    """The job's record, and its workbook if it has one."""
    service = ExcelReports(db, open_files(folder / "files"), sources=sources, **options)
    service.prepare()
    job = service.generate("march")
    service.worker(until_empty=True, concurrency=1).run()
    found = service.read(job.job_id).job
    if found.result is None:
        return found, None
    return found, load_workbook(io.BytesIO(service.files.read(found.result["fileKey"])))


def cells(sheet: Any, row: int) -> dict[str, Any]:
    return {str(head.value): cell.value for head, cell in zip(sheet[1], sheet[row], strict=True)}


# ── a folder ─────────────────────────────────────────────────────────────────────────────────────


def test_three_products_with_a_missing_picture_and_no_price_are_a_report_with_notes(
    db: Database, tmp_path: Path, bakery: Path
) -> None:
    (bakery / "sales.json").write_text(
        json.dumps([{"at": "2026-11-03T08:15:00Z", "total": None}, {"at": "2026-11-04T09:00:00+01:00", "total": 3}])
    )
    job, book = made(db, tmp_path, str(bakery))
    assert job.status == "completed", job.error
    assert book.sheetnames == ["Summary", "Artikel", "Sales"]
    first = cells(book["Artikel"], 2)
    assert (first["Artikel-Nr"], first["Bezeichnung"], first["Preis"]) == ("00017", "Roggenbrot", 3.8)
    assert (first["Bestand"], first["Geliefert"], first["Aktiv"]) == (12, datetime(2026, 11, 3), "yes")
    assert first["Bemerkung"] == "=cmd|' /C calc'!A0"
    assert not any(cell.data_type == "f" for sheet in book for row in sheet.iter_rows() for cell in row)
    assert cells(book["Artikel"], 4)["Preis"] is None
    assert (cells(book["Artikel"], 5)["Bestand"], cells(book["Artikel"], 5)["Preis"]) == (255, pytest.approx(2.375))
    assert [cells(book["Sales"], row)["At (UTC)"].hour for row in (2, 3)] == [8, 8]
    statistics = job.result["statistics"]
    assert (statistics["totalArtikel"], statistics["totalImages"], statistics["missingImages"]) == (3, 2, 1)
    notes = " ".join(statistics["notes"])
    assert "1 of 3 pictures is missing: fehlt.jpg" in notes
    assert "Preis: 1 cell is empty" in notes
    assert "Total: 1 cell is empty" in notes
    assert [one.value for one in book["Summary"]["A"] if one.value and "missing: fehlt.jpg" in str(one.value)]


def test_a_not_a_number_is_an_empty_cell_of_its_column(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So data frames write what is missing: a column with it was text, without format and total."""
    (tmp_path / "frame_rows.py").write_text(
        "def rows():\n"
        "    for sku, price in (('A1', 129.9), ('A2', float('nan')), ('A3', 9.5)):\n"
        "        yield {'sku': sku, 'price': price}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    _, book = made(db, tmp_path, "frame_rows:rows")
    sheet = book["Rows"]
    assert [cells(sheet, row)["Price"] for row in (2, 3, 4)] == [129.9, None, 9.5]
    assert "0.00" in sheet["B2"].number_format
    assert cells(sheet, 5)["Price"] == pytest.approx(69.7)


def test_rows_are_as_high_as_their_longest_text(db: Database, tmp_path: Path) -> None:
    """LibreOffice does not fit a row to its text by itself: the lines lay over the rows above and below."""
    (tmp_path / "texts.csv").write_text(
        f"id,remark\n1,short\n2,{'word ' * 40}\n3,{'很长的说明' * 20}\n4,{'x' * 30000}\n"
    )
    _, book = made(db, tmp_path, str(tmp_path / "texts.csv"))
    heights = [book["Texts"].row_dimensions[row].height for row in (2, 3, 4, 5)]
    assert heights[0] is None
    assert [round(height / 13) for height in heights[1:]] == [4, 4, 20]


def test_pictures_are_fitted_and_never_stretched(db: Database, tmp_path: Path, bakery: Path) -> None:
    _, book = made(db, tmp_path, str(bakery))
    sizes = []
    for image in book["Artikel"]._images:
        extent = image.anchor.to
        width = (extent.col - image.anchor._from.col) * 82 * 9525 + extent.colOff - image.anchor._from.colOff
        height = (extent.row - image.anchor._from.row) * 72 * 9525 + extent.rowOff - image.anchor._from.rowOff
        sizes.append((round(width / 9525), round(height / 9525)))
    assert sizes == [(64, 36), (21, 64)]


def test_a_picture_outside_the_folder_is_not_read(db: Database, bakery: Path) -> None:
    source = open_sources([str(bakery)], "p", db)
    (bakery / "link.png").symlink_to(bakery.parent / "secret.png")
    for name in ("../secret.png", str(bakery.parent / "secret.png"), "link.png", "a\0b.png", "x" * 5000):
        with pytest.raises(SourceMissing):
            source.picture(name)
    with pytest.raises(SourceRefused, match="picture_hosts"):
        source.picture("http://127.0.0.1/x.png?key=secret")


def test_a_template_says_sheets_columns_order_formats_and_totals(db: Database, tmp_path: Path, bakery: Path) -> None:
    (tmp_path / "report.toml").write_text(
        """
title = "Stock"
currency = "€"
[[sheets]]
name = "Stock list"
dataset = "artikel"
sort = ["-Bestand"]
split = "Warengruppe"
charts = [{ by = "Warengruppe", value = "Bestand", kind = "pie" }]
columns = [
  { field = "Bezeichnung", heading = "What" },
  { field = "Bestand", format = "0.0", total = "max", below = 10 },
  { field = "Preis", format = "money", total = "none" },
  { field = "Farbe" },
]
"""
    )
    job, book = made(db, tmp_path, str(bakery), template=read_template(tmp_path / "report.toml"))
    assert book.sheetnames == ["Summary", "Stock list", "in Gebäck", "in Brot", "in Kuchen"]
    sheet = book["Stock list"]
    assert [one.value for one in sheet[1]] == ["What", "Bestand", "Preis", "Farbe"]
    assert [one.value for one in sheet["A"][1:]] == ["Brezel", "Roggenbrot", "Käsekuchen", "Total"]
    assert (sheet["B2"].number_format, sheet["B5"].value) == ("0.0", 240)
    assert "€" in sheet["C2"].number_format
    assert "no row has a Farbe" in " ".join(job.result["statistics"]["notes"])
    assert book["Summary"]["A1"].value == "Stock"
    assert len(book["Summary"]._charts) == 1


def test_a_template_has_all_of_its_errors_at_once(tmp_path: Path) -> None:
    path = tmp_path / "report.toml"
    path.write_text('colour = "red"\n[[sheets]]\nname = "A"\n[[sheets.columns]]\nfield = "x"\ntotal = "most"\n')
    with pytest.raises(BadReport) as refused:
        read_template(path)
    assert len(refused.value.errors) == 2
    assert "total is one of" in str(refused.value)
    path.write_text("= no")
    with pytest.raises(BadReport, match="no TOML"):
        read_template(path)


def test_a_sheet_of_a_dataset_that_there_is_not_names_those_there_are(
    db: Database, tmp_path: Path, bakery: Path
) -> None:
    (tmp_path / "report.toml").write_text('[[sheets]]\nname = "Orders"\n')
    job, _ = made(db, tmp_path, str(bakery), template=read_template(tmp_path / "report.toml"))
    assert (job.status, job.error["category"]) == ("failed", "validation")
    assert "the source has artikel" in job.error["message"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nowhere/", "no such folder"),
        ("ftp://example.org/x", "no http"),
        ("https://ada:secret@example.org/x", "PENSTOCK_SOURCE_TOKEN"),
        ("table:Nope", "no table Nope"),
        ("no_such_module:rows", "no module no_such_module"),
        ("os:no_such_function", "no function"),
    ],
)
def test_a_source_that_cannot_be_is_refused_and_leaves_no_job(
    db: Database, tmp_path: Path, text: str, words: str
) -> None:
    service = ExcelReports(db, open_files(tmp_path / "files"), sources=[text])
    service.prepare()
    with pytest.raises(BadReport, match=words) as refused:
        service.generate("p")
    assert "secret" not in str(refused.value)
    assert service.jobs.list_jobs() == []
    assert not [item for table in db.tables() for item in db.table(table).scan()]


def test_a_project_is_one_part_of_the_path(db: Database, tmp_path: Path, bakery: Path) -> None:
    service = ExcelReports(db, open_files(tmp_path / "files"), sources=[str(tmp_path / "{project}")])
    service.prepare()
    assert service.generate("bakery").status == "pending"
    for name in ("../bakery", "..", "a/b"):
        with pytest.raises(BadReport, match="no part of a path"):
            service.generate(name)


# ── a table, and Python ──────────────────────────────────────────────────────────────────────────


def test_a_dynamodb_table_is_a_sheet(db: Database, tmp_path: Path) -> None:
    db.execute(
        "CreateTable",
        {
            "TableName": "Products",
            "KeySchema": [{"AttributeName": "sku", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "sku", "AttributeType": "S"}],
            "BillingMode": "PAY_PER_REQUEST",
        },
    )
    db.table("Products").put({"sku": "A-1", "price": Decimal("2.50"), "tags": {"new", "red"}, "size": {"cm": 3}})
    _, book = made(db, tmp_path, "table:Products")
    assert cells(book["Products"], 2) == {"Sku": "A-1", "Price": 2.5, "Tags": "new, red", "Size cm": 3}


def test_a_python_function_gives_rows(db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_report_rows.py").write_text(
        """
from datetime import date, datetime, timezone
from decimal import Decimal

def orders(project):
    yield {"order": "a", "at": datetime(2026, 3, 1, 12, tzinfo=timezone.utc), "total": Decimal("12.5"), "by": project}
    yield {"order": "b", "at": datetime(2026, 3, 2, 12), "total": None, "by": project}
"""
    )
    _, book = made(db, tmp_path, "own_report_rows:orders")
    assert cells(book["Orders"], 2)["By"] == "march"
    assert [one.value for one in book["Orders"]["B"][1:3]] == [datetime(2026, 3, 1, 12), datetime(2026, 3, 2, 12)]


def test_a_function_that_this_process_was_not_given_is_not_called(db: Database, tmp_path: Path) -> None:
    service = ExcelReports(db, open_files(tmp_path / "files"))
    service.prepare()
    with pytest.raises(BadReport, match="--source os:system"):
        service.generate("true", {"source": ["os:system"]})


def test_errors_of_a_function_have_their_category_and_connections_are_retried(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_report_errors.py").write_text(
        """
def key():
    raise KeyError("price")
def denied():
    raise PermissionError("no")
def down():
    try:
        raise ConnectionRefusedError("no")
    except OSError as error:
        raise RuntimeError("a library's own") from error
def number():
    return 5
"""
    )

    def error_of(name: str) -> SourceError:
        place = f"own_report_errors:{name}"
        with pytest.raises(SourceError) as raised:
            for dataset in open_sources([place], "p", db, allowed=[place]).datasets():
                list(dataset.rows())
        return raised.value

    assert (category_of(error_of("key")), "KeyError: 'price'" in str(error_of("key"))) == ("unknown", True)
    assert category_of(error_of("denied")) == "access_denied"
    assert (category_of(error_of("number")), category_of(error_of("down"))) == ("data_format", "timeout")
    assert [RETRIES.covers(error_of(name)) for name in ("key", "denied", "number", "down")] == [False] * 3 + [True]


# ── a URL ────────────────────────────────────────────────────────────────────────────────────────


class Pages(BaseHTTPRequestHandler):
    asked: list[tuple[str, str | None]]
    failures = 0

    def do_GET(self) -> None:
        Pages.asked.append((self.path, self.headers.get("Authorization")))
        port = self.server.server_address[1]
        if self.path.startswith("/orders") and Pages.failures:
            Pages.failures -= 1
            self.close_connection = True
            return  # the connection ends without an answer
        answers: dict[str, tuple[int, bytes]] = {
            "/orders.json": (200, json.dumps({"items": [{"sku": "x", "image": "/x.jpg", "n": 1}]}).encode()),
            "/x.jpg": (200, picture("JPEG", (40, 40))),
            "/bad": (200, b"<html>"),
            "/denied": (403, b""),
            "/busy": (503, b""),
            "/large": (200, b" " * 200_000),
        }
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{port}/orders.json")
            self.end_headers()
            return
        status, body = answers.get(self.path.partition("?")[0], (404, b""))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def web() -> Iterator[str]:
    Pages.asked, Pages.failures = [], 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_url_that_gives_json_is_a_sheet_with_its_pictures_and_is_asked_again(
    db: Database, tmp_path: Path, web: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_SOURCE_TOKEN", "t0ken")
    Pages.failures = 1
    job, book = made(db, tmp_path, f"{web}/orders.json?key=hidden")
    assert job.status == "completed", job.error
    assert cells(book["Orders"], 2)["Sku"] == "x"
    assert job.result["statistics"]["totalImages"] == 1
    assert [path for path, _ in Pages.asked] == ["/orders.json?key=hidden"] * 2 + ["/x.jpg"]
    assert {token for _, token in Pages.asked} == {"Bearer t0ken"}
    assert "hidden" not in book["Summary"]["A2"].value


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/none?key=hidden", SourceMissing),
        ("/denied", SourceRefused),
        ("/busy", SourceUnreachable),
        ("/large", BadData),
        ("/away", SourceRefused),
    ],
)
def test_answers_have_their_own_errors_without_the_query(web: str, path: str, kind: type[SourceError]) -> None:
    with pytest.raises(kind) as raised:
        download(f"{web}{path}", 100_000)
    assert "hidden" not in str(raised.value)


def test_a_host_that_is_not_there_is_unreachable_and_a_page_that_is_no_json_is_bad_data(db: Database, web: str) -> None:
    with pytest.raises(SourceUnreachable):
        download("http://127.0.0.1:9/x", 10)
    with pytest.raises(BadData, match="no JSON"):
        open_sources([f"{web}/bad"], "p", db).datasets()
    with pytest.raises(SourceRefused, match="https only"):
        download("http://example.org/x", 10, token="t0ken")


def test_S1_a_broken_file_of_a_folder_is_named_with_what_to_do(tmp_path: Path, db: Database) -> None:
    (tmp_path / "orders.csv").write_text("a;b\n1;2\n")
    (tmp_path / "stock.json").write_text('{"oops": ')
    with pytest.raises(BadData, match=r"stock\.json is no JSON: .*Mend it, or take it out of the source"):
        open_sources([str(tmp_path)], "firma", db).datasets()


def test_S1_a_list_without_rows_keeps_its_columns(db: Database, tmp_path: Path) -> None:
    folder = tmp_path / "firma"
    folder.mkdir()
    (folder / "retouren.csv").write_text("Artikel-Nr.;Menge;Grund\n", encoding="utf-8-sig")
    (folder / "leer.csv").write_text("")
    job, book = made(db, tmp_path, str(folder))
    assert job.status == "completed", job.error
    assert [cell.value for cell in book["Retouren"][1]] == ["Artikel-Nr.", "Menge", "Grund"]
    assert [cell.value for cell in book["Leer"][1]] == ["(no columns)"]
    assert "Retouren: the source has no rows." in job.result["statistics"]["notes"]


def test_bars_of_a_chart_begin_at_zero(db: Database, tmp_path: Path) -> None:
    """Programs begin the axis at 44,000 where all values are near 50,000: one branch looked four times as good."""
    folder = tmp_path / "firma"
    folder.mkdir()
    lines = [f"{name};{amount}" for name, amount in (("Nord", 51000), ("Süd", 52000), ("Markt", 47000)) for _ in "ab"]
    (folder / "verkäufe.csv").write_text("Filiale;Umsatz\n" + "\n".join(lines), encoding="utf-8-sig")
    service = ExcelReports(db, open_files(folder / "files"), sources=[str(folder)])
    service.prepare()
    job = service.generate("firma")
    service.worker(until_empty=True, concurrency=1).run()
    key = service.read(job.job_id).job.result["fileKey"]  # type: ignore[index]
    with zipfile.ZipFile(io.BytesIO(service.files.read(key))) as book:
        charts = [book.read(name).decode() for name in book.namelist() if "charts/chart" in name]
        sheets = book.read("xl/workbook.xml").decode()
    assert len(charts) == 1
    assert '<c:min val="0"/>' in charts[0]
    assert 'name="Verkäufe"' in sheets


@pytest.mark.parametrize("name", ["Bilder", "fotos", "IMAGES"])
def test_pictures_are_found_in_a_folder_of_that_name_in_other_languages(
    db: Database, tmp_path: Path, bakery: Path, name: str
) -> None:
    (bakery / "photos").rename(bakery / name)
    job, _ = made(db, tmp_path, str(bakery))
    assert job.result["statistics"]["totalImages"] == 2


def test_a_url_in_an_error_keeps_its_port_and_loses_what_may_be_secret():
    assert shown_url("https://ada:secret@example.org:8443/a.json?key=1") == "https://example.org:8443/a.json"
    with pytest.raises(SourceUnreachable, match=r"http://127\.0\.0\.1:1/x\.json could not be reached"):
        download("http://127.0.0.1:1/x.json?key=1", 100)
