"""What a task is given: its way to report, to keep what it has done, and to see that it should stop.

1. Everything that a run writes is under its lease: after another worker has the job, LeaseLost is raised.
2. A run that is asked to stop is told where it reports: JobCancelled if somebody cancelled the job, HandOver if its
   worker stops or its time is nearly up. Both are for the worker; a task need not catch them.
3. One run's reports are written one after the other, whatever thread they come from.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, Final, TypeVar, cast

from penstock.errors import DynamoDBError, PenstockError, TransportError
from penstock.files import Data, Files
from penstock.jobs.model.job import Job, JobCancelled, JobFile
from penstock.jobs.model.json_text import NotJson, shown
from penstock.jobs.model.new_job import BadJob, checked_name
from penstock.jobs.store.store import JobStore
from penstock.leases import RENEWALS, LeaseLost
from penstock.stored_text import storable

T = TypeVar("T")
_LOG = logging.getLogger("penstock.jobs")
_LOOK_SECONDS: Final = 1.0
"""How old the answer to `run.cancelled` may be."""


class HandOver(PenstockError):
    """The job goes back to the queue, and another worker goes on at its last checkpoint."""


class Run:
    """One attempt at a job, seen from its task."""

    def __init__(
        self, store: JobStore, job: Job, *, deadline: float | None = None, margin_seconds: float = 0.0
    ) -> None:
        self._store = store
        self._job = job
        self._lock = threading.RLock()
        self._versions: dict[str, int] = {}
        self._stop_reason: str | None = None
        self._lost: LeaseLost | None = None
        self._looked_at = time.monotonic()
        self._renewed_at = self._looked_at
        self._deadline = deadline
        self._margin = margin_seconds
        self.lost_reports = 0
        """Progress that could not be stored: the task goes on without."""

    # ── what it is ───────────────────────────────────────────────────────────────────────────────

    @property
    def id(self) -> str:
        """The job's id."""
        return self._job.id

    @property
    def attempt(self) -> int:
        """1 in the first attempt."""
        return self._job.attempt

    @property
    def tenant(self) -> str:
        """Whose job it is; empty if nobody's in particular."""
        return self._job.tenant

    @property
    def job(self) -> Job:
        """The job as this run last wrote it."""
        return self._job

    @property
    def store(self) -> JobStore:
        """Where the job lives."""
        return self._store

    @property
    def files(self) -> RunFiles:
        """The job's files."""
        return RunFiles(self)

    @property
    def results(self) -> dict[str, Any]:
        """What the jobs that this one waited for have returned, by their ids."""
        parents = [self._store.get(one) for one in self._job.after]
        return {parent.id: self._store.load(parent, parent.result) for parent in parents}

    @property
    def cancelled(self) -> bool:
        """Whether somebody has cancelled the job, or it is lost: for loops that do not report."""
        if self._lost is None and self._job.cancel_reason is None and self._is_old():
            self._look()
        return self._lost is not None or self._job.cancel_reason is not None

    @property
    def seconds_left(self) -> float | None:
        """Until the time limit; None without one."""
        return None if self._deadline is None else self._deadline - time.monotonic()

    # ── reports ──────────────────────────────────────────────────────────────────────────────────

    def progress(self, percent: float, step: str | None = None, message: str = "", **data: Any) -> None:
        """A numbered entry: 0 to 100. Raises LeaseLost, JobCancelled, HandOver; other troubles stop no task."""
        self._report(progress=percent, step=step, message=message, data=data or None)

    def log(self, message: object, **data: Any) -> None:
        """A numbered entry of words. Bytes and other values, in its data too, are written as Python shows them."""
        text = message if isinstance(message, str) else repr(message)
        self._report(message=storable(text), data=data or None)

    def _report(self, **entry: Any) -> None:
        try:
            try:
                self._write(**entry)
            except NotJson:  # in its data: a report ends no task
                self._write(**{**entry, "data": shown(entry["data"])})
        except (TransportError, DynamoDBError) as error:
            if not error.retryable:
                raise
            self.lost_reports += 1
            _LOG.warning("%s: a report was lost: %s", self.id, error)
        self.stop_if_asked()

    # ── checkpoints ──────────────────────────────────────────────────────────────────────────────

    def checkpoint(self, name: str, value: Any = None, *, summary: str = "", progress: float | None = None) -> None:
        """Keeps a value: after a crash, `resume` gives it to the next attempt. Raises where it could not be kept."""
        checked_name(name, "checkpoint")
        with self._lock:
            version = self._version(name) + 1
            self._write(checkpoint=name, value=value, summary=summary, progress=progress, version=version)
            self._versions[name] = version
        self.stop_if_asked()

    def resume(self, name: str, default: Any = None) -> Any:
        """The value of a checkpoint, of this attempt or an earlier one."""
        found = self._store.checkpoint(self.id, checked_name(name, "checkpoint"))
        if found is None:
            return default
        self._versions[name] = found.version
        return self._store.load(self._job, found.data)

    def step(self, name: str, function: Callable[[], T]) -> T:
        """Does it once: what it returned is a checkpoint, and is what later attempts get."""
        _check_function(name, function)
        found = self._store.checkpoint(self.id, checked_name(name, "checkpoint"))
        if found is not None:
            self._versions[name] = found.version
            return cast(T, self._store.load(self._job, found.data))
        value = function()
        self.checkpoint(name, value)
        return value

    def hand_over(self, reason: str = "") -> None:
        """Ends this attempt here: another worker goes on at the last checkpoint."""
        raise HandOver(reason or "the task asked for it")

    def _version(self, name: str) -> int:
        if name not in self._versions:
            found = self._store.checkpoint(self.id, name)
            self._versions[name] = 0 if found is None else found.version
        return self._versions[name]

    # ── for the worker ───────────────────────────────────────────────────────────────────────────

    def stop(self, reason: str) -> None:
        """Asks the task to hand over at its next report."""
        self._stop_reason = reason

    def stop_if_asked(self) -> None:
        """Raises HandOver if the worker stops, or the time limit is near."""
        if self._stop_reason is not None:
            raise HandOver(self._stop_reason)
        left = self.seconds_left
        if left is not None and left <= self._margin:
            raise HandOver(f"{left:.1f} s before its time limit")

    def renew(self) -> None:
        """Renews the lease, unless the task is writing at this moment: that renews it too."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._attempted(lambda: self._store.renew(self._job))
        except JobCancelled:
            self._look()  # the task is told at its next report
        finally:
            self._lock.release()

    def begin(self, limit_seconds: float | None) -> None:
        """Its time begins now: it may have been claimed a little earlier."""
        self._deadline = None if limit_seconds is None else time.monotonic() + limit_seconds

    def has_returned(self) -> None:
        """Its task is done; what is left is to write that down, which has no time limit."""
        self._deadline = None

    @property
    def is_lost(self) -> bool:
        """Whether its job is known to be another's."""
        return self._lost is not None

    def finishing(self) -> AbstractContextManager[Any]:
        """Around a last write that `finished` tells of: nothing else of this run is written meanwhile."""
        return self._lock

    def finished(self, job: Job) -> None:
        """Takes over the job as the worker has written it at the end."""
        self._job = job

    def finish(self, end: Callable[[Job], Job]) -> Job:
        """The last write of this attempt."""
        with self._lock:
            if self._lost is not None:
                raise self._lost
            self._job = end(self._job)
            return self._job

    def give_up(self, reason: LeaseLost) -> None:
        """Whatever the task still writes is refused."""
        self._lost = reason

    def renewal_due_in(self) -> float:
        """Seconds until the lease should be renewed."""
        lease = self._job.lease
        if lease is None or self._lost is not None:
            return lease.seconds if lease is not None else _LOOK_SECONDS
        return self._renewed_at + lease.seconds / RENEWALS - time.monotonic()

    @property
    def has_expired(self) -> bool:
        """Whether the lease has run out by this machine's own clock, since it was last renewed (leases.py, 4)."""
        lease = self._job.lease
        return lease is not None and time.monotonic() - self._renewed_at > lease.seconds

    def _write(self, **entry: Any) -> None:
        with self._lock:
            self._attempted(lambda: self._store.report(self._job, **entry))

    def _attempted(self, write: Callable[[], Job]) -> None:
        if self._lost is not None:
            raise self._lost
        asked_at = time.monotonic()
        try:
            self._job = write()
        except LeaseLost as lost:
            self._lost = lost
            raise
        self._renewed_at = self._looked_at = asked_at

    def _is_old(self) -> bool:
        return time.monotonic() - self._looked_at > _LOOK_SECONDS

    def _look(self) -> None:
        with self._lock:
            self._looked_at = time.monotonic()
            current = self._store.get(self.id)
            if current.token == self._job.token:
                self._job = current
            else:
                self._lost = LeaseLost(self.id, current.lease.owner if current.lease else None)


def _check_function(name: str, function: object) -> None:
    if not callable(function):
        kind = type(function).__name__
        raise BadJob(f"run.step({name!r}, …) is given a function, not a {kind}: run.step({name!r}, lambda: fetch(x)).")


class RunFiles:
    """The job's files, by name. A name may have folders in it."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def save(self, name: str, data: Data, *, may_stop: bool = True) -> JobFile:
        """Saves it whole or not at all, then puts it into the job's list of files.

        Without `may_stop`, a run that should end is not told so here, just before the checkpoint that names the file.
        """
        run = self._run
        saved = self._home().save(self._key(name), data)
        file = JobFile(name, saved)
        with run._lock:
            run._attempted(lambda: run._store.attach(run._job, file))
        if may_stop:
            run.stop_if_asked()
        return file

    def open(self, name: str) -> BinaryIO:
        """A stream of the file, checked against its hash."""
        return cast(BinaryIO, self._home().open(self._key(name)))

    def read(self, name: str) -> bytes:
        """All of a small file."""
        return self._home().read(self._key(name))

    def exists(self, name: str) -> bool:
        """Whether the job has saved such a file."""
        return self._home().exists(self._key(name))

    def _key(self, name: str) -> str:
        return f"{self._run.id}/{name}"

    def _home(self) -> Files:
        files = self._run._store.files
        if files is None:
            raise PenstockError('There is no place for files: App(url, files="folder") or files="s3://bucket/prefix".')
        return files


class AsyncRun:
    """The same for `async def` tasks: what writes is awaited, and does not hold up the event loop."""

    def __init__(self, run: Run) -> None:
        self.blocking = run
        """The run itself, for code that runs in a thread."""

    @property
    def id(self) -> str:
        return self.blocking.id

    @property
    def attempt(self) -> int:
        return self.blocking.attempt

    @property
    def tenant(self) -> str:
        return self.blocking.tenant

    @property
    def job(self) -> Job:
        return self.blocking.job

    @property
    def seconds_left(self) -> float | None:
        return self.blocking.seconds_left

    async def results(self) -> dict[str, Any]:
        return await asyncio.to_thread(lambda: self.blocking.results)

    async def cancelled(self) -> bool:
        return await asyncio.to_thread(lambda: self.blocking.cancelled)

    async def progress(self, percent: float, step: str | None = None, message: str = "", **data: Any) -> None:
        await asyncio.to_thread(self.blocking.progress, percent, step, message, **data)

    async def log(self, message: object, **data: Any) -> None:
        await asyncio.to_thread(self.blocking.log, message, **data)

    async def checkpoint(
        self, name: str, value: Any = None, *, summary: str = "", progress: float | None = None
    ) -> None:
        await asyncio.to_thread(self.blocking.checkpoint, name, value, summary=summary, progress=progress)

    async def resume(self, name: str, default: Any = None) -> Any:
        return await asyncio.to_thread(self.blocking.resume, name, default)

    async def step(self, name: str, function: Callable[[], Awaitable[T]]) -> T:
        _check_function(name, function)
        missing = object()
        value = await self.resume(name, missing)
        if value is missing:
            value = await function()
            await self.checkpoint(name, value)
        return cast(T, value)

    async def save_file(self, name: str, data: Data) -> JobFile:
        """As `run.files.save`."""
        return await asyncio.to_thread(self.blocking.files.save, name, data)

    async def read_file(self, name: str) -> bytes:
        """As `run.files.read`."""
        return await asyncio.to_thread(self.blocking.files.read, name)
