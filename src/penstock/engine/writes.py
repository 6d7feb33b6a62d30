"""A write to one item, step by step: PutItem, UpdateItem, DeleteItem, the actions of transactions and PartiQL share it.

    prepare_…(request)       what the request alone can tell: expressions, values, sizes
    write.resolve(call)      what the table says: it exists, the key fits its schema
    write.read(call)         the item as it is
    write.decide()           the condition, and the item as it will be
    write.apply(call)        the change itself

Every step before the last only reads, so an error leaves nothing half-done (changes.py, 3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.engine import changes, item_keys
from penstock.engine.call import Call
from penstock.engine.schema import TableInfo
from penstock.errors import ConditionalCheckFailedException, ValidationException
from penstock.expressions.request import condition_of, update_of
from penstock.wire.limits import ITEM_BYTES
from penstock.wire.values import Item, check_item, item_size

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

    def resolve(self, call: Call) -> None:
        self.table = table = call.table(self.request["TableName"])
        self.key = item_keys.row_key_of_key(table, self.key_values)

    def read(self, call: Call) -> None:
        self.old = changes.old_item(call, self.table, self.key)

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

    def apply(self, call: Call) -> None:
        changes.write(call, changes.Change(self.table, self.key, self.old, self.new, self.size))


class Put(Write):
    __slots__ = ("item",)

    def __init__(self, request: Request, item: Item, size: int, condition: Condition | None) -> None:
        super().__init__(request, item, condition)
        self.item = item
        self.size = size

    def resolve(self, call: Call) -> None:
        self.table = table = call.table(self.request["TableName"])
        self.key = item_keys.row_key_of_item(table, self.item)

    def outcome(self) -> None:
        self.new = self.item


class Delete(Write):
    __slots__ = ()

    def outcome(self) -> None:
        self.new = None


class Check(Write):
    """A transaction's ConditionCheck: changes nothing."""

    __slots__ = ()

    def outcome(self) -> None:
        self.new = self.old

    def apply(self, call: Call) -> None:
        pass


class Update(Write):
    __slots__ = ("update",)

    def __init__(self, request: Request, key_values: Item, update: Any, condition: Condition | None) -> None:
        super().__init__(request, key_values, condition)
        self.update = update

    def resolve(self, call: Call) -> None:
        super().resolve(call)
        if self.update is not None:
            self._refuse_key_attributes()

    def _refuse_key_attributes(self) -> None:
        written = self.update.attributes
        for name in self.table.key_names:
            if name in written:
                raise ValidationException(
                    "One or more parameter values were invalid: "
                    f"Cannot update attribute {name}. This attribute is part of the key"
                )

    def outcome(self) -> None:
        before = self.old if self.old is not None else self.key_values
        if self.update is None:
            self.new = before
            self.size = item_size(before)
            return
        after = self.update.apply(before)
        self.size = item_size(after)
        if self.size > ITEM_BYTES:
            raise ValidationException("Item size to update has exceeded the maximum allowed size")
        if self.table.indexes:
            item_keys.check_index_keys(self.table, after)
        self.new = after

    def returned(self, mode: str) -> Item | None:
        """The `Attributes` that ReturnValues asks for."""
        if mode == "ALL_OLD":
            return self.old
        if mode == "ALL_NEW":
            return self.new
        item = self.old if mode == "UPDATED_OLD" else self.new
        if item is None or self.update is None:
            return None
        shown: Item = self.update.project(item)
        return shown or None


def prepare_put(request: Request) -> Put:
    condition = condition_of(request)
    item, size = check_item(request["Item"])
    if size > ITEM_BYTES:
        raise ValidationException("Item size has exceeded the maximum allowed size")
    return Put(request, item, size, condition)


def prepare_delete(request: Request) -> Delete:
    condition = condition_of(request)
    return Delete(request, check_item(request["Key"])[0], condition)


def prepare_check(request: Request) -> Check:
    condition = condition_of(request)
    return Check(request, check_item(request["Key"])[0], condition)


def prepare_update(request: Request) -> Update:
    update, condition = update_of(request)
    return Update(request, check_item(request["Key"])[0], update, condition)
