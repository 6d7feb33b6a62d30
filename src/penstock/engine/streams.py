"""DynamoDB Streams: what changed in a table, in order, for 24 hours.

1. A stream record is written in the transaction of the change it tells of, or not at all. A write that leaves the
   item as it was has none.
2. Sequence numbers only grow. The newest row of `stream_records` is therefore never deleted: SQLite gives the next
   row the number after it.
3. Records up to a stream's `trimmed` are gone for readers, whether or not their rows still lie in the file.
4. A stream outlives its table, and its being switched off, for as long as its records do.
5. A shard iterator names its stream and carries the next sequence to read and the time it was made, with a keyed digest
   over both: a changed iterator is refused, not misread. The key is the stream's own and lies in the file, so that
   every process on the file reads every other's iterators. It can be used for 15 minutes.

A stream has one shard, open until the stream is closed.
"""

from __future__ import annotations

import os
import re
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import orjson

from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.table_schema import Record
from penstock.engine.maintenance import chore
from penstock.engine.settings import Scope
from penstock.engine.storage.database_file import Connection
from penstock.errors import (
    ExpiredIteratorException,
    ResourceNotFoundException,
    TrimmedDataAccessException,
    ValidationException,
)
from penstock.wire.values import Item, item_size

if TYPE_CHECKING:
    from penstock.engine.engine import Engine
    from penstock.engine.items.write_steps import Change

RETENTION_SECONDS: Final = 24 * 3600.0

TRIM_STEP: Final = 1_000
"""Records deleted in one background transaction: a few milliseconds in which other writers wait."""

# DynamoDB's sequence numbers have 21 to 40 digits; ours are the row's number after this one.
_FIRST_NUMBER: Final = 10**20
_HIGHEST_SEQUENCE: Final = 2**63 - 1

INSERT, MODIFY, REMOVE, EXPIRE = range(4)
"""What a record tells of; EXPIRE is a REMOVE by the TTL sweeper."""

_COLUMNS: Final = (
    "id, account, region, table_name, label, view, key_schema, secret, created_at, closed_at, start, trimmed"
)
_APPEND: Final = "INSERT INTO stream_records (stream, created_at, event, size, images) VALUES (?, ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream, open or closed."""

    id: int
    scope: Scope
    table_name: str
    label: str
    view: str
    key_schema: bytes
    secret: bytes
    created_at: float
    closed_at: float | None
    start: int
    trimmed: int

    @property
    def arn(self) -> str:
        return stream_arn(self.scope, self.table_name, self.label)

    @property
    def shard_id(self) -> str:
        """Made of the time and the stream's name, as DynamoDB's are."""
        from hashlib import blake2b

        mark = blake2b(self.arn.encode(), digest_size=4).hexdigest()
        return f"shardId-{int(self.created_at * 1000):020d}-{mark}"

    @property
    def first(self) -> int:
        """The least sequence that can still be read."""
        return max(self.start, self.trimmed + 1)


def stream_arn(scope: Scope, table_name: str, label: str) -> str:
    return scope.arn(f"table/{table_name}/stream/{label}")


def number_of(sequence: int) -> str:
    """A SequenceNumber."""
    return str(_FIRST_NUMBER + sequence)


def sequence_of(number: str) -> int | None:
    """What `number_of` was given; None for a text that is no such number."""
    if not (number.isascii() and number.isdigit()):
        return None
    sequence = int(number) - _FIRST_NUMBER
    return sequence if 0 <= sequence < _HIGHEST_SEQUENCE else None


def open_stream(context: OperationContext, scope: Scope, record: Record, view: str) -> None:
    """Begins a stream for the table of this record, which the caller then saves."""
    name = record["TableName"]
    label = _free_label(context, scope, name)
    start = newest(context.db) + 1
    cursor = context.db.execute(
        "INSERT INTO streams "
        "(account, region, table_name, label, view, key_schema, secret, created_at, start, trimmed) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
        (
            scope.account,
            scope.region,
            name,
            label,
            view,
            orjson.dumps(record["KeySchema"]),
            os.urandom(16),
            context.now,
            start,
        ),
    )
    record["StreamSpecification"] = {"StreamEnabled": True, "StreamViewType": view}
    record["stream"] = {"id": cursor.lastrowid, "label": label, "view": view}
    record["LatestStreamLabel"] = label
    context.engine.maintenance.wake()


def close_stream(context: OperationContext, record: Record) -> None:
    """Ends the table's stream, if it has one; what is in it stays readable. The caller saves the record."""
    record.pop("StreamSpecification", None)
    stream = record.pop("stream", None)
    if stream is not None:
        context.db.execute("UPDATE streams SET closed_at = ? WHERE id = ?", (context.now, stream["id"]))


def describe(scope: Scope, record: Record) -> dict[str, Any]:
    """What a TableDescription says of the table's stream, or of its last one."""
    members: dict[str, Any] = {}
    if record.get("stream"):
        members["StreamSpecification"] = record["StreamSpecification"]
    label = record.get("LatestStreamLabel")
    if label is not None:
        members["LatestStreamLabel"] = label
        members["LatestStreamArn"] = stream_arn(scope, record["TableName"], label)
    return members


def append(context: OperationContext, change: Change, stream: Record, data: bytes) -> None:
    """Writes the record of a change; `data` is the new item's JSON."""
    old, new, view = change.old, change.new, stream["view"]
    key = change.table.key_of(new if new is not None else old or {})
    images: dict[str, Item | orjson.Fragment] = {"Keys": key}
    size = item_size(key)
    if new is not None and view in ("NEW_IMAGE", "NEW_AND_OLD_IMAGES"):
        images["NewImage"] = orjson.Fragment(data)
        size += change.size
    if old is not None and view in ("OLD_IMAGE", "NEW_AND_OLD_IMAGES"):
        images["OldImage"] = old
        size += item_size(old)
    context.db.execute(_APPEND, (stream["id"], context.now, _event(change), size, orjson.dumps(images)))


def find(db: Connection, scope: Scope, table_name: str, label: str) -> Stream | None:
    row = db.execute(
        f"SELECT {_COLUMNS} FROM streams "  # noqa: S608
        "WHERE account = ? AND region = ? AND table_name = ? AND label = ?",
        (scope.account, scope.region, table_name, label),
    ).fetchone()
    return None if row is None else _stream(row)


def page(db: Connection, scope: Scope, table_name: str | None, after: tuple[str, str], limit: int) -> list[Stream]:
    """Streams in the order of (table name, label), from the first one after `after`."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM streams "  # noqa: S608
        "WHERE account = ?1 AND region = ?2 AND (?3 IS NULL OR table_name = ?3) AND (table_name, label) > (?4, ?5) "
        "ORDER BY table_name, label LIMIT ?6",
        (scope.account, scope.region, table_name, *after, limit),
    )
    return [_stream(row) for row in rows]


def newest(db: Connection, stream: Stream | None = None) -> int:
    """The last sequence given, in this stream or in all of them."""
    if stream is None:
        row = db.execute("SELECT max(sequence) FROM stream_records").fetchone()
        return row[0] or 0
    row = db.execute("SELECT max(sequence) FROM stream_records WHERE stream = ?", (stream.id,)).fetchone()
    return max(row[0] or 0, stream.start - 1, stream.trimmed)


def since(db: Connection, stream: Stream, at: float) -> int:
    """The sequence of the first record that is not older than `at`, or the next one to come."""
    row = db.execute(
        "SELECT sequence FROM stream_records WHERE stream = ? AND sequence > ? AND created_at >= ? "
        "ORDER BY sequence LIMIT 1",
        (stream.id, stream.trimmed, at),
    ).fetchone()
    return newest(db, stream) + 1 if row is None else row[0]


RecordRow = tuple[int, float, int, int, bytes]
"""sequence, created_at, event, size, images (the JSON of Keys, NewImage, OldImage)."""


def records(db: Connection, stream: Stream, position: int, limit: int) -> Iterator[RecordRow]:
    """Records from `position` on."""
    return db.execute(
        "SELECT sequence, created_at, event, size, images FROM stream_records "
        "WHERE stream = ? AND sequence >= ? ORDER BY sequence LIMIT ?",
        (stream.id, max(position, stream.first), limit),
    )


@chore
def trim_streams(engine: Engine) -> float | None:
    """Takes records older than 24 hours out of the streams, and closed streams that have none left out of the file."""
    with engine.reading() as context:
        due = _next_trim(context)
    if due is None or due > 0:
        return due
    with engine.writing() as context:
        if _trim_step(context):
            return 0.0
        due = _next_trim(context)
    # A clock that was set back can leave a closed stream with records that are younger than its end.
    return None if due is None else max(due, 1.0)


def _next_trim(context: OperationContext) -> float | None:
    """Seconds until the oldest record, or a closed stream, has had its time."""
    oldest = context.db.execute(
        "SELECT min(at) FROM (SELECT (SELECT created_at FROM stream_records WHERE stream = streams.id "
        "AND sequence > streams.trimmed ORDER BY sequence LIMIT 1) AS at FROM streams "
        "UNION ALL SELECT closed_at FROM streams)"
    ).fetchone()[0]
    return None if oldest is None else max(0.0, oldest + RETENTION_SECONDS - context.now)


def _trim_step(context: OperationContext) -> bool:
    """A bounded piece of the work; whether there is more."""
    horizon = context.now - RETENTION_SECONDS
    for (stream,) in context.db.execute("SELECT id FROM streams").fetchall():
        if _trim_stream(context.db, stream, horizon) == TRIM_STEP:
            return True
    ended = context.db.execute(
        "SELECT id FROM streams WHERE closed_at <= ? AND NOT EXISTS "
        "(SELECT 1 FROM stream_records WHERE stream = streams.id AND sequence > streams.trimmed)",
        (horizon,),
    ).fetchall()
    for (stream,) in ended:
        _forget(context.db, stream)
    return False


def _forget(db: Connection, stream: int) -> None:
    """Deletes a stream; its last row may have to stay (2), and then belongs to no stream."""
    db.execute("UPDATE stream_records SET stream = 0, images = x'' WHERE stream = ?", (stream,))
    db.execute("DELETE FROM stream_records WHERE stream = 0 AND sequence < (SELECT max(sequence) FROM stream_records)")
    db.execute("DELETE FROM streams WHERE id = ?", (stream,))


def _trim_stream(db: Connection, stream: int, horizon: float) -> int:
    """Trims up to a step's records of one stream; their number."""
    oldest = db.execute(
        "SELECT sequence, created_at FROM stream_records WHERE stream = ?1 "
        "AND sequence > (SELECT trimmed FROM streams WHERE id = ?1) ORDER BY sequence LIMIT ?2",
        (stream, TRIM_STEP),
    ).fetchall()
    due = [sequence for sequence, _ in takewhile(lambda row: row[1] <= horizon, oldest)]
    if due:
        db.execute("UPDATE streams SET trimmed = ? WHERE id = ?", (due[-1], stream))
        db.execute(
            "DELETE FROM stream_records WHERE stream = ? AND sequence <= ? "
            "AND sequence < (SELECT max(sequence) FROM stream_records)",
            (stream, due[-1]),
        )
    return len(due)


def _event(change: Change) -> int:
    if change.old is None:
        return INSERT
    if change.new is not None:
        return MODIFY
    return EXPIRE if change.by_ttl else REMOVE


def _free_label(context: OperationContext, scope: Scope, table_name: str) -> str:
    """The time in milliseconds; a later one where two streams of a table begin in the same."""
    moment = datetime.fromtimestamp(context.now, UTC)
    while True:
        label = moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}"
        if find(context.db, scope, table_name, label) is None:
            return label
        moment += timedelta(milliseconds=1)


def _stream(row: tuple[Any, ...]) -> Stream:
    return Stream(row[0], Scope(row[1], row[2]), *row[3:])


# ── shard iterators ───────────────────────────────────────────────────────────────────────────────


LIFETIME_SECONDS: Final = 15 * 60.0

_PLACE: Final = Struct(">qd")
_DIGEST_BYTES: Final = 16
_STREAM_ARN = re.compile(r"arn:aws[a-z-]*:dynamodb:([a-z0-9-]+):([0-9]+):table/([A-Za-z0-9_.-]+)/stream/([0-9T:.-]+)")


def parse_arn(arn: str) -> tuple[Scope, str, str]:
    """The scope, table name and label of a stream's ARN."""
    match = _STREAM_ARN.fullmatch(arn)
    if match is None:
        raise ValidationException("Invalid StreamArn")
    region, account, table_name, label = match.groups()
    return Scope(account, region), table_name, label


def stream_of(context: OperationContext, arn: str) -> Stream:
    """The stream of this ARN; ResourceNotFoundException where the caller has none such."""
    scope, table_name, label = parse_arn(arn)
    found = find(context.db, scope, table_name, label) if scope == context.scope else None
    if found is None:
        raise ResourceNotFoundException(f"Requested resource not found: Stream: {arn} not found")
    return found


def refuse_trimmed(stream: Stream, position: int) -> None:
    """TrimmedDataAccessException where records from `position` on are gone already."""
    if position < stream.first:
        raise TrimmedDataAccessException("The data you are trying to access has been trimmed")


def encode(context: OperationContext, stream: Stream, position: int) -> str:
    """An iterator that reads from `position` on."""
    place = _PLACE.pack(position, context.now)
    token = urlsafe_b64encode(place + _digest(stream, place)).decode("ascii")
    return f"{stream.arn}|1|{token}"


def decode(context: OperationContext, text: str) -> tuple[Stream, int]:
    """The stream and position of an iterator; refused where it is changed, expired, or past what is kept."""
    arn, _, token = text.partition("|1|")
    if _STREAM_ARN.fullmatch(arn) is None:
        raise ValidationException("Invalid ShardIterator")
    stream = stream_of(context, arn)
    position, made_at = _parse_iterator(stream, token)
    if context.now - made_at > LIFETIME_SECONDS:
        raise ExpiredIteratorException("Shard iterator has expired")
    refuse_trimmed(stream, position)
    return stream, position


def _parse_iterator(stream: Stream, token: str) -> tuple[int, float]:
    try:
        data = b64decode(token, altchars=b"-_", validate=True)
    except ValueError:  # Not base64, or not ASCII.
        data = b""
    place, digest = data[: _PLACE.size], data[_PLACE.size :]
    from hmac import compare_digest

    if len(place) != _PLACE.size or not compare_digest(digest, _digest(stream, place)):
        raise ValidationException("Invalid ShardIterator")
    position, made_at = _PLACE.unpack(place)
    return position, made_at


def _digest(stream: Stream, place: bytes) -> bytes:
    from hashlib import blake2b

    return blake2b(place, digest_size=_DIGEST_BYTES, key=stream.secret).digest()
