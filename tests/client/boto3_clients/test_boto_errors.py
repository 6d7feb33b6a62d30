"""DynamoDB's errors as boto3 raises them."""

from __future__ import annotations

import json

import botocore.session
import pytest
from botocore.exceptions import ClientError
from botocore.parsers import create_parser

from penstock import errors


def test_a_failed_condition_has_its_own_exception_and_the_item(dynamodb, jobs):
    item = {"id": {"S": "1"}, "at": {"N": "1"}, "b": {"B": b"hi"}}
    dynamodb.put_item(TableName=jobs, Item=item)
    with pytest.raises(dynamodb.exceptions.ConditionalCheckFailedException) as failed:
        dynamodb.put_item(
            TableName=jobs,
            Item=item,
            ConditionExpression="attribute_not_exists(id)",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    response = failed.value.response
    assert response["Error"]["Code"] == "ConditionalCheckFailedException"
    assert response["Error"]["Message"] == response["message"] == "The conditional request failed"
    assert response["Item"] == item
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert response["ResponseMetadata"]["RetryAttempts"] == 0
    assert failed.value.operation_name == "PutItem"


def test_a_missing_table_has_its_own_exception(dynamodb):
    with pytest.raises(dynamodb.exceptions.ResourceNotFoundException, match="Requested resource not found"):
        dynamodb.get_item(TableName="jobs", Key={"id": {"S": "1"}})


def test_a_validation_error_is_a_client_error(dynamodb, jobs):
    with pytest.raises(ClientError, match=r"\(ValidationException\) when calling the GetItem operation"):
        dynamodb.get_item(TableName=jobs, Key={"id": {"S": "1"}})


def test_a_cancelled_transaction_gives_its_reasons(dynamodb, jobs):
    item = {"id": {"S": "1"}, "at": {"N": "1"}}
    dynamodb.put_item(TableName=jobs, Item=item)
    put = {"TableName": jobs, "Item": item, "ConditionExpression": "attribute_not_exists(id)"}
    with pytest.raises(dynamodb.exceptions.TransactionCanceledException) as cancelled:
        dynamodb.transact_write_items(TransactItems=[{"Put": put}])
    assert cancelled.value.response["CancellationReasons"] == [
        {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"}
    ]


def test_an_operation_that_is_not_there_says_so(dynamodb, jobs):
    stream = "arn:aws:kinesis:us-east-1:000000000000:stream/changes"
    with pytest.raises(ClientError, match="EnableKinesisStreamingDestination") as refused:
        dynamodb.enable_kinesis_streaming_destination(TableName=jobs, StreamArn=stream)
    assert refused.value.response["Error"]["Code"] == "UnknownOperationException"


def test_a_hook_sees_an_error(dynamodb):
    seen = []
    dynamodb.meta.events.register(
        "after-call.dynamodb",
        lambda http_response, parsed, **_: seen.append((http_response.status_code, parsed)),
    )
    with pytest.raises(ClientError):
        dynamodb.describe_table(TableName="jobs")
    [(status, parsed)] = seen
    assert status == 400
    assert parsed["Error"]["Code"] == "ResourceNotFoundException"


CASES = [
    errors.ValidationException("no"),
    errors.ConditionalCheckFailedException("no", Item={"b": {"B": "aGk="}}),
    errors.TransactionCanceledException(
        "no", CancellationReasons=[{"Code": "None"}, {"Code": "X", "Item": {"b": {"BS": ["aGk="]}}}]
    ),
    errors.IdempotentParameterMismatchException("no"),
    errors.ResourceNotFoundException("no"),
    errors.SerializationException("no"),
    errors.InternalServerError("no"),
    errors.ProvisionedThroughputExceededException("no", ThrottlingReasons=[{"reason": "r", "resource": "a"}]),
]


@pytest.mark.parametrize("error", CASES, ids=lambda error: error.code)
def test_an_error_is_parsed_as_botocore_parses_its_body(dynamodb, error):
    service = botocore.session.Session().get_service_model("dynamodb")
    parser = create_parser("json")
    answer = {"status_code": error.status, "headers": {}, "body": json.dumps(error.body()).encode()}
    expected = parser.parse(answer, None)
    shape = service.shape_for_error_code(error.code)
    if shape is not None:
        expected.update(parser.parse(answer, shape))
    expected.pop("ResponseMetadata")
    assert dynamodb._error(error) == expected
