"""Python's interpreter, which one thread has at a time: whether functions that compute keep the clerk from it.

A thread that computes gives it away after a switch interval (5 ms), to any of those who wait. One that writes asks for
it anew after each SQL statement: beside eight threads that computed, a transaction of 6 ms took 80, with the file's
lock in its hands, for which other processes waited. So there the clerk lets functions finish before it writes.

1. It does so only where it has been kept waiting for the interpreter: where functions sleep, or compute outside of it,
   nobody waits for them. A wait in which this process did not compute was for a core: other processes keep the machine
   busy, and no function is to blame.
2. It waits only while this process computes, and no longer than functions usually take: no core is idle for it.
3. Where it waited in vain, because nothing computed, it does not wait again for a while.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

_LOOK_SECONDS: Final = 0.05
"""How often the clerk looks whether it is kept waiting."""

_SLEEP_SECONDS: Final = 0.0001
_WEIGHT: Final = 1 / 4  # of the last one among the usual waits
_STEP_SECONDS: Final = 0.02
_COMPUTES: Final = 0.25
"""The part of a core that is computing: of four processes on two cores, each has a half."""

_LONGEST_SECONDS: Final = 0.5
_REST_SECONDS: Final = 2.0


class Interpreter:
    """As one thread, the clerk of a run, finds it. `now` and `used` tell the time, and the CPU time of the process."""

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        used: Callable[[], float] = time.process_time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._now = now
        self._used = used
        self._sleep = sleep
        self._usual_wait = 0.0
        self._next_look = 0.0
        self._rests_until = 0.0

    def is_crowded(self) -> bool:
        """Whether it is worth while to let functions finish (1, 3)."""
        now = self._now()
        if now >= self._next_look:
            self._look(now)
        return self._usual_wait >= sys.getswitchinterval() / 2 and now >= self._rests_until

    def _look(self, now: float) -> None:
        """Gives the interpreter away, and sees when it is back."""
        used = self._used()
        self._sleep(_SLEEP_SECONDS)
        back = self._now()
        waited = back - now if self._used() - used >= (back - now) * _COMPUTES else 0.0  # (1)
        self._usual_wait += (waited - self._usual_wait) * _WEIGHT
        self._next_look = back + _LOOK_SECONDS

    def let_finish(self, usual_seconds: float, finished: Callable[[float], bool]) -> None:
        """Waits for functions (2). `finished` waits for them, so many seconds at most, and says whether they are."""
        end = self._now() + min(2 * usual_seconds, _LONGEST_SECONDS)
        while (began := self._now()) < end:
            used = self._used()
            if finished(_STEP_SECONDS):
                return
            if self._used() - used < (self._now() - began) * _COMPUTES:
                self._rests_until = self._now() + _REST_SECONDS  # (3)
                return
