"""Work that nobody's call pays for: building indexes, ending delays, deleting what has expired.

1. `run_due` does one round of everything that is due by the engine's clock, in short transactions, and says when to
   look again. A test with a clock of its own calls it; otherwise one thread of the engine does.
2. The thread starts when there is first something to wait for, and holds nothing back: it is a daemon, and every step
   of its work can be cut off by `kill -9` and is taken up again by whoever opens the file next.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Final

from penstock.engine.maintenance.steps import StepSizes
from penstock.engine.storage.write_lock import is_busy
from penstock.errors import DatabaseLost

if TYPE_CHECKING:
    from penstock.engine.engine import Engine
    from penstock.engine.recovery.restored_indexes import Run

Chore = Callable[["Engine"], float | None]
"""Does what is due of one kind of work; seconds until there is more, or None if there is none to expect."""

CHORES: list[Chore] = []

# The files that register chores. They are imported by the first round: a database with no such work starts sooner.
_HOMES = (
    "catalog.index_backfill",
    "ttl.sweeper",
    "streams.stream_records",
    "recovery.journal",
    "recovery.backups",
    "recovery.restore_steps",
    "maintenance.dropped_tables",
    "operations.table_states",
)

_LOG = logging.getLogger(__name__)

# A round never waits longer than this: another process may have made work that nobody told us of.
_LONGEST_WAIT_SECONDS = 5.0
_SHORTEST_WAIT_SECONDS = 0.001

_REST: Final = 0.5
"""How long the thread rests after a round, in terms of the round: others write meanwhile, here or elsewhere."""

_LEFT = """
SELECT EXISTS (SELECT 1 FROM streams)
OR EXISTS (SELECT 1 FROM backups WHERE expires_at IS NOT NULL OR instr(record, '"copy":'))
OR EXISTS (SELECT 1 FROM sqlite_master WHERE name GLOB 'garbage_*')
"""
"""Whether there is work that no table speaks for: its table is gone, or it is a backup's."""


def chore(work: Chore) -> Chore:
    """Registers a kind of background work."""
    CHORES.append(work)
    return work


class Maintenance:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._passed_over: set[str] = set()
        self.step_sizes = StepSizes()
        self.index_runs: dict[str, Run] = {}

    def run_due(self) -> float | None:
        """One round; seconds until the next one is due, or None if there is nothing to wait for.

        Where a kind of work fails, the others are done before its error is raised.
        """
        for home in _HOMES:
            import_module(f"penstock.engine.{home}")
        waits: list[float] = []
        failures: list[Exception] = []
        for work in CHORES:
            try:
                wait = work(self._engine)
            except Exception as error:  # the others' work is not to wait for it: one damaged table concerns only itself
                failures.append(error)
            else:
                waits += [] if wait is None else [wait]
        if failures:
            raise failures[0]
        return min(waits) if waits else None

    def pass_over(self, table: str, error: sqlite3.DatabaseError) -> None:
        """Says, once, that a table's work cannot be done; anything that is not damage is raised again."""
        if "malformed" not in str(error):
            raise error
        if table not in self._passed_over:
            self._passed_over.add(table)
            _LOG.error("Background work of a table cannot be done: %s", self._engine.store.trouble(error, table))

    def is_passed_over(self, table: str) -> bool:
        return table in self._passed_over

    def wake(self) -> None:
        """Says that there may be work now; starts the thread if it does not run yet."""
        with self._starting:
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(target=self._loop, name="penstock-maintenance", daemon=True)
                self._thread.start()
        self._wake.set()

    def wake_if_due(self) -> None:
        """When a file is opened: takes up what another process left."""
        if self._engine.store.memory:
            return
        db = self._engine.store.connection()
        left = db.execute(_LEFT).fetchone()[0]
        if left or any(_has_work(table.record) for table in self._engine.catalog.all(db)):
            self.wake()

    def notice(self, record: object) -> None:
        """When a table's record has been read: the process that did its work may have gone since this one began."""
        if _has_work(record):
            self.take_up()

    def take_up(self) -> None:
        """When work was seen that another process has begun, and may have left."""
        if self._thread is None and not self._stopping:
            self.wake()

    def stop(self) -> None:
        """Ends the thread after the step it is at."""
        with self._starting:
            self._stopping = True
            thread = self._thread
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _loop(self) -> None:
        while not self._stopping and not self._engine.store.watch.failure:
            self._wake.clear()
            with self._engine.store.lock:
                pass  # who woke us may still be in the transaction that has made the work
            began = perf_counter()
            wait = self._round()
            if self._stopping:
                return
            if wait is None:
                self._wake.wait(_LONGEST_WAIT_SECONDS)
            else:
                rest = max((perf_counter() - began) * _REST, _SHORTEST_WAIT_SECONDS)
                self._wake.wait(min(max(wait, rest), _LONGEST_WAIT_SECONDS))

    def _round(self) -> float | None:
        try:
            return self.run_due()
        except DatabaseLost as lost:
            _LOG.error("Background work has ended: %s", lost)
            return None
        except Exception as error:
            if isinstance(error, sqlite3.Error) and is_busy(error):
                return _SHORTEST_WAIT_SECONDS  # another process reads the log anew, which is soon done
            # A full disk, or a file that another process holds: the work is still there when that is over.
            _LOG.exception("Background work failed; it is tried again in %s s.", _LONGEST_WAIT_SECONDS)
            return _LONGEST_WAIT_SECONDS


def _has_work(record: object) -> bool:
    if not isinstance(record, dict):
        return False
    building = any("backfill_cursor" in index for index in record.get("GlobalSecondaryIndexes", ()))
    return bool(building or any(record.get(member) for member in ("ttl", "stream", "pitr", "unsettled")))
