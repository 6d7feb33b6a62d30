"""The writes of a batch to the engine in this process: encoded and measured in one walk, gathered, and
written many at once.

A request of 25 actions is a limit of DynamoDB's network. In the process, a transaction of thousands in the order of
their keys costs a fifth as much an action.

1. A group has as many actions as were written before it, 25 at the least, so that a short batch writes no later than
   one over a network does; and at most `GROUP_BYTES`, so that memory and other writers' waits have a bound.
2. A large group is written by a thread while the next one is gathered; groups are written in their order.
3. What the engine declines goes into the queue, in its order, and from there the ordinary way; from then on everything
   does. Before that, only what is not plain does: that is so of every action on a key or of none.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import orjson

from penstock.client.batches.batch_queue import WriteQueue
from penstock.client.items.keys import Key, TableKey, encode_key
from penstock.client.items.values import InvalidValue, encode
from penstock.clock import Clock
from penstock.engine.items.bulk_rows import WHOLE_ROWS, Loading, Row
from penstock.errors import DynamoDBError
from penstock.wire.limits import ATTRIBUTE_NAME_BYTES, BATCH_WRITE_ITEMS
from penstock.wire.values import LIST_BYTES, Item, measure_number, measure_value

_ORDINARY_INTEGER = 10**18


def measured_item(item: Mapping[str, Any]) -> tuple[Item, int] | None:
    """The item for the wire, as `check_item(encode_item(item))` gives it, with its size; None for an unusual one."""
    if type(item) is not dict:
        return None
    members: Item = {}
    size = 0
    try:
        for name, value in item.items():
            size += len(name) if name.isascii() else len(name.encode())
            kind = type(value)
            if kind is str:
                members[name] = {"S": value}
                size += len(value) if value.isascii() else len(value.encode())
            elif kind is int and 0 < value < _ORDINARY_INTEGER:
                text, length = measure_number(int.__repr__(value))
                members[name] = {"N": text}
                size += length
            elif kind is Decimal:  # NaN and Infinity are no numbers to `numbers` either
                text, length = measure_number(str(value))
                members[name] = {"N": text}
                size += length
            elif kind is bool:
                members[name] = {"BOOL": value}
                size += 1
            elif kind is list and set(map(type, value)) == {str}:
                texts = "".join(value)
                members[name] = {"L": [{"S": text} for text in value]}
                size += LIST_BYTES + len(value) + (len(texts) if texts.isascii() else len(texts.encode()))
            else:
                members[name], length = measure_value(encode(value))
                size += length
    except (InvalidValue, DynamoDBError, AttributeError, TypeError, UnicodeError):
        return None
    # Names of 64 KB are too long, and none of them may be empty.
    return None if size > ATTRIBUTE_NAME_BYTES or "" in members else (members, size)


GROUP_BYTES = 40 * 1024 * 1024
HELD_SECONDS = 5.0  # then a group that could be a request waits for no more: its source is slow
APART_BYTES = 1024 * 1024  # below it, handing a group to a thread costs more than it saves
_DELETE_BYTES = 100

Group = dict[bytes, Row | Item]
"""By row key: the row of a put, the key of a delete."""


class LocalWrites:
    """Gathers for one batch, whose `queue` it tells what was done. For one thread."""

    def __init__(self, loading: Loading, key: TableKey, queue: WriteQueue, clock: Clock) -> None:
        self._loading = loading
        self._key = key
        self._queue = queue
        self._clock = clock
        self._declined = False
        self._handed_over = 0
        self._pool: ThreadPoolExecutor | None = None
        self._in_flight: tuple[Future[bool], Group] | None = None
        self._begin()

    def _begin(self) -> None:
        self._group: Group = {}
        self._given = self._bytes = 0
        self._began_at = self._clock.now()

    def put(self, item: Mapping[str, Any]) -> bool:
        """Will write the item; False if it has to go the ordinary way."""
        found = None if self._declined else measured_item(item)
        row = None if found is None else self._loading.row(*found)
        if row is None:
            return False
        self._group[row[0]] = row
        self._count_action(len(row[2]))
        return True

    def delete(self, key: Key) -> bool:
        """Will delete the item with this key; False likewise. Raises `InvalidValue`."""
        encoded = encode_key(key, self._key)
        row_key = None if self._declined else self._loading.key(encoded)
        if row_key is None:
            return False
        self._group[row_key] = encoded
        self._count_action(_DELETE_BYTES)
        return True

    def _count_action(self, length: int) -> None:
        self._bytes += length
        self._given += 1
        if self._bytes >= GROUP_BYTES or (not self._given % BATCH_WRITE_ITEMS and self._is_enough()):
            self._write()

    def _is_enough(self) -> bool:
        return self._given >= self._handed_over or self._clock.now() - self._began_at >= HELD_SECONDS

    def flush(self) -> None:
        """Returns when everything given so far is written or in the queue."""
        self._write(whole=False)
        self._wait()

    def leave(self) -> None:
        """Writes no more: what is not written is in the queue when this returns."""
        self._wait()
        self._decline(self._group)
        self._begin()

    def close(self) -> None:
        """Ends the thread, which finishes what it has begun."""
        if self._pool is not None:
            self._pool.shutdown()

    def _write(self, *, whole: bool = True) -> None:
        """Writes what is gathered; a large group is handed over, when the one before it is written."""
        if self._bytes >= APART_BYTES:
            self._order()
        self._wait()
        group, given, apart = self._group, self._given, self._bytes >= APART_BYTES
        if not group:
            return
        self._begin()
        if apart and whole and len(group) > WHOLE_ROWS:
            self._keep_rest(group)
        self._handed_over += given - self._given
        self._queue.replaced += given - self._given - len(group)
        if apart:
            self._in_flight = self._executor().submit(self._loading.write, group), group
        else:
            self._take_result(group, written=self._loading.write(group))

    def _order(self) -> None:
        """Puts the group into the order of its keys, in which it is written: the thread has more to do than we have."""
        group = self._group
        self._group = {key: group[key] for key in sorted(group)}

    def _keep_rest(self, group: Group) -> None:
        """Takes the last actions back, so that the others are few statements."""
        for _ in range(len(group) % WHOLE_ROWS):
            key, action = group.popitem()
            self._group[key] = action
            self._bytes += len(action[2]) if isinstance(action, tuple) else _DELETE_BYTES
        self._given = len(self._group)

    def _wait(self) -> None:
        if self._in_flight is not None:
            written, group = self._in_flight
            self._take_result(group, written=written.result())
            self._in_flight = None

    def _take_result(self, group: Group, *, written: bool) -> None:
        if written:
            self._queue.done += len(group)
            self._queue.requests += -(-len(group) // BATCH_WRITE_ITEMS)
            return
        self._decline(group)
        self._decline(self._group)
        self._begin()

    def _decline(self, group: Group) -> None:
        self._declined = True
        for action in group.values():
            if isinstance(action, tuple):
                self._queue.put_encoded(orjson.loads(action[2]), len(action[2]))
            else:
                self._queue.delete_encoded(action)

    def _executor(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="penstock-load")
        return self._pool
