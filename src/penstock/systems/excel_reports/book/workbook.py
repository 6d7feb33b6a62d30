"""The report itself: an .xlsx file of several sheets, written row by row, so that memory does not grow with it.

The cover comes first in the file and is written last: title, key figures, notes, and charts beside their figures.
Everything on it is a value, not a formula: it is right in every program, and in a preview.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from penstock.extras import extra
from penstock.systems.excel_reports.book.columns import WHOLE, Column
from penstock.systems.excel_reports.book.pictures import Picture
from penstock.systems.excel_reports.book.sheet import (
    DARK,
    FONT,
    LINE,
    MOST_ROWS,
    PALE,
    SheetWriter,
    Styles,
    cell_text,
    set_page,
    sheet_name,
    total_format,
    write_text,
)
from penstock.systems.excel_reports.book.template import ChartKind, ChartTemplate
from penstock.systems.excel_reports.book.totals import Bar, ColumnTotal, Groups, Statistics
from penstock.systems.excel_reports.sources.source import Row

with extra("systems", "An Excel report"):
    import xlsxwriter

COVER: Final = "Summary"
MOST_SPLITS: Final = 50
"""Further sheets of one sheet, for the values of a column."""
_MOST_CHARTS: Final = 12
_CHART_ROWS: Final = 16
_CHART_COLUMNS: Final = 8
_ROW_PIXELS: Final = 20
_CHART_PIXELS: Final = 500
_PAGE_ROWS: Final = 70
"""Of a cover that is printed on one page; a longer one would be too small to read."""
_FIRST_NOTES: Final = 10
"""Above everything else: more would push the charts off the page."""
_BAR: Final = "#3E7C93"
_PIE: Final = ("#1F4E5F", "#3E7C93", "#7FB3C3", "#C9A35B", "#8C6D46", "#B5BDC1", "#6B8E6E", "#A65D57")


@dataclass(frozen=True, slots=True)
class SheetPlan:
    """What a sheet is to be: its name, columns, and what is made of its rows beside."""

    name: str
    columns: tuple[Column, ...]
    split: str = ""
    totals: bool = True
    charts: tuple[ChartTemplate, ...] = ()
    beside: tuple[Column, ...] = ()
    """Fields of charts that are no columns of the sheet."""


@dataclass(frozen=True, slots=True)
class _Chart:
    title: str
    groups: Groups
    kind: ChartKind


class ReportBook:
    """A report while it is written: its sheets in their order, and last the cover."""

    def __init__(self, path: Path, title: str, *, subtitle: str = "", made_at: float = 0.0) -> None:
        self.statistics = Statistics()
        self._title = title
        self._subtitle = subtitle
        # Inline text and one row in memory; no text becomes a formula or a link, and no number that is none an error.
        options = {"constant_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
        self._book = xlsxwriter.Workbook(str(path), options)
        self._styles = Styles(self._book)
        made = datetime.fromtimestamp(made_at, UTC).replace(tzinfo=None)
        self._book.set_properties({"title": cell_text(title)[:250], "author": "Penstock", "created": made})
        self._cover = self._book.add_worksheet(COVER)
        self._names = [COVER]
        self._charts: list[_Chart] = []

    def add_sheet(
        self, plan: SheetPlan, rows: Iterable[Row], pictures: Mapping[str, Picture] | None = None, illustrated: int = 0
    ) -> None:
        """Writes a sheet of these rows; the first so many, `illustrated`, show their pictures."""
        charts = self._new_charts(plan)
        writer = first = self._writer(plan.name, plan.columns)
        splits: dict[str, SheetWriter] = {}
        fields = [column.field for column in (*plan.columns, *plan.beside)]
        done = 0
        for row in rows:
            if writer.rows == MOST_ROWS:
                writer.end(totals=False)
                writer = self._continued(plan, writer)
            values = writer.append(row, pictures if done < illustrated else None)
            done += 1
            if charts:
                found = dict(
                    zip(fields, (*values, *(one.value(row.get(one.field)) for one in plan.beside)), strict=True)
                )
            for chart in charts:
                value = chart.groups.value
                chart.groups.add(found[chart.groups.by.field], None if value is None else found[value.field])
            if plan.split:
                self._append_to_split(plan, splits, row)
        for one in (writer, *splits.values()):
            one.end(totals=plan.totals)
        self._end_sheet(plan, writer, done)
        self.statistics.shortened += sum(one.shortened for one in {id(w): w for w in (first, writer)}.values())

    def note(self, text: str) -> None:
        self.statistics.note(text)

    def save(self) -> Statistics:
        """Writes the cover, then the file."""
        self.statistics.sheets = len(self._names)
        self._write_cover()
        self._book.close()
        return self.statistics

    # ── sheets ───────────────────────────────────────────────────────────────────────────────────

    def _writer(self, wanted: str, columns: Sequence[Column]) -> SheetWriter:
        name = sheet_name(wanted, self._names)
        self._names.append(name)
        return SheetWriter(self._book.add_worksheet(name), self._styles, columns, self._title)

    def _continued(self, plan: SheetPlan, full: SheetWriter) -> SheetWriter:
        """Excel's sheets end: the next one goes on counting."""
        writer = self._writer(plan.name, plan.columns)
        writer.totals = full.totals
        writer.shortened = full.shortened
        return writer

    def _append_to_split(self, plan: SheetPlan, splits: dict[str, SheetWriter], row: Row) -> None:
        value = row.get(plan.split)
        key = "(empty)" if value is None or value == "" else str(value)
        writer = splits.get(key)
        if writer is None:
            if len(splits) == MOST_SPLITS:
                return
            if len(splits) == MOST_SPLITS - 1:
                self.note(f"{plan.name}: only {MOST_SPLITS} values of {plan.split} have a sheet of their own.")
            columns = tuple(column for column in plan.columns if column.kind != "picture")
            splits[key] = writer = self._writer(f"in {key}", columns)
        writer.append(row)

    def _end_sheet(self, plan: SheetPlan, writer: SheetWriter, rows: int) -> None:
        self.statistics.rows[plan.name] = rows
        self.statistics.figures.append((f"{plan.name}: rows", rows, WHOLE))
        if not rows:
            self.note(f"{plan.name}: the source has no rows.")
        for total in writer.totals:
            for text in total.notes():
                self.note(f"{plan.name}, {text}.")
            value = total.value
            if value is not None and total.column.total in ("sum", "count", "average"):
                figure = (f"{plan.name}: {total.column.heading}", value, total_format(total.column))
                self.statistics.figures.append(figure)
            if total.column.statistic:
                self.statistics.totals[total.column.statistic] = total.value or 0
            if rows and total.empty == rows and plan.totals and total.column.field:
                self._note_empty(plan, total)

    def _note_empty(self, plan: SheetPlan, total: ColumnTotal) -> None:
        self.note(f"{plan.name}, {total.column.heading}: no row has a {total.column.field}.")

    def _new_charts(self, plan: SheetPlan) -> list[_Chart]:
        found: list[_Chart] = []
        columns = {column.field: column for column in (*plan.columns, *plan.beside)}
        for one in plan.charts:
            if len(self._charts) == _MOST_CHARTS:
                break
            by, value = columns.get(one.by), columns.get(one.value)
            if by is None or (one.value and value is None):
                self.note(f"{plan.name}: there is no chart of {one.value or 'rows'} by {one.by}, which no row has.")
                continue
            groups = Groups(by, value if value is not None and value.kind == "number" else None)
            what = plan.name if groups.value is None else groups.value.heading
            title = one.title or (f"{what} over time ({by.heading})" if groups.is_time else f"{what} by {by.heading}")
            kind = one.kind or ("column" if groups.is_time else "bar")
            chart = _Chart(title, groups, kind)
            found.append(chart)
            self._charts.append(chart)
        return found

    # ── the cover ────────────────────────────────────────────────────────────────────────────────

    def _write_cover(self) -> None:
        """Notes above; below them the figures on the left, and the charts in two columns beside."""
        sheet, styles = self._cover, self._styles
        set_page(sheet, self._title)
        sheet.hide_gridlines(2)
        sheet.set_column(0, 0, 30)
        sheet.set_column(1, 2, 15)
        sheet.set_column(3, 3, 3)
        sheet.set_row(0, 34)
        big = {"bold": True, "font_size": 20, "font_color": DARK}
        write_text(sheet, 0, 0, self._title, styles.get(**big), styles.get(**big, quote_prefix=True))
        grey = styles.get(font_color="#6B7780")
        write_text(sheet, 1, 0, self._subtitle, grey, grey)
        notes = self.statistics.notes
        top = self._write_notes(3, "Notes", notes[:_FIRST_NOTES])
        row = self._write_figures(top)
        drawn = 0
        for chart in self._charts:
            bars = chart.groups.bars()
            if bars:
                figures = self._write_bars(row, chart, bars)
                place = (top + drawn // 2 * (_CHART_ROWS + 1), 4 if drawn % 2 == 0 else 4 + _CHART_COLUMNS)
                self._insert_chart(place, chart, row, bars)
                row, drawn = figures, drawn + 1
        row = self._write_notes(max(row, top + -(-drawn // 2) * (_CHART_ROWS + 1)), "More notes", notes[_FIRST_NOTES:])
        if row <= _PAGE_ROWS:
            sheet.fit_to_pages(1, 1)
        sheet.activate()

    def _write_figures(self, row: int) -> int:
        sheet, styles, told = self._cover, self._styles, self.statistics
        beside = (
            ("Pictures", told.images),
            ("Missing pictures", told.missing_images),
            ("Shortened cells", told.shortened),
        )
        figures = [*told.figures, *((label, number, WHOLE) for label, number in beside if number)]
        self._write_heading(row, ("Key figure", "Value"))
        for label, value, style in figures:
            row += 1
            line = {"bottom": 4, "bottom_color": LINE}
            left = styles.get(**line, indent=1)
            write_text(sheet, row, 0, label, left, left)
            sheet.write_number(row, 1, value, styles.get(**line, num_format=style, align="right"))
        return row + 2

    def _write_notes(self, row: int, heading: str, notes: Sequence[str]) -> int:
        if not notes:
            return row
        self._write_heading(row, (heading,))
        for text in notes:
            row += 1
            style = self._styles.get(font_color="#8A5A00")
            write_text(self._cover, row, 0, text, style, style)
        return row + 2

    def _write_bars(self, row: int, chart: _Chart, bars: Sequence[Bar]) -> int:
        """The figures of a chart. The row after them."""
        value = chart.groups.value
        self._write_heading(row, [chart.groups.by.heading, "Rows", *([] if value is None else [value.heading])])
        line = {"bottom": 4, "bottom_color": LINE}
        sheet, styles = self._cover, self._styles
        plain, marked = styles.get(**line, indent=1), styles.get(**line, indent=1, quote_prefix=True)
        numbers = [styles.get(**line, num_format=WHOLE, align="right")]
        if value is not None:
            numbers.append(styles.get(**line, num_format=value.format, align="right"))
        for place, (label, rows, total) in enumerate(bars, start=row + 1):
            write_text(sheet, place, 0, label, plain, marked)
            for column, number in enumerate((rows, total)[: len(numbers)], start=1):
                sheet.write_number(place, column, number, numbers[column - 1])
        return row + len(bars) + 2

    def _insert_chart(self, place: tuple[int, int], chart: _Chart, row: int, bars: Sequence[Bar]) -> None:
        drawn = self._draw(chart, row, bars)
        drawn.set_size({"width": _CHART_PIXELS, "height": _CHART_ROWS * _ROW_PIXELS})
        options = {"object_position": 2, "description": chart.title}
        self._cover.insert_chart(*place, drawn, options)

    def _draw(self, chart: _Chart, row: int, bars: Sequence[Bar]) -> Any:
        drawn = self._book.add_chart({"type": chart.kind})
        column = 1 if chart.groups.value is None else 2
        series: dict[str, Any] = {
            "categories": [COVER, row + 1, 0, row + len(bars), 0],
            "values": [COVER, row + 1, column, row + len(bars), column],
            "fill": {"color": _BAR},
            "border": {"none": True},
            "gap": 60,
        }
        if chart.kind == "pie":
            series["points"] = [{"fill": {"color": _PIE[place % len(_PIE)]}} for place in range(len(bars))]
            series["data_labels"] = {"percentage": True, "position": "outside_end", "font": {"name": FONT, "size": 9}}
        elif chart.kind == "line":
            series = {name: series[name] for name in ("categories", "values")} | {
                "line": {"color": _BAR, "width": 2.25}
            }
        drawn.add_series(series)
        drawn.set_title({"name": chart.title, "name_font": {"name": FONT, "size": 12, "color": DARK}, "overlay": False})
        if chart.kind != "pie":
            drawn.set_legend({"none": True})
            font = {"name": FONT, "size": 9, "color": "#4A555B"}
            names = {"num_font": font, "line": {"color": LINE}, "label_position": "low"}
            scale: dict[str, Any] = {
                "num_font": font,
                "major_gridlines": {"visible": True, "line": {"color": PALE}},
                "num_format": "#,##0",
            }
            scale |= {"line": {"none": True}}
            if chart.kind != "line" and all(total >= 0 for _, _, total in bars):
                scale["min"] = 0  # the length of a bar is its value: programs begin at 44,000 where all are near 50,000
            if chart.kind == "bar":
                names["reverse"] = True  # the first bar on top
                scale["label_position"] = "high"  # which is below, where the order is reversed
                drawn.set_y_axis(names | {"text_axis": True})
                drawn.set_x_axis(scale)
            else:
                drawn.set_x_axis(names | {"text_axis": True})
                drawn.set_y_axis(scale)
        else:
            drawn.set_legend({"position": "right", "font": {"name": FONT, "size": 9}})
        drawn.set_chartarea({"border": {"color": LINE}})
        return drawn

    def _write_heading(self, row: int, texts: Sequence[str]) -> None:
        for place, text in enumerate(texts):
            style = self._styles.heading("right" if place else "left")
            write_text(self._cover, row, place, text, style, style)
