"""Turns at a file's write lock, where several processes write.

SQLite asks for a lock that another has again after 1 ms, then after 2, 5, 10 … and at last 100: who has waited longest
asks least often, and among processes that write all the time the others are always there first. So a process that has
had to wait asks by itself, for a while:

1. It asks again after a millisecond, or an eighth of the time that it has waited: who waits long does not keep a core
   busy, and loses little.
2. It gives up after `busy_seconds`, with SQLite's own error.
3. Who writes alone asks once, and pays nothing for it.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Final

_WAITED_SECONDS: Final = 0.002
"""Who waited so long for a turn is not alone."""

_NOT_ALONE_SECONDS: Final = 1.0
_SHORTEST_SECONDS: Final = 0.001
_PART: Final = 1 / 8
_BEGIN: Final = "BEGIN IMMEDIATE"
_PRIMARY: Final = 0xFF  # of an error code: SQLITE_BUSY_RECOVERY is SQLITE_BUSY too


class Turns:
    """Those of one process at one file."""

    def __init__(self, busy_seconds: float) -> None:
        self._busy_seconds = busy_seconds
        self._alone_from = 0.0

    def begin(self, connection: sqlite3.Connection) -> None:
        """Starts a write transaction."""
        asked = time.monotonic()
        if asked >= self._alone_from:
            connection.execute(_BEGIN)
        else:
            self._wait(connection, asked)
        begun = time.monotonic()
        if begun - asked >= _WAITED_SECONDS:
            self._alone_from = begun + _NOT_ALONE_SECONDS

    def _wait(self, connection: sqlite3.Connection, asked: float) -> None:
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            while not self._begun(connection, asked):
                time.sleep(max((time.monotonic() - asked) * _PART, _SHORTEST_SECONDS))  # (1)
        finally:
            connection.execute(f"PRAGMA busy_timeout = {int(self._busy_seconds * 1_000)}")

    def _begun(self, connection: sqlite3.Connection, asked: float) -> bool:
        try:
            connection.execute(_BEGIN)
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & _PRIMARY == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() - asked >= self._busy_seconds:  # (2)
                raise
            return False
        return True
