"""ListStreams."""

from __future__ import annotations

from penstock.engine.context import OperationContext
from penstock.engine.registry import Request, Response, operation
from penstock.engine.streams import shard_iterators, stream_records

_DEFAULT_LIMIT = 100


@operation("ListStreams", kind="read")
def list_streams(context: OperationContext, request: Request) -> Response:
    """Streams of the caller's scope, closed ones included, in the order of their tables' names."""
    limit = request.get("Limit", _DEFAULT_LIMIT)
    after = ("", "")
    start = request.get("ExclusiveStartStreamArn")
    if start is not None:
        _, *place = shard_iterators.parse_arn(start)
        after = (place[0], place[1])
    found = stream_records.page(context.db, context.scope, request.get("TableName"), after, limit + 1)
    response: Response = {
        "Streams": [
            {"StreamArn": one.arn, "StreamLabel": one.label, "TableName": one.table_name} for one in found[:limit]
        ]
    }
    if len(found) > limit:
        response["LastEvaluatedStreamArn"] = found[limit - 1].arn
    return response
