"""Jobs in tables: everything that may be done to a job, safely under any number of workers.

1. Every change is one conditional transaction (conditional_writes.py), made by a pure function (transitions.py).
2. What a worker writes is refused as soon as its lease is not the job's any more (LeaseLost) or somebody has
   cancelled the job (JobCancelled).
3. A checkpoint, the progress entry that tells of it and the lease's renewal are one write.
4. Progress entries are numbered without a gap and never overwritten, whoever writes them.
5. A job's records all expire at the same moment, and never while it has not ended (retention.py).
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from penstock.client.database import Database
from penstock.clock import Clock, SystemClock
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.files import Files
from penstock.jobs.layouts.item_collection import CollectionLayout
from penstock.jobs.layouts.layout import Layout, Record
from penstock.jobs.model import transitions
from penstock.jobs.model.job import (
    Checkpoint,
    Contended,
    Entry,
    History,
    Job,
    JobCancelled,
    JobError,
    JobFile,
    JobNotFound,
    JobPage,
    Payload,
    cut,
)
from penstock.jobs.model.new_job import BadJob, NewJob, checked_name, checked_progress, is_id
from penstock.jobs.model.state import State
from penstock.jobs.model.transitions import Change, Changed
from penstock.jobs.store.claims import Candidate, Claims, Ended
from penstock.jobs.store.conditional_writes import Conflict, Guarded, JobWriter
from penstock.jobs.store.dependencies import Dependencies
from penstock.jobs.store.enqueue import Maker
from penstock.jobs.store.payloads import RECORD_BYTES, Payloads, to_json
from penstock.jobs.store.queries import Claimable, JobReader, Wanted
from penstock.jobs.store.retention import Expiry
from penstock.jobs.store.side_items import Action, Queue, Sides
from penstock.records.leases import LeaseLost
from penstock.tables.apply.apply import apply
from penstock.tables.definitions.naming import Naming
from penstock.tables.plan.survey import survey

DEFAULT_KEEP_SECONDS: Final = 30 * 24 * 3600
_TRIES: Final = 500
_TRIES_AT_ONCE: Final = 3
_LONGEST_WAIT_SECONDS: Final = 0.1
_MESSAGE_CHARACTERS: Final = 10_000
_SUMMARY_CHARACTERS: Final = 1_000
_FILE_NAME_BYTES: Final = 1_000


class JobStore:
    """Jobs in the tables of one layout. Safe to share between threads."""

    def __init__(
        self,
        db: Database,
        layout: Layout | None = None,
        *,
        files: Files | None = None,
        clock: Clock | None = None,
        keep_seconds: float = DEFAULT_KEEP_SECONDS,
    ) -> None:
        self.db = db
        self.layout: Layout = layout or CollectionLayout()
        self.files = files
        self.clock = clock or SystemClock()
        self.keep_seconds = keep_seconds
        self._reader = JobReader(db, self.layout)
        self._writer = JobWriter(db, self.layout)
        self.sides = Sides(db, self.layout.table, self.layout.main_key)
        self.payloads = Payloads(db, self.layout, files)
        self._expiry = Expiry(db, self.layout, self.sides, self._reader, self._writer, keep_seconds)
        self._dependencies = Dependencies(self, self._reader)
        writes = (self._reader, self._writer, self.sides, self._dependencies, self._expiry)
        self._maker = Maker(self.clock, self.payloads, *writes)
        self._claims = Claims(self.clock, self.layout, *writes)

    @classmethod
    def of_table(cls, db: Database, table: str, *, files: Files | None = None) -> JobStore:
        """A store on a table that an app has made, with the shards that it was made with: for those who look at it."""
        layout = CollectionLayout(table)
        shards = Sides(db, table, layout.main_key).shards()
        return cls(db, layout if shards is None else CollectionLayout(table, shards=shards), files=files)

    def create_tables(self) -> None:
        """Makes the layout's tables, or brings them up to date; those that are as they should be are not touched."""
        report = apply(self.db, survey(self.db, self.layout.definitions, Naming()))
        if report.failures:
            raise PenstockError("\n".join(str(failure) for failure in report.failures))
        self._agree_on_shards()

    def ensure_tables(self) -> None:
        """Makes those of the layout's tables that are not there; the others are not looked at closely."""
        try:
            for table in self.layout.definitions:
                self.db.execute("DescribeTable", {"TableName": table.name})
        except ResourceNotFoundException:
            self.create_tables()
        else:
            self._agree_on_shards()

    def _agree_on_shards(self) -> None:
        """Refuses to work on a table beside others that would not see this store's jobs."""
        shards = self.sides.agree_on_shards(self.layout.shards)
        if shards != self.layout.shards:
            raise PenstockError(
                f"The table {self.layout.table} has {shards} shards, and this layout wants {self.layout.shards}: "
                f"each would miss jobs of the other. Use CollectionLayout(shards={shards}), or another table."
            )

    # ── making and finding ───────────────────────────────────────────────────────────────────────

    def create(self, new: NewJob) -> tuple[Job, bool]:
        """The job, and whether it is new: one with the same idempotency or unique key may exist already."""
        return self._maker.create(new)

    def create_all(self, news: Sequence[NewJob]) -> list[tuple[Job, bool]]:
        """The same for each; in process, a hundred at a time are one commit. Nothing is made if one is refused."""
        return self._maker.create_all(news)

    def get(self, job_id: str) -> Job:
        """Raises JobNotFound."""
        return self._reader.get(job_id, self.clock.now())

    def get_many(self, job_ids: Sequence[str]) -> list[Job]:
        """The jobs in that order, read in batches. Raises JobNotFound."""
        return self._reader.get_many(job_ids, self.clock.now())

    def get_those_there(self, job_ids: Sequence[str]) -> list[Job]:
        """Those of the jobs that there are, read in batches."""
        return self._reader.those_there([job_id for job_id in job_ids if is_id(job_id)], self.clock.now())

    def history(self, job_id: str) -> History:
        """The job with all of its records: one Query. Raises JobNotFound."""
        return self._reader.history(job_id, self.clock.now())

    def entries(self, job_id: str, *, after: int = 0) -> list[Entry]:
        """The numbered log from the entry after `after` on."""
        return [self.layout.entry_of(item) for item in self._reader.pages(self.layout.entries(job_id, after))]

    def find(
        self,
        *,
        state: State | None = None,
        task: str | None = None,
        tenant: str | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int = 50,
        token: str | None = None,
    ) -> JobPage:
        """Jobs, newest first; those of all tenants where none is named."""
        if limit < 1:
            raise ValueError(f"limit is at least 1, not {limit}")
        tenants = tuple(self.sides.tenants()) if tenant is None else (tenant,)
        wanted = Wanted(state, task, tenants, since, until)
        return self._reader.find(wanted, self.clock.now(), limit, token)

    # ── a worker's life ──────────────────────────────────────────────────────────────────────────

    def claimable(self, queue: str, limit: int, *, evenly: bool = False, wake: bool = True) -> Claimable:
        return self._claims.claimable(queue, limit, evenly=evenly, wake=wake)

    def look_after(self, queue: str) -> None:
        """Keeps the queue's jobs from expiring before they could begin; done once in a while, else it costs nothing."""
        self._claims.look_after(queue)

    def claim(self, job: Job, owner: str, lease_seconds: float) -> Job | None:
        """The job as it is now that it is ours; None where there is nothing to claim any more. Raises LimitReached."""
        return self._claims.claim(job, owner, lease_seconds)

    def is_plain(self, candidate: Job) -> bool:
        """Whether it can be claimed together with others."""
        return self._claims.is_plain(candidate)

    def complete_and_claim(
        self, ended: Sequence[Ended], candidates: Sequence[Candidate], owner: str
    ) -> tuple[list[Job | None], list[Job | None]]:
        """`complete` of some jobs and `claim` of others with one commit; each is None where it was not done."""
        return self._claims.complete_and_claim(ended, candidates, owner)

    def renew(self, job: Job) -> Job:
        return self._held(job, lambda current, now: transitions.renewed(current, _lease(current).renewed(now), now))

    def report(
        self,
        job: Job,
        *,
        progress: float | None = None,
        step: str | None = None,
        message: str = "",
        data: object = None,
        checkpoint: str | None = None,
        value: object = None,
        summary: str = "",
        version: int = 1,
    ) -> Job:
        """A numbered entry; with a checkpoint, also its data (`version` is the checkpoint's own). One write.

        Raises LeaseLost, JobCancelled.
        """
        if progress is not None:
            progress = checked_progress(progress)
        text = _entry_data(job.id, data)
        kept: list[Record] = []
        point: Checkpoint | None = None
        if checkpoint is not None:
            checked_name(checkpoint, "checkpoint")
            payload = self.payloads.spilled(job, to_json(value, f"checkpoint {checkpoint}"))
            point = Checkpoint(checkpoint, version, 0.0, payload, cut(summary, _SUMMARY_CHARACTERS), job.attempt)
        told = cut(message or (f"checkpoint {checkpoint}" if checkpoint else ""), _MESSAGE_CHARACTERS)

        def change(current: Job, now: float) -> Changed:
            changed = transitions.reported(current, now, progress=progress, step=step)
            after = changed.job
            shown = "" if step is None else after.step
            entry = Entry(after.entries, after.updated_at, progress, shown, told, text, after.attempt)
            kept[:] = [self.layout.entry(after, entry)]
            if point is not None:
                kept.append(self.layout.checkpoint(after, replace(point, at=after.updated_at)))
            return changed

        return self._held(job, change, kept)

    def log(self, job_id: str, message: str, *, data: object = None) -> Job:
        """A numbered entry by somebody who does not hold the job: any number may write at once."""
        text = _entry_data(job_id, data)
        message = cut(message, _MESSAGE_CHARACTERS)
        kept: list[Record] = []

        def change(current: Job) -> Changed:
            changed = transitions.reported(current, self.clock.now(), renew=False)
            entry = Entry(changed.job.entries, changed.job.updated_at, None, "", message, text, current.attempt)
            kept[:] = [self.layout.entry(changed.job, entry)]
            return changed

        return self.change(self.get(job_id), change, kept)

    def checkpoint(self, job_id: str, name: str) -> Checkpoint | None:
        item = self._reader.record(job_id, f"checkpoint#{name}", self.clock.now())
        return None if item is None else self.layout.checkpoint_of(item)

    def attach(self, job: Job, file: JobFile) -> Job:
        """Puts a file that has been saved into the job's list of files."""
        if not 1 <= len(file.name.encode()) <= _FILE_NAME_BYTES:
            raise BadJob(f"The name of a file has 1 to {_FILE_NAME_BYTES:,} bytes, not {file.name[:100]!r}.")
        kept: list[Record] = []

        def change(current: Job, now: float) -> Changed:
            changed = transitions.reported(current, now)
            after = changed.job
            entry = Entry(after.entries, after.updated_at, None, "", f"saved {file.name}", None, after.attempt)
            kept[:] = [self.layout.entry(after, entry), self.layout.file(after, file)]
            return changed

        return self._held(job, change, kept)

    def complete(self, job: Job, result: object = None) -> Job:
        text = to_json(result, "result")
        payload, records = self.payloads.kept(job, "result", text)
        return self._held(job, lambda current, now: transitions.completed(current, payload, now), records, ending=True)

    def fail(self, job: Job, error: JobError, *, retry_at: float | None = None) -> Job:
        """Ends the attempt; with `retry_at`, another one follows then."""

        def change(current: Job, now: float) -> Changed:
            if retry_at is None:
                return transitions.failed(current, error, now)
            return transitions.retrying(current, error, retry_at, now)

        return self._held(job, change, ending=True)

    def hand_over(self, job: Job, reason: str) -> Job:
        """Gives the job back to the queue: the next worker goes on at its last checkpoint."""
        return self._held(job, lambda current, now: transitions.handed_over(current, reason, now), ending=True)

    def end_cancelled(self, job: Job) -> Job:
        """Ends a job that its worker has seen to be cancelled."""

        def change(current: Job) -> Changed:
            _check_held(job, current)
            return transitions.cancelled(current, current.cancel_reason or "", self.clock.now())

        return self.change(job, change, ending=True)

    # ── anybody's wishes ─────────────────────────────────────────────────────────────────────────

    def cancel(self, job_id: str, reason: str = "") -> Job:
        """A queued job is cancelled now; a running one is told at its next report. Raises BadTransition."""

        def change(current: Job) -> Changed:
            now = self.clock.now()
            if current.state is State.PROCESSING:
                return transitions.cancel_asked(current, reason, now)
            return transitions.cancelled(current, reason, now)

        return self.change(self.get(job_id), change, ending=True)

    def retry(self, job_id: str) -> Job:
        """Another attempt for a failed job. Raises BadTransition."""
        now = self.clock.now()
        job = self.get(job_id)
        transitions.retried(job, now)  # before anything is written
        if self._expiry.is_near(job, now):
            job = self._expiry.extended(job, now, now)
        return self.change(job, lambda current: transitions.retried(current, now), guards=self.sides.hold_unique)

    def settle(self, job: Job) -> None:
        """Does what is left to do of a job that stands in the claim index for another reason than to be run."""
        self._dependencies.settle(job)

    def load(self, job: Job, payload: Payload | None) -> Any:
        """The value of a payload, wherever it lies."""
        return None if payload is None else self.payloads.load(job, payload)

    def queue(self, name: str) -> Queue:
        return self.sides.queue(name)

    def pause(self, queue: str, reason: str = "") -> None:
        """Nothing more is claimed from the queue; what runs goes on."""
        self.sides.pause(queue, reason, self.clock.now())

    def resume(self, queue: str) -> None:
        self.sides.resume(queue)

    # ── how changes are made ─────────────────────────────────────────────────────────────────────

    def _held(self, job: Job, change: Any, records: Iterable[Record] = (), *, ending: bool = False) -> Job:
        """A change by the job's holder (2)."""

        def checked(current: Job) -> Changed:
            _check_held(job, current)
            if current.cancel_reason is not None:
                raise JobCancelled(job.id, current.cancel_reason)
            changed: Changed = change(current, self.clock.now())
            return changed

        return self.change(job, checked, records, ending=ending)

    def change(
        self, job: Job, change: Change, records: Iterable[Record] = (), *, ending: bool = False, guards: Any = None
    ) -> Job:
        """Makes a change of the job as it is, again if somebody was quicker."""
        kept_key = False
        for attempt in range(_TRIES):
            changed = change(job)
            now = self.clock.now()
            if self._expiry.is_near(job, max(now, changed.job.run_at)) and not job.is_terminal:
                job = self._kept_longer(job, change, now)
                changed = change(job)
            actions: list[Action] = []
            if guards:
                actions = guards(changed.job)
            elif ending:
                actions = self.sides.given_back(job, changed.job, without_key=kept_key)
            try:
                self._writer.change(job, changed, list(records), actions)
                return changed.job
            except Conflict as conflict:
                if conflict.current is None:
                    raise JobNotFound(job.id) from None
                job = conflict.current
                _let_others_write(attempt)
            except Guarded as refusal:
                if not guards:
                    kept_key = True  # the unique key is another job's, after this one's own guard was lost
                elif self._maker.holder(job, refusal.item) is not None:
                    raise BadJob(f"{job.id}: another job holds its unique key {job.unique!r} now.") from None
        raise Contended(job.id, _TRIES)

    def _kept_longer(self, job: Job, change: Change, now: float) -> Job:
        """The job, which will not expire before long. Who may not make the change is refused here already."""
        job = self._reader.current(job.id)
        due_at = max(now, change(job).job.run_at)
        if job.is_terminal or not self._expiry.is_near(job, due_at):
            return job
        return self._expiry.extended(job, due_at, now)


def _let_others_write(attempt: int) -> None:
    """After a few tries in a row: with any number of writers, each has its turn."""
    if attempt >= _TRIES_AT_ONCE:
        time.sleep(random.random() * min(_LONGEST_WAIT_SECONDS, 0.0005 * attempt))


def _entry_data(job_id: str, data: object) -> str | None:
    if data is None:
        return None
    text = to_json(data, "data")
    if len(text.encode()) > RECORD_BYTES:
        raise BadJob(f"{job_id}: the data of an entry is at most {RECORD_BYTES // 1024} KB. Keep it in a checkpoint.")
    return text


def _check_held(held: Job, current: Job) -> None:
    if current.state is not State.PROCESSING or current.token != held.token:
        raise LeaseLost(
            held.id, current.lease.owner if current.lease else None, "" if current.lease else f"it is {current.state}"
        )


def _lease(job: Job) -> Any:
    if job.lease is None:
        raise LeaseLost(job.id)
    return job.lease
