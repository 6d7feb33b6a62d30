from __future__ import annotations

import pytest


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
