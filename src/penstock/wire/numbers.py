"""DynamoDB's numbers: exact decimals of up to 38 digits, kept as text.

1. `normalise` gives one text for each value: two numbers are equal if and only if their normalised texts are.
2. `encode` keeps order: `encode(a) < encode(b)` as bytes if and only if a < b as numbers.
3. No encoding is a prefix of another one, so that more bytes may follow it in a key.
4. Nothing passes through a float or through the caller's decimal context.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from decimal import Context, Decimal

from penstock.errors import ValidationException
from penstock.wire.limits import NUMBER_DIGITS, NUMBER_MAX_EXPONENT, NUMBER_MIN_EXPONENT

_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?", re.ASCII)

# Short numbers as `normalise` writes them, each with a comma after it: what vectors are made of.
_SHORT = r"-?[0-9]\.[0-9]{1,37}+(?<=[1-9])"
_SHORT_NUMBERS = re.compile(rf"(?:{_SHORT},|-?[1-9],|0,)*+", re.ASCII)
_SHORT_NUMBER = re.compile(rf"{_SHORT}|-?[1-9]|0", re.ASCII)

# A sum of two 38-digit numbers can span 256 digits before it is judged.
_EXACT = Context(prec=300, Emin=-999_999, Emax=999_999)

# Any exponent past this many digits is out of range whatever the mantissa (a request holds 16 MB at most).
_EXPONENT_DIGITS = 9

_INT_MAX, _LONG_MAX = 2**31 - 1, 2**63 - 1

_NOT_A_NUMBER = "The parameter cannot be converted to a numeric value"
_OVERFLOW = "Number overflow. Attempting to store a number with magnitude larger than supported range"
_UNDERFLOW = "Number underflow. Attempting to store a number with magnitude smaller than supported range"
_TOO_PRECISE = "Attempting to store more than 38 significant digits in a Number"

Parts = tuple[bool, str, int]
"""(negative, significant digits, exponent): ±0.DIGITS × 10^exponent; digits are "" for zero."""

_ZERO: Parts = (False, "", 0)


def normalise(text: str) -> str:
    """The one text of this number's value; refused as DynamoDB refuses it."""
    if len(text) <= NUMBER_DIGITS and text.isdigit() and text.isascii() and (text[0] != "0" or len(text) == 1):
        return text
    return _render(_check(text))


def size(text: str) -> int:
    """Bytes that a normalised number counts for: one for two digits, one for the exponent, one for a sign."""
    if text.isdigit():
        return 1 + (len(text.rstrip("0")) + len(text) % 2 + 1) // 2 if text != "0" else 1
    negative, digits, exponent = _parts(text)
    return 1 + (len(digits) + exponent % 2 + 1) // 2 + negative


def measure_all(texts: Sequence[str]) -> tuple[Sequence[str], int]:
    """Many numbers, normalised, and the bytes that they count for together.

    A vector has thousands of them: those of one digit before the point are checked and measured all at once.
    """
    if _SHORT_NUMBERS.fullmatch(",".join(texts) + ","):
        return texts, _short_bytes(texts)
    checked = [*texts]
    short = []
    total = 0
    for place, text in enumerate(texts):
        if _SHORT_NUMBER.fullmatch(text):
            short.append(text)
        else:
            checked[place] = number = normalise(text)
            total += size(number)
    return checked, total + (_short_bytes(short) if short else 0)


def _short_bytes(texts: Sequence[str]) -> int:
    """What `size` says of each of these short numbers, summed up.

    With n digits after the point, k of them leading zeros, a number counts for 1 + (n + 1) // 2 - k // 2 if it begins
    with 0; another digit is one more, a sign is one more.
    """
    signed = "," + ",".join(texts)
    text = signed.replace("-", "")
    total = 2 * len(texts) + len(signed) - len(text) - text.count(",0")
    zeros = ",0.00"
    while count := text.count(zeros):
        total -= count
        zeros += "00"
    lengths = Counter(map(len, text[1:].split(",")))
    return total + sum((length - 1) // 2 * count for length, count in lengths.items())


def encode(text: str) -> bytes:
    """Bytes that sort as numbers do (base 100, exponent first; complemented when negative)."""
    negative, digits, exponent = _parts(text)
    if not digits:
        return b"\x80\x00"  # 0x80 is also the lead of the least positive numbers, whose pairs are above zero
    odd = exponent % 2
    padded = "0" * odd + digits
    if len(padded) % 2:
        padded += "0"
    lead = (exponent + odd) // 2 + 192
    if negative:
        pairs = bytes(101 - int(padded[i : i + 2]) for i in range(0, len(padded), 2))
        # 102 is above every complemented pair: the shorter of two negatives is the larger.
        return bytes((255 - lead,)) + pairs + b"\x66"
    pairs = bytes(int(padded[i : i + 2]) + 1 for i in range(0, len(padded), 2))
    return bytes((lead,)) + pairs + b"\x00"


def hash_bytes(text: str) -> bytes:
    """The bytes of a number that are hashed when it is a partition key."""
    encoded = encode(text)
    return encoded[:-1] if encoded.endswith(b"\x00") else encoded


def to_decimal(text: str) -> Decimal:
    """The exact value, whatever the caller's decimal context."""
    return Decimal(text)


def from_decimal(value: Decimal) -> str:
    """The normalised text; refused where DynamoDB has no such number."""
    if not value.is_finite():
        raise ValidationException(f"{_NOT_A_NUMBER}: {value}")
    return normalise(str(value)) if value else "0"


def add(left: str, right: str) -> str:
    """left + right, exactly."""
    return _result(_EXACT.add(Decimal(left), Decimal(right)))


def subtract(left: str, right: str) -> str:
    """left - right, exactly."""
    return _result(_EXACT.subtract(Decimal(left), Decimal(right)))


def _result(value: Decimal) -> str:
    """What a sum is stored as; DynamoDB calls one of more than 38 digits an overflow too."""
    if len(value.as_tuple().digits) > NUMBER_DIGITS and len(value.normalize(_EXACT).as_tuple().digits) > NUMBER_DIGITS:
        raise RefusedValue(_OVERFLOW)
    return from_decimal(value)


def _parts(text: str) -> Parts:
    match = _NUMBER.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        raise RefusedValue(f"{_NOT_A_NUMBER}: {text}" if text else _NOT_A_NUMBER, f"{_NOT_A_NUMBER}: {text}")
    sign, whole, fraction, power = match.groups()
    whole = whole.lstrip("0")
    digits = whole + (fraction or "")
    exponent = len(whole)
    if not whole:
        stripped = digits.lstrip("0")
        exponent = len(stripped) - len(digits)
        digits = stripped
    digits = digits.rstrip("0")
    if not digits:
        return _ZERO
    if power:
        exponent += _power(power)
    return sign == "-", digits, exponent


def _power(text: str, beyond: int = 10**_EXPONENT_DIGITS) -> int:
    """The exponent that was written; `beyond` where it has too many digits to be less."""
    digits = text.lstrip("+-").lstrip("0") or "0"
    power = int(digits) if len(digits) <= len(str(beyond)) - 1 else beyond
    return -power if text[0] == "-" else power


def _check(text: str) -> Parts:
    parts = _parts(text)
    _, digits, exponent = parts
    if not digits:
        exponent = _exponent_of_zero(text)
    if exponent - 1 > NUMBER_MAX_EXPONENT:
        raise _out_of_range(text, _OVERFLOW)
    if exponent - 1 < NUMBER_MIN_EXPONENT:
        raise _out_of_range(text, _UNDERFLOW)
    if len(digits) > NUMBER_DIGITS:
        raise RefusedValue(_TOO_PRECISE)
    return parts


def _exponent_of_zero(text: str) -> int:
    """A zero is in range unless the exponent that it was written with is not."""
    mantissa, mark, power = text.lower().partition("e")
    return 1 + _power(power) - len(mantissa.partition(".")[2]) if mark else 1


def _out_of_range(text: str, current: str) -> RefusedValue:
    """The current layer reads exponents of 64 bits; the older one is Java's BigDecimal, whose scales have 32."""
    unreadable = f"{_NOT_A_NUMBER}: {text}"
    mantissa, _, power_text = text.lower().partition("e")
    power = _power(power_text, beyond=2 * _LONG_MAX) if power_text else 0
    if not -_LONG_MAX - 1 <= power <= _LONG_MAX:
        return RefusedValue(unreadable)
    scale = len(mantissa.partition(".")[2]) - power
    if not -_INT_MAX - 1 < power <= _INT_MAX or abs(scale) > _INT_MAX:
        return RefusedValue(unreadable, current)
    precision = len(mantissa.lstrip("+-").replace(".", "").lstrip("0"))
    # BigDecimal's sum of precision and exponent has 32 bits too, and wraps.
    return RefusedValue(_UNDERFLOW if precision - scale > _INT_MAX else current, current)


def _render(parts: Parts) -> str:
    negative, digits, exponent = parts
    if not digits:
        return "0"
    sign = "-" if negative else ""
    if exponent <= 0:
        return f"{sign}0.{'0' * -exponent}{digits}"
    if exponent >= len(digits):
        return f"{sign}{digits}{'0' * (exponent - len(digits))}"
    return f"{sign}{digits[:exponent]}.{digits[exponent:]}"


# ── refused values ─────────────────────────────────────────────────────────────────────────────────


class RefusedValue(ValidationException):
    """A value that DynamoDB refuses in two wordings: `message` is the older layer's, `current` the other's.

    AWS checks attribute values in one of two layers, and the operation decides which: the older one (batches of writes,
    transactions, Scan, PartiQL) or the current one (docs/decisions/0004-wording.md). Numbers and duplicates in sets are
    worded differently; of these, of nesting and of empty names, only the older layer names the placeholder that holds
    it. Without `current`, both say the same.
    """

    def __init__(self, older: str, current: str | None = None) -> None:
        super().__init__(older)
        self.current = older if current is None else current

    @property
    def code(self) -> str:
        return "ValidationException"
