"""A worker whose database is away for a while: nothing fails because of it, and nothing is done twice."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from worker_worlds import AT_ONCE, work

import penstock
from penstock.cli.jobs.commands import follow
from penstock.client.database import Database, connect
from penstock.client.transports.base import Transport
from penstock.engine.settings import Settings
from penstock.errors import (
    AccessDeniedException,
    ConnectionFailed,
    DatabaseLocked,
    InternalServerError,
    NotDynamoDB,
    PenstockError,
    ProvisionedThroughputExceededException,
    RequestLimitExceeded,
    ThrottlingException,
    TimedOut,
    TransactionCanceledException,
)
from penstock.jobs import context
from penstock.jobs.context import attempt_of
from penstock.jobs.model.state import State
from penstock.jobs.sources import StoreSource
from penstock.jobs.store.patience import patient
from penstock.jobs.store.store import JobStore
from penstock.jobs.worker.worker import Worker
from penstock.leases import AbandonedLease
from penstock.retry import Backoff

WRITES = frozenset({"PutItem", "UpdateItem", "TransactWriteItems"})


def refused() -> PenstockError:
    return ConnectionFailed("http://127.0.0.1:8000", "nothing listens there")


def throttled_transaction() -> PenstockError:
    error = TransactionCanceledException("throttled")
    error.fields = {"CancellationReasons": [{"Code": "ThrottlingError"}, {"Code": "None"}]}
    return error


class Away:
    """A transport to a database that goes away: for so many calls, or until it is told to come back."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.name = inner.name
        self.error: Callable[[], PenstockError] = refused
        self.left = 0
        self.loses_answers = False
        """Whether calls are carried out, and only their answers are lost."""
        self.operations: frozenset[str] | None = None
        """Those that fail; None for all."""
        self.failed = threading.Event()
        """Set with each call that fails."""
        self.fails_every = 0
        """One in so many calls fails."""
        self._calls = 0

    def go(self, calls: int = 1_000_000, *, only: frozenset[str] | None = None) -> None:
        self.operations = only
        self.left = calls

    def come_back(self) -> None:
        self.left = 0

    def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        self._calls += 1
        if self.fails_every and self._calls % self.fails_every == 0:
            raise self.error()
        if not self.left or (self.operations is not None and operation not in self.operations):
            return self.inner.execute(operation, request)
        self.left -= 1
        if self.loses_answers:
            self.inner.execute(operation, request)
        self.failed.set()
        raise self.error()

    def close(self) -> None:
        self.inner.close()


@pytest.fixture
def away(tmp_path: Path) -> Iterator[Away]:
    with connect(tmp_path / "jobs.db") as db:
        yield Away(db.transport)


@pytest.fixture
def app(away: Away, tmp_path: Path) -> penstock.App:
    return penstock.App(Database(away), files=tmp_path / "files")


def test_a_job_that_a_task_enqueues_waits_for_the_database_and_is_made_once(app: penstock.App, away: Away) -> None:
    @app.task()
    def other() -> None: ...

    @app.task()
    def report() -> str:
        away.loses_answers = True
        away.go(1, only=WRITES)
        made = other.enqueue()
        away.loses_answers = False
        away.go(3)
        return f"{made.id} {app.get(made.id).state}"

    job = report.enqueue()
    work(app, concurrency=1)
    ended = app.get(job.id)
    assert (ended.state, ended.attempt, ended.failures) == (State.COMPLETED, 1, 0)
    assert away.left == 0
    assert [one.state for one in app.store.find(task="other").jobs] == [State.COMPLETED]


ASKED: dict[str, Callable[[penstock.App, penstock.JobContext, str], object]] = {
    "enqueue of many": lambda app, ctx, other: app.tasks["other"].enqueue_many([{}] * 3),
    "a job that depends on another": lambda app, ctx, other: app.tasks["other"].options(depends_on=[other]).enqueue(),
    "a job that depends on many": lambda app, ctx, other: (
        app.tasks["other"].options(depends_on=[one.id for one in app.tasks["other"].enqueue_many([{}] * 17)]).enqueue()
    ),
    "a unique job": lambda app, ctx, other: app.tasks["other"].options(unique_key="one").enqueue(),
    "pause": lambda app, ctx, other: (app.jobs.pause("other"), app.jobs.resume("other")),
    "find": lambda app, ctx, other: list(app.jobs.find(state="queued")),
    "cancel": lambda app, ctx, other: app.cancel(other),
    "event": lambda app, ctx, other: app.send_event(ctx.job.id, "hello"),
}


@pytest.mark.parametrize("every", [1, 3, 5])
@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED.keys())
def test_whatever_a_task_asks_of_jobs_waits_for_the_database(
    app: penstock.App,
    away: Away,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[penstock.App, penstock.JobContext, str], object],
    every: int,
) -> None:
    monkeypatch.setattr(context, "CALL_AGAIN", Backoff(0.001, 1.0, 0.001))

    @app.task(queue="elsewhere")
    def other() -> None: ...

    @app.task()
    def report(ctx: penstock.JobContext, other: str) -> None:
        away.fails_every = every + 1
        try:
            ask(app, ctx, other)
        finally:
            away.fails_every = 0

    job = report.enqueue(other=other.enqueue().id)
    work(app, concurrency=1)
    ended = app.get(job.id)
    assert (ended.state, ended.attempt, ended.error) == (State.COMPLETED, 1, None)


def test_many_jobs_that_a_task_enqueues_wait_for_a_file_that_is_locked(tmp_path: Path) -> None:
    with connect(tmp_path / "jobs.db", settings=Settings(busy_seconds=0.05)) as db:
        app = penstock.App(db)

        @app.task(queue="elsewhere")
        def other() -> None: ...

        @app.task()
        def report() -> list[str]:
            holder = sqlite3.connect(tmp_path / "jobs.db", check_same_thread=False, isolation_level=None)
            holder.execute("BEGIN IMMEDIATE")
            timer = threading.Timer(0.4, lambda: (holder.execute("ROLLBACK"), holder.close()))
            timer.start()
            try:
                return [job.id for job in other.enqueue_many([{}] * 30)]
            finally:
                timer.join()

        job = report.enqueue()
        work(app, concurrency=1)
        assert app.get(job.id).error is None
        made = {one.id for one in app.store.find(task="other", limit=100).jobs}
        assert len(made) == 30 and made == set(app.result(job.id))


def test_what_an_async_task_awaits_of_the_app_waits_for_the_database(app: penstock.App, away: Away) -> None:
    @app.task()
    async def other() -> None: ...

    @app.task()
    async def report() -> str:
        away.go(3)
        made = await app.aio.enqueue(other)
        away.go(3)
        beside = await asyncio.to_thread(other.enqueue)
        away.go(3)
        return f"{(await app.aio.get(made.id)).task} {beside.task}"

    job = report.enqueue()
    work(app, concurrency=1)
    ended = app.get(job.id)
    assert (ended.state, ended.attempt, ended.error) == (State.COMPLETED, 1, None)
    assert app.result(job.id) == "other other"
    assert len(app.store.find(task="other").jobs) == 2


def test_a_call_on_the_event_loop_itself_does_not_wait(app: penstock.App, away: Away) -> None:
    @app.task()
    async def other() -> None: ...

    @app.task()
    async def report() -> str:
        away.go(1)
        try:
            other.enqueue()
        except ConnectionFailed:
            return "at once"
        return "after a wait"

    job = report.enqueue()
    work(app, concurrency=1)
    assert app.result(job.id) == "at once"


def test_a_job_whose_answer_was_lost_and_that_a_worker_has_claimed_since_is_made_once(tmp_path: Path) -> None:
    with connect(tmp_path / "jobs.db") as db:
        others = JobStore(db)
        others.create_tables()

        class Claimed(Away):
            """Whoever waits for the answer gets none, and meanwhile a worker claims the job."""

            def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
                answer = self.inner.execute(operation, request)
                if operation == "PutItem" and self.left:
                    self.left = 0
                    (job,) = others.claimable("default", 10).jobs
                    assert others.claim(job, "worker", 30.0) is not None
                    raise refused()
                return answer

        away = Claimed(db.transport)
        app = penstock.App(Database(away), files=tmp_path / "files")
        task = app.task("report")(do_nothing)
        app.store.create_tables()
        away.go(1)
        with patient(lambda error, failures, since: None):
            job = task.enqueue()
        assert [one.id for one in others.find().jobs] == [job.id]
        assert job.is_new


def do_nothing() -> None: ...


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "OUTAGE_SECONDS", 0.3)


# ── calls of a task ────────────────────────────────────────────────────────────────────────────────


CALLS: dict[str, Callable[[penstock.JobContext], object]] = {
    "checkpoint": lambda ctx: ctx.checkpoint("done", 1),
    "progress": lambda ctx: ctx.progress(50),
    "log": lambda ctx: ctx.log("here"),
    "resume": lambda ctx: ctx.resume("done"),
    "resume of a long value": lambda ctx: ctx.resume("long"),
    "step": lambda ctx: ctx.step("one", lambda: 1),
    "results": lambda ctx: ctx.results,
    "save": lambda ctx: ctx.files.save("a.txt", b"a"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_every_call_of_a_task_waits_for_the_database(
    app: penstock.App, away: Away, call: Callable[[penstock.JobContext], object]
) -> None:
    @app.task()
    def parent(ctx: penstock.JobContext) -> str:
        return "x" * 20_000

    @app.task()
    def report(ctx: penstock.JobContext) -> str:
        ctx.checkpoint("long", "x" * 350_000)
        away.go(3)
        call(ctx)
        assert away.left == 0, "the call needed the database"
        return "done"

    job = report.options(depends_on=[parent.enqueue().id]).enqueue()
    work(app, concurrency=1)
    ended = app.get(job.id)
    assert (ended.state, ended.attempt, ended.failures, ended.error) == (State.COMPLETED, 1, 0, None)


def test_whether_a_job_is_cancelled_is_asked_until_there_is_an_answer(
    app: penstock.App, away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "_LOOK_SECONDS", 0.0)

    @app.task()
    def watch(ctx: penstock.JobContext) -> bool:
        away.go(3)
        return ctx.cancelled

    job = watch.enqueue()
    work(app, concurrency=1)
    assert app.result(job.id) is False
    assert app.get(job.id).attempt == 1


def test_long_arguments_and_a_long_result_wait_for_the_database(app: penstock.App, away: Away) -> None:
    @app.task()
    def double(ctx: penstock.JobContext, text: str) -> str:
        away.go(3)
        return 2 * text

    job = double.enqueue(text="x" * 20_000)
    work(app, concurrency=1)
    ended = app.get(job.id)
    assert (ended.state, ended.attempt, ended.failures) == (State.COMPLETED, 1, 0)
    assert len(app.result(job.id)) == 40_000


def test_an_async_task_waits_too(app: penstock.App, away: Away) -> None:
    @app.task()
    async def report(ctx: penstock.AsyncJobContext) -> str:
        for number in range(3):
            away.go(3)
            await ctx.checkpoint("done", number)
        away.go(3)
        await ctx.progress(50)
        away.go(3)
        return str(await ctx.resume("done"))

    job = report.enqueue()
    work(app, concurrency=1)
    assert (app.result(job.id), app.get(job.id).attempt) == ("2", 1)


ERRORS: dict[str, Callable[[], PenstockError]] = {
    "refused": refused,
    "timed out": lambda: TimedOut("http://127.0.0.1:8000", "no answer", sent=True),
    "another page": lambda: NotDynamoDB("http://127.0.0.1:8000", "a web page"),
    "throughput": lambda: ProvisionedThroughputExceededException("slower"),
    "throttling": lambda: ThrottlingException("slower"),
    "request limit": lambda: RequestLimitExceeded("slower"),
    "internal": lambda: InternalServerError("disk is full"),
    "throttled transaction": throttled_transaction,
    "locked": lambda: DatabaseLocked("jobs.db: database is locked."),
    "access": lambda: AccessDeniedException("not today"),
}


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS.keys())
def test_whatever_may_pass_is_waited_for(app: penstock.App, away: Away, error: Callable[[], PenstockError]) -> None:
    @app.task()
    def report(ctx: penstock.JobContext) -> int:
        away.error = error
        for number in range(3):
            away.go(2)
            ctx.checkpoint("done", number)
        away.go(2)  # while the end is stored, and the next job is looked for
        return ctx.attempt

    job = report.enqueue()
    counts = work(app, concurrency=1)
    ended = app.get(job.id)
    assert (ended.state, ended.attempt, ended.failures, ended.crashes) == (State.COMPLETED, 1, 0, 0)
    assert (counts.completed, counts.failed, counts.lost) == (1, 0, 0)


def test_a_write_whose_answer_was_lost_is_made_once(app: penstock.App, away: Away) -> None:
    away.loses_answers = True

    @app.task()
    def report(ctx: penstock.JobContext) -> None:
        away.go(1)
        ctx.checkpoint("done", 1)
        away.go(1)
        ctx.log("once")
        away.go(1, only=WRITES)

    job = report.enqueue()
    counts = work(app, concurrency=1)
    history = app.store.history(job.id)
    assert [entry.message for entry in history.entries] == ["checkpoint done", "once"]
    assert [event.type for event in history.events] == ["created", "started", "completed"]
    assert (counts.completed, counts.lost) == (1, 0)


def test_a_claim_whose_answer_was_lost_is_this_workers(app: penstock.App, away: Away) -> None:
    @app.task()
    def report(ctx: penstock.JobContext) -> int:
        return ctx.attempt

    jobs = [report.enqueue() for _ in range(3)]
    away.loses_answers = True
    away.go(3, only=frozenset({"PutItem"}))
    counts = work(app, concurrency=1)
    assert [app.get(job.id).attempt for job in jobs] == [1, 1, 1]
    assert (counts.completed, counts.lost) == (3, 0)


def test_the_same_error_of_a_tasks_own_database_is_its_failure(app: penstock.App, away: Away) -> None:
    @app.task()
    def copy(ctx: penstock.JobContext) -> None:
        ctx.checkpoint("began")
        raise refused()

    job = copy.enqueue()
    work(app, concurrency=1)
    failed = app.get(job.id)
    assert (failed.state, failed.failures) == (State.FAILED, 1)
    assert failed.error is not None
    assert failed.error.kind == "ConnectionFailed"


# ── outages that are longer ────────────────────────────────────────────────────────────────────────


def test_an_attempt_outlives_its_lease_while_nobody_could_be_asked(app: penstock.App, away: Away) -> None:
    @app.task(lease_seconds=0.5)
    def report(ctx: penstock.JobContext) -> int:
        ctx.checkpoint("done", 1)
        away.go()
        threading.Timer(2.0, away.come_back).start()
        ctx.checkpoint("done", 2)
        return ctx.attempt

    job = report.enqueue()
    counts = work(app)
    assert (app.result(job.id), app.get(job.id).crashes) == (1, 0)
    assert (counts.completed, counts.lost) == (1, 0)


def test_a_task_that_only_computes_outlives_its_lease_too(app: penstock.App, away: Away) -> None:
    @app.task(lease_seconds=0.5)
    def compute(ctx: penstock.JobContext) -> int:
        away.go()
        time.sleep(2.0)
        away.come_back()
        return ctx.attempt

    job = compute.enqueue()
    work(app)
    assert (app.result(job.id), app.get(job.id).crashes) == (1, 0)


def test_a_job_that_was_taken_over_meanwhile_is_lost(app: penstock.App, away: Away) -> None:
    other = penstock.App(Database(away.inner))

    @app.task(lease_seconds=0.5)
    def report(ctx: penstock.JobContext) -> None:
        if ctx.attempt == 1:
            away.go()
            taken = None
            while taken is None:
                time.sleep(0.05)
                taken = other.store.claim(other.get(ctx.id), "another", 60)
            away.come_back()
            ctx.checkpoint("done", 1)

    job = report.enqueue()
    worker = Worker(app, concurrency=1, idle_seconds=0.05, on_end=lambda job, how: worker.stop())
    assert worker.run().lost == 1
    held = app.get(job.id)
    assert held.lease is not None
    assert (held.lease.owner, held.entries) == ("another", 0)


@pytest.mark.parametrize("seen_by", ["the task", "the heartbeat"])
def test_a_lost_lease_is_logged_once_and_with_its_job(
    app: penstock.App, caplog: pytest.LogCaptureFixture, seen_by: str
) -> None:
    @app.task(lease_seconds=0.5 if seen_by == "the heartbeat" else 60.0)
    def report(ctx: penstock.JobContext) -> None:
        current = app.get(ctx.id)
        assert current.lease is not None
        expired = dataclasses.replace(current, lease=AbandonedLease("gone", current.token, 0.0, 1.0, has_ended=True))
        assert app.store.claim(expired, "another", 60) is not None
        while seen_by == "the heartbeat" and attempt_of(ctx).lost is None:
            time.sleep(0.01)
        ctx.checkpoint("done", 1)

    job = report.enqueue()
    worker = Worker(app, concurrency=1, idle_seconds=0.05, on_end=lambda job, how: worker.stop())
    with caplog.at_level(logging.WARNING):
        assert worker.run().lost == 1
    told = [vars(record) for record in caplog.records if "the lease is lost" in record.message]
    assert [(one["job_id"], one["task"], one["attempt"]) for one in told] == [(job.id, "report", 1)]


@pytest.mark.usefixtures("impatient")
def test_an_abandoned_attempt_is_no_failure_and_its_survivor_gives_the_job_back(
    app: penstock.App, away: Away, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(lease_seconds=0.5, retries=0)
    def report(ctx: penstock.JobContext) -> int:
        if ctx.attempt == 1:
            away.go()
            ctx.checkpoint("done", 1)
        return ctx.attempt

    job = report.enqueue()
    ends: list[str] = []

    def note(_: object, how: str) -> None:
        ends.append(how)
        away.come_back()
        if how == "completed":
            worker.stop()

    worker = Worker(app, concurrency=2, idle_seconds=0.05, on_end=note)
    with caplog.at_level(logging.WARNING, "penstock.jobs"):
        worker.run()
    assert ends == ["lost", "completed"]
    assert "the database has not answered for" in caplog.text
    history = app.store.history(job.id)
    assert (history.job.attempt, history.job.failures, history.job.crashes) == (2, 0, 0)
    assert [event.type for event in history.events] == ["created", "started", "handed_over", "started", "completed"]


@pytest.mark.usefixtures("impatient")
def test_an_end_that_cannot_be_stored_for_long_is_no_failure_of_the_task(
    app: penstock.App, away: Away, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(lease_seconds=0.5)
    def report(ctx: penstock.JobContext) -> str:
        away.go()
        return "x" * 2_000

    job = report.enqueue()
    worker = Worker(app, concurrency=1, grace_seconds=0.0, idle_seconds=0.05, on_end=lambda job, how: worker.stop())
    with caplog.at_level(logging.ERROR, "penstock.jobs"):
        counts = worker.run()
    assert (counts.lost, counts.failed) == (1, 0)
    assert "has completed, which could not be stored" in caplog.text
    away.come_back()
    left = app.get(job.id)
    assert (left.state, left.failures, left.error) == (State.PROCESSING, 0, None)


def test_a_worker_takes_no_job_whose_function_still_runs_here(
    app: penstock.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_to_renew(job: object) -> None:
        raise refused()

    monkeypatch.setattr(app.store, "renew", fail_to_renew)  # so the worker sees that its own lease has expired
    running: list[str] = []
    most = 0

    @app.task(lease_seconds=0.5)
    def report(ctx: penstock.JobContext) -> int:
        nonlocal most
        running.append(ctx.id)
        most = max(most, running.count(ctx.id))
        time.sleep(2.0)
        running.remove(ctx.id)
        return ctx.attempt

    job = report.enqueue()
    work(app, concurrency=4)
    assert most == 1
    assert (app.result(job.id), app.get(job.id).crashes) == (1, 0)


def test_a_stop_ends_the_wait(app: penstock.App, away: Away, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "OUTAGE_SECONDS", 3_600.0)

    @app.task(lease_seconds=3_600)
    def report(ctx: penstock.JobContext) -> None:
        away.go()
        threading.Timer(0.5, worker.stop).start()
        threading.Timer(1.0, away.come_back).start()
        ctx.checkpoint("done", 1)

    job = report.enqueue()
    worker = Worker(app, concurrency=1, idle_seconds=0.05)
    assert worker.run().requeued == 1
    left = app.get(job.id)
    assert (left.state, left.failures, left.requeues) == (State.QUEUED, 0, 0)


def test_a_worker_ends_though_its_database_never_comes_back(
    app: penstock.App, away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "OUTAGE_SECONDS", 3_600.0)

    @app.task(lease_seconds=3_600)
    def report(ctx: penstock.JobContext) -> None:
        away.go()
        threading.Timer(0.2, worker.stop).start()
        ctx.checkpoint("done", 1)

    job = report.enqueue()
    worker = Worker(app, concurrency=1, grace_seconds=0.2, idle_seconds=0.05)
    worker.run()
    away.come_back()
    assert (app.get(job.id).failures, app.get(job.id).error) == (0, None)


def test_a_stop_does_not_wait_for_a_database_that_is_away_and_counts_every_job(
    app: penstock.App, away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "OUTAGE_SECONDS", 3_600.0)
    together = threading.Barrier(3)

    @app.task(lease_seconds=3_600)
    def report(ctx: penstock.JobContext) -> None:
        if together.wait(60) == 0:
            away.go()
            threading.Timer(0.2, worker.stop).start()
        away.failed.wait(60)
        ctx.checkpoint("done", 1)

    jobs = [report.enqueue() for _ in range(3)]
    worker = Worker(app, concurrency=3, grace_seconds=3_600.0, idle_seconds=0.05)
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "it has waited for its grace"
    away.come_back()
    assert (worker.counts.lost, worker.counts.total) == (3, 3)
    assert [app.get(job.id).failures for job in jobs] == [0, 0, 0]


def test_a_time_limit_that_passes_during_an_outage_is_kept_when_it_is_over(app: penstock.App, away: Away) -> None:
    ended = threading.Event()

    @app.task(time_limit_seconds=0.3, soft_time_limit_seconds=0.3)
    def late(ctx: penstock.JobContext) -> None:
        away.go()
        threading.Timer(1.5, away.come_back).start()
        ended.wait(60)

    @app.task(lease_seconds=0.5)
    def steady(ctx: penstock.JobContext) -> int:
        time.sleep(3.0)
        return ctx.attempt

    beside, job = steady.enqueue(), late.enqueue()
    work(app)
    ended.set()
    failed = app.get(job.id)
    assert (failed.state, failed.failures) == (State.FAILED, 1)
    assert failed.error is not None
    assert failed.error.kind == "TimeoutError"
    assert app.result(beside.id) == 1


# ── the worker itself ──────────────────────────────────────────────────────────────────────────────


def test_an_idle_worker_tells_of_an_outage_once_and_goes_on(
    app: penstock.App, away: Away, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task()
    def report(ctx: penstock.JobContext) -> str:
        return "done"

    worker = Worker(app, concurrency=4, idle_seconds=0.02, on_end=lambda job, how: worker.stop())
    thread = threading.Thread(target=worker.run)
    with caplog.at_level(logging.WARNING):
        away.go()
        thread.start()
        time.sleep(2.0)
        away.come_back()
        job = report.enqueue()
        thread.join(60)
    assert not thread.is_alive()
    assert app.get(job.id).state is State.COMPLETED
    told = [record.message for record in caplog.records]
    assert len([text for text in told if "does not answer" in text]) == 1
    assert len([text for text in told if "answers again" in text]) == 1
    assert len(told) == 2


def test_a_worker_that_is_started_before_its_database_waits_for_it(
    away: Away, caplog: pytest.LogCaptureFixture
) -> None:
    app = penstock.App(Database(away))

    @app.task()
    def report(ctx: penstock.JobContext) -> str:
        return "done"

    away.go(3)
    worker = Worker(app, concurrency=1, idle_seconds=0.05, on_end=lambda job, how: worker.stop())
    report.enqueue()
    assert worker.run().completed == 1


def test_a_file_that_another_process_has_locked_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with connect(path, settings=Settings(busy_seconds=0.05)) as db:
        app = penstock.App(db)

        @app.task()
        def report(ctx: penstock.JobContext) -> int:
            other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            other.execute("BEGIN IMMEDIATE")
            threading.Timer(1.0, other.close).start()
            ctx.checkpoint("done", 1)
            return ctx.attempt

        job = report.enqueue()
        work(app, concurrency=1)
        assert (app.result(job.id), app.get(job.id).failures) == (1, 0)


# ── who waits for a job ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("timeout", [None, 60.0])
def test_who_waits_for_a_job_waits_for_the_database_too(app: penstock.App, away: Away, timeout: float | None) -> None:
    @app.task()
    def report(ctx: penstock.JobContext) -> str:
        return "x" * 20_000

    job = report.enqueue()
    work(app, concurrency=1)
    away.go(3)
    assert app.wait(job.id, timeout_seconds=timeout).state is State.COMPLETED
    away.go(3)
    assert len(app.result(job.id, timeout_seconds=timeout)) == 20_000
    away.go(3)
    *_, (ended, _) = follow(StoreSource(app.store), job.id, timeout)
    assert (ended.state, away.left) == (State.COMPLETED, 0)


def test_a_database_that_stays_away_is_told_from_a_job_that_takes_long(app: penstock.App, away: Away) -> None:
    @app.task()
    def report(ctx: penstock.JobContext) -> None: ...

    job = report.enqueue()
    with pytest.raises(TimeoutError):
        app.wait(job.id, timeout_seconds=0.1)
    away.go()
    with pytest.raises(ConnectionFailed):
        app.wait(job.id, timeout_seconds=0.5)
    assert 1_000_000 - away.left > 1, "it was asked again"


# ── what a task may do for ever ────────────────────────────────────────────────────────────────────


def test_a_soft_limit_without_a_checkpoint_is_a_failure_that_says_how_to_repair_it(app: penstock.App) -> None:
    @app.task(time_limit_seconds=60, soft_time_limit_seconds=0.01, retries=AT_ONCE)
    def report(ctx: penstock.JobContext) -> None:
        while True:
            time.sleep(0.02)
            ctx.progress(50)

    job = report.enqueue()
    counts = work(app, concurrency=1)
    failed = app.get(job.id)
    assert (failed.state, failed.attempt, failed.failures) == (State.FAILED, 3, 3)
    assert failed.error is not None
    assert failed.error.kind == "TimeoutError"
    assert "soft time limit of 0.01 s was over before it had kept a checkpoint" in failed.error.message
    assert "ctx.checkpoint(…)" in failed.error.message
    assert (counts.retried, counts.failed, counts.requeued) == (2, 1, 0)


def test_a_checkpoint_of_an_earlier_attempt_is_none_of_this_one(app: penstock.App) -> None:
    @app.task(time_limit_seconds=60, soft_time_limit_seconds=0.01)
    def report(ctx: penstock.JobContext) -> None:
        if ctx.attempt == 1:
            ctx.checkpoint("done", 1)
        time.sleep(0.02)
        ctx.progress(50)

    job = report.enqueue()
    counts = work(app, concurrency=1)
    assert (app.get(job.id).state, app.get(job.id).attempt, counts.requeued) == (State.FAILED, 2, 1)


def test_a_task_that_requeues_itself_for_ever_has_failed(app: penstock.App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.jobs.worker.outcomes.MOST_REQUEUES", 5)

    @app.task()
    def poll(ctx: penstock.JobContext) -> None:
        ctx.requeue("not yet")

    @app.task()
    def advance(ctx: penstock.JobContext) -> int:
        if ctx.attempt % 4 == 0:
            ctx.checkpoint("done", ctx.attempt)
        if ctx.attempt < 12:
            ctx.requeue("not yet")
        return ctx.attempt

    looping, advancing = poll.enqueue(), advance.enqueue()
    work(app)
    failed = app.get(looping.id)
    assert (failed.state, failed.attempt, failed.requeues) == (State.FAILED, 6, 5)
    assert failed.error is not None
    assert failed.error.kind == "RequeueLimit"
    assert "MOST_REQUEUES" in failed.error.message
    assert app.result(advancing.id) == 12
    assert app.store.retry(looping.id).requeues == 0


def test_a_job_that_was_never_requeued_by_its_task_has_no_attribute_for_it(app: penstock.App) -> None:
    @app.task()
    def report(ctx: penstock.JobContext) -> None:
        worker.stop()
        while True:
            time.sleep(0.01)
            ctx.progress(1)

    job = report.enqueue()
    worker = Worker(app, concurrency=1, idle_seconds=0.05)
    assert worker.run().requeued == 1
    key = {"TableName": app.store.layout.table, "Key": app.store.layout.main_key(job.id)}
    assert "requeues" not in app.store.db.execute("GetItem", key)["Item"]
