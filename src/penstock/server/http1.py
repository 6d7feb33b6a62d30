"""The HTTP/1.1 request parser: httptools (C) where it is installed, `H11Parser` where it is not.

Both have the interface of `httptools.HttpRequestParser` and do no I/O: bytes go in through `feed_data`, and what they
mean comes out as calls on the protocol object.

What `H11Parser` takes, httptools takes too, and both find the same end of it: two readers that disagree where a request
ends are what smuggling needs. h11 reads the head, and refuses most of what is dubious; what it forgives and httptools
does not (a lone LF, a folded header, two lengths) is refused here. The body's framing is read here too: h11 forgives
spaces behind the size of a chunk, and lone LFs among the trailers, where nobody could look before it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import h11


HEAD_BYTES = 64 * 1024  # of a head that has no end; `request_reader.py` refuses a long one before
LINE_BYTES = 16 * 1024  # the longest line of a chunk's size, and the longest trailer
_BEGINNING = re.compile(rb"[A-Z]")
# A lone LF or CR, a folded header, a control character.
_DUBIOUS = re.compile(rb"(?<!\r)\n|\r(?=[^\n])|\n[ \t]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_METHODS = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE"})
"""Not CONNECT, which asks for a tunnel."""
_TARGET = re.compile(rb"/|\*|[A-Za-z]+://")
_EXTENSION = rb"(?:;[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:=[!#$%&'*+.^_`|~0-9A-Za-z-]+)?)*"
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})" + _EXTENSION)
_TRAILER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t\x20-\x7e\x80-\xff]*")
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


class ParserError(Exception):
    """The bytes are not HTTP/1.1."""


class NeverRaised(Exception):
    """Where httptools stops for another protocol, `H11Parser` goes on."""


class Listener(Protocol):
    """Whom a parser tells what it read."""

    def on_message_begin(self) -> None: ...
    def on_url(self, url: bytes) -> None: ...
    def on_header(self, name: bytes, value: bytes) -> None: ...
    def on_headers_complete(self) -> None: ...
    def on_body(self, body: bytes) -> None: ...
    def on_message_complete(self) -> None: ...


class H11Parser:
    """One state a method: each takes what it needs of the buffer, or says that it needs more."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._buffer = bytearray()
        self._searched = 0  # bytes of the buffer in which there is no end of a head
        self._step = self._between_requests
        self._left = 0
        self._method = b""
        self._version = "1.1"
        self._keeps_alive = True

    def feed_data(self, data: bytes) -> None:
        """Raises ParserError at the first byte that cannot be part of a request."""
        self._buffer += data
        while self._step():
            pass

    def get_method(self) -> bytes:
        return self._method

    def get_http_version(self) -> str:
        return self._version

    def should_keep_alive(self) -> bool:
        return self._keeps_alive

    def should_upgrade(self) -> bool:
        """Never: HTTP allows a server to go on as if it had not been asked for another protocol."""
        return False

    # ── the head ──

    def _between_requests(self) -> bool:
        while self._buffer.startswith((b"\r\n", b"\n")):  # empty lines before a request are allowed
            del self._buffer[: self._buffer.index(b"\n") + 1]
        if self._buffer == b"\r":
            return False
        if not self._buffer:
            return False
        if _BEGINNING.match(self._buffer) is None:
            raise ParserError("no request begins so")
        self._searched = 0
        self._listener.on_message_begin()
        self._step = self._head
        return True

    def _head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n", self._searched) + 4
        arrived = end if end > 3 else len(self._buffer)
        if _DUBIOUS.search(self._buffer, self._searched, arrived) is not None or arrived > HEAD_BYTES:
            raise ParserError("a head that others may read otherwise")
        if end <= 3:
            self._searched = max(0, arrived - 3)
            return False
        request = _parse_head(bytes(self._buffer[:end]))
        del self._buffer[:end]
        self._method, self._version = request.method, request.http_version.decode()
        self._listener.on_url(request.target)
        self._begin_body(request.headers.raw_items())
        self._listener.on_headers_complete()
        return True

    def _begin_body(self, headers: list[tuple[bytes, bytes]]) -> None:
        framing: list[bytes] = []
        wishes: set[bytes] = set()
        self._left, self._step = 0, self._counted_body
        for name, value in headers:
            lower = name.lower()
            if lower in _FRAMING:
                framing.append(lower)
            if lower == b"content-length":
                self._left = int(value)
            elif lower == b"transfer-encoding":
                self._step = self._chunk_line
            elif lower == b"connection":
                wishes.update(wish.strip() for wish in value.lower().split(b","))
            self._listener.on_header(name, value)
        if len(framing) > 1:  # how requests are smuggled past proxies
            raise ParserError("two lengths")
        self._keeps_alive = b"close" not in wishes and (self._version == "1.1" or b"keep-alive" in wishes)

    # ── the body ──

    def _counted_body(self) -> bool:
        if not self._take():
            return False
        self._end()
        return True

    def _take(self) -> bool:
        """Hands on what has arrived of the `_left` bytes; says whether that was all of them."""
        if self._left and self._buffer:
            part = bytes(self._buffer[: self._left])
            del self._buffer[: self._left]
            self._left -= len(part)
            self._listener.on_body(part)
        return not self._left

    def _line(self) -> bytes | None:
        """The next line without its end, or None when it has not arrived whole."""
        end = self._buffer.find(b"\n", 0, LINE_BYTES)
        if end < 0:
            if len(self._buffer) >= LINE_BYTES:
                raise ParserError("line too long")
            return None
        line = bytes(self._buffer[:end])
        if not line.endswith(b"\r"):
            raise ParserError("a line ends with CR and LF")
        del self._buffer[: end + 1]
        return line[:-1]

    def _chunk_line(self) -> bool:
        line = self._line()
        if line is None:
            return False
        match = _CHUNK_SIZE.fullmatch(line)
        if match is None:
            raise ParserError("bad chunk size")
        self._left = int(match.group(1), 16)
        self._step = self._chunk if self._left else self._trailer_line
        return True

    def _chunk(self) -> bool:
        if not self._take():
            return False
        self._step = self._chunk_end
        return True

    def _chunk_end(self) -> bool:
        line = self._line()
        if line:
            raise ParserError("chunk longer than its size")
        if line is not None:
            self._step = self._chunk_line
        return line is not None

    def _trailer_line(self) -> bool:
        """Checked as a header is, and told to nobody: what comes after the body says nothing about the request."""
        line = self._line()
        if line == b"":
            self._end()
        elif line is not None:
            match = _TRAILER.fullmatch(line)
            if match is None or match[1].lower() in _FRAMING:
                raise ParserError("bad trailer")
        return line is not None

    def _end(self) -> None:
        self._step = self._between_requests
        self._listener.on_message_complete()


def _parse_head(head: bytes) -> h11.Request:
    import h11  # which takes a twelfth of the server's start, and is seldom needed

    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
    connection.receive_data(head)
    request: object = None
    with suppress(h11.RemoteProtocolError):
        request = connection.next_event()
    if not isinstance(request, h11.Request):
        raise ParserError("no request")  # without a cause, which would be taken for a fault of ours
    if request.http_version not in (b"1.0", b"1.1") or request.method not in _METHODS:
        raise ParserError("a method or version that is none of ours")
    if _TARGET.match(request.target) is None:
        raise ParserError("bad target")
    lengths = [line for line in head.split(b"\r\n") if line[:15].lower() == b"content-length:"]
    if len(lengths) > 1 or any(b"," in line for line in lengths):
        raise ParserError("two lengths, which h11 takes where they are the same")
    return request


def load() -> tuple[Any, type[Exception], type[Exception]]:
    """(parser class, its error, its "here another protocol begins"), the fastest that is installed."""
    try:
        import httptools
    except ImportError:
        return H11Parser, ParserError, NeverRaised
    return httptools.HttpRequestParser, httptools.HttpParserError, httptools.HttpParserUpgrade
