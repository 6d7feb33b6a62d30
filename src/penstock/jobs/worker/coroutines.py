"""A worker's async attempts: coroutines on one event loop, which hold no thread while they await.

The numbers continue those of fetcher.py.

16. A coroutine counts as one of the jobs that run at once, from its claim until its end has been stored. A thread of
    the worker starts it and goes on; when it has ended, the next thread that is free stores that, as if it had run it.
    Nothing is written on the event loop.
17. What a coroutine asks of its context runs in threads of the worker's own: `asyncio.to_thread` of the tasks is not
    held up by a database that is away, and the number of threads does not grow with that of the jobs.
18. A coroutine is cancelled at its present `await` (`asyncio.CancelledError`, once) if its job has been cancelled or is
    another worker's, if its worker stops, at its time limit, and at its soft one if it has kept a checkpoint. What it
    raises or returns then still decides: a task that returns although its worker stops has completed.
19. Who cancels a running job also names it in an item of its worker's, which a worker that has coroutines reads once a
    second, however many they are. That is a hint only: a renewal of the lease tells whether it is true, and would find
    it out later by itself.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, NamedTuple

from penstock.jobs.context import AsyncJobContext, Attempt, JobContext
from penstock.jobs.store.store import JobStore
from penstock.leases import LeaseLost

CONTEXT_THREADS: Final = 32
"""For the calls of all contexts (17). Waiting calls take turns; where the database is away, all wait for the same."""
_LOOK_SECONDS: Final = 1.0


class EndedCoroutine(NamedTuple):
    """An attempt whose coroutine has ended: what it has returned or raised."""

    attempt: Attempt
    value: Any
    error: BaseException | None


class Coroutines:
    """The async attempts that run. `on_end` is called on the event loop for each, and must not block."""

    def __init__(self, store: JobStore, on_end: Callable[[EndedCoroutine], None]) -> None:
        self._store = store
        self._on_end = on_end
        self._running: dict[Attempt, None] = {}
        self._opening = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._executor = ThreadPoolExecutor(CONTEXT_THREADS, "penstock-context")
        self._look_at = 0.0
        # Only the event loop's thread uses these two:
        self._tasks: dict[Attempt, asyncio.Task[Any]] = {}
        self._asked: set[Attempt] = set()

    def start(self, attempt: Attempt, function: Callable[..., Any], arguments: dict[str, Any]) -> None:
        """Begins the coroutine, and does not wait for it."""
        coroutine = function(AsyncJobContext(JobContext(attempt), self._executor), **arguments)
        self._running[attempt] = None
        self._event_loop().call_soon_threadsafe(self._begin, attempt, coroutine)

    def release(self, attempt: Attempt) -> bool:
        """Whether it was still running: whoever is told so stores how it has ended, and nobody else does."""
        return self._running.pop(attempt, attempt) is None

    def cancel(self, attempt: Attempt, *, again: bool = False) -> None:
        """Cancels it at its present await (18); a second time only if told so: its `finally` may be awaiting."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._cancel, attempt, again)

    def cancel_all(self) -> None:
        for attempt in list(self._running):
            self.cancel(attempt)

    def cancel_due(self, owner: str, attempts: Iterable[Attempt]) -> None:
        """Cancels the coroutines whose jobs have been cancelled, or are another's (19), or should be requeued (18).

        The heartbeat calls it.
        """
        if self._running and time.monotonic() >= self._look_at and self._store.outage.began_at is None:
            there_may_be_more = self._look(owner, attempts)
            self._look_at = time.monotonic() + (0.0 if there_may_be_more else _LOOK_SECONDS)
        for attempt in list(self._running):
            if attempt.reason_to_end() is not None:
                self.cancel(attempt)

    def stop(self) -> None:
        """Ends the event loop, whatever still runs on it."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _look(self, owner: str, attempts: Iterable[Attempt]) -> bool:
        """Whether any were named: a limited number at a time."""
        cancelled = self._store.side_items.cancelled_jobs(owner)
        seen = set(cancelled)
        for attempt in attempts if cancelled else ():
            if attempt.id in cancelled:
                with suppress(LeaseLost):
                    if not attempt.renew():  # the task is writing: next time
                        seen.discard(attempt.id)
        if seen:
            self._store.side_items.forget_cancelled(owner, seen)
        return bool(cancelled)

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        with self._opening:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="penstock-async", daemon=True).start()
            return self._loop

    # ── on the event loop ────────────────────────────────────────────────────────────────────────

    def _begin(self, attempt: Attempt, coroutine: Any) -> None:
        task = self._tasks[attempt] = asyncio.get_running_loop().create_task(coroutine)
        task.add_done_callback(lambda ended: self._end(attempt, ended))

    def _cancel(self, attempt: Attempt, again: bool) -> None:
        task = self._tasks.get(attempt)
        if task is not None and (again or attempt not in self._asked):
            self._asked.add(attempt)
            task.cancel()

    def _end(self, attempt: Attempt, task: asyncio.Task[Any]) -> None:
        del self._tasks[attempt]
        self._asked.discard(attempt)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if self.release(attempt):
            self._on_end(EndedCoroutine(attempt, None if error is not None else task.result(), error))
