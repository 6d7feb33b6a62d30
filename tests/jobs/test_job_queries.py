"""app.jobs: jobs found by state, task, tenant, tag and time; their history; many changed at once."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from job_worlds import START, items, running, same_table
from worker_worlds import work

import penstock
from penstock.client.database import Database
from penstock.clock import ManualClock
from penstock.jobs.job_queries import BulkChange
from penstock.jobs.model.job import BadJob, JobError, JobNotFound, KeyTaken
from penstock.jobs.store import queries
from penstock.jobs.store.store import JobStore


@pytest.fixture
def app(db: Database, clock: ManualClock) -> penstock.App:
    app = penstock.App(db, table=f"jobs-{secrets.token_hex(4)}", shards=2, clock=clock)

    @app.task(tags=["money"])
    def pay(amount: int) -> int:
        return amount

    @app.task()
    def mail(to: str) -> None:
        raise ConnectionError(f"{to} does not answer")

    return app


def found(app: penstock.App, **query: Any) -> list[str]:
    return [job.id for job in app.jobs.find(**query)]


def test_all_pages_of_a_list_are_found_newest_first(
    app: penstock.App, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("penstock.jobs.job_queries._PAGE", 3)
    made = []
    for number in range(8):
        made.append(app.tasks["pay"].enqueue(amount=number).id)
        clock.advance(1)
    assert found(app) == made[::-1]
    assert found(app, limit=4) == made[:3:-1]
    assert found(app, task="mail") == []


def test_an_iterator_reads_no_more_pages_than_it_is_asked_for(app: penstock.App, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("penstock.jobs.job_queries._PAGE", 2)
    app.tasks["pay"].enqueue_many([{"amount": n} for n in range(6)])
    asked: list[int] = []
    find = queries.JobReader.find

    def counted(self: Any, wanted: Any, now: float, limit: int, token: str | None) -> Any:
        asked.append(limit)
        return find(self, wanted, now, limit, token)

    monkeypatch.setattr(queries.JobReader, "find", counted)
    jobs = app.jobs.find()
    assert asked == []
    next(jobs)
    assert asked == [2]


def test_jobs_are_found_by_their_tags_and_by_those_of_their_task(app: penstock.App):
    pay, mail = app.tasks["pay"], app.tasks["mail"]
    plain = pay.enqueue(amount=1)
    eu = pay.options(tags=["eu", "import", "eu"]).enqueue(amount=2)
    other = mail.options(tags=["eu"]).enqueue(to="ada")
    assert app.get(eu.id).tags == ("money", "eu", "import")
    assert set(found(app, tag="money")) == {plain.id, eu.id}
    assert set(found(app, tag="eu")) == {eu.id, other.id}
    assert found(app, tag="eu", task="mail") == [other.id]
    assert found(app, tag="eu", state="completed") == []
    assert found(app, tag="none") == []
    assert len(found(app)) == 3  # the records of tags are in no other list


def test_tags_are_those_of_a_tenant_where_one_is_named(app: penstock.App):
    mine = app.tasks["mail"].options(tenant="acme", tags=["eu"]).enqueue(to="a")
    nobodys = app.tasks["mail"].options(tags=["eu"]).enqueue(to="b")
    assert found(app, tag="eu", tenant="acme") == [mine.id]
    assert found(app, tag="eu", tenant="") == [nobodys.id]
    assert set(found(app, tag="eu")) == {mine.id, nobodys.id}


def test_tagged_jobs_enqueued_together_are_found(app: penstock.App):
    made = app.tasks["pay"].enqueue_many([{"amount": n} for n in range(5)])
    assert set(found(app, tag="money")) == {job.id for job in made}


def test_the_records_of_tags_expire_with_their_job_and_are_moved_with_it(app: penstock.App, clock: ManualClock):
    job = app.tasks["pay"].options(tags=["eu"]).enqueue(amount=1)
    clock.advance(20 * 24 * 3600)  # of 30 days
    held = app.store.claim(app.get(job.id), "w1", 30)
    assert held is not None and held.expires_at > job.expires_at
    kept = {item["record"]["S"]: int(item["ttl"]["N"]) for item in items(app.store) if item["job_id"]["S"] == job.id}
    assert kept["tag#eu"] == kept["tag#money"] == kept["main"] == held.expires_at


def test_a_job_without_tags_costs_no_more_than_before(app: penstock.App):
    job = app.tasks["mail"].enqueue(to="ada")
    records = [item for item in items(app.store) if item["job_id"]["S"] == job.id]
    assert [one["record"]["S"] for one in records] == ["main"]
    assert "tags" not in records[0]


@pytest.mark.parametrize("tags", ["import", ["a#b"], [""], [7], [f"t{n}" for n in range(6)], ["a/b"]])
def test_bad_tags_are_refused_before_anything_is_written(app: penstock.App, tags: Any):
    with pytest.raises(BadJob):
        app.tasks["mail"].options(tags=tags).enqueue(to="ada")
    with pytest.raises(BadJob):
        app.task("other", tags=tags)(lambda: None)
    assert found(app) == []


def test_a_time_is_aware_or_ago(app: penstock.App, clock: ManualClock):
    old = app.tasks["mail"].enqueue(to="a")
    clock.advance(3600)
    new = app.tasks["mail"].enqueue(to="b")
    assert found(app, since=timedelta(minutes=5)) == [new.id]
    assert found(app, until=timedelta(minutes=5)) == [old.id]
    assert found(app, since=datetime.fromtimestamp(START + 1800, UTC)) == [new.id]
    for wrong in (datetime(2030, 1, 1), 3600, "1h"):
        with pytest.raises(BadJob, match="time zone"):
            app.jobs.find(since=wrong)  # type: ignore[arg-type]


def test_a_bad_filter_is_refused_when_it_is_given(app: penstock.App):
    with pytest.raises(BadJob, match="there are ready, scheduled"):
        app.jobs.find(state="done")
    for limit in (0, -1, True):
        with pytest.raises(BadJob, match="limit"):
            app.jobs.find(limit=limit)
    with pytest.raises(BadJob, match="1 to 1,000"):
        app.jobs.page(limit=5000)


def test_pages_have_tokens_that_neither_repeat_nor_leave_out(app: penstock.App, clock: ManualClock):
    for number in range(5):
        app.tasks["pay"].options(tags=["eu"]).enqueue(amount=number)
        clock.advance(1)
    first = app.jobs.page(tag="eu", limit=2)
    app.tasks["pay"].options(tags=["eu"]).enqueue(amount=9)
    second = app.jobs.page(tag="eu", limit=2, token=first.token)
    third = app.jobs.page(tag="eu", limit=2, token=second.token)
    assert third.token is None
    ids = [job.id for page in (first, second, third) for job in page.jobs]
    assert len(ids) == len(set(ids)) == 5


def test_the_log_the_events_and_the_history_of_a_job_are_read(app: penstock.App):
    job = running(app.store)
    job = app.store.report(job, progress=10, message="one")
    app.store.report(job, progress=20, message="two")
    assert [entry.message for entry in app.jobs.log(job.id)] == ["one", "two"]
    assert [entry.message for entry in app.jobs.log(job.id, after=1)] == ["two"]
    assert [event.type for event in app.jobs.events(job.id)] == ["created", "started"]
    assert app.jobs.history(job.id).job.id == job.id
    for read in (app.jobs.log, app.jobs.events, app.jobs.history):
        with pytest.raises(JobNotFound):
            read("job_none")


def test_a_queue_is_paused_and_resumed(app: penstock.App):
    app.jobs.pause("default", "the bank is closed")
    assert app.store.queue("default").reason == "the bank is closed"
    app.jobs.resume("default")
    assert not app.store.queue("default").paused
    with pytest.raises(BadJob):
        app.jobs.pause("a#b")


def fail(store: JobStore, task: str, kind: str) -> str:
    return store.fail(running(store, task=task), JobError(kind, "no")).id


def test_only_failed_jobs_of_that_error_are_retried(app: penstock.App):
    lost, bad = fail(app.store, "mail", "ConnectionError"), fail(app.store, "mail", "ValueError")
    app.tasks["mail"].enqueue(to="a")
    dry = app.jobs.retry_all(task="mail", error="ConnectionError", dry_run=True)
    assert dry == BulkChange(1, 0, dry_run=True)
    assert app.get(lost).state == "failed"
    assert app.jobs.retry_all(task="mail", error="ConnectionError") == BulkChange(1, 1)
    assert (app.get(lost).state, app.get(bad).state) == ("queued", "failed")


def test_one_that_cannot_be_retried_stops_no_other(app: penstock.App):
    first = app.tasks["mail"].options(unique_key="k").enqueue(to="a")
    held = app.store.claim(app.get(first.id), "w1", 30)
    assert held is not None
    app.store.fail(held, JobError("ValueError", "no"))
    app.tasks["mail"].options(unique_key="k").enqueue(to="b")
    other = fail(app.store, "mail", "ValueError")
    result = app.jobs.retry_all()
    assert (result.matched, result.changed, result.refused) == (2, 1, 1)
    assert "unique key" in result.refusals[0]
    assert app.get(other).state == "queued"
    with pytest.raises(KeyTaken):
        app.retry(first.id)


def test_queued_and_running_jobs_are_cancelled_together(app: penstock.App):
    queued, held, done = app.tasks["mail"].enqueue(to="a"), running(app.store), fail(app.store, "mail", "X")
    result = app.jobs.cancel_all(reason="a mistake")
    assert (result.matched, result.changed) == (2, 2)
    assert app.get(queued.id).state == "cancelled"
    assert app.get(held.id).cancel_reason == "a mistake"
    assert app.get(done).state == "failed"
    assert app.jobs.cancel_all().matched == 0  # it is told already
    with pytest.raises(BadJob, match="cannot be cancelled"):
        app.jobs.cancel_all(state="failed")


def test_a_task_of_another_program_is_enqueued_by_its_name(app: penstock.App, clock: ManualClock):
    other = penstock.App(app.store.db, table=app.store.layout.table, shards=2, clock=clock)
    job = other.task_named("pay").options(priority=9, tags=["eu"]).enqueue(amount=7)
    assert (job.task, job.priority, job.tags) == ("pay", 9, ("eu",))
    assert other.task_named("pay").enqueue_many([{"amount": 1}, {"amount": 2}])
    assert work(app).completed == 3
    assert app.result(job.id) == 7


def test_what_is_known_of_a_named_task_is_checked(app: penstock.App):
    assert app.task_named("pay") is app.tasks["pay"]
    other = app.task_named("elsewhere")
    with pytest.raises(BadJob):
        other.enqueue(1)
    with pytest.raises(penstock.NotJson):
        other.enqueue(x={1, 2})
    with pytest.raises(BadJob):
        app.task_named("a#b")
    with pytest.raises(penstock.PenstockError, match="another program"):
        other(x=1)


def test_a_store_of_an_older_version_reads_a_tagged_job(app: penstock.App, tmp_path: Path):
    """Its tags are attributes that it does not know, and keeps."""
    job = app.tasks["pay"].enqueue(amount=1)
    raw = app.store.db.execute(
        "GetItem", {"TableName": app.store.layout.table, "Key": app.store.layout.main_key(job.id)}
    )["Item"]
    assert raw["tags"] == {"L": [{"S": "money"}]}
    assert same_table(app.store).get(job.id).tags == ("money",)


def test_tasks_of_penstock_itself_are_not_defined_looked_up_or_scheduled_by_name(clock: ManualClock):
    with penstock.App(":memory:", clock=clock, webhook_secret="a secret of more than 16 bytes") as app:
        own = app.tasks["penstock.webhook"]
        for attempt in (
            lambda: app.task_named("penstock.webhook"),
            lambda: app.task_named("penstock.other"),
            lambda: app.task("penstock.mine")(lambda: None),
            lambda: app.schedules.create("s", "penstock.webhook", "0 7 * * *", args={"event": {}}),
            lambda: app.schedules.create("s", own, "0 7 * * *", args={"event": {}}),
        ):
            with pytest.raises(BadJob, match="Penstock's own tasks"):
                attempt()
        assert not list(app.schedules)
