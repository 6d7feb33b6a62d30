"""Conditions and updates written in Python: `F("status") == "queued"`, `F("n") + 1`.

`F` names an attribute. Comparing it makes a Condition, arithmetic on it makes what an update sets. Both are plain
values, a tree; `rendering` turns them into DynamoDB's expressions, with an alias for every name and value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from penstock.client.tables.values import Step, path_text
from penstock.wire.limits import EXPRESSION_IN_OPERANDS

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
