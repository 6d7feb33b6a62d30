"""A plan applied under leases on its tables, and written to their history.

1. A lease on each table that is to change is held from before the last look at it until its changes are made: of two
   people, one changes a table at a time.
2. Under the leases every table is looked at again. What somebody else has made meanwhile and was part of the plan is
   left out. If anything else has moved, nothing at all is applied: somebody said yes to a plan for another table.
3. What was changed is appended to the table's history, also of an apply that was interrupted or failed half way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.client.database import Database
from penstock.errors import PenstockError
from penstock.tables.apply.apply import ApplyReport, Interrupted, apply, silent
from penstock.tables.apply.table_changer import AlreadyMade, Pace, Report
from penstock.tables.definitions.definition import Table
from penstock.tables.plan.changes import (
    AddIndex,
    Change,
    CreateTable,
    DropIndex,
    SetDeletionProtection,
    SetIndexWarm,
    SetPitr,
    SetTags,
    SetTtl,
    SetWarm,
    UpdateBilling,
    UpdateIndexThroughput,
    UpdateThroughput,
    describe_whole,
)
from penstock.tables.plan.plan import TablePlan, diff
from penstock.tables.plan.survey import Live, Survey, TableSurvey, inspect, survey_table
from penstock.tables.state.state_table import Entry, StateLease, StateTable, StateTableRefused, Waiting


@dataclass(frozen=True, slots=True)
class Moved:
    """A table that is not as it was when it was planned: what has changed, and the newest line of its history."""

    table: str
    changes: tuple[str, ...]
    last: Entry | None

    def __str__(self) -> str:
        text = f"{self.table} has changed since this was planned: {', '.join(self.changes)}."
        if self.last is None:
            return f"{text} Its history has nothing: it was changed without a lease."
        return f"{text} Newest in its history: {self.last}"


class TablesMoved(PenstockError):
    """Tables were changed in other ways than planned, between the plan and its leases. Nothing was applied."""

    def __init__(self, moved: Sequence[Moved]) -> None:
        super().__init__(moved)
        self.moved = tuple(moved)

    def __str__(self) -> str:
        shown = "\n".join(f"  {one}" for one in self.moved)
        return f"Nothing was applied: it was planned for tables that have moved.\n{shown}\nRun it again for a new plan."


def apply_locked(
    db: Database,
    survey: Survey,
    state: StateTable | None,
    *,
    kind: str = "apply",
    purpose: str = "",
    on_wait: Waiting | None = None,
    pace: Pace | None = None,
    report: Report = silent,
    policy: str = "",
) -> ApplyReport:
    """Carries a survey's plan out as `apply` does, under leases; without a state table, without them.

    `purpose` is shown to those who wait, `kind` is that of the history's entries. For leases of others it waits as long
    as the pace says. Raises LeaseHeld, TablesMoved and StateTableRefused before anything is changed, and LeaseLost if
    this process was held up so long that somebody else may have a table now.
    """
    pace = pace or Pace()
    changing = [one for one in survey.tables if one.plan.changes]
    if state is None or not changing:
        return apply(db, survey, pace=pace, report=report, policy=policy)
    things = [("table", one.name) for one in changing]
    try:
        with state.leases(things, purpose=purpose, wait_seconds=pace.max_wait_seconds, on_wait=on_wait) as leases:
            fresh = _look_again(db, survey, state, report)
            checked = _CheckedReport(report, leases)
            try:
                done = apply(db, fresh, pace=pace, report=checked, policy=policy)
            except Interrupted as error:
                raise Interrupted(_remember(state, error.report, kind, purpose)) from None
            return _remember(state, done, kind, purpose)
    except StateTableRefused as error:
        raise StateTableRefused(error.table, error.reason, policy) from error


class _CheckedReport:
    """Every event of an apply asks whether the leases are still held."""

    def __init__(self, report: Report, leases: Sequence[StateLease]) -> None:
        self._report = report
        self._leases = leases

    def __call__(self, event: object) -> None:
        for lease in self._leases:
            lease.check()
        self._report(event)


def _remember(state: StateTable, report: ApplyReport, kind: str, purpose: str) -> ApplyReport:
    """A change that was made counts as made, even if the history does not take it: its table gets a note."""
    outcomes = []
    for outcome in report.outcomes:
        if outcome.done:
            changes = [describe_whole(change) for change in outcome.done]
            entry = Entry(kind, outcome.table, "; ".join(changes), {"changes": changes, "command": purpose})
            try:
                state.append(entry)
            except PenstockError as error:
                outcome = replace(outcome, notes=(*outcome.notes, f"the change is not in the history: {error}"))
        outcomes.append(outcome)
    return ApplyReport(tuple(outcomes))


def survey_again(db: Database, survey: Survey) -> Survey:
    """The same plan for the tables as they are now: for whoever has changed them himself since they were planned."""
    tables = [replace(one, live=inspect(db, one.name, settings=_has_settings(one))) for one in survey.tables]
    return replace(survey, tables=tuple(tables))


# ── what has moved ───────────────────────────────────────────────────────────────────────────────


def _look_again(db: Database, survey: Survey, state: StateTable, report: Report) -> Survey:
    """The survey as it is now, without what others have made; raises TablesMoved for anything else (2)."""
    tables, moved = [], []
    for one in survey.tables:
        if one.plan.changes:
            live = inspect(db, one.name, settings=_has_settings(one))
            made, others = _since(one, live)
            if others:
                last = next(state.history(table=one.name), None)
                moved.append(Moved(one.name, tuple(describe_whole(change) for change in others), last))
            for change in made:
                report(AlreadyMade(one.name, describe_whole(change)))
            one = replace(one, live=live, plan=_without(one, live, made))
        tables.append(one)
    if moved:
        raise TablesMoved(moved)
    return replace(survey, tables=tuple(tables))


def _has_settings(table: TableSurvey) -> bool:
    """Whether the survey asked for TTL, backups and tags too: destroy and add-index do not."""
    if table.live is None:
        return True
    found = table.live.table
    return (found.ttl, found.pitr, found.tags) != (None, None, None)


def _since(planned: TableSurvey, live: Live | None) -> tuple[list[Change], list[Change]]:
    """What others have done to the table since it was planned: what the plan has too, and the rest."""
    before, now = _table_of(planned.live), _table_of(live)
    wanted = planned.plan.changes
    if before is None and live is not None and now is not None and planned.wanted is not None:
        left = survey_table(planned.name, planned.wanted, live).plan.changes
        return list(wanted), [] if all(map(_is_end_of_creation, left)) else [CreateTable(now)]
    has_capacity = any(isinstance(one, _CAPACITY) for one in wanted)
    asked = [_essence(one) for one in wanted]
    made: list[Change] = []
    others: list[Change] = []
    for one in diff(before, now):
        if _essence(one) in asked:
            made.append(one)
        elif not (isinstance(one, SetWarm | SetIndexWarm) or (isinstance(one, _CAPACITY) and not has_capacity)):
            others.append(one)  # AWS warms tables and scales capacity by itself
    return made, others


_CAPACITY = (UpdateBilling, UpdateThroughput, UpdateIndexThroughput)


def _table_of(live: Live | None) -> Table | None:
    return None if live is None or live.facts.status == "DELETING" else live.table


def _is_end_of_creation(change: Change) -> bool:
    """What follows on CreateTable: somebody's creation may have been cut off before it."""
    match change:
        case SetTtl(replaces=None) | SetTags() | SetDeletionProtection(enabled=True):
            return True
        case SetPitr(was=was):
            return not was
        case _:
            return False


def _essence(change: Change) -> object:
    """What two people mean by one change: an index that is there has more members than one that is wanted."""
    match change:
        case AddIndex(index):
            return "+", index.name, index.shape
        case DropIndex(index):
            return "-", index.name
        case _:
            return change


def _without(planned: TableSurvey, live: Live | None, made: Sequence[Change]) -> TablePlan:
    changes = planned.plan.changes
    if made and isinstance(changes[0], CreateTable) and planned.wanted is not None:
        return survey_table(planned.name, planned.wanted, live).plan
    gone = [_essence(one) for one in made]
    return replace(planned.plan, changes=tuple(one for one in changes if _essence(one) not in gone))
