"""Calls that are answered when the database has changed: how a client over HTTP waits for others' writes.

1. A call names the version that it knows. If there is another by now it is answered at once, otherwise with the next
   commit to the file, by whichever process; and in any case after `LONGEST_SECONDS`.
2. The event loop waits for nothing: one thread watches the file, and only while somebody waits. What was committed
   meanwhile it sees when it looks again.
3. No more than `most` wait at once; further ones are refused, and poll. A client that has gone, or sends no more, makes
   room.
4. However fast others write, all who wait are answered once in `GAP_SECONDS`; who is answered polls and calls again.
5. When the server stops, all are answered.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

import orjson

from penstock.engine.registry import Answer
from penstock.errors import LimitExceededException, PenstockError, ValidationException

LONGEST_SECONDS: Final = 20.0  # less than clients and proxies wait for an answer
MOST_WAITS: Final = 256
GAP_SECONDS: Final = 0.005
_LOOK_SECONDS: Final = 60.0

_log = logging.getLogger(__name__)


class Changes(Protocol):
    """What the thread waits with."""

    def wait(self, seconds: float) -> bool: ...

    def close(self) -> None: ...


class TellsChanges(Protocol):
    """What an engine has, where these calls are routed."""

    def changes(self) -> Changes: ...


class _Wait:
    """A call that waits."""

    __slots__ = ("done", "is_gone", "timer")

    def __init__(self, is_gone: Callable[[], bool], done: Callable[[Answer], None]) -> None:
        self.is_gone = is_gone
        self.done = done
        self.timer: asyncio.TimerHandle | None = None


class ChangeWaits:
    """Those of one server. All but the thread runs on its event loop."""

    def __init__(self, engine: Any, loop: asyncio.AbstractEventLoop, most: int = MOST_WAITS) -> None:
        self._engine: TellsChanges = engine
        self._changes: Changes | None = None
        self._loop = loop
        self._most = most
        self._server = os.urandom(4).hex()
        self._version = 0
        self._waits: dict[_Wait, None] = {}
        self._wanted = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, request: dict[str, Any], is_gone: Callable[[], bool], done: Callable[[Answer], None]) -> None:
        """Calls `done` with the answer, never before it returns."""
        since, seconds = request.get("Since"), request.get("WaitSeconds", 0)
        if not isinstance(since, str | None) or not isinstance(seconds, int | float):
            wrong = ValidationException("Since is a version that was answered before, WaitSeconds a number")
            self._loop.call_soon(done, wrong.as_answer())
        elif since != self._current() or seconds <= 0 or self._ended.is_set():
            self._loop.call_soon(done, self._answer())
        elif self._is_full():
            full = LimitExceededException(f"{self._most} clients wait for changes already: poll instead")
            self._loop.call_soon(done, full.as_answer())
        else:
            self._keep(_Wait(is_gone, done), min(float(seconds), LONGEST_SECONDS))

    def _current(self) -> str:
        return f"{self._server}-{self._version}"

    def _answer(self) -> bytes:
        return orjson.dumps({"Version": self._current()})

    def _is_full(self) -> bool:
        if len(self._waits) >= self._most:
            for wait in [wait for wait in self._waits if wait.is_gone()]:
                self._end(wait)
        return len(self._waits) >= self._most

    def _keep(self, wait: _Wait, seconds: float) -> None:
        self._waits[wait] = None
        wait.timer = self._loop.call_later(seconds, self._end, wait)
        if self._changes is None:
            self._changes = self._engine.changes()
            self._thread = threading.Thread(
                target=self._watch, args=(self._changes,), name="penstock-changes", daemon=True
            )
            self._thread.start()
        self._wanted.set()

    def _end(self, wait: _Wait) -> None:
        del self._waits[wait]
        if not self._waits:
            self._wanted.clear()
        if wait.timer is not None:
            wait.timer.cancel()
        self._loop.call_soon(wait.done, self._answer())

    def _answer_all(self) -> None:
        self._version += 1
        for wait in list(self._waits):
            self._end(wait)

    def _watch(self, changes: Changes) -> None:
        while self._wanted.wait() and not self._ended.is_set():
            try:
                if changes.wait(_LOOK_SECONDS) and not self._ended.is_set():
                    self._loop.call_soon_threadsafe(self._answer_all)
                    self._ended.wait(GAP_SECONDS)
            except (PenstockError, RuntimeError) as error:  # the file is lost, or the loop has ended
                _log.warning("Waiting for changes does not work any more: %s", error)
                return

    def stop(self) -> None:
        """Answers all who wait (5)."""
        self._ended.set()
        self._wanted.set()
        if self._changes is not None:
            self._changes.close()
        for wait in list(self._waits):
            self._end(wait)

    def join(self) -> None:
        """Waits for the thread, which `stop` has ended."""
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()
