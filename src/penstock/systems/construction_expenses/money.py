"""Amounts of money: whole numbers of a currency's smallest unit, and the texts that people and programs write them in.

1. An amount is exact: a text that has more decimals than its currency is refused, never rounded.
2. How many decimals a currency has is ISO 4217's: two, but for those listed here.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Final

from penstock.errors import PenstockError

_WITHOUT: Final = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
_WITH_THREE: Final = "BHD IQD JOD KWD LYD OMR TND"
_DECIMALS: Final = dict.fromkeys(_WITHOUT.split(), 0) | dict.fromkeys(_WITH_THREE.split(), 3)
_CODE: Final = re.compile(r"[A-Z]{3}")
_LARGEST: Final = Decimal(10) ** 20


class BadAmount(PenstockError, ValueError):
    """A text that is no amount of its currency."""


def currency_of(text: str) -> str:
    """The code of a currency, in capitals. Raises BadAmount."""
    code = text.strip().upper()
    if not _CODE.fullmatch(code):
        raise BadAmount(f"{text!r} is no currency: it has three letters, such as EUR")
    return code


def decimals_of(currency: str) -> int:
    return _DECIMALS.get(currency, 2)


def minor_units(amount: object, currency: str) -> int:
    """An amount in the currency's own unit ("19.99") as a number of its smallest (1999). Raises BadAmount."""
    return whole_units(_decimal(amount).scaleb(decimals_of(currency)), f"{amount} {currency}")


def whole_units(amount: object, shown: str = "") -> int:
    """An amount that is in the smallest unit already. Raises BadAmount where it is no whole number."""
    found = _decimal(amount)
    if found != found.to_integral_value():
        raise BadAmount(f"{shown or amount} has more decimals than its currency")
    return int(found)


def major_units(amount: int, currency: str) -> Decimal:
    """The amount in the currency's own unit, with all its decimals."""
    return Decimal(amount).scaleb(-decimals_of(currency))


def _decimal(amount: object) -> Decimal:
    try:
        found = Decimal(str(amount))
    except InvalidOperation:
        found = Decimal("NaN")
    if not found.is_finite() or abs(found) >= _LARGEST:
        raise BadAmount(f"{amount!r} is no amount")
    return found
