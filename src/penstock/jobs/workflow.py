"""A task that waits: its durable operations, as its context offers them.

1. An operation is looked up by its key (model/workflow.py). What is stored of it is what the task gets, whatever the
   attempt; what is not stored is done, and stored before the task goes on.
2. A wait that is not over ends the attempt with JobSuspended. The worker stores it when the task's function is left, so
   that `finally` still runs under the lease.
3. After that, and after WorkflowChanged, every further call of this attempt is refused, and so is its return: a task
   that swallows the exception does no harm.
4. A failure that a gather raised is stored at the task's next operation: then the task has caught it, and later
   attempts go the same way. Where it ended the job, it is not stored, and a retry looks at the children again.
5. Inside a step nothing else durable can be done: a step that is done is not entered again, and would be counted wrong.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from penstock.clock import end_of_millisecond
from penstock.errors import PenstockError
from penstock.jobs.model.job import (
    MOST_DEPENDENCIES,
    BadJob,
    Job,
    JobError,
    JobFailed,
    NewJob,
    Payload,
    Wait,
    checked_name,
)
from penstock.jobs.model.json_text import to_json
from penstock.jobs.model.state import State
from penstock.jobs.model.workflow import (
    Child,
    JobSuspended,
    Operation,
    WorkflowChanged,
    check_passed,
    check_same,
    check_same_task,
    checked_moment,
    checked_sleep,
    checked_until,
    child_id,
    child_key,
    operation_key,
)
from penstock.jobs.store.store import JobStore
from penstock.jobs.store.workflows import MADE_TOGETHER, child_of

T = TypeVar("T")
_RESULTS_TOGETHER: Final = 1_000
_RESULTS_BYTES: Final = 200_000
"""Results of children that are stored in one record of their parent's: an item holds 400 KB."""
_MOST_BESIDE: Final = 100

_IN_STEP: ContextVar[str | None] = ContextVar("penstock_step", default=None)
_GATHERED: ContextVar[list[ChildCall] | None] = ContextVar("penstock_gathered", default=None)
"""Where `ctx.enqueue` collects children, while `ctx.gather` goes through what it was given."""


class RunningAttempt(Protocol):
    """What is asked of an attempt (context.py)."""

    store: JobStore
    job: Job
    pending: Wait | None
    suspended: JobSuspended | None
    refusal: PenstockError | None
    wake: Callable[[], None]

    @property
    def id(self) -> str: ...
    @property
    def lock(self) -> AbstractContextManager[Any]: ...
    def call(self, function: Callable[[], T]) -> T: ...
    def write(self, write: Callable[[Job], Job]) -> None: ...
    def load(self, job: Job, payload: Payload | None, name: str | None = None) -> Any: ...
    def check_goes_on(self) -> None: ...


class ChildTask(Protocol):
    """What `ctx.enqueue` takes: a task, or `task.options(…)`."""

    @property
    def name(self) -> str: ...
    def new_job(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NewJob: ...
    def read_result(self, stored: Any) -> Any: ...


class ChildCall:
    """A child that is to be made, by its key."""

    __slots__ = ("child", "key", "new")

    def __init__(self, key: str, new: NewJob, child: Child) -> None:
        self.key = key
        self.new = new
        self.child = child


class Workflow:
    """The durable operations of one attempt."""

    def __init__(self, attempt: RunningAttempt) -> None:
        self._attempt = attempt
        self._numbers: dict[str, int] = {}
        self._names: set[str] = set()
        self._under_way: dict[str, None] = {}
        self._made: dict[str, str] | None = None
        """The tasks of the children that are made, by their ids."""
        self._raised: Callable[[], None] | None = None
        """Stores the failure that a gather has raised (4)."""

    # ── keys, and what may come next ─────────────────────────────────────────────────────────────

    def next_key(self, kind: str, name: str | None = None) -> str:
        """The key of the next operation of that kind. An async task's are numbered in the order of its calls."""
        step = _IN_STEP.get()
        if step is not None:
            raise BadJob(f"ctx.{kind} cannot be called inside of ctx.step({step!r}, …): call it before or after.")
        if name is None:
            self._numbers[kind] = self._numbers.get(kind, 0) + 1
            return operation_key(kind, None, self._numbers[kind])
        key = operation_key(kind, name, 0)
        if key in self._names:
            raise BadJob(f"Two operations of this task are named {key}: give each a name of its own.")
        self._names.add(key)
        return key

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """While a step is under way, stored already or not."""
        outer = _IN_STEP.get()
        if outer is not None:
            raise BadJob(f"ctx.step({name!r}, …) cannot be called inside of ctx.step({outer!r}, …).")
        self._attempt.check_goes_on()
        with self._operating(f"step={name}"):
            yield

    @contextmanager
    def new_step(self, name: str) -> Iterator[None]:
        """While one is done that is not stored yet."""
        with self._attempt.lock:
            self._check_new(f"step={name}")
        token = _IN_STEP.set(name)
        try:
            yield
        finally:
            with suppress(ValueError):  # a coroutine that nobody awaits any more is closed in another context
                _IN_STEP.reset(token)

    def _check_new(self, what: str) -> None:
        """Before something that is not stored yet."""
        attempt = self._attempt
        attempt.check_goes_on()
        self._refuse_if_changed(lambda: check_passed(attempt.pending, what))
        if self._raised is not None:
            store, self._raised = self._raised, None
            store()

    def _find(self, key: str, about: str) -> Operation | None:
        """What is stored of an operation that is called so now."""
        attempt = self._attempt
        attempt.check_goes_on()
        pending, stored = attempt.pending, None
        if pending is not None and pending.key == key and pending.about:
            stored = Operation(key, pending.about, pending.until)
        elif attempt.job.attempt > 1:
            stored = attempt.call(lambda: attempt.store.workflows.operation(attempt.id, key))
        if stored is None:
            self._check_new(key)
            return None
        self._refuse_if_changed(lambda: check_same(stored, about))
        return stored

    def _refuse_if_changed(self, check: Callable[[], None]) -> None:
        """Makes the check; what it refuses ends the attempt, also if the task catches it (3)."""
        try:
            check()
        except WorkflowChanged as changed:
            self._attempt.refusal = changed
            raise

    def _pass(self, key: str) -> None:
        """The operation is over."""
        pending = self._attempt.pending
        if pending is not None and pending.key == key:
            self._attempt.pending = None

    def _suspend(self, wait: Wait, operation: Operation, ids: tuple[str, ...] = (), sent: int = 0) -> JobSuspended:
        """What ends this attempt (2)."""
        beside = tuple(one for one in self._under_way if one != wait.key)[:_MOST_BESIDE]
        suspended = JobSuspended(replace(wait, beside=beside), operation, ids, sent)
        self._attempt.suspended = suspended
        return suspended

    @contextmanager
    def _operating(self, key: str) -> Iterator[None]:
        self._under_way[key] = None
        try:
            yield
        finally:
            self._under_way.pop(key, None)

    # ── sleeping ─────────────────────────────────────────────────────────────────────────────────

    def sleep(self, key: str, duration: timedelta | float) -> None:
        seconds = checked_sleep(duration)
        self._sleep(key, f"a sleep of {seconds:g} s", self._now() + seconds)

    def sleep_until(self, key: str, moment: datetime) -> None:
        self._sleep(key, "a sleep until a time", checked_moment(moment))

    def _sleep(self, key: str, about: str, until: float) -> None:
        with self._operating(key):
            stored = self._find(key, about)
            if stored is not None and stored.until is not None:
                until = stored.until
            if until > self._now():
                raise self._suspend(Wait(key, checked_until(until), about=about), Operation(key, about, until))
            if stored is None:  # it was over when it was reached: the next attempt passes it too
                operation = Operation(key, about, until)
                self._attempt.write(lambda job: self._attempt.store.workflows.keep(job, operation))
            self._pass(key)

    # ── events ───────────────────────────────────────────────────────────────────────────────────

    def wait_for(self, key: str, event: str, timeout: timedelta | float | None) -> Any:
        """The data of the event; None if the time was over first."""
        checked_name(event, "event")
        seconds = None if timeout is None else checked_sleep(timeout, "A timeout")
        about = f"a wait for the event {event!r}"
        attempt, workflows = self._attempt, self._attempt.store.workflows
        with self._operating(key):
            stored = self._find(key, about)
            if stored is not None and stored.is_done:
                self._pass(key)
                return None if stored.data is None else attempt.load(attempt.job, stored.data, f"event#{event}")
            until = None if seconds is None else checked_until(self._now() + seconds)
            if stored is not None:
                until = stored.until
            operation = Operation(key, about, until)
            while True:
                sent = attempt.job.sent  # or more by now: whoever stores what follows sees that
                found = attempt.call(lambda: workflows.first_event(attempt.id, event))
                if found is not None:
                    done = replace(operation, is_done=True, data=found.data)
                    attempt.write(partial(workflows.keep, operation=done, taken=found))
                    self._pass(key)
                    return attempt.load(attempt.job, found.data, f"event#{event}")
                if until is None or until > self._now():
                    raise self._suspend(Wait(key, until, event), operation, sent=sent)
                if self._keep_timeout(replace(operation, is_done=True), sent):
                    self._pass(key)
                    return None

    def _keep_timeout(self, operation: Operation, sent: int) -> bool:
        """False if an event has come at this moment."""
        is_kept = False

        def write(job: Job) -> Job:
            nonlocal is_kept
            job, is_kept = self._attempt.store.workflows.keep_timeout(job, operation, sent)
            return job

        self._attempt.write(write)
        return is_kept

    # ── children ─────────────────────────────────────────────────────────────────────────────────

    def plan_child(self, task: ChildTask, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ChildCall:
        """The child that this call is, with its key; nothing is written."""
        new = task.new_job(args, kwargs)
        if new.unique_key is not None:
            raise BadJob(
                "A child has no unique_key, because each is made once by itself. To share a job between workflows, "
                'enqueue it in a step: ctx.step("share", lambda: task.options(unique_key=…).enqueue(…).id).'
            )
        to_json(new.args, "args")  # refused where it is called
        if new.idempotency_key is None:
            key = self.next_key("enqueue")
        else:
            key = child_key(new, 0)
            self._attempt.check_goes_on()
        parent = self._attempt.job
        made = child_id(parent, key)
        return ChildCall(key, child_of(parent, new, made), Child(made, new.task, task.read_result))

    def enqueue(self, call: ChildCall) -> Child:
        """Makes the child, now or together with others that are being gathered."""
        gathered = _GATHERED.get()
        if gathered is None:
            self.make([call])
        else:
            gathered.append(call)
            if len(gathered) >= MADE_TOGETHER:
                self.make(gathered)
                gathered.clear()
        return call.child

    def make(self, calls: Sequence[ChildCall]) -> None:
        """Makes those of the children that are not made yet, with one write for all."""
        attempt = self._attempt
        attempt.check_goes_on()
        with attempt.lock:
            made = self._known_children()
            new: dict[str, ChildCall] = {}
            for call in calls:
                task = made.get(call.child.id)
                if task is None:
                    new[call.child.id] = call
                else:
                    self._refuse_if_changed(partial(check_same_task, call.key, task, call.child.task))
            if not new:
                return
            self._check_new(next(iter(new.values())).key)
            news = [call.new for call in new.values()]
            attempt.write(lambda job: attempt.store.workflows.enqueue(job, news))
            made.update({call.child.id: call.child.task for call in new.values()})
        attempt.wake()

    def _known_children(self) -> dict[str, str]:
        if self._made is None:
            attempt = self._attempt
            there = (
                attempt.call(lambda: list(attempt.store.workflows.made(attempt.id))) if attempt.job.child_count else []
            )
            self._made = {child.id: child.task for child in there}
        return self._made

    def collect(self, handles: Iterable[Child]) -> list[Child]:
        """The children; those that are made while they are gone through are made together."""
        gathered: list[ChildCall] = []
        token = _GATHERED.set(gathered)
        try:
            children = [checked_child(one) for one in handles]
        finally:
            _GATHERED.reset(token)
        if gathered:
            self.make(gathered)
        return children

    def results(self, key: str, children: Sequence[Child], return_exceptions: bool) -> Iterator[Any]:
        """What the children have returned, in order, when all have ended."""
        ids = [child.id for child in children]
        if len(ids) > MOST_DEPENDENCIES:
            raise BadJob(
                f"A gather waits for at most {MOST_DEPENDENCIES:,} children, not {len(ids):,}: gather in parts."
            )
        digest = hashlib.sha256("\n".join(ids).encode()).hexdigest()[:12]
        about = f"a gather of {len(ids):,} children ({digest})"
        attempt = self._attempt
        with self._operating(key):
            stored = self._find(key, about)
            if stored is None or not stored.is_done:
                left = self._not_ended(ids)
                if left:
                    raise self._suspend(Wait(key, children=len(left)), Operation(key, about), tuple(left))
                stored = self._keep_results(Operation(key, about, is_done=True), ids, return_exceptions)
            self._pass(key)
        found = attempt.store.workflows.results(attempt.job, stored)
        return self._values(found, [child.read for child in children], return_exceptions)

    def _not_ended(self, ids: Sequence[str]) -> list[str]:
        attempt, left = self._attempt, dict.fromkeys(ids)
        for some in _batches(list(left)):
            there = {job.id: job for job in attempt.call(partial(attempt.store.get_existing, some))}
            for one in some:
                if one not in there or attempt.store.has_ended(there[one]):
                    del left[one]
        return list(left)

    def _keep_results(self, operation: Operation, ids: Sequence[str], return_exceptions: bool) -> Operation:
        """Stores what has become of the children; raises JobFailed for the first that did not complete (4)."""
        failed = None if return_exceptions else self._first_failed(ids)
        if failed is None:
            return self._store_results(operation, ids)
        self._pass(operation.key)
        self._raised = lambda: (self._store_results(operation, ids), None)[1]
        raise JobFailed(failed)

    def _store_results(self, operation: Operation, ids: Sequence[str]) -> Operation:
        attempt, workflows = self._attempt, self._attempt.store.workflows
        parts, some, size = 0, list[dict[str, Any]](), 0
        for form in self._result_forms(ids):
            length = len(to_json(form, "result").encode())
            if some and (len(some) >= _RESULTS_TOGETHER or size + length > _RESULTS_BYTES):
                attempt.write(partial(workflows.keep_results, key=operation.key, number=parts, results=some))
                parts, some, size = parts + 1, [], 0
            some.append(form)
            size += length
        if parts:
            attempt.write(partial(workflows.keep_results, key=operation.key, number=parts, results=some))
            done = replace(operation, parts=parts + 1)
        else:
            payload = attempt.call(lambda: workflows.results_payload(attempt.job, operation.key, some))
            done = replace(operation, data=payload)
        attempt.write(lambda job: workflows.keep(job, done))
        return done

    def _first_failed(self, ids: Sequence[str]) -> Job | None:
        for one, job in self._jobs(ids):
            if job is None or job.state is not State.COMPLETED:
                return job or _gone(one)
        return None

    def _result_forms(self, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
        for one, job in self._jobs(ids):
            if job is not None and job.state is State.COMPLETED:
                yield {"value": self._attempt.load(job, job.result)}
            else:
                yield {"failed": _failure_form(job or _gone(one))}

    def _jobs(self, ids: Sequence[str]) -> Iterator[tuple[str, Job | None]]:
        attempt = self._attempt
        for some in _batches(ids):
            there = {job.id: job for job in attempt.call(partial(attempt.store.get_existing, some))}
            yield from ((one, there.get(one)) for one in some)

    def _values(
        self, forms: Iterator[dict[str, Any]], reads: Sequence[Callable[[Any], Any] | None], return_exceptions: bool
    ) -> Iterator[Any]:
        """One record at a time is read, and waits for a database that is away. Each value has its task's type."""
        for number in itertools.count():
            form = self._attempt.call(lambda: next(forms, None))
            if form is None:
                return
            if "failed" not in form:
                # A gather with a name gives what it gave, also where it is called with fewer children now.
                read = reads[number] if number < len(reads) else None
                yield form["value"] if read is None else read(form["value"])
            elif return_exceptions:
                yield JobFailed(_job_from(form["failed"]))
            else:
                raise JobFailed(_job_from(form["failed"]))

    def _now(self) -> float:
        return end_of_millisecond(self._attempt.store.clock.now())


def checked_child(handle: object) -> Child:
    if not isinstance(handle, Child):
        raise BadJob(f"A gather takes what ctx.enqueue(…) has returned, not {handle!r:.100}.")
    return handle


def _batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (ids[start : start + MADE_TOGETHER] for start in range(0, len(ids), MADE_TOGETHER))


def _gone(job_id: str) -> Job:
    """A child that was deleted, or has expired: nobody knows what became of it."""
    return Job(
        job_id, "", State.CANCELLED, 0.0, 0.0, 0.0, 0, cancel_reason="it is gone: it has expired, or was deleted"
    )


def _failure_form(job: Job) -> dict[str, Any]:
    form: dict[str, Any] = {"id": job.id, "task": job.task, "state": job.state.value, "reason": job.cancel_reason}
    if job.error is not None:
        form["error"] = [job.error.kind, job.error.message]
    return form


def _job_from(form: dict[str, Any]) -> Job:
    error = JobError(*form["error"]) if "error" in form else None
    state = State(form["state"])
    return Job(form["id"], form["task"], state, 0.0, 0.0, 0.0, 0, error=error, cancel_reason=form["reason"])
