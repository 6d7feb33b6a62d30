"""How deep the queues are, and since when their oldest job waits: read when somebody asks, at most every ten seconds.

What a reading costs on DynamoDB is said in store/depths.py; asking more often costs nothing more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from penstock.jobs.metrics.instruments import Labels, Registry
from penstock.jobs.store.depths import QueueDepth, read_depth
from penstock.jobs.store.store import JobStore

FRESH_SECONDS: Final = 10.0
MOST_QUEUES: Final = 50


class QueueMetrics:
    """Gauges of a database's queues. Safe to share between threads."""

    def __init__(
        self,
        store: Callable[[], JobStore],
        queues: Callable[[], Iterable[str]],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._queues = queues
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._read_at = -FRESH_SECONDS
        self._depths: tuple[QueueDepth, ...] = ()
        self._now = 0.0

    def add_to(self, registry: Registry) -> None:
        registry.gauge(
            "penstock_queue_jobs",
            "Jobs of a queue that have not ended: ready, waiting for other jobs, or later (due later, asleep, running)."
            " Counted up to 1,000 in each shard.",
            ("queue", "state"),
            self._counts,
        )
        registry.gauge(
            "penstock_queue_is_counted",
            "1 where penstock_queue_jobs has counted to the end, 0 where there are more.",
            ("queue",),
            lambda: {(one.queue,): float(one.is_exact) for one in self._current()},
        )
        registry.gauge(
            "penstock_queue_oldest_ready_seconds",
            "For how long the oldest ready job of a queue has been due; 0 where none is ready.",
            ("queue",),
            self._ages,
        )
        registry.gauge("penstock_queue_paused", "1 for a queue that is paused.", ("queue",), self._paused)

    def _counts(self) -> Mapping[Labels, float]:
        counts: dict[Labels, float] = {}
        for one in self._current():
            counts[(one.queue, "ready")] = one.ready
            counts[(one.queue, "waiting")] = one.waiting
            counts[(one.queue, "later")] = one.later
        return counts

    def _ages(self) -> Mapping[Labels, float]:
        found = self._current()
        return {(one.queue,): 0.0 if one.oldest_at is None else max(0.0, self._now - one.oldest_at) for one in found}

    def _paused(self) -> Mapping[Labels, float]:
        store = self._store()
        return {(one.queue,): float(store.queue(one.queue).paused) for one in self._current()}

    def _current(self) -> tuple[QueueDepth, ...]:
        with self._lock:
            if self._monotonic() - self._read_at >= FRESH_SECONDS:
                store = self._store()
                names = list(self._queues())[:MOST_QUEUES]
                self._depths = tuple(read_depth(store, name) for name in names)
                self._now = store.clock.now()
                self._read_at = self._monotonic()
            return self._depths
