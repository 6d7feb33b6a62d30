"""Checkpoints: the log is copied into the file by a thread of its own, so that no write waits for the disk.

1. A checkpoint moves what is committed; it loses nothing and holds up neither readers nor writers.
2. The log begins again when all of it is copied and nobody reads from it. Under a stream of writes the thread is always
   a little behind: where the log has become long, it copies at once what was written meanwhile, which is little. Where
   that is not enough, the write that finds the log at `Store`'s bound copies the rest itself.
3. Writes that are too far ahead of a checkpoint wait for it: the log has an end, however slow the disk.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.errors import DatabaseLost, StorageError

if TYPE_CHECKING:
    from penstock.engine.storage.database_file import Connection

ROWS = 2000
"""Rows written between two checkpoints. Each changes a page or two: about 16 MB of log."""
LONG_PAGES = 4_000
_TRIES = 4
AHEAD_ROWS = 40_000
AHEAD_SECONDS = 10.0  # then a write goes on all the same: a disk that is stuck is told by its own errors

_LOG = logging.getLogger(__name__)


class Checkpoints:
    """Those of one file. The thread starts when there is first something to copy."""

    def __init__(self, connect: Callable[[], Connection], look: Callable[[], None]) -> None:
        self._connect = connect
        self._look = look
        self._rows = 0
        self._due = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._starting = threading.Lock()
        self._ended = False
        self._thread: threading.Thread | None = None

    @property
    def are_behind(self) -> bool:
        """Whether the next write would wait for a checkpoint (3)."""
        return self._rows >= AHEAD_ROWS and not self._idle.is_set()

    def count_rows(self, connection: Connection) -> bool:
        """Takes notice of what a connection has written since the last count, as `wrote` does."""
        rows = connection.total_changes - connection.rows_counted
        connection.rows_counted += rows
        return self.wrote(rows)

    def wrote(self, rows: int) -> bool:
        """Takes notice of rows that were written; whether a checkpoint begins. May wait."""
        self._rows += rows  # of two threads at once, one may be overlooked: it is a measure, not an account
        if self._rows < ROWS:
            return False
        if self._rows >= AHEAD_ROWS:
            self._idle.wait(AHEAD_SECONDS)
        if not self._idle.is_set():
            return False
        self._rows = 0
        self._wake()
        return True

    def wait(self) -> None:
        """Waits for the checkpoint that is under way, if there is one."""
        self._idle.wait(AHEAD_SECONDS)

    def _wake(self) -> None:
        with self._starting:
            if self._ended:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="penstock-checkpoints", daemon=True)
                self._thread.start()
            self._idle.clear()
            self._due.set()

    def stop(self) -> None:
        """Ends the thread after the checkpoint it is at."""
        with self._starting:
            self._ended = True
        self._due.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            connection = self._connect()
            while self._due.wait() and not self._ended:
                self._due.clear()
                self._copy(connection)
                self._idle.set()
        except DatabaseLost:
            pass  # whoever calls next is told
        except (sqlite3.Error, StorageError) as error:
            # Writes go on, and copy the log themselves at its bound; if the disk is at fault, they say so.
            _LOG.warning("Checkpoints in the background have ended: %s", error)
        with self._starting:
            self._ended = True
            self._idle.set()

    def _copy(self, connection: Connection) -> None:
        try:
            self._look()  # the log is copied into its own file, and no other
            for _ in range(_TRIES):
                with connection.busy:
                    _, pages, copied = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                if pages == copied or pages < LONG_PAGES:
                    break  # (2)
        except sqlite3.OperationalError as error:
            # A full disk: the next one may find room.
            _LOG.warning("A checkpoint failed, and is made again after the next writes: %s", error)
