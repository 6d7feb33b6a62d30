"""Rate limits: slots of rate keys, given to jobs before these may start (model/rate.py).

1. A job with a rate key starts only in a slot of its own. Giving slots moves the key's time on in the transaction that
   writes them to the jobs, so that no two jobs have one slot, and none is lost to a worker that dies.
2. Slots are given a moment ahead. Until its slot a job stands among those that are due later: nobody reads it.
3. Jobs for which there is no slot within that moment are in the pool of their key, in the order in which they would be
   claimed, so that what a poll reads does not grow with their number. While there are any, the key's item stands in the
   claim index at the time of the next slots, and the worker that sees it gives these to the first of the pool. Jobs
   that come meanwhile go to the pool too: nobody overtakes.
4. A rate that was changed in the code holds for those that wait as soon as workers have it: slots are given by the rate
   that the worker's task has, else by that of the job.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from penstock.clock import Clock, utc_seconds, utc_text
from penstock.errors import ConditionalCheckFailedException
from penstock.jobs.layouts.item_collection import number_text, rate_pool
from penstock.jobs.layouts.layout import Item, Layout, shard_of
from penstock.jobs.model import transitions
from penstock.jobs.model.job import RATE_POOL, Job
from penstock.jobs.model.rate import AHEAD_SECONDS, Rate, give_slots, parse_rate
from penstock.jobs.model.state import State
from penstock.jobs.model.transitions import ChangedJob
from penstock.jobs.store.conditional_writes import Guarded, JobWriter
from penstock.jobs.store.queries import RATE_PREFIX, JobReader, claim_order
from penstock.jobs.store.side_items import Action, SideItems
from penstock.optimistic import Conflict

_TRIES: Final = 5
_ROUNDS: Final = 8
_TOGETHER: Final = 25
_TRANSACTION_CHARACTERS: Final = 1_000_000
_RECORD_CHARACTERS: Final = 8_000
"""A transaction takes 4 MB: of text beyond ASCII, a character is up to four bytes."""
_LOOK_SECONDS: Final = 3_600.0
"""A key whose jobs wait is looked at so often at least: its item, and they, must not expire."""
_INDEX_SECONDS: Final = 5.0
"""An index shows every write that is as old as this."""
_AGAIN_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class RateState:
    """A rate key, as it was read."""

    key: str
    arrival: float = 0.0
    version: int = 0
    blocked_at: float | None = None
    """When a job last moved to the key's pool; None where there is none."""
    order: str = ""
    """Where it stands in the claim index."""
    queue: str = ""
    rate: str = ""
    """That of the last job that was given a slot, or is to be."""

    @property
    def look_at(self) -> float:
        return utc_seconds(self.order.partition("#")[0]) if self.order else math.inf


@dataclass(frozen=True, slots=True)
class Admitted:
    """Jobs that may start now, and when the next of the others may."""

    jobs: list[Job]
    next_at: float | None


class RateLimits:
    """Gives slots to the jobs of one table."""

    def __init__(
        self,
        layout: Layout,
        side_items: SideItems,
        reader: JobReader,
        writer: JobWriter,
        clock: Clock,
        *,
        keep_seconds: float,
        metered: bool,
        look_after_pool: Callable[[str, float], None],
    ) -> None:
        self._layout = layout
        self._side_items = side_items
        self._reader = reader
        self._writer = writer
        self._clock = clock
        self._keep_seconds = keep_seconds
        self._metered = metered
        self._look_after_pool = look_after_pool
        self.task_rates: Mapping[str, str] = {}
        """Of the tasks that this process runs (4)."""

    def state(self, key: str) -> RateState:
        item = self._side_items.read(f"{RATE_PREFIX}{key}") or {}
        at = item.get("blocked_at", {}).get("S")
        return RateState(
            key,
            float(item.get("arrival", {}).get("N", "0")),
            int(item.get("version", {}).get("N", "0")),
            None if at is None else utc_seconds(at),
            item.get(self._layout.claim_index.order, {}).get("S", ""),
            item.get("queue", {}).get("S", ""),
            item.get("rate", {}).get("S", ""),
        )

    def rate_of(self, job: Job) -> Rate:
        return parse_rate(self.task_rates.get(job.task) or job.rate)

    def admit(self, jobs: Sequence[Job]) -> Admitted | None:
        """Gives jobs of one key slots, as many as there are now, and moves the others to the key's pool: one write.

        They are to fit into a transaction. None if somebody has changed one of them, or is at the same key.
        """
        ordered = sorted(jobs, key=claim_order)
        now, key = self._clock.now(), ordered[0].rate_key or ""
        state = self.state(key)
        arrival, slots = state.arrival, list[float]()
        if state.blocked_at is None:
            slots, arrival = give_slots(arrival, [self.rate_of(job) for job in ordered], now)
        pairs = _with_slots(ordered, slots, now)
        rest = ordered[len(slots) :]
        pairs += [(job, transitions.move_to_pool(job, RATE_POOL, now)) for job in rest]
        next_at = slots[-1] if slots and slots[-1] > now else None
        if rest:
            look_at = self._next_look(arrival, self.rate_of(rest[0]), now)
            next_at = min(look_at, state.look_at)
            place = f"{utc_text(next_at)}#{state.version}"
            guard = self._update(state, arrival, now, rest[-1].queue, self.rate_text(rest[0]), place, now)
        else:
            guard = self._update(state, arrival, now)
        if not self._write(pairs, guard):
            return None
        started = [changed.job for _, changed in pairs[: len(slots)] if changed.job.run_at <= now]
        return Admitted(started, next_at)

    def rate_text(self, job: Job) -> str:
        return self.task_rates.get(job.task) or job.rate

    def release(self, key: str) -> None:
        """Gives the next slots to the first jobs of the key's pool (3). Any number may do it at once."""
        for _ in range(_ROUNDS):
            if not self._release(key):
                return

    def _release(self, key: str) -> bool:
        """Whether there may be more to do now."""
        for _ in range(_TRIES):
            state, now = self.state(key), self._clock.now()
            if state.blocked_at is None or state.look_at > now:
                return False  # another worker was quicker
            pool = rate_pool(key)
            self._look_after_pool(pool, now)
            wanted = self._slots_now(state, now)
            found = self._reader.first_of_pool(pool, wanted + 1, now)
            waiting = [job for job in found if job.state is State.QUEUED and job.pool == RATE_POOL]
            slots, arrival = give_slots(state.arrival, [self.rate_of(job) for job in waiting[:wanted]], now)
            pairs = _fitting(_with_slots(waiting, slots, now))
            if len(pairs) < len(slots):
                rates = [self.rate_of(job) for job in waiting[: len(pairs)]]
                slots, arrival = give_slots(state.arrival, rates, now)
            rest = waiting[len(pairs) :]
            if self._write(pairs, self._after_release(state, arrival, rest, now)):
                return bool(rest) and len(pairs) == wanted
        return False

    def _after_release(self, state: RateState, arrival: float, rest: list[Job], now: float) -> Action:
        """The update of the key: when it is looked at next, or (None) that nobody waits any more."""
        if rest:
            look_at = self._next_look(arrival, self.rate_of(rest[0]), now)
            place = f"{utc_text(look_at)}#{state.version}"
            return self._update(state, arrival, now, rest[0].queue, self.rate_text(rest[0]), place, state.blocked_at)
        # An index may lag: a pool into which a job has just been moved may seem to be empty.
        is_settled = not self._metered or now > (state.blocked_at or 0.0) + _INDEX_SECONDS
        if is_settled:
            return self._update(state, arrival, now)
        place = f"{utc_text(now + _AGAIN_SECONDS)}#{state.version}"
        return self._update(state, arrival, now, state.queue, state.rate, place, state.blocked_at)

    def _slots_now(self, state: RateState, now: float) -> int:
        """How many slots there are about now, by the rate of those that wait; at least one is asked for."""
        rate = parse_rate(state.rate)
        slot, _ = rate.next_slot(state.arrival, now)
        return min(max(int((now + AHEAD_SECONDS - slot) / rate.interval) + rate.burst, 1), _TOGETHER)

    def _next_look(self, arrival: float, rate: Rate, now: float) -> float:
        slot, _ = rate.next_slot(arrival, now)
        return min(max(slot - AHEAD_SECONDS / 2, now), now + _LOOK_SECONDS)

    def _update(
        self,
        state: RateState,
        arrival: float,
        now: float,
        queue: str = "",
        rate: str = "",
        place: str = "",
        blocked_at: float | None = None,
    ) -> Action:
        """The write of the key's item, which nobody has written since it was read; with a place while jobs wait."""
        index = self._layout.claim_index
        ttl = int(max(now, arrival) + self._keep_seconds)
        item: Item = {
            **self._layout.main_key(f"{RATE_PREFIX}{state.key}"),
            "arrival": {"N": number_text(round(arrival, 6))},
            "version": {"N": str(state.version + 1)},
            self._layout.ttl_name: {"N": str(ttl)},
        }
        if place:
            shard = shard_of(state.key, self._layout.shards)
            item |= {"queue": {"S": queue}, "rate": {"S": rate}, "blocked_at": {"S": utc_text(blocked_at or now)}}
            item |= {index.pool: {"S": f"{queue}#wake#{shard}"}, index.order: {"S": place}}
        put: dict[str, Any] = {
            "TableName": self._layout.table,
            "Item": item,
            "ConditionExpression": "#version = :version" if state.version else "attribute_not_exists(#version)",
            "ExpressionAttributeNames": {"#version": "version"},
        }
        if state.version:
            put["ExpressionAttributeValues"] = {":version": {"N": str(state.version)}}
        return {"Put": put}

    def _write(self, pairs: list[tuple[Job, ChangedJob]], guard: Action) -> bool:
        with suppress(Guarded, Conflict, ConditionalCheckFailedException):
            if pairs:
                self._writer.change_as_one(pairs, guard)
            else:
                self._side_items.put(guard["Put"])
            return True
        return False


def _with_slots(jobs: Sequence[Job], slots: Sequence[float], now: float) -> list[tuple[Job, ChangedJob]]:
    return [(job, transitions.give_slot(job, slot, now)) for job, slot in zip(jobs, slots, strict=False)]


def _fitting(pairs: list[tuple[Job, ChangedJob]]) -> list[tuple[Job, ChangedJob]]:
    """As many of them, at least one, as fit into a transaction."""
    room = _TRANSACTION_CHARACTERS
    for count, (job, _) in enumerate(pairs):
        room -= len(job.args.text or "") + _RECORD_CHARACTERS
        if room < 0 and count:
            return pairs[:count]
    return pairs
