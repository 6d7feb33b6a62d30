"""DynamoDB's API, a file for a family of calls. Importing a file registers its operations.

items.py                GetItem, PutItem, UpdateItem, DeleteItem, batches, transactions
query_scan.py           Query, Scan
usual_queries.py        a Query that differs from an earlier one in its values alone
vector_search.py        SearchVectors
tables.py               CreateTable, UpdateTable, DeleteTable, DescribeTable, ListTables
table_validation.py     what a definition may be
table_updates.py        what UpdateTable may change
table_description.py    states, sizes, descriptions
resources.py            tags, resource policies, time to live
streams.py              ListStreams, DescribeStream, GetShardIterator, GetRecords
backups.py              backups, continuous backups, restores
aws_only.py             global tables, Contributor Insights, Kinesis destinations, bulk puts: described, or refused
exports.py              ExportTableToPointInTime, DescribeExport, ListExports
imports.py              ImportTable, DescribeImport, ListImports
partiql.py              ExecuteStatement, BatchExecuteStatement, ExecuteTransaction
partiql_statements.py   one statement as a read or a write

Item operations are imported at once, the others by their first call: a server is ready in half the time.
"""

from __future__ import annotations

import threading
from importlib import import_module

from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.registry import OPERATIONS, Kind, Request, Response, operation

_IMPORTING = threading.RLock()
"""One thread imports at a time: of two that do, one may find a module whose package does not have it yet, and fail."""

_NOW = ("items", "query_scan")

# What the file itself says when it registers; a test compares the two.
LATER: dict[str, tuple[str, Kind]] = {
    "BatchExecuteStatement": ("partiql", "read"),
    "CancelBulkOperation": ("aws_only", "read"),
    "CreateBackup": ("backups", "write"),
    "CreateGlobalTable": ("aws_only", "read"),
    "CreateTable": ("tables", "write"),
    "DeleteBackup": ("backups", "write"),
    "DeleteResourcePolicy": ("resources", "write"),
    "DeleteTable": ("tables", "write"),
    "DescribeBackup": ("backups", "read"),
    "DescribeBulkOperation": ("aws_only", "read"),
    "DescribeContinuousBackups": ("backups", "read"),
    "DescribeContributorInsights": ("aws_only", "read"),
    "DescribeExport": ("exports", "read"),
    "DescribeImport": ("imports", "read"),
    "DescribeEndpoints": ("tables", "read"),
    "DescribeGlobalTable": ("aws_only", "read"),
    "DescribeGlobalTableSettings": ("aws_only", "read"),
    "DescribeKinesisStreamingDestination": ("aws_only", "read"),
    "DescribeLimits": ("tables", "read"),
    "DescribeStream": ("streams", "snapshot"),
    "DescribeTable": ("tables", "snapshot"),
    "DescribeTableReplicaAutoScaling": ("aws_only", "read"),
    "DescribeTimeToLive": ("resources", "read"),
    "DisableKinesisStreamingDestination": ("aws_only", "read"),
    "EnableKinesisStreamingDestination": ("aws_only", "read"),
    "ExecuteStatement": ("partiql", "read"),
    "ExecuteTransaction": ("partiql", "write"),
    "ExportTableToPointInTime": ("exports", "write"),
    "GetRecords": ("streams", "snapshot"),
    "GetResourcePolicy": ("resources", "read"),
    "GetShardIterator": ("streams", "snapshot"),
    "ImportTable": ("imports", "write"),
    "ListBackups": ("backups", "read"),
    "ListBulkOperations": ("aws_only", "read"),
    "ListContributorInsights": ("aws_only", "read"),
    "ListGlobalTables": ("aws_only", "read"),
    "ListExports": ("exports", "read"),
    "ListImports": ("imports", "read"),
    "ListStreams": ("streams", "read"),
    "ListTables": ("tables", "snapshot"),
    "ListTagsOfResource": ("resources", "read"),
    "PutResourcePolicy": ("resources", "write"),
    "RestoreTableFromBackup": ("backups", "write"),
    "RestoreTableToPointInTime": ("backups", "write"),
    "SearchVectors": ("vector_search", "read"),
    "StartBulkPutItems": ("aws_only", "read"),
    "TagResource": ("resources", "write"),
    "UntagResource": ("resources", "write"),
    "UpdateContinuousBackups": ("backups", "write"),
    "UpdateContributorInsights": ("aws_only", "read"),
    "UpdateGlobalTable": ("aws_only", "read"),
    "UpdateGlobalTableSettings": ("aws_only", "read"),
    "UpdateKinesisStreamingDestination": ("aws_only", "read"),
    "UpdateTable": ("tables", "write"),
    "UpdateTableReplicaAutoScaling": ("aws_only", "read"),
    "UpdateTimeToLive": ("resources", "write"),
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
        with _IMPORTING:
            import_module(f"{__name__}.{module}")  # registers itself in this function's place
        return OPERATIONS[name].run(context, request)

    operation(name, kind)(run)
