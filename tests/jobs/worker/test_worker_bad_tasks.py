"""Tasks that exit, fork, hang, overrun or cannot say what is wrong: their worker goes on."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
from worker_worlds import AT_ONCE, ended, work

import penstock
from penstock.jobs.model.job import Job
from penstock.jobs.model.state import State
from penstock.jobs.worker.worker import Worker


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_a_task_that_exits_fails_and_its_worker_lives(app: penstock.App, error: BaseException) -> None:
    @app.task()
    def leave(ctx: penstock.JobContext) -> None:
        raise error

    @app.task()
    def stay(ctx: penstock.JobContext) -> str:
        return "here"

    gone, here = leave.enqueue(), stay.enqueue()
    work(app, concurrency=1)
    failed = ended(app, gone)
    assert failed.error is not None
    assert failed.error.kind == type(error).__name__
    assert app.result(here.id, timeout_seconds=30) == "here"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt("now")])
def test_an_async_task_that_exits_ends_neither_the_worker_nor_the_others(
    app: penstock.App, error: BaseException
) -> None:
    @app.task(retries=2)
    async def leave(ctx: penstock.AsyncJobContext) -> None:
        raise error

    @app.task()
    async def stay(ctx: penstock.AsyncJobContext) -> str:
        await asyncio.sleep(0)
        return "here"

    gone, here = leave.options(priority=9).enqueue(), stay.enqueue()
    work(app, concurrency=1)
    failed = ended(app, gone)
    assert failed.error is not None
    assert (failed.error.kind, failed.error.message) == (type(error).__name__, str(error))
    assert failed.attempt == 1
    assert app.result(here.id, timeout_seconds=30) == "here"


def test_a_listener_that_raises_stops_no_worker(app: penstock.App) -> None:
    told: list[str] = []

    @app.task()
    def fine(ctx: penstock.JobContext) -> int:
        return 1

    def listen(job: Job, how: str) -> None:
        told.append(how)
        raise OSError("nobody reads any more")

    fine.enqueue_many([{}] * 6)
    counts = work(app, concurrency=1, on_end=listen)
    assert (counts.completed, counts.failed, counts.lost) == (6, 0, 0)
    assert told == ["completed"] * 6


@pytest.mark.parametrize("name", ["wrong", "wrong_async"])
def test_a_step_is_given_a_function_not_what_it_returned(app: penstock.App, name: str) -> None:
    @app.task()
    def wrong(ctx: penstock.JobContext) -> object:
        return ctx.step("rows", [1, 2])  # type: ignore[arg-type]

    @app.task()
    async def wrong_async(ctx: penstock.AsyncJobContext) -> object:
        return await ctx.step("rows", [1, 2])  # type: ignore[arg-type]

    job = app.tasks[name].enqueue()
    work(app)
    failed = ended(app, job)
    assert failed.error is not None
    assert "ctx.step('rows', …) is given a function, not a list" in failed.error.message


def test_a_worker_keeps_nothing_of_async_tasks_that_are_done(app: penstock.App) -> None:
    kept: list[weakref.ref[Any]] = []

    class Heavy(list[int]):
        """What a task returns; a plain list has no weak references."""

    @app.task(time_limit_seconds=60)
    async def heavy(ctx: penstock.AsyncJobContext) -> list[int]:
        made = Heavy([1, 2, 3])
        kept.append(weakref.ref(made))
        return made

    heavy.enqueue_many([{}] * 5)
    worker = Worker(app, burst=True, concurrency=2, idle_seconds=0.05)
    assert worker.run().completed == 5
    gc.collect()
    assert [ref() for ref in kept] == [None] * 5
    assert worker.counts.completed == 5, "the worker is still there"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise LookupError("no words")


@pytest.mark.parametrize("is_async", [False, True])
def test_an_error_that_cannot_be_shown_fails_its_job_alone(app: penstock.App, is_async: bool) -> None:
    @app.task("speechless")
    def fail(ctx: penstock.JobContext) -> None:
        raise Unspeakable

    @app.task("speechless_async")
    async def fail_async(ctx: penstock.AsyncJobContext) -> None:
        raise Unspeakable

    @app.task()
    def fine(ctx: penstock.JobContext) -> int:
        return 1

    bad = app.tasks["speechless_async" if is_async else "speechless"].options(priority=9).enqueue()
    good = fine.enqueue()
    work(app, concurrency=1)
    failed = ended(app, bad)
    assert failed.error is not None
    assert failed.error.message == "Unspeakable was raised, whose message cannot be shown: LookupError"
    assert app.result(good.id, timeout_seconds=30) == 1


def test_a_task_that_forks_harms_nobody(tmp_path: Path) -> None:
    with penstock.App(tmp_path / "jobs.db") as app:

        @app.task()
        def fork(ctx: penstock.JobContext) -> int:
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
            ctx.progress(50)
            return 1

        job = fork.enqueue()
        work(app)
        assert app.result(job.id, timeout_seconds=30) == 1


def test_a_child_that_comes_back_from_a_task_is_no_second_worker(tmp_path: Path) -> None:
    with penstock.App(tmp_path / "jobs.db") as app:

        @app.task()
        def fork(ctx: penstock.JobContext) -> str:
            child = os.fork()
            if child == 0:
                return "child"
            for _ in range(2_000):
                if os.waitpid(child, os.WNOHANG)[0]:
                    return "parent"
                time.sleep(0.01)
            os.kill(child, signal.SIGKILL)
            return "the child lived on"

        job = fork.options(priority=9).enqueue()
        work(app)
        assert app.result(job.id, timeout_seconds=30) == "parent"


def test_a_task_that_hangs_has_failed_at_its_time_limit_and_its_place_is_free(app: penstock.App) -> None:
    release = threading.Event()

    @app.task(time_limit_seconds=0.3, soft_time_limit_seconds=0.3)
    def hang(ctx: penstock.JobContext) -> None:
        release.wait(30)

    @app.task()
    def quick(ctx: penstock.JobContext) -> int:
        return 1

    stuck, after = hang.options(priority=9).enqueue(), quick.enqueue()
    work(app, concurrency=1)
    failed = ended(app, stuck)
    assert failed.state is State.FAILED
    assert failed.error is not None
    assert failed.error.kind == "TimeoutError"
    assert "0.3 s" in failed.error.message
    assert app.result(after.id, timeout_seconds=30) == 1
    release.set()


def test_a_task_near_its_time_limit_hands_over_at_a_checkpoint(app: penstock.App) -> None:
    @app.task(time_limit_seconds=30, soft_time_limit_seconds=0.001)
    def long(ctx: penstock.JobContext) -> list[int]:
        done: list[int] = ctx.resume("done", [])
        if len(done) < 3:
            time.sleep(0.002)
            ctx.checkpoint("done", [*done, ctx.attempt])
        return done

    job = long.enqueue()
    counts = work(app)
    assert counts.requeued == 3
    assert app.result(job.id, timeout_seconds=30) == [1, 2, 3]
    assert (ended(app, job).failures, ended(app, job).crashes) == (0, 0)


def test_an_attempt_that_comes_back_after_its_time_takes_nothing_from_the_next_one(app: penstock.App) -> None:
    second_runs, first_is_back = threading.Event(), threading.Event()

    @app.task(time_limit_seconds=2, soft_time_limit_seconds=2, retries=AT_ONCE)
    def overrun(ctx: penstock.JobContext) -> int:
        if ctx.attempt == 1:
            second_runs.wait(60)
            threading.Timer(0.3, first_is_back.set).start()  # when it has returned
        else:
            second_runs.set()
            first_is_back.wait(60)
        return ctx.attempt

    job = overrun.enqueue()
    counts = work(app)
    assert app.result(job.id, timeout_seconds=30) == 2
    assert (ended(app, job).attempt, ended(app, job).crashes) == (2, 0)
    assert (counts.completed, counts.retried, counts.lost) == (1, 1, 0)


def test_an_async_task_that_is_cancelled_at_its_limit_is_counted_once(app: penstock.App) -> None:
    @app.task(time_limit_seconds=0.3, soft_time_limit_seconds=0.3)
    async def hang(ctx: penstock.AsyncJobContext) -> None:
        await asyncio.sleep(60)

    hang.enqueue()
    counts = work(app)
    assert (counts.failed, counts.lost) == (1, 0)


@pytest.mark.parametrize("is_async", [False, True])
def test_arguments_that_a_changed_task_does_not_take_are_not_retried(app: penstock.App, is_async: bool) -> None:
    @app.task("report")
    def report(ctx: penstock.JobContext, project: str, year: int) -> None: ...

    job = report.enqueue(project="bodwassho", year=2026)
    del app.tasks["report"]

    def later(ctx: penstock.JobContext, project: str, month: str) -> None: ...

    async def later_async(ctx: penstock.AsyncJobContext, project: str, month: str) -> None: ...

    app.task("report", retries=AT_ONCE)(later_async if is_async else later)
    work(app)
    failed = ended(app, job)
    assert failed.error is not None
    assert (failed.state, failed.attempt, failed.error.kind) == (State.FAILED, 1, "BadArguments")
    assert "project: 'str', month: 'str'" in failed.error.message
    assert "{'project': 'bodwassho', 'year': 2026}" in failed.error.message


def test_a_type_error_of_the_task_itself_is_retried(app: penstock.App) -> None:
    @app.task(retries=AT_ONCE)
    def report(ctx: penstock.JobContext) -> None:
        raise TypeError("of its own")

    job = report.enqueue()
    work(app)
    failed = ended(app, job)
    assert failed.error is not None
    assert (failed.attempt, failed.error.kind) == (3, "TypeError")
