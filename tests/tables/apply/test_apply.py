"""Plans carried out (apply.py, table_changer.py, conversations.py): order, waiting, oddities, Ctrl-C and failures."""

from __future__ import annotations

import time
from typing import Any

import pytest
from fleets import STAGING, Place, construction_expenses

from penstock.client.database import connect
from penstock.errors import (
    AccessDeniedException,
    ContinuousBackupsUnavailableException,
    LimitExceededException,
    PenstockError,
    ThrottlingException,
    UnknownOperationException,
    ValidationException,
)
from penstock.tables.apply.apply import Interrupted, apply, ensure_tables
from penstock.tables.apply.conversations import Pace, poll_seconds
from penstock.tables.apply.table_changer import Finished, Progress
from penstock.tables.definitions.aws_shapes import create_request
from penstock.tables.definitions.definition import Index, Table, Throughput
from penstock.tables.plan.plan import diff
from penstock.tables.plan.survey import survey

JOBS = Table("jobs", "id:S")
RICH = Table(
    "jobs",
    "id:S",
    indexes=[Index("by-state", "state:S"), Index("by-due", "due:N")],
    ttl="expires",
    stream="NEW_IMAGE",
    pitr=True,
    tags={"Team": "blue"},
    deletion_protection=True,
)


def test_thirteen_tables_are_planned_applied_and_verified_in_two_seconds() -> None:
    began = time.process_time()  # the machine may be busy with something else
    with connect(":memory:") as db:
        tables = construction_expenses()
        first = survey(db, tables, STAGING)
        assert first.plan.counts["create"] == 13
        report = apply(db, first)
        assert report.summary == "Applied: 13 created, 0 changed, 0 skipped, 0 failed."
        assert survey(db, tables, STAGING).plan.is_empty
    assert time.process_time() - began < 2


def test_a_plan_of_an_unchanged_fleet_describes_each_table_once() -> None:
    place = Place(naming=STAGING)
    place.apply(*construction_expenses())
    place.watched.calls.clear()
    assert place.survey(*construction_expenses()).plan.is_empty
    describes = ("DescribeTable", "DescribeTimeToLive", "DescribeContinuousBackups", "ListTagsOfResource")
    assert place.watched.calls == dict.fromkeys(describes, 13)


def test_what_is_as_defined_is_skipped_without_a_call() -> None:
    place = Place()
    place.apply(JOBS)
    found = place.survey(JOBS)
    place.watched.calls.clear()
    report = apply(place.db, found, pace=place.pace())
    assert report.counts["skipped"] == 1
    assert not place.watched.calls


def test_a_new_table_gets_its_settings_and_the_standard_tags() -> None:
    place = Place(table_seconds=20, naming=STAGING)
    place.apply(RICH)
    live = place.live("jobs")
    assert diff(live, RICH) == ()
    assert live.tags == {
        "Application": "construction-expenses",
        "CreatedAt": "2023-11-14T22:13:20.000Z",
        "Environment": "staging",
        "ManagedBy": "penstock",
        "Team": "blue",
    }
    assert 20 <= place.slept < 25


def test_a_table_that_somebody_else_makes_meanwhile_is_waited_for_too() -> None:
    """Else who made sure that it is there would write to a table that is CREATING."""
    place = Place(table_seconds=20)
    found = place.survey(JOBS)
    place.inner.execute("CreateTable", create_request(JOBS, "jobs"))
    report = apply(place.db, found, pace=place.pace())
    assert (report.counts["skipped"], report.failures) == (1, ())
    assert 20 <= place.slept < 25
    place = Place(table_seconds=20)
    found = place.survey(JOBS)
    place.inner.execute("CreateTable", create_request(JOBS, "jobs"))
    assert apply(place.db, found, pace=place.pace(waits_for_others=False)).counts["skipped"] == 1
    assert place.slept == 0


def test_every_change_of_a_table_is_made_and_waited_for() -> None:
    place = Place(table_seconds=5, index_seconds=30)
    place.apply(JOBS)
    finished: list[str] = []
    report = place.apply(RICH, report=lambda one: finished.append(one.change) if isinstance(one, Finished) else None)
    assert finished == [
        "+ deletion protection",
        "+ point-in-time recovery, 35 days",
        "+ index by-due (due)",
        "+ index by-state (state)",
        "+ stream NEW_IMAGE",
        "+ tags Team=blue",
        "+ ttl expires",
    ]
    assert report.counts["changed"] == 1
    assert place.survey(RICH).plan.is_empty
    assert not place.survey(RICH).under_way
    report = place.apply(Table("jobs", "id:S", billing=Throughput(5, 5), deletion_protection=False, pitr=False))
    assert not report.failures
    assert place.live("jobs").indexes == ()


def test_tables_are_made_side_by_side_but_no_more_than_allowed() -> None:
    tables = [Table(f"jobs-{n}", "id:S") for n in range(6)]
    place = Place(table_seconds=60)
    place.apply(*tables)
    assert 60 <= place.slept < 70
    place = Place(table_seconds=60)
    place.apply(*tables, side_by_side=2)
    assert 180 <= place.slept < 210


def test_six_indexes_on_six_tables_take_the_time_of_the_slowest() -> None:
    place = Place(index_seconds=3)
    names = [f"jobs-{n}" for n in range(6)]
    place.apply(*(Table(name, "id:S") for name in names))
    report = place.apply(*(Table(name, "id:S", indexes=[Index("by-state", "state:S")]) for name in names))
    assert report.counts["changed"] == 6
    assert 3 <= place.slept < 4, "one after the other would be 18 s"


def test_an_index_that_is_being_built_is_joined() -> None:
    wanted = Table("jobs", "id:S", indexes=[Index("by-state", "state:S")])
    place = Place(index_seconds=100)
    place.apply(JOBS)
    with pytest.raises(Interrupted):
        place.apply(wanted, report=interrupt_at(lambda one: one.status == "CREATING" and one.index == "by-state"))
    found = place.survey(wanted)
    assert found.plan.is_empty
    assert [one.name for one in found.under_way] == ["jobs"]
    place.watched.calls.clear()
    seen: list[Any] = []
    report = apply(place.db, found, pace=place.pace(), report=seen.append)
    assert report.counts["skipped"] == 1
    assert "UpdateTable" not in place.watched.calls
    assert {one.index for one in seen if isinstance(one, Progress)} == {"by-state"}
    assert not place.survey(wanted).under_way


def test_progress_tells_status_backfilling_and_a_percentage() -> None:
    place = Place(index_seconds=10)
    place.apply(JOBS)
    place.put("jobs", *({"id": {"S": str(n)}, "state": {"S": "new"}} for n in range(8)))
    seen: list[Any] = []
    place.apply(Table("jobs", "id:S", indexes=[Index("by-state", "state:S")]), report=seen.append)
    waits = [one for one in seen if isinstance(one, Progress) and one.index]
    assert waits and all(one.status == "CREATING" and one.backfilling for one in waits)
    assert all(one.percent is not None and 0 <= one.percent <= 99 for one in waits)
    assert seen[-1] == Finished("jobs", "+ index by-state (state)")


def interrupt_at(when: Any) -> Any:
    def report(one: object) -> None:
        if isinstance(one, Progress) and when(one):
            raise KeyboardInterrupt

    return report


def test_ctrl_c_in_every_phase_is_reported_and_the_next_run_finishes() -> None:
    phases = count_reports()
    assert phases > 10
    for stop in range(phases):
        place = Place(table_seconds=0.5, index_seconds=1)
        place.apply(JOBS)
        with pytest.raises(Interrupted) as caught:
            place.apply(RICH, Table("other", "id:S", ttl="expires"), report=interrupt_after(stop))
        outcomes = caught.value.report.outcomes
        assert [one.table for one in outcomes] == ["jobs", "other"]
        assert any(one.fate == "unfinished" and one.doing for one in outcomes)
        report = place.apply(RICH, Table("other", "id:S", ttl="expires"))
        assert not report.failures
        after = place.survey(RICH, Table("other", "id:S", ttl="expires"))
        assert after.plan.is_empty and not after.under_way


def count_reports() -> int:
    place = Place(table_seconds=0.5, index_seconds=1)
    place.apply(JOBS)
    seen: list[object] = []
    place.apply(RICH, Table("other", "id:S", ttl="expires"), report=seen.append)
    return len(seen) - 1  # after the last one nothing is left to do


def interrupt_after(reports: int) -> Any:
    left = [reports]

    def report(_: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt

    return report


def test_ctrl_c_while_sleeping_is_the_same() -> None:
    place = Place(table_seconds=30)

    def sleep(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        apply(place.db, place.survey(RICH), pace=Pace(clock=place.clock, sleep=sleep))
    assert caught.value.report.outcomes[0].doing == "+ table (id), indexes: 2"
    assert place.apply(RICH).counts["changed"] == 1, "its TTL and recovery were missing"
    assert place.survey(RICH).plan.is_empty


def test_a_deadline_ends_the_wait_and_says_how_to_join_it_again() -> None:
    wanted = Table("jobs", "id:S", indexes=[Index("by-state", "state:S")])
    place = Place(index_seconds=1_000)
    place.apply(JOBS)
    report = place.apply(wanted, max_wait_seconds=60)
    (failure,) = report.failures
    assert (failure.code, failure.change) == ("WaitedTooLong", "+ index by-state (state)")
    assert "Run the same command again" in failure.next_step
    assert 60 <= place.slept < 61
    assert place.apply(wanted).counts == {**dict.fromkeys(report.counts, 0), "skipped": 1}


def test_a_throttled_control_plane_is_asked_again_ever_later() -> None:
    place = Place()
    place.watched.fail("CreateTable", LimitExceededException("too many"), ThrottlingException("slow down"))
    assert place.apply(JOBS).counts["created"] == 1
    assert place.slept == 2 + 4


def test_a_limit_that_does_not_pass_is_reported() -> None:
    place = Place()
    place.watched.fail("CreateTable", *[LimitExceededException("2,500 tables")] * 20)
    (failure,) = place.apply(JOBS).failures
    assert failure.code == "LimitExceededException"
    assert place.watched.calls["CreateTable"] == 10


def test_recovery_right_after_creation_is_tried_again() -> None:
    place = Place()
    place.watched.fail("UpdateContinuousBackups", *[ContinuousBackupsUnavailableException("not yet")] * 3)
    assert place.apply(Table("jobs", "id:S", pitr=True)).counts["created"] == 1
    assert place.live("jobs").pitr == 35


def test_an_endpoint_without_recovery_is_told_and_not_planned_for_again() -> None:
    place = Place()
    wanted = Table("jobs", "id:S", pitr=True)
    place.watched.fail("UpdateContinuousBackups", UnknownOperationException())
    report = place.apply(wanted)
    assert report.outcomes[0].notes == ("this endpoint has no point-in-time recovery",)
    place.watched.fail("DescribeContinuousBackups", UnknownOperationException())
    assert place.survey(wanted).plan.is_empty


def test_ttl_that_is_there_already_is_not_set_again() -> None:
    place = Place()
    place.apply(JOBS)
    found = place.survey(Table("jobs", "id:S", ttl="expires"))
    place.apply(Table("jobs", "id:S", ttl="expires"))
    place.watched.calls.clear()
    assert apply(place.db, found, pace=place.pace()).counts["changed"] == 1
    assert "UpdateTimeToLive" not in place.watched.calls


def test_another_ttl_attribute_is_waited_for_as_long_as_dynamodb_takes() -> None:
    place = Place()
    place.apply(Table("jobs", "id:S", ttl="old"))
    refusals = [ValidationException("Time to live has been modified multiple times within a fixed interval")] * 30
    found = place.survey(Table("jobs", "id:S", ttl="new"))
    original = place.watched.execute

    def execute(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation == "UpdateTimeToLive" and request["TimeToLiveSpecification"]["Enabled"] and refusals:
            raise refusals.pop()
        return original(operation, request)

    place.watched.execute = execute  # type: ignore[method-assign]
    assert not apply(place.db, found, pace=place.pace()).failures
    assert place.live("jobs").ttl == "new"
    assert place.slept == 30 * 60


def test_a_missing_permission_names_the_action_the_table_and_the_policy_command() -> None:
    place = Place()
    place.watched.fail("CreateTable", AccessDeniedException("User: x is not authorized to perform"))
    found = place.survey(JOBS, Table("other", "id:S"))
    command = "penstock tables policy jobs:all --for apply"
    report = apply(place.db, found, pace=place.pace(), policy=command)
    assert report.counts == {**report.counts, "created": 1, "failed": 1}
    (failure,) = report.failures
    assert failure.action == "dynamodb:CreateTable"
    assert f"Allow dynamodb:CreateTable on {failure.table}: `{command}` writes the policy." in str(failure)


def test_a_half_applied_table_says_what_is_done_and_the_next_run_does_the_rest() -> None:
    place = Place()
    place.apply(JOBS)
    place.watched.fail("TagResource", ValidationException("no such tag"))
    (outcome,) = place.apply(RICH).outcomes
    assert outcome.fate == "failed"
    assert len(outcome.done) == 5
    assert outcome.failure is not None and outcome.failure.change == "+ tags Team=blue"
    assert place.apply(RICH).counts["changed"] == 1
    assert place.survey(RICH).plan.is_empty


def test_another_primary_key_is_refused_with_what_to_do_and_changes_nothing() -> None:
    place = Place()
    place.apply(JOBS)
    place.watched.calls.clear()
    (failure,) = place.apply(Table("jobs", "other:S")).failures
    assert "penstock tables rekey" in failure.reason
    assert "UpdateTable" not in place.watched.calls


def test_a_table_that_somebody_else_made_meanwhile_is_skipped() -> None:
    place = Place()
    found = place.survey(JOBS)
    place.apply(JOBS)
    report = apply(place.db, found, pace=place.pace())
    assert report.counts["skipped"] == 1
    assert "meanwhile" in report.outcomes[0].notes[0]


def test_a_table_that_is_being_deleted_is_made_again_when_it_is_gone() -> None:
    place = Place(table_seconds=30)
    place.apply(JOBS)
    place.db.execute("DeleteTable", {"TableName": "jobs"})
    assert place.apply(RICH).counts["created"] == 1
    assert place.slept >= 90


def test_polls_grow_from_a_tenth_of_a_second_to_five() -> None:
    waits = [poll_seconds(attempt) for attempt in range(1_000)]
    assert waits[0] == 0.1 and waits[-1] == 5.0
    assert waits == sorted(waits)


def test_tables_that_a_program_needs_are_there_or_it_is_told_why_not() -> None:
    with connect() as db:
        ensure_tables(db, [Table("jobs", key="id:S")])
        assert ensure_tables(db, [Table("jobs", key="id:S"), Table("logs", key="id:S")]).counts["created"] == 1
        with pytest.raises(PenstockError, match="jobs"):
            ensure_tables(db, [Table("jobs", key="other:S")])
