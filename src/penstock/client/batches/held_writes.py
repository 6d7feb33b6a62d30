"""Actions of a long batch, held back so that they are sent in the order in which Penstock keeps items.

A commit writes whole pages. Of a hundred items in no order each lies on a page of its own, which is written again and
again in the course of a load; of neighbours, many share one. So a server's file takes a third of the writes.

1. Only a long batch holds actions back; each time as many as it has given out before, at most `HELD_BYTES` of JSON,
   and those of a slow source for `HELD_SECONDS`.
2. Not at AWS: there, neighbours are one partition's, which would be throttled while the others had nothing to do.
3. What is held is JSON, a third as large as the objects that it is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from penstock.client.tables.keys import TableKey
from penstock.wire import keys
from penstock.wire.limits import BATCH_WRITE_ITEMS
from penstock.wire.values import Item

if TYPE_CHECKING:
    from penstock.client.batches.batch_queue import Write

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
    """Of an item or a key: where Penstock keeps it, which is the key of its row (wire/keys.py)."""
    partition, *others = (attribute.name for attribute in key.attributes)
    if not others:
        return lambda item: keys.partition(item[partition])
    sort = others[0]
    return lambda item: keys.partition(item[partition]) + keys.data_of(item[sort])
