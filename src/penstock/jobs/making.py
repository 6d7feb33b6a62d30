"""Making a job: once for its key, whoever asks at the same time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from penstock.clock import Clock
from penstock.jobs import changes
from penstock.jobs.dependencies import Dependencies
from penstock.jobs.expiry import Expiry
from penstock.jobs.job import Contended, Job, JobNotFound, altered, new_id
from penstock.jobs.layout import Item
from penstock.jobs.new import BadJob, NewJob, check_new, first_version
from penstock.jobs.payloads import Payloads, to_json
from penstock.jobs.queues import Sides
from penstock.jobs.reading import JobReader
from penstock.jobs.writing import Conflict, Guarded, JobWriter

_TRIES: Final = 500


@dataclass(frozen=True, slots=True)
class Maker:
    clock: Clock
    payloads: Payloads
    reader: JobReader
    writer: JobWriter
    sides: Sides
    dependencies: Dependencies
    expiry: Expiry

    def create(self, new: NewJob) -> tuple[Job, bool]:
        """The job, and whether it is new: one with the same idempotency or unique key may exist already."""
        check_new(new)
        now = self.clock.now()
        text = to_json(new.args, "args")
        job = first_version(new, now, self.expiry.of(max(now, new.run_at or now)))
        if job.after:
            job = self.dependencies.checked(job)
        self.sides.note_tenant(job.tenant)
        made, is_new = self._create(new, job, text)
        return (self.dependencies.register(made) if made.unregistered else made), is_new

    def _create(self, new: NewJob, job: Job, text: str) -> tuple[Job, bool]:
        for _ in range(_TRIES):
            payload, records = self.payloads.kept(job, "args", text)
            job = altered(job, {"args": payload})
            created = changes.created(job)
            try:
                self.writer.create(created, records, self.sides.hold_unique(job))
                return created.job, True
            except Conflict as conflict:
                found = conflict.current
                if new.key is None and new.id is None:
                    job = replace(job, id=new_id(job.created_at))  # one id in two billion
                elif found is not None and found.expires_at > job.created_at:
                    return self._existing(new, found, text), False
                elif found is not None:
                    self.expiry.remove(found)
            except Guarded as refusal:
                holder = self.holder(job, refusal.item)
                if holder is not None:
                    return holder, False
        raise Contended(job.id, _TRIES)

    def _existing(self, new: NewJob, found: Job, text: str) -> Job:
        if found.task != new.task or not self.payloads.is_same(found, found.args, text):
            raise BadJob(
                f"{found.id} has the same key ({new.key or new.id!r}) and other arguments. "
                "Use another key for another job, or the same arguments."
            )
        return found

    def holder(self, job: Job, guard: Item | None) -> Job | None:
        """Who holds the job's unique key; None, and nobody does any more, if that one is gone or has ended."""
        holder = (guard or {}).get("holder", {}).get("S", "")
        try:
            found = self.reader.get(holder, self.clock.now())
            if not found.is_terminal:
                return found
        except JobNotFound:  # it has expired, or was deleted by hand
            pass
        self.sides.forget_unique(job, holder)
        return None
