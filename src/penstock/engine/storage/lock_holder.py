"""Which process holds a database file's write lock, where the system tells (Linux).

SQLite's writers of a file with a log lock one byte of the file beside it that they share; /proc/locks says who does.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_LOCKS: Final = Path("/proc/locks")
_WRITE_LOCK_BYTE: Final = 120  # https://sqlite.org/walformat.html#wal_locks


def writer_text(path: str) -> str:
    """ "Process 1234 (python) has it." with what to do if it stands still; "" where it cannot be told."""
    holder = _writer(path)
    if holder is None or holder == os.getpid():
        return ""
    name, state = _process(holder)
    if state in ("T", "t"):
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


def _process(pid: int) -> tuple[str, str]:
    """A process's name and the letter of its state."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "unknown", ""
    name, _, rest = text.partition("(")[2].rpartition(")")
    return name, rest.split()[0]
