"""`app.jobs`: finds jobs, reads what happened to them, and changes many at once.

    for job in app.jobs.find(state="failed", task="report", since=timedelta(days=1)):
        print(job.id, job.error)
    app.jobs.retry_all(task="report", error="ConnectionError", dry_run=True)

1. A list is read page by page: memory is that of one page, whatever the number of jobs.
2. Lists are newest first, and go by the time at which a job was made. That never changes: a job that changes its state
   while the list is read is neither given twice nor makes others be left out.
3. A state is one of the derived ones (model/derived_state.py), or `queued` or `processing`. A derived one is filtered
   while reading, because no index has it.
4. Where a tag is asked for, the tag's own partitions are read; otherwise those of the state, of the task, or of the
   time. What else is asked for is filtered while reading: it costs a read of each job that the partitions have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from penstock.clock import utc_text
from penstock.jobs.model.derived_state import parse_state
from penstock.jobs.model.job import BadJob, Entry, Event, History, Job, JobNotFound, JobPage, checked_name
from penstock.jobs.model.state import BadTransition, State
from penstock.jobs.store.conditions import StateFilter
from penstock.jobs.store.queries import LONGEST_PAGE
from penstock.jobs.store.store import JobStore

_PAGE: Final = 200
_MOST_REFUSALS: Final = 100
"""Kept of a bulk change; `refused` counts them all."""

Moment = datetime | timedelta
"""A time with a time zone, or how long ago."""


@dataclass(frozen=True, slots=True)
class BulkChange:
    """What became of many jobs."""

    matched: int = 0
    """Jobs that the filter has found, in a state in which they can be changed."""
    changed: int = 0
    refused: int = 0
    """Changed by somebody else meanwhile, or gone."""
    refusals: tuple[str, ...] = ()
    """Why, of the first hundred."""
    dry_run: bool = False
    """Nothing was changed: `matched` says how many would be."""


class Jobs:
    """The jobs of an app."""

    def __init__(self, store: Callable[[], JobStore]) -> None:
        self._store = store

    # ── finding ──────────────────────────────────────────────────────────────────────────────────

    def find(
        self,
        *,
        state: State | str | None = None,
        task: str | None = None,
        tenant: str | None = None,
        tag: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int | None = None,
    ) -> Iterator[Job]:
        """Jobs, newest first, at most `limit` of them: an iterator that reads as far as it is asked.

        `since` and `until` are about when a job was made: aware datetimes, or timedeltas ago. Without a tenant, the
        jobs of all tenants; `tenant=""` are those of none.
        """
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise BadJob(f"limit is a whole number, 1 or more, or None for all; not {limit!r}.")
        query = self._query(state, task, tenant, tag, since, until)
        return self._pages(query, limit)

    def page(
        self,
        *,
        state: State | str | None = None,
        task: str | None = None,
        tenant: str | None = None,
        tag: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int = 50,
        token: str | None = None,
    ) -> JobPage:
        """The same, one page at a time: its `token` asks for the next page, and is None after the last."""
        if not 1 <= limit <= LONGEST_PAGE:
            raise BadJob(f"A page has 1 to {LONGEST_PAGE:,} jobs, not {limit}.")
        return self._store().find(**self._query(state, task, tenant, tag, since, until), limit=limit, token=token)

    def _pages(self, query: dict[str, Any], limit: int | None) -> Iterator[Job]:
        left, token = limit, None
        while True:
            page = self._store().find(**query, limit=_PAGE if left is None else min(_PAGE, left), token=token)
            yield from page.jobs
            token = page.token
            if left is not None:
                left -= len(page.jobs)
            if token is None or left == 0:
                return

    def _query(
        self,
        state: State | str | None,
        task: str | None,
        tenant: str | None,
        tag: str | None,
        since: Moment | None,
        until: Moment | None,
    ) -> dict[str, Any]:
        for what, name in (("task", task), ("tag", tag), ("tenant", tenant or None)):
            if name is not None:
                checked_name(name, what)
        return {
            **self._state_query(state),
            "task": task,
            "tenant": tenant,
            "tag": tag,
            "since": self._seconds("since", since),
            "until": self._seconds("until", until),
        }

    def _state_query(self, state: State | str | None) -> dict[str, Any]:
        if state is None or isinstance(state, State):
            return {"state": state}
        stored, derived = parse_state(state)
        return {"state": stored, "accepts": None if derived is None else StateFilter(self._store(), derived)}

    def _seconds(self, what: str, moment: Moment | None) -> float | None:
        if moment is None:
            return None
        if isinstance(moment, timedelta):
            return _checked_seconds(what, self._store().clock.now() - moment.total_seconds())
        if not isinstance(moment, datetime) or moment.utcoffset() is None:
            raise BadJob(
                f"{what} is a datetime with a time zone, such as datetime(2030, 1, 31, tzinfo=UTC), or a timedelta "
                f"ago, such as timedelta(hours=3), not {moment!r}."
            )
        return _checked_seconds(what, moment.timestamp())

    # ── one job ──────────────────────────────────────────────────────────────────────────────────

    def log(self, job_id: str, *, after: int = 0, limit: int | None = None) -> list[Entry]:
        """Its numbered log, from the entry after `after` on, at most `limit` entries. Raises JobNotFound."""
        store = self._store()
        return store.entries(job_id, after=after, limit=limit) if store.get(job_id).entries > after else []

    def events(self, job_id: str) -> tuple[Event, ...]:
        """What happened to it, oldest first. Raises JobNotFound."""
        return self.history(job_id).events

    def history(self, job_id: str) -> History:
        """The job with its log, checkpoints, events and files. Raises JobNotFound."""
        return self._store().history(job_id)

    # ── queues ───────────────────────────────────────────────────────────────────────────────────

    def pause(self, queue: str = "default", reason: str = "") -> None:
        """Workers take no more jobs from the queue; running ones continue."""
        self._store().pause(checked_name(queue, "queue"), reason)

    def resume(self, queue: str = "default") -> None:
        """Workers take its jobs again."""
        self._store().resume(checked_name(queue, "queue"))

    # ── many jobs ────────────────────────────────────────────────────────────────────────────────

    def retry_all(
        self,
        *,
        task: str | None = None,
        tenant: str | None = None,
        tag: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        error: str | None = None,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> BulkChange:
        """Gives failed jobs another attempt, with their checkpoints; `error` is the name of their exception's type.

        One that cannot be retried, such as one whose unique key another job holds now, stops no other.
        """
        found = self.find(state=State.FAILED, task=task, tenant=tenant, tag=tag, since=since, until=until)
        wanted = (job for job in found if error is None or (job.error is not None and job.error.kind == error))
        return _change_all(wanted, lambda job: self._store().retry(job.id), limit, dry_run)

    def cancel_all(
        self,
        *,
        state: State | str | None = None,
        task: str | None = None,
        tenant: str | None = None,
        tag: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        reason: str = "",
        limit: int | None = None,
        dry_run: bool = False,
    ) -> BulkChange:
        """Cancels queued jobs, and asks running ones to end; with `state`, only those."""
        states: tuple[State | str, ...] = (State.QUEUED, State.PROCESSING) if state is None else (state,)
        for one in states:
            if parse_state(str(one))[0] not in (State.QUEUED, State.PROCESSING):
                raise BadJob(f"A {one} job cannot be cancelled: only one that has not ended can.")
        wanted = (
            job
            for one in states
            for job in self.find(state=one, task=task, tenant=tenant, tag=tag, since=since, until=until)
            if job.cancel_reason is None
        )
        return _change_all(wanted, lambda job: self._store().cancel(job.id, reason), limit, dry_run)


def _change_all(wanted: Iterator[Job], change: Callable[[Job], object], limit: int | None, dry_run: bool) -> BulkChange:
    """Raises what stops all of it, such as a database that is away: what was changed until then stays changed."""
    if limit is not None and limit < 1:
        raise BadJob(f"limit is 1 or more, or None for all; not {limit}.")
    matched = changed = refused = 0
    refusals: list[str] = []
    for job in wanted:
        matched += 1
        if not dry_run:
            try:
                change(job)
                changed += 1
            except (BadTransition, JobNotFound, BadJob) as error:
                refused += 1
                refusals += [str(error)] if len(refusals) < _MOST_REFUSALS else []
        if matched == limit:
            break
    return BulkChange(matched, changed, refused, tuple(refusals), dry_run)


def _checked_seconds(what: str, seconds: float) -> float:
    try:
        utc_text(seconds)
    except (ValueError, OverflowError, OSError):  # a time zone, or a timedelta, has moved it out of the calendar
        raise BadJob(f"{what} is a time in the years 1 to 9999 of UTC, and this one is outside of them.") from None
    return seconds
