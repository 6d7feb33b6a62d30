"""Retrying: which failures are worth another attempt, how often, after how long; and a failure as a value to store.

1. Whether an error is retried is decided by its type or its error code, never by its text.
2. Waits have full jitter: anything between nothing and a bound, which grows with each failure up to a cap.
3. Whatever was raised can be stored: its texts have a limit, and half surrogate pairs are spelt out.
"""

from __future__ import annotations

import builtins
import logging
import math
import random
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.stored_text import cut, storable

MOST_RETRIES: Final = 1_000_000
MESSAGE_CHARACTERS: Final = 2_000
TRACE_CHARACTERS: Final = 4_000
_KIND_CHARACTERS: Final = 100

Cause = type[BaseException] | str
"""An exception's type, or an error code such as "ThrottlingException"."""


class BadRetryPolicy(PenstockError, ValueError):
    """A retry policy or a backoff that cannot be so."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait after a failure: at most `base_seconds` after the first, `multiplier` times as long after each
    further one, never longer than `cap_seconds`.
    """

    base_seconds: float = 1.0
    multiplier: float = 2.0
    cap_seconds: float = 300.0

    def __post_init__(self) -> None:
        if not (self.base_seconds >= 0 and self.cap_seconds >= 0 and self.multiplier >= 1):  # also False for NaN
            raise BadRetryPolicy("A backoff has a base and a cap of 0 or more seconds, and a multiplier of 1 or more.")

    def bound(self, failures: int) -> float:
        """The longest wait after so many failures, the last one included."""
        try:
            return min(self.cap_seconds, self.base_seconds * self.multiplier ** max(failures - 1, 0))
        except OverflowError:
            return self.cap_seconds

    def wait(self, failures: int, draw: Callable[[], float] = random.random) -> float:
        """Seconds to wait after so many failures, with full jitter (2)."""
        return draw() * self.bound(failures)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often what failed is tried again, for which errors (types, or error codes), and after how long.

    `never_on` are the errors that are not retried although `on` has them.
    """

    times: int = 0
    on: tuple[Cause, ...] = (Exception,)
    never_on: tuple[Cause, ...] = ()
    base_seconds: float = 1.0
    cap_seconds: float = 300.0
    multiplier: float = 2.0

    def __post_init__(self) -> None:
        if type(self.times) is not int or not 0 <= self.times <= MOST_RETRIES:
            raise BadRetryPolicy(f"retries is a whole number from 0 to {MOST_RETRIES:,}, not {self.times!r}.")
        for name in ("on", "never_on"):
            given = getattr(self, name)
            causes = tuple(given) if isinstance(given, tuple | list) else (given,)
            if not all(_is_cause(cause) for cause in causes):
                raise BadRetryPolicy(
                    f"RetryPolicy({name}=…) has types of exceptions, such as (OSError,), and error codes, such as "
                    f'("ThrottlingException",); not {given!r}.'
                )
            object.__setattr__(self, name, causes)
        self.backoff  # noqa: B018 - it refuses what is wrong

    @property
    def backoff(self) -> Backoff:
        """How its waits grow."""
        return Backoff(self.base_seconds, self.multiplier, self.cap_seconds)

    def covers(self, error: BaseException) -> bool:
        """Whether an error of this kind is worth another attempt (1)."""
        return _is_one_of(error, self.on) and not _is_one_of(error, self.never_on)

    def allows(self, error: BaseException, failures: int) -> bool:
        """Whether there is another attempt after `failures` failed ones and this one."""
        return failures < self.times and self.covers(error)

    def delay(self, failures: int, draw: Callable[[], float] = random.random) -> float:
        """Seconds to wait after `failures` failed attempts and this one."""
        return self.backoff.wait(failures + 1, draw)


def _is_cause(cause: object) -> bool:
    if isinstance(cause, str):
        return not hasattr(builtins, cause)  # "OSError" is no error code: the type was meant
    return isinstance(cause, type) and issubclass(cause, BaseException)


def _is_one_of(error: BaseException, causes: tuple[Cause, ...]) -> bool:
    code = code_of(error)
    return any(code == cause if isinstance(cause, str) else isinstance(error, cause) for cause in causes)


NO_RETRIES: Final = RetryPolicy()

_TELL_SECONDS: Final = 30.0


class Outage:
    """A database that does not answer. All who wait for it share one: the log then has a line for it, not for each try.

    It is told when it begins, each half minute while it lasts, and when it is over.
    """

    def __init__(self, log: logging.Logger) -> None:
        self.began_at: float | None = None
        """By `time.monotonic`; None while the database answers."""
        self._log = log
        self._told_at = -math.inf
        self._lock = threading.Lock()

    def note(self, error: Exception) -> None:
        """A call had this instead of an answer."""
        now = time.monotonic()
        with self._lock:
            if self.began_at is None:
                self.began_at = now
            if now - self._told_at < _TELL_SECONDS:
                return
            self._told_at = now
        self._log.warning("The database does not answer, and is asked again until it does: %s", error)

    def end(self) -> None:
        """A call had its answer. Costs nothing where there was no outage."""
        if self.began_at is None:
            return
        with self._lock:
            began_at, self.began_at = self.began_at, None
            is_told = began_at is not None and self._told_at >= began_at
        if is_told and began_at is not None:
            self._log.warning("The database answers again, after %.1f s.", time.monotonic() - began_at)


@dataclass(frozen=True, slots=True)
class Failure:
    """How an attempt failed, as it is stored (3). `kind` is the error's type, `code` its error code if it has one."""

    kind: str
    message: str
    retryable: bool = False
    trace: str = ""
    code: str = ""

    @classmethod
    def of(
        cls, error: BaseException, *, retryable: bool = False, characters: int = MESSAGE_CHARACTERS, trace: bool = True
    ) -> Failure:
        """An exception as a failure whose message has at most so many characters."""
        kind = type(error).__name__[:_KIND_CHARACTERS]
        return cls(kind, message_of(error, characters), retryable, trace_of(error) if trace else "", code_of(error))

    @property
    def name(self) -> str:
        """The error code; the kind of an error that has none."""
        return self.code or self.kind

    @property
    def reason(self) -> str:
        return f"{self.kind}: {self.message}" if self.message else self.kind


def code_of(error: BaseException) -> str:
    """The error code of DynamoDB's and of boto's errors; empty for others."""
    code: Any = getattr(error, "code", None)
    if not isinstance(code, str):
        response = getattr(error, "response", None)
        details = response.get("Error") if isinstance(response, dict) else None
        code = details.get("Code") if isinstance(details, dict) else None
    return code[:_KIND_CHARACTERS] if isinstance(code, str) else ""


def message_of(error: BaseException, characters: int = MESSAGE_CHARACTERS) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its message cannot be shown)"
    return cut(text, characters)


def trace_of(error: BaseException) -> str:
    """The end of the traceback, where the error is; empty if it cannot be shown."""
    try:
        return storable("".join(traceback.format_exception(error))[-TRACE_CHARACTERS:])
    except Exception:
        return ""
