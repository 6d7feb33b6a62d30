"""The catalog: which tables there are, kept in the file and cached, compiled, in the process.

1. The cache is only ever a copy of the file's catalog at `version`; each write transaction compares versions first.
2. Readers may use a cached entry that another process has since changed: a dropped SQL table makes them look again,
   and an index or table that is not in the cache is looked for in the file before it is said to be missing.
3. A table's record is changed only inside a write transaction, through `save`, which moves the version on.
"""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from penstock.engine.schema import Record, TableInfo, compile_table
from penstock.engine.settings import Scope
from penstock.engine.storage.store import Connection

_VERSION = "SELECT value FROM meta WHERE name = 'catalog'"


class Catalog:
    def __init__(self) -> None:
        self._tables: dict[tuple[Scope, str], TableInfo] = {}
        self._version = 0

    def refresh(self, db: Connection) -> None:
        """Forgets what is cached if the file's catalog has moved on."""
        version = db.execute(_VERSION).fetchone()[0]
        if version != self._version:
            self._tables = {}
            self._version = version

    def forget(self) -> None:
        """Makes the next look-up read the file: after a rollback, or where a cached entry proved stale."""
        self._tables = {}
        self._version = 0

    def cached(self, scope: Scope, name: str) -> TableInfo | None:
        return self._tables.get((scope, name))

    def find(self, db: Connection, scope: Scope, name: str) -> TableInfo | None:
        """The table, or None."""
        found = self._tables.get((scope, name))
        if found is not None:
            return found
        row = db.execute(
            "SELECT id, record FROM tables WHERE account = ? AND region = ? AND name = ?",
            (scope.account, scope.region, name),
        ).fetchone()
        if row is None:
            return None
        table = compile_table(row[0], scope, orjson.loads(row[1]))
        self._tables[scope, name] = table
        return table

    def names(self, db: Connection, scope: Scope, after: str, limit: int) -> list[str]:
        """Names of tables in order, from the first one after `after`."""
        rows = db.execute(
            "SELECT name FROM tables WHERE account = ? AND region = ? AND name > ? ORDER BY name LIMIT ?",
            (scope.account, scope.region, after, limit),
        )
        return [name for (name,) in rows]

    def all(self, db: Connection) -> Iterator[TableInfo]:
        """Every table of every scope."""
        rows = db.execute("SELECT id, account, region, record FROM tables ORDER BY id").fetchall()
        for table_id, account, region, record in rows:
            yield compile_table(table_id, Scope(account, region), orjson.loads(record))

    def add(self, db: Connection, scope: Scope, record: Record) -> TableInfo:
        """Puts a new table into the catalog (its SQL tables are the caller's)."""
        cursor = db.execute(
            "INSERT INTO tables (account, region, name, record) VALUES (?, ?, ?, ?)",
            (scope.account, scope.region, record["TableName"], orjson.dumps(record)),
        )
        self._moved(db)
        table_id = cursor.lastrowid
        assert table_id is not None
        return compile_table(table_id, scope, record)

    def save(self, db: Connection, table: TableInfo, record: Record) -> TableInfo:
        """Replaces a table's record."""
        db.execute("UPDATE tables SET record = ? WHERE id = ?", (orjson.dumps(record), table.id))
        self._moved(db)
        return compile_table(table.id, table.scope, record)

    def remove(self, db: Connection, table: TableInfo) -> None:
        db.execute("DELETE FROM tables WHERE id = ?", (table.id,))
        self._moved(db)

    def _moved(self, db: Connection) -> None:
        db.execute("UPDATE meta SET value = value + 1 WHERE name = 'catalog'")
        self.forget()
