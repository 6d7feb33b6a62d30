"""Lists of jobs, and one job with all of its history."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from job_worlds import FAILURE, START, claimed, counted, fill, made, new_store, running

from penstock.client.database import connect
from penstock.clock import ManualClock
from penstock.jobs.model.job import Job, JobPage
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore


def pages(find: Callable[[str | None], JobPage]) -> list[list[str]]:
    found, token = [], None
    for _ in range(1_000):
        page = find(token)
        found.append([job.id for job in page.jobs])
        token = page.token
        if token is None:
            return found
    raise AssertionError("the pages never end")


def ids(page: JobPage) -> list[str]:
    return [job.id for job in page.jobs]


def newest_first(jobs: list[Job]) -> list[str]:
    return [job.id for job in sorted(jobs, key=lambda job: (job.created_at, job.id), reverse=True)]


def test_lists_are_by_state_task_tenant_and_time_newest_first(store: JobStore, clock: ManualClock) -> None:
    jobs = []
    for number in range(24):
        jobs.append(made(store, task="ab"[number % 2], tenant=["", "x", "y"][number % 3]))
        clock.advance(1)
    for job in jobs[:4]:
        store.complete(claimed(store, job))
    jobs = [store.get(job.id) for job in jobs]
    assert ids(store.find()) == newest_first(jobs)
    for tenant in ("", "x", "y", "nobody"):
        for task in (None, "a", "b", "c"):
            for state in (None, State.COMPLETED, State.QUEUED, State.FAILED):
                wanted = [
                    job
                    for job in jobs
                    if job.tenant == tenant and task in (None, job.task) and state in (None, job.state)
                ]
                assert ids(store.find(tenant=tenant, task=task, state=state)) == newest_first(wanted)
    middle = [job for job in jobs if START + 5 <= job.created_at <= START + 10]
    assert ids(store.find(since=START + 5, until=START + 10)) == newest_first(middle)
    assert ids(store.find(since=START + 10, until=START + 5)) == []


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
def test_pages_neither_repeat_nor_leave_out_while_jobs_arrive(store: JobStore, clock: ManualClock, limit: int) -> None:
    jobs = []
    for number in range(20):
        jobs.append(made(store, tenant="xy"[number % 2]))
        clock.advance(random.Random(number).choice([0, 0.001, 5]))
    clock.advance(1)

    def find(token: str | None) -> JobPage:
        made(store, tenant="x")
        return store.find(limit=limit, token=token)

    found = pages(find)
    seen = [job_id for page in found for job_id in page]
    assert [job_id for job_id in seen if job_id in {job.id for job in jobs}] == newest_first(jobs)
    assert all(len(page) == limit for page in found[:-1])
    assert len(seen) == len(set(seen))


def test_the_last_page_says_that_it_is_the_last(store: JobStore) -> None:
    for _ in range(4):
        made(store)
    first = store.find(limit=2)
    assert first.token is not None
    assert store.find(limit=2, token=first.token).token is None
    assert store.find(limit=4).token is None
    with pytest.raises(ValueError, match="limit is at least 1"):
        store.find(limit=0)


def test_a_rare_job_is_found_in_few_calls(store: JobStore, clock: ManualClock) -> None:
    """Two conditions, and the index has only one of them: the rest is filtered a page at a time."""
    rare = made(store, task="rare")
    for _ in range(60):
        made(store, task="common")
    counting_store, counting = counted(store)
    page = counting_store.find(state=State.QUEUED, task="rare", tenant="", limit=20)
    assert (ids(page), page.token) == ([rare.id], None)
    assert len(counting.calls) <= 16


def test_a_page_goes_on_when_time_has_moved_past_its_place(store: JobStore, clock: ManualClock) -> None:
    """`since` is "the last hour": the next page's may be later than where this one ended."""
    for _ in range(4):
        made(store)
        clock.advance(10)
    page = store.find(limit=2, since=START)
    assert ids(store.find(limit=2, since=START + 100, token=page.token)) == []


def test_tenants_do_not_see_each_other(store: JobStore) -> None:
    mine, theirs, nobodys = made(store, tenant="x"), made(store, tenant="x2"), made(store)
    assert ids(store.find(tenant="x")) == [mine.id]
    assert ids(store.find(tenant="x2")) == [theirs.id]
    assert ids(store.find(tenant="")) == [nobodys.id]
    assert ids(store.find(tenant="x#", task="report")) == []
    assert sorted(ids(store.find())) == sorted([mine.id, theirs.id, nobodys.id])


def test_what_has_expired_is_in_no_list(store: JobStore, clock: ManualClock) -> None:
    """And does not make a page shorter than it should be."""
    old = [store.cancel(made(store).id) for _ in range(5)]
    clock.advance(29 * 86_400)
    young = [made(store) for _ in range(3)]
    clock.advance(2 * 86_400)
    assert old[0].expires_at <= clock.now() < young[0].expires_at
    page = store.find(limit=3)
    assert sorted(ids(page)) == sorted(job.id for job in young)
    assert page.token is None
    assert ids(store.find(state=State.CANCELLED)) == []


@given(st.data())
@settings(max_examples=25)
def test_any_page_size_gives_the_same_list(data: st.DataObject) -> None:
    clock = ManualClock(START)
    with connect() as db:
        store = new_store(db, clock, shards=data.draw(st.integers(1, 3)))
        for _ in range(data.draw(st.integers(0, 12))):
            made(store, task=data.draw(st.sampled_from("ab")), tenant=data.draw(st.sampled_from(["", "x"])))
            clock.advance(data.draw(st.sampled_from([0.0, 0.0004, 1.0])))
        task = data.draw(st.sampled_from([None, "a"]))
        limit = data.draw(st.integers(1, 13))
        state = data.draw(st.sampled_from([None, State.QUEUED]))
        whole = ids(store.find(limit=1_000, task=task, state=state))
        paged = pages(lambda token: store.find(limit=limit, token=token, task=task, state=state))
        assert [job_id for page in paged for job_id in page] == whole


# ── one job ──────────────────────────────────────────────────────────────────────────────────────


def lived(store: JobStore) -> Job:
    """A job with some history."""
    job = running(store)
    for number in range(5):
        job = store.report(job, progress=number * 10, step=f"step {number}", data={"n": number})
    job = store.report(job, checkpoint="rows", value=[1])
    return store.fail(job, FAILURE)


@pytest.mark.parametrize("others", [10, 10_000])
def test_a_job_with_its_history_is_one_query_whatever_the_tables_size(others: int) -> None:
    """queries.py, 1: the same calls, and the same number of items looked at."""
    with connect() as db:
        store = new_store(db, ManualClock(START))
        job = lived(store)
        fill(store, others)
        counting_store, counting = counted(store)
        history = counting_store.history(job.id)
        assert counting.operations == ["Query"]
        assert 1 + 6 + 1 <= counting.scanned <= 1 + 6 + 1 + 3
        assert [entry.step for entry in history.entries][:2] == ["step 0", "step 1"]
        assert [event.type for event in history.events] == ["created", "started", "failed"]


def test_history_is_in_order(store: JobStore, clock: ManualClock) -> None:
    job = running(store)
    for number in range(12):
        clock.advance(0.5)
        job = store.report(job, progress=number, message=f"m{number}")
    job = store.report(job, checkpoint="z", value=1)
    clock.advance(1)
    job = store.report(job, checkpoint="a", value=1, version=3, summary="all rows")
    history = store.history(job.id)
    assert [entry.number for entry in history.entries] == list(range(1, 15))
    assert [entry.message for entry in history.entries[:12]] == [f"m{number}" for number in range(12)]
    assert [point.name for point in history.checkpoints] == ["z", "a"]
    assert (history.checkpoints[1].version, history.checkpoints[1].summary) == (3, "all rows")
    assert history.job == store.get(job.id)


def test_a_history_of_many_pages_is_read_whole(store: JobStore) -> None:
    job = running(store)
    for _ in range(12):
        job = store.report(job, data="x" * 200_000)
    assert len(store.history(job.id).entries) == 12


def looked_at_by_a_poll(finished: int) -> tuple[int, int, list[str]]:
    with connect() as db:
        store = new_store(db, ManualClock(START))
        fill(store, finished)
        for number in range(5):
            made(store, id=f"waiting_{number}")  # the same each time: ids decide in which shards they are
        counting_store, counting = counted(store)
        job = counting_store.claimable("default", 10).jobs[0]
        assert counting_store.claim(job, "w1", 30.0) is not None
        return len(counting.calls), counting.scanned, counting.operations


def test_a_claim_costs_the_same_with_many_finished_jobs() -> None:
    assert looked_at_by_a_poll(100) == looked_at_by_a_poll(10_000)
