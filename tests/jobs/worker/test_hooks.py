"""Hooks and middleware (jobs/hooks.py): when they run, in which order, and what their exceptions do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from worker_worlds import AT_ONCE, ended, work

import penstock

Next = Callable[[], Any]


def test_hooks_run_in_their_order_around_the_task(app: penstock.App) -> None:
    """(1)"""
    seen: list[str] = []

    def middleware(name: str) -> Callable[..., Any]:
        def around(ctx: penstock.JobContext, call_next: Next) -> Any:
            seen.append(f"{name} in")
            value = call_next()
            seen.append(f"{name} out")
            return value

        return around

    app.middleware(middleware("first"))
    app.middleware(middleware("second"))
    app.before(lambda ctx: seen.append(f"before {ctx.job.task}"))
    app.after(lambda ctx, result: seen.append(f"after {result}"))
    app.on_completion(lambda job: seen.append(f"ended {job.state}"))
    app.on_failure(lambda job, error: seen.append("failed"))

    @app.task(
        before=lambda ctx: seen.append("own before"),
        after=[lambda ctx, result: seen.append("own after")],
        middleware=middleware("own"),
    )
    def double(number: int) -> int:
        seen.append("task")
        return 2 * number

    job = double.enqueue(number=4)
    assert work(app).completed == 1 and app.result(job.id) == 8
    assert seen == [
        *("first in", "second in", "own in", "before double", "own before", "task", "after 8", "own after"),
        *("own out", "second out", "first out", "ended completed"),
    ]


def test_an_async_task_has_hooks_of_both_kinds_and_async_middleware(app: penstock.App) -> None:
    seen: list[str] = []
    loop_threads: set[int] = set()

    @app.middleware
    async def around(ctx: penstock.AsyncJobContext, call_next: Callable[[], Awaitable[int]]) -> int:
        await ctx.log("in")
        return await call_next() + 1

    @app.middleware
    def not_for_async(ctx: penstock.JobContext, call_next: Next) -> Any:
        seen.append("wrong")
        return call_next()

    @app.before
    def check(ctx: penstock.JobContext) -> None:
        ctx.log("before")
        assert threading.get_ident() not in loop_threads
        seen.append("before")

    async def after(ctx: penstock.AsyncJobContext, result: int) -> None:
        seen.append(f"after {result}")

    @app.task(after=after)
    async def double(ctx: penstock.AsyncJobContext, number: int) -> int:
        loop_threads.add(threading.get_ident())
        return 2 * number

    job = double.enqueue(number=4)
    assert work(app).completed == 1 and app.result(job.id) == 9
    assert seen == ["before", "after 8"]
    assert [entry.message for entry in app.store.history(job.id).entries] == ["in", "before"]


def test_a_before_hook_that_raises_fails_the_attempt_as_the_task_would(app: penstock.App) -> None:
    """(2)"""
    seen: list[tuple[str, str]] = []

    @app.before
    def refuse(ctx: penstock.JobContext) -> None:
        if ctx.attempt < 3:
            raise PermissionError("not yet")

    app.on_failure(lambda job, error: seen.append((str(job.state), str(error))))

    @app.task(retries=AT_ONCE)
    def patient() -> str:
        return "done"

    @app.task()
    def impatient() -> None: ...

    first, second = patient.enqueue(), impatient.enqueue()
    work(app, concurrency=1)
    assert app.result(first.id) == "done"
    assert ended(app, second).error is not None and ended(app, second).error.kind == "PermissionError"
    assert sorted(seen) == [("failed", "not yet"), ("queued", "not yet"), ("queued", "not yet")]


def test_hooks_after_the_task_change_nothing_by_raising(app: penstock.App, caplog: pytest.LogCaptureFixture) -> None:
    """(2)"""

    def broken(*_: Any) -> None:
        raise RuntimeError("a hook")

    app.after(broken)
    app.on_failure(broken)
    app.on_completion(broken)

    @app.task()
    def good() -> int:
        return 1

    @app.task()
    def bad() -> None:
        raise ValueError("a task")

    first, second = good.enqueue(), bad.enqueue()
    with caplog.at_level(logging.ERROR, "penstock.jobs"):
        counts = work(app)
    assert (counts.completed, counts.failed) == (1, 1)
    assert app.result(first.id) == 1 and ended(app, second).error.kind == "ValueError"  # type: ignore[union-attr]
    told = sorted(record.getMessage().partition(": ")[2] for record in caplog.records)
    assert told == [
        *("its after hook broken raised", "its on_completion hook broken raised"),
        *("its on_completion hook broken raised", "its on_failure hook broken raised"),
    ]


def test_completion_is_told_of_every_end_that_a_worker_stores(app: penstock.App) -> None:
    """(3) Also of a cancellation, a time limit, and a result that is not JSON."""
    told: dict[str, str] = {}
    failed: dict[str, str] = {}
    app.on_completion(lambda job: told.__setitem__(job.task, str(job.state)))
    app.on_failure(lambda job, error: failed.__setitem__(job.task, type(error).__name__))
    release = threading.Event()

    @app.task()
    def cancelled(ctx: penstock.JobContext) -> None:
        app.cancel(ctx.id)
        ctx.progress(1)

    @app.task()
    def no_json() -> Any:
        return object()

    @app.task(time_limit_seconds=0.2)
    def endless() -> None:
        release.wait(30)

    @app.task()
    def lost_arguments(number: int) -> None: ...

    for task in (cancelled, no_json, endless):
        task.enqueue()
    app.store.create(penstock.jobs.model.job.NewJob("lost_arguments", {"other": 1}))
    work(app, concurrency=4)
    release.set()
    assert told == {"cancelled": "cancelled", "no_json": "failed", "endless": "failed", "lost_arguments": "failed"}
    assert failed == {"no_json": "NotJson", "endless": "TimeoutError", "lost_arguments": "BadArguments"}


def test_a_middleware_may_answer_for_the_task(app: penstock.App) -> None:
    @app.task(middleware=lambda ctx, call_next: "cached")
    def costly() -> str:
        raise AssertionError

    job = costly.enqueue()
    work(app)
    assert app.result(job.id) == "cached"


def test_a_requeue_is_no_failure(app: penstock.App) -> None:
    seen: list[str] = []
    app.on_failure(lambda job, error: seen.append("failed"))
    app.on_completion(lambda job: seen.append("ended"))

    @app.task()
    def twice(ctx: penstock.JobContext) -> None:
        if ctx.attempt == 1:
            ctx.requeue()

    twice.enqueue()
    work(app)
    assert seen == ["ended"]


def test_hooks_that_could_not_run_are_refused(app: penstock.App) -> None:
    async def hook(ctx: Any) -> None: ...

    with pytest.raises(penstock.PenstockError, match="the task plain is not: make the hook def"):

        @app.task("plain", before=hook)
        def plain() -> None: ...

    with pytest.raises(penstock.PenstockError, match="on_failure hook hook is async def"):
        app.on_failure(hook)
    with pytest.raises(penstock.PenstockError, match="before is a function"):
        app.task(before="x")  # type: ignore[arg-type]

    @app.task()
    def another() -> None: ...

    app.before(hook)
    with pytest.raises(penstock.PenstockError, match="the task another is not"):
        work(app)


def test_a_task_may_have_arguments_of_any_name(app: penstock.App) -> None:
    app.before(lambda ctx: None)

    @app.task()
    def named(context: int, call_next: int, arguments: int) -> int:
        return context + call_next + arguments

    job = named.enqueue(context=1, call_next=2, arguments=3)
    work(app)
    assert app.result(job.id) == 6


def test_a_task_without_hooks_is_called_as_if_there_were_none(app: penstock.App) -> None:
    """(4)"""
    from penstock.jobs.hooks import NO_HOOKS, with_hooks

    def call(ctx: Any) -> None: ...

    assert with_hooks(call, NO_HOOKS, False) is call
