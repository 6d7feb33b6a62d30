"""A plan carried out: tables side by side, each table's changes in their order. And one table made, changed and waited
for, by a program that must have it so before it goes on.

1. What is already as it should be is not touched, and running it again finishes what was cut off.
2. One table's failure stops no other; every one is reported with its table, its change, the reason and what to do.
3. Ctrl-C raises `Interrupted`, which has the report of what is done and of what was being done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from penstock.client.database import Database
from penstock.clock import utc_text
from penstock.errors import PenstockError
from penstock.tables.apply.conversations import MAX_WAIT_SECONDS, Pace, Report, run_together
from penstock.tables.apply.table_changer import Progress, TableChanger
from penstock.tables.definitions.definition import Naming, Table
from penstock.tables.plan.changes import Change, CreateTable, DeleteTable
from penstock.tables.plan.failures import Failure, TableFailed
from penstock.tables.plan.plan import TablePlan
from penstock.tables.plan.survey import (
    Live,
    Survey,
    TableSurvey,
    inspect,
    keep_added_indexes,
    require_table,
    survey_table,
)
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


@dataclass(frozen=True)
class ApplyReport:
    outcomes: tuple[Outcome, ...]

    @property
    def counts(self) -> dict[Fate, int]:
        return {fate: sum(one.fate == fate for one in self.outcomes) for fate in FATES}

    @cached_property
    def failures(self) -> tuple[Failure, ...]:
        return tuple(one.failure for one in self.outcomes if one.failure is not None)

    @property
    def summary(self) -> str:
        """`Applied: 3 created, 1 changed, 9 skipped, 0 failed.`"""
        counts = self.counts
        always: tuple[Fate, ...] = ("created", "changed", "skipped", "failed")
        if counts["deleted"]:
            always = ("deleted", "skipped", "failed")
        parts = [f"{counts[fate]} {fate}" for fate in always]
        parts += [f"{counts['unfinished']} unfinished"] if counts["unfinished"] else []
        return f"Applied: {', '.join(parts)}."


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

    `report` is told `Progress`, `Finished` and `AlreadyMade`; `policy` is the command that writes the IAM policy, for a
    failure's next step. New tables get the standard tags of the survey's naming.
    """
    pace = pace or Pace()
    tags = survey.naming.tags(utc_text(pace.clock.now()))
    changers: dict[str, TableChanger] = {}
    for one in survey.with_work:
        changers[one.name] = TableChanger(one, pace, tags=tags, policy=policy)
    try:
        run_together(db, [one.steps() for one in changers.values()], pace, report)
    except KeyboardInterrupt:
        raise Interrupted(_report_of(survey.tables, changers)) from None
    return _report_of(survey.tables, changers)


def ensure_tables(db: Database, tables: Iterable[Table], naming: Naming | None = None) -> ApplyReport:
    """Makes the tables as they are defined, and waits for them: for a program that cannot go on without.

    An index that somebody added stays. Raises PenstockError with every failure.
    """
    report = apply(db, keep_added_indexes(survey_tables(db, tuple(tables), naming or Naming(prefix=""))))
    if report.failures:
        raise PenstockError("\n".join(str(failure) for failure in report.failures))
    return report


def _report_of(tables: Iterable[TableSurvey], changers: dict[str, TableChanger]) -> ApplyReport:
    return ApplyReport(tuple(_outcome(one, changers.get(one.name)) for one in tables))


def _outcome(table: TableSurvey, work: TableChanger | None) -> Outcome:
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


def _fate(work: TableChanger) -> Fate:
    if work.failure is not None:
        return "failed"
    if not work.ended:
        return "unfinished"
    if not work.done:
        return "skipped"
    match work.done[0]:
        case CreateTable():
            return "created"
        case DeleteTable():
            return "deleted"
        case _:
            return "changed"


Tell = Callable[[str], object]
"""Told in words what is waited for."""


def _silent(text: str) -> None:
    del text


def make(db: Database, table: Table, name: str, tell: Tell = _silent, *, is_missing: bool = False) -> None:
    """Makes the table of a definition with all its settings, and waits for it. One that is there is left as it is.

    `is_missing`: a request was just told that there is none, and nobody looks again.
    """
    live = None if is_missing else inspect(db, name, settings=False)
    changes = (CreateTable(table),) if live is None else ()
    _work(db, TableSurvey(name, table, live, TablePlan(name, changes)), tell)


def change(db: Database, name: str, what: Change, tell: Tell = _silent) -> None:
    """One change of a table, waited for."""
    live = require_table(db, name, settings=False)
    _work(db, TableSurvey(name, None, live, TablePlan(name, (what,))), tell)


def wait_until_active(db: Database, name: str, tell: Tell = _silent, *, seconds: float = MAX_WAIT_SECONDS) -> None:
    """Waits until the table and its indexes are ACTIVE; raises TableFailed after so many seconds."""
    live = require_table(db, name, settings=False)
    _work(db, TableSurvey(name, None, live, TablePlan(name)), tell, seconds)


def delete(db: Database, name: str, tell: Tell = _silent) -> None:
    """Deletes the table and waits until it is gone; one that is not there is."""
    live = inspect(db, name, settings=False)
    if live is not None:
        _work(db, TableSurvey(name, None, live, TablePlan(name, (DeleteTable(live.table),))), tell)


def reconcile(db: Database, name: str, wanted: Table, tell: Tell = _silent) -> tuple[Change, ...]:
    """Makes every change that `wanted` needs, and compares again; what differs still, as far as this endpoint tells.

    A table that would have to be replaced is not touched: the change is given back.
    """
    wait_until_active(db, name, tell)
    found = _survey_as(name, wanted, require_table(db, name))
    if found.plan.replaces:
        return found.plan.changes
    _work(db, found, tell)
    return _survey_as(name, wanted, require_table(db, name)).plan.changes


def _survey_as(name: str, wanted: Table, live: Live) -> TableSurvey:
    return survey_table(name, wanted.replace(name=name), live)


def _work(db: Database, table: TableSurvey, tell: Tell, seconds: float = MAX_WAIT_SECONDS) -> None:
    pace = Pace(max_wait_seconds=seconds)
    work = TableChanger(table, pace)

    def report(event: object) -> None:
        if isinstance(event, Progress):
            tell(f"{event.table} is {event.status}" + (f": {event.change}" if event.change else ""))

    run_together(db, [work.steps()], pace, report)
    if work.failure is not None:
        raise TableFailed(work.failure)
