"""The members that a table's Properties may have in a CloudFormation template: as in the JSON format, a misspelled one
must not mean "none".

The names are those of CloudFormation's own schemas of AWS::DynamoDB::Table and AWS::DynamoDB::GlobalTable. Values may
be texts where a number or a flag belongs, because parameters are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.tables.definitions.export_members import Leaf, Members, WrongMember, shape, wrong_by

_VALUE = Leaf("a text, a number, true or false", lambda value: isinstance(value, str | int | float))
_VALUES = Leaf("a list of texts", lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value))
_ANY = Leaf("anything", lambda value: True)
"""What is handed on as a whole, or is only named as not compared."""

_ATTRIBUTES = shape(required="AttributeName AttributeType", several=True, AttributeName=_VALUE, AttributeType=_VALUE)
_KEY = shape(required="AttributeName KeyType", several=True, AttributeName=_VALUE, KeyType=_VALUE)
_PROJECTION = shape(ProjectionType=_VALUE, NonKeyAttributes=_VALUES)
_UNITS = shape(required="ReadCapacityUnits WriteCapacityUnits", ReadCapacityUnits=_VALUE, WriteCapacityUnits=_VALUE)
_MAXIMUM = shape(MaxReadRequestUnits=_VALUE, MaxWriteRequestUnits=_VALUE)
_WARM = shape(ReadUnitsPerSecond=_VALUE, WriteUnitsPerSecond=_VALUE)
_TAGS = shape(required="Key Value", several=True, Key=_VALUE, Value=_VALUE)
_RECOVERY = shape(required="PointInTimeRecoveryEnabled", PointInTimeRecoveryEnabled=_VALUE, RecoveryPeriodInDays=_VALUE)
_POLICY = shape(required="PolicyDocument", PolicyDocument=_ANY)
_INDEX: Members = {"IndexName": _VALUE, "KeySchema": _KEY, "Projection": _PROJECTION}
_INDEX_NEEDS = "IndexName KeySchema Projection"

_COMMON: Members = {
    "AttributeDefinitions": _ATTRIBUTES,
    "BillingMode": _VALUE,
    "KeySchema": _KEY,
    "LocalSecondaryIndexes": shape(_INDEX, required=_INDEX_NEEDS, several=True),
    "TableName": _VALUE,
    "TimeToLiveSpecification": shape(required="Enabled", AttributeName=_VALUE, Enabled=_VALUE),
    "VectorIndexes": shape(
        required="IndexName VectorAttribute Dimensions DistanceFunction Projection",
        several=True,
        IndexName=_VALUE,
        VectorAttribute=shape(required="AttributeName", AttributeName=_VALUE),
        Dimensions=_VALUE,
        DistanceFunction=_VALUE,
        SearchSchema=shape(
            required="AttributeName SearchSchemaElementType",
            several=True,
            AttributeName=_VALUE,
            SearchSchemaElementType=_VALUE,
        ),
        Projection=_PROJECTION,
    ),
    "WarmThroughput": _WARM,
}
TABLE_MEMBERS: Final = shape(
    _COMMON,
    required="AttributeDefinitions KeySchema",
    ContributorInsightsSpecification=_ANY,
    DeletionProtectionEnabled=_VALUE,
    GlobalSecondaryIndexes=shape(
        _INDEX,
        required=_INDEX_NEEDS,
        several=True,
        ContributorInsightsSpecification=_ANY,
        OnDemandThroughput=_MAXIMUM,
        ProvisionedThroughput=_UNITS,
        WarmThroughput=_WARM,
    ),
    ImportSourceSpecification=_ANY,
    KinesisStreamSpecification=_ANY,
    OnDemandThroughput=_MAXIMUM,
    PointInTimeRecoverySpecification=_RECOVERY,
    ProvisionedThroughput=_UNITS,
    ResourcePolicy=_POLICY,
    SSESpecification=shape(required="SSEEnabled", KMSMasterKeyId=_VALUE, SSEEnabled=_VALUE, SSEType=_VALUE),
    StreamSpecification=shape(required="StreamViewType", StreamViewType=_VALUE, unread="ResourcePolicy Tags"),
    TableClass=_VALUE,
    Tags=_TAGS,
)

_READ_LIMITS: Members = {
    "ReadOnDemandThroughputSettings": shape(MaxReadRequestUnits=_VALUE),
    "ReadProvisionedThroughputSettings": shape(ReadCapacityUnits=_VALUE, ReadCapacityAutoScalingSettings=_ANY),
}
_WRITE_LIMITS: Members = {
    "WriteOnDemandThroughputSettings": shape(MaxWriteRequestUnits=_VALUE),
    "WriteProvisionedThroughputSettings": shape(WriteCapacityAutoScalingSettings=_ANY),
}
_REPLICAS = shape(
    _READ_LIMITS,
    required="Region",
    several=True,
    Region=_VALUE,
    ContributorInsightsSpecification=_ANY,
    DeletionProtectionEnabled=_VALUE,
    GlobalSecondaryIndexes=shape(
        _READ_LIMITS, required="IndexName", several=True, IndexName=_VALUE, ContributorInsightsSpecification=_ANY
    ),
    KinesisStreamSpecification=_ANY,
    PointInTimeRecoverySpecification=_RECOVERY,
    ResourcePolicy=_POLICY,
    SSESpecification=shape(required="KMSMasterKeyId", KMSMasterKeyId=_VALUE),
    TableClass=_VALUE,
    Tags=_TAGS,
    unread="DisassociationProtectionEnabled GlobalTableSettingsReplicationMode ReplicaStreamSpecification",
)
GLOBAL_TABLE_MEMBERS: Final = shape(
    _COMMON,
    _READ_LIMITS,
    _WRITE_LIMITS,
    required="AttributeDefinitions KeySchema Replicas",
    GlobalSecondaryIndexes=shape(
        _INDEX, _READ_LIMITS, _WRITE_LIMITS, required=_INDEX_NEEDS, several=True, WarmThroughput=_WARM
    ),
    Replicas=_REPLICAS,
    SSESpecification=shape(required="SSEEnabled", SSEEnabled=_VALUE, SSEType=_VALUE),
    StreamSpecification=shape(required="StreamViewType", StreamViewType=_VALUE),
    unread="GlobalTableSourceArn GlobalTableWitnesses MultiRegionConsistency",
)


def wrong_properties(properties: Mapping[str, Any], *, is_global: bool) -> tuple[WrongMember, ...]:
    """Each member of resolved Properties that CloudFormation does not know, that is missing, or of another kind."""
    return wrong_by(properties, GLOBAL_TABLE_MEMBERS if is_global else TABLE_MEMBERS)


def wrong_capacity(properties: Mapping[str, Any], *, is_global: bool) -> tuple[WrongMember, ...]:
    """Provisioned, which is CloudFormation's default, and without units: they must not become 1 and 1."""
    if properties.get("BillingMode") == "PAY_PER_REQUEST":
        return ()
    indexes = properties.get("GlobalSecondaryIndexes") or ()
    places = [("", properties), *((f"/GlobalSecondaryIndexes/{at}", one) for at, one in enumerate(indexes))]
    member = "WriteProvisionedThroughputSettings" if is_global else "ProvisionedThroughput"
    step = "is missing (for on demand, write BillingMode: PAY_PER_REQUEST)"
    return tuple(WrongMember(f"{place}/{member}", step) for place, shape in places if not shape.get(member))
