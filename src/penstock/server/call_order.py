"""The calls of one connection and their answers, in their order; what it holds of both is bounded.

1. Answers leave in the order of their requests, whatever finishes first.
2. A connection holds no more than `PIPELINE` calls in the engine, or one whose answer may be large, or one while many
   wait, and one read buffer; past that, or while its client reads slowly, it stops reading.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.engine import Pending
from penstock.engine.registry import Answer
from penstock.server.group_commit import WIDE_MEGABYTES
from penstock.server.large_bodies import Outcome, Unrouted
from penstock.server.replies import Reply, Style
from penstock.server.request_reader import RequestReader
from penstock.server.routing import Routed, Target

if TYPE_CHECKING:
    from penstock.server.server import Server

PIPELINE = 32
PACKED_ASIDE_BYTES = 256 * 1024  # of an answer that a thread compresses

Waiting = tuple[Style, Pending | Unrouted | None, bool, Reply | None]
"""A request that must wait for those before it: its call and whether that is heavy, or its finished reply."""


class Answering(RequestReader):
    """Between the reader of requests and the engine."""

    __slots__ = (
        "_add",
        "_add_wide",
        "_backlog",
        "_busy",
        "_closing",
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
        "is_deferred",
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

    # ── calls ──

    def _call(self, style: Style, call: Pending | Unrouted, heavy: bool) -> None:
        """Executes the call after those before it."""
        if self._backlog or self._busy or self._slow_reader or (self._in_group and not self._may_join(call, heavy)):
            self._backlog.append((style, call, heavy, None))
            self._hold()
        elif heavy or call[0] in WIDE_MEGABYTES or isinstance(call, Unrouted):
            self._start(style, call, heavy)
        else:  # as `_start` does: nearly all calls come this way
            self._in_group += 1
            self._add(self, style, call)

    def _may_join(self, call: Pending | Unrouted, heavy: bool) -> bool:
        """Whether it may be in the engine together with others of this connection."""
        if heavy or call[0] in WIDE_MEGABYTES or self._in_group >= PIPELINE or self.is_deferred:
            return False
        return not self.server.groups.are_crowded

    def _start(self, style: Style, call: Pending | Unrouted, heavy: bool) -> None:
        if isinstance(call, Unrouted):
            self._start_large(style, call)
        elif heavy:
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

    def _start_large(self, style: Style, request: Unrouted) -> None:
        self._busy = True
        size = len(request.body)
        self.server.large_bodies.add(
            request, lambda: self.is_gone, lambda outcome: self._large_done(style, size, outcome)
        )

    def _large_done(self, style: Style, size: int, outcome: Outcome) -> None:
        self._has_room(-size)
        if isinstance(outcome, Reply):
            self._finish_alone(self._replies.build(style, outcome))
        elif isinstance(outcome, Routed):
            self._busy = False
            self._start(style_of(style, outcome.target), outcome.call(), outcome.is_heavy)
        else:
            target, answer = outcome
            self.answered_alone(style_of(style, target), answer)

    def _forget_backlog(self) -> None:
        for _, call, _, _ in self._backlog:
            if isinstance(call, Unrouted):
                self._has_room(-len(call.body))
        self._backlog.clear()

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
        if style.encoding and isinstance(answer, bytes) and len(answer) > PACKED_ASIDE_BYTES and not style.silent:
            self.server.groups.pack(
                style.encoding, answer, lambda packed: self._finish_alone(self._replies.packed_answer(style, packed))
            )
        else:
            self._finish_alone(self._replies.answer(style, answer))

    def _finish_alone(self, data: bytes) -> None:
        self._busy = False
        self._send(data)
        self._proceed()

    def _send(self, data: bytes) -> None:
        try:
            self._write(data)
        except RuntimeError:
            # The client has gone, and the transport knows it before it has told us.
            self._write = nowhere
        if self._slow_reader:
            self._count_unsent()  # more than there was when it began to be slow

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
        try:  # as `_send` does
            self._write(data)
        except RuntimeError:
            self._write = nowhere
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
        self._deaf = True
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
        return self._write is nowhere

    def abort(self) -> None:
        self._write = nowhere
        self._transport.abort()


def style_of(style: Style, target: Target) -> Style:
    return replace(style, silent=True) if target.silent else style


def nowhere(data: bytes) -> None:
    """Where answers go when the client has gone."""
