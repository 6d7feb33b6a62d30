"""Tasks that sleep, wait for events and have children, run by workers of this process on a clock that is moved."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from job_worlds import DAY, START, expiries, items

import penstock
from penstock.clock import ManualClock
from penstock.jobs.explain import explain, gather
from penstock.jobs.model.job import BadJob, Job
from penstock.jobs.model.state import State
from penstock.jobs.worker.outcomes import Counts
from penstock.jobs.worker.worker import Worker
from penstock.testing.invariants import check


@pytest.fixture
def app(clock: ManualClock) -> Iterator[penstock.App]:
    with penstock.App(":memory:", clock=clock) as app:
        yield app


def work(app: penstock.App, **options: Any) -> Counts:
    """Runs until nothing is due; then every job must keep the rules."""
    worker = Worker(app, burst=True, **{"concurrency": 2, "idle_seconds": 0.05, **options})
    watchdog = threading.Timer(60, worker.stop)
    watchdog.daemon = True
    watchdog.start()
    counts = worker.run()
    watchdog.cancel()
    check(app.store, [job.id for job in app.store.find(limit=1000).jobs], ended=False)
    return counts


def why(app: penstock.App, job: Job) -> str:
    job = app.get(job.id)
    return explain(job, gather(app.store, job))


def types(app: penstock.App, job: Job) -> list[str]:
    return [event.type for event in app.store.history(job.id).events]


# ── sleeping ─────────────────────────────────────────────────────────────────────────────────────


def test_a_task_sleeps_for_a_month_and_holds_no_worker(app: penstock.App, clock: ManualClock) -> None:
    done: list[str] = []

    @app.task()
    def campaign(ctx: penstock.JobContext) -> str:
        ctx.step("first mail", lambda: done.append("first"))
        ctx.sleep(timedelta(days=31))
        ctx.step("second mail", lambda: done.append("second"))
        return "sent"

    job = campaign.enqueue()
    assert work(app).suspended == 1
    asleep = app.get(job.id)
    assert (asleep.state, asleep.lease, asleep.run_at) == (State.QUEUED, None, START + 31 * DAY)
    assert "sleeps for another 31d" in why(app, job)
    clock.advance(31 * DAY - 1)
    assert work(app).total == 0
    clock.advance(1)
    assert work(app).completed == 1
    assert done == ["first", "second"]
    assert types(app, job) == ["created", "started", "suspended", "started", "completed"]
    ended = app.get(job.id)
    assert (ended.failures, ended.crashes, ended.requeues, ended.started_at) == (0, 0, 0, START)


def test_a_job_that_sleeps_for_years_does_not_expire_with_its_records(app: penstock.App, clock: ManualClock) -> None:
    @app.task()
    def patent(ctx: penstock.JobContext) -> str:
        ctx.checkpoint("filed", {"number": 7})
        ctx.sleep(timedelta(days=20 * 365))
        return f"patent {ctx.resume('filed')['number']} has expired"

    job = patent.enqueue()
    work(app)
    assert expiries(app.store, job.id) == {int(START + 20 * 365 * DAY + app.store.keep_seconds)}
    clock.advance(20 * 365 * DAY)
    work(app)
    assert app.result(job.id) == "patent 7 has expired"


def test_a_sleep_until_a_time_that_has_passed_costs_no_suspension(app: penstock.App) -> None:
    @app.task()
    def nap(ctx: penstock.JobContext) -> int:
        ctx.sleep_until(datetime.fromtimestamp(START - 1, UTC))
        ctx.sleep(0)
        return ctx.attempt

    job = nap.enqueue()
    assert work(app).suspended == 0
    assert app.result(job.id) == 1


def test_the_first_time_of_a_sleep_until_is_kept(app: penstock.App, clock: ManualClock) -> None:
    @app.task()
    def nap(ctx: penstock.JobContext) -> int:
        ctx.sleep_until(datetime.fromtimestamp(clock.now(), UTC) + timedelta(hours=1))
        return ctx.attempt

    job = nap.enqueue()
    work(app)
    clock.advance(3600)
    work(app)
    assert app.result(job.id) == 2


@pytest.mark.parametrize("wrong", [-1, "1", None, float("nan"), True, float("inf")])
def test_what_is_no_duration_is_refused(app: penstock.App, wrong: Any) -> None:
    @app.task()
    def nap(ctx: penstock.JobContext) -> None:
        ctx.sleep(wrong)

    job = nap.enqueue()
    work(app)
    failed = app.get(job.id)
    assert failed.error is not None
    assert (failed.error.kind, "A sleep is a timedelta" in failed.error.message) == ("BadJob", True)


def test_a_sleep_frees_the_concurrency_slot(app: penstock.App, clock: ManualClock) -> None:
    @app.task()
    def nap(ctx: penstock.JobContext) -> int:
        ctx.sleep(60)
        return 1

    limited = nap.options(concurrency_key="one", max_concurrent=1)
    jobs = [limited.enqueue() for _ in range(3)]
    assert work(app).suspended == 3
    assert app.store.side_items.slot_holders("one") == []
    clock.advance(60)
    work(app)
    assert [app.result(job.id) for job in jobs] == [1, 1, 1]


def test_an_async_task_sleeps_and_its_finally_runs(app: penstock.App, clock: ManualClock) -> None:
    left: list[int] = []

    @app.task()
    async def nap(ctx: penstock.AsyncJobContext) -> str:
        try:
            await ctx.sleep(timedelta(hours=1), name="nap")
        except Exception:
            return "caught"
        finally:
            left.append(ctx.attempt)
            await ctx.log("leaving")
        return "slept"

    job = nap.enqueue()
    work(app)
    clock.advance(3600)
    work(app)
    assert (app.result(job.id), left) == ("slept", [1, 2])


def test_until_empty_waits_for_those_that_sleep() -> None:
    with penstock.App(":memory:") as app:

        @app.task()
        def nap(ctx: penstock.JobContext) -> int:
            ctx.sleep(0.2)
            return ctx.attempt

        job = nap.enqueue()
        Worker(app, until_empty=True, concurrency=1).run()
        assert app.result(job.id) == 2


@pytest.mark.parametrize("goes_on", ["return", "operation"])
def test_a_task_that_swallows_the_suspension_fails_and_says_why(app: penstock.App, goes_on: str) -> None:
    done: list[str] = []

    @app.task(retries=5)
    def careless(ctx: penstock.JobContext) -> None:
        try:
            ctx.sleep(60)
        except BaseException:  # what it should not do
            ctx.log("went on")
        if goes_on == "operation":
            ctx.step("next", lambda: done.append("harm"))

    job = careless.enqueue()
    work(app)
    failed = app.get(job.id)
    assert (failed.state, failed.attempt, done) == (State.FAILED, 1, [])
    assert failed.error is not None
    assert "caught JobSuspended" in failed.error.message


@pytest.mark.parametrize("goes_on", ["return", "step", "wait"])
def test_an_async_task_that_swallows_the_suspension_fails_too(app: penstock.App, goes_on: str) -> None:
    @app.task(retries=5)
    async def careless(ctx: penstock.AsyncJobContext) -> None:
        try:
            await ctx.sleep(60)
        except BaseException:  # what it should not do
            await ctx.log("went on")
        if goes_on == "step":
            await ctx.step("next", lambda: None)
        elif goes_on == "wait":
            await ctx.wait_for("approval")

    job = careless.enqueue()
    work(app)
    failed = app.get(job.id)
    assert (failed.state, failed.attempt) == (State.FAILED, 1)
    assert failed.error is not None
    assert failed.error.kind == "SuspensionCaught"


def test_a_coroutine_beside_the_one_that_waits_has_caught_nothing(app: penstock.App, clock: ManualClock) -> None:
    @app.task()
    async def nap(ctx: penstock.AsyncJobContext) -> int:
        suspended = asyncio.Event()

        async def wait() -> None:
            try:
                await ctx.sleep(60)
            finally:
                suspended.set()

        async def count() -> int:
            await suspended.wait()
            return await ctx.step("count", lambda: 7)

        return (await asyncio.gather(wait(), count()))[1]

    job = nap.enqueue()
    assert Worker(app, burst=True).run().suspended == 1
    clock.advance(60)
    Worker(app, burst=True).run()
    assert app.result(job.id) == 7


def test_a_task_group_that_wraps_the_suspension_is_suspended(app: penstock.App, clock: ManualClock) -> None:
    @app.task()
    async def nap(ctx: penstock.AsyncJobContext) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.sleep(60))
        return "slept"

    job = nap.enqueue()
    work(app)
    clock.advance(60)
    work(app)
    assert app.result(job.id) == "slept"


def test_a_step_beside_a_wait_may_be_begun_again(app: penstock.App, clock: ManualClock) -> None:
    async def slow() -> str:
        await asyncio.sleep(0.05)
        return "done"

    @app.task()
    async def both(ctx: penstock.AsyncJobContext) -> str:
        text, _ = await asyncio.gather(ctx.step("slow", slow), ctx.sleep(60))
        return text

    job = both.enqueue()
    work(app)
    clock.advance(60)
    work(app)
    assert app.result(job.id) == "done"


def test_a_wait_inside_of_a_step_is_refused(app: penstock.App) -> None:
    @app.task()
    def nested(ctx: penstock.JobContext) -> None:
        ctx.step("outer", lambda: ctx.sleep(60))

    job = nested.enqueue()
    work(app)
    failed = app.get(job.id)
    assert failed.error is not None
    assert "inside of ctx.step('outer'" in failed.error.message


def test_a_task_says_itself_when_it_is_tried_again(app: penstock.App, clock: ManualClock) -> None:
    @app.task(retries=penstock.RetryPolicy(1, on=(OSError,)))
    def closed(ctx: penstock.JobContext) -> None:
        raise penstock.RetryIn(timedelta(minutes=1), "the shop is closed")

    job = closed.enqueue()
    assert work(app).retried == 1
    waiting = app.get(job.id)
    assert (waiting.run_at, waiting.failures) == (START + 60, 1)
    clock.advance(60)
    assert work(app).failed == 1
    failed = app.get(job.id)
    assert failed.error is not None
    assert (failed.error.kind, failed.error.message) == ("RetryIn", "the shop is closed")
    with pytest.raises(BadJob, match="RetryIn takes a timedelta"):
        penstock.RetryIn(-1)


# ── events ───────────────────────────────────────────────────────────────────────────────────────


def test_an_event_wakes_the_job_that_waits_for_it(app: penstock.App) -> None:
    @app.task()
    def order(ctx: penstock.JobContext) -> Any:
        return ctx.wait_for("approval")

    job = order.enqueue()
    work(app)
    assert f"waits for the event 'approval': `penstock jobs send {job.id} approval`" in why(app, job)
    app.send_event(job.id, "reminder")
    assert work(app).total == 0, "it waits for another one"
    app.send_event(job.id, "approval", {"by": "ada"})
    work(app)
    assert app.result(job.id) == {"by": "ada"}
    assert app.get(job.id).unread == 1


def test_an_event_that_comes_first_is_kept_and_several_are_taken_in_order(app: penstock.App) -> None:
    @app.task()
    def order(ctx: penstock.JobContext) -> Any:
        return [ctx.wait_for("line") for _ in range(3)]

    job = order.enqueue()
    for number in range(3):
        app.send_event(job.id, "line", number)
    assert work(app).suspended == 0
    assert app.result(job.id) == [0, 1, 2]
    assert not [one for one in items(app.store) if one["record"]["S"].startswith("sent#")]


def test_an_event_that_comes_while_the_task_runs_is_not_missed(app: penstock.App) -> None:
    @app.task()
    def order(ctx: penstock.JobContext) -> Any:
        first = ctx.wait_for("line", timeout=60)
        app.send_event(ctx.id, "line", "while it ran")
        return [first, ctx.wait_for("line")]

    job = order.enqueue()
    app.send_event(job.id, "line", "before")
    work(app)
    assert app.result(job.id) == ["before", "while it ran"]


def test_an_event_between_the_look_and_the_suspension_wakes_the_job(app: penstock.App) -> None:
    @app.task()
    def order(ctx: penstock.JobContext) -> Any:
        try:
            return ctx.wait_for("approval")
        finally:
            if ctx.attempt == 1:  # it has looked, and its worker has not stored the wait
                app.send_event(ctx.id, "approval", "just in time")

    job = order.enqueue()
    counts = work(app)
    assert (counts.suspended, app.result(job.id)) == (1, "just in time")


def test_a_wait_without_an_event_ends_with_its_timeout(app: penstock.App, clock: ManualClock) -> None:
    @app.task()
    def order(ctx: penstock.JobContext) -> Any:
        approval = ctx.wait_for("approval", timeout=timedelta(days=3))
        late = ctx.wait_for("approval", timeout=timedelta(days=3))
        return [approval, late]

    job = order.enqueue()
    work(app)
    assert "for another 3d" in why(app, job)
    clock.advance(3 * DAY)
    work(app)
    app.send_event(job.id, "approval", "late")  # the first wait is over, and stays so
    work(app)
    assert app.result(job.id) == [None, "late"]


def test_an_event_that_is_stored_before_the_timeout_is_noticed_counts(app: penstock.App, clock: ManualClock) -> None:
    @app.task()
    def order(ctx: penstock.JobContext) -> Any:
        return ctx.wait_for("approval", timeout=60)

    job = order.enqueue()
    work(app)
    clock.advance(600)  # no worker was there
    app.send_event(job.id, "approval", "late")
    work(app)
    assert app.result(job.id) == "late"


def test_an_event_to_a_job_that_has_ended_is_refused_and_a_second_delivery_is_not(app: penstock.App) -> None:
    @app.task()
    def order(ctx: penstock.JobContext) -> Any:
        return ctx.wait_for("approval")

    job = order.enqueue()
    for _ in range(2):
        app.send_event(job.id, "approval", 1, event_id="webhook 17")
    work(app)
    assert (app.get(job.id).sent, app.result(job.id)) == (1, 1)
    app.send_event(job.id, "approval", 1, event_id="webhook 17")
    with pytest.raises(BadJob, match=r"is completed: the event 'approval' would never be taken"):
        app.send_event(job.id, "approval", 2)
    with pytest.raises(penstock.JobNotFound):
        app.send_event("job_none", "approval")


def test_a_job_that_waits_for_an_event_is_cancelled_at_once(app: penstock.App) -> None:
    @app.task()
    def order(ctx: penstock.JobContext) -> Any:
        return ctx.wait_for("approval")

    job = order.enqueue()
    work(app)
    assert app.cancel(job.id).state is State.CANCELLED


def test_a_job_that_waits_for_an_event_for_years_is_kept_by_workers(app: penstock.App, clock: ManualClock) -> None:
    @app.task()
    def order(ctx: penstock.JobContext) -> Any:
        return ctx.wait_for("approval")

    job = order.enqueue()
    work(app)
    for _ in range(20):
        clock.advance(10 * DAY)
        work(app)
    app.send_event(job.id, "approval", "at last")
    work(app)
    assert app.result(job.id) == "at last"
    assert len(expiries(app.store, job.id)) == 1


# ── children ─────────────────────────────────────────────────────────────────────────────────────


def test_children_are_made_once_and_their_results_come_in_order(app: penstock.App, clock: ManualClock) -> None:
    @app.task()
    def square(number: int) -> int:
        return number**2

    @app.task()
    def total(ctx: penstock.JobContext, count: int) -> list[int]:
        first = ctx.enqueue(square, 100)
        squares = ctx.gather(ctx.enqueue(square, number) for number in range(count))
        ctx.sleep(60)
        return [*ctx.gather([first]), *squares]

    job = total.enqueue(count=5)
    work(app, concurrency=1)
    assert [child.parent_id for child in app.children(job.id)] == [job.id] * 6
    assert app.get(job.id).child_count == 6
    clock.advance(60)
    work(app)
    assert app.result(job.id) == [10_000, 0, 1, 4, 9, 16]
    assert len(app.store.find(task="square").jobs) == 6
    assert "suspended" in types(app, job)
    assert not any(child.has_children for child in app.children(job.id))


def test_a_gather_survives_the_expiry_of_the_children(app: penstock.App, clock: ManualClock) -> None:
    @app.task()
    def part(number: int) -> int:
        return number

    @app.task()
    async def whole(ctx: penstock.AsyncJobContext) -> list[int]:
        one = await ctx.enqueue(part, 1)
        parts = await ctx.gather([one, ctx.enqueue(part, 2)])
        await ctx.sleep(timedelta(days=100))
        return parts

    job = whole.enqueue()
    work(app)
    clock.advance(100 * DAY)
    work(app)
    assert app.result(job.id) == [1, 2]
    assert list(app.children(job.id)) == []


def test_a_failed_child_fails_the_gather_and_a_retry_of_both_mends_it(app: penstock.App) -> None:
    broken = [True]

    @app.task()
    def part(number: int) -> int:
        if number == 2 and broken:
            raise ValueError("no")
        return number

    @app.task()
    def whole(ctx: penstock.JobContext) -> list[int]:
        return ctx.gather(ctx.enqueue(part, number) for number in range(4))

    job = whole.enqueue()
    work(app)
    failed = app.get(job.id)
    assert failed.error is not None
    assert (failed.error.kind, "ValueError: no" in failed.error.message) == ("JobFailed", True)
    broken.clear()
    (bad,) = [child for child in app.children(job.id) if child.state is State.FAILED]
    app.retry(bad.id)
    app.retry(job.id)
    work(app)
    assert app.result(job.id) == [0, 1, 2, 3]


def test_a_failure_that_the_task_has_caught_stays_so(app: penstock.App, clock: ManualClock) -> None:
    @app.task()
    def part() -> None:
        raise ValueError("no")

    @app.task()
    def whole(ctx: penstock.JobContext) -> str:
        try:
            ctx.gather([ctx.enqueue(part)])
        except penstock.JobFailed as failed:
            ctx.sleep(timedelta(days=100))
            return str(failed)
        return "completed"

    job = whole.enqueue()
    work(app)
    clock.advance(100 * DAY)
    work(app)
    assert "is failed: ValueError: no" in app.result(job.id)


def test_exceptions_are_returned_where_that_is_asked_for(app: penstock.App) -> None:
    @app.task()
    def part(number: int) -> int:
        return 1 // number

    @app.task()
    def whole(ctx: penstock.JobContext) -> list[str]:
        found = ctx.gather((ctx.enqueue(part, one) for one in (1, 0)), return_exceptions=True)
        return [str(one) for one in found]

    job = whole.enqueue()
    work(app)
    one, error = app.result(job.id)
    assert (one, "ZeroDivisionError" in error) == ("1", True)


def test_children_go_on_when_their_parent_is_cancelled_unless_they_are_to_be_cancelled_too(app: penstock.App) -> None:
    @app.task(queue="slow")
    def part() -> None: ...

    @app.task()
    def middle(ctx: penstock.JobContext) -> None:
        ctx.gather([ctx.enqueue(part)])

    @app.task()
    def whole(ctx: penstock.JobContext) -> None:
        ctx.gather([ctx.enqueue(middle), ctx.enqueue(part)])

    left, taken = whole.enqueue(), whole.enqueue()
    work(app)
    assert "waits for 2 of 2 jobs" in why(app, left)
    app.cancel(left.id)
    app.cancel(taken.id, cancel_children=True)
    work(app)
    work(app, queues=("slow",))
    states = {job.id: [child.state for child in app.children(job.id)] for job in (left, taken)}
    assert states[taken.id] == [State.CANCELLED] * 2
    assert states[left.id][1] is State.COMPLETED
    (grandchild,) = app.children(next(iter(app.children(taken.id))).id)
    assert grandchild.state is State.CANCELLED


def test_a_child_of_a_key_is_one_and_unique_keys_are_refused(app: penstock.App) -> None:
    @app.task()
    def part(number: int) -> int:
        return number

    @app.task()
    def whole(ctx: penstock.JobContext) -> list[int]:
        keyed = part.options(idempotency_key="one", priority=9)
        assert ctx.enqueue(keyed, 1) == ctx.enqueue(keyed, 2)
        with pytest.raises(BadJob, match="unique_key"):
            ctx.enqueue(part.options(unique_key="x"), 1)
        with pytest.raises(BadJob, match="A gather takes"):
            ctx.gather(["job_1"])  # type: ignore[list-item]
        return ctx.gather([ctx.enqueue(keyed, 3)])

    job = whole.enqueue()
    work(app)
    assert app.result(job.id) == [1]
    (child,) = app.children(job.id)
    assert child.priority == 9


def test_a_child_with_long_arguments_and_one_that_depends_on_another_are_made_once(app: penstock.App) -> None:
    @app.task()
    def length(text: str) -> int:
        return len(text)

    @app.task()
    def whole(ctx: penstock.JobContext) -> list[int]:
        first = ctx.enqueue(length, "x" * 20_000)
        second = ctx.enqueue(length.options(depends_on=[first.id]), "short")
        return ctx.gather([first, second])

    job = whole.enqueue()
    work(app)
    assert app.result(job.id) == [20_000, 5]


def test_children_have_their_parents_tenant(app: penstock.App) -> None:
    @app.task()
    def part() -> None: ...

    @app.task()
    def whole(ctx: penstock.JobContext) -> None:
        ctx.gather([ctx.enqueue(part)])

    job = whole.options(tenant="acme").enqueue()
    work(app)
    assert [child.tenant for child in app.children(job.id)] == ["acme"]


def test_many_results_are_read_one_record_after_the_other(app: penstock.App, clock: ManualClock) -> None:
    @app.task()
    def page(number: int) -> str:
        return "x" * 3_000

    @app.task()
    def crawl(ctx: penstock.JobContext) -> int:
        results = ctx.results_of(ctx.enqueue(page, number) for number in range(200))
        size = sum(map(len, results))
        ctx.sleep(60)
        return size

    job = crawl.enqueue()
    work(app)
    clock.advance(60)
    work(app)
    assert app.result(job.id) == 600_000
    parts = [one for one in items(app.store) if one["record"]["S"].startswith("operation#gather:1#")]
    assert len(parts) > 1


# ── versions of running code ─────────────────────────────────────────────────────────────────────


def changed(app: penstock.App, clock: ManualClock, before: Any, after: Any) -> Job:
    """A job that begins with one function, waits, and continues with another."""
    code = [before]

    @app.task(retries=5)
    def part() -> None: ...

    @app.task(retries=5)
    def other() -> None: ...

    @app.task(retries=5)
    def flow(ctx: penstock.JobContext) -> Any:
        return code[0](ctx, part, other)

    job = flow.enqueue()
    work(app)
    code[0] = after
    clock.advance(3600)
    app.send_event(job.id, "go")
    work(app)
    return app.get(job.id)


CHANGES: dict[str, tuple[Any, Any, str]] = {
    "another duration": (lambda ctx, a, b: ctx.sleep(60), lambda ctx, a, b: ctx.sleep(61), "sleep:1 was a sleep of 60"),
    "another event": (lambda ctx, a, b: ctx.wait_for("go"), lambda ctx, a, b: ctx.wait_for("stop"), "'go'"),
    "another task": (
        lambda ctx, a, b: (ctx.enqueue(a), ctx.sleep(60)),
        lambda ctx, a, b: (ctx.enqueue(b), ctx.sleep(60)),
        "the task part",
    ),
    "a new step before": (
        lambda ctx, a, b: ctx.sleep(60),
        lambda ctx, a, b: (ctx.step("new", lambda: 1), ctx.sleep(60)),
        "step=new comes first",
    ),
    "a new wait before": (
        lambda ctx, a, b: ctx.sleep(60),
        lambda ctx, a, b: (ctx.wait_for("go"), ctx.sleep(60)),
        "wait_for:1 comes first",
    ),
    "a new child before": (
        lambda ctx, a, b: ctx.sleep(60),
        lambda ctx, a, b: (ctx.enqueue(a), ctx.sleep(60)),
        "enqueue:1 comes first",
    ),
    "no wait any more": (lambda ctx, a, b: ctx.sleep(60), lambda ctx, a, b: "done", "the task's return comes first"),
}


@pytest.mark.parametrize("which", CHANGES)
def test_code_that_no_longer_fits_fails_the_job_and_uses_up_no_retry(
    app: penstock.App, clock: ManualClock, which: str
) -> None:
    before, after, message = CHANGES[which]
    job = changed(app, clock, before, after)
    assert (job.state, job.attempt) == (State.FAILED, 2)
    assert job.error is not None
    assert job.error.kind == "WorkflowChanged"
    assert message in job.error.message
    assert "Put the old code back" in job.error.message


def test_a_change_that_the_task_catches_fails_it_all_the_same(app: penstock.App, clock: ManualClock) -> None:
    def after(ctx: penstock.JobContext, part: Any, other: Any) -> str:
        try:
            ctx.step("new", lambda: 1)
        except Exception:
            return "went on"
        return "never"

    job = changed(app, clock, lambda ctx, a, b: ctx.sleep(60), after)
    assert job.error is not None
    assert job.error.kind == "WorkflowChanged"


def test_a_named_sleep_may_change_its_duration_and_what_follows_may_change(
    app: penstock.App, clock: ManualClock
) -> None:
    job = changed(
        app,
        clock,
        lambda ctx, a, b: ctx.sleep(60, name="nap"),
        lambda ctx, a, b: (ctx.sleep(90, name="nap"), ctx.step("new", lambda: 1))[1],
    )
    assert app.result(job.id) == 1


def test_the_old_code_put_back_continues_the_job(app: penstock.App, clock: ManualClock) -> None:
    steps: list[Any] = [lambda ctx: ctx.sleep(60), lambda ctx: ctx.step("new", lambda: 1)]

    @app.task()
    def flow(ctx: penstock.JobContext) -> Any:
        steps[0](ctx)
        return "done"

    job = flow.enqueue()
    work(app)
    clock.advance(60)
    steps.reverse()
    work(app)
    assert app.get(job.id).state is State.FAILED
    steps.reverse()
    app.retry(job.id)
    work(app)
    assert app.result(job.id) == "done"


def test_a_job_keeps_the_version_with_which_it_began(clock: ManualClock) -> None:
    with penstock.App(":memory:", clock=clock) as old:

        @old.task(name="flow")
        def first(ctx: penstock.JobContext) -> int:
            ctx.sleep(60)
            return ctx.version

        jobs = [first.enqueue()]
        work(old)
        new = penstock.App(old.store.db, clock=clock)

        @new.task(name="flow", version=2)
        def second(ctx: penstock.JobContext) -> int:
            if ctx.version >= 2:
                ctx.step("new", lambda: 1)
            ctx.sleep(60)
            return ctx.version

        jobs.append(second.enqueue())
        work(new)
        clock.advance(60)
        work(new)
        assert [new.result(job.id) for job in jobs] == [1, 2]


def test_a_worker_with_older_code_leaves_the_jobs_of_newer_code(clock: ManualClock) -> None:
    with penstock.App(":memory:", clock=clock) as new:

        def nap(ctx: penstock.JobContext) -> int:
            ctx.sleep(60)
            return ctx.version

        job = new.task(name="flow", version=2)(nap).enqueue()
        work(new)
        clock.advance(60)
        old = penstock.App(new.store.db, clock=clock)
        old.task(name="flow")(nap)
        worker = Worker(old, concurrency=1, idle_seconds=0.02)
        threading.Timer(0.5, worker.stop).start()
        assert worker.run().total == 0
        work(new)
        assert new.result(job.id) == 2


def test_a_burst_of_older_code_ends_beside_a_job_of_newer_code(clock: ManualClock) -> None:
    with penstock.connect(clock=clock) as db:
        old, new = penstock.App(db, clock=clock), penstock.App(db, clock=clock)

        def nap(ctx: penstock.JobContext) -> None:
            ctx.sleep(60)

        old.task(name="flow")(nap)
        job = new.task(name="flow", version=2)(nap).enqueue()
        work(new)
        clock.advance(61)
        work(old)
        assert old.get(job.id).state is State.QUEUED


def test_what_is_stored_in_a_millisecond_is_due_in_it(clock: ManualClock) -> None:
    clock.advance(1_000.0004 - clock.now() % 1)  # stored times are rounded to .000; a frozen clock never reaches .001
    with penstock.App(":memory:", clock=clock) as app:

        @app.task()
        def child() -> int:
            return 1

        @app.task()
        def parent(ctx: penstock.JobContext) -> list[int]:
            ctx.sleep(0.0002)
            return ctx.gather([ctx.enqueue(child.options(delay=0.0003))])

        job = parent.enqueue()
        for shift in (0.0, 0.0003, 0.0003, 0.0003):
            clock.advance(shift)
            work(app)
        assert app.get(job.id).state is State.COMPLETED


@pytest.mark.parametrize("wrong", [0, 1.5, "2", True])
def test_what_is_no_version_is_refused(app: penstock.App, wrong: Any) -> None:
    with pytest.raises(BadJob, match="version is a whole number"):
        app.task(version=wrong)


def test_a_wake_up_is_not_late(app: penstock.App) -> None:
    with penstock.App(":memory:") as real:

        @real.task()
        def nap(ctx: penstock.JobContext) -> float:
            ctx.sleep(0.3)
            return time.time()

        job = nap.enqueue()
        Worker(real, until_empty=True, concurrency=1, idle_seconds=30).run()
        assert real.get(job.id).attempt == 2
