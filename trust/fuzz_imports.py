"""What `trust.fuzz` does with objects that ImportTable reads, and with Ion.

What is read must not depend on how the bytes arrive: each object is read whole, and again in small pieces. What is an
item can be stored, and what Ion means is the same when it is written and read again.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import orjson

from penstock.engine.transfers.object_records import Bad, Found, Garbage, blocks, reader_of
from penstock.errors import DynamoDBError
from penstock.wire import ion
from penstock.wire.values import check_item
from trust.fuzz_seeds import ITEMS

_DELIMITERS = b",;\t| "
_KEY_TYPES = {"id": "S", "n": "N", "b": "B"}
_HEADER = ["id", "n", "b", "rest"]
_LEAST_PIECE, _MOST_PIECES = 3, 2_000

LINES = b"".join(orjson.dumps({"Item": item}) + b"\n" for item in ITEMS)
VALUES = (
    "".join(ion.line({"Item": ion.item_text(item)}) + "\n" for item in ITEMS).encode(),
    b"$ion_1_0 {Item:{a:\"x\",'b c':12.50,n:6d2,s:$dynamodb_SS::[\"x\",'''y''' '''z'''],"
    b"r:{{AAE=}},e:null.list}} // end\n",
    b'/* one */ {Item:{u:"\\u00e9\\ud83d\\ude00\\x41\\n",i:0xFF_FF,t:true,l:[1,{m:-0.5e-3,},],},}\n{"Item":{a:nan}}',
)
ROWS = (
    b'0id,n,b\r\na,1,AQID\r\n"a ""b""\nc",-2e3,\r\n',
    b"1id;n;rest\nx;1.50;y\n\n;;\n",
    b"8a|1|AQID|rest\nb|2\n",  # without a header of its own
)
ZIPPED = (gzip.compress(LINES, mtime=0), gzip.compress(LINES, 0, mtime=0) + gzip.compress(b"", mtime=0))
HAS_ZSTD = find_spec("zstandard") is not None


def packed() -> tuple[bytes, ...]:
    """Frames of ZSTD."""
    import zstandard

    compressor = zstandard.ZstdCompressor()
    return compressor.compress(LINES), compressor.compress(LINES[:40]) + compressor.compress(LINES[40:])


class _Body(io.BytesIO):
    """An object whose bytes come in pieces of this size."""

    def __init__(self, data: bytes, piece: int) -> None:
        super().__init__(data)
        self._piece = piece

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self._piece if size is None or size < 0 else min(size, self._piece))


def read_lines(data: bytes) -> None:
    """DynamoDB JSON."""
    _read(data, "DYNAMODB_JSON")


def read_values(data: bytes) -> None:
    """Ion."""
    for item in _read(data, "ION"):
        if ion.item_of(ion.read_values(ion.item_text(item))[0]) != item:
            raise AssertionError("what was written is read as another item")


def read_rows(data: bytes) -> None:
    """CSV; the first byte chooses the delimiter, and whether the request has the header."""
    has_header, delimiter = divmod((data or b"0")[0] - ord("0"), len(_DELIMITERS))
    options: dict[str, Any] = {"Delimiter": chr(_DELIMITERS[delimiter])}
    if has_header:
        options["HeaderList"] = _HEADER
    _read(data[1:], "CSV", {"Csv": options})


def read_zipped(data: bytes) -> None:
    """DynamoDB JSON in GZIP."""
    _read(data, "DYNAMODB_JSON", compression="GZIP")


def read_zstd(data: bytes) -> None:
    """DynamoDB JSON in ZSTD."""
    _read(data, "DYNAMODB_JSON", compression="ZSTD")


def _read(
    data: bytes, format: str, options: dict[str, Any] | None = None, compression: str = "NONE"
) -> list[dict[str, Any]]:
    """The items of an object. Raises Garbage for one that cannot be read, however it arrives."""
    read = reader_of(format, options or {}, _KEY_TYPES)
    small = max(_LEAST_PIECE, len(data) // _MOST_PIECES)
    whole, refusal = _found(lambda: read(blocks(_Body(data, len(data) + 1), compression)))
    pieces, other_refusal = _found(lambda: read(blocks(_Body(data, small), compression)))
    if (refusal is None) != (other_refusal is None):
        raise AssertionError(f"whole: {refusal or 'read'}; in pieces of {small} bytes: {other_refusal or 'read'}")
    if refusal is None and [one.item for one in whole] != [one.item for one in pieces]:
        raise AssertionError(f"in pieces of {small} bytes, other records are read")
    items = [_stored(one.item) for one in whole if not isinstance(one.item, Bad)]
    if refusal is not None:
        raise refusal
    return [item for item in items if item is not None]


def _found(read: Callable[[], Iterator[Found]]) -> tuple[list[Found], Garbage | None]:
    found: list[Found] = []
    try:
        found.extend(read())
    except Garbage as error:
        return found, error
    return found, None


def _stored(found: Any) -> dict[str, Any] | None:
    """The item as a row has it, None for one that is refused."""
    try:
        item, _ = check_item(found)
    except DynamoDBError:
        return None
    orjson.dumps(item)
    return item
