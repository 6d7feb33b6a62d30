"""From an item of the old table to the item of the new one.

1. A mapping is a function of the item alone: the same item gives the same item again.
2. It keeps the old key's attributes as they are: by them each item of the new table says which old item it came from.
3. An item that cannot be mapped is a `Problem`, never dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.client.items.keys import TableKey
from penstock.client.items.values import InvalidValue, decode_item, encode_item
from penstock.errors import PenstockError
from penstock.tables.definitions.sources import named_object
from penstock.wire import numbers
from penstock.wire.values import Item

Change = Callable[[Item], Item]
"""Item in, item out, both in DynamoDB's JSON; it may raise anything for an item that it cannot map."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An old item that has no place in the new table: its key, and why."""

    key: Item
    text: str

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={next(iter(value.values()))}" for name, value in self.key.items())
        return f"{shown}: {self.text}"


@dataclass(frozen=True, slots=True)
class KeyMapping:
    """A mapping between two keys. `spelling` is how it was given, so that a job can be continued with the same."""

    spelling: str
    change: Change
    old: TableKey
    new: TableKey
    is_python: bool = False
    """What a function gives may spell a number as DynamoDB does not."""

    def __call__(self, item: Item) -> Item | Problem:
        """The new item, fit for the new table; or why there is none."""
        try:
            mapped = self.change(item)
            self.new.check_item(mapped)
        except InvalidValue as error:
            return Problem(self.old.key_of(item), str(error))
        except Exception as error:
            # It is the user's function: whatever it raises is a fact about this item.
            return Problem(self.old.key_of(item), f"the mapping fails: {type(error).__name__}: {error}")
        if mapped is not item and any(mapped.get(name) != item[name] for name in self.old.names):
            kept = ", ".join(self.old.names)
            return Problem(self.old.key_of(item), f"the mapping must keep {kept}; remove it when all is confirmed")
        return self._normal(mapped) if self.is_python else mapped

    def _normal(self, mapped: Item) -> Item:
        """Keys of numbers as DynamoDB will store them, so that they can be compared."""
        for attribute in self.new.attributes:
            if attribute.type == "N":
                text = mapped[attribute.name]["N"]
                normal = numbers.normalise(text)
                if normal != text:
                    mapped = {**mapped, attribute.name: {"N": normal}}
        return mapped


def parse_mapping(spelling: str, old: TableKey, new: TableKey) -> KeyMapping:
    """`module:function`, `new=old,…` (attributes copied under another name), or '' for items left as they are.

    The function is given the item in Python's values and gives the new one; it may change its argument.
    """
    if not spelling:
        return KeyMapping("", lambda item: item, old, new)
    if "=" in spelling:
        return KeyMapping(spelling, _copy_attributes(_pairs(spelling)), old, new)
    module, colon, attribute = spelling.partition(":")
    if not (colon and module and attribute):
        raise PenstockError(f"--map {spelling}: give module:function, or new=old pairs such as job_id=run_id.")
    function = named_object(spelling, module, attribute)
    if not callable(function):
        raise PenstockError(f"--map {spelling}: it is no function, but {type(function).__name__}.")
    return KeyMapping(spelling, _call_function(function), old, new, is_python=True)


def _pairs(spelling: str) -> dict[str, str]:
    pairs = [one.partition("=") for one in spelling.split(",")]
    broken = [new + equals + old for new, equals, old in pairs if not (new.strip() and equals and old.strip())]
    if broken:
        raise PenstockError(f"--map {spelling}: {broken[0]!r} is no pair new=old.")
    return {new.strip(): old.strip() for new, _, old in pairs}


def _copy_attributes(pairs: Mapping[str, str]) -> Change:
    def change(item: Item) -> Item:
        missing = [old for old in pairs.values() if old not in item]
        if missing:
            raise InvalidValue("the attribute that the new key is made of is missing", missing[0])
        return {**item, **{new: item[old] for new, old in pairs.items()}}

    return change


def _call_function(function: Callable[[dict[str, Any]], Any]) -> Change:
    def change(item: Item) -> Item:
        mapped = function(decode_item(item))
        if not isinstance(mapped, Mapping):
            raise TypeError(f"it gave {type(mapped).__name__} instead of an item")
        return encode_item(mapped)

    return change
