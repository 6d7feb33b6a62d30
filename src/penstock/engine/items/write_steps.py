"""A write to one item, step by step: PutItem, UpdateItem, DeleteItem, the actions of transactions and PartiQL share it.

    prepare_…(request)       what the request alone can tell: expressions, values, sizes
    write.resolve(context)      what the table says: it exists, the key fits its schema
    write.read(context)         the item as it is
    write.decide()           the condition, and the item as it will be
    write.apply(context)        the change itself

Every step before the last only reads, so an error leaves nothing half-done (changes.py, 3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.engine.catalog import table_schema
from penstock.engine.catalog.table_schema import TableInfo
from penstock.engine.context import OperationContext
from penstock.engine.items import changes
from penstock.errors import ConditionalCheckFailedException, ValidationException
from penstock.expressions.compiled.conditions import compile_condition
from penstock.expressions.compiled.named import PlainUpdate
from penstock.expressions.compiled.updates import looked_into, written_types
from penstock.expressions.request import condition_of, update_of
from penstock.wire.limits import ITEM_BYTES
from penstock.wire.values import Item, TooLarge, check_item, item_size, refuse_copies

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
        self.key = table_schema.row_key_of_key(table, self.key_values)
        if self.condition is not None:
            self.refuse_nested_condition()

    def refuse_nested_condition(self) -> None:
        """Refuses a condition that looks into a key attribute."""
        text = self.request.get("ConditionExpression")
        if text is not None and ("." in text or "[" in text):
            names = self.request.get("ExpressionAttributeNames") or {}
            table_schema.refuse_nested_keys(self.table, compile_condition(text).nested_attributes(names))

    def read(self, context: OperationContext) -> None:
        self.old = changes.old_item(context, self.table, self.key)

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
        changes.write(context, changes.Change(self.table, self.key, self.old, self.new, self.size))


class Put(Write):
    __slots__ = ("item", "unread")

    def __init__(self, request: Request, item: Item, size: int, condition: Condition | None) -> None:
        super().__init__(request, item, condition)
        self.item = item
        self.size = size
        self.unread = False

    def resolve(self, context: OperationContext) -> None:
        self.table = table = context.table(self.request["TableName"])
        self.key = table_schema.row_key_of_item(table, self.item)
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
        return changes.put_new(context, changes.Change(self.table, self.key, None, self.item, self.size))

    def apply(self, context: OperationContext) -> None:
        change = changes.Change(self.table, self.key, self.old, self.new, self.size)
        if self.unread:
            changes.put_unread(context, change)
            self.old = change.old
        else:
            changes.write(context, change)


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
        self.key = table_schema.row_key_of_key(table, self.key_values)
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
                table_schema.check_index_types(table, update.types(table.index_kinds))
            return
        if table.indexes:
            table_schema.check_index_types(table, dict(written_types(self.request)))
        table_schema.refuse_nested_keys(table, looked_into(self.request) | update.nested)

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
            table_schema.check_updated_index_keys(self.table, self.update.attributes, after)
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
        shown: Item = self.update.project(item)
        return shown or None


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
