"""One attempt at a job: as its worker sees it (Attempt), and as its task does (JobContext).

1. Everything that an attempt writes is under its lease: after another worker has the job, LeaseLost is raised.
2. An attempt that should end says so where its task reports: JobCancelled if somebody cancelled the job, JobRequeued if
   its worker stops or its soft time limit is over. Both are for the worker; a task need not catch them.
3. One attempt's reports are written one after the other, whatever thread they come from.
4. A database that is away is no failure of a task's. What a task reads and writes here waits for it, a minute at least,
   also past the end of the lease: whether that is still this attempt's is decided by the write, not by a clock. After
   that the attempt is abandoned: LeaseLost is raised, and the job is continued by whoever finds its lease expired.

It is one file, because both contexts and the attempt below them are one lock and one lease.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, suppress
from contextvars import ContextVar, copy_context
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NoReturn, TypeVar, cast, overload

from penstock.errors import PenstockError, StorageError, TransportClosed
from penstock.files import Data, Files
from penstock.jobs.log_capture import LogCapture
from penstock.jobs.model.job import BadJob, Checkpoint, Job, JobCancelled, JobFile, JobRequeued, Payload, checked_name
from penstock.jobs.model.json_text import NotJson, from_json, to_json, to_loggable
from penstock.jobs.model.other_words import OF_CONTEXTS, no_attribute
from penstock.jobs.model.state import State
from penstock.jobs.model.typed_values import Converter, converter_of, returned_type
from penstock.jobs.model.workflow import Child, JobSuspended, SuspensionCaught, check_passed
from penstock.jobs.store.patience import Wait, be_patient, is_outage, patient
from penstock.jobs.store.store import JobStore
from penstock.jobs.store.workflows import MADE_TOGETHER
from penstock.jobs.tracing import step_span
from penstock.jobs.workflow import ChildCall, ChildTask, Workflow, checked_child
from penstock.leases import RENEWALS, LeaseLost
from penstock.retry import Backoff
from penstock.stored_text import storable

T = TypeVar("T")
_LOOK_SECONDS: Final = 1.0
"""How old the answer to `is_cancelled` may be."""
OUTAGE_SECONDS: Final = 60.0
"""So long at least, a task's call waits for a database that is away (4)."""
CALL_AGAIN: Final = Backoff(0.1, 2.0, 1.0)
_RENEWED_TOGETHER: Final = 100
_GIVE_BACK_SECONDS: Final = 2.0
"""So long after a stop, a job is given back; a database that is away then is not asked again."""
_NOTICE_SECONDS: Final = 0.1
"""So soon, a wait notices that the worker stops."""
_TOLD: ContextVar[JobSuspended | None] = ContextVar("penstock_told", default=None)
"""What a coroutine of an async task has been raised already: it has caught that if it goes on; others may not know."""


class Attempt:
    """What is written under its lease, and when it must end."""

    def __init__(self, store: JobStore, job: Job, asked_at: float | None = None) -> None:
        """The job was asked for `asked_at` that `time.monotonic`, or just now."""
        self.store = store
        self.job = job
        """The job as this attempt last wrote it."""
        self.lock = threading.RLock()
        """Held for each write; the worker holds it for a last write that it makes itself, and then sets `job`."""
        self.lost: LeaseLost | None = None
        """Why whatever the task still writes is refused."""
        self.is_abandoned = False
        """Whether it is lost because the database was away for too long (4)."""
        self.is_given_up = False
        """Whether the heartbeat has seen, and logged, that it is lost."""
        self.is_counted = False
        """Whether its worker has counted it, although its task may still run."""
        self.has_checkpoint = False
        """Whether it has kept one."""
        self.was_suspect = job.suspect
        """Whether it began alone, because its worker before this one died while it ran."""
        self.pending = job.wait
        """The wait that the job was suspended at, until the task has passed it (workflow.py)."""
        self.suspended: JobSuspended | None = None
        """What the task was told to end with."""
        self.is_async = False
        self.refusal: PenstockError | None = None
        """Why the task may not go on, whatever it catches."""
        self.wake: Callable[[], None] = lambda: None
        """Tells the worker that there are new jobs."""
        self.requeue_reason: str | None = None
        """Why it should be requeued at its next checkpoint, where nothing that it has done is lost."""
        self.captured: LogCapture | None = None
        """Lines that its task has logged and that are not written yet (log_capture.py)."""
        self.deadline: float | None = None
        """When the time limit is over, by `time.monotonic`."""
        self._soft_deadline: float | None = None
        self._stop_reason: str | None = None
        self._stopped_at = math.inf
        self._renewed_at = self._looked_at = time.monotonic() if asked_at is None else asked_at

    @property
    def id(self) -> str:
        """The job's id."""
        return self.job.id

    @property
    def log_fields(self) -> dict[str, object]:
        """What a log record about it carries, as those of its task do (log_context.py)."""
        return {"job_id": self.job.id, "task": self.job.task, "attempt": self.job.attempt}

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

    # ── the database ─────────────────────────────────────────────────────────────────────────────

    def call(self, function: Callable[[], T], wait: Wait | None = None) -> T:
        """What a call of the store returns, when the database has answered (4)."""
        wait = wait or self._wait
        since, failures = math.inf, 0
        while True:
            try:
                with patient(wait):
                    answer = function()
            except PenstockError as error:
                if is_outage(error):  # of several calls that share a commit, or of writers that met too often
                    since, failures = min(since, time.monotonic()), failures + 1
                    wait(error, failures, since)
                elif isinstance(error, StorageError | TransportClosed):  # nothing that would pass
                    self.lost = LeaseLost(self.job.id, None, str(error))
                    raise self.lost from error
                else:
                    raise
            else:
                self.store.outage.end()
                return answer

    def patience(self) -> patient:
        """Within it, whatever this thread asks of a job store waits too: a task enqueues other jobs (4)."""
        return patient(self._wait)

    def be_patient(self) -> None:
        """The same for the coroutine that calls it, and for the threads that it awaits."""
        be_patient(self._wait)

    def _wait(self, error: PenstockError, failures: int, since: float) -> None:
        """Between two tries. The worker's wish to stop ends them."""
        self._wait_to_end(error, failures, since, ending=False)

    def _wait_to_end(self, error: PenstockError, failures: int, since: float, *, ending: bool = True) -> None:
        """The same for the last write, which is tried until the worker is gone."""
        if self.lost is not None:
            raise self.lost
        self.store.outage.note(error)
        now = time.monotonic()
        lease = self.job.lease
        until = since + OUTAGE_SECONDS
        if now >= (until if lease is None else max(until, self._renewed_at + lease.seconds)):
            self.is_abandoned = True
            self.lost = LeaseLost(self.job.id, None, f"the database has not answered for {now - since:.0f} s")
            raise self.lost from error
        again_at = now + CALL_AGAIN.wait(failures)
        while (left := again_at - time.monotonic()) > 0:
            if self._stop_reason is not None and not ending:
                raise JobRequeued(self._stop_reason, "worker")
            time.sleep(min(left, _NOTICE_SECONDS))

    def _wait_to_requeue(self, error: PenstockError, failures: int, since: float) -> None:
        """The same where the job is only given back: nothing that was done is lost, and the worker can end soon."""
        self._end_if_stopped()
        self._wait_to_end(error, failures, since)

    def _end_if_stopped(self) -> None:
        if self.lost is None and time.monotonic() - self._stopped_at > _GIVE_BACK_SECONDS:
            self.is_abandoned = True
            self.lost = LeaseLost(self.job.id, None, "its worker stops, and the database does not answer")
        if self.lost is not None:
            raise self.lost

    # ── writes ───────────────────────────────────────────────────────────────────────────────────

    def write(self, write: Callable[[Job], Job]) -> None:
        """Writes the job under its lease, and keeps it as it is then. Raises LeaseLost, JobCancelled."""
        with self.lock:
            self.call(lambda: self._write(write))
            if self.renewal_due_in() <= 0:  # it waited: the end that it wrote is that of its first try
                self.call(lambda: self._write(self.store.renew))

    def _write(self, write: Callable[[Job], Job]) -> None:
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
        if self.captured:
            self.write_captured()
        self.write(lambda job: self.store.report(job, **entry))

    def write_captured(self) -> None:
        """Writes what the task has logged. Raises as every write."""
        with self.lock:
            while self.captured:
                self.write(self._write_lines)

    def _write_lines(self, job: Job) -> Job:
        assert self.captured is not None
        entry = self.captured.next_entry()
        job = self.store.report(job, **entry)
        self.captured.written(entry)
        return job

    def load(self, job: Job, payload: Payload | None, name: str | None = None) -> Any:
        """The value of a payload of this job, or of another."""
        if payload is None or payload.text is not None:
            return self.store.load(job, payload, name)
        return self.call(lambda: self.store.load(job, payload, name))

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

    def finish(self, end: Callable[[Job], Job], *, briefly: bool = False) -> Job:
        """The last write of this attempt. With `briefly`, it is not tried for long once the worker stops."""
        with self.lock:
            if self.lost is not None:
                raise self.lost
            if briefly and self.store.outage.began_at is not None:
                self._end_if_stopped()
            if self.captured:
                with suppress(PenstockError):  # whatever it is, the last write meets it too
                    self.write_captured()
            self.job = self.call(lambda: end(self.job), self._wait_to_requeue if briefly else self._wait_to_end)
            return self.job

    # ── when it must end ─────────────────────────────────────────────────────────────────────────

    def stop(self, reason: str) -> None:
        """Asks the task to end at its next report."""
        self._stop_reason, self._stopped_at = reason, time.monotonic()

    def stop_if_asked(self) -> None:
        """Raises JobRequeued if the worker stops, or the soft time limit is over."""
        if self._stop_reason is not None:
            raise JobRequeued(self._stop_reason, "worker")
        if self._soft_deadline is not None and time.monotonic() >= self._soft_deadline:
            raise self._soft_requeue()

    def _soft_requeue(self) -> JobRequeued:
        left = self.seconds_left
        reason = "its soft time limit is over" if left is None else f"{left:.1f} s before its time limit"
        return JobRequeued(reason, "soft limit")

    @property
    def interrupted_in(self) -> float | None:
        """Seconds until the soft time limit ends it without a report; None if it ends at its next report only.

        It is a coroutine that has kept a checkpoint. Without one it would have failed: it has all of its time limit.
        """
        if self._soft_deadline is None or not (self.is_async and self.has_checkpoint):
            return None
        return self._soft_deadline - time.monotonic()

    def reason_to_end(self) -> PenstockError | None:
        """Why its coroutine was cancelled; None where nobody of ours has asked for that."""
        if self.lost is not None:
            return self.lost
        if self.job.cancel_reason is not None:
            return JobCancelled(self.job.id, self.job.cancel_reason)
        if self._stop_reason is not None:
            return JobRequeued(self._stop_reason, "worker")
        left = self.interrupted_in
        return self._soft_requeue() if left is not None and left <= 0 else None

    def is_cancelled(self) -> bool:
        """Whether somebody has cancelled the job, or it is lost."""
        is_old = time.monotonic() - self._looked_at > _LOOK_SECONDS
        if self.lost is None and self.job.cancel_reason is None and is_old:
            self._read_job()
        return self.lost is not None or self.job.cancel_reason is not None

    def _read_job(self) -> None:
        with self.lock:
            self._looked_at = time.monotonic()
            current = self.call(lambda: self.store.get(self.job.id))
            if current.token == self.job.token:
                self.job = current
            else:
                self.lost = LeaseLost(self.job.id, current.lease.owner if current.lease else None)

    def check_goes_on(self) -> None:
        """Raises if the task has been told to end, and goes on."""
        if self.refusal is None and self.suspended is not None:
            if self.is_async and _TOLD.get() is not self.suspended:  # another coroutine, beside the one that waits
                _TOLD.set(self.suspended)
                raise self.suspended
            self.refusal = SuspensionCaught(self.suspended.wait)
        if self.refusal is not None:
            raise self.refusal

    def check_returned(self) -> None:
        """Raises if the task may not return here."""
        if self.lost is None and self.suspended is not None:
            raise self.refusal or SuspensionCaught(self.suspended.wait)
        if self.lost is None:
            self.check_goes_on()
            check_passed(self.pending, "the task's return")

    # ── its lease ────────────────────────────────────────────────────────────────────────────────

    def renew(self) -> bool:
        """Renews the lease, unless the task is writing at this moment (False): that renews it too."""
        if not self.lock.acquire(blocking=False):
            return False
        try:
            # Nobody waits here: this thread renews the others too. An entry renews the lease as well; of a job that
            # is to be cancelled none is written, and its task is told at its next report.
            is_told = self.job.cancel_reason is not None
            self._write(self._write_lines if self.captured and not is_told else self.store.renew)
        except JobCancelled:
            self._write(self.store.renew)
        finally:
            self.lock.release()
        return True

    def give_up(self, lost: LeaseLost) -> None:
        """Whatever the task still writes is refused. The log has it already."""
        self.lost, self.is_given_up = lost, True

    def renewal_due_in(self) -> float:
        """Seconds until the lease should be renewed."""
        lease = self.job.lease
        if lease is None or self.lost is not None:
            return lease.seconds if lease is not None else _LOOK_SECONDS
        return self._renewed_at + lease.seconds / RENEWALS - time.monotonic()

    has_expired: Final = False
    """Never by this machine's own clock: while nobody could be asked, nobody could take it either (4)."""

    @staticmethod
    def renew_together(attempts: Sequence[Attempt]) -> None:
        """Renews many leases with few commits. What was changed by others, or is being written, is left to `renew`."""
        for start in range(0, len(attempts), _RENEWED_TOGETHER):
            with ExitStack() as stack:
                free: list[Attempt] = []
                for attempt in attempts[start : start + _RENEWED_TOGETHER]:
                    if attempt.lock.acquire(blocking=False):
                        stack.callback(attempt.lock.release)
                        is_held = attempt.lost is None and attempt.job.lease is not None
                        if is_held and (not attempt.captured or attempt.job.cancel_reason is not None):
                            free.append(attempt)
                asked_at = time.monotonic()
                renewed = free[0].store.renew_together([attempt.job for attempt in free]) if free else ()
                for attempt, job in zip(free, renewed, strict=True):
                    if job is not None:
                        attempt.job = job
                        attempt._renewed_at = attempt._looked_at = asked_at


class _AttemptView:
    """What both contexts tell of their attempt."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    @property
    def id(self) -> str:
        """The job's id."""
        return self._attempt.job.id

    @property
    def attempt(self) -> int:
        """1 in the first attempt."""
        return self._attempt.job.attempt

    @property
    def version(self) -> int:
        """The version of the task (`@app.task(version=2)`) with which the job first started."""
        return self._attempt.job.task_version

    @property
    def tenant(self) -> str:
        """Whose job it is; empty if nobody's in particular."""
        return self._attempt.job.tenant

    @property
    def job(self) -> Job:
        """The job as this attempt last wrote it."""
        return self._attempt.job

    @property
    def seconds_left(self) -> float | None:
        """Until the time limit; None without one."""
        return self._attempt.seconds_left

    def requeue(self, reason: str = "") -> None:
        """Ends this attempt here: the job goes back to the queue, and continues at its last checkpoint."""
        raise JobRequeued(reason or "the task asked for it")

    def stop_if_asked(self) -> None:
        """Raises JobRequeued if the worker stops, or the soft time limit is over. Every report does this."""
        self._attempt.stop_if_asked()

    if not TYPE_CHECKING:  # a checker would take every other name for an attribute

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name, OF_CONTEXTS)


class JobContext(_AttemptView):
    """What a task is given: to report, to keep what it has done, and to see that it should stop."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt)
        self._versions: dict[str, int] = {}
        self._workflow = Workflow(attempt)

    @property
    def files(self) -> JobFiles:
        """The job's files."""
        return JobFiles(self._attempt)

    @property
    def results(self) -> dict[str, Any]:
        """What the jobs that this one depends on have returned, by their ids; only those that have completed.

        It is JSON, because their tasks may be another program's: `task.read_result(value)` gives one its type.
        """
        attempt, parents = self._attempt, self.dependencies.values()
        return {
            parent.id: attempt.load(parent, parent.result)
            for parent in parents
            if parent is not None and parent.state is State.COMPLETED
        }

    @property
    def dependencies(self) -> dict[str, Job | None]:
        """The jobs that this one depends on, by their ids; None for one that is gone.

        `state`, `error` and `cancel_reason` say what became of each.
        """
        attempt, store = self._attempt, self._attempt.store
        ids = attempt.call(lambda: store.depends_on(self.job))
        there = {parent.id: parent for parent in attempt.call(lambda: store.get_existing(ids))}
        return {one: there.get(one) for one in ids}

    @property
    def cancelled(self) -> bool:
        """Whether somebody has cancelled the job, or another worker has it: for loops that do not report."""
        return self._attempt.is_cancelled()

    # ── reports ──────────────────────────────────────────────────────────────────────────────────

    def progress(self, percent: float, step: str | None = None, message: str = "", **data: Any) -> None:
        """A numbered entry: 0 to 100. Raises LeaseLost, JobCancelled, JobRequeued."""
        step = None if step is None else _text(step)
        self._report(progress=percent, step=step, message=_text(message), data=data or None)

    def log(self, message: object, **data: Any) -> None:
        """A numbered entry of words. Bytes and other values, in its data too, are written as Python shows them.

        What is too long is shortened, and says so.
        """
        self._report(message=_text(message), data=data or None)

    def _report(self, **entry: Any) -> None:
        try:
            self._attempt.report(**entry)
        except NotJson:  # in its data: a report ends no task
            self._attempt.report(**{**entry, "data": to_loggable(entry["data"])})
        self._attempt.stop_if_asked()

    # ── checkpoints ──────────────────────────────────────────────────────────────────────────────

    def checkpoint(
        self, name: str, value: Any = None, *, summary: str = "", progress: float | None = None, type: Any = None
    ) -> None:
        """Keeps a value: after a crash, `resume` gives it to the next attempt. Raises where it could not be kept.

        `type` is its annotation, where it is more than JSON has: `type=Order`, also for `resume`.
        """
        checked_name(name, "checkpoint")
        value = _stored(value, converter_of(type), f"checkpoint {name}")
        with self._attempt.lock:
            version = self._version(name) + 1
            self._attempt.report(checkpoint=name, value=value, summary=summary, progress=progress, version=version)
            self._versions[name] = version
            self._attempt.has_checkpoint = True
        self._attempt.stop_if_asked()
        if self._attempt.requeue_reason is not None:
            raise JobRequeued(self._attempt.requeue_reason, "worker")

    def resume(self, name: str, default: Any = None, *, type: Any = None) -> Any:
        """The value of a checkpoint, of this attempt or an earlier one."""
        kept = self._stored_checkpoint(checked_name(name, "checkpoint"))
        if kept is None:
            return default
        self._versions[name] = kept.version
        value = self._attempt.load(self.job, kept.data, f"checkpoint#{name}")
        return _restored(value, converter_of(type), f"checkpoint {name}")

    def step(self, name: str, function: Callable[[], T], *, type: Any = None) -> T:
        """Does it once: what it returned is a checkpoint, and is what later attempts get.

        The first attempt gets the same, the value as it is stored and read again. Its type is that of the function's
        annotation, or `type`: `ctx.step("order", lambda: load(key), type=Order)`. Without either it is JSON: a tuple is
        a list, and what is not JSON is refused.
        """
        _check_function(name, function)
        converter = returned_type(function) if type is None else converter_of(type)
        with self._workflow.step(name):
            value = self.resume(name, _MISSING)
            if value is _MISSING:
                with self._workflow.new_step(name), step_span(name):
                    value = _stored(function(), converter, f"step {name}")
                stored = to_json(value, f"step {name}")
                self.checkpoint(name, value)
                value = from_json(stored)
        return cast(T, _restored(value, converter, f"step {name}"))

    # ── waits and children ───────────────────────────────────────────────────────────────────────

    def sleep(self, duration: timedelta | float, *, name: str | None = None) -> None:
        """Waits so long (a timedelta or seconds) and holds no worker: the attempt ends here with JobSuspended.

        When the time is over the task's function runs again from the top, and passes what it has done. `name` tells
        the sleep from others in code that changes while jobs sleep.
        """
        self._workflow.sleep(self._workflow.next_key("sleep", name), duration)

    def sleep_until(self, moment: datetime, *, name: str | None = None) -> None:
        """The same until an aware datetime. Which one it was first is kept, also if it is another at the next call."""
        self._workflow.sleep_until(self._workflow.next_key("sleep", name), moment)

    def wait_for(self, event: str, *, timeout: timedelta | float | None = None, name: str | None = None) -> Any:
        """The data of an event that `app.send_event(job.id, event, data)` sends; None if the timeout is over first.

        No worker is held meanwhile. Events are kept until they are waited for, and taken in order, each once.
        """
        return self._workflow.wait_for(self._workflow.next_key("wait_for", name), event, timeout)

    def enqueue(self, task: ChildTask, /, *args: Any, **kwargs: Any) -> Child:
        """Makes a job of another task, or of `task.options(…)`, once whatever the attempts of this one.

        It is found again by the number of the call, or by its `idempotency_key`. `ctx.gather` waits for it.
        """
        return self._workflow.enqueue(self._workflow.plan_child(task, args, kwargs))

    def gather(
        self, children: Iterable[Child], *, return_exceptions: bool = False, name: str | None = None
    ) -> list[Any]:
        """What the children have returned, in their order and with their types; no worker is held until all have ended.

        One that failed or was cancelled raises JobFailed, when all have ended; with `return_exceptions` it is a
        JobFailed in the list. Children that a generator makes (`ctx.enqueue(…) for …`) are made many at a time.
        """
        return list(self.results_of(children, return_exceptions=return_exceptions, name=name))

    def results_of(
        self, children: Iterable[Child], *, return_exceptions: bool = False, name: str | None = None
    ) -> Iterator[Any]:
        """The same, read as they are used: for more results than should be in memory."""
        handles = self._workflow.collect(children)
        return self._workflow.results(self._workflow.next_key("gather", name), handles, return_exceptions)

    def _version(self, name: str) -> int:
        if name not in self._versions:
            kept = self._stored_checkpoint(name)
            self._versions[name] = 0 if kept is None else kept.version
        return self._versions[name]

    def _stored_checkpoint(self, name: str) -> Checkpoint | None:
        return self._attempt.call(lambda: self._attempt.store.checkpoint(self.id, name))


_MISSING = object()


def _stored(value: Any, converter: Converter | None, path: str) -> Any:
    return value if converter is None else converter.to_plain(value, path)


def _restored(value: Any, converter: Converter | None, path: str) -> Any:
    return value if converter is None else converter.from_plain(value, path)


def _text(value: object) -> str:
    return storable(value if isinstance(value, str) else repr(value))


def attempt_of(context: JobContext) -> Attempt:
    """The worker's side of a context: for what runs jobs, not for tasks."""
    return context._attempt


def _check_function(name: str, function: object) -> None:
    if not callable(function):
        kind = type(function).__name__
        raise BadJob(f"ctx.step({name!r}, …) is given a function, not a {kind}: ctx.step({name!r}, lambda: fetch(x)).")


class JobFiles:
    """The job's files, by name. A name may have folders in it."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    def save(self, name: str, data: Data) -> JobFile:
        """Saves it whole or not at all, then puts it into the job's list of files."""
        file = self._attempt.save_file(name, data)
        self._attempt.stop_if_asked()
        return file

    def open(self, name: str) -> BinaryIO:
        """A stream of the file, checked against its hash."""
        return cast(BinaryIO, self._attempt.files.open(self._attempt.file_key(name)))

    def read(self, name: str) -> bytes:
        """All of a small file."""
        return self._attempt.files.read(self._attempt.file_key(name))

    def exists(self, name: str) -> bool:
        """Whether the job has saved such a file."""
        return self._attempt.files.exists(self._attempt.file_key(name))


class AsyncJobContext(_AttemptView):
    """The same for `async def` tasks: what writes is awaited, and does not hold up the event loop."""

    def __init__(self, context: JobContext, executor: Executor | None = None) -> None:
        """Its calls run in threads of the executor; without one, as `asyncio.to_thread` does it."""
        super().__init__(context._attempt)
        self._attempt.is_async = True
        self._executor = executor
        self.blocking = context
        """The context itself, for code that runs in a thread."""

    async def results(self) -> dict[str, Any]:
        return await _in_thread(self._executor, lambda: self.blocking.results)

    async def dependencies(self) -> dict[str, Job | None]:
        return await _in_thread(self._executor, lambda: self.blocking.dependencies)

    async def cancelled(self) -> bool:
        return await _in_thread(self._executor, lambda: self.blocking.cancelled)

    async def progress(self, percent: float, step: str | None = None, message: str = "", **data: Any) -> None:
        await _in_thread(self._executor, self.blocking.progress, percent, step, message, **data)

    async def log(self, message: object, **data: Any) -> None:
        await _in_thread(self._executor, self.blocking.log, message, **data)

    async def checkpoint(
        self, name: str, value: Any = None, *, summary: str = "", progress: float | None = None, type: Any = None
    ) -> None:
        keep = partial(self.blocking.checkpoint, summary=summary, progress=progress, type=type)
        await _in_thread(self._executor, keep, name, value)

    async def resume(self, name: str, default: Any = None, *, type: Any = None) -> Any:
        return await _in_thread(self._executor, self.blocking.resume, name, default, type=type)

    @overload
    async def step(self, name: str, function: Callable[[], Awaitable[T]], *, type: Any = None) -> T: ...
    @overload
    async def step(self, name: str, function: Callable[[], T], *, type: Any = None) -> T: ...
    async def step(self, name: str, function: Callable[[], Any], *, type: Any = None) -> Any:
        """The function may be async, or an ordinary one, during which the event loop waits."""
        _check_function(name, function)
        workflow = self.blocking._workflow
        converter = returned_type(function) if type is None else converter_of(type)
        with workflow.step(name):
            value = await self.resume(name, _MISSING)
            if value is _MISSING:
                with workflow.new_step(name), step_span(name):
                    value = function()
                    if inspect.isawaitable(value):
                        value = await value
                    value = _stored(value, converter, f"step {name}")
                stored = to_json(value, f"step {name}")
                await self.checkpoint(name, value)
                value = from_json(stored)
        return _restored(value, converter, f"step {name}")

    async def sleep(self, duration: timedelta | float, *, name: str | None = None) -> None:
        workflow = self.blocking._workflow
        await _in_thread(self._executor, workflow.sleep, workflow.next_key("sleep", name), duration)

    async def sleep_until(self, moment: datetime, *, name: str | None = None) -> None:
        workflow = self.blocking._workflow
        await _in_thread(self._executor, workflow.sleep_until, workflow.next_key("sleep", name), moment)

    async def wait_for(self, event: str, *, timeout: timedelta | float | None = None, name: str | None = None) -> Any:
        workflow = self.blocking._workflow
        return await _in_thread(self._executor, workflow.wait_for, workflow.next_key("wait_for", name), event, timeout)

    def enqueue(self, task: ChildTask, /, *args: Any, **kwargs: Any) -> AsyncChild:
        """The child when it is awaited; or to be given to `gather`, which makes many at a time."""
        return AsyncChild(
            self.blocking._workflow, self.blocking._workflow.plan_child(task, args, kwargs), self._executor
        )

    async def gather(
        self, children: Iterable[AsyncChild | Child], *, return_exceptions: bool = False, name: str | None = None
    ) -> list[Any]:
        results = self.results_of(children, return_exceptions=return_exceptions, name=name)
        return [one async for one in results]

    async def results_of(
        self, children: Iterable[AsyncChild | Child], *, return_exceptions: bool = False, name: str | None = None
    ) -> AsyncIterator[Any]:
        workflow, handles = self.blocking._workflow, list[Child]()
        calls: list[ChildCall] = []
        for one in children:
            if isinstance(one, AsyncChild):
                calls.append(one.call)
            handles.append(one.call.child if isinstance(one, AsyncChild) else checked_child(one))
            if len(calls) == MADE_TOGETHER:
                await _in_thread(self._executor, workflow.make, calls)
                calls = []
        if calls:
            await _in_thread(self._executor, workflow.make, calls)
        key = workflow.next_key("gather", name)
        results = await _in_thread(self._executor, workflow.results, key, handles, return_exceptions)
        while (one := await _in_thread(self._executor, next, results, _MISSING)) is not _MISSING:
            yield one

    @property
    def files(self) -> AsyncJobFiles:
        """The job's files."""
        return AsyncJobFiles(self.blocking.files, self._executor)


class AsyncChild:
    """A child of an async task: `await` makes it, and gives its handle."""

    def __init__(self, workflow: Workflow, call: ChildCall, executor: Executor | None) -> None:
        self._workflow = workflow
        self._executor = executor
        self.call = call

    @property
    def id(self) -> str:
        """The id that the job has, or will have."""
        return self.call.child.id

    def __await__(self) -> Generator[Any, None, Child]:
        return _in_thread(self._executor, self._workflow.enqueue, self.call).__await__()


class AsyncJobFiles:
    """The job's files, by name, for `async def` tasks."""

    def __init__(self, files: JobFiles, executor: Executor | None = None) -> None:
        self._files = files
        self._executor = executor

    async def save(self, name: str, data: Data) -> JobFile:
        """Saves it whole or not at all, then puts it into the job's list of files."""
        return await _in_thread(self._executor, self._files.save, name, data)

    async def open(self, name: str) -> BinaryIO:
        """A stream of the file, checked against its hash; reading it blocks."""
        return await _in_thread(self._executor, self._files.open, name)

    async def read(self, name: str) -> bytes:
        """All of a small file."""
        return await _in_thread(self._executor, self._files.read, name)

    async def exists(self, name: str) -> bool:
        """Whether the job has saved such a file."""
        return await _in_thread(self._executor, self._files.exists, name)


async def _in_thread(executor: Executor | None, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """`asyncio.to_thread`, in threads of that executor."""
    call = partial(copy_context().run, function, *args, **kwargs)
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, call)
    except JobSuspended as suspended:
        _TOLD.set(suspended)
        raise
