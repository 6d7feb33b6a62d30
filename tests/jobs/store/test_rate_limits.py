"""Slots of rate keys: who has one, who waits in the key's pool, and what that costs (rates.py)."""

from __future__ import annotations

import pytest
from job_worlds import DAY, FAILURE, LEASE, QUICK, claimable, claimed, counted, made, same_table

from penstock.clock import ManualClock
from penstock.jobs.model.job import RATE_POOL, Job
from penstock.jobs.model.rate import has_slot
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore


def rated(store: JobStore, count: int, key: str = "k", rate: str = "1/s", **options: int) -> list[Job]:
    return [made(store, rate_key=key, rate=rate, **options) for _ in range(count)]


def admitted(store: JobStore, jobs: list[Job]) -> list[str]:
    """Those that may start now."""
    found = store.rates.admit([store.get(job.id) for job in jobs])
    assert found is not None
    return [job.id for job in found.jobs]


def look(store: JobStore) -> list[Job]:
    """What a poll does: the jobs that may start now."""
    for key in store.claimable("default", 100).rates:
        store.rates.release(key)
    return [job for job in store.claimable("default", 100).jobs if job.state is State.QUEUED]


def started(store: JobStore) -> list[str]:
    """Claims what may start now."""
    return [job.id for job in look(store) if store.claim(job, "w1", LEASE) is not None]


def test_a_job_without_a_slot_cannot_be_claimed(store: JobStore) -> None:
    (job,) = rated(store, 1)
    assert store.claim(job, "w1", LEASE) is None
    assert not store.is_plain(job)
    assert admitted(store, [job]) == [job.id]
    assert store.is_plain(store.get(job.id))
    assert claimed(store, job).rate_at is None


def test_jobs_start_one_after_the_other_in_the_order_in_which_they_came(store: JobStore, clock: ManualClock) -> None:
    jobs = rated(store, 9)
    other = made(store)
    ids = [job.id for job in jobs]
    assert admitted(store, jobs) == ids[:1]
    assert set(started(store)) == {ids[0], other.id}
    for number in range(1, 9):
        assert started(store) == []
        clock.advance(1.0)
        assert started(store) == [ids[number]]
    clock.advance(10.0)
    assert started(store) == []
    assert store.rates.state("k").blocked_at is None or store.db.capabilities.metered


def test_a_job_that_comes_while_others_wait_does_not_overtake_them(store: JobStore, clock: ManualClock) -> None:
    jobs = rated(store, 9)
    admitted(store, jobs)
    (late,) = rated(store, 1)
    (urgent,) = rated(store, 1, priority=9)
    assert admitted(store, [late, urgent]) == []
    assert {job.pool for job in store.get_many([late.id, urgent.id])} == {RATE_POOL}
    order = []
    for _ in range(12):
        order += started(store)
        clock.advance(1.0)
    # Slots are given two seconds ahead: who has one already is not overtaken either.
    assert order == [*(job.id for job in jobs[:3]), urgent.id, *(job.id for job in jobs[3:]), late.id]


def test_a_slot_is_given_once_whoever_gives_it(store: JobStore, clock: ManualClock) -> None:
    jobs = rated(store, 4)
    other = same_table(store)
    read = [store.get(job.id) for job in jobs]
    assert admitted(other, jobs[:2]) == [jobs[0].id]
    assert store.rates.admit(read) is None, "another worker has written two of them"
    assert admitted(store, jobs[2:]) == []
    slots = [job.rate_at for job in store.get_many([job.id for job in jobs])]
    assert slots[:3] == [clock.now(), clock.now() + 1, clock.now() + 2]
    assert slots[3] is None


def test_a_retry_needs_another_slot_and_no_retry_is_used_up_by_waiting(store: JobStore, clock: ManualClock) -> None:
    (job,) = rated(store, 1)
    admitted(store, [job])
    store.fail(claimed(store, job), FAILURE, retry_at=clock.now())
    again = store.get(job.id)
    assert (again.failures, again.rate_at) == (1, None)
    assert store.claim(again, "w1", LEASE) is None
    assert admitted(store, [again]) == []
    clock.advance(1.0)
    assert started(store) == [job.id]
    assert store.get(job.id).failures == 1


def test_slots_that_nobody_could_use_do_not_add_up(store: JobStore, clock: ManualClock) -> None:
    jobs = rated(store, 6)
    admitted(store, jobs)
    clock.advance(3_600)  # no worker was there
    begun: list[str] = []
    for _ in range(12):
        without = [job for job in look(store) if not has_slot(job.rate_key, job.rate_at, clock.now())]
        if without:
            admitted(store, without)
        now = started(store)
        assert len(now) <= 1
        begun += now
        clock.advance(1.0)
    assert sorted(begun) == sorted(job.id for job in jobs)


def test_a_cancelled_job_of_the_pool_takes_no_slot(store: JobStore, clock: ManualClock) -> None:
    jobs = rated(store, 6)
    admitted(store, jobs)
    for job in jobs[3:5]:
        store.cancel(job.id)
    order = started(store)
    for _ in range(3):
        clock.advance(1.0)
        order += started(store)
    assert order == [job.id for job in (*jobs[:3], jobs[5])]


def test_a_changed_rate_holds_for_those_that_wait(store: JobStore, clock: ManualClock) -> None:
    jobs = rated(store, 30, rate="1/m")
    admitted(store, jobs)
    assert started(store) == [jobs[0].id]
    store.rates.task_rates = {"report": "10/s"}  # what the worker's code says now
    clock.advance(60)
    count = 0
    for _ in range(30):
        clock.advance(0.1)
        count += len(started(store))
    assert count >= 28


def test_workers_whose_clocks_differ_share_one_rate(store: JobStore, clock: ManualClock) -> None:
    ahead = ManualClock(clock.now() + 1.5)
    other = same_table(store, clock=ahead)
    rated(store, 40)
    starts = 0
    for _ in range(10):
        for one in (store, other):
            for job in [job for job in look(one) if job.rate_at is None]:
                one.rates.admit([job])
            starts += len(started(one))
        clock.advance(1.0)
        ahead.advance(1.0)
    assert 9 <= starts <= 13


@pytest.mark.parametrize("db", QUICK, indirect=True)
def test_jobs_of_a_rate_key_are_kept_while_they_wait(store: JobStore, clock: ManualClock) -> None:
    jobs = rated(store, 6, rate="1/360d")
    admitted(store, jobs)
    for _ in range(40):
        clock.advance(3 * DAY)
        store.look_after("default")
        look(store)
    assert {job.state for job in store.get_many([job.id for job in jobs])} == {State.QUEUED}


@pytest.mark.parametrize("db", QUICK, indirect=True)
def test_what_a_poll_reads_does_not_grow_with_jobs_that_wait_for_their_rate(store: JobStore) -> None:
    made(store, priority=0)
    read = []
    for count in (20, 90, 90):
        admitted(store, rated(store, count, rate="1/h"))
        started(store)
        counting_store, counting = counted(store)
        assert len(counting_store.claimable("default", 16, evenly=True).jobs) <= 1
        read.append((counting.scanned, len(counting.calls)))
    assert read[1] == read[2]


@pytest.mark.parametrize("db", ["memory"], indirect=True)
def test_a_release_reads_about_as_many_jobs_as_there_are_slots(store: JobStore, clock: ManualClock) -> None:
    admitted(store, rated(store, 90, rate="1/m"))
    clock.advance(60)
    counting_store, counting = counted(store)
    counting_store.rates.release("k")
    assert counting.scanned <= 3, "one to be given the slot, the next, and whether one is about to expire"
    assert claimable(store) != []
