"""Requests that no JSON could have brought are refused as requests that cannot be read."""

from __future__ import annotations

from typing import Any

import pytest
from golden import make_tables, s

from penstock.engine import Engine
from penstock.errors import SerializationException

HALF = "\ud83d"
KEY = {"TableName": "plain", "Key": {"pk": s("k")}}


@pytest.fixture(scope="module")
def tables() -> Engine:
    return make_tables(Engine())


@pytest.mark.parametrize("by", ["execute", "answer"])
@pytest.mark.parametrize(
    ("operation", "request_"),
    [
        *[
            ("PutItem", {"TableName": "plain", "Item": {"pk": s("k"), name: s("x")}})
            for name in (1, None, ("a",), HALF)
        ],
        ("PutItem", {"TableName": "plain", "Item": {"pk": s("k"), "m": {"M": {1: s("x")}}}}),
        ("PutItem", {"TableName": "plain", "Item": {"pk": s(HALF)}}),
        ("PutItem", {"TableName": "plain", "Item": {"pk": s("k"), "t": {"SS": ["a", HALF]}}}),
        ("GetItem", {"TableName": "plain", "Key": {1: s("k")}}),
        ("GetItem", {"TableName": "plain", "Key": {"pk": s(HALF)}}),
        ("GetItem", KEY | {"ProjectionExpression": "#a", "ExpressionAttributeNames": {1: "a"}}),
        ("UpdateItem", KEY | {"UpdateExpression": "SET a = :a", "ExpressionAttributeValues": {1: s("x")}}),
        ("UpdateItem", KEY | {"AttributeUpdates": {1: {"Value": s("x")}}}),
        ("BatchWriteItem", {"RequestItems": {"plain": [{"PutRequest": {"Item": {1: s("x")}}}]}}),
        ("TransactWriteItems", {"TransactItems": [{"Put": {"TableName": "plain", "Item": {1: s("x")}}}]}),
        ("ExecuteStatement", {"Statement": f"SELECT * FROM plain WHERE pk = '{HALF}'"}),
    ],
)
def test_names_are_texts_and_texts_are_unicode(
    tables: Engine, by: str, operation: str, request_: dict[str, Any]
) -> None:
    with pytest.raises(SerializationException):
        getattr(tables, by)(operation, request_)
