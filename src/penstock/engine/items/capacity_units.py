"""Capacity units: what DynamoDB would charge for a call, and how it reports it.

Reads are rounded up to 4 KB (strong 1 unit, eventual 0.5, transactional 2), writes to 1 KB (1 unit, transactional 2).
A write to an index costs nothing if the part of the item that the index holds stays the same, and two writes if
its key moves. Deleting what is not there costs one unit.

An item collection, the items of one partition, is bounded to 10 GB in tables with local indexes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.engine.catalog import row_keys
from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.table_schema import IndexInfo, TableInfo
from penstock.engine.items import vector_rows
from penstock.wire.limits import READ_UNIT_BYTES, WRITE_UNIT_BYTES
from penstock.wire.values import Item, item_size


@dataclass(slots=True)
class Units:
    """Units of one call on one table, by where they were spent."""

    table: float = 0.0
    indexes: dict[str, float] = field(default_factory=dict)
    vectors: dict[str, int] = field(default_factory=dict)
    """VectorWriteRequestBytes by vector index: no units, and no part of the total."""

    def add(self, other: Units) -> None:
        self.table += other.table
        for name, units in other.indexes.items():
            self.indexes[name] = self.indexes.get(name, 0.0) + units
        for name, size in other.vectors.items():
            self.vectors[name] = self.vectors.get(name, 0) + size

    @property
    def total(self) -> float:
        return self.table + sum(self.indexes.values())


def read_units(size: int, consistent: bool) -> float:
    """Units of reading so many bytes at once; nothing still costs one unit's rounding."""
    units = max(1, -(-size // READ_UNIT_BYTES))
    return float(units) if consistent else units / 2


def write_units(size: int) -> float:
    return float(max(1, -(-size // WRITE_UNIT_BYTES)))


def units_of_write(table: TableInfo, old: Item | None, new: Item | None, factor: float = 1.0) -> Units:
    """Units of turning `old` into `new`."""
    largest = max(_billed_size(table, old), _billed_size(table, new))
    units = Units(write_units(largest) * factor)
    for index in table.index_list:
        spent = _index_write(index, old, new)
        if spent:
            units.indexes[index.name] = spent * factor
    for vectors in table.vectors.values():
        size = vector_rows.write_bytes(vectors, old, new)
        if size:
            units.vectors[vectors.name] = size
    return units


def _billed_size(table: TableInfo, item: Item | None) -> int:
    """An item's bytes as a write of it counts them: a vector that is indexed has four for each number."""
    if not item:
        return 0
    return item_size(item) - (vector_rows.saved_bytes(table, item) if table.vectors else 0)


def _index_write(index: IndexInfo, old: Item | None, new: Item | None) -> float:
    before = _view(index, old)
    after = _view(index, new)
    if before == after:
        return 0.0
    if before is None or after is None:
        return write_units(item_size(before or after or {}))
    if all(before[part.name] == after[part.name] for part in index.key):
        return write_units(max(item_size(before), item_size(after)))
    return write_units(item_size(before)) + write_units(item_size(after))


def _view(index: IndexInfo, item: Item | None) -> Item | None:
    if item is None or row_keys.index_key(index, item, b"") is None:
        return None
    return index.view(item)


def is_wanted(request: dict[str, Any]) -> bool:
    """Whether the call asks what it cost."""
    mode = request.get("ReturnConsumedCapacity")
    return mode is not None and mode != "NONE"


def report(table: TableInfo, units: Units, mode: str, kind: str | None = None) -> dict[str, Any]:
    """A ConsumedCapacity; `kind` is Read or Write where DynamoDB names it apart, as in transactions."""
    answer: dict[str, Any] = {"TableName": table.name, "CapacityUnits": units.total}
    if kind:
        answer[f"{kind}CapacityUnits"] = units.total
    if mode != "INDEXES":
        return answer
    answer["Table"] = _detail(units.table, kind)
    for title, local in (("GlobalSecondaryIndexes", False), ("LocalSecondaryIndexes", True)):
        detail = {
            name: _detail(spent, kind) for name, spent in units.indexes.items() if table.indexes[name].local is local
        }
        if detail:
            answer[title] = detail
    if units.vectors:
        answer["VectorIndexes"] = {
            name: {"VectorWriteRequestBytes": size} for name, size in sorted(units.vectors.items())
        }
    return answer


def _detail(units: float, kind: str | None) -> dict[str, float]:
    detail = {"CapacityUnits": units}
    if kind:
        detail[f"{kind}CapacityUnits"] = units
    return detail


_GB = 1024**3


def collection_metrics(context: OperationContext, table: TableInfo, item: Item) -> dict[str, Any]:
    """The ItemCollectionMetrics of the collection that this item belongs to."""
    value = item[table.hash.name]
    size = context.db.execute(
        f"SELECT coalesce(sum(size), 0) FROM {table.storage} WHERE key >= ? AND key < ?",  # noqa: S608
        row_keys.partition_range([value]),
    ).fetchone()[0]
    lower = float(size // _GB)
    return {"ItemCollectionKey": {table.hash.name: value}, "SizeEstimateRangeGB": [lower, lower + 1.0]}
