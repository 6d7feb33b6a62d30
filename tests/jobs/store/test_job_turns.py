"""Tenants are served in turn: the order of ready jobs is priority, then the tenants' turns, then age."""

from __future__ import annotations

import itertools
import random

import pytest
from job_worlds import LEASE, QUICK, claimed, counted, made, same_table

from penstock.clock import ManualClock
from penstock.jobs.model.job import NewJob
from penstock.jobs.store.store import JobStore

pytestmark = pytest.mark.parametrize("db", QUICK, indirect=True)


def flood(store: JobStore, tenant: str, count: int) -> None:
    store.create_all([NewJob("report", {}, tenant=tenant) for _ in range(count)])


def served(store: JobStore, count: int) -> list[str]:
    """Claims and completes the first ones; their tenants."""
    tenants = []
    for _ in range(count):
        job = store.claimable("default", 1).jobs[0]
        store.complete(claimed(store, job))
        tenants.append(job.tenant)
    return tenants


def test_a_newcomers_job_is_next_whatever_another_tenant_has_enqueued(store: JobStore, clock: ManualClock) -> None:
    flood(store, "loud", 150)
    clock.advance(60)
    assert served(store, 20) == ["loud"] * 20
    made(store, tenant="quiet")
    assert "quiet" in served(store, 2)


def test_a_newcomers_job_is_next_also_right_after_the_others_were_enqueued(store: JobStore, clock: ManualClock) -> None:
    for _ in range(3):
        flood(store, "loud", 100)
        clock.advance(0.2)
    made(store, tenant="quiet")
    assert "quiet" in served(store, 2)


def test_tenants_with_much_to_do_take_turns(store: JobStore) -> None:
    for tenant in ("a", "b", "c"):
        flood(store, tenant, 60)
    order = served(store, 60)
    for start in range(0, 60, 3):
        assert sorted(order[start : start + 3]) == ["a", "b", "c"]


def test_a_tenants_own_jobs_are_in_the_order_of_their_age(store: JobStore, clock: ManualClock) -> None:
    jobs = []
    for _ in range(30):
        jobs.append(made(store, tenant="a").id)
        made(store, tenant="b")
        clock.advance(random.Random(1).random() / 10)
    found = [job.id for job in store.claimable("default", 100).jobs if job.tenant == "a"]
    assert found == jobs


def test_a_priority_goes_before_every_turn(store: JobStore) -> None:
    flood(store, "a", 5)
    urgent = [made(store, tenant="a", priority=9).id for _ in range(3)]
    made(store, tenant="b")
    assert [job.id for job in store.claimable("default", 100).jobs][:3] == urgent


def test_jobs_without_a_tenant_have_their_turn_beside_those_that_have_one(store: JobStore, clock: ManualClock) -> None:
    flood(store, "loud", 100)
    clock.advance(60)
    made(store)
    assert "" in served(store, 2)
    flood(store, "", 100)
    clock.advance(60)
    made(store, tenant="quiet")
    assert "quiet" in served(store, 3)


def test_turns_of_several_processes_stay_fair(store: JobStore, clock: ManualClock) -> None:
    """Each remembers for a second who is first in line: nobody gets ahead by more than was served in that time."""
    processes = [same_table(store) for _ in range(3)]
    for process, tenant in itertools.product(processes, ("a", "b")):
        flood(process, tenant, 40)
    ahead = most = 0
    for tenant in served(store, 200):
        ahead += 1 if tenant == "a" else -1
        most = max(most, abs(ahead))
    assert most <= 4
    flood(processes[0], "a", 100)
    clock.advance(5)
    made(processes[1], tenant="late")
    assert "late" in served(store, 3)


def test_a_job_that_is_requeued_or_was_delayed_has_no_turn(store: JobStore, clock: ManualClock) -> None:
    job = made(store, tenant="a")
    assert job.turn is not None
    back = store.requeue(claimed(store, job), "it stops")
    assert back.turn is None
    assert made(store, tenant="a", run_at=clock.now() + 5).turn is None
    assert store.claim(store.get(job.id), "w2", LEASE) is not None


def test_nothing_more_is_written_where_nobody_has_a_tenant(store: JobStore, clock: ManualClock) -> None:
    counting_store, counting = counted(store)
    for _ in range(10):
        assert made(counting_store).turn is None
    assert counting.operations == ["PutItem"] * 10
    for _ in range(30):
        clock.advance(1)
        made(counting_store)
    assert counting.operations.count("GetItem") == 1  # whether there are tenants is read once a minute
    flood(store, "loud", 20)
    clock.advance(60)
    assert made(counting_store).turn is not None


def test_a_tenant_that_enqueues_quickly_reserves_many_turns_at_a_time(store: JobStore) -> None:
    counting_store, counting = counted(store)
    flood(counting_store, "a", 200)
    assert counting.operations.count("UpdateItem") <= 12


def test_reading_candidates_costs_the_same_however_many_tenants_there_are(store: JobStore) -> None:
    counts = []
    for number in range(40):
        made(store, tenant=f"t{number}")
        if number in (1, 39):
            counting_store, counting = counted(store)
            counting_store.look_after("default")
            counting.calls.clear()
            counting_store.claimable("default", 1)
            counts.append(counting.operations)
    assert counts[0] == counts[1]
