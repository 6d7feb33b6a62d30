"""Query: which items, in which order, how many at a time; and in which words DynamoDB refuses."""

from __future__ import annotations

from typing import Any

import pytest
from golden import INVALID, make_tables, n, put, refusal, s
from sample_tables import every_item, index, make, pages, table

from penstock.engine import Engine

KB = 1024
START = "The provided starting key is invalid"


@pytest.fixture
def tables(engine: Engine) -> Engine:
    return make_tables(engine)


def request(condition: str, name: str = "full", **members: Any) -> dict[str, Any]:
    """`v_x=…` members are the values of the condition."""
    values = {f":{key[2:]}": value for key, value in members.items() if key.startswith("v_")}
    rest = {key: value for key, value in members.items() if not key.startswith("v_")}
    found: dict[str, Any] = {"TableName": name, "KeyConditionExpression": condition, **rest}
    if values:
        found["ExpressionAttributeValues"] = values
    return found


def numbers(items: list[dict[str, Any]]) -> list[int]:
    return [int(item["sk"]["N"]) for item in items]


@pytest.mark.parametrize(
    ("condition", "values", "expected"),
    [
        ("pk = :p", {}, [0, 1, 2, 3]),
        (":p = pk", {}, [0, 1, 2, 3]),
        ("(pk = :p) AND (sk = :a)", {"v_a": n("2.0")}, [2]),
        ("pk = :p AND sk < :a", {"v_a": n(2)}, [0, 1]),
        ("pk = :p AND sk <= :a", {"v_a": n(2)}, [0, 1, 2]),
        ("pk = :p AND sk > :a", {"v_a": n(2)}, [3]),
        ("pk = :p AND sk >= :a", {"v_a": n(2)}, [2, 3]),
        ("sk BETWEEN :a AND :b AND pk = :p", {"v_a": n(1), "v_b": n(2)}, [1, 2]),
        ("pk = :p AND sk > :a", {"v_a": n(99)}, []),
    ],
)
@pytest.mark.parametrize("forward", [True, False])
def test_key_conditions(tables: Engine, condition: str, values: Any, expected: list[int], forward: bool) -> None:
    asked = request(condition, v_p=s("p"), ScanIndexForward=forward, **values)
    answer = tables.execute("Query", asked)
    assert numbers(answer["Items"]) == (expected if forward else expected[::-1])
    assert answer["Count"] == answer["ScannedCount"] == len(expected)
    for limit in (1, 3):
        assert numbers(every_item(tables, "Query", asked | {"Limit": limit})) == numbers(answer["Items"])


def test_a_page_that_ends_with_the_partition_still_has_a_last_key(tables: Engine) -> None:
    """DynamoDB does not look ahead: only a page that was not filled is known to be the last."""
    asked = request("pk = :p", v_p=s("p"), Limit=4)
    first, second = pages(tables, "Query", asked)
    assert first["LastEvaluatedKey"] == {"pk": s("p"), "sk": n(3)}
    assert second == {"Items": [], "Count": 0, "ScannedCount": 0}


def test_where_there_is_no_sort_key_there_is_nothing_to_go_on_with(tables: Engine) -> None:
    asked = request("pk = :p", "plain", v_p=s("a"), Limit=1)
    answer = tables.execute("Query", asked)
    assert answer["Count"] == 1 and "LastEvaluatedKey" not in answer
    assert refusal(tables, "Query", asked | {"ExclusiveStartKey": {"pk": s("a")}}) == (
        "ValidationException",
        "The provided exclusive start key is invalid: ExclusiveStartKey: {pk=AttributeValue: {S:a}}",
    )


def test_a_filter_is_applied_after_the_limit(tables: Engine) -> None:
    asked = request("pk = :p", v_p=s("p"), v_b=n(-2), FilterExpression="b < :b", Limit=2)
    answers = list(pages(tables, "Query", asked))
    assert [(one["Count"], one["ScannedCount"]) for one in answers] == [(0, 2), (1, 2), (0, 0)]


def test_a_count_has_no_items(tables: Engine) -> None:
    assert tables.execute("Query", request("pk = :p", v_p=s("p"), Select="COUNT")) == {"Count": 4, "ScannedCount": 4}


def test_strings_are_ordered_by_their_bytes(engine: Engine) -> None:
    make(engine, table("texts", "pk:S / sk:S"))
    texts = ["", "a", "B", "é", "z", "aa", "😀", "￿", "a b"]
    for text in texts[1:]:
        put(engine, "texts", {"pk": s("p"), "sk": s(text)})
    found = every_item(engine, "Query", request("pk = :p", "texts", v_p=s("p"), Limit=2))
    assert [item["sk"]["S"] for item in found] == sorted(texts[1:], key=str.encode)


def test_numbers_are_ordered_by_value(engine: Engine) -> None:
    make(engine, table("numbers", "pk:S / sk:N"))
    ordered = ["-1e125", "-10", "-9.5", "-1", "-1e-130", "0", "1e-130", "0.1", "1", "1.5", "2", "10", "1e125"]
    for text in reversed(ordered):
        put(engine, "numbers", {"pk": s("p"), "sk": n(text)})
    found = every_item(engine, "Query", request("pk = :p", "numbers", v_p=s("p")))
    assert [float(item["sk"]["N"]) for item in found] == [float(text) for text in ordered]


# ── indexes ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "condition", "values", "shown"),
    [
        ("by_a", "a = :v", {"v_v": s("A")}, {"pk", "sk", "a", "b", "x", "y"}),
        ("by_ab", "a = :v", {"v_v": s("A")}, {"pk", "sk", "a", "b"}),
        ("include", "c = :v", {"v_v": s("C")}, {"pk", "sk", "c", "x"}),
        ("local_b", "pk = :v", {"v_v": s("p")}, {"pk", "sk", "b"}),
        ("local_c", "pk = :v", {"v_v": s("q")}, {"pk", "sk", "c", "x", "y"}),
    ],
)
def test_an_index_shows_what_it_holds(tables: Engine, name: str, condition: str, values: Any, shown: Any) -> None:
    items = every_item(tables, "Query", request(condition, IndexName=name, **values))
    assert items and all(set(item) == shown for item in items)


def test_an_index_is_ordered_by_its_own_sort_key(tables: Engine) -> None:
    for name, condition, value in (("by_ab", "a = :v", s("A")), ("local_b", "pk = :v", s("p"))):
        for limit in ({}, {"Limit": 1}):
            asked = request(condition, IndexName=name, v_v=value, **limit)
            assert numbers(every_item(tables, "Query", asked)) == [3, 2, 1, 0]


def test_an_items_place_in_an_index_is_both_keys(tables: Engine) -> None:
    answer = tables.execute("Query", request("a = :v", IndexName="by_ab", v_v=s("A"), Limit=2))
    assert answer["LastEvaluatedKey"] == {"pk": s("p"), "sk": n(2), "a": s("A"), "b": n(-2)}


def test_a_local_index_fetches_what_it_does_not_hold(tables: Engine) -> None:
    base = request("pk = :v", IndexName="local_b", v_v=s("p"))
    whole = tables.execute("Query", base | {"Select": "ALL_ATTRIBUTES"})["Items"]
    assert all("y" in item for item in whole)
    some = tables.execute("Query", base | {"ProjectionExpression": "sk, y"})["Items"]
    assert some[0] == {"sk": n(3), "y": s("not")}


@pytest.mark.parametrize(("name", "key", "value"), [("by_ab", "a", s("A")), ("local_b", "pk", s("p"))])
@pytest.mark.parametrize(
    ("members", "listed"),
    [
        ({"FilterExpression": "y = :y", "v_y": s("not")}, "y"),
        ({"FilterExpression": "attribute_not_exists(y.z)"}, "y"),
        ({"FilterExpression": "zz = :y OR (aa = :y AND NOT size(mm) > :y)", "v_y": n(1)}, "zz, aa, mm"),
        ({"FilterExpression": "y = :y OR x = :y", "v_y": s("not")}, "x, y"),
        ({"FilterExpression": "y = :y", "v_y": s("not"), "Select": "COUNT"}, "y"),
        ({"FilterExpression": "y = :y", "v_y": s("not"), "Select": "ALL_ATTRIBUTES"}, "y"),
        ({"FilterExpression": "y = :y", "v_y": s("not"), "ProjectionExpression": "y"}, "y"),
    ],
)
def test_a_query_does_not_filter_by_what_its_index_does_not_hold(
    tables: Engine, name: str, key: str, value: Any, members: Any, listed: str
) -> None:
    code, text = refusal(tables, "Query", request(f"{key} = :v", IndexName=name, v_v=value, **members))
    assert (code, text) == (
        "ValidationException",
        f"{INVALID}Secondary index {name} does not project one or more filter attributes: [{listed}]",
    )


def test_a_legacy_filter_is_refused_alike_where_the_index_does_not_hold_its_attributes(tables: Engine) -> None:
    asked = {
        "TableName": "full",
        "IndexName": "include",
        "KeyConditions": {"c": {"ComparisonOperator": "EQ", "AttributeValueList": [s("C")]}},
        "QueryFilter": {"x": {"ComparisonOperator": "NOT_NULL"}, "y": {"ComparisonOperator": "NOT_NULL"}},
    }
    _, text = refusal(tables, "Query", asked)
    assert text == f"{INVALID}Secondary index include does not project one or more filter attributes: [y]"
    del asked["QueryFilter"]["y"]
    assert tables.execute("Query", asked)["Count"] == 1


def test_a_global_index_lists_what_it_does_not_project_in_the_order_of_the_text(tables: Engine) -> None:
    asked = request("a = :v", IndexName="by_ab", v_v=s("A"), ProjectionExpression="y, sk, x.z")
    assert refusal(tables, "Query", asked)[1] == f"{INVALID}Global secondary index by_ab does not project [y, x]"


def test_an_item_without_the_key_is_not_in_the_index(tables: Engine) -> None:
    assert tables.execute("Query", request("pk = :v", IndexName="local_c", v_v=s("q")))["Count"] == 1
    assert tables.execute("Query", request("pk = :v", v_v=s("q")))["Count"] == 2


NO_EQUALITY = "HASH key attributes {} must have equality conditions specified in the query"
MULTI = table("multi", "id:S", globals_=(index("by_all", "a:S b:N / c:S d:N"),))


def test_keys_of_several_attributes(engine: Engine) -> None:
    make(engine, MULTI)
    for number in range(8):
        c, d = s("cd"[number // 4]), n(number % 4)
        put(engine, "multi", {"id": s(str(number)), "a": s("a"), "b": n(1), "c": c, "d": d})
    put(engine, "multi", {"id": s("sparse"), "a": s("a"), "b": n(1), "c": s("c")})
    base = {"IndexName": "by_all", "v_a": s("a"), "v_b": n("1.0")}
    for condition, values, expected in (
        ("a = :a AND b = :b", {}, "01234567"),
        ("a = :a AND b = :b AND c = :c", {"v_c": s("c")}, "0123"),
        ("a = :a AND b = :b AND c > :c", {"v_c": s("c")}, "4567"),
        ("a = :a AND b = :b AND c = :c AND d BETWEEN :d AND :e", {"v_c": s("d"), "v_d": n(1), "v_e": n(2)}, "56"),
        ("a = :a AND b = :b AND begins_with(c, :c)", {"v_c": s("d")}, "4567"),
    ):
        for limit in ({}, {"Limit": 1}):
            found = every_item(engine, "Query", request(condition, "multi", **base, **values, **limit))
            assert "".join(item["id"]["S"] for item in found) == expected


@pytest.mark.parametrize(
    ("condition", "values", "message"),
    [
        ("a = :a", {"v_a": s("a")}, NO_EQUALITY.format("b")),
        ("c = :c AND d = :d", {"v_c": s("c"), "v_d": n(1)}, NO_EQUALITY.format("a, b")),
        (
            "a = :a AND b = :b AND d = :d",
            {"v_a": s("a"), "v_b": n(1), "v_d": n(1)},
            "RANGE key attributes c must have equality conditions specified in the query because a condition is "
            "present on key attribute d",
        ),
        (
            "a = :a AND b = :b AND c > :c AND d = :d",
            {"v_a": s("a"), "v_b": n(1), "v_c": s("c"), "v_d": n(1)},
            "RANGE key attributes c must have equality conditions specified in the query because a condition is "
            "present on key attribute d",
        ),
        ("a = :a AND b > :b", {"v_a": s("a"), "v_b": n(1)}, NO_EQUALITY.format("b")),
    ],
)
def test_keys_of_several_attributes_are_named_from_the_left(
    tables: Engine, condition: str, values: Any, message: str
) -> None:
    make(tables, MULTI)
    asked = request(condition, "multi", IndexName="by_all", **values)
    assert refusal(tables, "Query", asked) == ("ValidationException", message)


# ── pages ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def large(engine: Engine) -> Engine:
    """Twelve items of a little over 100 KB each in one partition."""
    make(engine, table("large", "pk:S / sk:N", globals_=(index("keys", "g:S", "KEYS_ONLY"), index("all", "g:S"))))
    for number in range(12):
        put(engine, "large", {"pk": s("p"), "sk": n(number), "g": s("g"), "text": s("x" * 100 * KB)})
    return engine


@pytest.mark.parametrize("members", [{}, {"IndexName": "all"}], ids=str)
def test_a_page_ends_with_the_item_that_passes_1_mb(large: Engine, members: dict[str, str]) -> None:
    condition = "g = :p" if members else "pk = :p"
    asked = request(condition, "large", v_p=s("g" if members else "p"), **members)
    assert [one["Count"] for one in pages(large, "Query", asked)] == [11, 1]
    assert [one["Count"] for one in pages(large, "Query", asked | {"Limit": 4})] == [4, 4, 4, 0]


def test_what_a_filter_drops_fills_the_page_too(large: Engine) -> None:
    asked = request("pk = :p", "large", v_p=s("p"), v_x=s("none"), FilterExpression="g = :x")
    assert [(one["Count"], one["ScannedCount"]) for one in pages(large, "Query", asked)] == [(0, 11), (0, 1)]


def test_an_index_of_keys_counts_keys_only(large: Engine) -> None:
    asked = request("g = :g", "large", v_g=s("g"), IndexName="keys")
    assert [one["Count"] for one in pages(large, "Query", asked)] == [12]


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("condition", "members", "message"),
    [
        ("sk = :v", {"v_v": n(1)}, "Query condition missed key schema element: pk"),
        ("y = :v", {"v_v": s("x")}, "Query condition missed key schema element: pk"),
        ("pk = :v AND y = :v", {"v_v": s("x")}, "Query condition missed key schema element: sk"),
        ("pk > :v", {"v_v": s("x")}, "Query key condition not supported"),
        ("begins_with(pk, :v)", {"v_v": s("x")}, "Query key condition not supported"),
        ("pk = :v", {"v_v": n(1)}, f"{INVALID}Condition parameter type does not match schema type"),
        ("pk = :v AND sk = :v", {"v_v": s("x")}, f"{INVALID}Condition parameter type does not match schema type"),
        ("pk <> :v", {"v_v": s("x")}, "Invalid operator used in KeyConditionExpression: <>"),
        ("pk = :v OR sk = :v", {"v_v": s("x")}, "Invalid operator used in KeyConditionExpression: OR"),
        ("NOT pk = :v", {"v_v": s("x")}, "Invalid operator used in KeyConditionExpression: NOT"),
        ("", {"v_v": s("x")}, "Invalid KeyConditionExpression: The expression can not be empty;"),
        (
            "pk = :v AND sk BETWEEN :b AND :a",
            {"v_v": s("x"), "v_a": n(1), "v_b": n(2)},
            "Invalid KeyConditionExpression: The BETWEEN operator requires upper bound to be greater than or equal "
            "to lower bound; lower bound operand: AttributeValue: {N:2}, upper bound operand: AttributeValue: {N:1}",
        ),
        (
            "pk = :v",
            {"v_v": s("x"), "v_w": s("y"), "FilterExpression": "sk = :w"},
            "Filter Expression can only contain non-primary key attributes: Primary key attribute: sk",
        ),
        (
            "a = :v",
            {"v_v": s("x"), "IndexName": "by_a", "ConsistentRead": True},
            "Consistent reads are not supported on global secondary indexes",
        ),
        ("pk = :v", {"v_v": s("x"), "IndexName": "none"}, "The table does not have the specified index: none"),
        (
            "a = :v",
            {"v_v": s("x"), "IndexName": "by_ab", "Select": "ALL_ATTRIBUTES"},
            f"{INVALID}Select type ALL_ATTRIBUTES is not supported for global secondary index by_ab because its "
            "projection type is not ALL",
        ),
        (
            "pk = :v",
            {"v_v": s("x"), "Select": "ALL_PROJECTED_ATTRIBUTES"},
            "ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName",
        ),
        (
            "pk = :v",
            {"v_v": s("x"), "Select": "COUNT", "ProjectionExpression": "sk"},
            "Cannot specify the ProjectionExpression when choosing to get only the Count",
        ),
        (
            "pk = :v",
            {"v_v": s("x"), "Limit": 0},
            "Value at 'Limit' failed to satisfy constraint: Member must have value greater than or equal to 1",
        ),
        ("pk = :v", {"v_v": s("p"), "ExclusiveStartKey": {"pk": s("p")}}, START),
        (
            "pk = :v",
            {"v_v": s("p"), "ExclusiveStartKey": {"pk": s("q"), "sk": n(1)}},
            "The provided starting key is outside query boundaries based on provided conditions",
        ),
        (
            "pk = :v AND sk > :a",
            {"v_v": s("p"), "v_a": n(5), "ExclusiveStartKey": {"pk": s("p"), "sk": n(1)}},
            "The provided starting key does not match the range key predicate",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_query_that_cannot_be_is_refused(tables: Engine, condition: str, members: Any, message: str) -> None:
    code, text = refusal(tables, "Query", request(condition, **members))
    assert code == "ValidationException"
    assert text.startswith(message)


def test_a_query_says_what_it_looks_for(tables: Engine) -> None:
    expected = "Either the KeyConditions or KeyConditionExpression parameter must be specified in the request."
    assert refusal(tables, "Query", {"TableName": "full"}) == ("ValidationException", expected)


def test_legacy_conditions_do_the_same(tables: Engine) -> None:
    asked = {
        "TableName": "full",
        "KeyConditions": {
            "pk": {"ComparisonOperator": "EQ", "AttributeValueList": [s("p")]},
            "sk": {"ComparisonOperator": "BETWEEN", "AttributeValueList": [n(1), n(3)]},
        },
        "QueryFilter": {"b": {"ComparisonOperator": "NE", "AttributeValueList": [n(-2)]}},
        "AttributesToGet": ["sk"],
    }
    assert tables.execute("Query", asked)["Items"] == [{"sk": n(1)}, {"sk": n(3)}]
