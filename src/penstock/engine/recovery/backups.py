"""Backups: a table's items and definition at one moment, in the same file.

1. A backup holds the items of one moment, that of the transaction which begins it. A small table's are copied in that
   transaction. A large one's are copied afterwards, in the order of their keys and in steps (steps.py); until then the
   backup is CREATING, and can be neither restored nor deleted, nor its table deleted.
2. While it is copied, triggers of the table put every item that is about to be changed or deleted into the backup, if
   it is not there yet, and note the keys of new ones (`b{id}_new`), which are not copied. They concern every writer,
   whatever its program or process. A copy that was cut off goes on from its place ("copy" in the record).
3. It depends on nothing of its table, and outlives it.
4. A table deleted while point-in-time recovery is on leaves a SYSTEM backup, which expires after 35 days. It is the
   table's own SQL table, under another name, if that is large.
"""

from __future__ import annotations

import logging
import re
import secrets
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from penstock.engine import maintenance
from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.table_schema import Record, TableInfo
from penstock.engine.maintenance import chore
from penstock.engine.settings import Scope
from penstock.engine.storage import file_format
from penstock.engine.storage.database_file import Connection
from penstock.errors import AccessDeniedException, BackupNotFoundException, ValidationException
from penstock.wire.values import base64_text, binary

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

_LOG = logging.getLogger(__name__)

USER, SYSTEM = "USER", "SYSTEM"

_SYSTEM_SECONDS: Final = 35 * 86_400.0
_IN_USE_SECONDS: Final = 1.0  # until we look again whether an expired backup is still being restored
_EVENTS: Final = ("BEFORE UPDATE", "BEFORE DELETE", "AFTER INSERT")
_COLUMNS: Final = "id, account, region, table_name, name, type, created_at, expires_at, record"
_ARN = re.compile(
    r"arn:aws[a-z-]*:dynamodb:([a-z0-9-]+):([0-9]+):table/([A-Za-z0-9_.-]+)/backup/([0-9]{14}-[0-9a-f]{8})"
)
_KEPT: Final = (
    "TableName",
    "TableId",
    "AttributeDefinitions",
    "KeySchema",
    "LocalSecondaryIndexes",
    "GlobalSecondaryIndexes",
    "VectorIndexes",
    "BillingMode",
    "ProvisionedThroughput",
    "OnDemandThroughput",
    "SSESpecification",
    "StreamSpecification",
    "ttl",
    "created_at",
)
"""Members of a table's record that a backup knows of: no tags, policy, recovery, class or deletion protection."""


@dataclass(frozen=True, slots=True)
class Backup:
    """`name` is the last part of the ARN, `title` the name that its maker gave it."""

    id: int
    scope: Scope
    table_name: str
    name: str
    type: str
    created_at: float
    expires_at: float | None
    record: Record

    @property
    def arn(self) -> str:
        return self.scope.arn(f"table/{self.table_name}/backup/{self.name}")

    @property
    def table_arn(self) -> str:
        return self.scope.arn(f"table/{self.table_name}")

    @property
    def storage(self) -> str:
        """The SQL table that holds its items."""
        return f"b{self.id}"

    @property
    def newer_keys(self) -> str:
        """The SQL table of the keys that have come since its moment, while it is copied."""
        return f"{self.storage}_new"

    @property
    def is_creating(self) -> bool:
        return "copy" in self.record

    @property
    def title(self) -> str:
        title: str = self.record["name"]
        return title

    @property
    def table(self) -> Record:
        """The table's record as it was."""
        record: Record = self.record["table"]
        return record


def create(context: OperationContext, table: TableInfo, title: str) -> Backup:
    """Backs a table up."""
    return _make(context, table, title, USER, secrets.token_hex(4), None)


def keep_deleted(context: OperationContext, table: TableInfo, record: Record) -> None:
    """Before a table goes: keeps what point-in-time recovery promises of it. The caller saves the record."""
    if not table.record.get("pitr"):
        return
    backup = _make(
        context, table, f"{table.name}$DeletedTableBackup", SYSTEM, "00000000", context.now + _SYSTEM_SECONDS
    )
    if backup.is_creating:
        record["becomes_backup"] = backup.id


def remove(context: OperationContext, backup: Backup) -> None:
    maintenance.discard_items(context, backup.storage)
    context.db.execute("DELETE FROM backups WHERE id = ?", (backup.id,))


def is_backed_up_now(db: Connection, table: TableInfo) -> bool:
    """Whether a backup of the table is being copied."""
    return any(backup.record["copy"].get("table") == table.id for backup in _creating(db))


def is_restored_now(db: Connection, backup: Backup) -> bool:
    """Whether a table's items are being copied from it."""
    found = db.execute(
        "SELECT 1 FROM tables WHERE instr(record, ?)", (f'"restore":{{"backup":{backup.id},'.encode(),)
    ).fetchone()
    return found is not None


def parse_arn(context: OperationContext, arn: str) -> tuple[Scope, str, str]:
    """The scope, table name and name that a backup's ARN means; refused as DynamoDB refuses it."""
    match = _ARN.fullmatch(arn)
    if match is None:
        raise ValidationException(_refusal(arn))
    region, account, table_name, name = match.groups()
    if account != context.scope.account:
        raise AccessDeniedException("Access is denied")
    return Scope(account, region), table_name, name


def _refusal(arn: str) -> str:
    is_one = arn.startswith("arn:") and "/backup/" in arn
    return "Invalid Request: BackupArn is not valid" if is_one else "Invalid Backup ARN"


def find(context: OperationContext, arn: str) -> Backup:
    """The backup of this ARN; BackupNotFoundException otherwise."""
    scope, table_name, name = parse_arn(context, arn)
    row = context.db.execute(
        f"SELECT {_COLUMNS} FROM backups "  # noqa: S608
        "WHERE account = ? AND region = ? AND table_name = ? AND name = ?",
        (scope.account, scope.region, table_name, name),
    ).fetchone()
    if row is None:
        raise BackupNotFoundException(f"Backup not found: {arn}")
    return _backup(row)


def kept_of(db: Connection, table_id: str) -> Backup | None:
    """What a deleted table has left, by its id."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM backups WHERE type = ? AND instr(record, ?)",  # noqa: S608
        (SYSTEM, table_id.encode()),
    )
    return next((one for one in map(_backup, rows) if one.table["TableId"] == table_id), None)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which backups a list shows; None means any."""

    table_name: str | None
    type: str | None
    since: float | None
    before: float | None


def page(db: Connection, scope: Scope, wanted: Filter, after: tuple[str, str], limit: int) -> list[Backup]:
    """Backups in the order they were made, from the first one after (name, table name) `after`."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM backups "  # noqa: S608
        "WHERE account = :account AND region = :region AND (name, table_name) > (:name, :place) "
        "AND (:table IS NULL OR table_name = :table) AND (:type IS NULL OR type = :type) "
        "AND (:since IS NULL OR created_at >= :since) AND (:before IS NULL OR created_at < :before) "
        "ORDER BY name, table_name LIMIT :limit",
        {
            "account": scope.account,
            "region": scope.region,
            "name": after[0],
            "place": after[1],
            "table": wanted.table_name,
            "type": wanted.type,
            "since": wanted.since,
            "before": wanted.before,
            "limit": limit,
        },
    )
    return [_backup(row) for row in rows]


@chore
def expire_backups(engine: Engine) -> float | None:
    """Deletes SYSTEM backups that have had their 35 days."""
    with engine.reading() as context:
        end = context.db.execute("SELECT min(expires_at) FROM backups").fetchone()[0]
        if end is None or end > context.now:
            return None if end is None else end - context.now
    with engine.writing() as context:
        rows = context.db.execute(
            f"SELECT {_COLUMNS} FROM backups WHERE expires_at <= ? ORDER BY expires_at",  # noqa: S608
            (context.now,),
        ).fetchall()
        ended = [one for one in map(_backup, rows) if not one.is_creating and not is_restored_now(context.db, one)]
        if not ended:
            return _IN_USE_SECONDS
        remove(context, ended[0])
    return 0.0


@chore
def copy_backups(engine: Engine) -> float | None:
    """One step of every backup that is being made."""
    with engine.reading() as context:
        creating = _creating(context.db)
    more = False
    for backup in creating:
        if engine.maintenance.is_passed_over(backup.arn):
            continue
        try:
            with maintenance.step(engine, "backup") as (context, rows):
                more = _copy_step(context, backup.id, rows) or more
        except sqlite3.DatabaseError as error:  # a damaged table keeps no other waiting
            engine.maintenance.pass_over(backup.arn, error)
    return 0.0 if more else None


def _creating(db: Connection) -> list[Backup]:
    rows = db.execute(f"SELECT {_COLUMNS} FROM backups WHERE instr(record, '\"copy\":')").fetchall()  # noqa: S608
    return [backup for backup in map(_backup, rows) if backup.is_creating]


def _copy_step(context: OperationContext, backup_id: int, rows: int) -> bool:
    """Copies and counts some rows; whether there may be more to do."""
    row = context.db.execute(f"SELECT {_COLUMNS} FROM backups WHERE id = ?", (backup_id,)).fetchone()  # noqa: S608
    if row is None or not (backup := _backup(row)).is_creating:
        return False  # another process was first
    if not maintenance.is_there(context.db, backup.storage):
        return False  # its table is still DELETING, and becomes it then
    copy = backup.record["copy"]
    if "table" in copy and not maintenance.is_there(context.db, f"t{copy['table']}"):
        _give_up(context, backup)
        return True
    end = _next_end(context.db, backup, binary(copy["cursor"]), rows)
    if end is None:
        _finish(context, backup)
        return True  # to sweep what it needed
    bounds = (binary(copy["cursor"]), end)
    if "table" in copy:
        context.db.execute(
            f"INSERT OR IGNORE INTO {backup.storage} SELECT key, size, item FROM t{copy['table']} "  # noqa: S608
            f"WHERE key > ? AND key <= ? AND key NOT IN (SELECT key FROM {backup.newer_keys})",
            bounds,
        )
    # All of the moment's items up to `end` are there now: none will come between them.
    count, size = context.db.execute(
        f"SELECT count(*), coalesce(sum(size), 0) FROM {backup.storage} WHERE key > ? AND key <= ?",  # noqa: S608
        bounds,
    ).fetchone()
    backup.record["items"] += count
    backup.record["bytes"] += size
    copy["cursor"] = base64_text(end)
    _save(context.db, backup)
    return True


def _next_end(db: Connection, backup: Backup, after: bytes, rows: int) -> bytes | None:
    """Up to which key a step goes. The backup may hold items already that the table has no more."""
    copy = backup.record["copy"]
    places = [f"t{copy['table']}", backup.storage] if "table" in copy else [backup.storage]
    ends = [maintenance.range_end(db, place, after, rows) for place in places]
    return min((end for end in ends if end is not None), default=None)


def _begin(context: OperationContext, table: TableInfo, backup: Backup) -> None:
    """Makes what a copy in steps needs; the moment is this transaction's."""
    db, storage, newer = context.db, backup.storage, backup.newer_keys
    file_format.create_keys(db, newer)
    # No OR IGNORE: inside a trigger, the statement that fires it says what a conflict does.
    keep = (
        f"INSERT INTO {storage} SELECT OLD.key, OLD.size, OLD.item "  # noqa: S608
        f"WHERE NOT EXISTS (SELECT 1 FROM {storage} WHERE key = OLD.key) "
        f"AND NOT EXISTS (SELECT 1 FROM {newer} WHERE key = OLD.key)"
    )
    note = (
        f"INSERT INTO {newer} SELECT NEW.key "  # noqa: S608
        f"WHERE NOT EXISTS (SELECT 1 FROM {newer} WHERE key = NEW.key)"
    )
    for event, work in zip(_EVENTS, (keep, keep, note), strict=True):
        db.execute(f"CREATE TRIGGER {_trigger(backup, event)} {event} ON {table.storage} BEGIN {work}; END")
    context.engine.maintenance.wake()


def _finish(context: OperationContext, backup: Backup) -> None:
    if "table" in backup.record["copy"]:
        for event in _EVENTS:
            context.db.execute(f"DROP TRIGGER IF EXISTS {_trigger(backup, event)}")
        maintenance.discard(context, backup.newer_keys)
    del backup.record["copy"]
    _save(context.db, backup)


def _give_up(context: OperationContext, backup: Backup) -> None:
    """An older program has deleted the table meanwhile: what is there is not the whole of any moment."""
    _LOG.error("The backup %s could not be made: its table is gone.", backup.arn)
    maintenance.discard(context, backup.newer_keys)
    remove(context, backup)


def _trigger(backup: Backup, event: str) -> str:
    return f"{backup.storage}_{event.split()[1].lower()}"


def _save(db: Connection, backup: Backup) -> None:
    db.execute("UPDATE backups SET record = ? WHERE id = ?", (orjson.dumps(backup.record), backup.id))


def _make(
    context: OperationContext, table: TableInfo, title: str, kind: str, mark: str, expires_at: float | None
) -> Backup:
    created_at = round(context.now, 3)
    name = _free_name(context.db, table, round(created_at * 1000), mark)
    record: Record = {"name": title, "table": {one: table.record[one] for one in _KEPT if one in table.record}}
    scope = table.scope
    cursor = context.db.execute(
        "INSERT INTO backups (account, region, table_name, name, type, created_at, expires_at, record) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, x'')",
        (scope.account, scope.region, table.name, name, kind, created_at, expires_at),
    )
    assert cursor.lastrowid is not None
    backup = Backup(cursor.lastrowid, scope, table.name, name, kind, created_at, expires_at, record)
    if maintenance.is_small(context.db, table.storage):
        _copy(context.db, table, backup)
    else:
        record.update(items=0, bytes=0, copy={"cursor": ""})
        if kind == USER:
            file_format.create_items(context.db, backup.storage)
            record["copy"]["table"] = table.id
            _begin(context, table, backup)
    _save(context.db, backup)
    return backup


def _free_name(db: Connection, table: TableInfo, milliseconds: int, mark: str) -> str:
    """The time and the mark; a later time where a table of this name has had such a backup in the same moment."""
    name = f"{milliseconds:014d}-{mark}"
    taken = db.execute(
        "SELECT 1 FROM backups WHERE account = ? AND region = ? AND table_name = ? AND name = ?",
        (table.scope.account, table.scope.region, table.name, name),
    ).fetchone()
    return name if taken is None else _free_name(db, table, milliseconds + 1, mark)


def _copy(db: Connection, table: TableInfo, backup: Backup) -> None:
    file_format.create_items(db, backup.storage)
    db.execute(f"INSERT INTO {backup.storage} SELECT key, size, item FROM {table.storage}")  # noqa: S608
    count, size = db.execute(
        f"SELECT count(*), coalesce(sum(size), 0) FROM {backup.storage}"  # noqa: S608
    ).fetchone()
    backup.record.update(items=count, bytes=size)


def _backup(row: tuple[Any, ...]) -> Backup:
    backup_id, account, region, table_name, name, kind, created_at, expires_at, record = row
    scope = Scope(account, region)
    return Backup(backup_id, scope, table_name, name, kind, created_at, expires_at, orjson.loads(record))
