"""One run over a source: a feeder, a bounded pool of workers, and a watcher of leases and time limits.

1. A record's failure, whatever it is, stops nothing else. What stops a run is the database, the executor, or the user.
2. An attempt has one end. Who takes it out of `_running`, its worker or the watcher, writes what became of it.
3. A worker whose function hangs is written off: another takes its place, and what it still returns is thrown away.
4. After a stop nothing is begun. What runs may finish in its grace time; what then still runs keeps its lease, which
   ends by itself: it is never given to another while it may still be at work here.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from penstock.client.values import InvalidValue, decode_item
from penstock.errors import PenstockError, ValidationException
from penstock.records.attempts import (
    Backoff,
    BadResult,
    Ended,
    Failure,
    Function,
    RetryRules,
    failure_of,
)
from penstock.records.executors import Died, NotRun, Overran, Runner
from penstock.records.leases import RENEWALS
from penstock.records.report import MOST_ERRORS, Progress, RecordError, Report
from penstock.records.schedule import Schedule, Task
from penstock.records.standing import WORKER_DIED, Held, Later, Poison, Settled, Standing
from penstock.records.store import Changed, Claim, Gone, NotPending, RecordStore, Written
from penstock.records.work import Found

RECORD_CHANGED: Final = "RecordChanged"
LOOK_AGAIN_SECONDS: Final = 1.0
"""How long until a record that another holds is looked at once more."""

_TICK_SECONDS: Final = 0.1
_ERRORS_IN_A_ROW: Final = 20  # of a database that may be back soon

_log = logging.getLogger(__name__)


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


class ProcessingStopped(PenstockError):
    """A run could not go on. `report` says what became of it so far; running it again goes on from there."""

    def __init__(self, report: Report, reason: str) -> None:
        super().__init__(f"Stopped after {report}: {reason}")
        self.report = report


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run. `report` says what became of it so far; running it again goes on from there."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


@dataclass(eq=False, slots=True)
class _Running:
    claim: Claim
    began_at: float
    renew_at: float


class Run:
    """One `process_all`."""

    def __init__(
        self,
        store: RecordStore,
        runner: Runner,
        function: Function,
        rules: Rules,
        *,
        draw: random.Random,
        run_id: str = "",
        total: int | None = None,
        tell: Callable[[Progress, Report], object] | None = None,
    ) -> None:
        self.report = Report(run_id)
        self._store = store
        self._runner = runner
        self._function = function
        self._rules = rules
        self._draw = draw
        self._total = total
        self._tell = tell
        self._schedule = Schedule(store.clock, workers=rules.max_workers)
        self._lock = threading.Lock()
        self._running: dict[int, _Running] = {}
        self._claims = 0
        self._alive = 0
        self._hung = 0
        self._errors_in_a_row = 0
        self._fatal: BaseException | None = None
        self._finished = threading.Event()
        self._over = threading.Event()
        self._began_at = time.monotonic()
        self._protected = frozenset({*store.source.key.names, store.source.work.bookkeeping})

    # ── from the caller's thread ─────────────────────────────────────────────────────────────────

    def go(self) -> Report:
        """Runs to the end. Raises Interrupted for Ctrl-C, ProcessingStopped for what it cannot go on from."""
        interrupted = False
        try:
            self._start()
            self._wait()
        except KeyboardInterrupt:
            interrupted = self.report.interrupted = True
            self.stop()
            self._wait_for_grace()
        finally:
            self._over.set()
            self._leave(now=interrupted or not self._finished.is_set())
        if interrupted:
            raise Interrupted(self.report)
        if self._fatal is not None:
            raise ProcessingStopped(self.report, str(self._fatal) or repr(self._fatal)) from self._fatal
        return self.report

    def stop(self) -> None:
        """Nothing more is begun; what runs may finish (4)."""
        self.report.interrupted = True
        self._halt()

    def _halt(self) -> None:
        self._schedule.stop()
        self._runner.stop()

    def _start(self) -> None:
        with self._lock:
            self._alive = self._rules.max_workers
        for _ in range(self._rules.max_workers):
            self._thread(self._work)
        self._thread(self._watch)
        self._thread(self._feed)

    def _thread(self, target: Callable[[], None]) -> None:
        # A daemon: a function that hangs must not keep the process from ending.
        threading.Thread(target=target, name=f"records-{target.__name__.strip('_')}", daemon=True).start()

    def _wait(self) -> None:
        """Until all workers are gone; after a stop for as long as the grace time."""
        while not self._finished.wait(_TICK_SECONDS):
            self._told()
            if self._schedule.stopping:
                self._wait_for_grace()
                return

    def _wait_for_grace(self) -> None:
        until = time.monotonic() + self._rules.grace_seconds
        try:
            while not self._finished.wait(min(_TICK_SECONDS, max(until - time.monotonic(), 0.0))):
                self._told()
                if time.monotonic() >= until:
                    return
        except KeyboardInterrupt:
            self.report.interrupted = True  # the second one: at once

    def _leave(self, *, now: bool) -> None:
        with self._lock:
            self.report.left = len(self._running)
            self._running.clear()  # what they still return is thrown away (2)
        self.report.seconds = time.monotonic() - self._began_at
        self._runner.close(now=now)
        self._told()

    def _told(self) -> None:
        if self._tell is None:
            return
        report, seconds = self.report, max(time.monotonic() - self._began_at, 1e-6)
        waiting, rate = self._schedule.waiting, (report.processed + report.failed) / seconds
        progress = Progress(report.processed, report.failed, len(self._running), waiting, seconds, rate, self._total)
        self._tell(progress, report)

    def _fail(self, error: BaseException) -> None:
        """The run cannot go on (1)."""
        with self._lock:
            if self._fatal is None:
                self._fatal = error
        self._halt()

    # ── the feeder ───────────────────────────────────────────────────────────────────────────────

    def _feed(self) -> None:
        try:
            for _ in range(self._rules.max_iterations):
                claims = self._claims
                if not self._one_pass() or self._claims == claims:
                    break
        except BaseException as error:
            self._fail(error)
        finally:
            self._schedule.close()

    def _one_pass(self) -> bool:
        """Through the whole source; False if it was stopped."""
        self.report.held = 0
        for page in self._store.source.pages(self._draw):
            if page and not self._schedule.feed(page):
                return False
        if not self._schedule.wait_until_idle():
            return False
        self.report.passes += 1
        return True

    # ── the workers ──────────────────────────────────────────────────────────────────────────────

    def _work(self) -> None:
        while (task := self._schedule.take()) is not None:
            mine = True
            try:
                mine = self._handle(task)
            except PenstockError as error:
                self._trouble(task, error)
            except BaseException as error:
                self._fail(error)
            if not mine:
                return  # written off: another thread has this one's place
            self._schedule.ended()
        with self._lock:
            self._alive -= 1
            last = not self._alive
        if last:
            self._finished.set()

    def _trouble(self, task: Task, error: PenstockError) -> None:
        """The database did not do what was asked. What may pass is tried again, for a while."""
        with self._lock:
            self._errors_in_a_row += 1
            hopeless = self._errors_in_a_row > _ERRORS_IN_A_ROW
        if not error.retryable or hopeless:
            self._fail(error)
            return
        wait = self._rules.backoff.seconds(self._errors_in_a_row, self._draw)
        self._schedule.postpone(task, self._store.clock.now() + wait)

    def _handle(self, task: Task) -> bool:
        """Looks at a record, and runs it if it may be. False if this thread was written off meanwhile."""
        found = task.found
        if task.awaited is not None:
            looked = self._store.look(found)
            if looked is None:
                self._count("skipped")
                return True
            found = looked
        answer = self._store.claim(found)
        if isinstance(answer, Claim):
            with self._lock:
                self._claims += 1
                self._errors_in_a_row = 0
            return self._run(answer)
        self._not_claimed(replace(task, found=found), answer)
        return True

    def _not_claimed(self, task: Task, answer: Gone | NotPending | Held | Later | Poison | Settled) -> None:
        now = self._store.clock.now()
        match answer:
            case Held(standing, takeable_at):
                awaited = task.awaited
                if awaited is not None and (awaited.token, awaited.until) != (standing.token, standing.until):
                    self._count("held")  # renewed, or claimed anew: somebody alive has it
                else:
                    again = Task(task.found, standing)
                    self._schedule.postpone(again, min(now + LOOK_AGAIN_SECONDS, takeable_at))
            case Later(due_at):
                self._schedule.postpone(Task(task.found), due_at)
            case Poison(standing):
                parked = self._store.park_poison(task.found, standing)
                if parked is not None:
                    self._count("crashed")
                    self._parked(task.found, parked)
            case Gone() | NotPending():
                self._count("skipped")
            case Settled():
                pass  # parked, or done

    def _run(self, claim: Claim) -> bool:
        if self._schedule.stopping:
            self._give_back(claim)
            return True
        began_at = time.monotonic()
        running = _Running(claim, began_at, began_at + self._store.lease_seconds / RENEWALS)
        with self._lock:
            self._running[id(running)] = running
            self.report.attempts += 1
        end: Ended | Exception
        try:
            refused = self._store.too_many_to_compare(claim.record)
            end = Ended(failure=Failure("TooManyAttributes", refused, False)) if refused else self._attempt(claim)
        except (Died, Overran, NotRun) as error:
            end = error
        except BaseException:
            if self._take_out(running):
                self._give_back(claim)
            raise
        if not self._take_out(running):
            return False
        self._settle(claim, end)
        if isinstance(end, Died | Overran) and end.unusable is not None:
            raise end.unusable
        return True

    def _attempt(self, claim: Claim) -> Ended:
        standing = claim.standing
        return self._runner.run(self._function, claim.item, standing.token, alone=standing.crashes > 0)

    def _take_out(self, running: _Running) -> bool:
        """Whether this attempt's end is ours to write (2)."""
        with self._lock:
            return self._running.pop(id(running), None) is not None

    # ── what became of it ────────────────────────────────────────────────────────────────────────

    def _settle(self, claim: Claim, end: Ended | Exception) -> None:
        match end:
            case Died(by_us=True):
                self._give_back(claim, again=True)
            case Died(message=message):
                self._crashed(claim, message)
            case NotRun():
                self._give_back(claim)
            case Overran():
                self._overran(claim)
            case Ended(failure=None, result=result):
                self._done(claim, result)
            case Ended(failure=failure):
                assert failure is not None
                if self._schedule.stopping and failure.kind == "KeyboardInterrupt":
                    self._give_back(claim)  # the Ctrl-C that stops us went to its process too
                else:
                    self._failed(claim, failure)

    def _done(self, claim: Claim, result: Mapping[str, Any] | None) -> None:
        try:
            self._check_result(result)
            answer = self._store.mark(claim, result)
        except (InvalidValue, ValidationException, BadResult) as error:
            # The record cannot be as the function wants it: too large, say, or of the wrong type for an index.
            self._failed(claim, Failure(type(error).__name__, str(error)[:500], retryable=False))
            return
        except PenstockError:
            raise
        except Exception as error:  # of a mark that is computed by a function
            self._failed(claim, failure_of(error, self._rules.retries))
            return
        if isinstance(answer, Written):
            self._count("processed")
        elif isinstance(answer, Changed):
            self._count("changed")
            names = ", ".join(answer.names[:5]) or "what it is selected by"
            text = f"somebody changed the record while it ran ({names}), so the result was not stored"
            self._failed(claim, Failure(RECORD_CHANGED, text, retryable=True))
        else:
            self._refused(answer)

    def _check_result(self, result: Mapping[str, Any] | None) -> None:
        for name in result or ():
            if name in self._protected:
                raise BadResult(f"the function returned {name}, which is part of the key or of the bookkeeping")

    def _failed(self, claim: Claim, failure: Failure) -> None:
        standing, now = claim.standing, self._store.clock.now()
        if not failure.retryable or standing.failures >= self._rules.max_retries:
            self._park(claim, standing.parked_for(failure.kind, failure.message, now), failure.trace)
            return
        wait = self._rules.backoff.seconds(standing.failures + 1, self._draw)
        self._try_again(claim, standing.after_failure(failure.kind, failure.message, now, now + wait))

    def _crashed(self, claim: Claim, message: str) -> None:
        self._count("crashed")
        standing, now = claim.standing, self._store.clock.now()
        if standing.crashes + 1 >= self._store.max_crashes:
            self._park(claim, standing.parked_as_poison(now, message[:500]), "")
            return
        wait = self._rules.backoff.seconds(standing.crashes + 1, self._draw)
        self._try_again(claim, standing.after_crash(message[:500], now, now + wait))

    def _overran(self, claim: Claim) -> None:
        self._count("timed_out")
        error = TimeoutError(f"still running after {self._rules.timeout_seconds:g} s")
        self._failed(claim, Failure("TimeoutError", str(error), self._rules.retries.retryable(error)))

    def _try_again(self, claim: Claim, standing: Standing) -> None:
        answer = self._store.put_standing(claim, standing)
        if isinstance(answer, Written):
            self._count("retried")
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

    def _give_back(self, claim: Claim, *, again: bool = False) -> None:
        standing = claim.standing.given_back()
        answer = self._store.put_standing(claim, standing)
        self._count("given_back")
        if again and isinstance(answer, Written):
            self._schedule.postpone(Task(Found(claim.key, standing.wire(), claim.value)), 0.0)

    def _refused(self, answer: object) -> None:
        self._count("deleted" if isinstance(answer, Gone) else "lost")

    def _count(self, name: str) -> None:
        with self._lock:
            setattr(self.report, name, getattr(self.report, name) + 1)

    # ── the watcher ──────────────────────────────────────────────────────────────────────────────

    def _watch(self) -> None:
        limit = self._rules.timeout_seconds
        limit = None if self._runner.watches_time else limit
        interval = min(0.5, self._store.lease_seconds / (4 * RENEWALS), limit / 4 if limit else 0.5)
        while not self._over.wait(interval):
            now = time.monotonic()
            with self._lock:
                running = list(self._running.values())
            for one in running:
                if limit is not None and now - one.began_at >= limit:
                    self._write_off(one)
                elif now >= one.renew_at:
                    self._renew(one, now)

    def _renew(self, running: _Running, now: float) -> None:
        running.renew_at = now + self._store.lease_seconds / RENEWALS
        try:
            answer = self._store.renew(running.claim)
        except PenstockError as error:
            # Two renewals may fail before the lease ends; then others may take it, and our mark is refused.
            running.renew_at = now + self._store.lease_seconds / (4 * RENEWALS)
            _log.warning("A lease could not be renewed: %s", error)
        else:
            if not isinstance(answer, Written):
                running.renew_at = float("inf")  # its end will be refused, and counted then

    def _write_off(self, running: _Running) -> None:
        """A function that hangs in a thread (3)."""
        if not self._take_out(running):
            return
        try:
            self._overran(running.claim)
        except PenstockError as error:
            self._fail(error)
        self._schedule.ended()
        self._hung += 1
        if self._hung > max(20, 4 * self._rules.max_workers):
            self._fail(
                PenstockError(
                    f"{self._hung} records were still running after {self._rules.timeout_seconds:g} s, and a thread "
                    "cannot be ended. Give the function time limits of its own, or a process pool (executor=)."
                )
            )
        self._thread(self._work)
