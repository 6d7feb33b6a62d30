"""Writes to tables with vector indexes: what is refused, what is indexed, what it costs; by every way of writing."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sample_tables import index as global_index
from vector_tables import found, numbers, put, search, vector, vector_index, vector_table

from penstock.engine import Engine, Pending, ttl_sweeper
from penstock.errors import TransactionCanceledException, ValidationException
from penstock.testing.clock import MovableClock

PREFIX = "One or more parameter values were invalid. "


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as made:
        schema = vector_index("schema", hash_="tenant", filters=["category"])
        made.execute("CreateTable", vector_table("things", vector_index("plain"), schema))
        yield made


Write = Callable[[Engine, dict[str, Any]], object]


def _put(engine: Engine, item: dict[str, Any]) -> object:
    return engine.execute("PutItem", {"TableName": "things", "Item": item})


def _update(engine: Engine, item: dict[str, Any]) -> object:
    names = [name for name in item if name != "pk"]
    return engine.execute(
        "UpdateItem",
        {
            "TableName": "things",
            "Key": {"pk": item["pk"]},
            "UpdateExpression": "SET " + ", ".join(f"{name} = :{name}" for name in names),
            "ExpressionAttributeValues": {f":{name}": item[name] for name in names},
        },
    )


def _batch(engine: Engine, item: dict[str, Any]) -> object:
    return engine.execute("BatchWriteItem", {"RequestItems": {"things": [{"PutRequest": {"Item": item}}]}})


def _statement(engine: Engine, item: dict[str, Any]) -> object:
    values = ", ".join(f"'{name}': ?" for name in item)
    statement = f"INSERT INTO things VALUE {{{values}}}"
    return engine.execute("ExecuteStatement", {"Statement": statement, "Parameters": list(item.values())})


def _transaction(engine: Engine, item: dict[str, Any]) -> object:
    request = {"TransactItems": [{"Put": {"TableName": "things", "Item": item}}]}
    try:
        return engine.execute("TransactWriteItems", request)
    except TransactionCanceledException as error:
        (reason,) = error.fields["CancellationReasons"]
        assert reason["Code"] == "ValidationError"
        raise ValidationException(reason["Message"]) from None


WAYS: list[Write] = [_put, _update, _batch, _statement, _transaction]


@pytest.mark.parametrize("write", WAYS)
@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            {"embedding": vector(1, 0)},
            "Invalid size for parameter embedding, Expected: 3, Actual: 2 IndexName: plain",
        ),
        (
            {"embedding": {"L": [{"N": "1"}, {"S": "oops"}, {"N": "0"}]}},
            "Invalid type for parameter embedding[1], Expected: 32-bit floating point number, Actual: S. "
            "IndexName: plain",
        ),
        (
            {"embedding": {"S": "not-a-vector"}},
            "Invalid type for parameter embedding, Expected: 32-bit floating point number list IndexName: plain",
        ),
        (
            {"tenant": {"N": "1"}},
            "Attribute 'tenant' type mismatch. Expected: S, Actual: N. IndexName: schema",
        ),
    ],
)
def test_what_no_index_could_hold_is_refused_by_every_write(
    engine: Engine, write: Write, attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationException) as caught:
        write(engine, {"pk": {"S": "bad"}, **attributes})
    assert caught.value.message == PREFIX + message
    assert engine.execute("Scan", {"TableName": "things"})["Count"] == 0


def test_a_number_beyond_32_bits_is_refused_with_the_range(engine: Engine) -> None:
    with pytest.raises(ValidationException) as caught:
        put(engine, "things", "bad", 0, "-1e39", 0)
    assert caught.value.message.startswith(f"{PREFIX}Invalid value for parameter embedding[1], Value: -1")
    assert caught.value.message.endswith("is outside valid range [-3.4028235E38, 3.4028235E38]. IndexName: plain")


@pytest.mark.parametrize("write", [_put, _batch, _statement])
def test_an_empty_hash_value_is_refused_as_in_a_global_index(engine: Engine, write: Write) -> None:
    with pytest.raises(ValidationException) as caught:
        write(engine, {"pk": {"S": "bad"}, "tenant": {"S": ""}, "embedding": vector(0, 0, 1)})
    assert caught.value.message == (
        "One or more parameter values are not valid. A value specified for a secondary index key is not supported. "
        "The AttributeValue for a key attribute cannot contain an empty string value. "
        "IndexName: schema, IndexKey: tenant"
    )


def test_an_empty_inline_filter_is_a_value_as_any_other(engine: Engine) -> None:
    put(engine, "things", "a", 1, 0, 0, tenant={"S": "t"}, category={"S": ""})
    where = {"SearchConditionExpression": "tenant = :t AND category = :c"}
    values = {"ExpressionAttributeValues": {":t": {"S": "t"}, ":c": {"S": ""}}}
    assert found(engine, "things", 1, 0, 0, index="schema", **where, **values) == ["a"]


@pytest.mark.parametrize("write", WAYS)
def test_every_write_is_found_at_once(engine: Engine, write: Write) -> None:
    write(engine, {"pk": {"S": "a"}, "embedding": vector(1, 0, 0)})
    assert found(engine, "things", 1, 0, 0, index="plain") == ["a"]


def test_an_item_goes_with_its_vector_its_hash_or_itself(engine: Engine) -> None:
    tenant = {"S": "t"}
    where = {"SearchConditionExpression": "tenant = :t", "ExpressionAttributeValues": {":t": tenant}}

    def both() -> tuple[list[str], list[str]]:
        plain = found(engine, "things", 1, 0, 0, index="plain")
        return plain, found(engine, "things", 1, 0, 0, index="schema", **where)

    def update(expression: str, **values: Any) -> None:
        request = {"TableName": "things", "Key": {"pk": {"S": "a"}}, "UpdateExpression": expression}
        engine.execute("UpdateItem", request | ({"ExpressionAttributeValues": values} if values else {}))

    put(engine, "things", "a", 1, 0, 0, tenant=tenant)
    put(engine, "things", "b", 0, 1, 0, tenant=tenant)
    assert both() == (["a", "b"], ["a", "b"])
    update("REMOVE tenant")
    assert both() == (["a", "b"], ["b"])
    update("REMOVE embedding")
    assert both() == (["b"], ["b"])
    update("SET embedding = :v, tenant = :t", **{":v": vector(0, 1, 0), ":t": tenant})
    assert both() == (["a", "b"], ["a", "b"]) or both() == (["b", "a"], ["b", "a"])
    update("SET embedding[0] = :x", **{":x": {"N": "5"}})
    assert both()[0] == ["a", "b"]
    engine.execute("DeleteItem", {"TableName": "things", "Key": {"pk": {"S": "a"}}})
    assert both() == (["b"], ["b"])


def test_updates_that_come_together_move_their_rows(engine: Engine) -> None:
    for number in range(6):
        put(engine, "things", f"k{number}", 1, 0, 0)
    calls = [
        Pending(
            "UpdateItem",
            {
                "TableName": "things",
                "Key": {"pk": {"S": f"k{number % 6}"}},
                "UpdateExpression": "SET embedding[1] = :n",
                "ExpressionAttributeValues": {":n": {"N": str(number)}},
            },
        )
        for number in range(12)
    ]
    assert all(isinstance(one, bytes) for one in engine.answer_many(calls))
    results = search(engine, "things", 0, 1, 0, index="plain", ProjectionExpression="pk, embedding")["SearchResults"]
    assert {one["Item"]["pk"]["S"]: one["Item"]["embedding"]["L"][1]["N"] for one in results} == {
        f"k{number}": f"{number + 6}.0" for number in range(6)
    }


def test_an_item_that_expires_leaves_the_index() -> None:
    clock = MovableClock()
    with Engine(clock=clock) as engine:
        engine.execute("CreateTable", vector_table("things", vector_index()))
        spec = {"AttributeName": "ends", "Enabled": True}
        engine.execute("UpdateTimeToLive", {"TableName": "things", "TimeToLiveSpecification": spec})
        put(engine, "things", "a", 1, 0, 0, ends={"N": str(int(clock.now()) + 10)})
        put(engine, "things", "b", 1, 0, 0)
        assert len(found(engine, "things", 1, 0, 0)) == 2
        clock.advance(60)
        ttl_sweeper.sweep(engine)
        assert found(engine, "things", 1, 0, 0) == ["b"]


# ── capacity and sizes ────────────────────────────────────────────────────────────────────────────


WIDE = "12345678901234567890123456789012345678"  # 20 bytes as a number, 4 as a part of a vector


@pytest.fixture
def metered() -> Iterator[Engine]:
    with Engine() as made:
        indexes = [
            vector_index("vix"),
            vector_index("vkeys", projection="KEYS_ONLY"),
            vector_index("vdims", "sixdimvec", 6),
            vector_index("vname", "embeddingWithALongerName"),
        ]
        made.execute("CreateTable", vector_table("things", *indexes))
        yield made


def cost(engine: Engine, item: dict[str, Any], mode: str = "INDEXES") -> dict[str, Any]:
    request = {"TableName": "things", "Item": item, "ReturnConsumedCapacity": mode}
    told: dict[str, Any] = engine.execute("PutItem", request)["ConsumedCapacity"]
    return told


def bytes_of(engine: Engine, item: dict[str, Any]) -> dict[str, int]:
    told = cost(engine, item).get("VectorIndexes", {})
    return {name: one["VectorWriteRequestBytes"] for name, one in told.items()}


def test_a_write_tells_the_bytes_of_each_index_that_it_changes(metered: Engine) -> None:
    item = {"pk": {"S": "a"}, "embedding": vector(0, 1, 0)}
    told = cost(metered, item)
    assert told["CapacityUnits"] == told["Table"]["CapacityUnits"] == 1
    assert told["VectorIndexes"] == {
        "vix": {"VectorWriteRequestBytes": 1024},
        "vkeys": {"VectorWriteRequestBytes": 1024},
    }
    assert "VectorIndexes" not in cost(metered, item), "the same again changes nothing"
    assert cost(metered, {**item, "n": {"S": "1"}}, "TOTAL").keys() == {"TableName", "CapacityUnits"}
    assert bytes_of(metered, {**item, "n": {"S": "2"}}).keys() == {"vix"}, "the other does not project it"
    assert bytes_of(metered, {"pk": {"S": "plain"}, "label": {"S": "x"}}) == {}


def test_a_batch_and_a_transaction_tell_them_too(metered: Engine) -> None:
    item = {"pk": {"S": "a"}, "embedding": vector(0, 1, 0)}
    request: dict[str, Any] = {"RequestItems": {"things": [{"PutRequest": {"Item": item}}]}}
    (told,) = metered.execute("BatchWriteItem", request | {"ReturnConsumedCapacity": "INDEXES"})["ConsumedCapacity"]
    assert told["VectorIndexes"].keys() == {"vix", "vkeys"}
    request = {"TransactItems": [{"Delete": {"TableName": "things", "Key": {"pk": {"S": "a"}}}}]}
    (told,) = metered.execute("TransactWriteItems", request | {"ReturnConsumedCapacity": "INDEXES"})["ConsumedCapacity"]
    assert told["VectorIndexes"]["vix"] == {"VectorWriteRequestBytes": 1024}


def test_an_entry_counts_its_name_four_bytes_a_dimension_and_what_it_projects(metered: Engine) -> None:
    def entry(pk: str, name: str, values: list[dict[str, str]], **more: Any) -> dict[str, Any]:
        return {"pk": {"S": pk}, name: {"L": values}, "blob": {"S": "x" * 1500}, **more}

    three = bytes_of(metered, entry("3a", "embedding", numbers(1, 0, 0)))
    assert three == {"vix": len("pk") + 2 + len("embedding") + 12 + len("blob") + 1500, "vkeys": 1024}
    six = bytes_of(metered, entry("6b", "sixdimvec", numbers(1, 0, 0, 0, 1, 0)))
    assert six["vdims"] - three["vix"] == 12
    named = bytes_of(metered, entry("nc", "embeddingWithALongerName", numbers(1, 0, 0)))
    assert named["vname"] - three["vix"] == len("embeddingWithALongerName") - len("embedding")
    noted = bytes_of(metered, entry("td", "embedding", numbers(1, 0, 0), note={"S": "n"}))
    assert noted["vix"] - three["vix"] == len("note") + 1


@pytest.mark.parametrize(("name", "dimensions"), [("embedding", 3), ("sixdimvec", 6)])
def test_a_write_and_the_tables_size_count_four_bytes_a_dimension(metered: Engine, name: str, dimensions: int) -> None:
    fixed = len("pk") + 2 + len(name) + 4 * dimensions + len("pad")
    for key, target, units in (("a3", 1024, 1), ("b3", 1025, 2)):
        item = {"pk": {"S": key}, name: vector(*[WIDE] * dimensions), "pad": {"S": "x" * (target - fixed)}}
        assert cost(metered, item, "TOTAL")["CapacityUnits"] == units
    described = metered.execute("DescribeTable", {"TableName": "things"})["Table"]
    assert (described["ItemCount"], described["TableSizeBytes"]) == (2, 1024 + 1025)


def test_reads_and_the_limit_of_an_item_count_its_numbers(metered: Engine) -> None:
    stored = 3 + 6 * 21
    fixed = len("pk") + 2 + len("sixdimvec") + len("pad")
    item = {"pk": {"S": "r6"}, "sixdimvec": vector(*[WIDE] * 6), "pad": {"S": "x" * (4096 - fixed - 24)}}
    cost(metered, item)
    read = {"TableName": "things", "Key": {"pk": {"S": "r6"}}, "ConsistentRead": True}
    told = metered.execute("GetItem", read | {"ReturnConsumedCapacity": "TOTAL"})["ConsumedCapacity"]
    assert told["CapacityUnits"] == 2
    largest = 400 * 1024 - fixed - stored
    cost(metered, {**item, "pk": {"S": "g0"}, "pad": {"S": "x" * largest}})
    with pytest.raises(ValidationException, match=re.escape("Item size has exceeded the maximum allowed size")):
        cost(metered, {**item, "pk": {"S": "g1"}, "pad": {"S": "x" * (largest + 1)}})


# ── beside other indexes, from many threads ───────────────────────────────────────────────────────


def test_a_table_may_have_global_and_vector_indexes() -> None:
    with Engine() as engine:
        definition = vector_table("things", vector_index(), kinds={"kind": "S"})
        shape = global_index("by-kind", "kind:S")
        del shape["types"]
        engine.execute("CreateTable", definition | {"GlobalSecondaryIndexes": [shape]})
        put(engine, "things", "a", 1, 0, 0, kind={"S": "x"})
        put(engine, "things", "b", kind={"S": "x"})
        assert engine.execute("Scan", {"TableName": "things", "IndexName": "by-kind"})["Count"] == 2
        assert found(engine, "things", 1, 0, 0) == ["a"]


def test_threads_write_and_search_at_once(path: str) -> None:
    errors: list[BaseException] = []
    with Engine(path) as engine:
        engine.execute("CreateTable", vector_table("things", vector_index()))
        put(engine, "things", "always", 1, 0, 0)

        def write(name: str) -> None:
            try:
                for number in range(60):
                    put(engine, "things", f"{name}{number % 7}", 1, number + 1, 0)
                    if number % 3 == 0:
                        key = {"pk": {"S": f"{name}{number % 5}"}}
                        engine.execute("DeleteItem", {"TableName": "things", "Key": key})
            except BaseException as error:
                errors.append(error)

        def read() -> None:
            try:
                for _ in range(60):
                    assert found(engine, "things", 1, 0, 0, top=100)[0] == "always"
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=write, args=(name,)) for name in "xy"]
        threads += [threading.Thread(target=read) for _ in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert not errors
        left = {one["pk"]["S"] for one in engine.execute("Scan", {"TableName": "things"})["Items"]}
        assert set(found(engine, "things", 1, 0, 0, top=100)) == left
