"""An HTTP/1.1 request parser with the interface of `httptools.HttpRequestParser`.

httptools (C) is used where it is installed; `PurePythonParser` is for the places where it is not. It does
no I/O: bytes go in through `feed_data`, and what they mean comes out as calls on the protocol object.

    message = request-line *( header-line ) CRLF [ body ]

What it takes, httptools takes too, and both find the same end of it; what is dubious (a lone LF, two lengths, a control
character) it refuses. Two readers that disagree where a request ends are what smuggling needs.
"""

from __future__ import annotations

import re
from typing import Any, Protocol

LINE_BYTES = 16 * 1024  # the longest request line, header line or chunk-size line
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_METHODS = rb"GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH|TRACE"  # CONNECT asks for a tunnel, which there is not
_REQUEST_LINE = re.compile(rb"(" + _METHODS + rb") ((?:/|\*|[A-Za-z]+://)[\x21-\x7e]*) HTTP/(1\.[01])")
_FIRST_BYTE = re.compile(rb"[A-Z\r\n]")
_DIGITS = re.compile(rb"([0-9]{1,18})[ \t]*")
_EXTENSION = rb"(?:;[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:=[!#$%&'*+.^_`|~0-9A-Za-z-]+)?)*"
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})" + _EXTENSION)
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


class ParserError(Exception):
    """The bytes are not HTTP/1.1."""


class NeverRaised(Exception):
    """Where httptools stops for another protocol, ours goes on."""


class Listener(Protocol):
    """Whom a parser tells what it read."""

    def on_message_begin(self) -> None: ...
    def on_url(self, url: bytes) -> None: ...
    def on_header(self, name: bytes, value: bytes) -> None: ...
    def on_headers_complete(self) -> None: ...
    def on_body(self, body: bytes) -> None: ...
    def on_message_complete(self) -> None: ...


class PurePythonParser:
    """One state a method: each takes what it needs of the buffer, or says that it needs more."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._buffer = bytearray()
        self._step = self._request_line
        self._left = 0
        self._forget()

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
        wishes = {wish.strip() for wish in self._connection.split(b",")}
        if self._version == "1.0":
            return b"keep-alive" in wishes and b"close" not in wishes
        return b"close" not in wishes

    def should_upgrade(self) -> bool:
        """Never: HTTP allows a server to go on as if it had not been asked for another protocol."""
        return False

    def _forget(self) -> None:
        self._method = b""
        self._version = "1.1"
        self._connection = b""
        self._length: int | None = None
        self._chunked = False

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

    def _request_line(self) -> bool:
        if self._buffer and _FIRST_BYTE.match(self._buffer) is None:
            raise ParserError("no request begins so")
        if self._buffer.startswith(b"\n"):
            del self._buffer[:1]
            return True
        line = self._line()
        if not line:
            # Empty lines before a request are allowed; None means that it has not arrived whole.
            return line is not None
        match = _REQUEST_LINE.fullmatch(line)
        if match is None:
            raise ParserError("bad request line")
        self._forget()
        self._method, url, version = match.groups()
        self._version = version.decode()
        self._listener.on_message_begin()
        self._listener.on_url(url)
        self._step = self._header_line
        return True

    def _header_line(self) -> bool:
        line = self._line()
        if line is None:
            return False
        if not line:
            self._begin_body()
            self._listener.on_headers_complete()
            return True
        name, value = _field(line)
        self._note(name.lower(), value)
        self._listener.on_header(name, value)
        return True

    def _note(self, name: bytes, value: bytes) -> None:
        """Remembers what frames the message."""
        if name == b"connection":
            self._connection += b"," + value.lower()
        elif name == b"content-length":
            digits = _DIGITS.fullmatch(value)
            if self._length is not None or self._chunked or digits is None:
                raise ParserError("bad content length")
            self._length = int(digits[1])
        elif name == b"transfer-encoding":
            # Both lengths in one request is how requests are smuggled past proxies.
            if self._length is not None or self._chunked or value.lower() != b"chunked":
                raise ParserError("bad transfer encoding")
            self._chunked = True

    def _begin_body(self) -> None:
        self._left = self._length or 0
        self._step = self._chunk_line if self._chunked else self._counted_body

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
        elif line is not None and _field(line)[0].lower() in _FRAMING:
            raise ParserError("a trailer that frames")
        return line is not None

    def _end(self) -> None:
        self._step = self._request_line
        self._listener.on_message_complete()


def _field(line: bytes) -> tuple[bytes, bytes]:
    """Name and value of a header line; what stands behind the value is left, as httptools leaves it."""
    name, colon, value = line.partition(b":")
    value = value.lstrip(b" \t")
    if not colon or _TOKEN.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
        raise ParserError("bad header line")
    return name, value


def load() -> tuple[Any, type[Exception], type[Exception]]:
    """(parser class, its error, its "here another protocol begins"), the fastest that is installed."""
    try:
        import httptools
    except ImportError:
        return PurePythonParser, ParserError, NeverRaised
    return httptools.HttpRequestParser, httptools.HttpParserError, httptools.HttpParserUpgrade
