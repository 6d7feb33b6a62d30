"""Locks on open files, between processes and threads; the system lets go of them when their holder dies."""

from __future__ import annotations

import os
import sys
import time

if sys.platform == "win32":
    import msvcrt

    def lock(handle: int) -> None:
        """Waits until nobody else holds it."""
        while not try_lock(handle):
            time.sleep(0.01)

    def try_lock(handle: int) -> bool:
        os.lseek(handle, 0, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def lock(handle: int) -> None:
        """Waits until nobody else holds it."""
        fcntl.flock(handle, fcntl.LOCK_EX)

    def try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
