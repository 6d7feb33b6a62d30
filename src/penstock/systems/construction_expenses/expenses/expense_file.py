"""Expenses from a CSV file, whoever wrote it: encoding, separators, numbers and dates are found in the file itself.

1. Nothing is guessed silently. Where a column can be read in two ways (1,234 or 03/04/2025) and no row of it decides,
   the file is refused with the option that decides.
2. All errors of a file are told at once, with their lines, before anything is written.
3. Amounts are exact, in their currency's own unit, and have no more decimals than it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Final, Literal, get_args

from penstock.errors import PenstockError
from penstock.systems.construction_expenses.money import BadAmount, currency_of, decimals_of, major_units, minor_units

FILE_BYTES: Final = 50_000_000
"""About 500,000 rows: they are read at once."""
SHOWN_ERRORS: Final = 20
_HEADER_LINES: Final = 30
"""Exports of banks and programs begin with a few lines of their own."""
_TEXT_CHARACTERS: Final = 500
_DELIMITERS: Final = (";", "\t", ",", "|")

Field = Literal["date", "amount", "currency", "contractor", "invoice", "project", "work", "description", "id"]
FIELDS: Final[tuple[Field, ...]] = get_args(Field)
DecimalMark = Literal["comma", "point"]
DateOrder = Literal["dmy", "mdy"]

_NAMES: Final[Mapping[Field, str]] = {
    "date": "date invoicedate expensedate datum rechnungsdatum belegdatum buchungstag buchungsdatum fecha data dataora "
    "datefacture factuurdatum dato datafaktury 日付 取引日 発行日 日期 开票日期",
    "amount": "amount total totalamount gross grossamount betrag bruttobetrag brutto gesamtbetrag summe montant "
    "montantttc importe importo bedrag belop beloep kwota 金額 合計 金额 总额",
    "currency": "currency currencycode ccy waehrung wahrung whrg devise monnaie moneda divisa valuta waluta 通貨 币种",
    "contractor": "contractor contractorname supplier suppliername vendor payee lieferant firma auftragnehmer "
    "kreditor empfaenger empfanger kontakt partner beguenstigter zahlungsempfanger zahlungsempfaenger "
    "namezahlungsbeteiligter counterparty beneficiary beneficiaire "
    "取引先 業者 供应商 承包商 fournisseur proveedor fornitore leverancier leverandor dostawca",
    "invoice": "invoice invoicenum invoiceno invoicenumber invoicenr rechnung rechnungsnummer rechnungsnr rechnr "
    "belegnummer belegnr facture numerofacture nfacture nofacture factura numfactura fattura factuur factuurnummer "
    "faktura fakturanr nrfaktury 請求書番号 发票号 发票号码",
    "project": "project projectid site projekt baustelle projet chantier proyecto obra progetto cantiere",
    "work": "work workid trade gewerk lot metier oficio lavoro",
    "description": "description note notes memo details text buchungstext verwendungszweck beschreibung libelle "
    "concepto descripcion descrizione omschrijving opis 摘要 备注",
    "id": "expenseid id",
}
_FIELD_OF: Final[Mapping[str, Field]] = {name: one for one, names in _NAMES.items() for name in names.split()}
_SYMBOLS: Final = {"€": "EUR", "£": "GBP", "¥": "JPY", "₩": "KRW", "₹": "INR", "zł": "PLN", "₺": "TRY"}
_UMLAUTS: Final = str.maketrans(
    {"ä": "a", "ö": "o", "ü": "u", "ß": "ss", "é": "e", "è": "e", "ó": "o", "ú": "u", "ø": "o"}
)


class BadExpenseFile(PenstockError):
    """A file that cannot be imported as it is; `errors` has all that is wrong with it."""

    def __init__(self, errors: Sequence[str], next_step: str = "Nothing was written.") -> None:
        shown = [*errors[:SHOWN_ERRORS]]
        if len(errors) > SHOWN_ERRORS:
            shown.append(f"and {len(errors) - SHOWN_ERRORS:,} more")
        super().__init__("\n".join((*shown, next_step)))
        self.errors = tuple(errors)


@dataclass(frozen=True, slots=True)
class Expense:
    """An expense as somebody wrote it down."""

    amount: Decimal
    currency: str
    date: str
    """2025-06-16"""
    contractor: str = ""
    invoice: str = ""
    project: str = ""
    work: str = ""
    description: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class FileOptions:
    """What the file does not say, or says so that it can be read in two ways."""

    encoding: str | None = None
    delimiter: str | None = None
    decimal: DecimalMark | None = None
    dates: DateOrder | None = None
    currency: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    """Field to the name of its column, where it is not recognised."""
    negate: bool = False
    """Amounts are those of an account: what was paid is below zero."""


@dataclass(frozen=True, slots=True)
class ExpenseFile:
    """What was read, and how."""

    expenses: tuple[Expense, ...]
    encoding: str
    delimiter: str
    decimal: DecimalMark
    columns: dict[str, str]
    unused: tuple[str, ...] = ()
    """Columns that have something and are of no field."""
    bad: tuple[str, ...] = ()
    """Rows that were left out, with their reasons, where that was allowed."""

    @property
    def looks_like_an_account(self) -> bool:
        """Whether most amounts are below zero, as in the statement of a bank."""
        return 2 * sum(one.amount < 0 for one in self.expenses) > len(self.expenses)


@dataclass(frozen=True, slots=True)
class _Row:
    line: int
    cells: Mapping[Field, str]


@dataclass(frozen=True, slots=True)
class _Table:
    delimiter: str
    columns: dict[str, str]
    unused: tuple[str, ...]
    rows: list[_Row]


def read_expenses(data: bytes, options: FileOptions | None = None, *, skip_bad: bool = False) -> ExpenseFile:
    """All expenses of a file. Raises BadExpenseFile with everything that is wrong; `skip_bad` leaves bad rows out."""
    options = options or FileOptions()
    if len(data) > FILE_BYTES:
        raise BadExpenseFile([f"The file has {len(data):,} bytes, and {FILE_BYTES:,} are read at once."], "Split it.")
    text, encoding = _decode(data, options.encoding)
    if not text.strip("\ufeff\0 \t\r\n"):
        raise BadExpenseFile(["The file is empty."])
    table = _table(text, options)
    rows = table.rows
    decimal = options.decimal or _decimal_mark(rows, options.currency)
    order = options.dates or _date_order(rows, decimal)
    expenses, errors = [], []
    for row in rows:
        try:
            expenses.append(_expense(row, options, decimal, order))
        except (BadAmount, ValueError) as error:
            errors.append(f"line {row.line}: {error}")
    if errors and not skip_bad:
        raise BadExpenseFile(errors, "Nothing was written. Correct the file, or leave such rows out with --skip-bad.")
    if not expenses:
        raise BadExpenseFile(errors or ["The file has no row below its header."])
    return ExpenseFile(tuple(expenses), encoding, table.delimiter, decimal, table.columns, table.unused, tuple(errors))


# ── text and columns ─────────────────────────────────────────────────────────────────────────────


def _decode(data: bytes, encoding: str | None) -> tuple[str, str]:
    """By its byte order mark, else UTF-8, else Windows-1252, as Excel writes it in the west."""
    if encoding is None:
        start = data[:4]
        if start.startswith((b"\xff\xfe", b"\xfe\xff")):
            encoding = "utf-16"
        elif start[1:2] == b"\0" and start[3:4] == b"\0":
            encoding = "utf-16-le"
    for name in ("utf-8-sig", "cp1252", "latin-1") if encoding is None else (encoding,):
        try:
            return data.decode(name), name
        except (UnicodeDecodeError, LookupError):
            continue
    raise BadExpenseFile([f"The file is no text in {encoding}."], "Leave --encoding out, or name another one.")


def _table(text: str, options: FileOptions) -> _Table:
    """The rows below the header, by the fields of their columns."""
    lines = text.splitlines(keepends=True)
    given = options.delimiter
    if lines and re.fullmatch(r"sep=.\s*", lines[0]):  # what Excel writes for itself
        given, lines[0] = given or lines[0][4], "\n"
    best: tuple[int, int, str] | None = None
    for delimiter in (given,) if given else _DELIMITERS:
        for place, cells in _records(lines[:_HEADER_LINES], delimiter):
            known = len(_columns(cells, options.columns, []))
            if known >= 2 and (best is None or known > best[0]):
                best = (known, place, delimiter)
    if best is None:
        raise BadExpenseFile(
            ["No header was found: a line with columns such as date, contractor, invoice, amount, currency."],
            "Name them: --column amount=Bruttobetrag --column date='Paid on', and --delimiter if it is an unusual one.",
        )
    _, header_line, delimiter = best
    records = iter(_records(lines, delimiter))
    header = next(cells for place, cells in records if place == header_line)
    errors: list[str] = []
    places = _columns(header, options.columns, errors)
    errors += [f"There is no column for the {one}." for one in ("date", "amount") if one not in places]
    if errors:
        raise BadExpenseFile(errors, f"Say which with --column FIELD=COLUMN; there are {', '.join(header)[:1_000]}.")
    rows: list[_Row] = []
    filled: set[int] = set()
    for line, cells in records:
        said = {place for place, cell in enumerate(cells) if cell.strip()}
        if said:
            filled |= said
            rows.append(_Row(line, _cells(cells, places)))
    others = filled.difference(places.values())
    unused = tuple(name.strip() for place, name in enumerate(header) if place in others and name.strip())
    return _Table(delimiter, {one: header[place].strip() for one, place in places.items()}, unused, rows)


def _records(lines: Sequence[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The records with the number of their last line."""
    reader = csv.reader(io.StringIO("".join(lines), newline=""), delimiter=delimiter)
    try:
        for record in reader:
            yield reader.line_num, record
    except csv.Error as error:
        raise BadExpenseFile([f"line {reader.line_num}: {error}"]) from error


def _columns(header: Sequence[str], given: Mapping[str, str], errors: list[str]) -> dict[Field, int]:
    """The place of each field's column; what is wrong is added to the errors."""
    names = [_plain(cell) for cell in header]
    places: dict[Field, int] = {}
    for one in FIELDS:
        if one in given:
            found = [place for place, name in enumerate(names) if name == _plain(given[one])]
            if not found:
                errors.append(f"There is no column {given[one]!r} for the {one}.")
        else:
            found = [place for place, name in enumerate(names) if _FIELD_OF.get(name) == one]
            found = found or [place for place, cell in enumerate(header) if one in _fields_in(cell)]
        if len(found) > 1:
            errors.append(f"Several columns may be the {one}: {', '.join(header[place].strip() for place in found)}.")
        if found:
            places[one] = found[0]
    return places


def _fields_in(cell: str) -> set[Field]:
    """Of `Auftraggeber/Empfänger`: the fields that its parts are called."""
    parts = re.split(r"[/|]", cell) if not _FIELD_OF.get(_plain(cell)) else []
    fields = {_FIELD_OF[name] for name in map(_plain, parts) if name in _FIELD_OF}
    return fields if len(fields) == 1 else set()


def _plain(name: str) -> str:
    """A column's name without what people write in different ways."""
    return re.sub(r"[\W_]+", "", re.sub(r"\([^()]*\)", "", name).casefold().translate(_UMLAUTS))


def _cells(cells: Sequence[str], places: Mapping[Field, int]) -> dict[Field, str]:
    return {one: cells[place].strip() for one, place in places.items() if place < len(cells)}


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────

_SPACES: Final = re.compile(r"[\s'’_]")
_NUMBER: Final = re.compile(r"[0-9][0-9.,]*|[.,][0-9]+")
_THOUSANDS: Final = re.compile(r"[0-9]{1,3}([.,][0-9]{3})*([.,][0-9]*)?|[0-9]+([.,][0-9]*)?|[.,][0-9]+")


def parse_amount(text: str, decimal: DecimalMark) -> tuple[Decimal, str | None]:
    """An amount as people write it, (1.234,56) or EUR 12- or £5, and the currency that it names. Raises ValueError."""
    joined = _SPACES.sub("", text.replace("−", "-"))
    found = _NUMBER.search(joined)
    if found is None:
        raise ValueError(f"{text!r} is no amount")
    before, after = joined[: found.start()], joined[found.end() :]
    signs = [sign for sign in ("-", "(", "CR") if sign in before + after.upper()]
    digits = found.group()
    if not _THOUSANDS.fullmatch(digits) or re.search(r"[0-9]", after):
        raise ValueError(f"{text!r} is no amount")
    mark, other = (",", ".") if decimal == "comma" else (".", ",")
    whole, _, part = digits.partition(mark)
    if mark in part or other in part:
        raise ValueError(f"{text!r} is no amount with a decimal {decimal}")
    value = Decimal(f"{whole.replace(other, '') or '0'}.{part or '0'}")
    letters = re.sub(r"CR$|[-+().]", "", before + after)
    return (-value if signs else value), _named_currency(letters, text)


def _named_currency(letters: str, text: str) -> str | None:
    if not letters or letters == "$":  # of several countries
        return None
    if letters in _SYMBOLS:
        return _SYMBOLS[letters]
    try:
        return currency_of(letters)
    except BadAmount:
        raise ValueError(f"{text!r} is no amount") from None


def _decimal_mark(rows: Iterable[_Row], currency: str | None) -> DecimalMark:
    """The mark that the amounts have. Raises BadExpenseFile where they disagree, or none of them decides (1)."""
    seen: dict[DecimalMark, tuple[int, str]] = {}
    unsure: tuple[int, str] | None = None
    for row in rows:
        text = _SPACES.sub("", row.cells.get("amount", ""))
        marks = [character for character in text if character in ".,"]
        if not marks:
            continue
        decides = (
            len(set(marks)) == 2
            or len(marks) > 1
            or not re.search(r"(?<![0-9.,])[1-9][0-9]{0,2}[.,][0-9]{3}\D*$", text)
        )
        is_thousands = len(set(marks)) == 1 and len(marks) > 1
        if not decides and _has_no_decimals(row, currency):
            decides = is_thousands = True
        mark = marks[-1] if not is_thousands else {",": ".", ".": ","}[marks[-1]]
        if decides:
            seen.setdefault("comma" if mark == "," else "point", (row.line, row.cells["amount"]))
        else:
            unsure = unsure or (row.line, row.cells["amount"])
    if len(seen) == 2:
        places = " and ".join(f"line {line} has {text!r}" for line, text in seen.values())
        raise BadExpenseFile([f"Amounts have decimal commas and decimal points: {places}."], "Correct the file.")
    if not seen and unsure is not None:
        raise BadExpenseFile(
            [f"line {unsure[0]}: {unsure[1]!r} can be read in two ways, and no other amount decides."],
            "Say it: --decimal comma, or --decimal point.",
        )
    return next(iter(seen), "point")


def _has_no_decimals(row: _Row, currency: str | None) -> bool:
    """Whether the amount is of a currency without decimals: ¥120,000."""
    told = row.cells.get("currency") or re.sub(r"[-+()0-9.,\s]", "", row.cells.get("amount", "")) or currency or ""
    return decimals_of(_SYMBOLS.get(told, told).upper()) == 0


# ── dates ────────────────────────────────────────────────────────────────────────────────────────

_YEAR_FIRST: Final = re.compile(r"([0-9]{4})[-/.]?([0-9]{2})[-/.]?([0-9]{2})([T ].*)?")
_YEAR_LAST: Final = re.compile(r"([0-9]{1,2})([-/. ])([0-9]{1,2})\2([0-9]{4}|[0-9]{2})(\s.*)?")


def parse_date(text: str, order: DateOrder) -> str:
    """A date as people write it, as 2025-06-16. Raises ValueError."""
    first = _YEAR_FIRST.fullmatch(text)
    last = _YEAR_LAST.fullmatch(text)
    if first:
        year, month, day = (int(part) for part in first.groups()[:3])
    elif last:
        one, mark, two = int(last[1]), last[2], int(last[3])
        day, month = (one, two) if order == "dmy" or mark == "." else (two, one)
        year = int(last[4]) + (2000 if len(last[4]) == 2 else 0)
    else:
        raise ValueError(f"{text!r} is no date, such as 2025-06-16 or 16.06.2025")
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        raise ValueError(f"{text!r} is no date, with the order {order}") from None


def _date_order(rows: Iterable[_Row], decimal: DecimalMark) -> DateOrder:
    """Whether the day or the month comes first. Raises BadExpenseFile where no date decides (1)."""
    unsure: tuple[int, str] | None = None
    for row in rows:
        found = _YEAR_LAST.fullmatch(row.cells.get("date", ""))
        if found is None or found[2] == ".":
            continue
        if int(found[1]) > 12:
            return "dmy"
        if int(found[3]) > 12:
            return "mdy"
        unsure = unsure or (row.line, row.cells["date"])
    if unsure is None or decimal == "comma":  # nobody who writes 1,50 writes the month first
        return "dmy"
    raise BadExpenseFile(
        [f"line {unsure[0]}: {unsure[1]!r} can be read in two ways, and no other date decides."],
        "Say it: --dates dmy (the day first), or --dates mdy.",
    )


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────


def _expense(row: _Row, options: FileOptions, decimal: DecimalMark, order: DateOrder) -> Expense:
    cell: Callable[[Field], str] = lambda one: row.cells.get(one, "")  # noqa: E731
    amount, named = parse_amount(cell("amount"), decimal)
    told = cell("currency")
    code = currency_of(_SYMBOLS.get(told, told)) if told else named or options.currency
    if code is None:
        sign = " ($ is that of several countries)" if "$" in cell("amount") else ""
        raise ValueError(f"it has no currency{sign}: give --currency {'USD' if sign else 'EUR'}")
    if not cell("date"):
        raise ValueError("it has no date")
    return expense_of(
        -amount if options.negate else amount,
        code,
        parse_date(cell("date"), order),
        **{one: cell(one) for one in FIELDS if one not in ("date", "amount", "currency")},
    )


def expense_of(amount: Decimal, currency: str, day: str, **texts: str) -> Expense:
    """An expense that was checked (3). Raises BadAmount, ValueError."""
    code = currency_of(currency)
    for name, text in texts.items():
        if len(text) > _TEXT_CHARACTERS:
            raise ValueError(f"the {name} has more than {_TEXT_CHARACTERS} characters")
    return Expense(major_units(minor_units(amount, code), code), code, day, **texts)
