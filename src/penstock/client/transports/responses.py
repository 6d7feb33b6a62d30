"""HTTP responses: bytes in, a Response out. No I/O, so that threads and asyncio share it.

`FastReader` is httptools' parser (C); `PlainReader` is http.client's, for where httptools is not installed.

1. A reader raises `Malformed` for bytes that are no response, and never waits: more bytes, or the end, are given to it.
2. Headers and bodies have limits; nothing a server sends makes a reader keep more.
"""

from __future__ import annotations

import http.client
import io
import re
from collections.abc import Callable
from typing import NamedTuple, Protocol

HEAD_BYTES = 64 * 1024
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*\r\n", re.IGNORECASE)
_CHUNK_LINE_BYTES = 1024
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?![0-9A-Fa-f])")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r\n", re.IGNORECASE)


class Malformed(Exception):
    """The bytes are not an HTTP/1.1 response, or too many."""


class Response(NamedTuple):
    """`headers` by their names in lower case; of a name that stands twice, the last."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    keep_alive: bool


class Reader(Protocol):
    def feed(self, data: bytes | memoryview) -> Response | None:
        """The response once it is whole. After it, the reader is ready for the next."""
        ...

    def end(self) -> Response | None:
        """What the end of the connection means: the end of a body without a length, or None for half a response."""
        ...

    @property
    def begun(self) -> bool:
        """Whether any byte of a response has come."""
        ...


class FastReader:
    """Listens to one httptools parser for the life of a connection."""

    def __init__(self, limit_bytes: int) -> None:
        import httptools

        self._parser = httptools.HttpResponseParser(self)
        self._errors = (httptools.HttpParserError, httptools.HttpParserUpgrade)
        self._limit = limit_bytes
        self._clear()

    def _clear(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._size = 0
        self._in_body = False
        self._begun = False
        self._response: Response | None = None

    @property
    def begun(self) -> bool:
        return self._begun

    def feed(self, data: bytes | memoryview) -> Response | None:
        self._begun = True
        self._size += len(data)
        if self._size > (self._limit if self._in_body else HEAD_BYTES + self._limit):
            raise Malformed("it is longer than any answer of DynamoDB's")
        try:
            self._parser.feed_data(data)
        except self._errors as error:
            if self._response is None:
                raise Malformed(str(error) or "no HTTP response") from None
            self._response = self._response._replace(keep_alive=False)
        response = self._response
        if response is None:
            if not self._in_body and self._size > HEAD_BYTES:
                raise Malformed("its headers are too long")
            return None
        self._clear()
        return response

    def end(self) -> Response | None:
        unbounded = b"content-length" not in self._headers and b"transfer-encoding" not in self._headers
        if self._in_body and unbounded and self._response is None:
            return self._whole(keep_alive=False)
        return None

    def _whole(self, keep_alive: bool) -> Response:
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        return Response(self._parser.get_status_code(), self._headers, body, keep_alive)

    # ── what the parser calls ──

    def on_message_begin(self) -> None:
        if self._response is not None:  # more than was asked for: this connection is out of step
            self._response = self._response._replace(keep_alive=False)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._response is None:
            self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self._in_body = True

    def on_body(self, body: bytes) -> None:
        if self._response is None:
            self._body.append(body)

    def on_message_complete(self) -> None:
        if self._response is not None:
            return
        if self._parser.get_status_code() < 200:  # "100 Continue" and its like come before the answer
            self._headers = {}
            self._in_body = False
        else:
            self._response = self._whole(self._parser.should_keep_alive())


class PlainReader:
    """Keeps the bytes until they are a whole response, and lets http.client read that."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._buffer = bytearray()
        self._body_at = 0
        self._needed: int | None = None
        self._chunked = False
        self._chunk_at = 0

    @property
    def begun(self) -> bool:
        return bool(self._buffer)

    def feed(self, data: bytes | memoryview) -> Response | None:
        self._buffer += data
        if len(self._buffer) > self._limit + HEAD_BYTES:
            raise Malformed("it is longer than any answer of DynamoDB's")
        if not self._body_at and not self._head():
            return None
        if self._chunked:
            return self._parsed() if self._has_last_chunk() else None
        if self._needed is not None and len(self._buffer) >= self._needed:
            return self._parsed()
        return None

    def end(self) -> Response | None:
        if self._body_at and not self._chunked and self._needed is None:
            return self._parsed(keep_alive=False)
        return None

    def _head(self) -> bool:
        """Whether the headers are whole; notes what they say about the body."""
        while True:
            if not b"HTTP/1."[: len(self._buffer)] == self._buffer[:7]:
                raise Malformed("no HTTP response")
            end = self._buffer.find(b"\r\n\r\n", 0, HEAD_BYTES)
            if end < 0:
                if len(self._buffer) >= HEAD_BYTES:
                    raise Malformed("its headers are too long")
                return False
            if self._buffer[8:10] != b" 1":
                break
            del self._buffer[: end + 4]  # "100 Continue" and its like come before the answer
            if not self._buffer:
                return False
        head = bytes(self._buffer[: end + 4])
        self._body_at = end + 4
        self._chunked = bool(_CHUNKED.search(head))
        self._chunk_at = self._body_at
        length = _LENGTH.search(head)
        bodiless = bytes(self._buffer[9:12]) in (b"204", b"304")
        if length or bodiless:
            self._needed = self._body_at + (int(length.group(1)) if length and not bodiless else 0)
        return True

    def _has_last_chunk(self) -> bool:
        """Whether all chunks are there; goes on at the one where it stopped, so that each is looked at once."""
        while self._chunk_at < len(self._buffer):
            line_end = self._buffer.find(b"\r\n", self._chunk_at, self._chunk_at + _CHUNK_LINE_BYTES)
            if line_end < 0:
                if len(self._buffer) - self._chunk_at >= _CHUNK_LINE_BYTES:
                    raise Malformed("the line of a chunk is too long")
                return False
            size = _CHUNK_SIZE.match(self._buffer, self._chunk_at, line_end)
            if size is None:
                raise Malformed("a chunk without a size")
            length = int(size[1], 16)
            if length == 0:
                return self._buffer.find(b"\r\n\r\n", line_end, line_end + HEAD_BYTES) >= 0
            self._chunk_at = line_end + length + len(b"\r\n\r\n")
        return False

    def _parsed(self, keep_alive: bool = True) -> Response | None:
        whole = _Bytes(bytes(self._buffer))
        response = http.client.HTTPResponse(whole, method="POST")  # type: ignore[arg-type]
        try:
            response.begin()
            body = response.read()
        except http.client.IncompleteRead:
            return None
        except (http.client.HTTPException, ValueError, OSError) as error:
            raise Malformed(f"{type(error).__name__}: {error}"[:200]) from None
        headers = {name.lower().encode("latin-1"): text.encode("latin-1") for name, text in response.getheaders()}
        used = self._needed or len(self._buffer)
        keep = keep_alive and not response.will_close and used == len(self._buffer)
        self.__init__(self._limit)  # type: ignore[misc]
        return Response(response.status, headers, body, keep)


class _Bytes:
    """A socket, as far as http.client reads one."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def new_reader(limit_bytes: int) -> Reader:
    """The fastest that is installed."""
    return _KIND(limit_bytes)


def _kind() -> Callable[[int], Reader]:
    try:
        import httptools  # noqa: F401
    except ImportError:
        return PlainReader
    return FastReader


_KIND = _kind()
