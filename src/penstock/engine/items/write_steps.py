"""A write to one item, step by step: PutItem, UpdateItem, DeleteItem, the actions of transactions and PartiQL share it.

    prepare_…(request)       what the request alone can tell: expressions, values, sizes
    write.resolve(context)   what the table says: it exists, the key fits its schema
    write.read(context)      the item as it is
    write.decide()           the condition, and the item as it will be
    write.apply(context)     the change itself

Below the steps is the one place where an item changes, and whatever is kept in step with it (a usual PutItem does the
same in one pass, usual_puts.py):

1. The item, its index rows, its rows in vector indexes, its expiry, its stream record and its journal entry change in
   one transaction.
2. An index row exists if and only if the item has a value for each of the index's key attributes.
3. A change is never refused: every step before it only reads, so that an error leaves nothing half-done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from penstock.engine import streams
from penstock.engine.catalog import row_keys
from penstock.engine.catalog.catalog import OperationContext
from penstock.engine.catalog.row_keys import index_tail
from penstock.engine.catalog.table_schema import IndexInfo, TableInfo
from penstock.engine.items import expiry_rows, pitr_journal, vector_rows
from penstock.engine.items.bulk_rows import delete_keys, put_index_rows, put_rows
from penstock.errors import ConditionalCheckFailedException, ValidationException
from penstock.expressions.compiled.conditions import compile_condition
from penstock.expressions.compiled.updates import looked_into, written_types
from penstock.expressions.request import PlainUpdate, condition_of, update_of
from penstock.wire.limits import ITEM_BYTES
from penstock.wire.values import Item, TooLarge, check_item, equal, item_size, refuse_copies

ITEM_TOO_LARGE = "Item size has exceeded the maximum allowed size"
_UPDATE_TOO_LARGE = "Item size to update has exceeded the maximum allowed size"

Request = dict[str, Any]
Condition = Callable[[Item], bool]


class Write:
    """One item's change; `old` and `new` are known after `read` and `decide`."""

    __slots__ = ("condition", "key", "key_values", "new", "old", "request", "size", "table")

    table: TableInfo
    key: bytes

    def __init__(self, request: Request, key_values: Item, condition: Condition | None) -> None:
        self.request = request
        self.key_values = key_values
        self.condition = condition
        self.old: Item | None = None
        self.new: Item | None = None
        self.size = 0

    def resolve(self, context: OperationContext) -> None:
        self.table = table = context.table(self.request["TableName"])
        self.key = row_keys.row_key_of_key(table, self.key_values)
        if self.condition is not None:
            self.refuse_nested_condition()

    def refuse_nested_condition(self) -> None:
        """Refuses a condition that looks into a key attribute."""
        text = self.request.get("ConditionExpression")
        if text is not None and ("." in text or "[" in text):
            names = self.request.get("ExpressionAttributeNames") or {}
            row_keys.refuse_nested_keys(self.table, compile_condition(text).nested_attributes(names))

    def read(self, context: OperationContext) -> None:
        self.old = old_item(context, self.table, self.key)

    def decide(self) -> None:
        """Raises ConditionalCheckFailedException, or says what the item will be."""
        if self.condition is not None and not self.condition(self.old or {}):
            fields: dict[str, Any] = {}
            if self.request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD" and self.old is not None:
                fields["Item"] = self.old
            raise ConditionalCheckFailedException("The conditional request failed", **fields)
        self.outcome()

    def outcome(self) -> None:
        """Sets `new` and `size`."""
        raise NotImplementedError

    def apply(self, context: OperationContext) -> None:
        write(context, Change(self.table, self.key, self.old, self.new, self.size))

    def execute(self, context: OperationContext) -> None:
        """`read`, `decide` and `apply`."""
        self.read(context)
        self.decide()
        self.apply(context)


class Put(Write):
    __slots__ = ("item", "json", "unread", "vectors")

    def __init__(self, request: Request, item: Item, size: int, condition: Condition | None) -> None:
        self.request = request
        self.key_values = self.item = item
        self.condition = condition
        self.old = self.new = None
        self.size = size
        self.unread = False
        self.vectors: vector_rows.Packed | None = None
        self.json: bytes | None = None
        """The item as it is stored, where that is known already."""

    def resolve(self, context: OperationContext) -> None:
        self.table = table = context.table(self.request["TableName"])
        self.key = row_keys.row_key_of_item(table, self.item)
        if table.vectors:
            self.vectors = vector_rows.check(table, self.item)
        if self.condition is not None:
            self.refuse_nested_condition()

    def outcome(self) -> None:
        self.new = self.item

    def leave_unread(self) -> None:
        """Instead of `read` and `decide`, where there is no condition: `old` is known after `apply`."""
        self.unread = True
        self.new = self.item

    def put_new(self, context: OperationContext) -> bool:
        """`read`, `decide` and `apply` in one, where the condition holds of no item and there is none."""
        if self.condition is None or not self.condition({}):
            return False
        self.new = self.item
        return put_new(context, Change(self.table, self.key, None, self.item, self.size, self.vectors, json=self.json))

    def apply(self, context: OperationContext) -> None:
        change = Change(self.table, self.key, self.old, self.new, self.size, self.vectors, json=self.json)
        if self.unread:
            put_unread(context, change)
            self.old = change.old
        else:
            write(context, change)


class Delete(Write):
    __slots__ = ()

    def outcome(self) -> None:
        self.new = None


class Check(Write):
    """A transaction's ConditionCheck: changes nothing."""

    __slots__ = ()

    def outcome(self) -> None:
        self.new = self.old

    def apply(self, context: OperationContext) -> None:
        pass


class Update(Write):
    __slots__ = ("charge", "update")

    def __init__(
        self, request: Request, key_values: Item, update: Any, condition: Condition | None, charge: int = 0
    ) -> None:
        super().__init__(request, key_values, condition)
        self.update = update
        self.charge = charge

    def resolve(self, context: OperationContext) -> None:
        self.table = table = context.table(self.request["TableName"])
        self.key = row_keys.row_key_of_key(table, self.key_values)
        if self.update is not None:
            self._refuse_key_attributes()
        if self.condition is not None:
            self.refuse_nested_condition()

    def _refuse_key_attributes(self) -> None:
        table, update = self.table, self.update
        for name in table.key_names:
            if name in update.attributes:
                raise ValidationException(
                    "One or more parameter values were invalid: "
                    f"Cannot update attribute {name}. This attribute is part of the key"
                )
        if isinstance(update, PlainUpdate):
            if table.indexes:
                row_keys.check_index_types(table, update.types(table.index_kinds))
            return
        if table.indexes:
            row_keys.check_index_types(table, dict(written_types(self.request)))
        row_keys.refuse_nested_keys(table, looked_into(self.request) | update.nested)

    def refuse_charge(self) -> None:
        """Refuses a statement that is too large in itself; this comes before the condition."""
        if self.charge > ITEM_BYTES:
            raise ValidationException(_UPDATE_TOO_LARGE)

    def outcome(self) -> None:
        before = self.old if self.old is not None else self.key_values
        if self.update is None:
            self.new = before
            self.size = item_size(before)
            return
        if self.old is None and not self.update.creates:
            return  # What only removes makes no item of nothing.
        try:
            after = self.update.apply(before)
            if not isinstance(self.update, PlainUpdate):
                refuse_copies(after)
            after, self.size = check_item(after)
        except TooLarge:
            raise ValidationException(_UPDATE_TOO_LARGE) from None
        if self.size > ITEM_BYTES:
            raise ValidationException(_UPDATE_TOO_LARGE)
        if self.table.indexes:
            row_keys.check_updated_index_keys(self.table, self.update.attributes, after)
        if self.table.vectors:
            vector_rows.check(self.table, after, self.update.attributes)
        self.new = after

    def returned(self, mode: str) -> Item | None:
        """The `Attributes` that ReturnValues asks for."""
        if mode == "NONE":
            return None
        if mode == "ALL_OLD":
            return self.old
        if mode == "ALL_NEW":
            return self.new
        item = self.old if mode == "UPDATED_OLD" else self.new
        if item is None or self.update is None:
            return None
        attributes: Item = self.update.project(item)
        return attributes or None


def plain_put(request: Request, item: Item) -> Put:
    """A put of which the request says nothing but the table."""
    item, size = check_item(item)
    if size > ITEM_BYTES:
        raise ValidationException(ITEM_TOO_LARGE)
    return Put(request, item, size, None)


def prepare_put(request: Request, *, transaction: bool = False) -> Put:
    if len(request) == 2:  # a table and an item: nothing else is to be checked between them
        return plain_put(request, request["Item"])
    checked: tuple[Item, int] | None = None

    def check() -> None:
        nonlocal checked
        checked = check_item(request["Item"])
        if "ReturnValues" in request:
            _refuse_return_values(request)
        if checked[1] > ITEM_BYTES:
            raise ValidationException(ITEM_TOO_LARGE)

    condition = condition_of(request, check, transaction=transaction)
    assert checked is not None
    return Put(request, *checked, condition)


def _refuse_return_values(request: Request) -> None:
    if request["ReturnValues"] not in ("NONE", "ALL_OLD"):
        raise ValidationException("ReturnValues can only be ALL_OLD or NONE")


def prepare_delete(request: Request, *, transaction: bool = False) -> Delete:
    key = _Key(request)

    def check() -> None:
        key.check()
        if "ReturnValues" in request:
            _refuse_return_values(request)

    condition = condition_of(request, check, transaction=transaction)
    return Delete(request, key.values, condition)


def prepare_check(request: Request, *, transaction: bool = True) -> Check:
    key = _Key(request)
    condition = condition_of(request, key.check, transaction=transaction)
    return Check(request, key.values, condition)


def prepare_update(request: Request, *, transaction: bool = False) -> Update:
    key = _Key(request)
    update, condition = update_of(request, key.check, transaction=transaction)
    return Update(request, key.values, update, condition, 0 if update is None else update.charge)


class _Key:
    """A request's `Key`, checked when its turn comes in DynamoDB's order of checks."""

    __slots__ = ("_request", "values")

    def __init__(self, request: Request) -> None:
        self._request = request
        self.values: Item = {}

    def check(self) -> None:
        self.values = check_item(self._request["Key"])[0]


# ── the change itself ──────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Change:
    """An item before and after. `old` and `new` are None where there is no item."""

    table: TableInfo
    key: bytes
    old: Item | None
    new: Item | None
    size: int = 0
    """Bytes of `new`."""
    vectors: vector_rows.Packed | None = None
    """Of `new`, where they are known already."""
    by_ttl: bool = False
    """Whether the sweeper made it: its stream record then names the service."""
    json: bytes | None = None
    """`new` as it is stored, where that is known already."""


def old_item(context: OperationContext, table: TableInfo, key: bytes) -> Item | None:
    """The item as it is now."""
    row = context.db.execute(table.sql_get, (key,)).fetchone()
    if row is None:
        return None
    if context.db.is_hurried:
        context.db.refuse_long_work(row[0])
    item: Item = orjson.loads(row[0])
    return item


def write(context: OperationContext, change: Change) -> None:
    """Makes the change, and all that goes with it."""
    table = change.table
    data = b""
    if change.new is not None:
        data = change.json or orjson.dumps(change.new)
        context.db.execute(table.sql_put, (change.key, change.size, data))
    elif change.old is not None:
        context.db.execute(table.sql_delete, (change.key,))
    if table.watched:
        _follow(context, change, data)


def write_many(context: OperationContext, changes: Sequence[Change]) -> None:
    """Makes changes that follow one another, none of which deletes an item; in as few statements as there may be."""
    by_table: dict[int, list[Change]] = {}
    for change in changes:
        by_table.setdefault(change.table.id, []).append(change)
    for of_table in by_table.values():
        table = of_table[0].table
        written = [(change.key, change.size, orjson.dumps(change.new)) for change in of_table]
        put_rows(context, table, {row[0]: row for row in written}.values(), new=False)
        if table.watched:
            _follow_indexes_of_many(context, of_table)
            for change, row in zip(of_table, written, strict=True):
                _follow_beside_indexes(context, change, row[2])


def put_unread(context: OperationContext, change: Change) -> None:
    """Puts an item where no condition asks for the old one: that is read only if there is one; `change.old` says."""
    data = change.json or orjson.dumps(change.new)
    if not _insert(context, change, data):
        change.old = old_item(context, change.table, change.key)
        context.db.execute(change.table.sql_put, (change.key, change.size, data))
        if change.table.watched:
            _follow(context, change, data)


def put_new(context: OperationContext, change: Change) -> bool:
    """Puts an item where there is none; whether there was none, else nothing is changed. It takes no look before."""
    return _insert(context, change, change.json or orjson.dumps(change.new))


def _insert(context: OperationContext, change: Change, data: bytes) -> bool:
    table = change.table
    if not context.db.execute(table.sql_insert, (change.key, change.size, data)).rowcount:
        return False
    if table.watched:
        _follow(context, change, data)
    return True


def put_unwatched(context: OperationContext, put: Put) -> None:
    """Puts an item into a table where nothing else is kept in step and nobody asked for the old item."""
    context.db.execute(put.table.sql_put, (put.key, put.size, put.json or orjson.dumps(put.item)))


def _follow(context: OperationContext, change: Change, data: bytes) -> None:
    """Keeps in step what stands beside the item; `data` is the new item's JSON."""
    if change.table.indexes:
        follow_indexes(context, change)
    _follow_beside_indexes(context, change, data)


def _follow_beside_indexes(context: OperationContext, change: Change, data: bytes) -> None:
    if change.table.vectors:
        vector_rows.follow(context, change)
    record = change.table.record
    ttl = record.get("ttl")
    if ttl:
        expiry_rows.follow(context, change, ttl["AttributeName"])
    stream, pitr = record.get("stream"), record.get("pitr")
    if (stream or pitr) and not _is_same(change.old, change.new):
        if stream:
            streams.append(context, change, stream, data)
        if pitr:
            pitr_journal.append(context, change)


def _is_same(old: Item | None, new: Item | None) -> bool:
    """Whether a write has changed nothing: then nobody is told of it."""
    if old is None or new is None:
        return old is new
    return old == new or (old.keys() == new.keys() and all(equal(value, new[name]) for name, value in old.items()))


# ── index rows (2) ────────────────────────────────────────────────────────────────────────────────


def follow_indexes(context: OperationContext, change: Change) -> None:
    """Keeps the index rows in step; an index none of whose key attributes has come, gone or changed is left alone."""
    if change.old is None or change.new is None:
        _put_or_delete_index_rows(context, change)
        return
    execute = context.db.execute
    for index, before, after in _index_moves(change):
        if before is not None and after is not None:
            # An index that is being filled may not have the old row yet.
            if execute(index.sql_move, (after, before)).rowcount:
                continue
        elif before is not None:
            execute(index.sql_delete, (before,))
        if after is not None:
            execute(index.sql_put, (after, change.key))


def _index_moves(change: Change) -> list[tuple[IndexInfo, bytes | None, bytes | None]]:
    """The indexes in which the item's row comes, goes or moves, with the row's keys before and after."""
    table, old, new = change.table, change.old or {}, change.new or {}
    moved = [name for name in table.index_kinds if old.get(name) != new.get(name)]
    found: list[tuple[IndexInfo, bytes | None, bytes | None]] = []
    if not moved:
        return found
    tail = index_tail(table.key, new or old, change.key)
    for index in table.index_list:
        if index.own_names.isdisjoint(moved):
            continue
        before, after = row_keys.index_start(index, old), row_keys.index_start(index, new)
        if before != after:
            found.append((index, before and before + tail, after and after + tail))
    return found


def _follow_indexes_of_many(context: OperationContext, changes: Sequence[Change]) -> None:
    """The same for changes that follow one another: of what they do to a row, the last counts."""
    left: dict[str, dict[bytes, bytes | None]] = {}  # the rows of each index's storage; None for one that is gone
    for change in changes:
        for index, before, after in _index_moves(change):
            rows = left.setdefault(index.storage, {})
            if before is not None:
                rows[before] = None
            if after is not None:
                rows[after] = change.key
    for storage, rows in left.items():
        delete_keys(context, storage, [key for key, item_key in rows.items() if item_key is None])
        put_index_rows(context, storage, [(key, item_key) for key, item_key in rows.items() if item_key is not None])


def _put_or_delete_index_rows(context: OperationContext, change: Change) -> None:
    """The same for an item that was not there, or is no longer."""
    table, new = change.table, change.new
    item = new or change.old
    if item is None:
        return
    tail: bytes | None = None
    for index in table.index_list:
        start = row_keys.index_start(index, item)
        if start is None:
            continue
        if tail is None:
            tail = index_tail(table.key, item, change.key)
        if new is not None:
            context.db.execute(index.sql_put, (start + tail, change.key))
        else:
            context.db.execute(index.sql_delete, (start + tail,))
