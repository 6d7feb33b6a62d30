"""Tables for tests, in short: "pk:S / sk:N" is a key schema with its types, hash attributes before the slash."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from penstock.engine import Engine
from penstock.engine.catalog import row_keys
from penstock.engine.catalog.table_schema import TableInfo

Definition = dict[str, Any]


def index(name: str, key: str, projection: str = "ALL", include: tuple[str, ...] = ()) -> Definition:
    """A secondary index; `include` are the non-key attributes of an INCLUDE projection."""
    shape: Definition = {"ProjectionType": projection}
    if include:
        shape["NonKeyAttributes"] = list(include)
    return {"IndexName": name, "KeySchema": _schema(key), "Projection": shape, "types": _types(key)}


def table(
    name: str, key: str, *, globals_: tuple[Definition, ...] = (), locals_: tuple[Definition, ...] = ()
) -> Definition:
    """A CreateTable request."""
    types = _types(key)
    for one in (*globals_, *locals_):
        types |= one["types"]
    request: Definition = {
        "TableName": name,
        "KeySchema": _schema(key),
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": kind} for name, kind in types.items()],
        "BillingMode": "PAY_PER_REQUEST",
    }
    for member, indexes in (("GlobalSecondaryIndexes", globals_), ("LocalSecondaryIndexes", locals_)):
        if indexes:
            request[member] = [without_types(one) for one in indexes]
    return request


def without_types(one: Definition) -> Definition:
    """An index as CreateTable and UpdateTable take it."""
    return {name: value for name, value in one.items() if name != "types"}


def make(engine: Engine, definition: Definition) -> str:
    """Makes the table; its name."""
    engine.execute("CreateTable", definition)
    name: str = definition["TableName"]
    return name


def pages(engine: Engine, operation: str, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every page of a Query or Scan."""
    start: dict[str, Any] = {}
    while True:
        page = engine.execute(operation, request | start)
        yield page
        if "LastEvaluatedKey" not in page:
            return
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def every_item(engine: Engine, operation: str, request: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for page in pages(engine, operation, request) for item in page["Items"]]


def records(engine: Engine, name: str) -> Iterator[dict[str, Any]]:
    """Every record of the table's stream."""
    arn = engine.execute("DescribeTable", {"TableName": name})["Table"]["LatestStreamArn"]
    for shard in engine.execute("DescribeStream", {"StreamArn": arn})["StreamDescription"]["Shards"]:
        request = {"StreamArn": arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
        iterator = engine.execute("GetShardIterator", request)["ShardIterator"]
        while iterator is not None:
            page = engine.execute("GetRecords", {"ShardIterator": iterator})
            yield from page["Records"]
            iterator = page.get("NextShardIterator") if page["Records"] else None


def rows(engine: Engine, name: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every SQL row of the table and of its indexes: what "unchanged" is compared by."""
    with engine.reading() as call:
        info = call.find(name)
        assert info is not None
        storages = [info.storage, *(index.storage for index in info.index_list)]
        return {one: call.db.execute(f"SELECT * FROM {one} ORDER BY key").fetchall() for one in storages}


def assert_indexes_agree(engine: Engine, name: str) -> None:
    """Each index has exactly the rows that the table's items call for, and the sizes are right."""
    with engine.reading() as call:
        info = call.find(name)
    assert info is not None
    found = rows(engine, name)
    items = {key: orjson.loads(item) for key, _, item in found[info.storage]}
    for one in info.index_list:
        wanted = sorted(
            (entry, key) for key, item in items.items() if (entry := row_keys.index_key(one, item, key)) is not None
        )
        assert found[one.storage] == wanted, f"index {one.name} disagrees with its table"
    _assert_keys(info, items)


def _assert_keys(info: TableInfo, items: dict[bytes, dict[str, Any]]) -> None:
    for key, item in items.items():
        assert row_keys.row_key(info, item) == key


def _schema(key: str) -> list[dict[str, str]]:
    hashes, _, ranges = key.partition("/")
    return [
        {"AttributeName": part.partition(":")[0], "KeyType": role}
        for role, parts in (("HASH", hashes), ("RANGE", ranges))
        for part in parts.split()
    ]


def _types(key: str) -> dict[str, str]:
    return dict(part.split(":") for part in key.replace("/", " ").split())
