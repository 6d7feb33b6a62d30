"""One file an API call, or a close family of them. Importing a file registers its operations.

Files of item operations are imported at once, the others by their first call: a server is ready in half the time.
"""

from __future__ import annotations

from importlib import import_module

from penstock.engine.context import OperationContext
from penstock.engine.registry import OPERATIONS, Kind, Request, Response, operation

_NOW = ("get_item", "item_writes", "query_scan", "batches", "transact_items")

# What the file itself says when it registers; a test compares the two.
LATER: dict[str, tuple[str, Kind]] = {
    "BatchExecuteStatement": ("partiql_batch", "read"),
    "CreateBackup": ("backups", "write"),
    "CreateTable": ("create_table", "write"),
    "DeleteBackup": ("backups", "write"),
    "DeleteResourcePolicy": ("resource_policies", "write"),
    "DeleteTable": ("delete_table", "write"),
    "DescribeBackup": ("backups", "read"),
    "DescribeContinuousBackups": ("continuous_backups", "read"),
    "DescribeEndpoints": ("limits", "read"),
    "DescribeLimits": ("limits", "read"),
    "DescribeStream": ("describe_stream", "snapshot"),
    "DescribeTable": ("describe_table", "snapshot"),
    "DescribeTimeToLive": ("time_to_live", "read"),
    "ExecuteStatement": ("execute_statement", "read"),
    "ExecuteTransaction": ("partiql_transaction", "write"),
    "GetRecords": ("get_records", "snapshot"),
    "GetResourcePolicy": ("resource_policies", "read"),
    "GetShardIterator": ("get_shard_iterator", "snapshot"),
    "ListBackups": ("backups", "read"),
    "ListStreams": ("list_streams", "read"),
    "ListTables": ("list_tables", "snapshot"),
    "ListTagsOfResource": ("tags", "read"),
    "PutResourcePolicy": ("resource_policies", "write"),
    "RestoreTableFromBackup": ("restores", "write"),
    "RestoreTableToPointInTime": ("restores", "write"),
    "TagResource": ("tags", "write"),
    "UntagResource": ("tags", "write"),
    "UpdateContinuousBackups": ("continuous_backups", "write"),
    "UpdateTable": ("update_table", "write"),
    "UpdateTimeToLive": ("time_to_live", "write"),
}


def load() -> None:
    """Makes every operation known."""
    for module in _NOW:
        import_module(f"{__name__}.{module}")
    for name, (module, kind) in LATER.items():
        if name not in OPERATIONS:
            _register_later(name, module, kind)


def _register_later(name: str, module: str, kind: Kind) -> None:
    def run(context: OperationContext, request: Request) -> Response | bytes:
        import_module(f"{__name__}.{module}")  # registers itself in this function's place
        return OPERATIONS[name].run(context, request)

    operation(name, kind)(run)
