"""The vocabulary in which requests are written down: what JSON a member takes, and its constraints.

A request is checked twice, at different prices.

1. `accepts` is compiled once into closures and runs on every request: a few dictionary lookups and type
   checks. What it accepts is used exactly as it came.
2. Only what it does not accept is looked at again. `convert` refuses JSON of the wrong type in DynamoDB's
   words (SerializationException), drops nulls and unknown members, and converts what DynamoDB converts
   ("true" to true, 2.5 to 2). `inspect` then lists the broken constraints (ValidationException), ten at most.

The texts name DynamoDB's own Java classes, because its answers do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from penstock.errors import SerializationException, ValidationException
from penstock.wire.limits import ECHOED_CHARACTERS

Acceptor = Callable[[Any], bool]

LISTED_FAULTS = 10  # DynamoDB names no more than ten broken constraints

FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799  # of the years that a date can have

STRUCTURE_FOUND = "Start of structure or map found where not expected"


class Path(NamedTuple):
    """Where a value stands: as most messages write it, and as DynamoDB's newer messages do."""

    text: str = ""
    newer: str = ""

    def member(self, name: str) -> Path:
        dot = "." if self.text else ""
        return Path(f"{self.text}{dot}{name[:1].lower()}{name[1:]}", f"{self.newer}{dot}{name}")

    def element(self, key: object) -> Path:
        return Path(f"{self.text}.{key}.member", f"{self.newer}.{key}.member")


class Fault(NamedTuple):
    """A broken constraint, in the words that show the value and in those that do not."""

    path: Path
    text: str
    newer: str
    plain: bool  # a lone one is worded without the value
    missing: bool  # a required member that is not there
    late: bool = False  # told only where all that is wrong is wrong with this member


class Faults:
    """The broken constraints of one request, in the order in which DynamoDB lists them."""

    def __init__(self) -> None:
        self.listed: list[Fault] = []

    @property
    def full(self) -> bool:
        return len(self.listed) >= LISTED_FAULTS

    def add(self, value: str | None, path: Path, constraint: str, *, newer: bool = False, late: bool = False) -> None:
        """`newer` is for the members whose lone fault DynamoDB words without the value."""
        if self.full:
            return
        quoted_value = "null" if value is None else f"'{value[:ECHOED_CHARACTERS]}'"
        text = f"Value {quoted_value} at '{path.text}' failed to satisfy constraint: {constraint}"
        plainly = f"Value at '{path.newer}' failed to satisfy constraint: {constraint}"
        self.listed.append(Fault(path, text, plainly, newer, value is None, late))

    def _is_alone(self, fault: Fault) -> bool:
        """Whether no other member has a fault, or this one has another."""
        others = [other for other in self.listed if other is not fault]
        return not others or any(other.path.text.startswith(fault.path.text) for other in others)

    def raise_any(self) -> None:
        reported = [fault for fault in self.listed if not fault.late or self._is_alone(fault)]
        if len(reported) == 1:
            (fault,) = reported
            raise ValidationException(f"1 validation error detected: {fault.newer if fault.plain else fault.text}")
        if reported:
            texts = "; ".join(fault.text for fault in reported)
            raise ValidationException(f"{len(reported)} validation errors detected: {texts}")


class Shape:
    """What one member may hold. Values given to `inspect` and `render` have been converted."""

    java: str = ""

    def acceptor(self) -> Acceptor:
        raise NotImplementedError

    def convert(self, value: Any, *, element: bool) -> Any:
        """`value`, not null, as DynamoDB reads it. `element`: of a list or map, not a structure's member."""
        raise NotImplementedError

    def inspect(self, value: Any, path: Path, faults: Faults) -> None:
        """Add the constraints that `value` breaks."""

    def render(self, value: Any) -> str:
        """`value` as Java prints it."""
        return str(value)

    def null(self) -> Any:
        """What a null element of a list or map is taken for."""
        return None


class HasLength(Protocol):
    """A shape whose values have a least and a greatest length; `newer` as in `Faults.add`."""

    minimum: int
    maximum: int | None
    newer: bool

    def render(self, value: Any) -> str: ...


class Scalar(Shape):
    """A string, a number or a truth."""

    def refuse(self, value: Any) -> SerializationException:
        if isinstance(value, dict):
            return SerializationException(STRUCTURE_FOUND)
        if isinstance(value, list):
            return SerializationException(f"Unrecognized collection type class java.lang.{self.java}")
        return SerializationException(f"{_token(value)} cannot be converted to {self.java}")


class String(Scalar):
    """Text; `newer` as in `Faults.add`."""

    java = "String"

    def __init__(
        self,
        minimum: int = 0,
        maximum: int | None = None,
        pattern: str | None = None,
        *,
        newer: bool = False,
    ) -> None:
        self.minimum, self.maximum, self.pattern, self.newer = minimum, maximum, pattern, newer
        self._matches = re.compile(pattern or "", re.ASCII | re.DOTALL).fullmatch if pattern else None

    def acceptor(self) -> Acceptor:
        low, high, matches = self.minimum, self.maximum, self._matches
        if high is None:
            high = 1 << 62
        if matches is not None:
            return lambda value: type(value) is str and low <= len(value) <= high and bool(matches(value))
        if low or self.maximum is not None:
            return lambda value: type(value) is str and low <= len(value) <= high
        return is_string

    def convert(self, value: Any, *, element: bool) -> Any:
        if isinstance(value, str):
            return value
        raise self.refuse(value)

    def inspect(self, value: Any, path: Path, faults: Faults) -> None:
        if self._matches is not None and not self._matches(value):
            pattern = f"Member must satisfy regular expression pattern: {self.pattern}"
            faults.add(value, path, pattern, newer=self.newer)
        inspect_length(self, value, path, faults)


class Enum(Scalar):
    """One of some words, listed in the order in which DynamoDB's message lists them."""

    java = "String"

    def __init__(self, *words: str) -> None:
        self.words = words

    def acceptor(self) -> Acceptor:
        words = frozenset(self.words)
        return lambda value: type(value) is str and value in words

    def convert(self, value: Any, *, element: bool) -> Any:
        if isinstance(value, str):
            return value
        raise self.refuse(value)

    def inspect(self, value: Any, path: Path, faults: Faults) -> None:
        if value not in self.words:
            faults.add(value, path, f"Member must satisfy enum value set: [{', '.join(self.words)}]")


class Integer(Scalar):
    """A whole number; `long` only changes the name in messages."""

    def __init__(
        self,
        minimum: int | None = None,
        maximum: int | None = None,
        *,
        long: bool = False,
        newer: bool = False,
    ) -> None:
        self.minimum, self.maximum, self.newer = minimum, maximum, newer
        self.java = "Long" if long else "Integer"

    def acceptor(self) -> Acceptor:
        low = -(1 << 63) if self.minimum is None else self.minimum
        high = (1 << 63) - 1 if self.maximum is None else self.maximum
        return lambda value: type(value) is int and low <= value <= high

    def convert(self, value: Any, *, element: bool) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.refuse(value)
        if isinstance(value, float) and not math.isfinite(value):
            raise self.refuse(value)
        return max(-(1 << 63), min(math.floor(value), (1 << 63) - 1))

    def inspect(self, value: Any, path: Path, faults: Faults) -> None:
        if self.minimum is not None and value < self.minimum:
            constraint = f"Member must have value greater than or equal to {self.minimum}"
            faults.add(str(value), path, constraint, newer=self.newer)
        if self.maximum is not None and value > self.maximum:
            constraint = f"Member must have value less than or equal to {self.maximum}"
            faults.add(str(value), path, constraint, newer=self.newer)


class Boolean(Scalar):
    java = "Boolean"

    _WORDS = {"TRUE": True, "1": True, "YES": True, "FALSE": False, "0": False, "NO": False}  # noqa: RUF012

    def acceptor(self) -> Acceptor:
        return _is_boolean

    def convert(self, value: Any, *, element: bool) -> Any:
        if isinstance(value, bool):
            return value
        if isinstance(value, str):
            word = self._WORDS.get(value.upper())
            if word is None:
                raise SerializationException("Unexpected token received from parser")
            return word
        raise self.refuse(value)

    def render(self, value: Any) -> str:
        return "true" if value else "false"


class Timestamp(Scalar):
    """Seconds since 1970, with or without a fraction, of the years 1 to 9999."""

    java = "Date"

    def acceptor(self) -> Acceptor:
        return lambda value: type(value) in (int, float) and FIRST_SECOND <= value <= LAST_SECOND

    def convert(self, value: Any, *, element: bool) -> Any:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if number and FIRST_SECOND <= value <= LAST_SECOND:
            return value
        raise self.refuse(value)


class Unsupported(Shape):
    """A member of something that does not exist here: better refused than silently left out."""

    def __init__(self, name: str) -> None:
        self.name = name

    def acceptor(self) -> Acceptor:
        return lambda value: False

    def convert(self, value: Any, *, element: bool) -> Any:
        raise ValidationException(
            f"One or more parameter values were invalid: {self.name} is not supported by this endpoint"
        )


def is_string(value: Any) -> bool:
    return type(value) is str


def _is_boolean(value: Any) -> bool:
    return type(value) is bool


def _token(value: Any) -> str:
    """What DynamoDB's JSON parser calls a scalar."""
    if value is True:
        return "TRUE_VALUE"
    if value is False:
        return "FALSE_VALUE"
    if isinstance(value, str):
        return "STRING_VALUE"
    if isinstance(value, float) and not value.is_integer():
        return "DECIMAL_VALUE"
    return "NUMBER_VALUE"


def at_least(minimum: int) -> str:
    return f"Member must have length greater than or equal to {minimum}"


def inspect_length(shape: HasLength, value: Any, path: Path, faults: Faults) -> None:
    """Adds what the value's length breaks."""
    newer = shape.newer
    if len(value) < shape.minimum:
        faults.add(shape.render(value), path, at_least(shape.minimum), newer=newer)
    if shape.maximum is not None and len(value) > shape.maximum:
        constraint = f"Member must have length less than or equal to {shape.maximum}"
        faults.add(shape.render(value), path, constraint, newer=newer)
