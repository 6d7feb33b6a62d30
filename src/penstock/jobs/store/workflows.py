"""What a workflow stores: its waits, the events that are sent to it, its children.

1. A wait is stored with the end of its attempt, in one transaction: its time, or what it waits for, and the operation
   by which the next attempt knows it.
2. An event is an item of the job's, written together with its main record, which is made due if it waits for that.
   Whoever suspends a job sees in that record whether one was sent meanwhile. So no event is missed, and none wakes a
   job twice.
3. A job takes an event, or notes that its time was over, together with the operation that says so: it is taken once,
   and the next attempt gets the same. Whichever of the two is written first decides.
4. Children are written together with the list of them in their parent's collection and with its main record, under
   its lease: each is made once, however often the parent is attempted, and none after the parent was cancelled.
5. A child's main record names its parent, and whoever settles the child's end tells it (dependencies.py): waiting for
   children writes nothing to them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.jobs.layouts.layout import Record
from penstock.jobs.model import transitions
from penstock.jobs.model.job import INLINE_DEPENDENCIES, Job, NewJob, Payload, checked_name, waiting_parts
from penstock.jobs.model.transitions import ChangedJob
from penstock.jobs.model.workflow import (
    MOST_UNREAD_EVENTS,
    Child,
    EventRefused,
    JobSuspended,
    Operation,
    SentEvent,
    WorkflowChanged,
    checked_event_id,
)
from penstock.jobs.store.conditional_writes import Guarded, JobWriter
from penstock.jobs.store.dependencies import Dependencies
from penstock.jobs.store.payloads import to_json
from penstock.jobs.store.queries import JobReader
from penstock.jobs.store.side_items import Action

if TYPE_CHECKING:
    from penstock.jobs.store.store import JobStore

MADE_TOGETHER: Final = 90
"""Children in one transaction of at most 100 items; their records are short."""


class _EventCame(Exception):
    """More events have been sent: nothing is written."""

    def __init__(self, sent: int) -> None:
        super().__init__(sent)
        self.sent = sent


class Workflows:
    def __init__(self, store: JobStore, reader: JobReader, writer: JobWriter, dependencies: Dependencies) -> None:
        self._store = store
        self._layout = store.layout
        self._reader = reader
        self._writer = writer
        self._dependencies = dependencies

    # ── waits ────────────────────────────────────────────────────────────────────────────────────

    def operation(self, job_id: str, key: str) -> Operation | None:
        """What is stored of one."""
        item = self._reader.record(job_id, f"operation#{key}", self._store.clock.now())
        return None if item is None else self._layout.operation_of(item)

    def suspend(self, job: Job, suspended: JobSuspended) -> Job:
        """Ends the attempt until its wait is over (1). Raises LeaseLost, JobCancelled."""
        ids, wait = suspended.ids, suspended.wait
        parts = waiting_parts(len(ids)) if len(ids) > INLINE_DEPENDENCIES else 0
        inline = frozenset[str]() if parts else frozenset(ids)
        kept: list[Record] = []

        def change(current: Job, now: float) -> ChangedJob:
            is_due = bool(wait.event) and current.sent > suspended.sent  # (2)
            changed = transitions.suspend(current, wait, now, is_due=is_due, waiting_for=inline, parts=parts)
            kept[:] = [self._layout.operation(changed.job, suspended.operation)]
            kept.extend(self._dependencies.waiting_records(changed.job, ids))
            return changed

        job = self._store.change_held(job, change, kept, ending=True)
        return self._dependencies.register(job) if job.unregistered else job

    def keep(self, job: Job, operation: Operation, taken: SentEvent | None = None) -> Job:
        """Stores an operation, with the event that the job takes by it (3). Raises LeaseLost, JobCancelled."""
        kept: list[Record] = []
        checks: list[Action] = []
        if taken is not None:
            key = self._layout.sent_key(job, taken)
            checks.append({"Delete": {"TableName": self._layout.table, "Key": key}})

        def change(current: Job, now: float) -> ChangedJob:
            changed = transitions.keep_operation(current, now, taken=len(checks))
            kept[:] = [self._layout.operation(changed.job, operation)]
            return changed

        return self._store.change_held(job, change, kept, checks=checks)

    def keep_timeout(self, job: Job, operation: Operation, sent: int) -> tuple[Job, bool]:
        """Stores that no event has come in time (3). False, and nothing is stored, if more than `sent` have come."""
        kept: list[Record] = []

        def change(current: Job, now: float) -> ChangedJob:
            if current.sent > sent:
                raise _EventCame(current.sent)
            changed = transitions.keep_operation(current, now)
            kept[:] = [self._layout.operation(changed.job, operation)]
            return changed

        try:
            return self._store.change_held(job, change, kept), True
        except _EventCame as came:
            return replace(job, sent=came.sent), False

    # ── events ───────────────────────────────────────────────────────────────────────────────────

    def send(self, job_id: str, name: str, data: object = None, *, event_id: str | None = None) -> Job:
        """Sends an event to a job that has not ended; with an `event_id`, once however often it is called.

        Raises JobNotFound; BadJob if the job has ended, or has very many events that it has not taken.
        """
        checked_name(name, "event")
        text = to_json(data, f"event {name}")
        job = self._store.get(job_id)
        if event_id is not None and self._is_sent(job, checked_event_id(event_id)):
            return job
        kept: list[Record] = []
        checks: list[Action] = []
        payload: list[Payload] = []

        def change(current: Job) -> ChangedJob:
            _check_takes_events(current, name)
            payload[:] = payload or [self._store.payloads.spill(current, f"event#{name}", text)]
            changed = transitions.deliver(current, name, self._store.clock.now())
            after = changed.job
            kept[:] = [self._layout.sent(after, SentEvent(name, after.sent, after.updated_at, payload[0]))]
            checks[:] = [] if event_id is None else [self._writer.put_once(self._layout.sent_id(after, event_id))]
            return changed

        try:
            return self._store.change(job, change, kept, checks=checks)
        except Guarded:  # another one has sent it at this moment
            return self._store.get(job_id)

    def _is_sent(self, job: Job, event_id: str) -> bool:
        return self._reader.record(job.id, f"sent_id#{event_id}", self._store.clock.now()) is not None

    def first_event(self, job_id: str, name: str) -> SentEvent | None:
        """The first event of that name that the job has not taken."""
        call = self._layout.records(job_id, f"sent#{name}#")
        found = self._store.patient_db.execute(call.operation, {**call.request, "Limit": 1})["Items"]
        return self._layout.sent_of(found[0]) if found else None

    # ── children ─────────────────────────────────────────────────────────────────────────────────

    def made(self, job_id: str) -> Iterator[Child]:
        """The children of a job, in the order in which its task made them; read in pages."""
        for item in self._reader.pages(self._layout.records(job_id, "made#")):
            for child_id in self._layout.ids_of(item):
                yield Child(child_id, item["task"]["S"])

    def children(self, job_id: str) -> Iterator[Job]:
        """The same as jobs; those that have expired are left out."""
        children = self.made(job_id)
        while some := [child.id for child in itertools.islice(children, MADE_TOGETHER)]:
            yield from self._store.get_existing(some)

    def enqueue(self, job: Job, news: Sequence[NewJob]) -> Job:
        """Makes children, at most MADE_TOGETHER (4); the parent as it is then. Raises LeaseLost, JobCancelled."""
        creations: list[Action] = []
        for new in news:
            created = self._store.new_jobs.plan_creation(new)
            if created is None:  # long arguments, or jobs that it depends on: more than one write
                self._create(job, new)
            else:
                creations += self._writer.creation(created)
        try:
            return self._list(job, news, creations)
        except Guarded:  # one is there already: another attempt has made it, in several writes, and died before (4)
            for new in news:
                self._create(job, new)
            return self._list(job, news, [])

    def _create(self, parent: Job, new: NewJob) -> None:
        """One that is there, or is made by itself; its first arguments stay."""
        found = self._store.get_existing([new.id or ""])
        if not found:
            self._store.create(new)
        elif found[0].parent_id != parent.id or found[0].task != new.task:
            raise WorkflowChanged(
                f"{new.id} is there already, and is no child of {parent.id} with the task {new.task}."
            )

    def _list(self, job: Job, news: Sequence[NewJob], creations: Sequence[Action]) -> Job:
        """Writes the list of the children, and those that are not there yet."""
        kept: list[Record] = []

        def change(current: Job, now: float) -> ChangedJob:
            changed = transitions.keep_operation(current, now, children=len(news))
            number = current.child_count + 1
            kept.clear()
            for task, some in itertools.groupby(news, key=lambda new: new.task):
                ids = [new.id or "" for new in some]
                kept.append(self._layout.made(changed.job, number, task, ids))
                number += len(ids)
            return changed

        return self._store.change_held(job, change, kept, checks=creations)

    # ── the results of many ──────────────────────────────────────────────────────────────────────

    def keep_results(self, job: Job, key: str, number: int, results: list[dict[str, Any]]) -> Job:
        """Stores some of the results of a gather, in a record of their own."""
        payload = self.results_payload(job, key, results)
        return self.keep(job, Operation(f"{key}#{number:05d}", "", is_done=True, data=payload))

    def results_payload(self, job: Job, key: str, results: list[dict[str, Any]]) -> Payload:
        return self._store.payloads.spill(job, key, to_json(results, key))

    def results(self, job: Job, operation: Operation) -> Iterator[dict[str, Any]]:
        """What `keep_results` has stored, in its order; one record at a time is in memory."""
        if operation.data is not None:
            yield from self._store.load(job, operation.data, operation.key)
        for number in range(operation.parts):
            part = self.operation(job.id, f"{operation.key}#{number:05d}")
            if part is not None:
                yield from self._store.load(job, part.data, operation.key)


def child_of(parent: Job, new: NewJob, child_id: str) -> NewJob:
    """The child as it is made: linked to its parent, whose tenant is its own unless it was given one."""
    return replace(new, id=child_id, parent_id=parent.id, idempotency_key=None, tenant=new.tenant or parent.tenant)


def _check_takes_events(job: Job, name: str) -> None:
    if job.is_terminal:
        raise EventRefused(f"{job.id} is {job.state}: the event {name!r} would never be taken. Nothing was sent.")
    if job.unread >= MOST_UNREAD_EVENTS:
        raise EventRefused(
            f"{job.id} has {job.unread:,} events that it has not taken, which is the most there may be: the event "
            f"{name!r} was not sent. See what it waits for with `penstock jobs why {job.id}`."
        )
