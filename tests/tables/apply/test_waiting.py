"""What an apply has not begun itself: told while it is waited for, or not waited for (table_changer.py, 4)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fleets import Place

from penstock.cli.tables.options import WaitLines
from penstock.cli.tables.schema import Screen
from penstock.errors import DynamoDBError, LimitExceededException, ResourceInUseException, ValidationException
from penstock.tables.apply.table_changer import REFUSED_SECONDS, Finished, Waiting
from penstock.tables.definitions.definition import Index, Table
from penstock.tables.state.state_table import Holder, LeaseHeld

JOBS = Table("jobs", "id:S")
THEIRS = JOBS.replace(indexes=[Index("by-state", "state:S")])
BOTH = JOBS.replace(indexes=[Index("by-state", "state:S"), Index("by-due", "due:N")])


def with_their_index() -> Place:
    """A table to which somebody adds an index, which takes 30 seconds."""
    place = Place(index_seconds=30)
    place.apply(JOBS)
    index = {"IndexName": "by-state", "KeySchema": [{"AttributeName": "state", "KeyType": "HASH"}],
             "Projection": {"ProjectionType": "ALL"}}  # fmt: skip
    place.db.execute(
        "UpdateTable",
        {
            "TableName": "jobs",
            "AttributeDefinitions": [{"AttributeName": "state", "AttributeType": "S"}],
            "GlobalSecondaryIndexUpdates": [{"Create": index}],
        },
    )
    return place


def waits_of(place: Place, *tables: Table, **pace: Any) -> list[Waiting]:
    told: list[Waiting] = []
    report = place.apply(*tables, report=lambda one: told.append(one) if isinstance(one, Waiting) else None, **pace)
    assert not report.failures, report
    return told


def test_somebody_elses_index_is_told_with_the_time_that_is_left() -> None:
    place = with_their_index()
    told = waits_of(place, BOTH, max_wait_seconds=100.0)
    assert {one.reason for one in told} == {"it is CREATING index by-state"}
    assert (told[0].table, told[0].change, told[0].waited_seconds) == ("jobs", "+ index by-due (due)", 0.0)
    assert told[0].left_seconds == pytest.approx(100.0)
    assert told[-1].waited_seconds > 20 and told[-1].left_seconds < 80


def test_our_own_index_is_no_wait_for_others() -> None:
    place = Place(table_seconds=20, index_seconds=30)
    assert waits_of(place, JOBS) == []
    assert waits_of(place, BOTH, waits_for_others=False) == []  # two, one after the other


def test_without_waiting_their_index_is_a_failure_and_nothing_is_changed() -> None:
    place = with_their_index()
    report = place.apply(BOTH, waits_for_others=False)
    (failure,) = report.failures
    assert failure.reason == "it is CREATING index by-state, and nothing was waited for."
    assert failure.next_step == "Run it again when that is over, or without --no-wait."
    assert place.slept == 0 and place.live("jobs").index("by-due") is None


def test_without_waiting_a_plan_with_nothing_to_do_says_what_is_under_way() -> None:
    place = with_their_index()
    report = place.apply(THEIRS, waits_for_others=False)
    assert not report.failures and place.slept == 0
    assert report.outcomes[0].notes == ("what is under way there was not waited for",)


@pytest.mark.parametrize(
    ("operation", "wanted", "error"),
    [
        ("UpdateTable", BOTH, LimitExceededException("Only 1 online index at once.")),
        ("UpdateTable", BOTH, ResourceInUseException("Table is being updated: jobs")),
        ("TagResource", JOBS.replace(tags={"Team": "blue"}), ResourceInUseException("busy")),
        ("CreateTable", Table("logs", "id:S"), LimitExceededException("500 tables at once")),
    ],
    ids=["limit", "in use", "tags", "tables at once"],
)
def test_a_refusal_is_told_in_dynamodbs_words_or_fails_at_once(
    operation: str, wanted: Table, error: DynamoDBError
) -> None:
    place = Place()
    place.apply(JOBS)
    place.watched.fail(operation, error)
    report = place.apply(wanted, waits_for_others=False)
    assert [type(error).__name__ in str(one) for one in report.failures] == [True]
    place.watched.fail(operation, error)
    (told,) = waits_of(place, wanted)
    assert told.reason == f"{error.code}: {error.message.rstrip('.')}"


def test_an_active_table_that_refuses_for_ever_is_not_waited_for_to_the_end() -> None:
    place = Place()
    place.apply(JOBS)
    place.watched.fail("UpdateTable", *[ResourceInUseException("Cannot enable stream")] * 1_000)
    (failure,) = place.apply(JOBS.replace(stream="NEW_IMAGE")).failures
    assert "ResourceInUseException: Cannot enable stream" in failure.reason
    assert REFUSED_SECONDS < place.slept < 2 * REFUSED_SECONDS


def test_a_second_change_of_ttl_is_told_once_a_minute() -> None:
    place = Place()
    place.apply(JOBS.replace(ttl="old"))
    told: list[Waiting] = []

    def report(event: object) -> None:
        if isinstance(event, Finished) and event.change == "- ttl old":
            place.watched.fail("UpdateTimeToLive", *[ValidationException("modified multiple times")] * 3)
        if isinstance(event, Waiting):
            told.append(event)

    assert not place.apply(JOBS.replace(ttl="new"), report=report).failures
    assert [(one.reason, one.waited_seconds, one.pause_seconds) for one in told] == [
        ("ValidationException: modified multiple times", waited, 60.0) for waited in (0.0, 60.0, 120.0)
    ]


# ── the lines ────────────────────────────────────────────────────────────────────────────────────


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_reason_is_one_line_on_stderr_in_a_pipe_too(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    screen = Screen(waits=WaitLines(3600, as_json=False, clock=clock))
    screen.report(Waiting("jobs", "+ ttl ends", "it is UPDATING", 0.0, 0.1, 3600.0))  # a moment is not told
    assert capsys.readouterr() == ("", "")
    for waited in (1.0, 2.0, 59.0):
        clock.now = waited
        screen.report(Waiting("jobs", "+ ttl ends", "it is UPDATING", waited, 5.0, 3600.0 - waited))
    told = "Waiting: jobs: it is UPDATING (1 s so far, at most 3,599 s more; --no-wait fails instead).\n"
    assert capsys.readouterr() == ("", told)
    clock.now = 62.0
    screen.report(Waiting("jobs", "+ ttl ends", "it is UPDATING", 62.0, 5.0, 3538.0))
    assert "62 s so far, at most 3,538 s more" in capsys.readouterr().err


def test_with_json_a_line_is_an_object(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(quiet=True, waits=WaitLines(3600, as_json=True, clock=Clock()))
    screen.report(Waiting("jobs", "+ ttl ends", "it is \x1b[2J", 1.04, 5.0, 9.0))
    told = json.loads(capsys.readouterr().err)
    assert told["waiting"]["on"] == "jobs" and told["waiting"]["waited_seconds"] == 1.0


def test_a_lease_is_told_with_its_holder_and_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    lines = WaitLines(90, as_json=False, clock=Clock())
    held = LeaseHeld(("table", "jobs"), Holder("ada@laptop", "penstock tables apply x", 0.0, 30.0, "7"))
    lines.lease(held)
    lines.lease(held)
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.startswith("Waiting: the table jobs is held by ada@laptop")
    assert "at most 90 s more" in told
