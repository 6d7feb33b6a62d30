"""Times by the clock, as cron writes them: `30 6 * * mon-fri`.

Minute, hour, day of the month, month, day of the week: each `*`, numbers, names (jan, mon), ranges, steps and lists. If
both days are given, either will do, as in every cron. `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly` are
short for the obvious.

Times are those of a time zone. One that is skipped when clocks go forward happens at the moment they do; one that
there is twice when they go back happens once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from penstock.errors import PenstockError

_MONTHS: Final = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS: Final = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: Final = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, tuple(_MONTHS)),
    ("day of the week", 0, 7, tuple(_DAYS)),
)
_SHORT: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_LONGEST_SEARCH_DAYS: Final = 366 * 8 + 2
"""From one 29th of February to the next, a century without one between."""


class BadCron(PenstockError, ValueError):
    """A schedule that cannot be read: the message shows the part and what it may be."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a task is enqueued by the clock."""

    name: str
    text: str
    timezone: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool

    @classmethod
    def parse(cls, name: str, text: str, timezone: str = "UTC") -> Schedule:
        parts = _SHORT.get(text.strip().lower(), text).split()
        if len(parts) != len(_FIELDS):
            raise BadCron(f"{text!r} has {len(parts)} fields; a schedule has 5, such as '30 6 * * mon-fri'.")
        sets = [_values(part, *field) for part, field in zip(parts, _FIELDS, strict=True)]
        weekdays = frozenset(day % 7 for day in sets[4])
        either = not parts[2].startswith("*") and not parts[4].startswith("*")
        _zone(timezone)
        schedule = cls(name, text, timezone, sets[0], sets[1], sets[2], sets[3], weekdays, either)
        schedule.after(0.0)  # a 30th of February is refused here
        return schedule

    def after(self, seconds: float) -> float:
        """The first time after `seconds`."""
        zone = _zone(self.timezone)
        start = datetime.fromtimestamp(seconds, UTC).astimezone(zone)
        day = start.date()
        for _ in range(_LONGEST_SEARCH_DAYS):
            if day.month in self.months and self._is_day(day.day, (day.weekday() + 1) % 7):
                for hour in sorted(self.hours):
                    for minute in sorted(self.minutes):
                        moment = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
                        if moment.timestamp() > seconds:
                            return moment.timestamp()
            day += timedelta(days=1)
        raise BadCron(f"{self.text!r} never happens: there is no such day.")

    def latest(self, since: float, until: float) -> tuple[float | None, int]:
        """The last time after `since` and up to `until`, and how many there were."""
        last, count, at = None, 0, self.after(since)
        while at <= until:
            last, count = at, count + 1
            if count >= _MOST_MISSED:
                return self._last_before(until, at), count
            at = self.after(at)
        return last, count

    def _last_before(self, until: float, at: float) -> float:
        """The last time up to `until`, found from near its end: `at` is one."""
        span = 3600.0
        while until - span > at:
            found = self.after(until - span)
            if found <= until:
                at = found
                break
            span *= 4
        while (following := self.after(at)) <= until:
            at = following
        return at

    def _is_day(self, day: int, weekday: int) -> bool:
        if self.either_day:
            return day in self.days or weekday in self.weekdays
        return day in self.days and weekday in self.weekdays


_MOST_MISSED: Final = 1_000


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadCron(f"There is no time zone {name!r} on this machine; 'UTC' and 'Europe/Paris' are names.") from None


def _is_number(text: str) -> bool:
    """Of a few digits: Python does not read thousands of them."""
    return text.isascii() and text.isdigit() and len(text) < 10


def _values(part: str, field: str, low: int, high: int, names: tuple[str, ...]) -> frozenset[int]:
    """A field = range [ "/" step ] { "," … }."""
    found: set[int] = set()
    for piece in part.split(","):
        span, slash, step = piece.partition("/")
        first, last = _range(span, piece, field, low, high, names)
        if slash and span != "*" and "-" not in span:
            last = high  # 5/15 is every 15 from 5 on
        if slash and (not _is_number(step) or int(step) < 1):
            raise BadCron(f"{piece[:50]!r} ({field}): the step after / is a number from 1 on.")
        found.update(range(first, last + 1, int(step) if slash else 1))
    return frozenset(found)


def _range(span: str, piece: str, field: str, low: int, high: int, names: tuple[str, ...]) -> tuple[int, int]:
    if span == "*":
        return low, high
    first, dash, last = span.partition("-")
    numbers = [_number(text, low, names) for text in ((first, last) if dash else (first,))]
    if any(number is None or not low <= number <= high for number in numbers):
        raise BadCron(
            f"{piece[:50]!r} ({field}): it is * or numbers from {low} to {high}{' or names' if names else ''}."
        )
    start, end = numbers[0] or 0, numbers[-1] or 0
    if start > end:
        raise BadCron(f"{piece[:50]!r} ({field}): a range goes up.")
    return start, end


def _number(text: str, low: int, names: tuple[str, ...]) -> int | None:
    if _is_number(text):
        return int(text)
    short = text.lower()[:3]
    # Months count from 1 and days of the week from 0: so do their names.
    return names.index(short) + (low if len(names) == 12 else 0) if short in names else None
