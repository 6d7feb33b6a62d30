"""Times by the clock, as cron writes them: `30 6 * * mon-fri`.

Minute, hour, day of the month, month, day of the week: each `*`, numbers, names (jan, mon), ranges, steps and lists.
`L` is the last day of the month and `LW` its last weekday; `5L` is the last Friday and `1#2` the second Monday. If both
days are given, either will do, as in every cron. `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly` are short for
the obvious. `@every 90s` (`m`, `h`, `d`) is for times that are so far apart, counted from the beginning of 1970 in UTC:
everybody comes to the same ones.

Times are those of a time zone. Where its clocks change, a schedule does as Debian's cron does:

1. A schedule whose minute or hour begins with `*` is for every time that the clock shows: it runs in both of two
   repeated hours, and not in a skipped one. So `*/15 * * * *` runs every fifteen minutes, `0 * * * *` every hour.
2. Any other schedule is for times of the day: one that is repeated runs the first time only, and one that is skipped
   runs at the moment when the clocks go forward.
3. A zone that leaves out more than a few hours (in 2011 Samoa had no 30th of December) has moved: what it leaves out
   has no runs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from penstock.errors import PenstockError

_FIELDS: Final = (
    ("minute", "numbers from 0 to 59"),
    ("hour", "numbers from 0 to 23"),
    ("day of the month", "numbers from 1 to 31, L or LW"),
    ("month", "numbers from 1 to 12 or names such as jan"),
    ("day of the week", "numbers from 0 to 7 or names such as mon, 5L or 1#2"),
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
_NAMES: Final = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
    *("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"),
)
_LONGEST_TEXT: Final = 1_000
"""Every number of every field, written out, has less than half of it."""
_LONGEST_GAP: Final = timedelta(hours=3)
"""What Debian's cron takes for a change to summer time; more is a clock that was set, or a zone that moved."""
_SECOND: Final = timedelta(seconds=1)
_LONGEST_INTERVAL: Final = timedelta(days=366)
_DAY: Final = timedelta(days=1)
"""No zone moves by more."""
_REACH: Final = _DAY + timedelta(hours=2)
"""How far a change of the offset is looked for at once: further than one change moves, and than a day's next run."""


class BadCron(PenstockError, ValueError):
    """A schedule that cannot be read: the message shows the part and what it may be."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a task is enqueued by the clock."""

    name: str
    text: str
    timezone: str
    fields: str
    """The five fields of `text` as cronsim reads them: no long names, no `@daily`."""
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """What its jobs are given."""
    overlaps: bool = False
    """Whether a job is enqueued while the one before has not ended."""
    every: int = 0
    """Seconds from one time to the next; 0 of a schedule with fields."""

    @classmethod
    def parse(
        cls,
        name: str,
        text: str,
        timezone: str = "UTC",
        *,
        arguments: Mapping[str, Any] | None = None,
        overlaps: bool = False,
    ) -> Schedule:
        every = _checked_interval(text)
        fields = "" if every else _checked_fields(text)
        _zone(timezone)
        schedule = cls(name, text, timezone, fields, dict(arguments or {}), overlaps, every)
        schedule.after(0.0)  # what no year has is refused here
        return schedule

    def after(self, seconds: float) -> float:
        """The first time after `seconds`."""
        if self.every:
            return float((math.floor(seconds / self.every) + 1) * self.every)
        zone = _zone(self.timezone)
        at = datetime.fromtimestamp(math.floor(seconds), UTC)
        offset = _offset(zone, at)
        while True:
            # Between two changes of the offset a zone's clock is one that is never changed. `at` has been answered.
            change = _next_change(zone, at, offset)
            found = self._next_reading(at + offset) - offset
            if found < (change or at + _REACH):
                if self.runs_by_elapsed_time or not found.astimezone(zone).fold:
                    return found.timestamp()
                at = found
            elif change is None:
                at = max(at + _REACH, found - _DAY) - _SECOND  # changes until then bring nothing earlier than that
                offset = _offset(zone, at)
            else:
                gap = _offset(zone, change) - offset
                if found < change + gap and gap <= _LONGEST_GAP and not self.runs_by_elapsed_time:
                    return change.timestamp()
                at, offset = change - _SECOND, offset + gap

    def next_times(self, seconds: float, count: int) -> tuple[float, ...]:
        """So many times after `seconds`."""
        times: list[float] = []
        for _ in range(count):
            times.append(self.after(times[-1] if times else seconds))
        return tuple(times)

    @property
    def runs_by_elapsed_time(self) -> bool:
        """Whether it is for every time that the clock shows (1), and not for times of the day (2)."""
        minute, hour, *_ = self.fields.split()
        return minute.startswith("*") or hour.startswith("*")

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

    def _next_reading(self, reading: datetime) -> datetime:
        """What a clock that is never changed shows next, of the times that the schedule is for.

        cronsim is given no time zone: in one that changes by half an hour it leaves out times.
        """
        from cronsim import CronSim  # here: a program without schedules need not load it

        found = next(CronSim(self.fields, reading.replace(tzinfo=None)), None)
        if found is None:  # not in fifty years
            raise _never(self.text)
        return found.replace(tzinfo=UTC)


_MOST_MISSED: Final = 1_000


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadCron(f"There is no time zone {name!r} on this machine; 'UTC' and 'Europe/Paris' are names.") from None


def _offset(zone: ZoneInfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta(0)


def _next_change(zone: ZoneInfo, at: datetime, offset: timedelta) -> datetime | None:
    """The first second after `at` that has not this offset, if it is within reach."""
    same, other = at, at + _REACH
    if _offset(zone, other) == offset:
        return None
    while other - same > _SECOND:
        middle = (same + (other - same) / 2).replace(microsecond=0)
        if _offset(zone, middle) == offset:
            same = middle
        else:
            other = middle
    return other


# ── the text ─────────────────────────────────────────────────────────────────────────────────────


def every_text(interval: timedelta) -> str:
    """The text of a schedule whose times are so far apart."""
    if not isinstance(interval, timedelta) or interval % _SECOND or not _SECOND <= interval <= _LONGEST_INTERVAL:
        raise BadCron(f"every is a timedelta of whole seconds, from one second to 366 days, not {interval!r}.")
    return f"@every {interval // _SECOND}s"


def _checked_interval(text: str) -> int:
    """The seconds of `@every 90s`; 0 of any other text."""
    if not isinstance(text, str):
        raise BadCron(f"cron is text such as '30 6 * * mon-fri', not {text!r:.50}.")
    word, _, rest = text.strip().lower().partition(" ")
    if word != "@every":
        return 0
    found = re.fullmatch(r"(\d{1,9})([smhd])", rest.strip(), re.ASCII)
    seconds = 0 if found is None else int(found[1]) * {"s": 1, "m": 60, "h": 3_600, "d": 86_400}[found[2]]
    if not 1 <= seconds <= _LONGEST_INTERVAL // _SECOND:
        raise BadCron(f"{text[:50]!r}: write @every 90s, 15m, 6h or 2d, from one second to 366 days.")
    return seconds


def _checked_fields(text: str) -> str:
    """The five fields, or a refusal that names the one that cannot be read."""
    if len(text) > _LONGEST_TEXT:
        raise BadCron(f"{text[:50]!r}… has {len(text)} characters; a schedule has {_LONGEST_TEXT} at most.")
    lower = text.strip().lower()
    parts = re.sub("[a-z]{4,}", _short_name, _SHORT.get(lower, lower)).split()
    if len(parts) != len(_FIELDS):
        raise BadCron(f"{text[:50]!r} has {len(parts)} fields; a schedule has 5, such as '30 6 * * mon-fri'.")
    for place, part in enumerate(parts):
        alone = ["*"] * len(_FIELDS)
        alone[place] = part
        # Alone, so that the field that is refused is known. What only all five together rule out is refused below.
        if not _is_readable(" ".join(alone)):
            field, values = _FIELDS[place]
            raise BadCron(
                f"{part[:50]!r} ({field}): it is * or {values}, a range that goes up (1-5), a step from 1 on (*/15), "
                "or a list of these (1,3,5)."
            )
    if not _is_readable(" ".join(parts)):
        raise _never(text)
    return " ".join(parts)


def _short_name(word: re.Match[str]) -> str:
    """Three letters: `monday` and `sept` are names too."""
    return word[0][:3] if any(name.startswith(word[0]) for name in _NAMES) else word[0]


def _is_readable(fields: str) -> bool:
    from cronsim import CronSim, CronSimError

    try:
        CronSim(fields, datetime(2000, 1, 1))
    except CronSimError:
        return False
    return True


def _never(text: str) -> BadCron:
    return BadCron(f"{text[:50]!r} never happens: there is no such day.")
