"""A database's handle, beside what test_connect.py says of execute()."""

from __future__ import annotations

import pytest

import penstock
from penstock.client.wrappers.faults import Faults, Rates
from penstock.client.wrappers.retries import RequestRetries
from penstock.errors import ConnectionFailed, ResourceNotFoundException


def test_all_tables_are_listed_over_pages(db):
    for number in range(120):
        db.execute(
            "CreateTable",
            {
                "TableName": f"table-{number:03}",
                "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
                "BillingMode": "PAY_PER_REQUEST",
            },
        )
    made = [f"table-{number:03}" for number in range(120)]
    assert db.tables() == ["expenses", *made]
    for name in made:
        db.execute("DeleteTable", {"TableName": name})


def test_the_same_handle_over_any_transport(db):
    assert db.table("expenses").name == "expenses"
    assert repr(db.table("expenses")) == "Table('expenses')"
    with pytest.raises(ResourceNotFoundException):
        db.execute("DescribeTable", {"TableName": "nothing"})


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_table_has_a_name(db, name):
    with pytest.raises(ValueError, match="name is a text"):
        db.table(name)


def test_the_engine_is_found_behind_wrappers():
    with penstock.connect() as db:
        assert penstock.Database(Faults(db.transport, Rates())).engine is db.engine
        assert db.capabilities.parallel_calls == 1


def test_nobody_there_is_told_with_the_address():
    with penstock.connect("http://127.0.0.1:9", retries=None) as db:
        assert db.capabilities.parallel_calls == 4
        with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:9"):
            db.tables()


def test_how_often_a_remote_call_is_tried_can_be_said():
    with penstock.connect("http://127.0.0.1:9", retries=RequestRetries(attempts=3, base_seconds=0.001)) as db:
        with pytest.raises(ConnectionFailed) as failed:
            db.tables()
        assert failed.value.__notes__ == ["ListTables: gave up after 3 attempts."]
