"""What becomes of records: each answer of the store and each end of an attempt, written and counted.

A record's failure, whatever it is, is about that record alone.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.client.items.values import InvalidValue, decode_item
from penstock.errors import PenstockError, ValidationException
from penstock.records.executors.attempts import (
    MESSAGE_CHARACTERS,
    Backoff,
    BadResult,
    Ended,
    Failure,
    RetryRules,
    failure_of,
)
from penstock.records.executors.executors import Died, NotRun, Overran
from penstock.records.run.report import MOST_ERRORS, RecordError, Report
from penstock.records.run.schedule import Schedule, Task
from penstock.records.source.selection import Found
from penstock.records.state.answers import Changed, Claim, ClaimAnswer, Gone, MarkAnswer, NotPending, Written
from penstock.records.state.other_processors import Neighbours
from penstock.records.state.record_state import WORKER_DIED, Held, Later, Poison, Settled, Standing
from penstock.records.state.store import RecordStore

RECORD_CHANGED: Final = "RecordChanged"
_LOOK_AGAIN_SECONDS: Final = 0.1
"""How long until a record that another holds is looked at once more; twice as long each time."""

_LOOK_SELDOM_SECONDS: Final = 1.0

End = Ended | Died | Overran | NotRun


@dataclass(frozen=True)
class Rules:
    """How a run treats its records."""

    max_workers: int = 5
    max_retries: int = 3
    max_iterations: int = 10
    timeout_seconds: float | None = None
    grace_seconds: float = 30.0
    most_errors: int = MOST_ERRORS
    retries: RetryRules = field(default_factory=RetryRules)
    backoff: Backoff = field(default_factory=Backoff)


class Outcomes:
    """Writes what became of a record, counts it in `report`, and schedules what is to be done again."""

    def __init__(
        self,
        store: RecordStore,
        schedule: Schedule,
        rules: Rules,
        report: Report,
        draw: random.Random,
        neighbours: Neighbours,
    ) -> None:
        self.report = report
        self.waits_for_others = True
        """Whether a record that another holds is looked at again until it is known what becomes of it."""
        self.passed_over = 0
        self._neighbours = neighbours
        self._store = store
        self._schedule = schedule
        self._rules = rules
        self._draw = draw
        self._lock = threading.Lock()
        self._protected = frozenset({*store.source.key.names, store.source.work.bookkeeping})

    # ── not claimed ──────────────────────────────────────────────────────────────────────────────

    def not_claimed(self, task: Task, answer: ClaimAnswer) -> None:
        match answer:
            case Held(standing, takeable_at):
                self._held(task, standing, takeable_at)
            case Later(due_at):
                self._schedule.postpone(Task(task.found), due_at)
            case Poison(standing):
                parked = self._store.park_poison(task.found, standing)
                if parked is not None:
                    self.count("crashed")
                    self._parked(task.found, parked)
            case Gone() | NotPending():
                self.count("skipped")
            case Settled() | Claim():
                pass  # parked, or done

    def _held(self, task: Task, standing: Standing, takeable_at: float) -> None:
        self._neighbours.met(standing)
        awaited = task.awaited
        if not self.waits_for_others:
            self.passed_over += 1
        elif awaited is not None and (awaited.token, awaited.until) != (standing.token, standing.until):
            self.count("held")  # renewed, or claimed anew: somebody alive has it
        else:
            wait = min(_LOOK_AGAIN_SECONDS * 2**task.looks, _LOOK_SELDOM_SECONDS)
            due = min(self._store.clock.now() + wait, takeable_at)
            self._schedule.postpone(Task(task.found, standing, min(task.looks + 1, 10)), due)

    # ── ended ────────────────────────────────────────────────────────────────────────────────────

    def settle(self, claim: Claim, end: End) -> None:
        """Writes any end. Raises ExecutorUnusable after it if the executor is."""
        match end:
            case Ended(failure=None, result=result):
                self._done(claim, result)
            case Ended(failure=Failure() as failure):
                if self._schedule.stopping and failure.kind == "KeyboardInterrupt":
                    self.give_back(claim)  # the Ctrl-C that stops us went to its process too
                else:
                    self._failed(claim, failure)
            case NotRun():
                self.give_back(claim)
            case Died(by_us=True):
                self.give_back(claim, again=True)
            case Died(message=message):
                self._crashed(claim, message[:MESSAGE_CHARACTERS])
            case Overran():
                self.overran(claim)
        if isinstance(end, Died | Overran) and end.unusable is not None:
            raise end.unusable

    def check_result(self, result: Mapping[str, Any] | None) -> None:
        for name in result or ():
            if name in self._protected:
                raise BadResult(f"the function returned {name}, which is part of the key or of the bookkeeping")

    def _done(self, claim: Claim, result: Mapping[str, Any] | None) -> None:
        answer: MarkAnswer | Exception
        try:
            self.check_result(result)
            answer = self._store.mark(claim, result)
        except Exception as error:
            answer = error
        self.marked(claim, answer)

    def marked(self, claim: Claim, answer: MarkAnswer | Exception) -> None:
        """The end of an attempt that went well, as far as the function goes."""
        match answer:
            case Written():
                self.count("processed")
            case Changed(names):
                self.count("changed")
                told = ", ".join(names[:5]) or "what it is selected by"
                text = f"somebody changed the record while it ran ({told}), so the result was not stored"
                self._failed(claim, Failure(RECORD_CHANGED, text, retryable=True))
            case InvalidValue() | ValidationException() | BadResult():
                # The record cannot be as the function wants it: too large, say, or of the wrong type for an index.
                text = str(answer)[:MESSAGE_CHARACTERS]
                self._failed(claim, Failure(type(answer).__name__, text, retryable=False))
            case PenstockError():
                raise answer
            case Exception():  # of a mark that is computed by a function
                self._failed(claim, failure_of(answer, self._rules.retries))
            case _:
                self._refused(answer)

    def overran(self, claim: Claim) -> None:
        self.count("timed_out")
        error = TimeoutError(f"still running after {self._rules.timeout_seconds:g} s")
        self._failed(claim, Failure("TimeoutError", str(error), self._rules.retries.retryable(error)))

    def give_back(self, claim: Claim, *, again: bool = False) -> None:
        standing = claim.standing.given_back()
        answer = self._store.put_standing(claim, standing)
        self.count("given_back")
        if again and isinstance(answer, Written):
            self._schedule.postpone(Task(Found(claim.key, standing.wire(), claim.value)), 0.0)

    # ── failed ───────────────────────────────────────────────────────────────────────────────────

    def _failed(self, claim: Claim, failure: Failure) -> None:
        standing, now = claim.standing, self._store.clock.now()
        if not failure.retryable or standing.failures >= self._rules.max_retries:
            self._park(claim, standing.parked_for(failure.kind, failure.message, now), failure.trace)
            return
        wait = self._rules.backoff.seconds(standing.failures + 1, self._draw)
        self._try_again(claim, standing.after_failure(failure.kind, failure.message, now, now + wait))

    def _crashed(self, claim: Claim, message: str) -> None:
        self.count("crashed")
        standing, now = claim.standing, self._store.clock.now()
        if standing.crashes + 1 >= self._store.max_crashes:
            self._park(claim, standing.parked_as_poison(now, message), "")
            return
        wait = self._rules.backoff.seconds(standing.crashes + 1, self._draw)
        self._try_again(claim, standing.after_crash(message, now, now + wait))

    def _try_again(self, claim: Claim, standing: Standing) -> None:
        answer = self._store.put_standing(claim, standing)
        if isinstance(answer, Written):
            self.count("retried")
            self._schedule.postpone(Task(Found(claim.key, standing.wire(), claim.value)), standing.due)
        else:
            self._refused(answer)

    def _park(self, claim: Claim, standing: Standing, trace: str) -> None:
        answer = self._store.put_standing(claim, standing)
        if isinstance(answer, Written):
            self._parked(Found(claim.key), standing, trace)
        else:
            self._refused(answer)

    def _parked(self, found: Found, standing: Standing, trace: str = "") -> None:
        kind = standing.kind or WORKER_DIED
        with self._lock:
            self.report.failed += 1
            self.report.failures_by_kind[kind] += 1
            if len(self.report.errors) < self._rules.most_errors:
                key = decode_item(found.key)
                self.report.errors.append(RecordError(key, kind, standing.message, standing.attempts, trace))

    def _refused(self, answer: object) -> None:
        self.count("deleted" if isinstance(answer, Gone) else "lost")

    def count(self, name: str, number: int = 1) -> None:
        with self._lock:
            setattr(self.report, name, getattr(self.report, name) + number)
