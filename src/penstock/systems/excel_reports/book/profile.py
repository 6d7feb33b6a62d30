"""What is in the columns of a dataset: counted row by row, in memory that does not grow with the rows.

The counts say what a column is (columns.py decides). They are stored with the rows' checkpoint, as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from penstock.systems.excel_reports.book.values import (
    BLANK_WORDS,
    DIGITS,
    NO,
    PICTURES,
    YES,
    fits_excel,
    has_zone,
    is_decimal,
    number_parts,
    parse_day,
    parse_moment,
    slashed_day,
)
from penstock.systems.excel_reports.sources.source import MOST_COLUMNS, Row

MOST_DISTINCT: Final = 40
"""Values of a column that are told apart: one with more is no grouping."""
_DISTINCT_CHARACTERS: Final = 60
_NUMBER_STARTS: Final = frozenset("0123456789-−(€$£¥₹EUGC")


@dataclass(slots=True)
class ColumnProfile:
    """Counts of a column's cells. `shapes` are how often a cell could be read as what."""

    cells: int = 0
    """That are not empty."""
    shapes: dict[str, int] = field(default_factory=dict)
    longest: int = 0
    characters: int = 0
    decimals: int = 0
    """The most digits after the decimal mark."""
    low: float | None = None
    high: float | None = None
    distinct: list[str] = field(default_factory=list)
    units: list[str] = field(default_factory=list)
    """Currencies."""
    slashes: list[int] = field(default_factory=lambda: [0, 0])
    """The highest first and second number of days such as 31/12/2025."""

    def shape(self, *names: str) -> int:
        return sum(self.shapes.get(name, 0) for name in names)

    def add(self, value: Any) -> None:
        if value is None or value == "" or value != value:  # not a number: what pandas has in empty cells
            return
        self.cells += 1
        if value is True or value is False:
            self._count("flag")
            self._note_distinct("yes" if value else "no")
            self._note_length(3)
        elif isinstance(value, int | float):
            self._add_number(value)
        else:
            self._add_text(str(value))

    def _add_number(self, value: float) -> None:
        if not fits_excel(value):
            self._count("text")
            self._note_length(DIGITS + 3)
            return
        self._count("number")
        if isinstance(value, float):
            self._note_decimals(repr(value))
        self._note_range(value)
        self._note_distinct(str(value))
        self._note_length(len(f"{value:,.2f}") if isinstance(value, float) else len(f"{value:,}"))

    def _add_text(self, value: str) -> None:
        text = value.strip()
        lower = text.casefold() if len(text) < 10 else text
        self._note_length(len(text))
        self._note_distinct(text)
        if lower in BLANK_WORDS:
            self._count("blank")
        elif lower in YES or lower in NO:
            self._count("flag")
        elif lower.endswith(PICTURES) or text[-5:].lower().endswith(PICTURES):
            self._count("picture")
        elif text[0] not in _NUMBER_STARTS or not self._add_figures(text):
            self._count("text")

    def _add_figures(self, text: str) -> bool:
        """Whether the text is a number, a day or a time."""
        if len(text) <= 10 and parse_day(text) is not None:
            self._count("day")
            return True
        if len(text) >= 16 and parse_moment(text) is not None:
            self._count("moment")
            if has_zone(text):
                self._count("zone")
            return True
        slashed = slashed_day(text)
        if slashed is not None:
            self._count("slashed")
            self.slashes = [max(old, new) for old, new in zip(self.slashes, slashed, strict=True)]
            return True
        return self._add_number_text(text)

    def _add_number_text(self, text: str) -> bool:
        parts = number_parts(text)
        if parts is None:
            return False
        body, _, unit = parts
        marks = [mark for mark in ".," if is_decimal(body, mark)]
        for mark in marks:
            self._count(f"decimal{mark}")
            if mark in body:
                self._note_decimals(body, mark)
        if not marks:
            return False
        self._count("number")
        if unit == "%":
            self._count("percent")
        elif unit and unit not in self.units:
            self.units.append(unit)
        if body.isdigit():
            self._note_range(int(body))
        else:
            self._count("fraction")
        return True

    def _count(self, shape: str) -> None:
        self.shapes[shape] = self.shapes.get(shape, 0) + 1

    def _note_length(self, length: int) -> None:
        self.characters += length
        self.longest = max(self.longest, length)

    def _note_decimals(self, text: str, mark: str = ".") -> None:
        digits = 0 if "e" in text else len(text.rpartition(mark)[2].rstrip("0") if mark in text else "")
        self.decimals = max(self.decimals, digits)

    def _note_range(self, value: float) -> None:
        self.low = value if self.low is None else min(self.low, value)
        self.high = value if self.high is None else max(self.high, value)

    def _note_distinct(self, text: str) -> None:
        if len(self.distinct) <= MOST_DISTINCT and text not in self.distinct:
            self.distinct.append(text[:_DISTINCT_CHARACTERS])


@dataclass(slots=True)
class Profile:
    """Of a dataset: its rows, and its columns in the order in which they first came."""

    rows: int = 0
    columns: dict[str, ColumnProfile] = field(default_factory=dict)
    left_out: int = 0
    """Cells of columns beyond the limit."""

    def add(self, row: Mapping[str, Any]) -> None:
        self.rows += 1
        columns = self.columns
        for name, value in row.items():
            column = columns.get(name)
            if column is None:
                if len(columns) == MOST_COLUMNS:
                    self.left_out += 1
                    continue
                column = columns[name] = ColumnProfile()
            column.add(value)

    def counted(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows, each of which is counted as it passes."""
        for row in rows:
            self.add(row)
            yield row

    def form(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_form(cls, form: Mapping[str, Any]) -> Profile:
        columns = {name: ColumnProfile(**column) for name, column in form["columns"].items()}
        return cls(int(form["rows"]), columns, int(form["left_out"]))
