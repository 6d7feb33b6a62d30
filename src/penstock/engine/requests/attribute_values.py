"""Shapes that several families of requests share; first the one recursive shape: {"S": "text"}, {"M": {…}}, …

Of values only the JSON types are looked at, because DynamoDB looks at them before anything else. Content (numbers,
empty sets, two types at once, nesting) is `wire.values`' to refuse, at the point where DynamoDB does.

Values nested deeper than DynamoDB allows are not walked to their end: `wire.values` refuses them before it
looks at what is inside, so nothing there can matter, and no stack can overflow.
"""

from __future__ import annotations

import re
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from penstock.engine.requests.shapes import (
    Acceptor,
    Boolean,
    Enum,
    Faults,
    List,
    Map,
    Names,
    Path,
    Required,
    Shape,
    String,
    Structure,
)
from penstock.errors import SerializationException, ValidationException
from penstock.wire.limits import NESTING

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
    return type(data) is list and (depth > _WALKED or _accepts_values(data, depth + 1))


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
            raise SerializationException("Start of structure or map found where not expected")
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

    def __init__(self, minimum: int = 0) -> None:
        super().__init__(VALUE, minimum)

    def acceptor(self) -> Acceptor:
        low = self.minimum
        return lambda value: type(value) is list and len(value) >= low and _accepts_values(value)


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
    shown = "".join(f"{kind}: {_render_content(kind, data, depth)}," for kind, data in value.items())
    return f"{{{shown}}}"


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


def table_name_first(request: dict[str, Any]) -> None:
    """The control plane refuses a missing, short or long name before it looks at anything else."""
    name = request.get("TableName")
    if name is None:
        raise ValidationException("The parameter 'TableName' is required but was not present in the request")
    if not name.startswith("arn:") and not 3 <= len(name) <= 255:
        raise ValidationException("TableName must be at least 3 characters long and at most 255 characters long")


TABLE = TableName()
TABLE_NAMES = Names(3, 255, NAME, accepted=_NAME_OR_ARN)
INDEX_NAME = String(3, 255, NAME)
ARN_CHARACTERS = 1283
ARN = String(1, ARN_CHARACTERS)
TEXT = String()
FLAG = Boolean()

ATTRIBUTE_MAP = AttributeMap()
ATTRIBUTE_NAMES = Map(TEXT)
ATTRIBUTES_TO_GET = List(TEXT, 1, 255)

CONSUMED_CAPACITY = Enum("INDEXES", "TOTAL", "NONE")
COLLECTION_METRICS = Enum("SIZE", "NONE")
RETURN_VALUES = Enum("ALL_NEW", "UPDATED_OLD", "ALL_OLD", "NONE", "UPDATED_NEW")
ON_CONDITION_FAILURE = Enum("ALL_OLD", "NONE")
CONDITIONAL_OPERATOR = Enum("OR", "AND")
COMPARISON = Enum(
    "IN",
    "NULL",
    "BETWEEN",
    "LT",
    "NOT_CONTAINS",
    "EQ",
    "GT",
    "NOT_NULL",
    "NE",
    "LE",
    "BEGINS_WITH",
    "GE",
    "CONTAINS",
)
TOKEN = String(1, 36)

EXPECTED = Map(
    Structure(
        "ExpectedAttributeValue",
        AttributeValueList=AttributeList(),
        ComparisonOperator=COMPARISON,
        Exists=FLAG,
        Value=VALUE,
    )
)
CONDITIONS = Map(Structure("Condition", AttributeValueList=AttributeList(), ComparisonOperator=Required(COMPARISON)))
