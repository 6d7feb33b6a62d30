"""The right-hand sides of updates as closures: what SET, REMOVE, ADD and DELETE leave at a path.

A closure reads the item as it was and gives the new value, or None where nothing is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.expressions.compiled.condition_closures import Scope, value_of
from penstock.expressions.compiled.paths import BoundPath, Getter, bind_path, find, getter, path_text
from penstock.expressions.syntax import error_wording
from penstock.expressions.syntax.checks import OPERAND_COUNTS
from penstock.expressions.syntax.error_wording import ExpressionError
from penstock.expressions.syntax.tree import (
    Action,
    AddAction,
    Arithmetic,
    Call,
    Operand,
    Path,
    RemoveAction,
    SetAction,
    Value,
)
from penstock.wire import numbers
from penstock.wire.values import AttributeValue, Item

Compute = Callable[[Item], AttributeValue | None]

SETS = frozenset({"SS", "NS", "BS"})
ADDABLE = SETS | {"N"}

_INTEGER_DIGITS = 18


def bind_action(action: Action, path: BoundPath, scope: Scope) -> Compute:
    """What stands at `path` after this action."""
    if isinstance(action, SetAction):
        return bind_value(action.value, scope)
    if isinstance(action, RemoveAction):
        return lambda item: None
    if isinstance(action, AddAction):
        return adder(path, _typed(action.value, scope, "ADD", ADDABLE))
    return deleter(path, _typed(action.value, scope, "DELETE", SETS))


def _typed(operand: Value, scope: Scope, keyword: str, allowed: frozenset[str]) -> AttributeValue:
    value = value_of(operand, scope.values)
    kind = next(iter(value))
    if kind not in allowed:
        raise error_wording.action_type(keyword, kind)
    return value


# ── SET ──────────────────────────────────────────────────────────────────────────────────────────


def bind_value(operand: Operand, scope: Scope) -> Compute:
    """What SET writes; a path that finds nothing is an error when the update is applied."""
    if isinstance(operand, Value):
        value = value_of(operand, scope.values)
        return lambda item: value
    if isinstance(operand, Path):
        return _required(getter(bind_path(operand, scope.names)))
    if isinstance(operand, Arithmetic):
        return _sum(operand, scope)
    return _if_not_exists(operand, scope) if operand.name == "if_not_exists" else _list_append(operand, scope)


def _required(get: Getter) -> Compute:
    def required(item: Item) -> AttributeValue:
        value = get(item)
        if value is None:
            raise ExpressionError(error_wording.MISSING_ATTRIBUTE, bare=True)
        return value

    return required


def _sum(operand: Arithmetic, scope: Scope) -> Compute:
    left, right = _two_of(operand.operator, operand.left, operand.right, "N", scope)
    combine = plus if operand.operator == "+" else minus

    def total(item: Item) -> AttributeValue:
        one = _data(left(item), "N")
        return {"N": combine(one, _data(right(item), "N"))}

    return total


def _list_append(call: Call, scope: Scope) -> Compute:
    if len(call.arguments) != OPERAND_COUNTS[call.name]:
        for argument in call.arguments:
            bind_value(argument, scope)
        _refuse_count(call)
    left, right = call.arguments
    first, second = _two_of(call.name, left, right, "L", scope)

    def appended(item: Item) -> AttributeValue:
        start = _data(first(item), "L")
        return {"L": [*start, *_data(second(item), "L")]}

    return appended


def _if_not_exists(call: Call, scope: Scope) -> Compute:
    operands = [bind_value(argument, scope) for argument in call.arguments]
    _refuse_count(call)
    first, second = call.arguments
    if not isinstance(first, Path):
        raise error_wording.needs_path(call.name)
    path = bind_path(first, scope.names)
    if isinstance(second, Path) and bind_path(second, scope.names) == path:
        raise error_wording.not_distinct(call.name, path_text(path))
    get, otherwise = getter(path), operands[1]

    def existing(item: Item) -> AttributeValue | None:
        value = get(item)
        return value if value is not None else otherwise(item)

    return existing


def _two_of(operator: str, left: Operand, right: Operand, kind: str, scope: Scope) -> tuple[Compute, Compute]:
    """Two operands, of which constants must be of this type."""
    bound = bind_value(left, scope), bind_value(right, scope)
    for operand in (left, right):
        if type(operand) is Value and kind not in scope.values[operand.name]:
            raise error_wording.operand_type(operator, next(iter(scope.values[operand.name])))
    return bound


def _refuse_count(call: Call) -> None:
    if len(call.arguments) != OPERAND_COUNTS[call.name]:
        raise error_wording.operand_count(call.name, len(call.arguments))


def _data(value: AttributeValue | None, kind: str) -> Any:
    if value is None or kind not in value:
        raise ExpressionError(error_wording.BAD_OPERAND, bare=True)
    return value[kind]


# ── ADD and DELETE ───────────────────────────────────────────────────────────────────────────────


def adder(path: BoundPath, operand: AttributeValue, mismatch: str = error_wording.BAD_OPERAND) -> Compute:
    """A number plus the operand, or a set (and, of old, a list) with the operand's members."""
    ((kind, data),) = operand.items()

    def added(item: Item) -> AttributeValue:
        value = find(path, item)
        if value is None:
            return operand
        if kind not in value:
            raise ExpressionError(mismatch, bare=True)
        if kind == "N":
            return {"N": plus(value["N"], data)}
        if kind == "L":
            return {"L": value["L"] + data}
        present = set(value[kind])
        return {kind: value[kind] + [member for member in data if member not in present]}

    return added


def deleter(path: BoundPath, operand: AttributeValue, mismatch: str = error_wording.BAD_OPERAND) -> Compute:
    """A set without the operand's members; nothing where none is left."""
    ((kind, data),) = operand.items()
    members = set(data)

    def left(item: Item) -> AttributeValue | None:
        value = find(path, item)
        if value is None:
            return None
        if kind not in value:
            raise ExpressionError(mismatch, bare=True)
        rest = [member for member in value[kind] if member not in members]
        return {kind: rest} if rest else None

    return left


def plus(left: str, right: str) -> str:
    """The sum of two normalised numbers."""
    if _is_small_integer(left) and _is_small_integer(right):
        return str(int(left) + int(right))
    return numbers.add(left, right)


def minus(left: str, right: str) -> str:
    """The difference of two normalised numbers."""
    if _is_small_integer(left) and _is_small_integer(right):
        return str(int(left) - int(right))
    return numbers.subtract(left, right)


def _is_small_integer(text: str) -> bool:
    return len(text) <= _INTEGER_DIGITS and (text.isdigit() or (text[0] == "-" and text[1:].isdigit()))
