"""Conditions, updates and selections as DynamoDB's expressions.

1. Every name and value is an alias (#n0, :v0): no reserved word, dot or blank in a name can break an expression.
2. Only as many as needed: a name stands once in ExpressionAttributeNames, and so does a plain value.
3. The same tree gives the same text in every process: requests can be compared, recorded and resumed.
4. Aliases that the caller brought with an expression of his own are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.client.tables.conditions import (
    And,
    Assignable,
    Between,
    Comparison,
    Condition,
    F,
    Function,
    IfMissing,
    In,
    Joined,
    Not,
    Operand,
    Or,
    Size,
    Sum,
)
from penstock.client.tables.values import Step, encode, path_text
from penstock.wire.values import AttributeValue

Where = Condition | str | None
"""A condition from Python, an expression of DynamoDB's as text, or none."""

Attribute = str | F
"""A top-level attribute by its name, or any by its path."""

_SCALARS = ("S", "N", "B", "BOOL", "NULL")


class Aliases:
    """The names and values that the expressions of one request share."""

    def __init__(self, names: Mapping[str, str] | None = None, values: Mapping[str, Any] | None = None) -> None:
        self.names: dict[str, str] = dict(names or {})
        self.values: dict[str, AttributeValue] = {
            alias: encode(value, alias) for alias, value in (values or {}).items()
        }
        self._alias_of_name: dict[str, str] = {}
        self._alias_of_value: dict[tuple[str, object], str] = {}

    def path(self, path: Iterable[Step]) -> str:
        """The path with its names aliased: #n0.#n1[3]."""
        text = ""
        for step in path:
            text += f"[{step}]" if isinstance(step, int) else f".{self.name(step)}" if text else self.name(step)
        return text

    def name(self, name: str) -> str:
        alias = self._alias_of_name.get(name)
        if alias is None:
            alias = self._alias_of_name[name] = _free("#n", self.names)
            self.names[alias] = name
        return alias

    def value(self, value: Any, *path: Step) -> str:
        """The alias of a plain value; `path` is the attribute it is meant for."""
        encoded = encode(value, *path)
        ((kind, content),) = encoded.items()
        if kind not in _SCALARS:
            return self._new(encoded)
        alias = self._alias_of_value.get((kind, content))
        if alias is None:
            alias = self._alias_of_value[kind, content] = self._new(encoded)
        return alias

    def _new(self, value: AttributeValue) -> str:
        alias = _free(":v", self.values)
        self.values[alias] = value
        return alias

    def into(self, request: dict[str, Any]) -> dict[str, Any]:
        """The request with the names and values that its expressions use."""
        if self.names:
            request["ExpressionAttributeNames"] = self.names
        if self.values:
            request["ExpressionAttributeValues"] = self.values
        return request


def _free(prefix: str, taken: Mapping[str, object]) -> str:
    number = len(taken)
    while f"{prefix}{number}" in taken:
        number += 1
    return f"{prefix}{number}"


# ── conditions ───────────────────────────────────────────────────────────────────────────────────


def condition_text(condition: Condition | str, aliases: Aliases) -> str:
    """A ConditionExpression, FilterExpression or KeyConditionExpression."""
    if isinstance(condition, str):
        return condition
    match condition:
        case Comparison(comparator, left, right):
            about = _about(left, right)
            return f"{_operand(left, aliases, about)} {comparator} {_operand(right, aliases, about)}"
        case Between(operand, low, high):
            about = _about(operand)
            first, *ends = (_operand(each, aliases, about) for each in (operand, low, high))
            return f"{first} BETWEEN {' AND '.join(ends)}"
        case In(operand, values):
            about = _about(operand)
            first = _operand(operand, aliases, about)
            return f"{first} IN ({', '.join(_operand(value, aliases, about) for value in values)})"
        case Function(name, of, arguments):
            rest = [_operand(argument, aliases, of.path) for argument in arguments]
            return f"{name}({', '.join([aliases.path(of.path), *rest])})"
        case And(parts):
            return " AND ".join(_bracketed(part, aliases, Or) for part in parts)
        case Or(parts):
            return " OR ".join(condition_text(part, aliases) for part in parts)
        case Not(inner):
            return f"NOT ({condition_text(inner, aliases)})"
    raise TypeError(f"a condition is made from F(…), or a text in DynamoDB's language; not {condition!r}")


def _bracketed(condition: Condition, aliases: Aliases, weaker: type[Condition]) -> str:
    text = condition_text(condition, aliases)
    return f"({text})" if isinstance(condition, weaker) else text


def _operand(operand: Any, aliases: Aliases, about: tuple[Step, ...]) -> str:
    match operand:
        case F():
            return aliases.path(operand.path)
        case Size(of):
            return f"size({aliases.path(of.path)})"
        case Assignable() | Condition():
            raise TypeError(f"{type(operand).__name__} cannot be compared: DynamoDB computes in updates only")
    return aliases.value(operand, *about)


def _about(*operands: Any) -> tuple[Step, ...]:
    """The attribute that a plain value is compared with: it is named where the value is refused."""
    for operand in operands:
        if isinstance(operand, F):
            return operand.path
        if isinstance(operand, Size):
            return operand.of.path
    return ()


# ── updates ──────────────────────────────────────────────────────────────────────────────────────


def update_text(
    aliases: Aliases,
    assigned: Mapping[Any, Any] | None = None,
    removed: Iterable[Attribute] | None = None,
    added: Mapping[Any, Any] | None = None,
    deleted: Mapping[Any, Any] | None = None,
) -> str:
    """An UpdateExpression; empty where there is nothing to do."""
    clauses = (
        ("SET ", [_assignment(target, value, aliases) for target, value in (assigned or {}).items()]),
        ("REMOVE ", [aliases.path(path_of(target)) for target in _listed(removed)]),
        ("ADD ", [_change(target, value, aliases) for target, value in (added or {}).items()]),
        ("DELETE ", [_change(target, value, aliases) for target, value in (deleted or {}).items()]),
    )
    return " ".join(verb + ", ".join(parts) for verb, parts in clauses if parts)


def _listed(attributes: Iterable[Attribute] | None) -> Iterable[Attribute]:
    if isinstance(attributes, str | F):
        raise TypeError(f"a list of attributes is wanted: [{attributes!r}]")
    return attributes or ()


def path_of(attribute: Attribute) -> tuple[Step, ...]:
    if isinstance(attribute, F):
        return attribute.path
    if isinstance(attribute, str):
        return (attribute,)
    raise TypeError(f"an attribute is a str or F(…), not {attribute!r}")


def _assignment(target: Attribute, value: Any, aliases: Aliases) -> str:
    path = path_of(target)
    text = aliases.path(path)
    if isinstance(value, Sum):
        left, right = _term(value.left, aliases, path), _term(value.right, aliases, path)
        return f"{text} = {left} {value.operator} {right}"
    return f"{text} = {_term(value, aliases, path)}"


def _term(value: Any, aliases: Aliases, about: tuple[Step, ...]) -> str:
    match value:
        case F():
            return aliases.path(value.path)
        case IfMissing(of, otherwise):
            return f"if_not_exists({aliases.path(of.path)}, {_term(otherwise, aliases, about)})"
        case Joined(first, second):
            return f"list_append({_term(first, aliases, about)}, {_term(second, aliases, about)})"
        case Sum():
            raise TypeError("DynamoDB adds or subtracts two operands, not three: put the numbers together first")
        case Operand() | Condition():
            raise TypeError(f"{path_text(about)}: an update sets no {type(value).__name__}")
    return aliases.value(value, *about)


def _change(target: Attribute, value: Any, aliases: Aliases) -> str:
    path = path_of(target)
    if isinstance(value, Operand | Assignable | Condition):
        raise TypeError(f"add and delete take a plain value; use set={{{path[0]!r}: …}} for one that is computed")
    return f"{aliases.path(path)} {aliases.value(value, *path)}"


# ── selections ───────────────────────────────────────────────────────────────────────────────────


def projection_text(attributes: Iterable[Attribute], aliases: Aliases) -> str:
    """A ProjectionExpression."""
    text = ", ".join(aliases.path(path_of(attribute)) for attribute in _listed(attributes))
    if not text:
        raise ValueError("select needs at least one attribute; leave it out to get them all")
    return text
