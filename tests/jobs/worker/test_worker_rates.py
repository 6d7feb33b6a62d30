"""Rate limits as workers keep them: by a real worker, and by what it reads."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from worker_worlds import work

import penstock
from penstock.clock import ManualClock
from penstock.jobs.explain import explain, gather
from penstock.jobs.model.job import RATE_POOL, Job
from penstock.jobs.model.state import State
from penstock.jobs.worker.fetcher import Fetcher
from penstock.jobs.worker.worker import Worker


def test_a_worker_starts_no_job_before_its_slot(app: penstock.App) -> None:
    @app.task(rate="100/s", rate_key="{host}", retries=0)
    def fetch(host: str) -> None: ...

    jobs = fetch.enqueue_many([{"host": "a"} for _ in range(40)])
    other = fetch.enqueue(host="b")
    assert work(app).completed == 41
    starts = sorted(app.get(job.id).started_at or 0.0 for job in jobs)
    for number, start in enumerate(starts):
        assert start >= jobs[0].created_at + number * 0.01 - 0.001  # times are kept to the millisecond
    assert (app.get(other.id).started_at or 0.0) < starts[-1]
    assert {app.get(job.id).attempt for job in jobs} == {1}


def test_several_workers_share_one_rate(tmp_path: Path) -> None:
    with penstock.App(tmp_path / "jobs.db") as app:

        @app.task(rate="100/s")
        def fetch() -> None: ...

        jobs = fetch.enqueue_many([{} for _ in range(40)])
        workers = [Worker(app, until_empty=True, concurrency=2, idle_seconds=0.05) for _ in range(3)]
        threads = [threading.Thread(target=worker.run) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        starts = sorted(app.get(job.id).started_at or 0.0 for job in jobs)
        assert all(start >= jobs[0].created_at + number * 0.01 - 0.001 for number, start in enumerate(starts))


def polled(app: penstock.App) -> Fetcher:
    worker = Worker(app, burst=True)
    worker._functions = {name: task.function for name, task in app.tasks.items()}
    return worker.fetcher


@pytest.mark.parametrize("count", [300, 900])
def test_very_many_jobs_of_one_key_do_not_hide_a_job_of_another(count: int) -> None:
    """A key's jobs take turns with those of others, and are moved out of their way once."""
    clock = ManualClock(1_900_000_000.0)
    with penstock.App(":memory:", clock=clock) as app:

        @app.task(rate="1/h", rate_key="{host}")
        def fetch(host: str) -> None: ...

        fetch.enqueue_many([{"host": "a"} for _ in range(count)])
        clock.advance(1.0)
        other = fetch.enqueue(host="b")
        fetcher = polled(app)
        found: set[str] = set()
        while other.id not in found:
            found |= {job.id for job in fetcher._poll_queues().jobs}
            assert fetcher.polls <= 2
        assert len(found) == 2, "the first of the one key, and the other"
        while len(app.store.claimable("default", 10).jobs) > len(found):
            fetcher._poll_queues()
        read, polls = fetcher._jobs_read, fetcher.polls
        assert read <= count + 4 * fetcher.polls, "each is read once"
        fetch.enqueue(host="c")
        while app.store.rates.state("c").version == 0:
            fetcher._poll_queues()
        assert fetcher._jobs_read - read <= 8 * (fetcher.polls - polls), "those that wait are not read again"


def test_why_says_that_a_job_waits_for_its_rate_and_for_how_long(app: penstock.App) -> None:
    clock = ManualClock(1_900_000_000.0)
    app.use(app.store.db, clock=clock)

    @app.task(rate="1/s", rate_key="{host}")
    def fetch(host: str) -> None: ...

    jobs = fetch.enqueue_many([{"host": "a"} for _ in range(10)])
    admitted = app.store.rates.admit(jobs)
    assert admitted is not None

    def why(job: Job) -> str:
        found = app.get(job.id)
        return explain(found, gather(app.store, found)).partition(" ")[2]

    assert why(jobs[1]) == "waits for its rate, 1/s for 'a': its slot is in 1.0 s."
    last = app.get(jobs[9].id)
    assert (last.state, last.pool) == (State.QUEUED, RATE_POOL)
    assert why(last) == "waits because no worker is running now: start one with `penstock worker MODULE:APP`."
    Worker(app)._heartbeat.sign_on()
    assert why(last) == (
        "waits for its rate, 1/s for 'a': 6 that wait for the same come first, and it starts in about 9.0 s."
    )
