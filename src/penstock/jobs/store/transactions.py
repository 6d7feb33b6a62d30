"""A job that is enqueued in a transaction of the user's own.

1. The job's records and the user's actions are one TransactWriteItems: both happen, or neither.
2. A job that has the idempotency or unique key already does not cancel the user's writes. The transaction is sent
   again with a check in place of the job's records: that the job is there, or that it still holds the unique key. If
   the check is refused (the job has ended meanwhile), the job's records are tried again. So at the moment of the commit
   there is a job, the new one or the other.
3. The job's records are made once: an attempt whose answer was lost, and that is repeated, finds its own write, by its
   name or, after a worker has changed the job, by the random id. All of the transaction has happened then.
4. Nothing is written before it is known that all of it fits. Then the tenant and its turn are written down, and
   arguments that no item can hold are saved as a file: what is left of these if the transaction is refused does no
   harm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.client.tables import transactions
from penstock.client.tables.transactions import Reasons
from penstock.jobs.layouts.layout import WRITE_NAME, Item, Record
from penstock.jobs.model.job import BadJob, Job, NewJob, Payload, is_made_by
from penstock.jobs.model.transitions import create
from penstock.jobs.store.conditional_writes import REFUSED, Action, JobWriter
from penstock.jobs.store.payloads import RECORD_BYTES
from penstock.jobs.store.retention import Expiry

if TYPE_CHECKING:
    from penstock.jobs.store.store import JobStore


class JobInTransaction:
    """One new job; a `Participant` of the client's Transaction."""

    def __init__(
        self,
        store: JobStore,
        writer: JobWriter,
        expiry: Expiry,
        new: NewJob,
        job: Job,
        text: str,
        on_commit: Callable[[], None],
    ) -> None:
        """`job` is the new one as it is planned, and `text` its arguments."""
        if new.depends_on:
            raise BadJob(
                f"{new.task}: depends_on is not possible in a transaction, because each job that is waited for must be "
                "told of it, by writes of its own. Enqueue this one after the block, with depends_on=[job.id]; "
                "or let the task of the first one enqueue it."
            )
        self.name = f"the job of {new.task}"
        self._store = store
        self._writer = writer
        self._expiry = expiry
        self._new = new
        self._text = text
        self._on_commit = on_commit
        self._payload: Payload | None = None
        self._records: list[Record] = []
        if len(text.encode()) <= RECORD_BYTES:
            self._payload, self._records = store.payloads.place(job, "args", text)
        if job.tags:
            self._records += store.layout.tags(job)
        self._creation = self._create(job)
        self._known: Job | None = None
        """The job that has its idempotency or unique key already (2)."""
        self._check: Action = {}

    def _create(self, job: Job) -> list[Action]:
        changed = create(job, self._payload or Payload(""))
        self.job = self._planned = changed.job
        guards = [] if job.unique_key is None else self._store.side_items.hold_unique(job)
        return self._writer.creation(changed, self._records, guards)

    def covers(self, other: Any) -> bool:
        """Whether the other one would be this job, which is in the transaction already. Raises BadJob."""
        if not isinstance(other, JobInTransaction) or other._store is not self._store:
            return False
        mine, its = self._planned, other._planned
        if mine.id == its.id:
            if self._new.task != other._new.task or self._text != other._text:
                raise BadJob(
                    f"{mine.id}: two jobs of the transaction have the idempotency key "
                    f"{other._new.idempotency_key!r} and other arguments. Use another key for another job."
                )
            return True
        key = mine.unique_key
        return key is not None and (key, mine.task, mine.tenant) == (its.unique_key, its.task, its.tenant)

    def actions(self) -> list[transactions.Action]:
        """Its records, or the check that the other job is there (2)."""
        actions = self._creation if self._known is None else [self._check]
        return [transactions.Action(kind, request) for one in actions for kind, request in one.items()]  # type: ignore[arg-type]

    def prepare(self) -> None:
        """Takes its turn, and saves long arguments (4)."""
        job = self._store.new_jobs.take_turn(replace(self._planned, events=()))
        if self._payload is not None and job.turn is None:
            return
        if self._payload is None:
            self._payload = self._store.payloads.spill(job, "args", self._text)
        shown = self.job
        self._creation = self._create(job)
        self.job = shown  # it is the caller's

    def is_written(self, reasons: Reasons) -> bool:
        """Whether the transaction has happened, and an answer was lost (3)."""
        found = self._found(reasons)
        if found is None:
            return False
        if found.get(WRITE_NAME) == self._creation[0]["Put"]["Item"][WRITE_NAME]:
            return True
        return is_made_by(self._new, self._planned, self._store.layout.job(found))

    def decide(self, reasons: Reasons) -> bool:
        """Whether it was refused: then by a job that it is instead, or by one that is gone now (2). Raises BadJob."""
        refused = [place for place, reason in enumerate(reasons) if reason.get("Code") == REFUSED]
        if not refused:
            return False
        if self._known is not None:
            self._known = None  # it has ended, or is gone
        elif refused[0] == 0:
            found = self._found(reasons)
            self._decide_on(None if found is None else self._store.layout.job(found))
        else:
            holder = self._store.new_jobs.unique_holder(self._planned, reasons[refused[0]].get("Item") or self._guard())
            if holder is not None:
                self._known = holder
                self._check = self._store.side_items.check_unique(self._planned, holder.id)
        return True

    def finish(self) -> None:
        """The job that the caller has is the one that is stored, from now on; workers are woken."""
        final = self._planned if self._known is None else self._known
        fields = {**final.__dict__, "is_new": self._known is None}
        object.__setattr__(self.job, "__dict__", fields)
        self._on_commit()

    def _decide_on(self, found: Job | None) -> None:
        """There is a job with the same id."""
        if found is None:
            return
        if found.expires_at <= self._planned.created_at:
            self._expiry.remove(found)
            return
        self._known = self._store.new_jobs.check_same(self._new, found, self._text)
        self._check = self._writer.check_there(found)

    def _found(self, reasons: Reasons) -> Item | None:
        return None if self._known is not None else self._writer.found_instead(self._creation[0], reasons)

    def _guard(self) -> Item | None:
        """What holds the unique key: not every server says so where it refuses."""
        return self._store.side_items.read_unique(self._planned)
