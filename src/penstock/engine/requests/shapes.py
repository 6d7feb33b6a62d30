"""The vocabulary in which requests are written down: what JSON a member takes, and its constraints.

A request is checked twice, at different prices.

1. `accepts` is compiled once into closures and runs on every request: a few dictionary lookups and type
   checks. What it accepts is used exactly as it came.
2. Only what it does not accept is looked at again. `convert` refuses JSON of the wrong type in DynamoDB's
   words (SerializationException), drops nulls and unknown members, and converts what DynamoDB converts
   ("true" to true, 2.5 to 2). `inspect` then lists the broken constraints (ValidationException), ten at most.

The texts name DynamoDB's own Java classes, because its answers do.

The one recursive shape is the attribute value: {"S": "text"}, {"M": {…}}, … Of values only the JSON types are looked
at, because DynamoDB looks at them before anything else. Content (numbers, empty sets, two types at once, nesting) is
`wire.values`' to refuse, at the point where DynamoDB does. Values nested deeper than DynamoDB allows are not walked to
their end: `wire.values` refuses them before it looks at what is inside, so nothing there can matter, and no stack can
overflow.
"""

from __future__ import annotations

import math
import re
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from penstock.engine.requests.error_wording import Faults, Path
from penstock.errors import SerializationException, ValidationException
from penstock.wire.limits import ECHOED_CHARACTERS, NESTING

Acceptor = Callable[[Any], bool]

FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799  # of the years that a date can have

STRUCTURE_FOUND = "Start of structure or map found where not expected"

CONVERTED_PAST_MAXIMUM = 1000  # elements of a list that is too long: more than a message shows

_MODEL = "com.amazonaws.dynamodb.v20120810."
_GENERIC_CAST = (
    "class sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl cannot be cast to class "
    "java.lang.Class (sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl and java.lang.Class are "
    "in module java.base of loader 'bootstrap')"
)


# ── scalars ───────────────────────────────────────────────────────────────────────────────────────


class Shape:
    """What one member may hold. Values given to `inspect` and `render` have been converted."""

    java: str = ""
    minimum: int = 0
    """Of its length, as the maximum is; `newer` as in `Faults.add`."""
    maximum: int | None = None
    newer: bool = False

    def acceptor(self) -> Acceptor:
        raise NotImplementedError

    def convert(self, value: Any, *, element: bool) -> Any:
        """`value`, not null, as DynamoDB reads it. `element`: of a list or map, not a structure's member."""
        raise NotImplementedError

    def inspect(self, value: Any, path: Path, faults: Faults) -> None:
        """Add the constraints that `value` breaks."""

    def inspect_length(self, value: Any, path: Path, faults: Faults) -> None:
        """Add what the value's length breaks."""
        if len(value) < self.minimum:
            faults.add(self.render(value), path, at_least(self.minimum), newer=self.newer)
        if self.maximum is not None and len(value) > self.maximum:
            constraint = f"Member must have length less than or equal to {self.maximum}"
            faults.add(self.render(value), path, constraint, newer=self.newer)

    def render(self, value: Any) -> str:
        """`value` as Java prints it."""
        return str(value)

    def null(self) -> Any:
        """What a null element of a list or map is taken for."""
        return None


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
        self.inspect_length(value, path, faults)


class Enum(String):
    """One of some words, listed in the order in which DynamoDB's message lists them."""

    def __init__(self, *words: str) -> None:
        super().__init__()
        self.words = words

    def acceptor(self) -> Acceptor:
        words = frozenset(self.words)
        return lambda value: type(value) is str and value in words

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
        self.least, self.greatest, self.newer = minimum, maximum, newer
        self.java = "Long" if long else "Integer"

    def acceptor(self) -> Acceptor:
        low = -(1 << 63) if self.least is None else self.least
        high = (1 << 63) - 1 if self.greatest is None else self.greatest
        return lambda value: type(value) is int and low <= value <= high

    def convert(self, value: Any, *, element: bool) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.refuse(value)
        if isinstance(value, float) and not math.isfinite(value):
            raise self.refuse(value)
        return max(-(1 << 63), min(math.floor(value), (1 << 63) - 1))

    def inspect(self, value: Any, path: Path, faults: Faults) -> None:
        if self.least is not None and value < self.least:
            constraint = f"Member must have value greater than or equal to {self.least}"
            faults.add(str(value), path, constraint, newer=self.newer)
        if self.greatest is not None and value > self.greatest:
            constraint = f"Member must have value less than or equal to {self.greatest}"
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


# ── lists, maps and structures ────────────────────────────────────────────────────────────────────


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
        self.inspect_length(value, path, faults)
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
        members = (f"{name}={'null' if one is None else self.of.render(one)}" for name, one in value.items())
        return _cut("{", members, "}")


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
        members = (
            f"{member[:1].lower()}{member[1:]}={shape.render(value[member]) if member in value else 'null'}"
            for member, shape in self.members.items()
        )
        return _cut(f"{self.name}(", members, ")")


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
    first_parts: list[str] = []
    length = 0
    for part in parts:
        first_parts.append(part)
        length += len(part)
        if length > ECHOED_CHARACTERS:
            break
    return f"{opening}{', '.join(first_parts)}{closing}"


# ── attribute values ──────────────────────────────────────────────────────────────────────────────


_WALKED = NESTING + 2
_STRING = String()
_BOOLEAN = Boolean()


def _accepts_values(values: Iterable[Any], depth: int = 0) -> bool:
    """Every value's JSON types are right, and it names only known types."""
    try:
        for value in values:
            if len(value) == 1:
                if "S" in value:
                    if type(value["S"]) is str:
                        continue
                elif "N" in value and type(value["N"]) is str:
                    continue
            for kind, data in value.items():
                accepts = _ACCEPTS.get(kind)
                if accepts is None or not accepts(data, depth):
                    return False
    except (AttributeError, TypeError):  # a value that is no dictionary
        return False
    return True


def _accepts_string(data: Any, depth: int) -> bool:
    return type(data) is str


def _accepts_boolean(data: Any, depth: int) -> bool:
    return type(data) is bool


def _accepts_strings(data: Any, depth: int) -> bool:
    if type(data) is not list:
        return False
    return all(type(one) is str for one in data)


def _accepts_binary(data: Any, depth: int) -> bool:
    return type(data) is str and _is_base64(data)


def _accepts_binaries(data: Any, depth: int) -> bool:
    return type(data) is list and all(type(one) is str and _is_base64(one) for one in data)


def _accepts_list(data: Any, depth: int) -> bool:
    return type(data) is list and (depth > _WALKED or _is_vector(data) or _accepts_values(data, depth + 1))


def _is_vector(data: list[Any]) -> bool:
    """Whether a list has nothing but numbers, which may be thousands: told in half the time."""
    try:
        return "N" in data[0] and bool("".join([one["N"] for one in data])) and sum(map(len, data)) == len(data)
    except (IndexError, KeyError, TypeError):
        return False


def _accepts_map(data: Any, depth: int) -> bool:
    return type(data) is dict and (depth > _WALKED or _accepts_values(data.values(), depth + 1))


_ACCEPTS: dict[str, Callable[[Any, int], bool]] = {
    "S": _accepts_string,
    "N": _accepts_string,
    "BOOL": _accepts_boolean,
    "NULL": _accepts_boolean,
    "B": _accepts_binary,
    "SS": _accepts_strings,
    "NS": _accepts_strings,
    "BS": _accepts_binaries,
    "L": _accepts_list,
    "M": _accepts_map,
}


def _is_base64(text: str) -> bool:
    """Well-formed, and as an encoder would have written it."""
    try:
        return b2a_base64(a2b_base64(text, strict_mode=True), newline=False) == text.encode("ascii")
    except (Base64Error, ValueError):
        return False


class Blob(Shape):
    """Bytes, as base64 text."""

    java = "java.nio.ByteBuffer"

    def acceptor(self) -> Acceptor:
        return lambda value: type(value) is str and _is_base64(value)

    def convert(self, value: Any, *, element: bool) -> Any:
        if isinstance(value, list):
            raise SerializationException(f"Unrecognized collection type class {self.java}")
        if isinstance(value, dict):
            raise SerializationException(STRUCTURE_FOUND)
        if not isinstance(value, str):
            raise SerializationException("only base-64-encoded strings are convertible to bytes")
        if len(value) % 4:
            length = f"Base64 encoded length is expected a multiple of 4 bytes but found: {len(value)}"
            raise SerializationException(length)
        if not _is_base64(value):
            raise SerializationException("Invalid last non-pad Base64 character dectected")
        return value


_BLOB = Blob()


class AttributeValue(Shape):
    """One value. Unknown types are dropped, which leaves it empty, which `wire.values` refuses."""

    java = "com.amazonaws.dynamodb.v20120810.AttributeValue"

    def acceptor(self) -> Acceptor:
        return lambda value: _accepts_values((value,))

    def convert(self, value: Any, *, element: bool) -> Any:
        return self._convert(value, element, 0)

    def null(self) -> Any:
        return {}

    def render(self, value: Any) -> str:
        return _render(value, 0)

    def _convert(self, value: Any, element: bool, depth: int) -> Any:
        if isinstance(value, list):
            raise SerializationException(f"Unrecognized collection type class {self.java}")
        if not isinstance(value, dict):
            raise SerializationException("Unexpected value type in payload" if element else "Unexpected field type")
        if depth > _WALKED:
            return value
        return {
            kind: self._convert_content(kind, data, depth)
            for kind, data in value.items()
            if data is not None and kind in _CONTENT
        }

    def _convert_content(self, kind: str, data: Any, depth: int) -> Any:
        if isinstance(data, list) and kind in ("SS", "NS", "BS") and None in data:
            raise ValidationException(
                "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
            )
        if kind == "L" and isinstance(data, list):
            return [{} if one is None else self._convert(one, True, depth + 1) for one in data]
        if kind == "M" and isinstance(data, dict):
            return {n: {} if one is None else self._convert(one, True, depth + 1) for n, one in data.items()}
        return _CONTENT[kind].convert(data, element=False)


class AttributeMap(Map):
    """A map of names to values: an item or a key. Faster to accept than a `Map` of `AttributeValue`."""

    def __init__(self) -> None:
        super().__init__(VALUE)

    def acceptor(self) -> Acceptor:
        return lambda value: type(value) is dict and _accepts_values(value.values())


class ItemToPut(AttributeMap):
    """An item that is measured later (`wire.values.check_item`): then it shows if a value's JSON type is wrong.

    So it is walked once. Who measures it and fails asks `requests.look_closely` what is wrong.
    """

    def acceptor(self) -> Acceptor:
        return lambda value: type(value) is dict


class AttributeList(List):
    """A list of values."""

    def __init__(self, minimum: int = 0, maximum: int | None = None) -> None:
        super().__init__(VALUE, minimum, maximum)

    def acceptor(self) -> Acceptor:
        low, high = self.minimum, 1 << 62 if self.maximum is None else self.maximum
        return lambda value: type(value) is list and low <= len(value) <= high and _accepts_values(value)


VALUE = AttributeValue()

_CONTENT: dict[str, Shape] = {
    "S": _STRING,
    "N": _STRING,
    "B": _BLOB,
    "BOOL": _BOOLEAN,
    "NULL": _BOOLEAN,
    "SS": List(_STRING),
    "NS": List(_STRING),
    "BS": List(_BLOB),
    "L": List(VALUE),
    "M": Map(VALUE),
}


def _render(value: dict[str, Any], depth: int) -> str:
    contents = "".join(f"{kind}: {_render_content(kind, data, depth)}," for kind, data in value.items())
    return f"{{{contents}}}"


def _render_content(kind: str, data: Any, depth: int) -> str:
    if depth > _WALKED:
        return "…"
    if kind == "L":
        return f"[{', '.join(_render(one, depth + 1) for one in data)}]"
    if kind == "M":
        return "{" + ", ".join(f"{name}={_render(one, depth + 1)}" for name, one in data.items()) + "}"
    return _CONTENT[kind].render(data) if kind in _CONTENT else "…"


# ── names and words of several families ───────────────────────────────────────────────────────────


NAME = "[a-zA-Z0-9_.-]+"
_NAME_OR_ARN = r"[a-zA-Z0-9_.-]{3,255}|arn:.{1,1020}"
_ARN_LENGTH = 1024


@lru_cache(maxsize=1024)
def _is_name_or_arn(text: str) -> bool:
    return re.fullmatch(_NAME_OR_ARN, text, re.ASCII) is not None


class TableName(String):
    """A table's name, or its ARN.

    `empty_alone` is PutItem's and UpdateItem's: they report an empty name by its length only.
    """

    def __init__(self, *, empty_alone: bool = False) -> None:
        super().__init__(3, 255, NAME)
        self._empty_alone = empty_alone

    def acceptor(self) -> Acceptor:
        return lambda value: type(value) is str and _is_name_or_arn(value)

    def inspect(self, value: Any, path: Path, faults: Faults) -> None:
        if value.startswith("arn:"):
            if len(value) > _ARN_LENGTH:
                faults.add(value, path, f"Member must have length less than or equal to {_ARN_LENGTH}")
        elif self._empty_alone and not value:
            faults.add(value, path, "Member must have length greater than or equal to 1")
        else:
            super().inspect(value, path, faults)


TABLE = TableName()
TABLE_NAMES = Names(3, 255, NAME, accepted=_NAME_OR_ARN)
INDEX_NAME = String(3, 255, NAME)
ARN_CHARACTERS = 1283
ARN = String(1, ARN_CHARACTERS)
TEXT = String()
FLAG = Boolean()
