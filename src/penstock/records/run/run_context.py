"""What the threads of one run share: the records in hand, an attempt at one, what becomes of it, and trouble.

1. A record's failure, whatever it is, is about that record alone. What stops a run is the database, the executor, or
   the user.
2. An attempt has one end. Who takes it out of hand, its worker or the time limit, says what became of it.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.client.items.values import InvalidValue, decode_item
from penstock.errors import PenstockError, ValidationException
from penstock.leases import RENEWALS, LeaseLost
from penstock.records.executors import (
    MESSAGE_CHARACTERS,
    BadResult,
    Died,
    Ended,
    Function,
    NotRun,
    Overran,
    Runner,
    failure_of,
)
from penstock.records.record_state import (
    WORKER_DIED,
    Changed,
    Claim,
    ClaimAnswer,
    Gone,
    Held,
    Later,
    MarkAnswer,
    NotPending,
    Poison,
    RecordState,
    Settled,
    Written,
)
from penstock.records.run.report import MOST_ERRORS, RecordError, Report
from penstock.records.run.schedule import OtherProcessors, QueuedRecord, RecordQueue
from penstock.records.source import Candidate
from penstock.records.store import RecordStore
from penstock.retry import NO_RETRIES, Backoff, Failure, RetryPolicy

RECORD_CHANGED: Final = "RecordChanged"
_LOOKS: Final = Backoff(0.1, 2.0, 1.0)
"""How long until a record that another holds is looked at once more."""

End = Ended | Died | Overran | NotRun


@dataclass(frozen=True)
class Rules:
    """How a run treats its records."""

    max_workers: int = 5
    max_iterations: int = 10
    timeout_seconds: float | None = None
    grace_seconds: float = 30.0
    most_errors: int = MOST_ERRORS
    retries: RetryPolicy = NO_RETRIES


class RecordOutcomes:
    """Writes what became of a record, counts it in `report`, and schedules what is to be done again."""

    def __init__(
        self,
        store: RecordStore,
        schedule: RecordQueue,
        rules: Rules,
        report: Report,
        draw: random.Random,
        other_processors: OtherProcessors,
    ) -> None:
        self.report = report
        self.waits_for_others = True
        """Whether a record that another holds is looked at again until it is known what becomes of it."""
        self.passed_over = 0
        self._other_processors = other_processors
        self._store = store
        self._schedule = schedule
        self._rules = rules
        self._draw = draw
        self._lock = threading.Lock()
        self._protected = frozenset({*store.source.key.names, store.source.work.bookkeeping})

    # ── not claimed ──────────────────────────────────────────────────────────────────────────────

    def on_not_claimed(self, task: QueuedRecord, answer: ClaimAnswer) -> None:
        match answer:
            case Held(state, takeable_at):
                self._on_held(task, state, takeable_at)
            case Later(due_at):
                self._schedule.postpone(QueuedRecord(task.candidate), due_at)
            case Poison(state):
                failed = self._store.fail_poison(task.candidate, state)
                if failed is not None:
                    self.count("crashed")
                    self._count_failed(task.candidate, failed)
            case Gone() | NotPending():
                self.count("skipped")
            case Settled() | Claim():
                pass  # failed for good, or done

    def _on_held(self, task: QueuedRecord, state: RecordState, takeable_at: float) -> None:
        self._other_processors.note_seen(state)
        awaited = task.awaited
        if not self.waits_for_others:
            self.passed_over += 1
        elif awaited is not None and (awaited.token, awaited.until) != (state.token, state.until):
            self.count("held")  # renewed, or claimed anew: somebody alive has it
        else:
            due = min(self._store.clock.now() + _LOOKS.bound(task.looks + 1), takeable_at)
            self._schedule.postpone(QueuedRecord(task.candidate, state, min(task.looks + 1, 10)), due)

    # ── ended ────────────────────────────────────────────────────────────────────────────────────

    def settle(self, claim: Claim, end: End) -> None:
        """Writes any end. Raises ExecutorUnusable after it if the executor is."""
        match end:
            case Ended(failure=None, result=result):
                self._mark_done(claim, result)
            case Ended(failure=Failure() as failure):
                if self._schedule.stopping and failure.kind == "KeyboardInterrupt":
                    self.give_back(claim)  # the Ctrl-C that stops us went to its process too
                else:
                    self._on_failure(claim, failure)
            case NotRun():
                self.give_back(claim)
            case Died(by_us=True):
                self.give_back(claim, again=True)
            case Died(message=message):
                self._on_crash(claim, message[:MESSAGE_CHARACTERS])
            case Overran():
                self.on_overrun(claim)
        if isinstance(end, Died | Overran) and end.unusable is not None:
            raise end.unusable

    def check_result(self, result: Mapping[str, Any] | None) -> None:
        for name in result or ():
            if name in self._protected:
                raise BadResult(f"the function returned {name}, which is part of the key or of the bookkeeping")

    def _mark_done(self, claim: Claim, result: Mapping[str, Any] | None) -> None:
        answer: MarkAnswer | Exception
        try:
            self.check_result(result)
            answer = self._store.mark(claim, result)
        except Exception as error:
            answer = error
        self.on_marked(claim, answer)

    def on_marked(self, claim: Claim, answer: MarkAnswer | Exception) -> None:
        """The end of an attempt that went well, as far as the function goes."""
        match answer:
            case Written():
                self.count("processed")
            case Changed(names):
                self.count("changed")
                attributes = ", ".join(names[:5]) or "what it is selected by"
                text = f"somebody changed the record while it ran ({attributes}), so the result was not stored"
                self._on_failure(claim, Failure(RECORD_CHANGED, text, retryable=True))
            case InvalidValue() | ValidationException() | BadResult():
                # The record cannot be as the function wants it: too large, say, or of the wrong type for an index.
                text = str(answer)[:MESSAGE_CHARACTERS]
                self._on_failure(claim, Failure(type(answer).__name__, text, retryable=False))
            case PenstockError():
                raise answer
            case Exception():  # of a mark that is computed by a function
                self._on_failure(claim, failure_of(answer, self._rules.retries))
            case _:
                self._on_refused(answer)

    def on_overrun(self, claim: Claim) -> None:
        self.count("timed_out")
        error = TimeoutError(f"still running after {self._rules.timeout_seconds:g} s")
        self._on_failure(claim, Failure("TimeoutError", str(error), self._rules.retries.covers(error)))

    def give_back(self, claim: Claim, *, again: bool = False) -> None:
        state = claim.state.give_back()
        answer = self._store.put_state(claim, state)
        self.count("given_back")
        if again and isinstance(answer, Written):
            self._schedule.postpone(QueuedRecord(Candidate(claim.key, state.wire(), claim.value)), 0.0)

    # ── failed ───────────────────────────────────────────────────────────────────────────────────

    def _on_failure(self, claim: Claim, failure: Failure) -> None:
        state, now = claim.state, self._store.clock.now()
        if not failure.retryable or state.failures >= self._rules.retries.times:
            self._fail_for_good(claim, state.fail_for_good(failure.name, failure.message, now), failure.trace)
            return
        wait = self._rules.retries.delay(state.failures, self._draw.random)
        self._try_again(claim, state.after_failure(failure.name, failure.message, now, now + wait))

    def _on_crash(self, claim: Claim, message: str) -> None:
        self.count("crashed")
        state, now = claim.state, self._store.clock.now()
        if state.crashes + 1 >= self._store.max_crashes:
            self._fail_for_good(claim, state.fail_as_poison(now, message), "")
            return
        wait = self._rules.retries.delay(state.crashes, self._draw.random)
        self._try_again(claim, state.after_crash(message, now, now + wait))

    def _try_again(self, claim: Claim, state: RecordState) -> None:
        answer = self._store.put_state(claim, state)
        if isinstance(answer, Written):
            self.count("retried")
            self._schedule.postpone(QueuedRecord(Candidate(claim.key, state.wire(), claim.value)), state.due)
        else:
            self._on_refused(answer)

    def _fail_for_good(self, claim: Claim, state: RecordState, trace: str) -> None:
        answer = self._store.put_state(claim, state)
        if isinstance(answer, Written):
            self._count_failed(Candidate(claim.key), state, trace)
        else:
            self._on_refused(answer)

    def _count_failed(self, candidate: Candidate, state: RecordState, trace: str = "") -> None:
        kind = state.kind or WORKER_DIED
        with self._lock:
            self.report.failed += 1
            self.report.failures_by_kind[kind] += 1
            if len(self.report.errors) < self._rules.most_errors:
                key = decode_item(candidate.key)
                self.report.errors.append(RecordError(key, kind, state.message, state.attempts, trace))

    def _on_refused(self, answer: object) -> None:
        self.count("deleted" if isinstance(answer, Gone) else "lost")

    def count(self, name: str, number: int = 1) -> None:
        with self._lock:
            setattr(self.report, name, getattr(self.report, name) + number)


_ERRORS_IN_A_ROW: Final = 20  # of a database that may be back soon


@dataclass(eq=False, slots=True)
class Running:
    """A claim in hand, whose lease is renewed. `began_at` and `ended_at` are its function's times; infinite before."""

    claim: Claim
    store: RecordStore
    renew_at: float
    began_at: float = float("inf")
    ended_at: float = float("inf")

    @property
    def id(self) -> str:
        return self.store.source.key_text(self.claim.key)

    @property
    def has_expired(self) -> bool:
        return False  # a renewal may succeed late: until another takes the record, it is ours

    def renewal_due_in(self) -> float:
        return self.renew_at - time.monotonic()

    def renew(self) -> None:
        asked_at = time.monotonic()
        is_ours = isinstance(self.store.renew(self.claim), Written)
        # What is not ours any more is renewed no more: its end will be refused, and counted then.
        self.renew_at = asked_at + self.store.lease_seconds / RENEWALS if is_ours else float("inf")

    def give_up(self, lost: LeaseLost) -> None:
        self.renew_at = float("inf")


class RunContext:
    """Of one run."""

    def __init__(
        self,
        store: RecordStore,
        runner: Runner,
        function: Function,
        rules: Rules,
        report: Report,
        draw: random.Random,
    ) -> None:
        self.store = store
        self.runner = runner
        self.rules = rules
        self.report = report
        self.draw = draw
        self.schedule = RecordQueue(store.clock, workers=rules.max_workers)
        self.other_processors = OtherProcessors(store.owner, store.clock)
        self.outcomes = RecordOutcomes(store, self.schedule, rules, report, draw, self.other_processors)
        self.claims = 0
        self.fatal: BaseException | None = None
        self.finished = threading.Event()
        self._function = function
        self._lock = threading.Lock()
        self._running: dict[int, Running] = {}
        self._alive = rules.max_workers
        self._errors_in_a_row = 0

    # ── in hand ──────────────────────────────────────────────────────────────────────────────────

    def take_in(self, claims: Iterable[Claim]) -> list[Running]:
        """These are ours now."""
        renew_at = time.monotonic() + self.store.lease_seconds / RENEWALS
        taken = [Running(claim, self.store, renew_at) for claim in claims]
        with self._lock:
            self._running.update((id(running), running) for running in taken)
            self.claims += len(taken)
            if taken:
                self._errors_in_a_row = 0
        return taken

    def take_out(self, running: Running) -> bool:
        """Whether this attempt's end is ours to tell (2)."""
        with self._lock:
            return self._running.pop(id(running), None) is not None

    def in_hand(self) -> list[Running]:
        with self._lock:
            return list(self._running.values())

    def drop_all(self) -> int:
        """What is in hand still keeps its lease, and what comes of it is thrown away (2); how many these are."""
        with self._lock:
            left = len(self._running)
            self._running.clear()
        return left

    # ── an attempt ───────────────────────────────────────────────────────────────────────────────

    def reread(self, task: QueuedRecord) -> QueuedRecord | None:
        """The record as it is now, if it is looked at once more; None if it is gone."""
        if task.awaited is None:
            return task
        candidate = self.store.look(task.candidate)
        if candidate is None:
            self.outcomes.count("skipped")
            return None
        return replace(task, candidate=candidate)

    def end_of(self, running: Running) -> End | BaseException:
        """Runs the function. An exception that is no `End` is about the executor."""
        claim = running.claim
        now = time.monotonic()
        if self.schedule.stopping or now >= claim.believed_until:
            return NotRun()  # held up for so long that another may have it by now
        refused = self.store.marks.too_many_to_compare(claim.record)
        if refused:
            return Ended(failure=Failure("TooManyAttributes", refused, retryable=False))
        running.began_at = now
        self.outcomes.count("attempts")
        state = claim.state
        try:
            return self.runner.run(self._function, claim.item, state.token, alone=state.crashes > 0)
        except BaseException as error:
            return error

    def settle(self, claim: Claim, end: End | BaseException) -> None:
        """Writes what became of it."""
        if isinstance(end, Ended | Died | Overran | NotRun):
            self.outcomes.settle(claim, end)
        else:
            self.outcomes.give_back(claim)  # it was not run: the executor is unusable
            raise end

    # ── trouble ──────────────────────────────────────────────────────────────────────────────────

    def safely(self, task: QueuedRecord | None, write: Callable[..., None], *arguments: Any) -> None:
        try:
            write(*arguments)
        except BaseException as error:
            self.handle_error(task, error)

    def handle_error(self, task: QueuedRecord | None, error: BaseException) -> None:
        """The database did not do what was asked. What may pass is tried again, for a while."""
        with self._lock:
            self._errors_in_a_row += 1
            hopeless = self._errors_in_a_row > _ERRORS_IN_A_ROW
        if not isinstance(error, PenstockError) or not error.retryable or hopeless:
            self.fail(error)
        elif task is not None:
            wait = self.rules.retries.backoff.wait(self._errors_in_a_row, self.draw.random)
            self.schedule.postpone(task, self.store.clock.now() + wait)

    def fail(self, error: BaseException) -> None:
        """The run cannot go on (1)."""
        with self._lock:
            if self.fatal is None:
                self.fatal = error
        self.halt()

    def halt(self) -> None:
        """Nothing more is begun."""
        self.schedule.stop()
        self.runner.stop()

    def worker_left(self) -> None:
        """A worker has left; with the last one the run is finished."""
        with self._lock:
            self._alive -= 1
            last = not self._alive
        if last:
            self.finished.set()
