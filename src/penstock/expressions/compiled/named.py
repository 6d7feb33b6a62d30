"""Expressions with their names put in, worked out once for each text and its ExpressionAttributeNames.

A program sends few texts, each with the same names every time: what these show together is kept, and a call binds its
values only.

1. This is a fast path. Whatever is unusual (a placeholder that is missing or unused, a value that is refused) is given
   back as None, and the full path (request.py) refuses it, in DynamoDB's words and order.
2. What comes back means what the full path's would.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.errors import DynamoDBError
from penstock.expressions.compiled.conditions import Condition, Predicate, compile_condition, prepare_term
from penstock.expressions.compiled.paths import CACHED, BoundPath
from penstock.expressions.compiled.placeholders import Placeholders, check_value_keys, size_of_names
from penstock.expressions.compiled.updates import BoundUpdate, Update, compile_update
from penstock.expressions.syntax.error_wording import ExpressionError
from penstock.expressions.syntax.tree import RemoveAction, SetAction, Value
from penstock.wire.limits import EXPRESSION_VALUES_BYTES
from penstock.wire.values import AttributeValue, Item, check_item, type_of

Names = Mapping[str, str]
Values = Mapping[str, AttributeValue]

_KEPT_BYTES = 4096  # of names: larger ones are seen too seldom to be worth their room


class PlainUpdate:
    """An update that only sets top-level attributes to values and removes others, as most do: nothing can fail."""

    __slots__ = ("_steps", "_values", "attributes", "charge", "creates")

    nested: frozenset[str] = frozenset()

    def __init__(self, steps: Mapping[str, str | None], attributes: frozenset[str], creates: bool, values: Values):
        self._steps = steps
        self._values = values
        self.attributes = attributes
        self.creates = creates
        self.charge = 0

    def apply(self, item: Item) -> Item:
        """The item as the update leaves it."""
        updated = dict(item)
        values = self._values
        for name, placeholder in self._steps.items():
            if placeholder is not None:
                updated[name] = values[placeholder]
            else:
                updated.pop(name, None)
        return updated

    def project(self, item: Item) -> Item:
        """What UPDATED_OLD and UPDATED_NEW show of `item`."""
        return {name: item[name] for name in self._steps if name in item}

    def types(self, among: Iterable[str]) -> dict[str, str]:
        """The types of those of these attributes that are set."""
        steps, values = self._steps, self._values
        return {name: type_of(values[steps[name]]) for name in among if steps.get(name) is not None}  # type: ignore[index]


class NamedUpdate:
    """An update whose names are known; ExpressionError where they make its paths clash."""

    def __init__(self, update: Update, names: Names) -> None:
        self._update = update
        self._names = names
        self._paths = update.paths(names)
        self._steps = _steps(update, self._paths)
        self._attributes = frozenset(str(path[0]) for path in self._paths)
        self._creates = not all(isinstance(action, RemoveAction) for action in update.tree.actions)

    def bind(self, values: Values) -> BoundUpdate | PlainUpdate:
        if self._steps is not None:
            return PlainUpdate(self._steps, self._attributes, self._creates, values)
        return self._update.bind_at(self._paths, self._names, values)


def _steps(update: Update, paths: list[BoundPath]) -> dict[str, str | None] | None:
    """What stands at each attribute: a value's placeholder, or nothing. None where an update is not so plain."""
    steps: dict[str, str | None] = {}
    for action, path in zip(update.tree.actions, paths, strict=True):
        if len(path) > 1:
            return None
        if isinstance(action, SetAction) and isinstance(action.value, Value):
            steps[str(path[0])] = action.value.name
        elif isinstance(action, RemoveAction):
            steps[str(path[0])] = None
        else:
            return None
    return steps


class Named:
    """The update and the condition of one write, either of which may be missing."""

    def __init__(self, update: Update | None, condition: Condition | None, names: Names, names_size: int) -> None:
        self._names = names
        self.names_size = names_size
        self.values = (update.values if update else frozenset()) | (condition.values if condition else frozenset())
        self._update = None if update is None else NamedUpdate(update, names)
        self._bind_condition = None if condition is None else prepare_term(condition.tree, names)

    def placeholders(self, values: Item | None) -> Placeholders | None:
        """The names and these values, checked; None where they are not what the expressions use."""
        if values is None:
            return None if self.values else Placeholders(self._names, {}, self.names_size)
        if values.keys() != self.values or not values:
            return None
        try:
            checked, size = check_item(values)
        except DynamoDBError:
            return None
        size += self.names_size
        return None if size > EXPRESSION_VALUES_BYTES else Placeholders(self._names, checked, size)

    def update(self, values: Values) -> BoundUpdate | PlainUpdate | None:
        return None if self._update is None else self._update.bind(values)

    def condition(self, values: Values) -> Predicate | None:
        """ExpressionError as of `Condition.bind`."""
        return None if self._bind_condition is None else self._bind_condition(values)


_KEPT: dict[Any, Named] = {}


def named(update: str | None, condition: str | None, names: dict[str, str] | None) -> Named | None:
    """The expressions of these texts with these names in them; None where anything is unusual."""
    key = (update, condition, None if names is None else tuple(names.items()))
    found = _KEPT.get(key)
    if found is not None:
        return found
    try:
        expressions = _compile(update, condition, names)
    except (ExpressionError, DynamoDBError):
        return None
    if expressions is not None and expressions.names_size <= _KEPT_BYTES:
        if len(_KEPT) >= CACHED:
            _KEPT.clear()
        _KEPT[key] = expressions
    return expressions


def _compile(update_text: str | None, condition_text: str | None, names: dict[str, str] | None) -> Named | None:
    update = None if update_text is None else compile_update(update_text)
    condition = None if condition_text is None else compile_condition(condition_text)
    used = (update.names if update else frozenset()) | (condition.names if condition else frozenset())
    size = 0 if names is None else size_of_names(names)
    if (names or {}).keys() != used:
        return None
    expressions = Named(update, condition, dict(names or {}), size)
    check_value_keys(expressions.values)
    return expressions
