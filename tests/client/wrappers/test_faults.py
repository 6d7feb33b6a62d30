"""Faults (faults.py, 1-3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.client.transports.embedded import EmbeddedTransport
from penstock.client.wrappers.faults import AsyncFaults, Faults, Rates
from penstock.engine import Engine
from penstock.errors import (
    ConditionalCheckFailedException,
    ConnectionFailed,
    DynamoDBError,
    InternalServerError,
    PenstockError,
    TimedOut,
    TransactionCanceledException,
)
from penstock.wire.throttles import reasons_of

TABLE = {
    "TableName": "jobs",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}


def put(name: str) -> dict[str, Any]:
    return {"TableName": "jobs", "Item": {"id": {"S": name}}}


@pytest.fixture
def embedded():
    transport = EmbeddedTransport(Engine())
    transport.execute("CreateTable", TABLE)
    yield transport
    transport.close()


def stored(embedded) -> set[str]:
    return {item["id"]["S"] for item in embedded.execute("Scan", {"TableName": "jobs"})["Items"]}


@pytest.mark.parametrize(
    ("kind", "error", "happened"),
    [
        ("internal_error", InternalServerError, False),
        ("internal_error_after", InternalServerError, True),
        ("timeout_before", TimedOut, False),
        ("timeout_after", TimedOut, True),
        ("reset_before", ConnectionFailed, False),
        ("reset_after", ConnectionFailed, True),
    ],
)
def test_a_fault_after_the_effect_loses_only_the_answer(embedded, kind, error, happened):
    faults = Faults(embedded, Rates(**{kind: 1.0}))
    with pytest.raises(error) as raised:
        faults.execute("PutItem", put("a"))
    assert stored(embedded) == ({"a"} if happened else set())
    assert raised.value.retryable
    assert [injected.kind for injected in faults.log] == [kind]


def test_both_timeouts_look_alike(embedded):
    for kind in ("timeout_before", "timeout_after"):
        with pytest.raises(TimedOut) as raised:
            Faults(embedded, Rates(**{kind: 1.0})).execute("PutItem", put("a"))
        assert raised.value.sent


def test_a_refused_call_loses_its_refusal_too(embedded):
    embedded.execute("PutItem", put("a"))
    faults = Faults(embedded, Rates(timeout_after=1.0))
    with pytest.raises(TimedOut):
        faults.execute("PutItem", {**put("a"), "ConditionExpression": "attribute_not_exists(id)"})


def test_throttles_carry_dynamodbs_codes_and_reasons(embedded):
    faults = Faults(embedded, Rates(throttle=1.0))
    seen = set()
    for _ in range(60):
        with pytest.raises(DynamoDBError) as raised:
            faults.execute("PutItem", put("a"))
        (reason,) = reasons_of(raised.value)
        assert reason["resource"].endswith(":table/jobs")
        seen.add((raised.value.code, reason["reason"]))
    assert seen == {
        ("ProvisionedThroughputExceededException", "TableWriteProvisionedThroughputExceeded"),
        ("ProvisionedThroughputExceededException", "TableWriteKeyRangeThroughputExceeded"),
        ("ThrottlingException", "TableWriteKeyRangeThroughputExceeded"),
        ("ThrottlingException", "TableWriteMaxOnDemandThroughputExceeded"),
        ("RequestLimitExceeded", "TableWriteAccountLimitExceeded"),
    }
    assert stored(embedded) == set()


def test_transactions_may_be_cancelled_by_a_throttle(embedded):
    faults = Faults(embedded, Rates(throttle=1.0))
    codes = set()
    for _ in range(60):
        with pytest.raises(DynamoDBError) as raised:
            faults.execute("TransactWriteItems", {"TransactItems": [{"Put": put("a")}, {"Put": put("b")}]})
        if isinstance(raised.value, TransactionCanceledException):
            codes |= {reason["Code"] for reason in raised.value.fields["CancellationReasons"]}
    assert codes == {"None", "ThrottlingError", "ProvisionedThroughputExceeded", "TransactionConflict"}


def test_a_part_of_a_batch_comes_back(embedded):
    faults = Faults(embedded, Rates(unprocessed=1.0), seed=3)
    names = {f"n{n}" for n in range(25)}
    writes = [{"PutRequest": {"Item": {"id": {"S": name}}}} for name in sorted(names)]
    answer = faults.execute("BatchWriteItem", {"RequestItems": {"jobs": writes}})
    back = {one["PutRequest"]["Item"]["id"]["S"] for one in answer["UnprocessedItems"]["jobs"]}
    assert back
    assert stored(embedded) == names - back
    keys = [{"id": {"S": name}} for name in sorted(names - back)]
    answer = faults.execute("BatchGetItem", {"RequestItems": {"jobs": {"Keys": keys, "ConsistentRead": True}}})
    rest = answer["UnprocessedKeys"]["jobs"]
    assert rest["ConsistentRead"] is True
    assert len(rest["Keys"]) + len(answer["Responses"]["jobs"]) == len(keys)


def test_what_cannot_come_back_in_part_is_throttled_instead(embedded):
    faults = Faults(embedded, Rates(unprocessed=1.0))
    with pytest.raises(DynamoDBError):
        faults.execute("PutItem", put("a"))
    assert faults.counts == {"throttle": 1}


def outcomes(embedded, seed: int) -> list[str]:
    faults = Faults(embedded, Rates.every_kind(0.5), seed=seed)
    seen = []
    for n in range(200):
        try:
            faults.execute("PutItem", put(f"n{n}"))
            seen.append("fine")
        except PenstockError as error:
            seen.append(f"{error!r}")
    return seen


def test_the_seed_decides(embedded):
    first = outcomes(embedded, 7)
    assert first == outcomes(embedded, 7)
    assert first != outcomes(embedded, 8)
    assert 70 < first.count("fine") < 130


def test_an_operation_may_have_rates_of_its_own(embedded):
    faults = Faults(embedded, Rates(throttle=1.0), by_operation={"Scan": Rates()})
    assert stored(faults) == set()
    assert faults.log == []


def test_latency_waits_and_goes_on(embedded):
    waits: list[float] = []
    faults = Faults(embedded, Rates(latency=1.0, latency_seconds=2.0), sleep=waits.append)
    faults.execute("PutItem", put("a"))
    assert 0 < waits[0] < 2
    assert stored(embedded) == {"a"}
    assert faults.counts == {"latency": 1}


def test_faults_can_be_switched_off_for_a_while(embedded):
    faults = Faults(embedded, Rates(throttle=1.0))
    with faults.off():
        faults.execute("PutItem", put("a"))
    with pytest.raises(DynamoDBError):
        faults.execute("PutItem", put("b"))


@pytest.mark.parametrize("rates", [{"throttle": 1.5}, {"throttle": -0.1}, {"throttle": 0.6, "timeout_after": 0.6}])
def test_rates_that_make_no_sense_are_refused(rates):
    with pytest.raises(ValueError, match="between 0 and 1"):
        Rates(**rates)


def test_the_async_wrapper_does_the_same(embedded):
    class Embedded:
        name = "async"

        async def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
            return embedded.execute(operation, request)

        async def close(self) -> None:
            pass

    async def run() -> None:
        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)

        faults = AsyncFaults(Embedded(), Rates(timeout_after=1.0, latency=1.0), sleep=sleep)
        with pytest.raises(TimedOut):
            await faults.execute("PutItem", put("a"))
        assert stored(embedded) == {"a"}
        assert len(waits) == 1
        with faults.off(), pytest.raises(ConditionalCheckFailedException):
            await faults.execute("PutItem", {**put("a"), "ConditionExpression": "attribute_not_exists(id)"})

    asyncio.run(run())
