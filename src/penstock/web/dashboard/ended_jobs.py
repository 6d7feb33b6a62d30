"""How many jobs ended in each stretch of an hour, a day or a week.

No index has the time of an end, and nothing is counted when a job ends. So jobs that ended are read, newest first.
1. For an hour the overview's sample is used (job_counts.py).
2. For a day or a week a step reads at most `STEP_JOBS` jobs of each state, only while somebody looks at such a chart,
   and continues where the last step stopped. A round ends at the jobs that were made a week ago; the next one begins a
   minute later. Until the first round has ended, the chart says back to when jobs have been counted.
3. Where reads are paid for, a round ends after `PAID_JOBS` jobs of each state.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

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
    """Back to which time of making jobs were counted; None for all of the week."""


class _StateRound:
    def __init__(self, state: State) -> None:
        self.state = state
        self.cells: Counter[float] = Counter()
        self.last: Counter[float] | None = None
        self.since = float("inf")
        self.was_cut = False
        self._seen = 0
        self._token: str | None = None
        self._next_at = 0.0

    def step(self, store: JobStore, now: float, most: int) -> None:
        if now < self._next_at:
            return
        page = store.find(state=self.state, since=now - WEEK_SECONDS, limit=most, token=self._token)
        for job in page.jobs:
            self.cells[(job.ended_at or job.updated_at) // _CELL_SECONDS * _CELL_SECONDS] += 1
            self.since = min(self.since, job.created_at)
        self._seen += len(page.jobs)
        self._token = page.token
        is_paid = store.db.capabilities.metered
        if page.token is None or (is_paid and self._seen >= PAID_JOBS):
            self.was_cut = page.token is not None
            self.last, self.cells = self.cells, Counter()
            self._seen, self._token, self._next_at = 0, None, now + _ROUND_SECONDS

    @property
    def best(self) -> Counter[float]:
        return self.cells if self.last is None else self.last

    @property
    def is_whole(self) -> bool:
        return self.last is not None and not self.was_cut


class EndedJobs:
    """Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rounds = (_StateRound(State.COMPLETED), _StateRound(State.FAILED))
        self._is_begun = False

    def current(self, store: JobStore, now: float) -> EndedView:
        """What is known; a little is read if nothing is."""
        with self._lock:
            if not self._is_begun:
                self._step(store, now, FIRST_JOBS)
            return self._view()

    def refresh(self, store: JobStore, now: float) -> EndedView:
        """Reads on, then what is known (2)."""
        with self._lock:
            self._step(store, now, STEP_JOBS)
            return self._view()

    def _step(self, store: JobStore, now: float, most: int) -> None:
        self._is_begun = True
        for one in self._rounds:
            one.step(store, now, most)

    def _view(self) -> EndedView:
        ends = tuple((at, one.state is State.FAILED, number) for one in self._rounds for at, number in one.best.items())
        known = [one.since for one in self._rounds if not one.is_whole and one.since != float("inf")]
        return EndedView(ends, max(known) if known else None)
