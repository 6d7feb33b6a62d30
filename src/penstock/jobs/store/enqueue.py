"""Making a job: once for its key, whoever asks at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from penstock.clock import Clock
from penstock.jobs.layouts.layout import Item
from penstock.jobs.model import transitions
from penstock.jobs.model.job import Contended, Job, JobNotFound, Payload, altered, new_id
from penstock.jobs.model.new_job import BadJob, NewJob, check_new, first_version
from penstock.jobs.model.transitions import Changed
from penstock.jobs.store.conditional_writes import Conflict, Guarded, JobWriter
from penstock.jobs.store.dependencies import Dependencies
from penstock.jobs.store.payloads import Payloads, to_json
from penstock.jobs.store.queries import JobReader
from penstock.jobs.store.retention import Expiry
from penstock.jobs.store.side_items import Sides

_TRIES: Final = 500
_TOGETHER: Final = 100
_SHORT: Final = 1_024


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
        job, text = self._first(new)
        made, is_new = self._create(new, job, text)
        return (self.dependencies.register(made) if made.unregistered else made), is_new

    def create_all(self, news: Sequence[NewJob]) -> list[tuple[Job, bool]]:
        """The same for each; in process, so many at a time share a commit. Nothing is made if one is refused."""
        made: dict[int, Job] = {}
        plain: list[tuple[int, Changed]] = []
        for place, new in enumerate(news):
            job, text = self._first(new)
            if self._is_plain(job, text):
                plain.append((place, transitions.created(altered(job, {"args": Payload(text)}))))
        for start in range(0, len(plain), _TOGETHER):
            group = plain[start : start + _TOGETHER]
            written = self.writer.create_together([created for _, created in group])
            made.update({place: created.job for (place, created), is_new in zip(group, written, strict=True) if is_new})
        # What is more than one write, or is there already, is made as any other.
        return [(made[place], True) if place in made else self.create(new) for place, new in enumerate(news)]

    def _is_plain(self, job: Job, text: str) -> bool:
        return self.writer.keeps_events and not job.after and job.unique is None and len(text) <= _SHORT

    def _first(self, new: NewJob) -> tuple[Job, str]:
        """The job as it is to be, and its arguments."""
        check_new(new)
        now = self.clock.now()
        text = to_json(new.args, "args")
        job = first_version(new, now, self.expiry.of(max(now, new.run_at or now)))
        if job.after:
            job = self.dependencies.checked(job)
        self.sides.note_tenant(job.tenant)
        return job, text

    def _create(self, new: NewJob, job: Job, text: str) -> tuple[Job, bool]:
        for _ in range(_TRIES):
            payload, records = self.payloads.kept(job, "args", text)
            job = altered(job, {"args": payload})
            created = transitions.created(job)
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
