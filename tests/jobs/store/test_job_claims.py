"""Claims, limits, takeovers, cancellation and retries."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from job_worlds import DAY, FAILURE, LEASE, claimable, claimed, items, made, running, same_table

from penstock.clock import ManualClock
from penstock.jobs.layouts.layout import shard_of
from penstock.jobs.model.job import Job, JobCancelled, JobError
from penstock.jobs.model.state import BadTransition, State
from penstock.jobs.model.transitions import KILLED_WORKERS, MOST_CRASHES
from penstock.jobs.store import queries
from penstock.jobs.store.store import JobStore, LimitReached
from penstock.leases import AbandonedLease, LeaseLost, allowance_seconds

# ── order ────────────────────────────────────────────────────────────────────────────────────────


def test_the_highest_priority_comes_first_and_then_the_oldest(store: JobStore, clock: ManualClock) -> None:
    jobs = []
    for priority in random.Random(1).choices(range(10), k=40):
        jobs.append(made(store, priority=priority))
        clock.advance(0.001)
    wanted = sorted(jobs, key=lambda job: (-job.priority, job.created_at))
    assert claimable(store) == [job.id for job in wanted]
    assert store.claimable("default", 40).more
    assert not store.claimable("default", 41).more
    first = store.claimable("default", 5).jobs
    assert {job.id for job in first[:5]} == {job.id for job in wanted[:5]}


@pytest.mark.parametrize("later", [0.0, 5.0])
def test_a_shard_that_gave_its_share_may_have_more(store: JobStore, clock: ManualClock, later: float) -> None:
    """Asked evenly of all shards: a worker looks deeper, though all in all it was given less than it asked for."""
    shard = [f"j{number}" for number in range(200) if shard_of(f"j{number}", store.layout.shards) == 0][:8]
    for job_id in shard:
        made(store, id=job_id, run_at=clock.now() + later)
    clock.advance(10)
    found = store.claimable("default", 12, evenly=True)
    assert (len(found.jobs), found.more) == (6, True)
    found = store.claimable("default", 20, evenly=True)
    assert (len(found.jobs), found.more) == (8, False)


def test_what_is_due_by_the_clock_comes_in_the_order_of_its_time(store: JobStore, clock: ManualClock) -> None:
    """Of many that are due in many shards, the oldest are looked at first."""
    times = list(range(1, 31))
    random.Random(2).shuffle(times)
    by_time = {seconds: made(store, run_at=clock.now() + seconds).id for seconds in times}
    clock.advance(60)
    assert claimable(store, limit=5) == [by_time[seconds] for seconds in range(1, 6)]


def test_an_urgent_job_is_found_among_many_that_were_due_before_it(
    store: JobStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "LONGEST_PAGE", 10)
    for number in range(60):
        made(store, priority=1, run_at=clock.now() + 1 + number / 1000)
    usual, urgent = (made(store, priority=one, run_at=clock.now() + 2) for one in (5, 9))
    clock.advance(3)
    places: dict[int, str] = {}
    seen = [store.claimable("default", 8, evenly=True, further=places).jobs[0].id for _ in range(4)]
    assert urgent.id in seen
    assert {usual.id, urgent.id} & {job.id for job in store.claimable("default", 8, evenly=True).jobs} == set()
    found = store.claimable("default", 100, evenly=True, further={}).jobs
    assert [job.id for job in found[:2]] == [urgent.id, usual.id]
    assert len(found) == 62


def test_a_look_among_many_that_are_due_goes_on_where_the_last_ended(
    store: JobStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "LONGEST_PAGE", 5)
    for number in range(40):
        made(store, run_at=clock.now() + 1 + number / 1000)
    clock.advance(3)
    places: dict[int, str] = {}
    ends = []
    for _ in range(5):
        store.claimable("default", 4, evenly=True, further=places)
        ends.append(dict(places))
    assert ends[0] != ends[1], "each look reads the next ones"
    assert " " in {place for end in ends for place in end.values()}, "and then the first again"


def test_a_job_is_claimable_at_its_time_and_not_before(store: JobStore, clock: ManualClock) -> None:
    job = made(store, run_at=clock.now() + 60)
    found = store.claimable("default", 10)
    assert (found.jobs, found.next_at) == ((), clock.now() + 60)
    assert store.claim(job, "w1", LEASE) is None
    clock.advance(59)
    assert store.claim(store.get(job.id), "w1", LEASE) is None
    clock.advance(1)
    assert claimable(store) == [job.id]
    assert claimed(store, job).state is State.PROCESSING


def test_queues_are_looked_at_apart(store: JobStore) -> None:
    slow, fast = made(store, queue="slow"), made(store, queue="fast")
    assert claimable(store, "slow") == [slow.id]
    assert claimable(store, "fast") == [fast.id]
    assert claimable(store) == []


def test_a_queue_is_paused_and_resumed(store: JobStore) -> None:
    assert not store.queue("default").paused
    store.pause("default", "the printer is out of paper")
    assert (store.queue("default").paused, store.queue("default").reason) == (True, "the printer is out of paper")
    assert not store.queue("other").paused
    store.resume("default")
    store.resume("default")
    assert not store.queue("default").paused


def test_what_is_ready_by_its_makers_clock_is_ready(store: JobStore, clock: ManualClock) -> None:
    """The maker's clock is a second ahead: the job does not stand at the head of the queue unclaimable."""
    ahead = ManualClock(clock.now() + 1)
    job = made(same_table(store, clock=ahead))
    assert claimable(store) == [job.id]
    got = claimed(store, job)
    assert (got.state, got.updated_at) == (State.PROCESSING, ahead.now())


def test_a_job_is_claimed_once(store: JobStore) -> None:
    job = made(store)
    seen = [store.claimable("default", 1).jobs[0] for _ in range(3)]
    got = [store.claim(one, f"w{number}", LEASE) for number, one in enumerate(seen)]
    assert [one is not None for one in got] == [True, False, False]
    assert store.get(job.id).lease == got[0].lease if got[0] else None
    assert claimable(store) == []


def test_a_claim_and_a_cancellation_at_once_leave_one_of_them(store: JobStore) -> None:
    job = made(store)
    seen = store.get(job.id)
    store.cancel(job.id)
    assert store.claim(seen, "w1", LEASE) is None
    assert store.get(job.id).state is State.CANCELLED


# ── leases under the store ───────────────────────────────────────────────────────────────────────


def test_a_dead_workers_job_is_taken_over_after_the_lease_and_the_allowance(
    store: JobStore, clock: ManualClock
) -> None:
    job = running(store)
    clock.advance(LEASE + allowance_seconds(LEASE) - 0.01)
    assert store.claim(store.get(job.id), "w2", LEASE) is None
    assert claimable(store) == []
    clock.advance(0.02)
    assert claimable(store) == [job.id]
    got = claimed(store, job, "w2")
    assert (got.token, got.attempt, got.suspect, got.crashes, got.failures) == (2, 2, True, 0, 0)
    assert [event.type for event in store.history(job.id).events] == ["created", "started", "taken_over"]


def writes_of_a_holder(store: JobStore, job: Job) -> list[object]:
    return [
        lambda: store.renew(job),
        lambda: store.report(job, progress=99, message="zombie"),
        lambda: store.report(job, checkpoint="rows", value="zombie"),
        lambda: store.complete(job, "zombie"),
        lambda: store.fail(job, FAILURE),
        lambda: store.fail(job, FAILURE, retry_at=0.0),
        lambda: store.requeue(job, "zombie"),
        lambda: store.end_cancelled(job),
    ]


@pytest.mark.parametrize("fate", ["taken", "handed_over", "completed", "failed", "cancelled", "retried", "same_owner"])
def test_a_worker_that_wakes_up_after_another_grant_writes_nothing(
    store: JobStore, clock: ManualClock, fate: str
) -> None:
    zombie = running(store, "w1")
    clock.advance(2 * LEASE)
    job = claimed(store, zombie, "w1" if fate == "same_owner" else "w2")
    if fate == "handed_over":
        store.requeue(job, "stop")
    elif fate == "completed":
        store.complete(job, 1)
    elif fate in ("failed", "retried"):
        store.fail(job, FAILURE)
        if fate == "retried":
            store.retry(job.id)
    elif fate == "cancelled":
        store.cancel(job.id)
        store.end_cancelled(job)
    before = items(store)
    for write in writes_of_a_holder(store, zombie):
        with pytest.raises(LeaseLost) as lost:
            write()  # type: ignore[operator]
        assert lost.value.record == zombie.id
    assert items(store) == before


def test_a_late_renewal_wins_if_nobody_has_taken_the_job(store: JobStore, clock: ManualClock) -> None:
    job = running(store)
    seen = store.get(job.id)
    clock.advance(10 * LEASE)
    job = store.renew(job)
    assert store.claim(seen, "w2", LEASE) is None, "what the other has seen is out of date"
    assert store.claim(store.get(job.id), "w2", LEASE) is None
    assert store.complete(job).state is State.COMPLETED


def test_a_holder_that_kept_an_old_value_still_writes(store: JobStore) -> None:
    """Others (log, cancel, children) write the job too; the holder's token is what counts."""
    job = running(store)
    store.log(job.id, "one")
    store.log(job.id, "two")
    after = store.report(job, progress=10, message="three")
    assert (after.entries, after.version) == (3, job.version + 3)
    assert store.complete(job).entries == 3


def test_a_clock_that_was_set_back_makes_nothing_older(store: JobStore, clock: ManualClock) -> None:
    job = running(store)
    before = store.report(job, progress=10)
    clock.advance(-3_600)
    after = store.report(before, progress=20)
    assert (after.updated_at, after.lease) == (before.updated_at, before.lease)
    done = store.complete(after)
    assert done.ended_at is not None
    assert done.started_at is not None
    assert done.ended_at >= done.started_at
    fresh = running(store)
    assert store.complete(fresh).state is State.COMPLETED


def test_a_checkpoint_with_a_new_value_clears_a_suspect_and_one_with_the_same_does_not(
    store: JobStore, clock: ManualClock
) -> None:
    job = store.report(running(store), checkpoint="rows", value=[1])
    clock.advance(2 * LEASE)
    suspect = claimed(store, job, "w2")
    same = store.report(suspect, checkpoint="rows", value=[1], version=2)
    assert same.suspect
    assert store.get(job.id).suspect
    assert not store.report(same, checkpoint="rows", value=[1, 2], version=3).suspect
    assert not store.get(job.id).suspect


def test_with_proof_that_its_workers_process_has_ended_a_job_is_taken_at_once_and_its_writes_are_refused(
    store: JobStore,
) -> None:
    job = running(store)
    assert job.lease is not None
    lease = AbandonedLease(job.lease.owner, job.lease.token, job.lease.until, job.lease.seconds, has_ended=True)
    got = store.claim(replace(store.get(job.id), lease=lease), "w2", LEASE)
    assert got is not None
    assert (got.token, got.attempt, got.suspect) == (2, 2, True)
    with pytest.raises(LeaseLost):
        store.report(job, progress=1)


def test_a_job_that_kills_its_workers_has_failed(store: JobStore, clock: ManualClock) -> None:
    job = running(store, concurrency_key="k")
    for _ in range(MOST_CRASHES):
        clock.advance(2 * LEASE)
        claimed(store, job, "w2")
    clock.advance(2 * LEASE)
    assert store.claim(store.get(job.id), "w3", LEASE) is None
    failed = store.get(job.id)
    assert (failed.state, failed.crashes, failed.failures) == (State.FAILED, MOST_CRASHES, 0)
    assert failed.error is not None
    assert failed.error.kind == KILLED_WORKERS
    assert store.side_items.slot_holders("k") == []
    again = store.retry(job.id)
    assert (again.crashes, again.state) == (0, State.QUEUED)


# ── limits ───────────────────────────────────────────────────────────────────────────────────────


def test_no_more_jobs_run_with_a_concurrency_key_than_may(store: JobStore, clock: ManualClock) -> None:
    jobs = [made(store, concurrency_key="api", max_concurrent=2) for _ in range(4)]
    running_now = [claimed(store, job) for job in jobs[:2]]
    with pytest.raises(LimitReached) as reached:
        store.claim(jobs[2], "w1", LEASE)
    assert (reached.value.job_id, reached.value.concurrency_key) == (jobs[2].id, "api")
    assert store.side_items.slot_holders("api") == sorted(job.id for job in jobs[:2])
    store.complete(running_now[0])
    claimed(store, jobs[2])
    store.fail(running_now[1], FAILURE, retry_at=clock.now() + 60)
    got = claimed(store, jobs[3])
    store.requeue(got, "stop")
    assert store.side_items.slot_holders("api") == [jobs[2].id]


def test_whoever_takes_over_a_dead_workers_job_has_its_slot(store: JobStore, clock: ManualClock) -> None:
    job = running(store, concurrency_key="api", max_concurrent=1)
    other = made(store, concurrency_key="api", max_concurrent=1)
    clock.advance(2 * LEASE)
    job = claimed(store, job, "w2")
    with pytest.raises(LimitReached):
        store.claim(store.get(other.id), "w2", LEASE)
    store.complete(job)
    assert store.side_items.slot_holders("api") == []
    claimed(store, other)


def test_the_slot_of_a_job_that_was_deleted_while_it_ran_is_taken_back(store: JobStore) -> None:
    lost = running(store, concurrency_key="api", max_concurrent=1)
    store.db.execute("DeleteItem", {"TableName": store.layout.table, "Key": store.layout.main_key(lost.id)})
    job = made(store, concurrency_key="api", max_concurrent=1)
    with pytest.raises(LimitReached):
        store.claim(job, "w1", LEASE)
    assert claimed(store, job).state is State.PROCESSING


def test_cancelling_a_waiting_job_gives_back_no_slot_of_others(store: JobStore) -> None:
    running(store, concurrency_key="api", max_concurrent=1)
    waiting = made(store, concurrency_key="api", max_concurrent=1)
    store.cancel(waiting.id)
    assert len(store.side_items.slot_holders("api")) == 1


# ── cancellation ─────────────────────────────────────────────────────────────────────────────────


def test_a_queued_job_is_cancelled_at_once(store: JobStore) -> None:
    job = store.cancel(made(store).id, "not wanted any more")
    assert (job.state, job.cancel_reason) == (State.CANCELLED, "not wanted any more")
    assert claimable(store) == []
    events = store.history(job.id).events
    assert [(event.type, event.detail) for event in events[1:]] == [("cancelled", "not wanted any more")]


def test_a_running_job_is_told_at_its_next_report(store: JobStore) -> None:
    job = running(store)
    asked = store.cancel(job.id, "not wanted")
    assert (asked.state, asked.cancel_reason) == (State.PROCESSING, "not wanted")
    before = items(store)
    for write in writes_of_a_holder(store, job)[1:-1]:
        with pytest.raises(JobCancelled, match="was cancelled: not wanted"):
            write()  # type: ignore[operator]
    assert items(store) == before
    ended = store.end_cancelled(job)
    assert (ended.state, ended.lease, ended.ended_at is not None) == (State.CANCELLED, None, True)
    types = [event.type for event in store.history(job.id).events]
    assert types == ["created", "started", "cancel_asked", "cancelled"]


def test_a_job_that_is_to_be_cancelled_holds_its_slot_while_its_task_runs(store: JobStore, clock: ManualClock) -> None:
    job = running(store, unique_key="u", concurrency_key="k")
    store.cancel(job.id, "not wanted")
    for _ in range(3):
        clock.advance(LEASE / 3)
        job = store.renew(job)
    assert job.cancel_reason == "not wanted"
    clock.advance(LEASE / 2)
    assert claimable(store) == []
    assert store.claim(store.get(job.id), "w2", LEASE) is None
    assert store.get(job.id).state is State.PROCESSING
    assert store.side_items.slot_holders("k") == [job.id]
    assert made(store, unique_key="u").id == job.id


def test_a_cancelled_job_whose_worker_dies_is_ended_by_the_next(store: JobStore, clock: ManualClock) -> None:
    job = running(store, unique_key="u", concurrency_key="k")
    store.cancel(job.id, "not wanted")
    clock.advance(2 * LEASE)
    assert store.claim(store.get(job.id), "w2", LEASE) is None
    assert store.get(job.id).state is State.CANCELLED
    assert store.side_items.slot_holders("k") == []
    assert made(store, unique_key="u").id != job.id


def test_what_has_ended_cannot_be_cancelled_or_retried(store: JobStore) -> None:
    done = store.complete(running(store))
    with pytest.raises(BadTransition, match="is completed; it can be cancelled only while it is queued or processing"):
        store.cancel(done.id)
    with pytest.raises(BadTransition, match="can be retried only while it is failed"):
        store.retry(done.id)
    gone = store.cancel(made(store).id)
    with pytest.raises(BadTransition):
        store.retry(gone.id)


# ── failures ─────────────────────────────────────────────────────────────────────────────────────


def test_a_failed_attempt_is_followed_by_another_at_its_time(store: JobStore, clock: ManualClock) -> None:
    job = running(store)
    job = store.report(job, progress=60, checkpoint="rows", value=[1, 2])
    job = store.fail(job, FAILURE, retry_at=clock.now() + 30)
    assert (job.state, job.failures, job.error, job.lease) == (State.QUEUED, 1, FAILURE, None)
    assert claimable(store) == []
    clock.advance(30)
    again = claimed(store, job, "w2")
    assert (again.attempt, again.token, again.progress) == (2, 2, 60)
    point = store.checkpoint(job.id, "rows")
    assert point is not None
    assert store.load(again, point.data) == [1, 2]


def test_a_failed_job_is_retried_by_hand(store: JobStore) -> None:
    job = store.fail(running(store), JobError("KeyError", "'x'", "Traceback"))
    assert (job.state, job.failures) == (State.FAILED, 1)
    again = store.retry(job.id)
    assert (again.state, again.failures, again.ended_at) == (State.QUEUED, 0, None)
    assert claimable(store) == [job.id]
    done = store.complete(claimed(store, again), "fine")
    assert (done.error, store.load(done, done.result)) == (None, "fine")
    types = [event.type for event in store.history(job.id).events]
    assert types == ["created", "started", "failed", "retried", "started", "completed"]


def test_a_job_can_be_failed_whatever_its_error_is(store: JobStore) -> None:
    """A megabyte of text with bytes in it that are no text."""
    job = store.fail(running(store), JobError("E", "\udcff" * 1_000_000, "t" * 10_000_000))
    found = store.get(job.id)
    assert found.error is not None
    assert (found.state, found.error) == (State.FAILED, job.error)
    assert len(found.error.message) < 50_000


def test_a_retry_in_the_far_future_does_not_expire_before(store: JobStore, clock: ManualClock) -> None:
    job = store.fail(running(store), FAILURE, retry_at=clock.now() + 300 * DAY)
    assert store.get(job.id).expires_at > clock.now() + 300 * DAY
    clock.advance(300 * DAY)
    assert claimable(store) == [job.id]
    claimed(store, job)
