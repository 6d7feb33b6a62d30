"""RQ: concurrency is processes, of which each forks for each job unless it is a SimpleWorker."""

from __future__ import annotations

from redis import Redis  # type: ignore[import-not-found]
from rq import Queue  # type: ignore[import-not-found]

from bench.job_peers import work

queue = Queue(connection=Redis.from_url(work.url))


def prepare() -> None:
    """Redis needs nothing beforehand."""
    queue.connection.ping()


def enqueue(count: int) -> None:
    for _ in range(count):
        queue.enqueue(work.no_op, result_ttl=0)


def enqueue_steps() -> None:
    queue.enqueue(work.all_steps)


def left() -> int:
    return int(queue.count + queue.started_job_registry.count)
