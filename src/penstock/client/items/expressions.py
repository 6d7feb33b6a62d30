"""Conditions, updates and selections in Python, and the expressions of DynamoDB's that they become."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from penstock.client.items.values import Step, encode, path_text
from penstock.wire.limits import EXPRESSION_IN_OPERANDS
from penstock.wire.values import AttributeValue

Comparator = Literal["=", "<>", "<", "<=", ">", ">="]
TypeName = Literal["S", "N", "B", "SS", "NS", "BS", "M", "L", "BOOL", "NULL"]

_TYPES = ("S", "N", "B", "SS", "NS", "BS", "M", "L", "BOOL", "NULL")


class Condition:
    """True or false of an item. Combine with `&`, `|` and `~`."""

    __slots__ = ()

    def __and__(self, other: Condition) -> Condition:
        return And((*_parts(self, And), *_parts(other, And))) if isinstance(other, Condition) else NotImplemented

    def __or__(self, other: Condition) -> Condition:
        return Or((*_parts(self, Or), *_parts(other, Or))) if isinstance(other, Condition) else NotImplemented

    def __invert__(self) -> Condition:
        return Not(self)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "A condition is decided by the database, so Python cannot take it as true or false. Write & for `and`, "
            "| for `or`, ~ for `not`, each side in brackets: (F('a') == 1) & (F('b') > 2). "
            "For a range write F('a').between(low, high), not low <= F('a') <= high."
        )


def _parts(condition: Condition, kind: type[And] | type[Or]) -> tuple[Condition, ...]:
    """What a chain of the same operator holds: `a & b & c` is one And of three."""
    return condition.parts if isinstance(condition, kind) else (condition,)


class Operand:
    """Something with a value in an item: an attribute, or its size."""

    __slots__ = ()

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        return Comparison("=", self, other)

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        return Comparison("<>", self, other)

    def __lt__(self, other: object) -> Condition:
        return Comparison("<", self, other)

    def __le__(self, other: object) -> Condition:
        return Comparison("<=", self, other)

    def __gt__(self, other: object) -> Condition:
        return Comparison(">", self, other)

    def __ge__(self, other: object) -> Condition:
        return Comparison(">=", self, other)

    def __hash__(self) -> int:
        return id(self)

    def between(self, low: Any, high: Any) -> Condition:
        """low <= it <= high."""
        return Between(self, low, high)

    def in_(self, values: Collection[Any]) -> Condition:
        """Equal to one of `values`: 1 to 100 of them."""
        if not values:
            raise ValueError("in_() needs at least one value: nothing is in an empty list")
        if len(values) > EXPRESSION_IN_OPERANDS:
            raise ValueError(
                f"in_() takes {EXPRESSION_IN_OPERANDS} values, DynamoDB's limit, not {len(values)}; join several with |"
            )
        return In(self, tuple(values))


class Assignable:
    """What an update may set an attribute to, beside a plain value."""

    __slots__ = ()

    def __add__(self, other: Any) -> Sum:
        return Sum(self, "+", other)

    def __radd__(self, other: Any) -> Sum:
        return Sum(other, "+", self)

    def __sub__(self, other: Any) -> Sum:
        return Sum(self, "-", other)

    def __rsub__(self, other: Any) -> Sum:
        return Sum(other, "-", self)

    def append(self, elements: Iterable[Any]) -> Joined:
        """The list with `elements` after it."""
        return Joined(self, list(elements))

    def prepend(self, elements: Iterable[Any]) -> Joined:
        """The list with `elements` before it."""
        return Joined(list(elements), self)


class F(Operand, Assignable):
    """An attribute, by its name; deeper ones by further steps: `F("order", "lines", 0)`, `F("order")["lines"][0]`.

    A name is taken as it is: `F("a.b")` is the one attribute with a dot in its name.
    """

    __slots__ = ("path",)

    path: tuple[Step, ...]

    def __init__(self, name: str, *steps: str | int) -> None:
        if not isinstance(name, str):
            raise TypeError(f"an attribute's name is a str, not {type(name).__name__}")
        self.path = (name, *map(_step, steps))

    def __getitem__(self, step: str | int) -> F:
        return F(*self.path, step)  # type: ignore[arg-type]

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self!r} is an attribute's name, not its value; it has no elements here")

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"F({', '.join(map(repr, self.path))})"

    def __str__(self) -> str:
        return path_text(self.path)

    def exists(self) -> Condition:
        """That the attribute is there."""
        return Function("attribute_exists", self, ())

    def missing(self) -> Condition:
        """The item does not have it; an item that does not exist has none."""
        return Function("attribute_not_exists", self, ())

    def type(self, name: TypeName) -> Condition:
        """It is of this type: "S", "N", "B", "SS", "NS", "BS", "M", "L", "BOOL" or "NULL"."""
        if name not in _TYPES:
            raise ValueError(f"a type is one of {', '.join(_TYPES)}, not {name!r}")
        return Function("attribute_type", self, (name,))

    def begins_with(self, start: Any) -> Condition:
        """Its text, or its bytes, begin with `start`."""
        return Function("begins_with", self, (start,))

    def contains(self, part: Any) -> Condition:
        """Its text has `part` in it, or its set or list has such a member."""
        return Function("contains", self, (part,))

    def size(self) -> Size:
        """Its length: of a text or bytes in bytes, of a set, list or map in members."""
        return Size(self)

    def if_missing(self, value: Any) -> IfMissing:
        """Its value, or `value` where the item has none: for updates."""
        return IfMissing(self, value)


def _step(step: str | int) -> Step:
    if isinstance(step, bool) or not isinstance(step, str | int):
        raise TypeError(f"a step of a path is a name or a place in a list, not {step!r}")
    if isinstance(step, int) and step < 0:
        raise ValueError(f"a place in a list counts from 0; DynamoDB has no {step}")
    return step


@dataclass(frozen=True, slots=True, eq=False)
class Size(Operand):
    """size(path)."""

    of: F


# ── conditions ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Condition):
    comparator: Comparator
    left: Any
    right: Any


@dataclass(frozen=True, slots=True, eq=False)
class Between(Condition):
    operand: Operand
    low: Any
    high: Any


@dataclass(frozen=True, slots=True, eq=False)
class In(Condition):
    operand: Operand
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Function(Condition):
    name: Literal["attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains"]
    of: F
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class And(Condition):
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Or(Condition):
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Not(Condition):
    condition: Condition


# ── what an update sets ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, eq=False)
class Sum(Assignable):
    """left + right or left - right. DynamoDB adds two things, not three; rendering refuses a longer chain."""

    left: Any
    operator: Literal["+", "-"]
    right: Any


@dataclass(frozen=True, slots=True, eq=False)
class Joined(Assignable):
    """list_append(first, second)."""

    first: Any
    second: Any


@dataclass(frozen=True, slots=True, eq=False)
class IfMissing(Assignable):
    """if_not_exists(path, value)."""

    of: F
    value: Any


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
