from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from expenses import EXPENSES

import penstock
from penstock.client.tables.table import Table

# PENSTOCK_TEST_URL=http://localhost:8000 runs the tests of the handles against another implementation there, in place
# of the embedded engine, our server and moto's. Each test makes its tables and deletes those, and only those.
ELSEWHERE = os.environ.get("PENSTOCK_TEST_URL")


# A boto3 client takes half a second to make: these have a test of everything that is sent.
_THROUGH_BOTO_TOO = ("test_table", "test_transactions")


# What moto's server (5.2.5) does in its own way. Strict: a test that passes there again must leave this list.
_MOTOS_OWN_WAYS = {
    "test_a_selection_reads_a_part": "a ProjectionExpression through a list is refused",
    "test_an_update_of_nothing_makes_the_item": "UpdateItem without an expression is an HTTP 500",
    "test_actions_may_be_given_as_a_list": "TransactGetItems gives whole items, whatever the ProjectionExpression",
    "test_the_same_token_is_the_same_transaction": "a repeated transaction happens twice",
    "test_repeats_of_one_transaction_have_one_effect": "a repeated transaction happens twice",
    "test_one_bad_item_does_not_take_its_neighbours_with_it": "an index key of the wrong type is taken",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    elsewhere = ELSEWHERE is not None and _is_moto(ELSEWHERE)
    for item in items:
        way = _MOTOS_OWN_WAYS.get(getattr(item, "originalname", item.name))
        if way is not None and isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            database = item.callspec.params.get("db")
            if database == "moto" or (elsewhere and database == "elsewhere"):
                item.add_marker(pytest.mark.xfail(reason=f"moto: {way}", strict=True))


def _is_moto(url: str) -> bool:
    try:
        with urlopen(f"{url.rstrip('/')}/moto-api/", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "db" in metafunc.fixturenames:
        ours = ["memory", "file", "http", "moto", *(["boto"] if metafunc.module.__name__ in _THROUGH_BOTO_TOO else [])]
        metafunc.parametrize("db", ["elsewhere"] if ELSEWHERE else ours, indirect=True)


@pytest.fixture
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[penstock.Database]:
    """A database with the empty table `expenses`: in memory, on a file, on our server (also by boto3) and on moto's."""
    with _opened(request, tmp_path) as db:
        db.execute("CreateTable", EXPENSES)
        yield db
        if request.param in ("moto", "elsewhere"):
            db.execute("DeleteTable", {"TableName": "expenses"})


def _opened(request: pytest.FixtureRequest, tmp_path: Path) -> penstock.Database:
    match request.param:
        case "memory":
            return penstock.connect()
        case "file":
            return penstock.connect(tmp_path / "expenses.db")
        case "boto":
            return penstock.connect(request.getfixturevalue("penstock_server"), via="boto")
        case "moto":
            return penstock.connect(request.getfixturevalue("moto_url"))
    return penstock.connect(ELSEWHERE or request.getfixturevalue("penstock_server"))


@pytest.fixture
def expenses(db: penstock.Database) -> Table:
    return db.table("expenses")


@pytest.fixture
def jobs(dynamodb):
    """The name of a table with a partition key `id` and a sort key `at`."""
    dynamodb.create_table(
        TableName="jobs",
        KeySchema=[
            {"AttributeName": "id", "KeyType": "HASH"},
            {"AttributeName": "at", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "id", "AttributeType": "S"},
            {"AttributeName": "at", "AttributeType": "N"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    return "jobs"


@pytest.fixture
def twelve(dynamodb, jobs):
    """The table's name, with twelve items in one partition."""
    for at in range(12):
        dynamodb.put_item(TableName=jobs, Item={"id": {"S": "a"}, "at": {"N": str(at)}})
    return jobs
