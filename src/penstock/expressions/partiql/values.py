"""Literals and parameters as attribute values.

DynamoDB says where in a value a number is wrong: `… under root.x[1]`; the root is the attribute, or the operand. A
parameter is a whole value: none may stand within a list, a set or a tuple.
"""

from __future__ import annotations

from collections.abc import Sequence as Members
from decimal import Decimal
from typing import Any

from penstock.errors import ValidationException
from penstock.expressions.partiql import wording
from penstock.expressions.partiql.tree import (
    Bag,
    Binary,
    Boolean,
    Call,
    Missing,
    Node,
    Null,
    Number,
    Parameter,
    Path,
    Sequence,
    Struct,
    Text,
    place_of,
)
from penstock.wire import numbers
from penstock.wire.limits import NESTING
from penstock.wire.values import AttributeValue, Item, check_value

Parameters = Members[AttributeValue]

LITERALS = Text | Number | Boolean | Null | Parameter | Sequence | Bag | Struct
"""Nodes that are values whatever the item is."""

ROOT = "root"
_TYPE_NAMES: dict[type, str] = {
    Parameter: "Parameter",
    Path: "VariableReference",
    Sequence: "Seq",
    Bag: "Seq",
    Struct: "Struct",
    Null: "NULL",
    Boolean: "BOOL",
    Missing: "LiteralMissing",
}
_INVALID = "One or more parameter values were invalid: "
_TOO_DEEP = (
    "Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit"
)


def value_of(node: Node, parameters: Parameters, under: str = ROOT) -> AttributeValue:
    """The value that a literal or parameter means."""
    match node:
        case Text(text):
            return {"S": text}
        case Number(text):
            return {"N": _number(text, under)}
        case Boolean(flag):
            return {"BOOL": flag}
        case Null():
            return {"NULL": True}
        case Parameter(number) if under == ROOT:
            return parameters[number]
        case Sequence(members):
            return {"L": [value_of(one, parameters, f"{under}[{i}]") for i, one in enumerate(members)]}
        case Bag():
            return _set_of(node, parameters, under)
        case Struct():
            return {"M": members_of(node, parameters, under)}
    name = _written_name(node) if under == ROOT else _type_name(node)
    raise ValidationException(f"Unsupported data type: {name} under key {under} at {place_of(node)}")


def members_of(struct: Struct, parameters: Parameters, under: str | None = None) -> Item:
    """A struct's members. Without `under` it is an item: each attribute is then a root of its own."""
    members: Item = {}
    for name, node in struct.members:
        if not isinstance(name, Text):
            raise ValidationException(
                f"Tuple keys must be of type String. Actual type: {_type_name(name)} under {under or ROOT} at "
                f"{place_of(name)}"
            )
        value = value_of(node, parameters, ROOT if under is None else f"{under}.{name.text}")
        if name.text in members:
            place = place_of(name if under is None else struct)
            raise ValidationException(f"Duplicate keys in tuple. Key: {name.text} under {under or ROOT} at {place}")
        members[name.text] = value
    return members


def _number(text: str, under: str) -> str:
    try:
        return numbers.normalise(text)
    except ValidationException as error:
        raise ValidationException(f"{error.message} under {under}") from None


def _set_of(bag: Bag, parameters: Parameters, under: str) -> AttributeValue:
    if not bag.members:
        raise ValidationException(wording.EMPTY_BAG)
    if any(isinstance(node, Parameter) for node in bag.members):
        raise ValidationException(wording.MIXED_BAG)
    members = [value_of(node, parameters, under) for node in bag.members]
    for kind in ("S", "N"):
        if all(kind in member for member in members):
            data = [member[kind] for member in members]
            if len(set(data)) != len(data):
                raise _duplicates(bag, data, kind, under)
            return {kind + "S": data}
    raise ValidationException(wording.MIXED_BAG)


def _duplicates(bag: Bag, data: list[str], kind: str, under: str) -> ValidationException:
    if kind == "S":
        return ValidationException(f"{_INVALID}Input collection [{', '.join(data)}] contains duplicates.")
    written = [_written(node, text) for node, text in zip(bag.members, data, strict=True)]
    return ValidationException(f"{_INVALID}Input collection [{', '.join(written)}] contains duplicates! under {under}")


def _written(node: Node, normalised: str) -> str:
    """A number of a set as DynamoDB shows it: with the zeros that it was written with."""
    return str(Decimal(node.text)) if isinstance(node, Number) else normalised


def _written_name(node: Node) -> str:
    """What is no value, as it is written."""
    match node:
        case Path(parts):
            return str(parts[0])
        case Binary(operator):
            return operator
        case Call(name):
            return name
        case Missing():
            return "MISSING"
    return _type_name(node)


def _type_name(node: Node) -> str:
    """DynamoDB's name for a kind of node."""
    if isinstance(node, Number):
        return "DECIMAL" if set(node.text) & set(".eE") else "INT"
    return _TYPE_NAMES.get(type(node), "NAry")


# ── parameters ───────────────────────────────────────────────────────────────────────────────────


def checked_parameters(given: Members[AttributeValue] | None) -> list[AttributeValue]:
    """The request's Parameters, normalised; DynamoDB looks at them before it reads the statement."""
    checked: list[AttributeValue] = []
    for value in given or ():
        try:
            checked.append(check_value(value))
        except ValidationException:
            _raise_first_problem(value, 0)
            raise
    return checked


def _raise_first_problem(value: Any, depth: int) -> None:
    """Raises what is wrong with a number or with the nesting, in the order of the document."""
    for kind, data in value.items():
        if kind == "N":
            numbers.normalise(data)
        elif kind == "NS":
            for number in data:
                numbers.normalise(number)
        elif kind in ("L", "M"):
            if depth >= NESTING:
                raise ValidationException(_TOO_DEEP)
            for member in data if kind == "L" else data.values():
                _raise_first_problem(member, depth + 1)
