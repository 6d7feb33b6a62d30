"""Requests that read and write items: one, many by Query and Scan, batches, transactions, PartiQL."""

from __future__ import annotations

import json
from typing import Any

import orjson

from penstock.engine.requests import error_wording
from penstock.engine.requests.shapes import (
    FLAG,
    INDEX_NAME,
    TABLE,
    TABLE_NAMES,
    TEXT,
    VALUE,
    AttributeList,
    AttributeMap,
    Enum,
    Integer,
    ItemToPut,
    List,
    Map,
    Request,
    Required,
    Shape,
    String,
    Structure,
    TableName,
)
from penstock.errors import SerializationException, ValidationException
from penstock.wire.limits import BATCH_GET_ITEMS, BATCH_WRITE_ITEMS, TRANSACTION_ACTIONS, VECTOR_DIMENSIONS

_ATTRIBUTE_MAP = AttributeMap()
_ATTRIBUTE_NAMES = Map(TEXT)
_ATTRIBUTES_TO_GET = List(TEXT, 1, 255)

_CONSUMED_CAPACITY = Enum("INDEXES", "TOTAL", "NONE")
_COLLECTION_METRICS = Enum("SIZE", "NONE")
_RETURN_VALUES = Enum("ALL_NEW", "UPDATED_OLD", "ALL_OLD", "NONE", "UPDATED_NEW")
_ON_CONDITION_FAILURE = Enum("ALL_OLD", "NONE")
_CONDITIONAL_OPERATOR = Enum("OR", "AND")
_COMPARISON = Enum(
    "IN", "NULL", "BETWEEN", "LT", "NOT_CONTAINS", "EQ", "GT", "NOT_NULL", "NE", "LE", "BEGINS_WITH", "GE", "CONTAINS"
)
_TOKEN = String(1, 36)

_EXPECTED = Map(
    Structure(
        "ExpectedAttributeValue",
        AttributeValueList=AttributeList(),
        ComparisonOperator=_COMPARISON,
        Exists=FLAG,
        Value=VALUE,
    )
)
_CONDITIONS = Map(Structure("Condition", AttributeValueList=AttributeList(), ComparisonOperator=Required(_COMPARISON)))
_NAME_OF_WRITE = TableName(empty_alone=True)
_SELECT = Enum("SPECIFIC_ATTRIBUTES", "COUNT", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES")

GET_ITEM = Structure(
    "GetItemInput",
    ReturnConsumedCapacity=_CONSUMED_CAPACITY,
    AttributesToGet=_ATTRIBUTES_TO_GET,
    TableName=Required(TABLE),
    Key=Required(_ATTRIBUTE_MAP),
    ConsistentRead=FLAG,
    ProjectionExpression=TEXT,
    ExpressionAttributeNames=_ATTRIBUTE_NAMES,
)

PUT_ITEM = Structure(
    "PutItemInput",
    ReturnConsumedCapacity=_CONSUMED_CAPACITY,
    TableName=Required(_NAME_OF_WRITE),
    Item=Required(ItemToPut()),
    ConditionalOperator=_CONDITIONAL_OPERATOR,
    Expected=_EXPECTED,
    ReturnValues=_RETURN_VALUES,
    ReturnItemCollectionMetrics=_COLLECTION_METRICS,
    ReturnValuesOnConditionCheckFailure=_ON_CONDITION_FAILURE,
    ConditionExpression=TEXT,
    ExpressionAttributeValues=_ATTRIBUTE_MAP,
    ExpressionAttributeNames=_ATTRIBUTE_NAMES,
)

DELETE_ITEM = Structure(
    "DeleteItemInput",
    ReturnConsumedCapacity=_CONSUMED_CAPACITY,
    TableName=Required(TABLE),
    ReturnValues=_RETURN_VALUES,
    ReturnItemCollectionMetrics=_COLLECTION_METRICS,
    ReturnValuesOnConditionCheckFailure=_ON_CONDITION_FAILURE,
    Key=Required(_ATTRIBUTE_MAP),
    ConditionalOperator=_CONDITIONAL_OPERATOR,
    Expected=_EXPECTED,
    ConditionExpression=TEXT,
    ExpressionAttributeValues=_ATTRIBUTE_MAP,
    ExpressionAttributeNames=_ATTRIBUTE_NAMES,
)

UPDATE_ITEM = Structure(
    "UpdateItemInput",
    ReturnConsumedCapacity=_CONSUMED_CAPACITY,
    TableName=Required(_NAME_OF_WRITE),
    ReturnItemCollectionMetrics=_COLLECTION_METRICS,
    ReturnValues=_RETURN_VALUES,
    ReturnValuesOnConditionCheckFailure=_ON_CONDITION_FAILURE,
    ConditionalOperator=_CONDITIONAL_OPERATOR,
    Key=Required(_ATTRIBUTE_MAP),
    Expected=_EXPECTED,
    AttributeUpdates=Map(
        Structure("AttributeValueUpdate", Action=Enum("ADD", "PUT", "DELETE"), Value=VALUE),
    ),
    ConditionExpression=TEXT,
    UpdateExpression=TEXT,
    ExpressionAttributeValues=_ATTRIBUTE_MAP,
    ExpressionAttributeNames=_ATTRIBUTE_NAMES,
)

QUERY = Structure(
    "QueryInput",
    Select=_SELECT,
    IndexName=INDEX_NAME,
    ReturnConsumedCapacity=_CONSUMED_CAPACITY,
    QueryFilter=_CONDITIONS,
    TableName=Required(TABLE),
    ConditionalOperator=_CONDITIONAL_OPERATOR,
    AttributesToGet=_ATTRIBUTES_TO_GET,
    Limit=Integer(1, newer=True),
    KeyConditions=_CONDITIONS,
    ExclusiveStartKey=_ATTRIBUTE_MAP,
    ConsistentRead=FLAG,
    ScanIndexForward=FLAG,
    KeyConditionExpression=TEXT,
    FilterExpression=TEXT,
    ProjectionExpression=TEXT,
    ExpressionAttributeValues=_ATTRIBUTE_MAP,
    ExpressionAttributeNames=_ATTRIBUTE_NAMES,
)

SCAN = Structure(
    "ScanInput",
    Select=_SELECT,
    IndexName=INDEX_NAME,
    TotalSegments=Integer(1, 1_000_000),
    ReturnConsumedCapacity=_CONSUMED_CAPACITY,
    TableName=Required(TABLE),
    ConditionalOperator=_CONDITIONAL_OPERATOR,
    ScanFilter=_CONDITIONS,
    Segment=Integer(0, 999_999),
    Limit=Integer(1),
    AttributesToGet=_ATTRIBUTES_TO_GET,
    ExclusiveStartKey=_ATTRIBUTE_MAP,
    ConsistentRead=FLAG,
    FilterExpression=TEXT,
    ProjectionExpression=TEXT,
    ExpressionAttributeValues=_ATTRIBUTE_MAP,
    ExpressionAttributeNames=_ATTRIBUTE_NAMES,
)

SEARCH_VECTORS = Structure(
    "SearchVectorsInput",
    TableName=Required(TABLE),
    IndexName=Required(INDEX_NAME),
    SearchVector=Required(AttributeList(1, VECTOR_DIMENSIONS)),
    TopK=Required(Integer(1)),  # the most is for its operation to say
    SearchConditionExpression=TEXT,
    ProjectionExpression=TEXT,
    ExpressionAttributeNames=_ATTRIBUTE_NAMES,
    ExpressionAttributeValues=_ATTRIBUTE_MAP,
    ReturnConsumedCapacity=_CONSUMED_CAPACITY,
)


def _refuse_as_strict_reader(request: dict[str, Any]) -> None:
    """What the reader of SearchVectors, which is newer than the others', says of a request without its table."""
    if "TableName" not in request:
        raise ValidationException(f"missing field `TableName` at line 1 column {len(_request_text(request))}")


def _request_text(request: dict[str, Any]) -> str:
    """The request as it may have been sent. Only places in it are told, so it need not be the very same."""
    return json.dumps(request, separators=(",", ":"), ensure_ascii=False, default=str)


class _Strict(Request):
    """Refuses null members, which the other operations leave out."""

    _EXPECTED = {"SearchVector": "a sequence", "TopK": "i32"}  # noqa: RUF012

    def look_closely(self, request: Any) -> dict[str, Any]:
        if isinstance(request, dict):
            for member, value in request.items():
                if value is None and member in self.structure.members:
                    column = _request_text(request).index(f'"{member}":null') + len(f'"{member}":null')
                    expected = self._EXPECTED.get(member, "a string")
                    raise SerializationException(f"invalid type: null, expected {expected} at line 1 column {column}")
        return super().look_closely(request)


_ONE_ITEM = {
    "SearchVectors": _Strict(SEARCH_VECTORS, _refuse_as_strict_reader),
    "GetItem": Request(GET_ITEM),
    "PutItem": Request(PUT_ITEM, layer=error_wording.faults_of_write),
    "DeleteItem": Request(DELETE_ITEM, layer=error_wording.faults_of_write),
    "UpdateItem": Request(UPDATE_ITEM, layer=error_wording.faults_of_update),
    "Query": Request(QUERY, layer=error_wording.faults_of_query),
    "Scan": Request(SCAN),
}


# ── batches and transactions ──────────────────────────────────────────────────────────────────────


_KEYS_AND_ATTRIBUTES = Structure(
    "KeysAndAttributes",
    Keys=Required(List(_ATTRIBUTE_MAP, 1, BATCH_GET_ITEMS, newer=True)),
    AttributesToGet=_ATTRIBUTES_TO_GET,
    ConsistentRead=FLAG,
    ProjectionExpression=TEXT,
    ExpressionAttributeNames=_ATTRIBUTE_NAMES,
)


class _ShownAsJson(Map):
    """BatchGetItem is alone in echoing its request as JSON."""

    def render(self, value: Any) -> str:
        try:
            return orjson.dumps(value).decode()
        except orjson.JSONEncodeError:  # deeper than orjson goes
            return "…"


BATCH_GET_ITEM = Structure(
    "BatchGetItemInput",
    RequestItems=Required(_ShownAsJson(_KEYS_AND_ATTRIBUTES, 1, names=TABLE_NAMES)),
    ReturnConsumedCapacity=_CONSUMED_CAPACITY,
)

_WRITE_REQUEST = Structure(
    "WriteRequest",
    PutRequest=Structure("PutRequest", Item=Required(_ATTRIBUTE_MAP)),
    DeleteRequest=Structure("DeleteRequest", Key=Required(_ATTRIBUTE_MAP)),
)

BATCH_WRITE_ITEM = Structure(
    "BatchWriteItemInput",
    ReturnConsumedCapacity=_CONSUMED_CAPACITY,
    ReturnItemCollectionMetrics=_COLLECTION_METRICS,
    RequestItems=Required(Map(List(_WRITE_REQUEST), 1, names=TABLE_NAMES, values=(1, BATCH_WRITE_ITEMS), late=True)),
)

_GET = Structure(
    "Get",
    Key=Required(_ATTRIBUTE_MAP),
    TableName=Required(TABLE),
    ProjectionExpression=TEXT,
    ExpressionAttributeNames=_ATTRIBUTE_NAMES,
)

TRANSACT_GET_ITEMS = Structure(
    "TransactGetItemsInput",
    ReturnConsumedCapacity=_CONSUMED_CAPACITY,
    TransactItems=Required(List(Structure("TransactGetItem", Get=Required(_GET)), 1, TRANSACTION_ACTIONS)),
)


_CONDITION: dict[str, Shape | Required] = {
    "ConditionExpression": TEXT,
    "ExpressionAttributeNames": _ATTRIBUTE_NAMES,
    "ExpressionAttributeValues": _ATTRIBUTE_MAP,
    "ReturnValuesOnConditionCheckFailure": _ON_CONDITION_FAILURE,
}
_KEY_AND_TABLE: dict[str, Shape | Required] = {"Key": Required(_ATTRIBUTE_MAP), "TableName": Required(TABLE)}
_CONDITION_CHECK = Structure(
    "ConditionCheck", **{**_KEY_AND_TABLE, **_CONDITION, "ConditionExpression": Required(TEXT)}
)
_PUT = Structure("Put", Item=Required(_ATTRIBUTE_MAP), TableName=Required(TABLE), **_CONDITION)
_DELETE = Structure("Delete", **_KEY_AND_TABLE, **_CONDITION)
_UPDATE = Structure(
    "Update",
    Key=Required(_ATTRIBUTE_MAP),
    UpdateExpression=Required(TEXT),
    TableName=Required(TABLE),
    **_CONDITION,
)
_TRANSACT_WRITE = Structure(
    "TransactWriteItem", ConditionCheck=_CONDITION_CHECK, Put=_PUT, Delete=_DELETE, Update=_UPDATE
)

TRANSACT_WRITE_ITEMS = Structure(
    "TransactWriteItemsInput",
    ClientRequestToken=_TOKEN,
    ReturnConsumedCapacity=_CONSUMED_CAPACITY,
    ReturnItemCollectionMetrics=_COLLECTION_METRICS,
    TransactItems=Required(List(_TRANSACT_WRITE, 1, TRANSACTION_ACTIONS)),
)


def _items_first(operation: str, request: dict[str, Any]) -> None:
    if request.get("RequestItems") == {}:
        raise ValidationException(f"The requestItems parameter is required for {operation}")


_MANY_ITEMS = {
    "BatchGetItem": Request(BATCH_GET_ITEM, lambda request: _items_first("BatchGetItem", request)),
    "BatchWriteItem": Request(BATCH_WRITE_ITEM, lambda request: _items_first("BatchWriteItem", request)),
    "TransactGetItems": Request(TRANSACT_GET_ITEMS),
    "TransactWriteItems": Request(TRANSACT_WRITE_ITEMS),
}


# ── PartiQL ───────────────────────────────────────────────────────────────────────────────────────


_STATEMENT = String(1, 8192)
_PARAMETERS = AttributeList(1)

EXECUTE_STATEMENT = Structure(
    "ExecuteStatementInput",
    ReturnConsumedCapacity=_CONSUMED_CAPACITY,
    Statement=Required(_STATEMENT),
    Parameters=_PARAMETERS,
    ConsistentRead=FLAG,
    NextToken=String(1, 32768),
    Limit=Integer(1),
    ReturnValuesOnConditionCheckFailure=_ON_CONDITION_FAILURE,
)

BATCH_EXECUTE_STATEMENT = Structure(
    "BatchExecuteStatementInput",
    ReturnConsumedCapacity=_CONSUMED_CAPACITY,
    Statements=Required(
        List(
            Structure(
                "BatchStatementRequest",
                Statement=Required(_STATEMENT),
                Parameters=_PARAMETERS,
                ConsistentRead=FLAG,
                ReturnValuesOnConditionCheckFailure=_ON_CONDITION_FAILURE,
            ),
            1,
            BATCH_WRITE_ITEMS,
        )
    ),
)

EXECUTE_TRANSACTION = Structure(
    "ExecuteTransactionInput",
    ClientRequestToken=_TOKEN,
    ReturnConsumedCapacity=_CONSUMED_CAPACITY,
    TransactStatements=Required(
        List(
            Structure(
                "ParameterizedStatement",
                Statement=Required(_STATEMENT),
                Parameters=_PARAMETERS,
                ReturnValuesOnConditionCheckFailure=_ON_CONDITION_FAILURE,
            ),
            1,
            TRANSACTION_ACTIONS,
        )
    ),
)

_STATEMENTS = {
    "ExecuteStatement": Request(EXECUTE_STATEMENT),
    "BatchExecuteStatement": Request(BATCH_EXECUTE_STATEMENT),
    "ExecuteTransaction": Request(EXECUTE_TRANSACTION),
}

REQUESTS = {**_ONE_ITEM, **_MANY_ITEMS, **_STATEMENTS}
