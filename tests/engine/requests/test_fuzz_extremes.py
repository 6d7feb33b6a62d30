"""Requests at and past every limit: each is answered or refused within moments, and the engine goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from sample_tables import make, rows, table

from penstock.engine import Engine
from penstock.errors import DynamoDBError, InternalServerError

LONGEST_SECONDS = 3.0  # of this process: a busy machine does not count
KB = 1024


@pytest.fixture
def plain() -> Iterator[Engine]:
    with Engine() as engine:
        make(engine, table("plain", "pk:S"))
        yield engine


def nested(kind: str, depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {"S": "x"}
    for _ in range(depth):
        value = {"L": [value]} if kind == "L" else {"M": {"a": value}}
    return value


def put(item: dict[str, Any], **members: Any) -> tuple[str, dict[str, Any]]:
    return "PutItem", {"TableName": "plain", "Item": {"pk": {"S": "a"}, **item}, **members}


def update(expression: str, **members: Any) -> tuple[str, dict[str, Any]]:
    return "UpdateItem", {"TableName": "plain", "Key": {"pk": {"S": "a"}}, "UpdateExpression": expression, **members}


def scan(filter_: str, **members: Any) -> tuple[str, dict[str, Any]]:
    return "Scan", {"TableName": "plain", "FilterExpression": filter_, **members}


ONE = {":v": {"N": "1"}}

REFUSED = {
    "4,096 opening brackets": put({}, ConditionExpression="(" * 4096),
    "2,000 brackets around a condition": put(
        {}, ConditionExpression="(" * 2000 + "a = :v" + ")" * 2000, ExpressionAttributeValues=ONE
    ),
    "1,000 NOTs": put({}, ConditionExpression="NOT " * 1000 + "a = :v", ExpressionAttributeValues=ONE),
    "an expression of 4,097 bytes": scan("a = :v" + " " * 4091, ExpressionAttributeValues=ONE),
    "an expression of 10 MB": scan("a" * 10_000_000),
    "a path of 2,000 dots": update("REMOVE a" + ".b" * 2000),
    "a path of 1,000 brackets": update("REMOVE a" + "[0]" * 1000),
    "a position of 1,000 digits": update("REMOVE a[" + "9" * 1000 + "]"),
    "a list in a list, 1,000 times": put({"a": nested("L", 1000)}),
    "a map in a map, 1,000 times": put({"a": nested("M", 1000)}),
    "a list in a list, 32 times": put({"a": nested("L", 32)}),
    "a deep value of an expression": put(
        {}, ConditionExpression="a = :v", ExpressionAttributeValues={":v": nested("L", 1000)}
    ),
    "an item of 10 MB": put({"a": {"S": "x" * 10_000_000}}),
    "an item of 400 KB and a byte": put({"a": {"S": "x" * (400 * KB - 3)}}),
    "a name of 10 MB": put({"x" * 10_000_000: {"S": ""}}),
    "a key of 2,049 bytes": ("GetItem", {"TableName": "plain", "Key": {"pk": {"S": "x" * 2049}}}),
    "a key of 10 MB": ("GetItem", {"TableName": "plain", "Key": {"pk": {"S": "x" * 10_000_000}}}),
    "a number of 1 MB": put({"a": {"N": "1" * 1_000_000}}),
    "an exponent of 1 MB": put({"a": {"N": "1e" + "9" * 1_000_000}}),
    "a negative exponent of 1 MB": put({"a": {"N": "1e-" + "9" * 1_000_000}}),
    "a number of 39 digits": put({"a": {"N": "1" * 39}}),
    "1 MB of zeros and then some digits": put({"a": {"N": "0." + "0" * 1_000_000 + "1"}}),
    "a table name of 10 MB": ("DescribeTable", {"TableName": "x" * 10_000_000}),
    "26 writes in a batch": (
        "BatchWriteItem",
        {"RequestItems": {"plain": [{"DeleteRequest": {"Key": {"pk": {"S": str(n)}}}} for n in range(26)]}},
    ),
    "101 gets in a batch": (
        "BatchGetItem",
        {"RequestItems": {"plain": {"Keys": [{"pk": {"S": str(n)}} for n in range(101)]}}},
    ),
    "101 actions in a transaction": (
        "TransactWriteItems",
        {"TransactItems": [{"Delete": {"TableName": "plain", "Key": {"pk": {"S": str(n)}}}} for n in range(101)]},
    ),
    "a set of 100,000 equal strings": put({"a": {"SS": ["x"] * 100_000}}),
    "301 operators": scan(" OR ".join(["a=:v"] * 302), ExpressionAttributeValues=ONE),
    "101 operands of IN": scan(
        f"a IN ({', '.join([':v'] * 101)})",
        ExpressionAttributeValues=ONE,
    ),
    "values of more than 2 MB": scan(
        "a = :v OR a = :w", ExpressionAttributeValues={":v": {"S": "x" * 1_500_000}, ":w": {"S": "y" * 1_500_000}}
    ),
    "a table of 1,000,001 segments": ("Scan", {"TableName": "plain", "TotalSegments": 1_000_001, "Segment": 0}),
    "a negative limit": ("Scan", {"TableName": "plain", "Limit": -1}),
}

ANSWERED = {
    "a limit of 2 to the 70th": ("Scan", {"TableName": "plain", "Limit": 2**70}),
    "4,000 blanks before a word": scan(" " * 4_000 + "a = :v", ExpressionAttributeValues=ONE),
    "a list in a list, 31 times": put({"a": nested("L", 31)}),
    "an item of exactly 400 KB": put({"a": {"S": "x" * (400 * KB - 4)}}),
    "a set of 10,000 numbers": put({"a": {"NS": [str(n) for n in range(10_000)]}}),
    "5,000 attributes": put({f"a{n}": {"N": str(n)} for n in range(5_000)}),
    "a number of many zeros": put({"a": {"N": "0" * 1_000 + "1." + "0" * 1_000}}),
    "a key of 2,048 bytes": put({"pk": {"S": "é" * 1024}}),
    "the last of a million segments": ("Scan", {"TableName": "plain", "TotalSegments": 1_000_000, "Segment": 999_999}),
    "an expression of 4,096 bytes": scan("a = :v" + " " * 4090, ExpressionAttributeValues=ONE),
    "100 operands of IN": scan(f"a IN ({', '.join([':v'] * 100)})", ExpressionAttributeValues=ONE),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_past_a_limit_is_refused(plain: Engine, name: str) -> None:
    operation, request = REFUSED[name]
    before = rows(plain, "plain")
    began = time.process_time()
    with pytest.raises(DynamoDBError) as caught:
        plain.execute(operation, request)
    assert time.process_time() - began < LONGEST_SECONDS
    assert not isinstance(caught.value, InternalServerError)
    assert len(caught.value.message) < 1_100_000
    assert rows(plain, "plain") == before


@pytest.mark.parametrize("name", ANSWERED)
def test_what_is_at_a_limit_is_answered(plain: Engine, name: str) -> None:
    operation, request = ANSWERED[name]
    began = time.process_time()
    plain.execute(operation, request)
    assert time.process_time() - began < LONGEST_SECONDS


def test_an_update_cannot_grow_an_item_past_400_kb(plain: Engine) -> None:
    plain.execute(*put({"a": {"L": [{"S": "x" * 200_000}]}}))
    grow = update("SET b = a, c = a")
    with pytest.raises(DynamoDBError, match="Item size to update has exceeded the maximum allowed size"):
        plain.execute(*grow)


def test_updates_cannot_nest_an_item_deeper_than_32(plain: Engine) -> None:
    plain.execute(*put({"a": nested("M", 20)}))
    deeper = update(f"SET a{'.a' * 20} = a")
    with pytest.raises(DynamoDBError):
        plain.execute(*deeper)


def test_a_deep_value_that_was_stored_can_be_read_filtered_and_compared(plain: Engine) -> None:
    deep = nested("M", 31)
    plain.execute(*put({"a": deep}))
    answer = plain.execute(*scan("a = :v", ExpressionAttributeValues={":v": deep}))
    assert answer["Items"] == [{"pk": {"S": "a"}, "a": deep}]
