"""Times by the clock: what cron expressions mean, and that each time fires once."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import penstock
from penstock.clock import ManualClock
from penstock.jobs.scheduler.cron import BadCron, Schedule
from penstock.jobs.worker.worker import Worker


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def text(seconds: float, zone: str = "UTC") -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone(ZoneInfo(zone)).isoformat()[:16]


@pytest.mark.parametrize(
    ("cron", "after", "then"),
    [
        ("* * * * *", "2026-11-15T10:00", "2026-11-15T10:01"),
        ("*/15 * * * *", "2026-11-15T10:00", "2026-11-15T10:15"),
        ("5/20 * * * *", "2026-11-15T10:26", "2026-11-15T10:45"),
        ("30 6 * * *", "2026-11-15T06:30", "2026-11-16T06:30"),
        ("30 6 * * mon-fri", "2026-11-13T07:00", "2026-11-16T06:30"),
        ("0 0 1 * *", "2026-11-15T00:00", "2026-12-01T00:00"),
        ("0 0 31 * *", "2026-11-15T00:00", "2026-12-31T00:00"),
        ("0 0 29 2 *", "2026-11-15T00:00", "2028-02-29T00:00"),
        ("0 0 13 * fri", "2026-11-14T00:00", "2026-11-20T00:00"),  # either day will do
        ("0 12 * jan,jul sun", "2026-11-15T00:00", "2027-01-03T12:00"),
        ("0 0 * * 7", "2026-11-15T00:00", "2026-11-22T00:00"),  # Sunday is 0 and 7
        ("0 0 L * *", "2026-11-15T00:00", "2026-11-30T00:00"),
        ("0 0 LW * *", "2027-01-15T00:00", "2027-01-29T00:00"),  # the 31st is a Sunday
        ("0 0 * * 5L", "2026-11-15T00:00", "2026-11-27T00:00"),  # the last Friday
        ("0 0 * * mon#2", "2026-11-15T00:00", "2026-12-14T00:00"),
        ("0 0 * September Monday-Wed", "2026-11-15T00:00", "2027-09-01T00:00"),
        ("0 0 29 2 */7", "2026-11-15T00:00", "2032-02-29T00:00"),  # and a Sunday
        ("0 0 29 2 */7", "2088-03-01T00:00", "2128-02-29T00:00"),  # 2100 has no 29th
        ("@hourly", "2026-11-15T10:00", "2026-11-15T11:00"),
        ("@weekly", "2026-11-15T10:00", "2026-11-22T00:00"),
        ("@yearly", "2026-11-15T10:00", "2027-01-01T00:00"),
    ],
)
def test_the_next_time_of_a_schedule(cron: str, after: str, then: str) -> None:
    assert text(Schedule.parse("x", cron).after(at(after))) == then


def test_a_time_zones_morning_is_its_own() -> None:
    schedule = Schedule.parse("x", "0 8 * * *", "America/New_York")
    assert text(schedule.after(at("2026-07-01T00:00"))) == "2026-07-01T12:00"
    assert text(schedule.after(at("2026-12-01T00:00"))) == "2026-12-01T13:00"


def test_a_time_that_clocks_skip_or_repeat_happens_once() -> None:
    schedule = Schedule.parse("x", "30 2 * * *", "Europe/Paris")
    spring = schedule.after(at("2026-03-29T00:00", "Europe/Paris"))
    assert spring - at("2026-03-29T00:00", "Europe/Paris") <= 3 * 3600
    assert text(schedule.after(spring), "Europe/Paris") == "2026-03-30T02:30"
    autumn = schedule.after(at("2026-10-25T00:00", "Europe/Paris"))
    assert text(schedule.after(autumn), "Europe/Paris") == "2026-10-26T02:30"


@pytest.mark.parametrize(
    ("cron", "said"),
    [
        ("* * * *", "4 fields"),
        ("0 * * * * *", "6 fields"),
        ("@reboot", "1 fields"),
        ("60 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of the month"),
        ("* * * foo *", "month"),
        ("* * * * 8", "day of the week"),
        ("*/0 * * * *", "step"),
        ("5-1 * * * *", "goes up"),
        ("0 0 30 2 *", "never happens"),
        ("0 0 31 2,4,6,9,11 *", "never happens"),
        ("0 0 31 2 */2", "never happens"),
        ("* * ? * *", "day of the month"),
        ("* * * * fril", "day of the week"),  # elsewhere the last Friday: it must not become every Friday
        ("* * * * mon#6", "day of the week"),
        ("* * * 1#2 *", "month"),
        ("¹ * * * *", "minute"),
    ],
)
def test_a_schedule_that_cannot_be_says_which_part(cron: str, said: str) -> None:
    with pytest.raises(BadCron, match=said):
        Schedule.parse("x", cron)


def test_an_unknown_time_zone_is_named() -> None:
    with pytest.raises(BadCron, match="Mars/Olympus"):
        Schedule.parse("x", "@daily", "Mars/Olympus")


def test_of_missed_times_the_last_is_known_and_all_are_counted() -> None:
    schedule = Schedule.parse("x", "*/5 * * * *")
    since, until = at("2026-11-15T10:00"), at("2026-11-15T11:02")
    assert schedule.latest(since, until) == (at("2026-11-15T11:00"), 12)
    assert schedule.latest(since, since + 60) == (None, 0)
    year, _ = schedule.latest(at("2025-11-15T10:00"), until)
    assert year == at("2026-11-15T11:00")


def fire(app: penstock.App, clock: ManualClock) -> None:
    """What a worker does at this moment."""
    Worker(app)._heartbeat.scheduler.enqueue_due()


def test_each_time_fires_once_whatever_the_number_of_workers(tmp_path: Path) -> None:
    clock = ManualClock(at("2026-11-15T09:59"))
    apps = [penstock.App(tmp_path / "jobs.db", clock=clock) for _ in range(3)]
    for app in apps:

        @app.task(cron="0 * * * *", cron_overlap=True)
        def hourly(ctx: penstock.JobContext) -> None: ...

    fire(apps[0], clock)
    assert not apps[0].store.find().jobs, "what was never seen begins now"
    clock.advance(60)
    together = threading.Barrier(3)

    def one(app: penstock.App) -> None:
        together.wait(30)
        fire(app, clock)

    threads = [threading.Thread(target=one, args=(app,)) for app in apps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [job.id for job in apps[0].store.find().jobs] == ["cron_hourly_20261115T100000.000Z"]
    clock.advance(3 * 3600 + 60)
    fire(apps[1], clock)
    fire(apps[2], clock)
    assert len(apps[0].store.find().jobs) == 2, "of three that were missed, the last is made up for"
    for app in apps:
        app.close()


def test_a_running_worker_fires_by_itself(tmp_path: Path) -> None:
    clock = ManualClock(at("2026-11-15T09:59"))
    with penstock.App(tmp_path / "jobs.db", clock=clock) as app:
        ran = threading.Event()

        @app.task(cron="0 * * * *")
        def hourly(ctx: penstock.JobContext) -> None:
            ran.set()

        worker = Worker(app, concurrency=1, idle_seconds=0.05)
        thread = threading.Thread(target=worker.run)
        thread.start()
        end = time.monotonic() + 30
        while not list(app.schedules) and time.monotonic() < end:
            time.sleep(0.02)
        clock.advance(60)
        assert ran.wait(30)
        worker.stop()
        thread.join(30)


@pytest.mark.parametrize(
    "text",
    [
        "9" * 5_000 + " * * * *",
        "*/" + "9" * 5_000 + " * * * *",
        "9" * 900 + " * * * *",
        "1," * 100_000 + "1 * * * *",
        "* " * 400,
    ],
)
def test_a_text_without_end_is_refused_in_a_few_words(text: str) -> None:
    with pytest.raises(BadCron) as caught:
        Schedule.parse("a", text)
    assert len(str(caught.value)) < 300


def test_a_program_without_schedules_does_not_load_what_reads_them() -> None:
    code = "import sys, penstock, penstock.jobs.worker.worker; assert 'cronsim' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_schedule_gives_its_arguments(tmp_path: Path) -> None:
    clock = ManualClock(at("2026-11-15T09:59"))
    with penstock.App(tmp_path / "jobs.db", clock=clock) as app:

        @app.task(cron="0 * * * *", cron_args={"region": "eu"})
        def hourly(ctx: penstock.JobContext, region: str, rows: int = 5) -> None: ...

        fire(app, clock)
        clock.advance(60)
        fire(app, clock)
        (job,) = app.store.find().jobs
        assert app.store.load(job, app.get(job.id).args) == {"region": "eu"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (None, "missing a required argument: 'region'"),
        ({"country": "fr"}, "missing a required argument: 'region'"),
        ({"region": "eu", "other": 1}, "unexpected keyword argument 'other'"),
        ({"region": datetime(2026, 1, 1)}, r"cron_args\.region is a datetime"),
    ],
)
def test_arguments_of_a_schedule_are_checked_when_the_task_is_made(arguments: dict[str, Any], said: str) -> None:
    app = penstock.App(":memory:")
    with pytest.raises(penstock.PenstockError, match=said):

        @app.task(cron="0 * * * *", cron_args=arguments)
        def hourly(ctx: penstock.JobContext, region: str) -> None: ...

    assert not app.schedules.declared and not app.tasks


def test_arguments_for_a_schedule_need_one() -> None:
    with pytest.raises(BadCron, match="there is none: cron='30 6"):
        penstock.App(":memory:").task(cron_args={"a": 1})


def test_a_time_is_skipped_while_the_job_before_has_not_ended(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(at("2026-11-15T09:59"))
    with penstock.App(tmp_path / "jobs.db", clock=clock) as app:

        @app.task(cron="0 * * * *")
        def hourly(ctx: penstock.JobContext) -> None: ...

        fire(app, clock)
        clock.advance(60)
        fire(app, clock)
        (first,) = app.store.find().jobs
        for _ in range(3):
            clock.advance(3_600)
            fire(app, clock)
        assert [job.id for job in app.store.find().jobs] == [first.id]
        assert "cron_hourly_20261115T110000.000Z is skipped: cron_hourly_20261115T100000.000Z has not" in caplog.text
        assert app.store.entries(first.id)[0].message == (
            "cron_hourly_20261115T110000.000Z was skipped: this job had not ended."
        )
        app.cancel(first.id)
        clock.advance(3_600)
        fire(app, clock)
        assert [job.id for job in app.store.find().jobs] == ["cron_hourly_20261115T140000.000Z", first.id]
