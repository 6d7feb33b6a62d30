"""Processes of this machine: how one is named so that another can prove that it has ended.

1. A process is named by its place (this boot of this machine's kernel, its pid and time namespaces, its host name),
   its pid and the time it began. No other process ever has the same name: a pid that is used again began later.
2. `has_ended` is proof. It is False wherever there is doubt: another place, a process that cannot be looked at, a
   system without Linux's /proc. A host name alone proves nothing, since containers share them; one that differs is
   reason enough for doubt, since copies of a virtual machine share all the rest.
3. A frozen process has not ended. One that has ended and was not waited for (a zombie) has, once all of its threads
   have.
4. A worker that stopped in an orderly way and could tell nobody leaves a note of it on its machine. The note is for
   processes of the same user: its folder is that user's own, and a note of any other folder is not believed.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

_ENDED_STATES: Final = ("Z", "X")
_JUMP_SECONDS: Final = 1.0
_NOTE_KEPT_SECONDS: Final = 24 * 3600.0


class _Status(NamedTuple):
    state: str
    threads: int
    began: str
    """In clock ticks after the boot."""


def this_process() -> str:
    """The name of this process; empty where nobody could prove anything by it."""
    pid = os.getpid()
    place, status = _place(pid), _status(pid)
    return f"{place}:{pid}:{status.began}" if place and status is not None else ""


def is_of_this_machine(process: str) -> bool:
    """Whether `has_ended` could tell of it."""
    return bool(process) and process.partition(":")[0] == _place(os.getpid())


def has_ended(process: str) -> bool:
    """Whether there is proof that the process of this name has ended (2)."""
    if not is_of_this_machine(process):
        return False
    _, pid, began = process.split(":")
    try:
        os.kill(int(pid), 0)  # unlike /proc, this sees every process, whoever owns it
    except ProcessLookupError:
        return True
    except OSError:  # it is another user's
        pass
    status = _status(int(pid))
    if status is None:
        return False
    if status.began != began:
        return True  # the pid is another process's now
    return status.state in _ENDED_STATES and status.threads <= 1


def note_stop(process: str, worker: str) -> None:
    """Leaves a note that this worker of this process stops in an orderly way (4), where that is possible."""
    if not process:
        return
    with suppress(OSError):
        notes = _notes()
        notes.mkdir(mode=0o700, exist_ok=True)
        if _is_own(notes):
            for old in notes.iterdir():
                if time.time() - old.stat().st_mtime > _NOTE_KEPT_SECONDS:
                    old.unlink(missing_ok=True)
            (notes / _note(process, worker)).touch()


def has_noted_stop(process: str, worker: str) -> bool:
    """Whether that worker has stopped in an orderly way, before or when its process ended (4)."""
    try:
        notes = _notes()
        return is_of_this_machine(process) and _is_own(notes) and (notes / _note(process, worker)).exists()
    except OSError:
        return False


def _note(process: str, worker: str) -> str:
    return f"{process}:{_digest(worker)}"


def _notes() -> Path:
    import tempfile  # here alone: its import takes longer than to see whether a process has ended

    return Path(tempfile.gettempdir()) / f"penstock-stops-{os.getuid()}"


def _is_own(folder: Path) -> bool:
    """Whether nobody else can have written there: anybody can make a folder of any name in that for temporary files."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022


@lru_cache(1)
def _place(pid: int) -> str:
    """Where pids and times mean the same to all; empty where that cannot be told. By pid: a fork may change it."""
    import socket

    times = Path("/proc/self/ns/time")  # older kernels have none
    try:
        if str(Path("/proc/self").readlink()) != str(pid):  # a /proc of another pid namespace
            return ""
        parts = [
            Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            str(Path("/proc/self/ns/pid").readlink()),
            str(times.readlink()) if times.is_symlink() else "",
            socket.gethostname(),
        ]
    except (OSError, AttributeError):
        return ""
    return _digest("\n".join(parts))


def _digest(text: str) -> str:
    from hashlib import sha256  # a list of jobs seldom needs one, and a server none: its library is a large one

    return sha256(text.encode(errors="replace")).hexdigest()[:16]


def _status(pid: int) -> _Status | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name of the program is in parentheses, and may have blanks and parentheses in it.
    fields = text.rpartition(")")[2].split()
    return _Status(state=fields[0], threads=int(fields[17]), began=fields[19])


class SleepWatch:
    """Notices that the machine has slept, or that its clock was set forward: all leases look expired then.

    The clock that leases go by has gone on, and the one that holders count on has not.
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._steady = steady
        self._ahead = wall() - steady()
        self._woke_at: float | None = None

    def awake_seconds(self) -> float:
        """For how long the machine has been awake; infinite where it has not slept. To be asked every few seconds."""
        steady = self._steady()
        ahead = self._wall() - steady
        if ahead - self._ahead > _JUMP_SECONDS:
            self._woke_at = steady
        self._ahead = ahead
        return float("inf") if self._woke_at is None else steady - self._woke_at
