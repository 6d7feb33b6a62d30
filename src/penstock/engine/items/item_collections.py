"""Item collections: the items of one partition, which tables with local indexes bound to 10 GB."""

from __future__ import annotations

from typing import Any

from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.context import OperationContext
from penstock.wire import keys
from penstock.wire.values import Item

_GB = 1024**3


def collection_metrics(context: OperationContext, table: TableInfo, item: Item) -> dict[str, Any]:
    """The ItemCollectionMetrics of the collection that this item belongs to."""
    value = item[table.hash.name]
    start = keys.partition(value)
    size = context.db.execute(
        f"SELECT coalesce(sum(size), 0) FROM {table.storage} WHERE key >= ? AND key < ?",  # noqa: S608
        (start, keys.after(start)),
    ).fetchone()[0]
    lower = float(size // _GB)
    return {"ItemCollectionKey": {table.hash.name: value}, "SizeEstimateRangeGB": [lower, lower + 1.0]}
