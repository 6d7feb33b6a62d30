"""Jobs that cannot start: out of the way of the others, in pools of their concurrency keys and tasks.

1. A job that its limit refuses moves to the pool of its key, and comes back when a slot is free (side_items.py, 3).
2. A job of a task that the workers here do not have moves to the pool of its task (side_items.py, 4).
3. So what a claim reads does not grow with the number of either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from penstock.clock import Clock
from penstock.jobs.layouts.item_collection import limit_pool
from penstock.jobs.model import transitions
from penstock.jobs.model.job import LIMIT_POOL, TASK_POOL, Job
from penstock.jobs.model.state import State
from penstock.jobs.store.conditional_writes import Guarded, JobWriter
from penstock.jobs.store.queries import JobReader
from penstock.jobs.store.side_items import Action, Limit, Queue, SideItems
from penstock.optimistic import Conflict

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


class Pools:
    """Of one table. Safe to share between threads."""

    def __init__(
        self,
        side_items: SideItems,
        reader: JobReader,
        writer: JobWriter,
        clock: Clock,
        *,
        metered: bool,
        look_after_pool: Callable[[str, float], None],
    ) -> None:
        self._side_items = side_items
        self._reader = reader
        self._writer = writer
        self._clock = clock
        self._metered = metered
        self._look_after_pool = look_after_pool
        self._freed: dict[str, float] = {}
        self._blocked: dict[str, str] = {}
        """Concurrency keys that were blocked when they were last seen, and the queue that is told of a free slot."""
        self._named_tasks: dict[str, tuple[frozenset[str], float]] = {}
        """The tasks that this process has named in queues' items, and when."""

    def set_aside_limited(self, jobs: Sequence[Job]) -> bool:
        """Moves jobs of one concurrency key, whose limit refuses them, to the key's pool: one write for all of them.

        False where a slot is free, or somebody has changed one of them.
        """
        now = self._clock.now()
        most = max(job.max_concurrent for job in jobs)
        guard = self._side_items.block(jobs[0], most, now, now + _LOOK_SECONDS)
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
        now = self._clock.now()
        queue, task = jobs[0].queue, jobs[0].task
        named, at = self._named_tasks.get(queue, (frozenset[str](), 0.0))
        if task not in named or now > at + _NAMED_SECONDS:
            if task not in named and len(named | self._side_items.queue(queue).tasks) >= _MOST_TASK_POOLS:
                return False
            self._side_items.add_tasks(queue, frozenset({task}), now)
            self._named_tasks[queue] = (frozenset({task}) | (named if now <= at + _NAMED_SECONDS else frozenset()), now)
        guard = self._side_items.names_task(queue, task, now - 2 * _NAMED_SECONDS)
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
        if self._clock.now() > queue.tasks_at + _TASK_POOL_SECONDS:
            self._side_items.remove_task(queue, task)

    def unblock(self, concurrency_key: str) -> None:
        """Brings jobs of the key's pool back to the ready ones, as many as there are slots (side_items.py, 3).

        Any number may do it at once, and it may be done again: who comes back too early is refused once more.
        """
        for _ in range(_UNBLOCK_TRIES):
            limit = self._side_items.limit(concurrency_key)
            if not limit.order or self._unblock(limit, self._clock.now()):
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
            self.free_slots(key, now)
        # An index may lag: a pool into which a job has just been moved may seem to be empty.
        is_empty = len(found) == moved
        is_settled = not self._metered or now > limit.blocked_at + _INDEX_SECONDS
        if is_empty and is_settled:
            self._blocked.pop(key, None)
            return self._side_items.end_look(limit, "", None, "")
        soon = is_empty and not moved and not holding
        queue = waiting[-1].queue if waiting else limit.blocked
        look_at = now + (_INDEX_SECONDS if soon else _LOOK_SECONDS)
        return self._side_items.end_look(limit, queue, look_at, limit.moves)

    def blocked_queue(self, concurrency_key: str) -> str:
        """The queue that is told of a free slot of the key; "" if no job of it waits, by what was seen last."""
        return self._blocked.get(concurrency_key, "")

    def free_slots(self, concurrency_key: str, now: float) -> None:
        """Now and then: a job that was deleted while it ran would hold its slot for ever."""
        if concurrency_key and now >= self._freed.get(concurrency_key, 0.0):
            self._freed[concurrency_key] = now + _FREE_SLOTS_SECONDS
            self._side_items.free_slots(concurrency_key, now)
