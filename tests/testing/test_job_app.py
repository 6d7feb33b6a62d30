"""Jobs in tests: in memory, in this thread, on a clock that is moved (job_app.py)."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

import penstock
from penstock.testing import JobApp, JobNotEnded, run_now

FORBIDDEN = "http://127.0.0.1:1"


@pytest.fixture
def app() -> penstock.App:
    """Its own database must not be opened: nobody answers there."""
    return penstock.App(FORBIDDEN)


def test_run_now_returns_what_the_task_returned(app: penstock.App) -> None:
    @app.task()
    def total(ctx: penstock.JobContext, prices: list[Decimal]) -> Decimal:
        ctx.progress(50)
        ctx.files.save("prices.txt", b"x")
        return ctx.step("sum", lambda: sum(prices, Decimal(0)), type=Decimal)

    @app.task()
    async def double(ctx: penstock.AsyncJobContext, number: int) -> int:
        await ctx.log("doubling")
        return await ctx.step("doubled", lambda: twice(number))

    async def twice(number: int) -> int:
        return 2 * number

    assert run_now(total, [Decimal("1.1"), Decimal("2.2")]) == Decimal("3.3")
    assert run_now(double, number=4) == 8
    assert run_now(double.options(priority=9), number=4) == 8


def test_run_now_raises_what_the_task_raised_after_its_retries(app: penstock.App) -> None:
    attempts: list[int] = []

    @app.task(retries=2)
    def fail(ctx: penstock.JobContext) -> None:
        attempts.append(ctx.attempt)
        raise LookupError(f"attempt {ctx.attempt}")

    with pytest.raises(LookupError, match="attempt 3"):
        run_now(fail)
    assert attempts == [1, 2, 3]


def test_run_now_says_why_a_job_does_not_end(app: penstock.App) -> None:
    @app.task()
    def wait() -> None: ...

    with JobApp(app) as jobs:
        jobs.store.pause("default", "maintenance")
        with pytest.raises(JobNotEnded, match=r"default.*maintenance"):
            jobs.run(wait)


def test_a_job_that_was_cancelled_is_told(app: penstock.App) -> None:
    @app.task()
    def cancel_myself(ctx: penstock.JobContext) -> None:
        app.cancel(ctx.id, "enough")
        ctx.progress(1)

    with pytest.raises(penstock.JobFailed, match="enough"):
        run_now(cancel_myself)


def test_nothing_is_due_before_its_time(app: penstock.App) -> None:
    @app.task()
    def remind(user: str) -> str:
        return user

    with JobApp(app, now=datetime(2026, 1, 31, tzinfo=UTC)) as jobs:
        job = remind.options(delay=timedelta(days=30)).enqueue(user="ada")
        assert jobs.run_until_idle() == []
        jobs.clock.advance(days=29, hours=23)
        assert jobs.run_until_idle() == []
        jobs.clock.advance(hours=1)
        assert [one.id for one in jobs.run_until_idle()] == [job.id]
        assert remind.result(job) == "ada"
        assert jobs.clock.time == datetime(2026, 3, 2, tzinfo=UTC)


def test_time_travel_runs_what_is_due_in_a_year_at_once(app: penstock.App) -> None:
    seen: list[datetime] = []

    @app.task(retries=3)
    def chain(ctx: penstock.JobContext, left: int) -> None:
        seen.append(jobs.clock.time)
        if left:
            chain.options(delay=timedelta(days=100)).enqueue(left=left - 1)

    start = time.monotonic()
    with JobApp(app, now=datetime(2026, 1, 1, tzinfo=UTC)) as jobs:
        chain.enqueue(left=3)
        ended = jobs.run_until_idle(time_travel=True)
    assert [job.state for job in ended] == [penstock.State.COMPLETED] * 4
    assert seen == [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=100 * number) for number in range(4)]
    assert time.monotonic() - start < 60


def test_jobs_run_in_the_order_of_a_worker_and_in_this_thread(app: penstock.App) -> None:
    seen: list[tuple[str, int]] = []

    @app.task()
    def note(name: str) -> None:
        seen.append((name, threading.get_ident()))

    @app.task(queue="other")
    async def note_async(name: str) -> None:
        seen.append((name, threading.get_ident()))

    with JobApp(app) as jobs:
        for name in ("a", "b", "c"):
            note.enqueue(name)
        note.options(priority=9).enqueue("first")
        last = note.options(depends_on=[note.enqueue("d").id]).enqueue("child")
        note_async.enqueue("async")
        note.options(queue="third").enqueue("third")
        jobs.run_until_idle()
        assert jobs.app.get(last.id).state is penstock.State.COMPLETED
        assert jobs.unended() == []
    assert [name for name, _ in seen] == ["first", "a", "b", "c", "d", "child", "async", "third"]
    assert {thread for _, thread in seen} == {threading.get_ident()}


def test_limits_requeues_and_schedules_are_the_real_ones(app: penstock.App) -> None:
    ran: list[str] = []

    @app.task()
    def limited(number: int) -> None:
        ran.append(f"limited {number}")

    @app.task()
    def again(ctx: penstock.JobContext) -> str:
        if ctx.attempt == 1:
            ctx.requeue("later")
        return f"attempt {ctx.attempt}"

    @app.task(cron="0 6 * * *")
    def daily() -> None:
        ran.append("daily")

    with JobApp(app, now=datetime(2026, 1, 1, 5, tzinfo=UTC)) as jobs:
        for number in range(3):
            limited.options(concurrency_key="k", max_concurrent=1).enqueue(number)
        job = again.enqueue()
        jobs.run_until_idle()
        assert ran == ["limited 0", "limited 1", "limited 2"]
        assert again.result(job) == "attempt 2"
        jobs.clock.advance(hours=2)
        jobs.run_until_idle(time_travel=True)
        assert ran[-1] == "daily"
        assert jobs.run_next() is None


def test_time_travel_waits_for_the_slots_of_a_rate(app: penstock.App) -> None:
    @app.task(rate="1/minute")
    def rated() -> None: ...

    with JobApp(app) as jobs:
        began = jobs.clock.time
        for _ in range(3):
            rated.enqueue()
        assert len(jobs.run_until_idle()) == 1
        assert len(jobs.run_until_idle(time_travel=True)) == 2
        assert jobs.clock.time - began == timedelta(minutes=2)


def test_the_app_has_its_own_database_back(tmp_path: Path) -> None:
    own = penstock.App(tmp_path / "own.db")

    @own.task()
    def note() -> None: ...

    kept = note.enqueue()
    with JobApp(own) as jobs:
        assert jobs.jobs() == []
        note.enqueue()
        assert len(jobs.run_until_idle()) == 1
    assert [job.id for job in own.store.find().jobs] == [kept.id]
    assert own.get(kept.id).state is penstock.State.QUEUED
    own.close()


def test_a_clock_is_not_moved_back(app: penstock.App) -> None:
    with JobApp(app) as jobs, pytest.raises(ValueError, match="moved forward"):
        jobs.clock.advance(-1)


def test_run_now_does_not_travel_past_the_end_of_its_job(app: penstock.App) -> None:
    @app.task()
    def remind() -> None: ...

    @app.task()
    def order() -> str:
        remind.options(delay=timedelta(days=365)).enqueue()
        return "done"

    assert run_now(order) == "done"
