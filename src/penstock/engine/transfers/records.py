"""The records of exports and imports: one row each, which outlives the table that it was of.

1. What a transfer does, it writes down in the transaction that does it, or after what can be repeated without harm.
   Whoever continues it begins from there.
2. One process at a time does a transfer: it `hold`s it. Another takes it over when there is proof that the holder's
   process has ended, or when nothing was heard of it for `SILENT_SECONDS`. Every write of a transfer is conditional on
   holding it, so that one who was silent and is back changes nothing more.
3. The SQL tables are made by the first transfer: a file without any has none.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

from penstock.engine import maintenance
from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.settings import Scope
from penstock.engine.storage.database_file import Connection
from penstock.processes import has_ended

Record = dict[str, Any]
Kind = Literal["export", "import"]

IN_PROGRESS, COMPLETED, FAILED = "IN_PROGRESS", "COMPLETED", "FAILED"

LISTED_SECONDS: Final = 90 * 86_400.0
"""For how long lists show a transfer."""

TOKEN_SECONDS: Final = 8 * 3600.0
"""For how long a client token means the transfer that it began."""

SILENT_SECONDS: Final = 60.0

MOST_ERRORS: Final = 10_000
"""Errors of one import that are written down; the others are counted."""

_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS transfers ("
    "id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, "
    "account TEXT NOT NULL, region TEXT NOT NULL, table_name TEXT NOT NULL, table_id TEXT NOT NULL, "
    "name TEXT NOT NULL, token TEXT NOT NULL, started_at REAL NOT NULL, status TEXT NOT NULL, "
    "holder TEXT, heard_at REAL, source INTEGER, needs_from REAL, "
    "record BLOB NOT NULL, UNIQUE (account, region, kind, table_name, name))",
    "CREATE TABLE IF NOT EXISTS transfer_errors ("
    "transfer INTEGER NOT NULL, number INTEGER NOT NULL, line BLOB NOT NULL, PRIMARY KEY (transfer, number)"
    ") WITHOUT ROWID",
)
_COLUMNS: Final = "id, kind, account, region, table_name, name, started_at, status, record"


@dataclass(slots=True)
class Transfer:
    """`name` is the last part of its ARN: the time in milliseconds, and eight digits that nobody can guess."""

    id: int
    kind: Kind
    scope: Scope
    table_name: str
    name: str
    started_at: float
    status: str
    record: Record

    @property
    def arn(self) -> str:
        return self.scope.arn(f"table/{self.table_name}/{self.kind}/{self.name}")

    @property
    def table_arn(self) -> str:
        return self.scope.arn(f"table/{self.table_name}")

    @property
    def request(self) -> Record:
        request: Record = self.record["request"]
        return request


class LostHold(Exception):
    """Another process does the transfer now."""


def exist(db: Connection) -> bool:
    """Whether there has ever been a transfer in this file."""
    return maintenance.is_there(db, "transfers")


def begin(
    context: OperationContext,
    kind: Kind,
    table_name: str,
    token: str,
    record: Record,
    needs: tuple[int, float] | None = None,
) -> Transfer:
    """A new transfer, in the transaction of the call that asks for it.

    `needs`: the table whose journal it reads, and from which time on. Until it is over, nothing of that is trimmed.
    """
    for statement in _TABLES:
        context.db.execute(statement)
    started_at = round(context.now, 3)
    scope = context.scope
    name = _free_name(context, kind, table_name, round(started_at * 1000))
    cursor = context.db.execute(
        "INSERT INTO transfers (kind, account, region, table_name, table_id, name, token, started_at, status, record, "
        "source, needs_from) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (kind, *scope, table_name, record["table_id"], name, token, started_at, IN_PROGRESS, orjson.dumps(record))
        + (needs or (None, None)),
    )
    assert cursor.lastrowid is not None
    context.engine.maintenance.wake()
    return Transfer(cursor.lastrowid, kind, scope, table_name, name, started_at, IN_PROGRESS, record)


def _free_name(context: OperationContext, kind: Kind, table_name: str, milliseconds: int) -> str:
    """A millisecond later than the newest one's, where that is of the same millisecond: names are in order of time."""
    newest = context.db.execute(
        "SELECT max(name) FROM transfers WHERE account = ? AND region = ? AND kind = ?", (*context.scope, kind)
    ).fetchone()[0]
    if newest is not None and int(newest[:14]) >= milliseconds:
        milliseconds = int(newest[:14]) + 1
    return f"{milliseconds:014d}-{secrets.token_hex(4)}"


def find(db: Connection, scope: Scope, kind: Kind, table_name: str, name: str) -> Transfer | None:
    if not exist(db):
        return None
    row = db.execute(
        f"SELECT {_COLUMNS} FROM transfers "  # noqa: S608
        "WHERE account = ? AND region = ? AND kind = ? AND table_name = ? AND name = ?",
        (*scope, kind, table_name, name),
    ).fetchone()
    return None if row is None else _transfer(row)


def of_token(context: OperationContext, kind: Kind, token: str) -> Transfer | None:
    """The transfer that this client token began, while the token is valid."""
    if not exist(context.db):
        return None
    row = context.db.execute(
        f"SELECT {_COLUMNS} FROM transfers "  # noqa: S608
        "WHERE account = ? AND region = ? AND kind = ? AND token = ? ORDER BY id DESC LIMIT 1",
        (*context.scope, kind, token),
    ).fetchone()
    found = None if row is None else _transfer(row)
    if found is None or found.status == IN_PROGRESS:
        return found
    return found if context.now - found.record["ended_at"] < TOKEN_SECONDS else None


def page(
    context: OperationContext, kind: Kind, before: int | None, limit: int, table_name: str | None, table_id: str | None
) -> list[Transfer]:
    """Transfers from the newest on; those of one table, or of the one table that has this id."""
    if not exist(context.db):
        return []
    rows = context.db.execute(
        f"SELECT {_COLUMNS} FROM transfers "  # noqa: S608
        "WHERE account = :account AND region = :region AND kind = :kind AND started_at >= :since "
        "AND (:before IS NULL OR id < :before) AND (:table IS NULL OR table_name = :table) "
        "AND (:table_id IS NULL OR table_id = :table_id) ORDER BY id DESC LIMIT :limit",
        {
            "account": context.scope.account,
            "region": context.scope.region,
            "kind": kind,
            "since": context.now - LISTED_SECONDS,
            "before": before,
            "table": table_name,
            "table_id": table_id,
            "limit": limit,
        },
    )
    return [_transfer(row) for row in rows]


def in_progress(db: Connection) -> list[Transfer]:
    """All that are not over, oldest first."""
    if not exist(db):
        return []
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM transfers WHERE status = ? ORDER BY id",  # noqa: S608
        (IN_PROGRESS,),
    ).fetchall()
    return [_transfer(row) for row in rows]


# ── holding ──────────────────────────────────────────────────────────────────────────────────────


def try_hold(context: OperationContext, transfer: Transfer, holder: str) -> Transfer | None:
    """The transfer as it is in the file now, if `holder` may do it (2)."""
    row = context.db.execute(
        f"SELECT {_COLUMNS}, holder, heard_at FROM transfers WHERE id = ?",  # noqa: S608
        (transfer.id,),
    ).fetchone()
    if row is None or row[7] != IN_PROGRESS:
        return None
    other, heard_at = row[-2:]
    now = time.time()
    if other not in (None, holder) and not _is_left(other, heard_at, now):
        return None
    context.db.execute("UPDATE transfers SET holder = ?, heard_at = ? WHERE id = ?", (holder, now, transfer.id))
    return _transfer(row[:-2])


def _is_left(holder: str, heard_at: float, now: float) -> bool:
    return has_ended(holder.partition("/")[0]) or not -SILENT_SECONDS < now - heard_at < SILENT_SECONDS


def save(context: OperationContext, transfer: Transfer, holder: str) -> None:
    """Writes the record down. Raises LostHold, which must end the transaction."""
    changed = context.db.execute(
        "UPDATE transfers SET record = ?, status = ?, heard_at = ? WHERE id = ? AND holder = ? AND status = ?",
        (orjson.dumps(transfer.record), transfer.status, time.time(), transfer.id, holder, IN_PROGRESS),
    ).rowcount
    if not changed:
        raise LostHold


def release(context: OperationContext, holder: str) -> None:
    """Lets go of all that a holder has: the next one need not wait."""
    if exist(context.db):
        context.db.execute("UPDATE transfers SET holder = NULL WHERE holder = ?", (holder,))


def end(
    context: OperationContext,
    transfer: Transfer,
    holder: str,
    failure: tuple[str, str] | None = None,
    at: float | None = None,
) -> None:
    """The transfer is over: COMPLETED, or FAILED with a code and a message."""
    transfer.status = COMPLETED if failure is None else FAILED
    transfer.record["ended_at"] = at or max(round(context.now, 3), transfer.started_at)
    if failure is not None:
        transfer.record["failure"] = list(failure)
    save(context, transfer, holder)


# ── errors of imports ────────────────────────────────────────────────────────────────────────────


def add_errors(context: OperationContext, transfer: Transfer, lines: list[bytes]) -> None:
    """Keeps lines of errors, up to a limit, until the import's end."""
    first = transfer.record.get("error_lines", 0)
    kept = lines[: max(MOST_ERRORS - first, 0)]
    context.db.executemany(
        "INSERT OR REPLACE INTO transfer_errors VALUES (?, ?, ?)",
        [(transfer.id, number, line) for number, line in enumerate(kept, first)],
    )
    transfer.record["error_lines"] = first + len(kept)


def errors_of(db: Connection, transfer: Transfer) -> bytes:
    rows = db.execute("SELECT line FROM transfer_errors WHERE transfer = ? ORDER BY number", (transfer.id,))
    return b"".join(line + b"\n" for (line,) in rows)


def forget_errors(context: OperationContext, transfer: Transfer) -> None:
    context.db.execute("DELETE FROM transfer_errors WHERE transfer = ?", (transfer.id,))


# ── digests ──────────────────────────────────────────────────────────────────────────────────────


def digest(request: Record) -> str:
    """What tells two requests apart, without their tokens."""
    told = {name: value for name, value in request.items() if name != "ClientToken"}
    return hashlib.sha256(orjson.dumps(told, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _transfer(row: tuple[Any, ...]) -> Transfer:
    number, kind, account, region, table_name, name, started_at, status, record = row
    return Transfer(number, kind, Scope(account, region), table_name, name, started_at, status, orjson.loads(record))
