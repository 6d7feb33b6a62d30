"""Time, passed in: everything that asks for the time asks a Clock, so that a test can move it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds since the epoch, as `time.time()` gives them."""

    def now(self) -> float: ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        return time.time()


class ManualClock:
    """A clock that stands still until it is moved: for tests."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds
