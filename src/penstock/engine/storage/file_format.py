"""The format of the file: what SQL tables it has, from its first to its newest version.

1. A file of another application, or of a newer format than this program's, is refused by name and not touched.
2. A file of an older format is taken to this one step by step, in one transaction.
3. A file gets the newest format only with its first vector index, which an older program would not keep in step with
   its table. Without one, an older program can still open the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from sqlite3 import Connection
from typing import Final

from penstock.errors import StorageError

APPLICATION_ID: Final = 0x50454E53  # "PENS", in SQLite's header: tells our files from others
FORMAT: Final = 1
"""Of a new file."""
NEWEST: Final = 2
"""Of a file with vector indexes (3)."""

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

GIVE_MARK: Final = "INSERT OR IGNORE INTO meta VALUES ('file', ?), ('epoch', 1)"

_UPGRADES: tuple[Callable[[Connection], None], ...] = ()
"""Steps from each format to the next, up to `FORMAT`."""


def new_file_id() -> int:
    return (int.from_bytes(os.urandom(8)) >> 2) + 1


def refuse_foreign(path: str, connection: Connection) -> None:
    """Refuses a file of another application, or of a newer format."""
    # In one snapshot: another process may be making the file at this moment.
    connection.execute("BEGIN")
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    objects = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    connection.execute("ROLLBACK")
    if application == APPLICATION_ID and version <= NEWEST:
        return
    if application == APPLICATION_ID:
        raise newer_format(path, version)
    if application or objects:
        raise StorageError(f"{path}: an SQLite file of another application. Name another file.")


def create_or_upgrade(connection: Connection) -> None:
    """Makes what a new file has in it, or takes a file of an older format to this one; in a transaction."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == 0:
        for statement in _SCHEMA.split(";\n"):
            if statement.strip():
                connection.execute(statement)
        connection.execute(GIVE_MARK, (new_file_id(),))
    for upgrade in _UPGRADES[max(version, 1) - 1 :]:
        upgrade(connection)
    if version:
        # A process of an older program may have the file open: its next write looks at the catalog, and then finds
        # the new format (`refuse_newer`).
        connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'catalog'")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def newer_format(path: str, version: int) -> StorageError:
    """For a file of a later format than this program's."""
    return StorageError(
        f"{path}: format {version} was written by a newer Penstock; "
        f"this one reads up to format {NEWEST}. Upgrade penstock to open it."
    )


def refuse_newer(connection: Connection) -> None:
    """Refuses to go on with a file that a newer program has upgraded since this one opened it."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > NEWEST:
        raise newer_format(connection.execute("PRAGMA database_list").fetchone()[2], version)


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


def create_vectors(connection: Connection, name: str) -> None:
    """The SQL table of a vector index: floats of 32 bits, little-endian, by item, and what a search chooses items by.

    A row that changes gets the next number: who has read up to a number finds what has changed since (vector_rows.py).
    """
    connection.execute(
        f"CREATE TABLE {name} (number INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, vector BLOB, chosen_by BLOB, "
        "saved INTEGER NOT NULL DEFAULT 0)"
    )
    connection.execute(f"CREATE INDEX {name}_gone ON {name} (number) WHERE vector IS NULL")
    if connection.execute("PRAGMA user_version").fetchone()[0] < NEWEST:  # else it would be written anew each time
        connection.execute(f"PRAGMA user_version = {NEWEST}")


def create_keys(connection: Connection, name: str) -> None:
    """An SQL table of nothing but row keys."""
    connection.execute(f"CREATE TABLE {name} (key BLOB PRIMARY KEY) WITHOUT ROWID")


def create_expiries(connection: Connection, table: str) -> None:
    """The SQL table of a TTL: which item expires when."""
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {table}_ttl "
        "(at INTEGER NOT NULL, key BLOB NOT NULL, PRIMARY KEY (at, key)) WITHOUT ROWID"
    )
