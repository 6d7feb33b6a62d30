"""local_writes.py: a batch in this process writes many actions at once, and the same as in requests of 25."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from random import Random

import pytest

import penstock
from penstock import BatchIncomplete
from penstock.client.batches import local_writes
from penstock.client.batches.batches import BatchOptions
from penstock.clock import ManualClock
from penstock.engine.items.bulk_rows import Loading

LOADER = """
import itertools, sys, penstock
table = penstock.connect(sys.argv[1]).table("readings", key="id:N")
numbers = itertools.count()
with table.batch() as batch:
    while True:
        for number in itertools.islice(numbers, 3000):
            batch.put({"id": number, "text": "x" * 200})
        batch.flush()
        print(batch.done, flush=True)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "local.db"


@pytest.fixture
def local(path):
    with penstock.connect(path) as local:
        local.execute(
            "CreateTable",
            {
                "TableName": "readings",
                "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "N"}],
                "BillingMode": "PAY_PER_REQUEST",
            },
        )
        yield local


@pytest.fixture
def readings(local):
    return local.table("readings")


@pytest.fixture
def small_groups(monkeypatch):
    monkeypatch.setattr(local_writes, "GROUP_BYTES", 20_000)
    monkeypatch.setattr(local_writes, "APART_BYTES", 5_000)
    monkeypatch.setattr(local_writes, "WHOLE_ROWS", 32)


def contents(table):
    return {item["id"]: item for item in table.scan()}


def add_index(local):
    local.execute(
        "UpdateTable",
        {
            "TableName": "readings",
            "AttributeDefinitions": [{"AttributeName": "place", "AttributeType": "S"}],
            "GlobalSecondaryIndexUpdates": [
                {
                    "Create": {
                        "IndexName": "by_place",
                        "KeySchema": [{"AttributeName": "place", "KeyType": "HASH"}],
                        "Projection": {"ProjectionType": "ALL"},
                    }
                }
            ],
        },
    )


def test_many_items_are_few_transactions(local, readings):
    transactions = []
    with readings.batch() as batch:
        local.engine.store.connection().set_trace_callback(
            lambda statement: transactions.append(1) if statement == "COMMIT" else None
        )
        for number in range(3_200):
            batch.put({"id": number, "text": "x" * 20})
    assert len(transactions) == 8  # 25, 25, 50, 100, … 1,600
    assert (batch.report.done, batch.report.requests) == (3_200, 128)
    assert contents(readings) == {number: {"id": number, "text": "x" * 20} for number in range(3_200)}


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("seed", range(4))
def test_the_last_action_on_a_key_wins_across_groups_and_threads(readings, seed):
    chance = Random(seed)
    expected = {}
    with readings.batch() as batch:
        for turn in range(3_000):
            number = chance.randrange(400)
            if chance.random() < 0.2:
                batch.delete({"id": number})
                expected.pop(number, None)
            else:
                batch.put({"id": number, "turn": turn, "text": "x" * chance.randrange(200)})
                expected[number] = turn
    assert {number: item["turn"] for number, item in contents(readings).items()} == expected
    assert batch.report.done + batch.report.replaced == 3_000
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("penstock-load")]


@pytest.mark.usefixtures("small_groups")
@pytest.mark.usefixtures("small_groups")
def test_a_group_is_in_order_before_the_thread_has_it(readings, monkeypatch):
    handed_over = []
    write = Loading.write

    def watched(self, group):
        if threading.current_thread().name.startswith("penstock-load"):
            handed_over.append(list(group))
        return write(self, group)

    monkeypatch.setattr(Loading, "write", watched)
    with readings.batch() as batch:
        for number in range(2_000):
            batch.put({"id": number, "text": "x" * 100})
    assert len(handed_over) > 3 and handed_over == [sorted(keys) for keys in handed_over]
    assert sorted(contents(readings)) == list(range(2_000))


def test_an_index_that_is_made_meanwhile_has_every_item(local, readings):
    with readings.batch() as batch:
        for number in range(2_000):
            if number == 1_000:
                add_index(local)
            batch.put({"id": number, "place": "north", "text": "x" * 50})
        batch.delete({"id": 5})
    assert batch.report.done + batch.report.replaced == 2_001
    found = readings.query(place="north", index="by_place")
    assert {item["id"] for item in found} == set(range(2_000)) - {5}


@pytest.mark.usefixtures("small_groups")
def test_a_table_that_is_gone_is_told_with_every_item_that_was_not_written(local, readings):
    with pytest.raises(BatchIncomplete, match="ResourceNotFoundException") as failed, readings.batch() as batch:
        for number in range(1_000):
            if number == 500:
                local.execute("DeleteTable", {"TableName": "readings"})
            batch.put({"id": number, "text": "x" * 50})
    assert failed.value.done + len(failed.value.failed) in (number, number + 1)
    assert failed.value.done < 550


def test_a_database_that_is_closed_is_told_too(path, local):
    with pytest.raises(BatchIncomplete, match="closed") as failed, local.table("readings").batch() as batch:
        for number in range(60):
            batch.put({"id": number})
        local.close()
    assert (failed.value.done, len(failed.value.failed)) == (50, 10)


def test_long_keys_and_odd_numbers_are_written_like_any_other(local):
    local.execute(
        "CreateTable",
        {
            "TableName": "texts",
            "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
            "BillingMode": "PAY_PER_REQUEST",
        },
    )
    texts = local.table("texts")
    names = ["x" * length for length in range(1, 2_048, 7)]
    with texts.batch() as batch:
        for turn in range(2):
            for name in names:
                batch.put({"id": name, "turn": turn, "price": 1e21, "tags": {"b", "a"}, "n": 2.50})
        batch.delete({"id": names[-1]})
    assert batch.report.done + batch.report.replaced == 2 * len(names) + 1
    found = {item["id"]: item for item in texts.scan()}
    assert found.keys() == set(names[:-1])
    texts.put({"id": "put", "turn": 1, "price": 1e21, "tags": {"b", "a"}, "n": 2.50})
    stored = {
        name: local.execute("GetItem", {"TableName": "texts", "Key": {"id": {"S": name}}}) for name in ("put", "x")
    }
    assert stored["x"]["Item"] == stored["put"]["Item"] | {"id": {"S": "x"}}


def test_a_block_that_raises_writes_no_more(readings):
    with pytest.raises(KeyError) as raised, readings.batch() as batch:
        for number in range(60):
            batch.put({"id": number})
        raise KeyError("oops")
    assert (batch.done, len(batch.failed)) == (50, 10)
    assert contents(readings).keys() == set(range(50))
    assert "50 actions had been done, 10 had not" in raised.value.__notes__[0]


def test_actions_of_a_slow_source_are_held_for_a_few_seconds_at_most(readings):
    clock = ManualClock()
    with readings.batch(options=BatchOptions(clock=clock)) as batch:
        for number in range(1_000):
            batch.put({"id": number})
        assert batch.done == 800
        clock.advance(5)
        for number in range(25):
            batch.put({"id": 1_000 + number})
        assert batch.done == 1_025


class Counted:
    """A transport around another that counts calls."""

    def __init__(self, inner):
        self.name, self.inner, self.operations = inner.name, inner, []

    def execute(self, operation, request):
        self.operations.append(operation)
        return self.inner.execute(operation, request)

    def close(self):
        pass


def test_a_wrapper_sees_every_request(local):
    counted = Counted(local.transport)
    penstock.Database(counted).table("readings", key="id:N").batch_write({"id": number} for number in range(60))
    assert counted.operations == ["BatchWriteItem"] * 3


def test_second_actions_on_a_key_can_be_refused(readings):
    with pytest.raises(penstock.PenstockError, match="already has an action"):
        readings.batch_write([{"id": 1}, {"id": 1}], duplicates="refuse")


@pytest.mark.crash
def test_what_was_flushed_survives_a_kill(path, local, readings):
    with subprocess.Popen([sys.executable, "-c", LOADER, str(path)], stdout=subprocess.PIPE, text=True) as loader:
        for _ in range(4):
            acknowledged = int(loader.stdout.readline())
        os.kill(loader.pid, signal.SIGKILL)
        acknowledged = max([acknowledged, *map(int, loader.stdout.read().split())])
    found = contents(readings)
    assert set(range(acknowledged)) <= found.keys()
    assert Path(path).exists()
