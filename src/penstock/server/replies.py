"""Answers as bytes: status line, headers, checksum, body.

Everything that stays the same for a second (date, half of the request id, the fixed headers) is made once
a second, so that the usual answer costs one formatting of bytes.

Bodies may be compressed by gzip or deflate, as DynamoDB accepts and sends them:

1. A request body may be gzip (several members in a row are one body) or deflate (in zlib's frame). A broken one
   is DynamoDB's InternalServerError; one that unpacks to more than the request limit is too large.
2. An answer of `COMPRESS_FROM_BYTES` or more is compressed when the client asks for it. The checksum
   of an answer is that of the bytes sent, so of the compressed ones.
"""

from __future__ import annotations

import os
import re
import time
import zlib
from base64 import b32encode
from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

import orjson

from penstock.errors import DynamoDBError, InternalServerError
from penstock.wire.limits import REQUEST_BYTES

JSON_10 = b"application/x-amz-json-1.0"
JSON = b"application/json"
TEXT = b"text/plain"

_REASONS = {
    200: b"OK",
    400: b"Bad Request",
    403: b"Forbidden",
    404: b"Not Found",
    408: b"Request Timeout",
    413: b"Request Entity Too Large",
    431: b"Request Header Fields Too Large",
    500: b"Internal Server Error",
    503: b"Service Unavailable",
}
_DAYS = (b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun")
_MONTHS = b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_CORS = (
    b"Access-Control-Allow-Origin: *\r\n"
    b"Access-Control-Expose-Headers: "
    b"x-amzn-RequestId,x-amzn-ErrorType,x-amzn-ErrorMessage,Date,x-amz-crc32\r\n"
)

_TOO_LARGE_BODY = (
    b'{"__type":"com.amazon.coral.service#RequestEntityTooLargeException",'
    b'"message":"Request size exceeds the limit of 16777216 bytes"}'
)


@dataclass(frozen=True, slots=True)
class Style:
    """How one answer differs from the usual one; `PLAIN` is the usual one."""

    content_type: bytes = JSON_10
    encoding: bytes = b""
    cors: bool = False
    close: bool = False
    keep_alive: bool = False  # said aloud, as HTTP/1.0 needs it
    bodiless: bool = False  # the answer to a HEAD
    silent: bool = False  # a success has no body at all


PLAIN = Style()


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that needs no engine. `content_type` overrides the style's."""

    status: int
    body: bytes
    content_type: bytes | None = None
    headers: bytes = b""
    chunked: bool = False


TOO_LARGE = Reply(413, _TOO_LARGE_BODY, chunked=True)
"""AWS sends this one chunked."""


def error_body(error: DynamoDBError) -> bytes:
    return orjson.dumps(error.body())


FAULT = Reply(500, error_body(InternalServerError("Internal server error")))


class Replies:
    """Makes answers; `refresh` once a second keeps its date right."""

    def __init__(self) -> None:
        self._count = 0
        self.refresh(time.time())

    def refresh(self, now: float) -> None:
        prefix = b32encode(os.urandom(25))  # 40 characters; a count makes it 52
        self._fixed = b"Server: Penstock\r\nDate: " + http_date(now) + b"\r\nx-amzn-RequestId: " + prefix
        self._plain = (
            b"HTTP/1.1 200 OK\r\nContent-Type: " + JSON_10 + b"\r\n" + self._fixed
        ) + b"%012d\r\nx-amz-crc32: %d\r\nContent-Length: %d\r\n\r\n%b"

    def answer(self, style: Style, answer: bytes | DynamoDBError) -> bytes:
        """What the engine gave, as the client asked for it."""
        if type(answer) is bytes:
            if style is PLAIN:
                self._count += 1
                return self._plain % (self._count, crc32(answer), len(answer), answer)
            return self.build(style, Reply(200, b"" if style.silent else answer))
        assert isinstance(answer, DynamoDBError)
        return self.build(style, Reply(answer.status, error_body(answer)))

    def packed_answer(self, style: Style, packed: bytes) -> bytes:
        """An answer that is compressed already."""
        return self.build(style, Reply(200, packed), is_packed=True)

    def build(self, style: Style, reply: Reply, *, is_packed: bool = False) -> bytes:
        body, extra = reply.body, reply.headers
        if is_packed or (style.encoding and len(body) >= COMPRESS_FROM_BYTES):
            body = body if is_packed else pack(style.encoding, body)
            extra += b"Content-Encoding: " + style.encoding + b"\r\n"
        if style.cors:
            extra += _CORS
        if style.close:
            extra += b"Connection: close\r\n"
        elif style.keep_alive:
            extra += b"Connection: keep-alive\r\n"
        return self._join(reply, style, body, extra)

    def _join(self, reply: Reply, style: Style, body: bytes, extra: bytes) -> bytes:
        self._count += 1
        content_type = style.content_type if reply.content_type is None else reply.content_type
        if content_type:
            extra = b"Content-Type: " + content_type + b"\r\n" + extra
        if reply.chunked:
            length = b"Transfer-Encoding: chunked"
            framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
        else:
            length, framed = b"Content-Length: %d" % len(body), body
        return b"HTTP/1.1 %d %b\r\n%b%b%012d\r\nx-amz-crc32: %d\r\n%b\r\n\r\n%b" % (
            reply.status,
            _REASONS[reply.status],
            extra,
            self._fixed,
            self._count,
            crc32(body),
            length,
            b"" if style.bodiless else framed,
        )


def http_date(now: float) -> bytes:
    """`now` as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`."""
    year, month, day, hour, minute, second, weekday, _, _ = time.gmtime(now)
    return b"%b, %02d %b %04d %02d:%02d:%02d GMT" % (
        _DAYS[weekday],
        day,
        _MONTHS[month - 1],
        year,
        hour,
        minute,
        second,
    )


# ── compressed bodies ──────────────────────────────────────────────────────────────────────────────


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
