"""A workflow whose process dies before or after each write that it makes: it goes on, and does nothing twice.

`Died` stands for the end of the process: it is raised at a write, and nothing is written after it. The next worker
comes when the lease has run out.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from job_worlds import START, items, new_store

from penstock.client.database import Database, connect
from penstock.client.transports.base import Transport
from penstock.clock import ManualClock
from penstock.jobs.context import Attempt, JobContext
from penstock.jobs.model.job import Job, NewJob
from penstock.jobs.model.state import State
from penstock.jobs.model.workflow import JobSuspended
from penstock.jobs.store.store import JobStore
from penstock.jobs.workflow import ChildTask

READS = ("Query", "GetItem", "BatchGetItem", "DescribeTable", "Scan")
LEASE = 30.0


class Died(BaseException):
    """The process has ended."""


class Dying:
    """A transport that dies at the `at`-th write, before or after it is made."""

    def __init__(self, inner: Transport, at: int, *, after: bool) -> None:
        self.inner, self.name = inner, inner.name
        self.at, self.after = at, after
        self.writes = 0

    def execute(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation in READS:
            return self.inner.execute(operation, request)
        self.writes += 1
        if self.writes == self.at and not self.after:
            raise Died
        answer = self.inner.execute(operation, request)
        if self.writes == self.at:
            raise Died
        return answer

    def close(self) -> None:
        self.inner.close()


class Part:
    """A task, as `ctx.enqueue` takes it."""

    name = "part"

    def new_job(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NewJob:
        return NewJob("part", kwargs)

    def read_result(self, stored: Any) -> Any:
        return stored


PART: ChildTask = Part()


def order(ctx: JobContext, done: Counter[str]) -> list[Any]:
    def note(what: str) -> str:
        done[what] += 1
        return what

    ctx.step("charge", lambda: note("charge"))
    approval = ctx.wait_for("approval", timeout=3 * 86400.0)
    parcels = ctx.gather(ctx.enqueue(PART, number=number) for number in range(3))
    ctx.sleep(86400.0)
    missing = ctx.wait_for("complaint", timeout=3600.0)
    single = ctx.enqueue(PART, number=9)
    return [approval, parcels, missing, ctx.gather([single])]


RESULT = [{"by": "ada"}, [0, 10, 20], None, [90]]


def run_one(store: JobStore, job: Job, done: Counter[str]) -> None:
    """What a worker does with a candidate."""
    if job.needs_settling:
        store.settle(job)
        return
    claimed = store.claim(job, "w", LEASE, max_crashes=1_000)
    if claimed is None:
        return
    attempt = Attempt(store, claimed)
    try:
        arguments = store.load(claimed, claimed.args)
        if claimed.task == "part":
            attempt.finish(lambda one: store.complete(one, arguments["number"] * 10))
            return
        result = order(JobContext(attempt), done)
        attempt.check_returned()
        attempt.finish(lambda one: store.complete(one, result))
    except JobSuspended as wait:
        suspended = wait
        attempt.finish(lambda one: store.workflows.suspend(one, suspended))


def run_to_the_end(store: JobStore, clock: ManualClock, at: int, *, after: bool) -> tuple[int, Counter[str]]:
    """The writes that were made before the death, and what was done how often."""
    done: Counter[str] = Counter()
    job, _ = store.create(NewJob("order", {}))
    dying = Dying(store.db.transport, at, after=after)
    mortal = JobStore(Database(dying), store.layout, clock=clock)
    for _ in range(200):
        here = mortal if dying.writes < at else store
        try:
            found = here.claimable("default", 10)
            for one in found.jobs:
                run_one(here, one, done)
            if not found.jobs and store.get(job.id).is_terminal:
                return dying.writes, done
            if not found.jobs:
                sent = store.get(job.id)
                if sent.parked or (sent.wait is not None and sent.wait.event == "approval"):
                    here.workflows.send(job.id, "approval", {"by": "ada"}, event_id="the only one")
                else:
                    clock.advance(max(1.0, (found.next_at or clock.now()) - clock.now()))
        except Died:
            clock.advance(2 * LEASE)
    raise AssertionError(f"it does not end: {store.get(job.id)}")


def world() -> tuple[JobStore, ManualClock]:
    clock = ManualClock(START)
    return new_store(connect(":memory:"), clock), clock


WRITES = 40
"""At least as many as an undisturbed run makes."""


def test_an_undisturbed_run_is_covered() -> None:
    store, clock = world()
    writes, done = run_to_the_end(store, clock, 10_000, after=False)
    assert 10 < writes <= WRITES
    assert done == {"charge": 1}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, WRITES + 1))
def test_a_workflow_whose_process_dies_at_a_write_goes_on(at: int, after: bool) -> None:
    store, clock = world()
    _, done = run_to_the_end(store, clock, at, after=after)
    (job,) = store.find(task="order").jobs
    assert job.state is State.COMPLETED, job.error
    assert store.load(job, job.result) == RESULT
    assert done["charge"] <= 2, "a step is done again only where it was not stored"
    children = store.find(task="part").jobs
    assert (len(children), job.child_count) == (4, 4)
    assert {child.attempt for child in children} <= {1, 2}
    assert len(list(store.workflows.made(job.id))) == 4
    assert (job.sent, job.unread) == (1, 0)
    assert not [one for one in items(store) if one["record"]["S"].startswith("sent#")]
