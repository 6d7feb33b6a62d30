"""One attempt: the function run on one record, in this thread or in another process, and what came of it as a value.

Whatever the function raises, `SystemExit` and `KeyboardInterrupt` included, becomes a `Failure`: it is about the
record, and ends nothing else. Whether it is worth another attempt is decided here too, where the exception itself is at
hand: by its type or its error code, never by its text.
"""

from __future__ import annotations

import inspect
import os
import random
import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.client.items.values import Item
from penstock.records.executors.forks import end_child_of

Function = Callable[[Item], Mapping[str, Any] | None]
"""What is done with a record. What it returns is set in the record, together with the mark that it is done."""

MESSAGE_CHARACTERS: Final = 500
TRACE_CHARACTERS: Final = 4_000
_KIND_CHARACTERS: Final = 100

Cause = type[BaseException] | str
"""An exception's type, or an error code such as "ThrottlingException"."""


class BadResult(TypeError):
    """The function returned something that is no attributes."""


@dataclass(frozen=True, slots=True)
class Failure:
    """How an attempt failed. `kind` is the error's code, where it has one, or the name of its type."""

    kind: str
    message: str
    retryable: bool
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt's end: attributes to set, or a failure."""

    result: dict[str, Any] | None = None
    failure: Failure | None = None


@dataclass(frozen=True)
class RetryRules:
    """Which failures are worth another attempt: those of `retry_on` that are not of `give_up_on`."""

    retry_on: tuple[Cause, ...] = (Exception,)
    give_up_on: tuple[Cause, ...] = ()

    def __post_init__(self) -> None:
        for cause in (*self.retry_on, *self.give_up_on):
            if not isinstance(cause, str) and not (isinstance(cause, type) and issubclass(cause, BaseException)):
                raise TypeError(f"retry_on and give_up_on have types of exceptions and error codes, not {cause!r}")

    def retryable(self, error: BaseException) -> bool:
        if isinstance(error, BadResult):
            return False  # the same function returns the same kind of thing
        return _is_one_of(error, self.retry_on) and not _is_one_of(error, self.give_up_on)


@dataclass(frozen=True)
class Backoff:
    """Waits between attempts: full jitter below a bound that grows up to a cap."""

    base_seconds: float = 0.1
    multiplier: float = 2.0
    cap_seconds: float = 30.0

    def __post_init__(self) -> None:
        if not (self.base_seconds >= 0 and self.cap_seconds >= 0 and self.multiplier >= 1):
            raise ValueError("a back-off has a base and a cap of 0 or more, and a multiplier of 1 or more")

    def seconds(self, failures: int, draw: random.Random) -> float:
        """How long to wait after so many failures."""
        try:
            bound = self.base_seconds * self.multiplier ** max(failures - 1, 0)
        except OverflowError:
            bound = self.cap_seconds
        return draw.uniform(0.0, min(bound, self.cap_seconds))


def attempt(function: Function, item: Item, rules: RetryRules, serial: int = 0) -> Ended:
    """Runs the function. Never raises; `serial` makes each call a different one for executors that reuse results."""
    del serial
    process = os.getpid()
    try:
        result = function(item)
        end_child_of(process, function)
        return Ended(checked_result(result))
    except BaseException as error:
        end_child_of(process, function, error)
        return Ended(failure=failure_of(error, rules))


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


def failure_of(error: BaseException, rules: RetryRules) -> Failure:
    return Failure(kind_of(error), message_of(error), rules.retryable(error), _trace(error))


def code_of(error: BaseException) -> str:
    """The error code of DynamoDB's and of boto's errors; empty for others."""
    code = getattr(error, "code", None)
    if not isinstance(code, str):
        response = getattr(error, "response", None)
        details = response.get("Error") if isinstance(response, dict) else None
        code = details.get("Code") if isinstance(details, dict) else None
    return code if isinstance(code, str) else ""


def kind_of(error: BaseException) -> str:
    return (code_of(error) or type(error).__name__)[:_KIND_CHARACTERS]


def message_of(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its message cannot be shown)"
    return clean(text)[:MESSAGE_CHARACTERS]


def clean(text: str) -> str:
    """Text that any database holds."""
    return text.encode("utf-8", "replace").decode()


def _trace(error: BaseException) -> str:
    try:
        lines = "".join(traceback.format_exception(error))
    except Exception:
        return ""
    return clean(lines)[-TRACE_CHARACTERS:]


def _is_one_of(error: BaseException, causes: tuple[Cause, ...]) -> bool:
    code = code_of(error)
    return any(code == cause if isinstance(cause, str) else isinstance(error, cause) for cause in causes)


_VARIABLE = re.compile(
    r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|\b(?=[0-9a-f]*[0-9])[0-9a-f]{8,}\b|'[^']*'|\"[^\"]*\"|\d+", re.IGNORECASE
)


def normalised(message: str) -> str:
    """A message without what differs from record to record: numbers, ids and what stands in quotes become `…`."""
    return _VARIABLE.sub("…", message.partition("\n")[0])[:200]
