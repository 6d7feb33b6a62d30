"""Backups: a table's items and definition at one moment, in the same file.

1. A backup is made in one transaction, by one INSERT … SELECT: it holds all of the moment's items or does not exist.
2. It depends on nothing of its table, and outlives it.
3. A table deleted while point-in-time recovery is on leaves a SYSTEM backup, which expires after 35 days.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from penstock.engine.call import Call
from penstock.engine.maintenance import chore
from penstock.engine.schema import Record, TableInfo
from penstock.engine.settings import Scope
from penstock.engine.storage import store
from penstock.engine.storage.store import Connection
from penstock.errors import AccessDeniedException, BackupNotFoundException, ValidationException

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

USER, SYSTEM = "USER", "SYSTEM"

_SYSTEM_SECONDS: Final = 35 * 86_400.0
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
    def title(self) -> str:
        title: str = self.record["name"]
        return title

    @property
    def table(self) -> Record:
        """The table's record as it was."""
        record: Record = self.record["table"]
        return record


def create(call: Call, table: TableInfo, title: str) -> Backup:
    """Backs a table up."""
    return _make(call, table, title, USER, secrets.token_hex(4), None)


def keep_deleted(call: Call, table: TableInfo) -> None:
    """Before a table goes: keeps what point-in-time recovery promises of it."""
    if table.record.get("pitr"):
        title = f"{table.name}$DeletedTableBackup"
        _make(call, table, title, SYSTEM, "00000000", call.now + _SYSTEM_SECONDS)


def remove(call: Call, backup: Backup) -> None:
    store.drop(call.db, backup.storage)
    call.db.execute("DELETE FROM backups WHERE id = ?", (backup.id,))


def parse_arn(call: Call, arn: str) -> tuple[Scope, str, str]:
    """The scope, table name and name that a backup's ARN means; refused as DynamoDB refuses it."""
    match = _ARN.fullmatch(arn)
    if match is None:
        raise ValidationException(_refusal(arn))
    region, account, table_name, name = match.groups()
    if account != call.scope.account:
        raise AccessDeniedException("Access is denied")
    return Scope(account, region), table_name, name


def _refusal(arn: str) -> str:
    is_one = arn.startswith("arn:") and "/backup/" in arn
    return "Invalid Request: BackupArn is not valid" if is_one else "Invalid Backup ARN"


def find(call: Call, arn: str) -> Backup:
    """The backup of this ARN; BackupNotFoundException otherwise."""
    scope, table_name, name = parse_arn(call, arn)
    row = call.db.execute(
        f"SELECT {_COLUMNS} FROM backups "  # noqa: S608
        "WHERE account = ? AND region = ? AND table_name = ? AND name = ?",
        (scope.account, scope.region, table_name, name),
    ).fetchone()
    if row is None:
        raise BackupNotFoundException(f"Backup not found: {arn}")
    return _backup(row)


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
    with engine.reading() as call:
        end = call.db.execute("SELECT min(expires_at) FROM backups").fetchone()[0]
        if end is None or end > call.now:
            return None if end is None else end - call.now
    with engine.writing() as call:
        row = call.db.execute(
            f"SELECT {_COLUMNS} FROM backups WHERE expires_at <= ? ORDER BY expires_at LIMIT 1",  # noqa: S608
            (call.now,),
        ).fetchone()
        if row is not None:
            remove(call, _backup(row))
    return 0.0


def _make(call: Call, table: TableInfo, title: str, kind: str, mark: str, expires_at: float | None) -> Backup:
    created_at = round(call.now, 3)
    name = _free_name(call.db, table, round(created_at * 1000), mark)
    record: Record = {"name": title, "table": {one: table.record[one] for one in _KEPT if one in table.record}}
    scope = table.scope
    cursor = call.db.execute(
        "INSERT INTO backups (account, region, table_name, name, type, created_at, expires_at, record) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, x'')",
        (scope.account, scope.region, table.name, name, kind, created_at, expires_at),
    )
    assert cursor.lastrowid is not None
    backup = Backup(cursor.lastrowid, scope, table.name, name, kind, created_at, expires_at, record)
    _copy(call.db, table, backup)
    call.db.execute("UPDATE backups SET record = ? WHERE id = ?", (orjson.dumps(record), backup.id))
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
    store.create_items(db, backup.storage)
    db.execute(f"INSERT INTO {backup.storage} SELECT key, size, item FROM {table.storage}")  # noqa: S608
    count, size = db.execute(
        f"SELECT count(*), coalesce(sum(size), 0) FROM {backup.storage}"  # noqa: S608
    ).fetchone()
    backup.record.update(items=count, bytes=size)


def _backup(row: tuple[Any, ...]) -> Backup:
    backup_id, account, region, table_name, name, kind, created_at, expires_at, record = row
    scope = Scope(account, region)
    return Backup(backup_id, scope, table_name, name, kind, created_at, expires_at, orjson.loads(record))
