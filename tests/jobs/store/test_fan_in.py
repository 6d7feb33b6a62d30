"""Policies of dependencies, their revival after a retry, and dependencies on many (dependencies.py, 1 and 4-6)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from job_worlds import (
    FAILURE,
    QUICK,
    START,
    claimable,
    claimed,
    counted,
    expiries,
    made,
    new_store,
    same_table,
    settle_all,
)
from test_job_dependencies import Meanwhile, dying, finish

from penstock.client.database import Database, connect
from penstock.clock import ManualClock
from penstock.errors import InternalServerError
from penstock.jobs.explain import explain, gather
from penstock.jobs.model.job import INLINE_DEPENDENCIES, BadJob, Job, NewJob
from penstock.jobs.model.state import BadTransition, State
from penstock.jobs.store.store import JobStore
from penstock.testing.invariants import broken_rules

SIZES = [3, INLINE_DEPENDENCIES + 4]
"""In the main record, and in records of their own."""


ON_OURS = pytest.mark.parametrize("db", ["file", "http"], indirect=True)
"""Hundreds of jobs: moto copies its whole table for every transaction, which takes minutes."""


def fail(store: JobStore, job: Job) -> Job:
    return store.fail(claimed(store, job), FAILURE)


def many(store: JobStore, number: int) -> list[Job]:
    return [job for job, _ in store.create_all([NewJob("part", {"n": n}) for n in range(number)])]


def fan_in(store: JobStore, parents: list[Job], policy: str = "all_completed", **options: Any) -> Job:
    return made(store, "join", depends_on=tuple(job.id for job in parents), depends_on_policy=policy, **options)


def events(store: JobStore, job: Job) -> list[str]:
    return [event.type for event in store.history(job.id).events]


def racing(store: JobStore, write: int, action: Callable[[], object]) -> JobStore:
    return same_table(store, Database(Meanwhile(store.db.transport, write, action)))


# ── reviving ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", SIZES)
def test_a_retry_revives_what_the_failure_has_cancelled_all_the_way_down(store: JobStore, size: int) -> None:
    parents = many(store, size)
    child = fan_in(store, parents, unique_key="u")
    grandchild = made(store, depends_on=(child.id,))
    finish(store, parents[1])
    fail(store, parents[0])
    settle_all(store)
    assert [store.get(job.id).state for job in (child, grandchild)] == [State.CANCELLED] * 2
    for parent in parents[2:]:
        finish(store, parent)
    settle_all(store)
    store.retry(parents[0].id)
    settle_all(store)
    assert [store.get(job.id).state for job in (child, grandchild)] == [State.QUEUED] * 2
    assert store.waiting_for(store.get(child.id)) == [parents[0].id]
    assert made(store, "join", unique_key="u").id == child.id, "it holds its unique key again"
    assert claimable(store) == [parents[0].id]
    for job in (parents[0], child, grandchild):
        finish(store, job)
        settle_all(store)
    assert events(store, grandchild) == ["created", "cancelled", "revived", "started", "completed"]
    revived = store.history(child.id).events[2]
    assert (revived.type, revived.detail) == ("revived", f"{parents[0].id} is queued again")


@pytest.mark.parametrize("policy", ["all_completed", "any_completed"])
def test_a_job_that_is_about_to_be_revived_has_not_ended(store: JobStore, policy: str) -> None:
    parents = many(store, 2)
    child = fan_in(store, parents, policy)
    grandchild = made(store, depends_on=(child.id,))
    cancelled = fan_in(store, parents)
    store.cancel(cancelled.id)
    for parent in parents:
        fail(store, parent)
    settle_all(store)
    below = [child.id, grandchild.id]
    assert all(store.has_ended(store.get(one)) for one in below)
    by = store.get(child.id).cancelled_by
    store.retry(next(parent.id for parent in parents if (parent.id == by) == (policy == "all_completed")))
    assert [store.get(one).state for one in below] == [State.CANCELLED] * 2, "nobody has revived them yet"
    assert not any(store.has_ended(store.get(one)) for one in below)
    assert store.has_ended(store.get(cancelled.id))


def test_what_somebody_cancelled_is_not_revived(store: JobStore) -> None:
    parent = made(store)
    unwanted, child = fan_in(store, [parent]), fan_in(store, [parent])
    store.cancel(unwanted.id, "not wanted")
    fail(store, parent)
    settle_all(store)
    store.retry(parent.id)
    settle_all(store)
    assert [store.get(job.id).state for job in (unwanted, child)] == [State.CANCELLED, State.QUEUED]
    store.cancel(child.id)
    with pytest.raises(BadTransition, match="can be retried only while it is failed"):
        store.retry(child.id)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("first", [0, 1])
def test_a_job_of_two_failed_parents_is_revived_when_both_were_retried(store: JobStore, first: int, size: int) -> None:
    parents = many(store, size)
    child = fan_in(store, parents)
    for parent in parents[:2]:
        fail(store, parent)
        settle_all(store)
    store.retry(parents[first].id)
    settle_all(store)
    assert store.get(child.id).state is State.CANCELLED
    store.retry(parents[1 - first].id)
    settle_all(store)
    assert store.get(child.id).state is State.QUEUED
    for parent in parents:
        finish(store, parent)
    settle_all(store)
    assert claimable(store) == [child.id]


def test_a_job_that_was_cancelled_while_it_was_registered_is_revived_too(store: JobStore) -> None:
    """It never was in its parent's list: the parent had failed before."""
    parent = made(store)
    child = fan_in(racing(store, 1, lambda: fail(store, parent)), [parent])
    settle_all(store)
    assert store.get(child.id).state is State.CANCELLED
    store.retry(parent.id)
    settle_all(store)
    finish(store, parent)
    settle_all(store)
    assert claimable(store) == [child.id]


def test_a_job_whose_unique_key_is_another_jobs_now_stays_cancelled_and_says_why(store: JobStore) -> None:
    parent = made(store)
    child = fan_in(store, [parent], unique_key="u")
    fail(store, parent)
    settle_all(store)
    other = made(store, "join", unique_key="u")
    store.retry(parent.id)
    settle_all(store)
    assert store.get(child.id).state is State.CANCELLED
    last = store.history(child.id).events[-1]
    assert (last.type, last.label) == ("revival_refused", "revival refused")
    assert last.detail == f"{parent.id} is queued again, but another job holds its unique key 'u' now"
    store.cancel(other.id)
    finish(store, parent)
    settle_all(store)
    assert store.get(child.id).version == last.number, "for good"


def test_a_parent_is_claimed_only_after_its_children_are_revived(store: JobStore) -> None:
    parent = made(store)
    child = fan_in(store, [parent])
    fail(store, parent)
    settle_all(store)
    retried = store.retry(parent.id)
    assert store.claim(retried, "w1", 30.0) is None
    assert not store.is_plain(retried)
    assert "until a worker has revived the jobs" in explain(retried, gather(store, retried))
    store.settle(retried)
    assert claimable(store) == [parent.id]
    assert store.get(child.id).state is State.QUEUED


def test_a_retry_without_children_costs_no_more(store: JobStore) -> None:
    job = fail(store, made(store))
    assert claimable(store) == []
    assert not store.retry(job.id).needs_settling
    assert claimable(store) == [job.id]


@pytest.mark.parametrize("db", QUICK, indirect=True)
@pytest.mark.parametrize("policy", ["all_completed", "any_completed"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("write", range(1, 8))
def test_a_retry_at_every_step_of_the_cancellation_leaves_nobody_waiting(
    store: JobStore, write: int, size: int, policy: str
) -> None:
    """5: the worker that tells of the failure goes on after the retry, and does no harm."""
    parents = many(store, size)
    children = [fan_in(store, parents, policy), fan_in(store, parents, policy), fan_in(store, parents[:1], policy)]
    grandchild = fan_in(store, children)
    for parent in parents[1:]:
        if policy == "any_completed":
            fail(store, parent)
        else:
            finish(store, parent)
    settle_all(store)
    failed = fail(store, parents[0])

    def retry_and_revive() -> None:
        store.retry(failed.id)
        settle_all(store)

    racing(store, write, retry_and_revive).settle(failed)
    if store.get(failed.id).state is State.FAILED:
        store.retry(failed.id)
    settle_all(store)
    finish(store, failed)
    settle_all(store)
    assert set(claimable(store)) == {child.id for child in children}
    for child in children:
        finish(store, child)
    settle_all(store)
    assert claimable(store) == [grandchild.id]
    for job in (*children, grandchild):
        assert broken_rules(store.history(job.id)) == []


@pytest.mark.parametrize("db", QUICK, indirect=True)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("writes", range(10))
def test_a_worker_finishes_the_revival_that_a_dead_one_has_begun(
    store: JobStore, clock: ManualClock, writes: int, size: int
) -> None:
    parents = many(store, size)
    children = [fan_in(store, parents, unique_key=f"u{number}") for number in range(2)]
    fail(store, parents[0])
    settle_all(store)
    retried = store.retry(parents[0].id)
    try:
        dying(store, writes).settle(retried)
    except InternalServerError:
        left = [store.get(job.id) for job in (retried, *children)]
        assert any(job.reviving or job.unregistered for job in left), "the claim index marks what is left to do"
    settle_all(store)
    clock.advance(60)
    settle_all(store)
    for parent in parents:
        finish(store, parent)
    settle_all(store)
    assert set(claimable(store)) == {child.id for child in children}
    assert [events(store, child).count("revived") for child in children] == [1, 1]


@pytest.mark.parametrize("db", QUICK, indirect=True)
@pytest.mark.parametrize("policy", ["all_completed", "all_ended", "any_completed"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("write", range(1, 5))
def test_a_slow_worker_revives_nothing_after_the_next_failure(
    store: JobStore, write: int, size: int, policy: str
) -> None:
    """5: two workers revive the same children; one is so slow that the parent has failed again meanwhile."""
    parents = many(store, size)
    children = [fan_in(store, parents, policy) for _ in range(2)]
    for parent in parents[1:-1] if policy != "all_completed" else ():
        fail(store, parent)
    settle_all(store)
    fail(store, parents[0])
    settle_all(store)
    retried = store.retry(parents[0].id)

    def action() -> None:
        settle_all(store)
        fail(store, parents[0])
        settle_all(store)

    racing(store, write, action).settle(retried)
    if store.get(parents[0].id).state is State.QUEUED:
        action()
    settle_all(store)
    for child in children:
        found = store.get(child.id)
        assert found.state is (State.CANCELLED if policy == "all_completed" else State.QUEUED)
        if policy == "all_completed":
            assert events(store, child) == ["created", "cancelled", "revived", "cancelled"], "once"
        else:
            assert store.waiting_for(found) == [parents[-1].id]


@pytest.mark.parametrize("db", QUICK, indirect=True)
@pytest.mark.parametrize("size", SIZES)
def test_a_job_that_is_cancelled_in_the_moment_in_which_it_would_wait_again_is_revived(
    store: JobStore, size: int
) -> None:
    first, *others = many(store, size)
    child = fan_in(store, [first, *others], "any_completed")
    for parent in (first, *others[:-1]):
        fail(store, parent)
    settle_all(store)
    last = claimed(store, others[-1])
    retried = store.retry(first.id)
    racing(store, 1, lambda: store.settle(store.fail(last, FAILURE))).settle(retried)
    settle_all(store)
    finish(store, first)
    settle_all(store)
    assert claimable(store) == [child.id]


# ── policies ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", SIZES)
def test_all_ended_begins_when_all_have_ended_however(store: JobStore, size: int) -> None:
    failed, done, *rest = many(store, size)
    fail(store, failed)
    child = fan_in(store, [failed, done, *rest], "all_ended")
    assert store.waiting_for(child) == sorted(job.id for job in (done, *rest))
    finish(store, done)
    for job in rest[:-1]:
        store.cancel(job.id)
    settle_all(store)
    assert claimable(store) == [rest[-1].id]
    fail(store, rest[-1])
    settle_all(store)
    assert claimable(store) == [child.id]
    assert fan_in(store, [failed, done], "all_ended").is_waiting is False


@pytest.mark.parametrize("size", SIZES)
def test_any_completed_begins_at_the_first_completion(store: JobStore, size: int) -> None:
    failed, done, *rest = many(store, size)
    child = fan_in(store, [failed, done, *rest], "any_completed")
    fail(store, failed)
    settle_all(store)
    assert child.id not in claimable(store)
    finish(store, done)
    settle_all(store)
    assert child.id in claimable(store)
    claimed(store, child)
    for job in rest:
        fail(store, job)
    settle_all(store)
    assert store.get(child.id).state is State.PROCESSING
    assert not fan_in(store, [failed, done], "any_completed").is_waiting


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("again", [0, -1])
def test_any_completed_is_cancelled_when_none_can_complete_any_more_and_revived_by_each(
    store: JobStore, size: int, again: int
) -> None:
    parents = many(store, size)
    child = fan_in(store, parents, "any_completed")
    for parent in parents:
        assert store.get(child.id).state is State.QUEUED
        fail(store, parent)
        settle_all(store)
    assert store.get(child.id).cancel_reason == f"{parents[-1].id}, the last that it waited for, is failed"
    with pytest.raises(BadJob, match="can complete any more: all have failed"):
        fan_in(store, parents, "any_completed")
    store.retry(parents[again].id)
    settle_all(store)
    finish(store, parents[again])
    settle_all(store)
    assert claimable(store) == [child.id]


@pytest.mark.parametrize("policy", ["all_ended", "any_completed"])
@pytest.mark.parametrize("size", SIZES)
def test_a_job_that_still_waits_waits_again_for_a_parent_that_is_retried(
    store: JobStore, size: int, policy: str
) -> None:
    first, *others = many(store, size)
    child = fan_in(store, [first, *others], policy)
    fail(store, first)
    settle_all(store)
    store.retry(first.id)
    settle_all(store)
    for other in others:
        fail(store, other)
    settle_all(store)
    found = store.get(child.id)
    assert (found.state, store.waiting_for(found)) == (State.QUEUED, [first.id])
    finish(store, first)
    settle_all(store)
    assert claimable(store) == [child.id]


@pytest.mark.parametrize("policy", ["all_completed", "all_ended", "any_completed"])
@pytest.mark.parametrize("size", SIZES)
def test_a_parent_that_is_gone_has_ended_without_completion(
    store: JobStore, clock: ManualClock, policy: str, size: int
) -> None:
    gone, *others = many(store, size)
    child = fan_in(store, [gone, *others], policy)
    store.db.execute("DeleteItem", {"TableName": store.layout.table, "Key": store.layout.main_key(gone.id)})
    clock.advance(16 * 24 * 3600.0)
    store.look_after("default")
    assert store.get(child.id).state is (State.CANCELLED if policy == "all_completed" else State.QUEUED)
    if policy != "all_completed":
        finish(store, others[0])
        for other in others[1:]:
            fail(store, other)
        settle_all(store)
        assert claimable(store) == [child.id]


# ── many ─────────────────────────────────────────────────────────────────────────────────────────


def main_writes(calls: list[Any], store: JobStore, job: Job) -> int:
    key, count = store.layout.main_key(job.id), 0
    for operation, request, _ in calls:
        puts = [request] if operation == "PutItem" else [one.get("Put", {}) for one in request.get("TransactItems", ())]
        count += sum(1 for put in puts if put and {name: put["Item"].get(name) for name in key} == key)
    return count


@ON_OURS
def test_writes_of_the_main_record_and_its_size_do_not_grow_with_the_parents(store: JobStore) -> None:
    """6."""
    seen = []
    for number in (50, 200):
        parents = many(store, number)
        counting_store, counting = counted(store)
        child = fan_in(counting_store, parents)
        size = len(str(store.layout.main(store.get(child.id))))
        for parent in parents:
            assert not store.get(child.id).needs_settling
            assert store.get(child.id).is_waiting
            finish(store, parent)
            counting_store.settle(store.get(parent.id))
        assert claimable(store) == [child.id]
        finish(counting_store, child)
        seen.append((main_writes(counting.calls, store, child), size))
        writes = [one for one in counting.operations if one in ("PutItem", "UpdateItem", "TransactWriteItems")]
        assert len(writes) <= 2 * number + number // 40 + 8, "each parent tells it by one write, and notes that it has"
    assert seen[0][0] == seen[1][0] == 5
    assert abs(seen[0][1] - seen[1][1]) <= 3, "but for a digit"


@ON_OURS
def test_reads_for_each_parent_do_not_grow_either(store: JobStore) -> None:
    parents = many(store, 300)
    fan_in(store, parents)
    ended = finish(store, parents[0])
    counting_store, counting = counted(store)
    counting_store.settle(store.get(ended.id))
    (answer,) = [answer for operation, _, answer in counting.calls if operation == "BatchGetItem"]
    assert len(answer["Responses"][store.layout.table]) == 1, "one of the three records"
    assert len(counting.calls) == 5


@ON_OURS
@pytest.mark.parametrize("writes", range(1, 6))
def test_a_worker_finishes_the_registration_with_many_that_a_dead_maker_has_begun(
    store: JobStore, clock: ManualClock, writes: int
) -> None:
    parents = many(store, 120)
    done = finish(store, parents[0])
    try:
        fan_in(dying(store, writes), parents, id="child")
    except InternalServerError:
        assert store.get("child").unregistered
    for parent in parents[1:60]:
        finish(store, parent)
    settle_all(store)
    clock.advance(30)
    settle_all(store)
    child = store.get("child")
    assert not child.unregistered
    assert store.waiting_for(child) == sorted(job.id for job in parents[60:])
    assert store.depends_on(child) == [done.id, *(job.id for job in parents[1:])]
    for parent in parents[60:]:
        finish(store, parent)
    settle_all(store)
    settle_all(store)
    assert claimable(store) == ["child"]


@ON_OURS
@pytest.mark.parametrize("writes", range(4))
def test_a_worker_that_dies_while_it_tells_the_last_of_many_is_no_loss(store: JobStore, writes: int) -> None:
    parents = many(store, 30)
    child = fan_in(store, parents)
    for parent in parents[:-1]:
        finish(store, parent)
    settle_all(store)
    last = finish(store, parents[-1])
    try:
        dying(store, writes).settle(last)
    except InternalServerError:
        assert store.get(last.id).has_children
    settle_all(store)
    assert claimable(store) == [child.id]


@ON_OURS
def test_records_of_dependencies_live_as_long_as_their_job(store: JobStore, clock: ManualClock) -> None:
    parents = many(store, 150)
    child = fan_in(store, parents)
    before = expiries(store, child.id)
    clock.advance(16 * 24 * 3600.0)
    store.look_after("default")
    after = expiries(store, child.id)
    assert (len(before), len(after)) == (1, 1)
    assert min(after) > max(before)


def test_a_job_of_version_0_1_with_many_parents_in_its_main_record_goes_on(store: JobStore) -> None:
    parents = many(store, 30)
    child = made(store, "join", depends_on=tuple(job.id for job in parents[:10]))
    for parent in parents[10:]:
        store.db.execute(
            "PutItem", {"TableName": store.layout.table, "Item": store.layout.child(parent, child.id).item}
        )
        key = store.layout.main_key(parent.id)
        add = {"UpdateExpression": "SET has_children = :yes", "ExpressionAttributeValues": {":yes": {"BOOL": True}}}
        store.db.execute("UpdateItem", {"TableName": store.layout.table, "Key": key, **add})
    ids = [job.id for job in parents]
    old = {**store.layout.main(store.get(child.id)), "after": {"L": [{"S": one} for one in ids]}}
    old["waiting_for"] = {"SS": ids}
    store.db.execute("PutItem", {"TableName": store.layout.table, "Item": old})
    for parent in parents[1:]:
        finish(store, parent)
    settle_all(store)
    assert store.waiting_for(store.get(child.id)) == [parents[0].id]
    fail(store, parents[0])
    settle_all(store)
    assert store.get(child.id).state is State.CANCELLED
    store.retry(parents[0].id)
    settle_all(store)
    finish(store, parents[0])
    settle_all(store)
    assert claimable(store) == [child.id]


@ON_OURS
def test_why_says_how_many_of_how_many_it_waits_for_and_names_a_few(store: JobStore) -> None:
    parents = many(store, 200)
    child = fan_in(store, parents)
    for parent in parents[:10]:
        finish(store, parent)
    settle_all(store)
    found = store.get(child.id)
    words = explain(found, gather(store, found))
    assert words.startswith(f"{child.id} waits for 190 of 200 jobs: job_")
    assert words.endswith("and 187 more.")
    assert words.count("(queued)") == 3


# ── in every order ───────────────────────────────────────────────────────────────────────────────

POLICIES = ["all_completed", "all_completed", "all_ended", "any_completed"]
STEPS = st.tuples(
    st.sampled_from(["complete", "fail", "fail", "cancel", "retry", "retry", "settle", "settle", "stale", "die"]),
    st.integers(0, 7),
    st.integers(1, 6),
    st.sampled_from(["complete", "fail", "retry", "settle", "cancel", "nothing"]),
)


class Graph:
    """Some jobs that depend on earlier ones; what workers and people do to them."""

    def __init__(self, shape: list[tuple[list[int], str]], inline: bool) -> None:
        self.clock = ManualClock(START)
        self.store = new_store(connect(":memory:"), self.clock)
        self.padding = [] if inline else [finish(self.store, job) for job in many(self.store, INLINE_DEPENDENCIES + 1)]
        self.ids: list[str] = []
        self.parents: dict[str, list[str]] = {}
        self.seen: list[Job] = []
        for number, (places, policy) in enumerate(shape):
            parents = sorted({self.ids[place % number] for place in places}) if number else []
            # With `any_completed` a job of the padding would be enough.
            padding = [job.id for job in self.padding] if parents and policy != "any_completed" else []
            job = made(
                self.store, depends_on=(*parents, *padding), depends_on_policy=policy if parents else POLICIES[0]
            )
            self.ids.append(job.id)
            self.parents[job.id] = parents

    def do(self, step: str, place: int, write: int, meanwhile: str) -> None:
        job_id = self.ids[place % len(self.ids)]
        store = (
            self.store
            if meanwhile == "nothing"
            else racing(self.store, write, lambda: self.do(meanwhile, place + 1, 1, "nothing"))
        )
        if step in ("complete", "fail"):
            job = self.store.claim(self.store.get(job_id), "w1", 30.0)
            if job is not None:
                self.seen.append(self.store.complete(job) if step == "complete" else self.store.fail(job, FAILURE))
        elif step in ("cancel", "retry"):
            with contextlib.suppress(BadTransition):
                self.seen.append(self.store.cancel(job_id) if step == "cancel" else self.store.retry(job_id))
        elif step == "stale" and self.seen:
            store.settle(self.seen[place % len(self.seen)])
        else:
            left = [job for job in self.store.claimable("default", 100).jobs if job.needs_settling]
            for job in left[:1]:
                self.seen.append(job)
                if step != "die":
                    store.settle(job)
                    continue
                with contextlib.suppress(InternalServerError):
                    dying(self.store, write).settle(job)

    def check(self) -> None:
        """Everything that can run runs; what is cancelled has a reason that still holds."""
        for _ in range(3 * len(self.ids)):
            self.clock.advance(60)
            settle_all(self.store)
            for job_id in claimable(self.store):
                if job_id in self.parents:
                    finish(self.store, self.store.get(job_id))
        states = {job_id: self.store.get(job_id).state for job_id in self.ids}
        assert set(states.values()) <= {State.COMPLETED, State.FAILED, State.CANCELLED}, "nobody waits for ever"
        for job_id in self.ids:
            history = self.store.history(job_id)
            assert broken_rules(history) == []
            job, ends = history.job, [states[one] for one in self.parents[job_id]]
            if job.cancelled_by is None:
                continue
            assert states[job.cancelled_by] in (State.FAILED, State.CANCELLED)
            if job.depends_on_policy == "any_completed":
                assert State.COMPLETED not in ends


SHAPES = st.lists(st.tuples(st.lists(st.integers(0, 7), max_size=3), st.sampled_from(POLICIES)), min_size=2, max_size=7)


@settings(max_examples=150)
@given(SHAPES, st.lists(STEPS, max_size=40), st.booleans())
def test_whatever_happens_in_whatever_order_nobody_waits_for_ever_and_every_cancellation_has_a_reason(
    shape: list[tuple[list[int], str]], steps: list[tuple[str, int, int, str]], inline: bool
) -> None:
    graph = Graph(shape, inline)
    for step in steps:
        graph.do(*step)
    graph.check()
    graph.store.db.close()
