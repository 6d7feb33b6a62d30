"""What the threads of one run share: the records in hand, an attempt at one, and what to do about trouble.

1. A record's failure, whatever it is, stops nothing else. What stops a run is the database, the executor, or the user.
2. An attempt has one end. Who takes it out of hand, its worker or the time limit, says what became of it.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.leases import RENEWALS, LeaseLost
from penstock.records.executors import Died, Ended, Function, NotRun, Overran, Runner
from penstock.records.record_state import Claim, Written
from penstock.records.run.outcomes import End, Outcomes, Rules
from penstock.records.run.report import Report
from penstock.records.run.schedule import OtherProcessors, Schedule, Task
from penstock.records.store import RecordStore
from penstock.retry import Failure

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
        self.schedule = Schedule(store.clock, workers=rules.max_workers)
        self.other_processors = OtherProcessors(store.owner, store.clock)
        self.outcomes = Outcomes(store, self.schedule, rules, report, draw, self.other_processors)
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

    def reread(self, task: Task) -> Task | None:
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

    def safely(self, task: Task | None, write: Callable[..., None], *arguments: Any) -> None:
        try:
            write(*arguments)
        except BaseException as error:
            self.handle_error(task, error)

    def handle_error(self, task: Task | None, error: BaseException) -> None:
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
