"""The catalog: which tables there are, kept in the file and cached, compiled, in the process. Operations look tables up
in it through the context of their call.

1. The cache is only ever a copy of the file's catalog at one version; each write transaction compares versions first.
   An entry goes into the cache of the version that it was read with, or nowhere: a slow reader cannot hand a stale
   entry to a writer.
2. Readers may use a cached entry that another process has since changed. It shows: a dropped SQL table, or an error,
   makes the engine compare versions and read again. Calls that ask about the table itself never use the cache.
3. A table's record is changed only inside a write transaction, through `save`, which moves the version on.
4. An upgrade of the file's format moves the version on too: a process of an older program that has the file open finds
   out at its next write, and refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from sqlite3 import Cursor
from typing import TYPE_CHECKING, Any

import orjson

from penstock.engine.catalog.table_schema import Record, TableInfo, compile_table
from penstock.engine.settings import Scope
from penstock.engine.storage.database_file import Connection
from penstock.engine.storage.file_format import refuse_newer
from penstock.errors import ResourceNotFoundException

if TYPE_CHECKING:
    from penstock.engine.engine import Engine


_VERSION = "SELECT value FROM meta WHERE name = 'catalog'"
_FIND = f"SELECT id, record, ({_VERSION}) FROM tables WHERE account = ? AND region = ? AND name = ?"  # noqa: S608

Cache = tuple[int, dict[tuple[Scope, str], TableInfo]]
"""A version of the file's catalog and what has been read of it; replaced as one, because many threads share it."""

_NOTHING = 0
"""Lower than any version."""


class Catalog:
    def __init__(self) -> None:
        self.cache: Cache = (_NOTHING, {})
        self._all: tuple[int, Sequence[TableInfo]] = (_NOTHING, ())
        """As `all` found them last, and of which version: a list that nobody changes."""
        self._has_moved = False

    def refresh(self, db: Connection) -> None:
        """At the start of a write transaction: forgets what is cached if the file's catalog has moved on."""
        self._has_moved = False
        version = db.execute(_VERSION).fetchone()[0]
        if version != self.cache[0]:
            refuse_newer(db)
            self.cache = (version, {})

    def renew(self, db: Connection) -> None:
        """The same for readers, whose snapshot may be older than the cache: they never turn it back."""
        version = db.execute(_VERSION).fetchone()[0]
        if version > self.cache[0]:
            self.cache = (version, {})

    def forget(self) -> None:
        """Makes the next look-up read the file: a cached entry proved stale."""
        self.cache = (self.cache[0], {})

    def forget_rolled_back(self) -> None:
        """After a rollback: a version that never was may have been cached."""
        if self._has_moved:
            self.cache = (_NOTHING, {})

    def find(self, db: Connection, scope: Scope, name: str) -> TableInfo | None:
        """The table, or None; from the cache if it is there."""
        found = self.cache[1].get((scope, name))
        return self.load(db, scope, name) if found is None else found

    def load(self, db: Connection, scope: Scope, name: str) -> TableInfo | None:
        """The table as it is in the file, or None."""
        row = db.execute(_FIND, (scope.account, scope.region, name)).fetchone()
        if row is None:
            return None
        table_id, record, version = row
        cache = self.cache
        if version == cache[0] and (scope, name) in cache[1]:
            return cache[1][scope, name]
        table = compile_table(table_id, scope, orjson.loads(record))
        self._keep(version, table)
        return table

    def _keep(self, version: int, table: TableInfo) -> None:
        cache = self.cache
        if version > cache[0]:
            cache = self.cache = (version, {})
        if version == cache[0]:
            cache[1][table.scope, table.name] = table

    def names(self, db: Connection, scope: Scope, after: str, limit: int) -> list[str]:
        """Names of tables in order, from the first one after `after`."""
        rows = db.execute(
            "SELECT name FROM tables WHERE account = ? AND region = ? AND name > ? ORDER BY name LIMIT ?",
            (scope.account, scope.region, after, limit),
        )
        return [name for (name,) in rows]

    def all(self, db: Connection) -> Sequence[TableInfo]:
        """Every table of every scope. Background work asks again and again: they are compiled once a version."""
        known = self._all
        if db.execute(_VERSION).fetchone()[0] == known[0]:
            return known[1]
        rows = db.execute(f"SELECT id, account, region, record, ({_VERSION}) FROM tables ORDER BY id").fetchall()  # noqa: S608
        found = [compile_table(row[0], Scope(row[1], row[2]), orjson.loads(row[3])) for row in rows]
        if rows and not db.in_transaction:  # what is not committed may be rolled back
            self._all = (rows[0][4], found)
        return found

    def add(self, db: Connection, scope: Scope, record: Record) -> TableInfo:
        """Puts a new table into the catalog (its SQL tables are the caller's)."""
        cursor = db.execute(
            "INSERT INTO tables (account, region, name, record) VALUES (?, ?, ?, ?)",
            (scope.account, scope.region, record["TableName"], orjson.dumps(record)),
        )
        self._raise_version(db)
        table_id = cursor.lastrowid
        assert table_id is not None
        return compile_table(table_id, scope, record)

    def save(self, db: Connection, table: TableInfo, record: Record) -> TableInfo:
        """Replaces a table's record."""
        db.execute("UPDATE tables SET record = ? WHERE id = ?", (orjson.dumps(record), table.id))
        self._raise_version(db)
        return compile_table(table.id, table.scope, record)

    def remove(self, db: Connection, table: TableInfo) -> None:
        db.execute("DELETE FROM tables WHERE id = ?", (table.id,))
        self._raise_version(db)

    def _raise_version(self, db: Connection) -> None:
        db.execute("UPDATE meta SET value = value + 1 WHERE name = 'catalog'")
        self._has_moved = True
        self.forget()


# ── the context of one call ────────────────────────────────────────────────────────────────────────


RESOURCE_POLICY = "ResourcePolicy"
"""Where the policy is in a table's record; what it says is not looked at."""

_TABLE_ARN = re.compile(r"arn:aws[a-z-]*:dynamodb:([a-z0-9-]+):([0-9]+):table/([A-Za-z0-9_.-]+)")


@dataclass(slots=True, eq=False)
class OperationContext:
    """`db` is a read snapshot or the open write transaction, whichever the operation's kind asked for."""

    engine: Engine
    db: Connection
    scope: Scope
    now: float
    prepared: Any = None
    """What the operation's `prepare` gave; None where it was not asked."""
    cursor: Cursor | None = None
    """Kept by GetItem: the reads of a group use one, which saves a tenth of each."""

    def table(self, name: str) -> TableInfo:
        """The table of this name or ARN, ready for data; ResourceNotFoundException otherwise."""
        found = self.engine.catalog.cache[1].get((self.scope, name))
        if found is None or "unsettled" in found.record:
            found = self._look_up(name)
        return found

    def find(self, name: str) -> TableInfo | None:
        """The table of this name or ARN as the file has it now, in whatever state it is, or None."""
        found = self.engine.catalog.load(self.db, *self._scope_and_name(name))
        if found is None or not self._is_open_to(found):
            return None
        self.engine.maintenance.notice(found.record)
        return found

    def _scope_and_name(self, name: str) -> tuple[Scope, str]:
        return parse_table_arn(name) if name.startswith("arn:") else (self.scope, name)

    def _look_up(self, name: str) -> TableInfo:
        found = self.engine.catalog.find(self.db, *self._scope_and_name(name))
        if found is not None:
            self.engine.maintenance.notice(found.record)
        if found is None or not self._is_open_to(found) or not self.is_ready(found):
            raise ResourceNotFoundException("Requested resource not found")
        return found

    def _is_open_to(self, table: TableInfo) -> bool:
        """Whether this caller may reach the table: its own, or one of another account that has a resource policy."""
        if table.scope == self.scope:
            return True
        return table.scope.region == self.scope.region and RESOURCE_POLICY in table.record

    def is_ready(self, table: TableInfo) -> bool:
        """Whether items can be read and written: the table is neither CREATING nor DELETING."""
        record = table.record
        return self.now >= record.get("active_at", 0.0) and "deleted_at" not in record


def parse_table_arn(arn: str) -> tuple[Scope, str]:
    """The scope and name that an ARN means."""
    match = _TABLE_ARN.fullmatch(arn)
    if match is None:
        raise ResourceNotFoundException("Requested resource not found")
    region, account, name = match.groups()
    return Scope(account, region), name
