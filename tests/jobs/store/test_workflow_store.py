"""Waits, events and children in their tables, on every database: what is written together, and what is read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from job_worlds import DAY, START, claimable, claimed, counted, expiries, items, made, new_store, running, settle_all

from penstock.client.database import connect
from penstock.clock import ManualClock
from penstock.jobs.model.job import BadJob, Job, JobCancelled, NewJob, Payload, Wait
from penstock.jobs.model.state import State
from penstock.jobs.model.workflow import MOST_UNREAD_EVENTS, JobSuspended, Operation, child_id
from penstock.jobs.store.store import JobStore
from penstock.jobs.store.workflows import MADE_TOGETHER, child_of


def suspended(store: JobStore, job: Job, wait: Wait, ids: tuple[str, ...] = ()) -> Job:
    return store.workflows.suspend(job, JobSuspended(wait, Operation(wait.key, "", wait.until), ids, job.sent))


def children_of(parent: Job, count: int, **options: Any) -> list[NewJob]:
    new = NewJob("part", {}, **options)
    return [child_of(parent, new, child_id(parent, f"enqueue:{one}")) for one in range(1, count + 1)]


def test_a_sleeping_job_is_claimable_when_its_time_has_come(store: JobStore, clock: ManualClock) -> None:
    job = suspended(store, running(store), Wait("sleep:1", START + 90 * DAY))
    assert (job.state, job.lease, claimable(store)) == (State.QUEUED, None, [])
    assert store.claimable("default", 10).next_at == START + 90 * DAY
    assert expiries(store, job.id) == {int(START + 90 * DAY + store.keep_seconds)}
    clock.advance(90 * DAY)
    assert claimable(store) == [job.id]
    kept = store.workflows.operation(job.id, "sleep:1")
    assert kept is not None
    assert kept.until == START + 90 * DAY


def test_an_event_is_an_item_and_makes_the_job_due(store: JobStore) -> None:
    job = suspended(store, running(store), Wait("wait_for:1", None, "go"))
    assert (job.parked, claimable(store)) == (True, [])
    assert store.claim(job, "w2", 30) is None
    sent = store.workflows.send(job.id, "go", {"by": "ada"})
    assert (sent.parked, sent.sent, sent.unread, claimable(store)) == (False, 1, 1, [job.id])
    event = store.workflows.first_event(job.id, "go")
    assert event is not None
    held = claimed(store, sent)
    held = store.workflows.keep(held, Operation("wait_for:1", "", is_done=True, data=event.data), event)
    assert (held.unread, store.workflows.first_event(job.id, "go")) == (0, None)
    done = store.workflows.operation(job.id, "wait_for:1")
    assert done is not None
    assert store.load(held, done.data) == {"by": "ada"}


def test_one_of_two_sends_with_the_same_id_is_an_event(store: JobStore) -> None:
    job = made(store)
    for _ in range(2):
        store.workflows.send(job.id, "go", 1, event_id="a/b#c")
    assert store.get(job.id).sent == 1
    assert len([one for one in items(store) if "sent#" in one["record"]["S"]]) == 1


def test_concurrent_senders_lose_no_event_and_send_none_twice(store: JobStore, transactions_are_isolated: None) -> None:
    job = made(store)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda one: store.workflows.send(job.id, "go", one, event_id=f"id {one % 6}"), range(12)))
    assert (store.get(job.id).sent, store.get(job.id).unread) == (6, 6)


def test_there_is_a_limit_to_events_that_nobody_takes(store: JobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_UNREAD_EVENTS == 1_000
    monkeypatch.setattr("penstock.jobs.store.workflows.MOST_UNREAD_EVENTS", 2)
    job = made(store)
    for _ in range(2):
        store.workflows.send(job.id, "go")
    with pytest.raises(BadJob, match="has 2 events that it has not taken"):
        store.workflows.send(job.id, "go")


@pytest.mark.parametrize(
    ("name", "event_id", "error"),
    [
        ("", None, "The name of an event is text"),
        ("a#b", None, "The name of an event may not have"),
        ("go", "", "event_id"),
        ("go", "x" * 201, "event_id"),
    ],
)
def test_what_is_no_name_of_an_event_is_refused(store: JobStore, name: str, event_id: str | None, error: str) -> None:
    job = made(store)
    with pytest.raises(BadJob, match=error):
        store.workflows.send(job.id, name, event_id=event_id)
    assert store.get(job.id).sent == 0


def test_a_timeout_is_not_stored_after_an_event(store: JobStore) -> None:
    job = running(store)
    store.workflows.send(job.id, "go")
    done = Operation("wait_for:1", "", is_done=True)
    job, is_kept = store.workflows.keep_timeout(job, done, 0)
    assert (is_kept, job.sent, store.workflows.operation(job.id, "wait_for:1")) == (False, 1, None)
    job, is_kept = store.workflows.keep_timeout(job, done, 1)
    assert is_kept


def test_children_and_the_list_of_them_are_written_together(store: JobStore) -> None:
    parent = running(store)
    counting_store, counting = counted(store)
    parent = counting_store.workflows.enqueue(parent, children_of(parent, MADE_TOGETHER))
    assert [one for one in counting.operations if one.startswith(("Put", "Transact", "Update"))] == [
        "TransactWriteItems"
    ]
    assert parent.child_count == MADE_TOGETHER
    jobs = list(store.workflows.children(parent.id))
    assert len(jobs) == MADE_TOGETHER
    assert {job.parent_id for job in jobs} == {parent.id}
    assert [job.id for job in jobs] == sorted(job.id for job in jobs)


def test_a_cancelled_parent_makes_no_more_children(store: JobStore) -> None:
    parent = running(store)
    store.cancel(parent.id)
    with pytest.raises(JobCancelled):
        store.workflows.enqueue(parent, children_of(parent, 3))
    assert list(store.workflows.made(parent.id)) == []
    assert store.get_existing([new.id or "" for new in children_of(parent, 3)]) == []


def test_a_child_that_is_there_already_is_listed(store: JobStore) -> None:
    parent = running(store)
    news = children_of(parent, 3)
    store.create(news[1])  # by an attempt that died before it could write the list
    parent = store.workflows.enqueue(parent, news)
    assert [child.id for child in store.workflows.made(parent.id)] == [new.id for new in news]
    assert len(store.get_existing([new.id or "" for new in news])) == 3


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_parent_is_due_when_its_last_child_has_ended(store: JobStore, when: str) -> None:
    parent = running(store)
    news = children_of(parent, 3)
    ids = tuple(new.id or "" for new in news)
    parent = store.workflows.enqueue(parent, news)
    if when == "before":
        store.complete(claimed(store, store.get(ids[0])))
        settle_all(store)
    parent = suspended(store, parent, Wait("gather:1", children=3), ids)
    if when == "after":
        store.complete(claimed(store, store.get(ids[0])))
    store.complete(claimed(store, store.get(ids[1])))
    settle_all(store)
    assert store.get(parent.id).is_waiting
    assert store.waiting_for(store.get(parent.id)) == [ids[2]]
    store.cancel(ids[2])
    settle_all(store)
    assert not store.get(parent.id).is_waiting
    assert claimable(store) == [parent.id]


def test_a_child_that_ends_between_the_look_and_the_suspension_is_not_waited_for(store: JobStore) -> None:
    parent = running(store)
    news = children_of(parent, 2)
    parent = store.workflows.enqueue(parent, news)
    for new in news:
        store.complete(claimed(store, store.get(new.id or "")))
    settle_all(store)  # and they have told nobody, for nobody waited
    parent = suspended(store, parent, Wait("gather:1", children=2), tuple(new.id or "" for new in news))
    assert not parent.is_waiting
    assert claimable(store) == [parent.id]


def test_a_dead_worker_leaves_a_parent_that_another_one_registers(store: JobStore, clock: ManualClock) -> None:
    parent = running(store)
    news = children_of(parent, 2)
    parent = store.workflows.enqueue(parent, news)
    for new in news:
        store.complete(claimed(store, store.get(new.id or "")))
    settle_all(store)
    register, store._dependencies.register = store._dependencies.register, lambda job: job  # type: ignore[method-assign]
    parent = suspended(store, parent, Wait("gather:1", children=2), tuple(new.id or "" for new in news))
    store._dependencies.register = register  # type: ignore[method-assign]
    assert parent.is_waiting
    clock.advance(60)
    settle_all(store)
    assert claimable(store) == [parent.id]


def test_a_child_that_is_retried_is_waited_for_again_and_an_old_dependency_is_not(store: JobStore) -> None:
    before = store.complete(running(store))
    dependency = made(store)
    store.fail(claimed(store, dependency), error())
    settle_all(store)
    parent = running(store, depends_on=(before.id, dependency.id), depends_on_policy="all_ended")
    news = children_of(parent, 2)
    ids = tuple(new.id or "" for new in news)
    parent = suspended(store, store.workflows.enqueue(parent, news), Wait("gather:1", children=2), ids)
    store.fail(claimed(store, store.get(ids[0])), error())
    settle_all(store)
    assert store.waiting_for(store.get(parent.id)) == [ids[1]]
    store.retry(ids[0])
    store.retry(dependency.id)
    settle_all(store)
    assert store.waiting_for(store.get(parent.id)) == sorted(ids)


def error() -> Any:
    from penstock.jobs.model.job import JobError

    return JobError("ValueError", "no")


def test_ten_thousand_children_are_waited_for_with_writes_that_do_not_grow_with_their_number() -> None:
    with connect(":memory:") as db:
        store = new_store(db, ManualClock(START))
        parent = running(store)
        news = children_of(parent, 10_000)
        counting_store, counting = counted(store)
        for start in range(0, len(news), MADE_TOGETHER):
            parent = counting_store.workflows.enqueue(parent, news[start : start + MADE_TOGETHER])
        writes = [one for one in counting.operations if one not in ("Query", "GetItem", "BatchGetItem")]
        assert len(writes) == -(-10_000 // MADE_TOGETHER)
        counting.calls.clear()
        ids = tuple(new.id or "" for new in news)
        parent = suspended(counting_store, parent, Wait("gather:1", children=10_000), ids)
        writes = [one for one in counting.operations if one not in ("Query", "GetItem", "BatchGetItem")]
        assert len(writes) == 2, "the wait with its parts, and that all know"
        version = store.get(parent.id).version
        for one in ids[:200]:
            store.complete(claimed(store, store.get(one)))
        settle_all(store)
        assert len(store.waiting_for(store.get(parent.id))) == 9_800
        assert store.get(parent.id).version == version, "the main record is not written for each"


def test_any_number_of_sleepers_changes_nothing_of_what_a_claim_reads() -> None:
    with connect(":memory:") as db:
        clock = ManualClock(START)
        store = new_store(db, clock, shards=4)
        made(store)

        def read() -> tuple[int, int]:
            counting_store, counting = counted(store)
            counting_store.look_after("default")
            counting.calls.clear()
            assert len(counting_store.claimable("default", 96, evenly=True).jobs) == 1
            return len(counting.calls), counting.scanned

        calls, without = read()
        template = store.layout.main(suspended(store, running(store), Wait("sleep:1", START + DAY)))
        for start in range(0, 2_000, 25):
            puts = []
            for one in range(start, start + 25):
                order = template["claim_order"]["S"].replace("#", f"#{one}")
                pool = {"S": f"default#wake#{one % 4}"}
                item = {**template, "job_id": {"S": f"job_{one}"}, "claim_order": {"S": order}, "claim_pool": pool}
                puts.append({"PutRequest": {"Item": item}})
            db.execute("BatchWriteItem", {"RequestItems": {store.layout.table: puts}})
        assert read() == (calls, without + 4), "one of each shard, which says when to look again"


def test_a_payload_of_an_event_is_kept_apart_from_the_main_record(store: JobStore) -> None:
    job = made(store)
    store.workflows.send(job.id, "go", "x" * 100_000)
    event = store.workflows.first_event(job.id, "go")
    assert event is not None
    assert event.data == Payload(f'"{"x" * 100_000}"')
    assert len(str(store.layout.main(store.get(job.id)))) < 3_000
