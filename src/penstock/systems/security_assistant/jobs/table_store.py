"""Jobs and events in DynamoDB tables, in either layout.

The item of a job is in both layouts the same; what differs are the attributes that its indexes go by (tables.py). In
safe they carry a shard or the company, and a job is found by its id in an index; in compat that is a Scan.
"""

from __future__ import annotations

import heapq
import secrets
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from penstock.client.database import Database
from penstock.client.items.expressions import F
from penstock.client.items.failures import ConditionFailed, TransactionFailed
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.jobs.layouts.layout import shard_of
from penstock.jobs.model.state import State
from penstock.optimistic import Conflict
from penstock.systems.schema_variants import SchemaVariant
from penstock.systems.security_assistant import tables
from penstock.systems.security_assistant.jobs.job import STATUSES, BadItem, DrawingJob, Event, Item, event_of, job_of
from penstock.systems.security_assistant.jobs.store import (
    ByClient,
    ByMonth,
    ByStatus,
    Everyone,
    NothingThere,
    Place,
    Wanted,
    in_order,
    place_of,
)
from penstock.tables.apply.apply import ensure_tables
from penstock.tables.definitions.definition import Table

SHARDS: Final = 10
"""Of a status and of a month, in the safe layout: ten times the writes of one partition. It is one number for
everybody, so that no process looks for jobs where another has not put them."""
_WRITE: Final = "write_id"
_PAGE: Final = 100
"""Jobs that are read at once from each shard: most lists are not longer."""


class TableJobStore:
    """Jobs in a table, and their events in another."""

    def __init__(
        self, db: Database, layout: SchemaVariant = "safe", *, jobs: str = tables.JOBS, events: str = tables.EVENTS
    ) -> None:
        self.db = db
        self.layout = layout
        self.definitions = tables.tables(layout, jobs=jobs, events=events)
        self._jobs = db.table(jobs, key=f"{tables.JOB_KEY}:S")
        self._events = db.table(events, key=("job_id:S", f"{tables.EVENT_SORT_KEY}:S"))

    @property
    def where(self) -> str:
        return f"{self.db.name} {self._jobs.name} ({self.layout})"

    def prepare(self, make: bool = True) -> None:
        """Makes the tables that are not there; one of the other layout is refused, and nothing is changed in it."""
        missing = tuple(one for one in self.definitions if not self._is_there(one))
        if missing and not make:
            raise NothingThere(
                f"{self.db.name} has no table {missing[0].name}: no drawing has been processed there yet."
            )
        if missing:
            ensure_tables(self.db, missing)

    def _is_there(self, wanted: Table) -> bool:
        try:
            found = self.db.execute("DescribeTable", {"TableName": wanted.name})["Table"]
        except ResourceNotFoundException:
            return False
        for index in found.get("GlobalSecondaryIndexes", []):
            if index["IndexName"] == "StatusDateIndex":
                has_shards = index["KeySchema"][0]["AttributeName"] == tables.STATUS_SHARD
                if has_shards != (self.layout == "safe"):
                    there = "safe" if has_shards else "compat"
                    raise PenstockError(
                        f"The table {wanted.name} has the layout {there}, not {self.layout}. Give --layout {there}, "
                        "or another table; `penstock security export` and `import` move jobs between them."
                    )
        return True

    # ── one job ──────────────────────────────────────────────────────────────────────────────────

    def get(self, key: str) -> DrawingJob | None:
        item = self._jobs.get({tables.JOB_KEY: key}, consistent=True)
        return None if item is None else job_of(item)

    def keys_of(self, job_id: str, company: str | None = None) -> list[str]:
        """The keys of all jobs with this id, or of the company's: ours have one, but others may have made the same.

        Safe asks its index, and the event of the job's making where the index does not know it yet. Compat has no
        index: it asks the event first, and reads the whole table where there is none (any more).
        """
        safe = self.layout == "safe"
        if safe and (found := self._keys_in(self._jobs.query(index="JobIdIndex", key={"job_id": job_id}), company)):
            return found
        if (safe or company is not None) and (keys := self._keys_in_events(job_id, company)):
            return keys
        if safe:
            return []
        scanned = self._jobs.scan(filter=F("job_id") == job_id, select=[tables.JOB_KEY], consistent=True)
        return self._keys_in(scanned, company)

    def _keys_in(self, items: Iterable[Item], company: str | None) -> list[str]:
        return _keys_of_company((item[tables.JOB_KEY] for item in items), company)

    def _keys_in_events(self, job_id: str, company: str | None) -> list[str]:
        keys = (event.details.get("key", "") for event in self.events(job_id) if event.type == "job_created")
        return _keys_of_company((key for key in keys if key), company)

    def insert(self, job: DrawingJob, events: Sequence[Event] = ()) -> None:
        """Raises Conflict if there is a job with this key."""
        self._write(job, F(tables.JOB_KEY).missing(), events)

    def replace(self, job: DrawingJob, events: Sequence[Event] = ()) -> None:
        """Writes what a change has made, and the events that tell of it, at once. Raises Conflict."""
        self._write(job, self._unchanged(job.version - 1), events)

    def delete(self, job: DrawingJob) -> bool:
        """False if it has changed since it was read."""
        try:
            self._jobs.delete({tables.JOB_KEY: job.key}, if_=self._unchanged(job.version))
        except ConditionFailed as failed:
            return failed.item is None
        return True

    def _unchanged(self, version: int) -> Any:
        same = F("version") == version
        if version == 0:  # an item that another program made has no version yet
            same |= F("version").missing()
        return F(tables.JOB_KEY).exists() & same

    def _write(self, job: DrawingJob, condition: Any, events: Sequence[Event]) -> None:
        name = secrets.token_hex(8)
        item = self._item(job) | {_WRITE: name}
        try:
            if events:
                self.db.transact_write(
                    [
                        self._jobs.put_action(item, if_=condition),
                        *(self._events.put_action(event.item()) for event in events),
                    ]
                )
            else:
                self._jobs.put(item, if_=condition)
        except (ConditionFailed, TransactionFailed) as failed:
            current = _refused_by(failed)
            # An answer was lost and the call repeated: the write that refuses it is its own.
            if current is None or current.get(_WRITE) != name:
                raise Conflict(job.key, None if current is None else job_of(current)) from None

    def _item(self, job: DrawingJob) -> Item:
        item = job.item()
        if self.layout == "safe":
            shard = f"{shard_of(job.id, SHARDS):02d}"
            item[tables.STATUS_SHARD] = f"{job.state.value}#{shard}"
            item[tables.MONTH_SHARD] = f"{job.month}#{shard}"
            item[tables.COMPANY_CLIENT] = f"{job.company}#{job.client}"
        return item

    # ── lists ────────────────────────────────────────────────────────────────────────────────────

    def find(self, wanted: Wanted, before: Place | None, newest_first: bool) -> Iterator[DrawingJob]:
        """Jobs in order, those after `before` only; page by page from all shards at once."""
        if isinstance(wanted, Everyone) or (isinstance(wanted, ByClient) and self._lacks_index(wanted)):
            return self._find_in_all_states(wanted, before, newest_first)
        index, name, partitions = self._partitions(wanted)
        streams = [
            in_order(self._partition(index, name, one, wanted, before, newest_first), before, newest_first)
            for one in partitions
        ]
        return heapq.merge(*streams, key=place_of, reverse=newest_first)

    def _lacks_index(self, wanted: ByClient) -> bool:
        """The safe layout's index of clients is by company and client."""
        return self.layout == "safe" and wanted.company is None

    def _find_in_all_states(
        self, wanted: Everyone | ByClient, before: Place | None, newest_first: bool
    ) -> Iterator[DrawingJob]:
        """The jobs of all states in one order; of them, the client's."""
        states = [self.find(ByStatus(State(one), wanted.company), before, newest_first) for one in STATUSES]
        merged = heapq.merge(*states, key=place_of, reverse=newest_first)
        # A job that changes its state meanwhile is in two of them, one after the other.
        jobs = (next(same) for _, same in groupby(merged, key=place_of))
        return jobs if isinstance(wanted, Everyone) else (job for job in jobs if job.client == wanted.client)

    def _partitions(self, wanted: ByStatus | ByMonth | ByClient) -> tuple[str, str, list[str]]:
        """The index, its partition key, and which of its partitions have the jobs."""
        safe = self.layout == "safe"
        match wanted:
            case ByStatus(status):
                found = _shards(status.value) if safe else [status.value]
                return "StatusDateIndex", tables.STATUS_SHARD if safe else "status", found
            case ByMonth(month):
                return (
                    "DateRangeIndex",
                    tables.MONTH_SHARD if safe else "date_bucket",
                    _shards(month) if safe else [month],
                )
            case ByClient(client, client_name, company):
                if not safe:
                    return "ClientProjectIndex", "client_name", [client_name]
                return "ClientProjectIndex", tables.COMPANY_CLIENT, [f"{company}#{client}"]

    def _partition(
        self, index: str, name: str, partition: str, wanted: Wanted, before: Place | None, newest_first: bool
    ) -> Iterator[DrawingJob]:
        low, high = (wanted.since or " ", wanted.until) if isinstance(wanted, ByMonth) else (" ", "~")
        if before is not None:
            low, high = (low, min(high, before[0])) if newest_first else (max(low, before[0]), high)
        if low > high:
            return
        found = self._jobs.query(
            index=index,
            key={name: partition},
            sort=F("created_at").between(low, high),
            filter=None if wanted.company is None else F("company_id") == wanted.company,
            newest_first=newest_first,
            page_size=_PAGE,
        )
        for item in found:
            try:
                yield job_of(item)
            except BadItem:  # somebody else's item hides nobody's jobs
                continue

    def everything(self) -> Iterator[DrawingJob]:
        """All jobs, in no order. Raises BadItem for an item that is none."""
        return (job_of(item) for item in self._jobs.scan(consistent=True))

    # ── events ───────────────────────────────────────────────────────────────────────────────────

    def add_event(self, event: Event) -> None:
        self._events.put(event.item())

    def events(self, job_id: str) -> Iterator[Event]:
        """Of this job, in order."""
        return (event_of(item) for item in self._events.query(key={"job_id": job_id}, consistent=True))


def _keys_of_company(keys: Iterable[str], company: str | None) -> list[str]:
    return sorted(key for key in keys if company is None or key.startswith(f"{company}#"))


def _shards(value: str) -> list[str]:
    return [f"{value}#{shard:02d}" for shard in range(SHARDS)]


def _refused_by(failed: ConditionFailed | TransactionFailed) -> Item | None:
    """The job as it is; an error that is no refusal of ours is raised again."""
    if isinstance(failed, ConditionFailed):
        return failed.item
    for reason in failed.reasons:
        if reason.code == "ConditionalCheckFailed":
            return reason.item
    raise failed
