from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.client.table import Table

EXPENSES = {
    "TableName": "expenses",
    "KeySchema": [
        {"AttributeName": "company", "KeyType": "HASH"},
        {"AttributeName": "number", "KeyType": "RANGE"},
    ],
    "AttributeDefinitions": [
        {"AttributeName": "company", "AttributeType": "S"},
        {"AttributeName": "number", "AttributeType": "N"},
        {"AttributeName": "email", "AttributeType": "S"},
    ],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "by-email",
            "KeySchema": [{"AttributeName": "email", "KeyType": "HASH"}],
            "Projection": {"ProjectionType": "ALL"},
        }
    ],
    "BillingMode": "PAY_PER_REQUEST",
}


@pytest.fixture(params=["memory", "file", "http"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[penstock.Database]:
    """A fresh database with the table `expenses`: in memory, on a file, and behind a server."""
    if request.param == "http":
        url = request.getfixturevalue("penstock_server")
    else:
        url = ":memory:" if request.param == "memory" else str(tmp_path / "expenses.db")
    with penstock.connect(url) as db:
        db.execute("CreateTable", EXPENSES)
        yield db


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
