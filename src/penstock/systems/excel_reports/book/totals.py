"""What is counted while rows are written: totals, groups for charts, and notes on what is not as it should be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

from penstock.systems.excel_reports.book.columns import Column

MOST_NOTES: Final = 40
_NOTE_CHARACTERS: Final = 250
_SHOWN: Final = 3
"""Examples in a note."""
MOST_BARS: Final = 12
_MOST_GROUPS: Final = 2_000
"""That are told apart: the rest is one group."""
_MOST_PERIODS: Final = 24
"""Of a chart: more months are quarters, and more quarters are years."""
_MOST_YEARS: Final = 50
Bar = tuple[str, int, float]
"""Label, rows, sum."""
OTHERS: Final = "Others"
EMPTY: Final = "(empty)"


@dataclass(slots=True)
class ColumnTotal:
    """One column's numbers."""

    column: Column
    cells: int = 0
    empty: int = 0
    misfits: int = 0
    examples: list[str] = field(default_factory=list)
    sum: float = 0
    low: float | None = None
    high: float | None = None

    def add(self, value: Any) -> None:
        if value is None:
            self.empty += 1
            return
        if not self.column.fits(value):
            self.misfits += 1
            if len(self.examples) < _SHOWN and value not in self.examples:
                self.examples.append(str(value)[:40])
            return
        self.cells += 1
        if self.column.kind == "number":
            self.sum += value
            self.low = value if self.low is None else min(self.low, value)
            self.high = value if self.high is None else max(self.high, value)
        elif self.column.kind == "flag":
            self.sum += value

    @property
    def value(self) -> float | None:
        """The column's total; None where it has none."""
        match self.column.total:
            case "none":
                return None
            case "count":
                return self.sum if self.column.kind == "flag" else self.cells
            case "sum":
                return _rounded(self.sum)
            case "average":
                return None if not self.cells else self.sum / self.cells
            case "min":
                return self.low
            case "max":
                return self.high

    def notes(self) -> Iterable[str]:
        heading = self.column.heading
        if self.misfits:
            kinds = {"number": "no number", "day": "no day", "moment": "no time", "flag": "neither yes nor no"}
            shown = ", ".join(f"“{one}”" for one in self.examples)
            kept = f"{kinds.get(self.column.kind, 'text')} ({shown}) and stay text"
            yield f"{heading}: {count(self.misfits, 'cell is', 'cells are')} {kept}"
        if self.empty and self.cells and self.column.kind == "number" and self.column.total in ("sum", "average"):
            yield f"{heading}: {count(self.empty, 'cell is', 'cells are')} empty and not in the total"


def count(number: int, one: str, more: str) -> str:
    return f"{number:,} {one if number == 1 else more}"


def pictures_note(missing: Mapping[str, str], wanted: int) -> str:
    """`1 of 3 pictures is missing: bread.jpg (is not in the folder).`"""
    shown = ", ".join(f"{name} ({reason})" for name, reason in list(missing.items())[:_SHOWN])
    more = " and others" if len(missing) > _SHOWN else ""
    be = "is" if len(missing) == 1 else "are"
    return f"{len(missing):,} of {count(wanted, 'picture', 'pictures')} {be} missing: {shown}{more}."


def _rounded(value: float) -> float:
    return value if isinstance(value, int) else round(value, 6)


class Groups:
    """Rows and a sum for each value of a column; for each month where it is of days."""

    def __init__(self, by: Column, value: Column | None) -> None:
        self.by = by
        self.value = value
        self.is_time = by.kind in ("day", "moment")
        self._found: dict[str, list[float]] = {}

    def add(self, key: Any, number: Any) -> None:
        if self.is_time:
            if not isinstance(key, date):
                return
            label = f"{key.year:04d}-{key.month:02d}"
        else:
            label = EMPTY if key is None else "yes" if key is True else "no" if key is False else str(key)
        found = self._found.get(label)
        if found is None:
            if len(self._found) >= _MOST_GROUPS:
                label = OTHERS
            found = self._found.setdefault(label, [0, 0])
        found[0] += 1
        if isinstance(number, int | float):
            found[1] += number

    def bars(self) -> list[Bar]:
        """Label, rows, sum: periods in their order, others from high to low with the small ones together."""
        if self.is_time:
            return self._periods()
        place = 0 if self.value is None else 1
        kept = sorted(self._found.items(), key=lambda one: (one[0] == OTHERS, -one[1][place], one[0]))
        bars = [(label, int(rows), _rounded(total)) for label, (rows, total) in kept]
        if len(bars) <= MOST_BARS:
            return bars
        rest = bars[MOST_BARS - 1 :]
        return [*bars[: MOST_BARS - 1], (OTHERS, sum(one[1] for one in rest), _rounded(sum(one[2] for one in rest)))]

    def _periods(self) -> list[Bar]:
        """Months; quarters, or years, where there would be too many."""
        if not self._found:
            return []
        months = [_month_number(label) for label in self._found]
        first, last = min(months), max(months)
        size = next((size for size in (1, 3) if (last - first) // size < _MOST_PERIODS), 12)
        bars: dict[str, list[float]] = {}
        for month in range(first, last + 1) if size < 12 else sorted(months):
            bars.setdefault(_period_label(month, size), [0, 0])
        for label, (rows, total) in self._found.items():
            bar = bars[_period_label(_month_number(label), size)]
            bar[0] += rows
            bar[1] += total
        return [(label, int(rows), _rounded(total)) for label, (rows, total) in bars.items()][-_MOST_YEARS:]


def _month_number(label: str) -> int:
    return int(label[:4]) * 12 + int(label[5:7]) - 1


def _period_label(month: int, size: int) -> str:
    """`2026-03`, `2026 Q1` or `2026`: a period of so many months."""
    year = f"{month // 12:04d}"
    return year if size == 12 else f"{year}-{month % 12 + 1:02d}" if size == 1 else f"{year} Q{month % 12 // 3 + 1}"


@dataclass(slots=True)
class Statistics:
    """What went into a report."""

    rows: dict[str, int] = field(default_factory=dict)
    """Of each sheet that has rows of its own."""
    images: int = 0
    missing_images: int = 0
    sheets: int = 0
    shortened: int = 0
    """Cells whose text was too long."""
    totals: dict[str, float] = field(default_factory=dict)
    """Of the columns that the template names a statistic for."""
    notes: list[str] = field(default_factory=list)
    figures: list[tuple[str, float, str]] = field(default_factory=list)
    """Of the cover: label, value, format."""

    def note(self, text: str) -> None:
        if len(self.notes) < MOST_NOTES:
            self.notes.append(text if len(text) <= _NOTE_CHARACTERS else text[: _NOTE_CHARACTERS - 1] + "…")
        elif len(self.notes) == MOST_NOTES:
            self.notes.append("There are more notes than these.")

    def form(self) -> dict[str, Any]:
        """As it is stored with the job."""
        shown = list(self.rows.items())[:_MOST_SHEETS_TOLD]
        form: dict[str, Any] = {f"total{_camel(name)}": rows for name, rows in shown}
        form["totalImages"] = self.images
        form["totalSheets"] = self.sheets
        for name, value in self.totals.items():
            form[name] = round(value, 2) if isinstance(value, float) else value
        form["shortenedCells"] = self.shortened
        if self.missing_images:
            form["missingImages"] = self.missing_images
        if self.notes:
            form["notes"] = list(self.notes)
        return form


_MOST_SHEETS_TOLD: Final = 30


def _camel(name: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[\W_]+", name) if word) or "Rows"
