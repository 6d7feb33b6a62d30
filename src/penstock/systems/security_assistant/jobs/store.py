"""Where jobs are kept: a table, or one file. What both promise is the same, so that everything above is written once.

1. A job is written whole, on the version that it was made from, or Conflict is raised with the job as it is now.
2. Lists are in order of creation; jobs of the same moment are in the order of their keys. So a place in a list is a
   moment and a key, and pages neither repeat nor leave out a job, whatever is added meanwhile.
3. What is copied from one store to another is made whole on the way (S2.13): `date_bucket`, the parts of the key and
   the attributes of the target's indexes are written also for items that another program made without them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Protocol

from penstock.clock import utc_text
from penstock.errors import PenstockError
from penstock.jobs.model.state import State
from penstock.jobs.model.transitions import copy_with
from penstock.optimistic import Conflict
from penstock.systems.security_assistant.jobs.job import DrawingJob, Event, part_of

Place = tuple[str, str]


class NothingThere(PenstockError):
    """The tables or the folder have not been made yet."""


class BadToken(PenstockError, ValueError):
    """Not a token of a page of ours."""


@dataclass(frozen=True, slots=True)
class ByStatus:
    status: State
    company: str | None = None


@dataclass(frozen=True, slots=True)
class ByClient:
    """`client` is normalised; `client_name` is how it was spelled, which the compat layout's index goes by."""

    client: str
    client_name: str
    company: str | None = None


@dataclass(frozen=True, slots=True)
class ByMonth:
    """Jobs of a month; `since` and `until` narrow it, as times are stored."""

    month: str
    since: str = ""
    until: str = "~"
    company: str | None = None


@dataclass(frozen=True, slots=True)
class Everyone:
    """Jobs of all states: a job always has one, so together these are all."""

    company: str | None = None


Wanted = ByStatus | ByClient | ByMonth | Everyone


@dataclass(frozen=True, slots=True)
class JobPage:
    """`token` is where the next page begins, None after the last one."""

    jobs: tuple[DrawingJob, ...]
    token: str | None


class DrawingJobStore(Protocol):
    """What a place for jobs does. TableJobStore says how each is meant."""

    @property
    def where(self) -> str: ...
    def prepare(self, make: bool = True) -> None: ...
    def get(self, key: str) -> DrawingJob | None: ...
    def keys_of(self, job_id: str, company: str | None = None) -> list[str]: ...
    def insert(self, job: DrawingJob, events: Sequence[Event] = ()) -> None: ...
    def replace(self, job: DrawingJob, events: Sequence[Event] = ()) -> None: ...
    def delete(self, job: DrawingJob) -> bool: ...
    def find(self, wanted: Wanted, before: Place | None, newest_first: bool) -> Iterator[DrawingJob]: ...
    def everything(self) -> Iterator[DrawingJob]: ...
    def add_event(self, event: Event) -> None: ...
    def events(self, job_id: str) -> Iterator[Event]: ...


def place_of(job: DrawingJob) -> Place:
    return utc_text(job.created_at), job.key


def in_order(jobs: Iterable[DrawingJob], before: Place | None, newest_first: bool) -> Iterator[DrawingJob]:
    """Jobs that come in the order of their moments, in the order of their places; those past `before` only (2)."""
    for _, same in groupby(jobs, key=lambda job: job.created_at):
        for job in sorted(same, key=place_of, reverse=newest_first):
            if before is None or (place_of(job) < before if newest_first else place_of(job) > before):
                yield job


def to_token(place: Place) -> str:
    return base64.urlsafe_b64encode("|".join(place).encode()).decode()


def from_token(token: str) -> Place:
    try:
        moment, bar, key = base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode().partition("|")
    except (binascii.Error, UnicodeError, ValueError):
        bar = moment = key = ""
    if not bar or not moment or not key:
        raise BadToken("This is no token of a page: use the one that the page before had.")
    return moment, key


# ── copying ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Moved:
    """What was copied; `kept` are keys that the target had already, in another version."""

    copied: int
    same: int
    replaced: int
    kept: tuple[str, ...]
    events: int


def copy_jobs(
    source: DrawingJobStore,
    target: DrawingJobStore,
    *,
    now: float,
    company: str | None = None,
    replace_existing: bool = False,
    dry_run: bool = False,
) -> Moved:
    """Copies jobs that have not expired, with their events. Files are not touched: their keys stay what they are.

    A job that the target has is kept as it is there, unless `replace_existing`. Doing it twice is doing it once.
    """
    owner = None if company is None else part_of(company, "company_id")
    copied = same = replaced = events = 0
    kept: list[str] = []
    for job in _jobs_to_copy(source, owner, now):
        found = target.get(job.key)
        if found == job:
            same += 1
            continue
        if found is not None and not replace_existing:
            kept.append(job.key)
            continue
        if not dry_run:
            _write(target, job, found)
            events += _copy_events(source, target, job)
        copied, replaced = (copied + 1, replaced) if found is None else (copied, replaced + 1)
    return Moved(copied, same, replaced, tuple(kept), events)


def _jobs_to_copy(source: DrawingJobStore, company: str | None, now: float) -> Iterator[DrawingJob]:
    for job in source.everything():
        if (company is None or job.company == company) and (job.expires_at is None or job.expires_at > now):
            yield job


def _write(target: DrawingJobStore, job: DrawingJob, found: DrawingJob | None) -> None:
    if found is None:
        target.insert(job)
        return
    try:
        # The version goes on from the target's: whoever holds an older one must notice.
        target.replace(replace(job, lifecycle=copy_with(job.lifecycle, {"version": found.version + 1})))
    except Conflict:
        raise Conflict(job.key, None) from None


def _copy_events(source: DrawingJobStore, target: DrawingJobStore, job: DrawingJob) -> int:
    there = {event.sort_key for event in target.events(job.id)}
    missing = [event for event in source.events(job.id) if event.sort_key not in there and event.company == job.company]
    for event in missing:
        target.add_event(event)
    return len(missing)
