"""A job that is killed after each of its writes, and must end as if it had not been.

1. The job is run once undisturbed: that is the outcome, and the list of its writes. A write is a call that changes the
   database: the claim, each report and checkpoint, each job that it enqueues, its end.
2. Then it is run again for each of them, from nothing: the process dies right after that write. Another worker takes
   the job over when its lease has run out, and ends it.
3. Its state and its result must be those of (1), and every job must keep the rules (invariants.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.client.database import Database
from penstock.client.transports.base import Answer, Request, Transport
from penstock.client.wrappers.wrapper import WRITES, Exchange, Wrapper
from penstock.errors import PenstockError
from penstock.jobs.app import App
from penstock.jobs.model.job import Job
from penstock.jobs.tasks import Task
from penstock.testing.invariants import check as check_rules
from penstock.testing.job_app import JobApp, Killed

MOST_WRITES: Final = 1_000
"""The job is run once for each: a test of more would take minutes."""


class EndedOtherwise(AssertionError):
    """The job did not end as it does undisturbed. `write` is the one after which its process died, from 1."""

    def __init__(self, write: int, description: str, reason: str) -> None:
        super().__init__(f"Killed after write {write} ({description}): {reason}")
        self.write = write
        self.description = description


@dataclass(frozen=True, slots=True)
class CrashReport:
    """What was tried."""

    job: Job
    """The job as it ended undisturbed."""
    result: Any
    """What it returned, as it is stored."""
    writes: tuple[str, ...]
    """What it was killed after, in order."""

    def __str__(self) -> str:
        lines = [f"{number:4}  {write}" for number, write in enumerate(self.writes, start=1)]
        return "\n".join([f"{self.job.task} was killed after each of {len(self.writes)} writes:", *lines])


def crash_at_every_step(
    task: Task[..., Any],
    arguments: Mapping[str, Any] | None = None,
    *,
    before_each: Callable[[], object] | None = None,
    check: Callable[[Job], object] | None = None,
) -> CrashReport:
    """Kills the job of the task after each of its writes, and checks that it ends the same. Raises EndedOtherwise.

    `before_each` is called before each run, the first one too, to reset what the task changes elsewhere; `check` is
    called with each job that has ended, and asserts what else must hold: that a card was charged once.
    """
    app = task.jobs
    if not isinstance(app, App):
        raise PenstockError(f"{task.name} is no task of an app: decorate its function with @app.task().")
    first = _Run(app, task, dict(arguments or {}), before_each, check)
    outcome = first.end(kill_after=None)
    if len(first.writes) > MOST_WRITES:
        raise PenstockError(
            f"{task.name} makes {len(first.writes):,} writes, and would be run as often. Test it with fewer steps "
            f"({MOST_WRITES:,} at most)."
        )
    for number, description in enumerate(first.writes, start=1):
        run = _Run(app, task, dict(arguments or {}), before_each, check)
        try:
            found = run.end(kill_after=number)
        except AssertionError as error:
            raise EndedOtherwise(number, description, str(error)) from error
        if found[1:] != outcome[1:]:
            states = f"it is {found[1].value} with the result {found[2]!r:.300}"
            wanted = f"{outcome[1].value} with {outcome[2]!r:.300}"
            raise EndedOtherwise(number, description, f"{states}, and undisturbed it is {wanted}.")
    return CrashReport(outcome[0], outcome[2], tuple(first.writes))


class _Run:
    """One job from nothing to its end."""

    def __init__(
        self,
        app: App,
        task: Task[..., Any],
        arguments: dict[str, Any],
        before: Callable[[], object] | None,
        check: Callable[[Job], object] | None,
    ) -> None:
        self._app = app
        self._task = task
        self._arguments = arguments
        self._before = before
        self._check = check
        self.writes: list[str] = []

    def end(self, kill_after: int | None) -> tuple[Job, Any, Any]:
        """The job, its state and its result. Raises AssertionError where a rule or the check is broken."""
        if self._before is not None:
            self._before()
        with JobApp(self._app) as jobs:
            job = self._task.enqueue(**self._arguments)
            transport = _Mortal(jobs.db.transport, kill_after, self.writes)
            try:
                with self._app.moved_to(Database(transport), jobs.files, jobs.clock):
                    jobs.run_until_idle(time_travel=True, until=job)
            except Killed:
                jobs.run_until_idle(time_travel=True, until=job)
            job = self._app.get(job.id)
            check_rules(self._app.store, [one.id for one in jobs.jobs()], ended=False)
            if not job.is_terminal:
                raise AssertionError(f"it has not ended: it is {job.state.value}.")
            if self._check is not None:
                self._check(job)
            return job, job.state, self._app.store.load(job, job.result)


class _Mortal(Wrapper):
    """The database of a process that dies after so many writes: it answers nothing any more, nor that write."""

    def __init__(self, inner: Transport, kill_after: int | None, writes: list[str]) -> None:
        super().__init__(inner)
        self._kill_after = kill_after
        self._writes = writes
        self._is_dead = False

    def _exchange(self, operation: str, request: Request) -> Exchange:
        if self._is_dead:
            raise Killed
        answer: Answer = yield operation, request
        if operation in WRITES:
            self._writes.append(_description(operation, request))
            if len(self._writes) == self._kill_after:
                self._is_dead = True
                raise Killed
        return answer


def _description(operation: str, request: Request) -> str:
    """The call, and the records that it wrote: `TransactWriteItems main, progress#000000001, checkpoint#rows`."""
    actions = [next(iter(one.values())) for one in request.get("TransactItems", ())] or [request]
    items = [one.get("Item") or one.get("Key") or {} for one in actions]
    names = [item.get("record", {}).get("S", "") for item in items]
    states = {item["state"]["S"] for item in items if "S" in item.get("state", {})}
    shown = [*sorted(states), *(name for name in names if name and not (name == "main" and states))]
    return f"{operation} {', '.join(shown)}".strip()
