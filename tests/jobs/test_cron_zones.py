"""Schedules where clocks change: every change of twenty years, in zones with odd rules.

What is expected is found by walking through the minutes that a zone's clock shows; cron.py, 1 to 3 are the rules.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

import penstock
from penstock.clock import ManualClock
from penstock.jobs.scheduler.cron import Schedule
from penstock.jobs.worker.worker import Worker

BEGIN, END = datetime(2010, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
STEP = timedelta(minutes=5)
"""All schedules here and all changes of these years are at minutes that it divides."""
AROUND = timedelta(hours=9)
ZONES = (
    "Africa/Casablanca",  # summer time is interrupted by Ramadan
    "America/Havana",  # midnight is skipped, and repeated
    "America/New_York",
    "America/Nuuk",  # the last hour of a day is skipped since 2024
    "America/Sao_Paulo",  # midnight is skipped; an evening's last hour is repeated
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Australia/Lord_Howe",  # half an hour is skipped and repeated
    "Europe/London",
    "Europe/Paris",
    "Pacific/Apia",  # had no 30th of December in 2011
    "UTC",
)

# What cron's text says, said in Python.
EVERY_TIME: dict[str, Callable[[datetime], bool]] = {
    "*/15 * * * *": lambda shown: shown.minute % 15 == 0,
    "0 * * * *": lambda shown: shown.minute == 0,
    "30 */2 * * *": lambda shown: shown.minute == 30 and shown.hour % 2 == 0,
    "0 */3 * * *": lambda shown: shown.minute == 0 and shown.hour % 3 == 0,
    "*/15 3 * * *": lambda shown: shown.minute % 15 == 0 and shown.hour == 3,
    "*/30 0 * * sun": lambda shown: shown.minute % 30 == 0 and shown.hour == 0 and shown.weekday() == 6,
}
TIMES_OF_THE_DAY: dict[str, Callable[[datetime], bool]] = {
    "30 2 * * *": lambda shown: (shown.hour, shown.minute) == (2, 30),
    "0 0 * * *": lambda shown: (shown.hour, shown.minute) == (0, 0),
    "30 23 * * *": lambda shown: (shown.hour, shown.minute) == (23, 30),
    "5 1 * * 0": lambda shown: (shown.hour, shown.minute) == (1, 5) and shown.weekday() == 6,
    "0,40 0-3 * * *": lambda shown: shown.minute in (0, 40) and shown.hour < 4,
}
ALL = {**EVERY_TIME, **TIMES_OF_THE_DAY}


def offset(zone: str, at: datetime) -> timedelta:
    found = at.astimezone(ZoneInfo(zone)).utcoffset()
    assert found is not None
    return found


@cache
def changes(zone: str) -> list[datetime]:
    """The first minutes with another offset, of twenty years."""
    found, day = [], BEGIN
    while day < END:
        before = offset(zone, day)
        if offset(zone, day + DAY) != before:
            steps = (day + STEP * number for number in range(1, DAY // STEP + 1))
            found.append(next(at for at in steps if offset(zone, at) != before))
        day += DAY
    return found


@cache
def shown_around(zone: str, change: datetime) -> list[tuple[float, datetime]]:
    """The moments around a change, and what the clock shows."""
    info, steps = ZoneInfo(zone), 2 * AROUND // STEP
    moments = [change - AROUND + STEP * number for number in range(steps + 1)]
    return [(at.timestamp(), at.astimezone(info).replace(tzinfo=None)) for at in moments]


def expected_runs(cron: str, shown: list[tuple[float, datetime]]) -> list[float]:
    matches = ALL[cron]
    if cron in EVERY_TIME:
        return [at for at, reading in shown if matches(reading)]
    runs, latest = [], shown[0][1] - STEP
    for at, reading in shown:
        if reading > latest:
            skipped = (reading - latest) // STEP - 1
            made_up = [latest + STEP * number for number in range(1, skipped + 1)] if skipped * STEP <= 3 * HOUR else []
            if any(matches(one) for one in (*made_up, reading)):
                runs.append(at)
            latest = reading
    return runs


def runs_between(schedule: Schedule, since: float, until: float) -> Iterator[float]:
    at = schedule.after(since)
    while at <= until:
        yield at
        following = schedule.after(at)
        assert following > at
        at = following


@pytest.mark.parametrize("cron", ALL)
@pytest.mark.parametrize("zone", ZONES)
def test_a_schedule_runs_as_the_rules_say_at_every_change_of_twenty_years(cron: str, zone: str) -> None:
    schedule = Schedule.parse("x", cron, zone)
    for change in changes(zone) or [datetime(2020, 3, 29, 1, tzinfo=UTC)]:
        shown = shown_around(zone, change)
        expected = expected_runs(cron, shown)
        first, last = shown[0][0] - 1, shown[-1][0]
        assert list(runs_between(schedule, first, last)) == expected
        for seconds in (-60.0, -1.0, -0.5, 0.0, 1.0, 1805.0, 3599.5, 3600.0):
            since = change.timestamp() + seconds
            later = bisect_right(expected, since)
            if later < len(expected):
                assert schedule.after(since) == expected[later], f"after {since}"


def test_the_zones_have_changes_of_every_kind() -> None:
    """A machine with an old or empty database of time zones would prove nothing."""
    moves = {zone: {offset(zone, at) - offset(zone, at - STEP) for at in changes(zone)} for zone in ZONES}
    assert moves["Europe/Paris"] == {HOUR, -HOUR}
    assert moves["Australia/Lord_Howe"] == {HOUR / 2, -HOUR / 2}
    assert moves["Pacific/Apia"] >= {DAY, HOUR, -HOUR}
    assert moves["UTC"] == set()
    assert len(changes("Europe/Paris")) == 40


@pytest.mark.parametrize("zone", ["Europe/Paris", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia"])
def test_a_daily_schedule_runs_once_on_each_local_day_of_twenty_years(zone: str) -> None:
    schedule, info = Schedule.parse("x", "30 2 * * *", zone), ZoneInfo(zone)
    first, last = date(2010, 1, 1), date(2029, 12, 31)
    since = datetime(2010, 1, 1, tzinfo=info).timestamp() - 1
    until = datetime(2029, 12, 31, 23, tzinfo=info).timestamp()
    days = [datetime.fromtimestamp(at, info).date() for at in runs_between(schedule, since, until)]
    expected = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    if zone == "Pacific/Apia":
        expected.remove(date(2011, 12, 30))
    assert days == expected


def test_every_fifteen_minutes_is_every_fifteen_minutes_when_clocks_go_back() -> None:
    schedule = Schedule.parse("x", "*/15 * * * *", "Europe/Paris")
    start = datetime(2026, 10, 24, 22, tzinfo=UTC).timestamp()
    assert list(runs_between(schedule, start, start + 6 * 3600)) == [start + 900 * n for n in range(1, 25)]


@pytest.mark.parametrize("machine", ["Asia/Tokyo", "Europe/Paris", "America/New_York"])
def test_the_time_zone_of_the_machine_does_not_matter(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = Schedule.parse("x", "30 2 * * *", "Europe/Paris")
    with monkeypatch.context() as patch:
        patch.setenv("TZ", machine)
        time.tzset()
        found = list(runs_between(schedule, 1_774_656_000.0, 1_774_656_000.0 + 3 * 86_400))
    time.tzset()
    assert [datetime.fromtimestamp(at, UTC).isoformat()[:16] for at in found] == [
        "2026-03-28T01:30",
        "2026-03-29T01:00",  # 02:30 is skipped: it is the moment when the clocks go forward
        "2026-03-30T00:30",
    ]


def test_the_two_runs_of_a_repeated_hour_are_two_jobs(tmp_path: Path) -> None:
    """Their local times are the same; the job's id is made of the time in UTC."""
    clock = ManualClock(datetime(2026, 10, 25, 0, 25, tzinfo=UTC).timestamp())
    with penstock.App(tmp_path / "jobs.db", clock=clock) as app:

        @app.task(cron="30 * * * *", timezone="Europe/Paris", cron_overlap=True)
        def hourly(ctx: penstock.JobContext) -> None: ...

        scheduler = Worker(app)._heartbeat.scheduler
        for _ in range(10):
            scheduler.enqueue_due()
            clock.advance(600)
        ids = sorted(job.id for job in app.store.find().jobs)
    assert ids == ["cron_hourly_20261025T003000.000Z", "cron_hourly_20261025T013000.000Z"]
