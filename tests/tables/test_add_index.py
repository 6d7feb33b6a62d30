"""One index added after a look at real items, or changed with no gap (add_index.py, item_sample.py; S1.9–12)."""

from __future__ import annotations

from typing import Any

import pytest
from fleets import PLAIN, Place

from penstock.tables.apply.apply import Interrupted, apply
from penstock.tables.apply.table_changer import Progress
from penstock.tables.definitions.definition import Index, Table, Throughput
from penstock.tables.definitions.problems import DefinitionError
from penstock.tables.indexes import (
    IndexPlan,
    IndexRefused,
    existing,
    fit,
    plan_addition,
    plan_removal,
    refuse_misfits,
    sample,
    successor_name,
    warning_of,
)

JOBS = Table("jobs", "id:S", indexes=[Index("by-state", "state:S")])
BY_DUE = Index("by-due", "due:N")


@pytest.fixture
def place() -> Place:
    place = Place(index_seconds=30)
    place.apply(JOBS)
    place.put("jobs", *(item(n) for n in range(40)))
    return place


def item(n: int) -> dict[str, Any]:
    return {"id": {"S": str(n)}, "state": {"S": "new"}, "due": {"N": str(n)}, "empty": {"S": ""}}


def planned(place: Place, index: Index) -> IndexPlan:
    return plan_addition(place.db, existing(place.db, "jobs"), index, PLAIN)


def test_an_index_that_fits_is_made_and_waited_for(place: Place) -> None:
    plan = planned(place, BY_DUE)
    refuse_misfits(plan)
    assert plan.fit is not None and (plan.fit.sampled, plan.fit.holds) == (40, 40)
    assert warning_of(plan) is None
    assert apply(place.db, plan.survey, pace=place.pace()).counts["changed"] == 1
    assert 30 <= place.slept < 36
    found = place.db.execute(
        "Query",
        {
            "TableName": "jobs",
            "IndexName": "by-due",
            "KeyConditionExpression": "due = :d",
            "ExpressionAttributeValues": {":d": {"N": "7"}},
        },
    )
    assert found["Count"] == 1


def test_an_index_of_another_type_than_the_stored_one_is_refused(place: Place) -> None:
    plan = planned(place, Index("by-due", "due:S"))
    with pytest.raises(IndexRefused, match=r"due should be S, and is N in 40.*--force"):
        refuse_misfits(plan)


def test_an_empty_text_is_no_key_either(place: Place) -> None:
    with pytest.raises(IndexRefused, match="empty S in 40"):
        refuse_misfits(planned(place, Index("by-empty", "empty:S")))


def test_an_attribute_that_no_item_has_is_warned_about(place: Place) -> None:
    plan = planned(place, Index("by-colour", "colour:S"))
    refuse_misfits(plan)
    assert "none of 40 sampled items has colour" in str(warning_of(plan))


def test_an_empty_table_says_that_nothing_could_be_checked() -> None:
    place = Place()
    place.apply(JOBS)
    assert "no items to look at" in str(warning_of(planned(place, BY_DUE)))


def test_an_index_that_is_there_is_skipped(place: Place) -> None:
    plan = planned(place, Index("by-state", "state:S"))
    assert plan.exists and not plan.is_building
    assert apply(place.db, plan.survey, pace=place.pace()).counts["skipped"] == 1


def test_another_of_the_same_name_is_refused(place: Place) -> None:
    with pytest.raises(IndexRefused, match="change-index"):
        planned(place, Index("by-state", "state:S", "due:N"))


def test_an_index_that_cannot_be_is_refused_before_anything_is_asked(place: Place) -> None:
    place.watched.calls.clear()
    live = existing(place.db, "jobs")
    for wrong in (Index("x", "state:S"), Index("by-due", "id:N"), Index("by-due", "due:N", "due:N")):
        with pytest.raises(DefinitionError):
            plan_addition(place.db, live, wrong, PLAIN)
    assert place.watched.calls == {"DescribeTable": 1}


def test_a_missing_table_is_told(place: Place) -> None:
    with pytest.raises(IndexRefused, match="no such table"):
        existing(place.db, "job")


def test_a_wait_that_was_left_is_joined_by_the_next_run(place: Place) -> None:
    def interrupt(one: object) -> None:
        if isinstance(one, Progress) and one.index:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        apply(place.db, planned(place, BY_DUE).survey, pace=place.pace(), report=interrupt)
    plan = planned(place, BY_DUE)
    assert plan.exists and plan.is_building
    place.watched.calls.clear()
    apply(place.db, plan.survey, pace=place.pace())
    assert place.watched.calls["UpdateTable"] == 0
    assert not planned(place, BY_DUE).is_building


def test_a_second_index_waits_for_the_first(place: Place) -> None:
    with pytest.raises(Interrupted):
        apply(place.db, planned(place, BY_DUE).survey, pace=place.pace(), report=_stop_when_building)
    second = planned(place, Index("by-both", "state:S", "due:N"))
    assert not apply(place.db, second.survey, pace=place.pace()).failures
    assert len(place.live("jobs").indexes) == 3


def _stop_when_building(one: object) -> None:
    if isinstance(one, Progress) and one.index:
        raise KeyboardInterrupt


def test_an_index_of_a_provisioned_table_gets_its_units() -> None:
    place = Place()
    place.apply(Table("jobs", "id:S", billing=Throughput(7, 9)))
    assert planned(place, BY_DUE).index.throughput == Throughput(7, 9)


def test_a_changed_index_leaves_no_gap(place: Place) -> None:
    """Add new, ready, drop old: at every moment one of the two answers."""
    new = Index("by-state-v2", "state:S", "due:N", projection="KEYS_ONLY")
    answering: list[set[str]] = []

    def look(_: object) -> None:
        description = place.db.execute("DescribeTable", {"TableName": "jobs"})["Table"]
        active = {one["IndexName"] for one in description["GlobalSecondaryIndexes"] if one["IndexStatus"] == "ACTIVE"}
        answering.append(active)

    live = existing(place.db, "jobs")
    apply(place.db, plan_addition(place.db, live, new, PLAIN).survey, pace=place.pace(), report=look)
    apply(place.db, plan_removal(live, "by-state", PLAIN), pace=place.pace(), report=look)
    assert all(answering)
    assert [index.name for index in place.live("jobs").indexes] == ["by-state-v2"]
    assert plan_removal(existing(place.db, "jobs"), "by-state", PLAIN).plan.is_empty


def test_successors_count_up() -> None:
    assert [successor_name(name) for name in ("email-index", "email-index-v2", "x-v9")] == [
        "email-index-v2",
        "email-index-v3",
        "x-v10",
    ]


def test_a_sample_is_bounded_and_comes_from_several_places() -> None:
    place = Place()
    place.apply(Table("jobs", "id:S"))
    place.put("jobs", *({"id": {"S": f"{n:04}"}, "n": {"N": str(n)}} for n in range(300)))
    items = sample(place.db, "jobs", ["n"], items=40)
    assert len(items) == 40
    assert all(set(one) == {"n"} for one in items)
    assert place.watched.calls["Scan"] == 4
    assert fit(Index("by-n", "n:N"), items).holds == 40
