"""One connection: bytes in, requests out; answers in, bytes out.

1. Answers leave in the order of their requests, whatever finishes first.
2. A connection holds no more than `PIPELINE` calls in the engine, or one whose answer may be large, or one while many
   wait, and one read buffer; past that, or while its client reads slowly, it stops reading.
3. What all connections hold together is bounded too (connection_limits.py).
4. A client that is too slow with a request, reads nothing, or is idle for too long, is cut off (`sweep`).
5. No bytes kill the server: what is not HTTP is answered with 400, and the connection closed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import orjson

from penstock.engine.engine import Pending
from penstock.engine.registry import Answer
from penstock.server.connection_limits import STALLED_TICKS
from penstock.server.group_commit import WIDE_MEGABYTES
from penstock.server.known_heads import Meaning
from penstock.server.replies import JSON, JSON_10, PLAIN, TEXT, Reply, Style, chosen_encoding
from penstock.server.request_reader import FIRST_ACCEPT_ENCODING, NO_ROOM, RequestReader
from penstock.server.routing import (
    LARGE_BYTES,
    WAIT_FOR_CHANGES,
    Outcome,
    Routed,
    Target,
    Unrouted,
    content_type_of,
    is_costly,
    is_large,
    route,
)

if TYPE_CHECKING:
    from penstock.server.server import Server

PIPELINE = 32
PACKED_ASIDE_BYTES = 256 * 1024  # of an answer that a thread compresses
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

Waiting = tuple[Style, Pending | Unrouted | None, bool, Reply | None]
"""A request that must wait for those before it: its call and whether that is heavy, or its finished reply."""


class Connection(asyncio.BaseProtocol):
    """See the promises above; `Server` makes one for each client."""

    __slots__ = (
        "_add",
        "_arriving",
        "_arriving_since",
        "_backlog",
        "_busy",
        "_closing",
        "_discarded",
        "_in_group",
        "_lingers",
        "_out",
        "_reader",
        "_reading",
        "_replies",
        "_since",
        "_slow_reader",
        "_transport",
        "_unsent",
        "_write",
        "data_received",
        "is_deferred",
        "server",
    )

    _transport: asyncio.Transport
    _write: Callable[[bytes], None]

    def __init__(self, server: Server) -> None:
        self.server = server
        self._replies = server.replies
        self._add = server.group_commit.add
        self._reader = RequestReader(self)
        self.data_received = self._reader.data_received  # the transport's call, without one in between
        self._in_group = 0
        self.is_deferred = False  # those in the group wait for others' writes (group_commit.py, 6)
        self._out: list[bytes] = []
        self._backlog: deque[Waiting] = deque()
        self._busy = False  # a heavy call is under way
        self._closing = False  # closes once everything is answered
        self._lingers = False  # and then goes on reading for a while, so that the client reads the answer
        self._reading = True
        self._slow_reader = False
        self._unsent = 0  # of a slow reader, when it was last counted
        self._since = server.tick
        self._discarded = 0
        self._arriving: object = None  # what `sweep` last saw arriving
        self._arriving_since = 0

    # ── the transport's calls ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._write = self._transport.write
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self.server.limits.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._reader.is_discarding = True
        self._slow_reader = False
        self._write = send_nowhere
        for _, call, _, _ in self._backlog:
            if isinstance(call, Unrouted):
                self.hold(-len(call.body))
        self._backlog.clear()
        self._reader.unparsed = b""
        self._reader.forget_body()
        self.server.limits.discard(self)

    def eof_received(self) -> bool:
        """A client that has said all may still be waiting for its answers."""
        self._closing = True
        self._reader.is_discarding = True
        return not self._is_quiet()

    def pause_writing(self) -> None:
        self._slow_reader = True
        self._since = self.server.tick
        self._count_unsent()
        self._pause_reading()

    def resume_writing(self) -> None:
        self._slow_reader = False
        self._since = self.server.tick
        self._unsent = 0
        self.server.limits.note_unsent(self, 0)
        self._proceed()

    # ── the reader's calls ──

    def received(self, body: bytes) -> None:
        self._since = self.server.tick
        reader = self._reader
        method = reader.parser.get_method()
        style = self._style(method)
        request = Unrouted(method, reader.url, reader.headers, body)
        if is_large(reader.headers, body):
            self._take_large(style, request)
            return
        outcome = route(self.server.router, request)
        if isinstance(outcome, Reply):
            self._reply(style, outcome)
            return
        target = outcome.target
        self._call(style_of(style, target), outcome.call, outcome.is_heavy)
        if self.server.router.checks_form_alone and not target.heavy and not target.silent and not self._closing:
            scope = outcome.call.scope
            reader.meaning = Meaning(style, target.operation, scope, target.may_be_costly, target.heavy_bytes)

    def understood(self, meaning: Meaning, body: bytes) -> bool:
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

    def refuse(self, reply: Reply) -> None:
        """Answers and closes; what the client still sends is read, so that it can read the answer."""
        if self._reader.is_discarding:
            return
        self._reader.is_discarding = True
        self._closing = True
        self._lingers = True
        self._reply(Style(close=True), reply)

    def send_continue(self) -> None:
        if self._is_quiet():
            self._write(_CONTINUE)

    def discard(self, count: int) -> None:
        self._discarded += count
        if self._discarded > DISCARD_BYTES:
            self._transport.abort()

    def hold(self, count: int) -> bool:
        return self.server.limits.hold(self, count)

    def must_wait(self) -> bool:
        waits = bool(self._backlog) or self._slow_reader
        if waits:
            self._pause_reading()
        return waits

    def touch(self) -> None:
        self._since = self.server.tick

    def _style(self, method: bytes) -> Style:
        """How this request wants its answer; the one object PLAIN for nearly all."""
        headers = self._reader.headers
        accept = headers.get(b"accept-encoding", b"identity")
        if accept != b"identity":
            accept = headers.get(FIRST_ACCEPT_ENCODING, accept)
        encoding = b"" if accept == b"identity" else chosen_encoding(accept[:1024])
        keeps = self._reader.parser.should_keep_alive() and not self.server.stopping
        if not keeps:
            self._closing = True
            self._reader.is_discarding = True
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
        return b"connection" in self._reader.headers and self._reader.parser.get_http_version() == "1.0"

    # ── calls ──

    def _call(self, style: Style, call: Pending | Unrouted, heavy: bool) -> None:
        """Executes the call after those before it."""
        if self._backlog or self._busy or self._slow_reader or (self._in_group and not self._may_join(call, heavy)):
            self._backlog.append((style, call, heavy, None))
            self._pause_reading()
        elif heavy or call[0] in WIDE_MEGABYTES or isinstance(call, Unrouted):
            self._start(style, call, heavy)
        else:  # as `_start` does: nearly all calls come this way
            self._in_group += 1
            self._add(self, style, call)

    def _may_join(self, call: Pending | Unrouted, heavy: bool) -> bool:
        """Whether it may be in the engine together with others of this connection."""
        if heavy or call[0] in WIDE_MEGABYTES or self._in_group >= PIPELINE or self.is_deferred:
            return False
        return not self.server.group_commit.is_full

    def _start(self, style: Style, call: Pending | Unrouted, heavy: bool) -> None:
        if not isinstance(call, Unrouted) and not heavy and call.operation not in WIDE_MEGABYTES:
            self._in_group += 1
            self._add(self, style, call)
            return
        self._busy = True
        if isinstance(call, Unrouted):
            size = len(call.body)
            self.server.large_bodies.add(
                call, lambda: self.is_gone, lambda outcome: self._finish_large(style, size, outcome)
            )
        elif call.operation == WAIT_FOR_CHANGES:
            self.server.change_waits.add(
                call.request, lambda: self.is_gone or self._closing, lambda answer: self.answered_alone(style, answer)
            )
        elif heavy:
            self.server.group_commit.run_heavy(call, self, style)
        else:
            self.server.group_commit.add_wide(self, style, call)

    def _take_large(self, style: Style, request: Unrouted) -> None:
        """It is held until its turn has come (routing.py, 5)."""
        if self.hold(len(request.body)):
            self._call(style, request, heavy=True)
        else:
            self.hold(-len(request.body))
            self.refuse(NO_ROOM)

    def _finish_large(self, style: Style, size: int, outcome: Outcome) -> None:
        self.hold(-size)
        if isinstance(outcome, Reply):
            self._finish_alone(self._replies.build(style, outcome))
        elif isinstance(outcome, Routed):
            self._busy = False
            self._start(style_of(style, outcome.target), outcome.call, outcome.is_heavy)
        else:
            target, answer = outcome
            self.answered_alone(style_of(style, target), answer)

    def _reply(self, style: Style, reply: Reply) -> None:
        """Answers without the engine, after the requests before it."""
        if self._is_quiet():
            self._write(self._replies.build(style, reply))
            self._finish_if_closing()
        else:
            self._backlog.append((style, None, False, reply))

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
        if style.encoding and isinstance(answer, bytes) and len(answer) > PACKED_ASIDE_BYTES and not style.silent:
            self.server.group_commit.pack(style.encoding, answer, partial(self.answered_packed, style))
        else:
            self._finish_alone(self._replies.answer(style, answer))

    def answered_packed(self, style: Style, packed: bytes) -> None:
        """Likewise, compressed already."""
        self._finish_alone(self._replies.packed_answer(style, packed))

    def _finish_alone(self, data: bytes) -> None:
        self._busy = False
        try:
            self._write(data)
        except RuntimeError:
            # The client has gone, and the transport knows it before it has told us.
            self._write = send_nowhere
        if self._slow_reader:
            self._count_unsent()  # more than there was when it began to be slow
        self._proceed()

    def answered(self, style: Style, answer: Answer) -> None:
        """The next answer of this connection; all of a group leave in one write, unless some of it waits."""
        data = self._replies.answer(style, answer)
        left = self._in_group = self._in_group - 1
        if left and not self.is_deferred:
            self._out.append(data)
            return
        if not left:
            self.is_deferred = False
        if self._out:
            self._out.append(data)
            data = b"".join(self._out)
            self._out = []
        try:  # as in `_finish_alone`
            self._write(data)
        except RuntimeError:
            self._write = send_nowhere
        if self._slow_reader:
            self._count_unsent()
        if left:
            return
        if self._backlog:
            self._proceed()
        elif self._closing:
            self._finish_if_closing()

    def _finish_if_closing(self) -> None:
        if not self._closing or not self._is_quiet() or self._transport.is_closing():
            return
        self._reader.is_discarding = True
        self._since = self.server.tick
        if self._lingers and self._transport.can_write_eof():
            # The rest of the connection ends when the client ends it, or in `sweep`.
            self._transport.write_eof()
            self._read_on()
        else:
            self._transport.close()

    # ── reading on, or not ──

    def _is_quiet(self) -> bool:
        """Whether every request so far has been answered."""
        return not self._in_group and not self._busy and not self._backlog

    def _pause_reading(self) -> None:
        if self._reading and not self._transport.is_closing():
            self._reading = False
            self._transport.pause_reading()

    def _read_on(self) -> None:
        if self._reader.unparsed:
            self._reader.parse_rest()
            if self._backlog or self._slow_reader:
                return
        if not self._reading and not self._transport.is_closing():
            self._reading = True
            self._transport.resume_reading()

    @property
    def is_gone(self) -> bool:
        return self._write is send_nowhere

    def abort(self) -> None:
        self._write = send_nowhere
        self._transport.abort()

    # ── limits ──

    def _count_unsent(self) -> None:
        if self.is_gone:
            return
        self._unsent = self._transport.get_write_buffer_size()
        self.server.limits.note_unsent(self, self._unsent)

    def silent_since(self) -> int | None:
        """Since when its client has neither asked nor read; None while it waits for an answer."""
        return self._since if self._slow_reader or self._is_quiet() else None

    def end_if_stalled(self, tick: int) -> None:
        """Ends it if it holds a body of which nothing more has come for a while."""
        if self._reader.holds_body and tick - self._since >= STALLED_TICKS and self._is_quiet():
            self._reader.forget_body()
            self.refuse(_TIMED_OUT)

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
        elif self._reader.stage:
            if self._is_quiet() and (age > REQUEST_SECONDS or self._drips(tick)):
                self._reader.forget_body()
                self.refuse(_TIMED_OUT)
        elif age > IDLE_SECONDS and self._is_quiet():
            self._transport.close()

    def _drips(self, tick: int) -> bool:
        """Whether a body comes so slowly that it is not meant to arrive."""
        arriving, arrived = self._reader.arriving
        if arriving is not self._arriving:
            self._arriving, self._arriving_since = arriving, tick
        return tick - self._arriving_since > REQUEST_SECONDS + arrived // BODY_BYTES_A_SECOND

    def stop(self) -> None:
        """Closes when what has begun is answered; a request half arrived is one that has begun."""
        self._reader.heads = []  # a head now means one answer more, and the end
        if self._reader.stage and not self._reader.is_discarding:
            return
        self._closing = True
        if self._is_quiet() and not self._transport.is_closing():
            self._transport.close()


def style_of(style: Style, target: Target) -> Style:
    return replace(style, silent=True) if target.silent else style


def send_nowhere(data: bytes) -> None:
    """Where answers go when the client has gone."""
