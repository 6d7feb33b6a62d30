"""How much work a transaction is on a table with several sparse indexes, counted in SQL statements and index keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sample_tables import assert_indexes_agree, index, make, table

from penstock.engine import Engine
from penstock.engine.catalog import row_keys
from penstock.engine.catalog.table_schema import IndexInfo
from penstock.engine.items import transactions
from penstock.errors import TransactionCanceledException
from penstock.wire.values import Item

JOBS = table(
    "jobs",
    "id:S / record:S",
    globals_=(
        index("by_pool", "pool:S / due:S", "KEYS_ONLY"),
        index("by_state", "state:S / made:S", "KEYS_ONLY"),
        index("by_kind", "kind:S / made:S", "KEYS_ONLY"),
        index("by_rank", "rank:N", "KEYS_ONLY"),
    ),
)


@pytest.fixture
def jobs(engine: Engine) -> Engine:
    make(engine, JOBS)
    transact(engine, created(1), event(1, 1))
    return engine


def job(number: int, **attributes: Any) -> Item:
    item: Item = {
        "id": {"S": f"job {number}"},
        "record": {"S": "main"},
        "pool": {"S": "ready"},
        "due": {"S": "10:00"},
        "state": {"S": "queued"},
        "made": {"S": "09:00"},
        "kind": {"S": "noop"},
        "rank": {"N": "5"},
        "version": {"N": "1"},
    }
    return {name: value for name, value in {**item, **attributes}.items() if value is not None}


def created(number: int) -> dict[str, Any]:
    return {"Put": {"TableName": "jobs", "Item": job(number), "ConditionExpression": "attribute_not_exists(id)"}}


def replaced(item: Item, version: str = "1") -> dict[str, Any]:
    condition = {
        "ConditionExpression": "#version = :version",
        "ExpressionAttributeNames": {"#version": "version"},
        "ExpressionAttributeValues": {":version": {"N": version}},
    }
    return {"Put": {"TableName": "jobs", "Item": item, **condition}}


def updated(number: int, update: str, **values: Any) -> dict[str, Any]:
    key = {"id": {"S": f"job {number}"}, "record": {"S": "main"}}
    placed = {f":{name}": value for name, value in values.items()}
    names = {"#pool": "pool", "#state": "state"}
    return {
        "Update": {
            "TableName": "jobs",
            "Key": key,
            "UpdateExpression": update,
            "ExpressionAttributeNames": {one: name for one, name in names.items() if one in update},
            "ExpressionAttributeValues": placed,
        }
    }


def event(number: int, place: int, **attributes: Any) -> dict[str, Any]:
    item = {"id": {"S": f"job {number}"}, "record": {"S": f"event {place}"}, "at": {"S": "10:00"}, **attributes}
    return {"Put": {"TableName": "jobs", "Item": item}}


def transact(engine: Engine, *actions: dict[str, Any]) -> None:
    engine.answer("TransactWriteItems", {"TransactItems": list(actions)})


@contextmanager
def statements(engine: Engine) -> Iterator[list[str]]:
    """The first words of the SQL statements that run inside the block."""
    found: list[str] = []
    db = engine.store.connection()
    db.set_trace_callback(lambda text: found.append(text.split()[0]))
    try:
        yield found
    finally:
        db.set_trace_callback(None)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The indexes for which an item's key was computed from now on."""
    found: list[str] = []
    start = row_keys.index_start

    def counting(index: IndexInfo, item: Item) -> bytes | None:
        entry = start(index, item)
        if entry is not None:
            found.append(index.name)
        return entry

    monkeypatch.setattr(row_keys, "index_start", counting)
    return found


def test_a_job_and_its_event_are_made_by_one_look_and_one_statement_a_row(jobs: Engine, computed: list[str]) -> None:
    with statements(jobs) as found:
        transact(jobs, created(2), event(2, 1))
    rows = ["INSERT"] * (1 + 4 + 1)
    assert found == ["BEGIN", "SELECT", "SELECT", *rows, "COMMIT"]
    assert computed == ["by_pool", "by_state", "by_kind", "by_rank"]
    assert_indexes_agree(jobs, "jobs")


def test_a_put_that_moves_two_index_keys_moves_two_rows(jobs: Engine, computed: list[str]) -> None:
    with statements(jobs) as found:
        transact(jobs, replaced(job(1, pool={"S": "leased"}, state={"S": "running"})), event(1, 2))
    assert found == ["BEGIN", "SELECT", "SELECT", "INSERT", "UPDATE", "UPDATE", "INSERT", "COMMIT"]
    assert computed == ["by_pool"] * 2 + ["by_state"] * 2, "before and after, of the indexes that it concerns"
    assert_indexes_agree(jobs, "jobs")


def test_an_update_that_leaves_an_index_takes_its_row_away(jobs: Engine, computed: list[str]) -> None:
    with statements(jobs) as found:
        transact(jobs, updated(1, "SET #state = :state REMOVE #pool", state={"S": "done"}), event(1, 2))
    assert found == ["BEGIN", "SELECT", "SELECT", "INSERT", "DELETE", "UPDATE", "INSERT", "COMMIT"]
    assert computed == ["by_pool"] + ["by_state"] * 2
    assert_indexes_agree(jobs, "jobs")


def test_a_put_that_changes_no_index_key_computes_none(jobs: Engine, computed: list[str]) -> None:
    with statements(jobs) as found:
        jobs.answer("PutItem", replaced(job(1, version={"N": "2"}))["Put"])
    assert found == ["BEGIN", "SELECT", "SELECT", "INSERT", "COMMIT"]
    assert computed == []
    assert_indexes_agree(jobs, "jobs")


def test_an_item_that_goes_takes_its_rows_along(jobs: Engine) -> None:
    key = {"id": {"S": "job 1"}, "record": {"S": "main"}}
    with statements(jobs) as found:
        jobs.answer("DeleteItem", {"TableName": "jobs", "Key": key})
    assert found == ["BEGIN", "SELECT", "SELECT", *["DELETE"] * (1 + 4), "COMMIT"]
    assert_indexes_agree(jobs, "jobs")


def test_a_put_without_a_condition_finds_the_old_item_where_there_is_one(jobs: Engine) -> None:
    transact(jobs, event(1, 2, pool={"S": "ready"}, due={"S": "11:00"}))
    with statements(jobs) as found:
        transact(jobs, event(1, 2, pool={"S": "leased"}, due={"S": "11:00"}))
    assert found == ["BEGIN", "SELECT", "INSERT", "SELECT", "INSERT", "UPDATE", "COMMIT"]
    assert_indexes_agree(jobs, "jobs")
    transact(jobs, event(1, 2))
    assert_indexes_agree(jobs, "jobs")


def test_what_a_put_without_a_condition_costs_counts_the_old_item(jobs: Engine) -> None:
    large = event(1, 2, text={"S": "x" * 3000})
    answers = [
        jobs.execute("TransactWriteItems", {"TransactItems": [one], "ReturnConsumedCapacity": "TOTAL"})
        for one in (large, event(1, 2), event(1, 2))
    ]
    assert [answer["ConsumedCapacity"][0]["CapacityUnits"] for answer in answers] == [6, 6, 2]


def test_a_put_without_a_condition_changes_nothing_where_another_action_fails(jobs: Engine) -> None:
    with statements(jobs) as found, pytest.raises(TransactionCanceledException):
        transact(jobs, event(1, 2), replaced(job(1), version="7"))
    assert found == ["BEGIN", "SELECT", "SELECT", "ROLLBACK"]


def test_an_index_row_that_is_not_there_yet_is_put(jobs: Engine) -> None:
    """As in an index that is being filled, of whose items some have been looked at."""
    with jobs.writing() as call:
        storage = call.table("jobs").indexes["by_pool"].storage
        call.db.execute(f"DELETE FROM {storage}")
    transact(jobs, replaced(job(1, pool={"S": "leased"})))
    assert_indexes_agree(jobs, "jobs")


def test_a_small_transaction_is_not_measured_again(jobs: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(transactions, "item_size")
    transact(jobs, replaced(job(1)), event(1, 2), updated(2, "SET #state = :state", state={"S": "x"}))
