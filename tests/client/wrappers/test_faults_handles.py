"""The handles on a database that fails, and on one that throttles: what people's own code meets."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client.batches.batches import BatchOptions
from penstock.client.database import Database
from penstock.client.transports.embedded import EmbeddedTransport
from penstock.client.wrappers.faults import Faults, Rates
from penstock.client.wrappers.pacing import Pacer
from penstock.client.wrappers.retries import RequestRetries, Retrying
from penstock.clock import ManualClock
from penstock.engine import Engine
from penstock.engine.settings import Settings, Throttling

ITEMS = 10_000
TABLE: dict[str, Any] = {
    "TableName": "jobs",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}


def by_id(items: Any) -> list[dict[str, Any]]:
    return sorted(items, key=lambda item: str(item["id"]))


@pytest.mark.parametrize("workers", [1, 4])
def test_a_batch_of_ten_thousand_and_a_scan_come_through_faults_exactly(workers):
    with Engine() as engine:
        engine.execute("CreateTable", TABLE)
        faults = Faults(EmbeddedTransport(engine), Rates.every_kind(0.3), seed=workers)
        retrying = Retrying(faults, RequestRetries(attempts=30), unlimited=True, sleep=lambda seconds: None)
        table = Database(retrying).table("jobs", key="id:S")
        items = [{"id": f"n{n:05}", "n": n} for n in range(ITEMS)]
        report = table.batch_write(items, options=BatchOptions(workers=workers, sleep=lambda seconds: None))
        assert report.done == ITEMS
        assert by_id(table.scan(page_size=500)) == items
        assert by_id(table.batch_get([{"id": item["id"]} for item in items])) == items
        assert faults.counts["unprocessed"] > 10


def test_a_paced_batch_loads_a_throttled_table_near_its_speed():
    clock = ManualClock()
    settings = Settings(throttling=Throttling(burst_seconds=1))
    throughput = {"ReadCapacityUnits": 1_000, "WriteCapacityUnits": 200}
    with Engine(clock=clock, settings=settings) as engine:
        request = {**TABLE, "BillingMode": "PROVISIONED", "ProvisionedThroughput": throughput}
        engine.execute("CreateTable", request)
        pacer = Pacer(clock=clock, sleep=clock.advance)
        table = Database(EmbeddedTransport(engine)).table("jobs", key="id:S")
        options = BatchOptions(workers=1, pace=pacer, clock=clock, sleep=clock.advance, draw=lambda: 0.5)
        started_at = clock.now()
        items = [{"id": f"n{n:05}"} for n in range(ITEMS)]
        assert table.batch_write(items, options=options).done == ITEMS
        seconds = clock.now() - started_at
        told = engine.simulation.heat_report() if engine.simulation else {}
    assert ITEMS / 200 - 1 <= seconds < 2 * ITEMS / 200
    assert told["resources"][0]["writes"] == ITEMS
    assert told["resources"][0]["throttled"] < ITEMS / 20
