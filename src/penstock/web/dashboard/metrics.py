"""`GET /metrics` and `GET /healthz` of `penstock up`.

1. /healthz needs no token, and says no more than whether the database answers. It asks at most every two seconds,
   whatever comes.
2. /metrics reads a bounded number of keys, at most every ten seconds (jobs/metrics/queue_metrics.py); the counts by
   state are the dashboard's own (job_counts.py).
"""

from __future__ import annotations

import threading
import time
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.errors import AccessDeniedException, PenstockError, ResourceNotFoundException
from penstock.jobs.metrics.instruments import CONTENT_TYPE, Registry
from penstock.jobs.metrics.queue_metrics import MOST_QUEUES, QueueMetrics
from penstock.web.dashboard.security import HEALTH, METRICS
from penstock.web.dashboard.site import Site
from penstock.web.problems import json_answer

_FRESH_SECONDS: Final = 2.0


def metrics_routes(site: Site, worker: Registry | None) -> list[Route]:
    """`worker` has the metrics of a worker in this process."""
    registry = server_metrics(site)
    health = Health(site)

    def metrics(request: Request) -> Response:
        text = registry.text() + ("" if worker is None else worker.text())
        return Response(text, 200, {"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})

    def healthz(request: Request) -> Response:
        if health.is_healthy():
            return json_answer({"status": "ok", "database": "answers"})
        return json_answer({"status": "unavailable", "database": "does not answer"}, 503, {"Retry-After": "2"})

    return [Route(METRICS, metrics), Route(HEALTH, healthz)]


class Health:
    """Whether the database answers, as of two seconds ago at most."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lock = threading.Lock()
        self._asked_at = -_FRESH_SECONDS
        self._answered = False

    def is_healthy(self) -> bool:
        with self._lock:
            if time.monotonic() - self._asked_at >= _FRESH_SECONDS:
                self._answered = self._ask()
                self._asked_at = time.monotonic()
            return self._answered

    def _ask(self) -> bool:
        source = self._site.source
        try:
            source.db.execute("DescribeTable", {"TableName": source.table})
        except (ResourceNotFoundException, AccessDeniedException):  # it answers: no app has used it, or we may not ask
            return True
        except (PenstockError, OSError):
            return False
        return True


def server_metrics(site: Site) -> Registry:
    """Of the database that the dashboard shows."""
    registry = Registry()
    overview, source = site.overview, site.source
    registry.gauge(
        "penstock_jobs",
        "Jobs by state. A lower bound until penstock_jobs_is_counted is 1.",
        ["state"],
        lambda: {(state.value,): float(count.number) for state, count in overview.counts().items()},
    )
    registry.gauge(
        "penstock_jobs_is_counted",
        "1 where penstock_jobs has counted a state to its end once.",
        ["state"],
        lambda: {(state.value,): float(count.exact) for state, count in overview.counts().items()},
    )
    registry.gauge(
        "penstock_workers",
        "Workers that have sent a heartbeat in the last minute.",
        source=lambda: {(): float(len(overview.current().workers))},
    )
    registry.gauge(
        "penstock_workers_running_jobs",
        "Jobs that those workers ran at their last heartbeat.",
        source=lambda: {(): float(sum(worker.running for worker in overview.current().workers))},
    )
    registry.counter(
        "penstock_dashboard_units_total",
        "Capacity units that this dashboard and its API have used.",
        ["kind"],
        lambda: {("read",): site.spent.read_units, ("write",): site.spent.write_units},
    )
    QueueMetrics(source.store, lambda: _queues(site)).add_to(registry)
    return registry


def _queues(site: Site) -> list[str]:
    """Those of the workers that live, and the default one."""
    workers = site.overview.current().workers
    return sorted({"default", *(queue for worker in workers for queue in worker.queues)})[:MOST_QUEUES]
