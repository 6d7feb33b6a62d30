"""Tracing: a span for each call, with OpenTelemetry's attributes for DynamoDB (extra `otel`).

Put it inside `Retrying` to see every attempt, outside to see a call with its waits as one span. Attributes have names,
counts and units, never a value of an item.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from penstock.client.transports.base import STREAMS_OPERATIONS, Answer, AsyncTransport, Request, Transport
from penstock.client.wrappers.wrapper import METERED, AsyncWrapper, Exchange, Inner, Wrapper, WrapperState, tables_of
from penstock.errors import DynamoDBError, PenstockError
from penstock.extras import extra

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

_ASKED = {  # member of the request: attribute
    "IndexName": "aws.dynamodb.index_name",
    "ConsistentRead": "aws.dynamodb.consistent_read",
    "Limit": "aws.dynamodb.limit",
    "ProjectionExpression": "aws.dynamodb.projection",
    "AttributesToGet": "aws.dynamodb.attributes_to_get",
    "Select": "aws.dynamodb.select",
    "ScanIndexForward": "aws.dynamodb.scan_forward",
    "Segment": "aws.dynamodb.segment",
    "TotalSegments": "aws.dynamodb.total_segments",
    "ExclusiveStartTableName": "aws.dynamodb.exclusive_start_table",
}
_ANSWERED = {"Count": "aws.dynamodb.count", "ScannedCount": "aws.dynamodb.scanned_count"}


def _server_of(name: str) -> dict[str, Any]:
    """`server.address` and `server.port` of an endpoint; nothing of a file."""
    if not name.startswith(("http://", "https://")):
        return {}
    parts = urlsplit(name)
    return {"server.address": parts.hostname or "", **({"server.port": parts.port} if parts.port else {})}


def _request_attributes(operation: str, request: Request) -> dict[str, Any]:
    attributes = {attribute: request[member] for member, attribute in _ASKED.items() if request.get(member) is not None}
    tables = tables_of(operation, request)
    if tables:
        attributes["aws.dynamodb.table_names"] = tables
        if len(tables) == 1:
            attributes["db.collection.name"] = tables[0]
    if size := _batch_size(operation, request):
        attributes["db.operation.batch.size"] = size
    return attributes


def _batch_size(operation: str, request: Request) -> int:
    """How many operations a batch has; by the conventions one of a single operation is none."""
    if operation == "BatchGetItem":
        size = sum(len(part.get("Keys") or ()) for part in (request.get("RequestItems") or {}).values())
    elif operation == "BatchWriteItem":
        size = sum(map(len, (request.get("RequestItems") or {}).values()))
    else:
        lists = (request.get(member) for member in ("TransactItems", "Statements", "TransactStatements"))
        size = max((len(members) for members in lists if isinstance(members, list)), default=0)
    return size if size > 1 else 0


def _answer_attributes(operation: str, answer: Answer) -> dict[str, Any]:
    attributes = {attribute: answer[member] for member, attribute in _ANSWERED.items() if member in answer}
    if operation == "ListTables":
        attributes["aws.dynamodb.table_count"] = len(answer.get("TableNames") or ())
    consumed = answer.get("ConsumedCapacity")
    if consumed and operation in METERED:
        reports = consumed if isinstance(consumed, list) else [consumed]
        attributes["aws.dynamodb.consumed_capacity"] = [orjson.dumps(report).decode() for report in reports]
    return attributes


class TracingState(WrapperState[Inner]):
    def __init__(self, inner: Inner, tracer: Tracer | None = None) -> None:
        super().__init__(inner)
        with extra("otel", "Tracing"):
            from opentelemetry import trace
        self._trace = trace
        self._tracer = tracer or trace.get_tracer("penstock")
        self._server = _server_of(inner.name)

    def _exchange(self, operation: str, request: Request) -> Exchange:
        with self._span(operation, request) as span:
            answer: Answer = yield operation, request
            if span.is_recording():
                span.set_attributes(_answer_attributes(operation, answer))
            return answer

    @contextmanager
    def _span(self, operation: str, request: Request) -> Iterator[Span]:
        service = "DynamoDB Streams" if operation in STREAMS_OPERATIONS else "DynamoDB"
        first: dict[str, Any] = {
            "db.system.name": "aws.dynamodb",
            "db.operation.name": operation,
            "rpc.system": "aws-api",
            "rpc.service": service,
            "rpc.method": operation,
            **self._server,
        }
        with self._tracer.start_as_current_span(
            f"{service}.{operation}",
            kind=self._trace.SpanKind.CLIENT,
            attributes=first,
            record_exception=False,  # DynamoDB's messages may quote values
            set_status_on_exception=False,
        ) as span:
            if span.is_recording():
                span.set_attributes(_request_attributes(operation, request))
            try:
                yield span
            except PenstockError as error:
                self._failed(span, error)
                raise

    def _failed(self, span: Span, error: PenstockError) -> None:
        code = error.code if isinstance(error, DynamoDBError) else type(error).__name__
        span.set_attribute("error.type", code)
        if isinstance(error, DynamoDBError):
            span.set_attribute("db.response.status_code", code)
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, code))


class Tracing(TracingState[Transport], Wrapper):
    """A transport whose calls are spans; `tracer` is OpenTelemetry's global one where none is given."""


class AsyncTracing(TracingState[AsyncTransport], AsyncWrapper):
    """The same for asyncio."""
