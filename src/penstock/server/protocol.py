"""One connection: bytes in, requests out; answers in, bytes out.

1. Answers leave in the order of their requests, whatever finishes first.
2. A connection holds no more than `PIPELINE` calls in the engine, or one whose answer may be large, or one while many
   wait, and one read buffer; past that, or while its client reads slowly, it stops reading.
3. What all connections hold together is bounded too (crowd.py).
4. A client that is too slow with a request, reads nothing, or is idle for too long, is cut off (`sweep`).
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
from penstock.server.crowd import STALLED_TICKS
from penstock.server.encodings import BodyTooLarge, chosen_encoding
from penstock.server.groups import WIDE_MEGABYTES, Answer
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
from penstock.server.routing import LARGE_BYTES, Refused, content_type_of, is_filtered

if TYPE_CHECKING:
    from penstock.server.run import Server

PIPELINE = 32
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

Waiting = tuple[Style, Pending | None, bool, Reply | None]
"""A request that must wait for those before it: its call and whether that is heavy, or its finished reply."""


class Connection(RequestReader):
    """See the promises above; `Server` makes one for each client."""

    __slots__ = (
        "_add",
        "_add_wide",
        "_arriving",
        "_arriving_since",
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
        "_unsent",
        "_write",
        "server",
    )

    _transport: asyncio.Transport
    _write: Callable[[bytes], None]

    def __init__(self, server: Server) -> None:
        self.server = server
        self._replies = server.replies
        self._add = server.groups.add
        self._add_wide = server.groups.add_wide
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
        self._unsent = 0  # of a slow reader, when it was last counted
        self._arriving: object = None  # what `sweep` last saw arriving
        self._arriving_since = 0
        self._since = server.tick

    # ── the transport's calls ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._write = self._transport.write
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self.server.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deaf = True
        self._slow_reader = False
        self._write = _nowhere
        self._backlog.clear()
        self._rest = b""
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
        self._count_unsent()
        self._hold()

    def resume_writing(self) -> None:
        self._slow_reader = False
        self._since = self.server.tick
        self._unsent = 0
        self.server.crowd.note_unsent(self, 0)
        self._proceed()

    def _count_unsent(self) -> None:
        if self.is_gone:
            return
        self._unsent = self._transport.get_write_buffer_size()
        self.server.crowd.note_unsent(self, self._unsent)

    # ── requests ──

    def _received(self, body: bytes) -> None:
        method = self._parser.get_method()
        style = self._style(method)
        if len(body) > LARGE_BYTES:
            self.server.groups.flush_now()  # so that the values of one large body at a time are in memory
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
        if len(body) > LARGE_BYTES:
            return False
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
        if self._backlog or self._busy or self._slow_reader or (self._in_group and not self._may_join(call, heavy)):
            self._backlog.append((style, call, heavy, None))
            self._hold()
        elif heavy or call[0] in WIDE_MEGABYTES:
            self._start(style, call, heavy)
        else:  # as `_start` does: nearly all calls come this way
            self._in_group += 1
            self._add(self, style, call)

    def _may_join(self, call: Pending, heavy: bool) -> bool:
        """Whether it may be in the engine together with others of this connection."""
        if heavy or call.operation in WIDE_MEGABYTES or self._in_group >= PIPELINE:
            return False
        return not self.server.groups.are_crowded

    def _start(self, style: Style, call: Pending, heavy: bool) -> None:
        if heavy:
            self._run_heavy(style, call)
        elif call.operation in WIDE_MEGABYTES:
            self._busy = True
            self._add_wide(self, style, call)
        else:
            self._in_group += 1
            self._add(self, style, call)

    def _run_heavy(self, style: Style, call: Pending) -> None:
        self._busy = True
        self.server.groups.run_heavy(call, lambda answer: self.answered_alone(style, answer))

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
                if self._in_group and not self._may_join(call, heavy):
                    break
                self._start(style, call, heavy)
            self._backlog.popleft()
        if not self._backlog and not self._slow_reader:
            self._read_on()
        self._finish_if_closing()

    # ── answers ──

    def answered_alone(self, style: Style, answer: Answer) -> None:
        """The answer of a call that was alone in the engine."""
        self._busy = False
        self._send(self._replies.answer(style, answer))
        self._proceed()

    def _send(self, data: bytes) -> None:
        try:
            self._write(data)
        except RuntimeError:
            # The client has gone, and the transport knows it before it has told us.
            self._write = _nowhere
        if self._slow_reader:
            self._count_unsent()  # more than there was when it began to be slow

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
        try:  # as `_send` does
            self._write(data)
        except RuntimeError:
            self._write = _nowhere
        if self._slow_reader:
            self._count_unsent()
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

    def _must_wait(self) -> bool:
        waits = bool(self._backlog) or self._slow_reader
        if waits:
            self._hold()
        return waits

    def _read_on(self) -> None:
        if self._rest:
            self._take_rest()
            if self._backlog or self._slow_reader:
                return
        if not self._reading and not self._transport.is_closing():
            self._reading = True
            self._transport.resume_reading()

    @property
    def is_gone(self) -> bool:
        return self._write is _nowhere

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

    def abort(self) -> None:
        self._write = _nowhere
        self._transport.abort()


def _nowhere(data: bytes) -> None:
    """Where answers go when the client has gone."""
