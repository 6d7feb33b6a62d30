"""What a column is taken for, by its cells and its name; and rows in order."""

from __future__ import annotations

import random
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.systems.excel_reports.book.columns import Column, chart_templates, heading_of, inferred, sheet_columns
from penstock.systems.excel_reports.book.pictures import fitted
from penstock.systems.excel_reports.book.profile import Profile
from penstock.systems.excel_reports.book.row_order import sorted_rows
from penstock.systems.excel_reports.book.template import SheetTemplate
from penstock.systems.excel_reports.book.totals import Groups
from penstock.systems.excel_reports.book.values import parse_number
from penstock.systems.excel_reports.sources.errors import BadData
from penstock.systems.excel_reports.sources.file_formats import csv_rows, json_datasets, json_lines


def profile_of(rows: list[dict[str, Any]]) -> Profile:
    profile = Profile()
    assert list(profile.counted(rows)) == rows
    return Profile.of_form(profile.form())


def column(name: str, *values: Any) -> Column:
    return inferred(name, profile_of([{name: value} for value in values]).columns[name])


@pytest.mark.parametrize(
    ("text", "mark", "number"),
    [
        ("1,234.50", ".", 1234.5),
        ("1.234,50", ",", 1234.5),
        ("1 234,50 €", ",", 1234.5),
        ("€ 12.50", ".", 12.5),
        ("(3.00)", ".", -3),
        ("-$5", ".", -5),
        ("12.5 %", ".", 0.125),
        ("007", ".", None),
        ("+49 170", ".", None),
        ("1234567890123456", ".", None),
        ("12,5", ".", None),
        ("1.2.3", ".", None),
    ],
)
def test_a_number_is_read_as_people_write_it_if_nothing_is_lost(text: str, mark: str, number: float | None) -> None:
    assert parse_number(text, mark) == number


@pytest.mark.parametrize(
    ("name", "values", "kind", "raw", "value"),
    [
        ("price", ["3,80", "1.024,50", "n/a"], "number", "1.024,50", 1024.5),
        ("zip", ["01067", "50667"], "text", "01067", "01067"),
        ("phone", ["+49 221 1", "+49 30 2"], "text", "+49 30 2", "+49 30 2"),
        ("day", ["31/12/2025", "01/02/2026"], "day", "01/02/2026", date(2026, 2, 1)),
        ("day", ["12/31/2025", "01/02/2026"], "day", "01/02/2026", date(2026, 1, 2)),
        ("day", ["01/02/2026", "03/04/2026"], "text", "01/02/2026", "01/02/2026"),
        ("at", ["2026-03-01T12:00:00Z", None], "moment", "2026-03-01T23:30:00-02:00", datetime(2026, 3, 2, 1, 30)),
        ("born", ["1850-01-01", "1990-05-05"], "day", "1850-01-01", "1850-01-01"),
        ("ok", ["ja", "nein", ""], "flag", "ja", True),
        ("photo", ["a.JPG", "b.png"], "picture", "a.JPG", "a.JPG"),
        ("number", [2**70, 1], "text", 2**70, str(2**70)),
        ("x", [float("nan"), 1.5, 2.5, 3.5, 1, 1, 1, 1, 1, 1, 1], "number", float("nan"), None),
        ("mixed", [1, "two", "three"], "text", 1, 1),
    ],
)
def test_a_column_is_what_nearly_all_of_its_cells_are(
    name: str, values: list[Any], kind: str, raw: Any, value: Any
) -> None:
    found = column(name, *values)
    assert (found.kind, found.value(raw)) == (kind, value)


def test_totals_and_formats_go_by_the_name() -> None:
    assert (column("order_id", 1, 2).format, column("order_id", 1, 2).total) == ("0", "none")
    assert column("year", 2024, 2025).total == "none"
    assert column("unitPrice", 2.5, 3).total == "average"
    assert (column("stock", 2, 3).total, column("rating", 2.5, 3).highlight) == ("sum", "scale")
    assert column("total", "2.50 €", "3.00 €").format.endswith('"€"')
    assert column("total", "2.50 €", "$3.00").total == "none", "two currencies have no sum"
    assert (heading_of("launchedAt"), heading_of("Artikel-Nr"), heading_of("SKU")) == (
        "Launched at",
        "Artikel-Nr",
        "SKU",
    )
    assert (heading_of("verkäufe"), heading_of("straße_nr"), heading_of("売上")) == ("Verkäufe", "Straße nr", "売上")


def test_charts_are_of_groups_and_of_months() -> None:
    rows = [{"city": city, "at": f"2026-0{1 + n}-03", "sales": 2.5 * n} for n, city in enumerate("abab")]
    profile = profile_of(rows)
    columns = sheet_columns(SheetTemplate(name="s"), profile)
    assert [(one.by, one.value) for one in chart_templates(columns, profile)] == [("city", "sales"), ("at", "sales")]
    months = Groups(columns[1], columns[2])
    months.add(date(2025, 12, 1), 5)
    months.add(date(2026, 2, 1), 7)
    assert months.bars() == [("2025-12", 1, 5), ("2026-01", 0, 0), ("2026-02", 1, 7)]
    months.add(date(2028, 2, 1), 1)
    assert months.bars()[:2] == [("2025 Q4", 1, 5), ("2026 Q1", 1, 7)]
    months.add(date(2056, 2, 1), 1)
    assert [label for label, _, _ in months.bars()] == ["2025", "2026", "2028", "2056"]
    cities = Groups(columns[0], None)
    for number in range(40):
        cities.add(f"c{number % 20}", None)
    assert (len(cities.bars()), cities.bars()[-1]) == (12, ("Others", 18, 0))


def test_rows_are_sorted_with_bounded_memory_and_empty_cells_last() -> None:
    chance = random.Random(3)
    rows: list[dict[str, Any]] = [{"n": chance.choice([None, 1, 5, 2.5, "x", "Y"]), "i": place} for place in range(99)]
    found = list(sorted_rows(rows, ["-n", "i"], run_rows=10))
    assert found == list(sorted_rows(rows, ["-n", "i"]))
    assert [row["n"] for row in found if row["n"] is not None][:1] == [5]
    assert found[-1]["n"] is None
    assert sorted(row["i"] for row in found) == list(range(99))


def test_csv_of_any_encoding_and_delimiter_has_the_same_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    text = 'Name{0}Größe{0}\nÄpfel{0}"1{0}2"\nKäse{0}3{0}x{0}y\n\n'
    for delimiter in ",;\t|":
        for encoding in ("utf-8", "utf-8-sig", "cp1252", "utf-16"):
            path.write_bytes(text.format(delimiter).encode(encoding))
            rows = list(csv_rows(path))
            assert rows[0] == {"Name": "Äpfel", "Größe": f"1{delimiter}2", "Column 3": ""}, (delimiter, encoding)
            assert rows[1] == {"Name": "Käse", "Größe": "3", "Column 3": "x", "Column 4": "y"}
    path.write_text("sep=;\na;a\n1;2\n")
    assert list(csv_rows(path)) == [{"a": "1", "a (2)": "2"}]
    path.write_text('a,b\n1,"' + "x" * 200_000)
    with pytest.raises(BadData, match="line"):
        list(csv_rows(path))


def test_json_has_datasets_and_rows_without_depth(tmp_path: Path) -> None:
    assert json_datasets("o", b'{"items": [{"a": {"b": {"c": 1}}, "l": [1, null]}]}') == [
        ("o", [{"a.b.c": 1, "l": "1, "}])
    ]
    assert [name for name, _ in json_datasets("o", b'{"x": [], "y": [{}], "n": 1}')] == ["x", "y"]
    assert json_datasets("o", b"[1]") == [("o", [{"value": 1}])]
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n\n{"a": ')
    with pytest.raises(BadData, match="line 3"):
        list(json_lines(tmp_path / "a.jsonl"))


def test_what_is_no_picture_is_bad_data() -> None:
    for data in (b"", b"\xff\xd8\xff\xe0 no", b"<svg/>", b"\x89PNG\r\n\x1a\n" + b"\0" * 50):
        with pytest.raises(BadData):
            fitted(data)
