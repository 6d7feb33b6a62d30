"""Opening a database file only to look at it, for commands that must work where the engine cannot.

1. Nothing is written: no log is made or copied, no format upgraded, and a file on a read-only disk can be read.
2. What is not a database of ours, or of a newer format, is refused by name.
3. A damaged file is opened as long as its first page can be read.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from penstock.engine.storage.database_file import refuse_overwritten
from penstock.engine.storage.file_format import APPLICATION_ID, FORMAT, newer
from penstock.engine.storage.sidecar_files import beside, uri_of
from penstock.errors import StorageError

WAIT_SECONDS = 30.0
"""How long a look waits where a process is just recovering the log."""


def open_to_look(path: str) -> sqlite3.Connection:
    """A connection in autocommit that only reads. Raises StorageError."""
    _refuse_no_file(path)
    refuse_overwritten(path)
    try:
        db = _connected(path)
    except sqlite3.Error as error:
        raise StorageError(f"{path}: {error}. It is not an SQLite file, or its first page is lost.") from error
    try:
        _refuse_foreign(path, db)
    except BaseException:
        db.close()
        raise
    return db


def _refuse_no_file(path: str) -> None:
    if "://" in path:
        raise StorageError(f"{path}: not a file. For a database behind a URL, see `penstock tables dump --help`.")
    if not Path(path).is_file():
        raise StorageError(f"{path}: there is no such file. Check the name.")
    if not os.access(path, os.R_OK):
        raise StorageError(f"{path}: may not be read by this user. Change its permissions.")


def _connected(path: str) -> sqlite3.Connection:
    """The first way of opening that works.

    A file without a log is opened as if to write, because then SQLite takes away what it makes beside the file. Where a
    log is, that would copy it: a file that may be damaged is left as it lies. A read-only disk lets nothing be made.
    """
    log = beside(path)[0]
    has_log = log.exists() and log.stat().st_size > 0
    ways = ("mode=ro",) if has_log else ("mode=rw", "mode=ro", "mode=ro&immutable=1")
    for way in ways[:-1]:
        try:
            return _tried(path, way)
        except sqlite3.OperationalError:
            continue
    return _tried(path, ways[-1])


def _tried(path: str, way: str) -> sqlite3.Connection:
    db = sqlite3.connect(uri_of(path, way), uri=True, timeout=WAIT_SECONDS, isolation_level=None)
    try:
        db.execute("PRAGMA query_only = ON")
        db.execute("PRAGMA temp_store = MEMORY")
        # Otherwise SQLite does not look at a file at all whose end is missing.
        db.execute("PRAGMA writable_schema = ON")
        db.execute("PRAGMA schema_version").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def _refuse_foreign(path: str, db: sqlite3.Connection) -> None:
    application = db.execute("PRAGMA application_id").fetchone()[0]
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise StorageError(f"{path}: not a database of Penstock's. Name another file.")
    if version > FORMAT:
        raise newer(path, version)
