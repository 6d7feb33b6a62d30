"""Where a worker's threads get jobs from.

1. However many threads wait, one of them asks the database; what it finds is for all.
2. When there is nothing to do, it asks less and less often, down to once in `idle_seconds`: an idle worker costs next
   to nothing. It knows when the next lease runs out or the next job is due, and asks then; a job that this process
   enqueues wakes it at once.
3. What it holds are candidates: a job is a worker's only when its claim has been written.
4. Where the worker's threads write in turn, one more begins only while the turn is mostly nobody's: short jobs are then
   run by one or two threads, which do not share the interpreter with the others; long ones soon by all.
5. Jobs that are claimed and wait for a thread (group_commit.py) go first; whoever is handed one of them writes what
   has ended before it.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Literal

from penstock.jobs.model.job import Job
from penstock.jobs.store.queries import Claimable
from penstock.jobs.store.store import JobStore
from penstock.jobs.worker.context import Run
from penstock.jobs.worker.group_commit import Bundle, Turn

_FIRST_PAUSE_SECONDS: Final = 0.02
DEFAULT_IDLE_SECONDS: Final = 1.0
_CANDIDATES: Final = 96
_WAKE_SECONDS: Final = 0.25
_WATCH_SECONDS: Final = 0.004
_LONGEST_WATCH_SECONDS: Final = 0.016
_MOST_CANDIDATES: Final = 2_048
LATER_SECONDS: Final = 0.5
_EMPTY_QUERY_UNITS: Final = 0.5
_MOSTLY: Final = 0.4

Verdict = Literal["take", "later", "leave"]
"""What a worker says of a candidate: that it can run it, that it can later, or that it never can."""


class Feed:
    def __init__(
        self,
        store: JobStore,
        queues: tuple[str, ...],
        *,
        verdict: Callable[[Job], Verdict],
        idle_seconds: float = DEFAULT_IDLE_SECONDS,
        burst: bool = False,
        turn: Turn | None = None,
    ) -> None:
        self._store = store
        self._queues = queues
        self._verdict = verdict
        self._idle_seconds = idle_seconds
        self._burst = burst
        self._changed = threading.Condition()
        self._candidates: deque[Job] = deque()
        self._in_hand: set[str] = set()
        self.bundle = Bundle()
        self._turn = turn
        self._active = 0
        self._watching = False
        self._watch = _WATCH_SECONDS
        self._asking = False
        self._found_last = False
        self._wake_at = 0.0
        self._pause = _FIRST_PAUSE_SECONDS
        self._ask_at = 0.0
        self._stopped = False
        self.polls = 0
        """How often the database was asked."""

    @property
    def read_units(self) -> float:
        """What asking has cost at least: a consistent GetItem, and two Queries for each shard."""
        return self.polls * (1 + 2 * self._store.layout.shards * _EMPTY_QUERY_UNITS)

    @property
    def active(self) -> int:
        """How many threads have taken something and not come back."""
        return self._active

    def take(self, *, back: bool = False) -> Run | Job | None:
        """A job that is claimed, or a candidate; None when the worker stops, or (in a burst) when there is no more.

        `back` says that the thread is done with the one that it took before.
        """
        if back:
            self.came_back()
        while True:
            with self._changed:
                if self._wait():
                    return self._handed_out()
                self._asking = True
            self._ask()

    def came_back(self) -> None:
        """A thread is done with what it took: its job has ended, or is another's."""
        with self._changed:
            self._active -= 1
            if self._burst and not self._active:
                self._ask_at = 0.0  # whether there is nothing more can be told only now
                self._changed.notify_all()

    def _handed_out(self) -> Run | Job | None:
        taken = None if self._stopped else self.bundle.begun() or self._pop()
        self._active += taken is not None
        if self._candidates:
            self._changed.notify()  # one of those who wait watches now
        return taken

    def take_at_hand(self) -> Job | None:
        """A candidate that is there already; None where one would have to wait."""
        with self._changed:
            return self._pop()

    def take_plain(self, most: int) -> list[Job]:
        """Candidates that are there already and can be claimed together, as they come."""
        taken: list[Job] = []
        with self._changed:
            while len(taken) < most and self._candidates and self._store.is_plain(self._candidates[0]):
                job = self._pop()
                if job is None:
                    break
                taken.append(job)
        return taken

    def leave_to_watch(self) -> None:
        """Something waits in the bundle while its thread works: one of those who wait watches over it."""
        if not self._watching:
            with self._changed:
                self._changed.notify()

    def _pop(self) -> Job | None:
        if self._stopped or not self._candidates:
            return None
        job = self._candidates.popleft()
        self._in_hand.add(job.id)
        return job

    def tried(self, job_id: str) -> None:
        """The claim of a candidate has been written, or refused: until then, it is not handed out again."""
        self._in_hand.discard(job_id)

    def _wait(self) -> bool:
        """Waits for a job or the end: True. False if it is for this thread to ask now."""
        while not self._stopped:
            if self._candidates or self.bundle:
                if not self._active or self._turn is None or self._is_needed(self._turn):
                    return True
                continue
            if self._asking:
                self._changed.wait()
                continue
            pause = self._ask_at - time.monotonic()
            if pause <= 0:
                return False
            # Only one thread sleeps until the next question; the others wait to be told.
            self._asking = True
            self._changed.wait(pause)
            self._asking = False
        return True

    def _is_needed(self, turn: Turn) -> bool:
        """Whether those at work are mostly at their tasks, so that another thread can take a job meanwhile (4)."""
        if self._watching:
            self._changed.wait()
            return False
        self._watching = True
        begun_at, held = time.monotonic(), turn.held()
        self._changed.wait(self._watch)
        self._watching = False
        is_needed = turn.held() - held < _MOSTLY * (time.monotonic() - begun_at)
        # A thread that wakes takes the interpreter from the one at work: less often, the longer that was for nothing.
        self._watch = _WATCH_SECONDS if is_needed else min(2 * self._watch, _LONGEST_WATCH_SECONDS)
        return is_needed

    def _ask(self) -> None:
        # A job that is claimed or handed over during a look may be missed by it, in the pool it left and in the one it
        # came to: only a look beside which nobody here has a job tells that there is none.
        with self._changed:
            is_sure = not self._active and not self._in_hand and not self.bundle
        try:
            found, next_at = self._look()
        except BaseException:
            self._answered([], None, is_sure=False)
            raise
        self._answered(found, next_at, is_sure=is_sure)

    def _look(self) -> tuple[list[Job], float | None]:
        jobs: list[Job] = []
        next_at: float | None = None
        # A busy worker looks often; at what becomes due by time it need not look each time.
        wake = not self._found_last or time.monotonic() >= self._wake_at
        if wake:
            self._wake_at = time.monotonic() + _WAKE_SECONDS
        for queue in self._queues:
            self.polls += 1
            if self._store.queue(queue).paused:
                self._store.look_after(queue)
                continue
            found = self._look_deeper(queue, jobs, wake)
            if found.next_at is not None:
                next_at = found.next_at if next_at is None else min(next_at, found.next_at)
        if not jobs and not wake:
            self._wake_at = 0.0
            return self._look()
        return jobs, next_at

    def _look_deeper(self, queue: str, jobs: list[Job], wake: bool) -> Claimable:
        """Past jobs that this worker cannot run: others' tasks must not hide its own."""
        limit = _CANDIDATES
        while True:
            found = self._store.claimable(queue, limit, evenly=True, wake=wake)
            verdicts = [(job, self._verdict(job)) for job in found.jobs if job.id not in self._in_hand]
            wanted = [job for job, verdict in verdicts if verdict == "take"]
            if wanted or not found.more or limit >= _MOST_CANDIDATES:
                jobs += wanted
                return self._not_before_later(found, verdicts)
            limit *= 8

    def _not_before_later(self, found: Claimable, verdicts: list[tuple[Job, Verdict]]) -> Claimable:
        """With the time to look again, where something was put off."""
        if not any(verdict == "later" for _, verdict in verdicts):
            return found
        later = self._store.clock.now() + LATER_SECONDS
        return replace(found, next_at=later if found.next_at is None else min(later, found.next_at))

    def _answered(self, found: list[Job], next_at: float | None, *, is_sure: bool) -> None:
        with self._changed:
            self._asking = False
            self._candidates.extend(found)
            self._found_last = bool(found)
            self._pause = _FIRST_PAUSE_SECONDS if found else min(self._pause * 2, self._idle_seconds)
            pause = self._pause * random.uniform(0.8, 1.2)
            if next_at is not None:
                pause = min(pause, max(next_at - self._store.clock.now(), 0.001))
            self._ask_at = time.monotonic() + pause
            if self._burst and not found and next_at is None and is_sure:
                self._stopped = True
            self._changed.notify_all()

    def contended(self) -> None:
        """Another worker was quicker: the rest is tried in another order than the others try it."""
        with self._changed:
            rest = list(self._candidates)
            random.shuffle(rest)
            self._candidates = deque(rest)

    def wake(self) -> None:
        """There may be something to do now."""
        with self._changed:
            self._ask_at = 0.0
            self._pause = _FIRST_PAUSE_SECONDS
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._candidates.clear()
            self._changed.notify_all()
