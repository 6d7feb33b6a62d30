"""Small tables with streams, TTL or recovery, and the calls that the tests about them repeat."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.clock import ManualClock
from penstock.engine.engine import Engine
from penstock.engine.settings import Settings

Item = dict[str, dict[str, Any]]


def open_engine(path: str = ":memory:", clock: ManualClock | None = None, **settings: Any) -> Engine:
    """An engine whose background work runs only when a test calls `run_due`."""
    engine = Engine(path, clock=clock or ManualClock(), settings=Settings(**settings))
    engine.maintenance.stop()
    return engine


def create_table(engine: Engine, name: str = "jobs", view: str | None = None, **more: Any) -> None:
    """A table with the key `id` (S); `view` switches a stream on."""
    request: dict[str, Any] = {
        "TableName": name,
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "BillingMode": "PAY_PER_REQUEST",
    }
    if view is not None:
        request["StreamSpecification"] = {"StreamEnabled": True, "StreamViewType": view}
    engine.execute("CreateTable", request | more)


def put(engine: Engine, key: str, table: str = "jobs", **attributes: dict[str, Any]) -> None:
    engine.execute("PutItem", {"TableName": table, "Item": {"id": {"S": key}, **attributes}})


def delete(engine: Engine, key: str, table: str = "jobs") -> None:
    engine.execute("DeleteItem", {"TableName": table, "Key": {"id": {"S": key}}})


def items(engine: Engine, table: str = "jobs", **more: Any) -> dict[str, Item]:
    """All items by their `id`."""
    found: dict[str, Item] = {}
    request: dict[str, Any] = {"TableName": table, **more}
    while True:
        page = engine.execute("Scan", request)
        found |= {item["id"]["S"]: item for item in page["Items"]}
        if "LastEvaluatedKey" not in page:
            return found
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def stream_arn(engine: Engine, table: str = "jobs") -> str:
    arn: str = engine.execute("DescribeTable", {"TableName": table})["Table"]["LatestStreamArn"]
    return arn


def shard_id(engine: Engine, arn: str) -> str:
    shards = engine.execute("DescribeStream", {"StreamArn": arn})["StreamDescription"]["Shards"]
    found: str = shards[0]["ShardId"]
    return found


def iterator(engine: Engine, arn: str, kind: str = "TRIM_HORIZON", **more: Any) -> str:
    request = {"StreamArn": arn, "ShardId": shard_id(engine, arn), "ShardIteratorType": kind, **more}
    found: str = engine.execute("GetShardIterator", request)["ShardIterator"]
    return found


def pages(engine: Engine, place: str | None, **more: Any) -> Iterator[list[dict[str, Any]]]:
    """Pages of records up to an empty one, or to the end of a closed shard."""
    while place is not None:
        page = engine.execute("GetRecords", {"ShardIterator": place, **more})
        if page["Records"]:
            yield page["Records"]
        elif "NextShardIterator" in page:
            return
        place = page.get("NextShardIterator")


def records(engine: Engine, table: str = "jobs") -> list[dict[str, Any]]:
    """Every record of the table's latest stream."""
    return [record for page in pages(engine, iterator(engine, stream_arn(engine, table))) for record in page]


def enable_ttl(engine: Engine, table: str = "jobs", attribute: str = "ends") -> None:
    _switch_ttl(engine, table, attribute, True)


def disable_ttl(engine: Engine, table: str = "jobs", attribute: str = "ends") -> None:
    _switch_ttl(engine, table, attribute, False)


def _switch_ttl(engine: Engine, table: str, attribute: str, enabled: bool) -> None:
    specification = {"Enabled": enabled, "AttributeName": attribute}
    engine.execute("UpdateTimeToLive", {"TableName": table, "TimeToLiveSpecification": specification})


def switch_recovery(engine: Engine, enabled: bool = True, table: str = "jobs", **more: Any) -> dict[str, Any]:
    specification = {"PointInTimeRecoveryEnabled": enabled, **more}
    return engine.execute(
        "UpdateContinuousBackups", {"TableName": table, "PointInTimeRecoverySpecification": specification}
    )


def run_all_due(engine: Engine) -> None:
    """Background work until there is none left at this moment."""
    while engine.maintenance.run_due() == 0.0:
        pass
