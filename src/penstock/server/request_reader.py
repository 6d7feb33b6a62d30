"""Bytes of one connection put together to requests.

`RequestReader` feeds the parser, gathers head and body within their limits, and hands each whole request to its
handler, the connection. A request with a head that has come before takes a fast path (`known_heads.py`).
"""

from __future__ import annotations

import logging
from typing import Any, Protocol

from penstock.server import http1, known_heads
from penstock.server.known_heads import KnownHead, Meaning
from penstock.server.replies import FAULT, TEXT, TOO_LARGE, Reply
from penstock.wire.limits import REQUEST_BYTES

HEAD_BYTES = 16 * 1024  # of the request line and the headers together, as at AWS
HEADERS = 256
PIECE_BYTES = 16 * 1024  # parsed at once: as many small requests as a connection may have in the engine
REPEATED_BYTES = 8 * 1024  # of one header that comes several times
FIRST_ACCEPT_ENCODING = b":accept-encoding"
"""Where the first of several Accept-Encoding headers is kept: AWS heeds only that one. No client can send this name."""
SECOND_HOST = b":host"
"""Where a second Host is kept, for which a request is refused: two readers may each heed another one."""

_BAD_REQUEST = Reply(400, b"Bad Request\n", content_type=TEXT)
_TOO_MANY_HEADERS = Reply(431, b"Request Header Fields Too Large\n", content_type=TEXT)
NO_ROOM = Reply(503, b'{"__type":"com.amazon.coral.service#ServiceUnavailable"}')

BETWEEN, IN_HEAD, IN_BODY = range(3)
_NOTHING = -1  # in place of a count of bytes: what has just arrived does not count
_JUST_BEGUN = -1  # in place of the bytes of a head that has arrived in one piece so far

_log = logging.getLogger(__name__)

_Parser, _ParserError, _ParserUpgrade = http1.load()


class RequestHandler(Protocol):
    """What a reader tells its connection."""

    def received(self, body: bytes) -> None:
        """A whole request has arrived: the reader's `headers` and `url`, the parser's method, and this body."""

    def understood(self, meaning: Meaning, body: bytes) -> bool:
        """A whole request with a known head has arrived; False leaves it to the parser."""

    def refuse(self, reply: Reply) -> None:
        """Answers, reads no more requests, and closes."""

    def send_continue(self) -> None:
        """The client waits to be told that it may send its body."""

    def discard(self, count: int) -> None:
        """So many bytes came after the last request that is read."""

    def hold(self, count: int) -> bool:
        """So many bytes more, or fewer, are held of a body that arrives in parts: is there room for them?"""

    def must_wait(self) -> bool:
        """Whether a request that has arrived must wait for others; then nothing more is read."""

    def touch(self) -> None:
        """Part of a request has arrived."""


class RequestReader:
    """Puts the bytes of one connection together to requests, and hands these to its handler."""

    __slots__ = (
        "_begun",
        "_beside_body",
        "_body",
        "_body_parts",
        "_feed",
        "_handler",
        "_head",
        "_head_bytes",
        "_is_used_again",
        "_large",
        "_misses",
        "_upgrading",
        "headers",
        "heads",
        "is_discarding",
        "meaning",
        "parser",
        "stage",
        "unparsed",
        "url",
    )

    def __init__(self, handler: RequestHandler) -> None:
        self._handler = handler
        self.parser: Any = _Parser(self)
        self._feed = self.parser.feed_data
        self.headers: dict[bytes, bytes] = {}
        self.url = b""
        self._body = b""
        self._body_parts: bytearray | None = None
        self._head_bytes = 0
        self._beside_body = (
            _NOTHING  # bytes since the last of a body that were none of it: trailers, extensions of chunks
        )
        self.stage = BETWEEN
        self.heads: list[KnownHead] = []
        self._begun: tuple[KnownHead, bytes] | None = None  # a known head, and its bytes, whose body is to come
        self.unparsed = b""  # what came behind requests that must wait
        self._head = b""  # all of the head that the parser has just read, where it came apart from its body
        self._is_used_again = False
        self.meaning: Meaning | None = None  # of the request just parsed, if its head is worth knowing
        self._misses = 0  # requests in a row that had no known head
        self._large = False  # what has just arrived may hold a head that is too large
        self.is_discarding = False  # what still arrives is thrown away
        self._upgrading = False  # asked for another protocol: see `_without_upgrade`

    def data_received(self, data: bytes) -> None:
        if self.is_discarding:
            self._handler.discard(len(data))
            return
        if not self.stage:
            for head in self.heads:
                if head.fits(data):
                    if len(data) == head.size:
                        self._begin(head, data)
                    elif self._handler.understood(head.meaning, data[head.size :]):
                        self._misses = 0
                    else:
                        break
                    return
        elif self._begun is not None:
            data = self._whole(self._begun, data)
            if not data:
                return
        if len(data) > PIECE_BYTES:
            self._parse_pieces(data)
        else:
            self._parse(data)

    def _parse_pieces(self, data: bytes) -> None:
        """Many requests may have come at once. As soon as one must wait, what follows it waits too, unparsed."""
        at = 0
        while at < len(data):
            if self.is_discarding:
                self._handler.discard(len(data) - at)
                return
            if self._handler.must_wait():
                self.unparsed = data[at:]
                return
            size = PIECE_BYTES if self.stage != IN_BODY else max(PIECE_BYTES, self._body_left())
            self._parse(data[at : at + size])
            at += size

    def _body_left(self) -> int:
        """How much of a body is still to come, where its head says it."""
        arrived = len(self._body if self._body_parts is None else self._body_parts)
        return int(self.headers.get(b"content-length", b"0")) - arrived

    def parse_rest(self) -> None:
        """Goes on with what had to wait."""
        rest, self.unparsed = self.unparsed, b""
        self._parse_pieces(rest)

    def _begin(self, head: KnownHead, data: bytes) -> None:
        """A known head has come alone, as some clients send it: its body is what comes next."""
        self._begun = head, data
        self.stage = IN_BODY
        self._handler.touch()

    def _whole(self, begun: tuple[KnownHead, bytes], body: bytes) -> bytes:
        """Ends what `_begin` began; returns what there is for the parser to read."""
        self._begun = None
        self.stage = BETWEEN
        head, data = begun
        if data[head.length] == b"%d" % len(body) and self.heads and self._handler.understood(head.meaning, body):
            self._misses = 0
            return b""
        return data + body

    def _parse(self, data: bytes) -> None:
        self.meaning = None
        self._large = len(data) > HEAD_BYTES
        try:
            self._feed(data)
        except _ParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
            if not self._upgrading:  # CONNECT: what follows would be for somebody else
                self._handler.refuse(_BAD_REQUEST)
                return
        except _ParserError as error:
            self._not_understood(error)
            return
        else:
            rest = b""
        if self._upgrading:
            self._parse(self._without_upgrade() + rest)
            return
        if self.stage:
            self._note_partial(len(data))
            if self.stage == IN_BODY and not self._body:
                self._head = data
            return
        data, self._head = self._head or data, b""
        if self.meaning is not None and self._misses <= known_heads.MISSES and data.startswith(known_heads.FIRST_LINE):
            self._learn(data, self.meaning)

    def _learn(self, data: bytes, meaning: Meaning) -> None:
        """Most connections are used again and again; one that sends a single request pays for no lesson."""
        self._misses += 1
        if self._misses > known_heads.MISSES:
            self.heads = []
        elif self._is_used_again and (head := known_heads.learn(data, self.headers, meaning)) is not None:
            self.heads = [head, *self.heads[: known_heads.KNOWN_HEADS - 1]]
        self._is_used_again = True

    # ── the parser's calls ──

    def on_message_begin(self) -> None:
        self.headers = {}
        self.url = b""
        self._body = b""
        self.stage = IN_HEAD
        self._head_bytes = _JUST_BEGUN

    def on_url(self, url: bytes) -> None:
        self.url = self.url + url if self.url else url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.stage == IN_BODY:
            return  # a trailer: what comes after the body says neither who asks nor what for
        name = name.lower()
        if name in self.headers:
            self._repeated(name, value)
        else:
            self.headers[name] = value

    def _repeated(self, name: bytes, value: bytes) -> None:
        """A header that has come before: both values count, as one list. Host is none, and comes once."""
        headers = self.headers
        if name == b"host":
            headers[SECOND_HOST] = value
            return
        if len(headers[name]) + len(value) > REPEATED_BYTES:
            self._head_bytes += len(value)
            return
        if name == b"accept-encoding":
            headers.setdefault(FIRST_ACCEPT_ENCODING, headers[name])
        headers[name] += b"," + value

    def on_headers_complete(self) -> None:
        self.stage = IN_BODY
        headers = self.headers
        if (b"host" not in headers and self.parser.get_http_version() != "1.0") or SECOND_HOST in headers:
            self._handler.refuse(_BAD_REQUEST)
            return
        if b"upgrade" in headers and self.parser.should_upgrade():
            self._upgrading = True
            return
        if len(headers) > HEADERS:
            self._handler.refuse(_TOO_MANY_HEADERS)
            return
        if (self._large or self._head_bytes != _JUST_BEGUN) and self._is_head_too_large():
            self._handler.refuse(_BAD_REQUEST)
            return
        if b"transfer-encoding" in headers:
            self._beside_body = _NOTHING
            if not self._is_chunked():
                self._handler.refuse(_BAD_REQUEST)
                return
        length = headers.get(b"content-length")
        if length is not None and len(length) > 7 and int(length) > REQUEST_BYTES:
            self._handler.refuse(TOO_LARGE)
        elif b"expect" in headers and headers[b"expect"].lower() == b"100-continue":
            self._handler.send_continue()

    def _is_chunked(self) -> bool:
        """Chunked and nothing else; HTTP/1.0 has no chunks, and its proxies pass them on as they are."""
        is_old = self.parser.get_http_version() == "1.0"
        return self.headers[b"transfer-encoding"].strip().lower() == b"chunked" and not is_old

    def on_body(self, body: bytes) -> None:
        self._beside_body = _NOTHING
        if not self._body:
            self._body = body
        elif not self.is_discarding:
            self._more_body(body)

    def _more_body(self, body: bytes) -> None:
        if self._body_parts is None:
            self._body_parts = bytearray(self._body)
            self._handler.hold(len(self._body))
        self._body_parts += body
        if len(self._body_parts) > REQUEST_BYTES:
            self.forget_body()
            self._handler.refuse(TOO_LARGE)
        elif not self._handler.hold(len(body)):
            self.forget_body()
            self._handler.refuse(NO_ROOM)

    def forget_body(self) -> None:
        if self._body_parts is not None:
            self._handler.hold(-len(self._body_parts))
            self._body_parts = None

    def on_message_complete(self) -> None:
        if self.is_discarding or self._upgrading:
            return
        self.stage = BETWEEN
        body = self._body
        if self._body_parts is not None:
            body = bytes(self._body_parts)
            self.forget_body()
        self._handler.received(body)

    @property
    def holds_body(self) -> bool:
        """Whether a body has arrived in part."""
        return self._body_parts is not None

    @property
    def arriving(self) -> tuple[object, int]:
        """The request that is arriving (another object for each), and how many bytes of its body are here."""
        return self._begun or self.headers, len(self._body_parts or self._body)

    # ── limits and oddities ──

    def _note_partial(self, count: int) -> None:
        """A request has arrived in part: its head may take only so long and be only so large."""
        if self.stage == IN_BODY:
            self._handler.touch()
            self._note_beside_body(count)
            return
        if self._head_bytes == _JUST_BEGUN:
            # Requests before it may have come in the same bytes: only what is known to be its own counts.
            self._handler.touch()
            self._head_bytes = self._count_parsed_bytes()
        else:
            self._head_bytes += count
        if self._head_bytes > HEAD_BYTES:
            self._handler.refuse(_BAD_REQUEST)

    def _note_beside_body(self, count: int) -> None:
        """The parser gathers a trailer until its line ends: one that never ends is not gathered for ever."""
        if b"transfer-encoding" not in self.headers:
            return
        self._beside_body = 0 if self._beside_body == _NOTHING else self._beside_body + count
        if self._beside_body > HEAD_BYTES:
            self.forget_body()
            self._handler.refuse(_BAD_REQUEST)

    def _count_parsed_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers.items())

    def _is_head_too_large(self) -> bool:
        return max(self._head_bytes, self._count_parsed_bytes()) > HEAD_BYTES

    def _not_understood(self, error: Exception) -> None:
        fault = error.__context__ or error.__cause__
        if fault is None:
            self._handler.refuse(_BAD_REQUEST)
        else:
            # httptools wraps what our own methods raise: a fault of ours, not of the client.
            _log.error("a request could not be routed", exc_info=fault)
            self._handler.refuse(FAULT)

    def _without_upgrade(self) -> bytes:
        """The head again, without its wish for another protocol, for a new parser.

        HTTP allows a server to go on as if it had not been asked; httptools stops before the body.
        """
        self._upgrading = False
        version = self.parser.get_http_version().encode()
        head = [self.parser.get_method() + b" " + self.url + b" HTTP/" + version]
        for name, value in self.headers.items():
            if name == b"connection":
                value = b"close" if b"close" in value.lower() else b"keep-alive"
            if name not in (b"upgrade", b"http2-settings", FIRST_ACCEPT_ENCODING):
                head.append(name + b": " + value)
        self.stage = BETWEEN
        self.parser = _Parser(self)
        self._feed = self.parser.feed_data
        return b"\r\n".join(head) + b"\r\n\r\n"
