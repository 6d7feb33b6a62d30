"""Jobs in tables: everything that may be done to a job, safely under any number of workers.

1. Every change is one conditional transaction (conditional_writes.py), made by a pure function (transitions.py).
2. What a worker writes is refused as soon as its lease is not the job's any more (LeaseLost) or somebody has
   cancelled the job (JobCancelled).
3. A checkpoint, the progress entry that tells of it and the lease's renewal are one write.
4. Progress entries are numbered without a gap and never overwritten, whoever writes them.
5. A job's records all expire at the same moment, and never while it has not ended (retention.py).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.client.database import Database
from penstock.clock import Clock, SystemClock, end_of_millisecond
from penstock.codecs import MARK, CodecChain
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.jobs.layouts.item_collection import CollectionLayout, task_pool
from penstock.jobs.layouts.layout import Layout, Record
from penstock.jobs.model import transitions
from penstock.jobs.model.job import (
    BadJob,
    Checkpoint,
    Entry,
    History,
    Job,
    JobCancelled,
    JobError,
    JobFile,
    JobNotFound,
    JobPage,
    KeyTaken,
    NewJob,
    Payload,
    checked_name,
    checked_progress,
    is_id,
)
from penstock.jobs.model.rate import has_slot
from penstock.jobs.model.secret_fields import mask_arguments, mask_result
from penstock.jobs.model.state import State
from penstock.jobs.model.transitions import Change, ChangedJob
from penstock.jobs.model.webhook import WEBHOOK_RETRIES, delivery_of
from penstock.jobs.store.conditional_writes import Guarded, JobWriter
from penstock.jobs.store.dependencies import Dependencies
from penstock.jobs.store.enqueue import NewJobs
from penstock.jobs.store.patience import PatientDatabase
from penstock.jobs.store.payloads import RECORD_BYTES, SHORT_CHARACTERS, NotJson, Payloads, from_json, to_json
from penstock.jobs.store.pools import Pools
from penstock.jobs.store.queries import LIMIT_PREFIX, RATE_PREFIX, Ahead, Claimable, JobFilter, JobReader
from penstock.jobs.store.rates import RateLimits
from penstock.jobs.store.retention import Expiry
from penstock.jobs.store.side_items import Action, Queue, SideItems
from penstock.jobs.store.turns import Turns
from penstock.jobs.store.workflows import Workflows
from penstock.leases import LeaseLost, grant
from penstock.optimistic import Conflict, Contention
from penstock.retry import Outage
from penstock.stored_text import cut, shorten

if TYPE_CHECKING:
    from penstock.files import Files

_LOG = logging.getLogger("penstock.jobs")

DEFAULT_KEEP_SECONDS: Final = 30 * 24 * 3600
_LOOK_AFTER_SECONDS: Final = 24 * 3600.0
_MESSAGE_CHARACTERS: Final = 10_000
_SUMMARY_CHARACTERS: Final = 1_000
_FILE_NAME_BYTES: Final = 1_000


Ended = tuple[Job, str]
"""A job whose task has returned, and its `short_result`."""
Candidate = tuple[Job, float] | tuple[Job, float, int]
"""A job that may be claimed, for how many seconds, and the version of its task."""


def short_result(value: object, write: Callable[[object], object]) -> str | None:
    """The text of a result that fits into the write that ends its job; None of one that is long, or cannot be stored.

    `write` makes JSON of it.
    """
    try:
        text = to_json(write(value), "result")
    except NotJson:
        return None  # `complete` says what is wrong with it
    return text if len(text) <= SHORT_CHARACTERS else None


class LimitReached(PenstockError):
    """As many jobs with this concurrency key run as may."""

    def __init__(self, job: Job) -> None:
        super().__init__(
            f"{job.id}: {job.max_concurrent} jobs with the concurrency key {job.concurrency_key!r} are running already."
        )
        self.job_id = job.id
        self.concurrency_key = job.concurrency_key


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
        codecs: CodecChain | None = None,
    ) -> None:
        self.db = db
        self.layout: Layout = layout or CollectionLayout()
        self.files = files
        self.clock = clock or SystemClock()
        self.keep_seconds = keep_seconds
        self.renewals = 0
        """Of leases, by this store."""
        self.outage = Outage(_LOG)
        """Of the database; all who use the store share it."""
        self.patient_db = db = PatientDatabase(db)
        """The same database, for calls that wait while it is away where their caller does (patience.py)."""
        self._reader = JobReader(db, self.layout)
        self._writer = JobWriter(db, self.layout)
        claims = self.layout.claim_index, self.layout.shards
        self.side_items = SideItems(db, self.layout.table, self.layout.main_key, *claims)
        self.payloads = Payloads(db, self.layout, files, codecs or CodecChain())
        self._expiry = Expiry(db, self.layout, self.side_items, self._reader, self._writer, keep_seconds)
        self._dependencies = Dependencies(self, self._reader, self._writer)
        turns = Turns(self.side_items, self._reader.first_turn, self.layout.ttl_name)
        self.new_jobs = NewJobs(self, self._reader, self._writer, self._expiry, self._dependencies, turns)
        self.workflows = Workflows(self, self._reader, self._writer, self._dependencies)
        self.rates = RateLimits(
            self.layout,
            self.side_items,
            self._reader,
            self._writer,
            self.clock,
            keep_seconds=keep_seconds,
            metered=db.capabilities.metered,
            look_after_pool=self._look_after_pool,
        )
        self.pools = Pools(
            self.side_items,
            self._reader,
            self._writer,
            self.clock,
            metered=db.capabilities.metered,
            look_after_pool=self._look_after_pool,
        )
        self._looked_after: dict[str, float] = {}

    @classmethod
    def of_table(cls, db: Database, table: str, *, files: Files | None = None) -> JobStore:
        """A store on a table that an app has made, with the shards that it was made with: for those who look at it."""
        layout = CollectionLayout(table)
        shards = SideItems(db, table, layout.main_key).shards()
        return cls(db, layout if shards is None else CollectionLayout(table, shards=shards), files=files)

    def create_tables(self) -> None:
        """Makes the layout's tables, or brings them up to date; those that are as they should be are not touched."""
        from penstock.tables.apply.apply import ensure_tables  # by the first call: what only reads jobs makes no table

        ensure_tables(self.db, self.layout.definitions)
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
        shards = self.side_items.agree_on_shards(self.layout.shards)
        if shards != self.layout.shards:
            raise PenstockError(
                f"The table {self.layout.table} has {shards} shards, and this layout wants {self.layout.shards}: "
                f"each would miss jobs of the other. Use CollectionLayout(shards={shards}), or another table."
            )

    # ── enqueueing ───────────────────────────────────────────────────────────────────────────────

    def create(self, new: NewJob, stored_args: str | None = None) -> tuple[Job, bool]:
        """The job, and whether it is new: one with the same idempotency or unique key may exist already.

        `stored_args` are arguments as another job has them stored, instead of those of `new`.
        """
        return self.new_jobs.create(new, stored_args)

    def create_all(self, news: Sequence[NewJob]) -> list[tuple[Job, bool]]:
        """The same for each; in process, a hundred at a time are one commit. Nothing is made if one is refused."""
        return self.new_jobs.create_all(news)

    # ── finding ──────────────────────────────────────────────────────────────────────────────────

    def get(self, job_id: str) -> Job:
        """Raises JobNotFound."""
        return self._reader.get(job_id, self.clock.now())

    def get_many(self, job_ids: Sequence[str]) -> list[Job]:
        """The jobs in that order, read in batches. Raises JobNotFound."""
        return self._reader.get_many(job_ids, self.clock.now())

    def get_existing(self, job_ids: Sequence[str]) -> list[Job]:
        """Those of the jobs that there are, read in batches."""
        return self._reader.get_existing([job_id for job_id in job_ids if is_id(job_id)], self.clock.now())

    def history(self, job_id: str) -> History:
        """The job with all of its records: one Query. Raises JobNotFound."""
        return self._reader.history(job_id, self.clock.now())

    def entries(self, job_id: str, *, after: int = 0, limit: int | None = None) -> list[Entry]:
        """The numbered log from the entry after `after` on, at most `limit` entries."""
        items = self._reader.pages(self.layout.entries(job_id, after))
        return [self.layout.entry_of(item) for item in itertools.islice(items, limit)]

    def find(
        self,
        *,
        state: State | None = None,
        task: str | None = None,
        tenant: str | None = None,
        tag: str | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int = 50,
        token: str | None = None,
        accepts: Callable[[Job], bool] | None = None,
    ) -> JobPage:
        """Jobs, newest first; those of all tenants where none is named, and of those what is accepted."""
        if limit < 1:
            raise ValueError(f"limit is at least 1, not {limit}")
        tenants = tuple(self.side_items.tenants()) if tenant is None else (tenant,)
        wanted = JobFilter(state, task, tenants, since, until, tag, accepts)
        return self._reader.find(wanted, self.clock.now(), limit, token)

    # ── claiming ─────────────────────────────────────────────────────────────────────────────────

    def claimable(
        self,
        queue: str,
        limit: int,
        *,
        evenly: bool = False,
        shard: int | None = None,
        wake: bool = True,
        tasks: Sequence[str] = (),
        further: dict[int, str] | None = None,
    ) -> Claimable:
        """`tasks`: those of whose pools jobs are wanted too. `shard`: the one to read first.

        `further`: where the last look for urgent ones among many that have become due ended, by shard; it is changed.
        """
        self.look_after(queue)
        now = end_of_millisecond(self.clock.now())
        return self._reader.claimable(
            queue, limit, now, evenly=evenly, shard=shard, wake=wake, tasks=tasks, further=further
        )

    def count_ahead(self, job: Job) -> Ahead:
        """The jobs that come before one that is queued."""
        return self._reader.count_ahead(job)

    def first_ready(self, queue: str, limit: int) -> list[Job]:
        """The jobs that come first in each shard of a queue, as many as that."""
        pools = [f"{queue}#ready#{shard}" for shard in range(self.layout.shards)]
        return [job for pool in pools for job in self._reader.first_of_pool(pool, limit, self.clock.now())]

    def look_after(self, queue: str) -> None:
        """Keeps the queue's jobs from expiring before they could begin; done once in a while, else it costs nothing.

        For a queue that is paused too: its jobs wait.
        """
        now = self.clock.now()
        if now < self._looked_after.get(queue, 0.0):
            return
        often = self.keep_seconds / 8
        self._looked_after[queue] = now + min(_LOOK_AFTER_SECONDS, often)
        for found in self._reader.find_unattended(queue, now - often, now):
            if isinstance(found, str) and found.startswith(LIMIT_PREFIX):
                self.pools.unblock(found.removeprefix(LIMIT_PREFIX))
            elif isinstance(found, str):
                self.rates.release(found.removeprefix(RATE_PREFIX))
            elif not found.is_terminal and found.expires_at > now and self._is_near_expiry(found, now):
                self._dependencies.look_after(self._expiry.extend(found, now, now))
        for task in self.side_items.queue(queue).tasks:
            self._look_after_pool(task_pool(queue, task), now)

    def _look_after_pool(self, pool: str, now: float) -> None:
        """The same for the jobs of a limit's or a task's pool, as seldom."""
        if now < self._looked_after.get(pool, 0.0):
            return
        often = self.keep_seconds / 8
        self._looked_after[pool] = now + min(_LOOK_AFTER_SECONDS, often)
        for job in self._reader.find_in_pool(pool, now - often):
            if not job.is_terminal and job.expires_at > now and self._is_near_expiry(job, now):
                self._expiry.extend(job, now, now)

    def claim(
        self,
        job: Job,
        owner: str,
        lease_seconds: float,
        *,
        max_crashes: int = transitions.MOST_CRASHES,
        task_version: int = 1,
    ) -> Job | None:
        """The job as it is now that it is ours; None where there is nothing to claim any more.

        A job whose worker is dead is taken over, and then it may be a suspect that must run alone; one that has killed
        too many has failed, and None is returned. Raises LimitReached.
        """
        now = self.clock.now()
        try:
            if self._is_near_expiry(job, now):
                if self._reader.get(job.id, now).version != job.version or job.is_terminal:
                    return None
                job = self._expiry.extend(job, now, now)
            if job.state is State.QUEUED:
                # What was ready by the clock of the one who wrote it is ready: clocks differ a little.
                is_held_up = job.is_waiting or job.parked or job.needs_settling
                if is_held_up or job.run_at > max(end_of_millisecond(now), job.updated_at):
                    return None
                if not has_slot(job.rate_key, job.rate_at, now):
                    return None
                changed = transitions.start(job, grant(job.token, owner, now, lease_seconds), now, task_version)
                guards = [] if job.concurrency_key is None else self.side_items.hold_slot(job)
                self._writer.change(job, changed, (), guards)
            elif job.state is State.PROCESSING and job.lease is not None and job.lease.takeable_at <= now:
                changed = self._take_over(job, owner, lease_seconds, now, max_crashes)
            else:
                return None
        except (Conflict, JobNotFound):
            return None
        except Guarded:
            self.pools.free_slots(job.concurrency_key or "", now)
            raise LimitReached(job) from None
        return changed.job if changed.job.state is State.PROCESSING else None

    def _take_over(self, job: Job, owner: str, lease_seconds: float, now: float, max_crashes: int) -> ChangedJob:
        if job.cancel_reason is not None:
            changed = transitions.cancel(job, job.cancel_reason, now)
        else:
            changed = transitions.take_over(job, owner, lease_seconds, now, max_crashes)
        self._write_end(job, changed)
        return changed

    def _write_end(
        self, job: Job, changed: ChangedJob, records: Sequence[Record] = (), checks: Sequence[Action] = ()
    ) -> None:
        """Writes a change with what the job lets go of by it. Raises Conflict; Guarded if a check is refused."""
        key = job.concurrency_key or ""
        blocked = self.pools.blocked_queue(key)
        without_key = False
        if job.webhook is not None and changed.job.is_terminal and not job.is_terminal:
            records = [*records, *self._delivery(changed.job)]
        while True:
            now = self.clock.now()
            actions = self.side_items.release(job, changed.job, without_key=without_key, blocked=blocked, now=now)
            try:
                self._writer.change(job, changed, records, [*actions, *checks])
                break
            except Guarded as refusal:
                if refusal.place >= len(actions):
                    raise
                if "Update" not in actions[refusal.place]:
                    without_key = True  # the unique key is another job's, after this one's own guard was lost
                else:
                    blocked = (refusal.item or {}).get("blocked", {}).get("S") or job.queue
        if blocked and job.lease is not None and changed.job.lease is None:
            with suppress(PenstockError):  # a worker that polls the queue does it otherwise
                self.pools.unblock(key)

    def _delivery(self, ended: Job) -> list[Record]:
        """The job that delivers the webhook of an end, made by the write of that end (webhooks.py, 1)."""
        new = delivery_of(ended, WEBHOOK_RETRIES)
        job, text = self.new_jobs.plan(new)
        return self._writer.creation_records(transitions.create(job, Payload(self.payloads.encode(job, "args", text))))

    def is_plain(self, candidate: Job) -> bool:
        """Whether it can be claimed together with others: by one write, and not alone."""
        now = self.clock.now()
        return (
            candidate.state is State.QUEUED
            and not candidate.is_waiting
            and not candidate.parked
            and not candidate.needs_settling
            and candidate.run_at <= now
            and not candidate.suspect
            and has_slot(candidate.rate_key, candidate.rate_at, now)
            and self._is_one_write(candidate, now)
        )

    def complete_and_claim(
        self, ended: Sequence[Ended], candidates: Sequence[Candidate], owner: str
    ) -> tuple[list[Job | None], list[Job | None]]:
        """`complete` of some jobs and `claim` of others with one commit: for short jobs, most of whose cost is that.

        Each is None where it was not done: somebody else was quicker, or it is more than one plain write. Then it is
        for `complete` and `claim` to do.
        """
        now = self.clock.now()
        wanted = [self._plan_completion(job, result, now) for job, result in ended]
        wanted += [self._plan_start(owner, now, *candidate) for candidate in candidates]
        pairs = [pair for pair in wanted if pair is not None]
        written = iter(self._writer.change_together(pairs) if pairs else ())
        done = [pair[1].job if pair is not None and next(written) else None for pair in wanted]
        return done[: len(ended)], done[len(ended) :]

    def _plan_completion(self, job: Job, result: str, now: float) -> tuple[Job, ChangedJob] | None:
        if not self._is_one_write(job, now):
            return None
        changed = transitions.complete(job, Payload(self.payloads.encode(job, "result", result)), now)
        return None if changed.moved_out else (job, changed)

    def _plan_start(
        self, owner: str, now: float, job: Job, lease_seconds: float, task_version: int = 1
    ) -> tuple[Job, ChangedJob] | None:
        if not self.is_plain(job):
            return None
        changed = transitions.start(job, grant(job.token, owner, now, lease_seconds), now, task_version)
        return None if changed.moved_out else (job, changed)

    def _is_one_write(self, job: Job, now: float) -> bool:
        """Whether a change of its state is one write of one item, with nothing beside it."""
        return (
            self.layout.keeps_events
            and job.unique_key is None
            and job.concurrency_key is None
            and job.webhook is None
            and job.cancel_reason is None
            and not self._is_near_expiry(job, now)
        )

    # ── what its worker writes ───────────────────────────────────────────────────────────────────

    def renew(self, job: Job) -> Job:
        """Also of a job that is to be cancelled: until its task reports, it runs, and holds its slot and its key."""
        self.renewals += 1
        return self.change_held(job, transitions.renew_lease, also_cancelled=True)

    def renew_together(self, jobs: Sequence[Job]) -> list[Job | None]:
        """`renew` of many with one commit; None where it was not done, and is for `renew` to do."""
        now = self.clock.now()
        pairs = [(job, transitions.renew_lease(job, now)) for job in jobs if not self._is_near_expiry(job, now)]
        written = self._writer.change_together(pairs)
        renewed = {changed.job.id: changed.job for (_, changed), done in zip(pairs, written, strict=True) if done}
        self.renewals += len(renewed)
        return [renewed.get(job.id) for job in jobs]

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
        text = _entry_data(data)
        kept: list[Record] = []
        point: Checkpoint | None = None
        if checkpoint is not None:
            checked_name(checkpoint, "checkpoint")
            text_of_value = to_json(value, f"checkpoint {checkpoint}")
            payload = self.payloads.spill(job, f"checkpoint#{checkpoint}", text_of_value)
            point = Checkpoint(checkpoint, version, 0.0, payload, cut(summary, _SUMMARY_CHARACTERS), job.attempt)
        is_newer = point is not None and (job.suspect or job.crashes > 0) and self._is_newer(job, point)
        words = shorten(message or (f"checkpoint {checkpoint}" if checkpoint else ""), _MESSAGE_CHARACTERS)

        def change(current: Job, now: float) -> ChangedJob:
            changed = transitions.add_entry(current, now, progress=progress, step=step, is_newer=is_newer)
            after = changed.job
            shown = "" if step is None else after.step
            entry = Entry(after.entries, after.updated_at, progress, shown, words, text, after.attempt)
            kept[:] = [self.layout.entry(after, entry)]
            if point is not None:
                kept.append(self.layout.checkpoint(after, replace(point, at=after.updated_at)))
            return changed

        return self.change_held(job, change, kept)

    def _is_newer(self, job: Job, point: Checkpoint) -> bool:
        """Whether it is progress: a task may write the same checkpoint in each attempt, and then kill its worker."""
        before = self.checkpoint(job.id, point.name)
        name = f"checkpoint#{point.name}"
        return before is None or self.load(job, before.data, name) != self.load(job, point.data, name)

    def log(self, job_id: str, message: str, *, data: object = None) -> Job:
        """A numbered entry by somebody who does not hold the job: any number may write at once."""
        text = _entry_data(data)
        message = shorten(message, _MESSAGE_CHARACTERS)
        kept: list[Record] = []

        def change(current: Job) -> ChangedJob:
            changed = transitions.add_entry(current, self.clock.now(), renew=False)
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

        def change(current: Job, now: float) -> ChangedJob:
            changed = transitions.add_entry(current, now)
            after = changed.job
            entry = Entry(after.entries, after.updated_at, None, "", f"saved {file.name}", None, after.attempt)
            kept[:] = [self.layout.entry(after, entry), self.layout.file(after, file)]
            return changed

        return self.change_held(job, change, kept)

    def complete(self, job: Job, result: object = None) -> Job:
        text = to_json(result, "result")
        payload, records = self.payloads.place(job, "result", text)
        return self.change_held(
            job, lambda current, now: transitions.complete(current, payload, now), records, ending=True
        )

    def fail(self, job: Job, error: JobError, *, retry_at: float | None = None) -> Job:
        """Ends the attempt; with `retry_at`, another one follows then."""

        def change(current: Job, now: float) -> ChangedJob:
            if retry_at is None:
                return transitions.fail(current, error, now)
            return transitions.schedule_retry(current, error, retry_at, now)

        return self.change_held(job, change, ending=True)

    def requeue(self, job: Job, reason: str, requeues: int | None = None, *, at: float | None = None) -> Job:
        """Gives the job back to the queue: the next worker continues it at its last checkpoint, not before `at`."""
        return self.change_held(
            job, lambda current, now: transitions.requeue(current, reason, now, requeues, at), ending=True
        )

    def end_cancelled(self, job: Job) -> Job:
        """Ends a job that its worker has seen to be cancelled."""

        def change(current: Job) -> ChangedJob:
            _check_held(job, current)
            return transitions.cancel(current, current.cancel_reason or "", self.clock.now())

        return self.change(job, change, ending=True)

    # ── what anybody may do ──────────────────────────────────────────────────────────────────────

    def cancel(self, job_id: str, reason: str = "", *, cancel_children: bool = False) -> Job:
        """A queued job is cancelled now; a running one is told at its next report, a coroutine at its `await`.

        With `cancel_children`, workers cancel its children too, and theirs, once it has ended. Raises BadTransition.
        """

        def change(current: Job) -> ChangedJob:
            now = self.clock.now()
            if current.state is State.PROCESSING:
                return transitions.request_cancel(current, reason, now, cancel_children=cancel_children)
            return transitions.cancel(current, reason, now, cancel_children=cancel_children)

        job = self.change(self.get(job_id), change, ending=True)
        if job.lease is not None:
            with suppress(PenstockError):  # its worker sees it later, at its next report or renewal
                self.side_items.note_cancelled(job.lease.owner, job, self.layout.ttl_name)
        return job

    def retry(self, job_id: str) -> Job:
        """Another attempt for a failed job. Workers revive the jobs that its failure has cancelled, then claim it.

        Raises BadTransition.
        """
        now = self.clock.now()
        job = self.get(job_id)
        transitions.retry(job, now)  # before anything is written
        job = self.keep_longer(job)
        return self.change(job, lambda current: transitions.retry(current, now), guards=self.side_items.hold_unique)

    def depends_on(self, job: Job) -> list[str]:
        """The ids of the jobs that it depends on, however many."""
        return self._dependencies.depends_on(job)

    def waiting_for(self, job: Job) -> list[str]:
        """The ids of those that it still waits for, sorted."""
        return self._dependencies.waiting_for(job)

    def has_ended(self, job: Job) -> bool:
        """Whether it has, and is not about to be revived: a job that it was cancelled because of may be queued again.

        Of jobs that were cancelled for that reason, those others are read.
        """
        return job.is_terminal and not (job.cancelled_by is not None and self._dependencies.is_to_be_revived(job))

    def settle(self, job: Job) -> None:
        """Does what is left to do of a job that stands in the claim index for another reason than to be run."""
        self._dependencies.settle(job)

    def load(self, job: Job, payload: Payload | None, name: str | None = None) -> Any:
        """The value of a payload, wherever it lies. Its `name` is checked where it is given (codecs.py, 3).

        Raises PayloadLocked where it is encoded and this program has not the key.
        """
        if payload is None:
            return None
        text = payload.text
        return self.payloads.load(job, payload, name) if text is None or text[0] == MARK else from_json(text)

    def load_to_show(self, job: Job, payload: Payload | None) -> Any:
        """The same of arguments or a result, without the fields that the task declares secret."""
        value = self.load(job, payload)
        if not job.secret:
            return value
        return mask_arguments(value, job.secret) if payload is job.args else mask_result(value, job.secret)

    def queue(self, name: str) -> Queue:
        return self.side_items.queue(name)

    def pause(self, queue: str, reason: str = "") -> None:
        """Nothing more is claimed from the queue; what runs goes on."""
        self.side_items.pause(queue, reason, self.clock.now())

    def resume(self, queue: str) -> None:
        self.side_items.resume(queue)

    def keep_longer(self, job: Job) -> Job:
        """The job, which has been read just now, and will not expire before long."""
        now = self.clock.now()
        return self._expiry.extend(job, now, now) if self._is_near_expiry(job, now) else job

    def _is_near_expiry(self, job: Job, due_at: float) -> bool:
        """Whether less than half of its time would be left (retention.py, 2)."""
        return job.expires_at < due_at + self.keep_seconds / 2

    # ── how changes are made ─────────────────────────────────────────────────────────────────────

    def change_held(
        self,
        job: Job,
        change: Any,
        records: Iterable[Record] = (),
        *,
        ending: bool = False,
        checks: Sequence[Action] = (),
        also_cancelled: bool = False,
    ) -> Job:
        """A change by the job's holder (2)."""

        def check_and_change(current: Job) -> ChangedJob:
            _check_held(job, current)
            if current.cancel_reason is not None and not also_cancelled:
                raise JobCancelled(job.id, current.cancel_reason)
            changed: ChangedJob = change(current, self.clock.now())
            return changed

        return self.change(job, check_and_change, records, ending=ending, checks=checks)

    def change(
        self,
        job: Job,
        change: Change,
        records: Iterable[Record] = (),
        *,
        ending: bool = False,
        guards: Any = None,
        checks: Sequence[Action] = (),
    ) -> Job:
        """Makes a change of the job as it is, again if somebody was quicker. Raises Guarded if a check is refused."""
        contention = Contention(job.id)
        actions: list[Action] = []
        while True:
            changed = change(job)
            now = self.clock.now()
            if self._is_near_expiry(job, max(now, changed.job.run_at)) and not job.is_terminal:
                job = self._extend(job, change, now)
                changed = change(job)
            try:
                if ending:
                    self._write_end(job, changed, list(records), checks)
                else:
                    actions = guards(changed.job) if guards else []
                    self._writer.change(job, changed, list(records), [*actions, *checks])
                return changed.job
            except Conflict as conflict:
                if conflict.current is None:
                    raise JobNotFound(job.id) from None
                job = conflict.current
            except Guarded as refusal:
                if ending or refusal.place >= len(actions):
                    raise
                if self.new_jobs.unique_holder(job, refusal.item) is not None:
                    raise KeyTaken(f"{job.id}: another job holds its unique key {job.unique_key!r} now.") from None
            contention.wait()

    def _extend(self, job: Job, change: Change, now: float) -> Job:
        """The job, which will not expire before long. Who may not make the change is refused here already."""
        job = self._reader.current(job.id)
        due_at = max(now, change(job).job.run_at)
        if job.is_terminal or not self._is_near_expiry(job, due_at):
            return job
        return self._expiry.extend(job, due_at, now)


def _entry_data(data: object) -> str | None:
    """As JSON. Data that is too long for an entry is shortened to the beginning of its text: a log ends no task."""
    if data is None:
        return None
    text = to_json(data, "data")
    if len(text.encode()) > RECORD_BYTES:
        return to_json({"shortened": shorten(text, _MESSAGE_CHARACTERS)}, "data")
    return text


def _check_held(held: Job, current: Job) -> None:
    if current.state is not State.PROCESSING or current.token != held.token:
        raise LeaseLost(
            held.id, current.lease.owner if current.lease else None, "" if current.lease else f"it is {current.state}"
        )
