"""Logs that lie beside a file which they do not belong to, or beside none.

SQLite knows a log by its name only: the next process that opens a file copies whatever log lies beside it into the
file, and trusts an index (`-shm`) that some process still uses for the file which had the name before.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from secrets import token_hex


def take_away(log: str, index: str, ours: tuple[int, ...]) -> str:
    """Takes a log and its index from beside a file that they do not belong to, if they are those of `ours` (device and
    inode of each). A log that is not empty gets another name, which is the answer; otherwise it is "".
    """
    kept = ""
    with suppress(OSError):
        if _is(log, ours[:2]):
            kept = f"{log}.{token_hex(4)}.lost" if Path(log).stat().st_size else ""
            Path(log).rename(kept) if kept else Path(log).unlink()
    with suppress(OSError):
        if _is(index, ours[2:]):
            Path(index).unlink()
    return kept


def clear_place(path: str) -> None:
    """Before a file is made: takes away what lies beside its name.

    Who makes the file at the same moment makes it first and its log then: if there is no file yet, what was seen before
    is a stray.
    """
    real = os.path.realpath(path)
    log, index = f"{real}-wal", f"{real}-shm"
    seen = (*_identity(log), *_identity(index))
    if any(seen) and not os.path.lexists(path):
        take_away(log, index, seen)


def _identity(path: str) -> tuple[int, int]:
    try:
        found = Path(path).stat()
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


def _is(path: str, identity: tuple[int, ...]) -> bool:
    return any(identity) and _identity(path) == identity
