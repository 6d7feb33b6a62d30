"""The SQLite file: connections, transactions, and its format.

1. A write is answered only after its COMMIT. In WAL mode a committed transaction survives the death of the
   process; with synchronous=full it also survives the loss of power.
2. Each thread has its own connection; writes of one process queue on a lock, those of several processes on
   SQLite's. A memory database has one connection, and everything queues. Closing waits for the calls that run.
3. A file of another application, or of a newer format than this program's, is refused by name and not touched.
4. A write is answered only if its file is still there (lost_file.py).
5. Every object that depends on the catalog is checked against its version inside each write transaction, so that
   a process never writes past an index which another process has just made.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final
from weakref import WeakSet

from penstock.engine.settings import Settings
from penstock.engine.storage.checkpoints import Checkpoints
from penstock.engine.storage.lost_file import Mark, Watch, closed, new_file_id, read_mark, refuse_overwritten
from penstock.engine.storage.sidecar_files import clear_place, make_if_absent, uri_of
from penstock.engine.storage.write_lock import WriteLock, is_busy, writer_text
from penstock.errors import DatabaseLocked, DatabaseLost, StorageError

APPLICATION_ID: Final = 0x50454E53  # "PENS", in SQLite's header: tells our files from others
FORMAT: Final = 1
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

_SCHEMA: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('catalog', 1);
CREATE TABLE tables (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    account TEXT NOT NULL, region TEXT NOT NULL, name TEXT NOT NULL,
    record BLOB NOT NULL,
    UNIQUE (account, region, name)
);
CREATE TABLE idempotency (
    account TEXT NOT NULL, region TEXT NOT NULL, token TEXT NOT NULL,
    digest BLOB NOT NULL, answer BLOB NOT NULL, expires_at REAL NOT NULL,
    PRIMARY KEY (account, region, token)
) WITHOUT ROWID;
CREATE TABLE streams (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    account TEXT NOT NULL, region TEXT NOT NULL, table_name TEXT NOT NULL, label TEXT NOT NULL,
    view TEXT NOT NULL, key_schema BLOB NOT NULL, secret BLOB NOT NULL,
    created_at REAL NOT NULL, closed_at REAL, start INTEGER NOT NULL, trimmed INTEGER NOT NULL,
    UNIQUE (account, region, table_name, label)
);
CREATE TABLE stream_records (
    sequence INTEGER PRIMARY KEY,
    stream INTEGER NOT NULL, created_at REAL NOT NULL,
    event INTEGER NOT NULL, size INTEGER NOT NULL, images BLOB NOT NULL
);
CREATE INDEX stream_records_by_stream ON stream_records (stream);
CREATE TABLE backups (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    account TEXT NOT NULL, region TEXT NOT NULL, table_name TEXT NOT NULL, name TEXT NOT NULL,
    type TEXT NOT NULL, created_at REAL NOT NULL, expires_at REAL, record BLOB NOT NULL,
    UNIQUE (account, region, table_name, name)
);
CREATE TABLE journal (
    sequence INTEGER PRIMARY KEY,
    table_id INTEGER NOT NULL, at REAL NOT NULL, key BLOB NOT NULL, size INTEGER, item BLOB
);
CREATE INDEX journal_by_table ON journal (table_id, at);
"""


def _bind_bytes_as_they_are() -> None:
    """Spares every key and item that is given to SQLite a search.

    Of the types that can be taken as they are, Python's sqlite3 forgets one: for each bytes it looks for an adapter,
    then for methods whose absence raises an error that nobody sees: a third of a read by key. An adapter that
    gives back what it is given ends the search at once. It is the process's, and does nothing to others.
    """
    if (bytes, sqlite3.PrepareProtocol) not in sqlite3.adapters:
        sqlite3.register_adapter(bytes, bytes.__bytes__)


_bind_bytes_as_they_are()


class Connection(sqlite3.Connection):
    """One of SQLite's. Who reads holds `busy`, who writes the store's `lock`; to close it takes both."""

    busy: AbstractContextManager[bool]
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
        self._local = threading.local()
        self._connections: list[tuple[threading.Thread, Connection]] = []
        self._opening = threading.Lock()
        self.closed = False
        self._forked = False
        # One writer at a time; re-entrant, because a memory database's reads take it too.
        self.lock = threading.RLock()
        self.write_lock = WriteLock(settings.busy_seconds)
        self.watch = Watch(path, self._connections)
        self._epoch_is_due = not self.memory
        if not self.memory:
            _look_at_all()
            refuse_overwritten(path)
            _refuse_open_in_parent(path)
            clear_place(path)
            make_if_absent(path)
        self._checkpoints = None if self.memory else Checkpoints(self._open, self.watch.look)
        self._shared = self._open() if self.memory else None
        self._prepare_file(self.connection())
        if not self.memory:
            _STORES.add(self)
            self._start_watch()

    def connection(self) -> Connection:
        """This thread's connection, in autocommit."""
        if self._shared is not None:
            return self._shared
        try:
            found: Connection = self._local.connection
        except AttributeError:
            found = self._local.connection = self._inherited() or self._open()
        return found

    def _inherited(self) -> Connection | None:
        """The connection of a thread that has ended: a program of many short threads needs no more than it runs."""
        if self._forked:
            raise forked(self.path)
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
            self.count_rows(self.connection())
            self._checkpoints.wait()

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
        with self.write_lock.without_waiting(), self.lock, self._opening:
            self.closed = True
            self.watch.stop()  # SQLite itself removes the files beside it now
            if self.watch.is_overwritten:
                return
            for _, connection in self._connections:
                with connection.busy:  # SQLite's memory must not be freed under a thread that reads
                    connection.close()
            self._connections.clear()

    def forked(self) -> None:
        """In a child after fork(): SQLite's connections must not be used, nor even closed, in another process."""
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
            return self.gone()
        text = str(error)
        if _DAMAGED in text:
            return self.damaged(text, table)
        advice = next((advice for part, advice in _ADVICE if part in text), "")
        if is_busy(error):
            return DatabaseLocked(f"{self.path}: {text}.{writer_text(self.path)}{advice}")
        return StorageError(f"{self.path}: {text}.{advice}")

    def damaged(self, text: str, table: str = "") -> StorageError:
        """For what cannot be read any more, although other tables and other keys still can."""
        where = f"{self.path}: table {table}" if table else self.path
        return StorageError(
            f"{where}: {text}. Part of the file is damaged: `penstock repair {self.path}` says what, "
            "and saves the rest; or restore a backup."
        )

    def gone(self) -> StorageError:
        """For what comes after the end."""
        if self.watch.failure:
            return DatabaseLost(self.watch.failure)
        return closed(self.path)

    def _open(self) -> Connection:
        if self.closed:
            raise self.gone()
        self.watch.look()
        settings = self._settings
        try:
            connection = sqlite3.connect(
                self._uri,
                uri=True,
                timeout=settings.busy_seconds,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=1024,
                factory=Connection,
            )
            # All of a memory database's calls queue for its one connection, whether they read or write.
            connection.busy = self.lock if self.memory else threading.RLock()
            self._configure(connection)
        except sqlite3.Error as error:
            raise self.trouble(error) from error
        with self._opening:
            if self.closed:  # meanwhile
                connection.close()
                raise self.gone()
            self._connections.append((threading.current_thread(), connection))
        self.watch.check()  # what was opened is what the others have open
        return connection

    def _configure(self, connection: Connection) -> None:
        settings = self._settings
        if not self.memory:
            self._refuse_foreign(connection)
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
        free = shutil.disk_usage(Path(self.path).resolve().parent).free
        return max(_SHORTEST_LOG, min(CHECKPOINT_PAGES, free // PAGE_BYTES // _LOG_SHARE))

    def _use_wal(self, connection: Connection) -> None:
        """Makes the file's journal a WAL. SQLite does not wait where two processes do so at once: we do."""
        end = time.monotonic() + self._settings.busy_seconds
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
            time.sleep(_WAL_RETRY_SECONDS)

    def _refuse_foreign(self, connection: Connection) -> None:
        # In one snapshot: another process may be making the file at this moment.
        connection.execute("BEGIN")
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        objects = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        connection.execute("ROLLBACK")
        if application == APPLICATION_ID and version <= FORMAT:
            return
        if application == APPLICATION_ID:
            raise newer(self.path, version)
        if application or objects:
            raise StorageError(f"{self.path}: an SQLite file of another application. Name another file.")

    def _prepare_file(self, connection: Connection) -> None:
        self._in_transaction(connection, self._create_or_upgrade)

    def _create_or_upgrade(self, connection: Connection) -> None:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            for statement in _SCHEMA.split(";\n"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute(_GIVE_MARK, (new_file_id(),))
        for upgrade in _UPGRADES[max(version, 1) - 1 :]:
            upgrade(connection)
        if version:
            # A process of an older program may have the file open: its next write looks at the catalog, and then finds
            # the new format (`refuse_newer`).
            connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'catalog'")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")

    def _in_transaction(self, connection: Connection, work: Callable[[Connection], None]) -> None:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == FORMAT:
            return
        with self._transaction(connection):
            # Another process may have been first.
            if connection.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
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

    def _marked(self, connection: Connection) -> Mark | None:
        """The file's mark (lost_file.py); one is given to a file of an older program, unless another process writes."""
        mark = read_mark(connection)
        if mark is None:
            with suppress(StorageError), self._transaction(connection):
                connection.execute(_GIVE_MARK, (new_file_id(),))
            mark = read_mark(connection)
        return mark

    def _start_watch(self) -> None:
        try:
            self.watch.start(self._marked(self.connection()))
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


_GIVE_MARK: Final = "INSERT OR IGNORE INTO meta VALUES ('file', ?), ('epoch', 1)"

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
            raise forked(path)


def forked(path: str) -> StorageError:
    return StorageError(
        f"{path}: opened before this process was forked from its parent, so that SQLite cannot use it here, not even "
        'if it is opened again. Open it after the fork only, in every process; or start processes by "spawn".'
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


def _after_fork() -> None:
    for store in list(_STORES):
        store.forked()


if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=_after_fork)

_UPGRADES: tuple[Callable[[Connection], None], ...] = ()
"""Steps from each format to the next; the first one would lead from 1 to 2."""

_DAMAGED = "malformed"
_ADVICE = (
    ("unable to open", " Check that its folder exists and may be written to."),
    ("not a database", " It is not an SQLite file: name another one."),
    (
        "readonly",
        " The file or its folder is read-only: change its permissions, or use a copy (`penstock backup` only reads).",
    ),
    ("disk is full", " The disk is full: make room, then repeat the call; nothing was half-written."),
    ("locked", " Another process held the file for too long: repeat the call, or raise busy_seconds."),
    (
        "disk I/O",
        " The disk refused: see whether it is full or failing, then repeat the call; nothing was half-written.",
    ),
)


def newer(path: str, version: int) -> StorageError:
    """For a file of a later format than this program's."""
    return StorageError(
        f"{path}: format {version} was written by a newer Penstock; "
        f"this one reads up to format {FORMAT}. Upgrade penstock to open it."
    )


def refuse_newer(connection: Connection) -> None:
    """Refuses to go on with a file that a newer program has upgraded since this one opened it."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > FORMAT:
        raise newer(connection.execute("PRAGMA database_list").fetchone()[2], version)


def drop(connection: Connection, name: str) -> None:
    """Drops one of our own SQL tables, if it is there."""
    connection.execute(f"DROP TABLE IF EXISTS {name}")


def rename(connection: Connection, name: str, new: str) -> None:
    """Gives one of our own SQL tables another name: whoever knows it by the old one no longer finds it."""
    connection.execute(f"ALTER TABLE {name} RENAME TO {new}")


def create_items(connection: Connection, name: str) -> None:
    """The SQL table of a DynamoDB table's items, clustered by key: a partition's items are neighbours."""
    connection.execute(
        f"CREATE TABLE {name} (key BLOB PRIMARY KEY, size INTEGER NOT NULL, item BLOB NOT NULL) WITHOUT ROWID"
    )


def create_index(connection: Connection, name: str) -> None:
    """The SQL table of an index: its rows point at items, so an update that moves no key touches none."""
    connection.execute(f"CREATE TABLE {name} (key BLOB PRIMARY KEY, item_key BLOB NOT NULL) WITHOUT ROWID")


def create_keys(connection: Connection, name: str) -> None:
    """An SQL table of nothing but row keys."""
    connection.execute(f"CREATE TABLE {name} (key BLOB PRIMARY KEY) WITHOUT ROWID")


def create_expiries(connection: Connection, table: str) -> None:
    """The SQL table of a TTL: which item expires when."""
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {table}_ttl "
        "(at INTEGER NOT NULL, key BLOB NOT NULL, PRIMARY KEY (at, key)) WITHOUT ROWID"
    )
