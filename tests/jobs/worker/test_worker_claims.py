"""What a worker takes next under a backlog: priorities, pauses, cancellations, limits, and other workers' tasks."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from job_worlds import Counting
from worker_worlds import work

import penstock
from penstock.client.database import Database
from penstock.jobs.model.job import NewJob
from penstock.jobs.model.state import State
from penstock.jobs.store.queries import Claimable
from penstock.jobs.worker.worker import Worker

OLD_SECONDS = 0.15
"""After so long, candidates that were read ahead are too old."""


def test_an_urgent_job_starts_next_whatever_the_backlog(app: penstock.App) -> None:
    begun: list[str] = []

    @app.task()
    def note(ctx: penstock.JobContext, name: str) -> None:
        if not begun:
            note.options(priority=9).enqueue(name="urgent")
            time.sleep(OLD_SECONDS)
        begun.append(name)

    note.options(priority=1).enqueue_many([{"name": f"low {n}"} for n in range(60)])
    work(app, concurrency=1)
    assert begun[:3] == ["low 0", "urgent", "low 1"]
    assert len(begun) == 61


def test_a_delayed_urgent_job_does_not_wait_for_all_that_were_due_before_it(app: penstock.App) -> None:
    begun: list[str] = []

    @app.task()
    def note(name: str) -> None:
        begun.append(name)

    due = time.time() + 0.5
    note.options(priority=1, run_at=datetime.fromtimestamp(due, UTC)).enqueue_many([{"name": "low"}] * 900)
    note.options(priority=9, run_at=datetime.fromtimestamp(due + 0.1, UTC)).enqueue(name="urgent")
    time.sleep(max(0.0, due + 0.2 - time.time()))
    work(app, concurrency=1)
    assert len(begun) == 901
    assert begun.index("urgent") <= 2 * 96, "the first poll finds that there are many, and the second looks further"


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_pause_holds_for_jobs_that_were_read_ahead(app: penstock.App, concurrency: int) -> None:
    begun: list[str] = []
    paused = threading.Event()

    @app.task()
    def note(ctx: penstock.JobContext) -> None:
        begun.append(ctx.id)
        if len(begun) == 1:
            app.store.pause("default")
            paused.set()
        assert paused.wait(30)
        time.sleep(OLD_SECONDS)

    note.enqueue_many([{} for _ in range(60)])
    work(app, concurrency=concurrency)
    assert len(begun) <= concurrency
    app.store.resume("default")
    assert app.store.find(state=State.PROCESSING).jobs == ()
    assert len(app.store.find(state=State.QUEUED, limit=100).jobs) == 60 - len(begun)


def test_a_job_that_is_cancelled_while_it_is_a_candidate_does_not_run(app: penstock.App) -> None:
    begun: list[str] = []

    @app.task()
    def note(ctx: penstock.JobContext) -> None:
        begun.append(ctx.id)
        if len(begun) == 1:
            for job in jobs[1:]:
                app.cancel(job.id)

    jobs = note.enqueue_many([{} for _ in range(20)])
    work(app, concurrency=1)
    assert begun == [jobs[0].id]


class Reads:
    """How many items the polls of a worker look at."""

    def __init__(self, app: penstock.App) -> None:
        self.counting = Counting(app.store.db.transport)
        self.app = penstock.App(Database(self.counting), layout=app.store.layout)
        self.app.tasks.update(app.tasks)

    def until(self, count: int) -> int:
        """Works until so many jobs have ended; what was looked at meanwhile."""
        before = self.counting.scanned
        ended = itertools.count(1)
        worker = Worker(
            self.app, concurrency=1, on_end=lambda job, how: worker.stop() if next(ended) == count else None
        )
        watchdog = threading.Timer(60, worker.stop)
        watchdog.start()
        done = worker.run().completed
        watchdog.cancel()
        assert done == count
        return self.counting.scanned - before


@pytest.mark.parametrize("blocked_by", ["its limit", "its task"])
def test_a_backlog_of_jobs_that_cannot_start_keeps_no_other_from_starting(app: penstock.App, blocked_by: str) -> None:
    @app.task()
    def note(ctx: penstock.JobContext) -> None: ...

    is_limited = blocked_by == "its limit"
    options = {"concurrency_key": "k", "max_concurrent": 1} if is_limited else {}
    task = "note" if is_limited else "elsewhere"
    if is_limited:
        holder, _ = app.store.create(NewJob("note", {}, concurrency_key="k"))
        assert app.store.claim(holder, "another worker", 600.0) is not None
    looked_at = []
    for count in (200, 800):
        app.store.create_all([NewJob(task, {}, priority=9, **options) for _ in range(count)])  # type: ignore[arg-type]
        note.options(priority=1).enqueue()
        reads = Reads(app)
        reads.until(1)  # they are moved out of its way
        note.options(priority=1).enqueue()
        looked_at.append(reads.until(1))
    # Of jobs for another task, so few are left in each shard that they fit into one read of 96.
    assert max(looked_at) <= 2 * 96 + 16, "they are not read again, however many they are"
    assert len(app.store.find(state=State.QUEUED, limit=1_000).jobs) == 1_000


def test_a_poll_that_has_moved_a_hundred_jobs_out_of_the_way_reads_no_more(
    app: penstock.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands that it read then could not start either when it was done, and were read again."""

    @app.task()
    def note(ctx: penstock.JobContext) -> None: ...

    holder, *_ = app.store.create_all([NewJob("note", {}, priority=9, concurrency_key="k") for _ in range(400)])
    assert app.store.claim(holder[0], "another worker", 600.0) is not None
    note.options(priority=1).enqueue()
    limits: list[int] = []
    claimable = app.store.claimable

    def noted(queue: str, limit: int, **options: Any) -> Claimable:
        limits.append(limit)
        return claimable(queue, limit, **options)

    monkeypatch.setattr(app.store, "claimable", noted)
    assert Worker(app, burst=True, concurrency=1).run().completed == 1  # and does not wait for the other's lease
    assert max(limits) <= 96


def test_jobs_that_were_moved_to_the_pool_of_their_task_are_run_by_workers_that_have_it(app: penstock.App) -> None:
    begun: list[int] = []

    @app.task()
    def note(ctx: penstock.JobContext) -> None: ...

    other = penstock.App(app.store.db, layout=app.store.layout)

    @other.task()
    def elsewhere(ctx: penstock.JobContext, number: int) -> None:
        begun.append(number)

    for number in range(120):  # more than one poll reads
        elsewhere.options(priority=number % 10).enqueue(number=number)
    note.options(priority=0).enqueue()
    assert work(app, concurrency=1).completed == 1
    assert app.store.queue("default").tasks == {"elsewhere"}
    assert work(other, concurrency=1).completed == 120
    assert [number % 10 for number in begun] == sorted((number % 10 for number in begun), reverse=True)


def test_all_jobs_of_a_full_key_run_in_the_end_one_at_a_time(app: penstock.App) -> None:
    running, most = [], []

    @app.task()
    def limited(ctx: penstock.JobContext) -> None:
        running.append(ctx.id)
        most.append(len(running))
        running.remove(ctx.id)

    for _ in range(40):
        limited.options(concurrency_key="k", max_concurrent=1).enqueue()
    assert work(app, concurrency=4).completed == 40
    assert max(most) == 1
    assert app.store.side_items.limit("k").blocked == ""


def test_a_worker_whose_jobs_are_all_blocked_costs_no_more_than_an_idle_one(app: penstock.App) -> None:
    @app.task()
    def limited(ctx: penstock.JobContext) -> None: ...

    holder, *rest = limited.options(concurrency_key="k", max_concurrent=1).enqueue_many([{} for _ in range(50)])
    assert app.store.claim(holder, "another worker", 600.0) is not None
    worker = Worker(app, concurrency=2, idle_seconds=0.05)
    thread = threading.Thread(target=worker.run)
    thread.start()
    ids = [job.id for job in rest]
    until(lambda: all(job.pool for job in app.store.get_many(ids)))
    polls = worker.fetcher.polls
    until(lambda: worker.fetcher.polls > polls + 2)  # the poll that has moved them has ended
    polls, units = worker.fetcher.polls, worker.fetcher.read_units
    until(lambda: worker.fetcher.polls >= polls + 10)
    worker.stop()
    thread.join(60)
    assert worker.fetcher.read_units - units == (worker.fetcher.polls - polls) * 5
    assert worker.counts.total == 0


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
