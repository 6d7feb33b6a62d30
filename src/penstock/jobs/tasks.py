"""Tasks: functions that a worker runs, with what is to be done when they fail."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, ParamSpec, TypeVar

from penstock.jobs.model.job import DEFAULT_PRIORITY
from penstock.jobs.model.new_job import BadJob, NewJob, checked_name
from penstock.jobs.worker.invocation import called_by_a_worker
from penstock.leases import DEFAULT_LEASE_SECONDS, checked_seconds
from penstock.retry import NO_RETRIES, RetryPolicy

P = ParamSpec("P")
R = TypeVar("R")

_MARGIN_PART: Final = 0.1
_LARGEST_MARGIN_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class TaskSettings:
    queue: str = "default"
    priority: int = DEFAULT_PRIORITY
    retries: RetryPolicy = NO_RETRIES
    lease_seconds: float = DEFAULT_LEASE_SECONDS
    time_limit_seconds: float | None = None
    """An attempt that takes longer has failed."""
    margin_seconds: float = 0.0
    """So long before the limit, the attempt ends at its next report and another worker goes on from there."""


@dataclass(frozen=True, slots=True)
class Options:
    """What may differ from job to job."""

    key: str | None = None
    unique: str | None = None
    tenant: str = ""
    queue: str | None = None
    priority: int | None = None
    run_at: float | None = None
    run_in_seconds: float | None = None
    after: tuple[str, ...] = ()
    limit_key: str | None = None
    limit: int = 1


_NO_OPTIONS: Final = Options()


class Task(Generic[P, R]):
    """A task of an app. Calling it calls the function: that is how to test it."""

    def __init__(
        self,
        name: str,
        function: Callable[..., R] | Callable[..., Awaitable[R]],
        settings: TaskSettings,
        options: Options = _NO_OPTIONS,
    ) -> None:
        self.name = checked_name(name, "task")
        self.function = called_by_a_worker(function)
        self._plain = function
        self.settings = settings
        self._options = options
        self.is_async = inspect.iscoroutinefunction(function)
        self._signature = inspect.signature(function)
        self._parameters = _parameters(name, self._signature)
        checked_seconds(settings.lease_seconds)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._plain(*args, **kwargs)

    def options(
        self,
        *,
        key: str | None = None,
        unique: str | None = None,
        tenant: str = "",
        queue: str | None = None,
        priority: int | None = None,
        run_at: float | None = None,
        run_in_seconds: float | None = None,
        after: tuple[str, ...] | list[str] = (),
        limit_key: str | None = None,
        limit: int = 1,
    ) -> Task[P, R]:
        """The same task for one job: `app.enqueue(report.options(key="2026-11"), project="x")`.

        `key`: a second job with it is the first one, as long as that is kept. `unique`: there is at most one job with
        it that has not ended. `after`: ids of jobs that must complete first. `limit_key`: at most `limit` jobs with it
        run at once.
        """
        if run_in_seconds is not None and not isinstance(run_in_seconds, int | float):
            raise BadJob(f"run_in_seconds is a number of seconds, not {run_in_seconds!r}.")
        if isinstance(after, str) or not all(isinstance(one, str) for one in after):
            raise BadJob(f"after is a list of the ids of other jobs, such as [job.id], not {after!r:.200}.")
        options = Options(key, unique, tenant, queue, priority, run_at, run_in_seconds, tuple(after), limit_key, limit)
        return Task(self.name, self._plain, self.settings, options)

    def new_job(self, args: tuple[Any, ...], kwargs: dict[str, Any], now: float) -> NewJob:
        """The job that calls the function so; refuses arguments that it does not take."""
        options = self._options
        run_at = options.run_at if options.run_in_seconds is None else now + options.run_in_seconds
        return NewJob(
            task=self.name,
            args=self._bound(args, kwargs),
            queue=options.queue or self.settings.queue,
            tenant=options.tenant,
            priority=self.settings.priority if options.priority is None else options.priority,
            retries=self.settings.retries.times,
            run_at=run_at,
            key=options.key,
            unique=options.unique,
            limit_key=options.limit_key,
            limit=options.limit,
            after=options.after,
        )

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if not args and kwargs.keys() == self._parameters:
            return kwargs
        try:
            bound = self._signature.bind(None, *args, **kwargs)
        except TypeError as error:
            raise BadJob(f"{self.name}: {error}. It is {self.name}{self._signature}.") from None
        named: dict[str, Any] = {}
        for name, value in list(bound.arguments.items())[1:]:
            kind = self._signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            else:
                named[name] = value
        return named


def _parameters(name: str, signature: inspect.Signature) -> frozenset[str]:
    """The names of the task's own parameters."""
    parameters = list(signature.parameters.values())
    wrong = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY}
    if not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise BadJob(f"The task {name} takes no run: its first parameter is the run, def {name}(run, …).")
    if any(parameter.kind in wrong for parameter in parameters[1:]):
        raise BadJob(f"The task {name} has parameters without a name: arguments are stored by name.")
    return frozenset(parameter.name for parameter in parameters[1:])


def settings_of(
    *,
    queue: str = "default",
    priority: int = DEFAULT_PRIORITY,
    retries: int | RetryPolicy = 0,
    lease_seconds: float = DEFAULT_LEASE_SECONDS,
    time_limit_seconds: float | None = None,
    margin_seconds: float | None = None,
) -> TaskSettings:
    """The settings that a decorator names, checked."""
    if time_limit_seconds is not None and not time_limit_seconds > 0:
        raise BadJob(f"time_limit_seconds is more than 0, not {time_limit_seconds}.")
    margin = margin_seconds
    if margin is None:
        margin = min((time_limit_seconds or 0.0) * _MARGIN_PART, _LARGEST_MARGIN_SECONDS)
    if time_limit_seconds is not None and not 0 <= margin < time_limit_seconds:
        raise BadJob(f"margin_seconds is at least 0 and less than the limit of {time_limit_seconds}, not {margin}.")
    policy = retries if isinstance(retries, RetryPolicy) else RetryPolicy(retries)
    return TaskSettings(queue, priority, policy, lease_seconds, time_limit_seconds, margin)
