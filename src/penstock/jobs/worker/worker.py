"""A worker: takes jobs, runs their tasks, and keeps their leases while they run.

1. A job is run only under a lease that this worker was granted, and what it writes is fenced by its token.
2. Leases are renewed beside the task, by one thread for all; a task that reports renews its own.
3. When the worker is asked to stop it takes nothing more. Tasks finish, or are requeued at their next report; what has
   done neither when the grace is over is requeued here, and fenced.
4. The worker's loop is the one place that catches everything a task may raise, and it is stored with the job.

Its threads get their jobs from a Fetcher:

5. However many threads wait, one of them polls the database; what it finds is for all.
6. When there is nothing to do, it polls less and less often, down to once in `idle_seconds`: an idle worker costs next
   to nothing. It knows when the next lease runs out or the next job is due, and polls then; a job that this process
   enqueues wakes it at once.
7. What it holds are candidates: a job is a worker's only when its claim has been written.
8. Where the worker's threads write one at a time, one more begins only while the gate is mostly open: short jobs are
   then run by one or two threads, which do not share the interpreter with the others; long ones soon by all.
9. Jobs that are claimed and wait for a thread (Batch) go first; whoever is given one of them writes what has ended
   before it.

Short jobs on the embedded engine are claimed together and ended together, with one commit for all of them:

10. A worker holds no more jobs than it has threads: those that wait in a batch are no more than threads that are free.
11. What waits there needs no thread that is at work: if its job takes long, another thread takes the rest, and writes
    down what has ended, within milliseconds (8 and 9).
12. So there is something ended and not yet written only while something waits.
13. A job beside which a worker has died before is in no batch, nor is there one beside it: whatever it does, it does
    to few others.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple

from penstock.errors import DatabaseLost, PenstockError
from penstock.jobs.app import App
from penstock.jobs.context import AsyncJobContext, Attempt, JobContext
from penstock.jobs.model.job import Job, JobCancelled, JobRequeued
from penstock.jobs.model.json_text import from_json
from penstock.jobs.model.state import TERMINAL
from penstock.jobs.store.queries import Claimable
from penstock.jobs.store.store import JobStore, LimitReached, short_result
from penstock.jobs.tasks import Task
from penstock.jobs.worker.heartbeat import Heartbeat, Scheduler
from penstock.jobs.worker.invocation import protect
from penstock.jobs.worker.outcomes import Counts, Outcomes
from penstock.jobs.worker.registry import WorkerInfo, WorkerRegistry
from penstock.leases import LeaseLost, new_owner
from penstock.retry import Backoff

_LOG = logging.getLogger("penstock.jobs")

DEFAULT_CONCURRENCY: Final = 8
MOST_CONCURRENCY: Final = 1_000
DEFAULT_GRACE_SECONDS: Final = 30.0
_TROUBLE_SECONDS: Final = 1.0
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
MOST_TOGETHER: Final = 16
LINGER_SECONDS: Final = 0.003
"""How long an end may wait for others to be written with it, where its thread goes on."""

Verdict = Literal["take", "later", "leave"]
"""What a worker says of a candidate: that it can run it, that it can later, or that it never can."""


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


class Fetcher:
    """Candidates and claimed jobs for a worker's threads. Safe to share between them."""

    def __init__(
        self,
        store: JobStore,
        queues: tuple[str, ...],
        *,
        verdict: Callable[[Job], Verdict],
        idle_seconds: float = DEFAULT_IDLE_SECONDS,
        burst: bool = False,
        gate: WriteGate | None = None,
    ) -> None:
        self._store = store
        self._queues = queues
        self._verdict = verdict
        self._burst = burst
        self._changed = threading.Condition()
        self._candidates: deque[Job] = deque()
        self._in_hand: set[str] = set()
        self.batch = Batch()
        self._gate = gate
        self.active = 0
        """How many threads have fetched something and not come back."""
        self._watching = False
        self._watch = _WATCH_SECONDS
        self._polling = False
        self._was_filled = False
        self._wake_at = 0.0
        self._polls_pause = Backoff(_FIRST_PAUSE_SECONDS, 2.0, idle_seconds)
        self._empty_polls = 0
        self._poll_at = 0.0
        self._stopped = False
        self.polls = 0
        """How often the database was asked for a queue's jobs."""

    @property
    def read_units(self) -> float:
        """What polling has cost at least: a consistent GetItem, and two Queries for each shard."""
        return self.polls * (1 + 2 * self._store.layout.shards * _EMPTY_QUERY_UNITS)

    def fetch(self, *, is_back: bool = False) -> Attempt | Job | None:
        """A job that is claimed, or a candidate; None when the worker stops, or (in a burst) when there is no more.

        `is_back` says that the thread is done with the one that it took before.
        """
        if is_back:
            self.release_thread()
        while True:
            with self._changed:
                if self._wait():
                    return self._next_job()
                self._polling = True
            self._poll()

    def release_thread(self) -> None:
        """A thread is done with what it fetched: its job has ended, or is another's."""
        with self._changed:
            self.active -= 1
            if self._burst and not self.active:
                self._poll_at = 0.0  # whether there is nothing more can be told only now
                self._changed.notify_all()

    def _next_job(self) -> Attempt | Job | None:
        taken = None if self._stopped else self.batch.begin_next() or self._pop()
        self.active += taken is not None
        if self._candidates:
            self._changed.notify()  # one of those who wait watches now
        return taken

    def pop_candidate(self) -> Job | None:
        """A candidate that is there already; None where one would have to wait."""
        with self._changed:
            return self._pop()

    def pop_plain(self, most: int) -> list[Job]:
        """Candidates that are there already and can be claimed together, as they come."""
        taken: list[Job] = []
        with self._changed:
            while len(taken) < most and self._candidates and self._store.is_plain(self._candidates[0]):
                job = self._pop()
                if job is None:
                    break
                taken.append(job)
        return taken

    def wake_watcher(self) -> None:
        """Something waits in the batch while its thread works: one of those who wait watches over it."""
        if not self._watching:
            with self._changed:
                self._changed.notify()

    def _pop(self) -> Job | None:
        if self._stopped or not self._candidates:
            return None
        job = self._candidates.popleft()
        self._in_hand.add(job.id)
        return job

    def end_claim(self, job_id: str) -> None:
        """The claim of a candidate has been written, or refused: until then, it is not handed out again."""
        self._in_hand.discard(job_id)

    def _wait(self) -> bool:
        """Waits for a job or the end: True. False if it is for this thread to poll now."""
        while not self._stopped:
            if self._candidates or self.batch.waiting:
                if not self.active or self._gate is None or self._is_needed(self._gate):
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
            self._changed.wait(pause)
            self._polling = False
        return True

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
        try:
            found, next_at = self._poll_queues()
        except BaseException:
            self._end_poll([], None, is_sure=False)
            raise
        self._end_poll(found, next_at, is_sure=is_sure)

    def _poll_queues(self) -> tuple[list[Job], float | None]:
        jobs: list[Job] = []
        next_at: float | None = None
        # A busy worker looks often; at what becomes due by time it need not look each time.
        wake = not self._was_filled or time.monotonic() >= self._wake_at
        if wake:
            self._wake_at = time.monotonic() + _WAKE_SECONDS
        for queue in self._queues:
            self.polls += 1
            if self._store.side_items.queue(queue).paused:
                self._store.look_after(queue)
                continue
            found = self._poll_queue(queue, jobs, wake)
            if found.next_at is not None:
                next_at = found.next_at if next_at is None else min(next_at, found.next_at)
        if not jobs and not wake:
            self._wake_at = 0.0
            return self._poll_queues()
        return jobs, next_at

    def _poll_queue(self, queue: str, jobs: list[Job], wake: bool) -> Claimable:
        """Past jobs that this worker cannot run: others' tasks must not hide its own."""
        limit = _CANDIDATES
        while True:
            found = self._store.claimable(queue, limit, evenly=True, wake=wake)
            verdicts = [(job, self._verdict(job)) for job in found.jobs if job.id not in self._in_hand]
            wanted = [job for job, verdict in verdicts if verdict == "take"]
            if wanted or not found.more or limit >= _MOST_CANDIDATES:
                jobs += wanted
                return self._poll_again_later(found, verdicts)
            limit *= 8

    def _poll_again_later(self, found: Claimable, verdicts: list[tuple[Job, Verdict]]) -> Claimable:
        """With the time to look again, where something was put off."""
        if not any(verdict == "later" for _, verdict in verdicts):
            return found
        later = self._store.clock.now() + LATER_SECONDS
        return replace(found, next_at=later if found.next_at is None else min(later, found.next_at))

    def _end_poll(self, found: list[Job], next_at: float | None, *, is_sure: bool) -> None:
        with self._changed:
            self._polling = False
            self._candidates.extend(found)
            self._was_filled = bool(found)
            self._empty_polls = 0 if found else self._empty_polls + 1
            pause = self._polls_pause.bound(1 + self._empty_polls) * random.uniform(0.8, 1.2)
            if next_at is not None:
                pause = min(pause, max(next_at - self._store.clock.now(), 0.001))
            self._poll_at = time.monotonic() + pause
            if self._burst and not found and next_at is None and is_sure:
                self._stopped = True
            self._changed.notify_all()

    def shuffle(self) -> None:
        """Another worker was quicker: the rest is tried in another order than the others try it."""
        with self._changed:
            rest = list(self._candidates)
            random.shuffle(rest)
            self._candidates = deque(rest)

    def wake(self) -> None:
        """There may be something to do now."""
        with self._changed:
            self._poll_at = 0.0
            self._empty_polls = 0
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._candidates.clear()
            self._changed.notify_all()


@dataclass(slots=True)
class _Next:
    """What a thread does next: an attempt whose job is claimed already, or a candidate that it holds."""

    attempt: Attempt | None = None
    candidate: Job | None = None


class Worker:
    """Attempts an app's jobs in threads of this process until it is stopped, or (burst) until there are none."""

    def __init__(
        self,
        app: App,
        *,
        queues: tuple[str, ...] = ("default",),
        concurrency: int = DEFAULT_CONCURRENCY,
        burst: bool = False,
        grace_seconds: float = DEFAULT_GRACE_SECONDS,
        idle_seconds: float = DEFAULT_IDLE_SECONDS,
        name: str | None = None,
        on_end: Callable[[Job, str], None] = lambda job, how: None,
    ) -> None:
        if not 1 <= concurrency <= MOST_CONCURRENCY:
            raise PenstockError(f"concurrency is 1 to {MOST_CONCURRENCY:,}, not {concurrency}.")
        if not app.tasks:
            raise PenstockError("The app has no task: nothing could be run. Decorate a function with @app.task().")
        self.app = app
        self.name = name or new_owner()
        # On the engine of this process, threads that write at once only take the interpreter from each other, at every
        # step of every statement: one at a time, each job costs half as much.
        one_at_a_time = app.store.db.capabilities.parallel_calls == 1
        gate = WriteGate() if one_at_a_time else None
        self._gate: AbstractContextManager[Any] = gate or nullcontext()
        self._most_together = min(MOST_TOGETHER, concurrency) if one_at_a_time else 1
        self.fetcher = Fetcher(
            app.store, queues, verdict=self._verdict, idle_seconds=idle_seconds, burst=burst, gate=gate
        )
        self._outcomes = Outcomes(app.store, self.fetcher.wake, on_end)
        self.counts = self._outcomes.counts
        self._store = app.store
        self._queues = queues
        self._concurrency = concurrency
        self._grace_seconds = grace_seconds
        self._started_at = self._store.clock.now()
        registry = WorkerRegistry(self._store.db, self._store.layout)
        self._heartbeat = Heartbeat(
            registry,
            Scheduler(app, registry, self.fetcher.wake),
            info=self.info,
            attempts=lambda: list(self._attempts),
            fail_at_limit=self._fail_at_limit,
        )
        # By attempt: the one before, which has overrun its time limit, may still be there beside the next one.
        self._attempts: dict[Attempt, None] = {}
        self._threads_of: dict[Attempt, threading.Thread] = {}
        self._functions: dict[str, Callable[..., Any]] = {}
        self._stop_reason = "its worker stops"
        self._threads: list[threading.Thread] = []
        self._opening = threading.Lock()
        self._stopping = threading.Event()
        self._unknown: set[str] = set()
        self._lost = ""
        if app.store.db.capabilities.has_engine:
            app.store.db.engine.when_lost(self._stop_lost)
        self._loop: asyncio.AbstractEventLoop | None = None

    # ── its life ─────────────────────────────────────────────────────────────────────────────────

    def run(self) -> Counts:
        """Works until `stop` is called, or (burst) until there is nothing more to do.

        Raises DatabaseLost if its database file is deleted, replaced or overwritten: there is nothing left to work on.
        """
        self._functions = {name: protect(task.function) for name, task in self.app.tasks.items()}
        unlisten = self.app.when_enqueued(self.fetcher.wake)
        self._heartbeat.start()
        self._threads = [self._new_thread(number) for number in range(self._concurrency)]
        try:
            for thread in self._threads:
                thread.start()
            while any(thread.is_alive() for thread in self._threads) and not self._stopping.is_set():
                self._stopping.wait(0.1)
            self._wind_down()
        finally:
            self.fetcher.stop()
            unlisten()
            self._heartbeat.stop()
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
        if self._lost:
            raise DatabaseLost(self._lost)
        return self.counts

    def stop(self, reason: str = "its worker stops") -> None:
        """Asks it to stop; `run` returns when it has. Safe in a signal handler."""
        self._stop_reason = reason
        self._stopping.set()

    def _stop_lost(self, reason: str) -> None:
        self._lost = reason
        self.stop("its database is lost")

    def _wind_down(self) -> None:
        self.fetcher.stop()
        while (waiting := self.fetcher.batch.begin_next()) is not None:
            self._requeue(waiting)
            self._attempts.pop(waiting, None)
        for attempt in list(self._attempts):
            attempt.stop(self._stop_reason)
        end = time.monotonic() + self._grace_seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        self._write_returned(0)
        for attempt in list(self._attempts):
            self._requeue(attempt)

    def _requeue(self, attempt: Attempt) -> None:
        """A task that did not stop in time: the job is another worker's now, whatever the task still does."""
        try:
            attempt.finish(lambda job: self._store.requeue(job, "its worker could not wait for it any longer"))
            self._outcomes.count("requeued", attempt.job)
        except PenstockError as error:
            _LOG.warning("%s could not be requeued: %s", attempt.job.id, error)
        attempt.lost = LeaseLost(attempt.job.id, None, "its worker has given it back")

    def _new_thread(self, number: int) -> threading.Thread:
        # Daemons: a task that never returns must not keep the process.
        return threading.Thread(target=self._work, name=f"penstock-task-{number}", daemon=True)

    def info(self) -> WorkerInfo:
        """What it writes down of itself."""
        return WorkerInfo(
            name=self.name,
            started_at=self._started_at,
            seen_at=self._store.clock.now(),
            queues=self._queues,
            tasks=tuple(sorted(self.app.tasks)),
            concurrency=self._concurrency,
            running=len(self._attempts),
            done=self.counts.total,
            read_units=self.fetcher.read_units,
        )

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────

    def _verdict(self, job: Job) -> Verdict:
        if job.state in TERMINAL or job.unregistered:
            return "take"  # there is something to settle
        if job.task not in self._functions:
            if job.task not in self._unknown:
                self._unknown.add(job.task)
                _LOG.warning(
                    "%s wants the task %r, which this app does not have; it is left to others.", job.id, job.task
                )
            return "leave"
        is_free = job.concurrency_key is None or self._outcomes.blocked.get(job.concurrency_key, 0.0) < time.monotonic()
        return "take" if is_free else "later"

    def _work(self) -> None:
        taken: Attempt | Job | None = None
        is_busy = False
        while not self._stopping.is_set():
            try:
                if taken is None:
                    was_busy, is_busy = is_busy, False
                    taken = self.fetcher.fetch(is_back=was_busy)
                    if taken is None:
                        return
                    is_busy = True
                attempt = self._attempt_of(taken)
            except Exception as error:
                # The database is away, or slow: its jobs are still there when it is back.
                _LOG.warning("No job could be taken: %s", error)
                self._stopping.wait(_TROUBLE_SECONDS)
                taken = None
                continue
            taken = None
            while attempt is not None:
                following = _Next()
                if not self._perform(attempt, following):
                    return
                attempt, taken = following.attempt, following.candidate

    def _attempt_of(self, taken: Attempt | Job) -> Attempt | None:
        if isinstance(taken, Attempt):
            self._write_returned(0)  # the thread of its batch is held up
            return taken
        with self._gate:
            return self._claim(taken)

    def _claim(self, candidate: Job) -> Attempt | None:
        try:
            if candidate.state in TERMINAL or candidate.unregistered:
                self._store.settle(candidate)
                return None
            task = self.app.tasks[candidate.task]
            job = self._store.claim(candidate, self.name, task.settings.lease_seconds)
            if job is None:
                self.fetcher.shuffle()
                return None
        except LimitReached as reached:
            self._outcomes.blocked[reached.concurrency_key or ""] = time.monotonic() + LATER_SECONDS
            return None
        finally:
            self.fetcher.end_claim(candidate.id)
        return self._new_attempt(job)

    def _new_attempt(self, job: Job) -> Attempt:
        attempt = Attempt(self._store, job)
        self._attempts[attempt] = None
        return attempt

    def _perform(self, attempt: Attempt, following: _Next) -> bool:
        """Runs the job to an end; False if its slot was given to another thread meanwhile."""
        task = self.app.tasks[attempt.job.task]
        attempt.begin(task.settings.time_limit_seconds, task.settings.soft_time_limit_seconds)
        if self._stopping.is_set():
            attempt.stop(self._stop_reason)
        self._threads_of[attempt] = threading.current_thread()
        self._heartbeat.watch(attempt)
        is_back = False
        try:
            arguments = self._store.load(attempt.job, attempt.job.args)
            value = self._call(task, attempt, arguments)
            is_back = self._has_returned(attempt)
            if is_back:
                self._end_returned(attempt, value, following)
        except BaseException as error:  # SystemExit and KeyboardInterrupt of a task's are failures of the task
            is_back = is_back or self._has_returned(attempt)
            if is_back:  # otherwise its time was up, and its end has been told
                self._store_raised(attempt, task, error)
                self._attempts.pop(attempt, None)
        return is_back

    def _store_raised(self, attempt: Attempt, task: Task[Any, Any], error: BaseException) -> None:
        match error:
            case LeaseLost():
                self._outcomes.count_lost(attempt, error)
            case JobCancelled():
                self._outcomes.end(attempt, "cancelled", self._store.end_cancelled)
            case JobRequeued():
                self._outcomes.end(attempt, "requeued", lambda job: self._store.requeue(job, str(error)))
            case _:
                self._outcomes.store_failure(attempt, task, error)

    def _has_returned(self, attempt: Attempt) -> bool:
        """Whether the task has come back before its time was up; if not, its thread has been replaced."""
        return self._threads_of.pop(attempt, None) is not None

    def _end_returned(self, attempt: Attempt, value: Any, following: _Next) -> None:
        """Ends the job, with the next ones claimed by the same commit; or leaves it to be ended with them."""
        result = None if attempt.lost is not None else short_result(value)
        if result is None:
            with self._gate:
                self._outcomes.end(attempt, "completed", lambda job: self._store.complete(job, value))
            self._attempts.pop(attempt, None)
            return
        attempt.deadline = None  # what is left is to write that down, which has no time limit
        following.attempt = self.fetcher.batch.add_returned(attempt, result)
        if following.attempt is not None:
            self.fetcher.wake_watcher()
            return
        self._write_returned(self._room())
        if not self._stopping.is_set():
            following.attempt = self.fetcher.batch.begin_next()
            if following.attempt is None:
                following.candidate = self.fetcher.pop_candidate()  # not for a batch, or to be settled

    def _room(self) -> int:
        """How many more jobs can be claimed, for this thread and those that are free."""
        if self._stopping.is_set():
            return 0
        free = self._concurrency - self.fetcher.active + 1
        most = 1 if any(attempt.job.crashes for attempt in list(self._attempts)) else min(self._most_together, free)
        return max(0, most - len(self.fetcher.batch.waiting))

    def _write_returned(self, room: int) -> None:
        """Ends what has returned, and claims as many as there is room for of those at hand, with one commit."""
        with self._gate:
            returned = self.fetcher.batch.take_returned()
            candidates = self.fetcher.pop_plain(room)
            if not returned and not candidates:
                return
            ended, claimed = self._complete_and_claim(returned, candidates)
            for candidate in candidates:
                self.fetcher.end_claim(candidate.id)
            attempts = [self._new_attempt(job) for job in claimed if job is not None]
            if attempts:
                self.fetcher.batch.add(attempts)
        for one, job in zip(returned, ended, strict=True):
            self._count_returned(one, job)  # outside the gate: where the database is away, an end is tried for long

    def _complete_and_claim(
        self, returned: list[Returned], candidates: list[Job]
    ) -> tuple[list[Job | None], list[Job | None]]:
        tasks = self.app.tasks
        try:
            with ExitStack() as stack:
                for one in returned:
                    stack.enter_context(one.attempt.lock)
                ended, claimed = self._store.complete_and_claim(
                    [(one.attempt.job, one.result) for one in returned],
                    [(job, tasks[job.task].settings.lease_seconds) for job in candidates],
                    self.name,
                )
                for one, job in zip(returned, ended, strict=True):
                    if job is not None:
                        one.attempt.job = job
        except (PenstockError, OSError):
            # Each is tried alone, and what is wrong is told of each; the candidates are still where they were found.
            return [None] * len(returned), []
        if any(job is None for job in claimed):
            self.fetcher.shuffle()
        return ended, claimed

    def _count_returned(self, one: Returned, ended: Job | None) -> None:
        """Counts what has been ended; what could not be ended with the others is ended alone."""
        if ended is None:
            self._outcomes.end(one.attempt, "completed", lambda job: self._store.complete(job, from_json(one.result)))
        else:
            self._outcomes.count("completed", ended)
        self._attempts.pop(one.attempt, None)

    def _call(self, task: Task[Any, Any], attempt: Attempt, arguments: dict[str, Any]) -> Any:
        function = self._functions[task.name]
        context = JobContext(attempt)
        if not task.is_async:
            return function(context, **arguments)
        coroutine: Any = function(AsyncJobContext(context), **arguments)
        future: Future[Any] = asyncio.run_coroutine_threadsafe(coroutine, self._event_loop())
        self._heartbeat.cancel_at_limit(attempt, future)
        return future.result()

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        with self._opening:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="penstock-async", daemon=True).start()
            return self._loop

    def _fail_at_limit(self, attempt: Attempt) -> None:
        """The time limit is over: the attempt has failed, and its thread, which may never end, is replaced."""
        stuck = self._threads_of.pop(attempt, None)
        if stuck is None:
            return  # it has returned at this moment
        task = self.app.tasks[attempt.job.task]
        error = TimeoutError(f"it took longer than its time limit of {task.settings.time_limit_seconds or 0:g} s")
        # The heartbeat calls this: while it waited, nobody's lease would be renewed.
        self._outcomes.store_failure(attempt, task, error, patient=False)
        attempt.lost = LeaseLost(attempt.job.id, None, "its time limit is over")
        self._attempts.pop(attempt, None)
        self.fetcher.release_thread()
        if stuck in self._threads:
            thread = self._new_thread(len(self._threads))
            thread.start()  # first: a list without a living thread means that the work is done
            self._threads = [thread if one is stuck else one for one in self._threads]
