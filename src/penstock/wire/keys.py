"""Keys as bytes, in an order that SQLite can walk.

A table's row key:  hash(8) · length(2) · partition key · sort key
An index's row key: hash(8) · (length(2) · value)* for its partition attributes · (escaped value)* for its sort
                    attributes · hash of the item's primary key(4) · the table's row key, which makes it unique

1. Rows of one partition are neighbours, in the order of their sort keys.
2. Partitions follow each other in the order of a hash of their key, as DynamoDB's do, so that a Scan's segments
   are ranges of hashes.
3. Within one partition, byte order is DynamoDB's order: S by UTF-8 bytes, B by bytes, N by value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Protocol

from penstock.wire import numbers
from penstock.wire.limits import SORT_KEY_BYTES
from penstock.wire.values import AttributeValue, binary

HASH_BYTES = 8
LENGTH_BYTES = 2
TIE_BYTES = 4

SHORT_TEXT = SORT_KEY_BYTES // 4
"""A character is at most four bytes: a text of so many needs no measuring."""

# DynamoDB's own hash of a partition key, as far as the order of its scans shows it: MD5 of this word and the key.
_SALT = b"Outliers"


class _Hash(Protocol):
    def digest(self) -> bytes: ...


def _quickest_md5() -> Callable[[bytes], _Hash]:
    """Python's own where there is one: for a key, OpenSSL's takes more than twice as long."""
    try:
        from _md5 import md5  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import md5

        return partial(md5, usedforsecurity=False)
    own: Callable[[bytes], _Hash] = md5
    return own


_md5 = _quickest_md5()


def data_of(value: AttributeValue) -> bytes:
    """A key attribute's value as bytes that keep its order."""
    ((kind, data),) = value.items()
    if kind == "S":
        encoded: bytes = data.encode()
        return encoded
    if kind == "N":
        return numbers.encode(data)
    return binary(data)


def length_of(value: AttributeValue) -> int:
    """Bytes that a key value counts against the limits of keys."""
    ((kind, data),) = value.items()
    if kind == "S":
        return len(data.encode())
    return numbers.size(data) if kind == "N" else len(binary(data))


def partition(value: AttributeValue) -> bytes:
    """What every row key of the partition of this value begins with."""
    ((kind, data),) = value.items()
    if kind == "S":
        return text_partition(data)
    if kind == "N":
        return number_partition(data)
    raw = binary(data)
    return _md5(_SALT + raw).digest()[:HASH_BYTES] + len(raw).to_bytes(LENGTH_BYTES, "big") + raw


@lru_cache(maxsize=1024)
def number_partition(text: str) -> bytes:
    """The same for a number; remembered, because those that are partition keys are often flags or states."""
    raw = numbers.encode(text)
    return _md5(_SALT + numbers.hash_bytes(text)).digest()[:HASH_BYTES] + len(raw).to_bytes(LENGTH_BYTES, "big") + raw


def text_partition(text: str) -> bytes:
    """The same for a text."""
    raw = text.encode()
    digest = _md5(_SALT + raw).digest()
    return digest[:HASH_BYTES] + len(raw).to_bytes(LENGTH_BYTES, "big") + raw


@lru_cache(maxsize=1024)
def partition_of_text(text: str) -> bytes:
    """The same, remembered, because an index has few partitions that are written to at a time."""
    return text_partition(text)


def partition_of_many(values: list[AttributeValue]) -> bytes:
    """The same for an index whose partition key has several attributes."""
    if len(values) == 1:
        return partition(values[0])
    raws = [data_of(value) for value in values]
    framed = b"".join(len(raw).to_bytes(LENGTH_BYTES, "big") + raw for raw in raws)
    return _md5(_SALT + framed).digest()[:HASH_BYTES] + framed


def tie(primary_key: list[AttributeValue]) -> bytes:
    """What orders items of equal index keys: a hash of their primary keys, as DynamoDB's queries show it."""
    hashed = b""
    for value in primary_key:
        if "S" in value:
            hashed += value["S"].encode()
        else:
            hashed += numbers.hash_bytes(value["N"]) if "N" in value else data_of(value)
    return _md5(_SALT + hashed).digest()[:TIE_BYTES]


def escaped(value: AttributeValue) -> bytes:
    """A sort attribute inside an index's key: keeps order although more bytes follow."""
    ((kind, data),) = value.items()
    if kind == "N":
        return numbers.encode(data)
    return escape(data.encode() if kind == "S" else binary(data)) + b"\0\0"


def escape(raw: bytes) -> bytes:
    """Bytes in which no zero stands before anything but 0xFF, so that two zeros can end them."""
    return raw.replace(b"\0", b"\0\xff")


def unescape(raw: bytes) -> bytes:
    """What `escape` was given."""
    return raw.replace(b"\0\xff", b"\0")


def partition_text(row_key: bytes) -> tuple[str, int]:
    """The text of the partition key that a row key begins with, and where it ends."""
    start = HASH_BYTES + LENGTH_BYTES
    end = start + int.from_bytes(row_key[HASH_BYTES:start], "big")
    return row_key[start:end].decode(), end


def after(prefix: bytes) -> bytes | None:
    """The least bytes above everything that begins with `prefix`; None where there are none."""
    stripped = prefix.rstrip(b"\xff")
    if not stripped:
        return None
    return stripped[:-1] + bytes((stripped[-1] + 1,))


def segment_start(segment: int, total: int) -> bytes:
    """The least row key of a parallel Scan's segment."""
    # DynamoDB's own segments begin at multiples of 1/4096 of the hash space, as far as its scans show it.
    grain = max(total, 4096)
    return (-(-grain * segment // total) * ((1 << 64) // grain)).to_bytes(9, "big")[1:]
