"""Triggers: a task that runs for each change of a table.

@app.on_change("orders", kinds=["modify"], where=F("status") == "paid", retries=5)
def send_receipt(ctx: penstock.JobContext, change: penstock.Change) -> None: ...

1. Each change is one job: its idempotency key is made of the table, the shard and the sequence number. A change that is
   delivered twice finds its job. So do batches: one that is delivered again begins with the same change, and what its
   job has is left out of the next one.
2. A trigger is a group of consumers, `task.{name}`, of its own. Workers whose code does not have the trigger yet read
   nothing in its name.
3. With `ordered`, the job of a change begins when that of the item's last change has ended, however it has ended.
4. What happens when a job fails is the task's: retries, backoff, `failed`, `penstock jobs retry`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from penstock.client.database import Database
from penstock.client.items.expressions import Condition
from penstock.client.models.model import models_of
from penstock.client.tables.table import Table as TableHandle
from penstock.jobs.context import AsyncJobContext, JobContext
from penstock.jobs.model.job import ALL_ENDED, BadJob, KeyTaken, NewJob
from penstock.jobs.model.state import State
from penstock.jobs.store.store import JobStore
from penstock.jobs.tasks import Task
from penstock.streams.change import Change, change_of_form, record_filter
from penstock.streams.consumer import Consumer, Start, start_text
from penstock.streams.errors import checked_group

_LARGEST_BATCH: Final = 1_000
_TOGETHER: Final = 100
"""Changes that become jobs with one commit."""
_REMEMBERED_ITEMS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Trigger:
    """What a task runs for."""

    table: str
    group: str
    database: Database | None = None
    """Where the table is; None: where the jobs are."""
    kinds: tuple[str, ...] | None = None
    where: Condition | None = None
    start: Start = "latest"
    batch: int | None = None
    """Changes that are one job, at most; None: each is a job of its own."""
    ordered: bool = False

    def consumer(self, db: Database, *, follow: bool, lease_seconds: float) -> Consumer:
        """What reads the changes for it. Gaps are noted with the group, and logged: no worker stops for one."""
        return Consumer(
            self.database or db,
            self.table,
            self.group,
            start=self.start,
            follow=follow,
            kinds=self.kinds,
            where=self.where,
            on_gap="continue",
            lease_seconds=lease_seconds,
        )


def new_trigger(
    table: object,
    task: str,
    *,
    group: str | None,
    kinds: Iterable[str] | str | None,
    where: Condition | None,
    start: Start,
    batch: int | None,
    ordered: bool,
) -> Trigger:
    """Refuses what cannot be. Raises BadJob, BadGroup, BadFilter."""
    if batch is not None and not (type(batch) is int and 1 <= batch <= _LARGEST_BATCH):
        raise BadJob(f"batch is a whole number from 1 to {_LARGEST_BATCH:,}, not {batch!r:.100}.")
    if batch is not None and ordered:
        raise BadJob("A batch has changes of several items: ordered=True is for single changes. Leave out one of them.")
    record_filter(kinds, where)
    start_text(start)
    wanted = None if kinds is None else (kinds,) if isinstance(kinds, str) else tuple(kinds)
    database = table.database if isinstance(table, TableHandle) else None
    name = checked_group(f"task.{task}" if group is None else group)
    return Trigger(_table_name(table), name, database, wanted, where, start, batch, ordered)


def _table_name(table: object) -> str:
    if isinstance(table, type):
        return models_of((table,))[0]
    name = table if isinstance(table, str) else getattr(table, "name", None)
    if not isinstance(name, str) or not name:
        raise BadJob(f'@app.on_change("orders") names a table, or is given one; not {table!r:.100}.')
    return name


def task_function(function: Callable[..., Any], batch: int | None) -> Callable[..., Any]:
    """The function as a task: its arguments are stored as JSON, and given to it as changes."""
    parameters = list(inspect.signature(function).parameters)
    takes_context = len(parameters) > 1
    if not 1 <= len(parameters) <= 2:
        what = "changes" if batch else "change"
        raise BadJob(f"{function.__name__} is for @app.on_change: def {function.__name__}(ctx, {what}), or ({what}).")

    def arguments(ctx: Any, given: Any) -> list[Any]:
        return [*((ctx,) if takes_context else ()), given]

    def each(ctx: JobContext, change: dict[str, Any]) -> Any:
        return function(*arguments(ctx, change_of_form(change)))

    def several(ctx: JobContext, changes: list[dict[str, Any]]) -> Any:
        return function(*arguments(ctx, [change_of_form(one) for one in changes]))

    async def await_each(ctx: AsyncJobContext, change: dict[str, Any]) -> Any:
        result: Awaitable[Any] = function(*arguments(ctx, change_of_form(change)))
        return await result

    async def await_several(ctx: AsyncJobContext, changes: list[dict[str, Any]]) -> Any:
        result: Awaitable[Any] = function(*arguments(ctx, [change_of_form(one) for one in changes]))
        return await result

    if inspect.iscoroutinefunction(function):
        made: Callable[..., Any] = await_several if batch else await_each
    else:
        made = several if batch else each
    made.__name__, made.__doc__, made.__module__ = function.__name__, function.__doc__, function.__module__
    return made


# ── jobs of changes ──────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class ChangeJobs:
    """Makes the jobs of one trigger's changes (1)."""

    trigger: Trigger
    task: Task[Any, Any]
    enqueue: Callable[[list[NewJob]], Any]
    store: JobStore
    _last_jobs: dict[str, str] = field(default_factory=dict)
    """Of each item, the job of its last change (3)."""
    _known_shards: set[str] = field(default_factory=set)

    @property
    def together(self) -> int:
        return self.trigger.batch or _TOGETHER

    def make(self, changes: list[Change]) -> None:
        """When it returns, each change is in a job."""
        if self.trigger.batch is not None:
            self._make_batch(changes)
        elif self.trigger.ordered:
            self._make_ordered(changes)
        else:
            self.enqueue([self._new_job(one, {"change": one.form}) for one in changes])

    def _new_job(self, change: Change, arguments: dict[str, Any], **more: Any) -> NewJob:
        key = f"{change.table}/{change.shard}/{change.sequence_number}"
        return self.task.options(idempotency_key=key, **more).new_job((), arguments)

    def _make_batch(self, changes: list[Change]) -> None:
        while changes:
            new = self._new_job(changes[0], {"changes": [one.form for one in changes]})
            try:
                self.enqueue([new])
                return
            except KeyTaken:
                # It was made before a crash, and more has come since: what it has is left out.
                job, _ = self.store.new_jobs.plan(new)
                made = self.store.get(job.id)
                last = int(self.store.load(made, made.args)["changes"][-1]["sequence_number"])
                left = [one for one in changes if int(one.sequence_number) > last]
                if len(left) == len(changes):
                    raise
                changes = left

    def _make_ordered(self, changes: list[Change]) -> None:
        if changes[0].shard not in self._known_shards:
            # Another worker has led the shard before, and its jobs may not have ended.
            self._last_jobs = self._unended()
            self._known_shards.add(changes[0].shard)
        news: list[tuple[str, NewJob]] = []
        for change in changes:
            item = sha256(f"{change.table}\n{change.key_text}".encode()).hexdigest()[:32]
            before = self._last_jobs.pop(item, None)
            more = {} if before is None else {"depends_on": (before,), "depends_on_policy": ALL_ENDED}
            new = self._new_job(change, {"change": change.form}, concurrency_key=item, **more)
            self._last_jobs[item] = self.store.new_jobs.plan(new)[0].id
            news.append((self._last_jobs[item], new))
        while len(self._last_jobs) > _REMEMBERED_ITEMS:
            del self._last_jobs[next(iter(self._last_jobs))]
        for run in _runs(news):
            self.enqueue(run)

    def _unended(self) -> dict[str, str]:
        """Of each item, the newest job that has not ended."""
        found: dict[str, str] = {}
        newest: dict[str, int] = {}
        for state in (State.QUEUED, State.PROCESSING):
            token: str | None = None
            while True:
                page = self.store.find(state=state, task=self.task.name, limit=_TOGETHER, token=token)
                for job in page.jobs:
                    at = int(self.store.load(job, job.args)["change"]["sequence_number"])
                    if job.concurrency_key and at > newest.get(job.concurrency_key, -1):
                        found[job.concurrency_key], newest[job.concurrency_key] = job.id, at
                token = page.token
                if token is None:
                    break
        return found


def _runs(news: list[tuple[str, NewJob]]) -> Iterator[list[NewJob]]:
    """The jobs in their order, in runs of which none depends on another: a job is made after those it depends on."""
    ids: set[str] = set()
    run: list[NewJob] = []
    for job_id, new in news:
        if not ids.isdisjoint(new.depends_on):
            yield run
            ids, run = set(), []
        ids.add(job_id)
        run.append(new)
    yield run
