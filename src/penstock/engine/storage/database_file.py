"""The SQLite file: connections, transactions, and whether it is still there.

1. A write is answered only after its COMMIT. In WAL mode a committed transaction survives the death of the
   process; with synchronous=full it also survives the loss of power.
2. Each thread has its own connection; writes of one process queue on a lock, those of several processes on
   SQLite's. A memory database has one connection, and everything queues. Closing waits for the calls that run.
3. A file that is not ours, or of a newer format, is refused (file_format.py).
4. A write is answered only if its file is still there (`Watch`).
5. Every object that depends on the catalog is checked against its version inside each write transaction, so that
   a process never writes past an index which another process has just made.
6. No connection is open while the process forks: SQLite's could not be used by the child, nor even closed. They are
   closed before a fork, when no thread uses one. The parent opens them again at once; the child, which has none of the
   parent's threads, when it first needs one.
"""

from __future__ import annotations

import os
import os.path
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol
from weakref import WeakSet

from penstock.engine.settings import Settings
from penstock.engine.storage import file_format
from penstock.engine.storage.change_watch import ChangeWatch
from penstock.engine.storage.checkpoints import Checkpoints
from penstock.engine.storage.file_watch import (
    LOOKING,
    Mark,
    Watch,
    closed_error,
    read_mark,
    refuse_overwritten,
    uri_of,
)
from penstock.engine.storage.sidecar_files import clear_place, make_if_absent
from penstock.engine.storage.write_lock import WriteLock, is_busy, writer_text
from penstock.errors import DatabaseLocked, DatabaseLost, StorageError

PAGE_BYTES: Final = 8192
# The log's bound, 62 MB: a write that finds it so long copies the part that the background has not (checkpoints.py). It
# is within LOG_BYTES, so that the log is written over and over: a file that grows costs twice as much a page.
CHECKPOINT_PAGES: Final = 8_000
HURRIED_BYTES: Final = 8 * 1024
"""Of an item that a hurried transaction looks into: a condition may do so hundreds of times, for 0.1 ms each."""
_SHORTEST_LOG: Final = 50
_LOG_SHARE: Final = 4
LOG_BYTES: Final = 64 * 1024 * 1024  # of a log that begins again, what is longer is given back

# The thread that opens a database is the one that uses it most (a server's event loop, a script): the connections of
# other threads get this part of its page cache, so that many threads do not mean much memory.
_LATER_CACHES: Final = 16
_WAL_RETRY_SECONDS: Final = 0.005
_LOST_LOG_MILLISECONDS: Final = 5_000  # for other processes that write or copy at this moment
_FORK_SECONDS: Final = 2.0
"""How long a fork waits for calls of other threads."""


def _bind_bytes_as_they_are() -> None:
    """Spares every key and item that is given to SQLite a search.

    Of the types that can be taken as they are, Python's sqlite3 forgets one: for each bytes it looks for an adapter,
    then for methods whose absence raises an error that nobody sees: a third of a read by key. An adapter that
    gives back what it is given ends the search at once. It is the process's, and does nothing to others.
    """
    if (bytes, sqlite3.PrepareProtocol) not in sqlite3.adapters:
        sqlite3.register_adapter(bytes, bytes.__bytes__)


_bind_bytes_as_they_are()


class _Lock(Protocol):
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...
    def __enter__(self) -> bool: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


_REOPENING: Final = threading.RLock()
"""What a connection has for its own lock while it is opened again after a fork, and has lost its attributes."""


class Connection(sqlite3.Connection):
    """One of SQLite's. Who reads holds `busy`, who writes the store's `lock`; to close it takes both."""

    busy: _Lock = _REOPENING
    rows_counted: int = 0
    """How many of its `total_changes` the checkpoints know of."""
    is_hurried: bool = False
    """Whether others wait for its transaction, which is given up where it would take long."""

    def refuse_long_work(self, item: bytes) -> None:
        """Gives up a transaction, which is hurried, that would look into a large item."""
        if len(item) > HURRIED_BYTES:
            raise TakesLong


class TakesLong(Exception):
    """A hurried transaction was given up."""


class Store:
    """One database: a file, or memory."""

    def __init__(self, path: str, settings: Settings) -> None:
        self.path = path
        self.memory = path == ":memory:"
        self._settings = settings
        # SQLite makes no file, which others could read; and a thread that comes later opens the same one, wherever the
        # process has gone since.
        self._uri = path if self.memory else uri_of(path, "mode=rw")
        self.closed = False
        self._forked = False
        self.after_fork: Callable[[], None] = lambda: None
        """Called in a child that may use this store."""
        self._begin()
        if not self.memory:
            _look_at_all()
            refuse_overwritten(path)
            _refuse_open_in_parent(path)
            clear_place(path)
            make_if_absent(path)
        self._shared = self._open() if self.memory else None
        self._prepare_file(self.connection())
        if not self.memory:
            _STORES.add(self)
            self._start_watch()

    def _begin(self) -> None:
        """As it is before its first connection: nobody holds its locks, no thread works for it."""
        self._local = threading.local()
        self._connections: list[tuple[threading.Thread, Connection]] = []
        self._connecting = threading.Lock()  # while SQLite opens a connection
        self._opening = threading.Lock()
        # One writer at a time; re-entrant, because a memory database's reads take it too.
        self.lock = threading.RLock()
        self.write_lock = WriteLock(self._settings.busy_seconds, self.path, self._settings.frozen_seconds)
        self.watch = Watch(self.path, self._connections)
        self._epoch_is_due = not self.memory
        self._checkpoints = None if self.memory else Checkpoints(self._open, self.watch.look)
        self._held_for_fork: list[_Lock] = []
        self._is_reopened = False
        """Whether it is a child's, which watches the file from its first connection on."""

    def connection(self) -> Connection:
        """This thread's connection, in autocommit."""
        if self._shared is not None:
            return self._shared
        try:
            found: Connection = self._local.connection
        except AttributeError:
            found = self._local.connection = self._inherited() or self._open()
            if self._is_reopened:
                self._is_reopened = False
                self._start_watch()
        return found

    def _inherited(self) -> Connection | None:
        """The connection of a thread that has ended: a program of many short threads needs no more than it runs."""
        if self._forked:
            raise forked_error(self.path)
        thread = threading.current_thread()
        with self._opening:
            for place, (owner, connection) in enumerate(self._connections):
                if not owner.is_alive() and not connection.in_transaction:
                    self._connections[place] = (thread, connection)
                    return connection
        return None

    def begin(self, connection: Connection) -> None:
        """Starts a write transaction; waits for other processes, and for checkpoints that are far behind."""
        self.count_rows(connection)
        if self.watch.failure:
            self.watch.refuse_lost()
        try:
            self.write_lock.begin(connection)
        except sqlite3.Error as error:
            raise self.trouble(error) from error
        if self._epoch_is_due:
            self._begin_epoch(connection)

    def commit(self, connection: Connection) -> None:
        """Ends a write transaction. Raises DatabaseLost if the file is not there any more: then nothing may be told."""
        connection.execute("COMMIT")
        self.watch.check()

    def try_begin(self, connection: Connection) -> bool:
        """Starts a write transaction where nothing is to be waited for; otherwise does nothing."""
        checkpoints = self._checkpoints
        if checkpoints is not None:
            if checkpoints.are_behind:
                return False
            if checkpoints.count_rows(connection):
                self._epoch_is_due = True
        if self.watch.failure:
            self.watch.refuse_lost()
        if not self.write_lock.try_begin(connection):
            return False
        if self._epoch_is_due:
            self._begin_epoch(connection)
        return True

    def count_rows(self, connection: Connection) -> None:
        """Tells the checkpoints what this connection has written: before each transaction, and after a large one."""
        if self._checkpoints is not None and self._checkpoints.count_rows(connection):
            self._epoch_is_due = True

    def await_checkpoint(self) -> None:
        """Waits for the checkpoint that is under way. For background work, which holds no lock meanwhile."""
        if self._checkpoints is not None:
            with suppress(sqlite3.ProgrammingError):  # it is closed, for a fork
                self.count_rows(self.connection())
            self._checkpoints.wait()

    def changes(self) -> ChangeWatch:
        """What waits for commits: those of other processes, and of this one."""
        if self._shared is not None:
            shared = self._shared
            return ChangeWatch(None, lambda: shared, self.trouble)
        return ChangeWatch(f"{os.path.realpath(self.path)}-wal", self._open, self.trouble)

    def made_room(self, connection: Connection, error: sqlite3.Error) -> bool:
        """Where the log could not grow: copies it, so that it begins again. Whether all of it could be copied."""
        code = getattr(error, "sqlite_errorcode", 0)
        if self.memory or code not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE):
            return False
        try:
            self.watch.look()
            _, pages, copied = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except (sqlite3.Error, StorageError):
            return False
        return bool(pages == copied)

    def close(self) -> None:
        """Closes every connection; the file is then one file, with no WAL beside it."""
        if self._forked:
            return  # The connections are the parent's: closing them here could take the WAL from under it.
        if self._checkpoints is not None:
            self._checkpoints.stop()
        with self.write_lock.without_waiting(), _REOPENING, self.lock, self._opening:
            self.closed = True
            self.watch.stop()  # SQLite itself removes the files beside it now
            if self.watch.is_overwritten:
                return
            if self.watch.has_lost_log and self._connections:
                self._copy_lost_log(self._connections[0][1])
            for _, connection in self._connections:
                with connection.busy:  # SQLite's memory must not be freed under a thread that reads
                    connection.close()
            self._connections.clear()

    def _copy_lost_log(self, connection: Connection) -> None:
        """SQLite copies the log when its last user closes it; of two that close at once, neither is the last."""
        with connection.busy, suppress(sqlite3.Error):
            connection.execute(f"PRAGMA busy_timeout = {_LOST_LOG_MILLISECONDS}")
            connection.execute("PRAGMA wal_checkpoint(FULL)").fetchall()

    # ── forks (6) ────────────────────────────────────────────────────────────────────────────────

    def close_for_fork(self) -> None:
        """Before a fork: closes every connection, and keeps other threads from using one until it is over.

        Not if one is in a transaction, or is not free in time: the child is then refused the file.
        """
        if self.closed or self.watch.failure or self._forked or not self._hold_for_fork():
            return
        self.watch.stop()  # SQLite itself removes the files beside it now
        for _, connection in self._connections:
            connection.close()

    def _hold_for_fork(self) -> bool:
        end = time.monotonic() + _FORK_SECONDS
        locks: list[_Lock] = [_REOPENING, self.lock, self._connecting, self._opening]
        while len(self._held_for_fork) < len(locks):
            lock = locks[len(self._held_for_fork)]
            if not lock.acquire(timeout=max(0.0, end - time.monotonic())):
                break
            self._held_for_fork.append(lock)
            if lock is self._opening:  # from now on, no connection is opened
                locks += [*(connection.busy for _, connection in self._connections), LOOKING]
        else:
            if not any(connection.in_transaction for _, connection in self._connections):
                return True
        self._release_after_fork()
        return False

    def _release_after_fork(self) -> None:
        while self._held_for_fork:
            self._held_for_fork.pop().release()

    def reopen_in_parent(self) -> None:
        """After a fork: the same connections, which other threads know, are open again."""
        if not self._held_for_fork:
            return
        try:
            for _, connection in self._connections:
                busy = connection.busy
                connection.__init__(self._uri, **self._options())  # type: ignore[misc]
                connection.busy = busy
                self._configure(connection)
            self.watch.start(read_mark(self._connections[0][1]))
        except (sqlite3.Error, StorageError):  # whoever calls next opens one, and is told what is wrong
            self._connections.clear()
            self._local = threading.local()
        finally:
            self._release_after_fork()

    def reopen_in_child(self) -> None:
        """After a fork: as new, and open when it is first used; not if connections were open meanwhile."""
        was_closed = bool(self._held_for_fork) and not _is_open_here(self.path)
        self._release_after_fork()
        if not was_closed:
            self._disown()
            return
        self._begin()
        self._is_reopened = True
        self.after_fork()

    def _disown(self) -> None:
        """SQLite's connections must not be used, nor even closed, in another process."""
        self._forked = True
        self._local = threading.local()
        if self.closed:
            return
        with suppress(OSError):
            found = Path(self.path).stat()
            _OPEN_IN_PARENT.add((found.st_dev, found.st_ino))

    def trouble(self, error: sqlite3.Error, table: str = "") -> StorageError:
        """An error of SQLite's, with the file, the table where one is damaged, and the next step."""
        if not self.closed:
            with suppress(StorageError):
                self.watch.check(at_once=True)  # the file may be lost, and this the first that shows it
        if self.closed or self.watch.failure:
            return self.end_error()
        text = str(error)
        if _DAMAGED in text:
            return self.damaged(text, table)
        advice = next((advice for part, advice in _ADVICE if part in text), "")
        if is_busy(error):
            waited = getattr(error, "waited_seconds", None)
            advice = advice if waited is None else f" The write has waited {waited:.1f} s:{_REPEAT}"
            return DatabaseLocked(f"{self.path}: {text}.{writer_text(self.path)}{advice}")
        return StorageError(f"{self.path}: {text}.{advice}")

    def damaged(self, text: str, table: str = "") -> StorageError:
        """For what cannot be read any more, although other tables and other keys still can."""
        where = f"{self.path}: table {table}" if table else self.path
        return StorageError(
            f"{where}: {text}. Part of the file is damaged: `penstock repair {self.path}` says what, "
            "and saves the rest; or restore a backup."
        )

    def end_error(self) -> StorageError:
        """For what comes after the end."""
        if self.watch.failure:
            return DatabaseLost(self.watch.failure)
        return closed_error(self.path)

    def _open(self) -> Connection:
        if self.closed:
            raise self.end_error()
        self.watch.look()
        with self._connecting:
            try:
                connection = sqlite3.connect(self._uri, factory=Connection, **self._options())
                # All of a memory database's calls queue for its one connection, whether they read or write.
                connection.busy = self.lock if self.memory else threading.RLock()
                self._configure(connection)
            except sqlite3.Error as error:
                raise self.trouble(error) from error
            with self._opening:
                if self.closed:  # meanwhile
                    connection.close()
                    raise self.end_error()
                self._connections.append((threading.current_thread(), connection))
        self.watch.check()  # what was opened is what the others have open
        return connection

    def _options(self) -> dict[str, Any]:
        return {
            "uri": True,
            "timeout": self._settings.busy_seconds,
            "isolation_level": None,
            "check_same_thread": False,
            "cached_statements": 1024,
        }

    def _configure(self, connection: Connection) -> None:
        settings = self._settings
        if not self.memory:
            file_format.refuse_foreign(self.path, connection)
            # For a new file; an old one keeps its own (docs/decisions/0001).
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            self._use_wal(connection)
            connection.execute(f"PRAGMA wal_autocheckpoint = {self._longest_log()}")
            connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
        connection.execute(f"PRAGMA synchronous = {settings.synchronous.upper()}")
        cache_bytes = settings.page_cache_bytes // (_LATER_CACHES if self._connections else 1)
        connection.execute(f"PRAGMA cache_size = {-cache_bytes // 1024}")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA busy_timeout = 0")  # from now on, who waits does so in write_lock.py

    def _longest_log(self) -> int:
        """In pages. On a small disk, a part of what is free: a log that takes all of it could not be copied."""
        free = _free_bytes(Path(self.path).resolve().parent)
        return max(_SHORTEST_LOG, min(CHECKPOINT_PAGES, free // PAGE_BYTES // _LOG_SHARE))

    def _use_wal(self, connection: Connection) -> None:
        self._execute_when_free(connection, "PRAGMA journal_mode = WAL")

    def _execute_when_free(self, connection: Connection, statement: str) -> sqlite3.Cursor:
        """SQLite does not wait where others make the file's journal a WAL at the same time: we do."""
        end = time.monotonic() + self._settings.busy_seconds
        while True:
            try:
                return connection.execute(statement)
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
            time.sleep(_WAL_RETRY_SECONDS)

    def _prepare_file(self, connection: Connection) -> None:
        self._in_transaction(connection, file_format.create_or_upgrade)

    def _in_transaction(self, connection: Connection, work: Callable[[Connection], None]) -> None:
        version = self._execute_when_free(connection, "PRAGMA user_version").fetchone()[0]
        if version >= file_format.FORMAT:
            return
        with self._transaction(connection):
            # Another process may have been first.
            if connection.execute("PRAGMA user_version").fetchone()[0] < file_format.FORMAT:
                work(connection)

    @contextmanager
    def _transaction(self, connection: Connection) -> Iterator[None]:
        self.write_lock.begin(connection)
        try:
            yield
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            connection.execute("ROLLBACK")
            raise self.trouble(error) from error

    # ── its mark ─────────────────────────────────────────────────────────────────────────────────

    def _mark_of_file(self, connection: Connection) -> Mark | None:
        """The file's mark (`Watch`, 2); one is given to a file of an older program, unless another process writes."""
        mark = read_mark(connection)
        if mark is None:
            with suppress(StorageError), self._transaction(connection):
                connection.execute(file_format.GIVE_MARK, (file_format.new_file_id(),))
            mark = read_mark(connection)
        return mark

    def _start_watch(self) -> None:
        try:
            self.watch.start(self._mark_of_file(self.connection()))
        except sqlite3.Error as error:
            trouble = self.trouble(error)
            self.close()
            raise trouble from error
        except BaseException:
            self.close()
            raise

    def _begin_epoch(self, connection: Connection) -> None:
        """With the first write, and with those that begin a checkpoint: older copies of the file have a lower one."""
        try:
            connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'epoch'")
        except sqlite3.Error as error:
            connection.execute("ROLLBACK")
            raise self.trouble(error) from error
        self._epoch_is_due = False


_STORES: WeakSet[Store] = WeakSet()
"""Those on files: a fork concerns them."""


_OPEN_IN_PARENT: set[tuple[int, int]] = set()
"""Device and inode of files that the process had open from which this one was forked."""


def _refuse_open_in_parent(path: str) -> None:
    """Refuses to open a file anew that was open when this process was forked.

    SQLite's list of open files and their locks is copied by a fork, the locks are not: the child would take locks for
    its own that nobody holds, and the parent would remove the log under it.
    """
    if not _OPEN_IN_PARENT:
        return
    with suppress(FileNotFoundError):
        found = Path(path).stat()
        if (found.st_dev, found.st_ino) in _OPEN_IN_PARENT:
            raise forked_error(path)


def _is_open_here(path: str) -> bool:
    """Whether this process has the file open, by whatever; False where the system does not tell."""
    try:
        found = Path(path).stat()
        fds = [int(one) for one in os.listdir("/proc/self/fd")]  # noqa: PTH208
    except OSError:
        return False
    for fd in fds:
        with suppress(OSError):  # the folder's own, which is closed by now
            other = os.fstat(fd)
            if (other.st_dev, other.st_ino) == (found.st_dev, found.st_ino):
                return True
    return False


def forked_error(path: str) -> StorageError:
    return StorageError(
        f"{path}: in use at the moment when this process was forked from its parent, so that SQLite cannot use it "
        'here, not even if it is opened again. Fork when no call is under way, or start processes by "spawn".'
    )


def _look_at_all() -> None:
    """Before a file is opened: a store of this process whose file has lost that name lets go of the log beside it.

    Otherwise SQLite, which does not see the locks of its own process, would cut the index of the log in use: the next
    access to it would end the process (SIGBUS).
    """
    for store in list(_STORES):
        if not store.closed:
            with suppress(StorageError):
                store.watch.look()


def _at_fork(call: Callable[[Store], None]) -> Callable[[], None]:
    def call_each() -> None:
        for store in list(_STORES):
            call(store)

    return call_each


if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(
        before=_at_fork(Store.close_for_fork),
        after_in_parent=_at_fork(Store.reopen_in_parent),
        after_in_child=_at_fork(Store.reopen_in_child),
    )

_DAMAGED = "malformed"
_REPEAT = " repeat the call, or raise busy_seconds."
_ADVICE = (
    ("unable to open", " Check that its folder exists and may be written to."),
    ("not a database", " It is not an SQLite file: name another one."),
    (
        "readonly",
        " The file or its folder is read-only: change its permissions, or use a copy (`penstock backup` only reads).",
    ),
    ("disk is full", " The disk is full: make room, then repeat the call; nothing was half-written."),
    ("locked", f" Another process held the file for too long:{_REPEAT}"),
    (
        "disk I/O",
        " The disk refused: see whether it is full or failing, then repeat the call; nothing was half-written.",
    ),
)


def _free_bytes(folder: Path) -> int:
    if hasattr(os, "statvfs"):
        place = os.statvfs(folder)
        return place.f_bavail * place.f_frsize
    import shutil  # which loads three libraries for compression

    return shutil.disk_usage(folder).free
