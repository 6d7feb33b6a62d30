"""One run over a source: a feeder, a bounded pool of workers, and a thread that renews leases and keeps the time limit.

1. A record's failure, whatever it is, stops nothing else. What stops a run is the database, the executor, or the user.
2. An attempt has one end. Who takes it out of hand, its worker or the time limit, says what became of it.
3. A worker whose function hangs is written off: another takes its place, and what it still returns is thrown away.
4. After a stop nothing is begun. What runs may finish in its grace time; what then still runs keeps its lease, which
   ends by itself: it is never given to another while it may still be at work here.
5. The last pass over the source begins when nothing is in hand, and finds nothing to claim: what functions add is seen
   too.
6. Where others are at work, the first passes are hurried: what another holds, or is going to take, is left for the next
   pass, which begins at once. Waiting for others comes last, when there is nothing else to do.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Final

from penstock.errors import PenstockError
from penstock.leases import RENEWALS, LeaseRenewer
from penstock.records.executors import Function, Runner
from penstock.records.run.report import Progress, Report
from penstock.records.run.run_context import Rules, RunContext, Running
from penstock.records.run.workers import DirectWorkers, GroupWriter
from penstock.records.store import RecordStore

_HURRIED_PASSES: Final = 5
_TICK_SECONDS: Final = 0.1
_LOOK_SECONDS: Final = 0.5


class ProcessingStopped(PenstockError):
    """A run could not continue. `report` says what was done so far; running it again continues from there."""

    def __init__(self, report: Report, reason: str) -> None:
        super().__init__(f"Stopped after {report}: {reason}")
        self.report = report


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run. `report` says what was done so far; running it again continues from there."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


class Feeder:
    """Reads the source, page by page and again and again, until there is nothing more in it (5, 6)."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._schedule = context.schedule

    def feed(self) -> None:
        try:
            self._passes()
        except BaseException as error:
            self._context.fail(error)
        finally:
            self._schedule.close()

    def _passes(self) -> None:
        context, schedule, most = self._context, self._schedule, self._context.rules.max_iterations
        hurried = min(_HURRIED_PASSES, most - 1)
        for number in range(most):
            claims, rested = context.claims, schedule.idle
            fed, left = self._one_pass(number, hurried=number < hurried)
            if not schedule.wait_until_begun():
                return
            context.report.passes += 1
            if fed and left and number + 1 < hurried:
                continue  # at once (6)
            if not schedule.wait_until_idle():
                return
            if left or context.outcomes.passed_over:
                hurried = 0
            elif rested and context.claims == claims:
                return  # (5)

    def _one_pass(self, number: int, *, hurried: bool) -> tuple[int, int]:
        """Through the whole source; how many records were handed over, and how many were left to others."""
        context = self._context
        context.report.held = context.outcomes.passed_over = fed = left = 0
        context.outcomes.waits_for_others = not hurried
        pages = context.store.source.pages(context.draw)
        while self._schedule.wait_for_room() and (page := next(pages, None)) is not None:
            if hurried:
                everything = len(page)
                page = context.other_processors.select_ours(page, number)
                left += everything - len(page)
            fed += len(page)
            self._schedule.feed(page)
        return fed, left


class TimeLimit:
    """Writes off functions that hang in a thread (3)."""

    def __init__(self, context: RunContext, workers: DirectWorkers | GroupWriter) -> None:
        self._context = context
        self._workers = workers
        # An executor looks at the clock itself.
        self._seconds = None if context.runner.watches_time else context.rules.timeout_seconds
        self._hung = 0

    def keep(self) -> float:
        """Writes off what has overrun the limit; when to look again, also at leases that were granted meanwhile."""
        again = min(_LOOK_SECONDS, self._context.store.lease_seconds / (4 * RENEWALS))
        if self._seconds is None:
            return again
        now = time.monotonic()
        for running in self._context.in_hand():
            if now - running.began_at >= self._seconds:
                self._write_off(running)
        return min(again, self._seconds / 4)

    def _write_off(self, running: Running) -> None:
        if not self._context.take_out(running):
            return
        self._workers.on_overrun(running)
        self._hung += 1
        rules = self._context.rules
        if self._hung > max(20, 4 * rules.max_workers):
            self._context.fail(
                PenstockError(
                    f"{self._hung} records were still running after {rules.timeout_seconds:g} s, and a thread "
                    "cannot be ended. Give the function time limits of its own, or a process pool (executor=)."
                )
            )
        _start(self._workers.work)


class RecordRun:
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
        on_progress: Callable[[Progress, Report], object] | None = None,
    ) -> None:
        self.report = Report(run_id)
        self._rules = rules
        self._total = total
        self._on_progress = on_progress
        self._context = RunContext(store, runner, function, rules, self.report, draw)
        has_group_writer = store.source.db.capabilities.shares_commits
        self._workers = GroupWriter(self._context) if has_group_writer else DirectWorkers(self._context)
        time_limit = TimeLimit(self._context, self._workers)
        self._renewer = LeaseRenewer(self._context.in_hand, beside=time_limit.keep, name="records-leases")
        self._began_at = time.monotonic()

    def go(self) -> Report:
        """Runs to the end. Raises Interrupted for Ctrl-C, ProcessingStopped for what it cannot go on from."""
        interrupted = False
        finished, fatal = self._context.finished, None
        try:
            self._begin()
            self._wait()
        except KeyboardInterrupt:
            interrupted = True
            self.stop()
            self._wait_for_grace()
        finally:
            self._context.halt()  # also where `progress` raised something
            self._renewer.stop(timeout=0)
            self._leave(now=interrupted or not finished.is_set())
        if interrupted:
            raise Interrupted(self.report)
        fatal = self._context.fatal
        if fatal is not None:
            raise ProcessingStopped(self.report, str(fatal) or repr(fatal)) from fatal
        return self.report

    def stop(self) -> None:
        """Nothing more is begun; what runs may finish (4)."""
        self.report.interrupted = True
        self._context.halt()

    def _begin(self) -> None:
        for _ in range(self._rules.max_workers):
            _start(self._workers.work)
        if isinstance(self._workers, GroupWriter):
            _start(self._workers.write_groups)
        self._renewer.start()
        _start(Feeder(self._context).feed)

    def _wait(self) -> None:
        """Until all workers are gone; after a stop for as long as the grace time."""
        while not self._context.finished.wait(_TICK_SECONDS):
            self._report_progress()
            if self._context.schedule.stopping:
                self._wait_for_grace()
                return

    def _wait_for_grace(self) -> None:
        until = time.monotonic() + self._rules.grace_seconds
        try:
            while not self._context.finished.wait(min(_TICK_SECONDS, max(until - time.monotonic(), 0.0))):
                self._report_progress()
                if time.monotonic() >= until:
                    return
        except KeyboardInterrupt:
            self.report.interrupted = True  # the second one: at once

    def _leave(self, *, now: bool) -> None:
        self.report.left = self._context.drop_all()
        self.report.seconds = time.monotonic() - self._began_at
        self._context.runner.close(now=now)
        self._report_progress()

    def _report_progress(self) -> None:
        if self._on_progress is None:
            return
        report, seconds = self.report, max(time.monotonic() - self._began_at, 1e-6)
        waiting, rate = self._context.schedule.waiting, (report.processed + report.failed) / seconds
        running = min(len(self._context.in_hand()), self._rules.max_workers)
        self._on_progress(
            Progress(report.processed, report.failed, running, waiting, seconds, rate, self._total), report
        )


def _start(target: Callable[[], None]) -> None:
    # A daemon: a function that hangs must not keep the process from ending.
    threading.Thread(target=target, name=f"records-{target.__name__}", daemon=True).start()
