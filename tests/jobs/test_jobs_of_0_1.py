"""Jobs that version 0.1 has stored go on, in every state (fixtures/make_jobs_0_1.py)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from worker_worlds import work

import penstock
from penstock.client.database import Database
from penstock.jobs.layouts.item_collection import CollectionLayout
from penstock.jobs.model.job import Job
from penstock.jobs.model.state import State

STORED: dict[str, Any] = orjson.loads((Path(__file__).parent / "fixtures" / "jobs_0_1.json").read_bytes())
LATER = 700.0
"""By then everything that was delayed is due, and every lease has run out."""
ENDED_BEFORE = {
    "failed": State.FAILED,
    "fails-children": State.FAILED,
    "completed": State.COMPLETED,
    "completed-long": State.COMPLETED,
    "tells": State.COMPLETED,
    "cancelled": State.CANCELLED,
}
CANCELLED = {"cancel-asked", "is-cancelled"}
LEFT = {"ready-other-task", "ready-paused"}

pytestmark = pytest.mark.parametrize("db", ["file", "moto"], indirect=True)


class Later:
    """A clock that has gone on since the fixture was made."""

    def __init__(self) -> None:
        self._ahead = STORED["now"] + LATER - time.time()

    def now(self) -> float:
        return time.time() + self._ahead


@pytest.fixture
def app(db: Database) -> Iterator[penstock.App]:
    """An app on a table with what 0.1 has stored."""
    table = f"jobs-{secrets.token_hex(4)}"
    app = penstock.App(db, layout=CollectionLayout(table, shards=2), clock=Later())
    app.store.create_tables()
    for item in STORED["items"]:
        db.execute("PutItem", {"TableName": table, "Item": item})
    yield app
    db.execute("DeleteTable", {"TableName": table})


def job_ids() -> set[str]:
    return {item["job_id"]["S"] for item in STORED["items"] if item["record"]["S"] == "main" and "task" in item}


def with_notes(app: penstock.App, begun: list[str]) -> None:
    @app.task(retries=3)
    def note(ctx: penstock.JobContext, name: str) -> str:
        begun.append(ctx.id)
        return name[:100]


def jobs(app: penstock.App) -> dict[str, Job]:
    return {job.id: job for job in app.store.get_many(sorted(job_ids()))}


def test_every_job_goes_on(app: penstock.App) -> None:
    begun: list[str] = []
    with_notes(app, begun)
    work(app, concurrency=1, queues=("default", "mail"))
    found = jobs(app)
    states = {name: job.state for name, job in found.items()}
    assert {name: states[name] for name in ENDED_BEFORE} == ENDED_BEFORE
    assert {name for name in LEFT if states[name] is State.QUEUED} == LEFT
    assert {name: states[name] for name in CANCELLED} == dict.fromkeys(CANCELLED, State.CANCELLED)
    rest = set(states) - LEFT - CANCELLED - set(ENDED_BEFORE)
    assert {name: states[name] for name in rest} == dict.fromkeys(rest, State.COMPLETED)
    assert sorted(begun) == sorted(rest)
    assert app.store.side_items.slot_holders("bank") == []
    assert (found["crashed-queued"].crashes, found["crashed-queued"].attempt) == (1, 3)
    assert begun.index("parent") < begun.index("waits")


def test_the_order_of_what_was_ready_is_kept(app: penstock.App) -> None:
    found = [job.id for job in app.store.claimable("default", 100).jobs]
    ready = [f"ready-{priority}-{tenant}" for priority in (9, 5, 0) for tenant in ("none", "acme", "zeta")]
    assert [name for name in found if name in ready] == ready


def test_a_queue_that_was_paused_is_resumed_and_another_app_has_the_other_task(app: penstock.App) -> None:
    begun: list[str] = []
    with_notes(app, begun)
    work(app, concurrency=1, queues=("default", "mail"))
    other = penstock.App(app.store.db, layout=app.store.layout, clock=app.store.clock)

    @other.task()
    def elsewhere(ctx: penstock.JobContext, name: str) -> None:
        begun.append(ctx.id)

    assert work(other, concurrency=1).completed == 1
    assert app.store.queue("mail").reason == "lunch"
    app.store.resume("mail")
    assert work(app, concurrency=1, queues=("mail",)).completed == 1
    assert begun[-2:] == ["ready-other-task", "ready-paused"]


def test_what_was_failed_is_retried_with_its_unique_key(app: penstock.App) -> None:
    begun: list[str] = []
    with_notes(app, begun)
    app.retry("failed")
    work(app, concurrency=1)
    assert jobs(app)["failed"].state is State.COMPLETED


def test_checkpoints_logs_and_long_payloads_are_read(app: penstock.App) -> None:
    history = app.store.history("running")
    assert [entry.message for entry in history.entries] == ["so far", "hello"]
    assert [(one.name, one.summary) for one in history.checkpoints] == [("rows", "7 rows")]
    assert app.store.load(history.job, history.checkpoints[0].data) == {"rows": 7}
    assert app.result("completed-long") == "x" * 40_000
    assert [event.number for event in app.store.history("requeued").events] == list(range(1, 12))
