"""Saves and deletes an item from a form, without overwriting newer changes.

1. The form carries a hash for each attribute that it showed. If the item has changed since, nothing is written and the
   changes are reported.
2. The write is conditional on the attributes as they were read: a change in between fails it too.
3. A save sets and removes the attributes that differ, and no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.client.database import Database
from penstock.client.items.expressions import Aliases, And, F, condition_text, update_text
from penstock.client.items.values import decode, decode_item
from penstock.errors import ConditionalCheckFailedException, PenstockError
from penstock.tables.definitions.definition import Table
from penstock.web.dashboard.items.item_text import AttributeChange, BadItem, changes_since
from penstock.wire.values import Item, equal

_MOST_CONDITIONS: Final = 150
"""Attributes that a write is conditional on: an expression has 300 operators. Those that it changes come first (3)."""
_MOST_CHANGES: Final = 140
"""Attributes that one save changes: it is conditional on all of them, and on the key."""


class EditConflict(PenstockError):
    """The item is not what the form showed; `now` is None if it was deleted."""

    def __init__(self, changes: list[AttributeChange], now: Item | None) -> None:
        super().__init__("The item has changed since it was shown. Nothing was written.")
        self.changes = changes
        self.now = now


def get(db: Database, table: Table, key: Item) -> Item | None:
    """The item as it is now."""
    request = {"TableName": table.name, "Key": key, "ConsistentRead": True}
    item: Item | None = db.execute("GetItem", request).get("Item")
    return item


def key_of(table: Table, item: Item) -> Item:
    """Raises BadItem where a part of the key is missing, or of another type."""
    for one in table.key.attributes:
        if one.type not in item.get(one.name, {}):
            raise BadItem(f"{one.name} is part of the key, and has the type {one.type}")
    return {name: item[name] for name in table.key.names}


def create(db: Database, table: Table, item: Item) -> None:
    """Stores an item whose key is free. Raises EditConflict."""
    key_of(table, item)
    request = {
        "TableName": table.name,
        "Item": item,
        "ConditionExpression": "attribute_not_exists(#key)",
        "ExpressionAttributeNames": {"#key": table.key.hash[0].name},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    _write(db, "PutItem", request, {})


def save(db: Database, table: Table, key: Item, item: Item, seen: Mapping[str, str]) -> int:
    """Stores `item` if the old one is still what the form showed. Returns how many attributes were changed.

    Raises EditConflict, or BadItem for another key.
    """
    if key_of(table, item) != key:
        raise BadItem("the key is another one: keep it, or make a new item and delete this one")
    now = _read_unchanged(db, table, key, seen)
    changed = {name: value for name, value in item.items() if name not in now or not equal(now[name], value)}
    removed = [name for name in now if name not in item]
    if not changed and not removed:
        return 0
    if len(changed) + len(removed) > _MOST_CHANGES:
        raise BadItem(
            f"{len(changed) + len(removed)} attributes would change: change {_MOST_CHANGES} at a time, at most"
        )
    aliases = Aliases()
    request = _conditional(table, key, now, [*changed, *removed], aliases)
    request["UpdateExpression"] = update_text(aliases, decode_item(changed), removed)
    _write(db, "UpdateItem", aliases.into(request), seen)
    return len(changed) + len(removed)


def delete(db: Database, table: Table, key: Item, seen: Mapping[str, str]) -> None:
    """Deletes the item if it is still what the form showed. Raises EditConflict.

    An item with more than 150 attributes: a change of the others between the read and the delete goes unnoticed.
    """
    now = _read_unchanged(db, table, key, seen)
    aliases = Aliases()
    _write(db, "DeleteItem", aliases.into(_conditional(table, key, now, (), aliases)), seen)


def _read_unchanged(db: Database, table: Table, key: Item, seen: Mapping[str, str]) -> Item:
    now = get(db, table, key)
    changes = changes_since(seen, now)
    if now is None or changes:
        raise EditConflict(changes, now)
    return now


def _conditional(table: Table, key: Item, now: Item, first: Iterable[str], aliases: Aliases) -> dict[str, Any]:
    """A request that is conditional on every attribute having its present value, and on new ones being absent."""
    names = list(dict.fromkeys([*table.key.names, *first, *now]))[:_MOST_CONDITIONS]
    conditions = [F(name) == decode(now[name]) if name in now else F(name).missing() for name in names]
    return {
        "TableName": table.name,
        "Key": key,
        "ConditionExpression": condition_text(And(tuple(conditions)), aliases),
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def _write(db: Database, operation: str, request: dict[str, Any], seen: Mapping[str, str]) -> None:
    try:
        db.execute(operation, request)
    except ConditionalCheckFailedException as error:
        raise EditConflict(changes_since(seen, error.item), error.item) from None
