"""Requests that read or write one item, and those that read many by Query and Scan."""

from __future__ import annotations

from penstock.engine.requests import error_wording
from penstock.engine.requests.attribute_values import VALUE, ItemToPut
from penstock.engine.requests.common import (
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
    TEXT,
    TableName,
)
from penstock.engine.requests.shapes import Enum, Integer
from penstock.engine.requests.structures import Map, Request, Required, Structure

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

REQUESTS = {
    "GetItem": Request(GET_ITEM),
    "PutItem": Request(PUT_ITEM, layer=error_wording.faults_of_write),
    "DeleteItem": Request(DELETE_ITEM, layer=error_wording.faults_of_write),
    "UpdateItem": Request(UPDATE_ITEM, layer=error_wording.faults_of_write),
    "Query": Request(QUERY, layer=error_wording.faults_of_query),
    "Scan": Request(SCAN),
}
