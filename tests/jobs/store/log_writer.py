"""Another process that writes lines into a job's log: `python log_writer.py FILE TABLE JOB NAME COUNT`."""

from __future__ import annotations

import sys

from penstock.client.database import connect
from penstock.clock import ManualClock
from penstock.jobs.layouts.item_collection import CollectionLayout
from penstock.jobs.store.store import JobStore


def write_lines(store: JobStore, job_id: str, name: str, count: int) -> None:
    for number in range(count):
        store.log(job_id, f"{name} {number}")


if __name__ == "__main__":
    path, table, job_id, name, count = sys.argv[1:]
    with connect(path) as db:
        # A clock that stands still: all writers write in the same millisecond.
        store = JobStore(db, CollectionLayout(table, shards=2), clock=ManualClock(1_900_000_000.0))
        write_lines(store, job_id, name, int(count))
