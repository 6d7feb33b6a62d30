"""Metering (metering.py, 1-3), on the embedded engine."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from decimal import Decimal
from typing import Any

import pytest

from penstock.client.database import Database
from penstock.client.transports.embedded import EmbeddedTransport
from penstock.client.wrappers.metering import AsyncMetering, Meter, Metering, Prices, Usage
from penstock.engine import Engine
from penstock.errors import ConditionalCheckFailedException

TABLE = {
    "TableName": "jobs",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [
        {"AttributeName": "id", "AttributeType": "S"},
        {"AttributeName": "state", "AttributeType": "S"},
    ],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "by-state",
            "KeySchema": [{"AttributeName": "state", "KeyType": "HASH"}],
            "Projection": {"ProjectionType": "ALL"},
        }
    ],
    "BillingMode": "PAY_PER_REQUEST",
}
PUT = {"TableName": "jobs", "Item": {"id": {"S": "a"}, "state": {"S": "queued"}}}
GET = {"TableName": "jobs", "Key": {"id": {"S": "a"}}}


@pytest.fixture
def metered():
    with Engine() as engine:
        engine.execute("CreateTable", TABLE)
        yield Metering(EmbeddedTransport(engine))


def usage(metered: Metering, **wanted: str) -> Usage:
    """The sum of the rows with these places."""
    report = metered.meter.report()
    total = Usage()
    for row in report.rows:
        place = dict(zip(report.by, row.place, strict=True))
        if all(place[part] == value for part, value in wanted.items()):  # type: ignore[index]
            total.add(row.usage)
    return total


def test_units_are_counted_by_operation_table_and_index(metered):
    metered.execute("PutItem", PUT)
    metered.execute("GetItem", GET)
    metered.execute("GetItem", {**GET, "ConsistentRead": True})
    assert usage(metered, operation="PutItem", table="jobs", index="") == Usage(1, 0, 0.0, 1.0)
    assert usage(metered, operation="PutItem", index="by-state") == Usage(0, 0, 0.0, 1.0)
    assert usage(metered, operation="GetItem") == Usage(2, 0, 1.5, 0.0)


def test_the_caller_sees_consumed_capacity_only_if_it_asked(metered):
    assert "ConsumedCapacity" not in metered.execute("PutItem", PUT)
    assert "ConsumedCapacity" not in metered.execute("PutItem", {**PUT, "ReturnConsumedCapacity": "NONE"})
    answer = metered.execute("GetItem", {**GET, "ReturnConsumedCapacity": "TOTAL"})
    assert answer["ConsumedCapacity"] == {"TableName": "jobs", "CapacityUnits": 0.5}
    assert usage(metered, operation="GetItem").read_units == 0.5


def test_the_callers_request_is_left_alone(metered):
    request = dict(PUT)
    metered.execute("PutItem", request)
    assert request == PUT


def test_batches_and_transactions_are_counted_once(metered):
    writes = [{"PutRequest": {"Item": {"id": {"S": str(n)}}}} for n in range(5)]
    metered.execute("BatchWriteItem", {"RequestItems": {"jobs": writes}})
    metered.execute("TransactWriteItems", {"TransactItems": [{"Put": PUT}]})
    metered.execute("TransactGetItems", {"TransactItems": [{"Get": GET}]})
    assert usage(metered, operation="BatchWriteItem") == Usage(1, 0, 0.0, 5.0)
    transaction = usage(metered, operation="TransactWriteItems")
    assert (transaction.calls, transaction.read_units) == (1, 0.0)
    assert usage(metered, operation="TransactWriteItems", index="").write_units == 2.0
    assert usage(metered, operation="TransactGetItems") == Usage(1, 0, 2.0, 0.0)


def test_statements_go_by_what_they_do(metered):
    metered.execute("ExecuteStatement", {"Statement": "INSERT INTO jobs VALUE {'id': 'x'}"})
    metered.execute("ExecuteStatement", {"Statement": "SELECT * FROM jobs WHERE id = 'x'"})
    counted = usage(metered, operation="ExecuteStatement", table="jobs")
    assert (counted.read_units, counted.write_units) == (0.5, 1.0)


def test_a_failed_call_is_counted_as_failed(metered):
    metered.execute("PutItem", PUT)
    with pytest.raises(ConditionalCheckFailedException):
        metered.execute("PutItem", {**PUT, "ConditionExpression": "attribute_not_exists(id)"})
    assert usage(metered, operation="PutItem").failed == 1


def test_the_control_plane_is_counted_without_units(metered):
    metered.execute("DescribeTable", {"TableName": "jobs"})
    metered.execute("ListTables", {})
    assert usage(metered, operation="DescribeTable") == Usage(1)


def test_labels_bill_a_job(metered):
    with metered.meter.label("job_1"):
        metered.execute("PutItem", PUT)
        with metered.meter.label("job_2"):
            metered.execute("GetItem", GET)
        metered.execute("PutItem", PUT)
    metered.execute("GetItem", GET)
    assert metered.meter.units("job_1").calls == 2
    assert metered.meter.units("job_2").read_units == 0.5
    report = metered.meter.report(by=("label",))
    assert [row.place for row in report.rows] == [("job_1",), ("",), ("job_2",)]
    assert report.total.usage.calls == 4


def test_labels_belong_to_their_context(metered):
    with metered.meter.label("job_1"), ThreadPoolExecutor(2) as pool:
        context = copy_context()
        pool.submit(context.run, metered.execute, "GetItem", GET).result()
        pool.submit(metered.execute, "GetItem", GET).result()
    assert metered.meter.units("job_1").calls == 1
    assert metered.meter.units("").calls == 1


def test_labels_reach_the_threads_of_batches_and_scans(metered):
    table = Database(metered).table("jobs", key="id:S")
    with metered.meter.label("job_1"):
        table.batch_write(({"id": f"n{n}"} for n in range(200)), workers=4)
        assert len(list(table.batch_get([{"id": f"n{n}"} for n in range(200)], workers=4))) == 200
        assert len(list(table.parallel_scan(segments=4))) == 200
    report = metered.meter.report(by=("label",))
    assert [row.place for row in report.rows] == [("job_1",)]
    assert report.total.usage.write_units == 200.0


def test_threads_lose_no_units(metered):
    with ThreadPoolExecutor(8) as pool:
        for _ in range(400):
            pool.submit(metered.execute, "GetItem", GET)
    assert metered.meter.units() == Usage(400, 0, 200.0, 0.0)


def test_cost_is_exact_and_prices_can_be_others(metered):
    meter = Meter(Prices(Decimal("0.25"), Decimal("1.25"), "eu-west-2", "2026-01-01"))
    priced = Metering(metered.inner, meter)
    for _ in range(3):
        priced.execute("PutItem", PUT)
    assert meter.report().total.cost == Decimal("0.00000500")  # the index's unchanged row costs nothing after the first
    assert "eu-west-2, as of 2026-01-01" in str(meter.report())


def test_a_report_is_a_small_table(metered):
    with metered.meter.label("job_1"):
        metered.execute("PutItem", PUT)
    assert str(metered.meter.report()).splitlines() == [
        "label  operation  table  index     calls  failed  read units  write units    cost $",
        "job_1  PutItem    jobs   -             1       0         0.0          1.0  0.000001",
        "job_1  PutItem    jobs   by-state      0       0         0.0          1.0  0.000001",
        "total  -          -      -             1       0         0.0          2.0  0.000001",
        "On-demand, us-east-1, as of 2024-11-01: $0.125 a million reads, $0.625 a million writes.",
    ]


def test_a_report_is_json_too(metered):
    metered.execute("PutItem", PUT)
    told = json.loads(json.dumps(metered.meter.report(by=("table",)).as_dict()))
    assert told["rows"] == [
        {"table": "jobs", "calls": 1, "failed": 0, "read_units": 0.0, "write_units": 2.0, "cost": "0.00000125"}
    ]
    assert told["total"]["calls"] == 1


def test_the_async_wrapper_counts_into_the_same_meter(metered):
    class Embedded:
        name = "async"

        async def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
            return metered.inner.execute(operation, request)

        async def close(self) -> None:
            pass

    async def run() -> None:
        wrapper = AsyncMetering(Embedded(), metered.meter, level="TOTAL")
        assert "ConsumedCapacity" not in await wrapper.execute("PutItem", PUT)
        with pytest.raises(ConditionalCheckFailedException):
            await wrapper.execute("PutItem", {**PUT, "ConditionExpression": "attribute_not_exists(id)"})

    asyncio.run(run())
    assert metered.meter.units() == Usage(2, 1, 0.0, 2.0)
