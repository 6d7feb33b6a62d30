"""A new database file, and the files beside it (`-wal`, `-shm`).

1. New database files are their owner's alone: they hold everything that was stored. A file that is there already keeps
   its permissions: whoever shares one says so by `chmod`, once. SQLite gives the files beside it the same. Windows has
   no such bits, and folders of a user's own.
2. SQLite knows a log by its name only: the next process that opens a file copies whatever log lies beside it into the
   file, and trusts an index (`-shm`) that some process still uses for the file which had the name before. So a log that
   does not belong to its file is taken away.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final


def beside(path: str) -> tuple[Path, Path, Path]:
    """The files that SQLite may keep beside a database."""
    return Path(f"{path}-wal"), Path(f"{path}-shm"), Path(f"{path}-journal")


_NEW: Final = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)
_OWNER_ONLY: Final = 0o600


def make_new(path: str | os.PathLike[str]) -> None:
    """Makes an empty file; raises FileExistsError if anything has that name, and be it a link that leads nowhere."""
    os.close(os.open(path, _NEW, _OWNER_ONLY))


def make_if_absent(path: str) -> None:
    """Makes an empty file unless it is there. Where it cannot be made, SQLite says why when it opens it."""
    with suppress(OSError):
        make_new(path)


# ── stray logs (2) ────────────────────────────────────────────────────────────────────────────────


def take_away(log: str, index: str, ours: tuple[int, ...]) -> str:
    """Takes a log and its index from beside a file that they do not belong to, if they are those of `ours` (device and
    inode of each). A log that is not empty gets another name, which is the answer; otherwise it is "".
    """
    moved_log = ""
    with suppress(OSError):
        if _is(log, ours[:2]):
            moved_log = f"{log}.{os.urandom(4).hex()}.lost" if Path(log).stat().st_size else ""
            Path(log).rename(moved_log) if moved_log else Path(log).unlink()
    with suppress(OSError):
        if _is(index, ours[2:]):
            Path(index).unlink()
    return moved_log


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
