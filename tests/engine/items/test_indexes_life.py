"""An index's life: made beside a full table, filled step by step, ready, gone; a kill in between changes nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sample_tables import assert_indexes_agree, every_item, index, make, rows, table, without_types

from penstock.clock import ManualClock
from penstock.engine import Engine
from penstock.engine.settings import Settings
from penstock.errors import LimitExceededException, ResourceInUseException, ValidationException

ITEMS = 12_000
VIOLATING = 37
BY_OWNER = index("by_owner", "owner:S / due:N", "KEYS_ONLY")
QUERY = {
    "TableName": "jobs",
    "IndexName": "by_owner",
    "KeyConditionExpression": "#o = :o",
    "ExpressionAttributeNames": {"#o": "owner"},
    "ExpressionAttributeValues": {":o": {"S": "owner 3"}},
}


def job(number: int) -> dict[str, Any]:
    """Every tenth has no owner (the index is sparse), and a few have one that the index cannot hold."""
    item: dict[str, Any] = {"id": {"S": f"job {number}"}, "due": {"N": str(number)}}
    if number % 10:
        item["owner"] = {"S": f"owner {number % 7}"}
    if number % 300 == 1 and number // 300 < VIOLATING:
        item["owner"] = {"N": "7"} if number % 600 == 1 else {"S": ""}
    return item


def is_violating(item: dict[str, Any]) -> bool:
    return "owner" in item and not item["owner"].get("S")


def fill(engine: Engine, count: int = ITEMS) -> None:
    make(engine, table("jobs", "id:S"))
    for start in range(0, count, 25):
        puts = [{"PutRequest": {"Item": job(number)}} for number in range(start, min(start + 25, count))]
        engine.execute("BatchWriteItem", {"RequestItems": {"jobs": puts}})


def add_index(engine: Engine, one: dict[str, Any] = BY_OWNER) -> dict[str, Any]:
    """UpdateTable's description of the table."""
    definitions = [{"AttributeName": name, "AttributeType": kind} for name, kind in one["types"].items()]
    request = {
        "TableName": "jobs",
        "AttributeDefinitions": definitions,
        "GlobalSecondaryIndexUpdates": [{"Create": without_types(one)}],
    }
    description: dict[str, Any] = engine.execute("UpdateTable", request)["TableDescription"]
    return description


def state(engine: Engine) -> tuple[str, str, bool | None]:
    """(TableStatus, IndexStatus, Backfilling)."""
    description = engine.execute("DescribeTable", {"TableName": "jobs"})["Table"]
    (one,) = description["GlobalSecondaryIndexes"]
    return description["TableStatus"], one["IndexStatus"], one.get("Backfilling")


def finish(engine: Engine) -> int:
    """Runs the background work to its end; the number of rounds."""
    rounds = 1
    while engine.maintenance.run_due() == 0.0:
        rounds += 1
    return rounds


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "file"])
def full(request: pytest.FixtureRequest, path: str, clock: ManualClock) -> Iterator[Engine]:
    """An engine with 12,000 items whose background work is done by the test alone."""
    name = ":memory:" if request.param == "memory" else path
    with Engine(name, clock=clock, settings=Settings(index_delay_seconds=60.0)) as engine:
        engine.maintenance.stop()
        fill(engine)
        yield engine


def test_an_index_on_a_full_table_is_creating_then_backfilling_then_active(full: Engine, clock: ManualClock) -> None:
    description = add_index(full)
    assert description["TableStatus"] == "UPDATING"
    assert description["GlobalSecondaryIndexes"][0]["IndexStatus"] == "CREATING"
    assert state(full)[1:] == ("CREATING", True)
    full.maintenance.run_due()
    assert state(full)[1:] == ("CREATING", True)
    finish(full)
    assert state(full)[1:] == ("CREATING", True), "an index takes at least its delay"
    clock.advance(61)
    finish(full)
    assert state(full) == ("ACTIVE", "ACTIVE", None)
    assert_indexes_agree(full, "jobs")


def test_old_items_that_the_index_cannot_hold_are_passed_over(full: Engine, clock: ManualClock) -> None:
    add_index(full)
    clock.advance(61)
    finish(full)
    everything = every_item(full, "Scan", {"TableName": "jobs"})
    violating = [item for item in everything if is_violating(item)]
    assert len(violating) == VIOLATING, "they stay in the table"
    held = every_item(full, "Scan", {"TableName": "jobs", "IndexName": "by_owner"})
    assert len(held) == len([item for item in everything if "owner" in item]) - VIOLATING
    found = every_item(full, "Query", QUERY)
    assert [item["due"] for item in found] == [
        {"N": str(number)} for number in range(ITEMS) if job(number).get("owner") == {"S": "owner 3"}
    ]


def test_an_index_that_is_being_filled_cannot_be_read(full: Engine, clock: ManualClock) -> None:
    add_index(full)
    message = "^Cannot read from backfilling global secondary index: by_owner$"
    for operation, request in (("Query", QUERY), ("Scan", {"TableName": "jobs", "IndexName": "by_owner"})):
        with pytest.raises(ValidationException, match=message):
            full.execute(operation, request)
    finish(full)
    with pytest.raises(ValidationException, match=message):
        full.execute("Query", QUERY)
    clock.advance(61)
    assert full.execute("Query", QUERY | {"Select": "COUNT"})["Count"] > 1_000


@pytest.mark.parametrize(
    ("owner", "message"),
    [
        ({"N": "1"}, "Type mismatch for Index Key owner Expected: S Actual: N IndexName: by_owner"),
        ({"S": ""}, "cannot contain an empty string value."),
    ],
)
def test_writes_that_the_index_cannot_hold_are_refused_while_it_is_filled(
    full: Engine, owner: dict[str, str], message: str
) -> None:
    add_index(full)
    full.maintenance.run_due()
    before = rows(full, "jobs")
    item = {"id": {"S": "new"}, "owner": owner}
    update = {"UpdateExpression": "SET #o = :o", "ExpressionAttributeNames": {"#o": "owner"}}
    for operation, request in (
        ("PutItem", {"TableName": "jobs", "Item": item}),
        ("BatchWriteItem", {"RequestItems": {"jobs": [{"PutRequest": {"Item": item}}]}}),
        (
            "UpdateItem",
            {"TableName": "jobs", "Key": {"id": {"S": "new"}}, "ExpressionAttributeValues": {":o": owner}, **update},
        ),
    ):
        with pytest.raises(ValidationException) as caught:
            full.execute(operation, request)
        assert message in caught.value.message
    assert rows(full, "jobs") == before


def test_writes_before_and_behind_the_filling_are_in_the_index(full: Engine, clock: ManualClock) -> None:
    add_index(full)
    number = 0
    while full.maintenance.run_due() == 0.0:
        number += 1
        for other in range(number, ITEMS, 997):
            key = {"id": {"S": f"job {other}"}}
            full.execute("PutItem", {"TableName": "jobs", "Item": {**job(other), "owner": {"S": f"round {number}"}}})
            full.execute("DeleteItem", {"TableName": "jobs", "Key": {"id": {"S": f"job {other + 1}"}}})
            update = {"UpdateExpression": "REMOVE due"} if other % 2 else {}
            full.execute("UpdateItem", {"TableName": "jobs", "Key": key, **update})
    assert number > 5
    clock.advance(61)
    finish(full)
    assert_indexes_agree(full, "jobs")


def test_a_second_index_waits_for_the_first(full: Engine) -> None:
    add_index(full)
    with pytest.raises(LimitExceededException, match="Only 1 online index can be created or deleted simultaneously"):
        add_index(full, index("by_due", "due:N"))


def test_an_index_can_be_deleted_while_it_is_filled(full: Engine) -> None:
    add_index(full)
    full.maintenance.run_due()
    delete = [{"Delete": {"IndexName": "by_owner"}}]
    full.execute("UpdateTable", {"TableName": "jobs", "GlobalSecondaryIndexUpdates": delete})
    finish(full)
    description = full.execute("DescribeTable", {"TableName": "jobs"})["Table"]
    assert "GlobalSecondaryIndexes" not in description
    full.execute("PutItem", {"TableName": "jobs", "Item": {"id": {"S": "new"}, "owner": {"N": "1"}}})


def test_a_table_is_not_deleted_while_its_index_is_filled(full: Engine, clock: ManualClock) -> None:
    add_index(full)
    full.maintenance.run_due()
    clock.advance(61)
    with pytest.raises(ResourceInUseException):
        full.execute("DeleteTable", {"TableName": "jobs"})
    finish(full)
    full.execute("DeleteTable", {"TableName": "jobs"})
    assert full.execute("ListTables", {})["TableNames"] == []


def test_a_small_tables_index_is_active_at_once(engine: Engine) -> None:
    fill(engine, 100)
    assert add_index(engine)["GlobalSecondaryIndexes"][0]["IndexStatus"] == "CREATING"
    assert state(engine) == ("ACTIVE", "ACTIVE", None)
    assert_indexes_agree(engine, "jobs")


def test_the_engines_own_thread_fills_an_index(path: str) -> None:
    with Engine(path) as engine:
        fill(engine, 6_000)
        add_index(engine)
        wait_until_active(engine)
        assert_indexes_agree(engine, "jobs")


def wait_until_active(engine: Engine) -> None:
    end = time.monotonic() + 60
    while state(engine)[1] != "ACTIVE":
        assert time.monotonic() < end, "the index never became active"
        time.sleep(0.005)


# ── killed in the middle ─────────────────────────────────────────────────────────────────────────

_BEGIN_AND_DIE = """
import os, signal, sys
sys.path[:0] = [sys.argv[2], os.path.dirname(sys.argv[2])]
from test_indexes_life import add_index
from penstock.engine import Engine
engine = Engine(sys.argv[1])
engine.maintenance.stop()
add_index(engine)
for _ in range(int(sys.argv[3])):
    engine.maintenance.run_due()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.crash
@pytest.mark.parametrize("rounds", [0, 4])
def test_an_index_whose_process_was_killed_is_finished_by_the_next_one(path: str, rounds: int) -> None:
    with Engine(path) as engine:
        fill(engine)
    here = str(Path(__file__).parent)
    run = subprocess.run([sys.executable, "-c", _BEGIN_AND_DIE, path, here, str(rounds)], timeout=60)
    assert run.returncode < 0, "it was to be killed"
    clock = ManualClock()
    with Engine(path, clock=clock) as engine:
        engine.maintenance.stop()
        if not rounds:
            assert state(engine)[1:] == ("CREATING", True)
        engine.execute("PutItem", {"TableName": "jobs", "Item": job(1) | {"owner": {"S": "late"}}})
        finish(engine)
        assert state(engine) == ("ACTIVE", "ACTIVE", None)
        assert_indexes_agree(engine, "jobs")


@pytest.mark.crash
def test_opening_the_file_is_enough_to_finish_an_index(path: str) -> None:
    with Engine(path) as engine:
        fill(engine)
    here = str(Path(__file__).parent)
    subprocess.run([sys.executable, "-c", _BEGIN_AND_DIE, path, here, "2"], timeout=60)
    with Engine(path) as engine:
        wait_until_active(engine)
        assert_indexes_agree(engine, "jobs")
