"""What the overview shows, and how often it is asked for.

A page that somebody waits for gets what the last poll has found, if that is fresh; otherwise a little is read, whose
cost does not depend on how many jobs there are. The poller reads more (`refresh`).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Final

from penstock.jobs.model.job import Job
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore
from penstock.jobs.worker.registry import Registry, WorkerInfo
from penstock.web.dashboard.census import Census, Count
from penstock.web.dashboard.source import Source

HOUR_SECONDS: Final = 3600.0
_FRESH_SECONDS: Final = 2.0
_QUICK_SAMPLE: Final = 20
_SAMPLE: Final = 200
_SAMPLE_SECONDS: Final = 15.0
_FRESH_SAMPLE_SECONDS: Final = 60.0
_OLDEST_LOOKED_AT: Final = 5
_SHOWN: Final = 6


@dataclass(frozen=True, slots=True)
class Finished:
    """The newest jobs that have ended within the last hour."""

    at: float
    jobs: tuple[Job, ...]
    since: float
    """All that ended since then are there; it is less than an hour ago where the sample holds no more."""

    @property
    def whole_hour(self) -> bool:
        return self.since <= self.at - HOUR_SECONDS

    @property
    def per_minute(self) -> float:
        return len(self.jobs) / max((self.at - self.since) / 60, 1 / 60)


@dataclass(frozen=True, slots=True)
class Overview:
    at: float
    counts: dict[State, Count]
    oldest_waiting: Job | None
    finished: Finished
    failures: tuple[Job, ...]
    running: tuple[Job, ...]
    workers: tuple[WorkerInfo, ...]


class Board:
    """The overview's data, shared by all who look. Safe to share between threads."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._census = Census()
        self._lock = threading.Lock()
        self._overview: Overview | None = None
        self._finished: Finished | None = None

    def current(self) -> Overview:
        """Not older than two seconds, or read now: the same little work whatever the number of jobs."""
        store = self._source.store()
        with self._lock:
            now = store.clock.now()
            if self._overview is not None and abs(now - self._overview.at) < _FRESH_SECONDS:
                return self._overview
            self._census.first(store, now)
            if self._finished is None or abs(now - self._finished.at) > _FRESH_SAMPLE_SECONDS:
                self._finished = finished(store, now, _QUICK_SAMPLE)
            return self._read(store, now)

    def refresh(self) -> Overview:
        """A step further with counting; the sample of finished jobs now and then."""
        store = self._source.store()
        with self._lock:
            now = store.clock.now()
            self._census.step(store, now)
            if self._finished is None or abs(now - self._finished.at) > _SAMPLE_SECONDS:
                self._finished = finished(store, now, _SAMPLE)
            return self._read(store, now)

    def forget(self) -> None:
        """As if nobody had looked for a long time: the next page is read anew. What was counted stays."""
        with self._lock:
            self._overview = self._finished = None

    def counts(self) -> dict[State, Count]:
        return self.current().counts

    def _read(self, store: JobStore, now: float) -> Overview:
        assert self._finished is not None
        self._overview = Overview(
            now,
            self._census.counts(now),
            oldest_waiting(store, now),
            self._finished,
            store.find(state=State.FAILED, limit=_SHOWN).jobs,
            store.find(state=State.PROCESSING, limit=_SHOWN).jobs,
            tuple(Registry(store.db, store.layout).workers(now, tidy=False)),
        )
        return self._overview


def finished(store: JobStore, now: float, sample: int) -> Finished:
    """Of the newest jobs that have completed or failed, those that ended within the last hour.

    Where one state has more than the sample, both begin where that one's does: their shares stay right.
    """
    since = now - HOUR_SECONDS
    found: list[tuple[float, Job]] = []
    for state in (State.COMPLETED, State.FAILED):
        jobs = store.find(state=state, limit=sample).jobs
        ends = [(job.ended_at, job) for job in jobs if job.ended_at is not None and job.ended_at > since]
        if len(ends) == sample:
            since = max(since, min(at for at, _ in ends))
        found += ends
    return Finished(now, tuple(job for at, job in found if at >= since), since)


def oldest_waiting(store: JobStore, now: float) -> Job | None:
    """The job that has been due for longest, of the oldest few in each shard."""
    keys: list[str] = []
    id_name = next(iter(store.layout.main_key("")))
    for tenant in store.sides.tenants()[:_TENANTS_LOOKED_AT]:
        listing = store.layout.listing(tenant, State.QUEUED, None)
        for partition in listing.partitions:
            request: dict[str, Any] = {
                "TableName": store.layout.table,
                "IndexName": listing.index,
                "KeyConditionExpression": "#hash = :hash",
                "ExpressionAttributeNames": {"#hash": listing.hash},
                "ExpressionAttributeValues": {":hash": {"S": partition}},
                "Limit": _OLDEST_LOOKED_AT,
            }
            for item in store.db.execute("Query", request)["Items"]:
                keys.append(item[id_name]["S"])
    due = [job for job in store.get_those_there(keys) if _is_due(job, now)]
    return min(due, key=lambda job: job.run_at, default=None)


_TENANTS_LOOKED_AT: Final = 10


def _is_due(job: Job, now: float) -> bool:
    return job.state is State.QUEUED and not job.waiting_for and job.run_at <= now
