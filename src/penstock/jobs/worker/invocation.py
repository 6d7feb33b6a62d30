"""How a task's function is called: whatever it does, its worker can go on.

1. A child that it forks does not come back from it (records/forks.py).
2. `SystemExit` and `KeyboardInterrupt` of an `async def` task are about its job: asyncio would end the event loop, in
   which all of a worker's async tasks run.
3. An exception that cannot be shown, because its `__str__` raises, is replaced by one that can.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

from penstock.records.forks import without_children

T = TypeVar("T")


class _Exit(BaseException):
    """What an async task has raised to leave (2). Like that, it is no Exception: it is not retried unasked."""


_EXITS: Final = {kind: type(kind.__name__, (_Exit,), {}) for kind in (SystemExit, KeyboardInterrupt)}
"""By the same names: they are the kinds of the jobs' errors."""


def protected(function: Callable[..., T]) -> Callable[..., T]:
    """The function, as a worker calls it."""
    inner: Any = without_children(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return inner(*args, **kwargs)
        except BaseException as error:
            _check_message(error)
            raise

    async def call_async(*args: Any, **kwargs: Any) -> Any:
        try:
            return await inner(*args, **kwargs)
        except (SystemExit, KeyboardInterrupt) as error:
            raise _EXITS[SystemExit if isinstance(error, SystemExit) else KeyboardInterrupt](str(error)) from error
        except BaseException as error:
            _check_message(error)
            raise

    chosen: Any = call_async if inspect.iscoroutinefunction(function) else call
    return wraps(function)(chosen)


def _check_message(error: BaseException) -> None:
    try:
        str(error)
    except Exception as trouble:
        message = f"{type(error).__name__} was raised, whose message cannot be shown: {type(trouble).__name__}"
        raise RuntimeError(message) from None
