"""SQLite's write lock of a file, where several processes write.

SQLite's own busy handler asks again after 1 ms, then after 2, 5, 10 … and at last 100: who has waited longest asks
least often, and among processes that write all the time the others are always there first. So connections have no busy
timeout, and a process waits by itself:

1. It asks again after a millisecond, or an eighth of the time that it has waited: who waits long does not keep a core
   busy, and loses little.
2. It gives up after `busy_seconds`, with SQLite's own error.
3. Who writes alone asks once.
4. Whether somebody else has the lock is what SQLite says, never how long a statement took.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SHORTEST_SECONDS: Final = 0.001
_PART: Final = 1 / 8
_BEGIN: Final = "BEGIN IMMEDIATE"
_PRIMARY: Final = 0xFF  # of an error code: SQLITE_BUSY_RECOVERY is SQLITE_BUSY too


def is_busy(error: sqlite3.Error) -> bool:
    """Whether SQLite refused because somebody else has a lock."""
    code = getattr(error, "sqlite_errorcode", 0)  # errors of Python's own, such as that of a closed one, have none
    return code & _PRIMARY == sqlite3.SQLITE_BUSY


class WriteLock:
    """That of one file, as one process asks for it."""

    def __init__(self, busy_seconds: float) -> None:
        self._busy_seconds = busy_seconds
        self._stopped = threading.Event()

    @contextmanager
    def without_waiting(self) -> Iterator[None]:
        """For the length of a block, those give up who wait, and nobody waits."""
        self._stopped.set()
        try:
            yield
        finally:
            self._stopped.clear()

    def try_begin(self, connection: sqlite3.Connection) -> bool:
        """Starts a write transaction, unless another connection is in one."""
        try:
            connection.execute(_BEGIN)
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            return False
        return True

    def begin(self, connection: sqlite3.Connection) -> None:
        """Starts a write transaction; waits for other connections."""
        if self.try_begin(connection):
            return
        asked = time.monotonic()
        while (waited := time.monotonic() - asked) < self._busy_seconds:
            if self._stopped.wait(max(waited * _PART, _SHORTEST_SECONDS)):  # (1)
                break
            if self.try_begin(connection):
                return
        connection.execute(_BEGIN)  # (2)
