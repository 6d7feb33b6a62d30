"""Applying while things fail: every call in turn, lost on its way there or back; others who change the same table."""

from __future__ import annotations

from typing import Any

import pytest
from fleets import PLAIN, Place, Watched, construction_expenses
from hypothesis import HealthCheck, given, settings
from table_strategies import tables

from penstock.client.database import Database
from penstock.errors import ConnectionFailed, LimitExceededException, PenstockError
from penstock.tables.apply.apply import apply
from penstock.tables.definitions.definition import Index, Table
from penstock.tables.iam_policy import policy
from penstock.tables.indexes import existing, plan_addition
from penstock.tables.plan.changes import ReplaceTable
from penstock.tables.plan.survey import survey_to_delete

JOBS = Table(
    "jobs", "id:S", indexes=[Index("by-state", "state:S")], ttl="old", stream="KEYS_ONLY", tags={"Team": "red"}
)
WANTED = Table(
    "jobs",
    "id:S",
    indexes=[Index("by-due", "due:N")],
    ttl="new",
    stream="NEW_IMAGE",
    pitr=True,
    tags={"Owner": "ada"},
    deletion_protection=True,
)
LOGS = Table("logs", "id:S", ttl="expires", pitr=True)


class Lossy(Watched):
    """A transport whose call of this number fails: before it has its effect, or after."""

    def __init__(self, inner: Database, number: int, *, after: bool) -> None:
        super().__init__(inner)
        self.left, self.after = number, after

    def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self.left -= 1
            fails = self.left == -1
        if fails and not self.after:
            raise ConnectionFailed("nowhere", "refused", "Try again.")
        answer = super().execute(operation, request)
        if fails:
            raise ConnectionFailed("nowhere", "it ended before the answer", "Try again.", sent=True)
        return answer


@pytest.mark.parametrize("after", [False, True], ids=["lost on its way", "answer lost"])
def test_whichever_call_is_lost_it_is_reported_and_the_next_run_finishes(after: bool) -> None:
    number = 0
    while True:
        place = Place(table_seconds=0.3, index_seconds=0.5)
        place.apply(JOBS)
        place.watched = lossy = Lossy(place.inner, number, after=after)
        place.db = Database(lossy)
        if _told_or_done(place) and lossy.left >= 0:
            break  # it was over before that call
        place.watched = Watched(place.inner)
        place.db = Database(place.watched)
        report = place.apply(WANTED, LOGS)
        assert not report.failures, (number, report)
        found = place.survey(WANTED, LOGS)
        assert found.plan.is_empty and not found.under_way, number
        place.inner.close()
        number += 1
    assert number > 30


def _told_or_done(place: Place) -> bool:
    """Whether a run did everything; if not, it must have said so."""
    try:
        report = place.apply(WANTED, LOGS)
    except PenstockError as error:
        assert "Try again." in str(error)
        return False
    for failure in report.failures:
        assert failure.table and failure.change and failure.reason and failure.next_step
    return not report.failures


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(tables(keys=("id:S", "sort:N")), tables(keys=("id:S", "sort:N")))
def test_applying_the_plan_of_any_table_leaves_an_empty_plan(first: Table, second: Table) -> None:
    second = second.replace(name=first.name)
    place = Place(table_seconds=2, index_seconds=4)
    assert not place.apply(first).failures
    found = place.survey(second)
    if any(isinstance(change, ReplaceTable) for change in found.tables[0].plan.changes):
        return
    report = apply(place.db, found, pace=place.pace(max_wait_seconds=100_000))
    assert not report.failures
    after = place.survey(second)
    assert after.plan.is_empty and not after.under_way


def test_an_index_that_somebody_else_begins_meanwhile_is_waited_for() -> None:
    place = Place(index_seconds=400)
    place.apply(Table("jobs", "id:S"))
    found = place.survey(Table("jobs", "id:S", indexes=[Index("by-due", "due:N")]))
    theirs = plan_addition(place.db, existing(place.db, "jobs"), Index("by-owner", "owner:S"), PLAIN).survey
    original, begun = place.watched.execute, []

    def execute(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation == "UpdateTable" and not begun:
            begun.append(True)
            apply(place.inner, theirs, pace=place.pace(max_wait_seconds=0))
        return original(operation, request)

    place.watched.execute = execute  # type: ignore[method-assign]
    report = apply(place.db, found, pace=place.pace())
    assert not report.failures
    assert [index.name for index in place.live("jobs").indexes] == ["by-due", "by-owner"]
    assert place.slept > 800


def test_a_limit_on_updates_that_stays_is_reported() -> None:
    place = Place()
    place.apply(Table("jobs", "id:S"))
    place.watched.fail("UpdateTable", *[LimitExceededException("20 indexes")] * 20)
    (failure,) = place.apply(Table("jobs", "id:S", indexes=[Index("by-due", "due:N")])).failures
    assert (failure.code, failure.change) == ("LimitExceededException", "+ index by-due (due)")
    assert place.watched.calls["UpdateTable"] == 10


@pytest.mark.parametrize(
    ("status", "told"),
    [("INACCESSIBLE_ENCRYPTION_CREDENTIALS", "KMS key"), ("ARCHIVED", "restore the table"), ("ODD", "Put it right")],
)
def test_a_table_in_a_state_that_no_waiting_ends_is_told_at_once(status: str, told: str) -> None:
    place = Place()
    place.apply(JOBS)
    original = place.watched.execute

    def execute(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        answer = original(operation, request)
        if operation == "DescribeTable":
            answer["Table"]["TableStatus"] = status
        return answer

    place.watched.execute = execute  # type: ignore[method-assign]
    (failure,) = place.apply(WANTED).failures
    assert failure.reason == f"the table is {status}."
    assert told in failure.next_step
    assert place.slept == 0


def test_an_endpoint_with_strange_answers_hurts_no_other_table() -> None:
    place = Place()
    original = place.watched.execute
    found = place.survey(Table("jobs", "id:S"), Table("logs", "id:S"))

    def execute(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        answer = original(operation, request)
        return {"Tables": []} if operation == "DescribeTable" and request["TableName"] == "jobs" else answer

    place.watched.execute = execute  # type: ignore[method-assign]
    report = apply(place.db, found, pace=place.pace())
    assert [(one.table, one.fate) for one in report.outcomes] == [("jobs", "failed"), ("logs", "created")]
    assert "the answer to DescribeTable is not DynamoDB's" in report.failures[0].reason


def test_the_policy_allows_every_call_that_is_made() -> None:
    place = Place()
    fleet = (*construction_expenses(), WANTED)

    def allowed(command: str) -> set[str]:
        statements = policy([command], fleet, PLAIN)["Statement"]
        return {action.removeprefix("dynamodb:") for one in statements for action in one["Action"]}

    place.apply(*construction_expenses(), JOBS)
    place.apply(*fleet)
    assert set(place.watched.calls) <= allowed("apply")
    place.watched.calls.clear()
    place.survey(*fleet)
    assert set(place.watched.calls) <= allowed("plan") & allowed("verify") & allowed("export")
    place.watched.calls.clear()
    plan = plan_addition(place.db, existing(place.db, "jobs"), Index("by-x", "x:S"), PLAIN)
    apply(place.db, plan.survey, pace=place.pace())
    assert set(place.watched.calls) <= allowed("add-index") & allowed("change-index")
    place.watched.calls.clear()
    apply(place.db, survey_to_delete(place.db, ["companies"], PLAIN), pace=place.pace())
    assert set(place.watched.calls) <= allowed("destroy")
