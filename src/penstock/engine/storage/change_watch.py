"""Waits until somebody has committed to a database, whichever process it was.

1. `wait` answers True if anything was committed since it last did; its first answer is True. No commit is missed: what
   counts is SQLite's `data_version`, which is compared before each wait, not the signal that ends one.
2. On Linux the signal is inotify's, of the log (`-wal`): a wait costs nothing until somebody writes. Where there is no
   inotify, or no more of it for this user, the watch looks every `LOOK_SECONDS`.
3. SQLite writes the log first and shows the commit then, after a sync if it was told to: a signal without a commit is
   followed by a few looks, for as long as a disk may take.
4. The watch has a connection of its own, which writes nothing: `data_version` tells of other connections only. It is
   opened by the thread that waits, and no other may.
5. Only the log is looked at by its name, by inotify. Nothing is opened that has SQLite's locks: closing it again would
   give them up.
"""

from __future__ import annotations

import os
import select
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final

from penstock.engine.storage.write_lock import is_busy
from penstock.errors import StorageError

if TYPE_CHECKING:
    from penstock.engine.storage.database_file import Connection

LOOK_SECONDS: Final = 0.02
_FIRST_LOOK_SECONDS: Final = 0.0005
_LAST_LOOK_SECONDS: Final = 0.25  # the looks after a signal end here, after half a second in all (3)
_EVENT_BYTES: Final = 4096
_IN_MODIFY: Final = 0x2


class ChangeWatch:
    """Waits for commits to one file, or to a database in memory. For one thread, except `close`."""

    poll_seconds: Final = 0.0
    """How long whoever waits may go without polling; 0 if as ever: a file may also be written to by another machine."""

    def __init__(
        self, log: str | None, connect: Callable[[], Connection], trouble: Callable[[sqlite3.Error], StorageError]
    ) -> None:
        self._log = log
        self._connect = connect
        self._trouble = trouble
        self._connection: Connection | None = None
        self._version = -1
        self._closed = threading.Event()
        self._signal: _LogSignal | None = None

    def wait(self, seconds: float) -> bool:
        """Whether anything was committed; False after so many seconds, or when it is closed. Raises StorageError."""
        if self._connection is None:
            self._open()
        end = time.monotonic() + seconds
        look = inf
        while not self._closed.is_set():
            if self._has_changed():
                return True
            left = end - time.monotonic()
            if left <= 0:
                break
            if self._signal is None:
                self._closed.wait(min(left, LOOK_SECONDS))
            elif self._signal.wait(min(left, look)):
                look = _FIRST_LOOK_SECONDS
            else:
                look = 2 * look if look < _LAST_LOOK_SECONDS else inf
        return False

    def close(self) -> None:
        """Ends the wait under way, and those to come. From any thread."""
        self._closed.set()
        if self._signal is not None:
            self._signal.interrupt()

    def _open(self) -> None:
        self._connection = self._connect()
        if self._log is not None and not self._closed.is_set():
            self._signal = _log_signal(self._log)
            if self._closed.is_set() and self._signal is not None:  # meanwhile: nobody has interrupted it
                self._signal.interrupt()

    def _has_changed(self) -> bool:
        connection = self._connection
        assert connection is not None
        try:
            if self._log is None:
                version = connection.total_changes
            else:
                with connection.busy:
                    version = connection.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error as error:
            if is_busy(error):  # another process recovers the log: who asks again sees
                return True
            raise self._trouble(error) from error
        before, self._version = self._version, version
        return bool(before != version)


class _LogSignal:
    """Tells when a log is written to, by inotify."""

    def __init__(self, inotify: int) -> None:
        self._inotify = inotify
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(inotify, select.POLLIN)
        self._poll.register(self._reader, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        """Whether it was written to; False after so many seconds, or when it was interrupted."""
        ready = [one for one, _ in self._poll.poll(seconds * 1000)]
        if self._inotify not in ready:
            return False
        with suppress(BlockingIOError):
            os.read(self._inotify, _EVENT_BYTES)
        return True

    def interrupt(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._writer, b".")

    def __del__(self) -> None:
        # Not sooner: who interrupts it may do so at any time.
        for one in (self._inotify, self._reader, self._writer):
            os.close(one)


def _log_signal(log: str) -> _LogSignal | None:
    """None where the system has no inotify, or gives this user no more of it."""
    if sys.platform != "linux":
        return None
    try:
        import ctypes  # takes milliseconds, and only a watch needs it

        library = ctypes.CDLL(None, use_errno=True)
        inotify = library.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    except (ImportError, OSError, AttributeError):
        return None
    if inotify < 0:
        return None
    if library.inotify_add_watch(inotify, os.fsencode(log), ctypes.c_uint32(_IN_MODIFY)) < 0:
        os.close(inotify)
        return None
    return _LogSignal(inotify)
