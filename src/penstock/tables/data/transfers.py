"""Items in bulk, in DynamoDB's own JSON: pages of a scan, reads by key, writes that lose nothing.

1. An item is moved as it came: nothing is decoded, so nothing is rounded or reordered.
2. A write returns when DynamoDB has taken every action, or raises; what was turned away is sent again.
3. Memory is bounded: a page for each segment that is read at once, a request for each worker.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from penstock.client.database import Database
from penstock.client.items.keys import TableKey
from penstock.client.wrappers.pacing import Outcome, Pacer
from penstock.errors import (
    DynamoDBError,
    ItemCollectionSizeLimitExceededException,
    PenstockError,
    ValidationException,
)
from penstock.wire.limits import BATCH_GET_ITEMS, BATCH_WRITE_ITEMS, WRITE_UNIT_BYTES
from penstock.wire.throttles import Kind
from penstock.wire.values import Item, item_size

KeyText = tuple[str, ...]
"""A key as something to look up: the contents of its attributes in the key's order."""

PATIENCE_SECONDS = 300.0
"""How long a request may be turned away wholly before the work is given up (and can be continued)."""

_TOGETHER = 64  # requests in a commit: other writers wait for less than a tenth of a second

_BASE_SECONDS, _CAP_SECONDS = 0.05, 5.0

_ABOUT_ONE = (ValidationException, ItemCollectionSizeLimitExceededException)
"""Refusals that are about one action of a request, and refuse all of it."""

Refuse = Callable[[Item, DynamoDBError], object]
"""Told of an item, or of the key of a deletion, that DynamoDB does not take."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of one segment; `start` is where the next one begins, None at the end."""

    segment: int
    items: list[Item]
    start: Item | None


@dataclass(frozen=True, slots=True)
class ItemTable:
    """A table to read from and write to. `keys` are the names of its key attributes, partition first.

    `text_of` gives the same for two items of this table if and only if they have the same key.
    """

    db: Database
    name: str
    keys: tuple[str, ...]
    text_of: Callable[[Item], KeyText]
    pacer: Pacer | None = None
    sleep: Callable[[float], object] = time.sleep
    page_units: list[float] = field(default_factory=lambda: [1.0])
    """What the last page cost: the best guess for the next."""

    @classmethod
    def of(cls, db: Database, name: str, pacer: Pacer | None = None) -> ItemTable:
        """Asks for the table's key; raises ResourceNotFoundException where there is no such table."""
        key = fresh_key(db, name)
        return cls(db, name, key.names, _text_of(tuple((one.name, one.type) for one in key.attributes)), pacer)

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
        request: dict[str, Any] = {"TableName": self.name, "ConsistentRead": True}
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
        return Page(segment, answer["Items"], answer.get("LastEvaluatedKey"))

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
        keys = list({self.text_of(key): key for key in keys}.values())
        chunks = [keys[at : at + BATCH_GET_ITEMS] for at in range(0, len(keys), BATCH_GET_ITEMS)]
        found: dict[KeyText, Item] = {}
        for items in self._each(lambda chunk: self._get(chunk, only), chunks):
            found.update((self.text_of(item), item) for item in items)
        return found

    def _get(self, keys: Sequence[Item], only: Sequence[str] | None) -> list[Item]:
        asked: dict[str, Any] = {"Keys": list(keys), "ConsistentRead": True}
        if only is not None:
            aliases = {f"#n{at}": name for at, name in enumerate(dict.fromkeys((*self.keys, *only)))}
            asked |= {"ProjectionExpression": ", ".join(aliases), "ExpressionAttributeNames": aliases}
        found: list[Item] = []
        for answer in self._until_taken("BatchGetItem", asked, "UnprocessedKeys", float(len(keys))):
            found += answer["Responses"].get(self.name, [])
        return found

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def write(self, puts: Iterable[Item], deletes: Iterable[Item] = (), *, refuse: Refuse | None = None) -> int:
        """Writes the items and deletes the keys, no key twice; the number of actions, all of which took effect.

        An item that DynamoDB refuses (an index's key of another type, for example) does not keep the others from being
        written: `refuse` is told of it; without that, PenstockError names it.
        """
        actions: list[dict[str, Any]] = [{"PutRequest": {"Item": item}} for item in puts]
        actions += [{"DeleteRequest": {"Key": key}} for key in deletes]
        requests = list(_requests(actions))
        if self.pacer is None and self.shares_commits:
            requests = self._write_together(requests)
        for _ in self._each(lambda request: self._write(request, refuse), requests):
            pass
        return len(actions)

    def _write_together(self, requests: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
        """Several requests share a commit, which costs as much as a request; what is left to do."""
        left: list[list[dict[str, Any]]] = []
        for at in range(0, len(requests), _TOGETHER):
            group = requests[at : at + _TOGETHER]
            calls = [("BatchWriteItem", {"RequestItems": {self.name: one}}) for one in group]
            for one, answer in zip(group, self.db.execute_together(calls), strict=True):
                if isinstance(answer, PenstockError):
                    left.append(one)  # alone it succeeds, or raises what it must
                elif answer["UnprocessedItems"]:
                    left.append(answer["UnprocessedItems"].get(self.name, []))
        return left

    def _write(self, actions: list[dict[str, Any]], refuse: Refuse | None) -> None:
        units = 0.0 if self.pacer is None else sum(map(_units, actions))
        try:
            for _ in self._until_taken("BatchWriteItem", actions, "UnprocessedItems", units):
                pass
        except _ABOUT_ONE as error:
            if len(actions) == 1:
                self._refused(actions[0], error, refuse)
                return
            for half in (actions[: len(actions) // 2], actions[len(actions) // 2 :]):
                self._write(half, refuse)

    def _refused(self, action: dict[str, Any], error: DynamoDBError, refuse: Refuse | None) -> None:
        item = action["PutRequest"]["Item"] if "PutRequest" in action else action["DeleteRequest"]["Key"]
        if refuse is None:
            key = ", ".join(f"{name}={next(iter(item.get(name, {'': 'missing'}).values()))}" for name in self.keys)
            raise PenstockError(f"{self.name} does not take the item {key}: {error.message}") from error
        refuse(item, error)

    # ── sending ──────────────────────────────────────────────────────────────────────────────────

    def _each(self, work: Callable[[Any], Any], chunks: list[Any]) -> Iterator[Any]:
        """`work` on every chunk, by as many workers as the database is worth."""
        if self.workers == 1 or len(chunks) < 2:
            yield from map(work, chunks)
            return
        with ThreadPoolExecutor(self.workers, thread_name_prefix="penstock-items") as pool:
            yield from pool.map(work, chunks)

    def _until_taken(self, operation: str, content: Any, left: str, units: float) -> Iterator[dict[str, Any]]:
        """Sends a batch again and again with what was left of it."""
        strikes, since = 0, time.monotonic()
        while content:
            answer = self._patiently(operation, {"RequestItems": {self.name: content}}, units, _kind(operation))
            yield answer
            rest = (answer.get(left) or {}).get(self.name)
            if rest and _length(rest) == _length(content):
                strikes += 1
                if time.monotonic() - since > PATIENCE_SECONDS:
                    raise PenstockError(f"{self.name} took nothing of a batch for {PATIENCE_SECONDS:.0f} s: throttled")
            else:
                strikes, since = 0, time.monotonic()
            if rest and strikes:
                self.sleep(_backoff(strikes))
            content = rest

    def _patiently(self, operation: str, request: dict[str, Any], units: float, kind: Kind) -> dict[str, Any]:
        """One call, repeated while its error is one that passes."""
        strikes, since = 0, time.monotonic()
        while True:
            if self.pacer is not None:
                self.pacer.before(units, self.name, kind)
            try:
                answer = self.db.execute(operation, request)
            except PenstockError as error:
                self._learn(operation, request, error, units)
                if not error.retryable or time.monotonic() - since > PATIENCE_SECONDS:
                    raise
                strikes += 1
                self.sleep(_backoff(strikes))
            else:
                self._learn(operation, request, answer, units)
                return answer

    def _learn(self, operation: str, request: dict[str, Any], answer: Any, units: float) -> None:
        if self.pacer is not None:
            self.pacer.after(Outcome.of(operation, request, answer, units))


def fresh_key(db: Database, name: str) -> TableKey:
    """A table's key as it is now: one of this name may have been deleted and made again with another."""
    return TableKey.described(db.execute("DescribeTable", {"TableName": name})["Table"])


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


def _requests(actions: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """25 actions a request. 25 items of 400 KB, a third more in base64, are less than the 16 MB of a request."""
    for at in range(0, len(actions), BATCH_WRITE_ITEMS):
        yield actions[at : at + BATCH_WRITE_ITEMS]


def _length(content: Any) -> int:
    """Keys of a read, actions of a write."""
    return len(content["Keys"] if isinstance(content, dict) else content)


def _units(action: dict[str, Any]) -> float:
    put = action.get("PutRequest")
    return 1.0 if put is None else float(max(1, -(-item_size(put["Item"]) // WRITE_UNIT_BYTES)))


def _kind(operation: str) -> Kind:
    return "Write" if operation == "BatchWriteItem" else "Read"


def _backoff(strikes: int) -> float:
    """Full jitter."""
    return random.random() * min(_CAP_SECONDS, _BASE_SECONDS * 2.0 ** min(20, strikes))
