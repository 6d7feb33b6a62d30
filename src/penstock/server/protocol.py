"""One connection: bytes in, requests out; answers in, bytes out.

1. Answers leave in the order of their requests, whatever finishes first.
2. A connection holds no more than `PIPELINE` calls in the engine and one read buffer of parsed requests;
   past that, or while its client reads slowly, it stops reading.
3. The bodies that are still arriving take no more than `HELD_BYTES` together.
4. A client that is too slow with a request, or idle for too long, is cut off (`sweep`).
5. No bytes kill the server: what is not HTTP is answered with 400, and the connection closed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import orjson

from penstock.engine.engine import Pending
from penstock.errors import DynamoDBError
from penstock.server.encodings import BodyTooLarge, chosen_encoding
from penstock.server.groups import Answer
from penstock.server.heads import Meaning
from penstock.server.reading import FIRST_ACCEPT_ENCODING, TOO_LARGE, RequestReader
from penstock.server.replies import (
    JSON,
    JSON_10,
    PLAIN,
    TEXT,
    Reply,
    Style,
    error_body,
)
from penstock.server.routing import Refused, content_type_of, is_filtered

if TYPE_CHECKING:
    from penstock.server.run import Server

PIPELINE = 32
HELD_BYTES = 512 * 1024 * 1024  # of bodies that are still arriving, on all connections together
WRITE_BUFFER_BYTES = 1024 * 1024
DISCARD_BYTES = 128 * 1024 * 1024  # read and thrown away so that the client sees why it was refused

# In ticks of the server: seconds.
IDLE_SECONDS = 120
REQUEST_SECONDS = 30  # for the head as a whole, and for each pause within the body
STALLED_SECONDS = 60
LINGER_SECONDS = 10

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_TIMED_OUT = Reply(408, b"Request Timeout\n", content_type=TEXT)

Waiting = tuple[Style, Pending | None, bool, Reply | None]
"""A request that must wait for those before it: its call and whether that is heavy, or its finished reply."""


class Connection(RequestReader):
    """See the promises above; `Server` makes one for each client."""

    __slots__ = (
        "_add",
        "_backlog",
        "_busy",
        "_closing",
        "_discarded",
        "_in_group",
        "_lingers",
        "_out",
        "_reading",
        "_replies",
        "_since",
        "_slow_reader",
        "_transport",
        "_write",
        "server",
    )

    _transport: asyncio.Transport
    _write: Callable[[bytes], None]

    def __init__(self, server: Server) -> None:
        self.server = server
        self._replies = server.replies
        self._add = server.groups.add
        super().__init__()
        self._discarded = 0
        self._in_group = 0
        self._out: list[bytes] = []
        self._backlog: deque[Waiting] = deque()
        self._busy = False  # a heavy call is under way
        self._closing = False  # closes once everything is answered
        self._lingers = False  # and then goes on reading for a while, so that the client reads the answer
        self._reading = True
        self._slow_reader = False
        self._since = server.tick

    # ── the transport's calls ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._write = self._transport.write
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self.server.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deaf = True
        self._write = _nowhere
        self._backlog.clear()
        self._forget_body()
        self.server.disconnected(self)

    def eof_received(self) -> bool:
        """A client that has said all may still be waiting for its answers."""
        self._closing = True
        self._deaf = True
        return not self._is_quiet()

    def pause_writing(self) -> None:
        self._slow_reader = True
        self._since = self.server.tick
        self._hold()

    def resume_writing(self) -> None:
        self._slow_reader = False
        self._since = self.server.tick
        self._proceed()

    # ── requests ──

    def _received(self, body: bytes) -> None:
        method = self._parser.get_method()
        style = self._style(method)
        try:
            target, request, scope = self.server.router.route(method, self._url, self._headers, body)
        except DynamoDBError as error:
            self._reply(style, Reply(error.status, error_body(error)))
        except Refused as refused:
            self._reply(style, refused.reply)
        except BodyTooLarge:
            self._reply(style, TOO_LARGE)
        else:
            if target.silent:
                style = replace(style, silent=True)
            heavy = target.heavy or (target.filters and is_filtered(request))
            self._call(style, Pending(target.operation, request, scope), heavy)
            if self.server.router.checks_form_alone and not target.heavy and not self._closing:
                self._meaning = Meaning(style, target.operation, scope, target.filters)

    def _understood(self, meaning: Meaning, body: bytes) -> bool:
        style, operation, scope, filters = meaning
        try:
            request = orjson.loads(body)
        except ValueError:
            return False
        if type(request) is not dict:
            return False
        self._since = self.server.tick
        self._call(style, Pending(operation, request, scope), filters and is_filtered(request))
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

    def _call(self, style: Style, call: Pending, heavy: bool) -> None:
        """Executes the call after those before it."""
        if self._backlog or self._busy or self._slow_reader or self._in_group >= (1 if heavy else PIPELINE):
            self._backlog.append((style, call, heavy, None))
            self._hold()
        elif heavy:
            self._run_heavy(style, call)
        else:
            self._in_group += 1
            self._add(self, style, call)

    def _run_heavy(self, style: Style, call: Pending) -> None:
        self._busy = True

        def done(answer: Answer) -> None:
            self._busy = False
            self._write(self._replies.answer(style, answer))
            self._proceed()

        self.server.groups.run_heavy(call, done)

    def _reply(self, style: Style, reply: Reply) -> None:
        """Answers without the engine, after the requests before it."""
        if self._is_quiet():
            self._write(self._replies.build(style, reply))
            self._finish_if_closing()
        else:
            self._backlog.append((style, None, False, reply))

    def _refuse(self, reply: Reply) -> None:
        """Answers and closes; what the client still sends is read, so that it can read the answer."""
        if self._deaf:
            return
        self._deaf = True
        self._closing = True
        self._lingers = True
        self._reply(Style(close=True), reply)

    def _proceed(self) -> None:
        """Takes up the requests that had to wait."""
        while self._backlog and not self._busy and not self._slow_reader:
            style, call, heavy, reply = self._backlog[0]
            if reply is not None:
                if self._in_group:
                    break
                self._write(self._replies.build(style, reply))
            elif call is not None:
                if self._in_group >= (1 if heavy else PIPELINE):
                    break
                self._start(style, call, heavy)
            self._backlog.popleft()
        if not self._backlog and not self._slow_reader:
            self._read_on()
        self._finish_if_closing()

    def _start(self, style: Style, call: Pending, heavy: bool) -> None:
        if heavy:
            self._run_heavy(style, call)
        else:
            self._in_group += 1
            self._add(self, style, call)

    # ── answers ──

    def answered(self, style: Style, answer: Answer) -> None:
        """The next answer of this connection; all of a group leave in one write."""
        data = self._replies.answer(style, answer)
        left = self._in_group = self._in_group - 1
        if left:
            self._out.append(data)
            return
        if self._out:
            self._out.append(data)
            data = b"".join(self._out)
            self._out = []
        try:
            self._write(data)
        except RuntimeError:
            # The client has gone, and the transport knows it before it has told us.
            self._write = _nowhere
        if self._backlog:
            self._proceed()
        elif self._closing:
            self._finish_if_closing()

    def _finish_if_closing(self) -> None:
        if not self._closing or not self._is_quiet() or self._transport.is_closing():
            return
        self._deaf = True
        self._since = self.server.tick
        if self._lingers and self._transport.can_write_eof():
            # The rest of the connection ends when the client ends it, or in `sweep`.
            self._transport.write_eof()
            self._read_on()
        else:
            self._transport.close()

    # ── limits ──

    def _is_quiet(self) -> bool:
        """Whether every request so far has been answered."""
        return not self._in_group and not self._busy and not self._backlog

    def _is_idle(self) -> bool:
        return self._receiving == 0 and self._is_quiet()

    def _hold(self) -> None:
        if self._reading and not self._transport.is_closing():
            self._reading = False
            self._transport.pause_reading()

    def _read_on(self) -> None:
        if not self._reading and not self._transport.is_closing():
            self._reading = True
            self._transport.resume_reading()

    def _has_room(self, count: int) -> bool:
        self.server.held_bytes += count
        return self.server.held_bytes <= HELD_BYTES

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
        age = tick - self._since
        if self._closing and self._is_quiet():
            if age > LINGER_SECONDS:
                self.abort()
        elif self._slow_reader:
            if age > STALLED_SECONDS:
                self.abort()
        elif self._receiving:
            if age > REQUEST_SECONDS and self._is_quiet():
                self._refuse(_TIMED_OUT)
        elif age > IDLE_SECONDS and self._is_quiet():
            self._transport.close()

    def stop(self) -> None:
        """Closes when what has begun is answered; a request half arrived is one that has begun."""
        self._known = []  # a head now means one answer more, and the end
        if self._receiving and not self._deaf:
            return
        self._closing = True
        if self._is_quiet() and not self._transport.is_closing():
            self._transport.close()

    def abort(self) -> None:
        self._write = _nowhere
        self._transport.abort()


def _nowhere(data: bytes) -> None:
    """Where answers go when the client has gone."""
