"""An annotation's values, in Python and on the wire. Made once for each class; no call looks at an annotation again.

1. The annotation decides what is stored and what comes back; a value of another type is refused, with its path.
2. The members of a union are told apart by their type on the wire; several classes by a `Literal` attribute of theirs.
3. A moment with a time zone is stored in UTC with six digits of a second, so that texts sort as times do. Any ISO 8601
   text is read.
"""

from __future__ import annotations

import types
from binascii import a2b_base64, b2a_base64
from collections import abc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from operator import itemgetter
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin
from uuid import UUID

import orjson

from penstock.client.items import values as plain
from penstock.client.items.values import Refused, decode
from penstock.client.models.attributes import Attr, AttrOptions
from penstock.errors import PenstockError
from penstock.wire.values import AttributeValue

Write = Callable[[Any], AttributeValue]
Read = Callable[[AttributeValue], Any]

WRONG: Final = (KeyError, ValueError, TypeError, InvalidOperation, OverflowError, AttributeError)
"""What reading a value of another type ends with; who reads an item says which attribute it was."""


class BadModel(PenstockError, TypeError):
    """A class that cannot be stored as items: it says which, why, and what to write."""


@dataclass(slots=True)
class Converter:
    """How values of one annotation are written and read. `write` raises Refused, `read` one of WRONG or Refused."""

    name: str
    write: Write
    read: Read
    tags: tuple[str, ...]
    """The types that it has on the wire."""
    kinds: tuple[type, ...]
    """The types that it has in Python."""
    member: Converter | None = None
    """Of a list, a set or a map."""
    members: dict[str, Converter] = field(default_factory=dict)
    """Of a class, by attribute."""
    literals: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """The attributes of a class that have only these values."""
    takes_none: bool = False
    inline: str = ""
    """The type on the wire of a str, int or bool, which need no call (plain_classes.py)."""

    def at(self, path: Iterable[str | int]) -> Converter | None:
        """The converter of what lies below; None where the annotations do not tell."""
        found: Converter | None = self
        for step in path:
            if found is None:
                return None
            found = found.members.get(step, found.member) if isinstance(step, str) else found.member
        return found


def wrong_kind(value: object, wanted: str) -> Refused:
    return Refused(f"a {type(value).__name__}, where {wanted} is annotated")


def _leaf(kind: type, tag: str, write: Callable[[Any], AttributeValue], read: Read, *also: type) -> Converter:
    def checked(value: Any) -> AttributeValue:
        if type(value) is not kind and (isinstance(value, bool) or not isinstance(value, (kind, *also))):
            raise wrong_kind(value, kind.__name__)
        return write(value)

    return Converter(kind.__name__, checked, read, (tag,), (kind, *also))


def _write_bool(value: Any) -> AttributeValue:
    if type(value) is not bool:
        raise wrong_kind(value, "bool")
    return {"BOOL": value}


def _write_number(value: Any) -> AttributeValue:
    return plain._encode(value, 0)


def _read_seconds(value: AttributeValue) -> timedelta:
    seconds = Decimal(value["N"])
    whole = int(seconds)
    return timedelta(seconds=whole, microseconds=int((seconds - whole) * 1_000_000))


def _seconds(value: timedelta) -> AttributeValue:
    return _write_number(Decimal(value // timedelta(microseconds=1)).scaleb(-6).normalize() + 0)


def _write_moment(value: datetime) -> AttributeValue:
    at = value if value.tzinfo is None else value.astimezone(UTC)
    return {"S": at.isoformat(timespec="microseconds")}


def _write_date(value: Any) -> AttributeValue:
    if type(value) is not date:
        raise wrong_kind(value, "date")
    return {"S": value.isoformat()}


_LEAVES: Final[dict[Any, Converter]] = {
    str: _leaf(str, "S", lambda value: {"S": str.__str__(value)}, itemgetter("S")),
    int: _leaf(int, "N", _write_number, lambda value: int(value["N"])),
    float: _leaf(float, "N", _write_number, lambda value: float(value["N"]), int),
    Decimal: _leaf(Decimal, "N", _write_number, lambda value: Decimal(value["N"]), int),
    bool: Converter("bool", _write_bool, itemgetter("BOOL"), ("BOOL",), (bool,)),
    bytes: _leaf(bytes, "B", lambda value: plain._bytes(value, 0), lambda value: a2b_base64(value["B"]), bytearray),
    datetime: _leaf(datetime, "S", _write_moment, lambda value: datetime.fromisoformat(value["S"])),
    date: Converter("date", _write_date, lambda value: date.fromisoformat(value["S"]), ("S",), (date,)),
    time: _leaf(time, "S", lambda value: {"S": value.isoformat()}, lambda value: time.fromisoformat(value["S"])),
    timedelta: _leaf(timedelta, "N", _seconds, _read_seconds),
    UUID: _leaf(UUID, "S", lambda value: {"S": str(value)}, lambda value: UUID(value["S"])),
    type(None): Converter("None", lambda value: {"NULL": True}, lambda value: None, ("NULL",), (type(None),)),
}

ANY: Final = Converter(
    "Any",
    lambda value: plain._encode(value, 1),
    decode,
    ("S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS", "L", "M"),
    (object,),
)

# ── formats ──────────────────────────────────────────────────────────────────────────────────────


def _epoch(units: int) -> Converter:
    def write(value: datetime) -> AttributeValue:
        if value.tzinfo is None:
            raise Refused("a datetime without a time zone, which has no place in time; give it one, such as UTC")
        return {"N": str((value - _EPOCH) // (timedelta(seconds=1) / units))}

    def read(value: AttributeValue) -> datetime:
        number = Decimal(value["N"])
        return _EPOCH + timedelta(microseconds=int(number * 1_000_000 / units))

    return _leaf(datetime, "N", write, read)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _strftime(kind: type, text: str) -> Converter:
    def write(value: Any) -> AttributeValue:
        at = value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is not None else value
        return {"S": at.strftime(text)}

    def read(value: AttributeValue) -> Any:
        at = datetime.strptime(value["S"], text)
        return at if kind is datetime else at.date()

    return _leaf(kind, "S", write, read)


def _json(inner: Converter) -> Converter:
    """A JSON text, as PynamoDB's JSONAttribute has it."""

    def write(value: Any) -> AttributeValue:
        try:
            return {"S": orjson.dumps(value).decode()}
        except TypeError as error:
            raise Refused(f"JSON has no text for it: {error}") from None

    return Converter(inner.name, write, lambda value: orjson.loads(value["S"]), ("S",), inner.kinds)


def _base64(inner: Converter) -> Converter:
    """Bytes as base64 in a B, as PynamoDB's legacy encoding has them."""

    def write(value: Any) -> AttributeValue:
        inner.write(value)
        return plain._bytes(b2a_base64(value, newline=False), 0)

    return Converter("bytes", write, lambda value: a2b_base64(a2b_base64(value["B"])), ("B",), inner.kinds)


def _formatted(annotation: Any, options: AttrOptions, builder: Builder) -> Converter:
    text = options.format or "epoch"
    if text == "json":
        return _json(builder.converter(annotation))
    if text == "base64" and annotation is bytes:
        return _base64(_LEAVES[bytes])
    if text in ("epoch", "epoch_ms") and annotation is datetime:
        return _epoch(1 if text == "epoch" else 1000)
    if "%" in text and annotation in (datetime, date):
        return _strftime(annotation, text)
    if text == "epoch" and annotation in (int, float, Decimal):
        return builder.converter(annotation)
    raise BadModel(
        f"format={text!r} is none that {getattr(annotation, '__name__', annotation)} has: a datetime has 'epoch', "
        "'epoch_ms' and texts for strftime, bytes have 'base64', and everything has 'json'."
    )


# ── containers ───────────────────────────────────────────────────────────────────────────────────


def _list(member: Converter, make: Callable[[Iterable[Any]], Any], kinds: tuple[type, ...]) -> Converter:
    write_one, read_one = member.write, member.read

    def write(value: Any) -> AttributeValue:
        if not isinstance(value, kinds):
            raise wrong_kind(value, f"a {kinds[0].__name__}")
        elements: Any = value
        found: list[AttributeValue] = []
        try:
            for element in elements:
                found.append(write_one(element))
        except Refused as refused:
            refused.steps.append(len(found))
            raise
        return {"L": found}

    return Converter(
        f"{kinds[0].__name__}[{member.name}]",
        write,
        lambda value: make([read_one(one) for one in value["L"]]),
        ("L",),
        kinds,
        member,
    )


def _set(member: Converter, make: type) -> Converter:
    tag = member.tags[0]
    if len(member.tags) != 1 or tag not in ("S", "N", "B"):
        raise BadModel(f"A set in DynamoDB has texts, numbers or bytes, not {member.name}: use a list.")
    write_one, read_one = member.write, member.read

    def write(value: Any) -> AttributeValue:
        if not isinstance(value, set | frozenset):
            raise wrong_kind(value, f"a {make.__name__}")
        if not value:
            raise Refused("a set must not be empty in DynamoDB")
        return {f"{tag}S": sorted({write_one(one)[tag] for one in value})}

    def read(value: AttributeValue) -> Any:
        return make([read_one({tag: one}) for one in value[f"{tag}S"]])

    return Converter(f"{make.__name__}[{member.name}]", write, read, (f"{tag}S",), (set, frozenset), member)


def _map(member: Converter) -> Converter:
    write_one, read_one = member.write, member.read

    def write(value: Any) -> AttributeValue:
        if not isinstance(value, abc.Mapping):
            raise wrong_kind(value, "a dict")
        found: dict[str, AttributeValue] = {}
        for name, one in value.items():
            if type(name) is not str:
                raise Refused(f"a name is a str, not {type(name).__name__}")
            try:
                found[name] = write_one(one)
            except Refused as refused:
                refused.steps.append(name)
                raise
        return {"M": found}

    return Converter(
        f"dict[str, {member.name}]",
        write,
        lambda value: {name: read_one(one) for name, one in value["M"].items()},
        ("M",),
        (dict,),
        member,
    )


def _enum(kind: type[Enum]) -> Converter:
    """By value; by name where a value is neither a text nor an integer."""
    values = [member.value for member in kind]
    if all(type(value) is str for value in values):
        return Converter(
            kind.__name__,
            _member_of(kind, lambda one: {"S": one.value}),
            lambda value: kind(value["S"]),
            ("S",),
            (kind,),
        )
    if all(type(value) is int for value in values):
        write = _member_of(kind, lambda one: {"N": str(one.value)})
        return Converter(kind.__name__, write, lambda value: kind(int(value["N"])), ("N",), (kind,))
    return Converter(
        kind.__name__, _member_of(kind, lambda one: {"S": one.name}), lambda value: kind[value["S"]], ("S",), (kind,)
    )


def _member_of(kind: type[Enum], write: Callable[[Enum], AttributeValue]) -> Write:
    def checked(value: Any) -> AttributeValue:
        if not isinstance(value, kind):
            raise wrong_kind(value, kind.__name__)
        return write(value)

    return checked


def _literal(allowed: tuple[Any, ...]) -> Converter:
    inner = _union([_LEAVES[kind] for kind in dict.fromkeys(map(type, allowed))])

    def write(value: Any) -> AttributeValue:
        if not any(type(value) is type(one) and value == one for one in allowed):
            raise Refused(f"{value!r:.50} is none of {', '.join(map(repr, allowed))}")
        return inner.write(value)

    def read(value: AttributeValue) -> Any:
        found = inner.read(value)
        if found not in allowed:
            raise ValueError(found)
        return found

    return Converter("Literal", write, read, inner.tags, inner.kinds, takes_none=inner.takes_none)


def _optional(inner: Converter) -> Converter:
    write, read = inner.write, inner.read
    return Converter(
        f"{inner.name} | None",
        lambda value: {"NULL": True} if value is None else write(value),
        lambda value: None if "NULL" in value else read(value),
        (*inner.tags, "NULL"),
        (*inner.kinds, type(None)),
        inner.member,
        inner.members,
        inner.literals,
        takes_none=True,
        inline=inner.inline,
    )


for _kind, _tag in ((str, "S"), (int, "N"), (bool, "BOOL")):
    _LEAVES[_kind].inline = _tag


def _union(members: list[Converter]) -> Converter:
    """By the type on the wire, and several classes by a Literal (2)."""
    some = [one for one in members if one.kinds != (type(None),)]
    if not some:
        return _LEAVES[type(None)]
    found = some[0] if len(some) == 1 else _choice(some)
    return found if len(some) == len(members) else _optional(found)


def _choice(members: list[Converter]) -> Converter:
    name = " | ".join(one.name for one in members)
    by_tag: dict[str, list[Converter]] = {}
    for one in members:
        for tag in one.tags:
            by_tag.setdefault(tag, []).append(one)
    readers = {tag: those[0].read if len(those) == 1 else _by_literal(those, name) for tag, those in by_tag.items()}

    def write(value: Any) -> AttributeValue:
        kind = type(value)
        for exact in (True, False):
            for one in members:
                if kind in one.kinds if exact else isinstance(value, one.kinds) and kind is not bool:
                    return one.write(value)
        raise wrong_kind(value, name)

    def read(value: AttributeValue) -> Any:
        ((tag, _),) = value.items()
        return readers[tag](value)

    kinds = tuple(kind for one in members for kind in one.kinds)
    return Converter(name, write, read, tuple(by_tag), kinds)


def _by_literal(members: list[Converter], name: str) -> Read:
    shared = [one for one in members[0].literals if all(one in other.literals for other in members)]
    for attribute in shared:
        chosen = {value: one for one in members for value in one.literals[attribute]}
        if len(chosen) == sum(len(one.literals[attribute]) for one in members):

            def read(value: AttributeValue, attribute: str = attribute, chosen: dict[Any, Converter] = chosen) -> Any:
                return chosen[decode(value["M"][attribute])].read(value)

            return read
    raise BadModel(
        f"Nothing stored tells the types of {name} apart: give each class an attribute such as "
        'kind: Literal["card"], with a value of its own.'
    )


# ── annotations ──────────────────────────────────────────────────────────────────────────────────


class Builder:
    """Makes converters. `of_class` is how a class with attributes of its own is stored (records.py)."""

    def __init__(self, of_class: Callable[[type], Converter | None]) -> None:
        self._of_class = of_class

    def attribute(self, annotation: Any, options: AttrOptions) -> Converter:
        """The converter of an attribute: its format may be another than its type's."""
        if options.format is None and not options.ttl:
            return self.converter(annotation)
        members = _members_of(annotation)
        some = [one for one in members if one is not types.NoneType]
        if options.format == "json":
            found = _formatted(annotation if len(some) > 1 else some[0], options, self)
        elif len(some) == 1:
            found = _formatted(some[0], options, self)
        else:
            raise BadModel(f"format is for one type, not for {annotation}.")
        return _optional(found) if len(some) < len(members) else found

    def converter(self, annotation: Any) -> Converter:
        """The converter of an annotation. Raises BadModel for what DynamoDB cannot have."""
        annotation = unwrapped(annotation)
        if annotation in (Any, object):
            return ANY
        if annotation is None:
            return _LEAVES[type(None)]
        try:
            leaf = _LEAVES.get(annotation)
        except TypeError:
            leaf = None
        if leaf is not None:
            return leaf
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin in (Union, types.UnionType):
            return _union([self.converter(one) for one in arguments])
        if origin is Literal:
            return _literal(arguments)
        return self._class(origin or annotation, arguments, annotation)

    def _class(self, kind: Any, arguments: tuple[Any, ...], annotation: Any) -> Converter:
        if kind in (list, abc.Sequence, abc.MutableSequence):
            return _list(self._only(arguments), list, (list, tuple))
        if kind is tuple and (not arguments or arguments[-1] is Ellipsis):
            return _list(self._only(arguments), tuple, (tuple, list))
        if kind in (set, frozenset, abc.Set, abc.MutableSet):
            if not arguments:
                return Converter("set", ANY.write, ANY.read, ("SS", "NS", "BS"), (set, frozenset), ANY)
            return _set(self._only(arguments), frozenset if kind is frozenset else set)
        if kind in (dict, abc.Mapping, abc.MutableMapping):
            if arguments and unwrapped(arguments[0]) is not str:
                raise BadModel(f"The names of a map are texts in DynamoDB: {annotation} has other keys.")
            return _map(self.converter(arguments[1]) if arguments else ANY)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return _enum(kind)
        made = self._of_class(kind) if isinstance(kind, type) else None
        if made is not None:
            return made
        for base in (str, int, float, bytes):  # EmailStr and its like
            if isinstance(kind, type) and issubclass(kind, base):
                return _subclass(kind, _LEAVES[base])
        raise BadModel(
            f"Items cannot have a {getattr(kind, '__name__', kind)}: annotate what DynamoDB has, a date, a UUID, an "
            "Enum, a dataclass or a pydantic model, or give it attr(format='json')."
        )

    def _only(self, arguments: tuple[Any, ...]) -> Converter:
        return self.converter(arguments[0]) if arguments else ANY


def _subclass(kind: Any, base: Converter) -> Converter:
    return Converter(kind.__name__, base.write, lambda value: kind(base.read(value)), base.tags, base.kinds)


def unwrapped(annotation: Any) -> Any:
    """Without Annotated, Attr, NewType and names of types."""
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation = annotation.__origin__
        elif origin is Attr:
            annotation = get_args(annotation)[0]
        elif hasattr(annotation, "__supertype__"):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        elif isinstance(annotation, TypeVar):
            annotation = annotation.__bound__ or Any
        else:
            return annotation


def _members_of(annotation: Any) -> tuple[Any, ...]:
    annotation = unwrapped(annotation)
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
