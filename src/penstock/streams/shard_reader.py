"""A shard, read from a place on: iterators that expire, pages, data that was trimmed.

1. A page begins after the last record of the page before, or of what was done when the reader was made.
2. An iterator that has expired is replaced by one for the same place: nothing is lost, nothing comes twice.
3. Where the records of that place are gone, Trimmed is raised: what to do about it is for the caller to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from penstock.client.database import Database
from penstock.errors import (
    DynamoDBError,
    ExpiredIteratorException,
    ResourceNotFoundException,
    TrimmedDataAccessException,
)
from penstock.streams.change import created_at
from penstock.streams.shard_tree import ShardState

PAGE_RECORDS: Final = 1_000
_SLACK_SECONDS: Final = 1.0
"""The times of records are whole seconds."""


class Trimmed(Exception):
    """The records of this place are gone. `is_gone`: so is the shard."""

    def __init__(self, is_gone: bool) -> None:
        super().__init__(is_gone)
        self.is_gone = is_gone


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """A shard as DescribeStream tells of it."""

    stream: str
    id: str
    parent: str | None
    is_closed: bool


def label_of(arn: str) -> str:
    """The label of a stream's ARN: the time at which it began."""
    return arn.rpartition("/")[2]


def describe_shards(db: Database, arn: str) -> list[ShardInfo]:
    """All shards of a stream, in pages. Raises ResourceNotFoundException."""
    found: list[ShardInfo] = []
    request: dict[str, Any] = {"StreamArn": arn}
    while True:
        described = db.execute("DescribeStream", request)["StreamDescription"]
        for one in described["Shards"]:
            is_closed = "EndingSequenceNumber" in one["SequenceNumberRange"]
            found.append(ShardInfo(label_of(arn), one["ShardId"], one.get("ParentShardId"), is_closed))
        last = described.get("LastEvaluatedShardId")
        if not last:
            return found
        request["ExclusiveStartShardId"] = last


def newest_iterator(db: Database, arn: str, shard: str) -> str:
    """Where the next record of the shard will stand."""
    request = {"StreamArn": arn, "ShardId": shard, "ShardIteratorType": "LATEST"}
    return str(db.execute("GetShardIterator", request)["ShardIterator"])


@dataclass(frozen=True, slots=True)
class Page:
    records: list[dict[str, Any]]
    is_last: bool
    """The shard is closed, and this is its end."""


class ShardReader:
    """Reads one shard. For one thread."""

    def __init__(self, db: Database, arn: str, shard: ShardState) -> None:
        self._db = db
        self._arn = arn
        self._shard = shard
        self._after = shard.after
        self._first = shard.iterator if shard.after is None else None
        self._next: str | None = None
        self._since: float | None = None

    @property
    def iterator(self) -> str | None:
        """The one of the next page."""
        return self._next or self._first

    def read(self, limit: int = PAGE_RECORDS) -> Page:
        """The next page, which may be empty. Raises Trimmed."""
        try:
            try:
                answer = self._records(self.iterator or self._start(), limit)
            except ExpiredIteratorException:
                self._first = self._next = None
                answer = self._records(self._start(), limit)
        except TrimmedDataAccessException:
            raise Trimmed(is_gone=False) from None
        except ResourceNotFoundException:
            raise Trimmed(is_gone=True) from None
        records = answer["Records"]
        if records:
            self._after = records[-1]["dynamodb"]["SequenceNumber"]
            self._first = None
        self._next = answer.get("NextShardIterator")
        if self._since is not None:
            records = [one for one in records if created_at(one) + _SLACK_SECONDS > self._since]
        return Page(records, self._next is None)

    def skip_lost(self) -> None:
        """Goes on with the oldest record that is there."""
        self._after = self._first = None
        self._next = self._iterator("TRIM_HORIZON")

    def _start(self) -> str:
        if self._after is not None:
            return self._iterator("AFTER_SEQUENCE_NUMBER", SequenceNumber=self._after)
        since = self._shard.since
        if since is None:
            return self._iterator("TRIM_HORIZON")
        try:
            return self._iterator("AT_TIMESTAMP", Timestamp=since)
        except DynamoDBError as error:
            if error.retryable or isinstance(error, ResourceNotFoundException | TrimmedDataAccessException):
                raise
            # An endpoint that knows no AT_TIMESTAMP: everything is read, and what is older is left out.
            self._since = since
            return self._iterator("TRIM_HORIZON")

    def _iterator(self, kind: str, **place: Any) -> str:
        request = {"StreamArn": self._arn, "ShardId": self._shard.id, "ShardIteratorType": kind, **place}
        return str(self._db.execute("GetShardIterator", request)["ShardIterator"])

    def _records(self, iterator: str, limit: int) -> dict[str, Any]:
        return self._db.execute("GetRecords", {"ShardIterator": iterator, "Limit": limit})
