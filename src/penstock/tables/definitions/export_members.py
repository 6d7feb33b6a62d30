"""The members that a table's definition in JSON may have, at every level: a misspelled one must not mean "none".

What DescribeTable tells of a table and nobody can define (dates, sizes, ARNs, states) is known by name and not read.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Shape:
    """An object: its members, with their own shapes where they have any, and those that are known and not read."""

    members: Mapping[str, Shape | None]
    unread: frozenset[str] = field(default_factory=frozenset)


def _shape(*leaves: str, unread: str = "", **members: Shape) -> Shape:
    return Shape({**dict.fromkeys(leaves), **members}, frozenset(unread.split()))


_ATTRIBUTE = _shape("AttributeName", "AttributeType")
_KEY_PART = _shape("AttributeName", "KeyType")
_PROJECTION = _shape("ProjectionType", "NonKeyAttributes")
_UNITS = _shape(
    "ReadCapacityUnits",
    "WriteCapacityUnits",
    unread="LastIncreaseDateTime LastDecreaseDateTime NumberOfDecreasesToday",
)
_MAXIMUM = _shape("MaxReadRequestUnits", "MaxWriteRequestUnits")
_WARM = _shape("ReadUnitsPerSecond", "WriteUnitsPerSecond", unread="Status")
_LOCAL_INDEX = _shape(
    "IndexName",
    KeySchema=_KEY_PART,
    Projection=_PROJECTION,
    unread="IndexArn IndexSizeBytes IndexStatus ItemCount ProvisionedThroughput",
)
_GLOBAL_INDEX = _shape(
    "IndexName",
    "IndexStatus",
    KeySchema=_KEY_PART,
    Projection=_PROJECTION,
    ProvisionedThroughput=_UNITS,
    OnDemandThroughput=_MAXIMUM,
    WarmThroughput=_WARM,
    unread="Backfilling IndexArn IndexSizeBytes ItemCount",
)
_TABLE = _shape(
    "TableName",
    "BillingMode",
    "DeletionProtectionEnabled",
    AttributeDefinitions=_ATTRIBUTE,
    KeySchema=_KEY_PART,
    BillingModeSummary=_shape("BillingMode", unread="LastUpdateToPayPerRequestDateTime"),
    ProvisionedThroughput=_UNITS,
    OnDemandThroughput=_MAXIMUM,
    WarmThroughput=_WARM,
    LocalSecondaryIndexes=_LOCAL_INDEX,
    GlobalSecondaryIndexes=_GLOBAL_INDEX,
    StreamSpecification=_shape("StreamEnabled", "StreamViewType"),
    TableClassSummary=_shape("TableClass", unread="LastUpdateDateTime"),
    SSEDescription=_shape(
        "Status", "SSEType", "KMSMasterKeyArn", "KMSMasterKeyId", unread="InaccessibleEncryptionDateTime"
    ),
    unread=(
        "ArchivalSummary CreationDateTime GlobalTableSettingsReplicationMode GlobalTableVersion GlobalTableWitnesses "
        "ItemCount LatestStreamArn LatestStreamLabel MultiRegionConsistency Replicas RestoreSummary TableArn TableId "
        "TableSizeBytes TableStatus TableThroughputModeSummary"
    ),
)
_RECOVERY = _shape(
    "PointInTimeRecoveryStatus",
    "RecoveryPeriodInDays",
    unread="EarliestRestorableDateTime LatestRestorableDateTime",
)
_BESIDE: dict[str, Shape | None] = {
    "TimeToLiveDescription": _shape("TimeToLiveStatus", "AttributeName"),
    "ContinuousBackupsDescription": _shape(
        *_RECOVERY.members,
        PointInTimeRecoveryDescription=_RECOVERY,
        unread="ContinuousBackupsStatus " + " ".join(sorted(_RECOVERY.unread)),
    ),
    "Tags": _shape("Key", "Value"),
    "Ignore": None,
}
_UNREAD_BESIDE = frozenset({"NextToken", "ResponseMetadata"})

_WRAPPED = Shape({"Table": _TABLE, **_BESIDE}, _UNREAD_BESIDE)
_BARE = Shape({**_TABLE.members, **_BESIDE}, _TABLE.unread | _UNREAD_BESIDE)


def unknown_members(document: Mapping[str, Any]) -> tuple[str, ...]:
    """What is wrong with each member that no definition has: its JSON pointer, and the name that is nearest."""
    return tuple(_unknown(document, _WRAPPED if "Table" in document else _BARE, ""))


def _unknown(value: Any, shape: Shape, place: str) -> Iterator[str]:
    if isinstance(value, list):
        for at, one in enumerate(value):
            yield from _unknown(one, shape, f"{place}/{at}")
    elif isinstance(value, dict):
        for name, inner in value.items():
            pointer = f"{place}/{name.replace('~', '~0').replace('/', '~1')}"
            below = shape.members.get(name)
            if below is not None:
                yield from _unknown(inner, below, pointer)
            elif name not in shape.members and name not in shape.unread:
                yield f"{pointer} is unknown{_suggestion(name, shape)}"


def _suggestion(name: str, shape: Shape) -> str:
    known = {one.lower(): one for one in shape.members}
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    return f" (did you mean {known[near[0]]}?)" if near else f" (there is {', '.join(sorted(shape.members))})"
