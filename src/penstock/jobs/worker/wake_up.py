"""Wakes an idle worker when somebody has written to the database: another process, another machine at the same server.

1. Every write is a reason to poll, whatever it was: a job, a retry, a queue that is resumed. Whether it concerns this
   worker's queues is for the poll to find out.
2. The first one is a reason at once. While polls find nothing, those for further writes come less often, down to one in
   `_LONGEST_GAP_SECONDS`: beside any number of writes that are none of its business, a worker polls 33 times a second.
3. The poll of its own at each end of `idle_seconds` stays: a wake-up may be missed, and costs that time then. Where it
   is a server that wakes it, that is `Changes.poll_seconds`.
4. Where the database does not tell of changes (AWS), the worker polls as ever.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

from penstock.client.database import Database
from penstock.client.transports.base import Changes
from penstock.errors import PenstockError
from penstock.jobs.worker.fetcher import Fetcher
from penstock.retry import Backoff

_LOG = logging.getLogger("penstock.jobs")

_GAP_SECONDS: Final = 0.005
_LONGEST_GAP_SECONDS: Final = 0.03
_WAIT_SECONDS: Final = 20.0
_END_SECONDS: Final = 1.0  # for a server that does not answer, nobody waits longer
_RETRIES: Final = Backoff(0.5, 2.0, 30.0)


class WakeUp:
    """A thread that waits for changes of the database, and has the fetcher poll."""

    def __init__(self, db: Database, fetcher: Fetcher) -> None:
        self._db = db
        self._fetcher = fetcher
        self._stopped = threading.Event()
        self._changes: Changes | None = None
        self._thread = threading.Thread(target=self._run, name="penstock-wake-up", daemon=True)

    def start(self) -> None:
        if self._db.capabilities.tells_changes:
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._changes is not None:
            self._changes.close()
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        failures = 0
        while not self._stopped.is_set():
            began_at = time.monotonic()
            try:
                self._changes = self._db.changes()
                if self._changes is None:
                    return
                self._follow(self._changes)
            except PenstockError as error:
                # The polls tell of a database that is away; they go on as often as if there were no wake-up.
                _LOG.debug("The database does not tell of changes now: %s", error)
            self._fetcher.quiet_seconds = 0.0
            failures = 1 if time.monotonic() - began_at > _RETRIES.cap_seconds else failures + 1
            self._stopped.wait(_RETRIES.bound(failures))

    def _follow(self, changes: Changes) -> None:
        gap = _GAP_SECONDS
        while not self._stopped.is_set():
            began_at = time.monotonic()
            has_changed = changes.wait(_WAIT_SECONDS)
            self._fetcher.quiet_seconds = changes.poll_seconds
            if not has_changed:
                continue
            found_jobs = self._fetcher.poll_soon()
            was_quiet = time.monotonic() - began_at > _LONGEST_GAP_SECONDS
            gap = _GAP_SECONDS if found_jobs or was_quiet else min(2 * gap, _LONGEST_GAP_SECONDS)
            self._stopped.wait(gap)
