"""The files of jobs that have expired: they go with their jobs.

The database deletes an expired job's records by itself, and tells nobody. So each job is listed among the files before
it has its first (`excel-reports/{table}/{job}`), and whoever works looks through the list now and then.

1. A job's files are deleted only if its record is gone or expired, and the time that jobs are kept has passed since it
   was made. Files of other jobs and programs in the same home are not touched: they are not listed.
2. The list's own entry goes last: whoever dies halfway leaves it for the next.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from penstock.clock import Clock
from penstock.errors import PenstockError
from penstock.files import Files
from penstock.systems.excel_reports.records import made_at
from penstock.systems.excel_reports.store import ReportJobs

_LOG = logging.getLogger("penstock.excel_reports")
_PREFIX: Final = "excel-reports"
SWEEP_SECONDS: Final = 3_600.0
"""Between two looks through the list."""
_LOOK_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Removed:
    """What was removed, or with `dry_run` would have been."""

    jobs: int = 0
    files: int = 0
    size: int = 0


class ExpiredFiles:
    """Of the jobs of one table, in one home. Safe to share between threads."""

    def __init__(self, jobs: ReportJobs, files: Files) -> None:
        self._jobs = jobs
        self._files = files
        self._clock: Clock = jobs.clock
        self._next_at = 0.0
        self._lock = threading.Lock()

    def _entry(self, job_id: str) -> str:
        return f"{_PREFIX}/{self._jobs.table}/{job_id}"

    def register(self, job_id: str) -> None:
        """Lists a job, before it has its first file."""
        if not self._files.exists(self._entry(job_id)):
            self._files.save(self._entry(job_id), b"", content_type="text/plain")

    def remove_if_due(self) -> None:
        """Now and then, and never in anybody's way: what goes wrong is logged."""
        now = self._clock.now()
        with self._lock:
            if now < self._next_at:
                return
            self._next_at = now + SWEEP_SECONDS
        try:
            self.remove()
        except (PenstockError, OSError) as error:
            _LOG.warning("The files of expired reports could not be removed, and will be later: %s", error)

    @contextmanager
    def removing(self) -> Iterator[None]:
        """In a thread beside, for as long as a worker waits for work."""
        ended = threading.Event()

        def look() -> None:
            while not ended.wait(_LOOK_SECONDS):
                self.remove_if_due()

        thread = threading.Thread(target=look, name="penstock-excel-expired-files", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def remove(self, *, dry_run: bool = False, tell: Callable[[str], None] = lambda key: None) -> Removed:
        """Removes the files of every job that has expired (1). `tell` hears each key."""
        jobs = files = size = 0
        now = self._clock.now()
        for entry in list(self._files.list(self._entry(""))):
            job_id = entry.key.rpartition("/")[2]
            made = made_at(job_id)
            if made is None or now - made < self._jobs.ttl_seconds or not self._jobs.is_expired(job_id):
                continue
            jobs += 1
            for file in list(self._files.list(f"{job_id}/")):
                files, size = files + 1, size + file.size
                tell(file.key)
                if not dry_run:
                    self._files.delete(file.key)
            if not dry_run:
                self._files.delete(entry.key)
        return Removed(jobs, files, size)
