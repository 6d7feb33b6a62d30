"""What suites of other people, and a lab on AWS of October 2026, found; decision 4 says which text is used where."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.engine import Engine
from penstock.errors import DynamoDBError, ValidationException
from penstock.wire.values import item_size

INVALID = "One or more parameter values were invalid: "
EMPTY_UPDATE = (
    "One or more parameter values are not valid. The update expression attempted to update a secondary index key to "
    "a value that is not supported. The AttributeValue for a key attribute cannot contain an empty {} value."
)
KEY = {"a": {"S": "1"}, "b": {"S": "1"}}


def attribute(name: str, kind: str = "S") -> dict[str, str]:
    return {"AttributeName": name, "AttributeType": kind}


def keys(*names: str) -> list[dict[str, str]]:
    return [{"AttributeName": n, "KeyType": k} for n, k in zip(names, ("HASH", "RANGE"), strict=False)]


def index(name: str, *key: str, **members: Any) -> dict[str, Any]:
    return {"IndexName": name, "KeySchema": keys(*key), "Projection": {"ProjectionType": "ALL"}, **members}


def create(engine: Engine, **members: Any) -> dict[str, Any]:
    request = {
        "TableName": "jobs",
        "AttributeDefinitions": [attribute("a"), attribute("b"), attribute("g"), attribute("h", "B")],
        "KeySchema": keys("a", "b"),
        "LocalSecondaryIndexes": [index("local", "a", "g")],
        "GlobalSecondaryIndexes": [index("by_g", "g"), index("by_h", "h")],
        "BillingMode": "PAY_PER_REQUEST",
        **members,
    }
    described: dict[str, Any] = engine.execute("CreateTable", request)["TableDescription"]
    return described


def refusal(engine: Engine, operation: str, **request: Any) -> DynamoDBError:
    with pytest.raises(DynamoDBError) as refused:
        engine.execute(operation, request)
    return refused.value


def described(engine: Engine) -> dict[str, Any]:
    table: dict[str, Any] = engine.execute("DescribeTable", {"TableName": "jobs"})["Table"]
    return table


@pytest.mark.parametrize(("name", "value", "kind"), [("g", {"S": ""}, "string"), ("h", {"B": ""}, "binary")])
def test_an_update_to_an_empty_index_key_has_a_text_of_its_own(
    engine: Engine, name: str, value: Any, kind: str
) -> None:
    create(engine)
    update = {
        "TableName": "jobs",
        "Key": KEY,
        "UpdateExpression": f"SET {name} = :v",
        "ExpressionAttributeValues": {":v": value},
    }
    alone = refusal(engine, "UpdateItem", **update)
    assert (type(alone), alone.message) == (ValidationException, EMPTY_UPDATE.format(kind))
    together = refusal(engine, "TransactWriteItems", TransactItems=[{"Update": update}])
    assert (type(together), together.message) == (ValidationException, EMPTY_UPDATE.format(kind))


def test_the_first_index_by_name_is_named(engine: Engine) -> None:
    create(engine)
    wrong = refusal(engine, "PutItem", TableName="jobs", Item={**KEY, "g": {"N": "5"}})
    assert wrong.message == INVALID + "Type mismatch for Index Key g Expected: S Actual: N IndexName: by_g"


def test_empty_values_of_a_transaction_come_before_its_expression(engine: Engine) -> None:
    create(engine)
    expression = {"TableName": "jobs", "ConditionExpression": "attribute_exists(", "ExpressionAttributeValues": {}}
    for action in ({"Put": {"Item": KEY, **expression}}, {"ConditionCheck": {"Key": KEY, **expression}}):
        refused = refusal(engine, "TransactWriteItems", TransactItems=[action])
        assert refused.message == "ExpressionAttributeValues must not be empty"


def test_deletion_protection_is_answered_from_the_first_to_the_last(engine: Engine) -> None:
    assert create(engine)["DeletionProtectionEnabled"] is False
    answer = engine.execute("DeleteTable", {"TableName": "jobs"})["TableDescription"]
    assert answer["DeletionProtectionEnabled"] is False


def test_an_index_has_a_warm_throughput_by_default_and_passes_updating(engine: Engine) -> None:
    create(engine)
    first, _ = described(engine)["GlobalSecondaryIndexes"]
    assert first["WarmThroughput"] == {
        "ReadUnitsPerSecond": 12_000,
        "WriteUnitsPerSecond": 4_000,
        "Status": "ACTIVE",
    }
    warmer = {"Update": {"IndexName": "by_g", "WarmThroughput": {"ReadUnitsPerSecond": 13_000}}}
    answer = engine.execute("UpdateTable", {"TableName": "jobs", "GlobalSecondaryIndexUpdates": [warmer]})
    shown = answer["TableDescription"]["GlobalSecondaryIndexes"][0]["WarmThroughput"]
    assert (shown["ReadUnitsPerSecond"], shown["Status"]) == (13_000, "UPDATING")
    assert described(engine)["GlobalSecondaryIndexes"][0]["WarmThroughput"]["Status"] == "ACTIVE"


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({"WarmThroughput": {}}, "WarmThroughput must have at least one of ReadUnitsPerSecond or WriteUnitsPerSecond "
         "specified for index: by_g"),
        ({"WarmThroughput": {"ReadUnitsPerSecond": 1}}, "Requested ReadUnitsPerSecond for WarmThroughput for index "
         "by_g is lower than current WarmThroughput, decreasing WarmThroughput is not supported"),
        ({}, "The only Updates for index: by_g when TableThroughputMode is PAY_PER_REQUEST can be to "
         "OnDemandThroughput, WarmThroughput"),
    ],
)  # fmt: skip
def test_a_wrong_change_of_an_index_is_refused(engine: Engine, update: dict[str, Any], message: str) -> None:
    create(engine)
    wanted = {"Update": {"IndexName": "by_g", **update}}
    refused = refusal(engine, "UpdateTable", TableName="jobs", GlobalSecondaryIndexUpdates=[wanted])
    assert refused.message == INVALID + message


def test_an_empty_throughput_beside_another_change_is_none(engine: Engine) -> None:
    create(engine)
    for member in ("WarmThroughput", "OnDemandThroughput"):
        engine.execute("UpdateTable", {"TableName": "jobs", member: {}, "DeletionProtectionEnabled": False})
    units = {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}
    refused = refusal(engine, "UpdateTable", TableName="jobs", WarmThroughput={}, ProvisionedThroughput=units)
    assert refused.message.startswith(INVALID + "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified")


def test_a_new_index_is_not_colder_than_a_new_table(engine: Engine) -> None:
    cold = index("by_g", "g", WarmThroughput={"WriteUnitsPerSecond": 1})
    with pytest.raises(
        ValidationException, match="WriteUnitsPerSecond for WarmThroughput for index by_g is lower than"
    ):
        create(engine, GlobalSecondaryIndexes=[cold, index("by_h", "h")])


def test_encryption_names_a_key_and_passes_updating(engine: Engine) -> None:
    create(engine, SSESpecification={"Enabled": True})
    arn = described(engine)["SSEDescription"]["KMSMasterKeyArn"]
    assert arn.startswith("arn:aws:kms:us-east-1:000000000000:key/")
    again = {"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": arn}
    assert refusal(engine, "UpdateTable", TableName="jobs", SSESpecification=again).message == (
        INVALID + "Table is already encrypted with given KMSMasterKeyId. "
        "Use KMSMasterKeyId parameter if you want to change Master Key"
    )
    off = {"TableName": "jobs", "SSESpecification": {"Enabled": False}}
    answer = engine.execute("UpdateTable", off)["TableDescription"]
    assert answer["SSEDescription"] == {"Status": "UPDATING", "SSEType": "KMS", "KMSMasterKeyArn": arn}
    assert "SSEDescription" not in described(engine)
    on = {"TableName": "jobs", "SSESpecification": {"Enabled": True}}
    assert engine.execute("UpdateTable", on)["TableDescription"]["SSEDescription"] == {"Status": "UPDATING"}


def test_a_table_class_and_a_tag_are_refused_in_texts_of_their_own(engine: Engine) -> None:
    wrong = (
        "Invalid table-class parameter provided. Please try again with a valid table-class value: "
        "[STANDARD, STANDARD_INFREQUENT_ACCESS]."
    )
    with pytest.raises(ValidationException) as refused:
        create(engine, TableClass="COLD")
    assert refused.value.message == wrong
    for tag, text in (
        ({}, "Key provided is invalid, Key: null"),
        ({"Key": "k"}, "Value provided is invalid, Value: null"),
    ):
        with pytest.raises(ValidationException) as refused:
            create(engine, Tags=[tag])
        assert refused.value.message == f"The Tag {text}"


@pytest.mark.parametrize(("size", "has_more"), [(41_660, True), (41_500, False)])
def test_a_page_of_one_megabyte_counts_large_items_as_they_are_stored(
    engine: Engine, size: int, has_more: bool
) -> None:
    """25 items of 41,660 bytes, 1,041,500 together, are a full page on AWS (recorded by dynalite)."""
    create(engine)
    for number in range(25):
        item: dict[str, Any] = {"a": {"S": "x"}, "b": {"S": f"{number:02}"}, "e": {"S": ""}}
        item["e"]["S"] = "e" * (size - item_size(item))
        engine.execute("PutItem", {"TableName": "jobs", "Item": item})
    query = {"KeyConditionExpression": "a = :a", "ExpressionAttributeValues": {":a": {"S": "x"}}}
    page = engine.execute("Query", {"TableName": "jobs", "ReturnConsumedCapacity": "TOTAL", **query})
    assert (page["Count"], "LastEvaluatedKey" in page) == (25, has_more)
    if has_more:
        rest = engine.execute("Query", {"TableName": "jobs", "ExclusiveStartKey": page["LastEvaluatedKey"], **query})
        assert (rest["Count"], "LastEvaluatedKey" in rest) == (0, False)
