"""Tables as they are (inspect.py): one look at each, and what cannot be seen."""

from __future__ import annotations

from typing import Any

import pytest
from fleets import STAGING, Place

from penstock.errors import AccessDeniedException, PenstockError, UnknownOperationException
from penstock.tables.definitions.definition import Index, Table
from penstock.tables.plan.failures import Failure, TablesUnreadable
from penstock.tables.plan.survey import Live, inspect, inspect_all, inspect_every, require_table

RICH = Table(
    "jobs",
    ("id:S", "at:N"),
    indexes=[Index("by-state", "state:S", projection=["owner"]), Index("by-size", "id:S", "size:N", local=True)],
    ttl="expires",
    stream="KEYS_ONLY",
    pitr=7,
    tags={"Team": "blue"},
)


def test_a_table_is_seen_with_everything_that_it_was_made_of() -> None:
    place = Place()
    place.apply(RICH)
    live = place.live("jobs")
    assert (live.key, live.indexes, live.ttl, live.stream, live.pitr) == (
        RICH.key,
        RICH.indexes,
        "expires",
        "KEYS_ONLY",
        7,
    )
    assert live.tags is not None and live.tags["Team"] == "blue"


def test_a_table_that_is_not_there_is_none() -> None:
    assert inspect(Place().db, "nothing") is None


def test_a_table_that_is_being_made_is_seen_without_its_settings() -> None:
    place = Place(table_seconds=30)
    place.db.execute(
        "CreateTable",
        {
            "TableName": "jobs",
            "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
            "BillingMode": "PAY_PER_REQUEST",
        },
    )
    live = inspect(place.db, "jobs")
    assert live is not None and live.in_motion
    assert (live.facts.status, live.table.ttl, live.table.pitr) == ("CREATING", None, 0)
    assert place.watched.calls["DescribeTimeToLive"] == 0


def test_without_settings_only_describe_table_is_asked() -> None:
    place = Place()
    place.apply(RICH)
    place.watched.calls.clear()
    assert inspect(place.db, "jobs", settings=False) is not None
    assert place.watched.calls == {"DescribeTable": 1}


def test_many_are_seen_in_the_order_of_their_names_and_failures_stop_nobody() -> None:
    place = Place(naming=STAGING)
    place.apply(*(Table(f"jobs-{n}", "id:S") for n in range(20)))
    names = [STAGING.full_name(f"jobs-{n}") for n in range(22)]
    place.watched.fail("DescribeTimeToLive", AccessDeniedException("not authorized"))
    found = inspect_all(place.db, names)
    assert list(found) == names
    assert [sum(isinstance(one, kind) for one in found.values()) for kind in (Live, Failure, type(None))] == [19, 1, 2]


def test_all_or_nothing_names_every_table_and_its_missing_action() -> None:
    place = Place()
    place.apply(Table("jobs", "id:S"), Table("logs", "id:S"))
    place.watched.fail("ListTagsOfResource", *[AccessDeniedException("not authorized")] * 2)
    with pytest.raises(TablesUnreadable) as caught:
        inspect_every(place.db, ["jobs", "logs"], policy="penstock tables policy x")
    text = str(caught.value)
    assert text.startswith("Nothing was changed")
    for name in ("jobs", "logs"):
        assert f"Allow dynamodb:ListTagsOfResource on {name}: `penstock tables policy x` writes the policy." in text


def test_what_an_endpoint_does_not_have_is_remembered() -> None:
    place = Place()
    place.apply(Table("jobs", "id:S"))
    for operation in ("DescribeContinuousBackups", "ListTagsOfResource", "DescribeTimeToLive"):
        place.watched.fail(operation, UnknownOperationException())
    live = inspect(place.db, "jobs")
    assert live is not None and live.unsupported == {"pitr", "tags", "ttl"}


def test_what_dynamodb_local_never_tells_again_is_not_compared() -> None:
    place = Place()
    wanted = Table("jobs", "id:S", sse=True, table_class="STANDARD_INFREQUENT_ACCESS", indexes=[Index("by-x", "x:S")])
    place.apply(Table("jobs", "id:S", indexes=[Index("by-x", "x:S")]))
    assert not place.survey(wanted).plan.is_empty
    original = place.watched.execute

    def execute(operation: str, request: dict[str, Any]) -> dict[str, Any]:
        answer = original(operation, request | {key: _ours(value) for key, value in request.items()})
        if operation == "DescribeTable":
            answer["Table"]["TableArn"] = "arn:aws:dynamodb:ddblocal:000000000000:table/jobs"
        return answer

    place.watched.execute = execute  # type: ignore[method-assign]
    found = place.survey(wanted)
    assert found.plan.is_empty
    assert found.not_compared == ("sse", "table_class")


def _ours(value: Any) -> Any:
    return value.replace(":ddblocal:", ":us-east-1:") if isinstance(value, str) else value


def test_what_fails_for_all_tables_in_the_same_way_is_told_once() -> None:
    same = [Failure(f"jobs-{n}", "looking at it", "nothing listens there.", "Start the server.") for n in range(5)]
    other = Failure("logs", "looking at it", "it is ARCHIVED.", "Restore it.")
    assert str(TablesUnreadable([*same, other])).splitlines()[1:] == [
        "  jobs-0, jobs-1, jobs-2 and 2 more: looking at it: nothing listens there. Start the server.",
        "  logs: looking at it: it is ARCHIVED. Restore it.",
    ]


def test_a_table_that_must_be_there_is_missed_with_names_that_are_near() -> None:
    place = Place()
    place.apply(Table("orders", "id:S"))
    with pytest.raises(PenstockError, match=r"There is no table order in :memory:\. There is orders\."):
        require_table(place.db, "order")
    place.watched.fail("ListTables", AccessDeniedException("no"))
    with pytest.raises(PenstockError, match=r"There is no table order in :memory:\. Check the name"):
        require_table(place.db, "order")
