"""How a task's function is called: whatever it does, its worker can go on.

1. A child that it forks does not come back from it (records/forks.py).
2. `SystemExit` and `KeyboardInterrupt` of an `async def` task are about its job: asyncio would end the event loop, in
   which all of a worker's async tasks run.
3. An exception that cannot be shown, because its `__str__` raises, is replaced by one that can.
4. What it enqueues, or asks of jobs by other calls than its context's, waits for a database that is away as those do;
   so does what an `async def` task awaits (`app.aio`). On the event loop itself nothing waits.
5. What is logged while it runs carries the job's id, its task and the attempt (log_context.py). It is in the job's log
   too, if the task asks for that (log_capture.py).
6. It runs in a span, where its program traces (tracing.py).
7. The user's hooks run around it (jobs/hooks.py). A task without any is called as if there were none.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import wraps
from typing import Any, Final, TypeVar

from penstock.errors import PenstockError
from penstock.jobs.context import AsyncJobContext, Attempt, JobContext, attempt_of
from penstock.jobs.hooks import NO_HOOKS, Hooks, check_kind, with_hooks
from penstock.jobs.log_capture import CAPTURE, LogCapture, install
from penstock.jobs.tasks import Task
from penstock.jobs.tracing import attempt_span, is_loaded
from penstock.jobs.worker.log_context import CURRENT_JOB
from penstock.records.forks import end_child_of

T = TypeVar("T")


class _Exit(BaseException):
    """What an async task has raised to leave (2). Like that, it is no Exception: it is not retried unasked."""


_NO_SPAN: Final = nullcontext()
_EXITS: Final = {kind: type(kind.__name__, (_Exit,), {}) for kind in (SystemExit, KeyboardInterrupt)}
"""By the same names: they are the kinds of the jobs' errors."""


def invocation_of(task: Task[Any, Any], hooks: Hooks = NO_HOOKS) -> Callable[..., Any]:
    """The task's function inside the hooks, as a worker calls it: with the context first, whether it takes it or not.

    Raises PenstockError if a hook cannot run with the task.
    """
    function: Any = protect(task.function)
    takes_context = task.takes_context
    if hooks.of_attempt:
        check_kind(task.name, task.is_async, hooks)
        inner = function if takes_context else _without_context(function)
        function, takes_context = protect(with_hooks(inner, hooks, task.is_async)), True

    def call(context: JobContext, /, **arguments: Any) -> Any:
        CURRENT_JOB.set(context.job)
        try:
            with attempt_of(context).patience(), attempt_span(context.job) if is_loaded() else _NO_SPAN:
                return function(context, **arguments) if takes_context else function(**arguments)
        finally:
            CURRENT_JOB.set(None)

    async def call_async(context: AsyncJobContext, /, **arguments: Any) -> Any:
        CURRENT_JOB.set(context.job)  # in the coroutine's own copy of the variables
        attempt_of(context.blocking).be_patient()
        with attempt_span(context.job) if is_loaded() else nullcontext():
            return await (function(context, **arguments) if takes_context else function(**arguments))

    if task.settings.capture_logs is not None:
        return _captured(task, call_async if task.is_async else call)
    return call_async if task.is_async else call


def _captured(task: Task[Any, Any], call: Callable[..., Any]) -> Callable[..., Any]:
    """The same, with what the task logs in the job's log when it has ended."""
    level = task.settings.capture_logs or 0
    install(level)

    def begin(context: JobContext) -> Attempt:
        attempt = attempt_of(context)
        attempt.captured = LogCapture(level, attempt.job.entries)
        CAPTURE.set(attempt.captured)
        return attempt

    def end(attempt: Attempt) -> None:
        with suppress(PenstockError):  # whatever it is, the last write meets it too
            attempt.write_captured()

    def call_captured(context: JobContext, **arguments: Any) -> Any:
        attempt = begin(context)
        try:
            return call(context, **arguments)
        finally:
            CAPTURE.set(None)
            end(attempt)

    async def call_captured_async(context: AsyncJobContext, **arguments: Any) -> Any:
        attempt = begin(context.blocking)
        try:
            return await call(context, **arguments)
        finally:
            CAPTURE.set(None)
            if attempt.captured:
                await asyncio.shield(asyncio.to_thread(end, attempt))

    return call_captured_async if task.is_async else call_captured


def _without_context(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda context, /, **arguments: function(**arguments)


def protect(function: Callable[..., T]) -> Callable[..., T]:
    """The function, as a worker calls it."""
    inner: Any = function

    def call(*args: Any, **kwargs: Any) -> Any:
        process = os.getpid()
        try:
            value = inner(*args, **kwargs)
        except BaseException as error:
            end_child_of(process, function, error)
            _check_message(error)
            raise
        if os.getpid() != process:
            end_child_of(process, function)
        return value

    async def call_async(*args: Any, **kwargs: Any) -> Any:
        process = os.getpid()
        try:
            value = await inner(*args, **kwargs)
        except BaseException as error:
            end_child_of(process, function, error)
            for kind, exit_of_task in _EXITS.items():
                if isinstance(error, kind):
                    raise exit_of_task(str(error)) from error
            _check_message(error)
            raise
        if os.getpid() != process:
            end_child_of(process, function)
        return value

    chosen: Any = call_async if inspect.iscoroutinefunction(function) else call
    return wraps(function)(chosen)


def _check_message(error: BaseException) -> None:
    try:
        str(error)
    except Exception as trouble:
        message = f"{type(error).__name__} was raised, whose message cannot be shown: {type(trouble).__name__}"
        raise RuntimeError(message) from None
