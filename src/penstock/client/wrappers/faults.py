"""Faults: the failures that DynamoDB and networks have, injected by seed, for tests of the code above.

1. A throttle, a reset and a timeout before the effect leave the database as it was; after the effect the call was
   carried out and only its answer is lost. Whoever catches the error cannot tell the last two apart: `sent` is true
   in both.
2. What is injected into the n-th call depends on the seed, on n and on the call's rates, and on nothing else.
3. Every injected fault is in `log`.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from random import Random
from typing import Any, Literal

from penstock.client.transports.base import Answer, AsyncTransport, Request, Transport
from penstock.client.wrappers.wrapper import (
    METERED,
    AsyncWrapper,
    Exchange,
    Inner,
    Wrapper,
    WrapperState,
    kind_of,
    tables_of,
)
from penstock.errors import (
    ConnectionFailed,
    DynamoDBError,
    InternalServerError,
    PenstockError,
    TimedOut,
    TransactionCanceledException,
)
from penstock.wire import throttles

FaultKind = Literal[
    "throttle",
    "internal_error",
    "internal_error_after",
    "timeout_before",
    "timeout_after",
    "reset_before",
    "reset_after",
    "unprocessed",
    "latency",
]

_LOG_LENGTH = 100_000
_AFTER = frozenset({"internal_error_after", "timeout_after", "reset_after"})
_PARTIAL = {"BatchWriteItem": "UnprocessedItems", "BatchGetItem": "UnprocessedKeys"}


@dataclass(frozen=True, slots=True)
class Rates:
    """How often each fault befalls a call, from 0 to 1; at most one does, beside `latency`."""

    throttle: float = 0.0
    internal_error: float = 0.0
    internal_error_after: float = 0.0
    timeout_before: float = 0.0
    timeout_after: float = 0.0
    reset_before: float = 0.0
    reset_after: float = 0.0
    unprocessed: float = 0.0
    """Part of a batch is not done and comes back; any other call is throttled instead."""

    latency: float = 0.0
    latency_seconds: float = 0.05
    """The longest wait."""

    def __post_init__(self) -> None:
        shares = [getattr(self, kind) for kind in _EXCLUSIVE]
        if min(*shares, self.latency) < 0 or sum(shares) > 1.000001 or self.latency > 1:
            raise ValueError("rates of faults lie between 0 and 1, and all but latency add up to at most 1")

    @classmethod
    def every_kind(cls, total: float) -> Rates:
        """All faults alike often, `total` of the calls together."""
        return cls(**dict.fromkeys(_EXCLUSIVE, total / len(_EXCLUSIVE)))


_EXCLUSIVE: tuple[FaultKind, ...] = (
    "throttle",
    "internal_error",
    "internal_error_after",
    "timeout_before",
    "timeout_after",
    "reset_before",
    "reset_after",
    "unprocessed",
)
assert {field.name for field in fields(Rates)} == {*_EXCLUSIVE, "latency", "latency_seconds"}


@dataclass(frozen=True, slots=True)
class Injected:
    """One fault as it was injected."""

    call: int
    operation: str
    kind: FaultKind
    detail: str = ""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What befalls one call."""

    number: int
    random: Random
    kind: FaultKind | None
    delay_seconds: float


def _draw_fault(rates: Rates, draw: float) -> FaultKind | None:
    for kind in _EXCLUSIVE:
        draw -= getattr(rates, kind)
        if draw < 0:
            return kind
    return None


# ── throttles ────────────────────────────────────────────────────────────────────────────────────

_LIMITS: tuple[tuple[throttles.Limit, bool], ...] = (
    ("ProvisionedThroughput", True),
    ("KeyRangeThroughput", True),
    ("KeyRangeThroughput", False),
    ("MaxOnDemandThroughput", False),
    ("AccountLimit", False),
)


def throttle(operation: str, request: Request, random: Random) -> PenstockError:
    """One of the ways in which DynamoDB throttles this call."""
    if operation in ("TransactWriteItems", "TransactGetItems", "ExecuteTransaction") and random.random() < 0.5:
        return _cancelled(len(request.get("TransactItems") or request.get("TransactStatements") or ()), random)
    table = next(iter(tables_of(operation, request)), "table")
    arn = f"arn:aws:dynamodb:us-east-1:000000000000:table/{table}"
    limit, provisioned = random.choice(_LIMITS)
    return throttles.throttled(kind_of(operation, request) or "Read", limit, arn, provisioned=provisioned)


def _cancelled(size: int, random: Random) -> TransactionCanceledException:
    hit = random.randrange(max(size, 1))
    code = random.choice(("ThrottlingError", "ProvisionedThroughputExceeded", "TransactionConflict"))
    codes = [code if place == hit else "None" for place in range(size)]
    return TransactionCanceledException(
        f"Transaction cancelled, please refer cancellation reasons for specific reasons [{', '.join(codes)}]",
        CancellationReasons=[{"Code": code} for code in codes],
    )


# ── batches of which a part comes back ───────────────────────────────────────────────────────────


def _size(operation: str, request: Request) -> int:
    return len(_members(operation, request)) if operation in _PARTIAL else 0


def _members(operation: str, request: Request) -> list[tuple[str, Any]]:
    """A batch's requests one by one, each with its table."""
    asked: Mapping[str, Any] = request.get("RequestItems") or {}
    if operation == "BatchWriteItem":
        return [(table, one) for table, many in asked.items() for one in many]
    return [(table, key) for table, many in asked.items() for key in many.get("Keys") or ()]


def _group_members(operation: str, request: Request, members: list[tuple[str, Any]]) -> dict[str, Any]:
    """The inverse of `_members`."""
    groups: dict[str, Any] = {}
    for table, member in members:
        if operation == "BatchWriteItem":
            groups.setdefault(table, []).append(member)
        else:
            groups.setdefault(table, {**request["RequestItems"][table], "Keys": []})["Keys"].append(member)
    return groups


def split(operation: str, request: Request, random: Random) -> tuple[Request, dict[str, Any]]:
    """A smaller batch to send, and what comes back unprocessed; neither is empty."""
    members = _members(operation, request)
    random.shuffle(members)
    kept = random.randrange(1, len(members))
    smaller = {**request, "RequestItems": _group_members(operation, request, members[:kept])}
    return smaller, _group_members(operation, request, members[kept:])


def _with_rest(operation: str, answer: Answer, rest: dict[str, Any]) -> Answer:
    """The answer with the part that was never sent added to what came back by itself."""
    name = _PARTIAL[operation]
    back: dict[str, Any] = dict(answer.get(name) or {})
    for table, more in rest.items():
        if table not in back:
            back[table] = more
        elif operation == "BatchWriteItem":
            back[table] = [*back[table], *more]
        else:
            back[table] = {**back[table], "Keys": [*back[table]["Keys"], *more["Keys"]]}
    return {**answer, name: back}


# ── the wrappers ─────────────────────────────────────────────────────────────────────────────────


class FaultsState(WrapperState[Inner]):
    def __init__(
        self,
        inner: Inner,
        rates: Rates,
        *,
        seed: int = 0,
        by_operation: Mapping[str, Rates] | None = None,
        sleep: Callable[[float], Any] | None = None,
    ) -> None:
        super().__init__(inner, sleep)
        self._log: deque[Injected] = deque(maxlen=_LOG_LENGTH)
        self._is_on = True
        self._seed = seed
        self._rates = rates
        self._by_operation = dict(by_operation or {})
        self._calls = 0
        self._lock = threading.Lock()

    @property
    def log(self) -> list[Injected]:
        """What was injected, in order; the latest hundred thousand."""
        return list(self._log)

    @property
    def counts(self) -> Counter[str]:
        """How often each kind was."""
        return Counter(injected.kind for injected in self._log)

    @contextmanager
    def off(self) -> Iterator[None]:
        """No faults inside, for setting up and for looking at what came of it."""
        before, self._is_on = self._is_on, False
        try:
            yield
        finally:
            self._is_on = before

    def _exchange(self, operation: str, request: Request) -> Exchange:
        plan = self._plan(operation, request)
        if plan is not None and plan.delay_seconds:
            yield plan.delay_seconds
        answer: Answer
        if plan is None or plan.kind is None:
            answer = yield operation, request
            return answer
        if plan.kind == "unprocessed":
            smaller, rest = split(operation, request, plan.random)
            answer = yield operation, smaller
            return _with_rest(operation, answer, rest)
        if plan.kind in _AFTER:
            with suppress(DynamoDBError):  # an error is an answer too, and lost
                yield operation, request
        raise self._error(plan, operation, request)

    def _plan(self, operation: str, request: Request) -> _Plan | None:
        if not self._is_on:
            return None
        with self._lock:
            self._calls += 1
            number = self._calls
        rates = self._by_operation.get(operation, self._rates)
        random = Random(f"{self._seed}:{number}")
        kind = _draw_fault(rates, random.random())
        if kind == "unprocessed" and _size(operation, request) < 2:
            kind = "throttle"
        if kind == "throttle" and operation not in METERED:
            kind = "internal_error"
        delay = random.random() * rates.latency_seconds if random.random() < rates.latency else 0.0
        plan = _Plan(number, random, kind, delay)
        self._note(plan, operation)
        return plan

    def _note(self, plan: _Plan, operation: str) -> None:
        if plan.delay_seconds:
            self._log.append(Injected(plan.number, operation, "latency", f"{plan.delay_seconds:.3f} s"))
        if plan.kind is not None:
            self._log.append(Injected(plan.number, operation, plan.kind))

    def _error(self, plan: _Plan, operation: str, request: Request) -> PenstockError:
        match plan.kind:
            case "throttle":
                return throttle(operation, request, plan.random)
            case "internal_error" | "internal_error_after":
                return InternalServerError("Internal server error")
            case "timeout_before" | "timeout_after":
                return TimedOut(self.name, "no answer in time (injected)", "Repeat the call.", sent=True)
            case _:
                sent = plan.kind == "reset_after" or plan.random.random() < 0.5
                return ConnectionFailed(self.name, "connection reset by peer (injected)", "Repeat the call.", sent=sent)


class Faults(FaultsState[Transport], Wrapper):
    """A transport that fails as often as `rates` say; `by_operation` has others for some operations."""


class AsyncFaults(FaultsState[AsyncTransport], AsyncWrapper):
    """The same for asyncio."""
