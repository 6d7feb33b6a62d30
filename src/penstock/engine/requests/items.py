"""Requests that read and write items: one, many by Query and Scan, batches, transactions, PartiQL."""

from __future__ import annotations

from typing import Any

import orjson

from penstock.engine.requests import error_wording
from penstock.engine.requests.scalars import Enum, Integer, Shape, String
from penstock.engine.requests.shapes import (
    ATTRIBUTE_MAP,
    ATTRIBUTE_NAMES,
    ATTRIBUTES_TO_GET,
    COLLECTION_METRICS,
    CONDITIONAL_OPERATOR,
    CONDITIONS,
    CONSUMED_CAPACITY,
    EXPECTED,
    FLAG,
    INDEX_NAME,
    ON_CONDITION_FAILURE,
    RETURN_VALUES,
    TABLE,
    TABLE_NAMES,
    TEXT,
    TOKEN,
    VALUE,
    AttributeList,
    ItemToPut,
    List,
    Map,
    Request,
    Required,
    Structure,
    TableName,
)
from penstock.errors import ValidationException
from penstock.wire.limits import BATCH_GET_ITEMS, BATCH_WRITE_ITEMS, TRANSACTION_ACTIONS

_NAME_OF_WRITE = TableName(empty_alone=True)
_SELECT = Enum("SPECIFIC_ATTRIBUTES", "COUNT", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES")

GET_ITEM = Structure(
    "GetItemInput",
    ReturnConsumedCapacity=CONSUMED_CAPACITY,
    AttributesToGet=ATTRIBUTES_TO_GET,
    TableName=Required(TABLE),
    Key=Required(ATTRIBUTE_MAP),
    ConsistentRead=FLAG,
    ProjectionExpression=TEXT,
    ExpressionAttributeNames=ATTRIBUTE_NAMES,
)

PUT_ITEM = Structure(
    "PutItemInput",
    ReturnConsumedCapacity=CONSUMED_CAPACITY,
    TableName=Required(_NAME_OF_WRITE),
    Item=Required(ItemToPut()),
    ConditionalOperator=CONDITIONAL_OPERATOR,
    Expected=EXPECTED,
    ReturnValues=RETURN_VALUES,
    ReturnItemCollectionMetrics=COLLECTION_METRICS,
    ReturnValuesOnConditionCheckFailure=ON_CONDITION_FAILURE,
    ConditionExpression=TEXT,
    ExpressionAttributeValues=ATTRIBUTE_MAP,
    ExpressionAttributeNames=ATTRIBUTE_NAMES,
)

DELETE_ITEM = Structure(
    "DeleteItemInput",
    ReturnConsumedCapacity=CONSUMED_CAPACITY,
    TableName=Required(TABLE),
    ReturnValues=RETURN_VALUES,
    ReturnItemCollectionMetrics=COLLECTION_METRICS,
    ReturnValuesOnConditionCheckFailure=ON_CONDITION_FAILURE,
    Key=Required(ATTRIBUTE_MAP),
    ConditionalOperator=CONDITIONAL_OPERATOR,
    Expected=EXPECTED,
    ConditionExpression=TEXT,
    ExpressionAttributeValues=ATTRIBUTE_MAP,
    ExpressionAttributeNames=ATTRIBUTE_NAMES,
)

UPDATE_ITEM = Structure(
    "UpdateItemInput",
    ReturnConsumedCapacity=CONSUMED_CAPACITY,
    TableName=Required(_NAME_OF_WRITE),
    ReturnItemCollectionMetrics=COLLECTION_METRICS,
    ReturnValues=RETURN_VALUES,
    ReturnValuesOnConditionCheckFailure=ON_CONDITION_FAILURE,
    ConditionalOperator=CONDITIONAL_OPERATOR,
    Key=Required(ATTRIBUTE_MAP),
    Expected=EXPECTED,
    AttributeUpdates=Map(
        Structure("AttributeValueUpdate", Action=Enum("ADD", "PUT", "DELETE"), Value=VALUE),
    ),
    ConditionExpression=TEXT,
    UpdateExpression=TEXT,
    ExpressionAttributeValues=ATTRIBUTE_MAP,
    ExpressionAttributeNames=ATTRIBUTE_NAMES,
)

QUERY = Structure(
    "QueryInput",
    Select=_SELECT,
    IndexName=INDEX_NAME,
    ReturnConsumedCapacity=CONSUMED_CAPACITY,
    QueryFilter=CONDITIONS,
    TableName=Required(TABLE),
    ConditionalOperator=CONDITIONAL_OPERATOR,
    AttributesToGet=ATTRIBUTES_TO_GET,
    Limit=Integer(1, newer=True),
    KeyConditions=CONDITIONS,
    ExclusiveStartKey=ATTRIBUTE_MAP,
    ConsistentRead=FLAG,
    ScanIndexForward=FLAG,
    KeyConditionExpression=TEXT,
    FilterExpression=TEXT,
    ProjectionExpression=TEXT,
    ExpressionAttributeValues=ATTRIBUTE_MAP,
    ExpressionAttributeNames=ATTRIBUTE_NAMES,
)

SCAN = Structure(
    "ScanInput",
    Select=_SELECT,
    IndexName=INDEX_NAME,
    TotalSegments=Integer(1, 1_000_000),
    ReturnConsumedCapacity=CONSUMED_CAPACITY,
    TableName=Required(TABLE),
    ConditionalOperator=CONDITIONAL_OPERATOR,
    ScanFilter=CONDITIONS,
    Segment=Integer(0, 999_999),
    Limit=Integer(1),
    AttributesToGet=ATTRIBUTES_TO_GET,
    ExclusiveStartKey=ATTRIBUTE_MAP,
    ConsistentRead=FLAG,
    FilterExpression=TEXT,
    ProjectionExpression=TEXT,
    ExpressionAttributeValues=ATTRIBUTE_MAP,
    ExpressionAttributeNames=ATTRIBUTE_NAMES,
)

_ONE_ITEM = {
    "GetItem": Request(GET_ITEM),
    "PutItem": Request(PUT_ITEM, layer=error_wording.faults_of_write),
    "DeleteItem": Request(DELETE_ITEM, layer=error_wording.faults_of_write),
    "UpdateItem": Request(UPDATE_ITEM, layer=error_wording.faults_of_write),
    "Query": Request(QUERY, layer=error_wording.faults_of_query),
    "Scan": Request(SCAN),
}


# ── batches and transactions ──────────────────────────────────────────────────────────────────────


_KEYS_AND_ATTRIBUTES = Structure(
    "KeysAndAttributes",
    Keys=Required(List(ATTRIBUTE_MAP, 1, BATCH_GET_ITEMS, newer=True)),
    AttributesToGet=ATTRIBUTES_TO_GET,
    ConsistentRead=FLAG,
    ProjectionExpression=TEXT,
    ExpressionAttributeNames=ATTRIBUTE_NAMES,
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
    ReturnConsumedCapacity=CONSUMED_CAPACITY,
)

_WRITE_REQUEST = Structure(
    "WriteRequest",
    PutRequest=Structure("PutRequest", Item=Required(ATTRIBUTE_MAP)),
    DeleteRequest=Structure("DeleteRequest", Key=Required(ATTRIBUTE_MAP)),
)

BATCH_WRITE_ITEM = Structure(
    "BatchWriteItemInput",
    ReturnConsumedCapacity=CONSUMED_CAPACITY,
    ReturnItemCollectionMetrics=COLLECTION_METRICS,
    RequestItems=Required(Map(List(_WRITE_REQUEST), 1, names=TABLE_NAMES, values=(1, BATCH_WRITE_ITEMS), late=True)),
)

_GET = Structure(
    "Get",
    Key=Required(ATTRIBUTE_MAP),
    TableName=Required(TABLE),
    ProjectionExpression=TEXT,
    ExpressionAttributeNames=ATTRIBUTE_NAMES,
)

TRANSACT_GET_ITEMS = Structure(
    "TransactGetItemsInput",
    ReturnConsumedCapacity=CONSUMED_CAPACITY,
    TransactItems=Required(List(Structure("TransactGetItem", Get=Required(_GET)), 1, TRANSACTION_ACTIONS)),
)


_CONDITION: dict[str, Shape | Required] = {
    "ConditionExpression": TEXT,
    "ExpressionAttributeNames": ATTRIBUTE_NAMES,
    "ExpressionAttributeValues": ATTRIBUTE_MAP,
    "ReturnValuesOnConditionCheckFailure": ON_CONDITION_FAILURE,
}
_KEY_AND_TABLE: dict[str, Shape | Required] = {"Key": Required(ATTRIBUTE_MAP), "TableName": Required(TABLE)}
_CONDITION_CHECK = Structure(
    "ConditionCheck", **{**_KEY_AND_TABLE, **_CONDITION, "ConditionExpression": Required(TEXT)}
)
_PUT = Structure("Put", Item=Required(ATTRIBUTE_MAP), TableName=Required(TABLE), **_CONDITION)
_DELETE = Structure("Delete", **_KEY_AND_TABLE, **_CONDITION)
_UPDATE = Structure(
    "Update",
    Key=Required(ATTRIBUTE_MAP),
    UpdateExpression=Required(TEXT),
    TableName=Required(TABLE),
    **_CONDITION,
)
_TRANSACT_WRITE = Structure(
    "TransactWriteItem", ConditionCheck=_CONDITION_CHECK, Put=_PUT, Delete=_DELETE, Update=_UPDATE
)

TRANSACT_WRITE_ITEMS = Structure(
    "TransactWriteItemsInput",
    ClientRequestToken=TOKEN,
    ReturnConsumedCapacity=CONSUMED_CAPACITY,
    ReturnItemCollectionMetrics=COLLECTION_METRICS,
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
    ReturnConsumedCapacity=CONSUMED_CAPACITY,
    Statement=Required(_STATEMENT),
    Parameters=_PARAMETERS,
    ConsistentRead=FLAG,
    NextToken=String(1, 32768),
    Limit=Integer(1),
    ReturnValuesOnConditionCheckFailure=ON_CONDITION_FAILURE,
)

BATCH_EXECUTE_STATEMENT = Structure(
    "BatchExecuteStatementInput",
    ReturnConsumedCapacity=CONSUMED_CAPACITY,
    Statements=Required(
        List(
            Structure(
                "BatchStatementRequest",
                Statement=Required(_STATEMENT),
                Parameters=_PARAMETERS,
                ConsistentRead=FLAG,
                ReturnValuesOnConditionCheckFailure=ON_CONDITION_FAILURE,
            ),
            1,
            BATCH_WRITE_ITEMS,
        )
    ),
)

EXECUTE_TRANSACTION = Structure(
    "ExecuteTransactionInput",
    ClientRequestToken=TOKEN,
    ReturnConsumedCapacity=CONSUMED_CAPACITY,
    TransactStatements=Required(
        List(
            Structure(
                "ParameterizedStatement",
                Statement=Required(_STATEMENT),
                Parameters=_PARAMETERS,
                ReturnValuesOnConditionCheckFailure=ON_CONDITION_FAILURE,
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
