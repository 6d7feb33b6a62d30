"""An app: its tasks, and the database that its jobs live in.

app = penstock.App("reports.db")

@app.task(retries=3)
def monthly_report(ctx: penstock.JobContext, project: str) -> dict: ...

job = monthly_report.enqueue(project="bodwassho")
"""

from __future__ import annotations

import inspect
import os
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Final, NoReturn, ParamSpec, TypeVar, overload

from penstock.client.database import MEMORY, Database, connect
from penstock.client.transports import endpoints
from penstock.clock import Clock
from penstock.errors import PenstockError, ValidationException
from penstock.files import Files, open_files
from penstock.jobs import tracing
from penstock.jobs.async_app import POLLS, AsyncApp
from penstock.jobs.context import AsyncJobContext, JobContext
from penstock.jobs.cron import BadCron, Schedule
from penstock.jobs.job_queries import Jobs
from penstock.jobs.layouts.item_collection import DEFAULT_SHARDS, CollectionLayout
from penstock.jobs.layouts.layout import Layout
from penstock.jobs.layouts.tables import DEFAULT_TABLE
from penstock.jobs.log_capture import checked_level
from penstock.jobs.model.job import DEFAULT_PRIORITY, BadJob, Job, NewJob, checked_tags
from penstock.jobs.model.json_text import to_json
from penstock.jobs.model.other_words import OF_APPS, no_attribute, with_hints
from penstock.jobs.model.state import State
from penstock.jobs.model.transitions import MOST_CRASHES
from penstock.jobs.store.patience import ask_until
from penstock.jobs.store.store import DEFAULT_KEEP_SECONDS, JobStore
from penstock.jobs.tasks import Task, TaskSettings, named_task
from penstock.leases import DEFAULT_LEASE_SECONDS
from penstock.retry import RetryPolicy
from penstock.user_modules import load_attribute

P = ParamSpec("P")
R = TypeVar("R")

_LEASES_KEPT: Final = 4
FILES_VARIABLE: Final = "PENSTOCK_FILES"


class JobFailed(PenstockError):
    """The job that was waited for has failed or was cancelled; `job` says why."""

    def __init__(self, job: Job) -> None:
        reason = job.cancel_reason if job.error is None else f"{job.error.kind}: {job.error.message}"
        super().__init__(f"{job.id} is {job.state}{': ' + reason if reason else ''}")
        self.job = job


class App:
    """Tasks and their jobs. The database is opened when it is first needed, and its table made if it is absent."""

    def __init__(
        self,
        url: str | os.PathLike[str] | Database | None = None,
        *,
        table: str = DEFAULT_TABLE,
        files: str | os.PathLike[str] | Files | None = None,
        keep_seconds: float = DEFAULT_KEEP_SECONDS,
        shards: int = DEFAULT_SHARDS,
        layout: Layout | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._url = url
        self._files = files
        self._layout = layout or CollectionLayout(table, shards=shards)
        self._keep_seconds = keep_seconds
        self._clock = clock
        self._opening = threading.Lock()
        self._store: JobStore | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.schedules: dict[str, Schedule] = {}
        self._listeners: list[Callable[[], None]] = []
        self._aio: AsyncApp | None = None

    # ── tasks ────────────────────────────────────────────────────────────────────────────────────

    @with_hints
    def task(
        self,
        name: str | None = None,
        *,
        queue: str = "default",
        priority: int = DEFAULT_PRIORITY,
        retries: int | RetryPolicy = 0,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        time_limit_seconds: float | None = None,
        soft_time_limit_seconds: float | None = None,
        max_crashes: int = MOST_CRASHES,
        cron: str | None = None,
        timezone: str = "UTC",
        cron_args: Mapping[str, Any] | None = None,
        cron_overlap: bool = False,
        tags: Iterable[str] = (),
        capture_logs: str | int | None = None,
    ) -> _Decorator:
        """Makes a function a task, whose parameters are what is enqueued, as JSON.

        A first parameter that is named `ctx`, or annotated as a JobContext, is given the context; that of an
        `async def` is an AsyncJobContext.

        A job that has killed `max_crashes` workers while it ran alone, without a newer checkpoint, has failed.
        `cron` also enqueues it by the clock of `timezone`, once for each time whatever the number of workers. In an
        hour that is repeated, `*/15 * * * *` and `0 * * * *` run again, and `30 2 * * *` does not; if 02:30 is skipped,
        it runs when the clocks go forward. `cron_args` are the arguments of its jobs. While one of them has not ended,
        the next is skipped, unless `cron_overlap` allows it. `tags` are words that `app.jobs.find(tag=…)` finds its
        jobs by. `capture_logs` is a level, such as "INFO": what the task logs from it on is also in the job's log.
        """
        if callable(name):
            raise PenstockError("Write @app.task() with parentheses.")
        if cron is None and (cron_args is not None or cron_overlap):
            raise BadCron(
                "cron_args and cron_overlap are about a schedule, and there is none: cron='30 6 * * mon-fri'."
            )
        policy = retries if isinstance(retries, RetryPolicy) else RetryPolicy(retries)
        own = checked_tags(tags), checked_level(capture_logs)
        settings = TaskSettings(
            queue, priority, policy, lease_seconds, time_limit_seconds, soft_time_limit_seconds, max_crashes, *own
        )
        # A job that runs is kept by its renewals, and each moves its end by half of that time at least.
        if self._keep_seconds < _LEASES_KEPT * lease_seconds:
            raise PenstockError(
                f"keep_seconds={self._keep_seconds:g} is less than {_LEASES_KEPT} leases of {lease_seconds:g} s: a job "
                "would expire while it runs. Keep jobs for longer, or give the task a shorter lease."
            )

        def register(function: Callable[..., Any]) -> Task[Any, Any]:
            task: Task[Any, Any] = Task(name or function.__name__, function, settings, self)
            if task.name in self.tasks:
                raise PenstockError(f"There are two tasks named {task.name}: give one of them another name.")
            if cron is not None:
                schedule = Schedule.parse(task.name, cron, timezone, arguments=cron_args, overlaps=cron_overlap)
                _check_arguments(task, schedule)
                self.schedules[task.name] = schedule
            self.tasks[task.name] = task
            return task

        return _Decorator(register)

    def task_named(self, name: str) -> Task[..., Any]:
        """The task of that name: this app's, or else one of another program that works on the same database.

        Of the latter's arguments nothing is known here: they must be JSON, and its worker refuses what it does not
        take. Its queue is given with `options(queue=…)`, where that is not "default".
        """
        return self.tasks.get(name) or named_task(name, self)

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def jobs(self) -> Jobs:
        """Finds jobs, reads what happened to them, and changes many at once."""
        return Jobs(lambda: self.store)

    @property
    def aio(self) -> AsyncApp:
        """The same verbs, awaited: for code that runs on an event loop."""
        with self._opening:
            if self._aio is None:
                self._aio = AsyncApp(self)
            return self._aio

    def enqueue_new(self, new: NewJob) -> Job:
        """Makes a job: `task.enqueue` is how to call it."""
        if tracing.is_loaded() and not new.traceparent:
            with tracing.enqueue_span(new) as traceparent:
                new = replace(new, traceparent=traceparent)
                created = self.store.create(new)
        else:
            created = self.store.create(new)
        for wake in self._listeners:
            wake()
        return _as_enqueued(*created)

    def enqueue_all_new(self, news: list[NewJob]) -> list[Job]:
        """Makes jobs, all or none: `task.enqueue_many` is how to call it."""
        if tracing.is_loaded() and news:
            with tracing.enqueue_span(news[0], len(news)) as traceparent:
                created = self.store.create_all([replace(new, traceparent=traceparent) for new in news])
        else:
            created = self.store.create_all(news)
        for wake in self._listeners:
            wake()
        return [_as_enqueued(job, is_new) for job, is_new in created]

    def get(self, job_id: str) -> Job:
        """Raises JobNotFound."""
        return self.store.get(job_id)

    def cancel(self, job_id: str, reason: str = "") -> Job:
        """Cancels a job that has not ended; one that runs is told at its next report, an async task at its `await`.

        Raises BadTransition.
        """
        return self.store.cancel(job_id, reason)

    def retry(self, job_id: str) -> Job:
        """Gives a failed job another attempt, with its checkpoints. Raises BadTransition."""
        return self.store.retry(job_id)

    def wait(self, job_id: str, *, timeout_seconds: float | None = None) -> Job:
        """The job when it has ended. Raises TimeoutError.

        A database that is away is asked again until the timeout, or for a minute without one; then its error is raised.
        """
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        polls = 0
        while True:
            job, has_ended = self.ended(job_id, end)
            if has_ended:
                return job
            polls += 1
            pause = POLLS.bound(polls)
            if end is not None and time.monotonic() + pause > end:
                raise TimeoutError(f"{job_id} is still {job.state} after {timeout_seconds:g} s")
            time.sleep(pause)

    def result(self, job_id: str, *, timeout_seconds: float | None = None) -> Any:
        """What the task returned, when it has. Raises JobFailed, TimeoutError. Waits for the database, as `wait`."""
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        return self.result_of(self.wait(job_id, timeout_seconds=timeout_seconds), end)

    def ended(self, job_id: str, end: float | None = None) -> tuple[Job, bool]:
        """The job, and whether it has ended: one read. A database that is away is waited for, as in `wait`."""
        job = ask_until(end, partial(self.get, job_id))
        return job, ask_until(end, partial(self.store.has_ended, job))

    def result_of(self, job: Job, end: float | None = None) -> Any:
        """What the task of a job that has ended returned. Raises JobFailed."""
        if job.state is not State.COMPLETED:
            raise JobFailed(job)
        return ask_until(end, lambda: self.store.load(job, job.result))

    # ── the database ─────────────────────────────────────────────────────────────────────────────

    @property
    def store(self) -> JobStore:
        """Opened at its first use."""
        if self._store is None:
            with self._opening:
                if self._store is None:
                    self._store = self._open()
        return self._store

    @classmethod
    def on_store(cls, store: JobStore) -> App:
        """An app without tasks, on a store that is open: for those who look at the jobs of others."""
        app = cls(store.db, layout=store.layout, files=store.files, clock=store.clock, keep_seconds=store.keep_seconds)
        app._store = store
        return app

    def _open(self) -> JobStore:
        url = self._url if self._url is not None else endpoints.named_database(os.environ)
        if url is None:
            raise PenstockError(
                f'Where do the jobs live? App("jobs.db"), App("aws://eu-west-2"), or {endpoints.VARIABLE}.'
            )
        db = url if isinstance(url, Database) else connect(url)
        store = JobStore(
            db, self._layout, files=self._open_files(url), clock=self._clock, keep_seconds=self._keep_seconds
        )
        try:
            store.ensure_tables()
        except ValidationException as error:
            table = self._layout.table
            raise PenstockError(
                f"The table {table} of {db.name} cannot be used for jobs ({error}): give App(table=…) another name."
            ) from error
        return store

    def _open_files(self, url: str | os.PathLike[str] | Database) -> Files | None:
        """Where it was told; beside a database file; in a temporary folder for one in memory."""
        if isinstance(self._files, Files):
            return self._files
        wanted = self._files or os.environ.get(FILES_VARIABLE)
        if wanted is not None:
            return open_files(os.fspath(wanted))
        place = url.name if isinstance(url, Database) else os.fspath(url)
        if place == MEMORY:
            self._temporary = tempfile.TemporaryDirectory(prefix="penstock-")
            return open_files(self._temporary.name)
        if "://" in place:
            return None
        return open_files(f"{Path(place)}.files")

    def use(self, db: Database, *, clock: Clock | None = None) -> None:
        """Uses another database, and clock, from now on: for tests, which wrap them."""
        files = self.store.files
        self._store = JobStore(
            db, self._layout, files=files, clock=clock or self._clock, keep_seconds=self._keep_seconds
        )

    def when_enqueued(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls it after each job that this process enqueues; returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    if not TYPE_CHECKING:  # a checker would take every other name for an attribute

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name, OF_APPS)

    def close(self) -> None:
        """Closes the database if the app opened it."""
        store, self._store = self._store, None
        aio, self._aio = self._aio, None
        if aio is not None:
            aio.close()
        if store is not None and not isinstance(self._url, Database):
            store.db.close()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def __enter__(self) -> App:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _as_enqueued(job: Job, is_new: bool) -> Job:
    return job if job.is_new is is_new else replace(job, is_new=is_new)


def _check_arguments(task: Task[Any, Any], schedule: Schedule) -> None:
    """Refuses at once what no job of the schedule could be given."""
    try:
        to_json(task.new_job((), dict(schedule.arguments)).args, "cron_args")
    except BadJob as error:
        raise BadJob(f"A schedule gives its cron_args. {error} Give the others defaults, or put them there.") from error


class _Decorator:
    """What `@app.task(…)` is: it keeps the types of the function's own parameters."""

    def __init__(self, register: Callable[[Callable[..., Any]], Task[Any, Any]]) -> None:
        self._register = register

    @overload
    def __call__(self, function: Callable[Concatenate[AsyncJobContext, P], Awaitable[R]]) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[JobContext, P], R]) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]]) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> Task[P, R]: ...
    def __call__(self, function: Callable[..., Any]) -> Task[Any, Any]:
        if not inspect.isfunction(function):
            raise PenstockError(f"{function!r} is no function: @app.task() goes above a def.")
        return self._register(function)


def load_app(place: str) -> App:
    """The app that `module:attribute` names."""
    module, attribute, app = load_attribute(place, what="app", example="reports:app")
    if not isinstance(app, App):
        apps = sorted(name for name, value in vars(module).items() if isinstance(value, App))
        hint = f" It has: {', '.join(apps)}." if apps else ""
        raise PenstockError(f"{module.__name__} has no app named {attribute}.{hint}")
    return app
