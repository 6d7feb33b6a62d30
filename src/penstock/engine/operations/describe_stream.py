"""DescribeStream."""

from __future__ import annotations

from typing import Any

import orjson

from penstock.engine.context import OperationContext
from penstock.engine.registry import Request, Response, operation
from penstock.engine.streams import shard_iterators, stream_records
from penstock.engine.streams.stream_records import Stream
from penstock.errors import ValidationException


@operation("DescribeStream", kind="snapshot")
def describe_stream(context: OperationContext, request: Request) -> Response:
    """A stream and its one shard; `ExclusiveStartShardId` skips it, as it does in DynamoDB."""
    stream = shard_iterators.stream_of(context, request["StreamArn"])
    description: dict[str, Any] = {
        "StreamArn": stream.arn,
        "StreamLabel": stream.label,
        "StreamStatus": "ENABLED" if stream.closed_at is None else "DISABLED",
        "StreamViewType": stream.view,
        "CreationRequestDateTime": round(stream.created_at, 3),
        "TableName": stream.table_name,
        "KeySchema": orjson.Fragment(stream.key_schema),
        "Shards": [],
    }
    if _is_wanted(stream, request):
        description["Shards"].append(_shard(context, stream))
    return {"StreamDescription": description}


def _is_wanted(stream: Stream, request: Request) -> bool:
    children = request.get("ShardFilter")
    if children is not None:
        if "Type" not in children:
            raise ValidationException("Type must be specified in ShardFilter")
        if "ShardId" not in children:
            raise ValidationException("ShardId must be specified when ShardFilter Type is CHILD_SHARDS")
        return False  # The only shard is nobody's child.
    after: str = request.get("ExclusiveStartShardId", "")
    return stream.shard_id > after


def _shard(context: OperationContext, stream: Stream) -> dict[str, Any]:
    numbers = {"StartingSequenceNumber": stream_records.number_of(stream.start)}
    if stream.closed_at is not None:
        numbers["EndingSequenceNumber"] = stream_records.number_of(
            max(stream_records.newest(context.db, stream), stream.start)
        )
    return {"ShardId": stream.shard_id, "SequenceNumberRange": numbers}
