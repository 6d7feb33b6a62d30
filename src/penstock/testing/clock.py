"""A clock for tests: it ticks as the machine's does, and jumps when it is moved."""

from __future__ import annotations

import time


class MovableClock:
    """The machine's time plus what it was advanced by.

    It ticks, unlike `penstock.clock.ManualClock`, so code under test that reads `time.time()` agrees with it
    until it is moved.
    """

    def __init__(self) -> None:
        self._ahead = 0.0

    def now(self) -> float:
        return time.time() + self._ahead

    def advance(self, seconds: float) -> None:
        """Moves the time `seconds` forward."""
        self._ahead += seconds
