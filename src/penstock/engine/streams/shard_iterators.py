"""Shard iterators: a place in a stream, as an opaque text that only this database can have made.

1. An iterator names its stream and carries the next sequence to read and the time it was made, with a keyed digest
   over both: a changed iterator is refused, not misread. The key is the stream's own and lies in the file, so that
   every process on the file reads every other's iterators.
2. An iterator can be used for 15 minutes.
"""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64encode
from hashlib import blake2b
from hmac import compare_digest
from struct import Struct
from typing import Final

from penstock.engine.context import OperationContext
from penstock.engine.settings import Scope
from penstock.engine.streams import stream_records
from penstock.engine.streams.stream_records import Stream
from penstock.errors import (
    ExpiredIteratorException,
    ResourceNotFoundException,
    TrimmedDataAccessException,
    ValidationException,
)

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
    found = stream_records.find(context.db, scope, table_name, label) if scope == context.scope else None
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
    position, made_at = _opened(stream, token)
    if context.now - made_at > LIFETIME_SECONDS:
        raise ExpiredIteratorException("Shard iterator has expired")
    refuse_trimmed(stream, position)
    return stream, position


def _opened(stream: Stream, token: str) -> tuple[int, float]:
    try:
        data = b64decode(token, altchars=b"-_", validate=True)
    except ValueError:  # Not base64, or not ASCII.
        data = b""
    place, digest = data[: _PLACE.size], data[_PLACE.size :]
    if len(place) != _PLACE.size or not compare_digest(digest, _digest(stream, place)):
        raise ValidationException("Invalid ShardIterator")
    position, made_at = _PLACE.unpack(place)
    return position, made_at


def _digest(stream: Stream, place: bytes) -> bytes:
    return blake2b(place, digest_size=_DIGEST_BYTES, key=stream.secret).digest()
