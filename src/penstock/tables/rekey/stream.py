"""The changes of a table, as its stream tells them; every place is one that can be kept and continued from.

1. A shard is read after its parent: the changes of one item come in their order.
2. `places` says up to where each shard was handed out. What was handed out after it was last kept comes again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from penstock.client.database import Database
from penstock.errors import ExpiredIteratorException, TrimmedDataAccessException
from penstock.wire.values import Item

_PAGE_RECORDS = 1_000
_SHARDS_SECONDS = 10.0
"""How often new shards are looked for while the known ones are open."""


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """One record: the key that changed, and the images before and after."""

    key: Item
    old: Item | None
    new: Item | None
    at: float


@dataclass(slots=True)
class Sweep:
    """One look at every open shard."""

    touched: list[ChangeRecord] = field(default_factory=list)
    is_last: bool = True
    """Nothing more was to be had when it was made."""

    @property
    def oldest(self) -> float | None:
        return min((one.at for one in self.touched), default=None)


class StreamReader:
    """Reads a stream from `places` on: shard → {"after": sequence number or None, "done": bool}.

    Without places it begins at the newest record if the stream is `from_now`, else with everything that it has.
    """

    def __init__(self, db: Database, arn: str, places: dict[str, dict[str, Any]], *, from_now: bool = False) -> None:
        self._db = db
        self._arn = arn
        self.places = places
        self._iterators: dict[str, str] = {}
        self._parents: dict[str, str | None] = {}
        self._looked_at = 0.0
        self._read_shards()
        if from_now and not places:
            self._begin_now()

    def sweep(self) -> Sweep:
        """A page of each shard that is open and whose parent is read."""
        if time.monotonic() - self._looked_at > _SHARDS_SECONDS or not any(self._open()):
            self._read_shards()
        swept = Sweep()
        for shard in list(self._open()):
            self._read(shard, swept)
        return swept

    def _open(self) -> Iterator[str]:
        for shard, parent in self._parents.items():
            waits = parent in self._parents and not self._place(str(parent))["done"]
            if not waits and not self._place(shard)["done"]:
                yield shard

    def _place(self, shard: str) -> dict[str, Any]:
        return self.places.setdefault(shard, {"after": None, "done": False})

    def _read_shards(self) -> None:
        self._looked_at = time.monotonic()
        found: dict[str, str | None] = {}
        request: dict[str, Any] = {"StreamArn": self._arn}
        while True:
            described = self._db.execute("DescribeStream", request)["StreamDescription"]
            found.update((one["ShardId"], one.get("ParentShardId")) for one in described["Shards"])
            if not described.get("LastEvaluatedShardId"):
                break
            request["ExclusiveStartShardId"] = described["LastEvaluatedShardId"]
        self._parents = found
        for gone in self.places.keys() - found.keys():
            if not self.places.pop(gone)["done"]:
                raise TrimmedDataAccessException(f"The shard {gone} was not read in the 24 hours that it is kept.")

    def _begin_now(self) -> None:
        for shard in self._parents:
            self._place(shard)
            self._iterators[shard] = self._iterator(shard, "LATEST")

    def _iterator(self, shard: str, kind: str, after: str | None = None) -> str:
        request = {"StreamArn": self._arn, "ShardId": shard, "ShardIteratorType": kind}
        if after is not None:
            request["SequenceNumber"] = after
        return str(self._db.execute("GetShardIterator", request)["ShardIterator"])

    def _next_iterator(self, shard: str) -> str:
        after = self._place(shard)["after"]
        if after is None:
            return self._iterator(shard, "TRIM_HORIZON")
        return self._iterator(shard, "AFTER_SEQUENCE_NUMBER", after)

    def _read(self, shard: str, swept: Sweep) -> None:
        iterator = self._iterators.get(shard) or self._next_iterator(shard)
        try:
            answer = self._records(iterator)
        except ExpiredIteratorException:
            answer = self._records(self._next_iterator(shard))
        place = self._place(shard)
        records = answer["Records"]
        swept.touched += map(_parse_record, records)
        if records:
            place["after"] = records[-1]["dynamodb"]["SequenceNumber"]
        following = answer.get("NextShardIterator")
        if following is None:
            place["done"] = True
            self._iterators.pop(shard, None)
            self._looked_at = 0.0  # its children may be there
            swept.is_last = False
        else:
            self._iterators[shard] = following
            swept.is_last &= len(records) < _PAGE_RECORDS // 2

    def _records(self, iterator: str) -> dict[str, Any]:
        return self._db.execute("GetRecords", {"ShardIterator": iterator, "Limit": _PAGE_RECORDS})


def _parse_record(record: dict[str, Any]) -> ChangeRecord:
    told = record["dynamodb"]
    return ChangeRecord(
        told["Keys"], told.get("OldImage"), told.get("NewImage"), float(told.get("ApproximateCreationDateTime", 0.0))
    )
