"""One attempt at a copy of a job, in the foreground: in this thread, with its output where it prints it.

1. Only a copy is debugged (transfer.py): no worker starts it, no job waits for it, and its original never knows.
2. The attempt is written as any other is: finished steps are reused, checkpoints and the outcome are stored, in the
   copy's own file. There is no time limit and nobody renews its lease, since nobody else may take it.
3. Arguments that were left out of the copy are given for this attempt, and are not stored.
"""

from __future__ import annotations

import asyncio
import bdb
import inspect
import os
import pdb
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, Literal, TextIO

from penstock.errors import PenstockError
from penstock.jobs.app import App
from penstock.jobs.context import AsyncJobContext, Attempt, JobContext
from penstock.jobs.copies.transfer import check_copy, fill, forget_steps
from penstock.jobs.model import transitions
from penstock.jobs.model.job import History, Job
from penstock.jobs.store.store import JobStore
from penstock.jobs.tasks import BadArguments, Task
from penstock.jobs.worker.log_context import CURRENT_JOB
from penstock.jobs.worker.outcomes import Outcomes
from penstock.leases import LONGEST_LEASE_SECONDS, grant

LEASE_SECONDS: Final = LONGEST_LEASE_SECONDS
"""It only says in the copy who had it: nobody takes a copy from anybody."""
_MOST_JOBS: Final = 100

Ending = Literal["completed", "failed", "retried", "requeued", "cancelled", "lost", "left"]


@dataclass(frozen=True, slots=True)
class Written:
    """What an attempt has written into its file, beside its outcome."""

    checkpoints: tuple[str, ...] = ()
    entries: int = 0
    files: tuple[str, ...] = ()
    jobs: tuple[Job, ...] = ()
    """Those that it has enqueued, at most a hundred."""


@dataclass(frozen=True, slots=True)
class DebugOutcome:
    """How an attempt has ended: `left` where somebody ended the debugger or pressed Ctrl-C."""

    ending: Ending
    job: Job
    value: Any
    error: BaseException | None
    written: Written


class DebugAttempt:
    """The next attempt at a copy. Make it, look at it, then `run` it once."""

    def __init__(self, app: App, job_id: str, *, step: str | None = None) -> None:
        """`step` is forgotten, with all that was kept after it. Raises JobNotFound; PenstockError for no copy (1)."""
        self.store: JobStore = app.store
        self.job = self.store.get(job_id)
        check_copy(self.job, self.store.db.name)
        if self.job.task not in app.tasks:
            known = ", ".join(sorted(app.tasks)) or "none"
            raise PenstockError(f"{job_id} is a job of the task {self.job.task!r}; the app has {known}.")
        self.task: Task[Any, Any] = app.tasks[self.job.task]
        self.forgotten = () if step is None else forget_steps(self.store, job_id, step)
        self.before: History = self.store.history(job_id)
        self.arguments: dict[str, Any] = self.store.load(self.job, self.job.args)
        self._began_at = self.store.clock.now()

    def missing_arguments(self, given: Mapping[str, Any]) -> list[str]:
        """Those that were left out of the copy, and that nobody has given."""
        return [name for name in self.job.masked if name not in given]

    def run(self, given: Mapping[str, Any] | None = None, *, with_pdb: bool = False) -> DebugOutcome:
        """Runs the task; `given` are arguments by name (3). With pdb, it stops at its first line and where it fails."""
        for name, value in (given or {}).items():
            fill(self.arguments, name, value)
        attempt = Attempt(self.store, self._claim())
        if self.forgotten:
            attempt.pending = None  # a step that comes before that wait runs again
        value, error = self._call(attempt, with_pdb)
        endings: list[str] = []
        outcomes = Outcomes(self.store, lambda: None, lambda job, how: endings.append(how))
        if isinstance(error, bdb.BdbQuit | KeyboardInterrupt):
            outcomes.end(attempt, "requeued", lambda job: self.store.requeue(job, "whoever debugged it has left"))
            endings = ["left"]
        elif error is None:
            outcomes.end(attempt, "completed", lambda job: self.store.complete(job, value))
        elif isinstance(error, TypeError):  # its arguments have been checked, with those that are not stored
            outcomes.store_failure(attempt, self.task, error)
        else:
            outcomes.store_raised(attempt, self.task, error)
        ending: Any = endings[-1] if endings else "lost"
        return DebugOutcome(ending, attempt.job, value, error, self._written(attempt.job))

    def _claim(self) -> Job:
        now = self.store.clock.now()
        owner = f"debug-{os.getpid()}"
        return self.store.change(
            self.store.get(self.job.id),
            lambda job: transitions.start_copy(job, grant(job.token, owner, now, LEASE_SECONDS), now),
        )

    def _call(self, attempt: Attempt, with_pdb: bool) -> tuple[Any, BaseException | None]:
        """What the task returned, or raised."""
        task, context = self.task, JobContext(attempt)
        if with_pdb:
            _stop_at(_code_of(task))
        token = CURRENT_JOB.set(attempt.job)
        try:
            task.check_stored(self.arguments)
            arguments = task.read_arguments(self.arguments)
            if task.is_async:
                return task.write_result(asyncio.run(_call_async(task, AsyncJobContext(context), arguments))), None
            first = (context,) if task.takes_context else ()
            return task.write_result(task.function(*first, **arguments)), None
        except BaseException as error:
            if with_pdb:
                sys.settrace(None)
                _examine(error, task)
            return None, error
        finally:
            if with_pdb:
                sys.settrace(None)
            CURRENT_JOB.reset(token)

    def _written(self, job: Job) -> Written:
        after, before = self.store.history(job.id), self.before
        old_files = {(file.name, file.saved.saved_at) for file in before.files}
        old_points = {(point.name, point.version) for point in before.checkpoints}
        jobs = self.store.find(since=self._began_at, limit=_MOST_JOBS).jobs
        return Written(
            tuple(one.name for one in after.checkpoints if (one.name, one.version) not in old_points),
            after.job.entries - before.job.entries,
            tuple(one.name for one in after.files if (one.name, one.saved.saved_at) not in old_files),
            tuple(one for one in jobs if not one.pulled_from),
        )


async def _call_async(task: Task[Any, Any], context: AsyncJobContext, arguments: dict[str, Any]) -> Any:
    function: Callable[..., Any] = task.function
    return await (function(context, **arguments) if task.takes_context else function(**arguments))


# ── pdb ──────────────────────────────────────────────────────────────────────────────────────────


def _stop_at(code: CodeType) -> None:
    """Begins the debugger at the first line of this function, in whatever frame calls it."""
    debugger = pdb.Pdb()

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code is not code:
            return None
        debugger.reset()
        sys.settrace(debugger.trace_dispatch)
        return debugger.trace_dispatch(frame, event, arg)

    sys.settrace(trace)


def _examine(error: BaseException, task: Task[Any, Any]) -> None:
    """Stops where it was raised, unless it is somebody's wish to end."""
    trace = trace_of(error, task)
    is_end = isinstance(error, bdb.BdbQuit | KeyboardInterrupt | BadArguments)
    if trace is not None and not is_end:
        print_trace(error, task, sys.stdout)
        pdb.post_mortem(trace)


def _code_of(task: Task[Any, Any]) -> CodeType:
    """Of the function itself, inside its decorators."""
    code: CodeType = inspect.unwrap(task.function).__code__
    return code


def trace_of(error: BaseException, task: Task[Any, Any]) -> TracebackType | None:
    """Where in the task it was raised, without the way there."""
    trace = error.__traceback__
    code = _code_of(task)
    while trace is not None and trace.tb_frame.f_code is not code:
        trace = trace.tb_next
    return trace or error.__traceback__


def print_trace(error: BaseException, task: Task[Any, Any], file: TextIO) -> None:
    """As Python prints it, from the task on."""
    traceback.print_exception(type(error), error, trace_of(error, task), file=file)
