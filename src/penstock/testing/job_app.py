"""Jobs in a test: an app in memory, a clock that the test moves, and a worker that is a function call.

    def test_a_reminder_is_sent_after_a_month(job_app):
        jobs = job_app(app)
        remind.options(delay=timedelta(days=30)).enqueue(user="ada")
        assert jobs.run_until_idle() == []
        jobs.clock.advance(days=30)
        [job] = jobs.run_until_idle()

1. Jobs run in the thread of the test, one after the other, in the order in which a worker would claim them. Nothing
   sleeps, and no thread is started.
2. What is written is what a worker writes: the same store, context and outcomes, on a database in memory.
3. The clock stands still until it is moved: by the test, or (`time_travel`) to the moment when the next job is due.
4. The app's own database is not opened. Whatever the task enqueues goes to the one in memory too.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, Final, ParamSpec, TypeVar

from penstock.client.database import Database, connect
from penstock.clock import ManualClock
from penstock.errors import PenstockError
from penstock.files import Files, open_files
from penstock.jobs.app import App
from penstock.jobs.context import AsyncJobContext, Attempt, JobContext
from penstock.jobs.explain import explain, gather
from penstock.jobs.model.job import Job, JobFailed
from penstock.jobs.model.rate import has_slot
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore, LimitReached
from penstock.jobs.tasks import Task
from penstock.jobs.worker.invocation import invocation_of
from penstock.jobs.worker.outcomes import Outcomes
from penstock.jobs.worker.registry import WorkerRegistry
from penstock.jobs.worker.scheduler import Scheduler

P = ParamSpec("P")
R = TypeVar("R")

MOST_ATTEMPTS: Final = 100_000
"""Of one `run_until_idle`: a job that enqueues itself would run for ever."""
_POLLED: Final = 100
_WORKER: Final = "this test"


class JobNotEnded(PenstockError):
    """The job waits for something that does not come by the passing of time alone. `job` is it."""

    def __init__(self, job: Job, why: str) -> None:
        super().__init__(f"Nothing is left to run, and {why}")
        self.job = job


class JobClock(ManualClock):
    """A clock that stands still until it is moved: `clock.advance(days=30)`, `clock.advance(1.5)`."""

    def __init__(self, now: datetime | None = None) -> None:
        super().__init__(time.time() if now is None else now.timestamp())

    def now(self) -> float:
        """To the millisecond, as times are stored: what is due now is due by both."""
        return round(super().now(), 3)

    def advance(
        self, seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0, days: float = 0.0, weeks: float = 0.0
    ) -> None:
        """Moves the time forward by all of these together."""
        moved = timedelta(seconds=seconds, minutes=minutes, hours=hours, days=days, weeks=weeks)
        if moved < timedelta(0):
            raise ValueError(f"a clock is moved forward, not by {moved}")
        super().advance(moved.total_seconds())

    def move_to(self, at: float) -> None:
        """Moves it to that time in seconds since 1970, unless it is later already."""
        super().advance(max(0.0, at - self.now()))

    @property
    def time(self) -> datetime:
        """What it shows, in UTC."""
        return datetime.fromtimestamp(self.now(), UTC)


class JobApp:
    """An app that is moved to memory until it is closed, and the worker of its jobs."""

    def __init__(self, app: App, *, now: datetime | None = None) -> None:
        self.app = app
        self.clock = JobClock(now)
        self.raised: dict[str, BaseException] = {}
        """What the last attempt of a job has raised, by the job's id."""
        self._ending = ExitStack()
        folder = self._ending.enter_context(tempfile.TemporaryDirectory(prefix="penstock-"))
        self.files: Files = open_files(folder)
        self.db: Database = self._ending.enter_context(connect(clock=self.clock))
        self.store: JobStore = self._ending.enter_context(app.moved_to(self.db, self.files, self.clock))
        self._scheduler = Scheduler(app, WorkerRegistry(self.db, self.store.layout), _nothing)

    # ── running ──────────────────────────────────────────────────────────────────────────────────

    def run_until_idle(self, *, time_travel: bool = False, until: Job | None = None) -> list[Job]:
        """Runs the jobs that are due, and those that become due by it; the jobs in the order in which they ended.

        A job that is retried or requeued is there each time. With `time_travel` the clock is moved to the moment when
        the next job is due, and so on, until none is, or until the job `until` has ended. Schedules run when their time
        has come by the clock; they are no reason to move it. A job expires when the clock has left its end far behind
        (`keep_seconds` of the app).
        """
        ended: list[Job] = []
        for _ in range(MOST_ATTEMPTS):
            if until is not None and self.store.has_ended(self.app.get(until.id)):
                return ended
            if self._run_next(ended):
                continue
            at = self._next_due_at() if time_travel else None
            if at is None:
                return ended
            self.clock.move_to(at)
        raise PenstockError(
            f"After {MOST_ATTEMPTS:,} attempts there are still jobs that are due: do they enqueue more?"
        )

    def run_next(self) -> Job | None:
        """Runs the job that is next; it is returned as it is then. None if none is due."""
        ended: list[Job] = []
        while not ended and self._run_next(ended):
            pass
        return ended[0] if ended else None

    def run(self, task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Enqueues a job and runs until it has ended, through time. Returns its result, or raises the task's error.

        Raises JobFailed if it was cancelled, JobNotEnded if it waits for something else than time.
        """
        job = task.enqueue(*args, **kwargs)
        self.run_until_idle(time_travel=True, until=job)
        job = self.app.get(job.id)
        if job.state is State.COMPLETED:
            return task.result(job)
        if job.is_terminal:
            raise (self.raised.get(job.id) if job.state is State.FAILED else None) or JobFailed(job)
        raise JobNotEnded(job, explain(job, gather(self.store, job)))

    def _run_next(self, ended: list[Job]) -> bool:
        """Whether anything was done."""
        store = self.app.store
        self._scheduler.enqueue_due()
        for queue in self._queues():
            if store.queue(queue).paused:
                continue
            found = store.claimable(queue, _POLLED)
            for key in found.limits:
                store.pools.unblock(key)
            for key in found.rates:
                store.rates.release(key)
            for candidate in found.jobs:
                if candidate.needs_settling:
                    store.settle(candidate)
                    return True
                if self._needs_slot(candidate):
                    store.rates.admit([candidate])
                    return True
                attempt = self._claim(store, candidate)
                if attempt is not None:
                    self._perform(store, attempt)
                    ended.append(self.app.get(candidate.id))
                    return True
            if found.limits or found.rates:
                return True
        return False

    def _needs_slot(self, job: Job) -> bool:
        """Whether its rate has to let it start first."""
        is_ours = job.state is State.QUEUED and job.task in self.app.tasks
        return is_ours and not has_slot(job.rate_key, job.rate_at, self.clock.now())

    def _claim(self, store: JobStore, candidate: Job) -> Attempt | None:
        task = self.app.tasks.get(candidate.task)
        if task is None:
            return None
        settings = task.settings
        try:
            job = store.claim(candidate, _WORKER, settings.lease_seconds, max_crashes=settings.max_crashes)
        except LimitReached:
            return None
        return None if job is None else Attempt(store, job)

    def _perform(self, store: JobStore, attempt: Attempt) -> None:
        """As worker.py does it, in this thread."""
        task = self.app.tasks[attempt.job.task]
        outcomes = Outcomes(store, _nothing, _ignore)
        attempt.begin(task.settings.time_limit_seconds, task.settings.soft_time_limit_seconds)
        self.raised.pop(attempt.id, None)
        function, context = invocation_of(task), JobContext(attempt)
        try:
            arguments = task.read_arguments(attempt.load(attempt.job, attempt.job.args))
            if task.is_async:
                value = _run_here(function(AsyncJobContext(context, _ThisThread()), **arguments))
            else:
                value = function(context, **arguments)
        except (Killed, KeyboardInterrupt):
            raise  # nothing more is written by a process that is dead; and who tests wants to stop
        except BaseException as error:
            self.raised[attempt.id] = error
            outcomes.store_raised(attempt, task, error)
        else:
            outcomes.end(attempt, "completed", lambda job: store.complete(job, task.write_result(value)))

    # ── what there is ────────────────────────────────────────────────────────────────────────────

    def unended(self) -> list[Job]:
        """The jobs that have not ended."""
        return [job for state in (State.QUEUED, State.PROCESSING) for job in self.jobs(state)]

    def jobs(self, state: State | None = None) -> list[Job]:
        """All jobs, newest first."""
        found: list[Job] = []
        token: str | None = None
        while True:
            page = self.app.store.find(state=state, limit=1_000, token=token)
            found += page.jobs
            token = page.token
            if token is None:
                return found

    def _queues(self) -> list[str]:
        """Those of the tasks and of the jobs that have not ended."""
        return sorted({task.settings.queue for task in self.app.tasks.values()} | {job.queue for job in self.unended()})

    def _next_due_at(self) -> float | None:
        """When a worker would next find something: a job that is due, or one whose worker has died."""
        store = self.app.store
        queues = [queue for queue in self._queues() if not store.queue(queue).paused]
        times = [store.claimable(queue, _POLLED).next_at for queue in queues]
        return min((at for at in times if at is not None), default=None)

    def close(self) -> None:
        """Gives the app its own database back."""
        self._ending.close()

    def __enter__(self) -> JobApp:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run_now(task: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Runs one job of the task to its end, in memory and in this thread, through time: its retries do not wait.

    Returns what the task returned, or raises what it raised last. `JobApp` shows the job too.
    """
    if not isinstance(task.jobs, App):
        raise PenstockError(f"{task.name} is no task of an app: decorate its function with @app.task().")
    with JobApp(task.jobs) as jobs:
        return jobs.run(task, *args, **kwargs)


class Killed(BaseException):
    """The process is dead, as tests have it: no task catches it, and nothing more can be written."""


class _ThisThread(Executor):
    """Runs each call at once, where it is made: an async context's too."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


def _run_here(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Its value; in a thread that has an event loop of its own already, a task cannot be run."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    coroutine.close()
    raise PenstockError(
        "An async task is run by its test, and the test is a coroutine itself: write it as a plain def."
    )


def _nothing() -> None:
    pass


def _ignore(job: Job, how: str) -> None:
    pass
