"""Tracing, held against OpenTelemetry's own SDK and its list of names."""

from __future__ import annotations

import asyncio
import builtins
import json
from typing import Any

import pytest

from penstock.client.transports.embedded import EmbeddedTransport
from penstock.client.wrappers import tracing
from penstock.client.wrappers.tracing import AsyncTracing, Tracing
from penstock.engine import Engine
from penstock.errors import PenstockError, ResourceNotFoundException, TimedOut

TABLE = {
    "TableName": "jobs",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}


@pytest.fixture
def spans():
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    return InMemorySpanExporter()


@pytest.fixture
def tracer(spans):
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return provider.get_tracer("tests")


@pytest.fixture
def traced(tracer):
    with Engine() as engine:
        engine.execute("CreateTable", TABLE)
        yield Tracing(EmbeddedTransport(engine), tracer)


def last(spans) -> Any:
    return spans.get_finished_spans()[-1]


def test_a_call_is_a_client_span_with_the_conventions_attributes(traced, spans):
    traced.execute("Scan", {"TableName": "jobs", "Limit": 5, "Select": "COUNT", "ReturnConsumedCapacity": "TOTAL"})
    span = last(spans)
    assert span.name == "DynamoDB.Scan"
    assert span.kind.name == "CLIENT"
    attributes = dict(span.attributes)
    consumed = attributes.pop("aws.dynamodb.consumed_capacity")
    assert [json.loads(one) for one in consumed] == [{"TableName": "jobs", "CapacityUnits": 2.0}]
    assert attributes == {
        "db.system.name": "aws.dynamodb",
        "db.operation.name": "Scan",
        "db.collection.name": "jobs",
        "rpc.system": "aws-api",
        "rpc.service": "DynamoDB",
        "rpc.method": "Scan",
        "aws.dynamodb.table_names": ("jobs",),
        "aws.dynamodb.limit": 5,
        "aws.dynamodb.select": "COUNT",
        "aws.dynamodb.count": 0,
        "aws.dynamodb.scanned_count": 0,
    }


def test_a_batch_tells_its_size_and_no_values(traced, spans):
    writes = [{"PutRequest": {"Item": {"id": {"S": f"secret{n}"}}}} for n in range(3)]
    traced.execute("BatchWriteItem", {"RequestItems": {"jobs": writes}})
    span = last(spans)
    assert span.attributes["db.operation.batch.size"] == 3
    assert "secret" not in span.to_json()


def test_an_error_is_told_by_its_code_only(traced, spans):
    with pytest.raises(ResourceNotFoundException):
        traced.execute("GetItem", {"TableName": "nothing", "Key": {"id": {"S": "secret"}}})
    span = last(spans)
    assert span.status.status_code.name == "ERROR"
    assert span.attributes["error.type"] == span.attributes["db.response.status_code"] == "ResourceNotFoundException"
    assert span.events == ()


def test_a_server_is_named(tracer, spans):
    class Silent:
        name = "https://localhost:8000"

        async def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
            raise TimedOut(self.name, "no answer", sent=True)

        async def close(self) -> None:
            pass

    async def run() -> None:
        with pytest.raises(TimedOut):
            await AsyncTracing(Silent(), tracer).execute("GetItem", {"TableName": "jobs"})

    asyncio.run(run())
    attributes = last(spans).attributes
    assert (attributes["server.address"], attributes["server.port"]) == ("localhost", 8000)
    assert attributes["error.type"] == "TimedOut"
    assert "db.response.status_code" not in attributes


def test_names_are_those_of_the_conventions():
    conventions = pytest.importorskip("opentelemetry.semconv._incubating.attributes.aws_attributes")
    known = {value for name, value in vars(conventions).items() if name.startswith("AWS_DYNAMODB")}
    ours = {*tracing._ASKED.values(), *tracing._ANSWERED.values(), "aws.dynamodb.table_names"}
    assert ours <= known


def test_without_opentelemetry_the_error_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ModuleNotFoundError(name, name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with Engine() as engine, pytest.raises(PenstockError, match=r"pip install 'penstock\[otel\]'"):
        Tracing(EmbeddedTransport(engine))
