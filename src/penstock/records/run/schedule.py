"""What is to be done next: records that were read, and records that wait for their time; and which are left to others.

1. It is bounded: the feeder waits for room, and what has no room among the waiting is in the table, for the next pass.
2. A record that waits occupies no worker.
3. `idle` means that nothing is ready, nothing waits and nobody works.

Processors that read the same page at the same time want the same records, and all claims but one of each are in vain.
Those who see each other, by their leases, share a page instead: a hash of each record's key says whose it is. Nothing
depends on it that all agree, or are right about who is there: what is left to another is looked at again in the next
pass, and a claim is decided by its condition alone.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any, Final
from zlib import crc32

import orjson

from penstock.clock import Clock
from penstock.records.record_state import NotOurs, RecordState
from penstock.records.source import Candidate
from penstock.wire.values import AttributeValue

MOST_WAITING: Final = 10_000
LOW_WATER: Final = 32
"""Records ready below which the feeder reads its next page; twice the workers where they are more."""

_NEVER: Final = 1 << 60
_LONGEST_WAIT: Final = 0.5  # so that a clock that was moved is noticed


@dataclass(frozen=True, slots=True)
class QueuedRecord:
    """A record to look at. `awaited` is how it stood in another's hands at the last of `looks` looks."""

    candidate: Candidate
    awaited: RecordState | None = None
    looks: int = 0


class RecordQueue:
    """Between one feeder and many workers."""

    def __init__(self, clock: Clock, *, workers: int = 1) -> None:
        self._clock = clock
        self._low_water = max(LOW_WATER, 2 * workers)
        lock = threading.Lock()
        self._work = threading.Condition(lock)
        self._room = threading.Condition(lock)
        self._ready: deque[Candidate] = deque()
        self._later: list[tuple[float, int, QueuedRecord]] = []
        self._serial = count()
        self._ends: deque[Any] = deque()
        self._gathered = 1
        self._busy = 0
        self._closed = False
        self.stopping = False

    @property
    def waiting(self) -> int:
        return len(self._ready) + len(self._later)

    # ── the feeder's side ────────────────────────────────────────────────────────────────────────

    def wait_for_room(self) -> bool:
        """Until the next page is wanted: one that is read earlier is older when it is used. False: none is."""
        with self._room:
            while len(self._ready) >= self._low_water and not self.stopping:
                self._room.wait()
            return not self.stopping

    def feed(self, page: Iterable[Candidate]) -> None:
        """Hands over a page."""
        with self._room:
            self._ready.extend(page)
            self._work.notify_all()

    def wait_until_begun(self) -> bool:
        """Until somebody has taken all that was handed over. False if it was stopped before."""
        with self._room:
            while self._ready and not self.stopping:
                self._room.wait()
            return not self.stopping

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

    def take(self) -> QueuedRecord | None:
        """The next record to look at, waited for; None when there will be none. `tasks_done` is called after it."""
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
                    return QueuedRecord(self._ready.popleft())
                if self._closed and not self._later and not self._busy:
                    return None
                self._work.wait(min(wait, _LONGEST_WAIT) if self._later else None)
            return None

    # ── the group writer's side ────────────────────────────────────────────────────────────────

    def report(self, end: Any) -> None:
        """A worker is done with what it was given; the group writer hears of it in its next batch."""
        self._ends.append(end)  # without the lock: most ends wake nobody
        if len(self._ends) >= self._gathered:
            with self._work:
                self._gathered = _NEVER  # the group writer has been called
                self._work.notify()

    def batch(
        self, room: int, in_hand: int, gather: int, linger: float = 0.0, *, hungry: bool = False
    ) -> tuple[list[Any], list[QueuedRecord]] | None:
        """What has ended, and records to look at: `room` at most, and one in place of each. None when all is over.

        It waits for them, and lingers until `gather` have ended, `linger` seconds at most; who is `hungry` does not
        where records are ready.
        """
        with self._work:
            lingered = gather == 1
            while True:
                self._gathered = 1 if lingered else gather  # from now on, so many wake us
                enough = 1 if lingered or self.stopping or (hungry and self._ready) else gather
                if len(self._ends) >= enough:
                    ends = self._take_ends()
                    return ends, [] if self.stopping else self._next(room + len(ends))
                if not self._ends and not self.stopping and (tasks := self._next(room)):
                    return [], tasks
                if not in_hand and self._closed and (self.stopping or self._is_idle()):
                    return None
                lingered = not self._work.wait(self._until_next(room, None if lingered else linger)) or lingered

    def gather_more(self, number: int, seconds: float) -> tuple[list[Any], list[QueuedRecord]]:
        """What has ended until `number` have, `seconds` at most; and one record to look at in place of each."""

        def have_ended() -> bool:
            self._gathered = number
            return len(self._ends) >= number or self.stopping

        with self._work:
            self._work.wait_for(have_ended, seconds)
            ends = self._take_ends()
            return ends, [] if self.stopping else self._next(len(ends))

    def _take_ends(self) -> list[Any]:
        return [self._ends.popleft() for _ in range(len(self._ends))]

    def _until_next(self, room: int, linger: float | None) -> float | None:
        if linger is not None:
            return linger
        if self._later and room > 0:
            return max(min(self._later[0][0] - self._clock.now(), _LONGEST_WAIT), 0.0)
        return None

    def _next(self, room: int) -> list[QueuedRecord]:
        tasks: list[QueuedRecord] = []
        while len(tasks) < room and self._later and self._later[0][0] <= self._clock.now():
            tasks.append(heapq.heappop(self._later)[2])
        while len(tasks) < room and self._ready:
            tasks.append(QueuedRecord(self._ready.popleft()))
        self._busy += len(tasks)
        if tasks and len(self._ready) <= self._low_water:
            self._room.notify()
        return tasks

    # ── both ─────────────────────────────────────────────────────────────────────────────────────

    def postpone(self, task: QueuedRecord, due: float) -> bool:
        """To be looked at again at `due`. False if too many wait (1)."""
        with self._work:
            if len(self._later) >= MOST_WAITING:
                return False
            heapq.heappush(self._later, (due, next(self._serial), task))
            self._work.notify()
            return True

    def tasks_done(self, number: int = 1) -> None:
        """So many of those that were taken are done with."""
        with self._work:
            self._busy -= number
            if self._is_idle():
                self._room.notify()
                self._work.notify_all()

    @property
    def idle(self) -> bool:
        """(3)"""
        with self._work:
            return self._is_idle()

    def _is_idle(self) -> bool:
        return not (self._busy or self._ready or self._later)


_NEAR_PAGES: Final = 2
"""How many pages ago another processor was last met. One that is further away is not in the way."""

_MOST: Final = 1_000  # that are remembered


class OtherProcessors:
    """Those of one run. What they hold is told by the feeder from its pages, and by claims that were in vain."""

    def __init__(self, owner: str, clock: Clock) -> None:
        self._owner = owner
        self._clock = clock
        self._page = 0
        self._seen_at: dict[str, int] = {}

    def note_seen(self, state: RecordState) -> None:
        """Another holds a record here. One that has neither claimed nor renewed for half a lease may be dead."""
        is_alive = self._clock.now() < state.until - state.lease / 2
        if state.owner != self._owner and is_alive and len(self._seen_at) < _MOST:
            self._seen_at[state.owner] = self._page

    def select_ours(self, page: list[Candidate], number: int) -> list[Candidate]:
        """What is ours of a page, in the pass of this number."""
        self._page += 1
        free = [one for one in page if one.state is None or self._is_free(one.state, number)]
        near = self._near()
        if not near:
            return free
        near.append(self._owner)
        near.sort()
        ours, salt = near.index(self._owner), number.to_bytes(4, "big")
        return [one for one in free if crc32(salt + orjson.dumps(one.key)) % len(near) == ours]

    def _is_free(self, value: AttributeValue, number: int) -> bool:
        """Whether nobody holds it. What failed a moment ago is not free either, in passes that follow at once: if it
        failed here, it is scheduled already.
        """
        try:
            state = RecordState.of(value)
        except NotOurs:
            return True  # whoever claims it says so
        now = self._clock.now()
        if state.owner:
            self.note_seen(state)
            return now >= state.takeable_at
        return not number or now >= state.due

    def _near(self) -> list[str]:
        for owner, page in list(self._seen_at.items()):
            if page < self._page - _NEAR_PAGES:
                self._seen_at.pop(owner, None)
        return list(self._seen_at)
