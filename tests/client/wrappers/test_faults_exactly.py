"""Ten thousand writes through a client that retries, on a database that fails three calls in ten."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client.transports.base import Transport
from penstock.client.transports.embedded import EmbeddedTransport
from penstock.client.wrappers.faults import Faults, Rates
from penstock.client.wrappers.retries import RequestRetries, Retrying
from penstock.engine import Engine
from penstock.errors import ConditionalCheckFailedException

WRITES_OF_EACH_KIND = 2_500
BATCH = 25
Item = dict[str, Any]

TABLE = {
    "TableName": "jobs",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}


def item(name: str, n: int, **more: Any) -> Item:
    return {"id": {"S": f"{name}{n:05}"}, "n": {"N": str(n)}, **more}


def batches(db: Transport) -> list[Item]:
    """Plain batches; what comes back is sent again."""
    items = [item("batch", n) for n in range(WRITES_OF_EACH_KIND)]
    for start in range(0, len(items), BATCH):
        rest: dict[str, Any] = {"jobs": [{"PutRequest": {"Item": one}} for one in items[start : start + BATCH]]}
        while rest:
            rest = db.execute("BatchWriteItem", {"RequestItems": rest})["UnprocessedItems"]
    return items


def conditional_puts(db: Transport) -> list[Item]:
    """Puts of what is not there; a refusal that may be our own is settled by the item that it shows."""
    items = [item("conditional", n) for n in range(WRITES_OF_EACH_KIND)]
    for one in items:
        try:
            db.execute(
                "PutItem",
                {
                    "TableName": "jobs",
                    "Item": one,
                    "ConditionExpression": "attribute_not_exists(id)",
                    "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
                },
            )
        except ConditionalCheckFailedException as refused:
            assert refused.maybe_ours
            assert refused.item == one
    return items


def transactions(db: Transport) -> list[Item]:
    """Four counters in each transaction, increased by one each time: done twice, they would be too high."""
    for _ in range(WRITES_OF_EACH_KIND // 4):
        increase = {
            "TableName": "jobs",
            "UpdateExpression": "ADD hits :one",
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        }
        actions = [{"Update": {**increase, "Key": {"id": {"S": f"counter{n}"}}}} for n in range(4)]
        db.execute("TransactWriteItems", {"TransactItems": actions})
    return [{"id": {"S": f"counter{n}"}, "hits": {"N": str(WRITES_OF_EACH_KIND // 4)}} for n in range(4)]


def updates(db: Transport) -> list[Item]:
    """Updates that may be done twice: they set what they set."""
    for n in range(WRITES_OF_EACH_KIND):
        db.execute(
            "UpdateItem",
            {
                "TableName": "jobs",
                "Key": {"id": {"S": f"update{n % 500:05}"}},
                "UpdateExpression": "SET n = :n",
                "ExpressionAttributeValues": {":n": {"N": str(n)}},
            },
        )
    return [{"id": {"S": f"update{n % 500:05}"}, "n": {"N": str(n)}} for n in range(WRITES_OF_EACH_KIND)][-500:]


def scan(db: Transport) -> list[Item]:
    found: list[Item] = []
    request: dict[str, Any] = {"TableName": "jobs", "Limit": 100}
    while True:
        page = db.execute("Scan", request)
        found += page["Items"]
        if "LastEvaluatedKey" not in page:
            return found
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]


@pytest.mark.parametrize("seed", [1, 2])
def test_ten_thousand_writes_end_with_exactly_the_expected_items(seed):
    with Engine() as engine:
        faults = Faults(EmbeddedTransport(engine), Rates.every_kind(0.3), seed=seed)
        db = Retrying(faults, RequestRetries(attempts=30), unlimited=True, sleep=lambda seconds: None)
        with faults.off():
            db.execute("CreateTable", TABLE)
        expected = [*batches(db), *conditional_puts(db), *transactions(db), *updates(db)]
        found = scan(db)
    assert sorted(found, key=lambda one: one["id"]["S"]) == sorted(expected, key=lambda one: one["id"]["S"])
    injected = faults.counts
    assert min(injected[kind] for kind in ("throttle", "timeout_after", "reset_after", "unprocessed")) > 1
    assert db.counters.retries > 1_500
