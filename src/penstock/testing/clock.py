"""A clock for tests: it ticks as the machine's does, and jumps when it is moved."""

from __future__ import annotations

import time
from collections.abc import Callable


class MovableClock:
    """The machine's time plus what it was advanced by.

    It ticks, unlike `penstock.clock.ManualClock`, so code under test that reads `time.time()` agrees with it
    until it is moved.
    """

    def __init__(self) -> None:
        self._ahead = 0.0
        self._followers: list[Callable[[], object]] = []

    def now(self) -> float:
        return time.time() + self._ahead

    def advance(self, seconds: float) -> None:
        """Moves the time `seconds` forward; what has become due by then is done when this returns."""
        self._ahead += seconds
        for follower in self._followers:
            follower()

    def call_when_moved(self, follower: Callable[[], object]) -> None:
        """Has `follower` called after each move."""
        self._followers.append(follower)
