"""`jobs why`: what keeps a job from running, as it is."""

from __future__ import annotations

import pytest
from job_worlds import QUICK, claimed, made

from penstock.clock import ManualClock
from penstock.jobs.explain import explain, gather
from penstock.jobs.model.job import Job
from penstock.jobs.model.transitions import ChangedJob, copy_with
from penstock.jobs.store.store import JobStore
from penstock.jobs.worker.registry import WorkerInfo, WorkerRegistry

pytestmark = pytest.mark.parametrize("db", QUICK, indirect=True)


@pytest.fixture(autouse=True)
def worker(store: JobStore) -> None:
    """One with free places that has one task."""
    now = store.clock.now()
    WorkerRegistry(store.db, store.layout).beat(WorkerInfo("w1", now, now, ("default",), ("report",), 8, 0, 0, 0.0))


def why(store: JobStore, job: Job) -> str:
    found = store.get(job.id)
    return explain(found, gather(store, found)).removeprefix(f"{job.id} ")


def test_a_job_that_waits_for_a_slot_says_who_holds_it_and_how_many_come_first(store: JobStore) -> None:
    holder, *rest = [made(store, concurrency_key="k", max_concurrent=1) for _ in range(4)]
    claimed(store, holder)
    reason = f"waits because 1 with the concurrency key 'k' is running already: {holder.id}"
    assert why(store, rest[0]) == f"{reason}."
    assert store.pools.set_aside_limited(rest)
    assert why(store, rest[0]) == f"{reason}."
    assert why(store, rest[2]) == f"{reason}; 2 that wait for the same come first."
    store.complete(store.get(holder.id))
    assert why(store, rest[0]) == "is next: a worker is about to take it."
    assert why(store, rest[1]) == "is among the next with the concurrency key 'k', which has a free slot."
    in_line = "of which 1 may run at once: 1 that waits for the same comes first"
    assert why(store, rest[2]) == f"waits for the concurrency key 'k', {in_line}."


def test_workers_that_have_signed_off_are_not_said_to_be_silent(store: JobStore) -> None:
    job = made(store)
    WorkerRegistry(store.db, store.layout).leave("w1")
    assert why(store, job).startswith("waits because no worker is running now: start one with")


def test_a_job_for_a_task_that_no_worker_has_says_so_wherever_it_waits(store: JobStore) -> None:
    job = made(store, task="elsewhere")
    reason = "waits because no worker of the queue default has a task named elsewhere."
    assert why(store, job) == reason
    assert store.pools.set_aside_unknown([job])
    assert why(store, job) == reason


def test_a_job_in_line_says_how_many_come_first(store: JobStore) -> None:
    first = [made(store, priority=7) for _ in range(2)]
    own = [made(store, tenant="a") for _ in range(3)]
    other = made(store, tenant="b")
    urgent = made(store, priority=9)
    assert why(store, urgent) == "is next: a worker is about to take it."
    assert why(store, first[0]) == "is in line: 1 comes first, with a higher priority."
    assert why(store, own[2]) == "is in line: 6 come first, 3 of them with a higher priority."
    assert int(why(store, other).split()[3]) <= 4  # its tenant's turn is before the other's second


def test_a_job_that_waits_because_a_suspect_comes_first_or_runs_alone_says_so(store: JobStore) -> None:
    job, suspect = made(store), made(store)
    store.change(store.get(suspect.id), lambda one: ChangedJob(copy_with(one, {"suspect": True, "version": 2})))
    assert why(store, job).startswith(f"comes after {suspect.id}, which a worker that runs nothing else takes first")
    running = store.claim(store.get(suspect.id), "w1", 30.0)
    assert running is not None
    assert why(store, job).startswith(f"waits for {suspect.id}, which runs alone on w1 until it ends or writes a newer")
    store.report(running, checkpoint="rows", value=1)
    assert why(store, job) == "is next: a worker is about to take it."


def test_a_job_behind_very_many_is_not_said_to_be_next(store: JobStore) -> None:
    for _ in range(150):
        made(store)
    assert why(store, made(store)) == "is in line: 150 come first."
    store.pause("default", "lunch")
    assert why(store, made(store)) == "waits because the queue default is paused (lunch)."


def test_a_job_that_is_to_be_cancelled_says_who_does_it(store: JobStore, clock: ManualClock) -> None:
    job = claimed(store, made(store))
    store.cancel(job.id)
    assert why(store, job).startswith("is to be cancelled: w1, which runs it, stops it at its next report")
    clock.advance(10_000.0)
    assert why(store, job).endswith("; no worker is there to cancel it.")
    now = clock.now()
    WorkerRegistry(store.db, store.layout).beat(WorkerInfo("w2", now, now, ("default",), ("report",), 8, 0, 0, 0.0))
    assert why(store, job).endswith("; the next worker cancels it.")
