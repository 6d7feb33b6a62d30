"""The fast paths of PutItem (no old item read, an insert that finds no item) leave what its full path does."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from sample_tables import index, make, table

from penstock.engine import Engine
from penstock.errors import DynamoDBError

STREAM = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
TABLES = [
    table("plain", "pk:S"),
    {**table("watched", "pk:S", globals_=(index("by_n", "n:N"),)), "StreamSpecification": STREAM},
]
CONDITIONS: list[dict[str, Any]] = [
    {},
    {"ConditionExpression": "attribute_not_exists(pk)"},
    {"ConditionExpression": "attribute_exists(pk)"},
    {"ConditionExpression": "attribute_not_exists(n) OR n < :v", "ExpressionAttributeValues": {":v": {"N": "2"}}},
    {"ConditionExpression": "a <> :v", "ExpressionAttributeValues": {":v": {"S": "x"}}},
]
ITEMS = st.fixed_dictionaries(
    {"pk": st.sampled_from([{"S": "a"}, {"S": "b"}, {"S": ""}, {"N": "1"}])},
    optional={"n": st.sampled_from([{"N": "1"}, {"N": "3"}, {"S": "x"}]), "a": st.just({"S": "x"})},
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["plain", "watched"]), ITEMS, st.sampled_from(CONDITIONS)), max_size=8))
def test_puts_leave_and_refuse_what_puts_that_ask_for_the_old_item_do(
    puts: list[tuple[str, dict[str, Any], dict[str, Any]]],
) -> None:
    with Engine() as fast, Engine() as full:
        for engine in (fast, full):
            for definition in TABLES:
                make(engine, definition)
        for name, item, condition in puts:
            request = {"TableName": name, "Item": item, **condition}
            assert refusal(fast, request) == refusal(full, {**request, "ReturnValues": "ALL_OLD"})
        assert rows(fast) == rows(full)


def refusal(engine: Engine, request: dict[str, Any]) -> tuple[str, str] | None:
    try:
        engine.execute("PutItem", request)
    except DynamoDBError as refused:
        return refused.code, str(refused)
    return None


def rows(engine: Engine) -> dict[str, list[Any]]:
    """Items, index rows, and what the stream says of each change."""
    db = engine.store.connection()
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE name GLOB 't[0-9]*'")]
    records = db.execute("SELECT event, size FROM stream_records ORDER BY sequence").fetchall()
    return {"records": records} | {name: sorted(db.execute(f"SELECT * FROM {name}")) for name in names}
