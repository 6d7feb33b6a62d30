"""The states that people think in: what a job does, or what keeps it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import penstock
from penstock.jobs.model.derived_state import STORED, Conditions, DerivedState, derive, parse_state
from penstock.jobs.model.job import LIMIT_POOL, RATE_POOL, TASK_POOL, BadJob, Job, JobError, NewJob, Wait
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore
from penstock.jobs.worker.registry import WorkerInfo, WorkerRegistry
from penstock.leases import Lease

JOB = Job("job_1", "report", State.QUEUED, 0.0, 0.0, 0.0, 10**10)
ERROR = JobError("ValueError", "no")


@pytest.mark.parametrize(
    ("changes", "state", "why"),
    [
        ({}, "ready", ""),
        ({"run_at": 200.0}, "scheduled", ""),
        ({"run_at": 200.0, "failures": 1, "error": ERROR}, "retrying", "ValueError: no"),
        ({"run_at": 50.0, "failures": 1, "error": ERROR}, "ready", ""),
        ({"waiting_for": frozenset({"job_0"})}, "waiting", "job_0"),
        ({"waiting_parts": 2, "dependency_count": 300}, "waiting", "300 jobs"),
        ({"waiting_parts": 1, "wait": Wait("c", children=7)}, "waiting", "7 of its children"),
        ({"parked": True, "wait": Wait("e", event="approved")}, "waiting", "the event 'approved'"),
        ({"run_at": 200.0, "wait": Wait("e", 200.0, event="approved")}, "waiting", "the event 'approved'"),
        ({"run_at": 200.0, "wait": Wait("s", 200.0)}, "waiting", "sleeps"),
        ({"run_at": 50.0, "wait": Wait("s", 50.0)}, "ready", ""),
        ({"reviving": True}, "waiting", "the jobs that were cancelled because of it are revived first"),
        ({"pool": LIMIT_POOL, "concurrency_key": "acme", "max_concurrent": 2}, "blocked",
         "concurrency key 'acme', 2 at once"),
        ({"pool": RATE_POOL, "rate_key": "api", "rate": "5/m"}, "blocked", "rate 5/m of 'api'"),
        ({"run_at": 200.0, "rate_at": 200.0, "rate_key": "api", "rate": "5/m"}, "blocked", "rate 5/m of 'api'"),
        ({"pool": TASK_POOL}, "blocked", "no worker of the queue default has the task report"),
        ({"queue": "mail"}, "blocked", "no worker of the queue mail has the task report"),
        ({"queue": "mail", "task": "send"}, "ready", ""),
        ({"queue": "paused"}, "blocked", "the queue paused is paused"),
        ({"queue": "paused", "run_at": 200.0}, "scheduled", ""),
        ({"pulled_from": "aws://x"}, "blocked", "a copy from aws://x: no worker starts it"),
        ({"state": State.PROCESSING, "lease": Lease("w1", 1, 150.0, 60.0)}, "running", ""),
        ({"state": State.PROCESSING, "lease": Lease("w1", 1, 10.0, 60.0)}, "lost", "w1 does not renew its lease"),
        ({"state": State.PROCESSING, "lease": Lease("dead", 1, 150.0, 60.0)}, "lost", "the process of dead has ended"),
        ({"state": State.FAILED, "error": ERROR}, "failed", "ValueError: no"),
        ({"state": State.CANCELLED, "cancel_reason": "wrong day"}, "cancelled", "wrong day"),
        ({"state": State.COMPLETED}, "completed", ""),
    ],
)  # fmt: skip
def test_a_job_is_in_the_state_that_says_what_it_does(changes: dict[str, Any], state: str, why: str) -> None:
    found = derive(replace(JOB, **changes), Conditions(100.0, {"paused"}, {"dead"}, {"mail": {"send"}}))
    assert (found.state, found.why) == (state, why)
    assert STORED[found.state] is changes.get("state", State.QUEUED)


def test_a_job_that_was_made_in_this_millisecond_is_due() -> None:
    """Its time was rounded up when it was stored."""
    made = replace(JOB, run_at=1_795_124_605.817)
    assert derive(made, Conditions(1_795_124_605.8165762, tasks={"default": {"report"}})).state is DerivedState.READY
    assert derive(made, Conditions(1_795_124_605.8155762)).state is DerivedState.SCHEDULED


def test_every_state_has_a_name_that_is_parsed_and_other_names_are_refused_with_a_list() -> None:
    for state in DerivedState:
        stored, derived = parse_state(state.value)
        assert stored is STORED[state] and derived in (state, None)
    assert parse_state("queued") == (State.QUEUED, None)
    with pytest.raises(BadJob, match="There is no state 'done': there are ready, scheduled, retrying"):
        parse_state("done")


def test_jobs_are_found_by_derived_state_page_by_page() -> None:
    app = penstock.App(":memory:")

    @app.task()
    def pay(amount: int) -> int:
        return amount

    later = {pay.options(delay=3600).enqueue(amount=number).id for number in range(30)}
    ready = {pay.enqueue(amount=number).id for number in range(30)}
    urgent = {pay.options(queue="slow").enqueue(amount=1).id}
    app.jobs.pause("slow")
    assert {job.id for job in app.jobs.find(state="scheduled")} == later
    assert {job.id for job in app.jobs.find(state="ready")} == ready
    assert {job.id for job in app.jobs.find(state="blocked")} == urgent
    seen: list[str] = []
    token = None
    while True:
        page = app.jobs.page(state="scheduled", limit=7, token=token)
        seen += [job.id for job in page.jobs]
        token = page.token
        if token is None:
            break
    assert sorted(seen) == sorted(later)
    assert app.jobs.cancel_all(state="scheduled", dry_run=True).matched == 30
    app.close()


def test_a_job_whose_task_no_live_worker_of_its_queue_has_is_blocked_and_not_ready() -> None:
    app = penstock.App(":memory:")
    store: JobStore = app.store
    store.ensure_tables()
    jobs = {
        name: store.create(NewJob(name, {}, queue=queue))[0].id for name, queue in (("a", "q"), ("b", "q"), ("c", "r"))
    }
    now = store.clock.now()
    registry = WorkerRegistry(store.db, store.layout)
    registry.beat(WorkerInfo("w1", now, now, ("q",), ("a",), 1, 0, 0, 0.0))
    registry.beat(WorkerInfo("gone", now - 999, now - 999, ("q", "r"), ("b",), 1, 0, 0, 0.0))
    assert {job.id for job in app.jobs.find(state="ready")} == {jobs["a"], jobs["c"]}, "nobody looks at the queue r"
    assert [job.id for job in app.jobs.find(state="blocked")] == [jobs["b"]]
    app.close()


def test_a_job_whose_lease_ran_out_is_lost_and_not_running() -> None:
    app = penstock.App(":memory:")
    store: JobStore = app.store
    store.ensure_tables()
    held = store.claim(store.create(NewJob("report", {}))[0], "w1", 60.0)
    gone = store.claim(store.create(NewJob("report", {}))[0], "w2", 1.0)
    assert held is not None and gone is not None
    found = derive(gone, Conditions(gone.lease.takeable_at + 1))  # type: ignore[union-attr]
    assert found.state is DerivedState.LOST
    assert [job.id for job in app.jobs.find(state="running")][-1] == held.id
    app.close()
