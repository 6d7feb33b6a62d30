"""How many jobs there are in each state, without reading them all whenever somebody looks.

DynamoDB has no count: it has to be counted, and that costs as much as reading the keys. So the jobs of each state are
counted in small steps (`step`), as long as somebody looks.
1. A step reads at most so many keys, whatever the number of jobs: with 10⁵ of them it costs what it costs with 10³.
2. Until a state has been counted to its end once, its number is a lower bound ("1,000+"). Then it is the last full
   count; one that needed several steps is told with its age.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from penstock.jobs.layouts.layout import Listing
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore

FIRST_KEYS: Final = 40
"""For each state, by the page that somebody waits for: about a millisecond each."""
STEP_KEYS: Final = 1_000
"""For all states together, each second: one or two hundredths of a second on the embedded engine, 25 read units."""
MOST_TENANTS: Final = 100


@dataclass(frozen=True, slots=True)
class Count:
    """At least `number`, or exactly so many as of `at`."""

    number: int
    exact: bool
    at: float

    def __str__(self) -> str:
        return f"{self.number:,}" if self.exact else f"{self.number:,}+"


class _Tally:
    """The counting of one state: where it stands, and what the last full count was."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.last: Count | None = None
        self._running = 0
        self._places: Iterator[tuple[Listing, str]] = iter(())
        self._current: tuple[Listing, str] | None = None
        self._start: dict[str, Any] | None = None

    def shown(self, now: float) -> Count:
        if self.last is None:
            return Count(self._running, False, now)
        # A count that goes on has seen more than the last one found: it is the better bound.
        return self.last if self._running <= self.last.number else Count(self._running, False, now)

    def step(self, store: JobStore, tenants: list[str], keys: int, now: float) -> int:
        """Counts on, at most to the end of this round; how many keys are left of the budget."""
        if self._current is None:
            self._running = 0
            listings = [store.layout.listing(tenant, self.state, None) for tenant in tenants]
            self._places = ((listing, one) for listing in listings for one in listing.partitions)
            self._next_place()
        while keys > 0 and self._current is not None:
            keys -= self._page(store, *self._current, keys)
            if self._start is None:
                self._next_place()
        if self._current is None:
            self.last = Count(self._running, True, now)
        return keys

    def _next_place(self) -> None:
        self._current = next(self._places, None)

    def _page(self, store: JobStore, listing: Listing, partition: str, limit: int) -> int:
        request: dict[str, Any] = {
            "TableName": store.layout.table,
            "IndexName": listing.index,
            "KeyConditionExpression": "#hash = :hash",
            "ExpressionAttributeNames": {"#hash": listing.hash},
            "ExpressionAttributeValues": {":hash": {"S": partition}},
            "Select": "COUNT",
            "Limit": limit,
        }
        if self._start is not None:
            request["ExclusiveStartKey"] = self._start
        answer = store.db.execute("Query", request)
        self._running += answer["Count"]
        self._start = answer.get("LastEvaluatedKey")
        return max(1, int(answer["Count"]))


class Census:
    """The counts of all states. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tallies = [_Tally(state) for state in State]

    def counts(self, now: float) -> dict[State, Count]:
        with self._lock:
            return {tally.state: tally.shown(now) for tally in self._tallies}

    @property
    def is_new(self) -> bool:
        """Nothing has been counted yet."""
        with self._lock:
            return all(tally.last is None and tally.shown(0.0).number == 0 for tally in self._tallies)

    def first(self, store: JobStore, now: float) -> None:
        """A little of each state, for a page that somebody waits for."""
        self._count(store, now, [FIRST_KEYS] * len(self._tallies))

    def step(self, store: JobStore, now: float, keys: int = STEP_KEYS) -> None:
        """The short ones to their ends, then the long ones a bit further."""
        share = keys // len(self._tallies)
        with self._lock:
            tenants = store.sides.tenants()[:MOST_TENANTS]
            unfinished = []
            left = 0
            for tally in self._tallies:
                left += tally.step(store, tenants, share, now)
                if tally.last is None or tally.last.at != now:
                    unfinished.append(tally)
            for tally in unfinished:
                left = tally.step(store, tenants, left, now) if left > 0 else 0

    def _count(self, store: JobStore, now: float, shares: list[int]) -> None:
        with self._lock:
            tenants = store.sides.tenants()[:MOST_TENANTS]
            for tally, keys in zip(self._tallies, shares, strict=True):
                tally.step(store, tenants, keys, now)
