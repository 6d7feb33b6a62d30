"""The calls that make a change. Pure: what has come of them is not known here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

from penstock.tables.definitions import aws_shapes
from penstock.tables.definitions.definition import Table, VectorIndex
from penstock.tables.plan.changes import (
    AddIndex,
    Change,
    ClearStream,
    ClearTtl,
    CreateTable,
    DeleteTable,
    DropIndex,
    RemoveResourcePolicy,
    RemoveTags,
    ReplaceTable,
    SetDeletionProtection,
    SetIndexMaximum,
    SetIndexWarm,
    SetMaximum,
    SetPitr,
    SetResourcePolicy,
    SetSse,
    SetStream,
    SetTableClass,
    SetTags,
    SetTtl,
    SetWarm,
    UpdateBilling,
    UpdateIndexThroughput,
    UpdateThroughput,
)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """One call: DynamoDB's name for it, and its body."""

    operation: str
    body: Mapping[str, Any] = field(hash=False)


def requests_of(
    change: Change, name: str, *, arn: str = "", tags: Mapping[str, str] | None = None
) -> tuple[Request, ...]:
    """The calls that make `change` on the table of this full name.

    `arn` is needed for tags and the resource policy. `tags` are put on a new table beside its own. `ReplaceTable` has
    none: it is refused.
    """
    match change:
        case CreateTable(table):
            return _creation(table, name, tags)
        case DeleteTable():
            return (Request("DeleteTable", {"TableName": name}),)
        case ReplaceTable():
            return ()
        case SetTtl(attribute):
            return (_ttl(name, attribute, enabled=True),)
        case ClearTtl(attribute):
            return (_ttl(name, attribute, enabled=False),)
        case SetPitr(days):
            return (_recovery(name, days),)
        case SetTags(new):
            return (Request("TagResource", {"ResourceArn": arn, "Tags": aws_shapes.tag_list(new)}),)
        case RemoveTags(keys):
            return (Request("UntagResource", {"ResourceArn": arn, "TagKeys": list(keys)}),)
        case SetResourcePolicy(policy):
            return (Request("PutResourcePolicy", {"ResourceArn": arn, "Policy": policy}),)
        case RemoveResourcePolicy():
            return (Request("DeleteResourcePolicy", {"ResourceArn": arn}),)
        case _:
            return (Request("UpdateTable", {"TableName": name, **_update(change)}),)


Update = (
    AddIndex
    | ClearStream
    | DropIndex
    | SetDeletionProtection
    | SetIndexMaximum
    | SetIndexWarm
    | SetMaximum
    | SetSse
    | SetStream
    | SetTableClass
    | SetWarm
    | UpdateBilling
    | UpdateIndexThroughput
    | UpdateThroughput
)


def _update(change: Update) -> Json:
    """The members of an UpdateTable request."""
    match change:
        case AddIndex():
            return _new_index(change)
        case DropIndex(index):
            gone = {"IndexName": index.name}
            is_vector = isinstance(index, VectorIndex)
            return {"VectorIndexUpdates": [{"Delete": gone}]} if is_vector else _index_update("Delete", gone)
        case UpdateBilling(billing, _, indexes):
            updates = [
                {"Update": {"IndexName": one, "ProvisionedThroughput": aws_shapes.units(units)}}
                for one, units in indexes
            ]
            return aws_shapes.capacity(billing) | ({"GlobalSecondaryIndexUpdates": updates} if updates else {})
        case UpdateThroughput(units):
            return {"ProvisionedThroughput": aws_shapes.units(units)}
        case UpdateIndexThroughput(index, units):
            return _index_update("Update", {"IndexName": index, "ProvisionedThroughput": aws_shapes.units(units)})
        case SetMaximum(maximum):
            return {"OnDemandThroughput": aws_shapes.maximum(maximum)}
        case SetIndexMaximum(index, maximum):
            return _index_update("Update", {"IndexName": index, "OnDemandThroughput": aws_shapes.maximum(maximum)})
        case SetWarm(warm):
            return {"WarmThroughput": aws_shapes.warm(warm)}
        case SetIndexWarm(index, warm):
            return _index_update("Update", {"IndexName": index, "WarmThroughput": aws_shapes.warm(warm)})
        case SetStream(view):
            return {"StreamSpecification": aws_shapes.stream(view)}
        case ClearStream():
            return {"StreamSpecification": aws_shapes.stream(None)}
        case SetDeletionProtection(enabled):
            return {"DeletionProtectionEnabled": enabled}
        case SetTableClass(table_class):
            return {"TableClass": table_class}
        case SetSse(sse):
            return {"SSESpecification": aws_shapes.encryption(sse)}
        case _:
            assert_never(change)


def _new_index(change: AddIndex) -> Json:
    definitions = aws_shapes.attribute_definitions(change.attributes)
    if not isinstance(change.index, VectorIndex):
        return {"AttributeDefinitions": definitions, **_index_update("Create", aws_shapes.index_shape(change.index))}
    created = {"VectorIndexUpdates": [{"Create": aws_shapes.vector_index_shape(change.index)}]}
    return created | ({"AttributeDefinitions": definitions} if definitions else {})


def _creation(table: Table, name: str, tags: Mapping[str, str] | None) -> tuple[Request, ...]:
    """TTL and recovery have calls of their own, once the table is ACTIVE."""
    calls = [Request("CreateTable", aws_shapes.create_request(table, name, tags))]
    if table.ttl is not None:
        calls.append(_ttl(name, table.ttl, enabled=True))
    if table.pitr:
        calls.append(_recovery(name, table.pitr))
    return tuple(calls)


def _ttl(name: str, attribute: str, *, enabled: bool) -> Request:
    specification = {"Enabled": enabled, "AttributeName": attribute}
    return Request("UpdateTimeToLive", {"TableName": name, "TimeToLiveSpecification": specification})


def _recovery(name: str, days: int) -> Request:
    specification = aws_shapes.recovery(days)
    return Request("UpdateContinuousBackups", {"TableName": name, "PointInTimeRecoverySpecification": specification})


def _index_update(action: str, body: Json) -> Json:
    return {"GlobalSecondaryIndexUpdates": [{action: body}]}


def with_definitions(request: Request, change: Change, description: Json) -> Request:
    """A new index needs the types of its key; moto takes those that it is sent for all that there are, so all are."""
    if not isinstance(change, AddIndex) or "AttributeDefinitions" not in request.body:
        return request
    # One type for each name, or nobody knows which one is taken: the change's own, and the service compares it.
    every = {one.name: one for one in (*aws_shapes.from_description(description).attributes, *change.attributes)}
    definitions = aws_shapes.attribute_definitions(sorted(every.values()))
    return Request(request.operation, {**request.body, "AttributeDefinitions": definitions})
