"""How jobs are found and read.

1. One job with all of its history is one Query, whatever the table's size.
2. Lists are merged from shards, newest first; a page's token is the place of its last job, so pages neither repeat nor
   leave out jobs when new ones arrive.
3. A job that has expired and is not deleted yet is not shown, nor is a record of one: the next job of the same id
   does not begin with what the last one has left.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.client.database import Database
from penstock.client.reads.pages import read_pages
from penstock.clock import utc_seconds, utc_text
from penstock.errors import PenstockError
from penstock.jobs.layouts.item_collection import limit_pool, rate_pool, ready_order, task_pool
from penstock.jobs.layouts.layout import Item, Layout, Listing, ReadCall
from penstock.jobs.model.job import (
    DEFAULT_PRIORITY,
    HIGHEST_PRIORITY,
    RATE_POOL,
    TASK_POOL,
    History,
    Job,
    JobNotFound,
    JobPage,
    is_id,
)
from penstock.jobs.model.state import State

BATCH_KEYS: Final = 100
LONGEST_PAGE: Final = 1_000
MOST_COUNTED: Final = 1_000
LIMIT_PREFIX: Final = "limit#"
"""Of the ids of limits' items (side_items.py): no job's id has a #."""
RATE_PREFIX: Final = "rate#"
"""Likewise of rate keys (rates.py)."""


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs a list should have."""

    state: State | None = None
    task: str | None = None
    tenants: tuple[str, ...] = ("",)
    since: float | None = None
    until: float | None = None
    tag: str | None = None
    accepts: Callable[[Job], bool] | None = None
    """What else a job must be, such as in a derived state."""

    def matches(self, job: Job) -> bool:
        return (
            (self.state is None or job.state is self.state)
            and (self.task is None or job.task == self.task)
            and (self.tag is None or self.tag in job.tags)
            and (self.accepts is None or self.accepts(job))
        )


@dataclass(frozen=True, slots=True)
class Claimable:
    """Jobs that a worker may claim (or see to) now, the most urgent first; and when to look again for the next one."""

    jobs: tuple[Job, ...]
    next_at: float | None
    more: bool
    """There were as many as were asked for."""
    limits: tuple[str, ...] = ()
    """Concurrency keys of which a slot was released while jobs wait for it, or that should be looked at now."""
    rates: tuple[str, ...] = ()
    """Rate keys that have slots for jobs in their pools, now or in a moment."""
    empty_tasks: tuple[str, ...] = ()
    """Those of the tasks asked for in whose pools there was nothing."""
    more_due: bool = False
    """There were as many as were asked for that have become due by time."""


def _is_ready(job: Job) -> bool:
    return job.state is State.QUEUED and not job.unregistered


def claim_order(job: Job) -> tuple[int, float, str]:
    """The order in which jobs are claimed, whatever pools they were found in."""
    return -job.priority, job.run_at if job.turn is None else job.turn, job.id


@dataclass(frozen=True, slots=True)
class Ahead:
    """How many jobs come before one."""

    ready: int = 0
    urgent: int = 0
    """Of these, those of a higher priority; the others are older, or their tenant's turn comes first."""
    of_key: int = 0
    """Jobs that wait before it for a slot of its concurrency key."""
    of_rate: int = 0
    """The same of its rate key."""


class JobReader:
    def __init__(self, db: Database, layout: Layout) -> None:
        self._db = db
        self._layout = layout
        self._key_names = tuple(layout.main_key(""))

    def get(self, job_id: str, now: float) -> Job:
        job = self.current(job_id)
        if job.expires_at <= now:
            raise JobNotFound(job_id)
        return job

    def current(self, job_id: str) -> Job:
        """The job even if it has expired, as long as it is there: its holder is still at work."""
        if not is_id(job_id):
            raise JobNotFound(job_id)
        request = {"TableName": self._layout.table, "Key": self._layout.main_key(job_id), "ConsistentRead": True}
        item = self._db.execute("GetItem", request).get("Item")
        if item is None:
            raise JobNotFound(job_id)
        return self._layout.job(item)

    def get_many(self, job_ids: Sequence[str], now: float) -> list[Job]:
        """In batches; raises JobNotFound for the first that is not there."""
        for job_id in job_ids:
            if not is_id(job_id):
                raise JobNotFound(job_id)
        found = {job.id: job for job in self.get_existing(job_ids, now)}
        for job_id in job_ids:
            if job_id not in found:
                raise JobNotFound(job_id)
        return [found[job_id] for job_id in job_ids]

    def get_existing(self, job_ids: Sequence[str], now: float) -> list[Job]:
        """Those of them that there are, read in batches."""
        keys = [self._layout.main_key(job_id) for job_id in dict.fromkeys(job_ids)]
        return [job for job in self._jobs(keys) if job.expires_at > now]

    def record(self, job_id: str, record: str, now: float) -> Item | None:
        """One of the job's records, by the layout's name of it."""
        call = self._layout.record_get(job_id, record)
        item = self._db.execute(call.operation, call.request).get("Item")
        return item if item is not None and self._is_kept(item, now) else None

    def records(self, keys: list[Item]) -> list[Item]:
        """The records of these keys, at most a hundred, in no order; those that are gone are left out."""
        return list(self._batch(keys)) if keys else []

    def history(self, job_id: str, now: float) -> History:
        if not is_id(job_id):
            raise JobNotFound(job_id)
        items = [item for call in self._layout.reads(job_id) for item in self.pages(call) if self._is_kept(item, now)]
        found = self._layout.history(items)
        if found is None:
            raise JobNotFound(job_id)
        return found

    def _is_kept(self, item: Item, now: float) -> bool:
        return int(item[self._layout.ttl_name]["N"]) > now

    def find(self, wanted: JobFilter, now: float, limit: int, token: str | None) -> JobPage:
        jobs: list[Job] = []
        places = self._places(wanted, limit, token)
        while True:
            some = list(itertools.islice(places, limit + 1))
            for job in self._jobs([key for _, key in some]):
                if job.expires_at > now and wanted.matches(job):
                    if len(jobs) == limit:
                        return JobPage(tuple(jobs), self._layout.place(jobs[-1]))
                    jobs.append(job)
            if len(some) <= limit:
                return JobPage(tuple(jobs), None)

    def _places(self, wanted: JobFilter, limit: int, before: str | None) -> Iterator[tuple[str, Item]]:
        """The keys of the list, the newest first, with their places, below `before`."""
        streams = []
        for tenant in wanted.tenants:
            listing = (
                self._layout.listing(tenant, wanted.state, wanted.task)
                if wanted.tag is None
                else self._layout.tag_listing(tenant, wanted.tag)
            )
            streams += [self._shard(listing, one, wanted, limit, before) for one in listing.partitions]
        return heapq.merge(*streams, key=lambda found: found[0], reverse=True)

    def _shard(
        self, listing: Listing, partition: str, wanted: JobFilter, limit: int, before: str | None
    ) -> Iterator[tuple[str, Item]]:
        highest = min(before or _TOP, _TOP if wanted.until is None else utc_text(wanted.until) + _TOP)
        lowest = " " if wanted.since is None else utc_text(wanted.since)
        if lowest > highest:
            return
        names = {"#hash": listing.hash, "#order": listing.order}
        values: Item = {":hash": {"S": partition}, ":low": {"S": lowest}, ":high": {"S": highest}}
        request = {
            "TableName": self._layout.table,
            "IndexName": listing.index,
            "KeyConditionExpression": "#hash = :hash AND #order BETWEEN :low AND :high",
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": values,
            "ScanIndexForward": False,
            "Limit": min(limit + 1, LONGEST_PAGE),
        }
        for item in self.pages(ReadCall("Query", request)):
            place: str = item[listing.order]["S"]
            if place != before:
                key = {name: item[name] for name in self._key_names}
                yield place, key if wanted.tag is None else self._layout.main_key(item[self._key_names[0]]["S"])

    def claimable(
        self,
        queue: str,
        limit: int,
        now: float,
        *,
        evenly: bool = False,
        shard: int | None = None,
        wake: bool = True,
        tasks: Sequence[str] = (),
        further: dict[int, str] | None = None,
    ) -> Claimable:
        """The first `limit` jobs of all shards, and of the pools of these tasks.

        With `evenly`, the same number from each: their order by age is right within each, and none has a lower priority
        than one that was not read. With `shard`, the first of that one, and the same holds; where it is empty, or
        another has something more urgent, of such another. Without `wake`, only what is ready. With `further`, more
        urgent ones than the first of those that have become due by time (`_find_urgent`).
        """
        shards = range(self._layout.shards)
        share = -(-limit // len(shards)) if evenly and shard is None else limit
        shares = [share if shard in (None, one) else 1 for one in shards]
        wanted = [(f"{queue}#ready#{one}", most) for one, most in zip(shards, shares, strict=True)]
        wanted += [(task_pool(queue, task), share) for task in tasks]
        # Of any number that wait for a time, one is read while nothing is due.
        wanted += [(f"{queue}#wake#{one}", 1) for one in shards] if wake else []
        found = self._pools(wanted)
        pools, of_tasks = found[: len(shards)], found[len(shards) : len(shards) + len(tasks)]
        if shard is not None:
            shard = self._choose_shard(queue, shard, pools, limit)
            shares[shard] = limit
        woken = found[len(shards) + len(tasks) :]
        if share > 1:
            woken = [
                self._pool(f"{queue}#wake#{one}", share) if first and _time_of(first[0][0]) <= now else first
                for one, first in enumerate(woken)
            ]
        due = [[place for place in some if _time_of(place[0]) <= now] for some in woken]
        if shard is not None and wake and due[shard]:
            due = [due[shard]]
        due_now = sorted(itertools.chain(*due), key=_place)
        more_due = any(len(some) == share for some in due)
        if more_due and further is not None:
            due_now = self._find_urgent(queue, now, due_now, share * len(shards), further)
        next_at = min((_time_of(place) for some in woken for place, _ in some if _time_of(place) > now), default=None)
        # A shard that gave its whole share may have more, whatever the others have.
        read = zip((*pools, *of_tasks), (*shares, *([share] * len(of_tasks))), strict=True)
        full = [some[-1][0] for some, most in read if len(some) == most]
        lowest = HIGHEST_PRIORITY - min((int(place.partition("#")[0]) for place in full), default=HIGHEST_PRIORITY)
        most = share * len(shards) if evenly and shard is None else limit
        ready = sorted(itertools.chain(*(pools if shard is None else [pools[shard]]), *of_tasks), key=_place)
        due_keys, names = self._split([key for _, key in due_now])
        limits = [name.removeprefix(LIMIT_PREFIX) for name in names if name.startswith(LIMIT_PREFIX)]
        rates = [name.removeprefix(RATE_PREFIX) for name in names if name.startswith(RATE_PREFIX)]
        keys = due_keys[:most] + [key for _, key in ready[:most]]
        kept = [job for job in self._jobs(keys) if job.expires_at > now]
        jobs = sorted((job for job in kept if job.priority >= lowest or not _is_ready(job)), key=claim_order)
        is_more = bool(full) or len(due_now) >= share or len(due_now) + len(ready) >= limit
        empty_tasks = tuple(task for task, some in zip(tasks, of_tasks, strict=True) if not some)
        return Claimable(tuple(jobs), next_at, is_more, tuple(limits), tuple(rates), empty_tasks, more_due)

    def _choose_shard(self, queue: str, wanted: int, pools: list[list[tuple[str, Item]]], limit: int) -> int:
        """The wanted shard if none is more urgent; otherwise one of those, which is then read as that one was."""
        ranks = {shard: int(some[0][0].partition("#")[0]) for shard, some in enumerate(pools) if some}
        first = min(ranks.values(), default=HIGHEST_PRIORITY)
        if not ranks or ranks.get(wanted) == first:
            return wanted
        chosen = random.choice([shard for shard, rank in ranks.items() if rank == first])
        pools[chosen] = self._pool(f"{queue}#ready#{chosen}", limit)
        return chosen

    def _find_urgent(
        self, queue: str, now: float, first: list[tuple[str, Item]], most: int, further: dict[int, str]
    ) -> list[tuple[str, Item]]:
        """The most urgent of those that have become due, where they are many and `first` are the oldest of them.

        A look reads a thousand keys of each shard, from the place where the last one ended; `further` keeps it.
        """
        found = dict(first)
        for shard in range(self._layout.shards):
            request = self._between(f"{queue}#wake#{shard}", further.get(shard, " "), utc_text(now) + _TOP)
            answer = self._db.execute("Query", {**request, "Limit": LONGEST_PAGE})
            some = [self._found(item) for item in answer["Items"]]
            further[shard] = some[-1][0] if some and "LastEvaluatedKey" in answer else " "
            found.update(some)
        return heapq.nsmallest(most, found.items(), key=_urgency)

    def _split(self, keys: list[Item]) -> tuple[list[Item], list[str]]:
        """The keys of jobs, and the names of limits and rate keys, which stand in the claim index too."""
        name = self._key_names[0]
        names = [key[name]["S"] for key in keys if key[name]["S"].startswith((LIMIT_PREFIX, RATE_PREFIX))]
        return ([key for key in keys if key[name]["S"] not in names] if names else keys), names

    def first_of_pool(self, pool: str, limit: int, now: float) -> list[Job]:
        """The jobs that come first in a pool, as many as that."""
        return [job for job in self._jobs([key for _, key in self._pool(pool, limit)]) if job.expires_at > now]

    def first_turn(self, queue: str, priority: int) -> float | None:
        """The turn of the first ready job of a priority; None where there is none."""
        rank = HIGHEST_PRIORITY - priority
        turns = []
        for shard in range(self._layout.shards):
            request = {**self._between(f"{queue}#ready#{shard}", f"{rank}#", f"{rank}#{_TOP}"), "Limit": 1}
            found = self._db.execute("Query", request)["Items"]
            turns += [utc_seconds(item[self._layout.claim_index.order]["S"].split("#")[1]) for item in found]
        return min(turns, default=None)

    def count_ahead(self, job: Job) -> Ahead:
        """The jobs that a worker would claim before this one; counted no further than MOST_COUNTED in each pool."""
        order = ready_order(job)
        pools = [f"{job.queue}#ready#{shard}" for shard in range(self._layout.shards)]
        if job.pool == TASK_POOL:
            pools.append(task_pool(job.queue, job.task))
        urgent = sum(self._count(pool, f"{order[0]}#") for pool in pools)
        key = job.concurrency_key
        return Ahead(
            sum(self._count(pool, order) for pool in pools),
            urgent,
            0 if key is None else self._count(limit_pool(key), order),
            self._count(rate_pool(job.rate_key or ""), order) if job.pool == RATE_POOL else 0,
        )

    def _count(self, pool: str, before: str) -> int:
        request = self._pool_query(pool)
        request["KeyConditionExpression"] += " AND #order < :before"
        request["ExpressionAttributeNames"]["#order"] = self._layout.claim_index.order
        request["ExpressionAttributeValues"][":before"] = {"S": before}
        counted: int = self._db.execute("Query", {**request, "Select": "COUNT", "Limit": MOST_COUNTED})["Count"]
        return counted

    def find_unattended(self, queue: str, since: float, now: float) -> Iterator[Job | str]:
        """Jobs that wait for others and should be looked after now, and those that could have begun since then.

        And the names of limits and rate keys that should have been looked at since.
        """
        for shard in range(self._layout.shards):
            keys = itertools.chain(
                self._range(f"{queue}#keep#{shard}", " ", utc_text(now)),
                self._range(f"{queue}#wake#{shard}", " ", utc_text(since)),
                self._ready_since(f"{queue}#ready#{shard}", utc_text(since)),
            )
            while some := list(itertools.islice(keys, BATCH_KEYS)):
                jobs, names = self._split(some)
                yield from self._jobs(jobs)
                yield from names

    def find_in_pool(self, pool: str, since: float) -> Iterator[Job]:
        """The jobs of a limit's or a task's pool that could have begun since then."""
        keys = self._ready_since(pool, utc_text(since))
        while some := list(itertools.islice(keys, BATCH_KEYS)):
            yield from self._jobs(some)

    def _ready_since(self, partition: str, since: str) -> Iterator[Item]:
        """Only the priorities that there are are asked for: most queues have one."""
        rank = " "
        while True:
            request = self._between(partition, rank, _TOP)
            found = self._db.execute("Query", {**request, "Limit": 1})["Items"]
            if not found:
                return
            rank = found[0][self._layout.claim_index.order]["S"].partition("#")[0]
            yield from self._range(partition, f"{rank}#", f"{rank}#{since}")
            rank += _TOP

    def _range(self, partition: str, first: str, last: str) -> Iterator[Item]:
        """The keys of a pool from one place to another."""
        call = ReadCall("Query", self._between(partition, first, last))
        return ({name: item[name] for name in self._key_names} for item in self.pages(call))

    def _between(self, partition: str, first: str, last: str) -> dict[str, Any]:
        request = self._pool_query(partition)
        request["KeyConditionExpression"] += " AND #order BETWEEN :first AND :last"
        request["ExpressionAttributeNames"]["#order"] = self._layout.claim_index.order
        request["ExpressionAttributeValues"].update({":first": {"S": first}, ":last": {"S": last}})
        return request

    def _pool(self, partition: str, limit: int) -> list[tuple[str, Item]]:
        items = self._db.execute("Query", {**self._pool_query(partition), "Limit": limit})["Items"]
        return [self._found(item) for item in items]

    def _found(self, item: Item) -> tuple[str, Item]:
        """A row of the claim index: its place, and the key of its job."""
        return item[self._layout.claim_index.order]["S"], {name: item[name] for name in self._key_names}

    def _pools(self, wanted: list[tuple[str, int]]) -> list[list[tuple[str, Item]]]:
        """The first of several pools, each with its own number; where the database can, as of one moment."""
        if not self._db.capabilities.shares_commits:
            return [self._pool(partition, limit) for partition, limit in wanted]
        calls = [("Query", {**self._pool_query(partition), "Limit": limit}) for partition, limit in wanted]
        answers = [
            self._db.execute(*call) if isinstance(answer, PenstockError) else answer
            for call, answer in zip(calls, self._db.execute_together(calls), strict=True)
        ]
        return [[self._found(item) for item in answer["Items"]] for answer in answers]

    def _pool_query(self, partition: str) -> dict[str, Any]:
        index = self._layout.claim_index
        return {
            "TableName": self._layout.table,
            "IndexName": index.name,
            "KeyConditionExpression": "#pool = :pool",
            "ExpressionAttributeNames": {"#pool": index.pool},
            "ExpressionAttributeValues": {":pool": {"S": partition}},
        }

    def _jobs(self, keys: list[Item]) -> list[Job]:
        """The main records of these keys, in their order; those that are gone are left out."""
        if not keys:
            return []
        found: dict[str, Job] = {}
        for start in range(0, len(keys), BATCH_KEYS):
            for item in self._batch(keys[start : start + BATCH_KEYS]):
                found[_spot(item, keys[0])] = self._layout.job(item)
        return [found[spot] for key in keys if (spot := _spot(key, key)) in found]

    def _batch(self, keys: list[Item]) -> Iterator[Item]:
        table = self._layout.table
        waiting: dict[str, Any] | None = {table: {"Keys": keys, "ConsistentRead": True}}
        while waiting:
            answer = self._db.execute("BatchGetItem", {"RequestItems": waiting})
            yield from answer["Responses"].get(table, ())
            waiting = answer.get("UnprocessedKeys")

    def pages(self, call: ReadCall) -> Iterator[Item]:
        for answer in read_pages(self._db.execute, call.operation, call.request):
            yield from answer["Items"]


_TOP: Final = "~"
"""Sorts after every place, which begins with a digit."""


def _place(found: tuple[str, Item]) -> str:
    return found[0]


def _urgency(found: tuple[str, Item]) -> tuple[int, str]:
    """The priority of a place in the order of time, the most urgent first, then the oldest.

    What has none there is no job's own (a limit's item), waits for others, or was stored by an older version.
    """
    at_rank = found[0].split("#", 2)[1:]
    has_rank = len(at_rank) == 2 and len(at_rank[0]) == 1 and at_rank[0].isdecimal()
    return int(at_rank[0]) if has_rank else HIGHEST_PRIORITY - DEFAULT_PRIORITY, found[0]


def _time_of(place: str) -> float:
    return utc_seconds(place.partition("#")[0])


def _spot(item: Item, key: Item) -> str:
    return "\n".join(item[name]["S"] for name in key)
