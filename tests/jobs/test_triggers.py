"""Tasks that run for each change of a table (jobs/triggers.py)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from worker_worlds import work

import penstock
from penstock import F, Table
from penstock.errors import PenstockError
from penstock.jobs.model.job import BadJob
from penstock.jobs.triggers import ChangeJobs
from penstock.jobs.worker.worker import Worker
from penstock.streams import status
from penstock.streams.errors import BadGroup
from penstock.tables.apply.apply import make


@pytest.fixture
def app(tmp_path: Path) -> Iterator[penstock.App]:
    with penstock.App(tmp_path / "shop.db") as app:
        make(app.store.db, Table("orders", key="id:S", stream="NEW_AND_OLD_IMAGES"), "orders")
        yield app


def orders(app: penstock.App):
    return app.store.db.table("orders")


def test_each_change_that_is_chosen_is_one_job(app: penstock.App) -> None:
    seen: list[tuple[str, str]] = []

    @app.on_change("orders", kinds=["insert", "modify"], where=F("status") == "paid", start="oldest", retries=3)
    def send_receipt(ctx: penstock.JobContext, change: penstock.Change) -> str:
        seen.append((change.kind, change.keys["id"]))
        return change.keys["id"]

    orders(app).put({"id": "1", "status": "new"})
    orders(app).put({"id": "2", "status": "paid", "price": 5})
    orders(app).update({"id": "1"}, set={"status": "paid"})
    orders(app).delete({"id": "2"})
    assert work(app).completed == 2
    assert sorted(seen) == [("insert", "2"), ("modify", "1")]
    assert {job.task for job in app.jobs.find()} == {"send_receipt"}
    assert work(app).completed == 0, "they are not made again"
    assert status.groups_of(app.store.db, "orders") == [("orders", "task.send_receipt")]


def test_a_change_that_is_delivered_twice_is_one_job(app: penstock.App) -> None:
    @app.on_change(Table("orders", key="id:S"), start="oldest")
    def once(change: penstock.Change) -> None: ...

    for n in range(5):
        orders(app).put({"id": str(n)})
    assert work(app).completed == 5
    status.reset_group(app.store.db, "orders", "task.once", "oldest")
    assert work(app).completed == 0


def test_a_job_that_fails_is_retried_as_its_task_says(app: penstock.App) -> None:
    calls: list[int] = []

    @app.on_change("orders", start="oldest", retries=penstock.RetryPolicy(2, base_seconds=0.0))
    def flaky(ctx: penstock.JobContext, change: penstock.Change) -> None:
        calls.append(1)
        if len(calls) < 3:
            raise ValueError("not yet")

    orders(app).put({"id": "1"})
    assert work(app).completed == 1
    assert len(calls) == 3


def test_batches_are_one_job_each_and_no_change_is_in_two(app: penstock.App) -> None:
    seen: list[list[str]] = []

    @app.on_change("orders", batch=4, start="oldest")
    def count(changes: list[penstock.Change]) -> None:
        seen.append([one.keys["id"] for one in changes])

    for n in range(6):
        orders(app).put({"id": str(n)})
    work(app)
    assert sorted(map(len, seen)) == [2, 4]
    # A worker that died after it had made the jobs: the next one is given the same changes, and more.
    orders(app).put({"id": "6"})
    jobs = ChangeJobs(app.triggers["count"], app.tasks["count"], app.enqueue_all_new, app.store)
    for batch in orders(app).changes(start="oldest", follow=False).batches(4):
        jobs.make(batch)
    work(app)
    assert sorted(id for ids in seen for id in ids) == [str(n) for n in range(7)]


def test_jobs_of_one_item_run_in_order_also_after_another_worker_takes_over(app: penstock.App) -> None:
    seen: list[tuple[str, int]] = []

    @app.on_change("orders", ordered=True, start="oldest", retries=penstock.RetryPolicy(5, base_seconds=0.01))
    def follow(ctx: penstock.JobContext, change: penstock.Change) -> None:
        assert change.new is not None
        if change.new["n"] == 0 and ctx.attempt < 3:
            raise ValueError("the first of an item takes a while")
        seen.append((change.keys["id"], change.new["n"]))

    jobs = None
    for n in range(6):
        for id in ("a", "b", "c"):
            orders(app).put({"id": id, "n": n})
        # Each round is made by another worker, which knows nothing of the one before.
        jobs = ChangeJobs(app.triggers["follow"], app.tasks["follow"], app.enqueue_all_new, app.store)
        for batch in orders(app).changes("task.follow", start="oldest", follow=False).batches(100):
            jobs.make(batch)
    work(app, concurrency=4)
    for id in ("a", "b", "c"):
        assert [n for key, n in seen if key == id] == list(range(6))


def test_a_worker_that_runs_makes_jobs_of_changes_as_they_happen(app: penstock.App) -> None:
    seen: list[str] = []

    @app.on_change("orders")
    async def note(ctx: penstock.AsyncJobContext, change: penstock.Change) -> None:
        seen.append(change.keys["id"])

    worker = Worker(app, concurrency=2)
    thread = threading.Thread(target=worker.run)
    thread.start()
    ends_at = time.monotonic() + 30
    while not status.groups_of(app.store.db) and time.monotonic() < ends_at:
        time.sleep(0.02)
    time.sleep(0.3)
    orders(app).put({"id": "1"})
    while not seen and time.monotonic() < ends_at:
        time.sleep(0.02)
    worker.stop()
    thread.join()
    assert seen == ["1"]


def test_what_cannot_be_a_trigger_is_refused_at_its_definition(app: penstock.App) -> None:
    def handle(change: penstock.Change) -> None: ...

    with pytest.raises(PenstockError, match="with the table"):
        app.on_change(handle)
    with pytest.raises(BadJob, match="names a table"):
        app.on_change(5)(handle)
    with pytest.raises(BadJob, match="batch is a whole number"):
        app.on_change("orders", batch=0)(handle)
    with pytest.raises(BadJob, match="Leave out one"):
        app.on_change("orders", batch=5, ordered=True)(handle)
    with pytest.raises(BadGroup, match="letters, digits"):
        app.on_change("orders", group="a b")(handle)

    def wrong(ctx: penstock.JobContext, change: penstock.Change, more: int) -> None: ...

    with pytest.raises(BadJob, match=r"def wrong\(ctx, change\)"):
        app.on_change("orders")(wrong)
