"""Async tasks: they are told at an `await` that they must end, and hold no thread while they wait."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from test_worker_outages import Away
from worker_worlds import ended, work

import penstock
from penstock.client.database import Database, connect
from penstock.jobs.context import Attempt
from penstock.jobs.model.job import Job
from penstock.jobs.model.state import State
from penstock.jobs.worker.coroutines import CONTEXT_THREADS
from penstock.jobs.worker.worker import _FREE_THREADS, Worker
from penstock.leases import LONGEST_LEASE_SECONDS
from penstock.testing.invariants import check

PATIENCE_SECONDS = 60.0
OTHER_THREADS = 8
"""The heartbeat, the wake-up, the event loop, the engine's own."""


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.01)


@contextmanager
def running(app: penstock.App, **options: Any) -> Iterator[Worker]:
    worker = Worker(app, **{"concurrency": 2, "idle_seconds": 0.05, **options})
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


class Sleeper:
    """A task that sleeps for ever at its first attempt; a renewal of its lease would come after hours."""

    def __init__(self, app: penstock.App, *, swallows: bool = False, **options: Any) -> None:
        self.asleep = threading.Event()
        self.words: list[str] = []

        @app.task(lease_seconds=LONGEST_LEASE_SECONDS, **options)
        async def sleep(ctx: penstock.AsyncJobContext) -> str:
            if await ctx.resume("slept"):
                return "continued"
            try:
                await ctx.checkpoint("slept", True)
                self.asleep.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.words.append("cancelled")
                if not swallows:
                    raise
            finally:
                await asyncio.sleep(0.05)
                self.words.append("cleaned up")
            return "swallowed"

        self.job = sleep.enqueue()


# ── its end (18, 19) ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("swallows", [False, True])
def test_a_cancelled_job_is_told_at_its_await(app: penstock.App, swallows: bool) -> None:
    sleeper = Sleeper(app, swallows=swallows)
    with running(app) as worker:
        assert sleeper.asleep.wait(PATIENCE_SECONDS)
        app.cancel(sleeper.job.id, "not needed")
        wait_until(lambda: ended(app, sleeper.job).is_terminal, "it ends")
        assert sleeper.words == ["cancelled", "cleaned up"]
        job = ended(app, sleeper.job)
        assert (job.state, job.cancel_reason) == (State.CANCELLED, "not needed")
        wait_until(lambda: not app.store.side_items.cancelled_jobs(worker.name), "the hint is removed")
    assert worker.counts.cancelled == 1
    check(app.store, [job.id], ended=True)


def test_a_worker_that_reads_no_hints_is_given_a_limited_number(app: penstock.App) -> None:
    @app.task()
    def nothing() -> None: ...

    claimed = [app.store.claim(nothing.enqueue(), "w1", 3000.0) for _ in range(120)]
    for job in claimed:
        assert job is not None
        assert app.cancel(job.id).cancel_reason is not None
    assert len(app.store.side_items.cancelled_jobs("w1")) == 100


def test_a_cancel_over_a_server_reaches_an_await(db: Database) -> None:
    with penstock.App(db, table="jobs-of-async") as app:
        sleeper = Sleeper(app)
        with running(app):
            assert sleeper.asleep.wait(PATIENCE_SECONDS)
            app.cancel(sleeper.job.id)
            wait_until(lambda: ended(app, sleeper.job).state is State.CANCELLED, "it ends")
            assert sleeper.words == ["cancelled", "cleaned up"]


def test_a_job_that_another_worker_has_is_told_at_its_await(app: penstock.App) -> None:
    sleeper = Sleeper(app)
    with running(app) as worker:
        assert sleeper.asleep.wait(PATIENCE_SECONDS)
        held = next(iter(worker._attempts))
        held.give_up(penstock.LeaseLost(held.id, "another"))
        wait_until(lambda: worker.counts.lost == 1, "it is lost")
        assert sleeper.words == ["cancelled", "cleaned up"]


def test_a_worker_that_stops_requeues_its_coroutines_at_their_checkpoints(app: penstock.App) -> None:
    sleeper = Sleeper(app)
    with running(app, grace_seconds=PATIENCE_SECONDS) as worker:
        assert sleeper.asleep.wait(PATIENCE_SECONDS)
    assert sleeper.words == ["cancelled", "cleaned up"]
    assert worker.counts.requeued == 1
    job = ended(app, sleeper.job)
    assert (job.state, job.attempt, job.events[-1].detail) == (State.QUEUED, 1, "its worker stops")
    work(app)
    assert app.result(job.id, timeout_seconds=30) == "continued"


@pytest.mark.parametrize("limits", [{}, {"time_limit_seconds": 3600}])
def test_the_soft_time_limit_reaches_an_await(app: penstock.App, limits: dict[str, Any]) -> None:
    sleeper = Sleeper(app, soft_time_limit_seconds=0.05, **limits)
    with running(app):
        wait_until(lambda: ended(app, sleeper.job).is_terminal, "it is requeued, and continues at its checkpoint")
    job = ended(app, sleeper.job)
    assert (job.state, job.attempt, job.failures) == (State.COMPLETED, 2, 0)
    # On a slow machine the limit has passed before it sleeps: then its checkpoint tells it.
    assert sleeper.words == (["cancelled", "cleaned up"] if sleeper.asleep.is_set() else ["cleaned up"])
    check(app.store, [job.id], ended=True)


def test_without_a_checkpoint_an_await_has_all_of_its_time_limit(app: penstock.App) -> None:
    @app.task(time_limit_seconds=3600, soft_time_limit_seconds=0.001)
    async def wait(ctx: penstock.AsyncJobContext) -> str:
        await asyncio.sleep(0.6)  # the heartbeat looks four times a second
        return "done"

    job = wait.enqueue()
    work(app)
    assert ended(app, job).state is State.COMPLETED


def test_a_task_that_returns_although_its_worker_stops_has_completed(app: penstock.App) -> None:
    sleeper = Sleeper(app, swallows=True)
    with running(app, grace_seconds=PATIENCE_SECONDS):
        assert sleeper.asleep.wait(PATIENCE_SECONDS)
    assert app.result(sleeper.job.id, timeout_seconds=30) == "swallowed"


def test_a_task_that_does_not_end_is_requeued_when_the_grace_is_over(app: penstock.App) -> None:
    asleep = threading.Event()

    @app.task()
    async def stubborn() -> None:
        while True:
            with suppress(asyncio.CancelledError):
                asleep.set()
                await asyncio.Event().wait()

    job = stubborn.enqueue()
    with running(app, grace_seconds=0.2):
        assert asleep.wait(PATIENCE_SECONDS)
    assert ended(app, job).state is State.QUEUED


def test_a_cancelled_error_of_its_own_is_a_failure_of_the_task(app: penstock.App) -> None:
    @app.task()
    async def gather() -> None:
        raise asyncio.CancelledError

    job = gather.enqueue()
    work(app)
    failed = ended(app, job)
    assert failed.state is State.FAILED
    assert failed.error is not None
    assert failed.error.kind == "CancelledError"


def test_a_cleanup_that_awaits_is_not_cancelled_again(app: penstock.App) -> None:
    asleep, go_on = threading.Event(), threading.Event()
    words: list[str] = []

    @app.task(lease_seconds=LONGEST_LEASE_SECONDS)
    async def careful() -> None:
        try:
            asleep.set()
            await asyncio.Event().wait()
        finally:
            words.append("begins to clean up")
            while not go_on.is_set():
                await asyncio.sleep(0.01)
            words.append("cleaned up")

    job = careful.enqueue()
    with running(app) as worker:
        assert asleep.wait(PATIENCE_SECONDS)
        app.cancel(job.id)
        wait_until(lambda: bool(words), "it is cancelled")
        worker._coroutines.cancel_due(worker.name, list(worker._attempts))  # as the heartbeat does again
        worker.stop()
        wait_until(lambda: worker.fetcher._stopped, "the worker stops")
        go_on.set()
    assert words == ["begins to clean up", "cleaned up"]
    assert ended(app, job).state is State.CANCELLED


# ── threads (16, 17) ─────────────────────────────────────────────────────────────────────────────


def test_a_thousand_coroutines_wait_at_once_in_a_few_threads(app: penstock.App) -> None:
    count, begun, threads = 1_000, [], []
    before = threading.active_count()

    @app.task()
    async def wait_for_all(ctx: penstock.AsyncJobContext) -> None:
        await ctx.progress(50)
        begun.append(ctx.id)
        while len(begun) < count:  # none ends before the last has begun
            await asyncio.sleep(0.05)
        threads.append(threading.active_count())
        await ctx.progress(90)

    wait_for_all.enqueue_many([{}] * count)
    assert work(app, concurrency=count).completed == count
    assert max(threads) - before <= _FREE_THREADS + CONTEXT_THREADS + OTHER_THREADS
    assert len(set(begun)) == count


def test_threads_are_made_as_tasks_take_them(app: penstock.App) -> None:
    """As many `def` as `async def` tasks, all at once, in a worker that begins with fewer threads."""
    each = _FREE_THREADS + 4
    met = threading.Barrier(each + 1)
    begun = []

    @app.task()
    def meet() -> None:
        met.wait(PATIENCE_SECONDS)

    @app.task()
    async def meet_async(ctx: penstock.AsyncJobContext) -> None:
        begun.append(ctx.id)
        while len(begun) < each:
            await asyncio.sleep(0.01)
        if ctx.id == begun[-1]:
            await asyncio.to_thread(met.wait, PATIENCE_SECONDS)

    for _ in range(each):
        meet.enqueue()
        meet_async.enqueue()
    assert work(app, concurrency=2 * each).completed == 2 * each


def test_no_more_coroutines_run_than_the_concurrency_says(app: penstock.App) -> None:
    now, most = set(), []

    @app.task()
    async def count(ctx: penstock.AsyncJobContext) -> None:
        now.add(ctx.id)
        most.append(len(now))
        await asyncio.sleep(0.01)
        now.discard(ctx.id)

    @app.task()
    def count_too(ctx: penstock.JobContext) -> None:
        now.add(ctx.id)
        most.append(len(now))
        time.sleep(0.01)
        now.discard(ctx.id)

    for _ in range(20):
        count.enqueue()
        count_too.enqueue()
    assert work(app, concurrency=3).completed == 40
    assert max(most) == 3


def test_a_coroutine_past_its_limit_leaves_its_place_to_the_next(app: penstock.App) -> None:
    release = threading.Event()

    @app.task(time_limit_seconds=0.1)
    async def stubborn() -> None:
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    @app.task()
    async def add(a: int, b: int) -> int:
        release.set()
        return a + b

    stuck, job = stubborn.enqueue(), add.enqueue(1, 2)
    work(app, concurrency=1)
    assert ended(app, stuck).state is State.FAILED
    assert app.result(job.id, timeout_seconds=30) == 3


def test_the_calls_of_many_contexts_wait_for_a_database_that_is_away(tmp_path: Path) -> None:
    count, begun = 2 * CONTEXT_THREADS, []
    worked = threading.Event()
    with connect(tmp_path / "jobs.db") as db:
        away = Away(db.transport)
        app = penstock.App(Database(away))

        @app.task()
        async def report(ctx: penstock.AsyncJobContext) -> None:
            begun.append(ctx.id)
            while len(begun) < count:
                await asyncio.sleep(0.01)
            if ctx.id == begun[0]:
                away.go()
                await asyncio.sleep(0.1)  # by then the others ask for it, in all the threads that there are for that
                await asyncio.to_thread(worked.set)
                assert worked.is_set()
                away.come_back()
            await ctx.checkpoint("done", 1)

        report.enqueue_many([{}] * count)
        assert work(app, concurrency=count).completed == count


# ── leases ───────────────────────────────────────────────────────────────────────────────────────


def test_a_task_that_blocks_the_event_loop_costs_nobody_the_lease(app: penstock.App) -> None:
    waiting: list[str] = []

    @app.task(lease_seconds=0.5)
    async def wait(ctx: penstock.AsyncJobContext) -> int:
        waiting.append(ctx.id)
        while len(waiting) < 6:
            await asyncio.sleep(0.01)
        return ctx.attempt

    @app.task(lease_seconds=0.5)
    async def block(ctx: penstock.AsyncJobContext) -> int:
        while len(waiting) < 5:
            await asyncio.sleep(0.01)
        first = {one: lease_end(app, one) for one in (*waiting, ctx.id)}
        wait_until(lambda: all(lease_end(app, one) > first[one] for one in first), "all leases are renewed")
        waiting.append(ctx.id)
        return ctx.attempt

    jobs = [*(wait.enqueue() for _ in range(5)), block.enqueue()]
    work(app, concurrency=6)
    assert [app.result(job.id, timeout_seconds=30) for job in jobs] == [1] * 6


def lease_end(app: penstock.App, job_id: str) -> float:
    lease = app.get(job_id).lease
    return 0.0 if lease is None else lease.until


def test_leases_are_renewed_with_one_commit(app: penstock.App) -> None:
    @app.task()
    def nothing() -> None: ...

    def claim() -> Job:
        job = app.store.claim(nothing.enqueue(), "w1", 3000.0)
        assert job is not None
        return job

    attempts = [Attempt(app.store, claim(), time.monotonic() - 2000) for _ in range(150)]
    mine, cancelled, busy = attempts[3:], attempts[0], attempts[1]
    app.cancel(cancelled.id)
    attempts[2].give_up(penstock.LeaseLost(attempts[2].id))
    before = [attempt.job for attempt in mine]
    thread = threading.Thread(target=busy.lock.acquire)
    thread.start()
    thread.join()
    Attempt.renew_together(attempts)
    assert all(attempt.renewal_due_in() > 0 for attempt in mine)
    assert all(app.get(old.id).lease.until > old.lease.until for old in before if old.lease)  # type: ignore[union-attr]
    assert all(app.get(attempt.id).version == attempt.job.version for attempt in mine)
    assert cancelled.renewal_due_in() <= 0 and busy.renewal_due_in() <= 0, "they are renewed one by one"
    assert cancelled.renew() and cancelled.renewal_due_in() > 0, "its task goes on until it reports"
    assert cancelled.job.cancel_reason is not None
    cancelled._renewed_at -= 20
    Attempt.renew_together(attempts)
    assert cancelled.renewal_due_in() > 0, "what it knows already does not keep it from the others"


def test_a_thread_that_watched_takes_no_job_when_others_have_taken_the_last_place(app: penstock.App) -> None:
    """16: with coroutines there are more threads than jobs that may run."""

    @app.task()
    def add() -> None: ...

    add.enqueue()
    worker = Worker(app, concurrency=3)
    worker._functions = {name: task.function for name, task in app.tasks.items()}
    fetcher = worker.fetcher
    fetcher._poll()
    with fetcher._changed:
        fetcher.active = 3
        assert fetcher._next_job() is None
        fetcher.active = 2
        assert fetcher._next_job() is not None
