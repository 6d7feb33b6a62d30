"""Requests about tables, their tags and policies, backups and streams: the control plane, and DynamoDB Streams.

What is wrong with an ARN, and the order in which it and the rest are refused, is the operations' own."""

from __future__ import annotations

from typing import Any

from penstock.engine.requests.shapes import (
    ARN,
    ARN_CHARACTERS,
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
    Shape,
    String,
    Structure,
    Timestamp,
)
from penstock.errors import ValidationException

# ── tables ────────────────────────────────────────────────────────────────────────────────────────


def table_name_first(request: dict[str, Any]) -> None:
    """The control plane refuses a missing, short or long name before it looks at anything else."""
    name = request.get("TableName")
    if name is None:
        raise ValidationException("The parameter 'TableName' is required but was not present in the request")
    if not name.startswith("arn:") and not 3 <= len(name) <= 255:
        raise ValidationException("TableName must be at least 3 characters long and at most 255 characters long")


_LONG = Integer(long=True)
_POSITIVE = Integer(1, long=True)
_ATTRIBUTE_NAME = String(1, 255)
BILLING_MODE = Enum("PROVISIONED", "PAY_PER_REQUEST")
_REPLICATION_MODE = Enum("ENABLED", "DISABLED", "ENABLED_WITH_OVERRIDES")

ATTRIBUTE_DEFINITIONS = List(
    Structure(
        "AttributeDefinition",
        AttributeName=Required(_ATTRIBUTE_NAME),
        AttributeType=Required(Enum("B", "N", "S")),
    )
)
_KEY_ELEMENT = Structure(
    "KeySchemaElement", AttributeName=Required(_ATTRIBUTE_NAME), KeyType=Required(Enum("HASH", "RANGE"))
)
KEY_SCHEMA = List(_KEY_ELEMENT, 1, 2)
_INDEX_KEY_SCHEMA = List(_KEY_ELEMENT, 1)  # how many is for its operation to say

_PROJECTION = Structure(
    "Projection",
    ProjectionType=Enum("ALL", "INCLUDE", "KEYS_ONLY"),
    NonKeyAttributes=List(_ATTRIBUTE_NAME, 1, 20),
)
PROVISIONED = Structure(
    "ProvisionedThroughput",
    WriteCapacityUnits=Required(_POSITIVE),
    ReadCapacityUnits=Required(_POSITIVE),
)
ON_DEMAND = Structure("OnDemandThroughput", MaxReadRequestUnits=_LONG, MaxWriteRequestUnits=_LONG)
_WARM = Structure("WarmThroughput", ReadUnitsPerSecond=_LONG, WriteUnitsPerSecond=_LONG)
SSE = Structure("SSESpecification", Enabled=FLAG, SSEType=Enum("AES256", "KMS"), KMSMasterKeyId=String(1))
_STREAM = Structure(
    "StreamSpecification",
    StreamEnabled=Required(FLAG),
    StreamViewType=Enum("OLD_IMAGE", "KEYS_ONLY", "NEW_AND_OLD_IMAGES", "NEW_IMAGE"),
)
TAGS = List(Structure("Tag", Key=TEXT, Value=TEXT))  # what is missing is refused by the operations

LOCAL_INDEXES = List(
    Structure(
        "LocalSecondaryIndex",
        IndexName=Required(INDEX_NAME),
        KeySchema=Required(KEY_SCHEMA),
        Projection=Required(_PROJECTION),
    )
)
GLOBAL_INDEXES = List(
    Structure(
        "GlobalSecondaryIndex",
        IndexName=Required(INDEX_NAME),
        ProvisionedThroughput=PROVISIONED,
        KeySchema=Required(_INDEX_KEY_SCHEMA),
        Projection=Required(_PROJECTION),
        OnDemandThroughput=ON_DEMAND,
        WarmThroughput=_WARM,
    )
)

_VECTOR_INDEX: dict[str, Shape | Required] = {
    "IndexName": Required(INDEX_NAME),
    "VectorAttribute": Required(Structure("VectorAttribute", AttributeName=Required(_ATTRIBUTE_NAME))),
    "Dimensions": Required(Integer(1)),  # the most is for its operation to say
    "DistanceFunction": Required(Enum("COSINE", "DOT_PRODUCT", "EUCLIDEAN")),
    "Projection": Required(_PROJECTION),
    "SearchSchema": List(
        Structure(
            "SearchSchemaElement",
            AttributeName=Required(_ATTRIBUTE_NAME),
            SearchSchemaElementType=Required(Enum("HASH", "INLINE_FILTER")),
        ),
        1,
    ),
}
VECTOR_INDEXES = List(Structure("VectorIndex", **_VECTOR_INDEX))

CREATE_TABLE = Structure(
    "CreateTableInput",
    AttributeDefinitions=Required(ATTRIBUTE_DEFINITIONS),
    TableName=Required(TABLE),
    BillingMode=BILLING_MODE,
    ProvisionedThroughput=PROVISIONED,
    KeySchema=Required(KEY_SCHEMA),
    GlobalSecondaryIndexes=GLOBAL_INDEXES,
    LocalSecondaryIndexes=LOCAL_INDEXES,
    StreamSpecification=_STREAM,
    SSESpecification=SSE,
    Tags=TAGS,
    TableClass=TEXT,
    DeletionProtectionEnabled=FLAG,
    WarmThroughput=_WARM,
    OnDemandThroughput=ON_DEMAND,
    ResourcePolicy=TEXT,
    GlobalTableSourceArn=String(1, 1024),
    GlobalTableSettingsReplicationMode=_REPLICATION_MODE,
    VectorIndexes=VECTOR_INDEXES,
)

_INDEX_UPDATE = Structure(
    "GlobalSecondaryIndexUpdate",
    Update=Structure(
        "UpdateGlobalSecondaryIndexAction",
        IndexName=Required(INDEX_NAME),
        ProvisionedThroughput=PROVISIONED,
        OnDemandThroughput=ON_DEMAND,
        WarmThroughput=_WARM,
    ),
    Create=Structure(
        "CreateGlobalSecondaryIndexAction",
        Projection=Required(_PROJECTION),
        IndexName=Required(INDEX_NAME),
        ProvisionedThroughput=PROVISIONED,
        KeySchema=Required(_INDEX_KEY_SCHEMA),
        OnDemandThroughput=ON_DEMAND,
        WarmThroughput=_WARM,
    ),
    Delete=Structure("DeleteGlobalSecondaryIndexAction", IndexName=Required(INDEX_NAME)),
)

_VECTOR_INDEX_UPDATE = Structure(
    "VectorIndexUpdate",
    Create=Structure("CreateVectorIndexAction", **_VECTOR_INDEX),
    Delete=Structure("DeleteVectorIndexAction", IndexName=Required(INDEX_NAME)),
)

# Of a replica only its region is read: none can be made here.
_IN_REGION = {"RegionName": Required(TEXT)}
_REPLICA_UPDATES = List(
    Structure(
        "ReplicationGroupUpdate",
        Create=Structure("CreateReplicationGroupMemberAction", **_IN_REGION),
        Update=Structure("UpdateReplicationGroupMemberAction", **_IN_REGION),
        Delete=Structure("DeleteReplicationGroupMemberAction", **_IN_REGION),
        Disassociate=Structure(
            "DisassociateReplicationGroupMemberAction", **_IN_REGION, DisassociationMode=Required(TEXT)
        ),
    ),
    1,
)
_WITNESS_UPDATES = List(
    Structure(
        "GlobalTableWitnessGroupUpdate",
        Create=Structure("CreateGlobalTableWitnessGroupMemberAction", **_IN_REGION),
        Delete=Structure("DeleteGlobalTableWitnessGroupMemberAction", **_IN_REGION),
    ),
    1,
    1,
)

UPDATE_TABLE = Structure(
    "UpdateTableInput",
    TableName=Required(TABLE),
    ProvisionedThroughput=PROVISIONED,
    BillingMode=BILLING_MODE,
    GlobalSecondaryIndexUpdates=List(_INDEX_UPDATE),
    AttributeDefinitions=ATTRIBUTE_DEFINITIONS,
    StreamSpecification=_STREAM,
    SSESpecification=SSE,
    TableClass=TEXT,
    DeletionProtectionEnabled=FLAG,
    WarmThroughput=_WARM,
    OnDemandThroughput=ON_DEMAND,
    ReplicaUpdates=_REPLICA_UPDATES,
    MultiRegionConsistency=Enum("EVENTUAL", "STRONG"),
    GlobalTableWitnessUpdates=_WITNESS_UPDATES,
    GlobalTableSettingsReplicationMode=_REPLICATION_MODE,
    DisassociationProtectionEnabled=FLAG,
    VectorIndexUpdates=List(_VECTOR_INDEX_UPDATE),
)

_ONE_TABLE = {"TableName": Required(TABLE)}

LIST_TABLES = Structure("ListTablesInput", ExclusiveStartTableName=INDEX_NAME, Limit=Integer(1, 100))

UPDATE_TIME_TO_LIVE = Structure(
    "UpdateTimeToLiveInput",
    TableName=Required(TABLE),
    TimeToLiveSpecification=Required(
        Structure("TimeToLiveSpecification", Enabled=Required(FLAG), AttributeName=Required(_ATTRIBUTE_NAME))
    ),
)


def _created_name_first(request: dict[str, Any]) -> None:
    """CreateTable words a short name as the newer validation does, the rest as the control plane does."""
    name = request.get("TableName")
    if name is not None and len(name) < 3:
        raise ValidationException(
            f"1 validation error detected: Value '{name}' at 'tableName' failed to satisfy constraint: "
            "Member must have length greater than or equal to 3"
        )
    table_name_first(request)


_TABLES = {
    "CreateTable": Request(CREATE_TABLE, _created_name_first),
    "UpdateTable": Request(UPDATE_TABLE, table_name_first),
    "DescribeTable": Request(Structure("DescribeTableInput", **_ONE_TABLE), table_name_first),
    "DeleteTable": Request(Structure("DeleteTableInput", **_ONE_TABLE), table_name_first),
    "ListTables": Request(LIST_TABLES),
    "DescribeTimeToLive": Request(Structure("DescribeTimeToLiveInput", **_ONE_TABLE), table_name_first),
    "UpdateTimeToLive": Request(UPDATE_TIME_TO_LIVE, table_name_first),
    "DescribeLimits": Request(Structure("DescribeLimitsInput")),
    "DescribeEndpoints": Request(Structure("DescribeEndpointsRequest")),
}


# ── tags and policies ─────────────────────────────────────────────────────────────────────────────


_REVISION = String(1, 255)
_TAGGED = String(maximum=ARN_CHARACTERS)  # an empty one is refused by the operations, in their own words

_RESOURCES = {
    "TagResource": Request(
        Structure(
            "TagResourceInput",
            ResourceArn=_TAGGED,
            Tags=TAGS,
        )
    ),
    "UntagResource": Request(Structure("UntagResourceInput", ResourceArn=_TAGGED, TagKeys=List(TEXT))),
    "ListTagsOfResource": Request(Structure("ListTagsOfResourceInput", ResourceArn=_TAGGED, NextToken=TEXT)),
    "PutResourcePolicy": Request(
        Structure(
            "PutResourcePolicyInput",
            ResourceArn=Required(ARN),
            Policy=Required(TEXT),
            ExpectedRevisionId=_REVISION,
            ConfirmRemoveSelfResourceAccess=FLAG,
        )
    ),
    "GetResourcePolicy": Request(Structure("GetResourcePolicyInput", ResourceArn=Required(ARN))),
    "DeleteResourcePolicy": Request(
        Structure("DeleteResourcePolicyInput", ResourceArn=Required(ARN), ExpectedRevisionId=_REVISION)
    ),
}


# ── backups and point-in-time recovery ────────────────────────────────────────────────────────────


_BACKUP_ARN = String(37, 1024)
_NEW_TABLE = String(3, 255, NAME)
_SECONDS = Timestamp()

_OVERRIDES: dict[str, Shape | Required] = {
    "BillingModeOverride": BILLING_MODE,
    "GlobalSecondaryIndexOverride": GLOBAL_INDEXES,
    "LocalSecondaryIndexOverride": LOCAL_INDEXES,
    "ProvisionedThroughputOverride": PROVISIONED,
    "OnDemandThroughputOverride": ON_DEMAND,
    "SSESpecificationOverride": SSE,
    "VectorIndexOverride": VECTOR_INDEXES,
}

RESTORE_FROM_BACKUP = Structure(
    "RestoreTableFromBackupInput",
    TargetTableName=Required(_NEW_TABLE),
    BackupArn=Required(_BACKUP_ARN),
    **_OVERRIDES,
)
RESTORE_TO_POINT_IN_TIME = Structure(
    "RestoreTableToPointInTimeInput",
    SourceTableArn=String(1, 1024),
    SourceTableName=INDEX_NAME,
    TargetTableName=Required(_NEW_TABLE),
    UseLatestRestorableTime=FLAG,
    RestoreDateTime=_SECONDS,
    **_OVERRIDES,
)
LIST_BACKUPS = Structure(
    "ListBackupsInput",
    TableName=TABLE,
    Limit=Integer(1, 100),
    TimeRangeLowerBound=_SECONDS,
    TimeRangeUpperBound=_SECONDS,
    ExclusiveStartBackupArn=_BACKUP_ARN,
    BackupType=Enum("USER", "SYSTEM", "AWS_BACKUP", "ALL"),
)
UPDATE_CONTINUOUS_BACKUPS = Structure(
    "UpdateContinuousBackupsInput",
    TableName=Required(TABLE),
    PointInTimeRecoverySpecification=Required(
        Structure(
            "PointInTimeRecoverySpecification",
            PointInTimeRecoveryEnabled=Required(FLAG),
            RecoveryPeriodInDays=Integer(1, 35),
        )
    ),
)

_BACKUPS = {
    "CreateBackup": Request(
        Structure("CreateBackupInput", TableName=Required(TABLE), BackupName=Required(String(3, 255, NAME)))
    ),
    "DescribeBackup": Request(Structure("DescribeBackupInput", BackupArn=Required(_BACKUP_ARN))),
    "DeleteBackup": Request(Structure("DeleteBackupInput", BackupArn=Required(_BACKUP_ARN))),
    "ListBackups": Request(LIST_BACKUPS),
    "RestoreTableFromBackup": Request(RESTORE_FROM_BACKUP),
    "RestoreTableToPointInTime": Request(RESTORE_TO_POINT_IN_TIME),
    "DescribeContinuousBackups": Request(Structure("DescribeContinuousBackupsInput", TableName=Required(TABLE))),
    "UpdateContinuousBackups": Request(UPDATE_CONTINUOUS_BACKUPS),
}


# ── streams ───────────────────────────────────────────────────────────────────────────────────────


_STREAM_ARN = String(37, 1024)
_SHARD_ID = String(28, 65)

DESCRIBE_STREAM = Structure(
    "DescribeStreamInput",
    StreamArn=Required(_STREAM_ARN),
    Limit=Integer(1, 100),
    ExclusiveStartShardId=_SHARD_ID,
    ShardFilter=Structure("ShardFilter", Type=Enum("CHILD_SHARDS"), ShardId=_SHARD_ID),
)
GET_SHARD_ITERATOR = Structure(
    "GetShardIteratorInput",
    StreamArn=Required(_STREAM_ARN),
    ShardId=Required(_SHARD_ID),
    ShardIteratorType=Required(
        Enum("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER", "TRIM_HORIZON", "LATEST", "AT_TIMESTAMP")
    ),
    SequenceNumber=String(21, 40),
    Timestamp=Timestamp(),
)

_STREAMS = {
    "ListStreams": Request(
        Structure(
            "ListStreamsInput",
            TableName=INDEX_NAME,
            Limit=Integer(1, 100),
            ExclusiveStartStreamArn=_STREAM_ARN,
        )
    ),
    "DescribeStream": Request(DESCRIBE_STREAM),
    "GetShardIterator": Request(GET_SHARD_ITERATOR),
    "GetRecords": Request(
        Structure("GetRecordsInput", ShardIterator=Required(String(1, 2048)), Limit=Integer(1, 1000))
    ),
}

REQUESTS = {**_TABLES, **_RESOURCES, **_BACKUPS, **_STREAMS}
