"""Schedules at runtime: what may be done to them, and that each time is one job."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from job_worlds import Counting, new_store

import penstock
from penstock.client.database import Database
from penstock.clock import ManualClock
from penstock.jobs.model.job import BadJob
from penstock.jobs.scheduler.cron import BadCron
from penstock.jobs.scheduler.schedules import LEFT_SECONDS, BadSchedule, ScheduleChanged, ScheduleNotFound, Schedules
from penstock.jobs.worker.registry import WorkerRegistry
from penstock.jobs.worker.scheduler import Scheduler
from penstock.jobs.worker.worker import Worker

START = datetime(2030, 1, 1, 9, 59, tzinfo=UTC).timestamp()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


def new_app(db: Database, clock: ManualClock, table: str) -> penstock.App:
    app = penstock.App(db, table=table, clock=clock, shards=2)

    @app.task(retries=2)
    def report(project: str = "all") -> None: ...

    return app


@pytest.fixture
def app(db: Database, clock: ManualClock, request: pytest.FixtureRequest) -> Iterator[penstock.App]:
    table = f"jobs-{abs(hash(request.node.name))}"
    new_store(db, clock, table)
    yield new_app(db, clock, table)
    db.execute("DeleteTable", {"TableName": table})


def fire(app: penstock.App) -> None:
    """What a worker does at this moment."""
    Worker(app)._heartbeat.scheduler.enqueue_due()


def jobs(app: penstock.App) -> list[str]:
    return sorted(job.id for job in app.store.find().jobs)


def test_a_schedule_enqueues_its_task_with_its_arguments_and_its_name(app: penstock.App, clock: ManualClock) -> None:
    made = app.schedules.create("acme report", "report", "0 * * * *", args={"project": "acme"}, overlap=True)
    assert made.next_at == START + 60
    fire(app)
    assert jobs(app) == []
    clock.advance(60)
    fire(app)
    fire(app)
    assert jobs(app) == ["cron_acme report_20300101T100000.000Z"]
    (job,) = app.store.find().jobs
    assert (job.schedule, job.retries, app.store.load(job, job.args)) == ("acme report", 2, {"project": "acme"})
    saved = app.schedules.get("acme report")
    assert (saved.last_at, saved.last_job, saved.next_at) == (START + 60, job.id, START + 3_660)


def test_each_time_is_one_job_whatever_the_number_of_workers(
    app: penstock.App, clock: ManualClock, transactions_are_isolated: None
) -> None:
    for number in range(5):
        app.schedules.create(f"s{number}", "report", "0 * * * *", overlap=True)
    clock.advance(60)
    apps = [new_app(app.store.db, clock, app.store.layout.table) for _ in range(3)]
    together = threading.Barrier(3)

    def one(app: penstock.App) -> None:
        together.wait(30)
        fire(app)

    threads = [threading.Thread(target=one, args=(one_app,)) for one_app in apps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert jobs(app) == [f"cron_s{number}_20300101T100000.000Z" for number in range(5)]


def test_of_times_that_passed_without_a_worker_the_last_is_made_up_for(app: penstock.App, clock: ManualClock) -> None:
    app.schedules.create("often", "report", every=timedelta(minutes=15))
    clock.advance(2 * 3_600)
    fire(app)
    assert jobs(app) == ["cron_often_20300101T114500.000Z"]


def test_a_worker_that_is_there_misses_no_time_of_a_schedule_of_every_second(
    app: penstock.App, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    app.schedules.create("often", "report", every=timedelta(seconds=1), overlap=True)
    scheduler = Scheduler(app, WorkerRegistry(app.store.db, app.store.layout), lambda: None)
    for _ in range(40):
        scheduler.enqueue_due()
        clock.advance(0.25)
    assert len(app.store.find(task="report", limit=100).jobs) == 9
    assert "without a worker" not in caplog.text


def test_a_paused_schedule_enqueues_nothing_and_makes_up_for_nothing(app: penstock.App, clock: ManualClock) -> None:
    app.schedules.create("hourly", "report", "0 * * * *")
    assert app.schedules.pause("hourly").next_at is None
    clock.advance(7_200)
    fire(app)
    assert jobs(app) == []
    assert app.schedules.resume("hourly").next_at == START + 2 * 3_600 + 60
    fire(app)
    assert jobs(app) == []
    clock.advance(60)
    fire(app)
    assert len(jobs(app)) == 1


def test_a_change_that_was_meant_for_another_revision_is_refused(app: penstock.App, clock: ManualClock) -> None:
    seen = app.schedules.create("s", "report", "0 * * * *").revision
    clock.advance(60)
    fire(app)
    assert jobs(app) and app.schedules.get("s").revision == seen  # times pass, and nobody has changed it
    app.schedules.change("s", cron="@daily", if_revision=seen)
    with pytest.raises(ScheduleChanged, match="s has been changed since you looked") as refused:
        app.schedules.change("s", cron="@weekly", if_revision=seen)
    assert refused.value.now == app.schedules.get("s") and refused.value.now.cron == "@daily"
    seen = app.schedules.get("s").revision
    assert app.schedules.pause("s").revision != seen
    assert app.schedules.change("s", paused=False).revision == seen


def test_a_dry_run_is_checked_and_writes_nothing(app: penstock.App, clock: ManualClock) -> None:
    planned = app.schedules.create("s", "report", "0 * * * *", dry_run=True)
    assert planned.times.next_times(START, 3) == (START + 60, START + 3_660, START + 7_260)
    assert list(app.schedules) == []
    app.schedules.create("s", "report", "@daily")
    with pytest.raises(BadSchedule, match="already"):
        app.schedules.create("s", "report", "@daily", dry_run=True)
    assert app.schedules.change("s", cron="@weekly", paused=True, dry_run=True).cron == "@weekly"
    with pytest.raises(BadJob, match="projekt"):
        app.schedules.change("s", args={"projekt": "a"}, dry_run=True)
    assert (app.schedules.get("s").cron, app.schedules.get("s").paused) == ("@daily", False)


def test_secret_arguments_stay_secret_in_a_program_without_the_task(app: penstock.App, clock: ManualClock) -> None:
    @app.task(secret=("token",))
    def sign(token: str) -> None: ...

    app.schedules.create("s", sign, "@daily", args={"token": "hunter2"})
    other = Schedules(lambda: app.store, {})
    assert other.get("s").shown_args == {"token": "***"}
    other.change("s", cron="@hourly")
    job = app.get(other.run("s").id)
    assert job.secret == ("token",) and app.store.load_to_show(job, job.args) == {"token": "***"}


def test_a_change_holds_from_now_on_and_leaves_the_rest(app: penstock.App, clock: ManualClock) -> None:
    app.schedules.create("s", "report", "0 * * * *", args={"project": "a"}, timezone="Europe/Paris")
    changed = app.schedules.change("s", every=timedelta(seconds=30), args={"project": "b"}, overlap=True)
    assert (changed.cron, changed.timezone, changed.args, changed.overlap, changed.task) == (
        "@every 30s",
        "Europe/Paris",
        {"project": "b"},
        True,
        "report",
    )
    assert app.schedules.get("s") == changed
    clock.advance(30)
    fire(app)
    assert jobs(app) == ["cron_s_20300101T095930.000Z"]


def test_a_schedule_is_run_now_unless_its_job_has_not_ended(app: penstock.App) -> None:
    app.schedules.create("s", "report", "0 * * * *", paused=True)
    first = app.schedules.run("s")
    again = app.schedules.run("s")
    assert (first.is_new, first.schedule, again.is_new, again.id) == (True, "s", False, first.id)
    assert app.schedules.get("s").last_job == first.id
    app.cancel(first.id)
    assert app.schedules.run("s").id != first.id


def test_a_schedule_that_was_deleted_is_gone_and_its_jobs_stay(app: penstock.App, clock: ManualClock) -> None:
    app.schedules.create("s", "report", "0 * * * *")
    clock.advance(60)
    fire(app)
    app.schedules.delete("s")
    clock.advance(3_600)
    fire(app)
    assert (len(jobs(app)), list(app.schedules)) == (1, [])
    for verb in (app.schedules.get, app.schedules.delete, app.schedules.pause, app.schedules.resume, app.schedules.run):
        with pytest.raises(ScheduleNotFound, match="no schedule 's'"):
            verb("s")


def test_a_schedule_for_a_task_with_options_keeps_them(app: penstock.App, clock: ManualClock) -> None:
    report = app.tasks["report"]
    app.schedules.create("s", report.options(queue="slow", tenant="acme", priority=9), "@hourly")
    other = penstock.App(app.store.db, table=app.store.layout.table, clock=clock, shards=2)  # without the task
    for one in (app, other):
        job = one.schedules.run("s")
        assert (job.queue, job.tenant, job.priority, job.retries) == ("slow", "acme", 9, 2)
        app.cancel(job.id)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"cron": "61 * * * *"}, BadCron, "'61' \\(minute\\)"),
        ({}, BadSchedule, "has a cron, such as"),
        ({"cron": "@daily", "every": timedelta(1)}, BadSchedule, "has a cron, such as"),
        ({"every": timedelta(milliseconds=5)}, BadCron, "whole seconds"),
        ({"cron": "@every 0s"}, BadCron, "write @every 90s"),
        ({"cron": "@daily", "timezone": "Mars/Olympus"}, BadCron, "no time zone"),
        ({"cron": "@daily", "args": {"other": 1}}, BadJob, "unexpected keyword argument 'other'"),
        ({"cron": "@daily", "args": {"project": {1, 2}}}, penstock.PenstockError, "project"),
        ({"cron": "@daily", "args": {"project": "x" * 200_000}}, BadSchedule, "at most 100,000 bytes"),
        ({"cron": "@daily", "name": "a#b"}, BadJob, "may not have"),
        ({"cron": "@daily", "name": "a" * 180}, BadSchedule, "at most 150 bytes"),
        ({"cron": "@daily", "task": 7}, BadSchedule, "for a task, or the name of one, not 7"),
    ],
)
@pytest.mark.parametrize("db", ["memory"], indirect=True)
def test_a_schedule_that_cannot_be_is_refused_before_anything_is_written(
    app: penstock.App, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        app.schedules.create(**{"name": "s", "task": "report", **options})
    assert list(app.schedules) == []


@pytest.mark.parametrize("db", ["memory"], indirect=True)
def test_two_schedules_cannot_have_one_name(app: penstock.App) -> None:
    app.schedules.create("s", "report", "@daily")
    with pytest.raises(BadSchedule, match="already: change it, or delete it first"):
        app.schedules.create("s", "report", "@hourly")
    with pytest.raises(BadSchedule, match="cannot have idempotency_key"):
        app.schedules.create("t", app.tasks["report"].options(idempotency_key="k"), "@daily")


# ── declared ones ────────────────────────────────────────────────────────────────────────────────


def declared(app: penstock.App, cron: str | None = "0 * * * *", **options: Any) -> penstock.App:
    @app.task("hourly", cron=cron, **options)
    def hourly(region: str = "eu") -> None: ...

    return app


def beside(app: penstock.App, clock: ManualClock, cron: str | None = "0 * * * *", **options: Any) -> penstock.App:
    """Another version of the program on the same table."""
    return declared(penstock.App(app.store.db, table=app.store.layout.table, clock=clock, shards=2), cron, **options)


@pytest.mark.parametrize("db", ["memory"], indirect=True)
def test_a_declared_schedule_is_listed_paused_and_run_and_changed_only_in_the_code(
    app: penstock.App, clock: ManualClock
) -> None:
    declared(app)
    fire(app)
    (saved,) = app.schedules
    assert (saved.name, saved.declared, saved.next_at) == ("hourly", True, START + 60)
    with pytest.raises(BadSchedule, match=r"declared in the code, with @app\.task\(cron=…\): change it there"):
        app.schedules.change("hourly", cron="@daily")
    with pytest.raises(BadSchedule, match="delete it there"):
        app.schedules.delete("hourly")
    with pytest.raises(BadSchedule, match="take another name"):
        app.schedules.create("hourly", "report", "@daily")
    app.schedules.pause("hourly")
    clock.advance(3_600)
    fire(app)
    assert jobs(app) == []
    assert app.schedules.get("hourly").paused, "a worker that begins does not resume it"
    assert app.schedules.run("hourly").schedule == "hourly"


@pytest.mark.parametrize("db", ["memory"], indirect=True)
def test_what_the_code_declares_holds_when_a_worker_begins(app: penstock.App, clock: ManualClock) -> None:
    fire(declared(app))
    fire(beside(app, clock, "30 * * * *", cron_args={"region": "us"}))
    saved = app.schedules.get("hourly")
    assert (saved.cron, saved.args, saved.next_at) == ("30 * * * *", {"region": "us"}, START + 31 * 60)
    fire(beside(app, clock, None))
    assert list(app.schedules) == []


@pytest.mark.parametrize("db", ["memory"], indirect=True)
def test_a_schedule_of_a_table_of_0_1_goes_on_where_it_was(app: penstock.App, clock: ManualClock) -> None:
    entries = {"hourly": {"S": "2030-01-01T08:00:00.000Z"}}
    app.store.side_items.write("schedules", {"entries": {"M": entries}})
    fire(declared(app))
    assert jobs(app) == ["cron_hourly_20300101T090000.000Z"]


@pytest.mark.parametrize("db", ["memory"], indirect=True)
def test_another_programs_declared_schedule_is_left_to_its_workers(app: penstock.App, clock: ManualClock) -> None:
    fire(beside(app, clock))
    clock.advance(60 + LEFT_SECONDS + 1)
    fire(app)
    assert jobs(app) == []
    assert app.schedules.get("hourly").is_left
    fire(beside(app, clock))
    assert jobs(app) == ["cron_hourly_20300101T110000.000Z"]
    assert not app.schedules.get("hourly").is_left


# ── many ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("db", ["memory"], indirect=True)
def test_what_a_worker_reads_does_not_grow_with_the_number_of_schedules(app: penstock.App, clock: ManualClock) -> None:
    read = []
    for _ in range(2):
        for _ in range(100):
            app.schedules.create(f"s{len(list(app.schedules))}", "report", "0 12 * * *")
        app.schedules.create(f"due{len(read)}", "report", every=timedelta(days=1), overlap=True)
        counting = Counting(app.store.db.transport)
        app.use(Database(counting))
        worker = Worker(app)
        worker._heartbeat.scheduler.enqueue_due()
        counting.calls.clear()
        clock.advance(2.0)
        worker._heartbeat.scheduler.enqueue_due()
        read.append((counting.scanned, counting.operations))
        app.use(Database(counting.inner))
    assert read[0] == read[1] == (16, ["Query"])


@pytest.mark.parametrize("db", ["memory"], indirect=True)
def test_many_schedules_that_are_due_at_once_are_all_enqueued(app: penstock.App, clock: ManualClock) -> None:
    for number in range(40):
        app.schedules.create(f"s{number:02d}", "report", "0 * * * *")
    clock.advance(60)
    worker = Worker(app)
    for _ in range(4):
        worker._heartbeat.scheduler.enqueue_due()
    assert len(jobs(app)) == 40


@pytest.mark.parametrize("db", ["memory"], indirect=True)
def test_pages_of_schedules_neither_repeat_nor_leave_out(app: penstock.App) -> None:
    for number in range(7):
        app.schedules.create(f"s{number}", "report", "@daily", paused=number % 2 == 0)
    names, token = [], None
    while True:
        page = app.schedules.list(limit=2, token=token)
        names += [saved.name for saved in page.schedules]
        token = page.token
        if token is None:
            break
    assert names == ["s1", "s3", "s5", "s0", "s2", "s4", "s6"]


@pytest.mark.parametrize("db", ["memory"], indirect=True)
def test_a_task_that_does_not_take_the_arguments_any_more_stops_no_other_schedule(
    app: penstock.App, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    app.schedules.create("a", "elsewhere", "0 * * * *", args={"old": 1})
    app.schedules.create("b", "report", "0 * * * *")

    @app.task()
    def elsewhere(new: int) -> None: ...

    clock.advance(60)
    fire(app)
    assert jobs(app) == ["cron_b_20300101T100000.000Z"]
    assert "The schedule a has no job" in caplog.text
    assert app.schedules.get("a").next_at == START + 3_660
