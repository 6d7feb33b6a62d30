"""What a worker runs next: polls the queues, keeps the candidates, and gives each thread its next job.

The numbers continue those of worker.py, which cites them.

5. However many threads wait, one of them polls the database; what it finds is for all. What happens elsewhere wakes
   that one alone. Whoever goes with a job, and leaves nobody who polls, sleeps until the next poll or watches, wakes
   one of the others.
6. When there is nothing to do, it polls less and less often, down to once in `idle_seconds`: an idle worker costs next
   to nothing. It knows when the next lease runs out or the next job is due, and polls then; a job that this process
   enqueues wakes it at once, and so does what others write, where the database tells of it (wake_up.py).
7. What it holds are candidates: a job is a worker's only when its claim has been written. They are dropped when they
   are 100 ms old, so that an urgent job is next and a pause holds; it reads about as many as are used in that time.
8. Where the worker's threads write one at a time, one more begins only while the gate is mostly open: short jobs are
   then run by one or two threads, which do not share the interpreter with the others; long ones soon by all.
9. Jobs that are claimed and wait for a thread (Batch) go first; whoever is given one of them writes what has ended
   before it.

Short jobs on the embedded engine are claimed together and ended together, with one commit for all of them:

10. A worker holds no more jobs than it has threads: those that wait in a batch are no more than threads that are free.
11. What waits there needs no thread that is at work: if its job takes long, another thread takes the rest, and writes
    down what has ended, within milliseconds (8 and 9).
12. So there is something ended and not yet written only while something waits.

A job may be what its worker has died of (a suspect: registry.runs_alone):

13. A suspect is claimed only when nothing else runs in this process, and nothing is claimed beside it until it has
    ended, or has written a newer checkpoint: if it kills again, it alone is charged.
14. Suspects go before all others, the oldest first, one after the other. While one waits for the worker to become
    empty nothing else begins, for 30 s. If other jobs still run then, the worker goes on with others, and tries that
    again a minute later, then less and less often: one long job does not stop a worker. Whenever it is empty, a
    suspect is next. Jobs that were suspects and have written a newer checkpoint are requeued at their next one
    meanwhile: all suspects are tested within a few checkpoints, and then run side by side.

15. A job that its limit keeps from starting, or whose task this worker does not have, is moved to a pool of its
    concurrency key or its task (side_items.py, 3 and 4): what a poll reads does not grow with the number of those.
    Jobs of other workers' tasks are moved only where there are so many that they could hide others. A job that its rate
    keeps from starting is given a slot in a moment, or is moved to the pool of its rate key (rates.py).

20. Where many jobs have become due by time, the oldest are read first, and once in a second the most urgent of the next
    thousands: a delayed job of a high priority does not wait for all that were due before it.

Several workers at one queue would all try the same candidates first, and all but one would lose:

16. A worker that has lost claims to another reads one shard at a time instead of all: that of the clock plus an offset
    of its own, so that workers with different offsets never read the same one, and every shard has its turn. One that
    goes on losing takes another offset at random; one that finds nothing reads all again. Priorities hold: it leaves a
    shard for one that has something more urgent (queries.claimable). Where there are more workers than shards, a shard
    is for several: each reads as many jobs more, and tries a slice of the most urgent ones, by the hash of their ids.
    The first offset is the worker's place among those that serve its queues.
"""

from __future__ import annotations

import logging
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Final, Literal, NamedTuple

from penstock.jobs.context import Attempt
from penstock.jobs.layouts.layout import slice_of
from penstock.jobs.model.job import Job
from penstock.jobs.model.state import State
from penstock.jobs.store.queries import Claimable, claim_order
from penstock.jobs.store.side_items import Queue
from penstock.jobs.store.store import JobStore
from penstock.jobs.worker.coroutines import EndedCoroutine
from penstock.jobs.worker.registry import Peers, runs_alone
from penstock.retry import Backoff

_LOG = logging.getLogger("penstock.jobs")

_FIRST_PAUSE_SECONDS: Final = 0.02
DEFAULT_IDLE_SECONDS: Final = 1.0
_FRESH_SECONDS: Final = 0.1
_FEWEST_READ: Final = 16
_MOST_READ: Final = 96
_WAKE_SECONDS: Final = 0.25
_FURTHER_SECONDS: Final = 1.0
_WATCH_SECONDS: Final = 0.004
_LONGEST_WATCH_SECONDS: Final = 0.016
_SHARD_SECONDS: Final = 0.5
_MANY_REFUSED: Final = 2  # one may be a race of its own threads
_MUCH_REFUSED: Final = 1 / 8
"""Of the candidates that were read together: who loses so many to others has the same shard as one of them."""
_MOST_SLICES: Final = 8
"""Of a shard: a worker reads so many times what it tries. A write that is refused costs more than that."""
_MOST_CANDIDATES: Final = 2_048
LATER_SECONDS: Final = 0.5
_ALONE_SECONDS: Final = 0.1
_DRAIN_SECONDS: Final = 1.0
_LONGEST_DRAIN_SECONDS: Final = 30.0
_FORGOTTEN_SECONDS: Final = 10.0
_DRAIN_AGAIN: Final = Backoff(60.0, 2.0, 600.0)
_SUSPECT_FIRST: Final = "a job that may have killed its worker runs alone first"
_EMPTY_QUERY_UNITS: Final = 0.5
_MOVED_TOGETHER: Final = 96
_TRANSACTION_CHARACTERS: Final = 1_000_000
_RECORD_CHARACTERS: Final = 8_000
"""A transaction takes 100 items and 4 MB: of text beyond ASCII, a character is up to four bytes."""
_MOSTLY: Final = 0.4
MOST_TOGETHER: Final = 16
LINGER_SECONDS: Final = 0.003
"""How long an end may wait for others to be written with it, where its thread goes on."""

Verdict = Literal["take", "limit", "rate", "later", "leave", "newer"]
"""What a worker says of a candidate: that it can run it, that its limit is reached, that it needs a slot of its rate
key first, that it can later, or never: it does not have the task, or only an older version of it."""


def _suspects_first(job: Job) -> tuple[bool, float, str]:
    """The order of candidates (14); the others stay as they come."""
    return (False, job.created_at, job.id) if runs_alone(job) else (True, 0.0, "")


class Returned(NamedTuple):
    """An attempt whose task has returned, and the text of what."""

    attempt: Attempt
    result: str


class Batch:
    """Jobs that are claimed and not begun, and attempts that have returned and are not written."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.waiting: deque[Attempt] = deque()
        """Claimed, and not begun."""
        self._returned: list[Returned] = []
        self._oldest = 0.0

    def add(self, claimed: Iterable[Attempt]) -> None:
        with self._lock:
            self.waiting.extend(claimed)

    def begin_next(self) -> Attempt | None:
        """One that waits, for the caller to run."""
        with self._lock:
            return self.waiting.popleft() if self.waiting else None

    def add_returned(self, attempt: Attempt, result: str) -> Attempt | None:
        """Puts down that this one has ended. The next one to run; None if the ends should be written first."""
        with self._lock:
            now = time.monotonic()
            if not self._returned:
                self._oldest = now
            self._returned.append(Returned(attempt, result))
            if len(self.waiting) > 1 and now - self._oldest < LINGER_SECONDS:  # (12)
                return self.waiting.popleft()
            return None

    @property
    def has_returned(self) -> bool:
        """Whether something has ended that nobody has written down."""
        return bool(self._returned)

    def take_returned(self) -> list[Returned]:
        """All that has ended, for the caller to write down."""
        with self._lock:
            taken, self._returned = self._returned, []
            return taken


class WriteGate:
    """Lets one thread write at a time, and knows for how long anybody has."""

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

    def held_seconds(self) -> float:
        """Seconds in all, until now."""
        since = self._since
        return self._held + (time.monotonic() - since if since else 0.0)


class _Drain:
    """For how long a worker claims nothing so that it becomes empty, for a suspect (14)."""

    def __init__(self) -> None:
        self.is_on = False
        self._until = 0.0
        self._again_at = 0.0
        self._failures = 0
        self._asked_at = 0.0

    def goes_on(self, now: float) -> bool:
        """Whether the worker, which is not empty yet, waits for that at this time."""
        silent = now - self._asked_at
        if self.is_on and silent > _FORGOTTEN_SECONDS:
            self.is_on = False  # that was for another suspect, which somebody else has taken
        if silent > _DRAIN_AGAIN.cap_seconds:
            self._failures, self._again_at = 0, 0.0
        self._asked_at = now
        if not self.is_on and now >= self._again_at:
            self.is_on = True
            self._until = now + _LONGEST_DRAIN_SECONDS
        elif self.is_on and now >= self._until:
            self.is_on = False
            self._failures += 1
            self._again_at = now + _DRAIN_AGAIN.bound(self._failures)
        return self.is_on


class Fetcher:
    """Candidates and claimed jobs for a worker's threads. Safe to share between them."""

    def __init__(
        self,
        store: JobStore,
        queues: tuple[str, ...],
        *,
        verdict: Callable[[Job], Verdict],
        peers: Peers | None = None,
        place: Callable[[], tuple[int, int]] = lambda: (0, 1),
        attempts: Callable[[], Iterable[Attempt]] = tuple,
        tasks: Container[str] = (),
        idle_seconds: float = DEFAULT_IDLE_SECONDS,
        burst: bool = False,
        until_empty: bool = False,
        gate: WriteGate | None = None,
        concurrency: int = sys.maxsize,
    ) -> None:
        """`place` is where this worker stands among those that serve its queues, and how many these are."""
        self._store = store
        self._queues = queues
        self._verdict = verdict
        self._peers = peers
        self._place = place
        self._attempts = attempts
        self._tasks = tasks
        self.alone: str | None = None
        """The suspect that runs, beside which nothing may (13)."""
        self._has_suspects = False
        self._drain = _Drain()
        self._burst = burst or until_empty
        self._until_empty = until_empty
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        """For threads that have nothing to do, but for one of them:"""
        self._poll_is_due = threading.Condition(lock)
        """for the one that sleeps until the next poll. Most of what happens is for it to look at (5)."""
        self._candidates: deque[Job] = deque()
        self._read_at = 0.0
        self._popped = 0
        """How many of the candidates that were read last have been handed out."""
        self._refused = 0
        """Of how many of these another worker had the claim."""
        self._offset: int | None = None
        """Of the part that is read, from that of the clock; None while all are (16)."""
        self._slices = 1
        """Of each shard; so many times the number of shards are the parts."""
        self._part: int | None = None
        """The one that the candidates were read for; None if all."""
        self._in_hand: set[str] = set()
        self.batch = Batch()
        self._gate = gate
        self._concurrency = concurrency
        self.active = 0
        """How many jobs are under way: those of threads that have not come back, and coroutines."""
        self.awaiting = 0
        """How many of them are coroutines, which have no thread (16)."""
        self._ended: deque[EndedCoroutine] = deque()
        """Those of the coroutines that wait for a thread to store their end."""
        self._watching = False
        self._watch = _WATCH_SECONDS
        self._polling = False
        self._was_filled = False
        self._wake_at = 0.0
        self._further: dict[str, dict[int, str]] = {}
        """Of queues where more has become due than a poll reads: where the last look among those has ended (20)."""
        self._further_at = 0.0
        self._polls_pause = Backoff(_FIRST_PAUSE_SECONDS, 2.0, idle_seconds)
        self._empty_polls = 0
        self._poll_at = 0.0
        self._is_outdated = False
        self.quiet_seconds = 0.0
        """Where changes wake the worker, the least between two polls that nothing else asks for."""
        self._stopped = False
        self.polls = 0
        """How often the database was asked for a queue's jobs."""
        self._jobs_read = 0

    @property
    def poll_units(self) -> float:
        """What a poll of one queue costs at least: a consistent GetItem, and two Queries for each shard."""
        return 1 + 2 * self._store.layout.shards * _EMPTY_QUERY_UNITS

    @property
    def read_units(self) -> float:
        """What polling has cost at least, with the jobs that were read."""
        return self.polls * self.poll_units + self._jobs_read

    def fetch(self, *, is_back: bool = False) -> Attempt | Job | EndedCoroutine | None:
        """A coroutine that has ended, a job that is claimed, or a candidate.

        None when the worker stops and has no coroutine any more, or (in a burst) when there is nothing more to do.

        `is_back` says that the thread is done with the one that it took before.
        """
        if is_back:
            self.release_thread()
        while True:
            with self._changed:
                if self._wait():
                    taken = self._next_job()
                    if taken is None and (self.awaiting or not self._stopped):
                        continue  # another thread was quicker, or a suspect is next
                    return taken
                self._polling = True
            self._poll()

    def detach(self) -> None:
        """The job of this thread is a coroutine's from now on; the thread may fetch another one (16)."""
        with self._changed:
            self.awaiting += 1

    def add_ended(self, ended: EndedCoroutine) -> None:
        """A coroutine has ended: the next thread that is free is given it."""
        with self._changed:
            if self.awaiting:  # otherwise nobody is there any more to store it
                self._ended.append(ended)
                self._notify()

    def release_thread(self, *, awaiting: bool = False) -> None:
        """A thread is done with what it fetched, or (`awaiting`) a coroutine: its job has ended, or is another's."""
        with self._changed:
            self.active -= 1
            self.awaiting = max(0, self.awaiting - awaiting)
            if self.active + 1 == self._concurrency or awaiting:
                self._notify()
            if not self.active and (self.alone is not None or self._suspect_is_next()):
                self._notify_all()
            if self._burst and not self.active:
                self._poll_at = 0.0  # whether there is nothing more can be told only now
                self._notify_all()

    def _next_job(self) -> Attempt | Job | EndedCoroutine | None:
        if self._ended:
            self.awaiting -= 1
            if self._stopped:
                self._notify_all()  # this may have been the last
            elif not self._is_attended():
                self._changed.notify()
            return self._ended.popleft()
        # Others may have taken the last place while this thread watched: with coroutines there are more threads than
        # jobs that may run (16).
        has_room = not self._stopped and self.active < self._concurrency
        taken = (self.batch.begin_next() or self._pop()) if has_room else None
        self.active += taken is not None
        if self._candidates or not self._is_attended():
            self._changed.notify()  # one of those who wait watches now, or polls
        return taken

    def _is_attended(self) -> bool:
        """Whether a thread polls, sleeps until the next poll, or watches."""
        return self._polling or self._watching

    def pop_candidate(self) -> Job | None:
        """A candidate that is there already; None where one would have to wait."""
        with self._changed:
            return self._pop()

    def pop_plain(self, most: int) -> list[Job]:
        """Candidates that are there already and can be claimed together, as they come."""
        taken: list[Job] = []
        with self._changed:
            self._drop_old()
            while (
                self.alone is None
                and len(taken) < most
                and self._candidates
                and self._store.is_plain(self._candidates[0])
            ):
                job = self._pop()
                if job is None:
                    break
                taken.append(job)
        return taken

    def wake_watcher(self) -> None:
        """Something waits in the batch while its thread works: one of those who wait watches over it."""
        if not self._watching:
            with self._changed:
                self._notify()

    def _suspect_is_next(self) -> bool:
        return self._has_suspects and bool(self._candidates) and runs_alone(self._candidates[0])

    def _must_wait(self) -> bool:
        """Whether nothing may begin now: a suspect runs, or is next and the worker is not empty yet (13, 14)."""
        if self.alone is not None:
            suspect = next((one.job.suspect for one in self._attempts() if one.job.id == self.alone), self.active > 0)
            if suspect:  # it runs, or its thread is about to claim it
                return True
            self.alone = None  # it has ended, or written a newer checkpoint
        if not self._suspect_is_next() or not self._is_busy():
            return False
        if not self._drain.goes_on(time.monotonic()):
            return all(map(runs_alone, self._candidates))
        running = list(self._attempts())
        if all(one.was_suspect and not one.job.suspect for one in running):
            for attempt in running:
                attempt.requeue_reason = _SUSPECT_FIRST
        return True

    def _is_busy(self) -> bool:
        return bool(self.active or self._in_hand or self.batch.waiting or any(self._attempts()))

    def _pop(self) -> Job | None:
        self._drop_old()
        if self._stopped or not self._candidates or self._must_wait():
            return None
        job = self._candidates[0]
        if self._suspect_is_next():
            if self._is_busy():  # it has waited long enough for this worker (14)
                job = next((one for one in self._candidates if not runs_alone(one)), job)
            else:
                self.alone = job.id
                self._drain = _Drain()
        self._candidates.remove(job)
        self._popped += 1
        self._in_hand.add(job.id)
        return job

    def _drop_old(self) -> None:
        """Candidates that were read a while ago say nothing of what is urgent, paused or cancelled now (7)."""
        # A suspect that waits for an empty worker is kept longer; another worker may have it by then.
        is_kept = self._suspect_is_next() and (self._drain.is_on or all(map(runs_alone, self._candidates)))
        is_old = time.monotonic() - self._read_at > (_DRAIN_SECONDS if is_kept else _FRESH_SECONDS)
        if self._candidates and (is_old or (self._offset is not None and self._part != self._current_part())):
            self._candidates.clear()
            self._poll_at = 0.0

    def end_claim(self, job_id: str) -> None:
        """The claim of a candidate has been written, or refused: until then, it is not handed out again."""
        self._in_hand.discard(job_id)
        if self._peers is not None:
            self._peers.abandoned.pop(job_id, None)

    def _wait(self) -> bool:
        """Waits for a job or the end: True. False if it is for this thread to poll now."""
        while self.awaiting or not self._stopped:
            if self._ended:
                return True
            if self._stopped or self.active >= self._concurrency:
                self._changed.wait()
                continue
            self._drop_old()
            if self._must_wait() and not self.batch.waiting:
                self._changed.wait(_ALONE_SECONDS)
                continue
            if self._candidates or self.batch.waiting:
                if self.active == self.awaiting or self._gate is None or self._is_needed(self._gate):
                    return True
                continue
            if self._polling:
                self._changed.wait()
                continue
            pause = self._poll_at - time.monotonic()
            if pause <= 0:
                return False
            # Only one thread sleeps until the next poll; the others wait to be woken.
            self._polling = True
            self._poll_is_due.wait(pause)
            self._polling = False
        return True

    def _notify(self) -> None:
        """There is something to do for one thread. The one that sleeps until the next poll may be the only one."""
        self._changed.notify()
        self._poll_is_due.notify()

    def _notify_all(self) -> None:
        self._changed.notify_all()
        self._poll_is_due.notify()

    def _is_needed(self, gate: WriteGate) -> bool:
        """Whether those at work are mostly at their tasks, so that another thread can take a job meanwhile (8)."""
        if self._watching:
            self._changed.wait()
            return False
        self._watching = True
        begun_at, held = time.monotonic(), gate.held_seconds()
        self._changed.wait(self._watch)
        self._watching = False
        is_needed = gate.held_seconds() - held < _MOSTLY * (time.monotonic() - begun_at)
        # A thread that wakes takes the interpreter from the one at work: less often, the longer that was for nothing.
        self._watch = _WATCH_SECONDS if is_needed else min(2 * self._watch, _LONGEST_WATCH_SECONDS)
        return is_needed

    def _poll(self) -> None:
        # A job that is claimed or requeued during a poll may be missed by it, in the pool it left and in the one it
        # came to: only a poll beside which nobody here has a job tells that there is none.
        with self._changed:
            is_sure = not self.active and not self._in_hand and not self.batch.waiting
            self._is_outdated = False
        try:
            found = self._poll_queues()
        except BaseException:
            self._end_poll(Claimable((), None, more=False), is_sure=False)
            with self._changed:
                self._changed.notify()  # this thread does not come back at once
            raise
        self._end_poll(found, is_sure=is_sure)

    def _poll_queues(self) -> Claimable:
        abandoned = [] if self._peers is None else self._peers.find_abandoned()
        # A busy worker looks often; at what becomes due by time it need not look each time.
        wake = not self._was_filled or time.monotonic() >= self._wake_at
        if wake:
            self._wake_at = time.monotonic() + _WAKE_SECONDS
        found: list[Claimable] = []
        for queue in self._queues:
            self.polls += 1
            settings = self._store.side_items.queue(queue)
            if settings.paused:
                self._store.look_after(queue)
                continue
            mine = tuple(job for job in abandoned if job.queue == queue and job.id not in self._in_hand)
            found += [Claimable(mine, None, more=False), self._poll_queue(settings, wake)]
        jobs = tuple(job for one in found for job in one.jobs)
        if any(one.more_due for one in found):
            self._wake_at = 0.0  # many timers at once: the next poll goes on with them
        elif wake:
            self._further.clear()
        if not jobs and not wake:
            self._wake_at = 0.0
            return self._poll_queues()
        next_at = min((one.next_at for one in found if one.next_at is not None), default=None)
        return Claimable(jobs, next_at, more=any(one.more for one in found))

    def _likely_used(self) -> int:
        """As many candidates as are handed out before they are too old, by what became of the last ones."""
        if not self._was_filled and self._gate is not None:
            return _MOST_READ  # nothing is known, and reads of the engine in this process cost little
        elapsed = time.monotonic() - self._read_at
        likely = self._popped * _FRESH_SECONDS / max(elapsed, _FRESH_SECONDS / _MOST_READ)
        if elapsed < _FRESH_SECONDS:
            likely *= 1.5  # all of them were used: more might have been
        return min(max(int(likely), _FEWEST_READ), _MOST_READ)

    def _poll_queue(self, queue: Queue, wake: bool) -> Claimable:
        """Candidates; jobs that cannot start are moved out of their way, so that no poll reads them again (15)."""
        limit = self._likely_used()
        tasks = [task for task in queue.tasks if task in self._tasks]
        part = self._part = self._current_part()
        shard = None if part is None else part % self._store.layout.shards
        if part is not None:
            limit *= self._slices
        while True:
            further = self._look_further(queue.name) if wake else None
            found = self._store.claimable(
                queue.name, limit, evenly=True, shard=shard, wake=wake, tasks=tasks, further=further
            )
            if found.more_due:
                self._further.setdefault(queue.name, {})
            self._jobs_read += len(found.jobs)
            for key in found.limits:
                self._store.pools.unblock(key)
            for key in found.rates:
                self._store.rates.release(key)
            for task in found.empty_tasks:
                self._store.pools.forget_task(queue, task)
            some = found.jobs if self._peers is None else self._peers.judge(found.jobs)
            verdicts = [(job, self._verdict(job)) for job in some if job.id not in self._in_hand]
            wanted = [job for job, verdict in verdicts if verdict == "take"]
            limited = [job for job, verdict in verdicts if verdict == "limit"]
            free = self._set_aside_limited(limited)
            wanted += free
            admitted, slot_at = self._give_slots([job for job, verdict in verdicts if verdict == "rate"])
            wanted += admitted
            others = [job for job, verdict in verdicts if verdict == "leave"] if found.more else []
            is_moved = self._set_aside_unknown(others) or bool(found.limits or found.rates)
            is_moved = is_moved or (found.more and slot_at is not None)
            # Many that were moved are no reason to read still more at once: others may be next by now.
            has_moved_limited = found.more and len(free) < len(limited)
            is_moved = is_moved or (has_moved_limited and limit >= _MOVED_TOGETHER)
            if wanted or is_moved or not found.more or limit >= _MOST_CANDIDATES:
                wanted.sort(key=claim_order)
                mine = wanted if part is None else self._slice_of(part, wanted)
                more = found.more or len(mine) < len(wanted)
                found = replace(found, jobs=tuple(mine), next_at=_earliest(found.next_at, slot_at), more=more)
                if is_moved:
                    return replace(found, next_at=self._store.clock.now())
                return self._poll_again_later(found, verdicts)
            limit, shard = (limit * 8 if shard is None else limit), None
            if has_moved_limited:
                limit = min(limit, _MOVED_TOGETHER)

    def _slice_of(self, part: int, jobs: list[Job]) -> list[Job]:
        """The most urgent ones of this worker's slice; those of all slices where it has none of them (16)."""
        if self._slices == 1 or not jobs:
            return jobs
        shards, priority = self._store.layout.shards, jobs[0].priority
        first = [job for job in jobs if job.priority == priority or runs_alone(job)]
        mine = [job for job in first if runs_alone(job) or slice_of(job.id, shards, self._slices) == part // shards]
        return mine or first

    def _look_further(self, queue: str) -> dict[int, str] | None:
        """Where to look for urgent ones among many that have become due; None where they are few, or it was done."""
        if queue not in self._further or time.monotonic() < self._further_at:
            return None
        self._further_at = time.monotonic() + _FURTHER_SECONDS
        return self._further[queue]

    def _poll_again_later(self, found: Claimable, verdicts: list[tuple[Job, Verdict]]) -> Claimable:
        """With the time to look again, where something was put off."""
        if not any(verdict == "later" for _, verdict in verdicts):
            return found
        return replace(found, next_at=_earliest(found.next_at, self._store.clock.now() + LATER_SECONDS))

    def _give_slots(self, jobs: list[Job]) -> tuple[list[Job], float | None]:
        """Gives jobs slots of their rate keys (rates.py): those that may start now, and when to look for the others."""
        started: list[Job] = []
        next_at: float | None = None
        for group in _groups(jobs, lambda job: job.rate_key or ""):
            admitted = self._store.rates.admit(group)
            if admitted is None:  # another worker gives slots of the same key
                next_at = _earliest(next_at, self._store.clock.now())
            else:
                started += admitted.jobs
                next_at = _earliest(next_at, admitted.next_at)
        return started, next_at

    def _set_aside_limited(self, jobs: list[Job]) -> list[Job]:
        """Moves jobs to the pools of their concurrency keys; those whose limit is not reached any more."""
        free: list[Job] = []
        for group in _groups(jobs, lambda job: job.concurrency_key or ""):
            if not self._store.pools.set_aside_limited(group):
                free += group
        return free

    def _set_aside_unknown(self, jobs: list[Job]) -> bool:
        """Moves jobs to the pools of their tasks; whether any has been moved."""
        queued = [job for job in jobs if job.state is State.QUEUED and not job.is_waiting]
        moved = [self._store.pools.set_aside_unknown(group) for group in _groups(queued, lambda job: job.task)]
        return any(moved)

    def _end_poll(self, found: Claimable, *, is_sure: bool) -> None:
        jobs, next_at = found.jobs, found.next_at
        with self._changed:
            self._polling = False
            if any(map(runs_alone, jobs)):  # a suspect that was claimed here during the poll does not wait (14)
                here = self._in_hand.union(one.id for one in self._attempts())
                jobs = tuple(job for job in jobs if job.id not in here)
            self._has_suspects = any(map(runs_alone, jobs)) or (self._has_suspects and bool(self._candidates))
            self._candidates.extend(sorted(jobs, key=_suspects_first) if self._has_suspects else jobs)
            self._read_at = time.monotonic()
            self._popped = self._refused = 0
            self._was_filled = bool(jobs)
            is_partial = self._part is not None  # the other shards may have jobs
            if not jobs:
                self._offset = self._part = None
            self._empty_polls = 0 if jobs else self._empty_polls + 1
            pause = self._polls_pause.bound(1 + self._empty_polls) * random.uniform(0.8, 1.2)
            if not jobs:
                pause = max(pause, self.quiet_seconds)
            if self._is_outdated or (is_partial and not jobs):  # what came during the poll may not be in it
                pause = 0.0
            elif next_at is not None:
                pause = min(pause, max(next_at - self._store.clock.now(), 0.001))
            if jobs and found.more:
                pause = 0.0
            self._poll_at = time.monotonic() + pause
            if self._burst and not jobs and is_sure and not is_partial and not self._waits_until(next_at):
                self._stopped = True
                self._changed.notify_all()

    def _waits_until(self, next_at: float | None) -> bool:
        """Whether a burst waits for that time: only for what its limit puts off, unless it runs until all is done."""
        return next_at is not None and (self._until_empty or next_at <= self._store.clock.now() + LATER_SECONDS)

    def note_refused(self, claims: int) -> None:
        """Another worker was quicker with so many candidates: the rest may be lost to it too (16)."""
        with self._changed:
            shards = self._store.layout.shards
            self._refused += claims
            if shards > 1 and self._refused >= max(_MANY_REFUSED, _MUCH_REFUSED * self._popped):
                self._choose_part()
                self._candidates.clear()
                self._poll_at = 0.0
                return
            rest = list(self._candidates)
            random.shuffle(rest)
            rest.sort(key=lambda job: (_suspects_first(job), -job.priority))
            self._candidates = deque(rest)

    def _choose_part(self) -> None:
        place, workers = self._place()
        shards, offset = self._store.layout.shards, self._offset
        self._slices = min(max(1, -(-workers // shards)), _MOST_SLICES)
        parts = shards * self._slices
        if offset is None and workers > 1:
            self._offset = place * parts // workers
        else:
            self._offset = random.choice([one for one in range(parts) if one != offset])

    def _current_part(self) -> int | None:
        """The one to read from now; None if all."""
        if self._offset is None:
            return None
        parts = self._store.layout.shards * self._slices
        return (self._offset + int(self._store.clock.now() / _SHARD_SECONDS)) % parts

    def wake(self) -> None:
        """There may be something to do now."""
        with self._changed:
            self._poll_at = 0.0
            self._is_outdated = True
            self._empty_polls = 0
            self._poll_is_due.notify()

    def poll_soon(self) -> bool:
        """The database has changed: polls at once if nothing is at hand. Whether the last poll found jobs, all gone."""
        with self._changed:
            if self._candidates:
                return False
            self._poll_at = 0.0
            self._is_outdated = True
            self._poll_is_due.notify()
            return self._was_filled

    def stop(self, *, at_once: bool = False) -> None:
        """Hands out no more jobs; `at_once`: also no coroutines that end."""
        with self._changed:
            self._stopped = True
            if at_once:
                self.awaiting = 0
                self._ended.clear()
            self._candidates.clear()
            self._notify_all()


def _earliest(one: float | None, other: float | None) -> float | None:
    return min((at for at in (one, other) if at is not None), default=None)


def _groups(jobs: list[Job], key: Callable[[Job], str]) -> list[list[Job]]:
    """The jobs by key, in groups that fit into one transaction."""
    by_key: dict[str, list[Job]] = {}
    groups: list[list[Job]] = []
    room: dict[str, int] = {}
    for job in jobs:
        name, size = key(job), len(job.args.text or "") + _RECORD_CHARACTERS
        if name not in by_key or size > room[name] or len(by_key[name]) == _MOVED_TOGETHER:
            by_key[name], room[name] = [], _TRANSACTION_CHARACTERS
            groups.append(by_key[name])
        by_key[name].append(job)
        room[name] -= size
    return groups
