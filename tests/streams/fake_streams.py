"""A database whose streams have many shards: they split, roll over, are trimmed and go, and calls fail as AWS's do.

Tables and items are the embedded engine's. The changes of `orders` are told by `put`, which only writes a record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from penstock.client.database import Database
from penstock.client.transports.base import Capabilities
from penstock.client.transports.embedded import EmbeddedTransport
from penstock.clock import ManualClock
from penstock.engine import Engine
from penstock.errors import (
    ExpiredIteratorException,
    PenstockError,
    ResourceNotFoundException,
    TrimmedDataAccessException,
)

TABLE = "orders"
_PREFIX = f"arn:aws:dynamodb:eu-west-2:000000000000:table/{TABLE}/stream/"


@dataclass
class FakeShard:
    id: str
    parent: str | None
    low: float
    high: float
    stream: str
    records: list[dict[str, Any]] = field(default_factory=list)
    closed: bool = False
    trimmed: int = 0


class FakeStreams:
    """A transport. For tests of one process, in several threads."""

    name = "fake://streams"
    capabilities = Capabilities(metered=False, delayed_streams=False)

    def __init__(self, clock: ManualClock, shards: int = 1) -> None:
        self.clock = clock
        self.inner_transport = EmbeddedTransport(Engine(clock=clock))
        self.calls: list[str] = []
        self.faults: list[PenstockError] = []
        """What the next calls of the streams API answer."""
        self.epoch = 0
        self.page = 3
        """Records of a page, at most."""
        self.stream = "2026-01-01T00:00:00.000"
        self.shards: dict[str, FakeShard] = {}
        self._number = 10**20
        for place in range(shards):
            self._add(None, place / shards, (place + 1) / shards)

    # ── what happens to the stream ───────────────────────────────────────────────────────────────

    def put(self, key: str, n: int = 0) -> str:
        """A change of the item; its sequence number."""
        shard = self._shard_of(key)
        self._number += 1
        wire = {"id": {"S": key}, "n": {"N": str(n)}}
        facts = {
            "ApproximateCreationDateTime": int(self.clock.now()),
            "Keys": {"id": {"S": key}},
            "NewImage": wire,
            "SequenceNumber": str(self._number),
        }
        shard.records.append({"eventID": f"e{self._number}", "eventName": "MODIFY", "dynamodb": facts})
        return str(self._number)

    def split(self, place: int) -> None:
        """One of the open shards becomes two."""
        shard = self._open(place)
        shard.closed = True
        middle = (shard.low + shard.high) / 2
        self._add(shard.id, shard.low, middle)
        self._add(shard.id, middle, shard.high)

    def roll(self, place: int) -> None:
        """One of the open shards is followed by another."""
        shard = self._open(place)
        shard.closed = True
        self._add(shard.id, shard.low, shard.high)

    def new_stream(self) -> None:
        """The stream is switched off and on."""
        for shard in self.shards.values():
            shard.closed = True
        self.stream = f"2026-01-01T00:00:{len(self.shards):02d}.000"
        self._add(None, 0.0, 1.0)

    def expire_iterators(self) -> None:
        self.epoch += 1

    def trim(self, shard: str, records: int) -> None:
        self.shards[shard].trimmed += records

    def _open(self, place: int) -> FakeShard:
        found = [one for one in self.shards.values() if not one.closed]
        return found[place % len(found)]

    def _add(self, parent: str | None, low: float, high: float) -> None:
        id = f"shardId-{len(self.shards):08d}"
        self.shards[id] = FakeShard(id, parent, low, high, self.stream)

    def _shard_of(self, key: str) -> FakeShard:
        place = int.from_bytes(sha256(key.encode()).digest()[:4]) / 2**32
        return next(one for one in self.shards.values() if not one.closed and one.low <= place < one.high)

    # ── calls ────────────────────────────────────────────────────────────────────────────────────

    def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        self.calls.append(operation)
        if operation in ("DescribeStream", "GetShardIterator", "GetRecords") and self.faults:
            raise self.faults.pop(0)
        if operation == "DescribeTable" and request["TableName"] == TABLE:
            specification = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
            return {"Table": {"LatestStreamArn": _PREFIX + self.stream, "StreamSpecification": specification}}
        if operation == "ListStreams":
            streams = sorted({one.stream for one in self.shards.values()})
            return {"Streams": [{"StreamArn": _PREFIX + one, "TableName": TABLE} for one in streams]}
        if operation == "DescribeStream":
            return self._describe(request)
        if operation == "GetShardIterator":
            return {"ShardIterator": self._iterator(request)}
        if operation == "GetRecords":
            return self._records(request)
        return self.inner_transport.execute(operation, request)

    def _describe(self, request: dict[str, Any]) -> dict[str, Any]:
        """Two shards a page."""
        stream = request["StreamArn"].removeprefix(_PREFIX)
        found = sorted(one for one in self.shards if self.shards[one].stream == stream)
        if not found:
            raise ResourceNotFoundException("Requested resource not found: Stream not found")
        left = [one for one in found if one > request.get("ExclusiveStartShardId", "")]
        described: dict[str, Any] = {"Shards": [self._form(self.shards[one]) for one in left[:2]]}
        if len(left) > 2:
            described["LastEvaluatedShardId"] = left[1]
        return {"StreamDescription": described}

    def _form(self, shard: FakeShard) -> dict[str, Any]:
        numbers = {"StartingSequenceNumber": "1"} | ({"EndingSequenceNumber": "2"} if shard.closed else {})
        form: dict[str, Any] = {"ShardId": shard.id, "SequenceNumberRange": numbers}
        return form if shard.parent is None else form | {"ParentShardId": shard.parent}

    def _iterator(self, request: dict[str, Any]) -> str:
        shard = self._found(request["ShardId"])
        match request["ShardIteratorType"]:
            case "TRIM_HORIZON":
                place = shard.trimmed
            case "LATEST":
                place = len(shard.records)
            case "AT_TIMESTAMP":
                times = [one["dynamodb"]["ApproximateCreationDateTime"] for one in shard.records]
                place = sum(at < int(request["Timestamp"]) for at in times)
            case _:
                numbers = [one["dynamodb"]["SequenceNumber"] for one in shard.records]
                place = numbers.index(request["SequenceNumber"]) + 1
        if place < shard.trimmed:
            raise TrimmedDataAccessException("The data you are trying to access has been trimmed")
        return f"{shard.id}|{place}|{self.epoch}"

    def _found(self, id: str) -> FakeShard:
        if id not in self.shards:
            raise ResourceNotFoundException("Requested resource not found: Shard not found")
        return self.shards[id]

    def _records(self, request: dict[str, Any]) -> dict[str, Any]:
        id, place, epoch = request["ShardIterator"].split("|")
        shard, start = self._found(id), int(place)
        if int(epoch) != self.epoch:
            raise ExpiredIteratorException("Shard iterator has expired")
        if start < shard.trimmed:
            raise TrimmedDataAccessException("The data you are trying to access has been trimmed")
        found = shard.records[start : start + min(request["Limit"], self.page)]
        answer: dict[str, Any] = {"Records": found}
        if not shard.closed or start + len(found) < len(shard.records):
            answer["NextShardIterator"] = f"{id}|{start + len(found)}|{self.epoch}"
        return answer

    def close(self) -> None:
        self.inner_transport.close()


def fake_database(shards: int = 1) -> tuple[Database, FakeStreams]:
    transport = FakeStreams(ManualClock(), shards)
    return Database(transport), transport
