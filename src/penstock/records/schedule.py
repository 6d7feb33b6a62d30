"""What is to be done next: records that were read, and records that wait for their time.

1. It is bounded: the feeder waits for room, and what has no room among the waiting is in the table, for the next pass.
2. A record that waits occupies no worker.
3. `idle` means that nothing is ready, nothing waits and nobody works.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Final

from penstock.clock import Clock
from penstock.records.standing import Standing
from penstock.records.work import Found

MOST_WAITING: Final = 10_000
LOW_WATER: Final = 100
"""Records ready below which the feeder hands over its next page."""

_LONGEST_WAIT: Final = 0.5  # so that a clock that was moved is noticed


@dataclass(frozen=True, slots=True)
class Task:
    """A record to look at. `awaited` is how it stood when it was found in another's hands."""

    found: Found
    awaited: Standing | None = None


class Schedule:
    """Between one feeder and many workers."""

    def __init__(self, clock: Clock, *, workers: int = 1) -> None:
        self._clock = clock
        self._low_water = max(LOW_WATER, 2 * workers)
        lock = threading.Lock()
        self._work = threading.Condition(lock)
        self._room = threading.Condition(lock)
        self._ready: deque[Found] = deque()
        self._later: list[tuple[float, int, Task]] = []
        self._serial = count()
        self._busy = 0
        self._closed = False
        self.stopping = False

    @property
    def waiting(self) -> int:
        return len(self._ready) + len(self._later)

    # ── the feeder's side ────────────────────────────────────────────────────────────────────────

    def feed(self, page: Iterable[Found]) -> bool:
        """Hands over a page, when there is room. False: no more is wanted."""
        with self._room:
            while len(self._ready) >= self._low_water and not self.stopping:
                self._room.wait()
            if self.stopping:
                return False
            self._ready.extend(page)
            self._work.notify_all()
            return True

    def wait_until_idle(self) -> bool:
        """False if it was stopped before."""
        with self._room:
            while not self._is_idle() and not self.stopping:
                self._room.wait()
            return not self.stopping

    def close(self) -> None:
        """Nothing more will come: workers that find nothing may go."""
        with self._work:
            self._closed = True
            self._work.notify_all()

    def stop(self) -> None:
        """Nobody begins anything more."""
        with self._work:
            self.stopping = self._closed = True
            self._work.notify_all()
            self._room.notify_all()

    # ── the workers' side ────────────────────────────────────────────────────────────────────────

    def take(self) -> Task | None:
        """The next record to look at, waited for; None when there will be none. `ended` is called after it."""
        with self._work:
            while not self.stopping:
                wait = _LONGEST_WAIT
                if self._later:
                    wait = self._later[0][0] - self._clock.now()
                    if wait <= 0:
                        self._busy += 1
                        return heapq.heappop(self._later)[2]
                if self._ready:
                    self._busy += 1
                    if len(self._ready) <= self._low_water:
                        self._room.notify()
                    return Task(self._ready.popleft())
                if self._closed and not self._later and not self._busy:
                    return None
                self._work.wait(min(wait, _LONGEST_WAIT) if self._later else None)
            return None

    def postpone(self, task: Task, due: float) -> bool:
        """To be looked at again at `due`. False if too many wait (1)."""
        with self._work:
            if len(self._later) >= MOST_WAITING:
                return False
            heapq.heappush(self._later, (due, next(self._serial), task))
            self._work.notify()
            return True

    def ended(self) -> None:
        """A worker is done with what it took."""
        with self._work:
            self._busy -= 1
            if self._is_idle():
                self._room.notify()
                self._work.notify_all()

    def _is_idle(self) -> bool:
        return not (self._busy or self._ready or self._later)
