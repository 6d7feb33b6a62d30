"""The rows of vector indexes: made with the items that they belong to, and filled when an index is new.

1. A row with a vector exists if and only if the item has the index's vector attribute, of its length, and a value for
   the HASH attribute if the index has one. A missing inline filter is no reason to leave an item out.
2. A write of what an index could not hold is refused. An item that was there before the index, and does not fit, has no
   row, as with global indexes.
3. Rows are numbered by their last change. A row that is replaced gets a number above all others; one that goes leaves a
   row without a vector. So the changes since a number are the rows above it, for whichever process asks.
4. Rows without a vector are removed when there are many. The row of the empty key, which no item has, is then numbered
   anew: who finds it among the changes reads everything again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from penstock.engine import maintenance
from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.row_keys import check_index_value
from penstock.engine.catalog.table_schema import KeyAttribute, TableInfo, VectorIndexInfo
from penstock.engine.maintenance import chore
from penstock.errors import ValidationException
from penstock.wire import float32
from penstock.wire.values import AttributeValue, Item, item_size, type_of, value_size

if TYPE_CHECKING:
    from penstock.engine.engine import Engine
    from penstock.engine.items.write_steps import Change

MARK: Final = b""
"""The key of the row that says that rows were removed (4)."""

LEAST_WRITE_BYTES: Final = 1024
_INVALID: Final = "One or more parameter values were invalid. "


Packed = dict[str, bytes]
"""Vectors of an item by their attributes, as an index keeps them."""


class VectorRow(NamedTuple):
    vector: bytes
    chosen_by: bytes | None
    """JSON: a text for each attribute of the search schema, null where the item has none; NULL without a schema."""
    saved: int
    """Bytes by which DynamoDB counts the item smaller in the table, because its vector is indexed."""


# ── what an index can hold ────────────────────────────────────────────────────────────────────────


def check(table: TableInfo, item: Item, written: frozenset[str] | None = None) -> Packed:
    """Refuses an item that a vector index could not hold; `written`: only what these attributes say."""
    packed: Packed = {}
    for index in table.vectors.values():
        name = index.attribute
        value = item.get(name)
        if value is not None and (written is None or name in written) and name not in packed:
            packed[name] = _pack(index, value)
        for part in index.schema:
            value = item.get(part.name)
            if value is not None and (written is None or part.name in written):
                _check_choice(index, part, value)
    return packed


def _pack(index: VectorIndexInfo, value: AttributeValue) -> bytes:
    """The vector as the index keeps it; ValidationException where it is none."""
    name, elements = index.attribute, value.get("L")
    if elements is None:
        raise ValidationException(
            f"{_INVALID}Invalid type for parameter {name}, Expected: 32-bit floating point number list "
            f"IndexName: {index.name}"
        )
    if len(elements) != index.dimensions:
        raise ValidationException(
            f"{_INVALID}Invalid size for parameter {name}, Expected: {index.dimensions}, Actual: {len(elements)} "
            f"IndexName: {index.name}"
        )
    try:
        return float32.from_texts([element["N"] for element in elements])
    except (KeyError, OverflowError):
        raise _refusal(index, elements) from None


def _refusal(index: VectorIndexInfo, elements: list[AttributeValue]) -> ValidationException:
    """What is wrong with the first element that is wrong."""
    for place, element in enumerate(elements):
        where = f"parameter {index.attribute}[{place}]"
        if "N" not in element:
            return ValidationException(
                f"{_INVALID}Invalid type for {where}, Expected: 32-bit floating point number, "
                f"Actual: {type_of(element)}. IndexName: {index.name}"
            )
        try:
            float32.from_texts([element["N"]])
        except OverflowError:
            return ValidationException(
                f"{_INVALID}Invalid value for {where}, Value: {element['N']} is outside valid range "
                f"[-{float32.LARGEST}, {float32.LARGEST}]. IndexName: {index.name}"
            )
    raise AssertionError("every element is right")


def _check_choice(index: VectorIndexInfo, part: KeyAttribute, value: AttributeValue) -> None:
    if part.kind not in value:
        raise ValidationException(
            f"{_INVALID}Attribute '{part.name}' type mismatch. Expected: {part.kind}, Actual: {type_of(value)}. "
            f"IndexName: {index.name}"
        )
    if part is index.hash:
        check_index_value(index.name, part, value, is_hash=True)


def row_of(index: VectorIndexInfo, item: Item, packed: Packed | None = None, size: int = 0) -> VectorRow | None:
    """The row of an item; None where the index leaves the item out (1, 2).

    The vector may be `packed`, and the item's `size` known, from an earlier look.
    """
    name = index.attribute
    value = item.get(name)
    if value is None or (index.hash is not None and index.hash.name not in item):
        return None
    vector = (packed or _NONE).get(name)
    try:
        for part in index.schema:
            if part.name in item:
                _check_choice(index, part, item[part.name])
        if vector is None:
            vector = _pack(index, value)
    except ValidationException:
        return None
    chosen_by = orjson.dumps(choices_of(index, item)) if index.schema else None
    return VectorRow(vector, chosen_by, _list_bytes(item, name, size) - len(vector))


def _list_bytes(item: Item, name: str, size: int) -> int:
    """What the list of the vector counts for. Where the item's size is known, all else is measured: it is shorter."""
    if not size:
        return value_size(item[name])
    return size - item_size({other: value for other, value in item.items() if other != name}) - len(name.encode())


_NONE: Packed = {}


def choices_of(index: VectorIndexInfo, item: Item) -> list[str | None]:
    """The values that a search chooses the item by, in the order of the search schema."""
    return [item[part.name][part.kind] if part.name in item else None for part in index.schema]


# ── rows follow their items ───────────────────────────────────────────────────────────────────────


def follow(context: OperationContext, change: Change) -> None:
    """Keeps the rows in step with an item that has changed."""
    old, new = change.old, change.new
    for index in change.table.vectors.values():
        if old is not None and new is not None and all(old.get(name) == new.get(name) for name in index.own_names):
            continue
        row = None if new is None else row_of(index, new, change.vectors, change.size)
        if row is not None:
            context.db.execute(index.sql_put, (change.key, *row))
        elif old is not None and index.attribute in old:
            context.db.execute(index.sql_remove, (change.key,))


def put_rows(context: OperationContext, index: VectorIndexInfo, items: Iterable[tuple[bytes, bytes]]) -> None:
    """Adds the rows of items, given as they lie in the file."""
    context.db.executemany(index.sql_put, rows_of(index, items))


def rows_of(index: VectorIndexInfo, items: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[Any, ...]]:
    for key, data in items:
        row = row_of(index, orjson.loads(data))
        if row is not None:
            yield (key, *row)


# ── what they cost ────────────────────────────────────────────────────────────────────────────────


def saved_bytes(table: TableInfo, item: Item) -> int:
    """Bytes by which an item counts for less in a write, because its vectors are indexed as numbers of four bytes."""
    saved: dict[str, int] = {}
    for index in table.vectors.values():
        if index.attribute in item and index.attribute not in saved:
            row = row_of(index, item)
            if row is not None:
                saved[index.attribute] = row.saved
    return sum(saved.values())


def write_bytes(index: VectorIndexInfo, old: Item | None, new: Item | None) -> int:
    """The VectorWriteRequestBytes of a write; 0 where what the index holds stays as it is."""
    before, after = entry_bytes(index, old), entry_bytes(index, new)
    if not before and not after:
        return 0
    if before and after and old is not None and new is not None and _is_same_entry(index, old, new):
        return 0
    return max(LEAST_WRITE_BYTES, before, after)


def _is_same_entry(index: VectorIndexInfo, old: Item, new: Item) -> bool:
    return index.view(old) == index.view(new)


def entry_bytes(index: VectorIndexInfo, item: Item | None) -> int:
    """Bytes of what the index holds of an item; 0 where that is nothing."""
    row = None if item is None else row_of(index, item)
    return 0 if item is None or row is None else item_size(index.view(item)) - row.saved


# ── rows without a vector (4) ─────────────────────────────────────────────────────────────────────

_MANY: Final = 10_000
_LOOK_SECONDS: Final = 60.0


@chore
def sweep_removed_rows(engine: Engine) -> float | None:
    """Removes the rows of items that are gone, where there are many, and more than there are items."""
    with engine.reading() as context:
        tables = [table for table in engine.catalog.all(context.db) if table.vectors]
        due = [(table, index) for table in tables for index in table.vectors.values() if _is_due(context, index)]
    for stale, index in due:
        with maintenance.step(engine, "vectors") as (step, _):
            table = engine.catalog.find(step.db, stale.scope, stale.name)
            if table is not None and table.id == stale.id and index.name in table.vectors and _is_due(step, index):
                step.db.execute(f"INSERT OR REPLACE INTO {index.storage} (key) VALUES (?)", (MARK,))  # noqa: S608
                step.db.execute(
                    f"DELETE FROM {index.storage} WHERE vector IS NULL AND key != ?",  # noqa: S608
                    (MARK,),
                )
    return _LOOK_SECONDS if tables else None


def _is_due(context: OperationContext, index: VectorIndexInfo) -> bool:
    if not maintenance.is_there(context.db, index.storage):
        return False
    gone = context.db.execute(f"SELECT count(*) FROM {index.storage} WHERE vector IS NULL").fetchone()[0]  # noqa: S608
    if gone <= _MANY:
        return False
    return bool(gone * 2 > context.db.execute(f"SELECT count(*) FROM {index.storage}").fetchone()[0])  # noqa: S608
