"""engine/items/bulk_rows.py: the fast path of a plain batch leaves and answers what the full path does."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_tables import every_item, index, make, table

from penstock.engine import DEFAULT_SCOPE, Engine
from penstock.engine.items.bulk_rows import Loading
from penstock.errors import DynamoDBError
from penstock.wire.values import check_item

PLAIN = table("plain", "pk:S / sk:N")
INDEXED = table("indexed", "pk:S / sk:N", globals_=(index("by_a", "a:S"),))


def put(number: int | str, **attributes: Any) -> dict[str, Any]:
    return {"PutRequest": {"Item": {"pk": {"S": "a"}, "sk": {"N": str(number)}, **attributes}}}


def delete(number: int) -> dict[str, Any]:
    return {"DeleteRequest": {"Key": {"pk": {"S": "a"}, "sk": {"N": str(number)}}}}


NESTED = {"L": [{"S": "é"}, {"N": "01.50"}, {"M": {"x": {"NULL": True}, "": {"S": "x"}}}]}
BATCHES: dict[str, dict[str, Any]] = {
    "puts": {"plain": [put(number, x={"S": "text"}) for number in range(25)]},
    "one put": {"plain": [put(1)]},
    "a delete among puts": {"plain": [put(1), delete(2), put(3)]},
    "two tables": {"plain": [put(1)], "indexed": [put(2, a={"S": "x"})]},
    "two plain tables": {"plain": [put(1)], "other": [put(1)]},
    "numbers written oddly": {"plain": [put("007", n={"N": "1e2"}, m={"N": "-0.50"}, s={"NS": ["3", "1.0"]})]},
    "every type": {"plain": [put(1, b={"B": "AAE="}, t={"BOOL": True}, z={"NULL": True}, s={"SS": ["b", "a"]})]},
    "a list of lists": {"plain": [put(1, l={"L": [{"L": [{"S": "x"}]}, {"BOOL": False}, {"N": "5.0"}]})]},
    "the same key twice": {"plain": [put(1), put("1.0")]},
    "26 puts": {"plain": [put(number) for number in range(26)]},
    "no table": {"absent": [put(1)]},
    "no table after a bad item": {"absent": [put(1)], "plain": [put(1, n={"N": "x"})]},
    "an empty key": {"plain": [{"PutRequest": {"Item": {"pk": {"S": ""}, "sk": {"N": "1"}}}}]},
    "a long key": {"plain": [{"PutRequest": {"Item": {"pk": {"S": "x" * 2049}, "sk": {"N": "1"}}}}]},
    "a longish key": {"plain": [{"PutRequest": {"Item": {"pk": {"S": "x" * 2048}, "sk": {"N": "1"}}}}]},
    "no sort key": {"plain": [{"PutRequest": {"Item": {"pk": {"S": "a"}}}}]},
    "a key of another type": {"plain": [{"PutRequest": {"Item": {"pk": {"S": "a"}, "sk": {"S": "1"}}}}]},
    "an index key of another type": {"indexed": [put(1, a={"N": "1"})]},
    "an item too large": {"plain": [put(1, x={"S": "x" * 410_000})]},
    "an empty name inside": {"plain": [put(1, x=NESTED)]},
    "two types": {"plain": [put(1, x={"S": "a", "N": "1"})]},
    "no type": {"plain": [put(1, x={})]},
    "an empty set": {"plain": [put(1, x={"SS": []})]},
    "a false null": {"plain": [put(1, x={"NULL": False})]},
    "put and delete in one": {"plain": [{**put(1), **delete(1)}]},
    "neither": {"plain": [{}]},
}


def outcome(items: dict[str, Any], **more: Any) -> tuple[Any, ...]:
    """The answer or the error, and what the tables then hold."""
    answer: Any
    with Engine() as engine:
        for definition in (PLAIN, INDEXED, PLAIN | {"TableName": "other"}):
            make(engine, definition)
        engine.execute("PutItem", {"TableName": "plain", "Item": put(2, old={"S": "x"})["PutRequest"]["Item"]})
        try:
            answer = engine.execute("BatchWriteItem", {"RequestItems": items, **more})
        except DynamoDBError as error:
            answer = (error.code, error.message)
        return answer, [every_item(engine, "Scan", {"TableName": name}) for name in ("plain", "indexed", "other")]


@pytest.mark.parametrize("name", BATCHES)
def test_a_plain_batch_does_what_any_batch_does(name: str) -> None:
    # A request with a second member takes the full path, and NONE asks for nothing.
    assert outcome(BATCHES[name]) == outcome(BATCHES[name], ReturnConsumedCapacity="NONE")


VALUES = st.sampled_from(
    [{"S": "x"}, {"N": "01.50"}, {"N": "x"}, {"BOOL": True}, {"SS": ["b", "a"]}, {"SS": []}, {}, NESTED, {"B": "AAE="}]
)
WRITES = st.one_of(
    st.builds(lambda number, x: put(number, x=x), st.integers(1, 4), VALUES),
    st.builds(put, st.sampled_from(["1.0", "2", "x", ""])),
    st.builds(lambda number, a: put(number, a=a), st.integers(1, 4), st.sampled_from([{"S": "x"}, {"S": ""}])),
    st.builds(delete, st.integers(1, 4)),
)
TABLES = st.sampled_from(["plain", "plain", "indexed", "other", "absent"])


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(TABLES, st.lists(WRITES, min_size=1, max_size=4), min_size=1, max_size=2))
def test_whatever_is_in_a_batch_the_fast_path_does_what_the_full_path_does(items: dict[str, Any]) -> None:
    assert outcome(items) == outcome(items, ReturnConsumedCapacity="NONE")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), VALUES), min_size=1, max_size=6))
def test_a_bulk_load_leaves_what_single_writes_do(puts: list[tuple[int, dict[str, Any]]]) -> None:
    with Engine() as loaded, Engine() as single:
        make(loaded, PLAIN)
        make(single, PLAIN)
        loading = Loading.of(loaded, DEFAULT_SCOPE, "plain")
        assert loading is not None
        group: dict[bytes, Any] = {}
        for number, value in puts:
            item = put(number, x=value)["PutRequest"]["Item"]
            try:
                row = loading.row(*check_item(item))
            except DynamoDBError:
                continue  # who loads checks each item first
            assert row is not None
            group[row[0]] = row
            single.execute("PutItem", {"TableName": "plain", "Item": item})
        assert loading.write(group)
        assert every_item(loaded, "Scan", {"TableName": "plain"}) == every_item(single, "Scan", {"TableName": "plain"})


def test_25_puts_are_one_statement_in_one_transaction(engine: Engine) -> None:
    make(engine, PLAIN)
    engine.execute("BatchWriteItem", {"RequestItems": BATCHES["one put"]})  # which looks the table up
    new = {"plain": [put(number) for number in range(100, 125)]}
    for expected in (["INSERT OR"], ["INSERT OR", "INSERT INTO"]):  # the second time, they are there
        found: list[str] = []
        engine.store.connection().set_trace_callback(found.append)
        engine.execute("BatchWriteItem", {"RequestItems": new})
        engine.store.connection().set_trace_callback(None)
        assert [one.split()[0] for one in found] == ["BEGIN", "SELECT", *["INSERT"] * len(expected), "COMMIT"]
        assert [" ".join(one.split()[:2]) for one in found[2:-1]] == expected


def test_bytes_are_given_to_sqlite_without_a_search_for_what_might_adapt_them() -> None:
    adapter = sqlite3.adapters[bytes, sqlite3.PrepareProtocol]
    given = b"a key"
    assert adapter(given) is given
