"""Text as numbers, dates and times, as people and programs write them.

1. A text is a number only if nothing is lost: `007`, `+49 170 …` and numbers of more than 15 digits stay text.
2. A time that names its zone (`Z`, `+02:00`) is converted to UTC: Excel's times have no zone.
3. Excel's days begin on 1900-03-01 (before it, it counts a day that was none): older ones stay text.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime
from typing import Final

DIGITS: Final = 15
"""That Excel keeps of a number."""
CURRENCIES: Final = {"€": "€", "$": "$", "£": "£", "¥": "¥", "₹": "₹", "EUR": "€", "USD": "$", "GBP": "£", "CHF": "CHF"}
BLANK_WORDS: Final = frozenset({"", "-", "–", "—", "n/a", "na", "none", "null", "nan", "nat", "#n/a", "?"})
YES: Final = frozenset({"true", "yes", "ja", "oui", "si", "sí"})
NO: Final = frozenset({"false", "no", "nein", "non"})
PICTURES: Final = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff")

_GAP: Final = "[ '’\u00a0\u202f]"
_BODY: Final = {
    ".": re.compile(rf"(?:0|[1-9]\d*|[1-9]\d{{0,2}}(?:(?:,|{_GAP})\d{{3}})+)(?:\.\d+)?"),
    ",": re.compile(rf"(?:0|[1-9]\d*|[1-9]\d{{0,2}}(?:(?:\.|{_GAP})\d{{3}})+)(?:,\d+)?"),
}
_BETWEEN: Final = {".": re.compile(rf"{_GAP}|,"), ",": re.compile(rf"{_GAP}|\.")}
"""What stands between thousands, by the decimal mark."""
_MONEY: Final = "|".join(re.escape(one) for one in CURRENCIES)
_SIGNED: Final = re.compile(
    rf"(?P<open>\()?(?P<minus>[-−])?(?P<before>{_MONEY})?\s?(?P<minus2>[-−])?(?P<body>\d[\d.,'’ \u00a0\u202f]*?)"
    rf"\s?(?P<after>{_MONEY}|%)?(?P<close>\))?"
)
_DAY: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
_OTHER_DAY: Final = re.compile(r"(\d{1,2})([./])(\d{1,2})[./](\d{4})")
FIRST_DAY: Final = date(1900, 3, 1)


def number_parts(text: str) -> tuple[str, bool, str] | None:
    """The digits of what may be a number, whether it is negative, and its currency or `%`."""
    found = _SIGNED.fullmatch(text)
    if found is None or bool(found["open"]) != bool(found["close"]) or (found["before"] and found["after"] == "%"):
        return None
    negative = bool(found["open"] or found["minus"] or found["minus2"])
    unit = found["before"] or found["after"] or ""
    return found["body"], negative, CURRENCIES.get(unit, unit)


def is_decimal(body: str, mark: str) -> bool:
    """Whether these digits are a number with this decimal mark, and none of them gets lost (1)."""
    return _BODY[mark].fullmatch(body) is not None and sum(map(str.isdigit, body)) <= DIGITS


def parse_number(text: str, mark: str = ".") -> float | None:
    """None for what is no number with this decimal mark."""
    parts = number_parts(text.strip())
    if parts is None or not is_decimal(parts[0], mark):
        return None
    body, negative, unit = parts
    digits = _BETWEEN[mark].sub("", body).replace(mark, ".")
    value = float(digits) if "." in digits else int(digits)
    if unit == "%":
        value /= 100
    return -value if negative else value


def parse_day(text: str, day_first: bool | None = None) -> date | None:
    """`2026-03-01`, `01.03.2026`, and with `day_first` known `01/03/2026`. None for others."""
    text = text.strip()
    found = _DAY.fullmatch(text)
    if found is not None:
        year, month, day = map(int, found.groups())
    else:
        other = _OTHER_DAY.fullmatch(text)
        if other is None or (other[2] == "/" and day_first is None):
            return None
        first, second, year = int(other[1]), int(other[3]), int(other[4])
        day, month = (first, second) if other[2] == "." or day_first else (second, first)
    try:
        return date(year, month, day)
    except ValueError:
        return None


def parse_moment(text: str) -> datetime | None:
    """An ISO time, in UTC if it names its zone (2). None for others."""
    text = text.strip()
    if _MOMENT.match(text) is None:
        return None
    try:
        return naive(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return None


def naive(moment: datetime) -> datetime:
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def slashed_day(text: str) -> tuple[int, int] | None:
    """The first two numbers of `31/12/2025`: which one is the day, only all of them together tell."""
    found = _OTHER_DAY.fullmatch(text)
    return None if found is None or found[2] == "." else (int(found[1]), int(found[3]))


def has_zone(text: str) -> bool:
    return text.endswith(("Z", "z")) or re.search(r"[+-]\d\d:?\d\d$", text) is not None


def fits_excel(value: float) -> bool:
    """Whether Excel's numbers can hold it."""
    if isinstance(value, float):
        return math.isfinite(value) and abs(value) < 1e300
    return abs(value) < 10**DIGITS
