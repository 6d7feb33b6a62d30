"""The simulation of capacity: what a call spends is taken from its table's limits, or the call is throttled.

1. A call is first carried out inside its transaction, which tells exactly what it costs; if that cannot be paid for, it
   is undone and refused. So DynamoDB's order is kept: a call that is wrong is refused as wrong, not throttled.
2. What is refused costs nothing. A call pays all its tables and indexes, or none.
3. Of a batch, what can be paid for is done and the rest comes back; if nothing can, the batch is throttled. A
   transaction is cancelled, with a reason for each action.
4. A provisioned resource saves what it does not use, up to `burst_seconds` of its rate; nothing is saved at first.
5. A partition gives 3,000 read and 1,000 write units a second and saves nothing: that is the ceiling of any key.
6. A partition that stays throttled is split so that its hottest key stands alone. The key's ceiling is the same; the
   others no longer share it.
7. A call may use more than a bucket has, if it has a second's worth: large calls go into debt, which must be filled
   before the next one.
8. State is this process's: another process on the same file has limits of its own.

Switched off, the engine has no such object, and nothing here is imported.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from penstock.engine.capacity import consumption, hot_keys
from penstock.engine.capacity.consumption import METERED, Member, Spend
from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.table_schema import IndexInfo, TableInfo
from penstock.engine.items import transactions
from penstock.engine.maintenance import chore
from penstock.engine.registry import Operation, Request, Response
from penstock.engine.settings import Throttling
from penstock.errors import ConditionalCheckFailedException, DynamoDBError, StorageError, ThrottlingException
from penstock.wire import throttles
from penstock.wire.throttles import Kind, Limit

if TYPE_CHECKING:
    from penstock.engine.engine import Engine


_LOG = logging.getLogger(__name__)

_SAVE_SECONDS = 1.0
_MEMBER = "ReturnConsumedCapacity"
_BATCHES = {"BatchWriteItem": "UnprocessedItems", "BatchGetItem": "UnprocessedKeys"}
_TRANSACTIONS = frozenset({"TransactWriteItems", "TransactGetItems", "ExecuteTransaction"})

Run = Callable[[OperationContext, Request], Response]


class Simulation:
    """The limits and the heat of one engine. Safe between threads."""

    def __init__(self, rules: Throttling | None, now: float) -> None:
        """Without rules nothing is throttled, and only heat is counted."""
        self.enforces = rules is not None
        self.heat = hot_keys.Heat(now)
        self._rules = rules or Throttling()
        self._resources: dict[tuple[int, str], tuple[TableInfo, Resource]] = {}
        self._lock = threading.Lock()
        self._run_id = uuid4().hex
        self._is_saved = True

    def around(self, operation: Operation) -> Operation:
        """The operation, paid for."""
        if operation.name not in METERED:
            return operation

        def run(context: OperationContext, request: Request) -> Response:
            if (
                operation.kind == "read"
                and not consumption.is_read(operation.name, request)
                and not context.db.in_transaction
            ):
                # A statement that writes: its transaction must end after it has been paid for.
                with context.engine.writing() as own:
                    return self._paid(
                        operation, OperationContext(context.engine, own.db, context.scope, own.now), request
                    )
            return self._paid(operation, context, request)

        return Operation(operation.name, operation.kind, run)

    def _paid(self, operation: Operation, context: OperationContext, request: Request) -> Response:
        name = operation.name
        if name in _BATCHES:
            return self._batch(operation, context, request)
        try:
            response = _response_of(operation, context, {**request, _MEMBER: "INDEXES"})
        except ConditionalCheckFailedException:
            if name in consumption.WRITES:
                self._pay_one(context, consumption.failed_write(context, name, request)[0])
            raise
        members = consumption.members_of(context, name, request, response)
        if name in _TRANSACTIONS:
            self._pay_transaction(context, members)
        else:
            self._pay_one(context, [spend for member in members for spend in member])
        return _with_wanted_costs(response, request)

    def _pay_one(self, context: OperationContext, member: Member) -> None:
        with self._lock:
            refusal = self._pay(member, context.now)
        if refusal is not None:
            raise refusal

    # ── batches ──────────────────────────────────────────────────────────────────────────────────

    def _batch(self, operation: Operation, context: OperationContext, request: Request) -> Response:
        """Carried out whole, to learn its cost; if some of it cannot be paid for, undone and done without that."""
        whole = {**request, _MEMBER: "INDEXES"}
        context.db.execute("SAVEPOINT batch")
        try:
            response = _response_of(operation, context, whole)
            members = consumption.members_of(context, operation.name, request, response)
            with self._lock:
                refusals = [self._pay(member, context.now) for member in members]
            refused = [refusal for refusal in refusals if refusal is not None]
            if refused and len(refused) == len(members):
                raise refused[0]
            if refused:
                context.db.execute("ROLLBACK TO batch")
                response = _partly(operation, context, whole, [refusal is None for refusal in refusals])
        except BaseException:
            context.db.execute("ROLLBACK TO batch")
            raise
        finally:
            context.db.execute("RELEASE batch")
        return _with_wanted_costs(response, request)

    # ── transactions ─────────────────────────────────────────────────────────────────────────────

    def _pay_transaction(self, context: OperationContext, members: Sequence[Member]) -> None:
        """Pays for all members or for none."""
        with self._lock:
            taken: list[tuple[Bucket, float]] = []
            refusals = [self._pay(member, context.now, taken) for member in members]
            if any(refusal is not None for refusal in refusals):
                for bucket, units in taken:
                    bucket.take(-units)
        if any(refusal is not None for refusal in refusals):
            raise transactions.cancellation([_reason(refusal) for refusal in refusals])

    # ── paying ───────────────────────────────────────────────────────────────────────────────────

    def _pay(self, member: Member, now: float, taken: list[tuple[Bucket, float]] | None = None) -> DynamoDBError | None:
        """Takes a member's units from everything that they count against, or from nothing, and says why."""
        self._is_saved = False
        places = [(spend, *self._place(spend, now)) for spend in member]
        refusal: DynamoDBError | None = None
        if self.enforces:
            for spend, resource, partition in places:
                refusal = _join_refusals(refusal, self._refusal(spend, resource, partition, now))
        if refusal is not None:
            return refusal
        for spend, resource, partition in places:
            for bucket in _buckets(spend, resource, partition):
                bucket.take(spend.units)
                if taken is not None:
                    taken.append((bucket, spend.units))
            bounds = None if partition is None else partition.bounds
            self.heat.used(_name(spend), spend.kind, spend.units, spend.label, bounds)
        return None

    def _refusal(
        self, spend: Spend, resource: Resource, partition: Partition | None, now: float
    ) -> DynamoDBError | None:
        short: list[throttles.Limit] = [
            limit for limit, bucket in resource.buckets[spend.kind] if bucket.lacks(spend.units, now)
        ]
        if partition is not None and partition.buckets[spend.kind].lacks(spend.units, now):
            short.append("KeyRangeThroughput")
            assert spend.hashed is not None
            resource.throttled_at(partition, spend.hashed, now)
        if not short:
            return None
        why = throttles.reason(spend.kind, short[0], resource.arn)["reason"]
        self.heat.throttled(_name(spend), spend.label, None if partition is None else partition.bounds, why)
        return throttles.throttled(spend.kind, short[0], resource.arn, provisioned=resource.provisioned)

    def _place(self, spend: Spend, now: float) -> tuple[Resource, Partition | None]:
        resource = self._resource(spend.table, spend.index, now)
        return resource, None if spend.hashed is None else resource.partition_of(spend.hashed)

    def _resource(self, table: TableInfo, index: IndexInfo | None, now: float) -> Resource:
        key = (table.id, "" if index is None else index.name)
        found = self._resources.get(key)
        if found is not None and found[0] is table:
            return found[1]
        arn = table.arn if index is None else f"{table.arn}/index/{index.name}"
        record = table.record if index is None else index.record
        provisioned = table.record.get("BillingMode", "PROVISIONED") == "PROVISIONED"
        since = min(now, max(self.heat.started_at, table.record.get("created_at", 0.0)))
        resource = Resource(arn, record, provisioned, self._rules, since)
        if found is not None:
            resource = found[1].changed_to(resource)
        self._resources[key] = (table, resource)
        return resource

    # ── heat ─────────────────────────────────────────────────────────────────────────────────────

    def heat_report(self) -> dict[str, Any]:
        """The heat of this run, as JSON."""
        with self._lock:
            return self.heat.as_dict()

    def save(self, engine: Engine) -> None:
        """Writes the heat into the file, if there is anything new. Counts are not worth an error."""
        if self._is_saved or engine.store.memory:
            return
        self._is_saved = True
        try:
            with engine.writing() as context:
                hot_keys.save(context.db, self._run_id, context.now, self.heat_report())
        except (StorageError, sqlite3.Error) as error:
            self._is_saved = False
            _LOG.warning("The heat of this run could not be written: %s", error)


@chore
def save_heat(engine: Engine) -> float | None:
    """Writes what was counted since the last round into the file."""
    if engine.simulation is None or engine.store.memory:
        return None
    engine.simulation.save(engine)
    return _SAVE_SECONDS


def _buckets(spend: Spend, resource: Resource, partition: Partition | None) -> list[Bucket]:
    buckets = [bucket for _, bucket in resource.buckets[spend.kind]]
    return buckets if partition is None else [*buckets, partition.buckets[spend.kind]]


def _name(spend: Spend) -> tuple[str, str]:
    return spend.table.name, "" if spend.index is None else spend.index.name


def _join_refusals(first: DynamoDBError | None, second: DynamoDBError | None) -> DynamoDBError | None:
    """The first refusal, with the reasons of both."""
    if first is None or second is None:
        return first or second
    throttles.reasons_of(first).extend(throttles.reasons_of(second))
    return first


def _reason(refusal: DynamoDBError | None) -> transactions.Reason:
    if refusal is None:
        return {"Code": "None"}
    code = "ThrottlingError" if isinstance(refusal, ThrottlingException) else "ProvisionedThroughputExceeded"
    return {"Code": code, "Message": refusal.message}


def _with_wanted_costs(response: Response, request: Request) -> Response:
    """The answer with the consumed capacity that the caller asked for."""
    mode = request.get(_MEMBER, "NONE")
    if mode == "INDEXES" or "ConsumedCapacity" not in response:
        return response
    if mode == "NONE":
        del response["ConsumedCapacity"]
        return response
    reports = response["ConsumedCapacity"]
    for report in reports if isinstance(reports, list) else [reports]:
        for detail in ("Table", "LocalSecondaryIndexes", "GlobalSecondaryIndexes"):
            report.pop(detail, None)
    return response


# ── a part of a batch ────────────────────────────────────────────────────────────────────────────


def _partly(operation: Operation, context: OperationContext, request: Request, paid: Sequence[bool]) -> Response:
    """Carries out the members that were paid for; the others come back."""
    kept, back = _split(operation.name, request, paid)
    response = _response_of(operation, context, {**request, "RequestItems": kept})
    for name in request["RequestItems"]:
        if "Responses" in response:
            response["Responses"].setdefault(name, [])
    member = _BATCHES[operation.name]
    for name, rest in back.items():
        earlier = response[member].get(name)  # a BatchGetItem of more than 16 MB gives keys back by itself
        response[member][name] = rest if earlier is None else {**rest, "Keys": [*earlier["Keys"], *rest["Keys"]]}
    return response


def _split(operation: str, request: Request, paid: Sequence[bool]) -> tuple[dict[str, Any], dict[str, Any]]:
    """RequestItems of what was paid for, and of the rest."""
    sides: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    left = iter(paid)
    for name, part in request["RequestItems"].items():
        for one in part if operation == "BatchWriteItem" else part["Keys"]:
            side = sides[0] if next(left) else sides[1]
            if operation == "BatchWriteItem":
                side.setdefault(name, []).append(one)
            else:
                side.setdefault(name, {**part, "Keys": []})["Keys"].append(one)
    return sides


def _response_of(operation: Operation, context: OperationContext, request: Request) -> Response:
    response = operation.run(context, request)
    assert isinstance(response, dict)  # no fast path answers a request that asks for its cost
    return response


# ── token buckets ──────────────────────────────────────────────────────────────────────────────────


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
            kind: _resource_buckets(record, kind, provisioned, rules, now) for kind in _KINDS
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


def _resource_buckets(
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
