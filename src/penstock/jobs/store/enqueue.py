"""New jobs: their first version, and the write that makes them.

1. A job is made once: a write whose answer was lost, and that is repeated, finds its own name (conditional_writes.py,
   4) or, where a worker has changed the job since, the job with its random id.
2. Of several with one idempotency key, or one unique key, one is made; the others are that one.
3. All that can be refused is refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.jobs.layouts.layout import Item
from penstock.jobs.model import transitions
from penstock.jobs.model.job import (
    Job,
    JobNotFound,
    KeyTaken,
    NewJob,
    Payload,
    check_new,
    first_version,
    is_made_by,
    new_id,
)
from penstock.jobs.model.json_text import to_json
from penstock.jobs.model.transitions import ChangedJob
from penstock.jobs.store.conditional_writes import Guarded, JobWriter
from penstock.jobs.store.dependencies import Dependencies
from penstock.jobs.store.payloads import SHORT_CHARACTERS
from penstock.jobs.store.queries import JobReader
from penstock.jobs.store.retention import Expiry
from penstock.jobs.store.turns import Turns
from penstock.optimistic import Conflict, Contention

if TYPE_CHECKING:
    from penstock.jobs.store.store import JobStore
    from penstock.jobs.store.transactions import JobInTransaction

_ENQUEUED_TOGETHER: Final = 100


class NewJobs:
    """Makes the jobs of one store."""

    def __init__(
        self,
        store: JobStore,
        reader: JobReader,
        writer: JobWriter,
        expiry: Expiry,
        dependencies: Dependencies,
        turns: Turns,
    ) -> None:
        self._store = store
        self._reader = reader
        self._writer = writer
        self._expiry = expiry
        self._dependencies = dependencies
        self._turns = turns

    def create(self, new: NewJob, stored_args: str | None = None) -> tuple[Job, bool]:
        """The job, and whether it is new: one with the same idempotency or unique key may exist already.

        `stored_args` are arguments as another job has them stored, instead of those of `new`.
        """
        job, text = self._first_version(new)
        made, is_new = self._create(new, job, text if stored_args is None else stored_args)
        return (self._dependencies.register(made) if made.unregistered else made), is_new

    def create_all(self, news: Sequence[NewJob]) -> list[tuple[Job, bool]]:
        """The same for each; in process, a hundred at a time are one commit. Nothing is made if one is refused."""
        made: dict[int, Job] = {}
        plain: list[tuple[int, ChangedJob]] = []
        for place, new in enumerate(news):
            job, text = self._first_version(new)
            if self._is_one_put(job, text):
                plain.append((place, transitions.create(job, Payload(self._store.payloads.encode(job, "args", text)))))
        for start in range(0, len(plain), _ENQUEUED_TOGETHER):
            group = plain[start : start + _ENQUEUED_TOGETHER]
            written = self._writer.create_together([created for _, created in group])
            made.update({place: created.job for (place, created), is_new in zip(group, written, strict=True) if is_new})
        # What is more than one write, or is there already, is made as any other.
        return [(made[place], True) if place in made else self.create(new) for place, new in enumerate(news)]

    def plan_creation(self, new: NewJob) -> ChangedJob | None:
        """The new job, where making it is one write of one item."""
        job, text = self._first_version(new)
        if not self._is_one_put(job, text):
            return None
        return transitions.create(job, Payload(self._store.payloads.encode(job, "args", text)))

    def _is_one_put(self, job: Job, text: str) -> bool:
        return (
            self._writer.keeps_events
            and not job.depends_on
            and job.unique_key is None
            and not job.tags
            and len(text) <= SHORT_CHARACTERS
        )

    def join(self, new: NewJob, on_commit: Callable[[], None]) -> JobInTransaction:
        """The job as a part of somebody's transaction; nothing is written here."""
        job, text = self.plan(new)
        from penstock.jobs.store.transactions import JobInTransaction  # by the first that joins one

        return JobInTransaction(self._store, self._writer, self._expiry, new, job, text, on_commit)

    def plan(self, new: NewJob) -> tuple[Job, str]:
        """The job as it is to be, and its arguments. Nothing is read or written."""
        check_new(new)
        return first_version(new, self._store.clock.now(), self._store.keep_seconds), to_json(new.args, "args")

    def _first_version(self, new: NewJob) -> tuple[Job, str]:
        """The same with its place among the others, which is read and written here."""
        job, text = self.plan(new)
        if job.depends_on:
            job = self._dependencies.check_parents(job)
        return self.take_turn(job), text

    def take_turn(self, job: Job) -> Job:
        """The new job with its turn among the tenants', if it is ready."""
        if job.tenant:
            self._store.side_items.note_tenant(job.tenant)
        if job.waiting_for or job.run_at > job.created_at:
            return job
        if job.rate_key is not None or self._store.side_items.has_tenants(job.created_at):
            turn = self._turns.next_turn(job.queue, job.priority, _flow(job), job.created_at)
            job = replace(job, turn=turn)
        return job

    def _create(self, new: NewJob, job: Job, text: str) -> tuple[Job, bool]:
        contention = Contention(job.id)
        while True:
            payload, records = self._store.payloads.place(job, "args", text)
            stored, dependencies = self._dependencies.store_apart(job)
            records += dependencies
            if job.tags:
                records += self._store.layout.tags(job)
            created = transitions.create(stored, payload)
            try:
                guards = [] if job.unique_key is None else self._store.side_items.hold_unique(job)
                self._writer.create(created, records, guards)
                return created.job, True
            except Conflict as conflict:
                found = conflict.current
                if found is not None and is_made_by(new, job, found):
                    return found, True  # its answer was lost, and a worker has changed it since
                if new.idempotency_key is None and new.id is None:
                    job = replace(job, id=new_id(job.created_at))  # one id in two billion
                elif found is not None and found.expires_at > job.created_at:
                    return self.check_same(new, found, text), False
                elif found is not None:
                    self._expiry.remove(found)
            except Guarded as refusal:
                holder = self.unique_holder(job, refusal.item)
                if holder is not None:
                    return holder, False
            contention.wait()

    def check_same(self, new: NewJob, found: Job, text: str) -> Job:
        """The job that has the new one's idempotency key already. Raises BadJob if it has other arguments."""
        if found.task != new.task or not self._store.payloads.is_same(found, found.args, text):
            raise KeyTaken(
                f"{found.id} has the same idempotency key ({new.idempotency_key or new.id!r}) and other arguments. "
                "Use another key for another job, or the same arguments."
            )
        return found

    def unique_holder(self, job: Job, guard: Item | None) -> Job | None:
        """Who holds the job's unique key; None, and nobody does any more, if that one is gone or has ended."""
        holder = (guard or {}).get("holder", {}).get("S", "")
        try:
            found = self._reader.get(holder, self._store.clock.now())
            if not found.is_terminal:
                return found
        except JobNotFound:  # it has expired, or was deleted by hand
            pass
        self._store.side_items.forget_unique(job, holder)
        return None


def _flow(job: Job) -> str:
    """Who takes turns with the others (turns.py): a tenant, or jobs of one rate key that have none."""
    return job.tenant or ("" if job.rate_key is None else f"#{job.rate_key}")
