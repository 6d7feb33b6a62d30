"""Requests about tables themselves: the control plane."""

from __future__ import annotations

from typing import Any

from penstock.engine.requests.common import FLAG, INDEX_NAME, TABLE, TEXT, table_name_first
from penstock.engine.requests.shapes import Enum, Integer, String, Unsupported
from penstock.engine.requests.structures import List, Request, Required, Structure
from penstock.errors import ValidationException

_LONG = Integer(long=True)
_POSITIVE = Integer(1, long=True)
_ATTRIBUTE_NAME = String(1, 255)
BILLING_MODE = Enum("PROVISIONED", "PAY_PER_REQUEST")
_TABLE_CLASS = Enum("STANDARD", "STANDARD_INFREQUENT_ACCESS")

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
_KEY_SCHEMA = List(_KEY_ELEMENT, 1, 2)
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
SSE = Structure("SSESpecification", Enabled=FLAG, SSEType=Enum("AES256", "KMS"), KMSMasterKeyId=TEXT)
_STREAM = Structure(
    "StreamSpecification",
    StreamEnabled=Required(FLAG),
    StreamViewType=Enum("NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES", "KEYS_ONLY"),
)
TAGS = List(Structure("Tag", Key=Required(TEXT), Value=Required(TEXT)))

LOCAL_INDEXES = List(
    Structure(
        "LocalSecondaryIndex",
        IndexName=Required(INDEX_NAME),
        KeySchema=Required(_KEY_SCHEMA),
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

CREATE_TABLE = Structure(
    "CreateTableInput",
    AttributeDefinitions=Required(ATTRIBUTE_DEFINITIONS),
    TableName=Required(TABLE),
    BillingMode=BILLING_MODE,
    ProvisionedThroughput=PROVISIONED,
    KeySchema=Required(_KEY_SCHEMA),
    GlobalSecondaryIndexes=GLOBAL_INDEXES,
    LocalSecondaryIndexes=LOCAL_INDEXES,
    StreamSpecification=_STREAM,
    SSESpecification=SSE,
    Tags=TAGS,
    TableClass=_TABLE_CLASS,
    DeletionProtectionEnabled=FLAG,
    WarmThroughput=_WARM,
    OnDemandThroughput=ON_DEMAND,
    ResourcePolicy=TEXT,
    GlobalTableSourceArn=Unsupported("GlobalTableSourceArn"),
    GlobalTableSettingsReplicationMode=Unsupported("GlobalTableSettingsReplicationMode"),
    VectorIndexes=Unsupported("VectorIndexes"),
)

_INDEX_UPDATE = Structure(
    "GlobalSecondaryIndexUpdate",
    Update=Structure(
        "UpdateGlobalSecondaryIndexAction",
        IndexName=Required(INDEX_NAME),
        ProvisionedThroughput=Required(PROVISIONED, unless=("OnDemandThroughput", "WarmThroughput")),
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

UPDATE_TABLE = Structure(
    "UpdateTableInput",
    TableName=Required(TABLE),
    ProvisionedThroughput=PROVISIONED,
    BillingMode=BILLING_MODE,
    GlobalSecondaryIndexUpdates=List(_INDEX_UPDATE),
    AttributeDefinitions=ATTRIBUTE_DEFINITIONS,
    StreamSpecification=_STREAM,
    SSESpecification=SSE,
    TableClass=_TABLE_CLASS,
    DeletionProtectionEnabled=FLAG,
    WarmThroughput=_WARM,
    OnDemandThroughput=ON_DEMAND,
    ReplicaUpdates=Unsupported("ReplicaUpdates"),
    MultiRegionConsistency=Unsupported("MultiRegionConsistency"),
    GlobalTableWitnessUpdates=Unsupported("GlobalTableWitnessUpdates"),
    GlobalTableSettingsReplicationMode=Unsupported("GlobalTableSettingsReplicationMode"),
    DisassociationProtectionEnabled=Unsupported("DisassociationProtectionEnabled"),
    VectorIndexUpdates=Unsupported("VectorIndexUpdates"),
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


REQUESTS = {
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
