"""Short jobs on the embedded engine: claimed together and ended together, with one commit for all of them.

1. A worker holds no more jobs than it has threads: those that wait in a bundle are no more than threads that are free.
2. What waits there needs no thread that is at work: if its job takes long, another thread takes the rest, and writes
   down what has ended, within milliseconds (fetcher.py, 4 and 5).
3. So there is something ended and not yet written only while something waits.
4. A job beside which a worker has died before is in no bundle, nor is there one beside it: whatever it does, it does
   to few others.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Final, NamedTuple

from penstock.jobs.worker.context import Run

MOST_TOGETHER: Final = 16
LINGER_SECONDS: Final = 0.003
"""How long an end may wait for others to be written with it, where its thread goes on."""


class Returned(NamedTuple):
    """A run whose task has returned, and the text of what."""

    run: Run
    result: str


class Bundle:
    """What a worker's threads share of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Run] = deque()
        self._ended: list[Returned] = []
        self._oldest = 0.0

    def __len__(self) -> int:
        """How many are claimed, and not begun."""
        return len(self._waiting)

    def add(self, claimed: Iterable[Run]) -> None:
        with self._lock:
            self._waiting.extend(claimed)

    def begun(self) -> Run | None:
        """One that waits, for the caller to run."""
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def ended(self, run: Run, result: str) -> Run | None:
        """Puts down that this one has ended. The next one to run; None if the ends should be written first."""
        with self._lock:
            now = time.monotonic()
            if not self._ended:
                self._oldest = now
            self._ended.append(Returned(run, result))
            if len(self._waiting) > 1 and now - self._oldest < LINGER_SECONDS:  # (3)
                return self._waiting.popleft()
            return None

    def take_ended(self) -> list[Returned]:
        """All that has ended, for the caller to write down."""
        with self._lock:
            taken, self._ended = self._ended, []
            return taken


class Turn:
    """Who may write: one thread at a time; and for how long it was anybody's turn."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since = 0.0
        self._held = 0.0

    def __enter__(self) -> None:
        self._lock.acquire()
        self._since = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held += time.monotonic() - self._since
        self._since = 0.0
        self._lock.release()

    def held(self) -> float:
        """Seconds in all, until now."""
        since = self._since
        return self._held + (time.monotonic() - since if since else 0.0)
