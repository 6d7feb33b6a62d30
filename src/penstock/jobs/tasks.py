"""Tasks: functions that a worker runs, and the jobs that are made of them.

@app.task(retries=3)
def monthly_report(ctx: penstock.JobContext, project: str) -> dict: ...

@app.task()
def add(a: int, b: int) -> int: ...

monthly_report.enqueue(project="bodwassho")
monthly_report.options(priority=9, delay=timedelta(hours=1)).enqueue(project="bodwassho")
monthly_report.enqueue_many([{"project": "a"}, {"project": "b"}])
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, ParamSpec, Protocol, TypeVar

from penstock.client.database import Database
from penstock.errors import PenstockError
from penstock.jobs.context import AsyncJobContext, JobContext
from penstock.jobs.hooks import NO_HOOKS, Hooks, check_kind
from penstock.jobs.model.job import (
    ALL_COMPLETED,
    DEFAULT_PRIORITY,
    LONGEST_DELAY_SECONDS,
    BadJob,
    DependsOnPolicy,
    Job,
    NewJob,
    checked_name,
    checked_tags,
)
from penstock.jobs.model.json_text import NotJson, to_json
from penstock.jobs.model.other_words import OF_TASKS, no_attribute, with_hints
from penstock.jobs.model.secret_fields import checked_secret, mask_arguments
from penstock.jobs.model.transitions import MOST_CRASHES
from penstock.jobs.model.typed_values import FunctionTypes, types_of_function
from penstock.jobs.store.transactions import JobInTransaction
from penstock.jobs.task_defaults import TaskDefaults
from penstock.leases import DEFAULT_LEASE_SECONDS, checked_seconds
from penstock.retry import NO_RETRIES, RetryPolicy

P = ParamSpec("P")
R = TypeVar("R")

_SOFT_PART: Final = 0.9
_LARGEST_MAX_CRASHES: Final = 1_000
_LARGEST_VERSION: Final = 1_000_000
_NO_DEFAULTS: Final = TaskDefaults()


class BadArguments(PenstockError, TypeError):
    """The task does not take the arguments that are stored with the job: it was changed since. No retry helps."""


@dataclass(frozen=True, slots=True)
class TaskSettings:
    queue: str = "default"
    priority: int = DEFAULT_PRIORITY
    retries: RetryPolicy = NO_RETRIES
    lease_seconds: float = DEFAULT_LEASE_SECONDS
    time_limit_seconds: float | None = None
    """An attempt that takes longer has failed."""
    soft_time_limit_seconds: float | None = None
    """So long after its start, the attempt ends at its next report and another worker continues it."""
    max_crashes: int = MOST_CRASHES
    """A job that has killed so many workers while it ran alone, without a newer checkpoint, has failed."""
    version: int = 1
    """A job keeps the version with which it first started: code that has changed since can ask for it."""
    tags: tuple[str, ...] = ()
    """Words that its jobs are found by."""
    capture_logs: int | None = None
    """The level from which on its `logging` records are in the job's log too."""
    hooks: Hooks = NO_HOOKS
    webhook: str | None = None
    """Where the ends of its jobs are told."""
    is_internal: bool = False
    """A task of Penstock's own: the app's hooks are not for it."""

    def __post_init__(self) -> None:
        limit, soft_limit = self.time_limit_seconds, self.soft_time_limit_seconds
        if limit is not None and not limit > 0:
            raise BadJob(f"time_limit_seconds is more than 0, not {limit}.")
        if soft_limit is None and limit is not None:
            object.__setattr__(self, "soft_time_limit_seconds", _SOFT_PART * limit)
        elif soft_limit is not None and not 0 < soft_limit <= (math.inf if limit is None else limit):
            most = "" if limit is None else f" and no more than the limit of {limit}"
            raise BadJob(f"soft_time_limit_seconds is more than 0{most}, not {soft_limit}.")
        checked_seconds(self.lease_seconds)
        object.__setattr__(self, "tags", checked_tags(self.tags))
        if type(self.max_crashes) is not int or not 1 <= self.max_crashes <= _LARGEST_MAX_CRASHES:
            raise BadJob(f"max_crashes is a whole number from 1 to {_LARGEST_MAX_CRASHES:,}, not {self.max_crashes!r}.")
        if type(self.version) is not int or not 1 <= self.version <= _LARGEST_VERSION:
            raise BadJob(f"version is a whole number from 1 to {_LARGEST_VERSION:,}, not {self.version!r}.")


class JobQueue(Protocol):
    """What a task enqueues its jobs with: its app."""

    def enqueue_new(self, new: NewJob) -> Job: ...
    def enqueue_all_new(self, news: list[NewJob]) -> list[Job]: ...
    def load_result(self, job_id: str, timeout_seconds: float | None) -> tuple[Job, Any]: ...
    def join_transaction(self, database: Database, new: NewJob) -> JobInTransaction: ...


class Task(Generic[P, R]):
    """A task of an app. Calling it calls the function: that is how to test it."""

    def __init__(
        self,
        name: str,
        function: Callable[..., R] | Callable[..., Awaitable[R]],
        settings: TaskSettings,
        jobs: JobQueue,
        names: Mapping[str, Any] | None = None,
        secret: Iterable[str] = (),
        defaults: TaskDefaults = _NO_DEFAULTS,
    ) -> None:
        """`names` are those that its annotations may use beside its module's: of the function that it is made in."""
        self.name = checked_name(name, "task")
        self.function = function
        self.settings = settings
        self.jobs = jobs
        """Its app."""
        self._options: dict[str, Any] = {
            "queue": settings.queue,
            "priority": settings.priority,
            "retries": settings.retries.times,
            "webhook": settings.webhook,
        }
        self._own_options = self._options
        self.given: dict[str, Any] = {}
        """What `options` has said."""
        if settings.tags:
            self._options["tags"] = settings.tags
        self.is_async = inspect.iscoroutinefunction(function)
        self._signature = inspect.signature(function)
        check_kind(name, self.is_async, settings.hooks)
        self.takes_context = _takes_context(name, function, self._signature)
        """Whether its first parameter is the context: a worker gives it, and `enqueue` does not."""
        self._parameters = _parameters(name, self._signature, self.takes_context)
        self._bound = defaults.bind(name, self._signature, self.takes_context)
        self.rate = defaults.rate or ""
        """How often its jobs may start; "" where that is not limited."""
        self.types: FunctionTypes = types_of_function(function, self._parameters, names)
        """How its arguments and its result are stored, by their annotations."""
        self._is_resolved = not self.types.unresolved
        self._is_typed = self.types.converts or not self._is_resolved
        """Whether anything may have to be done to its arguments: most tasks pay for this question only."""
        any_name = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in self._signature.parameters.values())
        self.secret = checked_secret(name, secret, self._parameters, any_name=any_name)
        """Paths to what is not shown of its jobs' arguments and results."""
        if self.secret:
            self._options["secret"] = self.secret

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Makes a job. Arguments that the task does not take, or that cannot be stored, are refused here."""
        return self.jobs.enqueue_new(self.new_job(args, kwargs))

    def enqueue_many(self, arguments: Iterable[dict[str, Any]]) -> list[Job]:
        """A job for each dict of arguments; in process, a hundred at a time are one commit.

        Nothing is made if one of them is refused.
        """
        return self.jobs.enqueue_all_new([self.new_job((), self._checked_dict(one)) for one in arguments])

    def for_transaction(self, database: Database, /) -> Callable[P, JobInTransaction]:
        """What `t.enqueue(task, …)` of a transaction of this database calls with the arguments."""

        def join(*args: P.args, **kwargs: P.kwargs) -> JobInTransaction:
            return self.jobs.join_transaction(database, self.new_job(args, kwargs))

        return join

    @with_hints
    def options(
        self,
        *,
        idempotency_key: str | None = None,
        unique_key: str | None = None,
        tenant: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        run_at: datetime | None = None,
        delay: timedelta | float | None = None,
        depends_on: tuple[str, ...] | list[str] = (),
        depends_on_policy: DependsOnPolicy = ALL_COMPLETED,
        concurrency_key: str | None = None,
        max_concurrent: int | None = None,
        rate_key: str | None = None,
        tags: Iterable[str] = (),
        webhook: str | None = None,
    ) -> Task[P, R]:
        """The same task for one job: `report.options(idempotency_key="2026-11").enqueue(project="x")`.

        `idempotency_key`: a second job with it is the first one, as long as that is kept. `unique_key`: there is at
        most one job with it that has not ended. `depends_on`: jobs that must complete first; with the
        `depends_on_policy` "all_ended", that must end first, however, and with "any_completed", of which one must
        complete first. `concurrency_key`: at most `max_concurrent` jobs with it (1) run at once. `rate_key`: the jobs
        that share the task's rate. Where these are not given, the task's own are taken. `run_at` is an aware datetime,
        `delay` a timedelta or seconds. `tags`: up to five words that `app.jobs.find(tag=…)` finds it by, beside those
        of the task. `webhook`: the URL that is called when the job has ended.
        """
        if isinstance(depends_on, str) or not all(isinstance(one, str) for one in depends_on):
            raise BadJob(f"depends_on is a list of the ids of other jobs, such as [job.id], not {depends_on!r:.200}.")
        if run_at is not None and delay is not None:
            raise BadJob("A job has a run_at or a delay, not both.")
        if max_concurrent is not None and concurrency_key is None and not self._has_default("concurrency_key"):
            raise BadJob("max_concurrent needs a concurrency_key, which says which jobs it limits together.")
        if rate_key is not None and not self.rate:
            raise BadJob(f"{self.name} has no rate: @app.task(rate='10/s', rate_key=…).")
        options = {
            "idempotency_key": idempotency_key,
            "unique_key": unique_key,
            "tenant": tenant,
            "queue": queue,
            "priority": priority,
            "run_at": None if run_at is None else _timestamp(run_at),
            "delay_seconds": None if delay is None else _seconds(delay),
            "depends_on": tuple(depends_on),
            "depends_on_policy": depends_on_policy,
            "concurrency_key": concurrency_key,
            "max_concurrent": max_concurrent,
            "rate_key": rate_key,
            "tags": checked_tags((*self.settings.tags, *tags)) or None,
            "webhook": webhook,
        }
        given = {name: value for name, value in options.items() if value is not None}
        task: Task[P, R] = object.__new__(Task)
        task.__dict__.update(self.__dict__, given=given, _options=self._own_options | given)
        return task

    def _has_default(self, what: str) -> bool:
        return self._bound is not None and what in self._bound.makers

    def result(self, job: Job | str, *, timeout_seconds: float | None = None) -> R:
        """What the job of this task, or the one with this id, has returned, when it has.

        Raises JobFailed, TimeoutError; BadJob for a job of another task.
        """
        job_id = job if isinstance(job, str) else job.id
        found, value = self.jobs.load_result(job_id, timeout_seconds)
        if found.task != self.name:
            raise BadJob(f"{job_id} is a job of {found.task}, not of {self.name}: {found.task}.result(…) has its type.")
        return self.read_result(value)

    if not TYPE_CHECKING:  # a checker would take every other name for an attribute

        def __getattr__(self, name: str) -> NoReturn:
            hints = {name: OF_TASKS[name].replace("task.", f"{self.name}.")} if name in OF_TASKS else {}
            raise no_attribute(self, name, hints)

    def new_job(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NewJob:
        """The job that calls the function so; refuses arguments that it does not take."""
        arguments = self._arguments(args, kwargs)
        options = self._options
        if self._bound is not None:
            options = {**self._bound.of_job(arguments, self.given), **options}
        if self._is_typed:
            arguments = self._write_arguments(arguments)
        return NewJob(self.name, arguments, **options)

    def new_job_of_json(self, arguments: dict[str, Any]) -> NewJob:
        """The same of arguments as JSON has them: a schedule's, or another program's. Raises BadJob."""
        try:
            return self.new_job((), self.read_arguments(arguments))
        except BadArguments as error:
            raise BadJob(str(error)) from error

    def stored_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments as JSON has them, of values or of JSON already: for a schedule, which keeps them. Raises BadJob."""
        try:
            return self.new_job((), arguments).args
        except (BadJob, NotJson):
            return self.new_job_of_json(arguments).args

    def enqueue_json(self, arguments: dict[str, Any]) -> Job:
        """Makes a job of arguments as JSON has them."""
        return self.jobs.enqueue_new(self.new_job_of_json(arguments))

    def _write_arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if not self._is_resolved:
            self._resolve()
        if self.types.unresolved:
            self._check_unresolved(arguments)
        return self.types.write(arguments, "args")

    def _resolve(self) -> None:
        """Once more: a class may stand below the task in its module."""
        self._is_resolved = True
        found = types_of_function(self.function, self._parameters)
        if len(found.unresolved) < len(self.types.unresolved):
            self.types = found

    def _check_unresolved(self, arguments: dict[str, Any]) -> None:
        """Says why an annotation does not help that is there."""
        for name in arguments.keys() & self.types.unresolved.keys():
            try:
                to_json(arguments[name], f"args.{name}")
            except NotJson as error:
                annotation = self.types.unresolved[name]
                reason = f"{error} It is annotated as {annotation!r}, which cannot be resolved: import it at runtime"
                raise BadJob(f"{self.name}: {reason}, not for checkers only.") from None

    def read_arguments(self, stored: dict[str, Any]) -> dict[str, Any]:
        """The arguments that were stored, as they were given. Raises BadArguments."""
        if not self._is_typed:
            return stored
        if not self._is_resolved:
            self._resolve()
        try:
            return self.types.read(stored, "args")
        except NotJson as error:
            raise BadArguments(f"{self.name}: {error}") from error

    def write_result(self, value: Any) -> Any:
        """What it has returned, as JSON has it. Raises NotJson."""
        converter = self.types.result
        return value if converter is None else converter.to_plain(value, "result")

    def read_result(self, stored: Any) -> R:
        """What a job of this task has returned, of what is stored of it: one of the values of `ctx.results`."""
        if not self._is_resolved:
            self._resolve()
        converter = self.types.result
        value: R = stored if converter is None else converter.from_plain(stored, "result")
        return value

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if not args and kwargs.keys() == self._parameters:
            return kwargs
        context = (None,) if self.takes_context else ()
        try:
            bound = self._signature.bind(*context, *args, **kwargs)
        except TypeError as error:
            first = next(iter(self._signature.parameters), "")
            is_first = not context and str(error).endswith(f" '{first}'")
            hint = " A first parameter named ctx, or annotated as a JobContext, gets the context." if is_first else ""
            raise BadJob(f"{self.name}: {error}. It is {self.name}{self._signature}.{hint}") from None
        named: dict[str, Any] = {}
        for name, value in list(bound.arguments.items())[len(context) :]:
            kind = self._signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            else:
                named[name] = value
        return named

    def check_stored(self, arguments: dict[str, Any]) -> None:
        """Raises BadArguments if a job that was enqueued with other parameters cannot be called any more."""
        try:
            self._arguments((), arguments)
        except BadJob as error:
            shown = mask_arguments(arguments, self.secret)
            raise BadArguments(f"{error} The job has {shown!r:.500}.") from None

    def _checked_dict(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(arguments, dict):
            call = f"{self.name}.enqueue_many([{{'month': 11}}, …])"
            raise BadJob(f"{arguments!r:.100} is no dict of arguments: {call}.")
        return arguments


def named_task(name: str, jobs: JobQueue) -> Task[..., Any]:
    """A task of another program, known by its name alone: its arguments are checked where it runs."""

    def elsewhere(**arguments: Any) -> Any:
        raise PenstockError(f"{name} is a task of another program: here it can be enqueued, and not called.")

    return Task(name, elsewhere, TaskSettings(), jobs)


def _timestamp(run_at: datetime) -> float:
    if not isinstance(run_at, datetime):
        raise BadJob(f"run_at is a datetime, such as datetime(2030, 1, 31, 6, tzinfo=UTC), not {run_at!r}.")
    if run_at.utcoffset() is None:
        raise BadJob(
            f"run_at has no time zone ({run_at}): say which one with run_at.replace(tzinfo=UTC), or with "
            "run_at.astimezone() if it is this machine's time."
        )
    return run_at.timestamp()


def _seconds(delay: timedelta | float) -> float:
    if isinstance(delay, timedelta):
        delay = delay.total_seconds()
    is_number = isinstance(delay, int) or (isinstance(delay, float) and math.isfinite(delay))
    if isinstance(delay, bool) or not is_number:
        raise BadJob(f"delay is a timedelta or a number of seconds, not {delay!r}.")
    if delay < 0:
        raise BadJob(f"delay is 0 or more seconds, not {delay:g}. Without a delay a job is due at once.")
    if delay > LONGEST_DELAY_SECONDS:
        raise BadJob(f"delay is at most {LONGEST_DELAY_SECONDS:,.0f} seconds, a hundred years: is it in milliseconds?")
    return delay


_CONTEXTS: Final = {one.__name__: one for one in (JobContext, AsyncJobContext)}


def _takes_context(name: str, function: Callable[..., Any], signature: inspect.Signature) -> bool:
    """Whether the first parameter is the context, by its name or its annotation; refuses the wrong kind of one."""
    first = next(iter(signature.parameters.values()), None)
    if first is None:
        return False
    wanted = AsyncJobContext if inspect.iscoroutinefunction(function) else JobContext
    kind = _annotated_context(function, first)
    if kind is not None and kind is not wanted:
        how = "async def" if wanted is AsyncJobContext else "def"
        raise BadJob(
            f"The task {name} is `{how}` with {first.name}: {kind.__name__}. Annotate it as {wanted.__name__}, "
            f"{'whose methods are awaited' if wanted is AsyncJobContext else 'or make the task async def'}."
        )
    is_context = kind is not None or first.name == "ctx"
    if is_context and first.kind is inspect.Parameter.KEYWORD_ONLY:
        raise BadJob(f"The task {name} takes its context by name: it comes first, def {name}({first.name}, *, …).")
    return is_context


def _annotated_context(function: Callable[..., Any], first: inspect.Parameter) -> type | None:
    """JobContext or AsyncJobContext, if the parameter is annotated so; also where other annotations cannot be read."""
    annotation = first.annotation
    if isinstance(annotation, str):
        try:
            annotation = inspect.signature(function, eval_str=True).parameters[first.name].annotation
        except Exception:  # a name that only checkers import
            return _CONTEXTS.get(annotation.rpartition(".")[2].strip("'\""))
    return next((one for one in _CONTEXTS.values() if annotation is one), None)


def _parameters(name: str, signature: inspect.Signature, takes_context: bool) -> frozenset[str]:
    """The names of the task's own parameters."""
    own = list(signature.parameters.values())[takes_context:]
    wrong = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY}
    if any(parameter.kind in wrong for parameter in own):
        raise BadJob(f"The task {name} has parameters without a name: arguments are stored by name.")
    return frozenset(parameter.name for parameter in own)
