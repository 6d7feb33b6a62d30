"""The short way of a GetItem gives the bytes of the long one, or leaves the request to it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine import Engine, Pending
from penstock.engine.operations.get_item import quick_get
from penstock.errors import DynamoDBError

TEXTS = st.sampled_from(["a", "b", "é", "", "x" * 256, "x" * 257, "x" * 3000, "\ud800"])
VALUES = st.one_of(
    TEXTS.map(lambda text: {"S": text}),
    st.sampled_from([{"N": "1"}, {"S": 1}, {"S": None}, {}, {"S": "a", "N": "1"}, [], "a", None]),
)
KEYS = st.one_of(
    st.dictionaries(st.sampled_from(["pk", "sk", "other"]), VALUES, max_size=3),
    st.sampled_from([None, [], "pk"]),
)
REQUESTS = st.dictionaries(st.sampled_from(["ConsistentRead", "ReturnConsumedCapacity", "Unknown"]), st.just(None))


def engine_with_items() -> Engine:
    engine = Engine()
    for table, names in (("hash", ["pk"]), ("both", ["pk", "sk"]), ("number", ["n"])):
        engine.execute(
            "CreateTable",
            {
                "TableName": table,
                "AttributeDefinitions": [
                    {"AttributeName": name, "AttributeType": "N" if name == "n" else "S"} for name in names
                ],
                "KeySchema": [
                    {"AttributeName": name, "KeyType": role}
                    for name, role in zip(names, ("HASH", "RANGE"), strict=False)
                ],
                "BillingMode": "PAY_PER_REQUEST",
            },
        )
    for text in ("a", "é", "x" * 256):
        engine.execute("PutItem", {"TableName": "hash", "Item": {"pk": {"S": text}, "v": {"N": "1"}}})
        engine.execute("PutItem", {"TableName": "both", "Item": {"pk": {"S": text}, "sk": {"S": "b"}}})
    return engine


ENGINE = engine_with_items()


@given(st.sampled_from(["hash", "both", "number", "none", "", None, 7]), KEYS, REQUESTS)
def test_the_short_way_gives_the_same_bytes_or_none(table: Any, key: Any, more: dict[str, Any]) -> None:
    request = {"TableName": table, "Key": key, **more}
    with ENGINE.reading() as call:
        quick = quick_get(call, call.db.cursor(), request)
    if quick is None:
        return
    assert orjson.loads(quick) == ENGINE.execute("GetItem", request)


def test_what_is_plain_takes_the_short_way() -> None:
    found = {"TableName": "hash", "Key": {"pk": {"S": "a"}}}
    missed = {"TableName": "both", "Key": {"pk": {"S": "a"}, "sk": {"S": "c"}}}
    with ENGINE.reading() as call:
        assert quick_get(call, call.db.cursor(), found) == b'{"Item":{"pk":{"S":"a"},"v":{"N":"1"}}}'
        assert quick_get(call, call.db.cursor(), missed) == b"{}"


@pytest.mark.parametrize("request_", [7, None, "ab", [1, 2], {"TableName": [], "Key": {}}, {"TableName": "hash", 1: 2}])
def test_what_is_no_request_is_left_to_the_whole_way(request_: Any) -> None:
    with ENGINE.reading() as call:
        assert quick_get(call, call.db.cursor(), request_) is None
    with pytest.raises(DynamoDBError):
        ENGINE.execute("GetItem", request_)


def test_a_group_answers_both_ways_in_order() -> None:
    good = {"TableName": "hash", "Key": {"pk": {"S": "a"}}}
    bad = {"TableName": "hash", "Key": {"pk": {"N": "1"}}}
    first, second, third = ENGINE.answer_many([Pending("GetItem", one) for one in (good, bad, good)])
    assert first == third == ENGINE.answer("GetItem", good)
    assert isinstance(second, DynamoDBError)
