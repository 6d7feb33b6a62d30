"""Law: a PutItem's item is walked once, when it is measured; whatever is wrong with it is told as if it came first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.engine import Engine
from penstock.engine.requests import look_closely
from penstock.errors import DynamoDBError

TABLE = "Things"

scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "a", "7", "YQ==", "YR==", "b64", "é"])
kinds = st.sampled_from(["S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS", "L", "M", "X", ""])
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(kinds, inner, max_size=2), max_leaves=6
)
right = st.sampled_from(
    [{"S": "a"}, {"N": "1.50"}, {"BOOL": True}, {"NULL": True}, {"B": "YQ=="}, {"SS": ["b", "a"]}, {"L": [{"S": "x"}]}]
)
items = st.dictionaries(st.sampled_from(["a", "b", "c", ""]), anything | right | right, max_size=3)
conditions = st.sampled_from(
    [
        {},
        {"ConditionExpression": "attribute_not_exists(zzz)"},
        {"ConditionExpression": "("},
        {"ConditionExpression": "a = :a", "ExpressionAttributeValues": {":a": {"S": "a"}}},
        {"ReturnValues": "ALL_NEW"},
        {"Expected": {}, "ConditionExpression": "a = :a"},
    ]
)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine() as opened:
        opened.execute(
            "CreateTable",
            {
                "TableName": TABLE,
                "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
                "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
                "BillingMode": "PAY_PER_REQUEST",
            },
        )
        yield opened


def outcome(engine: Engine, request: Any) -> Any:
    """What came of it: an error, or the item that is there now."""
    engine.execute("DeleteItem", {"TableName": TABLE, "Key": {"id": {"S": "1"}}})
    try:
        engine.execute("PutItem", request)
    except DynamoDBError as error:
        return error.code, error.message
    return engine.execute("GetItem", {"TableName": TABLE, "Key": {"id": {"S": "1"}}})


def outcome_looked_at_first(engine: Engine, request: Any) -> Any:
    try:
        return outcome(engine, look_closely("PutItem", request))
    except DynamoDBError as error:
        return error.code, error.message


@settings(max_examples=400, deadline=None)
@given(item=items, condition=conditions)
def test_an_item_is_refused_or_stored_as_if_its_types_were_looked_at_first(
    engine: Engine, item: dict[str, Any], condition: dict[str, Any]
) -> None:
    request = {"TableName": TABLE, "Item": {"id": {"S": "1"}, **item}, **condition}
    assert outcome(engine, request) == outcome_looked_at_first(engine, request)


@pytest.mark.parametrize(
    "value",
    [
        {"S": 5},
        {"S": b"raw"},
        {"N": 5},
        {"N": b"5"},
        {"BOOL": "true?"},
        {"NULL": 1},
        {"B": b"YQ=="},
        {"B": "YR=="},
        {"SS": "ab"},
        {"SS": [1]},
        {"NS": [1]},
        {"BS": ["YR=="]},
        {"L": {"S": "a"}},
        {"L": [{"S": 5}]},
        {"M": [{"S": "a"}]},
        {"M": {"a": {"S": 5}}},
        "S",
        ["S"],
        5,
        None,
    ],
)
def test_no_value_of_another_json_type_is_stored(engine: Engine, value: Any) -> None:
    request = {"TableName": TABLE, "Item": {"id": {"S": "1"}, "a": value}}
    found = outcome(engine, request)
    assert found == outcome_looked_at_first(engine, request)
    assert found[0] in ("SerializationException", "ValidationException")
