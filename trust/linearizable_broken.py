"""Databases that are broken on purpose: `trust.linearizable --break …` must find each of them."""

from __future__ import annotations

import random
from typing import Any, Protocol

from penstock.client.transports.base import Answer, Request, Transport

ONE_IN = 10

Json = dict[str, Any]


class _Fault(Protocol):
    def execute(self, inner: Transport, operation: str, request: Request) -> Answer: ...


class ForgottenCondition:
    """A write that does not look at its condition."""

    def execute(self, inner: Transport, operation: str, request: Request) -> Answer:
        if operation in ("PutItem", "DeleteItem") and "ConditionExpression" in request:
            condition = ("ConditionExpression", "ExpressionAttributeValues", "ReturnValuesOnConditionCheckFailure")
            request = {name: value for name, value in request.items() if name not in condition}
        return inner.execute(operation, request)


class StaleRead:
    """A cache of reads that nobody told of the writes."""

    def __init__(self) -> None:
        self._cache: dict[str, Answer] = {}

    def execute(self, inner: Transport, operation: str, request: Request) -> Answer:
        if operation != "GetItem":
            return inner.execute(operation, request)
        key = repr((request["TableName"], request["Key"]))
        kept = self._cache.pop(key, None)
        return self._cache.setdefault(key, inner.execute(operation, request)) if kept is None else kept


class TornTransaction:
    """A transaction's puts, one after the other."""

    def execute(self, inner: Transport, operation: str, request: Request) -> Answer:
        actions: list[Json] = request.get("TransactItems", [])
        puts = [action["Put"] for action in actions if "Put" in action]
        if operation != "TransactWriteItems" or any("ConditionExpression" in put for put in puts) or len(puts) < 2:
            return inner.execute(operation, request)
        for put in puts:
            answer = inner.execute("PutItem", put)
        return {name: value for name, value in answer.items() if name != "Attributes"}


class LostWrite:
    """A put that is acknowledged and not done."""

    def execute(self, inner: Transport, operation: str, request: Request) -> Answer:
        if operation != "PutItem" or "ConditionExpression" in request:
            return inner.execute(operation, request)
        key = {name: request["Item"][name] for name in ("pk", "sk")}
        found = inner.execute("GetItem", {"TableName": request["TableName"], "Key": key})
        return {"Attributes": found["Item"]} if "Item" in found else {}


FAULTS: dict[str, type[_Fault]] = {
    "condition": ForgottenCondition,
    "stale": StaleRead,
    "torn": TornTransaction,
    "lost": LostWrite,
}


class Broken:
    """A transport that is sound but for one call in ten."""

    def __init__(self, inner: Transport, fault: _Fault, draw: random.Random) -> None:
        self.name = inner.name
        self._inner, self._fault, self._draw = inner, fault, draw

    def execute(self, operation: str, request: Request) -> Answer:
        if self._draw.randrange(ONE_IN):
            return self._inner.execute(operation, request)
        return self._fault.execute(self._inner, operation, request)

    def close(self) -> None:
        self._inner.close()


def broken(inner: Transport, how: str, draw: random.Random) -> Transport:
    """`inner` itself where `how` is "no"."""
    return inner if how == "no" else Broken(inner, FAULTS[how](), draw)
