"""Broken constraints are listed as DynamoDB lists them: its order, its paths, its words, ten at most."""

from __future__ import annotations

import re
from typing import Any

import pytest

from penstock.engine.requests import check
from penstock.errors import UnknownOperationException, ValidationException

NULL = "Member must not be null"
NAME = "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
CAPACITY = "Member must satisfy enum value set: [INDEXES, TOTAL, NONE]"
METRICS = "Member must satisfy enum value set: [SIZE, NONE]"
RETURNS = "Member must satisfy enum value set: [ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW]"
SELECT = "Member must satisfy enum value set: [SPECIFIC_ATTRIBUTES, COUNT, ALL_ATTRIBUTES, ALL_PROJECTED_ATTRIBUTES]"
COMPARISON = (
    "Member must satisfy enum value set: [IN, NULL, BETWEEN, LT, NOT_CONTAINS, EQ, GT, NOT_NULL, NE, LE, "
    "BEGINS_WITH, GE, CONTAINS]"
)
REQUIRED = "The parameter 'TableName' is required but was not present in the request"
LENGTHS = "TableName must be at least 3 characters long and at most 255 characters long"
LONG = "a" * 256


def at_least(length: int) -> str:
    return f"Member must have length greater than or equal to {length}"


def at_most(length: int) -> str:
    return f"Member must have length less than or equal to {length}"


def fault(value: str | None, path: str, constraint: str) -> str:
    shown = "null" if value is None else f"'{value}'"
    return f"Value {shown} at '{path}' failed to satisfy constraint: {constraint}"


def listed(*faults: str) -> str:
    return f"{len(faults)} validation error{'s' if len(faults) > 1 else ''} detected: {'; '.join(faults)}"


def refusal(operation: str, request: dict[str, Any]) -> str:
    with pytest.raises(ValidationException) as refused:
        check(operation, request)
    return refused.value.message


KEYED = ("GetItem", "DeleteItem", "UpdateItem")


@pytest.mark.parametrize("operation", KEYED)
def test_a_table_and_a_key_are_asked_for(operation: str) -> None:
    assert refusal(operation, {}) == listed(fault(None, "tableName", NULL), fault(None, "key", NULL))


@pytest.mark.parametrize("operation", [*KEYED, "Query", "Scan"])
@pytest.mark.parametrize(
    ("name", "constraints"),
    [("a", [at_least(3)]), ("a;", [NAME, at_least(3)]), ("abc;", [NAME]), (LONG, [at_most(255)])],
)
def test_a_table_is_named_by_the_rules(operation: str, name: str, constraints: list[str]) -> None:
    expected = listed(*(fault(name, "tableName", constraint) for constraint in constraints))
    assert refusal(operation, {"TableName": name, "Key": {}}) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (None, fault(None, "tableName", NULL)),
        ("", fault("", "tableName", at_least(1))),
        (LONG, fault(LONG, "tableName", at_most(255))),
        ("bad table!@#", fault("bad table!@#", "tableName", NAME)),
    ],
)
def test_put_item_words_an_empty_name_differently(name: str | None, expected: str) -> None:
    assert refusal("PutItem", {"TableName": name, "Item": {"pk": {"S": "test"}}}) == listed(expected)


@pytest.mark.parametrize("operation", ["GetItem", "Query", "Scan"])
def test_reads_word_an_empty_name_by_all_its_rules(operation: str) -> None:
    expected = listed(fault("", "tableName", NAME), fault("", "tableName", at_least(3)))
    assert refusal(operation, {"TableName": "", "Key": {}}) == expected


@pytest.mark.parametrize("operation", ["UpdateItem", "DeleteItem"])
def test_updates_and_deletes_word_an_empty_name_as_put_item_does(operation: str) -> None:
    assert refusal(operation, {"TableName": "", "Key": {}}) == listed(fault("", "tableName", at_least(1)))


@pytest.mark.parametrize("operation", ["PutItem", "UpdateItem", "DeleteItem"])
@pytest.mark.parametrize(
    "other", [{"ReturnValues": "hi"}, {"ReturnConsumedCapacity": "hi"}, {"ConditionalOperator": "XOR"}]
)
def test_an_empty_name_hides_the_other_faults_of_a_write(operation: str, other: dict[str, Any]) -> None:
    expected = f"Value at 'TableName' failed to satisfy constraint: {at_least(1)}"
    assert refusal(operation, {"TableName": "", "Key": {}, "Item": {}, **other}) == listed(expected)


def test_an_update_stops_at_a_wrong_word_of_return_values() -> None:
    words = dict.fromkeys(("ReturnConsumedCapacity", "ReturnItemCollectionMetrics"), "hi")
    request = {"TableName": "abc", "Key": {}, "ReturnValues": "hi", **words}
    words_of_aws = "[ALL_OLD, UPDATED_OLD, ALL_NEW, UPDATE_NEW, NONE]"
    returns = f"Failed to satisfy constraint: Member must satisfy enum value set: {words_of_aws}"
    assert refusal("UpdateItem", request) == listed(returns)
    capacity, metrics = (
        fault("hi", "returnConsumedCapacity", CAPACITY),
        fault("hi", "returnItemCollectionMetrics", METRICS),
    )
    assert refusal("UpdateItem", {**request, "ReturnValues": "NONE"}) == listed(capacity, metrics)
    assert refusal("DeleteItem", request) == listed(capacity, fault("hi", "returnValues", RETURNS), metrics)


CONTROL = ("UpdateTable", "DescribeTable", "DeleteTable", "DescribeTimeToLive", "UpdateTimeToLive")


@pytest.mark.parametrize("operation", [*CONTROL, "CreateTable"])
def test_the_control_plane_asks_for_a_table_before_anything_else(operation: str) -> None:
    assert refusal(operation, {"BillingMode": "A"}) == REQUIRED


@pytest.mark.parametrize("operation", CONTROL)
@pytest.mark.parametrize("name", ["", "a;", LONG])
def test_the_control_plane_has_a_sentence_for_a_name_of_the_wrong_length(operation: str, name: str) -> None:
    assert refusal(operation, {"TableName": name}) == LENGTHS


@pytest.mark.parametrize("name", ["", "x!", "ab"])
def test_create_table_reports_a_short_name_alone(name: str) -> None:
    request = {"TableName": name, "AttributeDefinitions": [], "KeySchema": []}
    assert refusal("CreateTable", request) == listed(fault(name, "tableName", at_least(3)))


def test_several_enums_are_reported_together_in_the_order_of_each_operation() -> None:
    wrong = dict.fromkeys(("ReturnConsumedCapacity", "ReturnItemCollectionMetrics", "ReturnValues"), "hi")
    capacity = fault("hi", "returnConsumedCapacity", CAPACITY)
    metrics = fault("hi", "returnItemCollectionMetrics", METRICS)
    returns = fault("hi", "returnValues", RETURNS)
    name, key = fault("abc;", "tableName", NAME), fault(None, "key", NULL)
    request = {"TableName": "abc;", **wrong}
    assert refusal("DeleteItem", request) == listed(capacity, name, returns, metrics, key)
    assert refusal("UpdateItem", request) == listed(capacity, name, metrics, returns, key)
    assert refusal("PutItem", request) == listed(capacity, name, fault(None, "item", NULL), returns, metrics)


def test_query_lists_ten_faults_and_no_more() -> None:
    request = {
        "TableName": "abc;",
        "ReturnConsumedCapacity": "hi",
        "AttributesToGet": [],
        "IndexName": "abc;",
        "Select": "hi",
        "Limit": -1,
        "KeyConditions": {"a": {}, "b": {"ComparisonOperator": ""}},
        "ConditionalOperator": "AN",
        "QueryFilter": {"a": {}, "b": {"ComparisonOperator": ""}},
    }
    assert refusal("Query", request) == listed(
        fault("hi", "select", SELECT),
        fault("abc;", "indexName", NAME),
        fault("hi", "returnConsumedCapacity", CAPACITY),
        fault(None, "queryFilter.a.member.comparisonOperator", NULL),
        fault("", "queryFilter.b.member.comparisonOperator", COMPARISON),
        fault("abc;", "tableName", NAME),
        fault("AN", "conditionalOperator", "Member must satisfy enum value set: [OR, AND]"),
        fault("[]", "attributesToGet", at_least(1)),
        fault("-1", "limit", "Member must have value greater than or equal to 1"),
        fault(None, "keyConditions.a.member.comparisonOperator", NULL),
    )


def test_a_limit_of_zero_is_worded_by_the_operation() -> None:
    constraint = "Member must have value greater than or equal to 1"
    request = {"TableName": "abc", "Limit": 0}
    assert refusal("Query", request) == (
        f"1 validation error detected: Value at 'Limit' failed to satisfy constraint: {constraint}"
    )
    assert refusal("Scan", request) == listed(fault("0", "limit", constraint))
    assert refusal("ListTables", request) == listed(fault("0", "limit", constraint))


def test_list_tables_returns_at_most_a_hundred() -> None:
    assert refusal("ListTables", {"ExclusiveStartTableName": "a;", "Limit": 500}) == listed(
        fault("a;", "exclusiveStartTableName", NAME),
        fault("a;", "exclusiveStartTableName", at_least(3)),
        fault("500", "limit", "Member must have value less than or equal to 100"),
    )


@pytest.mark.parametrize("operation", ["BatchGetItem", "BatchWriteItem"])
def test_a_batch_of_nothing_has_a_sentence_of_its_own(operation: str) -> None:
    assert refusal(operation, {}) == listed(fault(None, "requestItems", NULL))
    assert refusal(operation, {"RequestItems": {}}) == f"The requestItems parameter is required for {operation}"


def test_a_batch_names_its_tables_by_the_rules() -> None:
    keys = f"Map keys must satisfy constraint: [{at_most(255)}, {at_least(3)}, {NAME}]"
    got = refusal("BatchGetItem", {"RequestItems": {"a": {}}, "ReturnConsumedCapacity": "hi"})
    assert got == listed(
        fault('{"a":{}}', "requestItems", keys),
        fault(None, "requestItems.a.member.keys", NULL),
        fault("hi", "returnConsumedCapacity", CAPACITY),
    )


def test_a_batch_get_takes_a_hundred_keys_of_a_table() -> None:
    keys = [{"pk": {"S": str(number)}} for number in range(101)]
    assert refusal("BatchGetItem", {"RequestItems": {"jobs": {"Keys": keys}}}) == (
        "1 validation error detected: Value at 'RequestItems.jobs.member.Keys' failed to satisfy constraint: "
        + at_most(100)
    )


def test_a_batch_write_takes_twenty_five_requests() -> None:
    requests = [{"PutRequest": {"Item": {"pk": {"S": str(number)}}}} for number in range(26)]
    values = re.escape(f"Map value must satisfy constraint: [{at_most(25)}, {at_least(1)}]")
    assert re.fullmatch(
        rf"1 validation error detected: Value '\{{jobs=\[.+\]\}}' at 'requestItems' "
        rf"failed to satisfy constraint: {values}",
        refusal("BatchWriteItem", {"RequestItems": {"jobs": requests}}),
    )


def test_a_batch_write_asks_for_each_requests_item_or_key() -> None:
    got = refusal("BatchWriteItem", {"RequestItems": {"abc": [{"PutRequest": {}, "DeleteRequest": {}}]}})
    assert got == listed(
        fault(None, "requestItems.abc.member.1.member.putRequest.item", NULL),
        fault(None, "requestItems.abc.member.1.member.deleteRequest.key", NULL),
    )


@pytest.mark.parametrize("operation", ["TransactGetItems", "TransactWriteItems"])
def test_a_transaction_has_from_one_to_a_hundred_actions(operation: str) -> None:
    assert refusal(operation, {"TransactItems": []}) == listed(fault("[]", "transactItems", at_least(1)))
    one = {"Get": {"TableName": "abc", "Key": {"a": {"S": "1"}}}}
    assert re.fullmatch(
        rf"1 validation error detected: Value '\[.+\]' at 'transactItems' failed to .*: {at_most(100)}",
        refusal(operation, {"TransactItems": [one] * 101}),
        re.DOTALL,
    )


def test_a_transaction_reports_its_token_before_its_enums() -> None:
    token = "x" * 37
    request = {
        "TransactItems": [{"Put": {"TableName": "abc", "Item": {}}}],
        "ClientRequestToken": token,
        "ReturnConsumedCapacity": "BOGUS",
        "ReturnItemCollectionMetrics": "BOGUS2",
    }
    assert refusal("TransactWriteItems", request) == listed(
        fault(token, "clientRequestToken", at_most(36)),
        fault("BOGUS", "returnConsumedCapacity", CAPACITY),
        fault("BOGUS2", "returnItemCollectionMetrics", METRICS),
    )


KEY = [{"AttributeName": "a", "KeyType": "HASH"}]
UNITS = {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}
POSITIVE = "Member must have value greater than or equal to 1"


def test_create_table_lists_what_is_missing() -> None:
    assert refusal("CreateTable", {"TableName": "abc;"}) == listed(
        fault(None, "attributeDefinitions", NULL),
        fault("abc;", "tableName", NAME),
        fault(None, "keySchema", NULL),
    )


def test_create_table_lists_throughput_before_the_key() -> None:
    request = {
        "TableName": "abc",
        "AttributeDefinitions": [],
        "KeySchema": [],
        "ProvisionedThroughput": {"ReadCapacityUnits": -1, "WriteCapacityUnits": -1},
        "BillingMode": "A",
    }
    assert refusal("CreateTable", request) == listed(
        fault("A", "billingMode", "Member must satisfy enum value set: [PROVISIONED, PAY_PER_REQUEST]"),
        fault("-1", "provisionedThroughput.writeCapacityUnits", POSITIVE),
        fault("-1", "provisionedThroughput.readCapacityUnits", POSITIVE),
        fault("[]", "keySchema", at_least(1)),
    )


def test_create_table_shows_a_key_schema_as_java_prints_it() -> None:
    schema = [{"KeyType": "HASH"}, {"AttributeName": "a"}, {"KeyType": "Woop", "AttributeName": "a"}]
    request = {"TableName": "abc", "AttributeDefinitions": [{"AttributeType": "SS"}], "KeySchema": schema}
    shown = (
        "[KeySchemaElement(attributeName=null, keyType=HASH), "
        "KeySchemaElement(attributeName=a, keyType=null), "
        "KeySchemaElement(attributeName=a, keyType=Woop)]"
    )
    assert refusal("CreateTable", request) == listed(
        fault(None, "attributeDefinitions.1.member.attributeName", NULL),
        fault(
            "SS",
            "attributeDefinitions.1.member.attributeType",
            "Member must satisfy enum value set: [B, N, S]",
        ),
        fault(shown, "keySchema", at_most(2)),
        fault(None, "keySchema.1.member.attributeName", NULL),
        fault(None, "keySchema.2.member.keyType", NULL),
        fault("Woop", "keySchema.3.member.keyType", "Member must satisfy enum value set: [HASH, RANGE]"),
    )


def test_create_table_lists_global_indexes_before_local_ones() -> None:
    index = {"KeySchema": KEY, "Projection": {}}
    request = {
        "TableName": "abc",
        "AttributeDefinitions": [],
        "KeySchema": KEY,
        "LocalSecondaryIndexes": [{"IndexName": "l1", **index}],
        "GlobalSecondaryIndexes": [{"IndexName": "g1", **index}],
    }
    assert refusal("CreateTable", request) == listed(
        fault("g1", "globalSecondaryIndexes.1.member.indexName", at_least(3)),
        fault("l1", "localSecondaryIndexes.1.member.indexName", at_least(3)),
    )


def test_ten_faults_of_empty_indexes_are_listed() -> None:
    request = {
        "TableName": "abc",
        "AttributeDefinitions": [],
        "KeySchema": KEY,
        "LocalSecondaryIndexes": [{}, {}, {}, {}, {}],
    }
    members = ("indexName", "keySchema", "projection")
    faults = [
        fault(None, f"localSecondaryIndexes.{place}.member.{member}", NULL)
        for place in range(1, 5)
        for member in members
    ]
    assert refusal("CreateTable", request) == listed(*faults[:10])


def test_an_index_update_names_its_index() -> None:
    where = "globalSecondaryIndexUpdates.1.member.update"
    request = {"TableName": "abc", "GlobalSecondaryIndexUpdates": [{"Update": {}}]}
    assert refusal("UpdateTable", request) == listed(fault(None, f"{where}.indexName", NULL))
    update = {"IndexName": "abc", "OnDemandThroughput": {"MaxReadRequestUnits": 5}}
    check("UpdateTable", {"TableName": "abc", "GlobalSecondaryIndexUpdates": [{"Update": update}]})


def test_statements_have_a_length() -> None:
    assert refusal("ExecuteStatement", {"Statement": ""}) == listed(fault("", "statement", at_least(1)))
    many = [{"Statement": "SELECT * FROM abc"}] * 26
    assert refusal("BatchExecuteStatement", {"Statements": many}).endswith(at_most(25))


def test_null_elements_are_named() -> None:
    assert refusal("CreateTable", {"TableName": "abc", "AttributeDefinitions": [None], "KeySchema": KEY}) == (
        listed(fault(None, "attributeDefinitions.1.member", NULL))
    )


def test_an_operation_that_does_not_exist_is_unknown() -> None:
    with pytest.raises(UnknownOperationException):
        check("BrewCoffee", {})


@pytest.mark.parametrize("levels", [40, 100, 20_000])
def test_a_value_nested_too_deep_is_left_to_be_refused_later(levels: int) -> None:
    value: dict[str, Any] = {"S": "leaf"}
    for _ in range(levels):
        value = {"M": {"n": value}}
    check("PutItem", {"TableName": "abc", "Item": {"a": value}})
    assert "enum value set" in refusal("PutItem", {"TableName": "abc", "Item": {"a": value}, "ReturnValues": "X"})
    requests = [{"PutRequest": {"Item": {"pk": value}}}] * 26
    assert "Map value" in refusal("BatchWriteItem", {"RequestItems": {"jobs": requests}})


def test_an_echoed_value_is_cut() -> None:
    item = {"pk": {"S": "x" * 300_000}}
    message = refusal("BatchWriteItem", {"RequestItems": {"jobs": [{"PutRequest": {"Item": item}}] * 26}})
    assert len(message) < 100_000
