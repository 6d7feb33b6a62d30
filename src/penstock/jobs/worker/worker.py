"""A worker: takes jobs, runs their tasks, and keeps their leases while they run.

1. A job is run only under a lease that this worker was granted, and what it writes is fenced by its token.
2. Leases are renewed beside the task, by one thread for all; a task that reports renews its own.
3. When the worker is asked to stop it takes nothing more. Tasks finish, or hand over at their next report; what has
   done neither when the grace is over is given back, and fenced.
4. This loop is the one place that catches everything a task may raise, and it is stored with the job.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from penstock.errors import DatabaseLost, PenstockError
from penstock.jobs.app import App
from penstock.jobs.model.job import Job, JobCancelled
from penstock.jobs.model.json_text import from_json
from penstock.jobs.store.claims import LimitReached, short_result
from penstock.jobs.tasks import Task
from penstock.jobs.worker.context import AsyncRun, HandOver, Run
from penstock.jobs.worker.fetcher import DEFAULT_IDLE_SECONDS, LATER_SECONDS, Feed, Verdict
from penstock.jobs.worker.group_commit import MOST_TOGETHER, Returned, Turn
from penstock.jobs.worker.heartbeat import Keeper
from penstock.jobs.worker.outcomes import Counts, Ends
from penstock.jobs.worker.registry import Registry, WorkerInfo
from penstock.leases import LeaseLost, new_owner

_LOG = logging.getLogger("penstock.jobs")

DEFAULT_CONCURRENCY: Final = 8
MOST_CONCURRENCY: Final = 1_000
DEFAULT_GRACE_SECONDS: Final = 30.0
_TROUBLE_SECONDS: Final = 1.0


@dataclass(slots=True)
class _Following:
    """What a thread does next: a run whose job is claimed already, or a candidate that it holds."""

    run: Run | None = None
    candidate: Job | None = None


class Worker:
    """Runs an app's jobs in threads of this process until it is stopped, or (burst) until there are none."""

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
        # step of every statement: in turn, each job costs half as much.
        one_at_a_time = app.store.db.capabilities.parallel_calls == 1
        turn = Turn() if one_at_a_time else None
        self._turn: AbstractContextManager[Any] = turn or nullcontext()
        self._most_together = min(MOST_TOGETHER, concurrency) if one_at_a_time else 1
        self.feed = Feed(app.store, queues, verdict=self._verdict, idle_seconds=idle_seconds, burst=burst, turn=turn)
        self._ends = Ends(app.store, self.feed, on_end)
        self.counts = self._ends.counts
        self._store = app.store
        self._queues = queues
        self._concurrency = concurrency
        self._grace_seconds = grace_seconds
        self._started_at = self._store.clock.now()
        self._registry = Registry(self._store.db, self._store.layout)
        self._keeper = Keeper(self, app, self._registry)
        # By run: the attempt before, which has overrun its time limit, may still be there beside the next one.
        self._runs: dict[Run, None] = {}
        self._places: dict[Run, threading.Thread] = {}
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
        unlisten = self.app.when_enqueued(self.feed.wake)
        self._keeper.start()
        self._threads = [self._new_thread(number) for number in range(self._concurrency)]
        try:
            for thread in self._threads:
                thread.start()
            while any(thread.is_alive() for thread in self._threads) and not self._stopping.is_set():
                self._stopping.wait(0.1)
            self._wind_down()
        finally:
            self.feed.stop()
            unlisten()
            self._keeper.stop()
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
        if self._lost:
            raise DatabaseLost(self._lost)
        return self.counts

    def stop(self, reason: str = "its worker stops") -> None:
        """Asks it to stop; `run` returns when it has. Safe in a signal handler."""
        self._keeper.stop_reason = reason
        self._stopping.set()

    def _stop_lost(self, reason: str) -> None:
        self._lost = reason
        self.stop("its database is lost")

    def _wind_down(self) -> None:
        self.feed.stop()
        while (waiting := self.feed.bundle.begun()) is not None:
            self._give_back(waiting)
            self._runs.pop(waiting, None)
        for run in self.runs:
            run.stop(self._keeper.stop_reason)
        end = time.monotonic() + self._grace_seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        self._write_ended(0)
        for run in self.runs:
            self._give_back(run)

    def _give_back(self, run: Run) -> None:
        """A task that did not stop in time: the job is another worker's now, whatever the task still does."""
        try:
            run.finish(lambda job: self._store.hand_over(job, "its worker could not wait for it any longer"))
            self._ends.count("handed_over", run.job)
        except PenstockError as error:
            _LOG.warning("%s could not be handed over: %s", run.id, error)
        run.give_up(LeaseLost(run.id, None, "its worker has given it back"))

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
            running=len(self._runs),
            done=self.counts.total,
            read_units=self.feed.read_units,
        )

    @property
    def runs(self) -> list[Run]:
        """Those under way."""
        return list(self._runs)

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────

    def _verdict(self, job: Job) -> Verdict:
        if job.is_terminal or job.unregistered:
            return "take"  # there is something to settle
        if job.task not in self.app.tasks:
            if job.task not in self._unknown:
                self._unknown.add(job.task)
                _LOG.warning(
                    "%s wants the task %r, which this app does not have; it is left to others.", job.id, job.task
                )
            return "leave"
        is_free = job.limit_key is None or self._ends.blocked.get(job.limit_key, 0.0) < time.monotonic()
        return "take" if is_free else "later"

    def _work(self) -> None:
        taken: Run | Job | None = None
        is_busy = False
        while not self._stopping.is_set():
            try:
                if taken is None:
                    was_busy, is_busy = is_busy, False
                    taken = self.feed.take(back=was_busy)
                    if taken is None:
                        return
                    is_busy = True
                run = self._claimed(taken)
            except Exception as error:
                # The database is away, or slow: its jobs are still there when it is back.
                _LOG.warning("No job could be taken: %s", error)
                self._stopping.wait(_TROUBLE_SECONDS)
                taken = None
                continue
            taken = None
            while run is not None:
                following = _Following()
                if not self._perform(run, following):
                    return
                run, taken = following.run, following.candidate

    def _claimed(self, taken: Run | Job) -> Run | None:
        if isinstance(taken, Run):
            self._write_ended(0)  # its bundle's thread is held up
            return taken
        with self._turn:
            return self._claim(taken)

    def _claim(self, candidate: Job) -> Run | None:
        try:
            if candidate.is_terminal or candidate.unregistered:
                self._store.settle(candidate)
                return None
            task = self.app.tasks[candidate.task]
            job = self._store.claim(candidate, self.name, task.settings.lease_seconds)
            if job is None:
                self.feed.contended()
                return None
        except LimitReached as reached:
            self._ends.blocked[reached.limit_key or ""] = time.monotonic() + LATER_SECONDS
            return None
        finally:
            self.feed.tried(candidate.id)
        return self._run_of(job)

    def _run_of(self, job: Job) -> Run:
        run = Run(self._store, job, margin_seconds=self.app.tasks[job.task].settings.margin_seconds)
        self._runs[run] = None
        return run

    def _perform(self, run: Run, following: _Following) -> bool:
        """Runs the job to an end; False if its slot was given to another thread meanwhile."""
        task = self.app.tasks[run.job.task]
        run.begin(task.settings.time_limit_seconds)
        if self._stopping.is_set():
            run.stop(self._keeper.stop_reason)
        self._places[run] = threading.current_thread()
        self._keeper.watch(run)
        is_back = False
        try:
            arguments = self._store.load(run.job, run.job.args)
            value = self._call(task, run, arguments)
            is_back = self._is_back(run)
            if is_back:
                self._returned(run, value, following)
        except BaseException as error:  # SystemExit and KeyboardInterrupt of a task's are failures of the task
            is_back = is_back or self._is_back(run)
            if is_back:  # otherwise its time was up, and its end has been told
                self._raised(run, task, error)
                self._runs.pop(run, None)
        return is_back

    def _raised(self, run: Run, task: Task[Any, Any], error: BaseException) -> None:
        match error:
            case LeaseLost():
                self._ends.lost(run, error)
            case JobCancelled():
                self._ends.end(run, "cancelled", self._store.end_cancelled)
            case HandOver():
                self._ends.end(run, "handed_over", lambda job: self._store.hand_over(job, str(error)))
            case _:
                self._ends.failed(run, task, error)

    def _is_back(self, run: Run) -> bool:
        """Whether the task has come back before its time was up; if not, its thread has been replaced."""
        return self._places.pop(run, None) is not None

    def _returned(self, run: Run, value: Any, following: _Following) -> None:
        """Ends the job, with the next ones claimed by the same commit; or leaves it to be ended with them."""
        result = None if run.is_lost else short_result(value)
        if result is None:
            with self._turn:
                self._ends.end(run, "completed", lambda job: self._store.complete(job, value))
            self._runs.pop(run, None)
            return
        run.has_returned()
        following.run = self.feed.bundle.ended(run, result)
        if following.run is not None:
            self.feed.leave_to_watch()
            return
        self._write_ended(self._room())
        if not self._stopping.is_set():
            following.run = self.feed.bundle.begun()
            if following.run is None:
                following.candidate = self.feed.take_at_hand()  # not one for a bundle, or there is something to settle

    def _room(self) -> int:
        """How many more jobs can be claimed, for this thread and those that are free."""
        if self._stopping.is_set():
            return 0
        free = self._concurrency - self.feed.active + 1
        most = 1 if any(run.job.crashes for run in self.runs) else min(self._most_together, free)
        return max(0, most - len(self.feed.bundle))

    def _write_ended(self, room: int) -> None:
        """Ends what has returned, and claims as many as there is room for of those at hand, with one commit."""
        with self._turn:
            returned = self.feed.bundle.take_ended()
            candidates = self.feed.take_plain(room)
            if not returned and not candidates:
                return
            ended, claimed = self._written(returned, candidates)
            for candidate in candidates:
                self.feed.tried(candidate.id)
            self.feed.bundle.add([self._run_of(job) for job in claimed if job is not None])
        for one, job in zip(returned, ended, strict=True):
            self._told(one, job)  # out of turn: where the database is away, an end is tried for long

    def _written(self, returned: list[Returned], candidates: list[Job]) -> tuple[list[Job | None], list[Job | None]]:
        tasks = self.app.tasks
        try:
            with ExitStack() as stack:
                for one in returned:
                    stack.enter_context(one.run.finishing())
                ended, claimed = self._store.complete_and_claim(
                    [(one.run.job, one.result) for one in returned],
                    [(job, tasks[job.task].settings.lease_seconds) for job in candidates],
                    self.name,
                )
                for one, job in zip(returned, ended, strict=True):
                    if job is not None:
                        one.run.finished(job)
        except (PenstockError, OSError):
            # Each is tried alone, and what is wrong is told of each; the candidates are still where they were found.
            return [None] * len(returned), []
        if any(job is None for job in claimed):
            self.feed.contended()
        return ended, claimed

    def _told(self, one: Returned, ended: Job | None) -> None:
        """Counts what has been ended; what could not be ended with the others is ended alone."""
        if ended is None:
            self._ends.end(one.run, "completed", lambda job: self._store.complete(job, from_json(one.result)))
        else:
            self._ends.count("completed", ended)
        self._runs.pop(one.run, None)

    def _call(self, task: Task[Any, Any], run: Run, arguments: dict[str, Any]) -> Any:
        if not task.is_async:
            return task.function(run, **arguments)
        coroutine: Any = task.function(AsyncRun(run), **arguments)
        future: Future[Any] = asyncio.run_coroutine_threadsafe(coroutine, self._event_loop())
        self._keeper.cancel_at_limit(run, future)
        return future.result()

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        with self._opening:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="penstock-async", daemon=True).start()
            return self._loop

    def fail_at_limit(self, run: Run, seconds: float) -> None:
        """The time limit is over: the attempt has failed, and its thread, which may never end, is replaced."""
        stuck = self._places.pop(run, None)
        if stuck is None:
            return  # it has returned at this moment
        error = TimeoutError(f"it took longer than its time limit of {seconds:g} s")
        # The keeper calls this: while it waited, nobody's lease would be renewed.
        self._ends.failed(run, self.app.tasks[run.job.task], error, patient=False)
        run.give_up(LeaseLost(run.id, None, "its time limit is over"))
        self._runs.pop(run, None)
        self.feed.came_back()
        if stuck in self._threads:
            thread = self._new_thread(len(self._threads))
            thread.start()  # first: a list without a living thread means that the work is done
            self._threads = [thread if one is stuck else one for one in self._threads]
