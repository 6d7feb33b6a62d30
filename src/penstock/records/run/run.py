"""One run over a source: a feeder, a bounded pool of workers, and a watcher of leases and time limits.

1. A record's failure, whatever it is, stops nothing else. What stops a run is the database, the executor, or the user.
2. An attempt has one end. Who takes it out of hand, its worker or the watcher, says what became of it.
3. A worker whose function hangs is written off: another takes its place, and what it still returns is thrown away.
4. After a stop nothing is begun. What runs may finish in its grace time; what then still runs keeps its lease, which
   ends by itself: it is never given to another while it may still be at work here.

A remote database takes many requests at once: there each worker claims its records and marks them (workers.py). The
embedded one writes one commit at a time: there a clerk writes for all (group_writer.py).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Final

from penstock.errors import PenstockError
from penstock.records.executors.attempts import Function
from penstock.records.executors.executors import Runner
from penstock.records.run.group_writer import Clerk
from penstock.records.run.lease_watcher import Watcher
from penstock.records.run.outcomes import Rules
from penstock.records.run.report import Progress, Report
from penstock.records.run.run_context import Shift
from penstock.records.run.workers import Workers
from penstock.records.source.feeder import Feeder
from penstock.records.state.store import RecordStore

_TICK_SECONDS: Final = 0.1


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
        self._rules = rules
        self._total = total
        self._tell = tell
        self._shift = Shift(store, runner, function, rules, self.report, draw)
        has_clerk = store.source.db.capabilities.shares_commits
        self._crew = Clerk(self._shift) if has_clerk else Workers(self._shift)
        self._watcher = Watcher(self._shift, self._crew, _start)
        self._began_at = time.monotonic()

    def go(self) -> Report:
        """Runs to the end. Raises Interrupted for Ctrl-C, ProcessingStopped for what it cannot go on from."""
        interrupted = False
        finished, fatal = self._shift.finished, None
        try:
            self._begin()
            self._wait()
        except KeyboardInterrupt:
            interrupted = True
            self.stop()
            self._wait_for_grace()
        finally:
            self._shift.halt()  # also where `progress` raised something
            self._watcher.over.set()
            self._leave(now=interrupted or not finished.is_set())
        if interrupted:
            raise Interrupted(self.report)
        fatal = self._shift.fatal
        if fatal is not None:
            raise ProcessingStopped(self.report, str(fatal) or repr(fatal)) from fatal
        return self.report

    def stop(self) -> None:
        """Nothing more is begun; what runs may finish (4)."""
        self.report.interrupted = True
        self._shift.halt()

    def _begin(self) -> None:
        for _ in range(self._rules.max_workers):
            _start(self._crew.work)
        if isinstance(self._crew, Clerk):
            _start(self._crew.keep_books)
        _start(self._watcher.watch)
        _start(Feeder(self._shift).feed)

    def _wait(self) -> None:
        """Until all workers are gone; after a stop for as long as the grace time."""
        while not self._shift.finished.wait(_TICK_SECONDS):
            self._told()
            if self._shift.schedule.stopping:
                self._wait_for_grace()
                return

    def _wait_for_grace(self) -> None:
        until = time.monotonic() + self._rules.grace_seconds
        try:
            while not self._shift.finished.wait(min(_TICK_SECONDS, max(until - time.monotonic(), 0.0))):
                self._told()
                if time.monotonic() >= until:
                    return
        except KeyboardInterrupt:
            self.report.interrupted = True  # the second one: at once

    def _leave(self, *, now: bool) -> None:
        self.report.left = self._shift.let_go()
        self.report.seconds = time.monotonic() - self._began_at
        self._shift.runner.close(now=now)
        self._told()

    def _told(self) -> None:
        if self._tell is None:
            return
        report, seconds = self.report, max(time.monotonic() - self._began_at, 1e-6)
        waiting, rate = self._shift.schedule.waiting, (report.processed + report.failed) / seconds
        running = min(len(self._shift.in_hand()), self._rules.max_workers)
        self._tell(Progress(report.processed, report.failed, running, waiting, seconds, rate, self._total), report)


def _start(target: Callable[[], None]) -> None:
    # A daemon: a function that hangs must not keep the process from ending.
    threading.Thread(target=target, name=f"records-{target.__name__}", daemon=True).start()
