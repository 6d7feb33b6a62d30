"""Every operation of DynamoDB's model is done, described or refused by name, as docs/operations.md says."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import botocore
import pytest

from penstock.engine import Engine
from penstock.engine.operations import load
from penstock.engine.registry import OPERATIONS
from penstock.errors import (
    DynamoDBError,
    GlobalTableNotFoundException,
    ResourceNotFoundException,
    UnknownOperationException,
    ValidationException,
)

PAGE = Path(__file__).parents[3] / "docs" / "operations.md"
DATA = Path(botocore.__file__).parent / "data"
INVALID = "One or more parameter values were invalid: "
LEGACY = INVALID + (
    "DynamoDB global tables version 2017.11.29 is not supported. We recommend using DynamoDB global tables version "
    "2019.11.21, instead of version 2017.11.29 (Legacy)."
)
NOT_VALID = "Table is not in a valid state to enable Kinesis Streaming Destination: "
STREAM = "arn:aws:kinesis:us-east-1:000000000000:stream/changes"
BULK = "arn:aws:dynamodb:us-east-1:000000000000:bulk/01"


def stated() -> dict[str, str]:
    """What the page says of each operation."""
    return dict(re.findall(r"^\| `(\w+)` \| (done|described|refused) \|", PAGE.read_text(), re.MULTILINE))


def test_the_page_lists_every_operation_of_the_model_and_of_the_engine() -> None:
    load()
    model: set[str] = set()
    for path in DATA.glob("dynamodb*/*/service-2.json.gz"):
        model |= json.loads(gzip.decompress(path.read_bytes()))["operations"].keys()
    page = set(stated())
    assert model - page == set(), "operations of a newer botocore: do, describe or refuse them"
    assert set(OPERATIONS) == page
    assert len(page) == 66


@pytest.fixture
def table(engine: Engine) -> Engine:
    index = {"IndexName": "by_g", "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}]}
    engine.execute(
        "CreateTable",
        {
            "TableName": "jobs",
            "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in "ag"],
            "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}],
            "GlobalSecondaryIndexes": [{**index, "Projection": {"ProjectionType": "ALL"}}],
            "BillingMode": "PAY_PER_REQUEST",
        },
    )
    return engine


DISABLED = {"TableName": "jobs", "ContributorInsightsStatus": "DISABLED"}
ANSWERS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("DescribeContributorInsights", {"TableName": "jobs"}, DISABLED),
    ("DescribeContributorInsights", {"TableName": "jobs", "IndexName": "by_g"}, {**DISABLED, "IndexName": "by_g"}),
    ("UpdateContributorInsights", {"TableName": "jobs", "ContributorInsightsAction": "DISABLE"}, DISABLED),
    ("ListContributorInsights", {}, {"ContributorInsightsSummaries": []}),
    ("ListContributorInsights", {"TableName": "jobs"}, {"ContributorInsightsSummaries": []}),
    (
        "DescribeKinesisStreamingDestination",
        {"TableName": "jobs"},
        {"TableName": "jobs", "KinesisDataStreamDestinations": []},
    ),
    ("ListGlobalTables", {}, {"GlobalTables": []}),
    ("ListBulkOperations", {"MaxResults": 25}, {"BulkOperationsSummaryList": []}),
]


@pytest.mark.parametrize(("operation", "request_", "answer"), ANSWERS)
def test_what_a_table_does_not_have_is_described(
    table: Engine, operation: str, request_: dict[str, Any], answer: dict[str, Any]
) -> None:
    assert table.execute(operation, request_) == answer
    assert stated()[operation] in ("described", "refused")


AT_JOBS = {"TableName": "jobs"}
WORDS: list[tuple[str, dict[str, Any], type[DynamoDBError], str]] = [
    ("CreateGlobalTable", {"GlobalTableName": "jobs", "ReplicationGroup": []}, ValidationException, LEGACY),
    (
        "UpdateGlobalTable",
        {"GlobalTableName": "jobs", "ReplicaUpdates": [{"Create": {"RegionName": "eu-west-1"}}]},
        ValidationException,
        LEGACY,
    ),
    (
        "UpdateGlobalTable",
        {"GlobalTableName": "jobs", "ReplicaUpdates": []},
        ValidationException,
        "One or more parameter values were invalid",
    ),
    (
        "DescribeGlobalTable",
        {"GlobalTableName": "jobs"},
        GlobalTableNotFoundException,
        "Global table not found: Global table with name: 'jobs' does not exist.",
    ),
    (
        "DescribeGlobalTable",
        {"GlobalTableName": ""},
        ValidationException,
        "TableName must be at least 3 characters long and at most 255 characters long",
    ),
    (
        "UpdateGlobalTableSettings",
        {"GlobalTableName": "jobs"},
        GlobalTableNotFoundException,
        "Global table with name: 'jobs' does not exist.",
    ),
    (
        "DescribeTableReplicaAutoScaling",
        AT_JOBS,
        ResourceNotFoundException,
        "Global table with name: jobs does not exist.",
    ),
    (
        "DescribeContributorInsights",
        {**AT_JOBS, "IndexName": "none"},
        ResourceNotFoundException,
        "Requested resource not found: Index: none not found for table: jobs",
    ),
    (
        "DisableKinesisStreamingDestination",
        {**AT_JOBS, "StreamArn": STREAM},
        ValidationException,
        NOT_VALID + "KinesisStreamingDestination must be ACTIVE to perform DISABLE operation.",
    ),
    (
        "UpdateKinesisStreamingDestination",
        {
            **AT_JOBS,
            "StreamArn": STREAM,
            "UpdateKinesisStreamingConfiguration": {"ApproximateCreationDateTimePrecision": "MICROSECOND"},
        },
        ValidationException,
        NOT_VALID + "Kinesis streaming is not in ACTIVE state. Updates are only allowed in ACTIVE state. "
        f"TableName: jobs, kdsArn: {STREAM}",
    ),
    (
        "DescribeBulkOperation",
        {"BulkOperationArn": BULK},
        ResourceNotFoundException,
        f"Requested resource not found: Bulk operation: {BULK} not found",
    ),
]


@pytest.mark.parametrize(("operation", "request_", "kind", "message"), WORDS)
def test_what_aws_refuses_is_refused_in_its_words(
    table: Engine, operation: str, request_: dict[str, Any], kind: type[DynamoDBError], message: str
) -> None:
    with pytest.raises(kind) as refused:
        table.execute(operation, request_)
    assert refused.value.message == message


PLACE = {"S3Bucket": "bucket"}
START = {
    "InputS3Configuration": {**PLACE, "InputFormat": "DYNAMODB_JSON"},
    "OutputS3Configuration": {**PLACE, "OutputType": ["ERROR"]},
}
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("UpdateContributorInsights", {"ContributorInsightsAction": "ENABLE"}),
    ("EnableKinesisStreamingDestination", {"StreamArn": STREAM}),
    ("StartBulkPutItems", START),
]


@pytest.mark.parametrize(("operation", "members"), REFUSED)
def test_a_change_of_what_is_not_here_is_refused_by_name_with_its_page(
    table: Engine, operation: str, members: dict[str, Any]
) -> None:
    with pytest.raises(UnknownOperationException) as refused:
        table.execute(operation, {"TableName": "jobs", **members})
    assert refused.value.message.startswith(operation)
    assert "is not supported by this endpoint" in refused.value.message
    assert "docs/operations.md" in refused.value.message
    assert stated()[operation] == "refused"
    with pytest.raises(ResourceNotFoundException, match="Table: none not found"):
        table.execute(operation, {"TableName": "none", **members})
    with pytest.raises(ValidationException, match=r"must not be null|not present"):
        table.execute(operation, {})


def test_every_refused_operation_of_the_page_is_tried_here() -> None:
    assert {name for name, status in stated().items() if status == "refused"} == {name for name, _ in REFUSED}


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({"Create": {"RegionName": "eu-west-1"}}, INVALID + "ReplicaUpdates is not supported by this endpoint: a table "
         "is in one region only. See docs/operations.md of Penstock."),
        ({"Delete": {"RegionName": "eu-west-1"}}, "Update global table operation failed because one or more replicas "
         "were not part of the global table. Please retry the request without these replicas: [eu-west-1]."),
        ({"Create": {"RegionName": "us-east-1"}}, "Cannot add or delete the local region through ReplicaUpdates. "
         "Use CreateTable, DeleteTable, or UpdateTable as required."),
    ],
)  # fmt: skip
def test_a_replica_is_refused_after_the_table_was_found(table: Engine, update: Any, message: str) -> None:
    with pytest.raises(ValidationException) as refused:
        table.execute("UpdateTable", {"TableName": "jobs", "ReplicaUpdates": [update]})
    assert refused.value.message == message
    with pytest.raises(ResourceNotFoundException):
        table.execute("UpdateTable", {"TableName": "none", "ReplicaUpdates": [update]})


@pytest.mark.parametrize("more", [{}, {"ReplicaUpdates": [{"Create": {"RegionName": "eu-west-1"}}]}])
def test_a_witness_without_a_strong_group_is_refused_by_its_name(table: Engine, more: dict[str, Any]) -> None:
    witness = {"GlobalTableWitnessUpdates": [{"Create": {"RegionName": "eu-west-2"}}]}
    with pytest.raises(ValidationException, match="must be set as STRONG when GlobalTableWitnessUpdates parameter is"):
        table.execute("UpdateTable", {"TableName": "jobs", **witness, **more})


def test_settings_of_replicas_are_refused_after_the_table_was_found(table: Engine) -> None:
    mode = {"GlobalTableSettingsReplicationMode": "ENABLED"}
    with pytest.raises(ValidationException, match="GlobalTableSettingsReplicationMode is not supported"):
        table.execute("UpdateTable", {"TableName": "jobs", **mode})
    with pytest.raises(ResourceNotFoundException):
        table.execute("UpdateTable", {"TableName": "none", **mode})
