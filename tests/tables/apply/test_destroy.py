"""Tables deleted by their exact names (survey_to_delete; S0.7, S3.9)."""

from __future__ import annotations

from fleets import PLAIN, STAGING, Place

from penstock.errors import AccessDeniedException
from penstock.tables.apply.apply import ApplyReport, apply
from penstock.tables.definitions.definition import Index, Table
from penstock.tables.plan.survey import survey_to_delete

JOBS = Table("jobs", "id:S")


def destroyed(place: Place, *names: str) -> ApplyReport:
    return apply(place.db, survey_to_delete(place.db, names, place.naming), pace=place.pace())


def test_only_the_names_that_were_given_go() -> None:
    place = Place()
    place.apply(JOBS, Table("jobs-archive", "id:S"), Table("job", "id:S"))
    report = destroyed(place, "jobs")
    assert report.summary == "Applied: 1 deleted, 0 skipped, 0 failed."
    assert place.db.tables() == ["job", "jobs-archive"]


def test_it_waits_until_they_are_really_gone() -> None:
    place = Place(table_seconds=40)
    place.apply(JOBS)
    slept = place.slept
    destroyed(place, "jobs")
    assert 40 <= place.slept - slept < 46
    assert place.db.tables() == []


def test_one_that_is_not_there_is_skipped() -> None:
    place = Place()
    assert destroyed(place, "jobs").counts["skipped"] == 1


def test_one_that_is_being_deleted_is_waited_for() -> None:
    place = Place(table_seconds=40)
    place.apply(JOBS)
    place.db.execute("DeleteTable", {"TableName": "jobs"})
    report = destroyed(place, "jobs")
    assert not report.failures
    assert place.db.tables() == []


def test_deletion_protection_is_respected_and_stops_no_other() -> None:
    place = Place()
    place.apply(Table("jobs", "id:S", deletion_protection=True), Table("logs", "id:S"))
    report = destroyed(place, "jobs", "logs")
    assert [(one.table, one.fate) for one in report.outcomes] == [("jobs", "failed"), ("logs", "deleted")]
    assert "deletion_protection=False" in report.failures[0].reason
    assert place.watched.calls["DeleteTable"] == 1
    assert place.db.tables() == ["jobs"]


def test_a_table_whose_index_is_being_made_goes_when_it_can() -> None:
    place = Place(index_seconds=50)
    place.apply(JOBS)
    place.apply(Table("jobs", "id:S", indexes=[Index("by-state", "state:S")]), max_wait_seconds=0)
    assert not destroyed(place, "jobs").failures
    assert place.db.tables() == []


def test_recreating_is_destroying_and_applying() -> None:
    place = Place(table_seconds=10, naming=STAGING)
    place.apply(JOBS)
    place.put("jobs", {"id": {"S": "1"}})
    destroyed(place, STAGING.full_name("jobs"))
    place.apply(JOBS)
    assert place.db.execute("Scan", {"TableName": STAGING.full_name("jobs")})["Count"] == 0


def test_only_describe_and_delete_are_asked() -> None:
    place = Place()
    place.apply(JOBS)
    place.watched.calls.clear()
    destroyed(place, "jobs")
    assert set(place.watched.calls) == {"DescribeTable", "DeleteTable"}


def test_a_missing_permission_is_named() -> None:
    place = Place()
    place.apply(JOBS)
    place.watched.fail("DeleteTable", AccessDeniedException("not authorized"))
    (failure,) = apply(place.db, survey_to_delete(place.db, ["jobs"], PLAIN), policy="the policy command").failures
    assert failure.next_step == "Allow dynamodb:DeleteTable on jobs: `the policy command` writes the policy."
