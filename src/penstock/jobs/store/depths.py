"""How deep a queue is, at a cost that does not depend on how deep.

DynamoDB has no count: counting costs as much as reading the keys. Each pool of a queue is counted up to MOST_COUNTED in
each shard. With four shards, an idle queue costs 6 read units, one with 1,000 ready jobs 24, and none more than 220.
Jobs that wait for a slot of their concurrency key, or for a worker that has their task, are in pools of their own and
are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from penstock.clock import utc_seconds
from penstock.jobs.store.queries import MOST_COUNTED
from penstock.jobs.store.store import JobStore

_MOST_PRIORITIES: Final = 10


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The jobs of a queue that have not ended."""

    queue: str
    ready: int
    """They could be claimed now."""
    waiting: int
    """They wait for other jobs."""
    later: int
    """They are due later, sleep, or run: those that somebody looks at at a given time."""
    is_exact: bool
    """False where there are more: only so many were counted."""
    oldest_at: float | None
    """Since when the one that has been ready for longest is due."""


def read_depth(store: JobStore, queue: str) -> QueueDepth:
    counts: dict[str, int] = {}
    is_exact = True
    for pool in ("ready", "keep", "wake"):
        found = [_count(store, f"{queue}#{pool}#{shard}") for shard in range(store.layout.shards)]
        counts[pool] = sum(found)
        is_exact = is_exact and max(found) < MOST_COUNTED
    oldest = _oldest(store, queue) if counts["ready"] else None
    return QueueDepth(queue, counts["ready"], counts["keep"], counts["wake"], is_exact, oldest)


def _count(store: JobStore, pool: str) -> int:
    request = {**_pool_query(store, pool), "Select": "COUNT", "Limit": MOST_COUNTED}
    counted: int = store.patient_db.execute("Query", request)["Count"]
    return counted


def _oldest(store: JobStore, queue: str) -> float | None:
    """The first of each priority of each shard is its oldest; most queues have one priority."""
    index = store.layout.claim_index
    found: list[float] = []
    for shard in range(store.layout.shards):
        above = " "
        for _ in range(_MOST_PRIORITIES):
            request = _pool_query(store, f"{queue}#ready#{shard}")
            request["KeyConditionExpression"] += " AND #order > :above"
            request["ExpressionAttributeNames"]["#order"] = index.order
            request["ExpressionAttributeValues"][":above"] = {"S": above}
            items = store.patient_db.execute("Query", {**request, "Limit": 1})["Items"]
            if not items:
                break
            rank, at, *_ = items[0][index.order]["S"].split("#")
            found.append(utc_seconds(at))
            above = f"{rank}#~"
    return min(found, default=None)


def _pool_query(store: JobStore, pool: str) -> dict[str, Any]:
    index = store.layout.claim_index
    return {
        "TableName": store.layout.table,
        "IndexName": index.name,
        "KeyConditionExpression": "#pool = :pool",
        "ExpressionAttributeNames": {"#pool": index.pool},
        "ExpressionAttributeValues": {":pool": {"S": pool}},
    }
