"""One sheet, row by row: what is written is in the file, and not in memory.

1. Text is text: what begins with = + - @ (or a tab or return before them) is stored as text and marked so, and stays
   text when somebody edits it. No cell is a formula, and no text becomes a link.
2. A cell has at most 32,767 UTF-16 units; longer text is cut, and ends with "…".
3. Characters that XML cannot hold are replaced.
4. A sheet's name has 1 to 31 of them, none of [ ] : * ? / \\, no ' at its ends, and no other sheet has it.
5. On paper: landscape, as wide as the page, the heading on every page.
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Any, Final
from unicodedata import east_asian_width

from penstock.systems.excel_reports.book.columns import WHOLE, Column
from penstock.systems.excel_reports.book.pictures import Picture
from penstock.systems.excel_reports.book.totals import ColumnTotal
from penstock.systems.excel_reports.sources.source import Row

CELL_UNITS: Final = 32_767
NAME_UNITS: Final = 31
MOST_ROWS: Final = 1_048_575
"""Of a sheet, without its heading: Excel's limit. More go on in another sheet."""
FONT: Final = "Arial"
"""Named, and on every machine, or with a font of the same widths (Liberation Sans)."""
DARK: Final = "#1F4E5F"
PALE: Final = "#E8F0F2"
LINE: Final = "#D5DCDF"
_RED: Final = "#C0392B"
_A4: Final = 9
_HEADING_POINTS: Final = 30
_PICTURE_POINTS: Final = 54
_LINE_POINTS: Final = 13
_SMALL_LINE_POINTS: Final = 11
_MOST_LINES: Final = 20
"""That are shown of a cell; the cell has all of its text."""
_LETTERS_A_UNIT: Final = 1.1
"""Of a column's width, in Arial; an East Asian letter counts twice."""
_CHARACTER_PIXELS: Final = 7
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


class Styles:
    """The formats of a workbook, each made once."""

    def __init__(self, book: Any) -> None:
        self._book = book
        self._made: dict[tuple[tuple[str, Any], ...], Any] = {}

    def get(self, **properties: Any) -> Any:
        properties = {"font_name": FONT, "font_size": 10, "valign": "vcenter", **properties}
        key = tuple(sorted(properties.items()))
        if key not in self._made:
            self._made[key] = self._book.add_format(properties)
        return self._made[key]

    def cell(self, column: Column, **more: Any) -> Any:
        properties: dict[str, Any] = {"bottom": 4, "bottom_color": LINE, **more}
        if column.format != "General":
            properties.setdefault("num_format", column.format)
        properties.setdefault("align", column.align)
        if properties["align"] == "left":
            properties["indent"] = 1  # away from a number on its left
        if column.wraps or column.kind == "picture":
            properties["text_wrap"] = True
        return self.get(**properties)

    def heading(self, align: str = "left") -> Any:
        indent = 1 if align == "left" else 0
        return self.get(bold=True, font_color="#FFFFFF", bg_color=DARK, text_wrap=True, align=align, indent=indent)


def write_text(sheet: Any, row: int, column: int, text: str, style: Any, marked: Any) -> bool:
    """Writes text as text (1); `marked` is the style of what looks like a formula. Whether it was shortened."""
    held = cell_text(text)
    sheet.write_string(row, column, held, marked if looks_like_formula(held) else style)
    return held != text


def set_page(sheet: Any, footer: str) -> None:
    """How it is printed (5)."""
    sheet.set_landscape()
    sheet.set_paper(_A4)
    sheet.fit_to_pages(1, 0)
    sheet.set_margins(left=0.4, right=0.4, top=0.5, bottom=0.6)
    name = re.sub(r"[\x00-\x1f]", " ", footer)[:100].replace("&", "&&")
    sheet.set_footer(f"&L&8{' ' if name[:1].isdigit() else ''}{name} – &A&R&8&P / &N", {"scale_with_doc": False})


class SheetWriter:
    """Rows under a heading that stays in sight, with a filter over each column, and their total."""

    def __init__(self, sheet: Any, styles: Styles, columns: Sequence[Column], footer: str) -> None:
        self.rows = 0
        self.shortened = 0
        self.totals = [ColumnTotal(column) for column in columns]
        self._sheet = sheet
        self._columns = columns
        self._styles = styles
        self._plain = [styles.cell(column) for column in columns]
        self._marked = [styles.cell(column, quote_prefix=True) for column in columns]
        self._misfit = [styles.cell(column, quote_prefix=True, align="left") for column in columns]
        self._missing = styles.get(font_size=8, font_color="#6B7780", align="center", text_wrap=True, quote_prefix=True)
        set_page(sheet, footer)
        sheet.freeze_panes(1, 0)
        sheet.repeat_rows(0)
        sheet.set_row(0, _HEADING_POINTS)
        for place, column in enumerate(columns):
            sheet.set_column(place, place, column.width)
            write_text(sheet, 0, place, column.heading, *[styles.heading(column.align)] * 2)

    def append(self, row: Row, pictures: Mapping[str, Picture] | None = None) -> list[Any]:
        """Writes a row; the values of its cells. Without `pictures`, the cells of pictures stay empty."""
        self.rows += 1
        values = [column.value(row.get(column.field)) for column in self._columns]
        height = 0
        for place, value in enumerate(values):
            column = self._columns[place]
            self.totals[place].add(value)
            if value is not None and column.kind == "picture":
                height = max(height, self._write_picture(place, str(value), pictures))
            else:
                self._write(place, value)
                if column.wraps and isinstance(value, str):
                    height = max(height, _height(value, column.width, _LINE_POINTS))
        if height:  # LibreOffice does not fit a row to its text by itself
            self._sheet.set_row(self.rows, height)
        return values

    def _write_picture(self, place: int, name: str, pictures: Mapping[str, Picture] | None) -> int:
        """The height in points that the row needs for it, 0 for the usual one."""
        picture = None if pictures is None else pictures.get(name)
        if picture is None and pictures is not None:
            write_text(self._sheet, self.rows, place, name, self._missing, self._missing)
            return _height(name, self._columns[place].width, _SMALL_LINE_POINTS)
        self._write(place, None)
        if picture is None:
            return 0
        self._insert(place, picture)
        return _PICTURE_POINTS

    def _write(self, place: int, value: Any) -> None:
        sheet, row = self._sheet, self.rows
        if value is None:
            sheet.write_blank(row, place, None, self._plain[place])
        elif isinstance(value, str):
            style = self._plain[place] if self._columns[place].kind == "text" else self._misfit[place]
            self.shortened += write_text(sheet, row, place, value, style, self._marked[place])
        elif isinstance(value, bool):  # programs show Excel's own as TRUE, 1 or in another language
            sheet.write_string(row, place, "yes" if value else "no", self._plain[place])
        elif isinstance(value, date):
            sheet.write_datetime(row, place, value, self._plain[place])
        else:
            sheet.write_number(row, place, value, self._plain[place])

    def _insert(self, place: int, picture: Picture) -> None:
        """In the middle of its cell, moved and sized with it."""
        scale = picture.scale
        across = self._columns[place].width * _CHARACTER_PIXELS + 5
        options = {
            "image_data": io.BytesIO(picture.data),
            "x_scale": scale,
            "y_scale": scale,
            "x_offset": max(0, (across - picture.width * scale) / 2),
            "y_offset": max(0, (_PICTURE_POINTS * 96 / 72 - picture.height * scale) / 2),
            "object_position": 1,
            "decorative": True,
        }
        self._sheet.insert_image(self.rows, place, "picture.png", options)

    def end(self, *, totals: bool) -> None:
        """The filter, the highlights, and with `totals` the last row."""
        last = max(1, self.rows)
        self._sheet.autofilter(0, 0, last, len(self._columns) - 1)
        for place, column in enumerate(self._columns):
            for rule in _rules(column, self._styles, f"{_letters(place)}2"):
                self._sheet.conditional_format(1, place, last, place, rule)
        if totals and self.rows > 1 and any(one.value is not None for one in self.totals):
            self._write_totals()

    def _write_totals(self) -> None:
        row = self.rows + 1
        bold = {"bold": True, "top": 1, "top_color": DARK, "bg_color": PALE, "bottom": 0}
        free = (place for place, one in enumerate(self.totals) if one.value is None and one.column.kind != "picture")
        label = next(free, None)
        for place, total in enumerate(self.totals):
            value = total.value
            if value is not None:
                style = self._styles.cell(total.column, **bold, num_format=total_format(total.column))
                self._sheet.write_number(row, place, value, style)
            elif place == label:
                self._sheet.write_string(row, place, "Total", self._styles.get(**bold, indent=1))
            else:
                self._sheet.write_blank(row, place, None, self._styles.get(**bold))


def _height(text: str, width: float, line_points: int) -> int:
    """In points, of a cell whose text is broken into lines; 0 for a single line."""
    room = max(1, int(width * _LETTERS_A_UNIT))
    if len(text) * 2 <= room and "\n" not in text:
        return 0
    lines = 0
    for line in text[: room * _MOST_LINES].split("\n"):
        letters = sum(2 if east_asian_width(letter) in "WF" else 1 for letter in line)
        lines += max(1, -(-letters // room))
    return min(lines, _MOST_LINES) * line_points + 3 if lines > 1 else 0


def total_format(column: Column) -> str:
    """The column's own format, with a sign where the total is no sum: under `Total` an average would be misread."""
    if column.total == "count":
        return '#,##0" yes"' if column.kind == "flag" else '"n = "#,##0'
    sign = {"average": "Ø", "min": "min", "max": "max"}.get(column.total)
    style = column.format
    if column.total == "average" and style == WHOLE:
        style = "#,##0.0;[Red]-#,##0.0"
    if sign is None or style == "General":
        return style
    parts = [f'"{sign} "{part}' for part in style.replace("[Red]", "").split(";")]
    return ";".join(parts)


_NEGATIVE_BAR: Final = {"data_bar_2010": True, "bar_negative_color": "#F2B8B0", "bar_axis_color": LINE}


def _letters(place: int) -> str:
    """`A`, `Z`, `AA`: a column as formulas of conditional formats name it."""
    before, letter = divmod(place, 26)
    return (_letters(before - 1) if before else "") + chr(ord("A") + letter)


def _rules(column: Column, styles: Styles, cell: str) -> list[dict[str, Any]]:
    if column.kind != "number":
        return []
    rules: list[dict[str, Any]] = []
    if column.highlight == "bar":
        rules.append({"type": "data_bar", "bar_solid": True, "bar_color": "#A9CCD9", **_NEGATIVE_BAR})
    elif column.highlight == "scale":
        colours = {"min_color": "#F6C9C3", "mid_color": "#FFFFFF", "max_color": "#BFE3C8"}
        rules.append({"type": "3_color_scale", **colours})
    alarm = styles.get(font_color=_RED, bg_color="#FBE9E7", bold=True)
    for sign, limit in (("<", column.below), (">", column.above)):
        if limit is not None:  # an empty cell is not below anything
            rules.append(
                {"type": "formula", "criteria": f"=AND(ISNUMBER({cell}),{cell}{sign}{limit!r})", "format": alarm}
            )
    return rules
