"""The watcher: renews the leases of what runs, and writes off functions that hang in a thread.

A worker whose function hangs is written off: another takes its place, and what it still returns is thrown away.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from penstock.errors import PenstockError
from penstock.leases import RENEWALS
from penstock.records.run.run_context import Running, Shift
from penstock.records.state.answers import Written

_log = logging.getLogger(__name__)


class Crew(Protocol):
    """Workers, with a clerk or without."""

    def work(self) -> None: ...

    def overran(self, running: Running) -> None: ...


class Watcher:
    """Of one run. `start` starts a thread."""

    def __init__(self, shift: Shift, crew: Crew, start: Callable[[Callable[[], None]], None]) -> None:
        self.over = threading.Event()
        self._shift = shift
        self._store = shift.store
        self._crew = crew
        self._start = start
        self._hung = 0

    def watch(self) -> None:
        """Until it is over."""
        limit = None if self._shift.runner.watches_time else self._shift.rules.timeout_seconds
        interval = min(0.5, self._store.lease_seconds / (4 * RENEWALS), limit / 4 if limit else 0.5)
        while not self.over.wait(interval):
            now = time.monotonic()
            for one in self._shift.in_hand():
                if limit is not None and now - one.began_at >= limit:
                    self._write_off(one)
                elif now >= one.renew_at:
                    self._renew(one, now)

    def _renew(self, running: Running, now: float) -> None:
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

    def _write_off(self, running: Running) -> None:
        if not self._shift.take_out(running):
            return
        self._crew.overran(running)
        self._hung += 1
        rules = self._shift.rules
        if self._hung > max(20, 4 * rules.max_workers):
            self._shift.fail(
                PenstockError(
                    f"{self._hung} records were still running after {rules.timeout_seconds:g} s, and a thread "
                    "cannot be ended. Give the function time limits of its own, or a process pool (executor=)."
                )
            )
        self._start(self._crew.work)
