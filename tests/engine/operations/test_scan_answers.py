"""Scan: every item once, however it is cut into pages and segments; and in which words DynamoDB refuses."""

from __future__ import annotations

from typing import Any

import pytest
from golden import INVALID, make_tables, n, put, refusal, s
from sample_tables import every_item, make, pages, table

from penstock.engine import Engine

ITEMS = 200


@pytest.fixture
def tables(engine: Engine) -> Engine:
    return make_tables(engine)


@pytest.fixture
def many(engine: Engine) -> Engine:
    make(engine, table("many", "pk:S"))
    for number in range(ITEMS):
        put(engine, "many", {"pk": s(f"item {number}"), "n": n(number)})
    return engine


def found(items: list[dict[str, Any]]) -> list[int]:
    return sorted(int(item["n"]["N"]) for item in items)


@pytest.mark.parametrize("limit", [1, 7, ITEMS - 1, ITEMS, ITEMS + 1])
def test_pages_give_every_item_once(many: Engine, limit: int) -> None:
    assert found(every_item(many, "Scan", {"TableName": "many", "Limit": limit})) == list(range(ITEMS))


@pytest.mark.parametrize("total", [1, 2, 3, 5, 16, 4_096])
def test_segments_give_every_item_once(many: Engine, total: int) -> None:
    items: list[dict[str, Any]] = []
    for segment in range(total):
        items += every_item(
            many, "Scan", {"TableName": "many", "TotalSegments": total, "Segment": segment, "Limit": 40}
        )
    assert found(items) == list(range(ITEMS))


def test_segments_share_the_items_about_evenly(many: Engine) -> None:
    counts = [
        many.execute("Scan", {"TableName": "many", "TotalSegments": 4, "Segment": segment})["Count"]
        for segment in range(4)
    ]
    assert min(counts) > ITEMS / 8


def test_the_order_is_the_same_each_time_and_is_not_the_keys(many: Engine) -> None:
    first = [item["pk"]["S"] for item in every_item(many, "Scan", {"TableName": "many"})]
    assert first == [item["pk"]["S"] for item in every_item(many, "Scan", {"TableName": "many", "Limit": 3})]
    assert first != sorted(first)


def test_items_written_and_deleted_meanwhile_do_not_disturb_the_rest(many: Engine) -> None:
    seen: list[dict[str, Any]] = []
    for turn, page in enumerate(pages(many, "Scan", {"TableName": "many", "Limit": 10})):
        seen += page["Items"]
        last = page.get("LastEvaluatedKey", {"pk": s("none")})
        many.execute("DeleteItem", {"TableName": "many", "Key": last})
        put(many, "many", {"pk": s(f"new {turn}"), "n": n(10_000 + turn)})
    old = [number for number in found(seen) if number < 10_000]
    assert old == list(range(ITEMS)), "the last key of a page need not exist any more"


def test_a_filter_and_a_projection(tables: Engine) -> None:
    asked = {
        "TableName": "full",
        "FilterExpression": "b <= :b AND attribute_exists(a)",
        "ProjectionExpression": "sk, #x",
        "ExpressionAttributeNames": {"#x": "x"},
        "ExpressionAttributeValues": {":b": n(-2)},
    }
    answer = tables.execute("Scan", asked)
    assert (answer["Count"], answer["ScannedCount"]) == (2, 6)
    assert sorted(answer["Items"], key=str) == [{"sk": n(2), "x": s("seen")}, {"sk": n(3), "x": s("seen")}]


@pytest.mark.parametrize("name", ["by_ab", "local_b"])
@pytest.mark.parametrize("shown", [{}, {"Select": "COUNT"}, {"whole": True}])
def test_a_filter_finds_no_attribute_that_the_index_does_not_hold(tables: Engine, name: str, shown: Any) -> None:
    if shown == {"whole": True}:  # a local index fetches what it shows from the table, not what it filters by
        shown = {"Select": "ALL_ATTRIBUTES"} if name == "local_b" else {}
    base = {"TableName": "full", "IndexName": name, **shown}
    for text, count in (("attribute_exists(y)", 0), ("attribute_not_exists(y)", 4), ("b < :b AND y <> :y", 3)):
        values = {":b": n(0), ":y": s("not")} if ":" in text else None
        asked = base | {"FilterExpression": text} | ({"ExpressionAttributeValues": values} if values else {})
        answer = tables.execute("Scan", asked)
        assert (answer["Count"], answer["ScannedCount"]) == (count, 4)
        assert all(("y" in item) == ("ALL_ATTRIBUTES" in shown.values()) for item in answer.get("Items", []))


def test_a_filter_may_look_at_the_key(tables: Engine) -> None:
    asked = {"FilterExpression": "sk = :v", "ExpressionAttributeValues": {":v": n(1)}}
    assert tables.execute("Scan", {"TableName": "full", **asked})["Count"] == 2


def test_legacy_filters_do_the_same(tables: Engine) -> None:
    conditions = {
        "b": {"ComparisonOperator": "LE", "AttributeValueList": [n(-2)]},
        "c": {"ComparisonOperator": "NOT_NULL"},
    }
    base = {"TableName": "full", "ScanFilter": conditions}
    assert tables.execute("Scan", base)["Count"] == 0
    assert tables.execute("Scan", base | {"ConditionalOperator": "OR"})["Count"] == 3


@pytest.mark.parametrize(("name", "count"), [("by_a", 4), ("by_ab", 4), ("include", 1), ("local_b", 4), ("local_c", 1)])
def test_a_scan_of_an_index_gives_what_it_holds(tables: Engine, name: str, count: int) -> None:
    for limit in ({}, {"Limit": 1}, {"TotalSegments": 1, "Segment": 0}):
        assert len(every_item(tables, "Scan", {"TableName": "full", "IndexName": name, **limit})) == count


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (
            {"Segment": 0},
            "The TotalSegments parameter is required but was not present in the request when Segment parameter is "
            "present",
        ),
        (
            {"TotalSegments": 2},
            "The Segment parameter is required but was not present in the request when parameter TotalSegments is "
            "present",
        ),
        (
            {"TotalSegments": 2, "Segment": 2},
            "The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: 2 is not "
            "less than TotalSegments: 2",
        ),
        (
            {"IndexName": "by_a", "ConsistentRead": True},
            "Consistent reads are not supported on global secondary indexes",
        ),
        ({"IndexName": "none"}, "The table does not have the specified index: none"),
        (
            {"IndexName": "by_ab", "Select": "ALL_ATTRIBUTES"},
            f"{INVALID}Select type ALL_ATTRIBUTES is not supported for global secondary index by_ab because its "
            "projection type is not ALL",
        ),
        ({"FilterExpression": ""}, "Invalid FilterExpression: The expression can not be empty;"),
        (
            {"FilterExpression": "size(a)"},
            "Invalid FilterExpression: The function is not allowed to be used this way in an expression; "
            "function: size",
        ),
        (
            {"Select": "SPECIFIC_ATTRIBUTES"},
            "Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES",
        ),
        (
            {"ExclusiveStartKey": {"pk": s("p")}},
            "The provided starting key is invalid: The provided key element does not match the schema",
        ),
        (
            {"ExclusiveStartKey": {"pk": s("p"), "sk": s("1")}},
            "The provided starting key is invalid: The provided key element does not match the schema",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_scan_that_cannot_be_is_refused(tables: Engine, members: dict[str, Any], message: str) -> None:
    assert refusal(tables, "Scan", {"TableName": "full", **members}) == ("ValidationException", message)


def test_a_starting_key_belongs_to_its_segment(many: Engine) -> None:
    make_tables(many)
    first = many.execute("Scan", {"TableName": "many", "TotalSegments": 2, "Segment": 0, "Limit": 1})
    asked = {"TableName": "many", "TotalSegments": 2, "Segment": 1, "ExclusiveStartKey": first["LastEvaluatedKey"]}
    code, text = refusal(many, "Scan", asked)
    assert code == "ValidationException"
    assert text == (
        "The provided starting key is invalid: Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct "
        "Segment. TotalSegments: 2 Segment: 1"
    )
