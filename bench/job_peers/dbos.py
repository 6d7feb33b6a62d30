"""DBOS on PostgreSQL; run as a module, it is the worker."""

from __future__ import annotations

import threading
from typing import Any

from dbos import DBOS, DBOSClient, DBOSConfig  # type: ignore[import-not-found]

from bench.job_peers import work

QUEUE = "bench"
client: Any = None


def _configured() -> None:
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": work.url,
        "log_level": "WARNING",
        "application_version": "1",
    }
    DBOS(config=config)


def _launched() -> None:
    DBOS.launch()
    # At most `worker_concurrency` are begun in each polling interval, which is a second by default.
    interval = 0.001 if work.tuned else 1.0
    DBOS.register_queue(QUEUE, worker_concurrency=work.concurrency, polling_interval_sec=interval)


@DBOS.workflow(name="no_op")  # type: ignore[untyped-decorator]
def no_op() -> None:
    work.no_op()


@DBOS.step(name="step")  # type: ignore[untyped-decorator]
def step(number: int) -> int:
    return work.step(number)


@DBOS.workflow(name="steps")  # type: ignore[untyped-decorator]
def steps() -> None:
    work.note("begin")
    for number in range(1, work.STEPS + 1):
        step(number)
    work.note("done")


def prepare() -> None:
    global client
    _configured()
    _launched()
    DBOS.destroy()
    client = DBOSClient(system_database_url=work.url)


def enqueue(count: int) -> None:
    for _ in range(count):
        client.enqueue({"queue_name": QUEUE, "workflow_name": "no_op"})


def enqueue_steps() -> None:
    client.enqueue({"queue_name": QUEUE, "workflow_name": "steps"})


def left() -> int:
    return len(client.list_workflows(status=["ENQUEUED", "PENDING"], limit=1, load_input=False, load_output=False))


if __name__ == "__main__":
    _configured()
    _launched()
    threading.Event().wait()
