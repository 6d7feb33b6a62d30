"""How long jobs are kept (retention.py, 1-3)."""

from __future__ import annotations

import pytest
from job_worlds import (
    DAY,
    FAILURE,
    LEASE,
    QUICK,
    START,
    Counting,
    claimable,
    claimed,
    counted,
    expiries,
    items,
    made,
    new_store,
    running,
    same_table,
    settle_all,
)

from penstock.client.database import Database, connect
from penstock.clock import ManualClock
from penstock.errors import InternalServerError
from penstock.jobs.model.job import JobNotFound
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore
from penstock.leases import LeaseLost


def test_the_expiry_is_in_seconds_and_the_same_for_all_records(store: JobStore, clock: ManualClock) -> None:
    job = running(store, unique_key="u", args={"text": "x" * 20_000})
    job = store.report(job, progress=5, checkpoint="rows", value=[1])
    clock.advance(3_600)
    store.log(job.id, "later")
    store.complete(job, "y" * 20_000)
    assert expiries(store, job.id) == {int(START + 30 * DAY)} == {job.expires_at}


def test_the_expiry_counts_from_when_a_job_is_due(store: JobStore, clock: ManualClock) -> None:
    job = made(store, run_at=clock.now() + 400 * DAY)
    assert job.expires_at == int(START + 430 * DAY)
    assert made(store, run_at=clock.now() - 400 * DAY).expires_at == int(START + 30 * DAY), "never in the past"
    clock.advance(400 * DAY)
    assert claimed(store, job).state is State.PROCESSING


def test_what_has_expired_is_not_shown_though_it_is_still_there(store: JobStore, clock: ManualClock) -> None:
    job = store.report(running(store), checkpoint="rows", value=1)
    store.complete(job)
    clock.advance(30 * DAY - 1)
    assert store.get(job.id).state is State.COMPLETED
    clock.advance(1)
    assert items(store)
    for read in (store.get, store.history, store.retry, store.cancel, lambda one: store.log(one, "hello")):
        with pytest.raises(JobNotFound, match="it never was, or it has expired"):
            read(job.id)
    assert store.checkpoint(job.id, "rows") is None
    assert store.find().jobs == ()


@pytest.mark.parametrize("keep", [0, -1, float("nan"), float("inf")])
def test_jobs_are_kept_for_some_time(keep: float) -> None:
    with connect() as db, pytest.raises(ValueError, match="keep_seconds is 1 to"):
        JobStore(db, keep_seconds=keep)


# ── jobs that last ───────────────────────────────────────────────────────────────────────────────


def check_kept(store: JobStore, job_id: str, clock: ManualClock) -> None:
    """All records expire together, and not soon."""
    (moment,) = expiries(store, job_id)
    assert moment >= clock.now() + 15 * DAY - 1


@pytest.mark.parametrize("touch", ["renew", "report", "log", "fail", "requeue", "take_over", "cancel", "complete"])
def test_whatever_is_done_to_a_job_that_lasts_keeps_all_of_it(store: JobStore, clock: ManualClock, touch: str) -> None:
    job = running(store, unique_key="u", args={"text": "x" * 20_000})
    for number in range(3):
        job = store.report(job, progress=number, checkpoint=f"c{number}", value=number)
    clock.advance(20 * DAY)
    if touch == "renew":
        store.renew(job)
    elif touch == "report":
        store.report(job, progress=50)
    elif touch == "log":
        store.log(job.id, "hello")
    elif touch == "fail":
        store.fail(job, FAILURE, retry_at=clock.now() + 5)
    elif touch == "requeue":
        store.requeue(job, "stop")
    elif touch == "take_over":
        claimed(store, job, "w2")
    elif touch == "cancel":
        store.cancel(job.id)
    else:
        store.complete(job)
    check_kept(store, job.id, clock)
    guards = [item for item in items(store) if item["job_id"]["S"].startswith("unique#")]
    if touch == "complete":
        assert guards == []
    else:
        assert [int(guard["ttl"]["N"]) for guard in guards] == list(expiries(store, job.id))
    history = store.history(job.id)
    assert [entry.number for entry in history.entries] == list(range(1, history.job.entries + 1))
    assert [store.load(history.job, point.data) for point in history.checkpoints] == [0, 1, 2]
    assert store.load(history.job, history.job.args) == {"text": "x" * 20_000}


def test_a_job_that_runs_for_a_year_is_still_there(store: JobStore, clock: ManualClock) -> None:
    job = running(store)
    for _ in range(60):
        clock.advance(6 * DAY)
        job = store.renew(job)
    store.complete(job)
    assert store.get(job.id).state is State.COMPLETED
    check_kept(store, job.id, clock)


def test_a_failed_job_that_is_retried_late_keeps_all_of_it(store: JobStore, clock: ManualClock) -> None:
    job = store.report(running(store), checkpoint="rows", value=[1])
    store.fail(job, FAILURE)
    clock.advance(29 * DAY)
    store.retry(job.id)
    check_kept(store, job.id, clock)
    clock.advance(10 * DAY)
    job = claimed(store, job)
    point = store.checkpoint(job.id, "rows")
    assert point is not None
    assert store.load(job, point.data) == [1]


@pytest.mark.parametrize("db", QUICK, indirect=True)
def test_jobs_that_wait_are_looked_after(store: JobStore, clock: ManualClock) -> None:
    """In a queue whose workers have no time for them, or that is paused; or for another job."""
    parent = running(store)
    child = made(store, depends_on=(parent.id,))
    low = made(store, priority=0)
    high = made(store, priority=9)
    later = made(store, run_at=clock.now() + 5)
    dead = running(store, "w9")
    for _ in range(40):
        clock.advance(3 * DAY)
        parent = store.renew(parent)
        store.look_after("default")
    for job in (child, low, high, later, dead):
        check_kept(store, job.id, clock)
    store.complete(parent)
    settle_all(store)
    assert set(claimable(store)) == {child.id, low.id, high.id, later.id, dead.id}


def test_a_job_that_waits_for_one_that_is_gone_is_cancelled(store: JobStore, clock: ManualClock) -> None:
    parent = made(store)
    child = made(store, depends_on=(parent.id,))
    store.db.execute("DeleteItem", {"TableName": store.layout.table, "Key": store.layout.main_key(parent.id)})
    clock.advance(16 * DAY)
    store.look_after("default")
    assert store.get(child.id).state is State.CANCELLED
    assert f"{parent.id}, which it waits for, is gone" in (store.get(child.id).cancel_reason or "")


def test_looking_after_jobs_costs_nothing_most_of_the_time(store: JobStore, clock: ManualClock) -> None:
    made(store)
    counting_store, counting = counted(store)
    counting_store.look_after("default")
    first = len(counting.calls)
    clock.advance(3_600)
    counting_store.look_after("default")
    assert len(counting.calls) == first
    clock.advance(2 * DAY)
    counting_store.look_after("default")
    assert len(counting.calls) == 2 * first


def test_nothing_more_is_written_while_there_is_time(store: JobStore, clock: ManualClock) -> None:
    job = running(store)
    clock.advance(14 * DAY)
    counting_store, counting = counted(store)
    counting_store.renew(job)
    assert counting.operations == ["PutItem"]


def test_a_worker_that_has_lost_its_job_does_not_keep_it(store: JobStore, clock: ManualClock) -> None:
    zombie = running(store)
    store.requeue(zombie, "stop")
    store.complete(claimed(store, zombie, "w2"))
    clock.advance(20 * DAY)
    before = items(store)
    with pytest.raises(LeaseLost):
        store.renew(zombie)
    assert store.claim(zombie, "w3", LEASE) is None
    assert items(store) == before


class FailingAfter:
    """A transport whose calls fail from one on."""

    def __init__(self, inner: Counting, calls: int) -> None:
        self.inner = inner
        self.name = inner.name
        self.left = calls

    def execute(self, operation: str, request: dict[str, object]) -> dict[str, object]:
        if self.left == 0:
            raise InternalServerError("gone")
        self.left -= 1
        return self.inner.execute(operation, request)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("calls", range(8))
def test_whoever_dies_halfway_leaves_nothing_that_expires_too_soon(calls: int) -> None:
    """(3) After any number of calls: the next one to touch the job finishes it."""
    clock = ManualClock(START)
    with connect() as db:
        store = new_store(db, clock)
        job = running(store)
        for number in range(250):
            job = store.report(job, message=f"m{number}")
        clock.advance(20 * DAY)
        dying = same_table(store, Database(FailingAfter(Counting(db.transport), calls)))
        try:
            dying.renew(job)
        except InternalServerError:
            moments = expiries(store, job.id)
            assert min(moments) == store.get(job.id).expires_at, "no record before the main one"
        job = store.renew(job)
        check_kept(store, job.id, clock)
        assert len(store.history(job.id).entries) == 250
