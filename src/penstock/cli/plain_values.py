"""Items as JSON for people and programs: without DynamoDB's types, and without losing a digit."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import orjson


def plain(value: Any) -> Any:
    """A value as orjson takes it: a Decimal is the number that its text says, a set a sorted list, bytes are hex."""
    match value:
        case dict():
            return {name: plain(one) for name, one in value.items()}
        case list():
            return [plain(one) for one in value]
        case set():
            return [plain(one) for one in sorted(value)]
        case Decimal():
            return orjson.Fragment(str(value))
        case bytes():
            return value.hex()
        case _:
            return value
