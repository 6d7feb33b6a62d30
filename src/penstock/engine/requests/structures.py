"""Lists, maps and structures of shapes, and a whole request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from penstock.engine.requests.shapes import (
    STRUCTURE_FOUND,
    Acceptor,
    Faults,
    Path,
    Scalar,
    Shape,
    at_least,
    inspect_length,
    is_string,
)
from penstock.errors import SerializationException
from penstock.wire.limits import ECHOED_CHARACTERS

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
