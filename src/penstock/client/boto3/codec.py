"""Between boto3's Python values and DynamoDB's JSON, compiled once for each shape of botocore's model.

boto3 gives and takes bytes and datetimes where the wire has base64 text and epoch seconds. botocore walks its
model on each call; here each shape becomes one closure.

1. An encoder vouches: what it returns is what botocore would send, and botocore's validator finds no fault.
2. What an encoder cannot vouch for it refuses with `Unsure`, and the caller lets botocore itself decide.
3. Nothing given is changed: where a value differs on the other side, a new container holds it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

from botocore.utils import parse_timestamp

Convert = Callable[[Any], Any]
Shape = Any  # a botocore.model.Shape; which of its classes is told by its type_name

# What every JSON library carries; a larger one goes botocore's way.
_INTEGER_MIN, _INTEGER_MAX = -(2**63), 2**63 - 1


class Unsure(LookupError):
    """Not plainly valid: botocore's own validator and serialiser must look at it.

    A LookupError, because a name that the model lacks shows itself as a KeyError, and means the same.
    """


# ── attribute values, the hot shape ──────────────────────────────────────────────────────────────


def _encode_bytes(value: Any) -> str:
    if type(value) is not bytes and type(value) is not bytearray:
        raise Unsure
    return b64encode(value).decode("ascii")


def _encode_texts(values: Any) -> Any:
    if type(values) is not list:
        raise Unsure
    for value in values:
        if type(value) is not str:
            raise Unsure
    return values


def _encode_blobs(values: Any) -> Any:
    if type(values) is not list:
        raise Unsure
    return [_encode_bytes(value) for value in values]


def _encode_flag(value: Any) -> Any:
    if type(value) is not bool:
        raise Unsure
    return value


def _encode_list(values: Any) -> Any:
    if type(values) is not list:
        raise Unsure
    return [encode_value(value) for value in values]


def _encode_map(values: Any) -> Any:
    if type(values) is not dict:
        raise Unsure
    return {_text(name): encode_value(value) for name, value in values.items()}


def _text(value: Any) -> Any:
    if type(value) is not str:
        raise Unsure
    return value


_ENCODERS: dict[str, Convert] = {
    "S": _text,
    "N": _text,
    "B": _encode_bytes,
    "SS": _encode_texts,
    "NS": _encode_texts,
    "BS": _encode_blobs,
    "L": _encode_list,
    "M": _encode_map,
    "NULL": _encode_flag,
    "BOOL": _encode_flag,
}


def encode_value(value: Any) -> Any:
    """An attribute value as DynamoDB's JSON has it."""
    if type(value) is not dict or len(value) != 1:
        raise Unsure
    ((kind, content),) = value.items()
    if type(content) is str and (kind == "S" or kind == "N"):
        return value
    return {kind: _ENCODERS[kind](content)}


_DECODERS: dict[str, Convert] = {
    "B": b64decode,
    "BS": lambda values: [b64decode(value) for value in values],
    "L": lambda values: [decode_value(value) for value in values],
    "M": lambda values: {name: decode_value(value) for name, value in values.items()},
}


def decode_value(value: Any) -> Any:
    """An attribute value as boto3 gives it."""
    for kind, content in value.items():
        decode = _DECODERS.get(kind)
        return value if decode is None else {kind: decode(content)}
    return value


# ── every other shape ────────────────────────────────────────────────────────────────────────────


class Encoders:
    """Request shapes to closures; a shape is compiled once, a recursive one is met again by its name."""

    def __init__(self) -> None:
        self._made: dict[str, Convert] = {"AttributeValue": encode_value}

    def of(self, shape: Shape) -> Convert:
        if shape.name not in self._made:
            self._made[shape.name] = lambda value: self._made[shape.name](value)  # while it is being compiled
            self._made[shape.name] = self._compile(shape)
        return self._made[shape.name]

    def _compile(self, shape: Shape) -> Convert:
        least = shape.metadata.get("min", 0)
        match shape.type_name:
            case "structure":
                return self._structure(shape)
            case "map":
                return self._map(shape)
            case "list":
                return self._list(shape, least)
            case "string":
                return _sized_text(least)
            case "integer" | "long":
                return _integer(shape.metadata.get("min"))
            case "boolean":
                return _encode_flag
            case "blob":
                return _encode_bytes
        return _unsure

    def _structure(self, shape: Shape) -> Convert:
        if shape.is_document_type or shape.is_tagged_union:
            return _unsure
        members = {name: self.of(member) for name, member in shape.members.items()}
        required = frozenset(shape.metadata.get("required", ()))

        def structure(value: Any) -> Any:
            if type(value) is not dict or not required <= value.keys():
                raise Unsure
            return {name: members[name](member) for name, member in value.items()}

        return structure

    def _map(self, shape: Shape) -> Convert:
        encode_key, encode_member = self.of(shape.key), self.of(shape.value)

        def mapping(value: Any) -> Any:
            if type(value) is not dict:
                raise Unsure
            return {encode_key(name): encode_member(member) for name, member in value.items()}

        return mapping

    def _list(self, shape: Shape, least: int) -> Convert:
        encode_member = self.of(shape.member)

        def listing(value: Any) -> Any:
            if type(value) is not list or len(value) < least:
                raise Unsure
            return [encode_member(member) for member in value]

        return listing


def _unsure(value: Any) -> Any:
    raise Unsure


def _sized_text(least: int) -> Convert:
    def sized(value: Any) -> Any:
        if type(value) is not str or len(value) < least:
            raise Unsure
        return value

    return sized if least else _text


def _integer(least: int | None) -> Convert:
    lowest = _INTEGER_MIN if least is None else least

    def integer(value: Any) -> Any:
        if type(value) is not int or not lowest <= value <= _INTEGER_MAX:
            raise Unsure
        return value

    return integer


class Decoders:
    """Answer shapes to closures, or to None where the wire's value is already boto3's."""

    def __init__(self) -> None:
        self._made: dict[str, Convert | None] = {"AttributeValue": decode_value}

    def of(self, shape: Shape | None) -> Convert | None:
        if shape is None:  # TagResource and its like answer with nothing
            return None
        if shape.name not in self._made:
            # Only AttributeValue is recursive in these models, and it stands here from the start.
            self._made[shape.name] = self._compile(shape)
        return self._made[shape.name]

    def _compile(self, shape: Shape) -> Convert | None:
        match shape.type_name:
            case "structure":
                return self._structure(shape)
            case "map":
                return self._map(shape)
            case "list":
                return self._list(shape)
            case "blob":
                return b64decode
            case "timestamp":
                return parse_timestamp
        return None

    def _structure(self, shape: Shape) -> Convert | None:
        every = ((name, self.of(member)) for name, member in shape.members.items())
        members = [(name, decode) for name, decode in every if decode is not None]

        def structure(value: Any) -> Any:
            parsed = dict(value)
            for name, decode in members:
                if name in parsed:
                    parsed[name] = decode(parsed[name])
            return parsed

        return structure if members else None

    def _map(self, shape: Shape) -> Convert | None:
        decode = self.of(shape.value)
        if decode is None:
            return None
        return lambda value: {name: decode(member) for name, member in value.items()}

    def _list(self, shape: Shape) -> Convert | None:
        decode = self.of(shape.member)
        if decode is None:
            return None
        return lambda value: [decode(member) for member in value]
