"""Dramatiq on Redis."""

from __future__ import annotations

import dramatiq  # type: ignore[import-not-found]
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found]

from bench.job_peers import work

broker = RedisBroker(url=work.url)
dramatiq.set_broker(broker)
no_op = dramatiq.actor(work.no_op)
steps = dramatiq.actor(work.all_steps)


def prepare() -> None:
    """Opens the producer's connection."""
    broker.client.ping()


def enqueue(count: int) -> None:
    for _ in range(count):
        no_op.send()


def enqueue_steps() -> None:
    steps.send()


def left() -> int:
    return int(broker.client.hlen("dramatiq:default.msgs"))
