"""What the processes and threads of the tests do: functions that a pool can run by name."""

from __future__ import annotations

from typing import Any

from penstock.engine import Engine
from penstock.errors import ConditionalCheckFailedException

ONE = {":one": {"N": "1"}}


def count_up(engine: Engine, times: int) -> None:
    """Adds one to two items, in turns by update and by transaction."""
    for turn in range(times):
        if turn % 2:
            engine.execute("UpdateItem", addition("counter"))
        else:
            engine.execute("TransactWriteItems", {"TransactItems": [{"Update": addition("counter")}]})


def addition(key: str) -> dict[str, Any]:
    return {
        "TableName": "plain",
        "Key": {"pk": {"S": key}},
        "UpdateExpression": "ADD n :one",
        "ExpressionAttributeValues": ONE,
    }


def claim(engine: Engine, owner: str, keys: int) -> list[int]:
    """Tries to be the first to put each item; those it was."""
    won = []
    for number in range(keys):
        item = {"pk": {"S": f"claim {number}"}, "owner": {"S": owner}}
        request = {"TableName": "plain", "Item": item, "ConditionExpression": "attribute_not_exists(pk)"}
        try:
            engine.execute("PutItem", request)
            won.append(number)
        except ConditionalCheckFailedException:
            pass
    return won


def put_many(engine: Engine, start: int, end: int) -> None:
    """Puts items, updates every third and deletes every seventh of them."""
    for number in range(start, end):
        key = {"pk": {"S": f"item {number}"}}
        engine.execute("PutItem", {"TableName": "plain", "Item": {**key, "a": {"S": f"a{number % 10}"}}})
        if number % 3 == 0:
            update = {"UpdateExpression": "SET a = :a", "ExpressionAttributeValues": {":a": {"S": "moved"}}}
            engine.execute("UpdateItem", {"TableName": "plain", "Key": key, **update})
        if number % 7 == 0:
            engine.execute("DeleteItem", {"TableName": "plain", "Key": key})


# ── the same, each in a process of its own ───────────────────────────────────────────────────────


def count_up_in_process(path: str, times: int) -> None:
    with Engine(path) as engine:
        count_up(engine, times)


def claim_in_process(path: str, owner: str, keys: int) -> list[int]:
    with Engine(path) as engine:
        return claim(engine, owner, keys)


def put_many_in_process(path: str, start: int, end: int) -> None:
    with Engine(path) as engine:
        put_many(engine, start, end)
