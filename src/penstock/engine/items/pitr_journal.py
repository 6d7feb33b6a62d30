"""The journal of point-in-time recovery: for each change of an item, how the item was before it.

1. While recovery is on, each change's entry is written in the change's own transaction.
2. A table as it was at a time T is its items now, with every change undone from the first one made after T on.
3. A table's journal has a time of its own (`time_of`), which never falls when the clock is set back: the times of its
   entries are in the order of its changes. While the clock is behind, it stands still, at a whole second, because that
   is all an SDK sends back as RestoreDateTime.
4. Entries older than the recovery period, or than the last switching-on, are never needed, unless a restore or export
   that has begun needs them, and are deleted in bounded steps.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, Final

import orjson

from penstock.engine import maintenance
from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.table_schema import Record, TableInfo
from penstock.engine.maintenance import chore
from penstock.engine.storage.database_file import Connection
from penstock.wire.values import item_size

if TYPE_CHECKING:
    from penstock.engine.engine import Engine
    from penstock.engine.items.write_steps import Change

DEFAULT_DAYS: Final = 35
TRIM_STEP: Final = 1_000
"""Entries deleted in one background transaction."""

_DAY_SECONDS: Final = 86_400.0
# (3) in SQL: the newest entry's time is at the end of the index, so that it takes no statement more.
_APPEND: Final = (
    "INSERT INTO journal (table_id, at, key, size, item) "
    "SELECT ?1, CASE WHEN newest > ?2 THEN CAST(newest AS INTEGER) + (newest > CAST(newest AS INTEGER)) ELSE ?2 END, "
    "?3, ?4, ?5 FROM (SELECT max(at) AS newest FROM journal WHERE table_id = ?1)"
)
_NEWEST: Final = "SELECT max(at) FROM journal WHERE table_id = ?"
_TRIM: Final = (
    "DELETE FROM journal WHERE sequence IN "
    "(SELECT sequence FROM journal WHERE table_id = ? AND at < ? ORDER BY at LIMIT ?)"
)


def enable(context: OperationContext, table: TableInfo, record: Record, days: int | None) -> None:
    """Switches recovery on in the table's record, or changes its period; the caller saves the record."""
    pitr = record.get("pitr")
    now = time_of(context, table.id, record)
    if not pitr:
        record["pitr"] = {"enabled_at": now, "days": days or DEFAULT_DAYS}
    elif days is not None:
        # What the old period has let go does not come back with a longer one.
        pitr["enabled_at"] = earliest(record, now)
        pitr["days"] = days
    context.engine.maintenance.wake()


def disable(context: OperationContext, record: Record) -> None:
    """Switches recovery off in the record; what was noted is forgotten. The caller saves the record."""
    if record.pop("pitr", None):
        context.engine.maintenance.wake()


def append(context: OperationContext, change: Change) -> None:
    """Notes how the item was before a change."""
    old = change.old
    size, data = (None, None) if old is None else (item_size(old), orjson.dumps(old))
    now = _not_before(context.now, change.table.record["pitr"]["enabled_at"])
    context.db.execute(_APPEND, (change.table.id, now, change.key, size, data))


def time_of(context: OperationContext, table_id: int, record: Any) -> float:
    """What time it is in the table's journal (3): the last one that the table can be restored to."""
    newest = context.db.execute(_NEWEST, (table_id,)).fetchone()[0] or 0.0
    enabled_at = (record.get("pitr") or {}).get("enabled_at", 0.0)
    return _not_before(context.now, max(newest, enabled_at))


def _not_before(now: float, last: float) -> float:
    return now if now >= last else float(ceil(last))


def earliest(record: Any, now: float) -> float:
    """The first time that the table can be restored to, by the time of its journal."""
    pitr = record["pitr"]
    found: float = max(pitr["enabled_at"], now - pitr["days"] * _DAY_SECONDS)
    return found


def is_short(context: OperationContext, source: TableInfo, at: float) -> bool:
    """Whether so few changes were made after `at` that a call may undo them itself."""
    rows, size = context.db.execute(
        "SELECT count(*), coalesce(sum(size), 0) FROM (SELECT size FROM journal WHERE table_id = ? AND at > ? LIMIT ?)",
        (source.id, at, maintenance.AT_ONCE_ROWS + 1),
    ).fetchone()
    return bool(rows <= maintenance.AT_ONCE_ROWS and size <= maintenance.AT_ONCE_BYTES)


def copy_as_of(context: OperationContext, source: TableInfo, at: float, into: str) -> None:
    """Copies the table's items as they were at `at` into an empty SQL table of items."""
    first = context.db.execute(
        "SELECT min(sequence) FROM journal WHERE table_id = ? AND at > ?", (source.id, at)
    ).fetchone()[0]
    if first is None:
        context.db.execute(f"INSERT INTO {into} SELECT key, size, item FROM {source.storage}")  # noqa: S608
        return
    later = {"table": source.id, "first": first}
    context.db.execute(
        f"INSERT INTO {into} SELECT key, size, item FROM {source.storage} WHERE key NOT IN "  # noqa: S608
        "(SELECT key FROM journal WHERE table_id = :table AND sequence >= :first)",
        later,
    )
    context.db.execute(
        f"INSERT INTO {into} SELECT key, size, item FROM journal WHERE item IS NOT NULL AND sequence IN "  # noqa: S608
        "(SELECT min(sequence) FROM journal WHERE table_id = :table AND sequence >= :first GROUP BY key)",
        later,
    )


def forget(context: OperationContext, table: TableInfo) -> None:
    """Deletes the entries of a table that goes: a step's worth of them now, the others in the background."""
    end = min(exports_of(context.db, table.id), default=float("inf"))
    deleted = context.db.execute(_TRIM, (table.id, end, TRIM_STEP)).rowcount
    if deleted == TRIM_STEP:
        context.engine.maintenance.wake()


@chore
def trim_journal(engine: Engine) -> float | None:
    """Deletes entries that no restore can ask for any more."""
    with engine.reading() as context:
        due, wait = _first_due(context)
    if due is None:
        return wait
    with engine.writing() as context:
        context.db.execute(_TRIM, (due, _horizon(context, due), TRIM_STEP))
    return 0.0


def _first_due(context: OperationContext) -> tuple[int | None, float | None]:
    """A table with entries to delete; or None, and the seconds until there will be one."""
    waits: list[float] = []
    table_id = 0
    while True:
        row = context.db.execute(
            "SELECT table_id, at FROM journal WHERE table_id > ? ORDER BY table_id, at LIMIT 1", (table_id,)
        ).fetchone()
        if row is None:
            return None, min(waits) if waits else None
        table_id, oldest = row
        horizon = _horizon(context, table_id)
        if oldest < horizon:
            return table_id, None
        waits.append(oldest - horizon + 1.0)


def _horizon(context: OperationContext, table_id: int) -> float:
    row = context.db.execute("SELECT record FROM tables WHERE id = ?", (table_id,)).fetchone()
    record = orjson.loads(row[0]) if row else {}
    horizon = earliest(record, time_of(context, table_id, record)) if record.get("pitr") else float("inf")
    needed: list[float] = [restore["at"] for restore in restores_of(context.db, table_id)]
    return min([horizon, *needed, *exports_of(context.db, table_id)])


def restores_of(db: Connection, table_id: int) -> list[Record]:
    """The restores to a point in time that read this table at present: each one's "restore" (restores.py)."""
    mark = f'"restore":{{"table":{table_id},'.encode()
    rows = db.execute("SELECT record FROM tables WHERE instr(record, ?)", (mark,))
    return [orjson.loads(record)["restore"] for (record,) in rows]


def exports_of(db: Connection, table_id: int) -> list[float]:
    """From which times on exports (transfers/records.py) read this table's journal at present."""
    if not maintenance.is_there(db, "transfers"):
        return []
    rows = db.execute(
        "SELECT needs_from FROM transfers WHERE status = 'IN_PROGRESS' AND source = ?", (table_id,)
    ).fetchall()
    return [since for (since,) in rows]
