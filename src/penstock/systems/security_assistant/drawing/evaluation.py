"""The evaluation of a schedule: is everything in it that is on the drawing, and does the drawing agree with itself?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from penstock.systems.security_assistant.drawing.components import Component, Components
from penstock.systems.security_assistant.drawing.schedule import cleaned, read_schedule, title_of

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
        *_stated(components),
        *_at_doors(components),
        *_plans_and_schedule(components),
    )
    score = max(0, _FULL - sum(_COST[finding.severity] for finding in findings))
    return Evaluation(score, CHECKS, findings)


def _in_workbook(components: Components, sheets: dict[str, list[tuple[Any, ...]]]) -> Iterator[Finding]:
    written = {row[0] for row in sheets.get("Components", [])[1:]}
    missing = [one.designator for one in components.found if cleaned(one.designator) not in written]
    if missing:
        yield _finding(0, "error", "are not in the workbook", missing)


def _counts(components: Components, sheets: dict[str, list[tuple[Any, ...]]]) -> Iterator[Finding]:
    written: dict[Any, Any] = {}
    for row in sheets.get("Summary", [])[1:]:
        written.setdefault(row[0], row[1])  # counts stand before what the context says, which may have the same name
    wrong = [kind for kind, count in components.by_type.items() if written.get(title_of(kind)) != count]
    if wrong:
        yield _finding(1, "error", "have other counts in the summary", wrong)


def _stated(components: Components) -> Iterator[Finding]:
    counted = components.by_type  # counted once: a drawing may state as many totals as it has texts
    for kind, stated in components.stated.items():
        found = counted.get(kind, 0)
        if found != stated:
            told = f"The drawing states {stated} of type {kind}, and {found} were found on it."
            yield Finding(CHECKS[2], "warning", told, abs(found - stated))


def _at_doors(components: Components) -> Iterator[Finding]:
    at: dict[str, set[str]] = {}
    for one in components.found:
        at.setdefault(one.door, set()).add(one.type)
    astray = [one.designator for one in components.found if one.type == "reader" and not one.door]
    if astray:
        yield _finding(3, "warning", "are at no door that is on the drawing", astray)
    doors = [one.designator for one in components.found if one.type == "door"]
    no_exit = [door for door in doors if "reader" in at.get(door, ()) and "exit_button" not in at[door]]
    if no_exit:
        yield _finding(4, "warning", "have a reader and no exit button", no_exit)
    no_glass = [door for door in doors if "magnetic_lock" in at.get(door, ()) and "break_glass" not in at[door]]
    if no_glass:
        yield _finding(5, "warning", "have a magnetic lock and no break glass unit", no_glass)


def _plans_and_schedule(components: Components) -> Iterator[Finding]:
    if not any(one.in_schedule for one in components.found):
        return
    scheduled = {one.type for one in components.found if one.in_schedule}
    compared: list[Component] = [one for one in components.found if one.type in scheduled]
    unplanned = [one.designator for one in compared if not one.on_plan]
    unscheduled = [one.designator for one in compared if not one.in_schedule]
    if unplanned:
        yield _finding(6, "warning", "are in the drawing's schedule and on no plan", unplanned)
    if unscheduled:
        yield _finding(6, "warning", "are on a plan and not in the drawing's schedule", unscheduled)


def _finding(check: int, severity: Severity, words: str, names: list[str]) -> Finding:
    shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    return Finding(CHECKS[check], severity, f"{len(names)} {words}: {shown}.", len(names), tuple(names[:_SHOWN]))
