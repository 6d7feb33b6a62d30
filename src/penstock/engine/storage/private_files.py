"""New database files are their owner's alone: they hold everything that was stored.

A file that is there already keeps the permissions it has: whoever shares one says so by `chmod`, once. SQLite gives the
files beside it (`-wal`, `-shm`) the same. Windows has no such bits, and folders of a user's own.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

_NEW: Final = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)
_OWNER_ONLY: Final = 0o600


def make_new(path: str | os.PathLike[str]) -> None:
    """Makes an empty file; raises FileExistsError if anything has that name, and be it a link that leads nowhere."""
    os.close(os.open(path, _NEW, _OWNER_ONLY))


def make_if_absent(path: str) -> None:
    """Makes an empty file unless it is there. Where it cannot be made, SQLite says why when it opens it."""
    with suppress(OSError):
        make_new(path)
