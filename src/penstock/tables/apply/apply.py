"""A plan carried out: tables side by side, each table's changes in their order.

1. What is already as it should be is not touched, and running it again finishes what was cut off.
2. One table's failure stops no other; every one is reported with its table, its change, the reason and what to do.
3. Ctrl-C raises `Interrupted`, which has the report of what is done and of what was being done.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from penstock.client.database import Database
from penstock.clock import utc_text
from penstock.errors import PenstockError
from penstock.tables.apply.failures import Failure
from penstock.tables.apply.side_by_side import Pace, Report, run_together
from penstock.tables.apply.table_changer import TableWork
from penstock.tables.definitions.definition import Table
from penstock.tables.definitions.naming import Naming
from penstock.tables.plan.changes import Change, CreateTable, DeleteTable
from penstock.tables.plan.survey import Survey, Surveyed
from penstock.tables.plan.survey import survey as survey_tables

Fate = Literal["created", "changed", "deleted", "skipped", "failed", "unfinished"]
FATES: tuple[Fate, ...] = ("created", "changed", "deleted", "skipped", "failed", "unfinished")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What has become of one table. `doing` is what an interrupted run was at."""

    table: str
    fate: Fate
    done: tuple[Change, ...] = ()
    doing: str = ""
    failure: Failure | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApplyReport:
    outcomes: tuple[Outcome, ...]

    @property
    def counts(self) -> dict[Fate, int]:
        return {fate: sum(one.fate == fate for one in self.outcomes) for fate in FATES}

    @property
    def failures(self) -> tuple[Failure, ...]:
        return tuple(one.failure for one in self.outcomes if one.failure is not None)

    @property
    def summary(self) -> str:
        """`Applied: 3 created, 1 changed, 9 skipped, 0 failed.`"""
        counts = self.counts
        always: tuple[Fate, ...] = ("created", "changed", "skipped", "failed")
        if counts["deleted"]:
            always = ("deleted", "skipped", "failed")
        told = [f"{counts[fate]} {fate}" for fate in always]
        told += [f"{counts['unfinished']} unfinished"] if counts["unfinished"] else []
        return f"Applied: {', '.join(told)}."


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while tables were being changed."""

    def __init__(self, report: ApplyReport) -> None:
        super().__init__(report)
        self.report = report


def silent(_: object) -> None:
    """Reports nothing."""


def apply(
    db: Database, survey: Survey, *, pace: Pace | None = None, report: Report = silent, policy: str = ""
) -> ApplyReport:
    """Carries out what a survey's plan says, and waits for what is under way.

    `report` is told `Progress` and `Finished`; `policy` is the command that writes the IAM policy, for a failure's
    next step. New tables get the standard tags of the survey's naming.
    """
    pace = pace or Pace()
    tags = survey.naming.tags(utc_text(pace.clock.now()))
    works = {one.name: TableWork(one, pace, tags=tags, policy=policy) for one in survey.tables if one.has_work}
    try:
        run_together(db, [work.steps() for work in works.values()], pace, report)
    except KeyboardInterrupt:
        raise Interrupted(_report_of(survey.tables, works)) from None
    return _report_of(survey.tables, works)


def ensure_tables(db: Database, tables: Iterable[Table], naming: Naming | None = None) -> ApplyReport:
    """Makes the tables as they are defined, and waits for them: for a program that cannot go on without.

    Raises PenstockError with every failure.
    """
    report = apply(db, survey_tables(db, tuple(tables), naming or Naming(prefix="")))
    if report.failures:
        raise PenstockError("\n".join(str(failure) for failure in report.failures))
    return report


def _report_of(tables: Iterable[Surveyed], works: dict[str, TableWork]) -> ApplyReport:
    return ApplyReport(tuple(_outcome(one, works.get(one.name)) for one in tables))


def _outcome(table: Surveyed, work: TableWork | None) -> Outcome:
    if work is None:
        return Outcome(table.name, "skipped")
    return Outcome(
        table.name,
        _fate(work),
        done=tuple(work.done),
        doing="" if work.ended else work.doing or "not begun",
        failure=work.failure,
        notes=tuple(work.notes),
    )


def _fate(work: TableWork) -> Fate:
    if work.failure is not None:
        return "failed"
    if not work.ended:
        return "unfinished"
    if work.existed or not work.done:
        return "skipped"
    match work.done[0]:
        case CreateTable():
            return "created"
        case DeleteTable():
            return "deleted"
        case _:
            return "changed"
