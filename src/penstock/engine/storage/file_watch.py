"""Whether a store's file is still the one that this process has open: its names, and the mark in it (`Watch`)."""

from __future__ import annotations

import os
import os.path
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from math import inf
from os import stat
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from penstock.engine.storage.sidecar_files import take_away
from penstock.errors import DatabaseClosed, DatabaseLost, StorageError

LOOKING: Final = threading.RLock()
"""Held while a file is open to read its mark, and while its names are compared. A fork takes it last."""
LOOK_SECONDS: Final = 1.0
MARK_SECONDS: Final = 0.02
"""Between two readings of the mark (0.2 ms each), while a checkpoint writes to the file."""

_MARK: Final = "SELECT name, value FROM meta WHERE name IN ('file', 'epoch')"
_OPEN: Final = " while this process had it open"
_NEXT: Final = (
    "No call is answered any more. Stop what uses the file, put the right one in its place, "
    "with no -wal and -shm of another beside it, and start again."
)
_NEXT_LOG: Final = "No call is answered any more. Stop every process that uses the file, then start again."

_Stamp = tuple[int, int]
"""When a file was last written to, in nanoseconds, and its size."""


def uri_of(path: str, options: str) -> str:
    """The file for sqlite3's `uri=True`, whatever characters its name has."""
    return f"{Path(path).resolve().as_uri()}?{options}"


class Mark(NamedTuple):
    """What tells a file from others, and from older copies of itself."""

    file: int
    epoch: int


def read_mark(connection: sqlite3.Connection) -> Mark | None:
    """The file's mark as a connection sees it; None where a program that knows of none has made the file."""
    found = dict(connection.execute(_MARK).fetchall())
    return Mark(found["file"], found["epoch"]) if len(found) == 2 else None


_OVERWRITTEN: set[tuple[int, ...]] = set()
"""Files that this process has open and must not open again: SQLite would share what it knows of the old log."""


def refuse_overwritten(path: str) -> None:
    """Refuses to open a file a second time that was overwritten under this process."""
    if not _OVERWRITTEN:
        return
    with suppress(OSError):
        found = Path(path).stat()
        if (found.st_dev, found.st_ino) in _OVERWRITTEN:
            raise DatabaseLost(
                f"{path}: the file was overwritten while this process had it open. End the process and start again."
            )


def _keep_for_ever(held: object) -> None:
    """Not even the end of the interpreter closes what the frame of a daemon holds."""
    threading.Thread(target=_wait, args=(held, threading.Event()), name="penstock-overwritten", daemon=True).start()


def _wait(_held: object, never: threading.Event) -> None:
    never.wait()


def closed_error(path: str) -> DatabaseClosed:
    return DatabaseClosed(f"{path}: the database has been closed; open it again with connect().")


class Watch:
    """Whether a store's file is still the one that this process has open.

    SQLite goes on reading and writing files that it has open, whatever becomes of their names: what it commits to
    a deleted file, or to the log of a replaced one, is lost.

    1. After each commit and before its answer, the names of the file, its log (`-wal`) and the log's index
       (`-shm`) lead to the files that SQLite has open, by device and inode. While SQLite has them open, its locks
       keep every other process that goes through SQLite from removing one.
    2. `cp` over the file keeps its inode. In WAL mode only checkpoints write to the file; when its time or size
       has changed, the mark in the file itself is read, past the log: the file's id, and an epoch that never
       falls.
    3. Who only reads looks once a second.
    4. A store whose file is lost refuses every call from then on. It takes its log away from beside a file that
       the log does not belong to, because whoever opens that file next would copy the log into it. Where such a
       file has the inode of ours, SQLite would copy the log when it is closed: it never is, and this process does
       not open that file again.
    5. The file is looked at by `os.stat` and through SQLite, never by opening and closing it: in POSIX, closing
       any descriptor of a file gives up the locks that the process has on it.
    """

    def __init__(self, path: str, connections: object = None) -> None:
        self.failure = ""
        self.has_lost_log = False
        """Whether the log lost its name and the file did not: what is in the log is ours to copy."""
        self.is_overwritten = False
        """Whether the connections must stay open for as long as the process lives (4)."""
        self._connections = connections
        self.due = inf
        """When a reader has to look, by `time.monotonic`."""
        self._path = path
        # A link is followed at each look; the files beside it are those of what it led to at first, as SQLite has it.
        self._file = os.path.abspath(path)  # noqa: PTH100 - `resolve` would follow it once and for all
        self._real = os.path.realpath(path)
        self._log, self._index = f"{self._real}-wal", f"{self._real}-shm"
        self._names: tuple[int, ...] | None = None
        self._mark: Mark | None = None
        self._seen: Mark | None = None
        self._written: _Stamp | None = None
        self._doubtful: _Stamp | None = None
        self._read_at = -inf
        self._listeners: list[Callable[[str], None]] = []
        self._failing = threading.RLock()

    def start(self, mark: Mark | None) -> None:
        """Begins to watch: SQLite has all three files open by now, and closes none before the store is closed."""
        self._mark = mark
        self._names = (*self._identity(self._file), *self._identity(self._log), *self._identity(self._index))
        self.due = 0.0
        if mark is not None and self._log_bytes():
            # A log of the file that had this name before shows the mark of that one.
            found = self._mark_in_file()
            if found is not None and found.file != mark.file:
                self._fail("the log (-wal) beside the file was another file's", is_other_file=True)

    def check(self, *, at_once: bool = False) -> None:
        """After a commit (1), or after an error (`at_once`); raises DatabaseLost."""
        if self._names is None:
            return
        self.refuse_lost()
        try:
            # A Path would take twice as long, at each commit.
            file, log, index = stat(self._file), stat(self._log), stat(self._index)  # noqa: PTH116
        except OSError as error:
            self._refuse_changed(error)
            return
        if (file.st_dev, file.st_ino, log.st_dev, log.st_ino, index.st_dev, index.st_ino) != self._names:
            self._refuse_changed()
        elif (file.st_mtime_ns, file.st_size) != self._written:
            self._compare_mark((file.st_mtime_ns, file.st_size), at_once)

    def stop(self) -> None:
        """Before the files are closed."""
        with self._failing:
            self._names = None

    def look(self) -> None:
        """For a reader whose last look is too long ago (3), and before a checkpoint; raises DatabaseLost."""
        self.check()
        if self._names is not None:
            self.due = time.monotonic() + LOOK_SECONDS
            self.refuse_lost()  # another thread may have found out just now

    def refuse_lost(self) -> None:
        if self.failure:
            self.due = -inf
            raise DatabaseLost(self.failure)

    def when_lost(self, tell: Callable[[str], None]) -> None:
        """Calls `tell` with the reason, once, in whichever thread finds out."""
        with self._failing:
            self._listeners.append(tell)
            if self.failure:
                tell(self.failure)

    def _log_bytes(self) -> int:
        try:
            return Path(self._log).stat().st_size
        except FileNotFoundError:
            return 0  # which the first commit notices

    # ── the names ────────────────────────────────────────────────────────────────────────────────

    def _identity(self, path: str) -> tuple[int, int]:
        try:
            found = Path(path).stat()
        except FileNotFoundError:
            return 0, 0
        except OSError as error:
            # It may pass; but what cannot be seen is not acknowledged.
            raise StorageError(f"{path}: {error.strerror}. Whether it is still there cannot be known.") from error
        return found.st_dev, found.st_ino

    def _refuse_changed(self, error: OSError | None = None) -> None:
        """Says which name leads elsewhere; nothing if by now all are as they were."""
        with LOOKING:
            if self._names is not None:  # otherwise it is closed meanwhile
                self._compare_names(self._names, error)

    def _compare_names(self, names: tuple[int, ...], error: OSError | None) -> None:
        if error is not None and not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            self._identity(self._file)
        for place, (path, what) in enumerate(
            ((self._file, "the file"), (self._log, "its log (-wal)"), (self._index, "its log's index (-shm)"))
        ):
            found = self._identity(path)
            if found != names[2 * place : 2 * place + 2] and path != self._file:
                with suppress(OSError):  # another process may have found out, and have taken the log from there
                    self._compare_mark(self._stamp(), at_once=True)
            if found != names[2 * place : 2 * place + 2]:
                became = "replaced by another file" if any(found) else "deleted or moved"
                # Where only a link leads elsewhere, the log lies beside its own file, and stays.
                self._fail(f"{what} was {became}{_OPEN}", is_other_file=self._identity(self._real) != names[:2])

    # ── the mark ─────────────────────────────────────────────────────────────────────────────────

    def _stamp(self) -> _Stamp:
        found = Path(self._file).stat()
        return found.st_mtime_ns, found.st_size

    def _compare_mark(self, written: _Stamp, at_once: bool) -> None:
        """Reads the mark in the file itself; through the log it would be ours all the same (2)."""
        now = time.monotonic()
        at_once = at_once or (self._written is not None and written[1] < self._written[1])
        if self._mark is None or (now - self._read_at < MARK_SECONDS and not at_once):
            return
        self._read_at = now
        found = self._mark_in_file()
        if found is None:
            self._doubt(written)
            return
        if found.file != self._mark.file:
            self._fail(f"the file was overwritten with another database{_OPEN}", is_other_file=True)
        if self._seen is not None and found.epoch < self._seen.epoch:
            self._fail(f"the file was overwritten with an older copy of itself{_OPEN}", is_other_file=True)
        self._seen, self._written = found, written

    def _mark_in_file(self) -> Mark | None:
        """None where there is none, or none to be seen: damage is told where it is met."""
        try:
            uri = uri_of(self._real, "mode=ro&immutable=1")
            with LOOKING, closing(sqlite3.connect(uri, uri=True)) as past_the_log:
                return read_mark(past_the_log)
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
                self._fail(f"the file was overwritten with what is no database{_OPEN}", is_other_file=True)
            return self._seen if error.sqlite_errorcode == sqlite3.SQLITE_CORRUPT else None

    def _doubt(self, written: _Stamp) -> None:
        """A file without its mark: the log has not been copied yet, or is being copied; not if it has stood still."""
        if written[1] == 0 or (self._seen is not None and self._doubtful == written):
            self._fail(f"the file was overwritten{_OPEN}", is_other_file=True)
        self._doubtful = written
        if self._seen is None:
            self._written = written  # there is nothing to compare with until a checkpoint has brought it

    # ── the end ──────────────────────────────────────────────────────────────────────────────────

    def _fail(self, what: str, *, is_other_file: bool) -> NoReturn:
        with self._failing:
            if not self.failure:
                if self._names is None:
                    raise closed_error(self._path)
                moved_log = take_away(self._log, self._index, self._names[2:]) if is_other_file else ""
                also = f" What was written last may be in its log, which is now {moved_log}." if moved_log else ""
                self.failure = f"{self._path}: {what}. {_NEXT if is_other_file else _NEXT_LOG}{also}"
                self.due = -inf
                self.has_lost_log = not is_other_file
                if is_other_file and self._identity(self._real) == self._names[:2]:
                    self.is_overwritten = True
                    _OVERWRITTEN.add(self._names[:2])
                    _keep_for_ever(self._connections)
                for tell in self._listeners:
                    tell(self.failure)
        raise DatabaseLost(self.failure)
