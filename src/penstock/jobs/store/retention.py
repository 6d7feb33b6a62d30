"""When jobs expire, and how one that lasts is kept.

1. All records of a job, and the guard of its unique key, expire at the same moment: `keep_seconds` after it was made,
   or after it was due.
2. It is later for a job that has not ended by then. Whatever is done to a job of which less than half of that time
   is left moves the moment, and workers look after jobs that nothing is done to (JobStore.look_after).
3. The main record is moved last, and only if it is as it was before the others were looked for. Every record is written
   together with the main one, so none can be missed; and whoever dies halfway leaves records that live too long,
   never too short.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from penstock.client.database import Database
from penstock.errors import ConditionalCheckFailedException, TransactionCanceledException
from penstock.jobs.layouts.layout import Item, Layout
from penstock.jobs.model import transitions
from penstock.jobs.model.job import Job, JobNotFound
from penstock.jobs.store.conditional_writes import TRANSACTION_ACTIONS, JobWriter
from penstock.jobs.store.queries import JobReader
from penstock.jobs.store.side_items import SideItems
from penstock.optimistic import Conflict, Contention


class Expiry:
    def __init__(
        self,
        db: Database,
        layout: Layout,
        side_items: SideItems,
        reader: JobReader,
        writer: JobWriter,
        keep_seconds: float,
    ) -> None:
        # Also refuses NaN.
        if not 1 <= keep_seconds <= _LONGEST_KEEP_SECONDS:
            raise ValueError(f"keep_seconds is 1 to {_LONGEST_KEEP_SECONDS:,} (100 years), not {keep_seconds}")
        self._keep_seconds = keep_seconds
        self._db = db
        self._layout = layout
        self._side_items = side_items
        self._reader = reader
        self._writer = writer

    def extend(self, job: Job, due_at: float, now: float) -> Job:
        """The job, all of whose records expire `keep_seconds` after `due_at` (2). Raises JobNotFound.

        It must have been read just now: nobody may move the records of a job that has ended since.
        """
        until = int(due_at + self._keep_seconds)
        contention = Contention(job.id)
        while job.expires_at < until:
            self._extend_records(job, until)
            changed = transitions.extend_retention(job, until, now)
            try:
                self._writer.change(job, changed)
                return changed.job
            except Conflict as conflict:
                current: Job | None = conflict.current
                if current is None:
                    raise JobNotFound(job.id) from None
                if current.state is not job.state:
                    return current
                job = current
                contention.wait()
        return job

    def _extend_records(self, job: Job, until: int) -> None:
        updates = self._side_items.keep_unique(job, until)
        updates += [self._update(key, until) for key, ttl in self._records(job.id) if ttl < until]
        for start in range(0, len(updates), TRANSACTION_ACTIONS):
            self._write(updates[start : start + TRANSACTION_ACTIONS])

    def _update(self, key: Item, until: int) -> dict[str, Any]:
        return {
            "TableName": self._layout.table,
            "Key": key,
            "UpdateExpression": "SET #ttl = :until",
            "ConditionExpression": "#ttl < :until",
            "ExpressionAttributeNames": {"#ttl": self._layout.ttl_name},
            "ExpressionAttributeValues": {":until": {"N": str(until)}},
        }

    def _write(self, updates: list[dict[str, Any]]) -> None:
        try:
            self._db.execute("TransactWriteItems", {"TransactItems": [{"Update": update} for update in updates]})
        except TransactionCanceledException:  # one of them is gone, or another process has moved it further
            for update in updates:
                with suppress(ConditionalCheckFailedException):
                    self._db.execute("UpdateItem", update)

    def remove(self, job: Job) -> None:
        """Deletes a job that has expired: what the database would do a little later."""
        for key, _ in self._records(job.id):
            self._db.execute("DeleteItem", {"TableName": self._layout.table, "Key": key})
        with suppress(ConditionalCheckFailedException):  # somebody else does the same
            self._writer.remove(job)

    def _records(self, job_id: str) -> Iterator[tuple[Item, int]]:
        """The key and the expiry of all records but the main one."""
        main = self._layout.main_key(job_id)
        for call in self._layout.reads(job_id):
            for item in self._reader.pages(call):
                key = {name: item[name] for name in main}
                if key != main:
                    yield key, int(item[self._layout.ttl_name]["N"])


_LONGEST_KEEP_SECONDS: Final = 100 * 365 * 24 * 3600
