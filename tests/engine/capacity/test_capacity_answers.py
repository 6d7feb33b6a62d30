"""Consumed capacity: what DynamoDB would charge, by table and by index."""

from __future__ import annotations

from typing import Any

import pytest
from golden import n, s
from sample_tables import index, make, table

from penstock.engine import Engine

KB = 1024
FULL = table(
    "full",
    "pk:S / sk:N",
    globals_=(index("all", "a:S"), index("keys", "b:S", "KEYS_ONLY")),
    locals_=(index("local", "pk:S / c:N", "KEYS_ONLY"),),
)


@pytest.fixture
def tables(engine: Engine) -> Engine:
    make(engine, table("plain", "pk:S"))
    make(engine, FULL)
    return engine


def consumed(tables: Engine, operation: str, request: dict[str, Any], mode: str = "TOTAL") -> Any:
    return tables.execute(operation, {"ReturnConsumedCapacity": mode, **request})["ConsumedCapacity"]


def units(tables: Engine, operation: str, request: dict[str, Any]) -> float:
    found: float = consumed(tables, operation, request)["CapacityUnits"]
    return found


def sized(key: str, size: int) -> dict[str, Any]:
    """An item of exactly so many bytes."""
    return {"pk": s(key), "v": s("x" * (size - len(key) - 3))}


@pytest.mark.parametrize(
    ("size", "write", "eventual", "strong"),
    [
        (10, 1, 0.5, 1),
        (KB, 1, 0.5, 1),
        (KB + 1, 2, 0.5, 1),
        (4 * KB, 4, 0.5, 1),
        (4 * KB + 1, 5, 1, 2),
        (40 * KB, 40, 5, 10),
    ],
)
def test_units_follow_the_size(tables: Engine, size: int, write: float, eventual: float, strong: float) -> None:
    assert units(tables, "PutItem", {"TableName": "plain", "Item": sized("a", size)}) == write
    get = {"TableName": "plain", "Key": {"pk": s("a")}}
    assert units(tables, "GetItem", get) == eventual
    assert units(tables, "GetItem", get | {"ConsistentRead": True}) == strong
    assert units(tables, "Scan", {"TableName": "plain"}) == max(eventual, 2)
    assert units(tables, "DeleteItem", get) == write


def test_a_replaced_item_costs_the_larger_of_the_two(tables: Engine) -> None:
    units(tables, "PutItem", {"TableName": "plain", "Item": sized("a", 3 * KB)})
    assert units(tables, "PutItem", {"TableName": "plain", "Item": sized("a", 10)}) == 3


def test_what_is_not_there_costs_the_least(tables: Engine) -> None:
    request = {"TableName": "plain", "Key": {"pk": s("none")}}
    assert units(tables, "GetItem", request) == 0.5
    assert units(tables, "DeleteItem", request) == 1
    assert units(tables, "UpdateItem", request) == 1
    query = {"KeyConditionExpression": "pk = :v", "ExpressionAttributeValues": {":v": s("none")}}
    assert units(tables, "Query", {"TableName": "plain", **query}) == 0.5


def test_a_page_is_rounded_once_and_a_batch_for_each_item(tables: Engine) -> None:
    for number in range(10):
        units(tables, "PutItem", {"TableName": "plain", "Item": sized(f"{number}", KB)})
    assert units(tables, "Scan", {"TableName": "plain", "ConsistentRead": True}) == 4
    units(tables, "PutItem", {"TableName": "plain", "Item": sized("10", 10 * KB)})
    assert units(tables, "Scan", {"TableName": "plain"}) == 2.5
    keys = [{"pk": s(str(number))} for number in range(10)]
    (batch,) = consumed(tables, "BatchGetItem", {"RequestItems": {"plain": {"Keys": keys}}})
    assert batch == {"TableName": "plain", "CapacityUnits": 5.0}


def test_a_filter_does_not_save_anything(tables: Engine) -> None:
    units(tables, "PutItem", {"TableName": "plain", "Item": sized("a", 24 * KB)})
    filtered = {"FilterExpression": "attribute_exists(nothing)", "Select": "COUNT"}
    assert units(tables, "Scan", {"TableName": "plain", **filtered}) == 3


def test_a_scan_costs_as_many_partitions_as_it_looks_into(tables: Engine) -> None:
    for number in range(64):
        units(tables, "PutItem", {"TableName": "plain", "Item": sized(f"{number}", 10)})
    scan = {"TableName": "plain", "ConsistentRead": True}
    assert units(tables, "Scan", scan) == 4
    assert units(tables, "Scan", scan | {"Limit": 1}) == 1
    assert [units(tables, "Scan", scan | {"Segment": n, "TotalSegments": 2}) for n in (0, 1)] == [2, 2]
    assert [units(tables, "Scan", scan | {"Segment": n, "TotalSegments": 8}) for n in range(8)] == [1] * 8
    last = tables.execute("Scan", {"TableName": "plain", "Limit": 63})["LastEvaluatedKey"]
    assert units(tables, "Scan", scan | {"ExclusiveStartKey": last}) == 1


def test_a_small_provisioned_table_is_one_partition(engine: Engine) -> None:
    units_ = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 5}
    make(engine, table("small", "pk:S") | {"BillingMode": "PROVISIONED", "ProvisionedThroughput": units_})
    assert units(engine, "Scan", {"TableName": "small"}) == 0.5


def test_transactions_cost_twice(tables: Engine) -> None:
    put = {"Put": {"TableName": "plain", "Item": sized("a", KB + 1)}}
    (write,) = consumed(tables, "TransactWriteItems", {"TransactItems": [put]})
    assert write == {"TableName": "plain", "CapacityUnits": 4.0, "WriteCapacityUnits": 4.0}
    get = {"Get": {"TableName": "plain", "Key": {"pk": s("a")}}}
    (read,) = consumed(tables, "TransactGetItems", {"TransactItems": [get]})
    assert read == {"TableName": "plain", "CapacityUnits": 2.0, "ReadCapacityUnits": 2.0}


def put_full(tables: Engine, **attributes: Any) -> Any:
    item = {"pk": s("p"), "sk": n(1), **attributes}
    return consumed(tables, "PutItem", {"TableName": "full", "Item": item}, "INDEXES")


def by_index(answer: dict[str, Any]) -> dict[str, float]:
    spent = {"table": answer["Table"]["CapacityUnits"]}
    for member in ("GlobalSecondaryIndexes", "LocalSecondaryIndexes"):
        spent |= {name: one["CapacityUnits"] for name, one in answer.get(member, {}).items()}
    assert answer["CapacityUnits"] == sum(spent.values())
    return spent


def test_indexes_cost_when_what_they_hold_changes(tables: Engine) -> None:
    assert by_index(put_full(tables)) == {"table": 1}, "in no index"
    first = {"a": s("1"), "b": s("1"), "c": n(1)}
    assert by_index(put_full(tables, **first)) == {"table": 1, "all": 1, "keys": 1, "local": 1}, "into each index"
    assert by_index(put_full(tables, **first)) == {"table": 1}, "nothing has changed"
    seen = {**first, "x": s("new")}
    assert by_index(put_full(tables, **seen)) == {"table": 1, "all": 1}, "only one holds it"
    moved = {**seen, "a": s("2"), "b": s("2")}
    assert by_index(put_full(tables, **moved)) == {"table": 1, "all": 2, "keys": 2}, "out of one place, into another"
    assert by_index(put_full(tables)) == {"table": 1, "all": 1, "keys": 1, "local": 1}, "out of each"


def test_a_query_of_an_index_is_charged_to_it(tables: Engine) -> None:
    put_full(tables, a=s("1"), c=n(1), v=s("x" * 10 * KB))
    base = {"TableName": "full", "ExpressionAttributeValues": {":v": s("1")}, "KeyConditionExpression": "a = :v"}
    answer = consumed(tables, "Query", base | {"IndexName": "all"}, "INDEXES")
    assert by_index(answer) == {"table": 0, "all": 1.5}
    local = base | {"KeyConditionExpression": "pk = :v", "ExpressionAttributeValues": {":v": s("p")}}
    answer = consumed(tables, "Query", local | {"IndexName": "local"}, "INDEXES")
    assert by_index(answer) == {"table": 0, "local": 0.5}
    whole = local | {"IndexName": "local", "Select": "ALL_ATTRIBUTES"}
    assert by_index(consumed(tables, "Query", whole, "INDEXES")) == {"table": 1.5, "local": 0.5}


def test_nothing_is_reported_unasked(tables: Engine) -> None:
    request = {"TableName": "plain", "Item": sized("a", 10)}
    assert tables.execute("PutItem", request | {"ReturnConsumedCapacity": "NONE"}) == {}
    assert tables.execute("PutItem", request) == {}


def test_collections_are_measured_where_there_are_local_indexes(tables: Engine) -> None:
    request = {"TableName": "full", "Item": {"pk": s("p"), "sk": n(1)}, "ReturnItemCollectionMetrics": "SIZE"}
    answer = tables.execute("PutItem", request)["ItemCollectionMetrics"]
    assert answer == {"ItemCollectionKey": {"pk": s("p")}, "SizeEstimateRangeGB": [0.0, 1.0]}
    plain = {"TableName": "plain", "Item": sized("a", 10), "ReturnItemCollectionMetrics": "SIZE"}
    assert tables.execute("PutItem", plain) == {}
