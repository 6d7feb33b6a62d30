"""GetRecords."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

import orjson

from penstock.engine.context import OperationContext
from penstock.engine.registry import Request, Response, operation
from penstock.engine.streams import shard_iterators, stream_records
from penstock.engine.streams.stream_records import EXPIRE, INSERT, MODIFY, REMOVE, RecordRow, Stream

_DEFAULT_LIMIT: Final = 1_000
_PAGE_BYTES: Final = 1024 * 1024

_EVENTS: Final = {INSERT: "INSERT", MODIFY: "MODIFY", REMOVE: "REMOVE", EXPIRE: "REMOVE"}
_SERVICE: Final = {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"}


@operation("GetRecords", kind="snapshot")
def get_records(context: OperationContext, request: Request) -> Response:
    """A page of records, of at most 1 MB; there is no next iterator at the end of a closed shard."""
    stream, position = shard_iterators.decode(context, request["ShardIterator"])
    limit = request.get("Limit", _DEFAULT_LIMIT)
    rows = _page(context, stream, position, limit)
    response: Response = {"Records": [_record(stream, row) for row in rows]}
    following = rows[-1][0] + 1 if rows else position
    if stream.closed_at is None or following <= stream_records.newest(context.db, stream):
        response["NextShardIterator"] = shard_iterators.encode(context, stream, following)
    return response


def _page(context: OperationContext, stream: Stream, position: int, limit: int) -> list[RecordRow]:
    rows: list[RecordRow] = []
    left = _PAGE_BYTES
    for row in stream_records.records(context.db, stream, position, limit):
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
            "SequenceNumber": stream_records.number_of(sequence),
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
