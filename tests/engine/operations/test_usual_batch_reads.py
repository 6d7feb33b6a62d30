"""The fast path of BatchGetItem answers as the full path does, or leaves the request to it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.engine import Engine
from penstock.engine.operations import items
from penstock.errors import DynamoDBError

TEXTS = st.sampled_from([{"S": "a"}, {"S": "b"}, {"S": "é"}])
VALUES = st.one_of(
    TEXTS, st.sampled_from([{"S": ""}, {"S": "x" * 3000}, {"N": "1"}, {"S": "a", "N": "1"}, {"S": 5}, {}])
)
KEYS = st.one_of(
    st.fixed_dictionaries({"pk": TEXTS, "sk": TEXTS}),
    st.dictionaries(st.sampled_from(["pk", "sk", "other"]), VALUES, max_size=3),
)
PARTS = st.builds(
    lambda keys, rest: {"Keys": keys, **rest},
    st.lists(KEYS, max_size=4),
    st.sampled_from([{}, {"ConsistentRead": True}, {"ProjectionExpression": "sk"}, {"Unknown": 1}]),
)


@pytest.fixture(scope="module")
def engine() -> Engine:
    made = Engine()
    names = (("pk", "HASH"), ("sk", "RANGE"))
    request = {
        "TableName": "things",
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name, _ in names],
        "KeySchema": [{"AttributeName": name, "KeyType": role} for name, role in names],
    }
    made.execute("CreateTable", request)
    for text in ("a", "é"):
        made.execute("PutItem", {"TableName": "things", "Item": {"pk": {"S": text}, "sk": {"S": "a"}, "n": {"N": "1"}}})
    return made


def outcome(engine: Engine, request: Any) -> Any:
    try:
        return engine.execute("BatchGetItem", request)
    except DynamoDBError as error:
        return error.code, error.message


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(["things", "nothing"]), PARTS, min_size=1, max_size=2))
def test_a_batch_of_reads_is_answered_the_same_on_both_paths(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, wanted: dict[str, Any]
) -> None:
    request = {"RequestItems": wanted, "ReturnConsumedCapacity": "TOTAL"}
    with monkeypatch.context() as patched:
        patched.setattr(items, "_usual_reads", lambda *_: None)
        expected = outcome(engine, request)
    assert outcome(engine, request) == expected
