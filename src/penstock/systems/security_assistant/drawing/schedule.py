"""The component schedule as an Excel workbook: doors, all components, and a summary.

1. Whatever the drawing says is text in the workbook, never a formula.
2. The same components give the same cells.
3. The evaluation reads the workbook back: is everything in it that is on the drawing, and does the drawing agree with
   itself?
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from penstock.extras import extra
from penstock.systems.security_assistant.drawing.components import AT_DOORS, Component, Components
from penstock.systems.security_assistant.drawing.context import Context

SHEETS: Final = ("Schedule", "Components", "Summary")
_CELL_CHARACTERS: Final = 32_767
_ILLEGAL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_HEAD_FILL: Final = "1F3A5F"
_BAND_FILL: Final = "EEF3F8"
_WIDEST: Final = 48


@dataclass(frozen=True, slots=True)
class Heading:
    """What the schedule is of."""

    company: str
    client: str
    project: str
    job_id: str
    file_name: str
    made_at: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table of texts and numbers, before it is Excel's."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str | int, ...], ...]


def schedule_sheets(components: Components, context: Context | None, heading: Heading) -> tuple[Sheet, ...]:
    """What the workbook has, decided before any of it is written."""
    return (_doors(components), _all(components), _summary(components, context, heading))


def _doors(components: Components) -> Sheet:
    """A row for each door, with a column for each type of what is at doors."""
    at_door: dict[str, dict[str, list[str]]] = {}
    for one in components.found:
        if one.door:
            at_door.setdefault(one.door, {}).setdefault(one.type, []).append(one.designator)
    kinds = [kind for kind in AT_DOORS[1:] if kind in components.by_type]
    doors = [one for one in components.found if one.type == "door"]
    rows = tuple(
        (
            door.designator,
            door.location,
            door.level,
            *(", ".join(at_door.get(door.designator, {}).get(kind, [])) for kind in kinds),
        )
        for door in doors
    )
    return Sheet("Schedule", ("Door", "Location", "Level", *(title_of(kind) for kind in kinds)), rows)


def _all(components: Components) -> Sheet:
    header = ("Designator", "Type", "Description", "Door", "Location", "Level", "Pages", "On plan", "In schedule")
    return Sheet("Components", header, tuple(_row(one) for one in components.found))


def _row(one: Component) -> tuple[str, ...]:
    return (
        *(one.designator, one.type, one.description, one.door, one.location, one.level),
        ", ".join(str(page) for page in one.pages),
        "yes" if one.on_plan else "no",
        "yes" if one.in_schedule else "no",
    )


def _summary(components: Components, context: Context | None, heading: Heading) -> Sheet:
    rows: list[tuple[str | int, ...]] = [
        ("Client", heading.client),
        ("Project", heading.project),
        ("Drawing", heading.file_name),
        ("Company", heading.company),
        ("Job", heading.job_id),
        ("Made", heading.made_at),
        ("Components", len(components.found)),
        *((title_of(kind), count) for kind, count in components.by_type.items()),
    ]
    if context is not None:
        rows += [(name, value) for name, value in context.facts.items()]
        rows += [("Requirement", words) for words in context.requirements]
    return Sheet("Summary", ("What", "Value"), tuple(rows))


def title_of(kind: str) -> str:
    """`exit_button` → `Exit button`."""
    return kind.replace("_", " ").capitalize()


# ── Excel ────────────────────────────────────────────────────────────────────────────────────────


def workbook(sheets: Sequence[Sheet], heading: Heading) -> bytes:
    """The sheets as an .xlsx file."""
    with extra("systems", "The security assistant"):
        from openpyxl import Workbook  # a fifth of a second, which other commands need not pay

    book = Workbook()
    book.remove(book.active)
    book.properties.title = clean_text(f"{heading.project}: component schedule")
    book.properties.creator = "Penstock"
    _add_looks(book)
    for sheet in sheets:
        _write(book.create_sheet(sheet.title), sheet)
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def _add_looks(book: Any) -> None:
    """Styles by name: cells that have one are written twice as fast as cells with styles of their own."""
    from openpyxl.styles import Alignment, Font, NamedStyle, PatternFill

    top = Alignment(vertical="top", wrap_text=True)
    white, blue = Font(bold=True, color="FFFFFF"), PatternFill("solid", fgColor=_HEAD_FILL)
    book.add_named_style(NamedStyle("head", font=white, fill=blue, alignment=top))
    book.add_named_style(NamedStyle("plain", alignment=top))
    book.add_named_style(NamedStyle("band", fill=PatternFill("solid", fgColor=_BAND_FILL), alignment=top))


def _write(target: Any, sheet: Sheet) -> None:
    from openpyxl.utils import get_column_letter

    for at, row in enumerate([sheet.header, *sheet.rows], start=1):
        look = "head" if at == 1 else "band" if at % 2 else "plain"
        for column, value in enumerate(row, start=1):
            cell = target.cell(at, column)
            cell.style = look
            _set(cell, value)
    for column, width in enumerate(_widths([sheet.header, *sheet.rows]), start=1):
        target.column_dimensions[get_column_letter(column)].width = width
    target.freeze_panes = "A2"
    target.auto_filter.ref = target.dimensions
    target.page_setup.orientation = "landscape"
    target.page_setup.fitToHeight = 0
    target.sheet_properties.pageSetUpPr.fitToPage = True
    target.print_title_rows = "1:1"


def _set(cell: Any, value: str | int) -> None:
    if isinstance(value, int):
        cell.value = value
        return
    cell.value = clean_text(value)
    if cell.value and cell.value[0] in "=+-@\t\r":
        # Excel would calculate it, and show what it makes of it (1).
        cell.data_type = "s"
        cell.quotePrefix = True


def clean_text(text: str) -> str:
    """Text as a cell can hold it."""
    return _ILLEGAL.sub("", text)[:_CELL_CHARACTERS]


def _widths(rows: Iterable[Sequence[str | int]]) -> list[int]:
    widths: dict[int, int] = {}
    for row in rows:
        for column, value in enumerate(row):
            widths[column] = max(widths.get(column, 8), min(len(str(value)) + 3, _WIDEST))
    return [widths[column] for column in sorted(widths)]


def read_schedule(data: bytes) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each sheet of a workbook, headers included: what was really written."""
    with extra("systems", "The security assistant"):
        from openpyxl import load_workbook

    book = load_workbook(io.BytesIO(data), read_only=True)
    try:
        return {sheet.title: [tuple(row) for row in sheet.iter_rows(values_only=True)] for sheet in book.worksheets}
    finally:
        book.close()


# ── evaluation ─────────────────────────────────────────────────────────────────────────────────────

Severity = Literal["error", "warning"]
_COST: Final = {"error": 20, "warning": 4}
_FULL: Final = 100
_SHOWN: Final = 20
"""Designators that a finding names; it says how many there are."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`error`: the schedule is wrong. `warning`: the drawing should be looked at."""

    check: str
    severity: Severity
    message: str
    count: int
    designators: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    score: int
    checks: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)

    def summary(self) -> dict[str, Any]:
        return {"score": self.score, "passed": self.passed, "findings": len(self.findings)}

    def form(self) -> dict[str, Any]:
        findings = [asdict(one) | {"designators": list(one.designators)} for one in self.findings]
        return {"score": self.score, "passed": self.passed, "checks": list(self.checks), "findings": findings}


CHECKS: Final = (
    "every component is in the workbook",
    "the summary's counts are right",
    "the drawing's own totals are right",
    "every reader is at a door",
    "every door with a reader has an exit button",
    "every door with a magnetic lock has a break glass unit",
    "plans and schedule of the drawing agree",
)


def evaluate(components: Components, workbook: bytes) -> Evaluation:
    """Opens the workbook that was made, and compares."""
    sheets = read_schedule(workbook)
    findings = (
        *_in_workbook(components, sheets),
        *_counts(components, sheets),
        *_compare_stated(components),
        *_at_doors(components),
        *_plans_and_schedule(components),
    )
    score = max(0, _FULL - sum(_COST[finding.severity] for finding in findings))
    return Evaluation(score, CHECKS, findings)


def _in_workbook(components: Components, sheets: dict[str, list[tuple[Any, ...]]]) -> Iterator[Finding]:
    written = {row[0] for row in sheets.get("Components", [])[1:]}
    missing = [one.designator for one in components.found if clean_text(one.designator) not in written]
    if missing:
        yield _finding(0, "error", "[is|are] not in the workbook", missing)


def _counts(components: Components, sheets: dict[str, list[tuple[Any, ...]]]) -> Iterator[Finding]:
    written: dict[Any, Any] = {}
    for row in sheets.get("Summary", [])[1:]:
        written.setdefault(row[0], row[1])  # counts stand before what the context says, which may have the same name
    wrong = [kind for kind, count in components.by_type.items() if written.get(title_of(kind)) != count]
    if wrong:
        yield _finding(1, "error", "[has another count|have other counts] in the summary", wrong)


def _compare_stated(components: Components) -> Iterator[Finding]:
    counted = components.by_type  # counted once: a drawing may state as many totals as it has texts
    for kind, stated in components.stated.items():
        found = counted.get(kind, 0)
        if found != stated:
            message = f"The drawing states {stated} of type {kind}, and {found} were found on it."
            yield Finding(CHECKS[2], "warning", message, abs(found - stated))


def _at_doors(components: Components) -> Iterator[Finding]:
    at: dict[str, set[str]] = {}
    for one in components.found:
        at.setdefault(one.door, set()).add(one.type)
    astray = [one.designator for one in components.found if one.type == "reader" and not one.door]
    if astray:
        yield _finding(3, "warning", "[is|are] at no door that is on the drawing", astray)
    doors = [one.designator for one in components.found if one.type == "door"]
    no_exit = [door for door in doors if "reader" in at.get(door, ()) and "exit_button" not in at[door]]
    if no_exit:
        yield _finding(4, "warning", "[has|have] a reader and no exit button", no_exit)
    no_glass = [door for door in doors if "magnetic_lock" in at.get(door, ()) and "break_glass" not in at[door]]
    if no_glass:
        yield _finding(5, "warning", "[has|have] a magnetic lock and no break glass unit", no_glass)


def _plans_and_schedule(components: Components) -> Iterator[Finding]:
    if not any(one.in_schedule for one in components.found):
        return
    scheduled = {one.type for one in components.found if one.in_schedule}
    compared: list[Component] = [one for one in components.found if one.type in scheduled]
    unplanned = [one.designator for one in compared if not one.on_plan]
    unscheduled = [one.designator for one in compared if not one.in_schedule]
    if unplanned:
        yield _finding(6, "warning", "[is|are] in the drawing's schedule and on no plan", unplanned)
    if unscheduled:
        yield _finding(6, "warning", "[is|are] on a plan and not in the drawing's schedule", unscheduled)


def _finding(check: int, severity: Severity, words: str, names: list[str]) -> Finding:
    return shown_finding(CHECKS[check], severity, words, names)


def shown_finding(check: str, severity: Severity, words: str, names: list[str]) -> Finding:
    """A finding that names the first of those that it is about."""
    shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    return Finding(check, severity, f"{counted(len(names), words)}: {shown}.", len(names), tuple(names[:_SHOWN]))


def counted(number: int, words: str) -> str:
    """`counted(2, "row[s] [has|have] no mark")` is "2 rows have no mark"."""

    def chosen(form: re.Match[str]) -> str:
        singular, _, plural = form[1].rpartition("|")
        return singular if number == 1 else plural

    words = re.sub(r"\[([^\[\]]*)\]", chosen, words)
    return f"{number} {words}"
