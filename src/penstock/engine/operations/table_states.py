"""What state a table and its indexes are in: never stored, always worked out from times in the record.

A record has, while something is under way: `active_at` (when a new table is ready), `updating_until`,
`deleted_at` (when a deleted table is gone) and `unsettled`, which says that one of them may lie ahead. A global
index has `active_at`, and `updating_until`. An index that was just deleted lies in `dropped_indexes` until its time has
come. All of them are absent where delays are zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from penstock.engine.catalog import index_backfill
from penstock.engine.catalog.table_schema import Record, TableInfo
from penstock.engine.context import OperationContext
from penstock.engine.maintenance.maintenance import chore
from penstock.errors import ResourceInUseException, ResourceNotFoundException

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

_IN_USE = "Attempt to change a resource which is still in use: "


def table_status(record: Mapping[str, Any], now: float) -> str:
    """CREATING, ACTIVE, UPDATING or DELETING."""
    if "deleted_at" in record:
        return "DELETING"
    if now < record.get("active_at", 0.0):
        return "CREATING"
    if now < record.get("updating_until", 0.0) or dropped_indexes(record, now):
        return "UPDATING"
    return "ACTIVE"


def index_status(record: Mapping[str, Any], index: Mapping[str, Any], now: float) -> str:
    """CREATING, ACTIVE or UPDATING, of a global index that is in the record."""
    if now < record.get("active_at", 0.0) or is_building(index, now):
        return "CREATING"
    return "UPDATING" if now < index.get("updating_until", 0.0) else "ACTIVE"


def is_building(index: Mapping[str, Any], now: float) -> bool:
    """Whether an index that was added to a table is not ready yet."""
    return now < index.get("active_at", 0.0) or "backfill_cursor" in index


def is_backfilling(record: Mapping[str, Any], index: Mapping[str, Any], now: float) -> bool:
    """Building, and past the time in which DynamoDB allocates resources (while the table is UPDATING)."""
    return is_building(index, now) and now >= record.get("updating_until", 0.0)


def dropped_indexes(record: Mapping[str, Any], now: float) -> list[dict[str, Any]]:
    """Indexes that are still seen as DELETING."""
    return [index for index in record.get("dropped_indexes", ()) if now < index["deleted_at"]]


def is_gone(table: TableInfo, now: float) -> bool:
    """Whether the table's deletion is over, though its record may not have been swept yet."""
    end: float | None = table.record.get("deleted_at")
    return end is not None and now >= end


def find_table(context: OperationContext, name: str) -> TableInfo | None:
    """The table in whatever state it is in; None if there is none."""
    table = context.find(name)
    return None if table is None or is_gone(table, context.now) else table


def existing_table(context: OperationContext, name: str) -> TableInfo:
    """The same; ResourceNotFoundException if there is none."""
    table = find_table(context, name)
    if table is None:
        raise ResourceNotFoundException(f"Requested resource not found: Table: {name} not found")
    return table


def in_use(why: str) -> ResourceInUseException:
    return ResourceInUseException(_IN_USE + why)


def refuse_unless_active(table: TableInfo, now: float) -> None:
    """A table that is being made or deleted cannot be changed."""
    status = table_status(table.record, now)
    if status in ("CREATING", "DELETING"):
        what = "created" if status == "CREATING" else "deleted"
        raise in_use(f"Table is being {what}: {table.name}")


def changed(table: TableInfo) -> Record:
    """A copy of the table's record, to be changed and saved."""
    return deepcopy(dict(table.record))


def delay(context: OperationContext, record: Record, member: str) -> None:
    """Puts the end of a table's transition into the record, if there is a delay at all."""
    seconds = context.engine.settings.table_delay_seconds
    if seconds > 0:
        record[member] = context.now + seconds
        unsettle(context, record)


def unsettle(context: OperationContext, record: Record) -> None:
    """Notes that the record has a time ahead of it."""
    record["unsettled"] = True
    context.engine.maintenance.wake()


@chore
def settle_tables(engine: Engine) -> float | None:
    """Removes deleted tables, and times that have passed, from the file."""
    waits = []
    with engine.reading() as context:
        unsettled = [table for table in engine.catalog.all(context.db) if "unsettled" in table.record]
    for stale in unsettled:
        with engine.writing() as context:
            table = engine.catalog.find(context.db, stale.scope, stale.name)
            wait = None if table is None or table.id != stale.id else _settle(context, table)
        if wait is not None:
            waits.append(wait)
    return min(waits, default=None)


def _settle(context: OperationContext, table: TableInfo) -> float | None:
    """One table; seconds until its next time comes, or None if it has none left."""
    if is_gone(table, context.now):
        index_backfill.drop_table(context, table)
        return 0.0  # what it leaves is swept
    ahead = [time for time in _times(table.record) if time > context.now]
    if ahead:
        return min(ahead) - context.now
    record = changed(table)
    for part in (record, *record.get("GlobalSecondaryIndexes", ())):
        for member in ("active_at", "updating_until"):
            part.pop(member, None)
    record.pop("dropped_indexes", None)
    record.pop("unsettled", None)
    context.engine.catalog.save(context.db, table, record)
    return None


def _times(record: Mapping[str, Any]) -> list[float]:
    parts = (record, *record.get("GlobalSecondaryIndexes", ()), *record.get("dropped_indexes", ()))
    return [part[m] for part in parts for m in ("active_at", "updating_until", "deleted_at") if m in part]
