"""boto3's resource on the embedded engine: Table, its Python types, its batch writer."""

from __future__ import annotations

from decimal import Decimal

import pytest
from boto3.dynamodb.conditions import Attr, Key
from boto3.dynamodb.types import Binary

import penstock


@pytest.fixture
def table(dynamodb_resource):
    return dynamodb_resource.create_table(
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


FULL = {
    "id": "1",
    "at": Decimal("1.5"),
    "text": "ütf-8",
    "blob": Binary(b"\x00\xff"),
    "blobs": {Binary(b"a"), Binary(b"b")},
    "texts": {"a", "b"},
    "numbers": {Decimal(1), Decimal("2.5")},
    "yes": True,
    "nothing": None,
    "nested": {"list": [Decimal(1), "two", {"three": b"3"}]},
}


def test_every_python_type_comes_back(table):
    table.put_item(Item=FULL)
    assert table.get_item(Key={"id": "1", "at": Decimal("1.5")})["Item"] == FULL


def test_an_item_is_updated_and_deleted(table):
    table.put_item(Item={"id": "1", "at": 1, "tries": 1})
    updated = table.update_item(
        Key={"id": "1", "at": 1},
        UpdateExpression="SET tries = tries + :one",
        ExpressionAttributeValues={":one": 1},
        ReturnValues="UPDATED_NEW",
    )
    assert updated["Attributes"] == {"tries": Decimal(2)}
    deleted = table.delete_item(Key={"id": "1", "at": 1}, ReturnValues="ALL_OLD")
    assert deleted["Attributes"] == {"id": "1", "at": Decimal(1), "tries": Decimal(2)}
    assert "Item" not in table.get_item(Key={"id": "1", "at": 1})


def test_conditions_made_of_objects_work(table):
    for at in range(5):
        table.put_item(Item={"id": "1", "at": at, "odd": bool(at % 2)})
    found = table.query(
        KeyConditionExpression=Key("id").eq("1") & Key("at").between(1, 4),
        FilterExpression=Attr("odd").eq(True),
    )
    assert [item["at"] for item in found["Items"]] == [1, 3]
    assert table.scan(FilterExpression=Attr("at").gt(2))["Count"] == 2


def test_the_batch_writer_writes_more_than_one_batch(table):
    with table.batch_writer(overwrite_by_pkeys=["id", "at"]) as batch:
        for at in range(60):
            batch.put_item(Item={"id": "1", "at": at})
        batch.put_item(Item={"id": "1", "at": 59, "last": True})
        batch.delete_item(Key={"id": "1", "at": 0})
    assert table.scan()["Count"] == 59
    assert table.get_item(Key={"id": "1", "at": 59})["Item"]["last"] is True


def test_batch_get_takes_python_values(dynamodb_resource, table):
    table.put_item(Item=FULL)
    answer = dynamodb_resource.batch_get_item(RequestItems={"jobs": {"Keys": [{"id": "1", "at": Decimal("1.5")}]}})
    assert answer["Responses"] == {"jobs": [FULL]}


def test_a_table_describes_itself_and_is_found_in_the_collection(dynamodb_resource, table):
    table.reload()
    assert table.table_status == "ACTIVE"
    assert table.creation_date_time.year >= 2023
    assert [found.name for found in dynamodb_resource.tables.all()] == ["jobs"]
    table.wait_until_exists()
    table.delete()
    table.wait_until_not_exists()
    assert list(dynamodb_resource.tables.all()) == []


def test_a_resource_opens_a_path(tmp_path):
    path = tmp_path / "jobs.db"
    with penstock.connect(path) as db:
        assert list(penstock.boto3_resource(db).tables.all()) == []
    resource = penstock.boto3_resource(path)
    assert list(resource.tables.all()) == []
    resource.meta.client.close()


def test_errors_reach_the_resource(table):
    table.put_item(Item={"id": "1", "at": 1})
    with pytest.raises(table.meta.client.exceptions.ConditionalCheckFailedException):
        table.put_item(Item={"id": "1", "at": 1}, ConditionExpression=Attr("id").not_exists())
