"""An item as the engine keeps it, in one walk: encoded, normalised and measured.

The engine of this process would check again what the client has just encoded. For the items that most items are, one
walk does both; any other is left to `values` and the engine, which also say what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from penstock.client.tables.values import InvalidValue, encode
from penstock.errors import DynamoDBError
from penstock.wire import numbers
from penstock.wire.limits import ATTRIBUTE_NAME_BYTES
from penstock.wire.values import LIST_BYTES, Item, measured

_ORDINARY_INTEGER = 10**18


def measured_item(item: Mapping[str, Any]) -> tuple[Item, int] | None:
    """The item for the wire, as `check_item(encode_item(item))` gives it, with its size; None for an unusual one."""
    if type(item) is not dict:
        return None
    members: Item = {}
    size = 0
    try:
        for name, value in item.items():
            size += len(name) if name.isascii() else len(name.encode())
            kind = type(value)
            if kind is str:
                members[name] = {"S": value}
                size += len(value) if value.isascii() else len(value.encode())
            elif kind is int and 0 < value < _ORDINARY_INTEGER:
                text, length = numbers.measured(int.__repr__(value))
                members[name] = {"N": text}
                size += length
            elif kind is Decimal:  # NaN and Infinity are no numbers to `numbers` either
                text, length = numbers.measured(str(value))
                members[name] = {"N": text}
                size += length
            elif kind is bool:
                members[name] = {"BOOL": value}
                size += 1
            elif kind is list and set(map(type, value)) == {str}:
                texts = "".join(value)
                members[name] = {"L": [{"S": text} for text in value]}
                size += LIST_BYTES + len(value) + (len(texts) if texts.isascii() else len(texts.encode()))
            else:
                members[name], length = measured(encode(value))
                size += length
    except (InvalidValue, DynamoDBError, AttributeError, TypeError, UnicodeError):
        return None
    # Names of 64 KB are too long, and none of them may be empty.
    return None if size > ATTRIBUTE_NAME_BYTES or "" in members else (members, size)
