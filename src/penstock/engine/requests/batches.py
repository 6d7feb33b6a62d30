"""Requests that name many items: batches and transactions."""

from __future__ import annotations

from typing import Any

import orjson

from penstock.engine.requests.common import (
    ATTRIBUTE_MAP,
    ATTRIBUTE_NAMES,
    ATTRIBUTES_TO_GET,
    COLLECTION_METRICS,
    CONSUMED_CAPACITY,
    FLAG,
    ON_CONDITION_FAILURE,
    TABLE,
    TABLE_NAMES,
    TEXT,
    TOKEN,
)
from penstock.engine.requests.structures import List, Map, Request, Required, Structure
from penstock.errors import ValidationException
from penstock.wire.limits import BATCH_GET_ITEMS, BATCH_WRITE_ITEMS, TRANSACTION_ACTIONS

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


_CONDITION_CHECK = Structure(
    "ConditionCheck",
    Key=Required(ATTRIBUTE_MAP),
    TableName=Required(TABLE),
    ConditionExpression=Required(TEXT),
    ExpressionAttributeNames=ATTRIBUTE_NAMES,
    ExpressionAttributeValues=ATTRIBUTE_MAP,
    ReturnValuesOnConditionCheckFailure=ON_CONDITION_FAILURE,
)
_PUT = Structure(
    "Put",
    Item=Required(ATTRIBUTE_MAP),
    TableName=Required(TABLE),
    ConditionExpression=TEXT,
    ExpressionAttributeNames=ATTRIBUTE_NAMES,
    ExpressionAttributeValues=ATTRIBUTE_MAP,
    ReturnValuesOnConditionCheckFailure=ON_CONDITION_FAILURE,
)
_DELETE = Structure(
    "Delete",
    Key=Required(ATTRIBUTE_MAP),
    TableName=Required(TABLE),
    ConditionExpression=TEXT,
    ExpressionAttributeNames=ATTRIBUTE_NAMES,
    ExpressionAttributeValues=ATTRIBUTE_MAP,
    ReturnValuesOnConditionCheckFailure=ON_CONDITION_FAILURE,
)
_UPDATE = Structure(
    "Update",
    Key=Required(ATTRIBUTE_MAP),
    UpdateExpression=Required(TEXT),
    TableName=Required(TABLE),
    ConditionExpression=TEXT,
    ExpressionAttributeNames=ATTRIBUTE_NAMES,
    ExpressionAttributeValues=ATTRIBUTE_MAP,
    ReturnValuesOnConditionCheckFailure=ON_CONDITION_FAILURE,
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


REQUESTS = {
    "BatchGetItem": Request(BATCH_GET_ITEM, lambda request: _items_first("BatchGetItem", request)),
    "BatchWriteItem": Request(BATCH_WRITE_ITEM, lambda request: _items_first("BatchWriteItem", request)),
    "TransactGetItems": Request(TRANSACT_GET_ITEMS),
    "TransactWriteItems": Request(TRANSACT_WRITE_ITEMS),
}
