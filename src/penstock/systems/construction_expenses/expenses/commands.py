"""`penstock construction expenses`: add, list, import and total a company's expenses."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from penstock.cli.kit.databases import missing_file
from penstock.cli.kit.exit_codes import FAILED
from penstock.cli.kit.groups import group
from penstock.cli.kit.options import dry_run_option, json_option, limit_option, resumable, token_option
from penstock.cli.kit.output import ProgressLine, one_line, plain, print_json, print_result
from penstock.client.items.values import Item
from penstock.clock import utc_text
from penstock.errors import PenstockError
from penstock.systems.construction_expenses.books import Books
from penstock.systems.construction_expenses.expenses.expense_file import (
    FIELDS,
    BadExpenseFile,
    ExpenseFile,
    FileOptions,
    expense_of,
    parse_amount,
    parse_date,
    read_expenses,
)
from penstock.systems.construction_expenses.expenses.expenses import (
    Imported,
    ImportPlan,
    Total,
    Totals,
    add_up,
    day_of,
    import_expenses,
    plan_import,
)
from penstock.systems.construction_expenses.money import BadAmount, decimals_of
from penstock.systems.construction_expenses.place import Place, show_page, with_place
from penstock.tables.plan.changes import count

company_argument = click.argument("company_id", metavar="COMPANY")
_DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
_LISTED = 20
_COLUMNS_CHARACTERS = 500
"""Contractors and invoices that an import shows by name."""


@group("expenses", exit_codes={FAILED: "a file or a value cannot be read; nothing was written"})
def command() -> None:
    """Manage the expenses of a company.

    \b
    Examples:
      penstock construction expenses import acme expenses.csv --currency EUR --db expenses.db
      penstock construction expenses list acme --db expenses.db
      penstock construction expenses totals acme --since 2025 --db expenses.db
    """


@command.command("add")
@company_argument
@click.option("--amount", required=True, help="For example 1234.56, with a decimal point; negative for a credit.")
@click.option("--currency", required=True, metavar="CODE", help="For example EUR.")
@click.option("--date", "day", metavar="DATE", help="2025-06-16 or 16.06.2025. [today]")
@click.option("--contractor", default="", metavar="NAME", help="A name or an id; a new name creates a contractor.")
@click.option("--invoice", default="", metavar="NUMBER", help="The number of the invoice.")
@click.option("--project", default="", metavar="ID", help="The id of the project.")
@click.option("--work", default="", metavar="ID", help="The id of the work.")
@click.option("--description", default="", metavar="TEXT", help="What was paid for.")
@click.option("--id", "expense_id", default="", metavar="ID", help="An id that distinguishes equal expenses.")
@with_place
@json_option
def add(
    company_id: str,
    amount: str,
    currency: str,
    day: str | None,
    expense_id: str,
    place: Place,
    as_json: bool,
    **texts: str,
) -> None:
    """Add an expense. An equal expense is not added twice.

    \b
    Examples:
      penstock construction expenses add acme --amount 1234.56 --currency EUR --contractor 'Bau AG' --db expenses.db
      penstock construction expenses add acme --amount 50 --currency GBP --id petty-cash-7 --db expenses.db --json
    """
    with _books(place) as books:
        when = parse_day(day) if day else utc_text(books.clock.now())[:10]
        try:
            value, _ = parse_amount(amount, "point")
            expense = expense_of(value, currency, when, id=expense_id, **texts)
        except (BadAmount, ValueError) as error:
            raise PenstockError(f"{error}. Nothing was written.") from error
        plan = plan_import(company_id, [expense], _contractors(books, company_id))
        done = import_expenses(books, plan)
        item = books.expenses.required(company_id, plan.items[0]["expenseId"])
    what = "added" if done.added else "is there already; --id adds another one that is equal"
    print_result({"added": bool(done.added), "expense": plain(item)}, f"{item['expenseId']} {what}", as_json=as_json)


def parse_day(text: str) -> str:
    try:
        return parse_date(text, "dmy")
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--date") from None


@command.command("list")
@company_argument
@click.option("--contractor", metavar="ID", help="Only expenses of this contractor, sorted by invoice.")
@with_place
@limit_option
@token_option
@json_option
def list_expenses(
    company_id: str, contractor: str | None, place: Place, limit: int, token: str | None, as_json: bool
) -> None:
    """List the expenses of a company, sorted by date (expenses that were imported or added here).

    \b
    Examples:
      penstock construction expenses list acme --db expenses.db
      penstock construction expenses list acme --contractor acme-bau-ag-1f2e3d --db expenses.db --json
    """
    with place.books() as books:
        if contractor is None:
            found = books.expenses.of_company(company_id, limit=limit, token=token)
        else:
            found = books.expenses.of_contractor(contractor, limit=limit, token=token)
        show_page(found, _expense_line, as_json)


def _expense_line(item: Item) -> str:
    amount = item.get("amount", "")
    shown = _money(amount, str(item.get("currency", ""))) if isinstance(amount, int | Decimal) else str(amount)
    parts = (item.get("contractorId", "-"), item.get("invoiceNum", "-"), item.get("description", ""))
    told = "  ".join(one_line(str(part)) for part in parts)
    return f"{day_of(item)}  {shown:>16} {item.get('currency', ''):3}  {told}".rstrip()


# ── import ───────────────────────────────────────────────────────────────────────────────────────


def _column(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    columns: dict[str, str] = {}
    for one in given:
        name, _, column = one.partition("=")
        if name not in FIELDS or not column:
            raise click.BadParameter(f"{one!r} is not FIELD=COLUMN; the fields are {', '.join(FIELDS)}")
        columns[name] = column
    return columns


@command.command("import")
@company_argument
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--currency", metavar="CODE", help="The currency of rows without one.")
@click.option("--column", "columns", multiple=True, callback=_column, metavar="FIELD=COLUMN",
              help=f"The column of a field that is not recognised. Fields: {', '.join(FIELDS)}.")  # fmt: skip
@click.option("--decimal", type=click.Choice(["comma", "point"]), help="The decimal separator of amounts. [detected]")
@click.option("--dates", type=click.Choice(["dmy", "mdy"]), help="The order of day and month in 03/04/2025. [detected]")
@click.option("--delimiter", type=click.Choice(list(_DELIMITERS)), help="The separator of cells. [detected]")
@click.option("--encoding", metavar="NAME", help="For example cp1252. [detected]")
@click.option("--negate", is_flag=True, help="Amounts below zero are expenses, as in a bank's statement.")
@click.option("--skip-bad", is_flag=True, help="Skip rows that cannot be read, and list them.")
@with_place
@dry_run_option
@json_option
def import_file(
    company_id: str, file: Path, columns: dict[str, str], delimiter: str | None, skip_bad: bool,
    place: Place, dry_run: bool, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Import expenses from a CSV file of a bank, a spreadsheet or another program.

    \b
    Examples:
      penstock construction expenses import acme expenses.csv --currency EUR --db expenses.db --dry-run
      penstock construction expenses import acme Rechnungen.csv --db expenses.db
      penstock construction expenses import acme export.txt --column amount='Paid (gross)' --dates mdy --db expenses.db

    The command detects separators, encoding, decimal commas, dates, and column names in several languages. It skips
    rows that were imported before, so a file may be imported again, and files may overlap.
    """
    options = FileOptions(columns=columns, delimiter=_DELIMITERS[delimiter] if delimiter else None, **given)
    try:
        read = read_expenses(file.read_bytes(), options, skip_bad=skip_bad)
    except BadExpenseFile as error:
        raise PenstockError(f"{file}:\n{error}") from error
    if dry_run:
        _show_plan(read, plan_import(company_id, read.expenses, _known_contractors(place, company_id)), as_json)
        return
    with _books(place) as books, resumable("Expenses that were written stay; run it again to continue."):
        plan = plan_import(company_id, read.expenses, _contractors(books, company_id))
        line = ProgressLine(quiet=as_json)
        done = import_expenses(books, plan, lambda part, text: line.tell(f"{part:4.0%} {text}"))
        line.end()
    _show_import(read, plan, done, as_json)


@contextmanager
def _books(place: Place) -> Iterator[Books]:
    """The books to write to. In a file, tables that are missing are made; elsewhere, somebody applies them."""
    with place.books("made") as books:
        if "://" not in place.target:
            books.make_tables()
        yield books


def _known_contractors(place: Place, company_id: str) -> list[Item]:
    if missing_file(place.target) is not None:
        return []
    with place.books() as books:
        return _contractors(books, company_id)


def _contractors(books: Books, company_id: str) -> list[Item]:
    return list(books.contractors.of_company(company_id))


def _reading(read: ExpenseFile) -> dict[str, Any]:
    return {
        "rows": len(read.expenses),
        "left_out": list(read.bad),
        "encoding": read.encoding,
        "delimiter": read.delimiter,
        "decimal": read.decimal,
        "columns": read.columns,
        "unused": list(read.unused),
    }


def _show_plan(read: ExpenseFile, plan: ImportPlan, as_json: bool) -> None:
    if as_json:
        print_json({"dry_run": True, **_reading(read), "expenses": [plain(item) for item in plan.items]})
        return
    for item in plan.items[:_LISTED]:
        click.echo(_expense_line(item))
    if len(plan.items) > _LISTED:
        click.echo(f"… and {len(plan.items) - _LISTED:,} more")
    _show_reading(read, plan)
    click.echo(f"Would import {count(len(plan.items), 'expense')}, except what is there already.")


def _show_import(read: ExpenseFile, plan: ImportPlan, done: Imported, as_json: bool) -> None:
    if as_json:
        facts = {"added": done.added, "duplicates": done.duplicates, "new_contractors": done.contractors}
        print_json({**facts, "invoices_to_check": list(done.changed_invoices), **_reading(read)})
        return
    _show_reading(read, plan)
    for invoice in done.changed_invoices[:_LISTED]:
        click.echo(f"Check invoice {invoice}: it was there already, with another amount or text.", err=True)
    click.echo(f"Added {count(done.added, 'expense')}; {done.duplicates:,} of the file were there already.")


def _show_reading(read: ExpenseFile, plan: ImportPlan) -> None:
    columns = ", ".join(f"{name} from {column}" for name, column in read.columns.items())
    click.echo(f"Read as {read.encoding}, decimal {read.decimal}: {columns}.", err=True)
    if read.unused:
        click.echo(f"Not used: {one_line(', '.join(read.unused))[:_COLUMNS_CHARACTERS]}.", err=True)
    if read.looks_like_an_account:
        click.echo(
            "Most amounts are below zero, as in a bank's statement: --negate imports them as expenses.", err=True
        )
    for reason in read.bad[:_LISTED]:
        click.echo(f"Left out: {reason}", err=True)
    names = [str(one["name"]) for one in plan.contractors]
    if names:
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        click.echo(f"New contractors: {one_line(', '.join(names[:_LISTED]))}{more}.", err=True)


# ── totals ───────────────────────────────────────────────────────────────────────────────────────


def _month(context: click.Context, parameter: click.Parameter, given: str | None) -> str:
    if given and not re.fullmatch(r"[0-9]{4}(-(0[1-9]|1[0-2]))?", given):
        raise click.BadParameter(f"{given!r} is no month or year, such as 2025-06 or 2025")
    return given or ""


@command.command("totals")
@company_argument
@click.option(
    "--by", type=click.Choice(["both", "month", "contractor"]), default="both", show_default=True, help="How to group."
)
@click.option("--since", callback=_month, metavar="MONTH", help="From this month (2025-06) or year.")
@click.option("--until", callback=_month, metavar="MONTH", help="Up to and including this month or year.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV for a spreadsheet.")
@with_place
@json_option
def totals(company_id: str, by: str, since: str, until: str, as_csv: bool, place: Place, as_json: bool) -> None:
    """Show the totals of a company by month, contractor and currency.

    \b
    Examples:
      penstock construction expenses totals acme --db expenses.db
      penstock construction expenses totals acme --since 2025-01 --until 2025-03 --by contractor --db expenses.db
      penstock construction expenses totals acme --csv --db expenses.db > totals.csv
    """
    with place.books() as books:
        names = {str(one["contractorId"]): str(one.get("name", "")) for one in _contractors(books, company_id)}
        found = add_up(
            books.expenses.of_company(company_id),
            since=since,
            until=until,
            by_month=by != "contractor",
            by_contractor=by != "month",
        )
    if as_json:
        rows = [_total_form(row, names) for row in found.rows]
        sums = [_total_form(row, names) for row in found.sums]
        print_json({"totals": rows, "sums": sums, "without_amount": found.without_amount})
    elif as_csv:
        _write_csv(found, names)
    else:
        _show_totals(found, names)
    if found.without_amount and not as_json:
        click.echo(f"{found.without_amount:,} expenses have no amount, and are in no total.", err=True)


def _total_form(row: Total, names: dict[str, str]) -> dict[str, Any]:
    form = {
        "month": row.month,
        "contractor_id": row.contractor_id,
        "contractor": names.get(row.contractor_id, ""),
        "currency": row.currency,
        "expenses": row.expenses,
        "amount": f"{row.amount:.{decimals_of(row.currency)}f}",
    }
    return {name: value for name, value in form.items() if value != ""}


def _write_csv(found: Totals, names: dict[str, str]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    columns = ("month", "contractor_id", "contractor", "currency", "expenses", "amount")
    writer.writerow(columns)
    for row in found.rows:
        form = _total_form(row, names)
        writer.writerow([_cell(form.get(column, "")) for column in columns])


def _cell(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula is marked as a text."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "@", "+", "\t") else value


def _show_totals(found: Totals, names: dict[str, str]) -> None:
    if not found.rows:
        click.echo("Nothing.")
        return
    shown = [(row.month, one_line(names.get(row.contractor_id) or row.contractor_id), row) for row in found.rows]
    shown += [("all", "", row) for row in found.sums]
    width = max(len("contractor"), *(len(name) for _, name, _ in shown))
    click.echo(f"{'month':8} {'contractor':{width}} {'expenses':>9} {'amount':>18}")
    for month, name, row in shown:
        click.echo(f"{month:8} {name:{width}} {row.expenses:>9,} {_money(row.amount, row.currency):>18} {row.currency}")


def _money(amount: int | Decimal, currency: str) -> str:
    return f"{amount:,.{decimals_of(currency)}f}"
