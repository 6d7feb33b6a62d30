"""Several workers at one queue: how many claims they lose to each other, and in which order they start jobs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from job_worlds import START, made, new_store

from penstock.client.database import connect
from penstock.clock import ManualClock
from penstock.jobs.layouts.layout import shard_of
from penstock.jobs.model.job import Job, NewJob
from penstock.jobs.store.store import JobStore
from penstock.jobs.worker.fetcher import Fetcher

TOGETHER = 8
STEP_SECONDS = 0.01


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[JobStore]:
    """Candidates do not become old here, and time passes by the clock: a busy machine loses no more claims."""
    clock = ManualClock(START)
    monkeypatch.setattr("penstock.jobs.worker.fetcher._FRESH_SECONDS", 1_000.0)
    monkeypatch.setattr("penstock.jobs.worker.fetcher.time", SimpleNamespace(monotonic=clock.now))
    random.seed(16)
    with connect(":memory:") as db:
        yield new_store(db, clock, shards=4)


@dataclass
class Stepped:
    """A worker's claims without its threads: one batch of candidates at a step."""

    store: JobStore
    name: str
    place: tuple[int, int] = (0, 1)

    def __post_init__(self) -> None:
        self.fetcher = Fetcher(self.store, ("default",), verdict=lambda _: "take", place=lambda: self.place, burst=True)
        self.claimed: list[Job] = []
        self.refused = 0

    def step(self) -> bool:
        """False when there is no more."""
        first = self.fetcher.fetch()
        if not isinstance(first, Job):
            return False
        candidates = [first, *self.fetcher.pop_plain(TOGETHER - 1)]
        _, claimed = self.store.complete_and_claim([], [(job, 3_600) for job in candidates], self.name)
        for job in candidates:
            self.fetcher.end_claim(job.id)
        self.claimed += [job for job in claimed if job is not None]
        if None in claimed:
            self.refused += claimed.count(None)
            self.fetcher.note_refused(claimed.count(None))
        self.fetcher.release_thread()
        return True


def work(store: JobStore, count: int) -> list[Stepped]:
    workers = [Stepped(store, f"w{number}", (number, count)) for number in range(count)]
    busy = list(workers)
    while busy:
        busy = [worker for worker in busy if worker.step()]
        store.clock.advance(STEP_SECONDS)  # type: ignore[attr-defined]
    return workers


@pytest.mark.parametrize(("count", "most"), [(1, 0.0), (2, 0.2), (4, 0.2), (8, 0.2), (16, 0.2)])
@pytest.mark.parametrize("delay_seconds", [0.0, 5.0])
def test_workers_lose_few_claims_to_each_other(store: JobStore, count: int, most: float, delay_seconds: float) -> None:
    """By number 16 of fetcher.py. When all of them read the same jobs, two lost 46 % here and four 68 %."""
    jobs = 1_000
    store.create_all([NewJob("task", {}, id=f"j{n}", run_at=START + delay_seconds) for n in range(jobs)])
    store.clock.advance(10)  # type: ignore[attr-defined]
    workers = work(store, count)
    assert sum(len(worker.claimed) for worker in workers) == jobs
    refused = sum(worker.refused for worker in workers)
    assert refused <= most * (jobs + refused)


def test_all_workers_begin_urgent_jobs_first(store: JobStore) -> None:
    for priority in (1, 5, 9):
        store.create_all([NewJob("task", {}, priority=priority) for _ in range(150)])
    for worker in work(store, 3):
        assert len(worker.claimed) > 50
        order = [job.priority for job in worker.claimed]
        assert order == sorted(order, reverse=True)


def test_a_shard_is_left_for_another_that_has_something_more_urgent(store: JobStore) -> None:
    names = [f"j{number}" for number in range(200)]
    mine = [name for name in names if shard_of(name, 4) == 2][:20]
    other = [name for name in names if shard_of(name, 4) == 1][:3]
    for name in mine:
        made(store, id=name, priority=1)
    assert [job.id for job in store.claimable("default", 8, evenly=True, shard=2).jobs] == sorted(mine)[:8]
    for name in other:
        made(store, id=name, priority=7)
    found = store.claimable("default", 8, evenly=True, shard=2)
    assert {job.id for job in found.jobs} == set(other)
    assert found.more


def test_a_worker_whose_shard_is_empty_reads_another(store: JobStore) -> None:
    job = made(store, id="j1")
    for shard in range(4):
        assert [one.id for one in store.claimable("default", 8, evenly=True, shard=shard).jobs] == [job.id]


def test_every_shard_has_its_turn(store: JobStore) -> None:
    """One that no other worker reads is not left behind."""
    store.create_all([NewJob("task", {}) for _ in range(600)])
    worker = Stepped(store, "w1")
    worker.fetcher.note_refused(2)
    for _ in range(4):
        worker.step()
        store.clock.advance(0.5)  # type: ignore[attr-defined]
    assert {shard_of(job.id, 4) for job in worker.claimed} == {0, 1, 2, 3}


def test_a_worker_that_finds_nothing_reads_all_shards_again(store: JobStore) -> None:
    worker = Stepped(store, "w1")
    worker.fetcher.note_refused(2)
    assert worker.fetcher._current_part() is not None
    assert not worker.step()
    assert worker.fetcher._current_part() is None


def test_a_burst_does_not_end_while_another_shard_has_a_job(store: JobStore) -> None:
    """The worker's own shard has only a job that it cannot run."""
    ids = {shard_of(f"j{number}", 4): f"j{number}" for number in range(40)}
    made(store, id=ids[0], task="elsewhere")
    made(store, id=ids[1])
    fetcher = Fetcher(store, ("default",), verdict=lambda job: "take" if job.task == "report" else "leave", burst=True)
    fetcher._offset = -int(store.clock.now() / 0.5) % 4
    assert fetcher._current_part() == 0
    taken = fetcher.fetch()
    assert isinstance(taken, Job) and taken.id == ids[1]
