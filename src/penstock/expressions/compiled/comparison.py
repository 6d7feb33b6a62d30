"""Values against values: their order, their size, what begins and what contains what. Both must be checked values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from penstock.expressions.syntax import error_wording
from penstock.wire.values import AttributeValue, binary, equal

ORDERED = frozenset({"S", "N", "B"})
SCALARS = frozenset({"S", "N", "B", "BOOL", "NULL"})
SIZED = frozenset({"S", "B", "SS", "NS", "BS", "L", "M"})


def order_key(kind: str, data: Any) -> Any:
    """What values of one type are ordered by; text is ordered as its UTF-8 is."""
    if kind == "S":
        return data
    return Decimal(data) if kind == "N" else binary(data)


def size_of(value: AttributeValue) -> int | None:
    """DynamoDB's size(): characters, bytes or elements; None for a type that has none."""
    ((kind, data),) = value.items()
    if kind == "S":
        # Characters are counted as UTF-16 has them.
        return len(data) if data.isascii() else len(data.encode("utf-16-le", "surrogatepass")) // 2
    if kind == "B":
        return len(binary(data))
    return len(data) if kind in SIZED else None


def begins_with(value: AttributeValue, prefix: AttributeValue) -> bool:
    """Of two texts or two binaries, whether the first starts with the second."""
    if "S" in value and "S" in prefix:
        return bool(value["S"].startswith(prefix["S"]))
    if "B" in value and "B" in prefix:
        return binary(value["B"]).startswith(binary(prefix["B"]))
    return False


def contains(value: AttributeValue, part: AttributeValue) -> bool:
    """A part of a text or binary, a member of a set, or an element of a list."""
    ((kind, data),) = value.items()
    ((part_kind, part_data),) = part.items()
    if kind == "L":
        if part_kind in SCALARS:
            return part in data  # checked scalars are written one way
        return any(equal(element, part) for element in data)
    if kind == "S" or kind in ("SS", "NS", "BS"):
        return part_kind == kind[0] and part_data in data
    return kind == "B" and part_kind == "B" and binary(part_data) in binary(data)


def refuse_bounds(low: AttributeValue, high: AttributeValue) -> None:
    """Refuses bounds of two types and a lower bound above the upper one."""
    ((kind, data),) = low.items()
    if kind not in high:
        raise error_wording.bounds_of_two_types(low, high)
    if order_key(kind, data) > order_key(kind, high[kind]):
        raise error_wording.bounds_out_of_order(low, high)
