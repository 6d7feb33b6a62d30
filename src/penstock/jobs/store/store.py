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
from typing import Any, Final

from penstock.client.database import Database
from penstock.clock import Clock, SystemClock
from penstock.codecs import MARK, CodecChain
from penstock.errors import PenstockError, ResourceNotFoundException
from penstock.files import Files
from penstock.jobs.layouts.item_collection import CollectionLayout, limit_pool, task_pool
from penstock.jobs.layouts.layout import Item, Layout, Record
from penstock.jobs.model import transitions
from penstock.jobs.model.job import (
    LIMIT_POOL,
    TASK_POOL,
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
    check_new,
    checked_name,
    checked_progress,
    first_version,
    is_id,
    new_id,
)
from penstock.jobs.model.rate import has_slot
from penstock.jobs.model.secret_fields import mask_arguments, mask_result
from penstock.jobs.model.state import State
from penstock.jobs.model.transitions import Change, ChangedJob
from penstock.jobs.model.webhook import WEBHOOK_RETRIES, delivery_of
from penstock.jobs.store.conditional_writes import Guarded, JobWriter
from penstock.jobs.store.dependencies import Dependencies
from penstock.jobs.store.patience import PatientDatabase
from penstock.jobs.store.payloads import RECORD_BYTES, NotJson, Payloads, from_json, to_json
from penstock.jobs.store.queries import LIMIT_PREFIX, RATE_PREFIX, Ahead, Claimable, JobFilter, JobReader
from penstock.jobs.store.rates import RateLimits
from penstock.jobs.store.retention import Expiry
from penstock.jobs.store.side_items import Action, Limit, Queue, SideItems
from penstock.jobs.store.transactions import JobInTransaction
from penstock.jobs.store.turns import Turns
from penstock.jobs.store.workflows import Workflows
from penstock.leases import LeaseLost, grant
from penstock.optimistic import Conflict, Contention
from penstock.retry import Outage
from penstock.stored_text import cut, shorten
from penstock.tables.apply.apply import ensure_tables

_LOG = logging.getLogger("penstock.jobs")

DEFAULT_KEEP_SECONDS: Final = 30 * 24 * 3600
_ENQUEUED_TOGETHER: Final = 100
_SHORT_CHARACTERS: Final = 1_024
_LOOK_AFTER_SECONDS: Final = 24 * 3600.0
_FREE_SLOTS_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 300.0
"""How often a limit whose jobs wait is looked at, though nobody has released a slot."""
_INDEX_SECONDS: Final = 5.0
"""An index shows every write that is as old as this."""
_UNBLOCKED_TOGETHER: Final = 25
_UNBLOCK_TRIES: Final = 5
_NAMED_SECONDS: Final = 20.0
_TASK_POOL_SECONDS: Final = 120.0
"""Much longer than twice the above: then no job can have moved to a task's pool that its index does not show."""
_MOST_REMEMBERED: Final = 10_000
_MOST_TASK_POOLS: Final = 100
"""Of a queue: their names are in one item, which every poll reads."""
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
    return text if len(text) <= _SHORT_CHARACTERS else None


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
        db = PatientDatabase(db)
        self._reader = JobReader(db, self.layout)
        self._writer = JobWriter(db, self.layout)
        claims = self.layout.claim_index, self.layout.shards
        self.side_items = SideItems(db, self.layout.table, self.layout.main_key, *claims)
        self._turns = Turns(self.side_items, self._reader.first_turn, self.layout.ttl_name)
        self.payloads = Payloads(db, self.layout, files, codecs or CodecChain())
        self._expiry = Expiry(db, self.layout, self.side_items, self._reader, self._writer, keep_seconds)
        self._dependencies = Dependencies(self, self._reader, self._writer)
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
        self._looked_after: dict[str, float] = {}
        self._freed: dict[str, float] = {}
        self._blocked: dict[str, str] = {}
        """Concurrency keys that were blocked when they were last seen, and the queue that is told of a free slot."""
        self._named_tasks: dict[str, tuple[frozenset[str], float]] = {}
        """The tasks that this process has named in queues' items, and when."""

    @classmethod
    def of_table(cls, db: Database, table: str, *, files: Files | None = None) -> JobStore:
        """A store on a table that an app has made, with the shards that it was made with: for those who look at it."""
        layout = CollectionLayout(table)
        shards = SideItems(db, table, layout.main_key).shards()
        return cls(db, layout if shards is None else CollectionLayout(table, shards=shards), files=files)

    def create_tables(self) -> None:
        """Makes the layout's tables, or brings them up to date; those that are as they should be are not touched."""
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
                plain.append((place, transitions.create(job, Payload(self.payloads.encode(job, "args", text)))))
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
        return transitions.create(job, Payload(self.payloads.encode(job, "args", text)))

    def _is_one_put(self, job: Job, text: str) -> bool:
        return (
            self._writer.keeps_events
            and not job.depends_on
            and job.unique_key is None
            and not job.tags
            and len(text) <= _SHORT_CHARACTERS
        )

    def join(self, new: NewJob, on_commit: Callable[[], None]) -> JobInTransaction:
        """The job as a part of somebody's transaction; nothing is written here."""
        job, text = self._plan(new)
        return JobInTransaction(self, self._writer, self._expiry, new, job, text, on_commit)

    def _plan(self, new: NewJob) -> tuple[Job, str]:
        """The job as it is to be, and its arguments. Nothing is read or written."""
        check_new(new)
        return first_version(new, self.clock.now(), self.keep_seconds), to_json(new.args, "args")

    def _first_version(self, new: NewJob) -> tuple[Job, str]:
        """The same with its place among the others, which is read and written here."""
        job, text = self._plan(new)
        if job.depends_on:
            job = self._dependencies.check_parents(job)
        return self.take_turn(job), text

    def take_turn(self, job: Job) -> Job:
        """The new job with its turn among the tenants', if it is ready."""
        if job.tenant:
            self.side_items.note_tenant(job.tenant)
        if job.waiting_for or job.run_at > job.created_at:
            return job
        if job.rate_key is not None or self.side_items.has_tenants(job.created_at):
            turn = self._turns.next_turn(job.queue, job.priority, _flow(job), job.created_at)
            job = replace(job, turn=turn)
        return job

    def _create(self, new: NewJob, job: Job, text: str) -> tuple[Job, bool]:
        contention = Contention(job.id)
        while True:
            payload, records = self.payloads.place(job, "args", text)
            stored, dependencies = self._dependencies.store_apart(job)
            records += dependencies
            if job.tags:
                records += self.layout.tags(job)
            created = transitions.create(stored, payload)
            try:
                guards = [] if job.unique_key is None else self.side_items.hold_unique(job)
                self._writer.create(created, records, guards)
                return created.job, True
            except Conflict as conflict:
                found = conflict.current
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
        if found.task != new.task or not self.payloads.is_same(found, found.args, text):
            raise KeyTaken(
                f"{found.id} has the same idempotency key ({new.idempotency_key or new.id!r}) and other arguments. "
                "Use another key for another job, or the same arguments."
            )
        return found

    def unique_holder(self, job: Job, guard: Item | None) -> Job | None:
        """Who holds the job's unique key; None, and nobody does any more, if that one is gone or has ended."""
        holder = (guard or {}).get("holder", {}).get("S", "")
        try:
            found = self._reader.get(holder, self.clock.now())
            if not found.is_terminal:
                return found
        except JobNotFound:  # it has expired, or was deleted by hand
            pass
        self.side_items.forget_unique(job, holder)
        return None

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
    ) -> JobPage:
        """Jobs, newest first; those of all tenants where none is named."""
        if limit < 1:
            raise ValueError(f"limit is at least 1, not {limit}")
        tenants = tuple(self.side_items.tenants()) if tenant is None else (tenant,)
        wanted = JobFilter(state, task, tenants, since, until, tag)
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
    ) -> Claimable:
        """`tasks`: those of whose pools jobs are wanted too. `shard`: the one to read first."""
        self.look_after(queue)
        now = self.clock.now()
        return self._reader.claimable(queue, limit, now, evenly=evenly, shard=shard, wake=wake, tasks=tasks)

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
                self.unblock(found.removeprefix(LIMIT_PREFIX))
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
                if is_held_up or job.run_at > max(now, job.updated_at):
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
            self._free_slots(job.concurrency_key or "", now)
            raise LimitReached(job) from None
        return changed.job if changed.job.state is State.PROCESSING else None

    def _free_slots(self, concurrency_key: str, now: float) -> None:
        """Now and then: a job that was deleted while it ran would hold its slot for ever."""
        if concurrency_key and now >= self._freed.get(concurrency_key, 0.0):
            self._freed[concurrency_key] = now + _FREE_SLOTS_SECONDS
            self.side_items.free_slots(concurrency_key, now)

    # ── jobs that cannot start ───────────────────────────────────────────────────────────────────

    def set_aside_limited(self, jobs: Sequence[Job]) -> bool:
        """Moves jobs of one concurrency key, whose limit refuses them, to the key's pool: one write for all of them.

        False where a slot is free, or somebody has changed one of them.
        """
        now = self.clock.now()
        most = max(job.max_concurrent for job in jobs)
        guard = self.side_items.block(jobs[0], most, now, now + _LOOK_SECONDS)
        is_moved = self._move_to_pool(jobs, LIMIT_POOL, guard, now)
        if is_moved:
            if len(self._blocked) >= _MOST_REMEMBERED:
                self._blocked.clear()
            self._blocked[jobs[0].concurrency_key or ""] = jobs[0].queue
        return is_moved

    def set_aside_unknown(self, jobs: Sequence[Job]) -> bool:
        """Moves jobs of one queue and task, which this worker does not have, to the task's pool: one write for all.

        False if somebody has changed one of them, or there are very many such tasks.
        """
        now = self.clock.now()
        queue, task = jobs[0].queue, jobs[0].task
        named, at = self._named_tasks.get(queue, (frozenset[str](), 0.0))
        if task not in named or now > at + _NAMED_SECONDS:
            if task not in named and len(named | self.side_items.queue(queue).tasks) >= _MOST_TASK_POOLS:
                return False
            self.side_items.add_tasks(queue, frozenset({task}), now)
            self._named_tasks[queue] = (frozenset({task}) | (named if now <= at + _NAMED_SECONDS else frozenset()), now)
        guard = self.side_items.names_task(queue, task, now - 2 * _NAMED_SECONDS)
        if self._move_to_pool(jobs, TASK_POOL, guard, now):
            return True
        self._named_tasks.pop(queue, None)
        return False

    def _move_to_pool(self, jobs: Sequence[Job], pool: str, guard: Action, now: float) -> bool:
        pairs = [(job, transitions.move_to_pool(job, pool, now)) for job in jobs]
        try:
            self._writer.change_as_one(pairs, guard)
        except (Guarded, Conflict):
            return False
        return True

    def forget_task(self, queue: Queue, task: str) -> None:
        """The pool of the task is empty: workers need not read it, if no job can have moved there lately."""
        if self.clock.now() > queue.tasks_at + _TASK_POOL_SECONDS:
            self.side_items.remove_task(queue, task)

    def unblock(self, concurrency_key: str) -> None:
        """Brings jobs of the key's pool back to the ready ones, as many as there are slots (side_items.py, 3).

        Any number may do it at once, and it may be done again: who comes back too early is refused once more.
        """
        for _ in range(_UNBLOCK_TRIES):
            limit = self.side_items.limit(concurrency_key)
            if not limit.order or self._unblock(limit, self.clock.now()):
                break

    def _unblock(self, limit: Limit, now: float) -> bool:
        """False if a slot was released, or a job was moved to the pool, meanwhile."""
        key, holding = limit.key, len(limit.holders)
        self._look_after_pool(limit_pool(key), now)
        found = self._reader.first_of_pool(limit_pool(key), _UNBLOCKED_TOGETHER, now)
        waiting = [job for job in found if job.state is State.QUEUED and job.pool == LIMIT_POOL]
        moved = 0
        for job in waiting:
            if holding + moved < job.max_concurrent:
                with suppress(Conflict):  # it was cancelled, or somebody else has brought it back
                    self._writer.change(job, transitions.move_to_pool(job, "", now))
                    moved += 1
        if waiting and not moved:
            self._free_slots(key, now)
        # An index may lag: a pool into which a job has just been moved may seem to be empty.
        is_empty = len(found) == moved
        is_settled = not self.db.capabilities.metered or now > limit.blocked_at + _INDEX_SECONDS
        if is_empty and is_settled:
            self._blocked.pop(key, None)
            return self.side_items.end_look(limit, "", None, "")
        soon = is_empty and not moved and not holding
        queue = waiting[-1].queue if waiting else limit.blocked
        look_at = now + (_INDEX_SECONDS if soon else _LOOK_SECONDS)
        return self.side_items.end_look(limit, queue, look_at, limit.moves)

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
        blocked = self._blocked.get(key, "")
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
                self.unblock(key)

    def _delivery(self, ended: Job) -> list[Record]:
        """The job that delivers the webhook of an end, made by the write of that end (webhooks.py, 1)."""
        new = delivery_of(ended, WEBHOOK_RETRIES)
        job, text = self._plan(new)
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
        self.renewals += 1
        return self.change_held(job, transitions.renew_lease)

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
    ) -> Job:
        """A change by the job's holder (2)."""

        def check_and_change(current: Job) -> ChangedJob:
            _check_held(job, current)
            if current.cancel_reason is not None:
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
                if self.unique_holder(job, refusal.item) is not None:
                    raise KeyTaken(f"{job.id}: another job holds its unique key {job.unique_key!r} now.") from None
            contention.wait()

    def _extend(self, job: Job, change: Change, now: float) -> Job:
        """The job, which will not expire before long. Who may not make the change is refused here already."""
        job = self._reader.current(job.id)
        due_at = max(now, change(job).job.run_at)
        if job.is_terminal or not self._is_near_expiry(job, due_at):
            return job
        return self._expiry.extend(job, due_at, now)


def _flow(job: Job) -> str:
    """Who takes turns with the others (turns.py): a tenant, or jobs of one rate key that have none."""
    return job.tenant or ("" if job.rate_key is None else f"#{job.rate_key}")


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
