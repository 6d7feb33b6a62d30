"""A worker: takes jobs, runs their tasks, and keeps their leases while they run.

1. A job is run only under a lease that this worker was granted, and what it writes is fenced by its token.
2. Leases are renewed beside the task, by one thread for all; a task that reports renews its own.
3. When the worker is asked to stop it takes nothing more. Tasks finish, or are requeued at their next report, and
   coroutines at their `await`; what has done neither when the grace is over is requeued here, and fenced.
4. The worker's loop is the one place that catches everything a task may raise, and it is stored with the job.
A. A database that is away stops nothing: what the worker itself asks of it waits until it is back or the worker stops,
   what a task asks waits as context.py says (4). A job whose function still runs here is not taken by this worker.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import DatabaseLost, PenstockError
from penstock.jobs.app import App
from penstock.jobs.context import CALL_AGAIN, Attempt, JobContext
from penstock.jobs.hooks import EndHooks
from penstock.jobs.metrics import otel
from penstock.jobs.metrics.worker_metrics import WorkerMetrics
from penstock.jobs.model.job import Job, JobCancelled
from penstock.jobs.model.json_text import from_json
from penstock.jobs.model.rate import has_slot
from penstock.jobs.model.state import State
from penstock.jobs.store.patience import is_outage, patient
from penstock.jobs.store.store import LimitReached, short_result
from penstock.jobs.tasks import Task
from penstock.jobs.worker.coroutines import Coroutines, EndedCoroutine
from penstock.jobs.worker.fetcher import (
    DEFAULT_IDLE_SECONDS,
    LATER_SECONDS,
    MOST_TOGETHER,
    Fetcher,
    Returned,
    Verdict,
    WriteGate,
)
from penstock.jobs.worker.heartbeat import Heartbeat
from penstock.jobs.worker.invocation import invocation_of
from penstock.jobs.worker.log_context import add_to_handlers
from penstock.jobs.worker.outcomes import Counts, Outcomes
from penstock.jobs.worker.registry import PEERS_SECONDS, NameTaken, Peers, WorkerInfo, WorkerRegistry
from penstock.jobs.worker.scheduler import Scheduler
from penstock.jobs.worker.wake_up import WakeUp
from penstock.leases import LeaseLost, new_owner
from penstock.processes import note_stop, this_process
from penstock.retry import Outage

if TYPE_CHECKING:
    from penstock.jobs.worker.trigger_feeds import TriggerFeeds

_LOG = logging.getLogger("penstock.jobs")

DEFAULT_CONCURRENCY: Final = 8
MOST_CONCURRENCY: Final = 1_000
DEFAULT_GRACE_SECONDS: Final = 30.0
_FREE_THREADS: Final = 16
"""A worker begins with so many, or as many as its concurrency. Further ones are made as tasks take them."""
_GRACE_PART: Final = 0.25
_END_PART: Final = 0.1
"""Of a worker's time limit: the most that its grace takes by default, and the most that its last writes take."""
_TROUBLE_SECONDS: Final = 1.0
_LAST_WRITES_SECONDS: Final = 5.0
"""How long a worker that ends tries to tell the database."""
_LAST_TRY_SECONDS: Final = 1.0
"""The same where the database is away already."""


@dataclass(slots=True)
class _Next:
    """What a thread does next: an attempt whose job is claimed already, or a candidate that it holds."""

    attempt: Attempt | None = None
    candidate: Job | None = None
    is_busy: bool = True
    """Whether the thread still counts as one that has a job: not if it has started a coroutine."""


class Worker:
    """Attempts an app's jobs in threads of this process, and `async def` tasks on an event loop, until it is stopped.

    With `burst`, until no job is due; with `until_empty`, also those that are due later, or that a worker which may
    have died still holds. With `time_limit_seconds`, counted from here, it stops by itself in time: `run` returns
    within the limit, and the grace (a quarter of it at most, unless it is given) is part of it.
    """

    def __init__(
        self,
        app: App,
        *,
        queues: tuple[str, ...] = ("default",),
        concurrency: int = DEFAULT_CONCURRENCY,
        burst: bool = False,
        until_empty: bool = False,
        grace_seconds: float | None = None,
        idle_seconds: float = DEFAULT_IDLE_SECONDS,
        time_limit_seconds: float | None = None,
        name: str | None = None,
        on_end: Callable[[Job, str], None] = lambda job, how: None,
        metrics: WorkerMetrics | None = None,
    ) -> None:
        if not 1 <= concurrency <= MOST_CONCURRENCY:
            raise PenstockError(f"concurrency is 1 to {MOST_CONCURRENCY:,}, not {concurrency}.")
        app.import_tasks()
        if not app.tasks:
            raise PenstockError("The app has no task: nothing could be run. Decorate a function with @app.task().")
        self.app = app
        self.name = name or new_owner()
        self._grace_seconds, stops_after = _stop_times(grace_seconds, time_limit_seconds)
        self._stops_at = None if stops_after is None else time.monotonic() + stops_after
        if not burst:
            await_database(app, self._stops_at)
        # On the engine of this process, threads that write at once only take the interpreter from each other, at every
        # step of every statement: one at a time, each job costs half as much.
        one_at_a_time = app.store.db.capabilities.parallel_calls == 1
        gate = WriteGate() if one_at_a_time else None
        self._gate: AbstractContextManager[Any] = gate or nullcontext()
        self._most_together = min(MOST_TOGETHER, concurrency) if one_at_a_time else 1
        registry = WorkerRegistry(app.store.patient_db, app.store.layout)
        self._peers = Peers(
            app.store, registry, wants=lambda job: job.queue in self._queues and job.task in self._functions
        )
        self.fetcher = Fetcher(
            app.store,
            queues,
            verdict=self._verdict,
            peers=self._peers,
            place=lambda: self._peers.place_of(self.name, self._queues),
            attempts=lambda: list(self._attempts),
            tasks=app.tasks,
            idle_seconds=idle_seconds,
            burst=burst,
            until_empty=until_empty,
            gate=gate,
            concurrency=concurrency,
        )
        if metrics is None and otel.is_loaded():
            metrics = WorkerMetrics(lambda: app.store, queues)
        if metrics is not None:
            metrics.watch(lambda: len(self._attempts))
        self._metrics = metrics
        self._outcomes = Outcomes(app.store, self.fetcher.wake, on_end, metrics)
        self.counts = self._outcomes.counts
        self._store = app.store
        self._queues = queues
        self._concurrency = concurrency
        self._burst = burst
        self._ends_by_itself = burst or until_empty
        self._started_at = self._store.clock.now()
        self._process = ""
        self._heartbeat = Heartbeat(
            registry,
            Scheduler(app, registry, self.fetcher.wake),
            self._peers,
            wake=self.fetcher.wake,
            info=self.info,
            attempts=lambda: list(self._attempts),
            fail_at_limit=self._fail_at_limit,
            cancel_coroutines=lambda: self._coroutines.cancel_due(self.name, list(self._attempts)),
            requeue_abandoned=self._outcomes.requeue_abandoned,
            outage=self._store.outage,
            capabilities=app.store.db.capabilities,
        )
        # By attempt: the one before, which has overrun its time limit, may still be there beside the next one.
        self._attempts: dict[Attempt, None] = {}
        self._threads_of: dict[Attempt, threading.Thread] = {}
        self._functions: dict[str, Callable[..., Any]] = {}
        self._stop_reason = "its worker stops"
        self._threads: list[threading.Thread] = []
        self._changing_threads = threading.Lock()
        self._stopping = threading.Event()
        self._unknown: set[str] = set()
        self._lost = ""
        if app.store.db.capabilities.has_engine:
            app.store.db.engine.when_lost(self._stop_lost)
        self._coroutines = Coroutines(app.store, self.fetcher.add_ended)

    # ── its life ─────────────────────────────────────────────────────────────────────────────────

    def run(self) -> Counts:
        """Works until `stop` is called, or (burst) until there is nothing more to do.

        Raises DatabaseLost if its database file is deleted, replaced or overwritten: there is nothing left to work on.
        """
        hooks = {name: self.app.hooks_of(task) for name, task in self.app.tasks.items()}
        self._functions = {name: invocation_of(task, hooks[name]) for name, task in self.app.tasks.items()}
        self._outcomes.end_hooks = EndHooks(hooks) or None
        self._store.rates.task_rates = {name: task.rate for name, task in self.app.tasks.items() if task.rate}
        add_to_handlers()
        self._process = this_process()
        timer = self._start_timer()
        self._sign_on()
        unlisten = self.app.when_enqueued(self.fetcher.wake)
        wake_up = WakeUp(self._store.db, self.fetcher)
        feeds = self._start_feeds()
        if not self._burst:
            wake_up.start()
        self._heartbeat.start()
        self._threads = [self._new_thread(number) for number in range(min(self._concurrency, _FREE_THREADS))]
        try:
            for thread in list(self._threads):
                thread.start()
            while any(thread.is_alive() for thread in self._threads) and not self._stopping.is_set():
                self._stopping.wait(0.1)
            self._wind_down()
        finally:
            timer.cancel()
            self.fetcher.stop(at_once=True)
            if feeds is not None:
                feeds.stop()
            unlisten()
            wake_up.stop()
            self._run_briefly(self._heartbeat.stop)
            if not self._heartbeat.has_signed_off:
                note_stop(self._process, self.name)
            self._coroutines.stop()
        if self._lost:
            raise DatabaseLost(self._lost)
        return self.counts

    def _start_feeds(self) -> TriggerFeeds | None:
        """Reads the changes that the app has triggers for; a worker that ends by itself, those that there are."""
        if not self.app.triggers:
            return None
        from penstock.jobs.worker.trigger_feeds import TriggerFeeds

        feeds = TriggerFeeds(self.app)
        if self._ends_by_itself:
            feeds.run_once()
        else:
            feeds.start()
        return feeds

    def _start_timer(self) -> threading.Timer:
        """Stops the worker when its own time limit says so."""
        left = math.inf if self._stops_at is None else self._stops_at - time.monotonic()
        timer = threading.Timer(max(0.0, left), self.stop, ["its worker's time is nearly up"])
        if self._stops_at is not None:
            timer.daemon = True
            timer.start()
        return timer

    def _sign_on(self) -> None:
        """Tries until the database can be asked, and until nobody else has the name."""
        while not self._stopping.is_set():
            try:
                with patient(self._wait):
                    self._heartbeat.sign_on()
                    if self._peers.sees_ended() and not self._stopping.wait(PEERS_SECONDS):
                        self._peers.look()  # the jobs that those have left go first (fetcher.py, 14)
                return
            except NameTaken:
                self.name = f"{self.name}:{secrets.token_hex(3)}"
            except PenstockError as error:
                _LOG.warning("The worker could not sign on: %s", error)
                return  # nobody sees this worker, and it works all the same

    def stop(self, reason: str = "its worker stops") -> None:
        """Asks it to stop; `run` returns when it has. Safe in a signal handler."""
        self._stop_reason = reason
        self._stopping.set()

    def _stop_lost(self, reason: str) -> None:
        self._lost = reason
        self.stop("its database is lost")

    def _wind_down(self) -> None:
        self.fetcher.stop()
        if self._stopping.is_set():
            self._heartbeat.write_line_now()  # if it is killed while it stops, that is no crash
            if self._store.outage.began_at is not None:
                note_stop(self._process, self.name)
        self._run_briefly(self._give_back_waiting)
        for attempt in list(self._attempts):
            attempt.stop(self._stop_reason)
        self._coroutines.cancel_all()
        end = time.monotonic() + self._grace_seconds
        for thread in list(self._threads):
            thread.join(max(0.0, end - time.monotonic()))
        self._run_briefly(self._give_back)
        for attempt in list(self._attempts):
            self._outcomes.count_left(attempt)

    def _run_briefly(self, function: Callable[[], object]) -> None:
        """Runs it, and does not wait for long: a database that does not answer keeps no process from ending."""
        thread = threading.Thread(target=function, daemon=True)
        thread.start()
        thread.join(_LAST_WRITES_SECONDS if self._store.outage.began_at is None else _LAST_TRY_SECONDS)

    def _give_back_waiting(self) -> None:
        """Requeues what is claimed and was not begun."""
        while (waiting := self.fetcher.batch.begin_next()) is not None:
            self._requeue(waiting)
            self._attempts.pop(waiting, None)

    def _give_back(self) -> None:
        """Stores what has returned, and requeues what did not stop in time."""
        self._write_returned(0)
        for attempt in list(self._attempts):
            self._requeue(attempt)

    def _requeue(self, attempt: Attempt) -> None:
        """The job is another worker's now, or cancelled if it was to be, whatever the task still does."""
        how, reason = "requeued", "its worker could not wait for it any longer"
        try:
            try:
                attempt.finish(lambda job: self._store.requeue(job, reason), briefly=True)
            except JobCancelled:
                how = "cancelled"
                attempt.finish(self._store.end_cancelled, briefly=True)
        except PenstockError as error:
            _LOG.warning("%s could not be requeued: %s", attempt.job.id, error)
            self._outcomes.count_left(attempt)
        else:
            attempt.is_counted = True
            attempt.lost = LeaseLost(attempt.job.id, None, "its worker has given it back")
            self._outcomes.count(how, attempt.job)

    def _new_thread(self, number: int) -> threading.Thread:
        # Daemons: a task that never returns must not keep the process.
        return threading.Thread(target=self._work, name=f"penstock-task-{number}", daemon=True)

    def _keep_threads_free(self) -> None:
        """A thread runs a task now: some others stay free, for other jobs and for coroutines that end."""
        with self._changing_threads:
            if len(self._threads) < min(self._concurrency, len(self._threads_of) + _FREE_THREADS):
                thread = self._new_thread(len(self._threads))
                thread.start()
                self._threads.append(thread)

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
            process=self._process,
            stopping=self._stopping.is_set(),
        )

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────

    def _verdict(self, job: Job) -> Verdict:
        if job.needs_settling:
            return "take"  # there is something to settle
        if job.task not in self._functions:
            if job.task not in self._unknown:
                self._unknown.add(job.task)
                _LOG.warning(
                    "%s wants the task %r, which this app does not have; it is left to others.", job.id, job.task
                )
            return "leave"
        if job.task_version > self.app.tasks[job.task].settings.version:
            return "newer"  # it began with newer code than this worker's, and nothing here changes that
        if job.attempt and any(attempt.id == job.id for attempt in (*self._attempts, *self._outcomes.abandoned)):
            return "later"  # its function still runs here, or it is about to be given back (A)
        if job.state is State.PROCESSING and not self._peers.may_take(job):
            return "later"
        if job.state is State.QUEUED and self._is_blocked(job):
            return "limit"
        needs_slot = job.state is State.QUEUED and not has_slot(job.rate_key, job.rate_at, self._store.clock.now())
        return "rate" if needs_slot else "take"

    def _is_blocked(self, job: Job) -> bool:
        """Whether as many jobs with its concurrency key run as may, by what was seen a moment ago."""
        return (
            job.concurrency_key is not None and self._outcomes.blocked.get(job.concurrency_key, 0.0) >= time.monotonic()
        )

    def _work(self) -> None:
        taken: Attempt | Job | EndedCoroutine | None = None
        is_busy = False
        while self.fetcher.awaiting or not self._stopping.is_set():
            try:
                if self._stopping.is_set():  # and there are coroutines, whose ends are to be stored
                    self.fetcher.stop()
                    taken = None
                if taken is None:
                    was_busy, is_busy = is_busy, False
                    with patient(self._wait):
                        taken = self.fetcher.fetch(is_back=was_busy)
                    if taken is None:
                        return
                    is_busy = True
                if isinstance(taken, EndedCoroutine):
                    following = self._end_coroutine(taken)
                else:
                    with patient(self._wait):
                        following = _Next(self._attempt_of(taken))
                self._store.outage.end()
            except Exception as error:
                if not self._stopping.is_set():
                    _LOG.warning("No job could be taken: %s", error)
                    self._stopping.wait(_TROUBLE_SECONDS)
                taken = None
                continue
            while following.attempt is not None:
                attempt, following = following.attempt, _Next()
                if not self._perform(attempt, following):
                    return
                is_busy = following.is_busy
            taken = following.candidate

    def _wait(self, error: PenstockError, failures: int, since: float) -> None:
        """Between two tries of what the worker itself asks of the database (A)."""
        self._store.outage.note(error)
        self._peers.note_outage()
        if self._stopping.wait(CALL_AGAIN.wait(failures)):
            raise error

    def _attempt_of(self, taken: Attempt | Job) -> Attempt | None:
        if isinstance(taken, Attempt):
            self._write_returned(0)  # the thread of its batch is held up
            return taken
        with self._gate:
            return self._claim(taken)

    def _claim(self, candidate: Job) -> Attempt | None:
        try:
            if candidate.needs_settling:
                self._store.settle(candidate)
                return None
            task = self.app.tasks[candidate.task]
            if self._verdict(candidate) == "limit" and self._store.pools.set_aside_limited([candidate]):
                return None
            settings, asked_at = task.settings, time.monotonic()
            job = self._store.claim(
                candidate,
                self.name,
                settings.lease_seconds,
                max_crashes=settings.max_crashes,
                task_version=settings.version,
            )
            if job is None:
                self.fetcher.note_refused(1)
                return None
        except LimitReached as reached:
            self._outcomes.blocked[reached.concurrency_key or ""] = time.monotonic() + LATER_SECONDS
            self._store.pools.set_aside_limited([candidate])
            return None
        finally:
            self.fetcher.end_claim(candidate.id)
        return self._new_attempt(job, asked_at)

    def _new_attempt(self, job: Job, asked_at: float) -> Attempt:
        attempt = Attempt(self._store, job, asked_at)
        attempt.wake = self.fetcher.wake
        self._attempts[attempt] = None
        return attempt

    def _perform(self, attempt: Attempt, following: _Next) -> bool:
        """Runs the job to an end, or starts its coroutine; False if this thread was replaced meanwhile."""
        task = self.app.tasks[attempt.job.task]
        attempt.begin(task.settings.time_limit_seconds, task.settings.soft_time_limit_seconds)
        if self._metrics is not None:
            self._metrics.note_start(attempt.job)
        if self._stopping.is_set():
            attempt.stop(self._stop_reason)
        self._threads_of[attempt] = threading.current_thread()
        self._heartbeat.watch(attempt)
        is_back = False
        try:
            arguments = task.read_arguments(attempt.load(attempt.job, attempt.job.args))
            if task.is_async:
                is_back = self._has_returned(attempt)
                if is_back:
                    self._start_coroutine(task, attempt, arguments, following)
                return is_back
            if len(self._threads) < self._concurrency:
                self._keep_threads_free()
            value = self._functions[task.name](JobContext(attempt), **arguments)
            is_back = self._has_returned(attempt)
            if is_back:
                self._end_returned(attempt, value, following)
        except BaseException as error:  # SystemExit and KeyboardInterrupt of a task's are failures of the task
            is_back = is_back or self._has_returned(attempt)
            if is_back:  # otherwise its time was up, and its end has been told
                self._outcomes.store_raised(attempt, task, error)
                self._attempts.pop(attempt, None)
        return is_back

    def _start_coroutine(
        self, task: Task[Any, Any], attempt: Attempt, arguments: dict[str, Any], following: _Next
    ) -> None:
        if self.fetcher.active >= self._concurrency:
            self._write_returned(0)  # this thread may find nothing more to run, and has left that to the next one
        self.fetcher.detach()
        following.is_busy = False
        self._coroutines.start(attempt, self._functions[task.name], arguments)
        if self._stopping.is_set():
            self._coroutines.cancel(attempt)

    def _end_coroutine(self, ended: EndedCoroutine) -> _Next:
        """Stores how it has ended; what this thread does next."""
        attempt, following, error = ended.attempt, _Next(), ended.error
        if error is None:
            try:
                self._end_returned(attempt, ended.value, following)
            except BaseException as raised:
                error = raised
        if error is not None:
            self._outcomes.store_raised(attempt, self.app.tasks[attempt.job.task], error)
            self._attempts.pop(attempt, None)
        return following

    def _has_returned(self, attempt: Attempt) -> bool:
        """Whether the task has come back before its time was up; if not, its thread has been replaced."""
        return self._threads_of.pop(attempt, None) is not None

    def _end_returned(self, attempt: Attempt, value: Any, following: _Next) -> None:
        """Ends the job, with the next ones claimed by the same commit; or leaves it to be ended with them."""
        attempt.check_returned()
        task = self.app.tasks[attempt.job.task]
        result = None if attempt.lost is not None else short_result(value, task.write_result)
        if result is None:
            with self._gate:
                self._outcomes.end(
                    attempt, "completed", lambda job: self._store.complete(job, task.write_result(value))
                )
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
            if following.attempt is not None and self.fetcher.batch.has_returned:
                self._write_returned(0)  # another thread has left its end to whoever takes the last one (12)
            if following.attempt is None:
                following.candidate = self.fetcher.pop_candidate()  # not for a batch, or to be settled

    def _room(self) -> int:
        """How many more jobs can be claimed, for this thread and those that are free."""
        if self._stopping.is_set() or self.fetcher.alone is not None:
            return 0
        free = self._concurrency - self.fetcher.active + 1
        return max(0, min(self._most_together, free) - len(self.fetcher.batch.waiting))

    def _write_returned(self, room: int) -> None:
        """Ends what has returned, and claims as many as there is room for of those at hand, with one commit."""
        with self._gate:
            returned = self.fetcher.batch.take_returned()
            candidates = self.fetcher.pop_plain(min(room, self._room()))  # another thread may have filled it
            if not returned and not candidates:
                return
            asked_at = time.monotonic()
            ended, claimed = self._complete_and_claim(returned, candidates)
            for candidate in candidates:
                self.fetcher.end_claim(candidate.id)
            attempts = [self._new_attempt(job, asked_at) for job in claimed if job is not None]
            if attempts:
                self.fetcher.batch.add(attempts)
        for one, job in zip(returned, ended, strict=True):
            self._count_returned(one, job)  # outside the gate: where the database is away, an end is tried for long

    def _complete_and_claim(
        self, returned: list[Returned], candidates: list[Job]
    ) -> tuple[list[Job | None], list[Job | None]]:
        found = [(job, self.app.tasks[job.task].settings) for job in candidates]
        try:
            with ExitStack() as stack:
                stack.enter_context(patient(self._wait))
                for one in returned:
                    stack.enter_context(one.attempt.lock)
                ended, claimed = self._store.complete_and_claim(
                    [(one.attempt.job, one.result) for one in returned],
                    [(job, settings.lease_seconds, settings.version) for job, settings in found],
                    self.name,
                )
                for one, job in zip(returned, ended, strict=True):
                    if job is not None:
                        one.attempt.job = job
        except (PenstockError, OSError):
            # Each is tried alone, and what is wrong is told of each; the candidates are still where they were found.
            return [None] * len(returned), []
        if None in claimed:
            self.fetcher.note_refused(claimed.count(None))
        return ended, claimed

    def _count_returned(self, one: Returned, ended: Job | None) -> None:
        """Counts what has been ended; what could not be ended with the others is ended alone."""
        if ended is None:
            self._outcomes.end(one.attempt, "completed", lambda job: self._store.complete(job, from_json(one.result)))
        else:
            self._outcomes.count("completed", ended)
        self._attempts.pop(one.attempt, None)

    def _fail_at_limit(self, attempt: Attempt) -> None:
        """The time limit is over: the attempt has failed, and its thread, which may never end, is replaced."""
        stuck = self._threads_of.pop(attempt, None)
        if self._coroutines.release(attempt):
            self._coroutines.cancel(attempt, again=True)
        elif stuck is None:
            return  # it has returned at this moment
        # The heartbeat calls this: while it waited for the database, nobody's lease would be renewed.
        threading.Thread(target=self._store_timeout, args=(attempt, stuck), daemon=True).start()

    def _store_timeout(self, attempt: Attempt, stuck: threading.Thread | None) -> None:
        task = self.app.tasks[attempt.job.task]
        error = TimeoutError(f"it took longer than its time limit of {task.settings.time_limit_seconds or 0:g} s")
        self._outcomes.store_failure(attempt, task, error)
        attempt.lost = LeaseLost(attempt.job.id, None, "its time limit is over")
        self._attempts.pop(attempt, None)
        self.fetcher.release_thread(awaiting=stuck is None)
        with self._changing_threads:
            if stuck in self._threads:
                thread = self._new_thread(len(self._threads))
                thread.start()  # first: a list without a living thread means that the work is done
                self._threads = [thread if one is stuck else one for one in self._threads]


def _stop_times(grace_seconds: float | None, time_limit_seconds: float | None) -> tuple[float, float | None]:
    """The grace, and after how long a worker with that time limit stops. Raises PenstockError."""
    limit = time_limit_seconds
    if limit is None:
        return DEFAULT_GRACE_SECONDS if grace_seconds is None else grace_seconds, None
    grace = min(DEFAULT_GRACE_SECONDS, _GRACE_PART * limit) if grace_seconds is None else grace_seconds
    stops_after = limit - grace - min(_LAST_WRITES_SECONDS, _END_PART * limit)
    if not stops_after > 0:
        raise PenstockError(
            f"time_limit_seconds={limit:g} leaves no time for work beside grace_seconds={grace:g}: give it more than "
            f"the grace, or leave grace_seconds out."
        )
    return grace, stops_after


def await_database(app: App, until: float | None) -> None:
    """Waits until the app's database answers. A worker is often started beside it, and must not be started in order."""
    outage, failures = Outage(_LOG), 0
    while True:
        try:
            app.store  # noqa: B018 - it is opened here
        except PenstockError as error:
            if not is_outage(error) or (until is not None and time.monotonic() >= until):
                raise
            failures += 1
            outage.note(error)
            time.sleep(CALL_AGAIN.wait(failures))
        else:
            outage.end()
            return
