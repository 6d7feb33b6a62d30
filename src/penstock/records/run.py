"""One run over a source: a feeder, a bounded pool of workers, and a watcher of leases and time limits.

1. A record's failure, whatever it is, stops nothing else. What stops a run is the database, the executor, or the user.
2. An attempt has one end. Who takes it out of `_running`, its worker or the watcher, says what became of it.
3. A worker whose function hangs is written off: another takes its place, and what it still returns is thrown away.
4. After a stop nothing is begun. What runs may finish in its grace time; what then still runs keeps its lease, which
   ends by itself: it is never given to another while it may still be at work here.

A remote database takes many requests at once: there each worker claims its records and marks them. The embedded one
writes one commit at a time: there a clerk claims and marks for all, as much as there is in one commit, and the workers
do nothing but run the function.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.records.attempts import Ended, Failure, Function
from penstock.records.executors import Died, NotRun, Overran, Runner
from penstock.records.leases import RENEWALS
from penstock.records.outcomes import End, Outcomes, Rules
from penstock.records.report import Progress, Report
from penstock.records.schedule import Schedule, Task
from penstock.records.steps import Steps, drive_together
from penstock.records.store import Claim, ClaimAnswer, MarkAnswer, RecordStore, Written

_TICK_SECONDS: Final = 0.1
_ERRORS_IN_A_ROW: Final = 20  # of a database that may be back soon
_AHEAD_SECONDS: Final = 0.02
"""Work that is claimed ahead of the workers, so that they need not wait for the clerk. Long functions have none."""

_MOST_AHEAD: Final = 4  # for each worker

_VAIN_CLAIMS: Final = 16
_LONGEST_JUMP: Final = 20  # pages
_JUMPING_PASSES: Final = 3

_log = logging.getLogger(__name__)


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
    """A claim in hand. `began_at` is when its function was begun; infinite before that."""

    claim: Claim
    renew_at: float
    began_at: float = float("inf")


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
        self._outcomes = Outcomes(store, self._schedule, rules, self.report, draw)
        self._db = store.source.db
        self._has_clerk = getattr(self._db.transport, "execute_together", None) is not None
        self._claimed: queue.SimpleQueue[_Running | None] = queue.SimpleQueue()
        self._usual_seconds: float | None = None
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

    # ── from the caller's thread ─────────────────────────────────────────────────────────────────

    def go(self) -> Report:
        """Runs to the end. Raises Interrupted for Ctrl-C, ProcessingStopped for what it cannot go on from."""
        interrupted = False
        try:
            self._start()
            self._wait()
        except KeyboardInterrupt:
            interrupted = True
            self.stop()
            self._wait_for_grace()
        finally:
            self._halt()  # also where `progress` raised something
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
        self._alive = self._rules.max_workers
        for _ in range(self._rules.max_workers):
            self._thread(self._run_claimed if self._has_clerk else self._work)
        if self._has_clerk:
            self._thread(self._keep_books)
        self._thread(self._watch)
        self._thread(self._feed)

    def _thread(self, target: Callable[[], None]) -> None:
        # A daemon: a function that hangs must not keep the process from ending.
        threading.Thread(target=target, name=f"records{target.__name__}", daemon=True).start()

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
        running = min(len(self._running), self._rules.max_workers)
        self._tell(Progress(report.processed, report.failed, running, waiting, seconds, rate, self._total), report)

    def _fail(self, error: BaseException) -> None:
        """The run cannot go on (1)."""
        with self._lock:
            if self._fatal is None:
                self._fatal = error
        self._halt()

    # ── the feeder ───────────────────────────────────────────────────────────────────────────────

    def _feed(self) -> None:
        try:
            for number in range(self._rules.max_iterations):
                claims = self._claims
                jumped = self._one_pass(may_jump=number < _JUMPING_PASSES)
                if self._schedule.stopping or (self._claims == claims and not jumped):
                    break
        except BaseException as error:
            self._fail(error)
        finally:
            self._schedule.close()

    def _one_pass(self, *, may_jump: bool) -> bool:
        """Through the whole source; whether it jumped over some of it.

        Processors that read the same pages at the same time want the same records. One that asks in vain too often
        jumps ahead, to where the others are not; what it jumped over is seen in the next pass.
        """
        self.report.held = 0
        jumped, claims, vain = False, self._claims, self.report.skipped
        pages = self._store.source.pages(self._draw)
        while self._schedule.wait_for_room() and (page := next(pages, None)) is not None:
            self._schedule.feed(page)
            if may_jump and self.report.skipped - vain > max(_VAIN_CLAIMS, (self._claims - claims) / 4):
                jumped, claims, vain = True, self._claims, self.report.skipped
                for _ in islice(pages, self._draw.randint(1, _LONGEST_JUMP)):
                    pass
        if self._schedule.wait_until_idle():
            self.report.passes += 1
        return jumped

    # ── workers that claim and mark by themselves ────────────────────────────────────────────────

    def _work(self) -> None:
        while (task := self._schedule.take()) is not None:
            mine = True
            try:
                mine = self._handle(task)
            except BaseException as error:
                self._trouble(task, error)
            if not mine:
                return  # written off: another thread has this one's place
            self._schedule.ended()
        self._gone()

    def _gone(self) -> None:
        with self._lock:
            self._alive -= 1
            last = not self._alive
        if last:
            self._finished.set()

    def _trouble(self, task: Task | None, error: BaseException) -> None:
        """The database did not do what was asked. What may pass is tried again, for a while."""
        with self._lock:
            self._errors_in_a_row += 1
            hopeless = self._errors_in_a_row > _ERRORS_IN_A_ROW
        if not isinstance(error, PenstockError) or not error.retryable or hopeless:
            self._fail(error)
        elif task is not None:
            wait = self._rules.backoff.seconds(self._errors_in_a_row, self._draw)
            self._schedule.postpone(task, self._store.clock.now() + wait)

    def _handle(self, task: Task) -> bool:
        """Looks at a record, and runs it if it may be. False if this thread was written off meanwhile."""
        looked = self._looked(task)
        if looked is None:
            return True
        answer = self._store.claim(looked.found)
        if not isinstance(answer, Claim):
            self._outcomes.not_claimed(looked, answer)
            return True
        running = self._take_in(answer)
        end = self._end_of(running)
        if not self._take_out(running):
            return False
        self._settle(running.claim, end)
        return True

    def _looked(self, task: Task) -> Task | None:
        """The record as it is now, if it is looked at once more; None if it is gone."""
        if task.awaited is None:
            return task
        found = self._store.look(task.found)
        if found is None:
            self._outcomes.count("skipped")
            return None
        return replace(task, found=found)

    def _settle(self, claim: Claim, end: End | BaseException) -> None:
        if isinstance(end, Ended | Died | Overran | NotRun):
            self._outcomes.settle(claim, end)
        else:
            self._outcomes.give_back(claim)  # it was not run: the executor is unusable
            raise end

    # ── one attempt ──────────────────────────────────────────────────────────────────────────────

    def _take_in(self, claim: Claim) -> _Running:
        running = _Running(claim, time.monotonic() + self._store.lease_seconds / RENEWALS)
        with self._lock:
            self._running[id(running)] = running
            self._claims += 1
            self._errors_in_a_row = 0
        return running

    def _take_out(self, running: _Running) -> bool:
        """Whether this attempt's end is ours to tell (2)."""
        with self._lock:
            return self._running.pop(id(running), None) is not None

    def _end_of(self, running: _Running) -> End | BaseException:
        """Runs the function. An exception that is no `End` is about the executor."""
        claim = running.claim
        if self._schedule.stopping or time.monotonic() >= claim.believed_until:
            return NotRun()  # held up for so long that another may have it by now
        refused = self._store.too_many_to_compare(claim.record)
        if refused:
            return Ended(failure=Failure("TooManyAttributes", refused, retryable=False))
        running.began_at = time.monotonic()
        self._outcomes.count("attempts")
        standing = claim.standing
        try:
            return self._runner.run(self._function, claim.item, standing.token, alone=standing.crashes > 0)
        except BaseException as error:
            return error

    # ── a clerk, and workers that only run ───────────────────────────────────────────────────────

    def _run_claimed(self) -> None:
        while (running := self._claimed.get()) is not None:
            end = self._end_of(running)
            if not self._take_out(running):
                return  # written off: another thread has this one's place
            self._schedule.report((running, end))
        self._gone()

    def _keep_books(self) -> None:
        in_hand = 0
        workers = self._rules.max_workers
        while True:
            ahead = self._ahead()
            # While the workers have records ahead, what has ended can wait for company.
            gather = max(ahead // 2, 1) if in_hand >= workers + ahead // 2 else 1
            batch = self._schedule.batch(workers + ahead - in_hand, in_hand, gather)
            if batch is None:
                break
            ends, tasks = batch
            in_hand -= len(ends)
            try:
                in_hand += self._write(ends, tasks)
            except BaseException as error:
                self._trouble(None, error)
                for _ in (*ends, *tasks):
                    self._schedule.ended()
        for _ in range(workers):
            self._claimed.put(None)

    def _ahead(self) -> int:
        """How many records are claimed beyond those that run: as much as the workers do in a moment."""
        if self._usual_seconds is None:
            return 0
        workers = self._rules.max_workers
        return int(workers * min(_AHEAD_SECONDS / max(self._usual_seconds, 1e-6), _MOST_AHEAD))

    def _write(self, ends: list[tuple[_Running, End | BaseException]], tasks: list[Task]) -> int:
        """What ended and what is next, in one commit; how many were claimed."""
        outcomes, conversations = self._outcomes, list[Steps[MarkAnswer | ClaimAnswer]]()
        good = [(running, end) for running, end in ends if isinstance(end, Ended) and end.failure is None]
        looked = [one for task in tasks if (one := self._looked(task)) is not None]
        conversations += [self._marking(running.claim, end) for running, end in good]
        conversations += [self._store.claiming(task.found) for task in looked]
        answers: list[Any] = drive_together(conversations, self._db)
        for (running, _), marked in zip(good, answers, strict=False):
            self._took(time.monotonic() - running.began_at)
            self._safely(None, outcomes.marked, running.claim, marked)
        for running, end in ends:
            if not isinstance(end, Ended) or end.failure is not None:
                self._safely(None, self._settle, running.claim, end)
        claims = 0
        for task, answer in zip(looked, answers[len(good) :], strict=True):
            if isinstance(answer, Claim):
                claims += 1
                self._claimed.put(self._take_in(answer))
            elif isinstance(answer, Exception):
                self._trouble(task, answer)
            else:
                self._safely(task, outcomes.not_claimed, task, answer)
        for _ in range(len(ends) + len(tasks) - claims):
            self._schedule.ended()
        return claims

    def _took(self, seconds: float) -> None:
        usual = self._usual_seconds
        self._usual_seconds = seconds if usual is None else usual + (seconds - usual) / 16

    def _marking(self, claim: Claim, end: Ended) -> Steps[MarkAnswer | ClaimAnswer]:
        self._outcomes.check_result(end.result)
        return (yield from self._store.marking(claim, end.result))

    def _safely(self, task: Task | None, write: Callable[..., None], *arguments: Any) -> None:
        try:
            write(*arguments)
        except BaseException as error:
            self._trouble(task, error)

    # ── the watcher ──────────────────────────────────────────────────────────────────────────────

    def _watch(self) -> None:
        limit = None if self._runner.watches_time else self._rules.timeout_seconds
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
        if self._has_clerk:
            self._schedule.report((running, Overran()))
        else:
            self._safely(None, self._outcomes.overran, running.claim)
            self._schedule.ended()
        self._hung += 1
        if self._hung > max(20, 4 * self._rules.max_workers):
            self._fail(
                PenstockError(
                    f"{self._hung} records were still running after {self._rules.timeout_seconds:g} s, and a thread "
                    "cannot be ended. Give the function time limits of its own, or a process pool (executor=)."
                )
            )
        self._thread(self._run_claimed if self._has_clerk else self._work)
