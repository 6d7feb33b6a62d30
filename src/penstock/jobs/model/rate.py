"""Rates: how often jobs with one rate key may start, as pure functions.

`100/m` is one start every 0.6 s, whatever the number of workers. It is the generic cell rate algorithm: all that is
remembered of a key is one time, its theoretical arrival time, which each start moves on by one interval.

1. Starts are evenly spaced: after an idle hour a key has no hundred starts saved up. `100/m burst 20` lets an idle key
   have 20 starts at once. In any span of time there are at most `rate x span + burst` slots.
2. A slot is the time at which one job may start, and no earlier. Slots of a key never come closer than its rate says,
   whoever gives them, and by whose clock: they are counted on from the last one.
3. A slot is good for `SLOT_SECONDS`. A job that has not started by then (the worker was busy, or no worker was there)
   takes another one: slots that nobody could use do not add up to a burst.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from penstock.jobs.model.job import BadJob

SLOT_SECONDS: Final = 10.0
AHEAD_SECONDS: Final = 2.0
"""Slots are given so long before their time: enough that nobody waits for the next ones, and few to lose (3)."""
MOST_PER_SECOND: Final = 1_000
"""Of one key, whose time is in one item: DynamoDB takes so many writes of it a second."""
_LONGEST_SECONDS: Final = 366 * 86_400.0
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_NAMES: Final = {"sec": "s", "second": "s", "min": "m", "minute": "m", "hour": "h", "day": "d"}
_TEXT: Final = re.compile(r"(\d{1,9})/(\d{0,9})([a-z]+)(?: burst (\d{1,6}))?")
_REMEMBERED: Final = 1_024


@dataclass(frozen=True, slots=True)
class Rate:
    """So many starts in so many seconds, and so many at once after a pause."""

    count: int
    seconds: float
    burst: int = 1

    @property
    def interval(self) -> float:
        """Seconds from one slot to the next."""
        return self.seconds / self.count

    def next_slot(self, arrival: float, now: float) -> tuple[float, float]:
        """The next slot, and the key's theoretical arrival time after it; `arrival` is 0 for a key that is new."""
        slot = max(now, arrival - (self.burst - 1) * self.interval)
        return slot, max(arrival, now) + self.interval


@lru_cache(_REMEMBERED)
def parse_rate(text: str) -> Rate:
    """`10/s`, `100/m`, `1/h`, `500/d`, `1/5s`, `100/m burst 20`. Raises BadJob."""
    found = _TEXT.fullmatch(text.strip().lower()) if isinstance(text, str) else None
    unit = "" if found is None else _NAMES.get(found[3], found[3])
    if found is None or unit not in _UNITS:
        raise BadJob(f"rate is a count and a time, such as '10/s', '100/m', '1/5s' or '100/m burst 20', not {text!r}.")
    rate = Rate(int(found[1]), int(found[2] or 1) * _UNITS[unit], int(found[4] or 1))
    if not rate.count or not 0 < rate.seconds <= _LONGEST_SECONDS or rate.count > MOST_PER_SECOND * rate.seconds:
        raise BadJob(f"rate is from 1 in 366 days to {MOST_PER_SECOND:,} in a second, not {text!r}.")
    if not 1 <= rate.burst <= rate.count:
        raise BadJob(f"The burst of a rate is from 1 to its count, not {rate.burst}: {text!r}.")
    return rate


def give_slots(arrival: float, rates: Sequence[Rate], now: float) -> tuple[list[float], float]:
    """The slots of jobs of one key with these rates, in turn, and the key's arrival time then.

    As many as are due within AHEAD_SECONDS, which may be none.
    """
    slots: list[float] = []
    for rate in rates:
        slot, following = rate.next_slot(arrival, now)
        if slot > now + AHEAD_SECONDS:
            break
        slots.append(slot)
        arrival = following
    return slots, arrival


def has_slot(rate_key: str | None, rate_at: float | None, now: float) -> bool:
    """Whether a job with this key, and this slot, may start without another slot."""
    return rate_key is None or (rate_at is not None and now <= rate_at + SLOT_SECONDS)
