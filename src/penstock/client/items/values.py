"""Between Python's values and DynamoDB's.

    str ↔ S    int, Decimal, float → N → int, Decimal    bytes ↔ B    bool ↔ BOOL    None ↔ NULL
    set, frozenset of one kind ↔ SS, NS, BS              list, tuple ↔ L             dict ↔ M

1. Numbers are exact, whatever the decimal context: int and Decimal digit by digit, a float as its shortest text (its
   repr). They come back as int where the text is an integer's, otherwise as Decimal; never as float.
2. What DynamoDB has no value for is refused before it is sent, with its path: `order.lines[3].price: …`.
3. Nothing given is changed or kept: what was encoded does not follow later changes.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

import orjson

from penstock.errors import PenstockError, ValidationException
from penstock.wire import numbers
from penstock.wire import values as wire
from penstock.wire.limits import ITEM_BYTES, NESTING, NUMBER_DIGITS
from penstock.wire.values import AttributeValue

Item = dict[str, Any]
"""An item in Python's values."""

Step = str | int

_PLAIN_INTEGER = 10**NUMBER_DIGITS  # below it an integer has 38 digits at most, and needs no further look
_HUGE_INTEGER = 10**126  # from here on out of DynamoDB's range; Python also refuses to write some out


class InvalidValue(PenstockError, ValueError):
    """A value that DynamoDB cannot hold: `path` says where it stands, `reason` why not."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason = reason
        self.path = path

    def __reduce__(self) -> tuple[type[InvalidValue], tuple[str, str]]:
        return type(self), (self.reason, self.path)


class Refused(Exception):
    """On its way up: each container that it passes adds the step that led to it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.steps: list[Step] = []

    def at(self, *above: Step) -> InvalidValue:
        return InvalidValue(self.reason, path_text((*above, *reversed(self.steps))))


def path_text(steps: Iterable[Step]) -> str:
    """A path as people write it: `order.lines[3].price`."""
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


# ── to the wire ──────────────────────────────────────────────────────────────────────────────────


def encode(value: Any, *path: Step) -> AttributeValue:
    """The attribute value of a Python value; `path` is where it stands, for the error."""
    try:
        return _encode(value, 0)
    except Refused as refused:
        raise refused.at(*path) from None


def encode_item(item: Mapping[str, Any]) -> wire.Item:
    """An item for the wire; refused if it is larger than 400 KB."""
    return encode_sized(item)[0]


def encode_sized(item: Mapping[str, Any]) -> tuple[wire.Item, int]:
    """An item for the wire, and how many bytes of JSON it makes."""
    encoded, data = encode_json(item)
    return encoded, len(data)


def encode_json(item: Mapping[str, Any]) -> tuple[wire.Item, bytes]:
    """An item for the wire, and its JSON; refused if it is larger than 400 KB."""
    if type(item) is not dict and not isinstance(item, Mapping):
        raise TypeError(f"an item is a dict, not {_kind(item)}")
    try:
        encoded: wire.Item = _members(item, 0)
    except Refused as refused:
        raise refused.at() from None
    try:
        data = orjson.dumps(encoded)
    except TypeError:  # the one thing left that JSON has no text for
        raise _surrogate(encoded) from None
    # The JSON is never shorter than what DynamoDB counts, so most items need no second look.
    if len(data) > ITEM_BYTES:
        _refuse_size(item, encoded)
    return encoded, data


def _encode(value: Any, depth: int) -> AttributeValue:
    return (_ENCODERS.get(type(value)) or _encoder_by_base(value))(value, depth)


def _members(value: Mapping[str, Any], depth: int) -> wire.Item:
    if depth >= NESTING:  # the item itself is the first level
        raise Refused(f"nested more than {NESTING} levels deep, DynamoDB's limit")
    members: wire.Item = {}
    name: Any = None
    try:
        for name, member in value.items():
            if type(name) is not str:
                raise Refused(f"a name is a str, not {_kind(name)}")
            kind = type(member)
            if kind is str:  # the most frequent kind, without a call
                members[name] = {"S": member}
            else:
                members[name] = (_ENCODERS.get(kind) or _encoder_by_base(member))(member, depth)
    except Refused as refused:
        refused.steps.append(name if isinstance(name, str) else repr(name))
        raise
    return members


def _map(value: Mapping[str, Any], depth: int) -> AttributeValue:
    return {"M": _members(value, depth + 1)}


def _list(value: Iterable[Any], depth: int) -> AttributeValue:
    if depth >= NESTING - 1:
        raise Refused(f"nested more than {NESTING} levels deep, DynamoDB's limit")
    elements: list[AttributeValue] = []
    try:
        for element in value:
            encoder = _ENCODERS.get(type(element)) or _encoder_by_base(element)
            elements.append(encoder(element, depth + 1))  # its length is the failed element's place
    except Refused as refused:
        refused.steps.append(len(elements))
        raise
    return {"L": elements}


def _string(value: str, depth: int) -> AttributeValue:
    return {"S": value}


def _integer(value: int, depth: int) -> AttributeValue:
    return {"N": _integer_text(value)}


def _integer_text(value: int) -> str:
    if -_PLAIN_INTEGER < value < _PLAIN_INTEGER:
        return int.__repr__(value)
    if not -_HUGE_INTEGER < value < _HUGE_INTEGER:
        raise Refused("an integer beyond ±9.99…E+125, the largest that DynamoDB has")
    return _checked_number(int.__repr__(value))


def _decimal(value: Decimal, depth: int) -> AttributeValue:
    return {"N": _decimal_text(value)}


def _decimal_text(value: Decimal) -> str:
    if not value.is_finite():
        raise Refused(f"{_non_finite(value)} is not a number DynamoDB has")
    text = str(value)
    return text if len(text) <= NUMBER_DIGITS and "E" not in text and "e" not in text else _checked_number(text)


def _float(value: float, depth: int) -> AttributeValue:
    return {"N": _float_text(value)}


def _float_text(value: float) -> str:
    text = float.__repr__(value)
    if "n" in text:  # nan, inf
        raise Refused(f"{_non_finite(value)} is not a number DynamoDB has")
    return _checked_number(text) if "e" in text else text


def _non_finite(value: Decimal | float) -> str:
    text = str(value).lower()
    return "NaN" if "nan" in text else "-Infinity" if text.startswith("-") else "Infinity"


def _checked_number(text: str) -> str:
    try:
        return numbers.normalise(text)
    except ValidationException as error:
        raise Refused(error.message) from None


def _bytes(value: bytes | bytearray | memoryview, depth: int) -> AttributeValue:
    return {"B": b2a_base64(value, newline=False).decode("ascii")}


def _bool(value: bool, depth: int) -> AttributeValue:
    return {"BOOL": value}


def _null(value: None, depth: int) -> AttributeValue:
    return {"NULL": True}


def _set(value: set[Any] | frozenset[Any], depth: int) -> AttributeValue:
    if not value:
        raise Refused("a set must not be empty in DynamoDB; leave the attribute out, or use a list")
    members = [_encode(member, depth) for member in value]
    kinds = {kind for member in members for kind in member}
    if len(kinds) > 1:
        raise Refused(f"a set holds one kind of value, not {' and '.join(sorted(map(_named, kinds)))} together")
    (kind,) = kinds
    if kind not in _SET_KINDS:
        raise Refused(f"a set holds strings, numbers or bytes, not {_named(kind)}")
    texts = [member[kind] for member in members]
    if kind == "N":
        # 0.1 and Decimal("0.1") are two members to Python and one number to DynamoDB.
        texts = list(set(map(_checked_number, texts)))
    texts.sort()  # the same request in every process, whatever its hash seed
    return {f"{kind}S": texts}


_SET_KINDS = ("S", "N", "B")

_Encoder = Callable[[Any, int], AttributeValue]

_ENCODERS: dict[type, _Encoder] = {
    str: _string,
    int: _integer,
    dict: _map,
    list: _list,
    bool: _bool,
    type(None): _null,
    Decimal: _decimal,
    float: _float,
    bytes: _bytes,
    bytearray: _bytes,
    memoryview: _bytes,
    tuple: _list,
    set: _set,
    frozenset: _set,
}

# For subclasses, such as the members of an IntEnum or a defaultdict.
_BASES: tuple[tuple[type, _Encoder], ...] = (
    (str, lambda value, depth: {"S": str.__str__(value)}),
    (int, _integer),
    (float, _float),
    (Decimal, _decimal),
    (bytes, _bytes),
    (bytearray, _bytes),
    (Mapping, _map),
    (list, _list),
    (tuple, _list),
    (set, _set),
    (frozenset, _set),
)


def _encoder_by_base(value: Any) -> _Encoder:
    for base, encoder in _BASES:
        if isinstance(value, base):
            return encoder
    kind = _kind(value)
    hint = _HINTS.get(kind, "convert it to a str, a number, bytes, a list or a dict")
    raise Refused(f"DynamoDB has no {kind}; {hint}")


_HINTS = {
    "datetime": "store value.isoformat(), or int(value.timestamp()) for a TTL",
    "date": "store value.isoformat()",
    "time": "store value.isoformat()",
    "timedelta": "store Decimal(str(value.total_seconds()))",
    "UUID": "store str(value)",
    "Fraction": "store a Decimal",
    "complex": "store its two parts",
    "F": "an attribute's own value stands in an update, not inside another value",
}


def _kind(value: object) -> str:
    return type(value).__name__


def _named(kind: str) -> str:
    return {
        "S": "strings",
        "N": "numbers",
        "B": "bytes",
        "BOOL": "booleans",
        "NULL": "None",
        "L": "tuples",
    }.get(kind, "sets")


def _surrogate(item: wire.Item) -> InvalidValue:
    """The text of an item that is not Unicode, by its path."""
    for path, text in _texts(item, ()):
        try:
            text.encode()
        except UnicodeEncodeError:
            return InvalidValue("half of a surrogate pair is not valid Unicode", ascii(path_text(path))[1:-1])
    raise AssertionError("JSON has a text for everything else")


def _texts(members: wire.Item, above: tuple[Step, ...]) -> Iterable[tuple[tuple[Step, ...], str]]:
    for name, value in members.items():
        yield (*above, name), name
        yield from _value_texts(value, (*above, name))


def _value_texts(value: AttributeValue, path: tuple[Step, ...]) -> Iterable[tuple[tuple[Step, ...], str]]:
    ((kind, content),) = value.items()
    if kind == "S":
        yield path, content
    elif kind == "SS":
        yield from ((path, text) for text in content)
    elif kind == "L":
        for place, element in enumerate(content):
            yield from _value_texts(element, (*path, place))
    elif kind == "M":
        yield from _texts(content, path)


def _refuse_size(item: Mapping[str, Any], encoded: wire.Item) -> None:
    size = wire.item_size(encoded)
    if size <= ITEM_BYTES:
        return
    largest = max(encoded, key=lambda name: wire.value_size(encoded[name]))
    raise InvalidValue(
        f"the item has {size:,} bytes, and DynamoDB takes {ITEM_BYTES:,}; "
        f"this attribute has {wire.value_size(encoded[largest]):,} of them",
        largest,
    )


# ── from the wire ────────────────────────────────────────────────────────────────────────────────


def decode_items(items: Iterable[wire.Item]) -> list[Item]:
    """Items in Python's values."""
    # One comprehension, and the most frequent kinds without a call: a page is decoded a third faster.
    return [
        {
            name: value["S"]
            if "S" in value
            else int(value["N"])
            if "N" in value and value["N"].isdigit()
            else decode(value)
            for name, value in item.items()
        }
        for item in items
    ]


def decode_item(item: wire.Item) -> Item:
    """An item in Python's values."""
    return decode_items((item,))[0]


def decode(value: AttributeValue) -> Any:
    """The Python value of an attribute value."""
    for kind, content in value.items():
        return _DECODERS[kind](content)
    raise InvalidValue("an attribute value without a type")


def decode_number(text: str) -> int | Decimal:
    """An int where the text is an integer's; otherwise a Decimal with exactly its digits."""
    if text.isdigit() or (text[:1] == "-" and text[1:].isdigit()):
        return int(text)
    return Decimal(text)


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "S": lambda content: content,
    "N": decode_number,
    "B": a2b_base64,
    "BOOL": lambda content: content,
    "NULL": lambda content: None,
    "SS": set,
    "NS": lambda content: set(map(decode_number, content)),
    "BS": lambda content: set(map(a2b_base64, content)),
    "L": lambda content: [element["S"] if "S" in element else decode(element) for element in content],
    "M": decode_item,
}
