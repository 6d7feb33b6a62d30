"""The report itself: an .xlsx file of several sheets, written row by row, so that memory does not grow with it.

1. Text is text: what begins with = + - @ (or a tab or return before them) is stored as text and marked so, and stays
   text when somebody edits it.
2. A cell has at most 32,767 UTF-16 units; longer text is cut, and ends with "…".
3. Characters that XML cannot hold are replaced.
4. A sheet's name has 1 to 31 of them, none of [ ] : * ? / \\, no ' at its ends, and no other sheet has it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

from penstock.extras import extra
from penstock.systems.excel_reports.project import Row, size_of

with extra("systems", "An Excel report"):
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.drawing.image import Image
    from openpyxl.styles import Alignment, Font, PatternFill
    from openpyxl.utils import get_column_letter

CELL_UNITS: Final = 32_767
NAME_UNITS: Final = 31
_FORMULA: Final = re.compile(r"\s*[=+\-@]")
_ILLEGAL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_NOT_IN_NAMES: Final = re.compile(r"[\[\]:*?/\\\x00-\x1f]")


def looks_like_formula(text: str) -> bool:
    return _FORMULA.match(text) is not None


def cell_text(text: str) -> str:
    """The text as a cell can hold it (2, 3)."""
    return _cut(_ILLEGAL.sub("\ufffd", text), CELL_UNITS)


def sheet_name(wanted: str, taken: Collection[str] = ()) -> str:
    """A name like the wanted one that a sheet may have (4)."""
    name = _ILLEGAL.sub("", _NOT_IN_NAMES.sub("-", wanted)).strip().strip("'") or "Sheet"
    others = {one.casefold() for one in taken} | {"history"}  # Excel keeps that one for itself
    found, number = _cut(name, NAME_UNITS), 1
    while found.casefold() in others:
        number += 1
        ending = f" ({number})"
        found = _cut(name, NAME_UNITS - len(ending)) + ending
    return found


def _cut(text: str, units: int) -> str:
    if len(text) * 2 <= units or _units(text) <= units:
        return text
    kept = text.encode("utf-16-le")[: (units - 1) * 2]
    return kept.decode("utf-16-le", "ignore") + "…"  # half a pair is left out


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


DAY: Final = "yyyy-mm-dd"
MOMENT: Final = "yyyy-mm-dd hh:mm"
MONEY: Final = "#,##0.00"
WHOLE: Final = "#,##0"
_PICTURE_POINTS: Final = 40
_HEADER: Final = {
    "font": Font(bold=True, color="FFFFFF"),
    "fill": PatternFill("solid", start_color="1F4E5F"),
    "alignment": Alignment(vertical="center"),
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a sheet: a member of its rows, its heading, its format and its width in characters."""

    member: str
    heading: str
    width: int
    format: str = "General"


PRODUCTS: Final = (
    Column("productId", "Product", 11),
    Column("sku", "SKU", 11),
    Column("name", "Name", 30),
    Column("category", "Category", 19),
    Column("price", "Price (€)", 11, MONEY),
    Column("stock", "Stock", 9, WHOLE),
    Column("rating", "Rating", 8, "0.0"),
    Column("launchedAt", "Launched", 12, DAY),
    Column("note", "Note", 32),
)
USERS: Final = (
    Column("userId", "User", 11),
    Column("name", "Name", 22),
    Column("email", "E-mail", 34),
    Column("role", "Role", 11),
    Column("country", "Country", 9),
    Column("joinedAt", "Joined", 12, DAY),
    Column("lastSeenAt", "Last seen", 17, MOMENT),
    Column("reviews", "Reviews", 9, WHOLE),
    Column("isActive", "Active", 8),
)
_PICTURE: Final = Column("", "Picture", 9)


@dataclass(slots=True)
class Statistics:
    """What went into a report."""

    products: int = 0
    users: int = 0
    images: int = 0
    sheets: int = 0
    shortened: int = 0
    """Cells whose text was too long."""
    stock: int = 0
    value: float = 0.0
    """Of the stock, at its prices."""
    active_users: int = 0
    categories: dict[str, list[float]] = field(default_factory=dict)
    """By name: products, stock, value."""

    def form(self) -> dict[str, Any]:
        return {
            "totalProducts": self.products,
            "totalUsers": self.users,
            "activeUsers": self.active_users,
            "totalImages": self.images,
            "totalSheets": self.sheets,
            "totalStock": self.stock,
            "stockValue": round(self.value, 2),
            "shortenedCells": self.shortened,
        }


class ReportBook:
    """A report while it is written: products, users, pictures, and last the summary."""

    def __init__(self, title: str, *, by_category: bool = False) -> None:
        self.statistics = Statistics()
        self._title = title
        self._by_category = by_category
        self._book = Workbook(write_only=True)
        self._sheets: dict[str, _Sheet] = {}
        self._book.properties.title = cell_text(title)
        self._book.properties.creator = "Penstock"

    def add_products(self, rows: Iterable[Row], pictures: int) -> None:
        """The first so many of them have room for a picture."""
        columns = (_PICTURE, *PRODUCTS) if pictures else PRODUCTS
        sheet = self._sheet("Products", columns)
        for place, row in enumerate(rows):
            sheet.append(row, _PICTURE_POINTS if place < pictures else None)
            self._count_product(row)
            if self._by_category:
                self._category_sheet(row["category"]).append(row)
        sheet.end()

    def add_users(self, rows: Iterable[Row]) -> None:
        sheet = self._sheet("Users", USERS)
        for row in rows:
            sheet.append(row)
            self.statistics.users += 1
            self.statistics.active_users += bool(row["isActive"])
        sheet.end()

    def add_picture(self, place: int, png: bytes) -> None:
        """Beside the product of this place, from 0 on."""
        self._sheets["Products"].add_picture(place, png)
        self.statistics.images += 1

    def save(self, path: Path) -> Statistics:
        """Writes the summary, then the file."""
        for sheet in self._sheets.values():
            sheet.end()
        self.statistics.sheets = len(self._sheets) + 1
        self.statistics.shortened = sum(sheet.shortened for sheet in self._sheets.values())
        self._write_summary()
        self._book.save(path)
        return self.statistics

    def _category_sheet(self, category: str) -> _Sheet:
        wanted = f"in {category}"
        found = self._sheets.get(wanted)
        return self._sheet(wanted, PRODUCTS) if found is None else found

    def _sheet(self, wanted: str, columns: tuple[Column, ...]) -> _Sheet:
        titles = [sheet.title for sheet in self._book.worksheets]
        sheet = _Sheet(self._book.create_sheet(sheet_name(wanted, [*titles, "Summary"])), columns)
        self._sheets[wanted] = sheet
        return sheet

    def _count_product(self, row: Row) -> None:
        statistics, value = self.statistics, row["price"] * row["stock"]
        statistics.products += 1
        statistics.stock += row["stock"]
        statistics.value += value
        counts = statistics.categories.setdefault(row["category"], [0, 0, 0.0])
        counts[0] += 1
        counts[1] += row["stock"]
        counts[2] += value

    def _write_summary(self) -> None:
        """Values, not formulas: they are right in every program, and in a preview."""
        sheet = self._book.create_sheet("Summary", 0)
        for letter, width in zip("ABCD", (24, 14, 14, 16), strict=True):
            sheet.column_dimensions[letter].width = width
        heading = _text_cell(sheet, cell_text(self._title))
        heading.font = Font(bold=True, size=14)
        sheet.append([heading])
        sheet.append([])
        for name, value in self.statistics.form().items():
            sheet.append([_words(name), _number_cell(sheet, value)])
        sheet.append([])
        sheet.append([_header_cell(sheet, text) for text in ("Category", "Products", "Stock", "Value (€)")])
        for name, counts in sorted(self.statistics.categories.items()):
            numbers = (int(counts[0]), int(counts[1]), round(counts[2], 2))
            sheet.append([_text_cell(sheet, cell_text(name)), *(_number_cell(sheet, value) for value in numbers)])


class _Sheet:
    """A sheet of rows under a heading that stays in sight, with a filter over each column."""

    def __init__(self, sheet: Any, columns: tuple[Column, ...]) -> None:
        self.shortened = 0
        self._sheet = sheet
        self._columns = columns
        self._rows = 1
        self._cells = [_format(sheet, column) for column in columns]
        # A cell's style is shared once it has been written: what is marked as text has cells of its own.
        self._marked = [_format(sheet, column, marked=True) for column in columns]
        # All of this stands before the rows in the file, and so must be said before the first.
        sheet.freeze_panes = "A2"
        sheet.print_title_rows = "1:1"
        for place, column in enumerate(columns, start=1):
            sheet.column_dimensions[get_column_letter(place)].width = column.width
        sheet.append([_header_cell(sheet, column.heading) for column in columns])

    def append(self, row: Row, height: float | None = None) -> None:
        self._rows += 1
        if height is not None:
            self._sheet.row_dimensions[self._rows].height = height
        # The row is in the file when `append` returns: its cells are used again for the next one.
        self._sheet.append([self._fill(place, row.get(column.member)) for place, column in enumerate(self._columns)])

    def _fill(self, place: int, value: Any) -> Any:
        style = self._columns[place].format
        if isinstance(value, str) and style in (DAY, MOMENT):
            value = date.fromisoformat(value) if style == DAY else datetime.fromisoformat(value)
        if isinstance(value, str):
            return self._text(place, value)
        cell = self._cells[place]
        cell.value = value
        if isinstance(value, date):
            cell.number_format = style  # a date brings a format of its own
        return cell

    def _text(self, place: int, value: str) -> Any:
        text = cell_text(value)
        self.shortened += text != value
        cell = (self._marked if looks_like_formula(text) else self._cells)[place]
        cell.value = text
        cell.data_type = "s"
        return cell

    def add_picture(self, place: int, png: bytes) -> None:
        self._sheet.add_image(Picture(png), f"A{place + 2}")

    def end(self) -> None:
        self._sheet.auto_filter.ref = f"A1:{get_column_letter(len(self._columns))}{self._rows}"


class Picture(Image):  # type: ignore[misc]  # openpyxl has no types
    """A PNG. openpyxl's own class needs an imaging library, only to learn the size."""

    def __init__(self, png: bytes) -> None:
        self.ref = None
        self.format = "png"
        self.width, self.height = size_of(png)
        self._png = png

    def _data(self) -> bytes:
        return self._png


def _format(sheet: Any, column: Column, *, marked: bool = False) -> Any:
    cell = WriteOnlyCell(sheet)
    cell.number_format = column.format
    cell.alignment = Alignment(vertical="center")
    cell.quotePrefix = marked
    return cell


def _header_cell(sheet: Any, text: str) -> Any:
    cell = _text_cell(sheet, text)
    for name, style in _HEADER.items():
        setattr(cell, name, style)
    return cell


def _text_cell(sheet: Any, text: str) -> Any:
    cell = WriteOnlyCell(sheet, text)
    cell.data_type = "s"
    cell.quotePrefix = looks_like_formula(text)
    return cell


def _number_cell(sheet: Any, value: float) -> Any:
    cell = WriteOnlyCell(sheet, value)
    cell.number_format = MONEY if isinstance(value, float) else WHOLE
    return cell


def _words(name: str) -> str:
    """`totalProducts` as people write it."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).capitalize()
