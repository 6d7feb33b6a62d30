"""Small requests that ask for much work: the work grows as the request does, or is not done.

Work is counted in calls of functions, which a busy machine does not change.
"""

from __future__ import annotations

import functools
import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from sample_tables import index, make, table

from penstock.engine import Engine
from penstock.errors import DynamoDBError, InternalServerError, TransactionCanceledException

KEY = {"pk": {"S": "a"}}
ONE = {":v": {"N": "1"}}
NAMED = {"TableName": "bombed"}
LINEAR = 6.0
"""Four times the text is four times the work, and a little for luck; a square would be sixteen."""

Ask = tuple[str, dict[str, Any]]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine() as opened:
        opened.maintenance.stop()
        make(opened, table("bombed", "pk:S"))
        make(opened, table("indexed", "pk:S / sk:S", globals_=(index("by_g", "g:S"),)))
        texts = {"L": [{"N": "1"}] * 3_000}
        opened.execute("PutItem", {**NAMED, "Item": {**KEY, "l": texts, "m": {"M": {}}, "n": {"N": "1"}}})
        yield opened


def work(engine: Engine, ask: Ask) -> int:
    """How many functions are called to answer, with nothing remembered of earlier requests."""
    for one in gc.get_objects():
        if isinstance(one, functools._lru_cache_wrapper) and (one.__module__ or "").startswith("penstock."):
            one.cache_clear()
    count = 0

    def seen(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        with suppress(DynamoDBError):
            engine.answer(*ask)
    finally:
        sys.setprofile(None)
    return count


def repeated(unit: str, size: int, between: str = "") -> str:
    return between.join([unit] * (size // len(unit + between)))


def numbered(pattern: str, size: int) -> str:
    """`a0,a1,a2…` up to so many characters."""
    return ",".join(pattern.format(place) for place in range(size // (len(pattern) + 2)))


def update(text: str) -> Ask:
    return "UpdateItem", {**NAMED, "Key": KEY, "UpdateExpression": text, "ExpressionAttributeValues": ONE}


def scan(text: str) -> Ask:
    return "Scan", {**NAMED, "FilterExpression": text, "ExpressionAttributeValues": ONE}


def projection(text: str) -> Ask:
    return "GetItem", {**NAMED, "Key": KEY, "ProjectionExpression": text}


def statement(text: str) -> Ask:
    return "ExecuteStatement", {"Statement": text}


GROWING: dict[str, Callable[[int], Ask]] = {
    "brackets": lambda size: scan(repeated("(", size)),
    "NOTs": lambda size: scan(repeated("NOT ", size) + "n = :v"),
    "ANDs": lambda size: scan(repeated("n = :v", size, " AND ")),
    "INs": lambda size: scan("n IN (" + repeated(":v", size, ",") + ")"),
    "a path": lambda size: scan(repeated("n.", size) + "n = :v"),
    "positions": lambda size: scan("l" + repeated("[0]", size) + " = :v"),
    "blanks": lambda size: scan("n = :v" + " " * size),
    "actions": lambda size: update("SET " + numbered("a{} = :v", size)),
    "actions inside": lambda size: update("SET " + numbered("m.a{} = :v", size)),
    "removals of positions": lambda size: update("REMOVE " + numbered("l[{}]", size)),
    "sums": lambda size: update("SET n = " + repeated(":v", size, " + ")),
    "calls in calls": lambda size: update("SET n = " + repeated("if_not_exists(n, ", size)),
    "a projection of names": lambda size: projection(numbered("a{}", size)),
    "a projection of positions": lambda size: projection(numbered("l[{}]", size)),
    "a projection inside": lambda size: projection(numbered("m.a{}", size)),
    "PartiQL: lists in lists": lambda size: statement("SELECT * FROM bombed WHERE n = " + "[" * size),
    "PartiQL: maps in maps": lambda size: statement("INSERT INTO bombed VALUE " + repeated("{'a': ", size)),
    "PartiQL: quotes": lambda size: statement("SELECT * FROM bombed WHERE n = '" + "''" * (size // 2)),
    "PartiQL: comments": lambda size: statement("SELECT * FROM bombed " + repeated("--x\n", size)),
    "PartiQL: INs": lambda size: statement("SELECT * FROM bombed WHERE n IN [" + repeated("1", size, ",") + "]"),
    "PartiQL: ORs": lambda size: statement("SELECT * FROM bombed WHERE " + repeated("n = 1", size, " OR ")),
    "PartiQL: digits": lambda size: statement("SELECT * FROM bombed WHERE n = 1" + "0" * size),
}


@pytest.mark.parametrize("name", GROWING)
def test_the_work_of_an_expression_grows_as_its_text_does(engine: Engine, name: str) -> None:
    little, much = (work(engine, GROWING[name](size)) for size in (900, 3_600))
    assert much < LINEAR * little + 500


def test_a_value_that_is_copied_to_hundreds_of_places_is_measured_a_few_times_only(engine: Engine) -> None:
    value = {":v": {"L": [{"BOOL": True}] * 5_000}}
    asked = {**NAMED, "Key": KEY, "ExpressionAttributeValues": value}

    def copies(count: int, path: str, source: str) -> int:
        text = "SET " + ",".join(f"{path}{place} = {source}" for place in range(count))
        request = {**asked, "UpdateExpression": text} if source == ":v" else update(text)[1]
        return work(engine, ("UpdateItem", request))

    assert copies(300, "a", ":v") < 3 * copies(100, "a", ":v")
    # Beside each other and inside a map: what is larger than any request is not measured to its end.
    elements = 16 * 1024 * 1024 // 3
    assert copies(450, "a", "l") < elements
    assert copies(450, "m.a", "l") < elements


def test_the_refusal_of_many_copies_is_that_of_an_item_that_is_too_large(engine: Engine) -> None:
    long = {":v": {"L": [{"S": "x" * 300_000}]}}
    text = "SET " + ",".join(f"m.a{place} = :v" for place in range(100))
    action = {"Update": {**update(text)[1], "ExpressionAttributeValues": long}}
    with pytest.raises(TransactionCanceledException) as caught:
        engine.execute("TransactWriteItems", {"TransactItems": [action]})
    told = "Item size to update has exceeded the maximum allowed size"
    assert caught.value.fields["CancellationReasons"] == [{"Code": "ValidationError", "Message": told}]


@pytest.mark.parametrize("kind", ["SS", "NS", "BS"])
def test_the_last_member_of_a_large_set_may_be_the_first_again(engine: Engine, kind: str) -> None:
    def repeating(count: int) -> Ask:
        members = [f"{place:08d}" for place in range(1, count)]
        return "PutItem", {**NAMED, "Item": {**KEY, "s": {kind: [*members, members[0]]}}}

    def seconds(count: int) -> float:
        """Of this process, and the best of three."""
        best, ask = float("inf"), repeating(count)
        for _ in range(3):
            began = time.process_time()
            with pytest.raises(DynamoDBError, match="duplicates"):
                engine.answer(*ask)
            best = min(best, time.process_time() - began)
        return best

    assert seconds(12_000) < 9 * seconds(3_000)


LONG = {"S": "x" * 100_000}  # a row key says the length of its parts with two bytes
SHORT = {"S": "x"}


@pytest.mark.parametrize(
    "request_",
    [
        {**NAMED, "ExclusiveStartKey": {"pk": LONG}},
        {"TableName": "indexed", "ExclusiveStartKey": {"pk": LONG, "sk": SHORT}},
        {"TableName": "indexed", "ExclusiveStartKey": {"pk": SHORT, "sk": LONG}},
        {"TableName": "indexed", "IndexName": "by_g", "ExclusiveStartKey": {"pk": SHORT, "sk": SHORT, "g": LONG}},
        {"TableName": "indexed", "IndexName": "by_g", "ExclusiveStartKey": {"pk": LONG, "sk": SHORT, "g": SHORT}},
    ],
)
def test_a_starting_key_that_is_longer_than_any_key_is_refused(engine: Engine, request_: dict[str, Any]) -> None:
    with pytest.raises(DynamoDBError, match="The provided starting key is invalid: ") as caught:
        engine.execute("Scan", request_)
    assert not isinstance(caught.value, InternalServerError)
