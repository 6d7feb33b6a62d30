"""Attribute values in DynamoDB's JSON: {"S": "text"}, {"N": "1"}, {"B": "base64"}, …

Here their content is checked: one type each, numbers in range, sets with no duplicates, nesting of at most 32 (the item
itself is the first level). Checking also normalises (numbers are written one way, sets are in order) and measures, so
that a value is walked once. The input is never changed: a value that needs no change is returned as it is.

What has not the JSON type that its name says ({"S": 5}), which the shapes of requests refuse in DynamoDB's words, is
never taken for a value here either: it raises a TypeError or an AttributeError.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from typing import Any

from penstock.errors import SerializationException, ValidationException
from penstock.wire import numbers
from penstock.wire.limits import ATTRIBUTE_NAME_BYTES, ECHOED_CHARACTERS, NESTING, NUMBER_DIGITS, REQUEST_BYTES
from penstock.wire.numbers import RefusedValue

AttributeValue = dict[str, Any]
Item = dict[str, AttributeValue]

TYPES = ("S", "N", "B", "SS", "NS", "BS", "M", "L", "BOOL", "NULL")

LIST_BYTES = 3
"""What a list or a map counts for beside its elements and one byte for each of them."""

_MANY = 8
"""Elements from which a list is looked at as a vector."""

_INVALID = "One or more parameter values were invalid: "
_EMPTY_NAME = "Empty attribute name"
_TOO_LARGE = "Item size has exceeded the maximum allowed size"
_LONG_NAME = f"Attribute name is too large, must be less than {ATTRIBUTE_NAME_BYTES + 1} bytes"

# Counters, versions and flags: most numbers of most items.
_SMALL_NUMBERS: dict[str, tuple[str, int]] = {text: (text, numbers.size(text)) for text in map(str, range(1000))}


class TooLarge(ValidationException):
    """An item is larger than any request, and is not measured to its end.

    An update that copies one value to hundreds of places makes such an item out of little: minutes of measuring.
    """

    @property
    def code(self) -> str:
        return "ValidationException"


def check_item(item: Item) -> tuple[Item, int]:
    """The item with its values normalised, and its size in bytes."""
    small_number = _SMALL_NUMBERS.get
    if "" in item:
        raise RefusedValue(_EMPTY_NAME)
    texts = [*item]  # names, and values that are texts: measured together
    size = 0
    changed: Item | None = None
    for name, value in item.items():
        if len(value) == 1:
            if "S" in value:
                texts.append(value["S"])
                continue
            if "N" in value:
                given = value["N"]
                number, number_bytes = small_number(given) or measure_number(given)
                if number == given:
                    size += number_bytes
                    continue
        try:
            checked, value_bytes = _check(value, 0)
        except ValidationException as error:
            if error.message == _EMPTY_NAME:
                _refuse_deep(item)  # inside a value, an empty name is told after any nesting
            raise
        size += value_bytes
        if size > REQUEST_BYTES:
            raise TooLarge(_TOO_LARGE)
        if checked is not value:
            if changed is None:
                changed = dict(item)
            changed[name] = checked
    size += _text_bytes("".join(texts))
    if size > ATTRIBUTE_NAME_BYTES:
        check_names(item)
    return (item if changed is None else changed), size


def refuse_copies(item: Item) -> None:
    """Refuses an item whose texts are longer than any request, before they are measured: an update may copy them."""
    if sum(len(value["S"]) for value in item.values() if "S" in value) > REQUEST_BYTES:
        raise TooLarge(_TOO_LARGE)


def check_names(names: Collection[str]) -> None:
    """Refuses names of attributes that are empty or too long."""
    if "" in names:
        raise RefusedValue(_EMPTY_NAME)
    # A character is four bytes at most.
    if any(4 * len(name) > ATTRIBUTE_NAME_BYTES and len(name.encode()) > ATTRIBUTE_NAME_BYTES for name in names):
        raise RefusedValue(_LONG_NAME)


def check_value(value: AttributeValue) -> AttributeValue:
    """The value, normalised."""
    return _check(value, 0)[0]


def measure_value(value: AttributeValue) -> tuple[AttributeValue, int]:
    """The value, normalised, and the bytes that it counts for."""
    return _check(value, 0)


def measure_number(text: str) -> tuple[str, int]:
    """The number, normalised, and the bytes that it counts for, for the price of one look at an ordinary one."""
    known = _SMALL_NUMBERS.get(text)
    if known is not None:
        return known
    if len(text) <= NUMBER_DIGITS and text.isascii():
        if text.isdigit():
            if text[0] != "0":
                return text, 1 + (len(text.rstrip("0")) + len(text) % 2 + 1) // 2
        else:
            whole, _, fraction = text.partition(".")
            if fraction.isdigit() and fraction[-1] != "0" and whole.isdigit() and whole[0] != "0":
                return text, 1 + (len(whole) + len(fraction) + len(whole) % 2 + 1) // 2
    number = numbers.normalise(text)
    return number, numbers.size(number)


def value_size(value: AttributeValue) -> int:
    """Bytes that a checked value counts for."""
    return _check(value, 0)[1]


def item_size(item: Item) -> int:
    """Bytes that a checked item counts for, names included."""
    return check_item(item)[1]


def type_of(value: AttributeValue) -> str:
    """The name of the value's type, for example "SS"."""
    return next(iter(value))


def equal(left: AttributeValue, right: AttributeValue) -> bool:
    """The same type and value; sets have no order. Both must be checked values."""
    if left == right:
        return True
    (kind, one), (other_kind, other) = *left.items(), *right.items()
    if kind != other_kind:
        return False
    if kind in ("SS", "NS", "BS"):
        return len(one) == len(other) and set(one) == set(other)
    if kind == "L":
        return len(one) == len(other) and all(map(equal, one, other))
    if kind == "M":
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    return False


def binary(text: str) -> bytes:
    """The bytes of a B value; refused as DynamoDB refuses bad base64."""
    if len(text) % 4:
        raise SerializationException(f"Base64 encoded length is expected a multiple of 4 bytes but found: {len(text)}")
    try:
        return a2b_base64(text, strict_mode=True) if text else b""
    except (Base64Error, ValueError):
        raise SerializationException("Invalid Base64 character in the input") from None


def base64_text(data: bytes) -> str:
    """A B value's text."""
    return b2a_base64(data, newline=False).decode("ascii")


def _check(value: AttributeValue, depth: int) -> tuple[AttributeValue, int]:
    if len(value) != 1:
        return _refuse_types(value, depth)
    ((kind, data),) = value.items()
    if kind == "S":
        return value, _text_bytes(data)
    if kind == "N":
        number, size = measure_number(data)
        return (value if number == data else {"N": number}), size
    check = _CHECKS.get(kind)
    if check is None:
        return _refuse_types({}, depth)
    return check(value, data, depth)


def _text_bytes(text: str) -> int:
    if type(text) is not str:
        raise TypeError(f"{text!r} is no text")
    return len(text) if text.isascii() else len(text.encode())


def _refuse_types(value: AttributeValue, depth: int) -> tuple[AttributeValue, int]:
    known = {kind: data for kind, data in value.items() if kind in TYPES}
    if not known:
        raise ValidationException(
            "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
        )
    if len(known) == 1:
        return _check(known, depth)
    for kind, data in known.items():
        try:
            _check({kind: data}, depth)
        except RefusedValue as problem:
            raise RefusedValue(problem.message) from None  # what has two types is read by the older layer
    raise ValidationException(
        "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes"
    )


def _binary(value: AttributeValue, data: str, depth: int) -> tuple[AttributeValue, int]:
    return value, len(_raw(data))


def _raw(text: str) -> bytes:
    if type(text) is not str:
        raise TypeError(f"{text!r} is no text")
    raw = binary(text)
    if base64_text(raw) != text:
        raise TypeError("not as an encoder writes base64")
    return raw


def _bool(value: AttributeValue, data: bool, depth: int) -> tuple[AttributeValue, int]:
    if type(data) is not bool:
        raise TypeError(f"{data!r} is neither true nor false")
    return value, 1


def _null(value: AttributeValue, data: bool, depth: int) -> tuple[AttributeValue, int]:
    if type(data) is not bool:
        raise TypeError(f"{data!r} is neither true nor false")
    if not data:
        raise ValidationException(_INVALID + "Null attribute value types must have the value of true")
    return value, 1


def _refuse_no_list(data: object) -> None:
    if type(data) is not list:
        raise TypeError(f"{data!r} is no list")


def _strings(value: AttributeValue, data: list[str], depth: int) -> tuple[AttributeValue, int]:
    _refuse_no_list(data)
    if not data:
        raise ValidationException(_INVALID + "An string set  may not be empty")
    size = sum(map(_text_bytes, data))
    if len(data) == 1:
        return value, size
    if len(set(data)) != len(data):
        raise RefusedValue(
            f"{_INVALID}Input collection [{_echoed(data)}] contains duplicates.",
            f"{_INVALID}Input collection [{_echoed(_repeated(data, data))}] contains duplicates.",
        )
    ordered = sorted(data)  # code points are in the order of their UTF-8
    return (value if ordered == data else {"SS": ordered}), size


def _numbers(value: AttributeValue, data: list[str], depth: int) -> tuple[AttributeValue, int]:
    _refuse_no_list(data)
    if not data:
        raise ValidationException(_INVALID + "An number set  may not be empty")
    checked = [numbers.normalise(text) for text in data]
    if len(checked) > 1:
        if len(set(checked)) != len(checked):
            current = f"{_INVALID}Input collection contains duplicates."
            raise RefusedValue("Input collection contains duplicates", current)
        checked.sort(key=Decimal)
    return (value if checked == data else {"NS": checked}), sum(map(numbers.size, checked))


def _binaries(value: AttributeValue, data: list[str], depth: int) -> tuple[AttributeValue, int]:
    _refuse_no_list(data)
    if not data:
        raise ValidationException(_INVALID + "Binary sets should not be empty")
    raw = [_raw(text) for text in data]
    if len(set(raw)) != len(raw):
        raise RefusedValue(
            f"{_INVALID}Input collection [{_echoed(data)}]of type BS contains duplicates.",
            f"{_INVALID}Input collection [{','.join(_repeated(raw, data))}]of type BS contains duplicates.",
        )
    raw.sort()
    texts = [base64_text(one) for one in raw]
    return (value if texts == data else {"BS": texts}), sum(map(len, raw))


def _echoed(texts: list[str]) -> str:
    """The members of a set, as many as an answer shows: a set may have millions."""
    return ", ".join(texts[:ECHOED_CHARACTERS])[:ECHOED_CHARACTERS]


def _repeated(members: Sequence[Any], texts: list[str]) -> list[str]:
    """How the current layer lists a set: in order up to the first repeated member, then as it was sent."""
    seen: set[Any] = set()
    first = 0
    while members[first] not in seen:
        seen.add(members[first])
        first += 1
    ordered = sorted(range(first), key=members.__getitem__)
    return [f'"{texts[place]}"' for place in (*ordered, *range(first, len(texts)))]


def _list(value: AttributeValue, data: list[AttributeValue], depth: int) -> tuple[AttributeValue, int]:
    _refuse_no_list(data)
    _refuse_depth(depth)
    if len(data) >= _MANY and "N" in data[0]:
        vector = _vector(value, data)
        if vector is not None:
            return vector
    total = LIST_BYTES + len(data)
    unchanged = True
    checked: list[AttributeValue] = []
    for element in data:
        if "S" in element and len(element) == 1 and type(element["S"]) is str:  # the most frequent kind, without a call
            one, text = element, element["S"]
            total += len(text) if text.isascii() else len(text.encode())
        else:
            one, size = _check(element, depth + 1)
            total += size
            unchanged = unchanged and one is element
            if total > REQUEST_BYTES:
                raise TooLarge(_TOO_LARGE)
        checked.append(one)
    return (value if unchanged else {"L": checked}), total


def _vector(value: AttributeValue, data: list[AttributeValue]) -> tuple[AttributeValue, int] | None:
    """The same of a list of nothing but numbers, ten times as fast; None of any other."""
    try:
        texts = [element["N"] for element in data]
        if sum(map(len, data)) != len(data):
            return None  # one of them has another type beside
        checked, size = numbers.measure_all(texts)
    except (KeyError, TypeError):
        return None
    total = LIST_BYTES + len(data) + size
    if total > REQUEST_BYTES:
        raise TooLarge(_TOO_LARGE)
    return (value if checked == texts else {"L": [{"N": text} for text in checked]}), total


def _map(value: AttributeValue, data: Item, depth: int) -> tuple[AttributeValue, int]:
    if type(data) is not dict:
        raise TypeError(f"{data!r} is no map")
    _refuse_depth(depth)
    if "" in data:
        raise RefusedValue(_EMPTY_NAME)
    total = LIST_BYTES + len(data)
    unchanged = True
    checked: Item = {}
    for name, member in data.items():
        if "S" in member and len(member) == 1 and type(member["S"]) is str:
            one, text = member, member["S"]
            size = len(text) if text.isascii() else len(text.encode())
        else:
            one, size = _check(member, depth + 1)
            unchanged = unchanged and one is member
            if total > REQUEST_BYTES:
                raise TooLarge(_TOO_LARGE)
        checked[name] = one
        total += size + (len(name) if name.isascii() else len(name.encode()))
    if total > ATTRIBUTE_NAME_BYTES:
        check_names(data)
    return (value if unchanged else {"M": checked}), total


def _refuse_deep(members: Item, depth: int = 0) -> None:
    """Refuses what is nested too deep, whatever else is wrong with it."""
    for value in members.values():
        for kind, data in value.items():
            if kind in ("L", "M"):
                _refuse_depth(depth)
                _refuse_deep(data if kind == "M" else {str(place): one for place, one in enumerate(data)}, depth + 1)


def _refuse_depth(depth: int) -> None:
    if depth >= NESTING - 1:
        raise RefusedValue(
            "Nesting Levels have exceeded supported limits: "
            "Attributes in the item have nested levels beyond supported limit"
        )


_CHECKS: dict[str, Callable[[AttributeValue, Any, int], tuple[AttributeValue, int]]] = {
    "B": _binary,
    "BOOL": _bool,
    "NULL": _null,
    "SS": _strings,
    "NS": _numbers,
    "BS": _binaries,
    "L": _list,
    "M": _map,
}
