"""What an update's text shows without an item: types that it will write, attributes it looks into, what it is charged.

Looked at where it matters only: types on tables with indexes, charges where an update may be too large.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from penstock.expressions.compiled.paths import bind_path
from penstock.expressions.compiled.updates import compile_update
from penstock.expressions.syntax.tree import (
    Action,
    AddAction,
    Arithmetic,
    Call,
    DeleteAction,
    Operand,
    Path,
    RemoveAction,
    SetAction,
    Value,
    walk,
)
from penstock.wire.values import AttributeValue, type_of, value_size

Names = Mapping[str, str]
Values = Mapping[str, AttributeValue]

# DynamoDB's charges in bytes, measured by others at the edge of the limit: they are written down nowhere.
_UPDATE, _WRITE, _REMOVAL = 3, 19, 1
_STEP = 4  # for each element of a path after the first, where it is written to
_READ, _READ_STEP = 1, 14
_OPERATORS = {"+": 34, "-": 37, "if_not_exists": 39, "list_append": 37}


def written_types(request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each top-level attribute whose type after the update is known beforehand, with that type."""
    if "UpdateExpression" not in request:
        for name, update in (request.get("AttributeUpdates") or {}).items():
            if update.get("Value"):
                yield name, type_of(update["Value"])
        return
    names, values = _maps(request)
    for action in compile_update(request["UpdateExpression"]).tree.actions:
        if isinstance(action, RemoveAction) or len(action.path.parts) > 1:
            continue
        kind = _type_of(action.value, values)
        if kind is not None:
            yield str(bind_path(action.path, names)[0]), kind


def looked_into(request: Mapping[str, Any]) -> frozenset[str]:
    """The top-level attributes of which a part is read or written."""
    text = request.get("UpdateExpression")
    if text is None or not ("." in text or "[" in text):
        return frozenset()
    names, _ = _maps(request)
    actions = compile_update(text).tree.actions
    paths = [bind_path(node, names) for node in walk(*actions) if isinstance(node, Path) and len(node.parts) > 1]
    return frozenset(str(path[0]) for path in paths)


def charge_of(text: str, names: Names, values: Values) -> int:
    """The bytes that DynamoDB counts for the statement: what it writes and a charge for each clause.

    Neither the key nor an attribute that is left alone is in it, nor a value that is read from the item.
    """
    update = compile_update(text)
    sizes = {name: value_size(values[name]) for name in update.values}  # once, however often it is written
    return _UPDATE + sum(_charge(action, names, sizes) for action in update.tree.actions)


def _charge(action: Action, names: Names, sizes: Mapping[str, int]) -> int:
    target = _target(action.path, names)
    if isinstance(action, RemoveAction | DeleteAction):
        return _REMOVAL + target
    assert isinstance(action, SetAction | AddAction)
    return _WRITE + target + _operand(action.value, names, sizes)


def _target(path: Path, names: Names) -> int:
    first, *rest = (_length(part) for part in bind_path(path, names))
    return first + sum(_STEP + length for length in rest)


def _operand(operand: Operand, names: Names, sizes: Mapping[str, int]) -> int:
    match operand:
        case Value(name):
            return sizes[name]
        case Path():
            return _READ + sum(_READ_STEP + _length(part) for part in bind_path(operand, names))
        case Arithmetic(operator, left, right):
            return _OPERATORS[operator] + _operand(left, names, sizes) + _operand(right, names, sizes)
        case Call(name, arguments):
            return _OPERATORS[name] + sum(_operand(one, names, sizes) for one in arguments)


def _type_of(operand: Operand, values: Values) -> str | None:
    """The operand's type, where no item is needed to know it."""
    match operand:
        case Value(name):
            return type_of(values[name])
        case Arithmetic():
            return "N"
        case Call("list_append"):
            return "L"
        case _:
            return None


def _length(part: str | int) -> int:
    return len(str(part).encode())


def _maps(request: Mapping[str, Any]) -> tuple[Names, Values]:
    return request.get("ExpressionAttributeNames") or {}, request.get("ExpressionAttributeValues") or {}
