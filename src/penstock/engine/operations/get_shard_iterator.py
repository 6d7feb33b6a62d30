"""GetShardIterator."""

from __future__ import annotations

from penstock.engine.context import OperationContext
from penstock.engine.registry import Request, Response, operation
from penstock.engine.streams import shard_iterators, stream_records
from penstock.engine.streams.stream_records import Stream
from penstock.errors import ResourceNotFoundException, ValidationException

_INVALID = "One or more parameter values were invalid: "
_BY_NUMBER = ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER")


@operation("GetShardIterator", kind="snapshot")
def get_shard_iterator(context: OperationContext, request: Request) -> Response:
    _check_parameters(request)
    stream = shard_iterators.stream_of(context, request["StreamArn"])
    if request["ShardId"] != stream.shard_id:
        raise ResourceNotFoundException(
            f"Requested resource not found: Shard: {request['ShardId']} not found for Stream: {stream.arn}"
        )
    return {"ShardIterator": shard_iterators.encode(context, stream, _position(context, stream, request))}


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
        return stream_records.newest(context.db, stream) + 1
    if kind == "AT_TIMESTAMP":
        return stream_records.since(context.db, stream, float(request["Timestamp"]))
    sequence = _named(context, stream, request["SequenceNumber"])
    return sequence if kind == "AT_SEQUENCE_NUMBER" else sequence + 1


def _named(context: OperationContext, stream: Stream, number: str) -> int:
    """The sequence that the number means: one of this shard's, or its start; TrimmedDataAccessException if gone."""
    sequence = stream_records.sequence_of(number)
    if sequence is None or not stream.start <= sequence <= max(stream.start, stream_records.newest(context.db, stream)):
        raise ValidationException(f"{_INVALID}Invalid SequenceNumber: {number} for shard: {stream.shard_id}")
    shard_iterators.refuse_trimmed(stream, sequence)
    return sequence
