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
from collections.abc import Callable, Iterator
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
        shown = "null" if value is None else f"'{value[:ECHOED_CHARACTERS]}'"
        text = f"Value {shown} at '{path.text}' failed to satisfy constraint: {constraint}"
        plainly = f"Value at '{path.newer}' failed to satisfy constraint: {constraint}"
        self.listed.append(Fault(path, text, plainly, newer, value is None, late))

    def _is_alone(self, fault: Fault) -> bool:
        """Whether no other member has a fault, or this one has another."""
        others = [other for other in self.listed if other is not fault]
        return not others or any(other.path.text.startswith(fault.path.text) for other in others)

    def raise_any(self) -> None:
        told = [fault for fault in self.listed if not fault.late or self._is_alone(fault)]
        if len(told) == 1:
            (fault,) = told
            raise ValidationException(f"1 validation error detected: {fault.newer if fault.plain else fault.text}")
        if told:
            texts = "; ".join(fault.text for fault in told)
            raise ValidationException(f"{len(told)} validation errors detected: {texts}")


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


# ── lists, maps, structures, requests ─────────────────────────────────────────────────────────────


CONVERTED_PAST_MAXIMUM = 1000  # elements of a list that is too long: more than a message shows

_MODEL = "com.amazonaws.dynamodb.v20120810."
_GENERIC_CAST = (
    "class sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl cannot be cast to class "
    "java.lang.Class (sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl and java.lang.Class are "
    "in module java.base of loader 'bootstrap')"
)


class List(Shape):
    """A list of `of`, of `minimum` to `maximum` elements."""

    def __init__(self, of: Shape, minimum: int = 0, maximum: int | None = None, *, newer: bool = False) -> None:
        self.of, self.minimum, self.maximum, self.newer = of, minimum, maximum, newer
        self.java = f"java.util.List<{_java_name(of)}>"

    def acceptor(self) -> Acceptor:
        low, high, of = self.minimum, 1 << 62 if self.maximum is None else self.maximum, self.of.acceptor()

        def accepts(value: Any) -> bool:
            if type(value) is not list or not low <= len(value) <= high:
                return False
            return all(map(of, value))

        return accepts

    def convert(self, value: Any, *, element: bool) -> Any:
        if isinstance(value, list):
            of = self.of
            # A list that is far too long is refused for that: it is not built anew first.
            if self.maximum is not None and len(value) > CONVERTED_PAST_MAXIMUM + self.maximum:
                value = value[: CONVERTED_PAST_MAXIMUM + self.maximum]
            return [of.null() if one is None else of.convert(one, element=True) for one in value]
        raise SerializationException(STRUCTURE_FOUND if isinstance(value, dict) else _not_a_field(element))

    def inspect(self, value: Any, path: Path, faults: Faults) -> None:
        inspect_length(self, value, path, faults)
        for position, one in enumerate(value, 1):
            if faults.full:
                return
            _inspect_element(self.of, one, path.element(position), faults)

    def render(self, value: Any) -> str:
        return _cut("[", ("null" if one is None else self.of.render(one) for one in value), "]")


class Map(Shape):
    """A map of names to `of`; `names` and `values` constrain its keys and its lists' lengths.

    `late`: a wrong key is not told beside the faults of other members, unless the map has another fault itself.
    """

    def __init__(
        self,
        of: Shape,
        minimum: int = 0,
        *,
        names: Names | None = None,
        values: tuple[int, int] | None = None,
        late: bool = False,
    ) -> None:
        self.of, self.minimum, self.names, self.values, self.late = of, minimum, names, values, late
        self.java = f"java.util.Map<java.lang.String, {_java_name(of)}>"

    def acceptor(self) -> Acceptor:
        low, of = self.minimum, self.of.acceptor()
        names = self.names.accepts if self.names else None
        lengths = range(self.values[0], self.values[1] + 1) if self.values else None

        def accepts(value: Any) -> bool:
            if type(value) is not dict or len(value) < low:
                return False
            if names is not None and not all(map(names, value)):
                return False
            if not all(map(of, value.values())):
                return False
            return lengths is None or all(len(one) in lengths for one in value.values())

        return accepts

    def convert(self, value: Any, *, element: bool) -> Any:
        if isinstance(value, dict):
            of = self.of
            return {name: of.null() if one is None else of.convert(one, element=True) for name, one in value.items()}
        if isinstance(value, list):
            raise SerializationException(f"Unrecognized collection type {self.java}")
        raise SerializationException(_not_a_field(element))

    def inspect(self, value: Any, path: Path, faults: Faults) -> None:
        if len(value) < self.minimum:
            faults.add(self.render(value), path, at_least(self.minimum))
        if self.names is not None and not all(map(self.names.accepts, value)):
            constraint = f"Map keys must satisfy constraint: [{self.names.constraint}]"
            faults.add(self.render(value), path, constraint, late=self.late)
        if self.values is not None and not self._lengths_hold(value):
            low, high = self.values
            lengths = f"[Member must have length less than or equal to {high}, {at_least(low)}]"
            faults.add(self.render(value), path, f"Map value must satisfy constraint: {lengths}")
        for name, one in value.items():
            if faults.full:
                return
            _inspect_element(self.of, one, path.element(name), faults)

    def _lengths_hold(self, value: dict[str, Any]) -> bool:
        low, high = self.values or (0, 0)
        return all(one is None or low <= len(one) <= high for one in value.values())

    def render(self, value: Any) -> str:
        shown = (f"{name}={'null' if one is None else self.of.render(one)}" for name, one in value.items())
        return _cut("{", shown, "}")


class Names:
    """A constraint on a map's keys, and how its message puts it."""

    def __init__(self, minimum: int, maximum: int, pattern: str, *, accepted: str) -> None:
        self.constraint = (
            f"Member must have length less than or equal to {maximum}, {at_least(minimum)}, "
            f"Member must satisfy regular expression pattern: {pattern}"
        )
        matches = re.compile(accepted, re.ASCII).fullmatch
        self.accepts: Acceptor = lambda name: isinstance(name, str) and matches(name) is not None


class Required(NamedTuple):
    """A member that must not be null, except where one of `unless` is given."""

    shape: Shape
    unless: tuple[str, ...] = ()


class Structure(Shape):
    """Named members, inspected in the order in which they are written down here."""

    def __init__(self, name: str, **members: Shape | Required) -> None:
        self.name = name
        self.java = _MODEL + name
        self.members = {member: given if isinstance(given, Shape) else given.shape for member, given in members.items()}
        self.required = {member: given.unless for member, given in members.items() if isinstance(given, Required)}

    def acceptor(self) -> Acceptor:
        checks = {member: shape.acceptor() for member, shape in self.members.items()}.get
        always = tuple(member for member, unless in self.required.items() if not unless)
        sometimes = tuple((member, unless) for member, unless in self.required.items() if unless)

        def accepts(value: Any) -> bool:
            if type(value) is not dict:
                return False
            for member in always:
                if member not in value:
                    return False
            for member, given in value.items():
                check = checks(member)
                if check is is_string:  # without a call: half of all members are texts
                    if type(given) is not str:
                        return False
                elif check is None or not check(given):  # what is not known is dropped by `convert`
                    return False
            if sometimes:
                return all(m in value or not value.keys().isdisjoint(unless) for m, unless in sometimes)
            return True

        return accepts

    def convert(self, value: Any, *, element: bool) -> Any:
        if isinstance(value, list):
            raise SerializationException(f"Unrecognized collection type class {self.java}")
        if not isinstance(value, dict):
            raise SerializationException("Unexpected value type in payload" if element else _not_a_field(False))
        known = self.members
        return {
            member: known[member].convert(given, element=False)
            for member, given in value.items()
            if given is not None and member in known
        }

    def inspect(self, value: Any, path: Path, faults: Faults) -> None:
        for member, shape in self.members.items():
            if faults.full:
                return
            given = value.get(member)
            if given is not None:
                shape.inspect(given, path.member(member), faults)
            elif member in self.required and not any(one in value for one in self.required[member]):
                faults.add(None, path.member(member), "Member must not be null")

    def render(self, value: Any) -> str:
        shown = (
            f"{member[:1].lower()}{member[1:]}={shape.render(value[member]) if member in value else 'null'}"
            for member, shape in self.members.items()
        )
        return _cut(f"{self.name}(", shown, ")")


class Request:
    """One operation's request: its structure, and what DynamoDB looks at before the constraints.

    `layer` raises the faults of the operations that word them in a way of their own.
    """

    def __init__(
        self,
        structure: Structure,
        first: Callable[[dict[str, Any]], None] | None = None,
        layer: Callable[[dict[str, Any], Faults], None] | None = None,
    ) -> None:
        self.structure = structure
        self._accepts = structure.acceptor()
        self._first = first
        self._layer = layer

    def check(self, request: Any) -> dict[str, Any]:
        """The request: as it is where it was right, converted where DynamoDB would convert it."""
        if self._accepts(request):
            return request  # type: ignore[no-any-return]
        return self.look_closely(request)

    def look_closely(self, request: Any) -> dict[str, Any]:
        """The same for a request with which something may be wrong: converted, or refused in DynamoDB's words."""
        if not isinstance(request, dict):
            raise SerializationException()
        converted: dict[str, Any] = self.structure.convert(request, element=False)
        if self._first is not None:
            self._first(converted)
        faults = Faults()
        self.structure.inspect(converted, Path(), faults)
        if self._layer is not None and faults.listed:
            self._layer(converted, faults)
        faults.raise_any()
        return converted


def _not_a_field(element: bool) -> str:
    return _GENERIC_CAST if element else "Unexpected field type"


def _java_name(shape: Shape) -> str:
    return f"java.lang.{shape.java}" if isinstance(shape, Scalar) else shape.java


def _inspect_element(of: Shape, value: Any, path: Path, faults: Faults) -> None:
    if value is None:
        faults.add(None, path, "Member must not be null")
    else:
        of.inspect(value, path, faults)


def _cut(opening: str, parts: Iterator[str], closing: str) -> str:
    """The parts joined, the first 64 KB of them."""
    shown: list[str] = []
    length = 0
    for part in parts:
        shown.append(part)
        length += len(part)
        if length > ECHOED_CHARACTERS:
            break
    return f"{opening}{', '.join(shown)}{closing}"
