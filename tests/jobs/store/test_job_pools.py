"""Jobs that cannot start wait in pools of their own: for a slot of their limit, or for a worker that has their task."""

from __future__ import annotations

import pytest
from job_worlds import DAY, FAILURE, LEASE, QUICK, claimable, claimed, counted, made, same_table

from penstock.clock import ManualClock
from penstock.errors import PenstockError
from penstock.jobs.model.job import Job
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore, LimitReached

LOOK = 301.0
"""After so long a blocked limit is looked at, whatever happened."""


def limited(store: JobStore, count: int, **options: int) -> list[Job]:
    return [made(store, concurrency_key="k", max_concurrent=1, **options) for _ in range(count)]


def blocked(store: JobStore, count: int) -> tuple[Job, list[Job]]:
    """A job that holds the one slot, and others that wait for it in the key's pool."""
    first, *rest = limited(store, count + 1)
    holder = claimed(store, first)
    assert store.pools.set_aside_limited(rest)
    return holder, rest


def look(store: JobStore) -> None:
    """What a poll does with limits."""
    for key in store.claimable("default", 10).limits:
        store.pools.unblock(key)


def test_a_job_that_its_limit_refuses_comes_back_when_a_slot_is_free(store: JobStore) -> None:
    holder, rest = blocked(store, 3)
    other = made(store)
    assert claimable(store) == [other.id]
    store.complete(holder)
    for job in rest:
        assert claimable(store) == [other.id, job.id] or claimable(store) == [job.id, other.id]
        store.complete(claimed(store, job))
    assert claimable(store) == [other.id]
    assert store.side_items.slot_holders("k") == []


def test_a_slot_that_is_free_keeps_jobs_out_of_the_pool(store: JobStore) -> None:
    first, second = limited(store, 2)
    holder = claimed(store, first)
    with pytest.raises(LimitReached):
        store.claim(store.get(second.id), "w2", LEASE)
    store.complete(holder)  # before the one who was refused could move it
    assert not store.pools.set_aside_limited([second])
    assert claimable(store) == [second.id]


def test_a_job_that_was_changed_meanwhile_is_not_moved(store: JobStore) -> None:
    first, second = limited(store, 2)
    claimed(store, first)
    store.log(second.id, "hello")
    assert not store.pools.set_aside_limited([second])
    assert claimable(store) == [second.id]


def test_another_worker_brings_jobs_back_when_the_one_that_released_the_slot_dies(
    store: JobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(key: str) -> None:
        raise PenstockError("its worker is dead")

    holder, rest = blocked(store, 1)
    dying = same_table(store)
    monkeypatch.setattr(dying.pools, "unblock", die)
    dying.complete(holder)
    assert claimable(store) == []
    assert store.claimable("default", 10).limits == ("k",)
    look(same_table(store))
    assert claimable(store) == [rest[0].id]


@pytest.mark.parametrize("end", ["requeue", "retry", "taken over and cancelled"])
def test_every_way_to_release_a_slot_brings_a_job_back(store: JobStore, clock: ManualClock, end: str) -> None:
    holder, rest = blocked(store, 1)
    if end == "requeue":
        store.requeue(holder, "it stops")
    elif end == "retry":
        store.fail(holder, FAILURE, retry_at=clock.now() + DAY)
    else:
        store.cancel(holder.id)
        clock.advance(LEASE + 10)
        assert store.claim(store.get(holder.id), "w2", LEASE) is None
    assert rest[0].id in claimable(store)


def test_the_slot_of_a_holder_that_was_deleted_is_free_for_those_in_the_pool(
    store: JobStore, clock: ManualClock
) -> None:
    holder, rest = blocked(store, 1)
    store.db.execute("DeleteItem", {"TableName": store.layout.table, "Key": store.layout.main_key(holder.id)})
    look(store)
    assert claimable(store) == []
    clock.advance(LOOK)
    look(store)
    assert claimable(store) == [rest[0].id]


def test_a_job_in_the_pool_can_be_cancelled_and_the_next_one_comes(store: JobStore) -> None:
    holder, rest = blocked(store, 2)
    store.cancel(rest[0].id)
    store.complete(holder)
    assert claimable(store) == [rest[1].id]
    assert store.get(rest[0].id).state is State.CANCELLED


def test_the_most_urgent_job_of_a_pool_comes_back_first(store: JobStore) -> None:
    holder, rest = blocked(store, 2)
    urgent = limited(store, 1, priority=9)
    assert store.pools.set_aside_limited(urgent)
    store.complete(holder)
    assert claimable(store) == [urgent[0].id]
    assert {job.pool for job in store.get_many([job.id for job in rest])} == {"limit"}


@pytest.mark.parametrize("db", QUICK, indirect=True)
@pytest.mark.parametrize("paused", [False, True])
def test_jobs_in_pools_are_looked_after(store: JobStore, clock: ManualClock, paused: bool) -> None:
    holder, rest = blocked(store, 2)
    other = made(store, task="elsewhere")
    assert store.pools.set_aside_unknown([other])
    for _ in range(40):
        clock.advance(3 * DAY)
        holder = store.renew(holder)
        store.look_after("default")
        if not paused:
            look(store)
    assert [job.state for job in store.get_many([job.id for job in (*rest, other)])] == [State.QUEUED] * 3


def test_workers_that_have_a_task_read_its_pool(store: JobStore) -> None:
    jobs = [made(store, task="elsewhere", priority=priority) for priority in (1, 9, 5)]
    ours = made(store, priority=7)
    assert store.pools.set_aside_unknown(jobs)
    assert claimable(store) == [ours.id]
    assert store.queue("default").tasks == {"elsewhere"}
    found = store.claimable("default", 10, tasks=["elsewhere"])
    assert [job.id for job in found.jobs] == [jobs[1].id, ours.id, jobs[2].id, jobs[0].id]
    got = claimed(store, jobs[0])
    assert (got.state, got.pool) == (State.PROCESSING, "")


def test_a_pool_that_is_empty_is_forgotten_after_a_while(store: JobStore, clock: ManualClock) -> None:
    job = made(store, task="elsewhere")
    assert store.pools.set_aside_unknown([job])
    store.cancel(job.id)
    assert store.claimable("default", 10, tasks=["elsewhere"]).empty_tasks == ("elsewhere",)
    store.pools.forget_task(store.queue("default"), "elsewhere")
    assert store.queue("default").tasks == {"elsewhere"}  # another job may just be moving there
    clock.advance(130)
    seen = store.queue("default")
    late = made(store, task="elsewhere")
    assert store.pools.set_aside_unknown([late])
    store.pools.forget_task(seen, "elsewhere")
    assert store.queue("default").tasks == {"elsewhere"}
    store.cancel(late.id)
    clock.advance(130)
    store.pools.forget_task(store.queue("default"), "elsewhere")
    assert store.queue("default").tasks == frozenset()


def test_a_job_does_not_move_to_a_pool_that_nobody_reads(store: JobStore, clock: ManualClock) -> None:
    """The name of the task is removed between the moment at which it is written and the move."""
    first, second = (made(store, task="elsewhere") for _ in range(2))
    assert store.pools.set_aside_unknown([first])
    store.side_items.remove_task(store.queue("default"), "elsewhere")
    assert not store.pools.set_aside_unknown([second])
    assert claimable(store) == [second.id]
    assert store.pools.set_aside_unknown([second])
    assert store.queue("default").tasks == {"elsewhere"}


def test_a_pause_leaves_the_pools_of_tasks_alone(store: JobStore) -> None:
    assert store.pools.set_aside_unknown([made(store, task="elsewhere")])
    store.pause("default", "lunch")
    assert store.queue("default").tasks == {"elsewhere"}
    store.resume("default")
    assert (store.queue("default").tasks, store.queue("default").paused) == ({"elsewhere"}, False)


@pytest.mark.parametrize("db", QUICK, indirect=True)
def test_what_a_poll_reads_does_not_grow_with_jobs_that_cannot_start(store: JobStore) -> None:
    made(store, priority=0)
    claimed(store, limited(store, 1)[0])
    read = []
    for count in (20, 90):
        assert store.pools.set_aside_limited(limited(store, count))
        assert store.pools.set_aside_unknown([made(store, task="elsewhere") for _ in range(count)])
        counting_store, counting = counted(store)
        assert len(counting_store.claimable("default", 16, evenly=True).jobs) == 1
        read.append((counting.scanned, len(counting.calls)))
    assert read[0] == read[1]
