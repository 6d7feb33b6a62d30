"""Hooks: the user's functions around attempts, and after their ends.

1. `before` hooks, the task and `after` hooks run in this order, inside the middleware: the app's own, then the task's,
   the first that was registered outermost. They are a part of the attempt, and count for its time limit.
2. What a `before` hook or a middleware raises ends the attempt, as if the task had raised it. What `after`,
   `on_failure` and `on_completion` hooks raise is logged, and changes nothing.
3. `on_failure` and `on_completion` hooks run when the end of the attempt or of the job is stored, in the worker that
   has stored it: at most once. A worker that dies at this moment does not run them, and nobody else does.
4. A task without hooks is called as if there were none.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.jobs.context import AsyncJobContext, JobContext
from penstock.jobs.model.job import Job

_LOG = logging.getLogger("penstock.jobs")

Hook = Callable[..., Any]
Given = Hook | Sequence[Hook]
"""One, or several."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """An app's, or a task's, in the order in which they were registered."""

    before: tuple[Hook, ...] = ()
    after: tuple[Hook, ...] = ()
    on_failure: tuple[Hook, ...] = ()
    on_completion: tuple[Hook, ...] = ()
    middleware: tuple[Hook, ...] = ()

    def __post_init__(self) -> None:
        for kind in fields(self):
            for hook in getattr(self, kind.name):
                _check(kind.name, hook)

    def __or__(self, other: Hooks) -> Hooks:
        """Both, these first."""
        return Hooks(*(getattr(self, kind.name) + getattr(other, kind.name) for kind in fields(self)))

    @property
    def of_attempt(self) -> bool:
        """Whether there are some that run inside an attempt (1)."""
        return bool(self.before or self.after or self.middleware)


NO_HOOKS: Final = Hooks()


def hooks_of(**given: Given) -> Hooks:
    """Those that are given as options of a task: of each kind one, or several."""
    return Hooks(**{kind: tuple(some) if isinstance(some, list | tuple) else (some,) for kind, some in given.items()})


def _check(kind: str, hook: Any) -> None:
    if not callable(hook):
        raise PenstockError(f"{kind} is a function, or a list of functions, not {hook!r:.100}.")
    if kind.startswith("on_") and inspect.iscoroutinefunction(hook):
        raise PenstockError(
            f"The {kind} hook {hook.__name__} is async def, and runs in a thread of the worker: make it def."
        )


def check_kind(task: str, is_async: bool, hooks: Hooks) -> None:
    """Refuses hooks that could not run with the task: it would wait for a coroutine without an event loop."""
    for kind in ("before", "after"):
        for hook in getattr(hooks, kind):
            if inspect.iscoroutinefunction(hook) and not is_async:
                raise PenstockError(
                    f"The {kind} hook {hook.__name__} is async def, and the task {task} is not: make the hook def, "
                    "which runs with both, or give it to the async tasks only, with "
                    f"@app.task({kind}={hook.__name__})."
                )


# ── around an attempt ────────────────────────────────────────────────────────────────────────────


def with_hooks(call: Callable[..., Any], hooks: Hooks, is_async: bool) -> Callable[..., Any]:
    """The call of a task's function with its context and arguments, inside the hooks (1).

    A middleware goes around tasks of its own kind: `def` around `def`, `async def` around `async def`.
    """
    if not hooks.of_attempt:
        return call
    around = [one for one in hooks.middleware if inspect.iscoroutinefunction(one) == is_async]
    return _with_hooks_async(call, hooks, around) if is_async else _with_hooks(call, hooks, around)


def _with_hooks(call: Callable[..., Any], hooks: Hooks, middleware: Iterable[Hook]) -> Callable[..., Any]:
    def attempt(ctx: JobContext, /, **arguments: Any) -> Any:
        for before in hooks.before:
            before(ctx)
        value = call(ctx, **arguments)
        for after in hooks.after:
            run_logged("after", after, ctx.job, ctx, value)
        return value

    def enclose(middleware: Hook, inner: Callable[..., Any]) -> Callable[..., Any]:
        return lambda ctx, /, **arguments: middleware(ctx, partial(inner, ctx, **arguments))

    whole: Callable[..., Any] = attempt
    for one in reversed(list(middleware)):
        whole = enclose(one, whole)
    return whole


def _with_hooks_async(call: Callable[..., Any], hooks: Hooks, middleware: Iterable[Hook]) -> Callable[..., Any]:
    async def attempt(ctx: AsyncJobContext, /, **arguments: Any) -> Any:
        for before in hooks.before:
            await _run_async(before, ctx)
        value = await call(ctx, **arguments)
        for after in hooks.after:
            try:
                await _run_async(after, ctx, value)
            except Exception:
                _log("after", after, ctx.job)
        return value

    def enclose(middleware: Hook, inner: Callable[..., Any]) -> Callable[..., Any]:
        async def call_middleware(ctx: AsyncJobContext, /, **arguments: Any) -> Any:
            return await middleware(ctx, partial(inner, ctx, **arguments))

        return call_middleware

    whole: Callable[..., Any] = attempt
    for one in reversed(list(middleware)):
        whole = enclose(one, whole)
    return whole


async def _run_async(hook: Hook, ctx: AsyncJobContext, *values: Any) -> None:
    """A hook that is `def` runs in a thread, with a context that is not awaited."""
    if inspect.iscoroutinefunction(hook):
        await hook(ctx, *values)
    else:
        await asyncio.to_thread(hook, ctx.blocking, *values)


# ── after an end ─────────────────────────────────────────────────────────────────────────────────


class EndHooks:
    """What runs when a worker has stored an end (3), by the name of the task."""

    def __init__(self, hooks: dict[str, Hooks]) -> None:
        self._on_failure = {task: its.on_failure for task, its in hooks.items() if its.on_failure}
        self._on_completion = {task: its.on_completion for task, its in hooks.items() if its.on_completion}

    def __bool__(self) -> bool:
        return bool(self._on_failure or self._on_completion)

    def run_failed(self, job: Job, error: BaseException) -> None:
        """An attempt has failed; the job is queued again if there is another one, else it has failed."""
        for hook in self._on_failure.get(job.task, ()):
            run_logged("on_failure", hook, job, job, error)

    def run_ended(self, job: Job) -> None:
        """The job has completed, failed or been cancelled."""
        for hook in self._on_completion.get(job.task, ()):
            run_logged("on_completion", hook, job, job)


def run_logged(kind: str, hook: Hook, job: Job, *arguments: Any) -> None:
    """Runs it, and logs what it raises (2)."""
    try:
        hook(*arguments)
    except (Exception, SystemExit):
        _log(kind, hook, job)


def _log(kind: str, hook: Hook, job: Job) -> None:
    extra = {"job_id": job.id, "task": job.task, "attempt": job.attempt}
    _LOG.exception("%s: its %s hook %s raised", job.id, kind, getattr(hook, "__name__", hook), extra=extra)
