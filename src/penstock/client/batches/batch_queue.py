"""What a batch of writes still has to do: pure, it sends nothing and never waits.

1. Every action given is in exactly one place: waiting, in flight, done, replaced by a later one on its key, or failed.
2. At most one action on a key is in flight, and a later one waits for it: the last one given is the last one written.
3. A request has at most 25 actions and 16 MB, and no key twice.
4. What DynamoDB left unprocessed waits again, until its deadline: counted from when it was first sent.
5. A request that is refused because of one bad action is split until that one stands alone; the others are written.
6. If it may, a long batch holds actions back (as JSON, a third as large as the objects) until there are enough to sort:
   they wait, as in 1. Only a long batch does; each time as many as it has given out before, at most `HELD_BYTES` of
   JSON, and those of a slow source for `HELD_SECONDS`.

Why sort: a commit writes whole pages. Of a hundred items in no order each lies on a page of its own, which is written
again and again in the course of a load; of neighbours, many share one. A load of 200,000 items over HTTP took 6.2 s
instead of 10.6 s by it, and the server wrote 0.4 GB instead of 4.3 GB. Not at AWS: there, neighbours are one
partition's, which would be throttled while the others had nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from penstock.client.items.failures import Failed
from penstock.client.items.keys import Key, TableKey, encode_key
from penstock.client.items.values import InvalidValue, decode_item, encode_json, path_text
from penstock.errors import DynamoDBError, PenstockError
from penstock.retry import Backoff
from penstock.wire import values as wire
from penstock.wire.limits import BATCH_BYTES, BATCH_WRITE_ITEMS, WRITE_UNIT_BYTES
from penstock.wire.values import Item

LONG_BATCH = 40 * BATCH_WRITE_ITEMS
HELD_BYTES = 16 * 1024 * 1024
HELD_SECONDS = 5.0


class HeldWrites:
    """Those of one batch; pure."""

    def __init__(self) -> None:
        self._writes: dict[Hashable, Write] = {}
        self._bytes = 0
        self._began_at: float | None = None
        self._given_out = 0

    def __contains__(self, identity: Hashable) -> bool:
        return identity in self._writes

    def add(self, write: Write) -> int:
        """How many there are now."""
        self._writes[write.identity] = write
        self._bytes += write.length
        return len(self._writes)

    def pop(self, identity: Hashable) -> Write | None:
        """Takes back what a later action on its key replaces."""
        found = self._writes.pop(identity, None)
        if found is not None:
            self._bytes -= found.length
        return found

    def are_enough(self, now: float) -> bool:
        """Whether they are to be given out."""
        if self._began_at is None:
            self._began_at = now
        most = max(LONG_BATCH, self._given_out)
        return len(self._writes) >= most or self._bytes >= HELD_BYTES or now - self._began_at >= HELD_SECONDS

    def given_out(self) -> dict[Hashable, Write]:
        """All of them, in order."""
        writes = self._writes
        self._given_out += len(writes)
        self._writes, self._bytes, self._began_at = {}, 0, None
        return {place: writes[place] for place in sorted(writes)}  # type: ignore[type-var]  # they are bytes


def places(key: TableKey) -> Callable[[Item], bytes]:
    """Of an item or a key: where Penstock keeps it, which is the key of its row (engine/catalog/row_keys.py)."""
    from penstock.engine.catalog import row_keys  # a client over HTTP that sorts nothing does without the engine

    partition, *others = (attribute.name for attribute in key.attributes)
    if not others:
        return lambda item: row_keys.partition(item[partition])
    sort = others[0]
    return lambda item: row_keys.partition(item[partition]) + row_keys.data_of(item[sort])


Duplicates = Literal["last", "refuse"]

_ACTION_OVERHEAD_BYTES = 64  # what stands around an item in the request's JSON
_ENVELOPE_BYTES = 1024  # the table's name and the rest

# Refusals that may be about one action of a request only.
_ABOUT_ONE = frozenset({"ValidationException", "ItemCollectionSizeLimitExceededException", "SerializationException"})


@dataclass(slots=True, eq=False)
class Write:
    """One put or delete."""

    kind: Literal["put", "delete"]
    identity: Hashable
    """Of its key. Bytes, where actions are sorted: the order of the keys is theirs."""
    content: wire.Item | orjson.Fragment
    """The item of a put, the key of a delete; as its JSON where it is held back."""
    length: int
    """In bytes of JSON."""
    most: int = BATCH_WRITE_ITEMS
    """How many actions its next request may have."""
    sent_at: float | None = None

    @property
    def request(self) -> dict[str, Any]:
        if self.kind == "put":
            return {"PutRequest": {"Item": self.content}}
        return {"DeleteRequest": {"Key": self.content}}

    @property
    def item(self) -> wire.Item:
        content = self.content
        if isinstance(content, orjson.Fragment):
            loaded: wire.Item = orjson.loads(orjson.dumps(content))
            return loaded
        return content

    @property
    def units(self) -> int:
        """What it costs at the least: a delete costs as much as what it deletes, which nobody knows here."""
        if self.kind == "delete":
            return 1
        return max(1, -(-wire.item_size(self.item) // WRITE_UNIT_BYTES))

    def failed(self, error: PenstockError | None) -> Failed:
        return Failed(self.kind, decode_item(self.item), error)


Chunk = list[Write]


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What became of a batch that was done wholly."""

    done: int
    """Actions that took effect."""
    replaced: int
    """Actions that a later one on the same key replaced before they were written."""
    requests: int
    unprocessed: int
    """How often an action had to be sent again."""


class RefusalBackoff:
    """The more of the last requests was turned away, the longer the bound of the next wait."""

    def __init__(self, backoff: Backoff, draw: Callable[[], float]) -> None:
        self._backoff = backoff
        self._draw = draw
        self._strikes = 0

    def wait_after(self, turned_away: int, sent: int) -> float:
        """How long to wait after a request of `sent` parts, of which some were turned away."""
        if not turned_away:
            self._strikes = 0
            return 0.0
        self._strikes = max(1, self._strikes + (1 if 2 * turned_away > sent else -1))
        return self._backoff.wait(self._strikes, self._draw)


class WriteQueue:
    """The actions of one batch on one table."""

    def __init__(
        self,
        table: str,
        key: TableKey,
        duplicates: Duplicates,
        deadline_seconds: float,
        backoff: RefusalBackoff,
        held: HeldWrites | None = None,
    ) -> None:
        self._table = table
        self._key = key
        self._deadline_seconds = deadline_seconds
        self._backoff = backoff
        self._identify: Callable[[wire.Item], Hashable] = key.identity_of if held is None else places(key)
        self._seen: set[Hashable] | None = set() if duplicates == "refuse" else None
        self._again: dict[Hashable, Write] = {}
        self._fresh: dict[Hashable, Write] = {}
        self._held = held
        self.holds_back = False
        """Whether what is given now is held back."""
        self.is_due = False
        """Whether to look, after the action that was held back last, if something may be sent."""
        self._in_flight: set[Hashable] = set()
        self.resume_at = 0.0
        self.fatal: PenstockError | None = None
        self.failed: list[Failed] = []
        self.done = self.replaced = self.requests = self.unprocessed = 0

    def __len__(self) -> int:
        """Actions that wait."""
        return len(self._again) + len(self._fresh)

    @property
    def may_fill_one(self) -> bool:
        """Whether enough waits for a full request, and more: the last one is left to the end of the batch."""
        return len(self._again) + len(self._fresh) > BATCH_WRITE_ITEMS

    @property
    def report(self) -> BatchReport:
        return BatchReport(self.done, self.replaced, self.requests, self.unprocessed)

    # ── in ───────────────────────────────────────────────────────────────────────────────────────

    def put(self, item: Mapping[str, Any]) -> None:
        encoded, data = encode_json(item)
        self._key.check_item(encoded)
        if self.holds_back:
            # orjson cuts its answer from a larger piece of memory: a copy leaves the rest to others.
            kept = orjson.Fragment(bytes(memoryview(data)))
            self._add(Write("put", self._identify(encoded), kept, len(data)))
        else:
            self.put_encoded(encoded, len(data))

    def put_encoded(self, item: wire.Item, length: int) -> None:
        """An item that has been checked, and has so many bytes of JSON."""
        self._add(Write("put", self._identify(item), item, length))

    def delete(self, key: Key) -> None:
        self.delete_encoded(encode_key(key, self._key))

    def delete_encoded(self, key: wire.Item) -> None:
        self._add(Write("delete", self._identify(key), key, _ENVELOPE_BYTES))

    def _add(self, write: Write) -> None:
        if self._seen is not None:
            self._refuse_second(write, self._seen)
        earlier = self._again.pop(write.identity, None) or self._fresh.pop(write.identity, None)
        if self._held is not None:
            earlier = self._held.pop(write.identity) or earlier
        self.replaced += earlier is not None
        if self._held is not None and self.holds_back:
            self.is_due = not self._held.add(write) % BATCH_WRITE_ITEMS
        else:
            self._fresh[write.identity] = write

    def _refuse_second(self, write: Write, seen: set[Hashable]) -> None:
        if write.identity in seen:
            key = dict(self._key.identity_of(write.item))
            raise InvalidValue(f"the batch already has an action on this key: {path_text([repr(key)])}")
        seen.add(write.identity)

    def release(self) -> None:
        """Lets go of what is held back."""
        if self._held is not None:
            self._fresh.update(self._held.given_out())

    def may_release(self, now: float) -> bool:
        """Whether enough is held back."""
        return self._held is not None and self._held.are_enough(now)

    # ── out ──────────────────────────────────────────────────────────────────────────────────────

    def next_chunk(self, now: float, *, whole: bool) -> Chunk | None:
        """The actions of the next request; None if there is none. With `whole`, only a full request is one."""
        if whole and not self.may_fill_one:
            return None
        chunk, full = self._gather()
        if not chunk or (whole and not full):
            return None
        for write in chunk:
            self._again.pop(write.identity, None) or self._fresh.pop(write.identity)
            self._in_flight.add(write.identity)
            write.sent_at = now if write.sent_at is None else write.sent_at
        self.requests += 1
        self.holds_back = self._held is not None and BATCH_WRITE_ITEMS * self.requests >= LONG_BATCH
        return chunk

    def _gather(self) -> tuple[Chunk, bool]:
        """As many actions as one request takes, and whether it takes no more."""
        chunk: Chunk = []
        size, most = _ENVELOPE_BYTES, BATCH_WRITE_ITEMS
        for write in self._ready():
            size += write.length + _ACTION_OVERHEAD_BYTES
            if write.most < most:
                most = write.most
            if chunk and (len(chunk) >= most or size > BATCH_BYTES):
                return chunk, True
            chunk.append(write)
        return chunk, len(chunk) >= most

    def _ready(self) -> Iterable[Write]:
        yield from self._again.values()
        for write in self._fresh.values():
            if write.identity not in self._in_flight:
                yield write

    def request(self, chunk: Chunk) -> dict[str, Any]:
        return {"RequestItems": {self._table: [write.request for write in chunk]}}

    # ── back ─────────────────────────────────────────────────────────────────────────────────────

    def take_answer(self, chunk: Chunk, answer: dict[str, Any], now: float) -> int:
        """Takes the answer to a chunk; how many of its actions were left unprocessed."""
        left = {self._identity_of(request) for request in _unprocessed(answer)}
        back = [write for write in chunk if write.identity in left]
        if len(back) < len(left):
            back = chunk  # something came back that nobody sent: all of it again is safe, leaving one out is not
        self.done += len(chunk) - len(back)
        self._return(chunk, back, None, now)
        return len(back)

    def take_error(self, chunk: Chunk, error: PenstockError, now: float) -> None:
        """Takes a chunk whose request failed as a whole."""
        if error.retryable:
            self._return(chunk, chunk, error, now)
        elif is_about_one(error):
            self._split(chunk, error)
        else:
            self.fatal = error
            self._end_flight(chunk)
            self.failed.extend(write.failed(error) for write in chunk)

    def give_up(self) -> None:
        """Counts everything that waits as failed."""
        self.release()
        for write in (*self._again.values(), *self._fresh.values()):
            self.failed.append(write.failed(self.fatal))
        self._again.clear()
        self._fresh.clear()

    def _return(self, chunk: Chunk, back: Chunk, error: PenstockError | None, now: float) -> None:
        self._end_flight(chunk)
        wait = self._backoff.wait_after(len(back), len(chunk))
        self.resume_at = max(self.resume_at, now + wait)
        for write in back:
            if self._is_replaced(write):
                self.replaced += 1
            elif write.sent_at is not None and now - write.sent_at >= self._deadline_seconds:
                self.failed.append(write.failed(error))
            else:
                self.unprocessed += 1
                self._again[write.identity] = write

    def _split(self, chunk: Chunk, error: PenstockError) -> None:
        self._end_flight(chunk)
        if len(chunk) == 1:
            self.failed.append(chunk[0].failed(error))
            return
        for write in chunk:
            if self._is_replaced(write):
                self.replaced += 1
            else:
                write.most = len(chunk) // 2
                self._again[write.identity] = write

    def _is_replaced(self, write: Write) -> bool:
        return write.identity in self._fresh or (self._held is not None and write.identity in self._held)

    def _end_flight(self, chunk: Chunk) -> None:
        self._in_flight.difference_update(write.identity for write in chunk)

    def _identity_of(self, request: dict[str, Any]) -> Hashable:
        if "PutRequest" in request:
            return self._identify(request["PutRequest"]["Item"])
        return self._identify(request["DeleteRequest"]["Key"])


def is_about_one(error: PenstockError) -> bool:
    """Whether a request may have been refused because of one of its actions only."""
    return isinstance(error, DynamoDBError) and error.code in _ABOUT_ONE


def _unprocessed(answer: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for requests in (answer.get("UnprocessedItems") or {}).values():
        yield from requests
