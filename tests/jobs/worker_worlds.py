"""A worker in this process, run until there is nothing to do."""

from __future__ import annotations

import threading
from typing import Any

import penstock
from penstock.jobs.model.job import Job
from penstock.jobs.worker.outcomes import Counts
from penstock.jobs.worker.worker import Worker
from penstock.retry import RetryPolicy
from penstock.testing.invariants import check

PATIENCE_SECONDS = 240.0  # a thousand jobs, on a machine that does twenty other things
AT_ONCE = RetryPolicy(2, base_seconds=0.0)


def work(app: penstock.App, **options: Any) -> Counts:
    """Runs until there is nothing to do; then every job must keep the rules."""
    worker = Worker(app, until_empty=True, **{"concurrency": 2, "idle_seconds": 0.05, **options})
    watchdog = threading.Timer(PATIENCE_SECONDS, worker.stop)
    watchdog.daemon = True
    watchdog.start()
    counts = worker.run()
    watchdog.cancel()
    check(app.store, [job.id for job in app.store.find(limit=1000).jobs], ended=False)
    return counts


def ended(app: penstock.App, job: Job) -> Job:
    return app.get(job.id)
