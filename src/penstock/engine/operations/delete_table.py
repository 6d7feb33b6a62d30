"""DeleteTable."""

from __future__ import annotations

from penstock.engine.catalog import index_backfill
from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.context import OperationContext
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
def delete_table(context: OperationContext, request: Request) -> Response:
    table = existing_table(context, request["TableName"])
    _refuse(context, table)
    record = changed(table)
    backups.keep_deleted(context, table, record)
    stream_records.close_stream(context, record)
    record["deleted_at"] = context.now
    delay(context, record, "deleted_at")
    table = context.engine.catalog.save(context.db, table, record)
    described = describe_briefly(context, table)
    response = {"TableDescription": {name: one for name, one in described.items() if name not in _UNTOLD}}
    if record["deleted_at"] <= context.now:
        index_backfill.drop_table(context, table)
    return response


def _refuse_read(context: OperationContext, table: TableInfo) -> None:
    """A table stays until what is copied from it has been copied."""
    if backups.is_backed_up_now(context.db, table):
        raise in_use(f"Table is being backed up: {table.name}")
    if journal.restores_of(context.db, table.id):
        raise in_use(f"Table is being restored to a point in time: {table.name}")


def _refuse(context: OperationContext, table: TableInfo) -> None:
    refuse_unless_active(table, context.now)
    if table.record.get("DeletionProtectionEnabled"):
        raise ValidationException(
            "Resource cannot be deleted as it is currently protected against deletion. "
            "Disable deletion protection first."
        )
    _refuse_read(context, table)
    statuses = [index_status(table.record, index.record, context.now) for index in table.index_list if not index.local]
    if any(status != "ACTIVE" for status in statuses) or table.record.get("dropped_indexes"):
        raise in_use("Cannot delete table while indexes are being created, updated, or deleted.")
    if table_status(table.record, context.now) == "UPDATING":
        raise in_use(f"Table is being updated: {table.name}")
