"""Two tables compared by sums: every item of both is read once, and nothing is looked up.

1. An old key belongs to one of 65,536 buckets. A bucket's sum has a hash of every old item with such a key as it maps,
   less a hash of every item of the new table that came from such a key.
2. A sum of nothing means that the bucket has the same items in both tables: that it is so by chance has a chance of
   one in 2⁶⁰.
3. An item that changed between the two readings leaves a sum. What it was at each moment, the stream tells. If one
   choice for each changed key explains the whole sum, the other items of the bucket are the same in both tables, and
   only the changed keys have to be looked up.
4. A bucket whose sum nobody can explain is in doubt, and all its items have to be looked up. That too proves no fault:
   a set in another order is enough.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from itertools import product
from math import prod
from zlib import crc32

import orjson

from penstock.tables.data.transfers import KeyText
from penstock.wire.values import Item

BUCKETS = 1 << 16
"""A doubt is about one part in so many of a table; the sums take half a megabyte."""

_MOST_CHANGED = 100_000
"""Keys whose images are remembered; past them, what changes is in doubt."""

_MOST_CHOICES = 4_096
"""Tried to explain one sum: two keys of a bucket that were changed several times each."""

_LAST = BUCKETS - 1


def bucket_of(old_key: KeyText) -> int:
    """The same in every process: buckets in doubt outlive the run that found them. () is an item of no old key."""
    return crc32("\0".join(old_key).encode("utf-8", "surrogatepass")) & _LAST


class Sums:
    """Sums of a comparison that is under way; they belong to this process, whose hashes they are made of."""

    def __init__(self) -> None:
        self._sums = [0] * BUCKETS

    def add(self, old_key: KeyText, mapped: Item) -> None:
        """An item of the old table, as it maps."""
        self._sums[bucket_of(old_key)] += _hash(mapped)

    def subtract(self, old_key: KeyText, item: Item) -> None:
        """An item of the new table, and the old key that it came from."""
        self._sums[bucket_of(old_key)] -= _hash(item)

    def doubts(self, changed: Changed) -> Doubts:
        """Where the tables may differ in something else than the keys that are known to have changed."""
        by_bucket = changed.by_bucket()
        return Doubts(
            frozenset(at for at, left in enumerate(self._sums) if left and not explains(by_bucket.get(at, ()), left))
        )


class Changed:
    """The keys that changed while sums were taken, and what their items were in that time."""

    def __init__(self) -> None:
        self.keys: dict[KeyText, Item] = {}
        self.places: dict[KeyText, Item] = {}
        """Keys of the new table where they were, are or were to be."""
        self._hashes: dict[KeyText, set[int]] = {}

    def add_image(self, old_key: KeyText, mapped: Item) -> None:
        """An image of an item, as it maps."""
        if old_key in self._hashes or len(self._hashes) < _MOST_CHANGED:
            self._hashes.setdefault(old_key, {0}).add(_hash(mapped))

    def add(self, keys: Mapping[KeyText, Item], places: Mapping[KeyText, Mapping[KeyText, Item]]) -> None:
        self.keys.update((at, key) for at, key in keys.items() if at in self._hashes)
        for at in keys:
            if at in self._hashes:
                self.places.update(places.get(at, {}))

    def by_bucket(self) -> dict[int, list[set[int]]]:
        found: dict[int, list[set[int]]] = {}
        for at, hashes in self._hashes.items():
            found.setdefault(bucket_of(at), []).append(hashes)
        return found


def explains(changed: Iterable[set[int]], left: int) -> bool:
    """Whether keys that had these hashes (0: no item) can have left this sum: each was read once in each table."""
    choices = [{one - other for one in hashes for other in hashes} for hashes in changed]
    if prod(map(len, choices)) > _MOST_CHOICES:
        return False
    return any(sum(choice) == left for choice in product(*choices))


def _hash(item: Item) -> int:
    return hash(orjson.dumps(item, option=orjson.OPT_SORT_KEYS))


class Doubts:
    """The buckets whose items are to be looked up."""

    def __init__(self, buckets: frozenset[int]) -> None:
        self.buckets = buckets

    def __contains__(self, old_key: KeyText) -> bool:
        return bucket_of(old_key) in self.buckets

    def __bool__(self) -> bool:
        return bool(self.buckets)

    def text(self) -> str:
        """A bit for each bucket, for a state that is kept: 11 KB."""
        bits = bytearray(BUCKETS // 8)
        for bucket in self.buckets:
            bits[bucket >> 3] |= 1 << (bucket & 7)
        return b64encode(bits).decode()

    @classmethod
    def parse(cls, text: str | None) -> Doubts:
        """None, of a job that has no sums, is a doubt about everything."""
        if text is None:
            return cls(frozenset(range(BUCKETS)))
        marked = ((at, byte) for at, byte in enumerate(b64decode(text)) if byte)
        return cls(frozenset(at << 3 | bit for at, byte in marked for bit in range(8) if byte >> bit & 1))
