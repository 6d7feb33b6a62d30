"""How a task's function is called: whatever it does, its worker can go on.

1. A child that it forks does not come back from it (records/forks.py).
2. `SystemExit` and `KeyboardInterrupt` of an `async def` task are about its job: asyncio would end the event loop, in
   which all of a worker's async tasks run.
3. An exception that cannot be shown, because its `__str__` raises, is replaced by one that can.
4. The user's hooks run around it (jobs/hooks.py). A task without any is called as if there were none.
5. What is logged while it runs carries the job's id, its task and the attempt (log_context.py).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

from penstock.jobs.context import AsyncJobContext, JobContext
from penstock.jobs.hooks import NO_HOOKS, Hooks, check_kind, with_hooks
from penstock.jobs.tasks import Task
from penstock.jobs.worker.log_context import CURRENT_JOB
from penstock.records.forks import end_child_of

T = TypeVar("T")


class _Exit(BaseException):
    """What an async task has raised to leave (2). Like that, it is no Exception: it is not retried unasked."""


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
            return function(context, **arguments) if takes_context else function(**arguments)
        finally:
            CURRENT_JOB.set(None)

    async def call_async(context: AsyncJobContext, /, **arguments: Any) -> Any:
        CURRENT_JOB.set(context.job)  # in the coroutine's own copy of the variables
        return await (function(context, **arguments) if takes_context else function(**arguments))

    return call_async if task.is_async else call


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
