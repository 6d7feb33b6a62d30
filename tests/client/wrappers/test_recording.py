"""Recording and replaying (recording.py, 1-4)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from penstock.client.transports.embedded import EmbeddedTransport
from penstock.client.wrappers.faults import Faults, Rates
from penstock.client.wrappers.recording import (
    AsyncRecording,
    AsyncReplaying,
    Recording,
    Replaying,
    ReplayMismatch,
    redact_values,
)
from penstock.client.wrappers.retries import Retrying
from penstock.engine import Engine
from penstock.errors import ConditionalCheckFailedException, PenstockError, TimedOut

TABLE = {
    "TableName": "jobs",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}
PUT = {
    "TableName": "jobs",
    "Item": {"id": {"S": "a"}, "n": {"N": "4711"}, "b": {"B": "YWJj"}, "m": {"M": {"deep": {"SS": ["sesame"]}}}},
    "ConditionExpression": "attribute_not_exists(id)",
    "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
}
GET = {"TableName": "jobs", "Key": {"id": {"S": "a"}}}


@pytest.fixture
def embedded():
    with Engine() as engine:
        engine.execute("CreateTable", TABLE)
        yield EmbeddedTransport(engine)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "calls.jsonl"


def conversation(db: Any) -> list[Any]:
    """A few calls, one of them refused; what came of each."""
    told: list[Any] = [db.execute("GetItem", GET), db.execute("PutItem", PUT), db.execute("GetItem", GET)]
    with pytest.raises(ConditionalCheckFailedException) as refused:
        db.execute("PutItem", PUT)
    return [*told, refused.value.message, refused.value.item]


def test_a_replay_gives_what_was_recorded(embedded, file):
    recording = Recording(embedded, file)
    told = conversation(recording)
    replaying = Replaying(file)
    assert conversation(replaying) == told
    assert replaying.unused == 0


def test_equal_requests_are_answered_in_their_order(embedded, file):
    conversation(Recording(embedded, file))
    replaying = Replaying(file)
    assert replaying.execute("GetItem", GET) == {}
    assert replaying.execute("GetItem", GET)["Item"] == PUT["Item"]


def test_a_call_that_was_not_recorded_is_refused(embedded, file):
    conversation(Recording(embedded, file))
    replaying = Replaying(file)
    with pytest.raises(ReplayMismatch, match=r"no further answer to GetItem .*others"):
        replaying.execute("GetItem", {**GET, "TableName": "others"})
    conversation(replaying)
    with pytest.raises(ReplayMismatch):
        replaying.execute("GetItem", GET)


def test_lines_are_plain_json(embedded, file):
    Recording(embedded, file).execute("GetItem", GET)
    assert [json.loads(line) for line in file.read_text().splitlines()] == [
        {"operation": "GetItem", "request": GET, "answer": {}}
    ]


def test_lost_answers_are_replayed_too(embedded, file):
    recording = Recording(Faults(embedded, Rates(timeout_after=1.0)), file)
    with pytest.raises(TimedOut):
        recording.execute("PutItem", PUT)
    with pytest.raises(TimedOut) as raised:
        Replaying(file).execute("PutItem", PUT)
    assert raised.value.sent


def test_a_transactions_token_does_not_matter(embedded, file):
    request = {"TransactItems": [{"Put": {"TableName": "jobs", "Item": {"id": {"S": "a"}}}}]}
    Retrying(Recording(embedded, file)).execute("TransactWriteItems", request)
    assert Retrying(Replaying(file)).execute("TransactWriteItems", request) == {}


def test_redacted_recordings_have_no_values(embedded, file):
    recording = Recording(embedded, file, redact=True)
    conversation(recording)
    recording.execute("ExecuteStatement", {"Statement": "SELECT * FROM jobs WHERE id = 'sesame' AND n = 4711"})
    text = file.read_text()
    assert "jobs" in text
    for value in ("sesame", "4711", "YWJj", '"a"', "The conditional"):
        assert value not in text


@pytest.mark.parametrize("name", ["S", "N", "M", "L", "SS", "BOOL", "Message", "Statement", "NextToken"])
def test_attributes_with_misleading_names_are_redacted(embedded, file, name):
    item = {"id": {"S": "sesame"}, name: {"S": "sesame"}}
    Recording(embedded, file, redact=True).execute("PutItem", {"TableName": "jobs", "Item": item})
    assert "sesame" not in file.read_text()
    assert "sesame" not in str(redact_values({"Item": {name: {"S": "sesame"}}}))


def test_a_redacted_recording_can_be_replayed(embedded, file):
    conversation(Recording(embedded, file, redact=True))
    replaying = Replaying(file, redact=True)
    assert replaying.execute("GetItem", GET) == {}
    assert replaying.execute("PutItem", PUT) == {}
    item = replaying.execute("GetItem", GET)["Item"]
    assert item["n"] == {"N": "0"}
    assert item["m"] == {"M": {"deep": {"SS": ["redacted"]}}}


def test_a_damaged_line_is_named(file):
    file.write_text('{"operation": "GetItem", "request": {}, "answer": {}}\nwhat?\n')
    with pytest.raises(PenstockError, match="line 2: not a line of a recording"):
        Replaying(file)


def test_asyncio_records_and_replays(embedded, file):
    class Embedded:
        name = "async"

        async def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
            return embedded.execute(operation, request)

        async def close(self) -> None:
            pass

    async def run() -> None:
        recording = AsyncRecording(Embedded(), file)
        await recording.execute("PutItem", PUT)
        with pytest.raises(ConditionalCheckFailedException):
            await recording.execute("PutItem", PUT)
        await recording.close()
        replaying = AsyncReplaying(file)
        assert await replaying.execute("PutItem", PUT) == {}
        assert replaying.unused == 1

    asyncio.run(run())
