"""Items in bulk, in DynamoDB's own JSON: pages of a scan, reads by key, writes that lose nothing.

1. An item is moved as it came: nothing is decoded, so nothing is rounded or reordered.
2. A write returns when DynamoDB has taken every action, or raises: it is one of the client's batches.
3. Memory is bounded: a page for each segment that is read at once, a request for each worker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from penstock.client.batches.batch_queue import is_about_one
from penstock.client.batches.batch_reads import ReadPlan, read_encoded
from penstock.client.batches.batches import Batch, BatchOptions
from penstock.client.database import Database
from penstock.client.items.expressions import F
from penstock.client.items.failures import BatchIncomplete
from penstock.client.items.keys import TableKey
from penstock.client.items.values import encode_item
from penstock.client.wrappers.pacing import Outcome, Pacer
from penstock.errors import DynamoDBError, PenstockError
from penstock.retry import Backoff
from penstock.wire.limits import BATCH_WRITE_ITEMS
from penstock.wire.throttles import Kind
from penstock.wire.values import Item

KeyText = tuple[str, ...]
"""A key as something to look up: the contents of its attributes in the key's order."""

PATIENCE_SECONDS = 300.0
"""How long a request may be turned away wholly before the work is given up (and can be continued)."""

_BACKOFF = Backoff(base_seconds=0.05, cap_seconds=5.0)
_WRITES_TOGETHER = 256  # writes of one item each, likewise
_TOGETHER = 64  # requests in a commit: other writers wait for less than a tenth of a second

Action = dict[str, Any]
"""A PutRequest or a DeleteRequest."""

Call = tuple[str, dict[str, Any], float]
"""An operation, its request, and a guess of its units."""

Answer = dict[str, Any] | PenstockError

Refuse = Callable[[Item, DynamoDBError], object]
"""Told of an item, or of the key of a deletion, that DynamoDB does not take."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of one segment; `start` is where the next one begins, None at the end."""

    segment: int
    items: list[Item]
    start: Item | None
    scanned: int = 0
    """Items that were looked at, those that the filter left out included."""


@dataclass(frozen=True, slots=True)
class ItemTable:
    """A table to read from and write to.

    `text_of` gives the same for two items of this table if and only if they have the same key.
    """

    db: Database
    name: str
    key: TableKey
    text_of: Callable[[Item], KeyText]
    pacer: Pacer | None = None
    sleep: Callable[[float], object] = time.sleep
    page_units: list[float] = field(default_factory=lambda: [1.0])
    """What the last page cost: the best guess for the next."""
    filter: Mapping[str, Any] = field(default_factory=dict)
    """A FilterExpression for the pages, with its names and values."""

    @classmethod
    def of(
        cls, db: Database, name: str, pacer: Pacer | None = None, filter: Mapping[str, Any] | None = None
    ) -> ItemTable:
        """Asks for the table's key; raises ResourceNotFoundException where there is no such table."""
        key = fresh_key(db, name)
        text_of = _text_of(tuple((one.name, one.type) for one in key.attributes))
        return cls(db, name, key, text_of, pacer, filter=filter or {})

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of its key attributes, partition first."""
        return self.key.names

    @property
    def workers(self) -> int:
        return self.db.capabilities.parallel_calls

    @property
    def shares_commits(self) -> bool:
        """Whether requests that are sent together share a commit: then it pays that their items are neighbours."""
        return self.db.capabilities.shares_commits

    def key_of(self, item: Item) -> Item:
        return {name: item[name] for name in self.keys}

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def page(self, segment: int, segments: int, start: Item | None, *, limit: int | None = None) -> Page:
        """The next page of a segment, consistently read."""
        request: dict[str, Any] = {"TableName": self.name, "ConsistentRead": True, **self.filter}
        if segments > 1:
            request |= {"Segment": segment, "TotalSegments": segments}
        if start is not None:
            request["ExclusiveStartKey"] = start
        if limit is not None:
            request["Limit"] = limit
        if self.pacer is not None:
            request["ReturnConsumedCapacity"] = "TOTAL"
        answer = self._patiently("Scan", request, self.page_units[-1], "Read")
        if "ConsumedCapacity" in answer:
            self.page_units[:] = [float(answer["ConsumedCapacity"]["CapacityUnits"])]
        return Page(segment, answer["Items"], answer.get("LastEvaluatedKey"), answer.get("ScannedCount", 0))

    def rounds(
        self, places: Places, *, limit: int | None = None, ahead: bool = False, at_once: int | None = None
    ) -> Iterator[list[Page]]:
        """Pages of several segments side by side until all are read. `places` moves on when a round has been dealt
        with, so that it always says where to continue. With `ahead`, the next round is read meanwhile.
        """
        width = at_once or self.workers
        with ThreadPoolExecutor(width, thread_name_prefix="penstock-scan") as pool:
            waiting = self._read_round(pool, places, width, limit)
            while waiting:
                pages = [one.result() for one in waiting]
                after = places.copy()
                after.move(pages)
                waiting = self._read_round(pool, after, width, limit) if ahead else []
                yield pages
                places.move(pages)
                if not ahead:
                    waiting = self._read_round(pool, places, width, limit)

    def _read_round(self, pool: ThreadPoolExecutor, places: Places, width: int, limit: int | None) -> list[Any]:
        unread = places.unread[:width]
        return [pool.submit(self.page, one, places.segments, places.starts[one], limit=limit) for one in unread]

    def get(self, keys: Iterable[Item], *, only: Sequence[str] | None = None) -> dict[KeyText, Item]:
        """The items with these keys, consistently read; those that do not exist are left out."""
        each = {self.text_of(key): key for key in keys}.values()
        # A name, not a path: a dot in it is part of the attribute's name.
        select = None if only is None else [F(name) for name in dict.fromkeys((*self.keys, *only))]
        plan = ReadPlan(self.name, None, select, consistent=True)
        try:
            items = read_encoded(plan, each, self.db.execute, self._options, self.workers)
            return {self.text_of(item): item for item in items}
        except BatchIncomplete as error:
            raise self._cause(error) from error

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def write(self, puts: Iterable[Item], deletes: Iterable[Item] = (), *, refuse: Refuse | None = None) -> int:
        """Writes the items and deletes the keys, no key twice; the number of actions, all of which took effect.

        An item that DynamoDB refuses (an index's key of another type, for example) does not keep the others from being
        written: `refuse` is told of it; without that, PenstockError names it.
        """
        actions: list[Action] = [{"PutRequest": {"Item": item}} for item in puts]
        actions += [{"DeleteRequest": {"Key": key}} for key in deletes]
        left = self._write_together(actions) if self.pacer is None and self.shares_commits else actions
        try:
            if left:
                self._write_batch(left)
        except BatchIncomplete as error:
            self._report_refusals(error, refuse)
        return len(actions)

    def write_each(self, calls: Sequence[Call], *, workers: int | None = None) -> list[Answer]:
        """Conditional writes, in calls of their own, of items that are not each other's; what became of each of them.

        `units` is the guess of a call's cost. A call that is throttled is repeated; what DynamoDB refuses for good is
        in the place of its answer.
        """
        if self.pacer is None and self.shares_commits:
            answers: list[Answer] = []
            for at in range(0, len(calls), _WRITES_TOGETHER):
                group = [(operation, request) for operation, request, _ in calls[at : at + _WRITES_TOGETHER]]
                answers += self.db.execute_together(group)
            return answers
        width = min(workers or self.workers, max(1, len(calls)))
        with ThreadPoolExecutor(width, thread_name_prefix="penstock-writes") as pool:
            return list(pool.map(self._write_one, calls))

    def _write_one(self, call: Call) -> Answer:
        operation, request, units = call
        try:
            return self._patiently(operation, request, units, "Write")
        except DynamoDBError as error:
            return error.as_answer()

    def _write_together(self, actions: list[Action]) -> list[Action]:
        """Several requests share a commit, which costs as much as a request; gives what the batch has to do."""
        requests = [actions[at : at + BATCH_WRITE_ITEMS] for at in range(0, len(actions), BATCH_WRITE_ITEMS)]
        left: list[Action] = []
        for at in range(0, len(requests), _TOGETHER):
            group = requests[at : at + _TOGETHER]
            calls = [("BatchWriteItem", {"RequestItems": {self.name: one}}) for one in group]
            for one, answer in zip(group, self.db.execute_together(calls), strict=True):
                left += one if isinstance(answer, PenstockError) else answer["UnprocessedItems"].get(self.name, ())
        return left

    def _write_batch(self, actions: list[Action]) -> None:
        with Batch(self.name, self.key, self.db.execute, self._options, self.db.capabilities) as batch:
            for action in actions:
                if "PutRequest" in action:
                    batch.put_encoded(action["PutRequest"]["Item"])
                else:
                    batch.delete_encoded(action["DeleteRequest"]["Key"])

    def _report_refusals(self, incomplete: BatchIncomplete, refuse: Refuse | None) -> None:
        """Tells of the items that DynamoDB does not take; raises whatever else went wrong."""
        for failed in incomplete.failed:
            if not isinstance(failed.error, DynamoDBError) or not is_about_one(failed.error):
                raise self._cause(incomplete) from incomplete
        for failed in incomplete.failed:
            assert isinstance(failed.error, DynamoDBError)
            item, error = encode_item(failed.item), failed.error
            if refuse is None:
                key = ", ".join(f"{name}={next(iter(item.get(name, {'': 'missing'}).values()))}" for name in self.keys)
                raise PenstockError(f"{self.name} does not take the item {key}: {error.message}") from error
            refuse(item, error)

    def _cause(self, incomplete: BatchIncomplete) -> PenstockError:
        """Why a batch could not be done."""
        errors = (one.error for one in incomplete.failed if one.error is not None and not is_about_one(one.error))
        throttled = f"{self.name} did not take all of a batch for {PATIENCE_SECONDS:.0f} s: throttled"
        return next(errors, None) or PenstockError(throttled)

    # ── sending ──────────────────────────────────────────────────────────────────────────────────

    @property
    def _options(self) -> BatchOptions:
        return BatchOptions(deadline_seconds=PATIENCE_SECONDS, pace=self.pacer, sleep=self.sleep)

    def _patiently(self, operation: str, request: dict[str, Any], units: float, kind: Kind) -> dict[str, Any]:
        """One call, repeated while its error is one that passes."""
        since = time.monotonic()
        for failures in count(1):
            if self.pacer is not None:
                self.pacer.before(units, self.name, kind)
            try:
                answer = self.db.execute(operation, request)
            except PenstockError as error:
                self._learn(operation, request, error, units)
                if not error.retryable or time.monotonic() - since > PATIENCE_SECONDS:
                    raise
                self.sleep(_BACKOFF.wait(failures))
            else:
                self._learn(operation, request, answer, units)
                return answer
        raise AssertionError("count() ended")

    def _learn(self, operation: str, request: dict[str, Any], answer: Any, units: float) -> None:
        if self.pacer is not None:
            self.pacer.after(Outcome.of(operation, request, answer, units))


def fresh_key(db: Database, name: str) -> TableKey:
    """A table's key as it is now: one of this name may have been deleted and made again with another."""
    return TableKey.from_description(db.execute("DescribeTable", {"TableName": name})["Table"])


def _text_of(key: tuple[tuple[str, str], ...]) -> Callable[[Item], KeyText]:
    """Asked several times for each item: no loop."""
    (partition, kind), *rest = key
    if not rest:
        return lambda item: (item[partition][kind],)
    sort, sort_kind = rest[0]
    return lambda item: (item[partition][kind], item[sort][sort_kind])


class Places:
    """Where each segment of a scan stands: a key to go on from, None at its beginning; a set of those that are read."""

    def __init__(self, segments: int, starts: list[Item | None] | None = None, read: Iterable[int] = ()) -> None:
        self.segments = segments
        self.starts: list[Item | None] = list(starts) if starts is not None else [None] * segments
        self.read = set(read)

    def copy(self) -> Places:
        return Places(self.segments, self.starts, self.read)

    @property
    def unread(self) -> list[int]:
        return [segment for segment in range(self.segments) if segment not in self.read]

    def move(self, pages: Iterable[Page]) -> None:
        for page in pages:
            self.starts[page.segment] = page.start
            if page.start is None:
                self.read.add(page.segment)

    def form(self) -> dict[str, Any]:
        """As JSON, for a state that is kept."""
        return {"segments": self.segments, "starts": self.starts, "read": sorted(self.read)}

    @classmethod
    def parse(cls, form: dict[str, Any]) -> Places:
        return cls(form["segments"], form["starts"], form["read"])
