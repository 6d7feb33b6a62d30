"""Waiting for a job, with its entries as they come."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from penstock.jobs.model.job import Entry, Job
from penstock.jobs.store.store import JobStore

_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 1.0


def follow(store: JobStore, job_id: str, timeout_seconds: float | None) -> Iterator[tuple[Job, list[Entry]]]:
    """The job whenever it has changed, with the entries that are new since; the last one is as it ended.

    No entry is left out or told twice: they are numbered. Raises TimeoutError, JobNotFound.
    """
    end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    seen, version, pause = 0, 0, _FIRST_PAUSE_SECONDS
    while True:
        job = store.get(job_id)
        if job.version != version:
            entries = store.entries(job_id, after=seen) if job.entries > seen else []
            version, seen = job.version, max([seen, *(entry.number for entry in entries)])
            yield job, entries
            pause = _FIRST_PAUSE_SECONDS
        if job.is_terminal:
            return
        if end is not None and time.monotonic() + pause > end:
            raise TimeoutError(f"{job_id} is still {job.state} after {timeout_seconds:g} s.")
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)
