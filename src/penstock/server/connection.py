"""One connection: bytes in, requests out; answers in, bytes out.

1. Answers leave in the order of their requests, whatever finishes first (call_order.py).
2. What a connection holds of calls and answers is bounded (call_order.py).
3. What all connections hold together is bounded too (connection_limits.py).
4. A client that is too slow with a request, reads nothing, or is idle for too long, is cut off (`sweep`).
5. No bytes kill the server: what is not HTTP is answered with 400, and the connection closed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import orjson

from penstock.engine.engine import Pending
from penstock.server.call_order import Answering, nowhere, style_of
from penstock.server.connection_limits import STALLED_TICKS
from penstock.server.encodings import chosen_encoding
from penstock.server.known_heads import Meaning
from penstock.server.large_bodies import Unrouted, is_large, route
from penstock.server.replies import (
    JSON,
    JSON_10,
    PLAIN,
    TEXT,
    Reply,
    Style,
)
from penstock.server.request_reader import FIRST_ACCEPT_ENCODING, NO_ROOM
from penstock.server.routing import LARGE_BYTES, content_type_of, is_costly

if TYPE_CHECKING:
    from penstock.server.server import Server

WRITE_BUFFER_BYTES = 256 * 1024
DISCARD_BYTES = 128 * 1024 * 1024  # read and thrown away so that the client sees why it was refused

# In ticks of the server: seconds.
IDLE_SECONDS = 120
REQUEST_SECONDS = 30  # for the head as a whole, and for each pause within the body
BODY_BYTES_A_SECOND = 4096  # at least, after those seconds: a body may not drip for ever
STALLED_SECONDS = 60  # in which a slow reader has read less than `READ_BYTES` a second
READ_BYTES = 4096
LINGER_SECONDS = 10

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_TIMED_OUT = Reply(408, b"Request Timeout\n", content_type=TEXT)


class Connection(Answering):
    """See the promises above; `Server` makes one for each client."""

    __slots__ = ("_arriving", "_arriving_since", "_discarded")

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self._discarded = 0
        self._arriving: object = None  # what `sweep` last saw arriving
        self._arriving_since = 0

    # ── the transport's calls ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._write = self._transport.write
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self.server.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deaf = True
        self._slow_reader = False
        self._write = nowhere
        self._forget_backlog()
        self._rest = b""
        self._forget_body()
        self.server.disconnected(self)

    def eof_received(self) -> bool:
        """A client that has said all may still be waiting for its answers."""
        self._closing = True
        self._deaf = True
        return not self._is_quiet()

    # ── requests ──

    def _received(self, body: bytes) -> None:
        method = self._parser.get_method()
        style = self._style(method)
        request = Unrouted(method, self._url, self._headers, body)
        if is_large(self._headers, body):
            self._take_large(style, request)
            return
        outcome = route(self.server.router, request)
        if isinstance(outcome, Reply):
            self._reply(style, outcome)
            return
        target = outcome.target
        self._call(style_of(style, target), outcome.call(), outcome.is_heavy)
        if self.server.router.checks_form_alone and not target.heavy and not target.silent and not self._closing:
            self._meaning = Meaning(style, target.operation, outcome.scope, target.may_be_costly, target.heavy_bytes)

    def _take_large(self, style: Style, request: Unrouted) -> None:
        """It is held until its turn has come (large_bodies.py, 3)."""
        if self._has_room(len(request.body)):
            self._call(style, request, heavy=True)
        else:
            self._has_room(-len(request.body))
            self._refuse(NO_ROOM)

    def _understood(self, meaning: Meaning, body: bytes) -> bool:
        style, operation, scope, may_be_costly, heavy_bytes = meaning
        if len(body) > LARGE_BYTES:
            return False
        try:
            request = orjson.loads(body)
        except ValueError:
            return False
        if type(request) is not dict:
            return False
        self._since = self.server.tick
        heavy = len(body) > heavy_bytes or (may_be_costly and is_costly(request))
        self._call(style, Pending(operation, request, scope), heavy)
        return True

    def _style(self, method: bytes) -> Style:
        """How this request wants its answer; the one object PLAIN for nearly all."""
        headers = self._headers
        accept = headers.get(b"accept-encoding", b"identity")
        if accept != b"identity":
            accept = headers.get(FIRST_ACCEPT_ENCODING, accept)
        encoding = b"" if accept == b"identity" else chosen_encoding(accept[:1024])
        keeps = self._parser.should_keep_alive() and not self.server.stopping
        if not keeps:
            self._closing = True
            self._deaf = True
        plain_type = headers.get(b"content-type") == JSON_10
        usual = keeps and plain_type and not encoding and method == b"POST"
        if usual and b"origin" not in headers and not self._is_old():
            return PLAIN
        return Style(
            content_type=JSON_10 if content_type_of(headers.get(b"content-type")) == JSON_10 else JSON,
            encoding=encoding,
            cors=b"origin" in headers and self.server.router.origins.allows(headers[b"origin"]),
            close=not keeps,
            keep_alive=keeps and self._is_old(),
            bodiless=method == b"HEAD",
        )

    def _is_old(self) -> bool:
        """HTTP/1.0, where keeping a connection alive is asked for and said aloud."""
        return b"connection" in self._headers and self._parser.get_http_version() == "1.0"

    # ── limits ──

    def _is_idle(self) -> bool:
        return self._receiving == 0 and self._is_quiet()

    def silent_since(self) -> int | None:
        """Since when its client has neither asked nor read; None while it waits for an answer."""
        return self._since if self._slow_reader or self._is_quiet() else None

    def end_if_stalled(self, tick: int) -> None:
        """Ends it if it holds a body of which nothing more has come for a while."""
        if self._body_parts is not None and tick - self._since >= STALLED_TICKS and self._is_quiet():
            self._forget_body()
            self._refuse(_TIMED_OUT)

    def _has_room(self, count: int) -> bool:
        return self.server.crowd.hold(self, count)

    def _touch(self) -> None:
        self._since = self.server.tick

    def _continue(self) -> None:
        if self._is_quiet():
            self._write(_CONTINUE)

    def _discard(self, count: int) -> None:
        self._discarded += count
        if self._discarded > DISCARD_BYTES:
            self._transport.abort()

    def sweep(self, tick: int) -> None:
        """Called once a second: ends what has taken too long."""
        if self._slow_reader and self._transport.get_write_buffer_size() <= self._unsent - READ_BYTES:
            self._since = tick
            self._count_unsent()
        age = tick - self._since
        if self._closing and self._is_quiet() and not self._slow_reader:
            if age > LINGER_SECONDS:
                self.abort()
        elif self._slow_reader:
            if age > STALLED_SECONDS:
                self.abort()
        elif self._receiving:
            if self._is_quiet() and (age > REQUEST_SECONDS or self._drips(tick)):
                self._forget_body()
                self._refuse(_TIMED_OUT)
        elif age > IDLE_SECONDS and self._is_quiet():
            self._transport.close()

    def _drips(self, tick: int) -> bool:
        """Whether a body comes so slowly that it is not meant to arrive."""
        arriving = self._begun or self._headers  # both are made anew for each request
        if arriving is not self._arriving:
            self._arriving, self._arriving_since = arriving, tick
        arrived = len(self._body_parts or self._body)
        return tick - self._arriving_since > REQUEST_SECONDS + arrived // BODY_BYTES_A_SECOND

    def stop(self) -> None:
        """Closes when what has begun is answered; a request half arrived is one that has begun."""
        self._known = []  # a head now means one answer more, and the end
        if self._receiving and not self._deaf:
            return
        self._closing = True
        if self._is_quiet() and not self._transport.is_closing():
            self._transport.close()
