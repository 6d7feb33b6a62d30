"""One attempt at a job, as its worker sees it: what is written under its lease, and when it must end.

1. Everything that an attempt writes is under its lease: after another worker has the job, LeaseLost is raised.
2. An attempt that should end says so where its task reports: JobCancelled if somebody cancelled the job, JobRequeued if
   its worker stops or its soft time limit is over. Both are for the worker; a task need not catch them.
3. One attempt's reports are written one after the other, whatever thread they come from.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.files import Data, Files
from penstock.jobs.model.job import Job, JobCancelled, JobFile, JobRequeued
from penstock.jobs.store.store import JobStore
from penstock.leases import RENEWALS, LeaseLost

_LOOK_SECONDS: Final = 1.0
"""How old the answer to `is_cancelled` may be."""


class Attempt:
    """Its task has a JobContext of it (context.py)."""

    def __init__(self, store: JobStore, job: Job) -> None:
        self.store = store
        self.job = job
        """The job as this attempt last wrote it."""
        self.lock = threading.RLock()
        """Held for each write; the worker holds it for a last write that it makes itself, and then sets `job`."""
        self.lost: LeaseLost | None = None
        """Why whatever the task still writes is refused."""
        self.deadline: float | None = None
        """When the time limit is over, by `time.monotonic`."""
        self._soft_deadline: float | None = None
        self._stop_reason: str | None = None
        self._renewed_at = self._looked_at = time.monotonic()

    @property
    def id(self) -> str:
        """The job's id."""
        return self.job.id

    def begin(
        self, time_limit_seconds: float | None, soft_time_limit_seconds: float | None, at: float | None = None
    ) -> None:
        """Its time begins now, or did `at` that `time.monotonic`: the job may have been claimed earlier."""
        start = time.monotonic() if at is None else at
        self.deadline = None if time_limit_seconds is None else start + time_limit_seconds
        self._soft_deadline = None if soft_time_limit_seconds is None else start + soft_time_limit_seconds

    @property
    def seconds_left(self) -> float | None:
        """Until the time limit; None without one."""
        return None if self.deadline is None else self.deadline - time.monotonic()

    # ── writes ───────────────────────────────────────────────────────────────────────────────────

    def write(self, write: Callable[[Job], Job]) -> None:
        """Writes the job under its lease, and keeps it as it is then. Raises LeaseLost, JobCancelled."""
        with self.lock:
            if self.lost is not None:
                raise self.lost
            asked_at = time.monotonic()
            try:
                self.job = write(self.job)
            except LeaseLost as lost:
                self.lost = lost
                raise
            self._renewed_at = self._looked_at = asked_at

    def report(self, **entry: Any) -> None:
        """Writes a numbered entry, with or without a checkpoint."""
        self.write(lambda job: self.store.report(job, **entry))

    def save_file(self, name: str, data: Data) -> JobFile:
        """Saves a file whole or not at all, then puts it into the job's list of files."""
        file = JobFile(name, self.files.save(self.file_key(name), data))
        self.write(lambda job: self.store.attach(job, file))
        return file

    def file_key(self, name: str) -> str:
        return f"{self.job.id}/{name}"

    @property
    def files(self) -> Files:
        """Where the job's files are kept."""
        if self.store.files is None:
            raise PenstockError('There is no place for files: App(url, files="folder") or files="s3://bucket/prefix".')
        return self.store.files

    def finish(self, end: Callable[[Job], Job]) -> Job:
        """The last write of this attempt."""
        with self.lock:
            if self.lost is not None:
                raise self.lost
            self.job = end(self.job)
            return self.job

    # ── when it must end ─────────────────────────────────────────────────────────────────────────

    def stop(self, reason: str) -> None:
        """Asks the task to end at its next report."""
        self._stop_reason = reason

    def stop_if_asked(self) -> None:
        """Raises JobRequeued if the worker stops, or the soft time limit is over."""
        if self._stop_reason is not None:
            raise JobRequeued(self._stop_reason)
        if self._soft_deadline is not None and time.monotonic() >= self._soft_deadline:
            left = self.seconds_left
            raise JobRequeued("its soft time limit is over" if left is None else f"{left:.1f} s before its time limit")

    def is_cancelled(self) -> bool:
        """Whether somebody has cancelled the job, or it is lost."""
        is_old = time.monotonic() - self._looked_at > _LOOK_SECONDS
        if self.lost is None and self.job.cancel_reason is None and is_old:
            self._read_job()
        return self.lost is not None or self.job.cancel_reason is not None

    def _read_job(self) -> None:
        with self.lock:
            self._looked_at = time.monotonic()
            current = self.store.get(self.job.id)
            if current.token == self.job.token:
                self.job = current
            else:
                self.lost = LeaseLost(self.job.id, current.lease.owner if current.lease else None)

    # ── its lease ────────────────────────────────────────────────────────────────────────────────

    def renew(self) -> None:
        """Renews the lease, unless the task is writing at this moment: that renews it too."""
        if not self.lock.acquire(blocking=False):
            return
        try:
            self.write(self.store.renew)
        except JobCancelled:
            self._read_job()  # the task is told at its next report
        finally:
            self.lock.release()

    def give_up(self, lost: LeaseLost) -> None:
        """Whatever the task still writes is refused."""
        self.lost = lost

    def renewal_due_in(self) -> float:
        """Seconds until the lease should be renewed."""
        lease = self.job.lease
        if lease is None or self.lost is not None:
            return lease.seconds if lease is not None else _LOOK_SECONDS
        return self._renewed_at + lease.seconds / RENEWALS - time.monotonic()

    @property
    def has_expired(self) -> bool:
        """Whether the lease has run out by this machine's own clock, since it was last renewed (leases.py, 4)."""
        lease = self.job.lease
        return lease is not None and time.monotonic() - self._renewed_at > lease.seconds
