"""How jobs are found and read.

1. One job with all of its history is one Query, whatever the table's size.
2. Lists are merged from shards, newest first; a page's token is the place of its last job, so pages neither repeat nor
   leave out jobs when new ones arrive.
3. A job that has expired and is not deleted yet is not shown.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from penstock.client.database import Database
from penstock.jobs.job import History, Job, JobNotFound, JobPage
from penstock.jobs.layout import Call, Item, Layout, Listing
from penstock.jobs.state import State
from penstock.jobs.times import from_text, to_text

BATCH_KEYS: Final = 100
LONGEST_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which jobs a list should have."""

    state: State | None = None
    task: str | None = None
    tenants: tuple[str, ...] = ("",)
    since: float | None = None
    until: float | None = None

    def has(self, job: Job) -> bool:
        return (self.state is None or job.state is self.state) and (self.task is None or job.task == self.task)


@dataclass(frozen=True, slots=True)
class Claimable:
    """Jobs that a worker may claim (or see to) now, the most urgent first; and when to look again for the next one."""

    jobs: tuple[Job, ...]
    next_at: float | None
    more: bool
    """There were as many as were asked for."""


class JobReader:
    def __init__(self, db: Database, layout: Layout) -> None:
        self._db = db
        self._layout = layout

    def get(self, job_id: str, now: float) -> Job:
        request = {"TableName": self._layout.table, "Key": self._layout.main_key(job_id), "ConsistentRead": True}
        item = self._db.execute("GetItem", request).get("Item")
        if item is None:
            raise JobNotFound(job_id)
        job = self._layout.job(item)
        if job.expires_at <= now:
            raise JobNotFound(job_id)
        return job

    def history(self, job_id: str, now: float) -> History:
        items = [item for call in self._layout.reads(job_id) for item in self.pages(call)]
        found = self._layout.history(items)
        if found is None or found.job.expires_at <= now:
            raise JobNotFound(job_id)
        return found

    def find(self, wanted: Wanted, now: float, limit: int, token: str | None) -> JobPage:
        jobs: list[Job] = []
        place = token
        while len(jobs) < limit:
            places = self._places(wanted, limit - len(jobs), place)
            found = self._jobs([key for _, key in places])
            jobs += [job for job in found if job.expires_at > now and wanted.has(job)]
            if len(places) < limit - len(jobs) or not places:
                return JobPage(tuple(jobs), None)
            place = places[-1][0]
        return JobPage(tuple(jobs), place)

    def _places(self, wanted: Wanted, limit: int, before: str | None) -> list[tuple[str, Item]]:
        """The newest keys of the list, with their places, below `before`."""
        streams = []
        for tenant in wanted.tenants:
            listing = self._layout.listing(tenant, wanted.state, wanted.task)
            streams += [self._shard(listing, one, wanted, limit, before) for one in listing.partitions]
        merged = heapq.merge(*streams, key=lambda found: found[0], reverse=True)
        return [found for found, _ in zip(merged, range(limit), strict=False)]

    def _shard(
        self, listing: Listing, partition: str, wanted: Wanted, limit: int, before: str | None
    ) -> Iterator[tuple[str, Item]]:
        highest = before if wanted.until is None else min(before or _TOP, to_text(wanted.until) + _TOP)
        lowest = "" if wanted.since is None else to_text(wanted.since)
        names = {"#hash": listing.hash, "#order": listing.order}
        values: Item = {":hash": {"S": partition}, ":low": {"S": lowest or " "}, ":high": {"S": highest or _TOP}}
        request = {
            "TableName": self._layout.table,
            "IndexName": listing.index,
            "KeyConditionExpression": "#hash = :hash AND #order BETWEEN :low AND :high",
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": values,
            "ScanIndexForward": False,
            "Limit": min(limit + 1, LONGEST_PAGE),
        }
        key_names = tuple(self._layout.main_key(""))
        for item in self.pages(Call("Query", request)):
            place: str = item[listing.order]["S"]
            if place != before:
                yield place, {name: item[name] for name in key_names}

    def claimable(self, queue: str, limit: int, now: float) -> Claimable:
        """Looks at all shards: at most `limit` keys of each pool of each."""
        ready: list[tuple[str, Item]] = []
        woken: list[tuple[str, Item]] = []
        for shard in range(self._layout.shards):
            ready += self._pool(f"{queue}#ready#{shard}", limit)
            woken += self._pool(f"{queue}#wake#{shard}", limit)
        due = [found for found in woken if _time_of(found[0]) <= now]
        next_at = min((_time_of(place) for place, _ in woken if _time_of(place) > now), default=None)
        ready.sort(key=lambda found: found[0])
        keys = [key for _, key in due[:limit]] + [key for _, key in ready[:limit]]
        jobs = sorted(self._jobs(keys), key=lambda job: (-job.priority, job.run_at, job.id))
        return Claimable(tuple(jobs), next_at, len(due) + len(ready) >= limit)

    def _pool(self, partition: str, limit: int) -> list[tuple[str, Item]]:
        index = self._layout.claim_index
        request = {
            "TableName": self._layout.table,
            "IndexName": index.name,
            "KeyConditionExpression": "#pool = :pool",
            "ExpressionAttributeNames": {"#pool": index.pool},
            "ExpressionAttributeValues": {":pool": {"S": partition}},
            "Limit": limit,
        }
        key_names = tuple(self._layout.main_key(""))
        items = self._db.execute("Query", request)["Items"]
        return [(item[index.order]["S"], {name: item[name] for name in key_names}) for item in items]

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

    def pages(self, call: Call) -> Iterator[Item]:
        request = call.request
        while True:
            answer = self._db.execute(call.operation, request)
            yield from answer["Items"]
            start = answer.get("LastEvaluatedKey")
            if not start:
                return
            request = {**request, "ExclusiveStartKey": start}


_TOP: Final = "~"
"""Sorts after every place, which begins with a digit."""


def _time_of(place: str) -> float:
    return from_text(place.partition("#")[0])


def _spot(item: Item, key: Item) -> str:
    return "\n".join(item[name]["S"] for name in key)
