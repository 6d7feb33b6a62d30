"""Accounts and regions: tables of one are not seen from another; a table's ARN is as good as its name."""

from __future__ import annotations

from typing import Any

import pytest
from sample_tables import table

from penstock.engine import Engine
from penstock.engine.settings import DEFAULT_SCOPE, Scope
from penstock.errors import ResourceInUseException, ResourceNotFoundException, TableNotFoundException

HERE = DEFAULT_SCOPE
SCOPES = [HERE, Scope(region="eu-west-2"), Scope(account="111111111111")]
DEFINITION = table("plain", "pk:S")
KEY = {"pk": {"S": "a"}}


@pytest.fixture
def scoped(engine: Engine) -> Engine:
    """One table of the same name in each scope, with an item that says where it is."""
    for scope in SCOPES:
        engine.execute("CreateTable", DEFINITION, scope)
        item = {**KEY, "region": {"S": scope.region}, "account": {"S": scope.account}}
        engine.execute("PutItem", {"TableName": "plain", "Item": item}, scope)
    return engine


def test_tables_of_one_name_are_apart(scoped: Engine) -> None:
    for scope in SCOPES:
        item = scoped.execute("GetItem", {"TableName": "plain", "Key": KEY}, scope)["Item"]
        assert (item["account"]["S"], item["region"]["S"]) == (scope.account, scope.region)
    scoped.execute("DeleteTable", {"TableName": "plain"}, SCOPES[1])
    with pytest.raises(ResourceNotFoundException):
        scoped.execute("GetItem", {"TableName": "plain", "Key": KEY}, SCOPES[1])
    assert "Item" in scoped.execute("GetItem", {"TableName": "plain", "Key": KEY}, SCOPES[2])


def test_lists_show_ones_own(scoped: Engine) -> None:
    scoped.execute("CreateTable", DEFINITION | {"TableName": "another"}, SCOPES[2])
    assert [scoped.execute("ListTables", {}, scope)["TableNames"] for scope in SCOPES] == [
        ["plain"],
        ["plain"],
        ["another", "plain"],
    ]


def test_a_name_is_taken_once_in_each_scope(scoped: Engine) -> None:
    with pytest.raises(ResourceInUseException):
        scoped.execute("CreateTable", DEFINITION, SCOPES[1])


def test_tokens_of_one_scope_mean_nothing_in_another(scoped: Engine) -> None:
    update = {
        "TableName": "plain",
        "Key": KEY,
        "UpdateExpression": "ADD n :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }
    request = {"TransactItems": [{"Update": update}], "ClientRequestToken": "same"}
    for scope in SCOPES * 2:
        scoped.execute("TransactWriteItems", request, scope)
    for scope in SCOPES:
        assert scoped.execute("GetItem", {"TableName": "plain", "Key": KEY}, scope)["Item"]["n"] == {"N": "1"}


@pytest.mark.parametrize(
    ("operation", "members"),
    [
        ("GetItem", {"Key": KEY}),
        ("PutItem", {"Item": KEY}),
        ("UpdateItem", {"Key": KEY}),
        ("DeleteItem", {"Key": KEY}),
        ("Scan", {}),
        ("DescribeTable", {}),
        ("Query", {"KeyConditionExpression": "pk = :a", "ExpressionAttributeValues": {":a": {"S": "a"}}}),
    ],
)
def test_an_arn_is_as_good_as_a_name(scoped: Engine, operation: str, members: dict[str, Any]) -> None:
    by_arn = scoped.execute(operation, {"TableName": HERE.arn("table/plain"), **members})
    if operation not in ("PutItem", "DeleteItem", "UpdateItem"):
        assert by_arn == scoped.execute(operation, {"TableName": "plain", **members})


def test_an_arn_of_nothing_is_not_found(scoped: Engine) -> None:
    for arn in (HERE.arn("table/missing"), Scope(region="mars-1").arn("table/plain")):
        with pytest.raises(ResourceNotFoundException):
            scoped.execute("GetItem", {"TableName": arn, "Key": KEY})


POLICY = (
    '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"dynamodb:*","Resource":"*"}]}'
)


@pytest.mark.parametrize(
    ("operation", "request_"),
    [
        ("GetItem", {"Key": KEY}),
        ("PutItem", {"Item": KEY}),
        ("Scan", {}),
        ("DescribeTable", {}),
        ("DeleteTable", {}),
        ("CreateBackup", {"BackupName": "mine"}),
        ("UpdateTable", {"DeletionProtectionEnabled": True}),
    ],
)
def test_a_table_of_another_account_is_reached_by_its_arn_only_if_it_has_a_resource_policy(
    scoped: Engine, operation: str, request_: dict[str, Any]
) -> None:
    arn, region, account = HERE.arn("table/plain"), SCOPES[1], SCOPES[2]
    for other in (region, account):
        with pytest.raises((ResourceNotFoundException, TableNotFoundException)):
            scoped.execute(operation, {"TableName": arn, **request_}, other)
    with pytest.raises(ResourceNotFoundException):
        scoped.execute("PutResourcePolicy", {"ResourceArn": arn, "Policy": POLICY}, account)
    scoped.execute("PutResourcePolicy", {"ResourceArn": arn, "Policy": POLICY})
    scoped.execute(operation, {"TableName": arn, **request_}, account)
    with pytest.raises((ResourceNotFoundException, TableNotFoundException)):
        scoped.execute(operation, {"TableName": arn, **request_}, region)
