"""The jobs of a database, whatever tables they are in: read by those who list and show them.

A `JobSourceType` recognises a table by its description and opens it as a `JobSource`, which reads the table's items as
`Job`s. Job stores and runs of record processors are known here; systems register the types of their own tables
(penstock/registry.py).

1. Only a job store changes jobs. Of other sources, jobs are read here and changed by their system's own commands.
2. A list is merged from all sources, newest first. Its token is the place of its last job (`2026-11-15T…Z#id`), so
   pages neither repeat nor leave out jobs when new ones arrive.
3. A job that two sources have (a report, and the work on it, have one id) is listed once, as the first one says it.
4. A table without an index by time is read whole, but no more than `JobQuery.most_scanned` items of it; `notes` says
   where that was not all.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from penstock.client.database import Database
from penstock.client.items.values import Item
from penstock.clock import utc_seconds, utc_text
from penstock.errors import AccessDeniedException, PenstockError, ResourceNotFoundException
from penstock.jobs.layouts import tables
from penstock.jobs.model.derived_state import Conditions, DerivedState, derive
from penstock.jobs.model.job import Entry, History, Job, JobError, JobNotFound
from penstock.jobs.model.state import State
from penstock.jobs.store.conditions import StateFilter
from penstock.jobs.store.store import JobStore
from penstock.records.runs_table import KEPT_SECONDS, RUNS_TABLE

if TYPE_CHECKING:
    from penstock.files import Files

MOST_TABLES: Final = 500
"""Tables that are looked at for jobs: an account may have 2,500, and each is described by a call."""
MOST_SCANNED: Final = 10_000
NEVER_EXPIRES: Final = 253_402_300_799
"""Of a job without a moment of expiry: the last second that a date can name."""


@dataclass(frozen=True, slots=True)
class JobQuery:
    """Which jobs a list should have."""

    state: State | None = None
    task: str | None = None
    tenant: str | None = None
    since: float | None = None
    until: float | None = None
    limit: int = 50
    before: str | None = None
    """The place of the last job of the page before (2)."""
    most_scanned: int = MOST_SCANNED
    tag: str | None = None
    derived: DerivedState | None = None
    """Of jobs in a job store; jobs of other sources are in it by their stored state and the clock alone."""

    def matches(self, job: Job) -> bool:
        return (
            (self.state is None or job.state is self.state)
            and (self.derived is None or derive(job, Conditions(time.time())).state is self.derived)
            and (self.task is None or job.task == self.task)
            and (self.tenant is None or job.tenant == self.tenant)
            and (self.tag is None or self.tag in job.tags)
            and (self.since is None or job.created_at >= self.since)
            and (self.until is None or job.created_at <= self.until)
            and (self.before is None or place_of(job) < self.before)
        )


def place_of(job: Job) -> str:
    return f"{utc_text(job.created_at)}#{job.id}"


class JobSource(Protocol):
    """The jobs of one table."""

    @property
    def system(self) -> str:
        """Whose jobs they are: `excel-reports`; `jobs` for those of apps."""

    @property
    def table(self) -> str: ...

    @property
    def store(self) -> JobStore | None:
        """What can change them (1)."""

    @property
    def commands(self) -> str:
        """Where there is no store: what changes them, such as `penstock excel`."""

    def find(self, query: JobQuery, notes: list[str]) -> Sequence[Job]:
        """At most `query.limit` jobs that match, newest first."""

    def history(self, job_id: str) -> History | None: ...

    def read(self, job_id: str, after: int) -> tuple[Job, Sequence[Entry]]:
        """The job now, and the entries of its log after this number. Raises JobNotFound."""


class ReadOnlySource:
    """What sources without a store have in common."""

    store: ClassVar[None] = None

    def history(self, job_id: str) -> History | None:
        raise NotImplementedError

    def read(self, job_id: str, after: int) -> tuple[Job, Sequence[Entry]]:
        found = self.history(job_id)
        if found is None:
            raise JobNotFound(job_id)
        return found.job, [entry for entry in found.entries if entry.number > after]


class NotChangedHere(PenstockError):
    """A job that its system's own commands change."""

    def __init__(self, job_id: str, system: str, commands: str) -> None:
        super().__init__(f"{job_id} is a job of {system}: change it with `{commands}`.")
        self.job_id = job_id
        self.system = system


class TableDescription:
    """What DescribeTable says, as far as a source goes by it."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        self.name: str = described["TableName"]
        self.keys: tuple[str, ...] = _key_names(described)
        self.indexes: dict[str, tuple[str, ...]] = {
            index["IndexName"]: _key_names(index) for index in described.get("GlobalSecondaryIndexes", ())
        }


def _key_names(described: Mapping[str, Any]) -> tuple[str, ...]:
    ordered = sorted(described["KeySchema"], key=lambda part: str(part["KeyType"]))  # HASH comes before RANGE
    return tuple(part["AttributeName"] for part in ordered)


JobSourceType = Callable[[Database, TableDescription, "Files | None"], JobSource | None]
"""Opens a table as a source; None for a table that is none of its kind."""


# ── job stores ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class StoreSource:
    """A job store."""

    store: JobStore
    system: str = "jobs"
    commands: str = "penstock jobs"

    @property
    def table(self) -> str:
        return self.store.layout.table

    def find(self, query: JobQuery, notes: list[str]) -> Sequence[Job]:
        jobs: list[Job] = []
        token = query.before
        accepts = None if query.derived is None else StateFilter(self.store, query.derived)
        while True:
            page = self.store.find(
                state=query.state,
                task=query.task,
                tenant=query.tenant,
                tag=query.tag,
                since=query.since,
                until=query.until,
                limit=query.limit,
                token=token,
                accepts=accepts,
            )
            # A layout whose index has the time alone begins with jobs of the same millisecond, which may be listed.
            jobs += [job for job in page.jobs if query.before is None or place_of(job) < query.before]
            token = page.token
            if token is None or len(jobs) >= query.limit:
                return jobs[: query.limit]

    def history(self, job_id: str) -> History | None:
        try:
            return self.store.history(job_id)
        except JobNotFound:
            return None

    def read(self, job_id: str, after: int) -> tuple[Job, Sequence[Entry]]:
        job = self.store.get(job_id)
        return job, self.store.entries(job_id, after=after) if job.entries > after else []


def job_store_source(db: Database, table: TableDescription, files: Files | None) -> JobSource | None:
    """A table of the default layout."""
    if table.keys != ("job_id", "record") or tables.CLAIM_INDEX not in table.indexes:
        return None
    return StoreSource(JobStore.of_table(db, table.name, files=files))


# ── runs of record processors ────────────────────────────────────────────────────────────────────

_RUN_STATES: Final = {
    "running": State.PROCESSING,
    "completed": State.COMPLETED,
    "failed": State.FAILED,
    "interrupted": State.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class RecordRuns(ReadOnlySource):
    """Runs of `penstock records process` and its like: of one table of records, or of all."""

    db: Database
    system: str = "records"
    records: str | None = None
    commands: str = "penstock records"
    table: str = RUNS_TABLE

    def find(self, query: JobQuery, notes: list[str]) -> Sequence[Job]:
        runs = (
            run_job(item) for item in scan_items(self.db, self.table, ("run_id",), query, notes) if self._is_ours(item)
        )
        return newest_jobs(runs, query)

    def history(self, job_id: str) -> History | None:
        try:
            item = self.db.table(self.table, key="run_id:S").get({"run_id": job_id}, consistent=True)
        except ResourceNotFoundException:
            return None
        return None if item is None or not self._is_ours(item) else History(run_job(item))

    def _is_ours(self, item: Item) -> bool:
        return self.records is None or item.get("table") == self.records


def run_job(item: Item) -> Job:
    """A run as a job. Its task is the table and the function; its progress is in records."""
    started = float(item.get("started_at", 0))
    updated = float(item.get("updated_at", started))
    state = _RUN_STATES.get(str(item.get("state")), State.FAILED)
    done, failed = int(item.get("processed", 0)), int(item.get("failed", 0))
    total = int(item.get("total", 0))
    percent = 100.0 if state is State.COMPLETED else 100.0 * (done + failed) / total if total else 0.0
    return Job(
        id=str(item["run_id"]),
        task=f"{item.get('table', '')}:{item.get('function', '')}",
        state=state,
        created_at=started,
        updated_at=updated,
        run_at=started,
        expires_at=int(item.get("expires_at", started + KEPT_SECONDS)),
        attempt=1,
        progress=min(100.0, percent),
        step=f"{done:,} done" + (f", {failed:,} failed" if failed else ""),
        started_at=started,
        ended_at=float(item["ended_at"]) if "ended_at" in item else None,
    )


def record_runs_source(db: Database, table: TableDescription, files: Files | None) -> JobSource | None:
    return RecordRuns(db) if table.name == RUNS_TABLE and table.keys == ("run_id",) else None


# ── for sources without a store ──────────────────────────────────────────────────────────────────


def scan_items(
    db: Database, table: str, keys: Sequence[str], query: JobQuery, notes: list[str], **options: Any
) -> Iterator[Item]:
    """The items of a table without an index by time, as many as the query allows (4)."""
    items = db.table(table, key=tuple(f"{name}:S" for name in keys)).scan(**options)
    for count, item in enumerate(items):
        if count == query.most_scanned:
            notes.append(f"{table} has more than {query.most_scanned:,} items: not all were read for this list.")
            return
        yield item


def newest_jobs(jobs: Iterable[Job], query: JobQuery) -> list[Job]:
    return heapq.nlargest(query.limit, (job for job in jobs if query.matches(job)), key=place_of)


def error_of(kind: object, message: object) -> JobError:
    return JobError(str(kind or ""), str(message or ""))


def time_of(text: object, default: float) -> float:
    """A stored time; the default where another program wrote none, or none that can be read."""
    try:
        return utc_seconds(str(text)) if text else default
    except ValueError:
        return default


# ── all of them ──────────────────────────────────────────────────────────────────────────────────

OWN_TYPES: Final[tuple[JobSourceType, ...]] = (job_store_source, record_runs_source)


@dataclass(frozen=True, slots=True)
class JobListing:
    """Jobs of all sources; `sources` says by id where each was found."""

    jobs: tuple[Job, ...]
    token: str | None
    sources: Mapping[str, JobSource] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class AllJobs:
    """The jobs of every source of a database."""

    def __init__(self, sources: Sequence[JobSource]) -> None:
        self.sources = tuple(sources)

    @classmethod
    def in_database(cls, db: Database, types: Iterable[JobSourceType] = (), *, files: Files | None = None) -> AllJobs:
        """Looks at every table; the systems' types come before our own (3)."""
        wanted = (*types, *OWN_TYPES)
        sources: list[JobSource] = []
        for name in _table_names(db):
            try:
                described = TableDescription(db.execute("DescribeTable", {"TableName": name})["Table"])
            except (ResourceNotFoundException, AccessDeniedException):
                continue
            opened = (one(db, described, files) for one in wanted)
            sources += [source for source in opened if source is not None][:1]
        return cls(sorted(sources, key=lambda source: (source.store is not None, source.system, source.table)))

    def find(self, query: JobQuery) -> JobListing:
        notes: list[str] = []
        one_more = replace(query, limit=query.limit + 1)
        seen: dict[str, tuple[Job, JobSource]] = {}
        for source in self.sources:
            try:
                for job in source.find(one_more, notes):
                    seen.setdefault(job.id, (job, source))
            except ResourceNotFoundException:
                continue  # the table has been deleted since
            except AccessDeniedException:
                notes.append(f"{source.table} may not be read: its jobs are not in this list.")
        ordered = sorted(seen.values(), key=lambda one: place_of(one[0]), reverse=True)
        listed = list(itertools.islice(ordered, query.limit))
        token = place_of(listed[-1][0]) if len(ordered) > query.limit else None
        return JobListing(tuple(job for job, _ in listed), token, {job.id: one for job, one in listed}, tuple(notes))

    def changeable(self, job_id: str) -> JobStore:
        """The job store that has this job. Raises JobNotFound; NotChangedHere for a job that a system changes itself.

        The work on a report is in a job store too, but its system must know of a change.
        """
        stores = [source.store for source in self.sources if source.store is not None]
        store = next((one for one in stores if one.get_existing([job_id])), None)
        if store is not None and store.layout.table == tables.DEFAULT_TABLE:
            return store
        for source in self.sources:
            if source.store is None and source.history(job_id) is not None:
                raise NotChangedHere(job_id, source.system, source.commands)
        if store is None:
            raise JobNotFound(job_id)
        return store

    def history(self, job_id: str) -> tuple[JobSource, History]:
        """The job with what belongs to it, where it can be changed before where it can only be read.

        Raises JobNotFound.
        """
        for source in sorted(self.sources, key=lambda one: one.store is None):
            found = source.history(job_id)
            if found is not None:
                return source, found
        raise JobNotFound(job_id)


def _table_names(db: Database) -> list[str]:
    try:
        return list(itertools.islice(db.tables(), MOST_TABLES))
    except AccessDeniedException:
        return [tables.DEFAULT_TABLE, RUNS_TABLE]
