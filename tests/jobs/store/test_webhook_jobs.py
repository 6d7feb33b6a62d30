"""The delivery of a webhook is made by the write that ends its job, on every database."""

from __future__ import annotations

from typing import Any

import pytest
from job_worlds import FAILURE, claimed, made, running, same_table

from penstock.client.database import Database
from penstock.client.wrappers.faults import Faults, Rates
from penstock.client.wrappers.retries import RequestRetries, Retrying
from penstock.clock import ManualClock
from penstock.jobs.model.job import Job
from penstock.jobs.model.webhook import WEBHOOK_TASK
from penstock.jobs.store.store import JobStore

URL = "https://example.com/hooks"


def told(store: JobStore) -> list[tuple[str, str]]:
    """The jobs and states that deliveries are about."""
    jobs = store.find(task=WEBHOOK_TASK, limit=100).jobs
    events: list[dict[str, Any]] = [store.load(job, job.args)["event"] for job in jobs]
    return sorted((event["job_id"], event["state"]) for event in events)


def test_every_way_to_end_makes_one_delivery(store: JobStore, clock: ManualClock) -> None:
    completed = store.complete(running(store, webhook=URL), {"rows": 1})
    limited = running(store, webhook=URL, unique_key="u", concurrency_key="c")
    failed = store.fail(limited, FAILURE)
    cancelled = store.cancel(made(store, webhook=URL).id, "not needed")
    asked = running(store, webhook=URL)
    store.cancel(asked.id)
    store.end_cancelled(asked)
    expected = [(completed.id, "completed"), (failed.id, "failed")]
    expected += [(cancelled.id, "cancelled"), (asked.id, "cancelled")]
    assert told(store) == sorted(expected)


def test_a_job_that_kills_its_workers_is_told(store: JobStore, clock: ManualClock) -> None:
    job: Job | None = running(store, webhook=URL)
    for number in range(9):
        clock.advance(31)
        current = store.get(job.id) if job is not None else None
        if current is None or current.is_terminal:
            break
        job = store.claim(current, f"w{number}", 30) or current
    assert job is not None and told(store) == [(job.id, "failed")]


def test_a_retry_and_a_requeue_are_no_ends(store: JobStore, clock: ManualClock) -> None:
    job = store.fail(running(store, webhook=URL), FAILURE, retry_at=clock.now())
    assert told(store) == []
    store.requeue(claimed(store, job), "its worker stops")
    assert told(store) == []


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_end_whose_answer_was_lost_has_one_delivery(store: JobStore, seed: int) -> None:
    job = running(store, webhook=URL)
    faults = Faults(store.db.transport, Rates(timeout_after=0.7), seed=seed)
    lossy = same_table(store, Database(Retrying(faults, RequestRetries(attempts=50), unlimited=True, sleep=bool)))
    lossy.complete(job)
    assert told(store) == [(job.id, "completed")]


def test_a_second_end_by_a_fenced_worker_has_none(store: JobStore, clock: ManualClock) -> None:
    late = running(store, webhook=URL)
    clock.advance(60)
    current = claimed(store, late, "w2")
    store.complete(current)
    with pytest.raises(Exception, match="lease"):
        store.complete(late)
    assert told(store) == [(late.id, "completed")]
