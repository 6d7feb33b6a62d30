"""Pacing: how fast many calls may go on, learnt from throttles, or fixed.

1. Each table and index has a bucket for reads and one for writes, which fills at a rate and is emptied by units. A call
   waits until its table's bucket and those of its indexes have paid for it.
2. An adaptive bucket has no rate until the first throttle. Then it takes a part of the rate at which units went
   through; it falls again by that part at each further throttle (once in a while, however many calls were in flight),
   and rises each second without one, by little at first.
3. A hot key (`…KeyRangeThroughputExceeded`) slows the rest less: other keys are not to blame.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.client.transports.base import Answer, Request
from penstock.client.wrappers.retries import MonotonicClock
from penstock.client.wrappers.wrapper import index_of_arn, kind_of, short_name, tables_of
from penstock.clock import Clock
from penstock.errors import DynamoDBError, PenstockError, TransactionCanceledException
from penstock.wire.throttles import Kind, reasons_of

_THROTTLES = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "ThrottlingException",
        "RequestLimitExceeded",
        "Throttling",
        "ThrottledException",
        "SlowDown",
    }
)
_CANCELLATIONS = frozenset({"ThrottlingError", "ProvisionedThroughputExceeded", "RequestLimitExceeded"})

_FALL = 0.7
_FALL_FOR_A_HOT_KEY = 0.9
_RISE_SECONDS = 20.0  # from the rate after a fall back to the rate before it, about
_QUIET_SECONDS = 5.0  # without a throttle make it rise twice as fast: the first guess may have been far too low
_MOST_DOUBLINGS = 10.0
_SETTLE_SECONDS = 0.5  # throttles of calls that were in flight together count once
_SLOWEST = 1.0  # units a second: nothing is paced to a standstill
_BURST_SECONDS = 1.0  # what a bucket may save up
_SHORTEST_SECONDS = 1.0  # of a measurement: what went through at once was saved up
_FORGET_SECONDS = 5.0  # the rate that went through is an average over about this long


@dataclass(frozen=True, slots=True)
class Throttle:
    """One reason for which a call was throttled; without reasons in the answer, its table's."""

    table: str
    index: str | None
    kind: Kind
    hot_key: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a call: the units that it used and the throttles that it, or a part of it, met."""

    table: str
    kind: Kind
    units: float = 0.0
    throttles: tuple[Throttle, ...] = ()

    @classmethod
    def of(cls, operation: str, request: Request, result: Answer | PenstockError, units: float = 0.0) -> Outcome:
        """From the answer or the error of a call; `units` is the estimate where the answer does not tell."""
        kind = kind_of(operation, request) or "Read"
        table = next(iter(tables_of(operation, request)), "")
        if isinstance(result, PenstockError):
            return cls(table, kind, 0.0, tuple(_throttles(result, table, kind)))
        consumed = result.get("ConsumedCapacity")
        reports: list[dict[str, Any]] = consumed if isinstance(consumed, list) else [consumed] if consumed else []
        back = {**(result.get("UnprocessedItems") or {}), **(result.get("UnprocessedKeys") or {})}
        estimate = units * (1.0 - _size(back) / max(1, _size(request.get("RequestItems") or {})))
        spent = sum(float(report.get("CapacityUnits", 0)) for report in reports) if reports else estimate
        return cls(table, kind, spent, tuple(Throttle(short_name(name), None, kind) for name in back))


def _size(members: dict[str, Any]) -> int:
    """How many requests a batch's members are, writes or keys."""
    return sum(len(part["Keys"] if isinstance(part, dict) else part) for part in members.values())


def _throttles(error: PenstockError, table: str, kind: Kind) -> Iterable[Throttle]:
    if isinstance(error, TransactionCanceledException):
        codes = {reason.get("Code") for reason in error.fields.get("CancellationReasons") or ()}
        return [Throttle(table, None, kind)] if codes & _CANCELLATIONS else []
    if not isinstance(error, DynamoDBError) or error.code not in _THROTTLES:
        return []
    named = [_parse_reason(reason, table, kind) for reason in reasons_of(error)]
    return named or [Throttle(table, None, kind)]


def _parse_reason(reason: dict[str, Any], table: str, kind: Kind) -> Throttle:
    text, arn = str(reason.get("reason", "")), str(reason.get("resource", ""))
    found: Kind = "Write" if "Write" in text[:10] else "Read" if "Read" in text[:10] else kind
    return Throttle(short_name(arn) if arn else table, index_of_arn(arn), found, "KeyRange" in text)


class _Bucket:
    """One resource's units; its caller holds the lock."""

    __slots__ = ("_born_at", "_fell_at", "_flow", "_flow_at", "_rise", "_saved", "_seen_at", "rate")

    def __init__(self, rate: float | None, now: float) -> None:
        self.rate = rate
        self._rise = 0.0
        self._saved = 0.0 if rate is None else rate * _BURST_SECONDS
        self._seen_at = self._fell_at = self._flow_at = self._born_at = now
        self._flow = 0.0

    def take(self, units: float, now: float) -> float:
        """How long to wait for these units. They are taken at once: who comes later waits behind."""
        if self.rate is None:
            return 0.0
        self._fill(now)
        self._saved -= units
        return max(0.0, -self._saved / self.rate)

    def _fill(self, now: float) -> None:
        assert self.rate is not None
        passed, self._seen_at = max(0.0, now - self._seen_at), now
        self._saved = min(self._saved + passed * self.rate, self.rate * _BURST_SECONDS)
        quiet_doublings = min((now - self._fell_at) / _QUIET_SECONDS, _MOST_DOUBLINGS)
        self.rate += passed * self._rise * 2.0**quiet_doublings

    def went_through(self, units: float, now: float) -> None:
        passed, self._flow_at = max(0.0, now - self._flow_at), now
        keep = max(0.0, 1.0 - passed / _FORGET_SECONDS)
        self._flow = self._flow * keep + units

    def fall(self, part: float, now: float) -> None:
        if self.rate is not None and now - self._fell_at < _SETTLE_SECONDS:
            return
        before = self.rate if self.rate is not None else max(self._measure_rate(now), _SLOWEST)
        self.rate = max(_SLOWEST, before * part)
        self._rise = max(0.5, (before - self.rate) / _RISE_SECONDS)
        self._saved = min(self._saved, 0.0)
        self._seen_at = self._fell_at = now

    def inherit(self, other: _Bucket) -> None:
        """Takes what went through another bucket for what went through this one."""
        self._flow, self._flow_at, self._born_at = other._flow, other._flow_at, other._born_at

    def _measure_rate(self, now: float) -> float:
        # The sum decays over _FORGET_SECONDS, so at a steady rate it is that rate times about half of them.
        return self._flow / min(max(now - self._born_at, _SHORTEST_SECONDS), _FORGET_SECONDS / 2)


_Key = tuple[str, str | None, Kind]


class Pace(Protocol):
    """Says when the next request may go; `Pacer` is one. Called by the thread that sends it."""

    def before(self, units: float, table: str, kind: Kind) -> object:
        """May wait."""
        ...

    def before_async(self, units: float, table: str, kind: Kind) -> Awaitable[object]: ...

    def after(self, outcome: Outcome) -> None: ...


class Pacer:
    """Paces calls from many threads. `units_per_second` fixes the rate of each table; without it, it is learnt."""

    def __init__(
        self,
        units_per_second: float | None = None,
        *,
        clock: Clock | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        if units_per_second is not None and units_per_second <= 0:
            raise ValueError("units_per_second must be more than 0")
        self._fixed = units_per_second
        self._clock = clock or MonotonicClock()
        self._sleep = sleep
        self._buckets: dict[_Key, _Bucket] = {}
        self._lock = threading.Lock()

    def before(self, units: float, table: str = "", kind: Kind = "Write") -> float:
        """Waits until this many units may be used; gives the seconds waited."""
        wait = self.reserve(units, table, kind)
        if wait > 0:
            self._sleep(wait)
        return wait

    async def before_async(
        self,
        units: float,
        table: str = "",
        kind: Kind = "Write",
        sleep: Callable[[float], Awaitable[object]] | None = None,
    ) -> float:
        """The same for asyncio."""
        import asyncio  # who comes here has it loaded

        wait = self.reserve(units, table, kind)
        if wait > 0:
            await (sleep or asyncio.sleep)(wait)
        return wait

    def reserve(self, units: float, table: str = "", kind: Kind = "Write") -> float:
        """Takes the units, and says how long to wait before using them."""
        now = self._clock.now()
        with self._lock:
            self._bucket((table, None, kind), now)
            mine = [bucket for key, bucket in self._buckets.items() if key[0] == table and key[2] == kind]
            return max(bucket.take(units, now) for bucket in mine)

    def after(self, outcome: Outcome) -> None:
        """Learns from what became of a call."""
        if self._fixed is not None:
            return
        now = self._clock.now()
        with self._lock:
            self._bucket((outcome.table, None, outcome.kind), now).went_through(outcome.units, now)
            for throttle in outcome.throttles:
                part = _FALL_FOR_A_HOT_KEY if throttle.hot_key else _FALL
                bucket = self._bucket((throttle.table, throttle.index, throttle.kind), now)
                if throttle.index is not None:
                    self._inherit(bucket, throttle, now)
                bucket.fall(part, now)

    def rates(self) -> dict[str, float | None]:
        """Units a second of each bucket, named `jobs Write` or `jobs/by-date Write`; None while there is no limit."""
        with self._lock:
            return {
                _text(key): bucket.rate
                for key, bucket in sorted(self._buckets.items(), key=lambda pair: _text(pair[0]))
            }

    def _bucket(self, key: _Key, now: float) -> _Bucket:
        found = self._buckets.get(key)
        if found is None:
            found = self._buckets[key] = _Bucket(self._fixed, now)
        return found

    def _inherit(self, bucket: _Bucket, throttle: Throttle, now: float) -> None:
        """An index's first throttle: what went through its table went through it, as far as anyone knows."""
        if bucket.rate is None:
            bucket.inherit(self._bucket((throttle.table, None, throttle.kind), now))


def _text(key: _Key) -> str:
    table, index, kind = key
    return f"{table}/{index} {kind}" if index else f"{table} {kind}"
