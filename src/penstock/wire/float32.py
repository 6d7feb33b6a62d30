"""Numbers of 32 bits, which is how a vector index keeps them.

1. A decimal becomes the nearest number of 32 bits, and of two that are equally near the even one: once, from the
   decimal itself. The way by a `float` of 64 bits rounds twice; where that may matter, the decimal decides.
2. A number of 32 bits becomes the shortest decimal that means it, written as DynamoDB's index writes it: `1.0`, `1e-5`.
3. Bytes are little-endian on every machine: the file can be carried from one to another.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Final

import orjson

BYTES: Final = 4
LARGEST: Final = "3.4028235E38"
"""As DynamoDB's texts name it."""

_LARGEST_FLOAT: Final = 2.0**128 - 2.0**104

_SMALLEST_NORMAL: Final = 2.0**-126
_HALF_STEPS_OF_SUBNORMALS: Final = 2.0**150
_SHORTEST_DIGITS: Final = range(6, 10)  # six digits always come back, and nine always do

# Of a float's eight bytes, little-endian: those that tell whether it lies in the middle of two numbers of 32 bits.
_IS_ZERO: Final = bytes(byte == 0 for byte in range(256))
_IS_HALF: Final = bytes(byte & 0x1F == 0x10 for byte in range(256))
_IS_TINY: Final = bytes(0 < byte & 0x7F <= 0x38 for byte in range(256))  # less than the smallest normal, or little more


def from_texts(texts: Sequence[str]) -> bytes:
    """The numbers of these decimals. OverflowError: one of them is too large."""
    values = _floats(texts)
    form = f"<{len(values)}f"
    data = struct.pack(form, *values)
    doubtful = _doubtful(struct.pack(f"<{len(values)}d", *values))
    if doubtful:
        for place, is_doubtful in enumerate(doubtful.to_bytes(len(values), "little")):
            if is_doubtful:
                values[place] = _settle(values[place], texts[place])
        data = struct.pack(form, *values)
    return data


def _floats(texts: Sequence[str]) -> list[float]:
    """The floats of 64 bits. A reader of JSON, where the decimals are JSON, takes a fifth of the time of `float`."""
    try:
        values: list[float] = orjson.loads(f"[{','.join(texts)}]")
    except ValueError:
        return [*map(float, texts)]
    return values


def to_floats(data: bytes) -> tuple[float, ...]:
    """The numbers that bytes hold."""
    return struct.unpack(f"<{len(data) // BYTES}f", data)


def rounded(value: float) -> float:
    """The nearest number of 32 bits, also of a number beyond the largest: JSON has no infinity."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(_LARGEST_FLOAT, value)


def shortest_text(value: float) -> str:
    """The shortest decimal that means this number of 32 bits (2)."""
    for digits in _SHORTEST_DIGITS:
        near = float(f"{value:.{digits}g}")
        if rounded(near) == value:
            break
    text = repr(near)
    return text.replace("e-0", "e-").replace("e+0", "e").replace("e+", "e") if "e" in text else text


def _doubtful(data: bytes) -> int:
    """Which of these floats may have to be settled: a byte of one for each, as one number. Most vectors have none."""
    number = int.from_bytes
    half = number(data[3::8].translate(_IS_HALF), "little")
    for place in range(3):
        half &= number(data[place::8].translate(_IS_ZERO), "little")
    return half | number(data[7::8].translate(_IS_TINY), "little")


def _settle(value: float, text: str) -> float:
    """The float, or its neighbour on the decimal's side where the float is a middle and the decimal is not."""
    if 0 < abs(value) < _SMALLEST_NORMAL and (abs(value) * _HALF_STEPS_OF_SUBNORMALS) % 2 != 1:
        return value  # no middle
    from fractions import Fraction

    exact, near = Fraction(text), Fraction(value)
    return value if exact == near else math.nextafter(value, math.inf if exact > near else -math.inf)
