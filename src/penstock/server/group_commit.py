"""Group commit: requests that arrive in one pass of the event loop are executed together.

1. The writes of a group share one transaction and are answered after it is committed.
2. The calls of one connection run in the order in which they arrived.
3. When nothing else is waiting, a request waits for nothing: the group is flushed at the end of the pass.
4. What may take long runs in a thread and holds up nobody but its own connection.
5. One pass answers so many calls, and so many megabytes of what may be large; the rest waits for the next pass. While
   such answers are large indeed, a thread makes them, one after the other. So few answers are held at once, and a call
   with a small one does not wait for many large ones. A thread that has made a large answer makes no other before the
   loop has taken it: threads together are faster than the loop.
6. The event loop waits for nobody. Where a write would wait, for a thread or another process, a thread of its own waits
   with it and with the writes that come meanwhile, which share the next transaction. Reads are answered as ever, except
   those that follow such a write on its connection.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from penstock.engine.engine import Pending
from penstock.engine.registry import WRITES, Answer
from penstock.engine.settings import Scope
from penstock.errors import DynamoDBError, InternalServerError, StorageError
from penstock.server.replies import Style, pack

if TYPE_CHECKING:
    from penstock.server.connection import Connection

HEAVY_THREADS = 4  # for reads, and as many for writes: those may all wait for another process
WIDE_MEGABYTES = {"Query": 1, "GetRecords": 1}
"""Calls whose answers may be large, and how large: DynamoDB's limits."""
PASS_MEGABYTES = 16  # of those, if all were as large as they can be; at least one call
LARGE_BYTES = 256 * 1024
CLOSED_LOOP_SECONDS = 1.0  # between two looks whether the loop that should take an answer is there
LARGE_SECONDS = 1.0  # after the last large answer, others are expected
PASS_CALLS = 64  # of the others, whose answers have at most an item of 400 KB

_log = logging.getLogger(__name__)

_Waiting = tuple["Connection", Style]
_Request = tuple[Pending, "Connection", Style]


class AnswersCalls(Protocol):
    """What the server needs of an engine."""

    def answer(self, operation: str, request: dict[str, Any], scope: Scope) -> bytes: ...

    def answer_many(self, calls: Sequence[Pending]) -> list[Answer]: ...

    def try_answer_many(self, calls: Sequence[Pending]) -> list[Answer] | None: ...

    def without_waiting(self) -> AbstractContextManager[None]: ...


class GroupCommit:
    """Collects calls and answers them through their connections."""

    def __init__(self, engine: AnswersCalls, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self._loop = loop
        self._calls: list[Pending] = []
        self._waiting: list[_Waiting] = []
        self._wide: deque[_Request] = deque()
        self._large_until = 0.0
        self._deferred: deque[_Request] = deque()
        self._is_writing = False  # the thread has deferred ones
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="penstock-writes")
        self._heavy_reads = ThreadPoolExecutor(HEAVY_THREADS, thread_name_prefix="penstock-heavy-reads")
        self._heavy_writes = ThreadPoolExecutor(HEAVY_THREADS, thread_name_prefix="penstock-heavy-writes")
        self._large_thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-large")
        self._for_loop = threading.Semaphore(1)  # large answers that the loop has not taken yet (5)

    def add(self, connection: Connection, style: Style, call: Pending) -> None:
        """Answers with the next group, through `connection.answered`."""
        if not self._calls and not self._wide:
            self._loop.call_soon(self._flush)
        self._calls.append(call)
        self._waiting.append((connection, style))

    def add_wide(self, connection: Connection, style: Style, call: Pending) -> None:
        """Answers with one of the next groups, through `connection.answered_alone`."""
        if not self._calls and not self._wide:
            self._loop.call_soon(self._flush)
        self._wide.append((call, connection, style))

    @property
    def is_full(self) -> bool:
        """Whether more wait than one pass answers: each connection has one turn then, not as many as it asks for."""
        return len(self._calls) >= PASS_CALLS

    def _flush(self) -> None:
        calls, waiting = self._calls, self._waiting
        self._calls, self._waiting = [], []
        if len(calls) > PASS_CALLS:
            self._calls, self._waiting = calls[PASS_CALLS:], waiting[PASS_CALLS:]
            del calls[PASS_CALLS:], waiting[PASS_CALLS:]
        wide = self._next_wide() if self._wide else ()
        if self._calls or self._wide:
            self._loop.call_soon(self._flush)
        together = [*calls, *(call for call, _, _ in wide)] if wide else calls
        answers = self._try_answers(together)
        if answers is None:
            calls, waiting = self._defer_writes(calls, waiting)
            answers = self._answers([*calls, *(call for call, _, _ in wide)])
            self._write_deferred()  # now, so that no read sees a write that came after it
        for (connection, style), answer in zip(waiting, answers, strict=not wide):
            _answer(connection, style, answer)
        for (_, connection, style), answer in zip(wide, answers[len(calls) :], strict=True):
            self._answer_alone(connection, style, answer)

    def _answer_alone(self, connection: Connection, style: Style, answer: Answer) -> None:
        if _is_large(answer):
            self._large_until = self._loop.time() + LARGE_SECONDS
        try:
            connection.answered_alone(style, answer)
        except Exception as error:  # as in `_answer`
            _abandon(connection, error)

    def _next_wide(self) -> Sequence[_Request]:
        """Those whose turn it is (5); none while a thread makes them."""
        if self._loop.time() < self._large_until:
            for one in self._wide:
                self._large_thread.submit(self._wide_in_thread, *one)
            self._wide.clear()
            return ()
        taken: list[_Request] = []
        megabytes = 0
        while self._wide and megabytes < PASS_MEGABYTES:
            taken.append(self._wide.popleft())
            megabytes += WIDE_MEGABYTES[taken[-1][0].operation]
        return taken

    def _try_answers(self, calls: list[Pending]) -> list[Answer] | None:
        """None where a write has to wait: for another, or for those before it."""
        if self._is_writing and any(call.operation in WRITES for call in calls):
            return None
        try:
            return self._engine.try_answer_many(calls)
        except Exception as error:  # the outermost loop: a fault is answered and recorded
            return [_record_fault(error)] * len(calls)

    def _defer_writes(self, calls: list[Pending], waiting: list[_Waiting]) -> tuple[list[Pending], list[_Waiting]]:
        """Leaves the writes, and what follows one on its connection, to the thread; returns the rest (6)."""
        now = self._deferred_out_of(calls, waiting)
        self._calls, self._waiting = self._deferred_out_of(self._calls, self._waiting)  # those of the next pass
        return now

    def _deferred_out_of(self, calls: list[Pending], waiting: list[_Waiting]) -> tuple[list[Pending], list[_Waiting]]:
        rest: tuple[list[Pending], list[_Waiting]] = ([], [])
        for call, (connection, style) in zip(calls, waiting, strict=True):
            if call.operation in WRITES or connection.is_deferred:
                connection.is_deferred = True
                self._deferred.append((call, connection, style))
            else:
                rest[0].append(call)
                rest[1].append((connection, style))
        return rest

    def _write_deferred(self) -> None:
        if self._deferred and not self._is_writing:
            self._is_writing = True
            some = [self._deferred.popleft() for _ in range(min(PASS_CALLS, len(self._deferred)))]
            self._writer.submit(self._in_writer, some)

    def _in_writer(self, some: list[_Request]) -> None:
        answers = self._answers([call for call, _, _ in some])
        self._loop.call_soon_threadsafe(self._answer_deferred, some, answers)

    def _answer_deferred(self, some: list[_Request], answers: list[Answer]) -> None:
        self._is_writing = False
        self._write_deferred()
        for (_, connection, style), answer in zip(some, answers, strict=True):
            _answer(connection, style, answer)

    def _answers(self, calls: list[Pending]) -> list[Answer]:
        try:
            return self._engine.answer_many(calls)
        except Exception as error:  # likewise
            return [_record_fault(error)] * len(calls)

    def run_heavy(self, call: Pending, connection: Connection, style: Style) -> None:
        """Answers through `connection.answered_alone` or `answered_packed` when a thread has the answer."""
        threads = self._heavy_writes if may_write(call) else self._heavy_reads
        threads.submit(self._heavy_in_thread, call, connection, style)

    def _heavy_in_thread(self, call: Pending, connection: Connection, style: Style) -> None:
        """Nothing is read for a client that has gone."""
        if connection.is_gone and not may_write(call):
            return
        answer = self.answer_of(call)
        if style.encoding and not style.silent and _is_large(answer):
            self._hand_over(connection.answered_packed, style, pack(style.encoding, answer))
        else:
            self._hand_over(connection.answered_alone, style, answer)

    def _wide_in_thread(self, call: Pending, connection: Connection, style: Style) -> None:
        """Likewise."""
        if not connection.is_gone:
            self._hand_over(partial(self._answer_alone, connection), style, self.answer_of(call))

    def _hand_over(self, take: Callable[[Style, Any], None], style: Style, answer: Answer) -> None:
        """Has the loop take an answer; a large one waits for the large one before it (5)."""
        if not _is_large(answer):
            self._loop.call_soon_threadsafe(take, style, answer)
            return
        while not self._for_loop.acquire(timeout=CLOSED_LOOP_SECONDS):
            if self._loop.is_closed():
                return
        self._loop.call_soon_threadsafe(self._take, take, style, answer)

    def _take(self, take: Callable[[Style, Any], None], style: Style, answer: Answer) -> None:
        try:
            take(style, answer)
        finally:
            self._for_loop.release()

    def pack(self, encoding: bytes, body: bytes, done: Callable[[bytes], None]) -> None:
        """Calls `done` on the loop with the compressed body: that of a large answer takes long."""

        def work() -> None:
            self._loop.call_soon_threadsafe(done, pack(encoding, body))

        self._large_thread.submit(work)

    def answer_of(self, call: Pending) -> Answer:
        """Answers one call; may wait."""
        try:
            return self._engine.answer(*call)
        except DynamoDBError as error:
            return error.as_answer()
        except Exception as error:  # likewise
            return _record_fault(error)

    def close(self) -> None:
        """Waits for the threads; they finish what they have begun, except that nobody waits for another process."""
        with self._engine.without_waiting():
            for threads in (self._writer, self._heavy_reads, self._heavy_writes, self._large_thread):
                threads.shutdown(cancel_futures=True)


def _is_large(answer: Answer) -> TypeGuard[bytes]:
    return isinstance(answer, bytes) and len(answer) > LARGE_BYTES


def may_write(call: Pending) -> bool:
    """Whether a call may wait for other writes. A statement that selects does not."""
    if call.operation not in ("ExecuteStatement", "BatchExecuteStatement"):
        return call.operation in WRITES
    statements = call.request.get("Statements")
    given = statements if isinstance(statements, list) else [call.request]
    return not all(isinstance(one, dict) and _selects(one.get("Statement")) for one in given)


def _selects(statement: object) -> bool:
    return isinstance(statement, str) and statement[:100].lstrip()[:6].upper() == "SELECT"


def _answer(connection: Connection, style: Style, answer: Answer) -> None:
    try:
        connection.answered(style, answer)
    except Exception as error:  # one broken connection must not cost the others their answers
        _abandon(connection, error)


def _abandon(connection: Connection, error: Exception) -> None:
    _log.error("an answer could not be sent", exc_info=error)
    connection.abort()


def _record_fault(error: Exception) -> DynamoDBError:
    if isinstance(error, DynamoDBError):
        return error.as_answer()
    _log.error("a call failed", exc_info=error)
    return InternalServerError(str(error) if isinstance(error, StorageError) else "Internal server error")
