"""A table in AWS's JSON: what CreateTable is sent, and what DescribeTable and its companions answer.

What the service makes itself (ARNs, ids, dates, sizes, states) is no part of a definition and is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.tables.definitions.definition import (
    ON_DEMAND,
    PITR_DAYS,
    Attribute,
    Billing,
    Index,
    Key,
    Maximum,
    Table,
    Throughput,
    VectorIndex,
)
from penstock.tables.definitions.problems import LEAST_WARM
from penstock.tables.definitions.resource_policy import policy_text

ON_DEMAND_WARM = Throughput(*LEAST_WARM)
"""What a new on-demand table can take at once: a value of the service's, not of a definition."""

AWS_MANAGED_KEY = "alias/aws/dynamodb"
UNLIMITED = -1

Json = dict[str, Any]


# ── to AWS ───────────────────────────────────────────────────────────────────────────────────────


def create_request(table: Table, name: str, tags: Mapping[str, str] | None = None) -> Json:
    """The CreateTable request. TTL and point-in-time recovery are not part of it: they have calls of their own."""
    attributes, local, others = table.attributes, table.local_indexes, table.global_indexes
    every_tag = {**(tags or {}), **(table.tags or {})}
    request: Json = {
        "TableName": name,
        "AttributeDefinitions": attribute_definitions(attributes),
        "KeySchema": key_schema(table.key),
        **capacity(table.billing),
    }
    _put(request, "OnDemandThroughput", table.on_demand_max and new_maximum(table.on_demand_max))
    _put(request, "WarmThroughput", table.warm and warm(table.warm))
    _put(request, "LocalSecondaryIndexes", [index_shape(one) for one in local])
    _put(request, "GlobalSecondaryIndexes", [index_shape(one) for one in others])
    _put(request, "VectorIndexes", [vector_index_shape(one) for one in table.vector_indexes])
    _put(request, "StreamSpecification", stream(table.stream) if table.stream else None)
    _put(request, "SSESpecification", encryption(table.sse) if table.sse else None)
    _put(request, "TableClass", table.table_class)
    _put(request, "DeletionProtectionEnabled", table.deletion_protection)
    _put(request, "Tags", tag_list(every_tag))
    _put(request, "ResourcePolicy", table.resource_policy or None)
    return request


def attribute_definitions(attributes: Iterable[Attribute]) -> list[Json]:
    return [{"AttributeName": one.name, "AttributeType": one.type} for one in attributes]


def key_schema(key: Key) -> list[Json]:
    return [
        *({"AttributeName": one.name, "KeyType": "HASH"} for one in key.hash),
        *({"AttributeName": one.name, "KeyType": "RANGE"} for one in key.range),
    ]


def index_shape(index: Index) -> Json:
    """An index as CreateTable and UpdateTable are told of it."""
    shape: Json = {
        "IndexName": index.name,
        "KeySchema": key_schema(index.key),
        "Projection": projection(index.projection),
    }
    _put(shape, "ProvisionedThroughput", index.throughput and units(index.throughput))
    _put(shape, "OnDemandThroughput", index.on_demand_max and new_maximum(index.on_demand_max))
    _put(shape, "WarmThroughput", index.warm and warm(index.warm))
    return shape


def vector_index_shape(index: VectorIndex) -> Json:
    """A vector index as CreateTable and UpdateTable are told of it."""
    schema = [] if index.partition is None else [_search_element(index.partition, "HASH")]
    schema += [_search_element(one, "INLINE_FILTER") for one in index.filters]
    shape: Json = {
        "IndexName": index.name,
        "VectorAttribute": {"AttributeName": index.attribute},
        "Dimensions": index.dimensions,
        "DistanceFunction": index.distance.upper(),
        "Projection": projection(index.projection),
    }
    _put(shape, "SearchSchema", schema)
    return shape


def _search_element(attribute: Attribute, kind: str) -> Json:
    return {"AttributeName": attribute.name, "SearchSchemaElementType": kind}


def projection(kept: str | tuple[str, ...]) -> Json:
    if isinstance(kept, str):
        return {"ProjectionType": kept}
    return {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(kept)}


def capacity(billing: Billing) -> Json:
    if isinstance(billing, Throughput):
        return {"BillingMode": "PROVISIONED", "ProvisionedThroughput": units(billing)}
    return {"BillingMode": "PAY_PER_REQUEST"}


def units(throughput: Throughput) -> Json:
    return {"ReadCapacityUnits": throughput.read, "WriteCapacityUnits": throughput.write}


def warm(throughput: Throughput) -> Json:
    return {"ReadUnitsPerSecond": throughput.read, "WriteUnitsPerSecond": throughput.write}


def new_maximum(limit: Maximum) -> Json:
    """A maximum for something that has none yet; {} where there is no limit."""
    return {member: value for member, value in maximum(limit).items() if value != UNLIMITED}


def maximum(limit: Maximum) -> Json:
    """A maximum for something that may have one: what is unlimited is said."""
    return {
        "MaxReadRequestUnits": UNLIMITED if limit.read is None else limit.read,
        "MaxWriteRequestUnits": UNLIMITED if limit.write is None else limit.write,
    }


def stream(view: str | None) -> Json:
    if view is None:
        return {"StreamEnabled": False}
    return {"StreamEnabled": True, "StreamViewType": view}


def encryption(sse: bool | str) -> Json:
    if sse is False:
        return {"Enabled": False}
    shape: Json = {"Enabled": True, "SSEType": "KMS"}
    if isinstance(sse, str):
        shape["KMSMasterKeyId"] = sse
    return shape


def recovery(days: int) -> Json:
    if days == 0:
        return {"PointInTimeRecoveryEnabled": False}
    return {"PointInTimeRecoveryEnabled": True, "RecoveryPeriodInDays": days}


def tag_list(tags: Mapping[str, str]) -> list[Json]:
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def _put(shape: Json, member: str, value: object) -> None:
    """Sets a member that has something to say."""
    if value is not None and value != [] and value != {}:
        shape[member] = value


# ── from AWS ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Facts:
    """What a description says of a table beside its definition."""

    name: str
    status: str
    items: int
    bytes: int
    arn: str
    filling: tuple[str, ...] = ()
    """Indexes that are being made."""
    leaving: tuple[str, ...] = ()
    """Indexes that are being deleted."""
    stream_arn: str | None = None
    """The stream that is on."""
    replicas: tuple[str, ...] = ()
    """Regions of other tables that it is replicated with."""
    rescaled: bool = False
    """Its provisioned capacity was changed since it was made: by autoscaling, or by somebody."""


_RESCALED = ("LastIncreaseDateTime", "LastDecreaseDateTime")


def facts_of(description: Mapping[str, Any]) -> Facts:
    """State and sizes, from an answer of DescribeTable."""
    table = description.get("Table", description)
    indexes = [*(table.get("GlobalSecondaryIndexes") or ()), *(table.get("VectorIndexes") or ())]
    return Facts(
        name=table["TableName"],
        status=table.get("TableStatus", "ACTIVE"),
        items=table.get("ItemCount", 0),
        bytes=table.get("TableSizeBytes", 0),
        arn=table.get("TableArn", ""),
        filling=tuple(one["IndexName"] for one in indexes if one.get("IndexStatus") == "CREATING"),
        leaving=tuple(one["IndexName"] for one in indexes if one.get("IndexStatus") == "DELETING"),
        stream_arn=table.get("LatestStreamArn") if stream_of(table) else None,
        replicas=tuple(sorted(str(one.get("RegionName", "?")) for one in table.get("Replicas") or ())),
        rescaled=any((table.get("ProvisionedThroughput") or {}).get(one) for one in _RESCALED),
    )


def from_description(
    description: Mapping[str, Any],
    *,
    ttl: Mapping[str, Any] | None = None,
    pitr: Mapping[str, Any] | None = None,
    tags: Iterable[Mapping[str, str]] | None = None,
    policy: str | None = None,
    name: str | None = None,
) -> Table:
    """The table that the answers of DescribeTable, DescribeTimeToLive, DescribeContinuousBackups, ListTagsOfResource
    (its `Tags`) and GetResourcePolicy (its `Policy`, '' for none) describe; what was not asked for is None in it. An
    index that is being deleted is no longer part of it, one that is being made is.
    """
    table = description.get("Table", description)
    types = {one["AttributeName"]: one["AttributeType"] for one in table["AttributeDefinitions"]}
    billing = billing_of(table)
    return Table.unchecked(
        name=name or table["TableName"],
        key=key_of(table["KeySchema"], types),
        indexes=indexes_of(table, types, billing),
        vector_indexes=vector_indexes_of(table, types),
        ttl=None if ttl is None else ttl_of(ttl),
        stream=stream_of(table),
        pitr=None if pitr is None else pitr_of(pitr),
        tags=None if tags is None else tags_of(tags),
        billing=billing,
        on_demand_max=maximum_of(table, billing),
        warm=warm_of(table, billing),
        table_class=(table.get("TableClassSummary") or {}).get("TableClass", "STANDARD"),
        deletion_protection=bool(table.get("DeletionProtectionEnabled", False)),
        sse=encryption_of(table.get("SSEDescription")),
        resource_policy=policy_text(policy),
    )


_TOLD_AS = {
    "deletion_protection": "DeletionProtectionEnabled",
    "on_demand_max": "OnDemandThroughput",
    "sse": "SSEDescription",
    "stream": "StreamSpecification",
    "table_class": "TableClassSummary",
    "warm": "WarmThroughput",
}


def absent_settings(description: Mapping[str, Any]) -> frozenset[str]:
    """Settings that an answer of DescribeTable does not have at all: `sse`, and `by-due.warm` for that of an index."""
    table = description.get("Table", description)
    found = {ours for ours, theirs in _TOLD_AS.items() if table.get(theirs) is None}
    for index in table.get("GlobalSecondaryIndexes") or ():
        members = ("on_demand_max", "warm")
        found |= {f"{index['IndexName']}.{ours}" for ours in members if index.get(_TOLD_AS[ours]) is None}
    return frozenset(found)


def key_of(schema: Sequence[Mapping[str, str]], types: Mapping[str, str]) -> Key:
    parts = [(Attribute(one["AttributeName"], types[one["AttributeName"]]), one["KeyType"]) for one in schema]
    return Key(
        tuple(one for one, role in parts if role == "HASH"),
        tuple(one for one, role in parts if role == "RANGE"),
    )


def indexes_of(table: Mapping[str, Any], types: Mapping[str, str], billing: Billing) -> tuple[Index, ...]:
    found = [
        _index_of(one, types, billing, local=member.startswith("Local"))
        for member in ("LocalSecondaryIndexes", "GlobalSecondaryIndexes")
        for one in table.get(member) or ()
        if one.get("IndexStatus") != "DELETING"
    ]
    return tuple(sorted(found, key=lambda one: one.name))


def _index_of(shape: Mapping[str, Any], types: Mapping[str, str], billing: Billing, *, local: bool) -> Index:
    kept = shape["Projection"]
    provisioned = isinstance(billing, Throughput) and not local
    return Index(
        shape["IndexName"],
        key=key_of(shape["KeySchema"], types),
        projection=kept.get("NonKeyAttributes", ()) if kept["ProjectionType"] == "INCLUDE" else kept["ProjectionType"],
        local=local,
        throughput=units_of(shape.get("ProvisionedThroughput")) if provisioned else None,
        on_demand_max=None if local else maximum_of(shape, billing),
        warm=None if local else warm_of(shape, billing),
    )


def vector_indexes_of(table: Mapping[str, Any], types: Mapping[str, str]) -> tuple[VectorIndex, ...]:
    shapes = [one for one in table.get("VectorIndexes") or () if one.get("IndexStatus") != "DELETING"]
    return tuple(sorted((_vector_index_of(one, types) for one in shapes), key=lambda one: one.name))


def _vector_index_of(shape: Mapping[str, Any], types: Mapping[str, str]) -> VectorIndex:
    kept = shape["Projection"]
    parts = [
        (Attribute(one["AttributeName"], types[one["AttributeName"]]), one["SearchSchemaElementType"])
        for one in shape.get("SearchSchema") or ()
    ]
    return VectorIndex(
        shape["IndexName"],
        shape["VectorAttribute"]["AttributeName"],
        dimensions=shape["Dimensions"],
        distance=shape["DistanceFunction"],
        partition=next((one for one, kind in parts if kind == "HASH"), None),
        filters=[one for one, kind in parts if kind != "HASH"],
        projection=kept.get("NonKeyAttributes", ()) if kept["ProjectionType"] == "INCLUDE" else kept["ProjectionType"],
    )


def billing_of(table: Mapping[str, Any]) -> Billing:
    """Absent from the description of a table that was always provisioned."""
    mode = (table.get("BillingModeSummary") or {}).get("BillingMode") or table.get("BillingMode") or "PROVISIONED"
    if mode == "PAY_PER_REQUEST":
        return ON_DEMAND
    return units_of(table.get("ProvisionedThroughput")) or Throughput(1, 1)


def units_of(shape: Mapping[str, Any] | None) -> Throughput | None:
    return None if not shape else Throughput(int(shape["ReadCapacityUnits"]), int(shape["WriteCapacityUnits"]))


def maximum_of(shape: Mapping[str, Any], billing: Billing) -> Maximum | None:
    """None where there is no limit. A provisioned table has none, whatever it had before."""
    if isinstance(billing, Throughput):
        return None
    limit = shape.get("OnDemandThroughput") or {}
    read, write = (limit.get(f"Max{one}RequestUnits", UNLIMITED) for one in ("Read", "Write"))
    if read == write == UNLIMITED:
        return None
    return Maximum(None if read == UNLIMITED else read, None if write == UNLIMITED else write)


def warm_of(shape: Mapping[str, Any], billing: Billing) -> Throughput | None:
    """None where it is only what the capacity mode gives to every table."""
    given = shape.get("WarmThroughput")
    if not given:
        return None
    base = billing if isinstance(billing, Throughput) else ON_DEMAND_WARM
    found = Throughput(given.get("ReadUnitsPerSecond", base.read), given.get("WriteUnitsPerSecond", base.write))
    return None if found == base or found == units_of(shape.get("ProvisionedThroughput")) else found


def stream_of(table: Mapping[str, Any]) -> str | None:
    specification = table.get("StreamSpecification") or {}
    view: str | None = specification.get("StreamViewType") if specification.get("StreamEnabled") else None
    return view


def ttl_of(answer: Mapping[str, Any]) -> str | None:
    """Being enabled counts as enabled, being disabled as disabled."""
    description = answer.get("TimeToLiveDescription", answer)
    enabled = description.get("TimeToLiveStatus") in ("ENABLED", "ENABLING")
    attribute: str | None = description.get("AttributeName") if enabled else None
    return attribute


def pitr_of(answer: Mapping[str, Any]) -> int:
    described = answer.get("ContinuousBackupsDescription", answer)
    described = described.get("PointInTimeRecoveryDescription", described)
    if described.get("PointInTimeRecoveryStatus") != "ENABLED":
        return 0
    return int(described.get("RecoveryPeriodInDays", PITR_DAYS))


def tags_of(tags: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Without AWS's own, which nobody may set."""
    return {one["Key"]: one["Value"] for one in tags if not one["Key"].startswith("aws:")}


def encryption_of(description: Mapping[str, Any] | None) -> bool | str:
    if not description or description.get("Status") not in ("ENABLED", "ENABLING", "UPDATING"):
        return False
    if description.get("SSEType") != "KMS":
        return False
    arn: str = description.get("KMSMasterKeyArn") or ""
    return True if not arn or arn.endswith(AWS_MANAGED_KEY) else arn
