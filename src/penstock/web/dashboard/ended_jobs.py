"""How many jobs ended in each stretch of an hour, a day or a week.

No index has the time of an end, and nothing is counted when a job ends. So jobs that ended are read, newest first.
1. For an hour the overview's sample is used (job_counts.py).
2. For a day or a week a step reads at most `STEP_JOBS` jobs of each state, only while somebody looks at such a chart,
   and continues where the last step stopped. A round ends at the jobs that were made a week ago; the next one begins a
   minute later. Until the first round has ended, the chart says back to when jobs have been counted.
3. Where reads are paid for, a round ends after twice `PAID_JOBS` jobs.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.jobs.model.job import Job
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore

STEP_JOBS: Final = 500
FIRST_JOBS: Final = 100
PAID_JOBS: Final = 2_000
WEEK_SECONDS: Final = 7 * 86_400.0
_CELL_SECONDS: Final = 900.0
_ROUND_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Span:
    """What a chart covers, in bars of so many seconds, with so many labels below it."""

    name: str
    words: str
    seconds: float
    bar_seconds: float


SPANS: Final[Mapping[str, Span]] = {
    one.name: one
    for one in (
        Span("1h", "hour", 3_600.0, 60.0),
        Span("24h", "24 hours", 86_400.0, 1_800.0),
        Span("7d", "7 days", WEEK_SECONDS, 10_800.0),
    )
}


@dataclass(frozen=True, slots=True)
class Bar:
    start: float
    end: float
    completed: int
    failed: int


def bars(ends: Iterable[tuple[float, bool, int]], span: Span, now: float) -> list[Bar]:
    """Pure: `ends` are (when, whether it failed, how many). The last bar is the one that `now` is in."""
    last = now // span.bar_seconds
    count = int(span.seconds / span.bar_seconds)
    good, bad = [0] * count, [0] * count
    for at, failed, number in ends:
        place = count - 1 - int(last - at // span.bar_seconds)
        if 0 <= place < count:
            (bad if failed else good)[place] += number
    first = (last - count + 1) * span.bar_seconds
    starts = [first + place * span.bar_seconds for place in range(count)]
    return [Bar(at, at + span.bar_seconds, *two) for at, *two in zip(starts, good, bad, strict=True)]


@dataclass(frozen=True, slots=True)
class EndedView:
    ends: tuple[tuple[float, bool, int], ...]
    since: float | None
    """Jobs that were made since then are counted; None for all of the week."""


class _StateRead:
    """The jobs of one state, read from the newest to those that were made a week ago."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.waiting: list[Job] = []
        """Read, and not counted yet."""
        self.is_done = False
        self._token: str | None = None

    def read(self, store: JobStore, now: float, most: int) -> int:
        page = store.find(state=self.state, since=now - WEEK_SECONDS, limit=most, token=self._token)
        self.waiting += page.jobs
        self._token, self.is_done = page.token, page.token is None
        return len(page.jobs)


class EndedJobs:
    """Safe to share between threads.

    Both states are counted back to the same time of making: otherwise the rarer one, of which a page reaches further
    back, would have too large a share until all have been read.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._view = EndedView((), None)
        self._next_at = 0.0
        self._is_begun = self._is_known = False
        self._begin()

    def _begin(self) -> None:
        self._reads = (_StateRead(State.COMPLETED), _StateRead(State.FAILED))
        self._cells: Counter[tuple[float, bool]] = Counter()
        self._seen = 0

    def current(self, store: JobStore, now: float) -> EndedView:
        """What is known; a little is read if nothing is."""
        with self._lock:
            if not self._is_begun:
                self._step(store, now, FIRST_JOBS)
            return self._view

    def refresh(self, store: JobStore, now: float) -> EndedView:
        """Reads on, then what is known (2)."""
        with self._lock:
            self._step(store, now, STEP_JOBS)
            return self._view

    def _step(self, store: JobStore, now: float, most: int) -> None:
        if now < self._next_at:
            return
        self._is_begun = True
        for one in self._reads:
            if not one.is_done and not one.waiting:  # else the other state has to catch up
                self._seen += one.read(store, now, most)
        oldest = [one.waiting[-1].created_at if one.waiting else now for one in self._reads if not one.is_done]
        since = max(oldest, default=None)
        for one in self._reads:
            counted = [job for job in one.waiting if since is None or job.created_at >= since]
            for job in counted:
                ended_at = job.ended_at or job.updated_at
                self._cells[ended_at // _CELL_SECONDS * _CELL_SECONDS, one.state is State.FAILED] += 1
            one.waiting = one.waiting[len(counted) :]
        is_over = since is None or (store.db.capabilities.metered and self._seen >= 2 * PAID_JOBS)
        if is_over or not self._is_known:
            self._view = EndedView(tuple((at, failed, number) for (at, failed), number in self._cells.items()), since)
        if is_over:
            self._is_known = True
            self._begin()
            self._next_at = now + _ROUND_SECONDS
