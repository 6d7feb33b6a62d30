"""UpdateItems that arrive together do what they do one after another, in few statements (operations, run_many)."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_tables import index, make, table
from sql_statements import statements

from penstock.engine import Engine, Pending
from penstock.errors import DynamoDBError

INDEXED = table("indexed", "pk:S", globals_=(index("by_n", "n:N"), index("by_a", "a:S / n:N")))
PLAIN = table("plain", "pk:S")
STREAM = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}


def update(key: str, text: str, name: str = "indexed", **more: Any) -> dict[str, Any]:
    return {"TableName": name, "Key": {"pk": {"S": key}}, "UpdateExpression": text, **more}


UPDATES = [
    {"text": "SET n = :v", "ExpressionAttributeValues": {":v": {"N": "1"}}},
    {"text": "SET n = :v", "ExpressionAttributeValues": {":v": {"N": "2"}}, "ReturnValues": "ALL_NEW"},
    {"text": "ADD n :v", "ExpressionAttributeValues": {":v": {"N": "1"}}, "ReturnValues": "UPDATED_NEW"},
    {"text": "SET a = :v", "ExpressionAttributeValues": {":v": {"S": "x"}}, "ReturnConsumedCapacity": "INDEXES"},
    {"text": "SET a = :v", "ExpressionAttributeValues": {":v": {"S": "y"}}, "ConditionExpression": "n = :v"},
    {"text": "REMOVE n", "ReturnValues": "ALL_OLD"},
    {"text": "REMOVE a", "ConditionExpression": "attribute_exists(a)"},
    {"text": "SET n = :v", "ExpressionAttributeValues": {":v": {"S": "no number"}}},
    {"text": "SET a = a", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"},
]
CALLS = st.tuples(st.sampled_from("abc"), st.sampled_from(UPDATES), st.sampled_from(["indexed", "indexed", "plain"]))


@settings(max_examples=40, deadline=None)
@given(st.lists(CALLS, min_size=2, max_size=12))
def test_a_group_answers_and_leaves_what_single_calls_do(calls: list[tuple[str, dict[str, Any], str]]) -> None:
    pending = [Pending("UpdateItem", update(key, name=name, **given)) for key, given, name in calls]
    with Engine() as alone, Engine() as together:
        for engine in (alone, together):
            make(engine, {**INDEXED, "StreamSpecification": STREAM})
            make(engine, PLAIN)
        singly = [answer for call in pending for answer in alone.answer_many([call])]
        assert [told(one) for one in together.answer_many(pending)] == [told(one) for one in singly]
        assert rows(together) == rows(alone)


def told(answer: bytes | DynamoDBError) -> Any:
    return orjson.loads(answer) if isinstance(answer, bytes) else (answer.code, str(answer), answer.fields)


def rows(engine: Engine) -> dict[str, list[Any]]:
    """All that the file has of items, index rows and stream records."""
    db = engine.store.connection()
    kept = {"meta", "tables", "streams", "stream_records", "sqlite_sequence", "backups"}
    names = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")} - kept
    images = db.execute("SELECT event, size, images FROM stream_records ORDER BY sequence")
    return {"stream_records": [(event, size) for event, size, _ in images]} | {
        name: sorted(db.execute(f"SELECT * FROM {name}")) for name in names
    }


READ_AND_WRITTEN = ["BEGIN", "SELECT", "SELECT", "INSERT"]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("plain", [*READ_AND_WRITTEN, "COMMIT"]), ("moving", [*READ_AND_WRITTEN, "DELETE", "INSERT", "COMMIT"])],
)
def test_a_group_of_25_updates_is_one_read_and_one_write_of_each_table(
    engine: Engine, name: str, wanted: list[str]
) -> None:
    make(engine, table("moving", "pk:S", globals_=(index("by_n", "n:N"),)))
    make(engine, PLAIN)
    for number in range(25):
        engine.execute("PutItem", {"TableName": name, "Item": {"pk": {"S": str(number)}, "n": {"N": "0"}}})
    one = {"ExpressionAttributeValues": {":v": {"N": "1"}}}
    calls = [Pending("UpdateItem", update(str(number), "SET n = :v", name, **one)) for number in range(25)]
    with statements(engine) as found:
        answers = engine.answer_many(calls)
    assert answers == [b"{}"] * 25
    assert [one.split()[0] for one in found] == wanted
