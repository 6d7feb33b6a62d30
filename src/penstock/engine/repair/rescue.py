"""A new file of everything in an old one that can be read.

1. The old file is only read. The new one gets its name when it is whole, examined and on the disk.
2. Items are taken as they are; indexes and the notes of when items end are made anew from them.
3. What cannot be whole says so: a journal with a gap would restore items that never were together, so that
   point-in-time recovery begins anew; the numbers of a stream's records that are lost are not given again.
"""

from __future__ import annotations

import time
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import orjson

from penstock.engine.catalog import row_keys
from penstock.engine.catalog.table_schema import Record, TableInfo, compile_table
from penstock.engine.items import index_backfill, vector_rows
from penstock.engine.items.expiry_rows import expiry
from penstock.engine.repair.damaged_tables import Good, Reading, explain_no_room
from penstock.engine.repair.examine import Findings, Tell, examine, findings_of
from penstock.engine.repair.file_snapshot import Snapshot
from penstock.engine.repair.sqlite_pages import Lost
from penstock.engine.settings import Settings
from penstock.engine.storage import file_format
from penstock.engine.storage.database_file import Connection, Store
from penstock.engine.storage.file_copy import explain_failed_copy, new_file, refuse_place
from penstock.errors import StorageError

_STEP_ROWS = 5_000
_UNFINISHED = "SELECT id, name FROM backups WHERE json_extract(record, '$.copy') IS NOT NULL"
_SKIPPED_NUMBERS = 1_000_000
"""Left out of a damaged stream's numbers: more than one page can have held."""


@dataclass(slots=True)
class Saved:
    """One table in the new file."""

    name: str
    account: str
    region: str
    items: int
    lost: int
    """As far as is known."""
    lost_pages: int
    index_rows: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Rescued:
    source: str
    copy: str
    tables: list[Saved]
    notes: list[str]
    """What is lost or begins anew beside the items."""
    before: Findings

    @property
    def complete(self) -> bool:
        """Whether every item and everything beside them was saved, as far as is known."""
        return not self.notes and not any(table.lost or table.lost_pages for table in self.tables)


def rescue(source: str, copy: str, *, replace: bool = False, tell: Tell = lambda _: None) -> Rescued:
    """Writes what can be read of `source` to the new file `copy`. Raises StorageError, and then leaves no copy."""
    tell("pages")
    with explain_no_room(source), Snapshot(source) as snapshot, Reading(snapshot) as reading:
        refuse_place(source, copy, replace=replace)
        findings = findings_of(reading, tell)
        with new_file(copy, replace=replace) as part:
            with explain_failed_copy(copy):
                new = Store(str(part), Settings())
                try:
                    saved, notes = _Writer(reading, new, findings, tell).write()
                finally:
                    new.close()
            _refuse_unsound(examine(str(part), tell), copy)
    return Rescued(source, copy, saved, notes, findings)


def _refuse_unsound(after: Findings, copy: str) -> None:
    if not after.sound:
        raise StorageError(f"{copy}: the new file is not sound either ({after}). Please report this. Nothing was left.")


class _Writer:
    def __init__(self, reading: Reading, new: Store, findings: Findings, tell: Tell) -> None:
        self._reading = reading
        self._store = new
        self._db: Connection = new.connection()
        self._found = {(one.account, one.region, one.name): one for one in findings.tables}
        self._tell = tell
        self._notes = list(findings.others)

    def write(self) -> tuple[list[Saved], list[str]]:
        self._copy_shared()
        saved = [self._table(table) for table in self._reading.tables if self._is_whole(table)]
        self._copy_backups()
        return saved, self._notes

    def _is_whole(self, table: TableInfo) -> bool:
        """What was still being restored is left out: it was never seen, and can be restored anew."""
        if "restore" in table.record:
            self._notes.append(f"the restore of {table.name} had not ended: begin it anew")
        return "restore" not in table.record

    def _step(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        """One transaction: so many rows."""
        self._store.begin(self._db)
        self._db.executemany(statement, rows)
        self._db.execute("COMMIT")

    # ── tables ───────────────────────────────────────────────────────────────────────────────────

    def _table(self, old: TableInfo) -> Saved:
        self._tell(old.name)
        table = compile_table(old.id, old.scope, self._record(old))
        self._define(table)
        found = self._found[old.scope.account, old.scope.region, old.name]
        saved = Saved(found.name, found.account, found.region, 0, found.lost, found.lost_pages)
        good = (one for one in self._reading.items(old) if isinstance(one, Good))
        everything = chain(good, self._reading.loose_items(old))
        while step := list(islice(everything, _STEP_ROWS)):
            self._save(table, step, saved)
        return saved

    def _record(self, old: TableInfo) -> Record:
        """The definition, without the places that background work had reached: it is done here."""
        record: Record = deepcopy(dict(old.record))
        for index in index_backfill.index_records(record):
            index.pop("backfill_cursor", None)
        record.pop("becomes_backup", None)
        if record.get("ttl"):
            record["ttl"].pop("cursor", None)
        if record.get("pitr") and self._has_lost("journal"):
            record["pitr"]["enabled_at"] = time.time()
        return record

    def _define(self, table: TableInfo) -> None:
        self._store.begin(self._db)
        scope, record = table.scope, orjson.dumps(table.record)
        row = (table.id, scope.account, scope.region, table.name, record)
        self._db.execute("INSERT INTO tables (id, account, region, name, record) VALUES (?, ?, ?, ?, ?)", row)
        file_format.create_items(self._db, table.storage)
        for index in table.index_list:
            file_format.create_index(self._db, index.storage)
        for vectors in table.vectors.values():
            file_format.create_vectors(self._db, vectors.storage)
        if table.ttl_attribute is not None:
            file_format.create_expiries(self._db, table.storage)
        self._db.execute("COMMIT")

    def _save(self, table: TableInfo, step: list[Good], saved: Saved) -> None:
        self._step(table.sql_insert, [(one.key, one.size, one.data) for one in step])
        saved.items += len(step)
        for index in table.index_list:
            rows = [
                (entry, one.key) for one in step if (entry := row_keys.index_key(index, one.item, one.key)) is not None
            ]
            self._step(index.sql_put, rows)
            saved.index_rows[index.name] = saved.index_rows.get(index.name, 0) + len(rows)
        for vectors in table.vectors.values():
            entries = list(vector_rows.rows_of(vectors, ((one.key, one.data) for one in step)))
            self._step(vectors.sql_put, entries)
            saved.index_rows[vectors.name] = saved.index_rows.get(vectors.name, 0) + len(entries)
        if table.ttl_attribute is not None:
            ends = [(expiry(one.item, table.ttl_attribute), one.key) for one in step]
            statement = f"INSERT OR IGNORE INTO {table.storage}_ttl (at, key) VALUES (?, ?)"  # noqa: S608
            self._step(statement, [end for end in ends if end[0] is not None])

    # ── what stands beside the tables ────────────────────────────────────────────────────────────

    def _copy_shared(self) -> None:
        self._copy_catalog_version()
        for name in ("streams", "idempotency", "stream_records"):
            self._copy_rows(name)
        if not self._has_lost("journal"):
            self._copy_rows("journal")
        elif any(table.record.get("pitr") for table in self._reading.tables):
            self._notes.append("point-in-time recovery begins anew")
        if self._has_lost("stream_records"):
            self._skip_numbers()
        self._keep_counters()

    def _copy_catalog_version(self) -> None:
        """Of `meta` nothing else: the new file has an id of its own."""
        versions = [row[1] for row in self._reading.rows("meta") if not isinstance(row, Lost) and row[0] == "catalog"]
        self._step("UPDATE meta SET value = ? WHERE name = 'catalog'", [(version,) for version in versions])

    def _copy_rows(self, name: str) -> None:
        """Copies the rows that can be read."""
        columns = len(self._db.execute(f"PRAGMA table_info({name})").fetchall())
        rows = self._reading.rows(name)
        good = (row for row in rows if not isinstance(row, Lost) and len(row) == columns)
        statement = f"INSERT OR REPLACE INTO {name} VALUES ({', '.join('?' * columns)})"  # noqa: S608
        while step := list(islice(good, _STEP_ROWS)):
            self._step(statement, step)

    def _has_lost(self, name: str) -> bool:
        return name not in self._reading.names or any(isinstance(row, Lost) for row in self._reading.rows(name))

    def _skip_numbers(self) -> None:
        self._db.execute(
            "INSERT INTO stream_records SELECT coalesce(max(sequence), 0) + ?, 0, 0, 0, 0, x'' FROM "
            "(SELECT sequence FROM stream_records UNION ALL SELECT max(start, trimmed) FROM streams)",
            (_SKIPPED_NUMBERS,),
        )

    def _keep_counters(self) -> None:
        """Numbers of tables, streams and backups that are gone are not given again."""
        for row in self._reading.rows("sqlite_sequence"):
            if not isinstance(row, Lost):
                self._db.execute("DELETE FROM sqlite_sequence WHERE name = ? AND seq <= ?", row)
                self._db.execute(
                    "INSERT INTO sqlite_sequence SELECT ?1, ?2 WHERE NOT EXISTS "
                    "(SELECT 1 FROM sqlite_sequence WHERE name = ?1)",
                    row,
                )

    def _copy_backups(self) -> None:
        self._copy_rows("backups")
        for backup, title in self._db.execute(_UNFINISHED).fetchall():
            self._notes.append(f"the backup {title} had not ended: make it anew")
            self._db.execute("DELETE FROM backups WHERE id = ?", (backup,))
        for (backup,) in self._db.execute("SELECT id FROM backups").fetchall():
            name = f"b{backup}"
            file_format.create_items(self._db, name)
            self._copy_rows(name)
