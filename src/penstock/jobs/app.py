"""An app: its tasks, and the database that its jobs live in.

app = penstock.App("reports.db")

@app.task(retries=3)
def monthly_report(ctx: penstock.JobContext, project: str) -> dict: ...

job = monthly_report.enqueue(project="bodwassho")
"""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Final, NoReturn, ParamSpec, TypeVar, overload

from penstock.client.database import MEMORY, Database, connect
from penstock.client.transports import endpoints
from penstock.clock import Clock
from penstock.codecs import Codec, CodecChain
from penstock.errors import PenstockError, ValidationException
from penstock.files import Files, open_files
from penstock.jobs import tracing
from penstock.jobs.async_app import POLLS, AsyncApp
from penstock.jobs.context import AsyncJobContext, JobContext
from penstock.jobs.hooks import NO_HOOKS, Given, Hooks, hooks_of
from penstock.jobs.job_queries import Jobs
from penstock.jobs.layouts.item_collection import DEFAULT_SHARDS, CollectionLayout
from penstock.jobs.layouts.layout import Layout
from penstock.jobs.layouts.tables import DEFAULT_TABLE
from penstock.jobs.log_capture import checked_level
from penstock.jobs.model.job import DEFAULT_PRIORITY, BadJob, Job, JobFailed, NewJob, checked_tags, checked_task_name
from penstock.jobs.model.json_text import to_json
from penstock.jobs.model.other_words import OF_APPS, no_attribute, with_hints
from penstock.jobs.model.state import State
from penstock.jobs.model.transitions import MOST_CRASHES
from penstock.jobs.scheduler.cron import BadCron, Schedule
from penstock.jobs.scheduler.schedules import Schedules
from penstock.jobs.store.patience import ask_until
from penstock.jobs.store.store import DEFAULT_KEEP_SECONDS, JobStore
from penstock.jobs.store.transactions import JobInTransaction
from penstock.jobs.task_defaults import Key, TaskDefaults
from penstock.jobs.tasks import Task, TaskSettings, named_task
from penstock.jobs.webhooks import DELIVERY_SETTINGS, SECRET_VARIABLE, WEBHOOK_TASK, Webhooks
from penstock.leases import DEFAULT_LEASE_SECONDS
from penstock.retry import RetryPolicy
from penstock.user_modules import import_task_modules, load_attribute
from penstock.webhooks import parse_target

if TYPE_CHECKING:
    from penstock.client.items.expressions import Condition
    from penstock.jobs.triggers import Trigger
    from penstock.streams.consumer import Start

P = ParamSpec("P")
R = TypeVar("R")
H = TypeVar("H", bound=Callable[..., Any])

_LEASES_KEPT: Final = 4
FILES_VARIABLE: Final = "PENSTOCK_FILES"


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
        codec: Codec | Sequence[Codec] | None = None,
        webhook_secret: str | Sequence[str] | None = None,
        allow_private_webhooks: bool = False,
        discover: str | Iterable[str] = (),
    ) -> None:
        """`codec`: compresses and encrypts what jobs store (penstock.codecs); several, in the order of writing.

        `webhook_secret` signs the webhooks of the jobs' ends; it may be in PENSTOCK_WEBHOOK_SECRET. Several are all
        signed with: the new one and the old one, while receivers change. `allow_private_webhooks` lets them go to
        private and loopback addresses too.

        `discover` names packages: a worker imports the modules named `tasks` in them before it starts.
        """
        self._url = url
        self._codecs = CodecChain(codec)
        self._discover = (discover,) if isinstance(discover, str) else tuple(discover)
        self._files = files
        self._layout = layout or CollectionLayout(table, shards=shards)
        self._keep_seconds = keep_seconds
        self._clock = clock
        self._opening = threading.Lock()
        self._store: JobStore | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.triggers: dict[str, Trigger] = {}
        """Tasks that run for changes of tables, by their names."""
        self.schedules = Schedules(lambda: self.store, self.tasks)
        """Tasks that are enqueued by the clock: create, change, pause, resume, run, delete, list."""
        self.hooks = NO_HOOKS
        """Of all tasks; `before`, `after`, `on_failure`, `on_completion` and `middleware` add to them."""
        self._listeners: list[Callable[[], None]] = []
        self._aio: AsyncApp | None = None
        self._add_webhooks(webhook_secret or os.environ.get(SECRET_VARIABLE) or (), allow_private_webhooks)

    def _add_webhooks(self, secret: str | Sequence[str], allow_private: bool) -> None:
        """Makes the app one that delivers webhooks, if it has a secret."""
        self._webhooks = Webhooks((secret,) if isinstance(secret, str) else tuple(secret), allow_private)
        if not self._webhooks.secrets:
            return

        def deliver(ctx: JobContext, event: dict[str, Any]) -> int:
            return self._webhooks.deliver(ctx, self.store, event)

        self.tasks[WEBHOOK_TASK] = Task(WEBHOOK_TASK, deliver, DELIVERY_SETTINGS, self)

    def _check_webhook(self, webhook: str | None) -> None:
        if webhook is not None and not self._webhooks.secrets:
            raise PenstockError(
                f"The app has nothing to sign webhooks with: App(webhook_secret=…), or {SECRET_VARIABLE}."
            )

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
        version: int = 1,
        unique_key: Key | None = None,
        concurrency_key: Key | None = None,
        max_concurrent: int | None = None,
        rate: str | None = None,
        rate_key: Key | None = None,
        tenant: Key | None = None,
        cron: str | None = None,
        timezone: str = "UTC",
        cron_args: Mapping[str, Any] | None = None,
        cron_overlap: bool = False,
        secret: Sequence[str] = (),
        tags: Iterable[str] = (),
        capture_logs: str | int | None = None,
        before: Given = (),
        after: Given = (),
        on_failure: Given = (),
        on_completion: Given = (),
        middleware: Given = (),
        webhook: str | None = None,
    ) -> _Decorator:
        """Makes a function a task, whose parameters are what is enqueued, as JSON.

        A first parameter that is named `ctx`, or annotated as a JobContext, is given the context; that of an
        `async def` is an AsyncJobContext.

        `rate`: how often its jobs may start, on all workers together ("10/s", "100/m burst 20"); those with one
        `rate_key` share it, else all of the task. At most `max_concurrent` with one `concurrency_key` run at once, else
        of the task; of those with one `unique_key`, one has not ended; `tenant` is whose turn it is. These keys are
        texts with parameters' names ("{project}") or functions of the arguments (lambda project: project).

        A job that has killed `max_crashes` workers while it ran alone, without a newer checkpoint, has failed. A job
        keeps the `version` that its task has when it first starts, and `ctx.version` says which one that was.
        `cron` also enqueues it by the clock of `timezone`, once for each time whatever the number of workers. In an
        hour that is repeated, `*/15 * * * *` and `0 * * * *` run again, and `30 2 * * *` does not; if 02:30 is skipped,
        it runs when the clocks go forward. `cron_args` are the arguments of its jobs. While one of them has
        not ended, the next is skipped, unless `cron_overlap` allows it.
        `tags` are words that `app.jobs.find(tag=…)` finds its jobs by. `capture_logs` is a level, such as "INFO": what
        the task logs from it on is also in the job's log. `secret` names parameters, fields below them ("order.card")
        and parts of the result ("return.key") that no screen shows. They are still stored: `App(codec=…)`
        encrypts.
        """
        if callable(name):
            raise PenstockError("Write @app.task() with parentheses.")
        if cron is None and (cron_args is not None or cron_overlap):
            raise BadCron(
                "cron_args and cron_overlap are about a schedule, and there is none: cron='30 6 * * mon-fri'."
            )
        policy = retries if isinstance(retries, RetryPolicy) else RetryPolicy(retries)
        if webhook is not None:
            parse_target(webhook)
            self._check_webhook(webhook)
        given = {"before": before, "after": after, "middleware": middleware}
        settings = TaskSettings(
            queue,
            priority,
            policy,
            lease_seconds,
            time_limit_seconds,
            soft_time_limit_seconds,
            max_crashes,
            version,
            tags=checked_tags(tags),
            capture_logs=checked_level(capture_logs),
            hooks=hooks_of(on_failure=on_failure, on_completion=on_completion, **given),
            webhook=webhook,
        )
        defaults = TaskDefaults(unique_key, concurrency_key, max_concurrent, rate, rate_key, tenant)
        self._check_kept(lease_seconds)

        def register(function: Callable[..., Any], names: Mapping[str, Any]) -> Task[Any, Any]:
            called = checked_task_name(name or function.__name__)
            task: Task[Any, Any] = Task(called, function, settings, self, names, secret, defaults)
            schedule = None
            if cron is not None:
                schedule = Schedule.parse(task.name, cron, timezone, arguments=cron_args, overlaps=cron_overlap)
            return self._register(task, schedule)

        return _Decorator(register)

    def on_change(
        self,
        table: object,
        *,
        kinds: Iterable[str] | str | None = None,
        where: Condition | None = None,
        start: Start = "latest",
        batch: int | None = None,
        ordered: bool = False,
        group: str | None = None,
        name: str | None = None,
        **options: Any,
    ) -> Callable[[Callable[..., Any]], Task[Any, Any]]:
        """Makes a function a task that runs for each change of a table: `def send(ctx, change: penstock.Change)`.

        The table is a name, a `Table`, a class of items, or `db.table(…)` of another database. Its stream must be on.
        Workers read the stream, and each change becomes one job, whatever dies meanwhile. `kinds` ("insert", "modify",
        "remove") and `where`, a condition on the newest image, choose changes. With `batch`, a job has up to that many,
        and its function gets a list. With `ordered`, the jobs of one item run one after the other, in order. It begins
        at `start` when it is first seen; its place is kept as the group `task.{name}` of the table's consumers. The
        other `options` are those of `task`.
        """
        from penstock.jobs.triggers import new_trigger, task_function  # most apps have no trigger

        if callable(table) and not isinstance(table, type):
            raise PenstockError('Write @app.on_change("orders"), with the table whose changes are meant.')

        def register(function: Callable[..., Any]) -> Task[Any, Any]:
            called = checked_task_name(name or function.__name__)
            trigger = new_trigger(
                table, called, group=group, kinds=kinds, where=where, start=start, batch=batch, ordered=ordered
            )
            task: Task[Any, Any] = self.task(called, **options)(task_function(function, batch))
            self.triggers[called] = trigger
            return task

        return register

    def _check_kept(self, lease_seconds: float) -> None:
        # A job that runs is kept by its renewals, and each moves its end by half of that time at least.
        if self._keep_seconds < _LEASES_KEPT * lease_seconds:
            raise PenstockError(
                f"keep_seconds={self._keep_seconds:g} is less than {_LEASES_KEPT} leases of {lease_seconds:g} s: a job "
                "would expire while it runs. Keep jobs for longer, or give the task a shorter lease."
            )

    def _register(self, task: Task[Any, Any], schedule: Schedule | None) -> Task[Any, Any]:
        if task.name in self.tasks:
            raise PenstockError(f"There are two tasks named {task.name}: give one of them another name.")
        if schedule is not None:
            self.schedules.declared[task.name] = _with_stored_arguments(task, schedule)
        self.tasks[task.name] = task
        return task

    def task_named(self, name: str) -> Task[..., Any]:
        """The task of that name: this app's, or else one of another program that works on the same database.

        Of the latter's arguments nothing is known here: they must be JSON, and its worker refuses what it does not
        take. Its queue is given with `options(queue=…)`, where that is not "default". Raises BadJob for a task of
        Penstock's own.
        """
        return self.tasks.get(checked_task_name(name)) or named_task(name, self)

    # ── hooks ────────────────────────────────────────────────────────────────────────────────────

    def before(self, hook: H) -> H:
        """`@app.before def check(ctx): …` runs before each attempt; if it raises, the attempt has failed."""
        self.hooks |= Hooks(before=(hook,))
        return hook

    def after(self, hook: H) -> H:
        """`@app.after def note(ctx, result): …` runs after each attempt whose task has returned, before that is stored.

        What it raises is logged.
        """
        self.hooks |= Hooks(after=(hook,))
        return hook

    def on_failure(self, hook: H) -> H:
        """`@app.on_failure def tell(job, error): …` runs when the failure of an attempt is stored.

        `job.state` is "failed", or "queued" if it is tried again. At most once; what it raises is logged.
        """
        self.hooks |= Hooks(on_failure=(hook,))
        return hook

    def on_completion(self, hook: H) -> H:
        """`@app.on_completion def tell(job): …` runs when a worker has stored a job's end, however it has ended.

        At most once: not if the worker dies at this moment, nor for a job that is cancelled while no worker runs it. A
        webhook or a job that depends on it is never lost. What it raises is logged.
        """
        self.hooks |= Hooks(on_completion=(hook,))
        return hook

    def middleware(self, hook: H) -> H:
        """`@app.middleware def measure(ctx, call_next): return call_next()` runs around each attempt.

        The first one that is registered is the outermost. One that is `def` is for tasks that are `def`, one that is
        `async def`, which awaits `call_next()`, for tasks that are so.
        """
        self.hooks |= Hooks(middleware=(hook,))
        return hook

    def hooks_of(self, task: Task[Any, Any]) -> Hooks:
        """All that run for a task: the app's, then its own."""
        return task.settings.hooks if task.settings.is_internal else self.hooks | task.settings.hooks

    def import_tasks(self) -> list[str]:
        """Imports the modules named `tasks` in the packages of `discover`; their names. A worker calls it.

        Raises PenstockError, with its name, for one that cannot be imported.
        """
        return [name for package in self._discover for name in import_task_modules(package)]

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
        self._check_webhook(new.webhook)
        if tracing.is_loaded() and not new.traceparent:
            with tracing.enqueue_span(new) as traceparent:
                new = replace(new, traceparent=traceparent)
                created = self.store.create(new)
        else:
            created = self.store.create(new)
        self._wake_workers()
        return _as_enqueued(*created)

    def enqueue_all_new(self, news: list[NewJob]) -> list[Job]:
        """Makes jobs, all or none: `task.enqueue_many` is how to call it."""
        for new in news:
            self._check_webhook(new.webhook)
        if tracing.is_loaded() and news:
            with tracing.enqueue_span(news[0], len(news)) as traceparent:
                created = self.store.create_all([replace(new, traceparent=traceparent) for new in news])
        else:
            created = self.store.create_all(news)
        self._wake_workers()
        return [_as_enqueued(job, is_new) for job, is_new in created]

    def join_transaction(self, database: Database, new: NewJob) -> JobInTransaction:
        """Makes a job with a transaction of the same database: `t.enqueue(task, …)` is how to call it."""
        self._check_webhook(new.webhook)
        store = self.store
        if not database.is_same(store.db):
            raise PenstockError(
                f"The jobs of {new.task} are in {store.db.name}, and the transaction is one of {database.name}: one "
                "transaction cannot write to both. Use one database for both: db = connect(…), App(db)."
            )
        return store.new_jobs.join(new, self._wake_workers)

    def get(self, job_id: str) -> Job:
        """Raises JobNotFound."""
        return self.store.get(job_id)

    def cancel(self, job_id: str, reason: str = "", *, cancel_children: bool = False) -> Job:
        """Cancels a job that has not ended; one that runs stops at its next report, an async task at its `await`.

        With `cancel_children`, workers then cancel the jobs that its task has made, and theirs. Raises BadTransition.
        """
        job = self.store.cancel(job_id, reason, cancel_children=cancel_children)
        self._wake_workers()
        return job

    def send_event(self, job_id: str, event: str, data: Any = None, *, event_id: str | None = None) -> Job:
        """Sends an event with data (JSON) to a job, whose task takes it with `ctx.wait_for(event)`, now or later.

        Events with the same `event_id` are one event: a webhook may be delivered twice. Raises JobNotFound; BadJob if
        the job has ended.
        """
        job = self.store.workflows.send(job_id, event, data, event_id=event_id)
        self._wake_workers()
        return job

    def children(self, job_id: str) -> Iterator[Job]:
        """The jobs that the job's task has made with `ctx.enqueue`, in that order, read in pages."""
        return self.store.workflows.children(job_id)

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
        """What the task returned, when it has. Raises JobFailed, TimeoutError. Waits for the database, as `wait`.

        `task.result(job)` is the same with its type.
        """
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        return self.result_of(self.wait(job_id, timeout_seconds=timeout_seconds), end)

    def result_of(self, job: Job, end: float | None = None) -> Any:
        """What the task of a job that has ended returned. Raises JobFailed."""
        value = self._stored_result(job, end)
        task = self.tasks.get(job.task)
        return value if task is None else task.read_result(value)

    def load_result(self, job_id: str, timeout_seconds: float | None) -> tuple[Job, Any]:
        """The job that has completed, and its result as it is stored: `task.result` is how to call it."""
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        job = self.wait(job_id, timeout_seconds=timeout_seconds)
        return job, self._stored_result(job, end)

    def _stored_result(self, job: Job, end: float | None) -> Any:
        if job.state is not State.COMPLETED:
            raise JobFailed(job)
        return ask_until(end, lambda: self.store.load(job, job.result))

    def ended(self, job_id: str, end: float | None = None) -> tuple[Job, bool]:
        """The job, and whether it has ended: one read. A database that is away is waited for, as in `wait`."""
        job = ask_until(end, partial(self.get, job_id))
        return job, ask_until(end, partial(self.store.has_ended, job))

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
        store = self._store_on(db, self._open_files(url), self._clock)
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
        self._store = self._store_on(db, self.store.files, clock or self._clock)

    @contextmanager
    def moved_to(self, db: Database, files: Files, clock: Clock) -> Iterator[JobStore]:
        """Uses another database, files and clock meanwhile, and does not open its own: for tests (penstock.testing)."""
        before, self._store = self._store, self._store_on(db, files, clock)
        try:
            self._store.ensure_tables()
            yield self._store
        finally:
            self._store = before

    def _store_on(self, db: Database, files: Files | None, clock: Clock | None) -> JobStore:
        return JobStore(
            db, self._layout, files=files, clock=clock, keep_seconds=self._keep_seconds, codecs=self._codecs
        )

    def _wake_workers(self) -> None:
        """Those of this process: there may be something to do."""
        for wake in self._listeners:
            wake()

    def replace_database(self, db: Database, files: Files) -> None:
        """Uses this database and these files from now on, and never opens its own: for `penstock jobs debug`.

        Raises PenstockError where the app has a database already: the tasks may have kept it, and write to it.
        """
        held = self._store.db if self._store is not None else self._url
        if isinstance(held, Database) and not _is_same_file(held.name, db.name):
            what = "has opened" if self._store is not None else "was given"
            raise PenstockError(
                f"The app {what} {held.name} when its module was imported, and its tasks may use that: it cannot be "
                f"replaced by {db.name}. Give App the name of the database, and open no other one at import; or take "
                f"its name from {endpoints.VARIABLE}, which is {db.name} here."
            )
        self._url, self._files, self._store = db, files, None

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


def _is_same_file(name: str, other: str) -> bool:
    return "://" not in name and MEMORY not in (name, other) and Path(name).resolve() == Path(other).resolve()


def _as_enqueued(job: Job, is_new: bool) -> Job:
    return job if job.is_new is is_new else replace(job, is_new=is_new)


def _with_stored_arguments(task: Task[Any, Any], schedule: Schedule) -> Schedule:
    """The schedule with its arguments as JSON; refuses at once what no job of it could be given."""
    try:
        stored = task.stored_arguments(dict(schedule.arguments))
        to_json(stored, "cron_args")
    except BadJob as error:
        raise BadJob(f"A schedule gives its cron_args. {error} Give the others defaults, or put them there.") from error
    return replace(schedule, arguments=stored)


class _Decorator:
    """What `@app.task(…)` is: it keeps the types of the function's own parameters."""

    def __init__(self, register: Callable[[Callable[..., Any], Mapping[str, Any]], Task[Any, Any]]) -> None:
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
        caller = sys._getframe(1)  # the classes of a function's own can be named by annotations in it
        names = {} if caller.f_locals is caller.f_globals else dict(caller.f_locals)
        return self._register(function, names)


def load_app(place: str) -> App:
    """The app that `module:attribute` names."""
    module, attribute, app = load_attribute(place, what="app", example="reports:app")
    if not isinstance(app, App):
        apps = sorted(name for name, value in vars(module).items() if isinstance(value, App))
        hint = f" It has: {', '.join(apps)}." if apps else ""
        raise PenstockError(f"{module.__name__} has no app named {attribute}.{hint}")
    return app
