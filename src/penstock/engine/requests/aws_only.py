"""Requests about what only AWS has: global tables, Contributor Insights, Kinesis destinations, bulk puts.

The four of bulk puts are in botocore from 1.44 on."""

from __future__ import annotations

from typing import Any

from penstock.engine.requests.shapes import (
    FLAG,
    INDEX_NAME,
    NAME,
    TABLE,
    TEXT,
    Enum,
    Integer,
    List,
    Request,
    Required,
    String,
    Structure,
)
from penstock.engine.requests.tables import BILLING_MODE, table_name_first
from penstock.errors import ValidationException

_POSITIVE = Integer(1, long=True)

# ── replicas ──────────────────────────────────────────────────────────────────────────────────────


_GLOBAL_TABLE = Required(String(3, 255, NAME))


def _global_name_first(request: dict[str, Any]) -> None:
    """A short or long name is refused before all else, as a table's."""
    if len(request.get("GlobalTableName", "   ")) not in range(3, 256):
        raise ValidationException("TableName must be at least 3 characters long and at most 255 characters long")


_SCALING = Structure(
    "AutoScalingSettingsUpdate",
    MinimumUnits=_POSITIVE,
    MaximumUnits=_POSITIVE,
    AutoScalingDisabled=FLAG,
    AutoScalingRoleArn=String(1, 1600),
)

UPDATE_GLOBAL_TABLE_SETTINGS = Structure(
    "UpdateGlobalTableSettingsInput",
    GlobalTableName=_GLOBAL_TABLE,
    GlobalTableBillingMode=BILLING_MODE,
    GlobalTableProvisionedWriteCapacityUnits=_POSITIVE,
    GlobalTableProvisionedWriteCapacityAutoScalingSettingsUpdate=_SCALING,
    GlobalTableGlobalSecondaryIndexSettingsUpdate=List(
        Structure(
            "GlobalTableGlobalSecondaryIndexSettingsUpdate",
            IndexName=Required(INDEX_NAME),
            ProvisionedWriteCapacityUnits=_POSITIVE,
            ProvisionedWriteCapacityAutoScalingSettingsUpdate=_SCALING,
        ),
        1,
        20,
    ),
    ReplicaSettingsUpdate=List(Structure("ReplicaSettingsUpdate", RegionName=Required(TEXT)), 1, 50),
)
UPDATE_TABLE_REPLICA_AUTO_SCALING = Structure(
    "UpdateTableReplicaAutoScalingInput",
    GlobalSecondaryIndexUpdates=List(
        Structure(
            "GlobalSecondaryIndexAutoScalingUpdate",
            IndexName=INDEX_NAME,
            ProvisionedWriteCapacityAutoScalingUpdate=_SCALING,
        ),
        1,
    ),
    TableName=Required(TABLE),
    ProvisionedWriteCapacityAutoScalingUpdate=_SCALING,
    ReplicaUpdates=List(Structure("ReplicaAutoScalingUpdate", RegionName=Required(TEXT)), 1),
)

_REPLICAS = {
    "CreateGlobalTable": Request(
        Structure(
            "CreateGlobalTableInput",
            GlobalTableName=_GLOBAL_TABLE,
            ReplicationGroup=Required(List(Structure("Replica", RegionName=TEXT))),
        ),
        _global_name_first,
    ),
    "UpdateGlobalTable": Request(
        Structure(
            "UpdateGlobalTableInput",
            GlobalTableName=_GLOBAL_TABLE,
            ReplicaUpdates=Required(
                List(
                    Structure(
                        "ReplicaUpdate",
                        Create=Structure("CreateReplicaAction", RegionName=Required(TEXT)),
                        Delete=Structure("DeleteReplicaAction", RegionName=Required(TEXT)),
                    )
                )
            ),
        ),
        _global_name_first,
    ),
    "DescribeGlobalTable": Request(
        Structure("DescribeGlobalTableInput", GlobalTableName=_GLOBAL_TABLE), _global_name_first
    ),
    "DescribeGlobalTableSettings": Request(
        Structure("DescribeGlobalTableSettingsInput", GlobalTableName=_GLOBAL_TABLE), _global_name_first
    ),
    "UpdateGlobalTableSettings": Request(UPDATE_GLOBAL_TABLE_SETTINGS, _global_name_first),
    "ListGlobalTables": Request(
        Structure(
            "ListGlobalTablesInput",
            ExclusiveStartGlobalTableName=String(3, 255, NAME),
            Limit=Integer(1),
            RegionName=TEXT,
        )
    ),
    "DescribeTableReplicaAutoScaling": Request(
        Structure("DescribeTableReplicaAutoScalingInput", TableName=Required(TABLE)), table_name_first
    ),
    "UpdateTableReplicaAutoScaling": Request(UPDATE_TABLE_REPLICA_AUTO_SCALING, table_name_first),
}


# ── Contributor Insights ──────────────────────────────────────────────────────────────────────────


def _insights_names_first(request: dict[str, Any]) -> None:
    table_name_first(request)
    if len(request.get("IndexName", "   ")) not in range(3, 256):
        raise ValidationException("IndexName must be at least 3 characters long and at most 255 characters long")


_INSIGHTS = {
    "DescribeContributorInsights": Request(
        Structure("DescribeContributorInsightsInput", TableName=Required(TABLE), IndexName=INDEX_NAME),
        _insights_names_first,
    ),
    "ListContributorInsights": Request(
        Structure(
            "ListContributorInsightsInput",
            TableName=TABLE,
            NextToken=TEXT,
            MaxResults=Integer(maximum=100),
        )
    ),
    "UpdateContributorInsights": Request(
        Structure(
            "UpdateContributorInsightsInput",
            TableName=Required(TABLE),
            IndexName=INDEX_NAME,
            ContributorInsightsAction=Required(Enum("ENABLE", "DISABLE")),
            ContributorInsightsMode=Enum("THROTTLED_KEYS", "ACCESSED_AND_THROTTLED_KEYS"),
        ),
        _insights_names_first,
    ),
}


# ── Kinesis destinations ──────────────────────────────────────────────────────────────────────────


_DESTINATION = {"TableName": Required(TABLE), "StreamArn": Required(String(37, 1024))}
_PRECISION = Enum("MILLISECOND", "MICROSECOND")
_ENABLING = Structure("EnableKinesisStreamingConfiguration", ApproximateCreationDateTimePrecision=_PRECISION)
_UPDATING = Structure("UpdateKinesisStreamingConfiguration", ApproximateCreationDateTimePrecision=_PRECISION)

_KINESIS = {
    "DescribeKinesisStreamingDestination": Request(
        Structure("DescribeKinesisStreamingDestinationInput", TableName=Required(TABLE)), table_name_first
    ),
    "EnableKinesisStreamingDestination": Request(
        Structure("KinesisStreamingDestinationInput", **_DESTINATION, EnableKinesisStreamingConfiguration=_ENABLING),
        table_name_first,
    ),
    "DisableKinesisStreamingDestination": Request(
        Structure("KinesisStreamingDestinationInput", **_DESTINATION, EnableKinesisStreamingConfiguration=_ENABLING),
        table_name_first,
    ),
    "UpdateKinesisStreamingDestination": Request(
        Structure(
            "UpdateKinesisStreamingDestinationInput", **_DESTINATION, UpdateKinesisStreamingConfiguration=_UPDATING
        ),
        table_name_first,
    ),
}


# ── bulk puts ─────────────────────────────────────────────────────────────────────────────────────


_OPERATION_ARN = Required(String(37, 1024))
_BUCKET = String(0, 255, r"[a-z0-9A-Z][.\-\w]*")

START_BULK_PUT_ITEMS = Structure(
    "StartBulkPutItemsInput",
    ClientToken=String(pattern=r"[^$]+"),
    InputS3Configuration=Required(
        Structure(
            "InputS3Configuration",
            S3BucketOwner=String(pattern=r"[0-9]{12}"),
            S3Bucket=Required(_BUCKET),
            S3KeyPrefix=String(0, 1024),
            InputFormat=Required(Enum("DYNAMODB_JSON", "ION")),
            InputCompressionType=Enum("GZIP", "ZSTD", "NONE"),
        )
    ),
    OutputS3Configuration=Required(
        Structure(
            "OutputS3Configuration",
            S3BucketOwner=String(pattern=r"[0-9]{12}"),
            S3Bucket=_BUCKET,
            S3KeyPrefix=String(0, 1024),
            S3SseAlgorithm=Enum("AES256", "KMS"),
            S3SseKmsKeyId=String(1, 2048),
            OutputType=Required(List(Enum("ERROR", "CONDITION_CHECK_FAILURE"))),
        )
    ),
    TableName=Required(TABLE),
    MaxWriteRequestUnits=Integer(1024, long=True),
    PerformanceTier=Enum("STANDARD", "ACCELERATED"),
)

_BULK_PUTS = {
    "StartBulkPutItems": Request(START_BULK_PUT_ITEMS),
    "ListBulkOperations": Request(
        Structure(
            "ListBulkOperationsInput",
            MaxResults=Integer(1, 25),
            NextToken=String(1, 1024, r"(?:[0-9a-f]{16})+"),
        )
    ),
    "DescribeBulkOperation": Request(Structure("DescribeBulkOperationInput", BulkOperationArn=_OPERATION_ARN)),
    "CancelBulkOperation": Request(Structure("CancelBulkOperationInput", BulkOperationArn=_OPERATION_ARN)),
}

REQUESTS = {**_REPLICAS, **_INSIGHTS, **_KINESIS, **_BULK_PUTS}
