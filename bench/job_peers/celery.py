"""Celery on Redis."""

from __future__ import annotations

from celery import Celery  # type: ignore[import-not-found]
from redis import Redis  # type: ignore[import-not-found]

from bench.job_peers import work

app = Celery("bench", broker=work.url)
app.conf.task_ignore_result = True
if work.tuned:
    app.conf.worker_prefetch_multiplier = 64  # its guide's advice for many short tasks

no_op = app.task(name="no_op")(work.no_op)
steps = app.task(name="steps")(work.all_steps)
redis = Redis.from_url(work.url)


def prepare() -> None:
    """Opens the producer's connection."""
    redis.ping()
    app.connection_for_write().ensure_connection()


def enqueue(count: int) -> None:
    for _ in range(count):
        no_op.delay()


def enqueue_steps() -> None:
    steps.delay()


def left() -> int:
    return int(redis.llen("celery") + redis.hlen("unacked"))
