"""The table, the items and the requests that every measurement uses.

An item is 300 bytes as DynamoDB counts them; wrk/common.lua makes the same one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

Json = dict[str, Any]
Execute = Callable[[str, Json], Json]

TABLE = "bench"
ROWS_PER_PARTITION = 100
BATCH = 25
WAITS = 200

CREATE_TABLE: Json = {
    "TableName": TABLE,
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "S"},
    ],
    "KeySchema": [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ],
}


def partition_name(partition: int) -> str:
    return f"partition-{partition:05d}"


def key(partition: int, row: int) -> Json:
    return {"pk": {"S": partition_name(partition)}, "sk": {"S": f"row-{row:05d}"}}


def item(partition: int, row: int, *, padding: int | None = None) -> Json:
    """An item of 300 bytes, or with `padding` bytes of data."""
    room = 256 - len(str(row)) if padding is None else padding
    return {
        **key(partition, row),
        "n": {"N": str(row)},
        "name": {"S": f"item {row}"},
        "data": {"S": "x" * room},
    }


def get_item(partition: int, row: int) -> Json:
    return {"TableName": TABLE, "Key": key(partition, row)}


def put_item(partition: int, row: int) -> Json:
    return {"TableName": TABLE, "Item": item(partition, row)}


def query(partition: int, limit: int | None = None) -> Json:
    request: Json = {
        "TableName": TABLE,
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": {"S": partition_name(partition)}},
    }
    return request if limit is None else {**request, "Limit": limit}


def batch_write(items: list[Json]) -> Json:
    return {"RequestItems": {TABLE: [{"PutRequest": {"Item": one}} for one in items]}}


def batches(items: Iterator[Json]) -> Iterator[Json]:
    """BatchWriteItem requests of 25 that write all of `items`."""
    batch: list[Json] = []
    for one in items:
        batch.append(one)
        if len(batch) == BATCH:
            yield batch_write(batch)
            batch = []
    if batch:
        yield batch_write(batch)


def create_table(execute: Execute, table: str = TABLE) -> None:
    """Create the table and wait until it is there."""
    execute("CreateTable", CREATE_TABLE | {"TableName": table})
    for _ in range(WAITS):
        if execute("DescribeTable", {"TableName": table})["Table"]["TableStatus"] == "ACTIVE":
            return
        time.sleep(0.05)
    raise RuntimeError("the table did not become ACTIVE")


def load(execute: Execute, items: Iterator[Json]) -> None:
    """Create the table and write `items` into it."""
    create_table(execute)
    for request in batches(items):
        if execute("BatchWriteItem", request).get("UnprocessedItems"):
            raise RuntimeError("BatchWriteItem left items unprocessed")


def partitions(count: int, rows: int = ROWS_PER_PARTITION) -> Iterator[Json]:
    """The items of `count` partitions."""
    return (item(partition, row) for partition in range(count) for row in range(rows))


def load_fast(database: Any, items: int, rows: int, *, padding: int) -> None:
    """The same items as `item` makes, by the client's batches in process: some 15 µs each."""
    data = "x" * padding
    with database.table(TABLE).batch() as batch:
        for number in range(items):
            partition, row = divmod(number, rows)
            keys = {"pk": partition_name(partition), "sk": f"row-{row:05d}"}
            batch.put({**keys, "n": row, "name": f"item {row}", "data": data})
