"""One attempt, the function run on one record, and where it runs: in the worker's own thread, or on any
`concurrent.futures.Executor`.

1. Whatever the function raises, `SystemExit` and `KeyboardInterrupt` included, becomes a `Failure`: it is about the
   record, and ends nothing else. Whether it is worth another attempt is decided where the exception itself is at hand.
2. An executor's worker that dies takes every record with it that the executor had in hand, and nobody can tell which of
   them was the cause. So a record that has been in a crash is run alone from then on: the next crash is its own.
3. What an `async def` function awaits runs on one event loop of its process, beside that of other records: what it
   opens there, a client with its connections say, can be shared. How many run at once is the workers' number still.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.reduction import ForkingPickler
from typing import Any, Final, Protocol

from penstock.client.items.values import Item
from penstock.errors import PenstockError
from penstock.records.forks import end_child_of
from penstock.retry import Failure, RetryPolicy

Attributes = Mapping[str, Any] | None
Function = Callable[[Item], Attributes | Awaitable[Attributes]]
"""What is done with a record, `def` or `async def`. What it returns is set in the record, together with its mark."""

MESSAGE_CHARACTERS: Final = 500
"""Of an error, in the record itself."""


class BadResult(TypeError):
    """The function returned something that is no attributes."""


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt's end: attributes to set, or a failure."""

    result: dict[str, Any] | None = None
    failure: Failure | None = None


def attempt(function: Function, item: Item, policy: RetryPolicy, serial: int = 0) -> Ended:
    """Runs the function. Never raises; `serial` makes each call a different one for executors that reuse results."""
    del serial
    process = os.getpid()
    try:
        result: object = function(item)
        if inspect.iscoroutine(result):
            result = _await_on_loop(result, function)
        end_child_of(process, function)
        return Ended(checked_result(result))
    except BaseException as error:
        end_child_of(process, function, error)
        return Ended(failure=failure_of(error, policy))


_LOOPS: Final[dict[int, asyncio.AbstractEventLoop]] = {}
"""By process: a fork has none of its parent's threads."""
_LOOPS_LOCK: Final = threading.Lock()


def _await_on_loop(coroutine: Coroutine[Any, Any, Any], function: Function) -> object:
    """What the coroutine returns; raises what it raises (3)."""
    process = os.getpid()

    async def outcome() -> tuple[object, BaseException | None]:
        try:
            result = await coroutine
        except BaseException as error:  # SystemExit would end the loop, and with it everybody's records
            end_child_of(process, function, error)
            return None, error
        end_child_of(process, function)
        return result, None

    result, error = asyncio.run_coroutine_threadsafe(outcome(), _event_loop(process)).result()
    if error is not None:
        raise error
    return result


def _event_loop(process: int) -> asyncio.AbstractEventLoop:
    """This process's loop, which runs from its first async function to the process's end."""
    with _LOOPS_LOCK:
        loop = _LOOPS.get(process)
        if loop is None:
            loop = _LOOPS[process] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="penstock-records-loop", daemon=True).start()
        return loop


def checked_result(result: object) -> dict[str, Any] | None:
    """The attributes to set; BadResult for what is none."""
    if result is None:
        return None
    if isinstance(result, Mapping):
        return dict(result)
    hint = ""
    if inspect.isgenerator(result):
        result.close()  # it has not begun, and nobody will run it
        hint = ": nothing of its body has run. Use a function without yield"
    raise BadResult(
        f"the function returned a {type(result).__name__}{hint}. It returns None, or a dict of attributes to set"
    )


def check_function(function: object) -> None:
    """Refuses at once what could never work."""
    if not callable(function):
        raise TypeError(f"process_all takes a function of one record, not {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError("the function has a yield, so calling it runs nothing of it: return None or a dict instead")


def failure_of(error: BaseException, policy: RetryPolicy) -> Failure:
    # The same function returns the same kind of thing: another attempt at a bad result is in vain.
    retryable = policy.covers(error) and not isinstance(error, BadResult)
    return Failure.of(error, retryable=retryable, characters=MESSAGE_CHARACTERS)


ExecutorOrMaker = Executor | Callable[[], Executor]

_SUBMIT_TRIES = 3


class ExecutorUnusable(PenstockError):
    """The executor can run nothing more."""


class Died(Exception):
    """The worker died. `by_us`: we killed it for another record's sake, so this one is not to blame."""

    def __init__(self, message: str, *, by_us: bool = False, unusable: ExecutorUnusable | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.by_us = by_us
        self.unusable = unusable


class Overran(Exception):
    """It was not done in time."""

    def __init__(self, unusable: ExecutorUnusable | None = None) -> None:
        super().__init__()
        self.unusable = unusable


class NotRun(Exception):
    """It was cancelled before it began."""


class Runner(Protocol):
    """Runs one attempt; raises Died, Overran or NotRun."""

    watches_time: bool
    """Whether it raises Overran by itself; otherwise somebody else has to look at the clock."""

    def run(self, function: Function, item: Item, serial: int, *, alone: bool) -> Ended: ...

    def check(self, function: Function) -> None: ...

    def stop(self) -> None: ...

    def close(self, *, now: bool) -> None: ...


class DirectRunner:
    """In the thread that asks."""

    watches_time = False

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy

    def run(self, function: Function, item: Item, serial: int, *, alone: bool) -> Ended:
        del alone
        return attempt(function, item, self._policy, serial)

    def check(self, function: Function) -> None:
        """Any function will do."""

    def stop(self) -> None:
        """What runs is let run."""

    def close(self, *, now: bool) -> None:
        """Nothing to release."""


class ExecutorRunner:
    """On an executor. One that we can make again, by the function given, is ours to kill, replace and shut down."""

    watches_time = True

    def __init__(
        self, executor: ExecutorOrMaker, policy: RetryPolicy, *, timeout_seconds: float | None, workers: int
    ) -> None:
        self._make = None if isinstance(executor, Executor) else executor
        self._executor = executor if isinstance(executor, Executor) else executor()
        self._policy = policy
        self._timeout = timeout_seconds
        self._workers = workers
        self._lock_of_runs = _SharedLock()
        self._lock = threading.Lock()
        self._futures: set[Future[Ended]] = set()
        self._hung: list[Future[Ended]] = []
        self._killed: Executor | None = None
        self._stopping = False

    def run(self, function: Function, item: Item, serial: int, *, alone: bool) -> Ended:
        with self._lock_of_runs.exclusive() if alone else self._lock_of_runs.shared():
            executor, future = self._submit(function, item, serial)
            try:
                return future.result(self._timeout)
            except TimeoutError:
                raise Overran(self._overran(executor, future)) from None
            except CancelledError:
                if self._stopping:
                    raise NotRun from None
                raise Died("the executor gave the record up (its workers, or its cluster, are gone)") from None
            except BrokenExecutor as error:
                by_us, unusable = executor is self._killed, self._replace(executor)
                raise Died(str(error), by_us=by_us, unusable=unusable) from None
            except BaseException as error:
                if _is_killed_worker(error):
                    raise Died(str(error)) from None
                return Ended(failure=failure_of(error, self._policy))  # it could not be sent, or not be sent back
            finally:
                with self._lock:
                    self._futures.discard(future)

    def _submit(self, function: Function, item: Item, serial: int) -> tuple[Executor, Future[Ended]]:
        for _ in range(_SUBMIT_TRIES):
            executor = self._executor
            try:
                future = executor.submit(attempt, function, item, self._policy, serial)
            except BrokenExecutor:
                unusable = self._replace(executor)
                if unusable is not None:
                    raise unusable from None
                continue
            except RuntimeError as error:
                if self._executor is not executor:
                    continue  # it was replaced, and shut down, at this moment
                raise ExecutorUnusable(f"The executor takes nothing more: {error}. Give one that is open.") from error
            with self._lock:
                self._futures.add(future)
            if self._stopping:
                future.cancel()
            return executor, future
        raise ExecutorUnusable("The executor's workers die as soon as they are started: look at what they print.")

    def _replace(self, broken: Executor) -> ExecutorUnusable | None:
        """A new executor in place of one whose workers died; the first who notices makes it."""
        if self._make is None:
            return ExecutorUnusable(
                "A worker of the executor died, and with it the executor. Give a function that makes one, such as "
                "executor=lambda: ProcessPoolExecutor(4): then a new one takes its place."
            )
        with self._lock:
            if self._executor is broken and not self._stopping:
                broken.shutdown(wait=False)
                self._executor = self._make()
        return None

    def _overran(self, executor: Executor, future: Future[Ended]) -> ExecutorUnusable | None:
        if future.cancel():
            return None  # it had not begun
        if self._make is not None and isinstance(executor, ProcessPoolExecutor):
            self._killed = executor
            kill_workers(executor)
            return self._replace(executor)
        with self._lock:
            self._hung = [one for one in (*self._hung, future) if not one.done()]
            hung = len(self._hung)
        if hung < self._workers:
            return None
        return ExecutorUnusable(
            f"{hung} records hang in the executor, as many as it is given at once. Their time limit is "
            f"{self._timeout:g} s; a process pool that is made by a function given as executor= can be killed."
        )

    def check(self, function: Function) -> None:
        """Refuses a function that cannot be sent to another process."""
        if isinstance(self._executor, ProcessPoolExecutor):
            try:
                ForkingPickler.dumps((function, self._policy))
            except Exception as error:
                raise TypeError(
                    f"{function!r} cannot be sent to another process ({error}): use a function of a module's top level"
                ) from error

    def stop(self) -> None:
        """What has not begun will not begin."""
        self._stopping = True
        with self._lock:
            waiting = list(self._futures)
        for future in waiting:
            future.cancel()

    def close(self, *, now: bool) -> None:
        """Shuts down an executor of our own making; `now` does not wait for what runs."""
        if self._make is None:
            return
        if now and isinstance(self._executor, ProcessPoolExecutor):
            kill_workers(self._executor)
        self._executor.shutdown(wait=not now, cancel_futures=True)


class _SharedLock:
    """Held by any number together, or by one alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holders = 0
        self._exclusive = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._exclusive)
            self._holders += 1
        try:
            yield
        finally:
            with self._changed:
                self._holders -= 1
                self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._exclusive)
            self._exclusive = True  # from now on nobody begins
            self._changed.wait_for(lambda: not self._holders)
        try:
            yield
        finally:
            with self._changed:
                self._exclusive = False
                self._changed.notify_all()


def process_pool(processes: int) -> Executor:
    """Processes that leave Ctrl-C to the one that started them."""
    # Spawned: a fork would copy threads' locks and the database's connections.
    return ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_leave_interrupts_alone)


def _leave_interrupts_alone() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def kill_workers(executor: ProcessPoolExecutor) -> None:
    """Ends a pool's processes at once. Python has a method for it from 3.14 on."""
    kill = getattr(executor, "kill_workers", None)
    if kill is not None:
        kill()
        return
    for process in list((getattr(executor, "_processes", None) or {}).values()):
        with suppress(ValueError):  # it has been closed
            process.kill()


def _is_killed_worker(error: BaseException) -> bool:
    """Dask's word for it; without importing Dask."""
    kinds = type(error).__mro__
    return any(kind.__name__ == "KilledWorker" and kind.__module__.startswith("distributed") for kind in kinds)
