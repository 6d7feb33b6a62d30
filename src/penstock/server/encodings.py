"""Content codings: gzip and deflate, as DynamoDB accepts and sends them.

1. A request body may be gzip (several members in a row are one body) or deflate (in zlib's frame). A broken one
   is DynamoDB's InternalServerError; one that unpacks to more than the request limit is too large.
2. An answer of `COMPRESS_FROM_BYTES` or more is compressed when the client asks for it. The checksum
   of an answer is that of the bytes sent, so of the compressed ones.
"""

from __future__ import annotations

import re
import zlib
from functools import lru_cache

from penstock.errors import InternalServerError
from penstock.wire.limits import REQUEST_BYTES

COMPRESS_FROM_BYTES = 4096  # AWS leaves smaller answers as they are
_COMPRESSION_LEVEL = 1  # an answer is sent once: time counts for more than the last few percent
_MEMBERS = 64  # each costs a copy of all that follow it; clients send one
_GZIP = zlib.MAX_WBITS | 16
_WINDOW_BITS = {b"gzip": _GZIP, b"deflate": zlib.MAX_WBITS}

_QUALITY = re.compile(r"-?\d+(\.\d*)?\Z")


class BodyTooLarge(Exception):
    """The request body is, or unpacks to, more than DynamoDB takes."""


def unpack(encoding: bytes, body: bytes, most_bytes: int = REQUEST_BYTES) -> bytes:
    """The request body behind its Content-Encoding; raises BodyTooLarge or InternalServerError."""
    name = encoding.strip().lower()
    if name in (b"", b"identity"):
        return body
    if name not in _WINDOW_BITS:
        raise InternalServerError("Internal server error")
    return _inflate(body, _WINDOW_BITS[name], most_bytes)


def _inflate(body: bytes, window_bits: int, most_bytes: int) -> bytes:
    parts: list[bytes] = []
    room = most_bytes + 1
    for _ in range(_MEMBERS):
        member = zlib.decompressobj(window_bits)
        try:
            part = member.decompress(body, room)
        except zlib.error:
            raise InternalServerError("Internal server error") from None
        room -= len(part)
        if room <= 0:
            raise BodyTooLarge
        if not member.eof:
            raise InternalServerError("Internal server error")
        parts.append(part)
        body = member.unused_data
        if not body:
            return b"".join(parts)
        if window_bits != _GZIP:
            break
    raise InternalServerError("Internal server error")


def pack(encoding: bytes, body: bytes) -> bytes:
    """`body` in the coding that `chosen_encoding` named."""
    packer = zlib.compressobj(_COMPRESSION_LEVEL, zlib.DEFLATED, _WINDOW_BITS[encoding])
    return packer.compress(body) + packer.flush()


@lru_cache(maxsize=256)
def chosen_encoding(accept: bytes) -> bytes:
    """b"gzip", b"deflate" or b"" for an Accept-Encoding header.

    The highest quality wins, then the one that is named (a star names nobody), then the order. As at
    AWS, `identity` never wins over a coding, and a quality that is no number counts as 1.
    """
    named: dict[str, float] = {}
    star: float | None = None
    for entry in accept.decode("latin-1").lower().split(","):
        name, _, parameters = entry.partition(";")
        name = name.strip()
        quality = _quality(parameters)
        if name == "*":
            star = quality
        elif name in ("gzip", "deflate"):
            named[name] = max(quality, named.get(name, 0.0))
    candidates = [(quality, name) for name, quality in named.items()]
    if star is not None:
        candidates += [(star, name) for name in ("gzip", "deflate") if name not in named]
    # max() keeps the first of equals: named ones stand before those that only the star allows.
    quality, name = max(candidates, key=lambda candidate: candidate[0], default=(0.0, ""))
    return name.encode() if quality > 0 else b""


def _quality(parameters: str) -> float:
    """What follows the first `q=`, wherever it stands: AWS does not ask which parameter it belongs to."""
    text = parameters.partition("q=")[2].partition(";")[0].strip()
    return min(float(text), 1.0) if _QUALITY.match(text) else 1.0
