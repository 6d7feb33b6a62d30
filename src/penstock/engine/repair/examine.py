"""The examination of a file: its pages, and whether what lies in them agrees.

1. Nothing is changed. The file may be in use: it is looked at as it was at one moment.
2. Each index is compared with what its table's items call for: first by number and a sum of hashes, which needs no
   memory; only where these differ, row by row.
3. An index or a TTL that is still being filled may lack rows of items behind the place that the filling has reached.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from penstock.engine.catalog import row_keys
from penstock.engine.catalog.table_schema import IndexInfo, TableInfo
from penstock.engine.items.expiry_rows import LONGEST_PAST_SECONDS, expiry, is_filling
from penstock.engine.repair.damaged_tables import Good, Reading, explain_no_room, key_text
from penstock.engine.repair.file_snapshot import Snapshot
from penstock.engine.repair.sqlite_pages import Lost
from penstock.wire.values import binary

# ── findings ──────────────────────────────────────────────────────────────────────────────────────


MOST_EXAMPLES = 10
"""Keys that are named of each table and index; of the others, the number is told."""


@dataclass(slots=True)
class IndexFindings:
    """One index. Its rows can all be made again from the items."""

    name: str
    rows: int = 0
    """That can be read."""
    lost_pages: int = 0
    missing: int = 0
    """Items that should have a row and have none."""
    dangling: int = 0
    """Rows that point at no item."""
    wrong: int = 0
    """Rows of items whose values are others."""
    keys: list[str] = field(default_factory=list)
    """Some of the items concerned."""

    @property
    def sound(self) -> bool:
        return not (self.lost_pages or self.missing or self.dangling or self.wrong)


@dataclass(slots=True)
class TableFindings:
    """One DynamoDB table."""

    name: str
    account: str
    region: str
    items: int = 0
    """That can be read where they should be."""
    loose: int = 0
    """That can be read, although nothing leads to their pages: no call sees them, `--into` saves them."""
    lost_pages: int = 0
    broken: int = 0
    """Items whose row is there and cannot be what was written."""
    resized: int = 0
    """Items that have another size than their row says: something in them may have changed."""
    known_lost: int = 0
    """Items that can no longer be read, as far as an index still knows of them."""
    keys: list[str] = field(default_factory=list)
    """Some of those that are broken, resized or lost."""
    expiries: str = ""
    """What is wrong with the notes of when items end (TTL)."""
    indexes: list[IndexFindings] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        itself = self.loose or self.lost_pages or self.broken or self.resized or self.known_lost or self.expiries
        return not itself and all(index.sound for index in self.indexes)

    @property
    def lost(self) -> int:
        """Items that no new file will have, as far as is known."""
        return self.broken + self.known_lost


@dataclass(slots=True)
class Findings:
    """A file."""

    path: str
    bytes: int
    tables: list[TableFindings] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    """What is wrong beside the tables: the list of tables, streams, backups, the journal."""
    sqlite: tuple[str, ...] = ()
    """What SQLite itself says of the pages."""

    @property
    def sound(self) -> bool:
        return not self.others and not self.sqlite and all(table.sound for table in self.tables)


def example(keys: list[str], key: str) -> None:
    """Notes a key, as long as there is room for examples."""
    if len(keys) < MOST_EXAMPLES and key not in keys:
        keys.append(key)


# ── the examination ───────────────────────────────────────────────────────────────────────────────


Tell = Callable[[str], None]
"""Called with what is being looked at."""


def examine(path: str, tell: Tell = lambda _: None) -> Findings:
    """What is wrong with the file. Raises StorageError where it cannot even be opened."""
    tell("pages")
    with explain_no_room(path), Snapshot(path) as snapshot, Reading(snapshot) as reading:
        return findings_of(reading, tell)


def findings_of(reading: Reading, tell: Tell) -> Findings:
    snapshot = reading.snapshot
    findings = Findings(snapshot.path, snapshot.bytes(), sqlite=snapshot.faults)
    for table in reading.tables:
        tell(table.name)
        findings.tables.append(_Table(reading, table).findings())
    findings.others += _others(reading)
    return findings


class _Sum:
    """A number of rows, and a sum of their hashes: the same for the same rows in any order."""

    def __init__(self) -> None:
        self.rows = 0
        self.hashes = 0

    def add(self, row: tuple[object, ...]) -> None:
        self.rows += 1
        self.hashes += hash(row)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Sum) and (self.rows, self.hashes) == (other.rows, other.hashes)

    __hash__ = None  # type: ignore[assignment]


class _Table:
    def __init__(self, reading: Reading, table: TableInfo) -> None:
        self._reading = reading
        self._table = table
        self._found = TableFindings(table.name, table.scope.account, table.scope.region)
        self._wanted = {index.name: _Sum() for index in table.index_list}
        self._ends = _Sum()

    def findings(self) -> TableFindings:
        found, table = self._found, self._table
        for one in self._reading.items(table):
            self._count(one)
        found.loose = sum(1 for _ in self._reading.loose_items(table))
        if table.storage not in self._reading.names:
            found.lost_pages += 1
        for index in table.index_list:
            found.indexes.append(self._index(index))
        self._compare_ends()
        return found

    def _count(self, one: Good | Lost) -> None:
        found, table = self._found, self._table
        if isinstance(one, Lost):
            if one.is_row:
                found.broken += 1
                example(found.keys, _text(table, one.key))
            else:
                found.lost_pages += 1
            return
        found.items += 1
        if one.size != one.noted_size:
            found.resized += 1
            example(found.keys, key_text(table, one.key))
        for index in table.index_list:
            entry = row_keys.index_key(index, one.item, one.key)
            if entry is not None:
                self._wanted[index.name].add((entry, one.key))
        if table.ttl_attribute is not None:
            self._count_end(expiry(one.item, table.ttl_attribute), one.key)

    def _count_end(self, at: int | None, key: bytes) -> None:
        if at is not None and at >= time.time() - LONGEST_PAST_SECONDS:
            self._ends.add((at, key))

    # ── indexes ──────────────────────────────────────────────────────────────────────────────────

    def _index(self, index: IndexInfo) -> IndexFindings:
        found, have, lost = IndexFindings(index.name), _Sum(), set()
        for row in self._reading.rows(index.storage):
            if isinstance(row, Lost):
                lost.add(row.page)
            else:
                have.add(row)
        found.rows, found.lost_pages = have.rows, len(lost)
        if index.storage not in self._reading.names:
            found.lost_pages += 1
        if index.backfilling or have != self._wanted[index.name]:
            self._compare(index, found)
        return found

    def _compare(self, index: IndexInfo, found: IndexFindings) -> None:
        """Row by row, in a file for the purpose."""
        db = self._reading.scratch
        for name, rows in (("wanted", self._calls_for(index)), ("have", self._rows_of(index))):
            db.execute(f"DROP TABLE IF EXISTS {name}")
            db.execute(f"CREATE TABLE {name} (key BLOB, item_key BLOB, PRIMARY KEY (key, item_key)) WITHOUT ROWID")
            db.executemany(f"INSERT OR IGNORE INTO {name} VALUES (?, ?)", rows)  # noqa: S608
        # One item has one row at the most, so its key says whether it is there.
        db.execute("DROP TABLE IF EXISTS there")
        db.execute("CREATE TABLE there (item_key BLOB PRIMARY KEY) WITHOUT ROWID")
        db.executemany("INSERT OR IGNORE INTO there VALUES (?)", self._keys())
        filled = binary(index.record["backfill_cursor"]) if index.backfilling else None
        for (key,) in db.execute("SELECT item_key FROM (SELECT * FROM wanted EXCEPT SELECT * FROM have)"):
            if filled is None or key <= filled:
                found.missing += 1
                example(found.keys, key_text(self._table, key))
        rest = "SELECT item_key, item_key IN there FROM (SELECT * FROM have EXCEPT SELECT * FROM wanted)"
        for key, is_there in db.execute(rest).fetchall():
            self._judge(found, key, is_there)

    def _judge(self, found: IndexFindings, key: bytes, is_there: bool) -> None:
        if is_there:
            found.wrong += 1
            example(found.keys, key_text(self._table, key))
            return
        found.dangling += 1
        example(found.keys, _text(self._table, key))
        if any(lost.covers(key) for lost in self._reading.lost_parts(self._table)):
            self._lose(key)

    def _lose(self, key: bytes) -> None:
        """An index still knows of an item that lay in a lost page."""
        db = self._reading.scratch
        db.execute("CREATE TABLE IF NOT EXISTS lost (table_id INTEGER, key BLOB, PRIMARY KEY (table_id, key))")
        loose = db.execute("SELECT 1 FROM loose WHERE home = ? AND key = ?", (self._table.storage, key)).fetchone()
        if loose is not None:
            return
        if db.execute("INSERT OR IGNORE INTO lost VALUES (?, ?)", (self._table.id, key)).rowcount:
            self._found.known_lost += 1
            example(self._found.keys, _text(self._table, key))

    def _calls_for(self, index: IndexInfo) -> Iterator[tuple[bytes, bytes]]:
        for one in self._reading.items(self._table):
            if isinstance(one, Good) and (entry := row_keys.index_key(index, one.item, one.key)) is not None:
                yield entry, one.key

    def _rows_of(self, index: IndexInfo) -> Iterator[tuple[bytes, bytes]]:
        for row in self._reading.rows(index.storage):
            if not isinstance(row, Lost) and len(row) == 2:
                yield row[0], row[1]

    def _keys(self) -> Iterator[tuple[bytes]]:
        for one in self._reading.items(self._table):
            if isinstance(one, Good):
                yield (one.key,)

    # ── expiries ─────────────────────────────────────────────────────────────────────────────────

    def _compare_ends(self) -> None:
        table = self._table
        if table.ttl_attribute is None:
            return
        have, lost, horizon = _Sum(), 0, time.time() - LONGEST_PAST_SECONDS
        for row in self._reading.rows(f"{table.storage}_ttl"):
            if isinstance(row, Lost):
                lost += 1
            elif isinstance(row[0], int) and row[0] >= horizon:
                have.add(row)
        if lost:
            self._found.expiries = f"{lost} of its pages or rows cannot be read"
        elif have != self._ends and not is_filling(table):
            self._found.expiries = f"{have.rows:,} are noted where the items call for {self._ends.rows:,}"


def _text(table: TableInfo, key: object) -> str:
    return key_text(table, key) if isinstance(key, bytes) and key else "an unknown key"


# ── what stands beside the tables ────────────────────────────────────────────────────────────────

_SHARED = {
    "meta": "the catalog's version",
    "streams": "the list of streams",
    "stream_records": "the records of streams",
    "backups": "the list of backups",
    "journal": "the journal of point-in-time recovery",
    "idempotency": "the answers to client tokens",
}


def _others(reading: Reading) -> list[str]:
    found = []
    if reading.snapshot.lost_names():
        found.append("the list of SQL tables: some of it cannot be read")
    for lost in reading.lost_definitions:
        what = "the definition of a table" if lost.is_row else "definitions of tables"
        found.append(f"{what} cannot be read, nor can its items be told from others: {lost.reason}")
    for name, what in _SHARED.items():
        if name not in reading.names:
            found.append(f"{what}: not there")
        elif lost_rows := sum(isinstance(row, Lost) for row in reading.rows(name)):
            found.append(f"{what}: {lost_rows} of its pages or rows cannot be read")
    return found + _backups(reading)


def _backups(reading: Reading) -> list[str]:
    found = []
    # A large table that is being deleted becomes its backup when it goes.
    to_come = {table.record.get("becomes_backup") for table in reading.tables}
    for row in reading.rows("backups"):
        if isinstance(row, Lost):
            continue
        lost = sum(isinstance(one, Lost) for one in reading.rows(f"b{row[0]}"))
        if lost or (f"b{row[0]}" not in reading.names and row[0] not in to_come):
            found.append(f"the backup {row[4]} of {row[3]}: {lost or 'all'} of its pages or rows cannot be read")
    return found
