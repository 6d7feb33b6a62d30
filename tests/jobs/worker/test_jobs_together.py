"""Short jobs that are claimed and ended together (worker.py, 10-13): as fast as that, and as safe as one by one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import InternalServerError
from penstock.jobs.context import Attempt
from penstock.jobs.model.job import Job
from penstock.jobs.model.state import State
from penstock.jobs.model.transitions import copy_with
from penstock.jobs.worker import worker as worker_module
from penstock.jobs.worker.worker import Worker
from penstock.testing.invariants import check


@pytest.fixture
def app(tmp_path: Path) -> Iterator[penstock.App]:
    with penstock.App(tmp_path / "jobs.db") as app:
        yield app


def work(app: penstock.App, concurrency: int) -> Worker:
    worker = Worker(app, burst=True, concurrency=concurrency, idle_seconds=0.05)
    watchdog = threading.Timer(120, worker.stop)
    watchdog.daemon = True
    watchdog.start()
    worker.run()
    watchdog.cancel()
    check(app.store, [job.id for job in app.store.find(limit=1000).jobs])
    return worker


def commits_of(app: penstock.App) -> list[int]:
    """How many calls share each commit, from now on."""
    commits: list[int] = []
    engine = app.store.db.engine
    answer_many = engine.answer_many

    def watched(calls: Any) -> Any:
        if calls[0].operation != "Query":  # a poll's
            commits.append(len(calls))
        return answer_many(calls)

    engine.answer_many = watched  # type: ignore[method-assign]
    return commits


@pytest.mark.usefixtures("undisturbed")
def test_short_jobs_share_their_commits(app: penstock.App) -> None:
    @app.task()
    def noop(ctx: penstock.JobContext) -> None: ...

    noop.enqueue_many([{}] * 50)
    commits = commits_of(app)
    assert work(app, 8).counts.completed == 50
    # The first is claimed alone. With its end come eight claims; then seven ends and seven claims at a time, because
    # one always waits while an end is not written (3).
    assert commits == [9, 14, 14, 14, 14, 14, 13, 6, 1]


@pytest.mark.usefixtures("undisturbed")
def test_a_worker_never_holds_more_jobs_than_it_has_threads(app: penstock.App) -> None:
    held = []

    @app.task()
    def look(ctx: penstock.JobContext) -> None:
        held.append(len(app.store.find(state=State.PROCESSING, limit=100).jobs))

    for _ in range(20):
        look.enqueue()
    work(app, 4)
    assert max(held) == 4


def test_beside_a_job_that_takes_long_the_others_are_run_and_ended(app: penstock.App) -> None:
    jobs: list[Job] = []

    @app.task()
    def one(ctx: penstock.JobContext, n: int) -> str:
        others = [job.id for job in jobs if job.id != ctx.id]
        end = time.monotonic() + 100
        while n == 5 and time.monotonic() < end:
            if all(app.get(other).state is State.COMPLETED for other in others):
                return "after all others"
            time.sleep(0.01)
        return "soon"

    jobs += [one.enqueue(n=n) for n in range(12)]
    work(app, 3)
    assert app.result(jobs[5].id) == "after all others"


@pytest.mark.usefixtures("undisturbed")
def test_an_end_that_is_refused_is_ended_alone(app: penstock.App) -> None:
    """Each job cancels the one before it, which has returned; that is not written yet, so it still can be."""
    done: list[str] = []

    @app.task()
    def one(ctx: penstock.JobContext) -> None:
        if len(done) == 3:
            app.cancel(done[-1])
        done.append(ctx.id)

    for _ in range(8):
        one.enqueue()
    counts = work(app, 8).counts
    assert (counts.completed, counts.cancelled) == (7, 1)
    assert app.get(done[2]).state is State.CANCELLED


@pytest.mark.usefixtures("undisturbed")
def test_where_nothing_can_be_written_together_each_is_written_alone(
    app: penstock.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task()
    def noop(ctx: penstock.JobContext) -> None: ...

    for _ in range(10):
        noop.enqueue()
    real = app.store.complete_and_claim
    failures = iter([False, True, True])

    def sometimes(*arguments: Any) -> Any:
        if next(failures, False):
            raise InternalServerError("the disk is full")
        return real(*arguments)

    monkeypatch.setattr(type(app.store), "complete_and_claim", lambda _, *arguments: sometimes(*arguments))
    assert work(app, 4).counts.completed == 10


@pytest.mark.usefixtures("undisturbed")
def test_what_waits_when_a_worker_stops_goes_back_to_the_queue(app: penstock.App) -> None:
    begun, may_end = threading.Event(), threading.Event()
    ran: list[str] = []

    @app.task()
    def one(ctx: penstock.JobContext) -> None:
        ran.append(ctx.id)
        if len(ran) == 2:
            begun.set()
            may_end.wait(60)

    jobs = [one.enqueue() for _ in range(6)]
    worker = Worker(app, concurrency=4)
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert begun.wait(60)
    worker.stop()
    end = time.monotonic() + 60
    while time.monotonic() < end and any(app.get(job.id).lease for job in jobs if job.id not in ran):
        time.sleep(0.01)
    may_end.set()
    thread.join(60)
    states = {job.id: app.get(job.id).state for job in jobs}
    assert [states[job.id] for job in jobs if job.id in ran] == [State.COMPLETED] * 2
    assert [states[job.id] for job in jobs if job.id not in ran] == [State.QUEUED] * 4
    assert (worker.counts.completed, worker.counts.requeued) == (2, 3)
    check(app.store, [job.id for job in jobs], ended=False)


def test_a_suspect_is_in_no_batch_and_has_none_beside_it(app: penstock.App) -> None:
    @app.task()
    def noop(ctx: penstock.JobContext) -> None: ...

    job = noop.enqueue()
    worker = Worker(app, concurrency=8)
    assert app.store.is_plain(job)
    assert not app.store.is_plain(copy_with(job, {"suspect": True}))
    worker._attempts[Attempt(app.store, job)] = None
    assert worker._room() == 8
    worker.fetcher.alone = job.id
    assert worker._room() == 0


def test_the_time_limit_of_a_job_begins_when_it_does(app: penstock.App) -> None:
    @app.task()
    def noop(ctx: penstock.JobContext) -> None: ...

    attempt = Attempt(app.store, noop.enqueue())
    assert attempt.seconds_left is None
    attempt.begin(10.0, None)
    left = attempt.seconds_left
    assert left is not None and 0 < left <= 10


def test_an_end_that_was_left_to_the_last_one_is_written_by_who_takes_that(
    app: penstock.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a thread's write and its next job, another thread may leave an end to whoever takes the last one (12)."""

    @app.task()
    def short() -> None: ...

    short.enqueue_many([{} for _ in range(4)])
    worker = Worker(app, burst=True, concurrency=4)
    batch = worker.fetcher.batch
    claimed = [app.store.claim(job, worker.name, 30.0) for job in app.store.claimable("default", 4).jobs]
    first, second, third, fourth = (Attempt(app.store, job) for job in claimed if job is not None)
    write = worker._write_returned
    rooms: list[int] = []

    def write_and_be_overtaken(room: int) -> None:
        write(room)
        rooms.append(room)
        if len(rooms) == 1:
            batch.add([third, fourth])
            assert batch.add_returned(second, "null") is third, "the other thread goes on with this one"

    monkeypatch.setattr(worker, "_write_returned", write_and_be_overtaken)
    monkeypatch.setattr(worker, "_room", lambda: 0)
    following = worker_module._Next()
    worker._end_returned(first, None, following)
    assert following.attempt is fourth
    assert app.get(second.id).state is State.COMPLETED, "though the other two may take long"
