"""Group commit: requests that arrive in one pass of the event loop are executed together.

1. The writes of a group share one transaction and are answered after it is committed.
2. The calls of one connection run in the order in which they arrived.
3. When nothing else is waiting, a request waits for nothing: the group is flushed at the end of the pass.
4. What may take long runs in a thread and holds up nobody but its own connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

from penstock.engine.engine import Pending
from penstock.engine.settings import Scope
from penstock.errors import DynamoDBError, InternalServerError
from penstock.server.replies import Style

if TYPE_CHECKING:
    from penstock.server.protocol import Connection

HEAVY_THREADS = 4

_log = logging.getLogger(__name__)

Answer = bytes | DynamoDBError


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
        self._waiting: list[tuple[Connection, Style]] = []
        self._threads = ThreadPoolExecutor(HEAVY_THREADS, thread_name_prefix="penstock-heavy")

    def add(self, connection: Connection, style: Style, call: Pending) -> None:
        """Answers with the next group, through `connection.answered`."""
        if not self._calls:
            self._loop.call_soon(self._flush)
        self._calls.append(call)
        self._waiting.append((connection, style))

    def _flush(self) -> None:
        calls, waiting = self._calls, self._waiting
        self._calls, self._waiting = [], []
        for (connection, style), answer in zip(waiting, self._answers(calls), strict=True):
            try:
                connection.answered(style, answer)
            except Exception as error:  # one broken connection must not cost the others their answers
                _log.error("an answer could not be sent", exc_info=error)
                connection.abort()

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
        answer: Answer
        try:
            answer = self._engine.answer(*call)
        except DynamoDBError as error:
            answer = error
        except Exception as error:  # likewise
            answer = _recorded(error)
        self._loop.call_soon_threadsafe(done, answer)

    def close(self) -> None:
        """Waits for the threads; they finish what they have begun."""
        self._threads.shutdown(wait=True)


def _recorded(error: Exception) -> DynamoDBError:
    if isinstance(error, DynamoDBError):
        return error
    _log.error("a call failed", exc_info=error)
    return InternalServerError("Internal server error")
