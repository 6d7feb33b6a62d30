"""The fast path of GetItem gives the answer of the full path, or leaves the request to it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine import Engine, Pending
from penstock.engine.operations.items import get_checked_item, get_item
from penstock.errors import DynamoDBError

TEXTS = st.sampled_from(["a", "b", "é", "", "x" * 256, "x" * 257, "x" * 3000, "x" * 70_000, "\ud800"])
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


def outcome_of(run: Any, request: Any) -> Any:
    try:
        with ENGINE.reading() as context:
            answer = run(context, request)
    except DynamoDBError as refused:
        return refused.code, str(refused)
    return answer if isinstance(answer, bytes) else orjson.dumps(answer)


@given(st.sampled_from(["hash", "both", "number", "none", "", None, 7]), KEYS, REQUESTS)
def test_the_fast_path_gives_the_same_answer_as_the_full_path(table: Any, key: Any, more: dict[str, Any]) -> None:
    request = {"TableName": table, "Key": key, **more}
    try:
        wanted = outcome_of(get_checked_item, request)
    except UnicodeError:
        return  # half a surrogate pair, which the engine refuses (test_unreadable.py)
    assert outcome_of(get_item, request) == wanted


def test_what_is_plain_takes_the_fast_path() -> None:
    found = {"TableName": "hash", "Key": {"pk": {"S": "a"}}}
    missed = {"TableName": "both", "Key": {"pk": {"S": "a"}, "sk": {"S": "c"}}}
    with ENGINE.reading() as context:
        assert get_item(context, found) == b'{"Item":{"pk":{"S":"a"},"v":{"N":"1"}}}'
        assert get_item(context, missed) == b"{}"


@pytest.mark.parametrize("request_", [7, None, "ab", [1, 2], {"TableName": [], "Key": {}}, {"TableName": "hash", 1: 2}])
def test_what_is_no_request_is_refused(request_: Any) -> None:
    with pytest.raises(DynamoDBError):
        ENGINE.execute("GetItem", request_)


def test_a_group_answers_both_ways_in_order() -> None:
    good = {"TableName": "hash", "Key": {"pk": {"S": "a"}}}
    bad = {"TableName": "hash", "Key": {"pk": {"N": "1"}}}
    first, second, third = ENGINE.answer_many([Pending("GetItem", one) for one in (good, bad, good)])
    assert first == third == ENGINE.answer("GetItem", good)
    assert isinstance(second, DynamoDBError)
