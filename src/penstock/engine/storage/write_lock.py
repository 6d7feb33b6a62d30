"""SQLite's write lock of a file, where several processes write.

SQLite's own busy handler asks again after 1 ms, then after 2, 5, 10 … and at last 100: who has waited longest asks
least often, and among processes that write all the time the others are always there first. So connections have no busy
timeout, and a process waits by itself:

1. It asks again after a millisecond, or an eighth of the time that it has waited: who waits long does not keep a core
   busy, and loses little.
2. It gives up after `busy_seconds`, with SQLite's own error; after `frozen_seconds` if the process that has the lock is
   stopped (SIGSTOP, a debugger): that one may never go on.
3. Who writes alone asks once.
4. Whether somebody else has the lock is what SQLite says, never how long a statement took.
5. A wait of more than a few seconds is logged, and the error says how long it was.

Where the system tells it (Linux), both say who holds the lock: writers of a file with a log lock one byte of the file
beside it that they share, and /proc/locks says who does.
"""

from __future__ import annotations

import logging
import math
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_LOG = logging.getLogger(__name__)
_LOGGED_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.5
"""Between two looks at who has the lock."""
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

    def __init__(self, busy_seconds: float, path: str = "", frozen_seconds: float = math.inf) -> None:
        self._busy_seconds = busy_seconds
        self._path = path
        self._frozen_seconds = min(frozen_seconds, busy_seconds)
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
        began = time.monotonic()
        is_logged, look_at = False, _LOOK_SECONDS
        while (waited := time.monotonic() - began) < self._busy_seconds:
            if waited >= look_at:
                look_at = waited + _LOOK_SECONDS
                if waited >= self._frozen_seconds and _is_stopped(_writer(self._path)):
                    break
                if waited >= _LOGGED_SECONDS and not is_logged:
                    is_logged = True
                    text = writer_text(self._path)
                    _LOG.warning("%s: a write has waited %.1f s for another process.%s", self._path, waited, text)
            if self._stopped.wait(max(waited * _PART, _SHORTEST_SECONDS)):  # (1)
                break
            if self.try_begin(connection):
                return
        try:
            connection.execute(_BEGIN)  # (2)
        except sqlite3.OperationalError as error:
            error.waited_seconds = waited  # type: ignore[attr-defined]
            raise


# ── who holds it ──────────────────────────────────────────────────────────────────────────────────


_LOCKS: Final = Path("/proc/locks")
_WRITE_LOCK_BYTE: Final = 120  # https://sqlite.org/walformat.html#wal_locks


def writer_text(path: str) -> str:
    """ "Process 1234 (python) has it." with what to do if it stands still; "" where it cannot be told."""
    holder = _writer(path)
    if holder is None or holder == os.getpid():
        return ""
    name, _ = _process(holder)
    if _is_stopped(holder):
        return f" Process {holder} ({name}) has it and is stopped: `kill -CONT {holder}` lets it go on."
    return f" Process {holder} ({name}) has it."


def _writer(path: str) -> int | None:
    try:
        inode = Path(f"{path}-shm").stat().st_ino
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        # 1: POSIX  ADVISORY  WRITE 1234 fd:01:5678 120 120; one that waits has "->" after its number.
        parts = line.split()
        if len(parts) == 8 and parts[3] == "WRITE" and parts[5].rpartition(":")[2] == str(inode):
            first, last = parts[6], parts[7]
            if int(first) <= _WRITE_LOCK_BYTE and (last == "EOF" or int(last) >= _WRITE_LOCK_BYTE):
                return int(parts[4])
    return None


def _is_stopped(pid: int | None) -> bool:
    return pid is not None and _process(pid)[1] in ("T", "t")


def _process(pid: int) -> tuple[str, str]:
    """A process's name and the letter of its state."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "unknown", ""
    name, _, rest = text.partition("(")[2].rpartition(")")
    return name, rest.split()[0]
