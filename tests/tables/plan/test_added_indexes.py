"""An index that somebody added to a live table: it stays, unless it is dropped by its name (survey.py)."""

from __future__ import annotations

import pytest
from fleets import Place

from penstock.errors import PenstockError
from penstock.tables.apply.apply import apply, ensure_tables
from penstock.tables.definitions import problems
from penstock.tables.definitions.definition import Index, Table, Throughput
from penstock.tables.plan.changes import AddIndex, DropIndex, SetTtl, UpdateBilling
from penstock.tables.plan.survey import keep_added_indexes

ADDED = Index("by-phone", "phone:S")
LIVE = Table("users", "id:S", indexes=[Index("by-email", "email:S"), ADDED])
WANTED = Table("users", "id:S", indexes=[Index("by-email", "email:S"), Index("by-name", "name:S")], ttl="expires")


@pytest.fixture
def place() -> Place:
    made = Place()
    made.apply(LIVE)
    return made


def test_an_added_index_stays_and_the_rest_is_applied(place: Place) -> None:
    found = keep_added_indexes(place.survey(WANTED))
    assert [type(one) for one in found.plan.tables[0].changes] == [AddIndex, SetTtl]
    assert "--drop-index users.by-phone" in found.tables[0].note
    apply(place.db, found)
    assert [type(one) for one in place.survey(WANTED).plan.tables[0].changes] == [DropIndex], "verify still tells it"
    assert keep_added_indexes(place.survey(WANTED)).plan.is_empty


def test_an_index_is_dropped_by_its_name(place: Place) -> None:
    name = place.survey(WANTED).tables[0].name
    for drop in ("users.by-phone", f"{name}.by-phone"):
        found = keep_added_indexes(place.survey(WANTED), [drop])
        assert any(isinstance(one, DropIndex) for one in found.plan.tables[0].changes)
        assert not found.tables[0].note
    assert keep_added_indexes(place.survey(WANTED), ["others.by-phone"]).tables[0].note, "another table's"


def test_an_index_of_the_definition_that_has_another_key_is_replaced_as_ever(place: Place) -> None:
    changed = Table("users", "id:S", indexes=[Index("by-email", "email:S", "at:N"), ADDED])
    changes = keep_added_indexes(place.survey(changed)).plan.tables[0].changes
    assert [type(one) for one in changes] == [DropIndex, AddIndex]


def test_capacity_is_planned_for_an_index_that_stays(place: Place) -> None:
    wanted = Table("users", "id:S", indexes=[Index("by-email", "email:S")], billing=Throughput(5, 5))
    (change,) = keep_added_indexes(place.survey(wanted)).plan.tables[0].changes
    assert isinstance(change, UpdateBilling)
    assert "by-phone" in str(change)


def test_a_program_that_makes_its_tables_leaves_an_added_index_alone(place: Place) -> None:
    ensure_tables(place.db, [WANTED], place.naming)
    description = place.db.execute("DescribeTable", {"TableName": place.naming.full_name("users")})["Table"]
    assert {one["IndexName"] for one in description["GlobalSecondaryIndexes"]} == {"by-email", "by-name", "by-phone"}


def test_an_index_that_stays_and_has_an_attribute_with_another_type_is_told_before_anything_is_done(
    place: Place,
) -> None:
    """DynamoDB would refuse the new index only after the old one is dropped."""
    place.apply(Table("users", "id:S", indexes=[Index("by-email", "email:S"), Index("by-phone", "phone:S", "email:S")]))
    wanted = Table("users", "id:S", indexes=[Index("by-email", "email:B")])
    with pytest.raises(
        PenstockError, match=r"'email' is B in index by-email and S in index by-phone.*--drop-index"
    ) as no:
        keep_added_indexes(place.survey(wanted))
    assert "users: index by-phone stays, though no definition has it, and the definition leaves no room" in str(
        no.value
    )
    apply(place.db, keep_added_indexes(place.survey(wanted), ["users.by-phone"]))
    assert keep_added_indexes(place.survey(wanted)).plan.is_empty


def test_an_account_with_higher_quotas_keeps_what_it_has(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "GLOBAL_INDEXES", 1)
    assert keep_added_indexes(place.survey(Table("users", "id:S"))).tables[0].note
