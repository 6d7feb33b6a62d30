"""The usual Query answers as the full path does, or leaves the request to it; and pages are as they were row by row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.engine import Engine
from penstock.engine.operations import query_scan, usual_queries
from penstock.errors import DynamoDBError

KEYS = (("pk", "HASH"), ("sk", "RANGE"))
INDEXES = {
    "keys": ("KEYS_ONLY", (("color", "HASH"), ("place", "RANGE"))),
    "all": ("ALL", (("color", "HASH"),)),
    "by-size": ("ALL", (("size", "HASH"), ("place", "RANGE"))),
    "two": ("ALL", (("color", "HASH"), ("place", "HASH"), ("sk", "RANGE"))),
}
TYPES = {"pk": "S", "sk": "S", "color": "S", "place": "S", "size": "N"}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine() as made:
        request = {
            "TableName": "things",
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{"AttributeName": name, "AttributeType": kind} for name, kind in TYPES.items()],
            "KeySchema": [{"AttributeName": name, "KeyType": role} for name, role in KEYS],
            "GlobalSecondaryIndexes": [
                {
                    "IndexName": name,
                    "KeySchema": [{"AttributeName": part, "KeyType": role} for part, role in schema],
                    "Projection": {"ProjectionType": projection},
                }
                for name, (projection, schema) in INDEXES.items()
            ],
        }
        made.execute("CreateTable", request)
        plain = {name: value for name, value in request.items() if name != "GlobalSecondaryIndexes"}
        definitions = request["AttributeDefinitions"][:1]  # type: ignore[index]
        schema = request["KeySchema"][:1]  # type: ignore[index]
        made.execute(
            "CreateTable", {**plain, "TableName": "bare", "AttributeDefinitions": definitions, "KeySchema": schema}
        )
        for number in range(150):
            item = {
                "pk": {"S": "ab"[number % 2]},
                "sk": {"S": f"{number:03}"},
                "color": {"S": "ab"[number // 5 % 2]},
                "place": {"S": "abé"[number % 3]},
                "size": {"N": str(number % 2)},
                "text": {"S": "x" * (number * 37 % 900)},
            }
            made.execute("PutItem", {"TableName": "things", "Item": item})
        made.execute("PutItem", {"TableName": "bare", "Item": {"pk": {"S": "a"}}})
        yield made


NAMES = st.sampled_from(["pk", "sk", "color", "place", "size", "#a", "#b"])
OPERATORS = st.sampled_from(["=", "=", "=", "<", "<=", ">", ">=", "<>"])
TERMS = st.one_of(
    st.builds(
        lambda name, operator, value: f"{name} {operator} {value}", NAMES, OPERATORS, st.sampled_from([":v", ":w"])
    ),
    st.builds(lambda name, value: f"{value} = {name}", NAMES, st.sampled_from([":v", ":w"])),
    st.builds(lambda name: f"begins_with({name}, :w)", NAMES),
    st.builds(lambda name: f"{name} BETWEEN :v AND :w", NAMES),
)
TEXTS = st.one_of(
    st.sampled_from([
        "pk = :v", "#a = :v", "#a = :v AND sk >= :w", "pk = :v AND begins_with(#b, :w)", "color = :v",
        "color = :v AND place = :w", "color = :v AND place < :w", "size = :v",
    ]),
    st.builds(" AND ".join, st.lists(TERMS, min_size=1, max_size=3)),
)  # fmt: skip
VALUE = st.sampled_from([
    {"S": "a"}, {"S": "b"}, {"S": "a"}, {"S": "b"}, {"S": "05"}, {"S": "é"}, {"S": ""}, {"S": "x" * 300},
    {"S": "x" * 3000},
    {"N": "1"}, {"S": "a", "N": "1"}, {"S": 5}, {"S": "\ud800"}, {"NULL": True}, {},
])  # fmt: skip
REQUESTS = st.fixed_dictionaries(
    {
        "TableName": st.sampled_from(["things", "things", "things", "bare", "nothing"]),
        "KeyConditionExpression": TEXTS,
        "ExpressionAttributeValues": st.one_of(
            st.fixed_dictionaries({":v": VALUE}),
            st.fixed_dictionaries({":v": VALUE, ":w": VALUE}),
            st.dictionaries(st.sampled_from([":v", ":w", ":other"]), VALUE, max_size=3),
        ),
    },
    optional={
        "ExpressionAttributeNames": st.dictionaries(
            st.sampled_from(["#a", "#b"]), st.sampled_from(["pk", "sk", "color"]), max_size=2
        ),
        "IndexName": st.sampled_from([*INDEXES, "nothing"]),
        "Limit": st.sampled_from([1, 2, 63, 64, 65, 75, 1000, 0]),
        "ScanIndexForward": st.booleans(),
        "ConsistentRead": st.booleans(),
        "Select": st.sampled_from(["COUNT", "ALL_ATTRIBUTES"]),
        "ProjectionExpression": st.just("sk"),
        "FilterExpression": st.just("attribute_exists(color)"),
        "ReturnConsumedCapacity": st.just("TOTAL"),
    },
)


def outcome(engine: Engine, request: Any) -> Any:
    try:
        return engine.execute("Query", request)
    except DynamoDBError as error:
        return error.code, error.message
    except (TypeError, UnicodeError) as error:
        return type(error)


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(REQUESTS, min_size=1, max_size=4))
def test_a_query_is_answered_the_same_on_both_paths(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, requests: list[dict[str, Any]]
) -> None:
    """Each twice: the second time, its form may be kept."""
    for request in [one for one in requests for _ in range(2)]:
        with monkeypatch.context() as patched:
            patched.setattr(query_scan, "usual_query", lambda *_: None)
            patched.setattr(
                query_scan, "_take_groups", lambda page, walk, groups, *_: (row for rows in groups for row in rows)
            )
            expected = outcome(engine, request)
        assert outcome(engine, request) == expected


@pytest.fixture
def usual(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each Query was a usual one."""
    taken: list[bool] = []

    def noted(*given: Any) -> Any:
        found = usual_queries.usual_query(*given)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(query_scan, "usual_query", noted)
    return taken


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("pk = :v AND sk > :w", None), ("sk > :w AND pk = :v", None), ("color = :v AND begins_with(place, :w)", "keys"),
    ],
)  # fmt: skip
def test_the_second_query_of_a_form_is_a_usual_one(
    engine: Engine, usual: list[bool], text: str, index: str | None
) -> None:
    for value in ("a", "b"):
        request = {"TableName": "things", "KeyConditionExpression": text, "Limit": 3}
        values = {":v": {"S": value}, ":w": {"S": "a" if index else "0"}}
        engine.execute(
            "Query", {**request, "ExpressionAttributeValues": values, **({"IndexName": index} if index else {})}
        )
    assert usual == [usual[0], True]


def test_a_program_that_writes_values_into_its_expressions_fills_no_memory(engine: Engine) -> None:
    for number in range(200):
        request = {
            "TableName": "bare",
            "KeyConditionExpression": f"pk = :v{number}",
            "ExpressionAttributeValues": {f":v{number}": {"S": "a"}},
        }
        assert engine.execute("Query", request)["Count"] == 1
    (table,) = [one for one in engine.catalog.cache[1].values() if one.name == "bare"]
    assert len(table.query_forms) <= 64


def test_a_page_ends_where_it_did_whatever_the_sizes_of_its_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large items among small ones: the groups that could fill a page are counted row by row."""
    with Engine() as engine:
        schema = {"AttributeDefinitions": [], "KeySchema": [], "TableName": "wide", "BillingMode": "PAY_PER_REQUEST"}
        for name, role in KEYS:
            schema["AttributeDefinitions"].append({"AttributeName": name, "AttributeType": "S"})  # type: ignore[attr-defined]
            schema["KeySchema"].append({"AttributeName": name, "KeyType": role})  # type: ignore[attr-defined]
        engine.execute("CreateTable", schema)
        for number in range(900):
            size = 350_000 if number % 300 == 299 else 41_000 if number % 50 == 49 else 700
            item = {"pk": {"S": "a"}, "sk": {"S": f"{number:04}"}, "text": {"S": "x" * size}}
            engine.execute("PutItem", {"TableName": "wide", "Item": item})
        request = {
            "TableName": "wide",
            "KeyConditionExpression": "pk = :v",
            "ExpressionAttributeValues": {":v": {"S": "a"}},
        }
        answers = [_pages(engine, request)]
        monkeypatch.setattr(
            query_scan, "_take_groups", lambda page, walk, groups, *_: (row for rows in groups for row in rows)
        )
        answers.append(_pages(engine, request))
    assert answers[0] == answers[1]
    assert sum(count for count, _ in answers[0]) == 900
    assert len(answers[0]) > 2


def _pages(engine: Engine, request: dict[str, Any]) -> list[tuple[int, Any]]:
    pages, start = [], {}
    while True:
        answer = engine.execute("Query", {**request, **start})
        assert answer["Count"] == len(answer["Items"])
        pages.append((answer["Count"], answer.get("LastEvaluatedKey")))
        if "LastEvaluatedKey" not in answer:
            return pages
        start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
