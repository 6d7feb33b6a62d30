"""ListStreams, DescribeStream, GetShardIterator, GetRecords."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

import orjson

from penstock.engine import streams
from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.registry import Request, Response, operation
from penstock.engine.streams import EXPIRE, INSERT, MODIFY, REMOVE, RecordRow, Stream
from penstock.errors import ResourceNotFoundException, ValidationException

_LISTED_STREAMS = 100


@operation("ListStreams", kind="read")
def list_streams(context: OperationContext, request: Request) -> Response:
    """Streams of the caller's scope, closed ones included, in the order of their tables' names."""
    limit = request.get("Limit", _LISTED_STREAMS)
    after = ("", "")
    start = request.get("ExclusiveStartStreamArn")
    if start is not None:
        _, *place = streams.parse_arn(start)
        after = (place[0], place[1])
    found = streams.page(context.db, context.scope, request.get("TableName"), after, limit + 1)
    response: Response = {
        "Streams": [
            {"StreamArn": one.arn, "StreamLabel": one.label, "TableName": one.table_name} for one in found[:limit]
        ]
    }
    if len(found) > limit:
        response["LastEvaluatedStreamArn"] = found[limit - 1].arn
    return response


@operation("DescribeStream", kind="snapshot")
def describe_stream(context: OperationContext, request: Request) -> Response:
    """A stream and its one shard; `ExclusiveStartShardId` skips it, as it does in DynamoDB."""
    stream = streams.stream_of(context, request["StreamArn"])
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
    numbers = {"StartingSequenceNumber": streams.number_of(stream.start)}
    if stream.closed_at is not None:
        numbers["EndingSequenceNumber"] = streams.number_of(max(streams.newest(context.db, stream), stream.start))
    return {"ShardId": stream.shard_id, "SequenceNumberRange": numbers}


_INVALID = "One or more parameter values were invalid: "
_BY_NUMBER = ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER")


@operation("GetShardIterator", kind="snapshot")
def get_shard_iterator(context: OperationContext, request: Request) -> Response:
    _check_parameters(request)
    stream = streams.stream_of(context, request["StreamArn"])
    if request["ShardId"] != stream.shard_id:
        raise ResourceNotFoundException(
            f"Requested resource not found: Shard: {request['ShardId']} not found for Stream: {stream.arn}"
        )
    return {"ShardIterator": streams.encode(context, stream, _position(context, stream, request))}


def _check_parameters(request: Request) -> None:
    kind = request["ShardIteratorType"]
    for member, kinds in (("SequenceNumber", _BY_NUMBER), ("Timestamp", ("AT_TIMESTAMP",))):
        if member in request and kind not in kinds:
            raise ValidationException(f"{_INVALID}{member} should not be specified for iterator type {kind}")
        if member not in request and kind in kinds:
            raise ValidationException(f"{_INVALID}{member} must be specified for iterator type {kind}")


def _position(context: OperationContext, stream: Stream, request: Request) -> int:
    kind = request["ShardIteratorType"]
    if kind == "TRIM_HORIZON":
        return stream.first
    if kind == "LATEST":
        return streams.newest(context.db, stream) + 1
    if kind == "AT_TIMESTAMP":
        return streams.since(context.db, stream, float(request["Timestamp"]))
    sequence = _sequence_of(context, stream, request["SequenceNumber"])
    position = sequence if kind == "AT_SEQUENCE_NUMBER" else sequence + 1
    # After the last record that was trimmed, nothing is missing: who had read that one goes on.
    streams.refuse_trimmed(stream, position)
    return position


def _sequence_of(context: OperationContext, stream: Stream, number: str) -> int:
    """The sequence that the number means: one of this shard's, or its start."""
    sequence = streams.sequence_of(number)
    if sequence is None or not stream.start <= sequence <= max(stream.start, streams.newest(context.db, stream)):
        raise ValidationException(f"{_INVALID}Invalid SequenceNumber: {number} for shard: {stream.shard_id}")
    return sequence


_READ_RECORDS: Final = 1_000
_PAGE_BYTES: Final = 1024 * 1024

_EVENTS: Final = {INSERT: "INSERT", MODIFY: "MODIFY", REMOVE: "REMOVE", EXPIRE: "REMOVE"}
_SERVICE: Final = {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}


@operation("GetRecords", kind="snapshot")
def get_records(context: OperationContext, request: Request) -> Response:
    """A page of records, of at most 1 MB; there is no next iterator at the end of a closed shard."""
    stream, position = streams.decode(context, request["ShardIterator"])
    limit = request.get("Limit", _READ_RECORDS)
    rows = _page(context, stream, position, limit)
    response: Response = {"Records": [_record(stream, row) for row in rows]}
    following = rows[-1][0] + 1 if rows else position
    if stream.closed_at is None or following <= streams.newest(context.db, stream):
        response["NextShardIterator"] = streams.encode(context, stream, following)
    return response


def _page(context: OperationContext, stream: Stream, position: int, limit: int) -> list[RecordRow]:
    rows: list[RecordRow] = []
    left = _PAGE_BYTES
    for row in streams.records(context.db, stream, position, limit):
        left -= row[3]
        if rows and left < 0:
            break
        rows.append(row)
    return rows


def _record(stream: Stream, row: RecordRow) -> dict[str, Any]:
    sequence, created_at, event, size, images = row
    facts = orjson.dumps(
        {
            "ApproximateCreationDateTime": int(created_at),
            "SequenceNumber": streams.number_of(sequence),
            "SizeBytes": size,
            "StreamViewType": stream.view,
        }
    )
    record: dict[str, Any] = {
        "eventID": blake2b(b"%d" % sequence, digest_size=16, key=stream.secret).hexdigest(),
        "eventName": _EVENTS[event],
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": stream.scope.region,
        # Both are objects of JSON: joined as texts, the images are not decoded.
        "dynamodb": orjson.Fragment(facts[:-1] + b"," + images[1:]),
    }
    if event == EXPIRE:
        record["userIdentity"] = _SERVICE
    return record
