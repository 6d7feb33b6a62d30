"""Time, passed in: everything that asks for the time asks a Clock, so that a test can move it.

Times are stored in UTC with milliseconds, `2025-06-16T21:19:33.789Z`: as text they sort by age.
"""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Protocol

# A record's times are written again with each of its changes, and several of them are mostly the same one.
_REMEMBERED: Final = 4_096


class Clock(Protocol):
    """Seconds since the epoch, as `time.time()` gives them."""

    def now(self) -> float: ...


class SystemClock:
    """The machine's own clock."""

    now = staticmethod(time.time)  # the function itself: it is called several times in each call


class ManualClock:
    """A clock that stands still until it is moved: for tests."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


@lru_cache(_REMEMBERED)
def end_of_millisecond(seconds: float) -> float:
    """The time rounded up to milliseconds. Stored times are rounded: what was stored just now is not in the future."""
    return math.ceil(seconds * 1000) / 1000


@lru_cache(_REMEMBERED)
def utc_text(seconds: float) -> str:
    second, milliseconds = divmod(round(seconds * 1000), 1000)
    return f"{_second(second)}.{milliseconds:03d}Z"


@lru_cache(_REMEMBERED)
def _second(second: int) -> str:
    """Most times that are written at once are in the same few seconds."""
    return datetime.fromtimestamp(second, UTC).isoformat()[:19]


@lru_cache(_REMEMBERED)
def utc_seconds(text: str) -> float:
    """The time that `utc_text` wrote."""
    return round(datetime.fromisoformat(text).timestamp(), 3)


def span(seconds: float) -> str:
    """For people: `2m 5s`; below a minute with one digit: `4.2 s`."""
    if seconds < 60:
        return f"{max(seconds, 0.0):.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (rest, "s")]
    texts = [f"{number}{unit}" for number, unit in parts if number]
    return " ".join(texts[:2])
