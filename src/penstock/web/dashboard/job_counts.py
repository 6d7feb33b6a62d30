"""How many jobs there are in each state, and the rest of what the overview shows.

DynamoDB has no count. Counting costs as much as reading the keys, so the jobs of each state are counted in small
steps (`step`) while a page is open.
1. A step reads a bounded number of keys: with 10⁵ jobs it costs what it costs with 10³.
2. Until a state has been counted to its end once, its number is a lower bound ("1,000+"). After that the last full
   count is shown, with its age where it took several steps.
3. A page gets the result of the last poll if that is fresh. Otherwise it reads a little, at a cost that does not
   depend on the number of jobs. The poller reads more (`refresh`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.jobs.layouts.layout import Listing
from penstock.jobs.model.derived_state import STORED, DerivedState, is_due
from penstock.jobs.model.job import Job
from penstock.jobs.model.state import State
from penstock.jobs.sources import AllJobs
from penstock.jobs.store.store import JobStore
from penstock.jobs.worker.registry import WorkerInfo, WorkerRegistry
from penstock.web.dashboard.job_list import Filter, JobPage, find_jobs
from penstock.web.dashboard.job_survey import (
    FIRST_JOBS,
    Failure,
    FailureGroup,
    JobSurvey,
    SurveyView,
    group_failures,
    newest_first,
)
from penstock.web.dashboard.source import Source

FIRST_KEYS: Final = 40
"""For each state, on the first page: about a millisecond each."""
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


class _StateCounter:
    """Counts one state: its position, and the last full count."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.last: Count | None = None
        self._running = 0
        self._places: Iterator[tuple[Listing, str]] = iter(())
        self._current: tuple[Listing, str] | None = None
        self._start: dict[str, Any] | None = None

    def count(self, now: float) -> Count:
        if self.last is None:
            return Count(self._running, False, now)
        # A count under way that exceeds the last full one is the better bound.
        return self.last if self._running <= self.last.number else Count(self._running, False, now)

    def step(self, store: JobStore, tenants: list[str], keys: int, now: float) -> int:
        """Counts on, at most to the end of this round. Returns how many keys are left of the budget."""
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
        request = {**_partition_query(store, listing, partition, limit), "Select": "COUNT"}
        if self._start is not None:
            request["ExclusiveStartKey"] = self._start
        answer = store.db.execute("Query", request)
        self._running += answer["Count"]
        self._start = answer.get("LastEvaluatedKey")
        return max(1, int(answer["Count"]))


class JobCounter:
    """The counts of all states. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters = [_StateCounter(state) for state in State]

    def counts(self, now: float) -> dict[State, Count]:
        with self._lock:
            return {counter.state: counter.count(now) for counter in self._counters}

    def first(self, store: JobStore, now: float) -> None:
        """Counts a little of each state, for the first page."""
        with self._lock:
            tenants = store.side_items.tenants()[:MOST_TENANTS]
            for counter in self._counters:
                counter.step(store, tenants, FIRST_KEYS, now)

    def step(self, store: JobStore, now: float, keys: int = STEP_KEYS) -> None:
        """Counts the small states to their ends, then the large ones a bit further."""
        share = keys // len(self._counters)
        with self._lock:
            tenants = store.side_items.tenants()[:MOST_TENANTS]
            unfinished = []
            left = 0
            for counter in self._counters:
                left += counter.step(store, tenants, share, now)
                if counter.last is None or counter.last.at != now:
                    unfinished.append(counter)
            for counter in unfinished:
                left = counter.step(store, tenants, left, now) if left > 0 else 0


def _partition_query(store: JobStore, listing: Listing, partition: str, limit: int) -> dict[str, Any]:
    return {
        "TableName": store.layout.table,
        "IndexName": listing.index,
        "KeyConditionExpression": "#hash = :hash",
        "ExpressionAttributeNames": {"#hash": listing.hash},
        "ExpressionAttributeValues": {":hash": {"S": partition}},
        "Limit": limit,
    }


# ── the overview ─────────────────────────────────────────────────────────────────────────────────

HOUR_SECONDS: Final = 3600.0
_FRESH_SECONDS: Final = 2.0
_QUICK_SAMPLE: Final = 20
_SAMPLE: Final = 200
_SAMPLE_SECONDS: Final = 15.0
_FRESH_SAMPLE_SECONDS: Final = 60.0
_OLDEST_READ: Final = 5
_OTHER_JOBS: Final = 200
_TENANTS_READ: Final = 10
_FEW_JOBS: Final = 20
_POLL_SECONDS: Final = 0.5
_COUNTED_OF_OTHERS: Final = (DerivedState.FAILED, DerivedState.LOST, DerivedState.RUNNING)


@dataclass(frozen=True, slots=True)
class FinishedJobs:
    """The newest jobs that have ended within the last hour."""

    at: float
    jobs: tuple[Job, ...]
    since: float
    """An hour ago; or, where the sample is full, when the oldest of `jobs` was made: every job that was made since then
    and has ended is in `jobs`."""
    sample: int = 0
    """Of each state, at most so many were read."""

    @property
    def whole_hour(self) -> bool:
        return self.since <= self.at - HOUR_SECONDS

    @property
    def minutes(self) -> float:
        """For how long they ended. At least a second."""
        begun = self.since if self.whole_hour else min((job.ended_at or self.at for job in self.jobs), default=self.at)
        return max(self.at - begun, 1.0) / 60


@dataclass(frozen=True, slots=True)
class OtherTable:
    """What is told of the jobs of another table: of another app, or of a system."""

    name: str
    system: str
    counts: dict[DerivedState, Count]
    """Of failed, lost and running ones."""


@dataclass(frozen=True, slots=True)
class Overview:
    at: float
    counts: dict[State, Count]
    survey: SurveyView
    oldest_waiting: Job | None
    finished: FinishedJobs
    workers: tuple[WorkerInfo, ...]
    failures: tuple[Failure, ...] = ()
    """By when they failed, the newest first; of all tables."""
    groups: tuple[FailureGroup, ...] = ()
    others: tuple[Failure, ...] = ()
    """Failed jobs of other tables: of other apps, and of systems."""
    others_whole: bool = True
    tables: tuple[OtherTable, ...] = ()
    table: str = ""
    """The one whose jobs are counted."""

    @property
    def running(self) -> tuple[Job, ...]:
        return self.survey.running

    def of_table(self, name: str) -> dict[DerivedState, Count]:
        """The counts that are known of a table."""
        if name == self.table:
            return {state: self._own(state) for state in DerivedState}
        return next((one.counts for one in self.tables if one.name == name), {})

    def of_all(self) -> dict[DerivedState, Count]:
        """The counts of all tables together, of those states that are counted in each."""
        known: dict[DerivedState, Count] = {}
        for state in _COUNTED_OF_OTHERS:
            all_of_it = [self._own(state), *(one.counts[state] for one in self.tables)]
            known[state] = Count(sum(one.number for one in all_of_it), all(one.exact for one in all_of_it), self.at)
        return known

    def count(self, state: DerivedState) -> Count:
        """How many jobs are in a derived state; failed ones of all tables."""
        known = self._own(state)
        if state is DerivedState.FAILED and (self.others or not self.others_whole):
            return Count(known.number + len(self.others), known.exact and self.others_whole, known.at)
        return known

    def _own(self, state: DerivedState) -> Count:
        stored = STORED[state]
        if state.value == stored.value:
            return self.counts[stored]
        return Count(self.survey.states.get(state, 0), stored in self.survey.whole, self.at)


class _Failures:
    """The failures of all tables, and their groups: made again only when there are other ones."""

    def __init__(self) -> None:
        self._made_of: tuple[tuple[Failure, ...], tuple[Failure, ...]] = ((), ())
        self._made: tuple[tuple[Failure, ...], tuple[FailureGroup, ...]] = ((), ())

    def of(
        self, ours: tuple[Failure, ...], others: tuple[Failure, ...]
    ) -> tuple[tuple[Failure, ...], tuple[FailureGroup, ...]]:
        if self._made_of[0] is not ours or self._made_of[1] is not others:
            both = newest_first((*ours, *others)) if others else ours
            self._made_of, self._made = (ours, others), (both, tuple(group_failures(both)))
        return self._made


class OverviewCache:
    """The overview's data, shared by all pages. Safe to share between threads."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._counter = JobCounter()
        self._survey = JobSurvey()
        self._is_surveyed = False
        self._lock = threading.Lock()
        self._overview: Overview | None = None
        self._finished: FinishedJobs | None = None
        self._failures = _Failures()
        self._others: tuple[tuple[Failure, ...], bool, tuple[OtherTable, ...]] = ((), True, ())
        self._others_at: float | None = None

    def current(self) -> Overview:
        """At most two seconds old, or read now at a cost that does not depend on the number of jobs."""
        store = self._source.store()
        with self._lock:
            now = store.clock.now()
            if self._overview is not None and abs(now - self._overview.at) < _FRESH_SECONDS:
                return self._overview
            self._counter.first(store, now)
            self._survey.step(store, now, FIRST_JOBS if not self._is_surveyed else _FEW_JOBS)
            if self._finished is None or abs(now - self._finished.at) > _FRESH_SAMPLE_SECONDS:
                self._finished = finished_jobs(store, now, _QUICK_SAMPLE)  # the first poll reads more
            return self._read(store, now)

    def refresh(self) -> Overview:
        """Counts a step further, and renews the sample of finished jobs every 15 seconds; once for all feeds."""
        store = self._source.store()
        with self._lock:
            now = store.clock.now()
            if self._overview is not None and self._is_surveyed and abs(now - self._overview.at) < _POLL_SECONDS:
                return self._overview
            self._counter.step(store, now)
            self._survey.step(store, now)
            self._is_surveyed = True
            is_small = self._finished is not None and self._finished.sample < _SAMPLE
            if self._finished is None or is_small or abs(now - self._finished.at) > _SAMPLE_SECONDS:
                self._finished = finished_jobs(store, now, _SAMPLE)
            return self._read(store, now)

    def forget(self) -> None:
        """Makes the next page read again. The counts stay."""
        with self._lock:
            self._overview = self._finished = self._others_at = None

    def counts(self) -> dict[State, Count]:
        return self.current().counts

    def _read(self, store: JobStore, now: float) -> Overview:
        assert self._finished is not None
        seconds = _FRESH_SAMPLE_SECONDS if store.db.capabilities.metered else _SAMPLE_SECONDS
        if self._others_at is None or abs(now - self._others_at) > seconds:
            self._others_at, self._others = now, self._other_tables(store, now)
        survey, (others, is_whole, tables) = self._survey.view(), self._others
        self._overview = Overview(
            now,
            self._counter.counts(now),
            survey,
            oldest_waiting(store, now),
            self._finished,
            tuple(WorkerRegistry(store.db, store.layout).workers(now, tidy=False)),
            *self._failures.of(survey.failures, others),
            others,
            is_whole,
            tables,
            store.layout.table,
        )
        return self._overview

    def _other_tables(self, store: JobStore, now: float) -> tuple[tuple[Failure, ...], bool, tuple[OtherTable, ...]]:
        """The failures of the other sources, whether those are all of them, and each table's counts."""
        ours = {one.table for one in self._source.changeable()}
        failures: dict[str, Failure] = {}  # a job that two sources have is one
        tables = []
        for source in self._source.jobs().sources:
            if source.table == store.layout.table:
                continue
            found = {
                state: find_jobs(AllJobs([source]), Filter(state=state), None, now, _OTHER_JOBS)
                for state in (State.FAILED, State.PROCESSING)
            }
            for job in found[State.FAILED].jobs:
                failures.setdefault(job.id, Failure.of(job, "" if source.table in ours else source.system))
            tables.append(OtherTable(source.table, source.system, _counted(found, now)))
        is_whole = all(one.counts[DerivedState.FAILED].exact for one in tables)
        return tuple(failures.values()), is_whole, tuple(tables)


def _counted(found: Mapping[State, JobPage], now: float) -> dict[DerivedState, Count]:
    counts = {}
    for state in _COUNTED_OF_OTHERS:
        page = found[STORED[state]]
        number = sum(row.situation.state is state for row in page.rows)
        counts[state] = Count(number, page.token is None and not page.notes, now)
    return counts


def finished_jobs(store: JobStore, now: float, sample: int) -> FinishedJobs:
    """Of the newest jobs that have completed or failed, those that ended within the last hour.

    Where one state fills the sample, the sample begins where the newest of these states' samples begins. That is a time
    at which jobs were made, as jobs are read in that order: then the shares of both states stay right.
    """
    since = now - HOUR_SECONDS
    found: list[Job] = []
    for state in (State.COMPLETED, State.FAILED):
        jobs = store.find(state=state, limit=sample).jobs
        if len(jobs) == sample:
            since = max(since, jobs[-1].created_at)
        found += jobs
    ended = [job for job in found if job.ended_at is not None and job.ended_at > now - HOUR_SECONDS]
    is_cut = since > now - HOUR_SECONDS
    return FinishedJobs(now, tuple(job for job in ended if not is_cut or job.created_at >= since), since, sample)


def oldest_waiting(store: JobStore, now: float) -> Job | None:
    """The job that has been due for longest, of the oldest few in each shard."""
    keys: list[str] = []
    id_name = next(iter(store.layout.main_key("")))
    for tenant in store.side_items.tenants()[:_TENANTS_READ]:
        listing = store.layout.listing(tenant, State.QUEUED, None)
        for partition in listing.partitions:
            request = _partition_query(store, listing, partition, _OLDEST_READ)
            for item in store.db.execute("Query", request)["Items"]:
                keys.append(item[id_name]["S"])
    due = [job for job in store.get_existing(keys) if _is_due(job, now)]
    return min(due, key=lambda job: job.run_at, default=None)


def _is_due(job: Job, now: float) -> bool:
    return job.state is State.QUEUED and not job.is_waiting and is_due(job, now)
