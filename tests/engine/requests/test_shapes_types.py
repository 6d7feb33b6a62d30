"""JSON of the wrong type is refused in DynamoDB's words, wherever it stands in a request."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.engine.requests import REQUESTS, check, look_closely
from penstock.errors import SerializationException, ValidationException

MODEL = "com.amazonaws.dynamodb.v20120810."
STRUCTURE = "Start of structure or map found where not expected"
FIELD = "Unexpected field type"
PAYLOAD = "Unexpected value type in payload"
CAST = (
    "class sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl cannot be cast to class "
    "java.lang.Class (sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl and java.lang.Class are "
    "in module java.base of loader 'bootstrap')"
)
SCALARS: tuple[Any, ...] = ("23", True, 23, -2147483648, 2147483648, 34.56)


def _scalar(java: str, *, text: str | None) -> list[tuple[Any, str]]:
    cases: list[tuple[Any, str]] = [
        ([], f"Unrecognized collection type class java.lang.{java}"),
        ({}, STRUCTURE),
    ]
    if text is not None:
        cases.append(("23", text))
    return cases


def _numbers(java: str) -> list[tuple[Any, str]]:
    return [
        (23, f"NUMBER_VALUE cannot be converted to {java}"),
        (2147483648, f"NUMBER_VALUE cannot be converted to {java}"),
        (34.56, f"DECIMAL_VALUE cannot be converted to {java}"),
    ]


def _truths(java: str) -> list[tuple[Any, str]]:
    return [
        (True, f"TRUE_VALUE cannot be converted to {java}"),
        (False, f"FALSE_VALUE cannot be converted to {java}"),
    ]


def _every(message: str) -> list[tuple[Any, str]]:
    return [(value, message) for value in SCALARS]


def refusals(kind: str) -> list[tuple[Any, str]]:
    """What DynamoDB says to each wrong value of a member of this kind."""
    kind, _, of = kind.partition(" ")
    name = of if "." in of else MODEL + of
    match kind:
        case "String":
            return [*_scalar(kind, text=None), *_numbers(kind), *_truths(kind)]
        case "Boolean":
            return [*_scalar(kind, text="Unexpected token received from parser"), *_numbers(kind)]
        case "Integer" | "Long":
            return [*_scalar(kind, text=f"STRING_VALUE cannot be converted to {kind}"), *_truths(kind)]
        case "Blob":
            return [
                *[(v, "only base-64-encoded strings are convertible to bytes") for v in SCALARS[1:]],
                ([], "Unrecognized collection type class java.nio.ByteBuffer"),
                ({}, STRUCTURE),
                ("23456", "Base64 encoded length is expected a multiple of 4 bytes but found: 5"),
                ("=+/=", "Invalid last non-pad Base64 character dectected"),
                ("+/+=", "Invalid last non-pad Base64 character dectected"),
            ]
        case "List":
            return [*_every(FIELD), ({}, STRUCTURE)]
        case "NestedList":
            return [*_every(CAST), ({}, STRUCTURE)]
        case "Map":
            return [
                *_every(FIELD),
                ([], f"Unrecognized collection type java.util.Map<java.lang.String, {name}>"),
            ]
        case "NestedMap":
            return [
                *_every(CAST),
                ([], f"Unrecognized collection type java.util.Map<java.lang.String, {name}>"),
            ]
        case "Element":
            return [*_every(PAYLOAD), ([], f"Unrecognized collection type class {name}")]
        case "Member":
            return [*_every(FIELD), ([], f"Unrecognized collection type class {name}")]
    raise AssertionError(kind)


def value_members(path: str, outer: str) -> list[tuple[str, str]]:
    """The members of an attribute value that stands at `path`."""
    return [
        (path, f"{outer} AttributeValue"),
        (f"{path}.S", "String"),
        (f"{path}.N", "String"),
        (f"{path}.B", "Blob"),
        (f"{path}.BOOL", "Boolean"),
        (f"{path}.NULL", "Boolean"),
        (f"{path}.SS", "List"),
        (f"{path}.SS.0", "String"),
        (f"{path}.NS", "List"),
        (f"{path}.NS.0", "String"),
        (f"{path}.BS", "List"),
        (f"{path}.BS.0", "Blob"),
        (f"{path}.L", "List"),
        (f"{path}.L.0", "Element AttributeValue"),
        (f"{path}.L.0.BS.0", "Blob"),
        (f"{path}.M", "Map AttributeValue"),
        (f"{path}.M.a", "Element AttributeValue"),
        (f"{path}.M.a.BS", "List"),
    ]


EXPECTED = [
    ("Expected", "Map ExpectedAttributeValue"),
    ("Expected.a", "Element ExpectedAttributeValue"),
    ("Expected.a.Exists", "Boolean"),
    ("Expected.a.ComparisonOperator", "String"),
    ("Expected.a.AttributeValueList", "List"),
    *value_members("Expected.a.Value", "Member"),
    *value_members("Expected.a.AttributeValueList.0", "Element"),
]
CONDITION = [
    ("ConditionExpression", "String"),
    ("ConditionalOperator", "String"),
    ("ReturnConsumedCapacity", "String"),
    ("ReturnItemCollectionMetrics", "String"),
    ("ReturnValues", "String"),
    ("ExpressionAttributeNames", "Map java.lang.String"),
    ("ExpressionAttributeNames.a", "String"),
    ("ExpressionAttributeValues", "Map AttributeValue"),
    *value_members("ExpressionAttributeValues.:a", "Element"),
    *EXPECTED,
]
KEY = [("TableName", "String"), ("Key", "Map AttributeValue"), *value_members("Key.a", "Element")]


def _filters(name: str) -> list[tuple[str, str]]:
    return [
        (name, "Map Condition"),
        (f"{name}.a", "Element Condition"),
        (f"{name}.a.ComparisonOperator", "String"),
        (f"{name}.a.AttributeValueList", "List"),
        *value_members(f"{name}.a.AttributeValueList.0", "Element"),
    ]


def _index(path: str, name: str) -> list[tuple[str, str]]:
    return [
        (f"{path}.IndexName", "String"),
        (f"{path}.KeySchema", "List"),
        (f"{path}.KeySchema.0", "Element KeySchemaElement"),
        (f"{path}.KeySchema.0.AttributeName", "String"),
        (f"{path}.KeySchema.0.KeyType", "String"),
        (f"{path}.Projection", "Member Projection"),
        (f"{path}.Projection.ProjectionType", "String"),
        (f"{path}.Projection.NonKeyAttributes", "List"),
        (f"{path}.Projection.NonKeyAttributes.0", "String"),
    ]


def _throughput(path: str) -> list[tuple[str, str]]:
    return [
        (path, "Member ProvisionedThroughput"),
        (f"{path}.WriteCapacityUnits", "Long"),
        (f"{path}.ReadCapacityUnits", "Long"),
    ]


MEMBERS: dict[str, list[tuple[str, str]]] = {
    "GetItem": [
        *KEY,
        ("ConsistentRead", "Boolean"),
        ("AttributesToGet", "List"),
        ("AttributesToGet.0", "String"),
    ],
    "PutItem": [
        ("TableName", "String"),
        ("Item", "Map AttributeValue"),
        *value_members("Item.a", "Element"),
        *CONDITION,
    ],
    "DeleteItem": [*KEY, *CONDITION],
    "UpdateItem": [
        *KEY,
        *CONDITION,
        ("UpdateExpression", "String"),
        ("AttributeUpdates", "Map AttributeValueUpdate"),
        ("AttributeUpdates.a", "Element AttributeValueUpdate"),
        ("AttributeUpdates.a.Action", "String"),
        *value_members("AttributeUpdates.a.Value", "Member"),
    ],
    "Query": [
        ("Limit", "Integer"),
        ("ScanIndexForward", "Boolean"),
        ("IndexName", "String"),
        ("Select", "String"),
        ("ExclusiveStartKey", "Map AttributeValue"),
        *_filters("KeyConditions"),
        *_filters("QueryFilter"),
    ],
    "Scan": [("Segment", "Integer"), ("TotalSegments", "Integer"), *_filters("ScanFilter")],
    "BatchGetItem": [
        ("RequestItems", "Map KeysAndAttributes"),
        ("RequestItems.abc", "Element KeysAndAttributes"),
        ("RequestItems.abc.Keys", "List"),
        ("RequestItems.abc.Keys.0", "NestedMap AttributeValue"),
        *value_members("RequestItems.abc.Keys.0.a", "Element"),
        ("RequestItems.abc.ConsistentRead", "Boolean"),
    ],
    "BatchWriteItem": [
        ("RequestItems", "Map java.util.List<com.amazonaws.dynamodb.v20120810.WriteRequest>"),
        ("RequestItems.abc", "NestedList"),
        ("RequestItems.abc.0", "Element WriteRequest"),
        ("RequestItems.abc.0.DeleteRequest", "Member DeleteRequest"),
        ("RequestItems.abc.0.DeleteRequest.Key", "Map AttributeValue"),
        ("RequestItems.abc.0.PutRequest", "Member PutRequest"),
        *value_members("RequestItems.abc.0.PutRequest.Item.a", "Element"),
    ],
    "CreateTable": [
        ("TableName", "String"),
        ("BillingMode", "String"),
        ("AttributeDefinitions", "List"),
        ("AttributeDefinitions.0", "Element AttributeDefinition"),
        ("AttributeDefinitions.0.AttributeType", "String"),
        *_throughput("ProvisionedThroughput"),
        ("LocalSecondaryIndexes", "List"),
        ("LocalSecondaryIndexes.0", "Element LocalSecondaryIndex"),
        *_index("LocalSecondaryIndexes.0", "LocalSecondaryIndex"),
        ("GlobalSecondaryIndexes.0", "Element GlobalSecondaryIndex"),
        *_index("GlobalSecondaryIndexes.0", "GlobalSecondaryIndex"),
        *_throughput("GlobalSecondaryIndexes.0.ProvisionedThroughput"),
    ],
    "UpdateTable": [
        ("GlobalSecondaryIndexUpdates", "List"),
        ("GlobalSecondaryIndexUpdates.0", "Element GlobalSecondaryIndexUpdate"),
        ("GlobalSecondaryIndexUpdates.0.Update", "Member UpdateGlobalSecondaryIndexAction"),
        *_throughput("GlobalSecondaryIndexUpdates.0.Update.ProvisionedThroughput"),
        ("GlobalSecondaryIndexUpdates.0.Create", "Member CreateGlobalSecondaryIndexAction"),
        *_index("GlobalSecondaryIndexUpdates.0.Create", "CreateGlobalSecondaryIndexAction"),
        ("GlobalSecondaryIndexUpdates.0.Delete", "Member DeleteGlobalSecondaryIndexAction"),
    ],
    "ListTables": [("ExclusiveStartTableName", "String"), ("Limit", "Integer")],
    "TagResource": [("Tags", "List"), ("Tags.0", "Element Tag"), ("Tags.0.Key", "String")],
    "UntagResource": [("ResourceArn", "String"), ("TagKeys", "List"), ("TagKeys.0", "String")],
    "TransactWriteItems": [
        ("TransactItems", "List"),
        ("TransactItems.0", "Element TransactWriteItem"),
        ("TransactItems.0.Put", "Member Put"),
        *value_members("TransactItems.0.Put.Item.a", "Element"),
    ],
    "ExecuteStatement": [("Statement", "String"), *value_members("Parameters.0", "Element")],
    "GetRecords": [("ShardIterator", "String"), ("Limit", "Integer")],
}

CASES = [
    (operation, path, kind, value, message)
    for operation, members in MEMBERS.items()
    for path, kind in members
    for value, message in refusals(kind)
]


def request_with(path: str, value: Any) -> Any:
    """A request that holds nothing but `value` at `path`."""
    for piece in reversed(path.split(".")):
        value = [value] if piece == "0" else {piece: value}
    return value


def test_a_wrong_type_is_refused_in_the_words_of_its_place() -> None:
    wrong = []
    for operation, path, _, value, message in CASES:
        try:
            check(operation, request_with(path, value))
        except SerializationException as refused:
            if refused.message != message:
                wrong.append((operation, path, value, refused.message))
        except Exception as other:
            wrong.append((operation, path, value, repr(other)))
        else:
            wrong.append((operation, path, value, "accepted"))
    assert wrong == []


@pytest.mark.parametrize("operation", sorted(REQUESTS))
@pytest.mark.parametrize("body", [None, [], "text", 5, True, 1.5])
def test_a_request_that_is_no_object_is_refused_without_a_message(operation: str, body: Any) -> None:
    with pytest.raises(SerializationException) as refused:
        check(operation, body)
    assert refused.value.body() == {"__type": "com.amazon.coral.service#SerializationException"}


def test_words_for_truth_are_converted() -> None:
    request = {"TableName": "abc", "Key": {}, "ConsistentRead": "Yes"}
    assert check("GetItem", request)["ConsistentRead"] is True
    assert check("GetItem", {**request, "ConsistentRead": "0"})["ConsistentRead"] is False


def test_a_fraction_is_rounded_down_where_a_whole_number_is_asked_for() -> None:
    assert check("Scan", {"TableName": "abc", "Limit": 2.7})["Limit"] == 2
    search = {"TableName": "abc", "IndexName": "abc", "SearchVector": [{"N": "1"}], "TopK": 1.5}
    assert check("SearchVectors", search)["TopK"] == 1
    with pytest.raises(ValidationException, match="greater than or equal to 1"):
        check("SearchVectors", {**search, "TopK": 0.5})
    with pytest.raises(SerializationException, match="STRING_VALUE cannot be converted to Integer"):
        check("SearchVectors", {**search, "TopK": "1.5"})


@pytest.mark.parametrize("value", [1e300, 10**40, -(10**40), float("nan"), True, "today"])
def test_a_time_lies_within_the_years_that_there_are(value: Any) -> None:
    with pytest.raises(SerializationException, match="cannot be converted to Date"):
        check("ListBackups", {"TimeRangeLowerBound": value})


def test_nulls_are_as_good_as_absent() -> None:
    request = check("Scan", {"TableName": "abc", "Limit": None, "ExclusiveStartKey": None})
    assert request == {"TableName": "abc"}


def test_types_of_value_that_do_not_exist_leave_the_value_empty() -> None:
    request = {"TableName": "abc", "Item": {"a": {"a": ""}, "b": None, "c": {"S": None}}}
    item = look_closely("PutItem", request)["Item"]
    assert item == {"a": {}, "b": {}, "c": {}}


def test_unknown_members_are_ignored() -> None:
    request = {"TableName": "abc", "Key": {"a": {"S": "1"}}, "Hello": ["there"]}
    assert check("GetItem", request) == {"TableName": "abc", "Key": {"a": {"S": "1"}}}


def test_a_right_request_is_returned_as_it_came() -> None:
    value = {"L": [{"M": {"x": {"BS": ["YQ=="]}}}, {"NULL": True}, {"NS": ["1"]}, {"BOOL": False}, {"B": ""}]}
    request = {"TableName": "abc", "Item": {"a": {"S": "1"}, "n": {"N": "1"}, "l": value}}
    assert check("PutItem", request) is request


def test_a_table_may_be_named_by_its_arn() -> None:
    arn = "arn:aws:dynamodb:us-east-1:000000000000:table/jobs"
    check("GetItem", {"TableName": arn, "Key": {}})
    check("DescribeTable", {"TableName": arn})
    check("BatchGetItem", {"RequestItems": {arn: {"Keys": [{"a": {"S": "1"}}]}}})
