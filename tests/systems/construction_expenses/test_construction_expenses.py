"""Expenses from other people's files, written once, and added up."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from construction_world import new_books
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cli.main import cli
from penstock.client.database import connect
from penstock.systems.construction_expenses.books import Books
from penstock.systems.construction_expenses.expenses.expense_file import (
    BadExpenseFile,
    Expense,
    FileOptions,
    parse_amount,
    parse_date,
    read_expenses,
)
from penstock.systems.construction_expenses.expenses.expenses import add_up, import_expenses, plan_import

GERMAN = (
    "Rechnungsdatum;Rechnungs-Nr.;Lieferant;Betrag (brutto);Währung;Baustelle;Buchungstext\r\n"
    "16.06.2025;RE-1;Müller & Söhne GmbH;1.234,56;EUR;Nord;Ziegel\r\n"
    "1.7.25;RE-2;Bau AG;-99,00 €;;Nord;Gutschrift\r\n"
    "1.7.25;;Baumarkt;12,50;EUR;;Schrauben\r\n"
    "1.7.25;;Baumarkt;12,50;EUR;;Schrauben\r\n"
)
AMERICAN = (
    "Date,Vendor,Invoice No,Amount,Currency\n"
    '06/16/2025,"Smith, Ltd",7,"$1,234.50",USD\n'
    "06/05/2025,bau ag,8,(12.00),EUR\n"
    "2025-08-01,Tokyo Kenchiku,9,50000,JPY\n"
)

NAMED = {"date": "Paid on", "amount": "Cost"}


@pytest.fixture(scope="module")
def books() -> Iterator[Books]:
    with new_books() as (made, _):
        yield made


# ── files ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le"])
def test_a_file_is_read_in_whatever_encoding(encoding: str) -> None:
    read = read_expenses(GERMAN.encode(encoding))
    assert (read.delimiter, read.decimal) == (";", "comma")
    assert [one.amount for one in read.expenses] == [Decimal(text) for text in ("1234.56", "-99.00", "12.50", "12.50")]
    assert read.expenses[0] == Expense(
        Decimal("1234.56"), "EUR", "2025-06-16", "Müller & Söhne GmbH", "RE-1", "Nord", "", "Ziegel"
    )
    assert (read.expenses[1].date, read.expenses[1].currency) == ("2025-07-01", "EUR")


def test_an_american_file_has_the_month_first_and_amounts_in_brackets() -> None:
    read = read_expenses(AMERICAN.encode())
    assert [(one.date, str(one.amount), one.currency) for one in read.expenses] == [
        ("2025-06-16", "1234.50", "USD"),
        ("2025-06-05", "-12.00", "EUR"),
        ("2025-08-01", "50000", "JPY"),
    ]


@pytest.mark.parametrize(
    ("text", "options", "amount"),
    [
        ("sep=;\ndate;amount\n2025-01-02;1'234.5", FileOptions(currency="CHF"), "1234.50"),
        ("Account 1\nExported\n\nDatum\tFirma\tBelop\tValuta\n2025-01-02\tA\t1 234,5\tNOK", None, "1234.50"),
        ("date|amount|currency\n20250102|7|EUR", None, "7.00"),
        ("Paid on,Was,Cost\n2025-01-02,x,7.1", FileOptions(currency="EUR", columns=NAMED), "7.10"),
        ('date,amount,description\n2025-01-02,"EUR 1,5","two\nlines"', None, "1.50"),
        ("date;amount\n2025-01-02;1,234", FileOptions(currency="EUR", decimal="point"), "1234.00"),
        ('日付,取引先,金額\n2025/01/02,山田工務店,"¥120,000"', None, "120000"),
        ("date;amount;currency\n2025-01-02;120.000;JPY", None, "120000"),
        ("date;amount\n2025-01-02;120.000", FileOptions(currency="KRW"), "120000"),
    ],
)  # fmt: skip
def test_dialects(text: str, options: FileOptions | None, amount: str) -> None:
    (one,) = read_expenses(text.encode(), options).expenses
    assert (str(one.amount), one.date) == (amount, "2025-01-02")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("date,amount,currency\n2025-01-01,1.234,EUR", "--decimal"),
        ("date,amount,currency\n03/04/2025,1.5,EUR", "--dates"),
        ('date,amount,currency\n2025-01-01,1.50,EUR\n2025-01-01,"1,50",EUR', "line 2 has '1.50' and line 3"),
        ("date,amount,betrag,currency\n2025-01-01,1,2,EUR", "--column"),
        ("date,contractor\n2025-01-01,x", "no column for the amount"),
        ("a,b\n1,2", "No header"),
        ("", "The file is empty"),
        ("\ufeff\r\n", "The file is empty"),
        ("date,amount\n2025-01-01,$1.50", "$ is that of several countries): give --currency USD"),
        ("date,amount,currency", "no row"),
        ("date,amount\n2025-01-01,1", "--currency"),
        ("date,amount,currency\n2025-13-01,1,EUR\n2025-01-01,x,EUR\n,1,EUR\n2025-01-01,1.5,JPY", "line 5: 1.5 JPY"),
    ],
)
def test_what_can_be_read_in_two_ways_or_in_none_is_refused_with_the_next_step(text: str, told: str) -> None:
    with pytest.raises(BadExpenseFile) as raised:
        read_expenses(text.encode())
    assert told in str(raised.value)


def test_bad_rows_are_left_out_only_when_that_is_asked_for() -> None:
    read = read_expenses(b"date,amount,currency\n2025-01-01,x,EUR\n2025-01-01,2,EUR", skip_bad=True)
    assert (len(read.expenses), read.bad) == (1, ("line 2: 'x' is no amount",))


@given(st.integers(-(10**12), 10**12), st.sampled_from(["comma", "point"]), st.sampled_from(["", " ", "'", "mark"]))
@settings(max_examples=40, deadline=None)
def test_an_amount_that_was_written_is_the_amount_that_is_read(cents: int, decimal: Any, between: str) -> None:
    mark, other = (",", ".") if decimal == "comma" else (".", ",")
    whole = f"{abs(cents) // 100:,}".replace(",", other if between == "mark" else between)
    text = f"{'-' if cents < 0 else ''}{whole}{mark}{abs(cents) % 100:02d}"
    assert parse_amount(text, decimal)[0] == Decimal(cents) / 100


@pytest.mark.parametrize("text", ["1.2.3,4,5", "12 and 13", "1-2", "--", "EURO 5", "1,23,4"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no amount"):
        parse_amount(text, "comma")


def test_dates_of_other_styles() -> None:
    assert parse_date("3/4/2025", "mdy") == "2025-03-04"
    assert parse_date("3.4.2025", "mdy") == "2025-04-03", "with dots the day is first, everywhere"
    assert parse_date("2025-03-04T10:00:00Z", "dmy") == "2025-03-04"


# ── importing ────────────────────────────────────────────────────────────────────────────────────


def import_text(books: Books, company: str, text: str) -> Any:
    known = list(books.contractors.of_company(company))
    return import_expenses(books, plan_import(company, read_expenses(text.encode()).expenses, known))


def test_a_file_that_is_imported_again_adds_nothing_and_equal_rows_are_two_expenses(books: Books) -> None:
    first, second = import_text(books, "twice", GERMAN), import_text(books, "twice", GERMAN)
    assert (first.added, first.contractors, second.added, second.duplicates) == (4, 3, 0, 4)
    days = [one["date"] for one in books.expenses.of_company("twice")]
    assert days == sorted(days)
    assert len(days) == 4


def test_an_import_that_was_cut_off_is_completed_and_what_was_added_to_an_expense_stays(books: Books) -> None:
    plan = plan_import("cut", read_expenses(GERMAN.encode()).expenses, [])
    books.expenses.add({**plan.items[0], "approvedBy": "ada"})
    assert import_expenses(books, plan).added == 3
    assert books.expenses.required("cut", plan.items[0]["expenseId"])["approvedBy"] == "ada"


def test_a_contractor_is_known_by_name_or_id_and_belongs_to_one_company(books: Books) -> None:
    books.contractors.add({"companyId": "named", "contractorId": "k-7", "name": "BAU  ag"})
    import_text(books, "named", GERMAN)
    import_text(books, "other", AMERICAN)
    assert [one["invoiceNum"] for one in books.expenses.of_contractor("k-7")] == ["RE-2"]
    (other,) = (one for one in books.contractors.of_company("other") if one["name"] == "bau ag")
    assert other["contractorId"].startswith("other-bau-ag-")


def test_an_invoice_that_comes_with_another_amount_is_told(books: Books) -> None:
    import_text(books, "changed", GERMAN)
    again = import_text(books, "changed", GERMAN.replace("1.234,56", "1.300,00"))
    assert (again.added, again.changed_invoices) == (1, ("RE-1",))


# ── totals ───────────────────────────────────────────────────────────────────────────────────────


def test_totals_are_exact_by_month_contractor_and_currency() -> None:
    items: list[dict[str, Any]] = [
        {"date": "2025-01-31", "contractorId": "k", "currency": "EUR", "amount": Decimal("0.10")},
        {"date": "2025-01-01", "contractorId": "k", "currency": "EUR", "amount": Decimal("0.20")},
        {"createdAt": "2025-02-01T00:00:00Z", "currency": "EUR", "amount": 5},
        {"date": "2025-02-01", "contractorId": "k", "currency": "JPY", "amount": 700},
        {"date": "2025-02-01", "contractorId": "k", "currency": "EUR", "amount": "much"},
    ]
    found = add_up(items)
    assert [(row.month, row.contractor_id, row.currency, str(row.amount)) for row in found.rows] == [
        ("2025-01", "k", "EUR", "0.30"),
        ("2025-02", "-", "EUR", "5"),
        ("2025-02", "k", "JPY", "700"),
    ]
    assert [(row.currency, str(row.amount), row.expenses) for row in found.sums] == [
        ("EUR", "5.30", 3),
        ("JPY", "700", 1),
    ]
    assert found.without_amount == 1
    assert [row.month for row in add_up(items, until="2025-01").rows] == ["2025-01"]
    assert len(add_up(items, since="2025", until="2025", by_month=False, by_contractor=False).rows) == 2


def test_columns_that_nobody_reads_are_told() -> None:
    """`Kontakt` of a German program was dropped without a word, and all totals were of nobody."""
    read = read_expenses("Datum;Kontakt;Betrag;Währung;Kostenstelle;Leer\n1.7.2025;Bau AG;1,50;EUR;470;\n".encode())
    assert (read.expenses[0].contractor, read.unused) == ("Bau AG", ("Kostenstelle",))


# ── commands ─────────────────────────────────────────────────────────────────────────────────────


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, ["construction", "expenses", *arguments])
    assert result.exit_code == code, result.output
    return result


STATEMENT = """Buchungstag;Auftraggeber/Empfänger;Verwendungszweck;Betrag;Währung;Baustelle
03.02.2026;Holz Weiß KG;Rg. 4711;-1.250,00;EUR;Nord
05.02.2026;"Müller; Sohn";Rg. 99;-12,5;EUR;Süd
28.02.2026;Beton AG;Gutschrift;+300,00;EUR;Nord
"""


def test_the_statement_of_a_bank_is_recognised_and_its_amounts_can_be_negated() -> None:
    data = ("\ufeff" + STATEMENT).encode()
    read = read_expenses(data)
    assert read.looks_like_an_account and not read.unused
    assert [(one.contractor, one.project) for one in read.expenses][:2] == [
        ("Holz Weiß KG", "Nord"),
        ("Müller; Sohn", "Süd"),
    ]
    negated = read_expenses(data, FileOptions(negate=True))
    assert [one.amount for one in negated.expenses] == [Decimal("1250.00"), Decimal("12.50"), Decimal("-300.00")]
    assert not negated.looks_like_an_account


def test_a_bookkeepers_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ENVIRONMENT", "TABLE_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PENSTOCK_DB", "expenses.db")
    with connect("expenses.db") as db:
        Books(db).make_tables()
    Path("de.csv").write_bytes(GERMAN.encode("cp1252"))
    Path("us.csv").write_text(AMERICAN)
    assert "Would import 4 expenses" in run("import", "acme", "de.csv", "--dry-run").output
    assert run("list", "acme").output == "Nothing.\n"
    assert "Added 4 expenses; 0 of the file" in run("import", "acme", "de.csv").output
    told = json.loads(run("import", "acme", "de.csv", "--json").stdout)
    assert (told["added"], told["duplicates"], told["decimal"]) == (0, 4, "comma")
    run("import", "acme", "us.csv")
    Path("odd.csv").write_text('date,amount,currency,contractor,cost centre,note\n2024-01-05,1,EUR,x\x1b[2J,7,"a\nb"\n')
    assert "Not used: cost centre." in run("import", "odd", "odd.csv").output
    assert run("list", "odd").output.count("\n") == 1, "what has two lines is shown in one"
    assert "\x1b" not in run("totals", "odd").output
    Path("bad.csv").write_text("date,amount,currency\n2025-01-01,x,EUR\n")
    assert "line 2: 'x' is no amount" in run("import", "acme", "bad.csv", code=1).output
    add = ("add", "acme", "--amount", "5.5", "--currency", "EUR", "--contractor", "Bau AG", "--date", "2025-09-01")
    assert json.loads(run(*add, "--json").stdout)["added"] is True
    assert "is there already" in run(*add).output
    assert "more decimals" in run("add", "acme", "--amount", "1.5", "--currency", "JPY", code=1).output
    run("totals", "acme", "--since", "2025-13", code=2)
    assert "2025-06  Müller & Söhne GmbH" in run("totals", "acme").output
    rows = list(csv.DictReader(io.StringIO(run("totals", "acme", "--by", "contractor", "--csv").stdout)))
    assert {row["contractor"]: row["amount"] for row in rows if row["currency"] == "EUR"} == {
        "Bau AG": "-105.50",
        "Baumarkt": "25.00",
        "Müller & Söhne GmbH": "1234.56",
    }
    sums = json.loads(run("totals", "acme", "--json").stdout)["sums"]
    assert {one["currency"]: one["amount"] for one in sums} == {"EUR": "1154.06", "JPY": "50000", "USD": "1234.50"}
