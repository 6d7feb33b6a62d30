"""DeleteTable."""

from __future__ import annotations

from penstock.engine.catalog import index_backfill
from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.context import Call
from penstock.engine.operations.table_description import describe_briefly
from penstock.engine.operations.table_states import (
    changed,
    delay,
    existing_table,
    in_use,
    index_status,
    refuse_unless_active,
    table_status,
)
from penstock.engine.recovery import backups, journal
from penstock.engine.registry import Request, Response, operation
from penstock.engine.streams import stream_records
from penstock.errors import ValidationException

# What DynamoDB no longer tells of a table that goes.
_UNTOLD = frozenset({"AttributeDefinitions", "KeySchema", "CreationDateTime"})


@operation("DeleteTable", "write")
def delete_table(call: Call, request: Request) -> Response:
    table = existing_table(call, request["TableName"])
    _refuse(call, table)
    record = changed(table)
    backups.keep_deleted(call, table, record)
    stream_records.close_stream(call, record)
    record["deleted_at"] = call.now
    delay(call, record, "deleted_at")
    table = call.engine.catalog.save(call.db, table, record)
    described = describe_briefly(call, table)
    response = {"TableDescription": {name: one for name, one in described.items() if name not in _UNTOLD}}
    if record["deleted_at"] <= call.now:
        index_backfill.drop_table(call, table)
    return response


def _refuse_read(call: Call, table: TableInfo) -> None:
    """A table stays until what is copied from it has been copied."""
    if backups.is_backed_up_now(call.db, table):
        raise in_use(f"Table is being backed up: {table.name}")
    if journal.restores_of(call.db, table.id):
        raise in_use(f"Table is being restored to a point in time: {table.name}")


def _refuse(call: Call, table: TableInfo) -> None:
    refuse_unless_active(table, call.now)
    if table.record.get("DeletionProtectionEnabled"):
        raise ValidationException(
            "Resource cannot be deleted as it is currently protected against deletion. "
            "Disable deletion protection first."
        )
    _refuse_read(call, table)
    statuses = [index_status(table.record, index.record, call.now) for index in table.index_list if not index.local]
    if any(status != "ACTIVE" for status in statuses) or table.record.get("dropped_indexes"):
        raise in_use("Cannot delete table while indexes are being created, updated, or deleted.")
    if table_status(table.record, call.now) == "UPDATING":
        raise in_use(f"Table is being updated: {table.name}")
