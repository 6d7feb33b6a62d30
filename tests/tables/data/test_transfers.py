"""ItemTable: items in bulk, in DynamoDB's own JSON, whoever answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Index, Table, connect
from penstock.client.database import Database
from penstock.client.wrappers.metering import Metering
from penstock.errors import DynamoDBError, PenstockError, ResourceNotFoundException
from penstock.tables.apply.apply import delete, make
from penstock.tables.data.transfers import ItemTable

ORDERS = Table("orders", "id:N", indexes=[Index("by-status", "status:S")])
STATUSES = st.one_of(st.sampled_from(["new", "paid"]).map(lambda text: {"S": text}), st.just({"N": "1"}))


def item(number: int, status: dict[str, str]) -> dict[str, Any]:
    return {"id": {"N": str(number)}, "status": status, "a.b": {"L": [{"N": "2"}]}}


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.integers(1, 120), STATUSES), st.sets(st.integers(1, 120)))
def test_requests_that_share_a_commit_write_and_refuse_what_a_batch_does(
    puts: dict[int, dict[str, str]], deletes: set[int]
) -> None:
    outcomes = []
    with connect() as inner:
        for db in (inner, Database(Metering(inner.transport))):  # behind a wrapper no commit is shared
            make(db, ORDERS, "orders")
            table = ItemTable.of(db, "orders")
            table.write([item(number, {"S": "old"}) for number in range(100, 121)])
            refused: list[tuple[dict[str, Any], str]] = []

            def refuse(one: dict[str, Any], error: DynamoDBError, told: Any = refused) -> None:
                told.append((one, error.code))

            left = [{"id": {"N": str(number)}} for number in sorted(deletes - puts.keys())]
            table.write([item(number, status) for number, status in puts.items()], left, refuse=refuse)
            found = db.execute("Scan", {"TableName": "orders"})["Items"]
            by_id = sorted(found, key=lambda one: int(one["id"]["N"]))
            outcomes.append((by_id, sorted(refused, key=lambda one: int(one[0]["id"]["N"]))))
            delete(db, "orders")
    assert outcomes[0] == outcomes[1]


def test_a_read_by_key_gives_items_as_they_are_stored() -> None:
    with connect() as db:
        make(db, ORDERS, "orders")
        table = ItemTable.of(db, "orders")
        assert table.write(item(number, {"S": "new"}) for number in range(250)) == 250
        keys = [{"id": {"N": str(number)}} for number in (3, 249, 999, 3)]
        assert table.get(keys) == {("3",): item(3, {"S": "new"}), ("249",): item(249, {"S": "new"})}
        assert table.get(keys, only=()) == {("3",): {"id": {"N": "3"}}, ("249",): {"id": {"N": "249"}}}
        assert table.get(keys[:1], only=["a.b"]) == {("3",): {"id": {"N": "3"}, "a.b": {"L": [{"N": "2"}]}}}


def test_a_table_that_is_gone_is_said_so_and_not_as_an_item_that_is_refused() -> None:
    with connect() as db:
        make(db, ORDERS, "orders")
        table = ItemTable.of(db, "orders")
        delete(db, "orders")
        with pytest.raises(ResourceNotFoundException):
            table.write([item(1, {"S": "new"})], refuse=lambda one, error: None)
        with pytest.raises(ResourceNotFoundException):
            table.get([{"id": {"N": "1"}}])


def test_an_item_that_is_refused_is_named_and_the_others_are_written() -> None:
    with connect() as db:
        make(db, ORDERS, "orders")
        table = ItemTable.of(db, "orders")
        with pytest.raises(PenstockError, match=r"orders does not take the item id=7: "):
            table.write(item(number, {"N": "1"} if number == 7 else {"S": "new"}) for number in range(60))
        assert len(table.get({"id": {"N": str(number)}} for number in range(60))) == 59
