"""What became of an apply: each table is looked at once more.

1. What was sent and is not so is a failure, except for capacity, which autoscaling may have changed again meanwhile.
2. A setting that an endpoint has taken, and whose member its description does not have at all, is "taken, not told". It
   is remembered in the state table with the value that was sent. The same value is no drift afterwards; another is.
3. A description that tells everything is believed: on DynamoDB, what it does not show is not there (`Live.tells_all`).
   There nothing is remembered, and nothing remembered is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from penstock.client.database import Database
from penstock.errors import PenstockError
from penstock.tables.apply.apply import ApplyReport, Outcome
from penstock.tables.plan.changes import (
    Change,
    CreateTable,
    DropIndex,
    UpdateBilling,
    UpdateIndexThroughput,
    UpdateThroughput,
    describe,
    setting_of,
)
from penstock.tables.plan.failures import Failure
from penstock.tables.plan.survey import WORKERS, Live, Survey, TableSurvey, inspect, side_by_side, survey_table
from penstock.tables.state.state_table import StateTable

_RECORD = "untold"
_CAPACITY = (UpdateBilling, UpdateThroughput, UpdateIndexThroughput)

NOT_TAKEN = "the endpoint has accepted it, and the table is still not so."
NEXT_STEP = "Look at it with `penstock tables verify`; the endpoint may not support it."


def forget_untold(db: Database, survey: Survey) -> Survey:
    """The survey without drift of settings that this endpoint took before, with the same value, and never tells (2).

    The state table is read only for tables with such a difference. One that cannot be read remembers nothing.
    """
    return replace(survey, tables=tuple(_forget(db, one) for one in survey.tables))


def _forget(db: Database, table: TableSurvey) -> TableSurvey:
    live, wanted = table.live, table.wanted
    if live is None or wanted is None or not any(_is_untold(one, live) for one in table.plan.changes):
        return table
    try:
        value = StateTable(db).record(("table", table.name), _RECORD).value
    except PenstockError:
        return table
    taken = frozenset(str(one) for one in value.values()) if isinstance(value, dict) else frozenset[str]()
    if not taken:
        return table
    live = replace(live, taken=taken)
    changes = tuple(one for one in table.plan.changes if not _is_taken(one, live))
    return replace(table, live=live, plan=replace(table.plan, changes=changes))


def _is_untold(change: Change, live: Live) -> bool:
    return not live.tells_all and setting_of(change) in live.absent


def _is_taken(change: Change, live: Live) -> bool:
    return _is_untold(change, live) and describe(change) in live.taken


# ── after an apply ───────────────────────────────────────────────────────────────────────────────


def look_again(db: Database, survey: Survey, report: ApplyReport, state: StateTable | None) -> ApplyReport:
    """The report, with what did not take, and what this endpoint took and does not tell."""
    surveys = {one.name: one for one in survey.tables}
    outcomes = {one.table: one for one in report.outcomes}
    changed = [
        name
        for name, one in outcomes.items()
        if one.fate in ("created", "changed") and one.done and surveys[name].wanted is not None
    ]
    seen = side_by_side(lambda name: _look(db, surveys[name], outcomes[name], state), changed, WORKERS)
    outcomes |= dict(zip(changed, seen, strict=True))
    return ApplyReport(tuple(outcomes.values()))


def _look(db: Database, table: TableSurvey, outcome: Outcome, state: StateTable | None) -> Outcome:
    assert table.wanted is not None
    try:
        live = inspect(db, table.name, policy=table.wanted.resource_policy is not None)
    except PenstockError as error:
        return _with_notes(outcome, f"it could not be looked at again: {error}")
    if live is None:
        return _with_notes(outcome, "somebody has deleted it meanwhile")
    left = _left_over(survey_table(table.name, table.wanted, live).plan.changes, outcome.done)
    untold = [one for one in left if _is_untold(one, live)]
    if untold:
        outcome = _with_notes(outcome, *(f"taken, not told by this endpoint: {describe(one)}" for one in untold))
        outcome = _remember(state, outcome, untold)
    moving = [one for one in left if isinstance(one, _CAPACITY)]
    outcome = _with_notes(outcome, *(f"its capacity has changed again: {describe(one)}" for one in moving))
    wrong = [one for one in left if one not in untold and one not in moving]
    if not wrong or any("not shown yet" in note for note in outcome.notes):
        return outcome
    failure = Failure(table.name, ", ".join(map(describe, wrong)), NOT_TAKEN, NEXT_STEP, "NotTaken")
    return replace(outcome, fate="failed", failure=failure)


def _left_over(changes: Iterable[Change], done: Iterable[Change]) -> list[Change]:
    """What still differs and was sent: a plan may leave other differences on purpose."""
    made = list(done)
    if any(isinstance(one, CreateTable) for one in made):
        return [one for one in changes if not isinstance(one, DropIndex)]
    kinds = {(type(one), _index(one)) for one in made}
    return [one for one in changes if (type(one), _index(one)) in kinds]


def _index(change: Change) -> object:
    found = getattr(change, "index", None)
    return getattr(found, "name", found)


def _with_notes(outcome: Outcome, *notes: str) -> Outcome:
    return replace(outcome, notes=(*outcome.notes, *notes))


def _remember(state: StateTable | None, outcome: Outcome, untold: Iterable[Change]) -> Outcome:
    if state is None:
        return _with_notes(outcome, "with --no-lock this is not remembered: the next plan has it again")
    sent = {str(setting_of(one)): describe(one) for one in untold}
    is_new = any(isinstance(one, CreateTable) for one in outcome.done)
    try:
        record = state.record(("table", outcome.table), _RECORD)
        before = record.value if isinstance(record.value, dict) and not is_new else {}
        state.put(record, before | sent)
    except PenstockError as error:
        return _with_notes(outcome, f"this is not remembered, and the next plan has it again: {error}")
    return outcome
