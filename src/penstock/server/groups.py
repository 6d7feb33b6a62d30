"""Group commit: requests that arrive in one pass of the event loop are executed together.

1. The writes of a group share one transaction and are answered after it is committed.
2. The calls of one connection run in the order in which they arrived.
3. When nothing else is waiting, a request waits for nothing: the group is flushed at the end of the pass.
4. What may take long runs in a thread and holds up nobody but its own connection.
5. One pass answers so many calls, and so many megabytes of what may be large; the rest waits for the next pass. While
   such answers are large indeed, a thread makes them, one after the other. So few answers are held at once, and a call
   with a small one does not wait for a crowd of large ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

from penstock.engine.engine import Pending
from penstock.engine.settings import Scope
from penstock.errors import DynamoDBError, InternalServerError
from penstock.server.replies import Style

if TYPE_CHECKING:
    from penstock.server.answering import Answering

HEAVY_THREADS = 4
WIDE_MEGABYTES = {"Query": 1, "GetRecords": 1, "TransactGetItems": 4, "BatchGetItem": 16}
"""Calls whose answers may be large, and how large: DynamoDB's limits."""
PASS_MEGABYTES = 16  # of those, if all were as large as they can be; at least one call
LARGE_BYTES = 256 * 1024
LARGE_SECONDS = 1.0  # after the last large answer, others are expected
PASS_CALLS = 64  # of the others, whose answers have at most an item of 400 KB

_log = logging.getLogger(__name__)

Answer = bytes | DynamoDBError
_Wide = tuple[Pending, "Answering", Style]


class AnswersCalls(Protocol):
    """What the server needs of an engine."""

    def answer(self, operation: str, request: dict[str, Any], scope: Scope) -> bytes: ...

    def answer_many(self, calls: Sequence[Pending]) -> list[Answer]: ...


class Groups:
    """Collects calls and answers them through their connections."""

    def __init__(self, engine: AnswersCalls, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self._loop = loop
        self._calls: list[Pending] = []
        self._waiting: list[tuple[Answering, Style]] = []
        self._wide: deque[_Wide] = deque()
        self._large_until = 0.0
        self._threads = ThreadPoolExecutor(HEAVY_THREADS, thread_name_prefix="penstock-heavy")
        self._large_thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-large")

    def add(self, connection: Answering, style: Style, call: Pending) -> None:
        """Answers with the next group, through `connection.answered`."""
        if not self._calls and not self._wide:
            self._loop.call_soon(self._flush)
        self._calls.append(call)
        self._waiting.append((connection, style))

    def add_wide(self, connection: Answering, style: Style, call: Pending) -> None:
        """Answers with one of the next groups, through `connection.answered_alone`."""
        if not self._calls and not self._wide:
            self._loop.call_soon(self._flush)
        self._wide.append((call, connection, style))

    @property
    def are_crowded(self) -> bool:
        """Whether more wait than one pass answers: each connection has one turn then, not as many as it asks for."""
        return len(self._calls) >= PASS_CALLS

    def flush_now(self) -> None:
        """Answers what waits for the end of the pass."""
        if self._calls:
            self._flush()

    def _flush(self) -> None:
        calls, waiting = self._calls, self._waiting
        self._calls, self._waiting = [], []
        if len(calls) > PASS_CALLS:
            self._calls, self._waiting = calls[PASS_CALLS:], waiting[PASS_CALLS:]
            del calls[PASS_CALLS:], waiting[PASS_CALLS:]
        wide = self._next_wide() if self._wide else ()
        if self._calls or self._wide:
            self._loop.call_soon(self._flush)
        answers = self._answers([*calls, *(call for call, _, _ in wide)] if wide else calls)
        for (connection, style), answer in zip(waiting, answers, strict=not wide):
            try:
                connection.answered(style, answer)
            except Exception as error:  # one broken connection must not cost the others their answers
                _abandoned(connection, error)
        for (_, connection, style), answer in zip(wide, answers[len(calls) :], strict=True):
            self._answer_alone(connection, style, answer)

    def _answer_alone(self, connection: Answering, style: Style, answer: Answer) -> None:
        if isinstance(answer, bytes) and len(answer) > LARGE_BYTES:
            self._large_until = self._loop.time() + LARGE_SECONDS
        try:
            connection.answered_alone(style, answer)
        except Exception as error:  # as above
            _abandoned(connection, error)

    def _next_wide(self) -> Sequence[_Wide]:
        """Those whose turn it is (5); none while a thread makes them."""
        if self._loop.time() < self._large_until:
            for one in self._wide:
                self._large_thread.submit(self._wide_in_thread, *one)
            self._wide.clear()
            return ()
        taken: list[_Wide] = []
        megabytes = 0
        while self._wide and megabytes < PASS_MEGABYTES:
            taken.append(self._wide.popleft())
            megabytes += WIDE_MEGABYTES[taken[-1][0].operation]
        return taken

    def _answers(self, calls: list[Pending]) -> list[Answer]:
        try:
            return self._engine.answer_many(calls)
        except Exception as error:  # the outermost loop: a fault is answered and recorded
            fault = _recorded(error)
            return [fault] * len(calls)

    def run_heavy(self, call: Pending, done: Callable[[Answer], None]) -> None:
        """Calls `done` on the loop when a thread has the answer."""
        self._threads.submit(self._in_thread, call, done)

    def _in_thread(self, call: Pending, done: Callable[[Answer], None]) -> None:
        self._loop.call_soon_threadsafe(done, self._answer_of(call))

    def _wide_in_thread(self, call: Pending, connection: Answering, style: Style) -> None:
        """Nothing is read for a client that has gone."""
        if not connection.is_gone:
            self._loop.call_soon_threadsafe(self._answer_alone, connection, style, self._answer_of(call))

    def _answer_of(self, call: Pending) -> Answer:
        try:
            return self._engine.answer(*call)
        except DynamoDBError as error:
            return error
        except Exception as error:  # likewise
            return _recorded(error)

    def close(self) -> None:
        """Waits for the threads; they finish what they have begun."""
        self._threads.shutdown(wait=True)
        self._large_thread.shutdown(wait=True)


def _abandoned(connection: Answering, error: Exception) -> None:
    _log.error("an answer could not be sent", exc_info=error)
    connection.abort()


def _recorded(error: Exception) -> DynamoDBError:
    if isinstance(error, DynamoDBError):
        return error
    _log.error("a call failed", exc_info=error)
    return InternalServerError("Internal server error")
