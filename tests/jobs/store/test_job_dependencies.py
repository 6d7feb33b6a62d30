"""Jobs that wait for others (dependencies.py, 1-3)."""

from __future__ import annotations

from typing import Any

import pytest
from job_worlds import FAILURE, LEASE, QUICK, claimable, claimed, counted, made, running, same_table, settle_all

from penstock.client.database import Database
from penstock.clock import ManualClock
from penstock.errors import InternalServerError
from penstock.jobs.layouts.item_collection import claim_place
from penstock.jobs.model.job import MOST_DEPENDENCIES, BadJob, Job, JobNotFound, NewJob
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore


def finish(store: JobStore, job: Job) -> Job:
    return store.complete(claimed(store, job), {"of": job.id})


def test_a_fan_out_and_a_fan_in(store: JobStore) -> None:
    source = made(store, "split")
    parts = [made(store, "part", depends_on=(source.id,)) for _ in range(5)]
    sink = made(store, "join", depends_on=tuple(part.id for part in parts))
    assert claimable(store) == [source.id]
    assert store.claim(store.get(sink.id), "w1", LEASE) is None
    finish(store, source)
    settle_all(store)
    assert set(claimable(store)) == {part.id for part in parts}
    for part in parts[:-1]:
        finish(store, part)
        settle_all(store)
        assert sink.id not in claimable(store)
    finish(store, parts[-1])
    settle_all(store)
    assert claimable(store) == [sink.id]
    done = claimed(store, sink)
    assert done.depends_on == tuple(part.id for part in parts)
    assert done.waiting_for == frozenset()
    store.complete(done)
    assert not any(store.get(job.id).has_children for job in (source, *parts, sink))


@pytest.mark.parametrize("end", ["failed", "cancelled", "parked"])
def test_those_who_wait_for_a_job_that_does_not_complete_are_cancelled_all_the_way_down(
    store: JobStore, clock: ManualClock, end: str
) -> None:
    parent = made(store)
    child = made(store, depends_on=(parent.id,), unique_key="u")
    grandchild = made(store, depends_on=(child.id,))
    bystander = made(store, depends_on=(running(store).id,))
    if end == "failed":
        store.fail(claimed(store, parent), FAILURE)
    elif end == "cancelled":
        store.cancel(parent.id)
    else:
        claimed(store, parent)
        while store.get(parent.id).state is State.PROCESSING:
            clock.advance(60)
            store.claim(store.get(parent.id), "w2", LEASE)
    settle_all(store)
    for job, because in ((child, parent), (grandchild, child)):
        found = store.get(job.id)
        assert found.state is State.CANCELLED
        assert f"{because.id}, which it waits for, is" in (found.cancel_reason or "")
    assert store.get(bystander.id).state is State.QUEUED
    assert made(store, unique_key="u").id != child.id


def test_what_has_completed_already_is_not_waited_for(store: JobStore) -> None:
    done = finish(store, made(store))
    child = made(store, depends_on=(done.id,))
    assert (child.waiting_for, child.unregistered, child.depends_on) == (frozenset(), False, (done.id,))
    assert claimable(store) == [child.id]


@pytest.mark.parametrize("end", ["fail", "cancel"])
def test_nobody_waits_for_what_has_failed_already(store: JobStore, end: str) -> None:
    parent = running(store)
    if end == "fail":
        store.fail(parent, FAILURE)
    else:
        store.cancel(parent.id)
        store.end_cancelled(parent)
    with pytest.raises(BadJob, match=f"{parent.id}, which the job is to wait for, is {end}"):
        made(store, depends_on=(parent.id,))


def test_nobody_waits_for_what_is_not_there(store: JobStore) -> None:
    with pytest.raises(JobNotFound, match="There is no job job_nope"):
        made(store, depends_on=(made(store).id, "job_nope"))
    assert len(store.find().jobs) == 1


def test_the_same_job_may_be_named_twice(store: JobStore) -> None:
    parent = made(store)
    child = made(store, depends_on=(parent.id, parent.id))
    finish(store, parent)
    settle_all(store)
    assert claimable(store) == [child.id]


def test_a_job_with_a_time_and_a_parent_waits_for_both(store: JobStore, clock: ManualClock) -> None:
    parent = made(store)
    child = made(store, depends_on=(parent.id,), run_at=clock.now() + 100)
    finish(store, parent)
    settle_all(store)
    assert claimable(store) == []
    clock.advance(100)
    assert claimable(store) == [child.id]


def test_a_waiting_job_can_be_cancelled(store: JobStore) -> None:
    parent = made(store)
    child = made(store, depends_on=(parent.id,))
    store.cancel(child.id)
    finish(store, parent)
    settle_all(store)
    found = store.get(child.id)
    assert (found.state, found.version) == (State.CANCELLED, store.history(child.id).events[-1].number)


# ── those who die between two steps ──────────────────────────────────────────────────────────────


class Dying:
    """A transport whose process is gone after so many writes."""

    def __init__(self, inner: Any, writes: int) -> None:
        self.inner = inner
        self.name = inner.name
        self.left = writes

    def execute(self, operation: str, request: dict[str, Any]) -> Any:
        if operation in ("PutItem", "UpdateItem", "TransactWriteItems"):
            if self.left == 0:
                raise InternalServerError("the process is gone")
            self.left -= 1
        return self.inner.execute(operation, request)

    def close(self) -> None:
        pass


def dying(store: JobStore, writes: int) -> JobStore:
    return same_table(store, Database(Dying(store.db.transport, writes)))


@pytest.mark.parametrize("writes", [1, 2])
def test_a_worker_finishes_what_a_dead_maker_has_begun(store: JobStore, clock: ManualClock, writes: int) -> None:
    """2: made, and then written into the lists of its three parents, or not."""
    parents = [made(store) for _ in range(3)]
    with pytest.raises(InternalServerError):
        made(dying(store, writes), depends_on=tuple(parent.id for parent in parents), id="child")
    assert store.get("child").unregistered
    for parent in parents[:2]:
        finish(store, parent)
    settle_all(store)
    clock.advance(11)
    settle_all(store)
    assert not store.get("child").unregistered
    assert store.get("child").waiting_for == {parents[2].id}
    finish(store, parents[2])
    settle_all(store)
    assert claimable(store) == ["child"]


@pytest.mark.parametrize("writes", range(5))
def test_a_worker_finishes_telling_what_a_dead_one_has_begun(store: JobStore, writes: int) -> None:
    parent = made(store)
    children = [made(store, depends_on=(parent.id,)) for _ in range(3)]
    finish(store, parent)
    try:
        dying(store, writes).settle(store.get(parent.id))
    except InternalServerError:
        assert store.get(parent.id).has_children
    settle_all(store)
    assert set(claimable(store)) == {child.id for child in children}


def test_telling_twice_changes_nothing(store: JobStore) -> None:
    """3."""
    parent = made(store)
    child = made(store, depends_on=(parent.id,))
    ended = finish(store, parent)
    stale = store.get(parent.id)
    store.settle(stale)
    before = store.get(child.id)
    store.settle(stale)
    store.settle(ended)
    assert store.get(child.id) == before
    store.complete(claimed(store, child))
    store.settle(stale)
    assert store.get(child.id).state is State.COMPLETED


class Meanwhile:
    """A transport that lets something happen before the n-th write to the table."""

    def __init__(self, inner: Any, write: int, action: Any) -> None:
        self.inner = inner
        self.name = inner.name
        self.left = write
        self.action = action

    def execute(self, operation: str, request: dict[str, Any]) -> Any:
        if operation in ("PutItem", "TransactWriteItems"):
            self.left -= 1
            if self.left == 0:
                self.action()
        return self.inner.execute(operation, request)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("write", range(1, 5))
@pytest.mark.parametrize("end", ["complete", "fail"])
def test_a_parent_that_ends_while_it_is_registered_with_is_noticed(store: JobStore, write: int, end: str) -> None:
    """Before the child is made, between, or after: it is told, once."""
    parents = [made(store), made(store)]
    held = claimed(store, parents[1])

    def action() -> None:
        if end == "complete":
            store.complete(held)
        else:
            store.fail(held, FAILURE)

    racing = same_table(store, Database(Meanwhile(store.db.transport, write, action)))
    child = made(racing, depends_on=tuple(parent.id for parent in parents))
    settle_all(store)
    if end == "fail" and store.get(held.id).is_terminal:
        assert store.get(child.id).state is State.CANCELLED
        return
    if store.get(held.id).state is State.PROCESSING:
        action()
    finish(store, parents[0])
    settle_all(store)
    assert (store.get(child.id).state is State.CANCELLED) == (end == "fail")
    if end == "complete":
        assert claimable(store) == [child.id]


def test_two_children_that_register_in_the_same_moment_are_both_told(store: JobStore) -> None:
    """Both writes of the parent's main record look alike; neither is taken for the other."""
    parent = made(store)
    others: list[Job] = []
    racing = same_table(
        store,
        Database(Meanwhile(store.db.transport, 2, lambda: others.append(made(store, depends_on=(parent.id,))))),
    )
    child = made(racing, depends_on=(parent.id,))
    finish(store, parent)
    settle_all(store)
    assert set(claimable(store)) == {child.id, others[0].id}


@pytest.mark.parametrize("write", [1, 2])
def test_a_parent_that_is_retried_while_its_children_are_told_tells_later_ones_too(store: JobStore, write: int) -> None:
    """4: whoever told the children of the failed attempt does not forget those of the next."""
    parent = made(store)
    first = made(store, depends_on=(parent.id,))
    failed = store.fail(claimed(store, parent), FAILURE)
    late: list[Job] = []

    def action() -> None:
        store.retry(parent.id)
        late.append(made(store, depends_on=(parent.id,)))

    same_table(store, Database(Meanwhile(store.db.transport, write, action))).settle(failed)
    settle_all(store)
    assert store.get(parent.id).has_children
    finish(store, parent)
    settle_all(store)
    assert set(claimable(store)) == {first.id, late[0].id}


def test_a_job_in_waiting_is_in_no_pool_that_workers_look_at(store: JobStore) -> None:
    child = made(store, depends_on=(made(store).id,))
    place = claim_place(store.get(child.id))
    assert place is not None
    assert place[0] == "keep"


@pytest.mark.parametrize("db", QUICK, indirect=True)
def test_many_parents_are_read_in_batches(store: JobStore) -> None:
    parents = tuple(made(store).id for _ in range(130))
    counting_store, counting = counted(store)
    found = counting_store.get_many(parents)
    assert [job.id for job in found] == list(parents)
    assert counting.operations == ["BatchGetItem", "BatchGetItem"]
    with pytest.raises(JobNotFound, match="job_nope"):
        store.get_many([*parents, "job_nope"])


@pytest.mark.parametrize("db", ["file"], indirect=True)
def test_a_job_waits_for_ten_thousand_others_and_not_for_more(store: JobStore) -> None:
    parents = [f"job_parent_{number:05d}" for number in range(MOST_DEPENDENCIES + 1)]
    template = store.layout.main(store.complete(running(store)))
    for start in range(0, len(parents), 25):
        puts = [{"PutRequest": {"Item": {**template, "job_id": {"S": one}}}} for one in parents[start : start + 25]]
        store.db.execute("BatchWriteItem", {"RequestItems": {store.layout.table: puts}})
    with pytest.raises(BadJob, match="at most 10,000 others, not 10,001: fan in by steps"):
        made(store, depends_on=tuple(parents))
    running_one = running(store, id="job_parent_last")
    counting_store, counting = counted(store)
    wanted = NewJob("join", {}, depends_on=(*parents[: MOST_DEPENDENCIES - 1], "job_parent_last"))
    child, _ = counting_store.create(wanted)
    assert len(counting.calls) < 110, "those that have completed are read in batches, and cost nothing more"
    assert store.waiting_for(child) == ["job_parent_last"]
    assert store.depends_on(child) == list(wanted.depends_on)
    store.complete(running_one)
    settle_all(store)
    assert claimable(store) == [child.id]
