"""Requests with a large body, beside the event loop.

1. What unpacks, parses and carries out a large body is a thread: the event loop answers others meanwhile. Only the
   parser itself holds the interpreter, for 0.4 s at the longest: 16 MB of small values, the most that
   `routing.MOST_TOKENS` lets pass.
2. One large body at a time is more than bytes. It is forgotten when its call has been answered.
3. Bodies that wait for their turn count as held (connection_limits.py, 3).
4. A body that was packed and is small after all is called as any other, and waits for no large one.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

from penstock.engine.engine import Pending
from penstock.engine.registry import Answer
from penstock.errors import DynamoDBError
from penstock.server.auth.authorization import Headers
from penstock.server.encodings import BodyTooLarge
from penstock.server.replies import FAULT, TOO_LARGE, Reply, error_body
from penstock.server.routing import LARGE_BYTES, Refused, Routed, Router, Target
from penstock.wire.limits import REQUEST_BYTES

_log = logging.getLogger(__name__)


class Unrouted(NamedTuple):
    """A request as it came."""

    method: bytes
    url: bytes
    headers: Headers
    body: bytes


Outcome = Reply | Routed | tuple[Target, Answer]
"""A refusal, a call that is still to be carried out, or the answer of one that was."""


def is_large(headers: Headers, body: bytes) -> bool:
    """Whether a body is, or may become when it is unpacked, too large to be parsed on the event loop."""
    return len(body) > LARGE_BYTES or b"content-encoding" in headers


def route(router: Router, request: Unrouted, most_bytes: int = REQUEST_BYTES) -> Reply | Routed:
    """What a request asks for, or how it is refused without the engine; TOO_LARGE where it unpacks to more."""
    try:
        return router.route(*request, most_bytes)
    except DynamoDBError as error:
        return Reply(error.status, error_body(error))
    except Refused as refused:
        return refused.reply
    except BodyTooLarge:
        return TOO_LARGE


class LargeBodies:
    """Those of one server."""

    def __init__(self, router: Router, answer_of: Callable[[Pending], Answer], loop: asyncio.AbstractEventLoop) -> None:
        self._router = router
        self._answer_of = answer_of
        self._loop = loop
        self._packed = ThreadPoolExecutor(1, thread_name_prefix="penstock-packed-bodies")
        self._large = ThreadPoolExecutor(1, thread_name_prefix="penstock-large-bodies")

    def add(self, request: Unrouted, is_gone: Callable[[], bool], done: Callable[[Outcome], None]) -> None:
        """Calls `done` on the loop when its turn has come, unless its client has gone."""
        if len(request.body) > LARGE_BYTES:
            self._large.submit(self._in_thread, request, is_gone, done)
        else:
            self._packed.submit(self._unpack, request, is_gone, done)

    def _unpack(self, request: Unrouted, is_gone: Callable[[], bool], done: Callable[[Outcome], None]) -> None:
        """Routes it if it is small when it is unpacked (4)."""
        try:
            outcome = route(self._router, request, LARGE_BYTES)
        except Exception as error:  # as in `_in_thread`
            _log.error("a request could not be routed", exc_info=error)
            outcome = FAULT
        if outcome is TOO_LARGE:
            self._large.submit(self._in_thread, request, is_gone, done)
        else:
            self._loop.call_soon_threadsafe(done, outcome)

    def _in_thread(self, request: Unrouted, is_gone: Callable[[], bool], done: Callable[[Outcome], None]) -> None:
        outcome: Outcome = FAULT
        try:
            if not is_gone():
                outcome = self._outcome(request)
        except Exception as error:  # the outermost loop of a thread: a fault is answered and recorded
            _log.error("a request could not be routed", exc_info=error)
        self._loop.call_soon_threadsafe(done, outcome)

    def _outcome(self, request: Unrouted) -> Outcome:
        with _collector_at_rest():
            routed = route(self._router, request)
            if isinstance(routed, Reply) or routed.size <= LARGE_BYTES:
                return routed
            return routed.target, self._answer_of(routed.call())

    def close(self) -> None:
        """Waits for the one under way; the others' clients are gone."""
        self._packed.shutdown(cancel_futures=True)
        self._large.shutdown(cancel_futures=True)


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Millions of new values are no garbage: looking through them takes ten times as long as parsing them does."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
