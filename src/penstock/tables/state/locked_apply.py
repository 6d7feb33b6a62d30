"""A plan applied under leases on its tables, and written to their history.

1. A lease on each table that is to change is held from before the last look at it until its changes are made: of two
   people, one changes a table at a time.
2. Under the leases every table is looked at again. What somebody else has made meanwhile and was part of the plan is
   left out. If anything else has moved, nothing at all is applied: somebody said yes to a plan for another table.
3. No request is sent for a table whose lease is lost. That is the table's failure, in the report as any other.
4. When it is done, each table is looked at once more: what did not take is told (second_look.py).
5. What was changed is appended to the table's history, also of an apply that was interrupted or failed half way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.client.database import Database
from penstock.client.transports.base import Answer, Request, Transport
from penstock.client.wrappers.wrapper import Exchange, Wrapper, short_name
from penstock.errors import PenstockError
from penstock.leases import LeaseLost
from penstock.tables.apply.apply import ApplyReport, Interrupted, apply, silent
from penstock.tables.apply.conversations import Pace, Report
from penstock.tables.apply.table_changer import AlreadyMade
from penstock.tables.definitions.definition import Table
from penstock.tables.plan.changes import (
    AddIndex,
    Change,
    CreateTable,
    DropIndex,
    SetDeletionProtection,
    SetIndexWarm,
    SetPitr,
    SetResourcePolicy,
    SetTags,
    SetTtl,
    SetWarm,
    UpdateBilling,
    UpdateIndexThroughput,
    UpdateThroughput,
    describe_whole,
)
from penstock.tables.plan.plan import TablePlan, diff
from penstock.tables.plan.survey import Live, Survey, TableSurvey, inspect, inspect_every, survey_table
from penstock.tables.state.second_look import look_again
from penstock.tables.state.state_table import Entry, StateLease, StateTable, StateTableRefused, Waiting


@dataclass(frozen=True, slots=True)
class Moved:
    """A table that is not as it was when it was planned: what has changed, and the newest line of its history."""

    table: str
    changes: tuple[str, ...]
    last: Entry | None
    has_history: bool = True
    """Whether its history was read: not without a lease."""

    def __str__(self) -> str:
        text = f"{self.table} has changed since this was planned: {', '.join(self.changes)}."
        if not self.has_history:
            return text
        if self.last is None:
            return f"{text} Its history has nothing: it was changed without a lease."
        return f"{text} Newest in its history: {self.last}"


class TablesMoved(PenstockError):
    """Tables were changed in other ways than planned, between the plan and its leases. Nothing was applied."""

    def __init__(self, moved: Sequence[Moved], next_step: str = "Run it again for a new plan.") -> None:
        super().__init__(moved, next_step)
        self.moved = tuple(moved)
        self.next_step = next_step

    def __str__(self) -> str:
        shown = "\n".join(f"  {one}" for one in self.moved)
        return f"Nothing was applied: it was planned for tables that have moved.\n{shown}\n{self.next_step}"

    @property
    def form(self) -> dict[str, Any]:
        """The facts, for --json."""
        return {
            "moved": [
                {
                    "table": one.table,
                    "changes": list(one.changes),
                    "newest_in_history": None if one.last is None else one.last.form,
                }
                for one in self.moved
            ]
        }


class TableTaken(LeaseLost):
    """This process was held up so long that its lease on a table ran out: it changes it no more."""

    def __str__(self) -> str:
        who = f"{self.held_by} has it now" if self.held_by else "somebody else may be changing it now"
        return f"this run was held up until its lease on {self.record} ran out, and {who}. Run it again for a new plan."


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
    as the pace says. Raises LeaseHeld, TablesMoved and StateTableRefused before anything is changed. If this process is
    held up so long that somebody else may have a table, that table fails with TableTaken (4).
    """
    pace = pace or Pace()
    changing = [one for one in survey.tables if one.plan.changes]
    if state is None or not changing:
        return look_again(db, survey, apply(db, survey, pace=pace, report=report, policy=policy), state)
    things = [("table", one.name) for one in changing]
    wait_seconds = pace.max_wait_seconds if pace.waits_for_others else 0.0
    try:
        with state.leases(things, purpose=purpose, wait_seconds=wait_seconds, on_wait=on_wait) as leases:
            fresh = _look_again(db, survey, state, report)
            guarded = Database(_LeasedTables(db.transport, leases))
            try:
                done = apply(guarded, fresh, pace=pace, report=report, policy=policy)
            except Interrupted as error:
                raise Interrupted(_remember(state, error.report, kind, purpose)) from None
            return _remember(state, look_again(db, fresh, done, state), kind, purpose)
    except StateTableRefused as error:
        raise StateTableRefused(error.table, error.reason, policy) from error


class _LeasedTables(Wrapper):
    """Asks before each request whether the lease on its table is still held (4)."""

    def __init__(self, inner: Transport, leases: Sequence[StateLease]) -> None:
        super().__init__(inner)
        self._leases = {lease.thing[1]: lease for lease in leases}

    def _exchange(self, operation: str, request: Request) -> Exchange:
        lease = self._leases.get(short_name(request.get("TableName") or request.get("ResourceArn") or ""))
        if lease is not None:
            try:
                lease.check()
            except LeaseLost as lost:
                raise TableTaken(lease.thing[1], lost.held_by) from lost
        answer: Answer = yield operation, request
        return answer


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
    return replace(survey, tables=tuple(replace(one, live=_inspect_as(db, one)) for one in survey.tables))


def require_unmoved(db: Database, survey: Survey, state: StateTable | None, *, next_step: str) -> None:
    """Raises TablesMoved if any table of the survey, also one that it leaves alone, is not as it was surveyed.

    For a plan that was made long ago. What the plan has too, and somebody else has made, is no move. Asked before the
    question; under the leases, `apply_locked` looks again.
    """
    moved = []
    found = inspect_every(db, [one.name for one in survey.tables])
    for one in survey.tables:
        _, others = _since(one, found[one.name])
        changes = _other_table(one.live, found[one.name]) or tuple(describe_whole(change) for change in others)
        if changes:
            last = None if state is None else next(state.history(table=one.name), None)
            moved.append(Moved(one.name, changes, last, has_history=state is not None))
    if moved:
        raise TablesMoved(moved, next_step)


def _other_table(before: Live | None, now: Live | None) -> tuple[str, ...]:
    """Every account has a table of this name in the same region."""
    old, new = ("" if live is None else live.facts.arn for live in (before, now))
    return (f"it was {old}, and is {new}",) if old and new and old != new else ()


# ── what has moved ───────────────────────────────────────────────────────────────────────────────


def _look_again(db: Database, survey: Survey, state: StateTable, report: Report) -> Survey:
    """The survey as it is now, without what others have made; raises TablesMoved for anything else (2)."""
    tables, moved = [], []
    for one in survey.tables:
        if one.plan.changes:
            live = _inspect_as(db, one)
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


def _inspect_as(db: Database, table: TableSurvey) -> Live | None:
    """The table as it is now, with as much of it as the survey asked for."""
    policy = table.wanted is not None and table.wanted.resource_policy is not None
    return inspect(db, table.name, settings=_has_settings(table), policy=policy)


def _has_settings(table: TableSurvey) -> bool:
    """Whether the survey asked for TTL, backups and tags too: destroy and add-index do not."""
    if table.live is None or table.live.unsupported & {"ttl", "pitr", "tags"}:  # it asked, and was not answered
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
    if before is not None and now is not None and planned.wanted is not None:
        # What the definition leaves to others may move.
        now = now.replace(**{name: getattr(before, name) for name in planned.wanted.ignore})
    has_capacity = any(isinstance(one, _CAPACITY) for one in wanted)
    asked = [_essence(one) for one in wanted]
    made: list[Change] = []
    others: list[Change] = []
    for one in diff(before, now):
        if _essence(one) in asked:
            made.append(one)
        elif not (isinstance(one, SetWarm | SetIndexWarm) or (isinstance(one, _SCALED) and not has_capacity)):
            others.append(one)  # AWS warms tables and scales capacity by itself; the billing mode it leaves alone
    return made, others


_SCALED = (UpdateThroughput, UpdateIndexThroughput)
_CAPACITY = (UpdateBilling, *_SCALED)


def _table_of(live: Live | None) -> Table | None:
    return None if live is None or live.facts.status == "DELETING" else live.table


def _is_end_of_creation(change: Change) -> bool:
    """What follows on CreateTable: somebody's creation may have been cut off before it."""
    match change:
        case SetTtl(replaces=None) | SetTags() | SetDeletionProtection(enabled=True) | SetResourcePolicy(was=""):
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
