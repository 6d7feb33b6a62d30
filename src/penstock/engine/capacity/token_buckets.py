"""The limits of one table or index as buckets of units, and its partitions.

1. A provisioned resource saves what it does not use, up to `burst_seconds` of its rate; nothing is saved at first.
2. A partition gives 3,000 read and 1,000 write units a second and saves nothing: that is the ceiling of any key.
3. A partition that stays throttled is split so that its hottest key stands alone. The key's ceiling is the same; the
   others no longer share it.
4. A call may use more than a bucket has, if it has a second's worth: large calls go into debt, which must be filled
   before the next one.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from typing import Any

from penstock.engine.settings import Throttling
from penstock.wire.throttles import Kind, Limit

HASHES = 1 << 64
_KINDS: tuple[Kind, Kind] = ("Read", "Write")
_WATCHED_KEYS = 64  # keys that a partition watches while it is throttled
_SPLIT_MOST = 1_000  # partitions of a resource
_SLACK_SECONDS = 1e-6  # seconds since the epoch are no more exact than that


class Bucket:
    """Units that come back at a rate."""

    __slots__ = ("_at", "_left", "rate", "size")

    def __init__(self, rate: float, saved_seconds: float, now: float) -> None:
        self.rate = rate
        self.size = rate * max(1.0, saved_seconds)
        self._left = rate
        self._at = now

    def lacks(self, units: float, now: float) -> bool:
        passed, self._at = max(0.0, now - self._at), max(now, self._at)
        self._left = min(self.size, self._left + passed * self.rate)
        return self._left + self.rate * _SLACK_SECONDS < min(units, self.rate)

    def take(self, units: float) -> None:
        self._left -= units

    def carry_over(self, older: Bucket) -> None:
        """After a change of the rate: no more than was left."""
        self._left, self._at = min(older._left, self.size), older._at


@dataclass(slots=True)
class Partition:
    """A range of hashes, the last one included."""

    low: int
    high: int
    buckets: dict[Kind, Bucket]
    throttled_since: float | None = None
    watched_keys: Counter[int] = field(default_factory=Counter)

    @property
    def bounds(self) -> tuple[int, int]:
        return self.low, self.high


class Resource:
    """A table or a global index: its buckets by kind and limit, and its partitions in the order of their hashes."""

    def __init__(self, arn: str, record: Mapping[str, Any], provisioned: bool, rules: Throttling, now: float) -> None:
        self.arn = arn
        self.provisioned = provisioned
        self._rules = rules
        self.buckets: dict[Kind, list[tuple[Limit, Bucket]]] = {
            kind: _buckets(record, kind, provisioned, rules, now) for kind in _KINDS
        }
        self._partitions = self._spread(record, now)
        self._lows = [partition.low for partition in self._partitions]

    def changed_to(self, newer: Resource) -> Resource:
        """The same resource by a newer definition: nobody gains units by an UpdateTable."""
        for kind in _KINDS:
            older = dict(self.buckets[kind])
            for limit, bucket in newer.buckets[kind]:
                if limit in older:
                    bucket.carry_over(older[limit])
        if len(newer._partitions) <= len(self._partitions):
            newer._partitions, newer._lows = self._partitions, self._lows
        return newer

    @property
    def partition_count(self) -> int:
        return len(self._partitions)

    def partition_of(self, hashed: int) -> Partition:
        return self._partitions[bisect_right(self._lows, hashed) - 1]

    def throttled_at(self, partition: Partition, hashed: int, now: float) -> None:
        """Notes a throttle of a partition; splits it if it has been throttled for long enough."""
        if partition.throttled_since is None:
            partition.throttled_since = now
        if hashed in partition.watched_keys or len(partition.watched_keys) < _WATCHED_KEYS:
            partition.watched_keys[hashed] += 1
        waited = now - partition.throttled_since
        if waited >= self._rules.split_seconds and partition.low < partition.high:
            self._isolate(partition, partition.watched_keys.most_common(1)[0][0], now)

    def _isolate(self, partition: Partition, hot: int, now: float) -> None:
        if len(self._partitions) + 2 > _SPLIT_MOST:
            return
        self._partitions.remove(partition)
        self._lows.remove(partition.low)
        ranges = ((partition.low, hot - 1), (hot, hot), (hot + 1, partition.high))
        for low, high in ranges:
            if low <= high:
                insort(self._partitions, self._partition(low, high, now), key=lambda one: one.low)
                insort(self._lows, low)

    def _partition(self, low: int, high: int, now: float) -> Partition:
        rules = self._rules
        rates: dict[Kind, float] = {"Read": rules.partition_read_units, "Write": rules.partition_write_units}
        return Partition(low, high, {kind: Bucket(rate, 1.0, now) for kind, rate in rates.items()})

    def _spread(self, record: Mapping[str, Any], now: float) -> list[Partition]:
        count = _partitions(record, self.provisioned, self._rules)
        edges = [HASHES * number // count for number in range(count + 1)]
        return [self._partition(low, high - 1, now) for low, high in pairwise(edges)]


def _buckets(
    record: Mapping[str, Any], kind: Kind, provisioned: bool, rules: Throttling, now: float
) -> list[tuple[Limit, Bucket]]:
    if provisioned:
        rate = (record.get("ProvisionedThroughput") or {}).get(f"{kind}CapacityUnits") or 0
        return [("ProvisionedThroughput", Bucket(float(rate), rules.burst_seconds, now))] if rate > 0 else []
    buckets: list[tuple[Limit, Bucket]] = []
    most = (record.get("OnDemandThroughput") or {}).get(f"Max{kind}RequestUnits", -1)
    if most is not None and most > 0:
        buckets.append(("MaxOnDemandThroughput", Bucket(float(most), 1.0, now)))
    buckets.append(("KeyRangeThroughput", Bucket(_warm(record, kind, rules), 1.0, now)))
    return buckets


def _warm(record: Mapping[str, Any], kind: Kind, rules: Throttling) -> float:
    """What an on-demand resource takes at once."""
    default = rules.on_demand_read_units if kind == "Read" else rules.on_demand_write_units
    warm = (record.get("WarmThroughput") or {}).get(f"{kind}UnitsPerSecond")
    return max(default, float(warm or 0))


def _partitions(record: Mapping[str, Any], provisioned: bool, rules: Throttling) -> int:
    """As many as the throughput needs."""
    if provisioned:
        throughput = record.get("ProvisionedThroughput") or {}
        reads, writes = throughput.get("ReadCapacityUnits") or 0, throughput.get("WriteCapacityUnits") or 0
        count = ceil(reads / rules.partition_read_units + writes / rules.partition_write_units)
    else:
        reads, writes = _warm(record, "Read", rules), _warm(record, "Write", rules)
        count = ceil(max(reads / rules.partition_read_units, writes / rules.partition_write_units))
    return min(max(1, count), _SPLIT_MOST)
