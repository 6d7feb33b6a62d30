"""One attempt: the function run on one record, in this thread or in another process, and what came of it as a value.

Whatever the function raises, `SystemExit` and `KeyboardInterrupt` included, becomes a `Failure`: it is about the
record, and ends nothing else. Whether it is worth another attempt is decided here too, where the exception itself is at
hand.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.client.tables.values import Item
from penstock.records.executors.forks import end_child_of
from penstock.retry import Failure, RetryPolicy

Function = Callable[[Item], Mapping[str, Any] | None]
"""What is done with a record. What it returns is set in the record, together with the mark that it is done."""

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
        result = function(item)
        end_child_of(process, function)
        return Ended(checked_result(result))
    except BaseException as error:
        end_child_of(process, function, error)
        return Ended(failure=failure_of(error, policy))


def checked_result(result: object) -> dict[str, Any] | None:
    """The attributes to set; BadResult for what is none."""
    if result is None:
        return None
    if isinstance(result, Mapping):
        return dict(result)
    hint = ""
    if inspect.isgenerator(result) or inspect.iscoroutine(result):
        result.close()  # it has not begun, and nobody will run it
        hint = ": nothing of its body has run. Use a function without yield, or one that is not async"
    raise BadResult(
        f"the function returned a {type(result).__name__}{hint}. It returns None, or a dict of attributes to set"
    )


def check_function(function: object) -> None:
    """Refuses at once what could never work."""
    if not callable(function):
        raise TypeError(f"process_all takes a function of one record, not {function!r}")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError("the function is async: give one that runs it, such as lambda record: asyncio.run(f(record))")
    if inspect.isgeneratorfunction(function):
        raise TypeError("the function has a yield, so calling it runs nothing of it: return None or a dict instead")


def failure_of(error: BaseException, policy: RetryPolicy) -> Failure:
    # The same function returns the same kind of thing: another attempt at a bad result is in vain.
    retryable = policy.covers(error) and not isinstance(error, BadResult)
    return Failure.of(error, retryable=retryable, characters=MESSAGE_CHARACTERS)
