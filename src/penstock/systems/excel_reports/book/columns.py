"""The columns of a sheet: as the template says, and where it says nothing, as the data suggests.

1. A column is numbers, days or flags only if nearly all of its cells are (nine of ten). Cells that are not stay text,
   and are counted: a note tells of them.
2. Numbers that name things (ids, years, postcodes) have no separators and no total.
3. A total is a sum where a sum means something; prices, ratings and rates have an average.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Final, Literal

from penstock.systems.excel_reports.book.profile import MOST_DISTINCT, ColumnProfile, Profile
from penstock.systems.excel_reports.book.template import (
    FORMATS,
    ChartTemplate,
    ColumnTemplate,
    Highlight,
    SheetTemplate,
    Total,
)
from penstock.systems.excel_reports.book.values import (
    BLANK_WORDS,
    FIRST_DAY,
    NO,
    YES,
    fits_excel,
    naive,
    parse_day,
    parse_moment,
    parse_number,
)

Kind = Literal["text", "number", "day", "moment", "flag", "picture"]

DAY: Final = "yyyy-mm-dd"
MOMENT: Final = "yyyy-mm-dd hh:mm"
MONEY: Final = "#,##0.00;[Red]-#,##0.00"
WHOLE: Final = "#,##0;[Red]-#,##0"
PICTURE_WIDTH: Final = 11.0
_WIDEST: Final = 48.0
_NARROWEST: Final = 9.0
_MOSTLY: Final = 0.9
_MOST_GROUPS: Final = 25

_NAMES: Final = re.compile(
    "ids?|nr|no|num|number|nummer|code|zip|plz|postcode|postal|year|jahr|année|ano|phone|tel|mobile|isbn|ean|gtin|sku|uid|"
    "key|index|latitude|longitude|lat|lon|lng"
)
_AVERAGED: Final = re.compile(
    "price|preis|prix|precio|unitprice|rate|rating|ratio|score|average|avg|mean|percent|percentage|share|age|alter|"
    "temperature|grade|bewertung|margin|satz"
)
_MONEY_WORDS: Final = re.compile(
    "price|preis|prix|precio|costs?|kosten|amount|betrag|montant|importe|revenue|umsatz|sales|value|wert|total|summe|"
    "salary|budget|fee|net|gross|netto|brutto|tax|discount"
)
_SCALED: Final = re.compile("rating|score|grade|bewertung")
_PLACES: Final = re.compile("latitude|longitude|lat|lon|lng")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a sheet: a field of its rows, and how its cells look."""

    field: str
    heading: str
    kind: Kind = "text"
    format: str = "General"
    width: float = 12.0
    total: Total = "none"
    highlight: Highlight = "none"
    below: float | None = None
    above: float | None = None
    decimal: str = "."
    day_first: bool | None = None
    statistic: str = ""
    wraps: bool = False

    @property
    def align(self) -> Literal["left", "center", "right"]:
        """Of the cells and of the heading: numbers are aligned right."""
        return "right" if self.kind == "number" else "left" if self.kind == "text" else "center"

    def value(self, raw: Any) -> Any:
        """What the cell holds: a number, date, datetime, bool or text; None for nothing. Text is what does not fit."""
        if raw is None or raw == "":
            return None
        if isinstance(raw, float) and not fits_excel(raw):
            return None if raw != raw else str(raw)
        match self.kind:
            case "number":
                return self._number(raw)
            case "day" | "moment":
                return self._time(raw)
            case "flag":
                return self._flag(raw)
        if isinstance(raw, bool | str):
            return raw
        return raw if isinstance(raw, int | float) and fits_excel(raw) else str(raw)

    def _number(self, raw: Any) -> Any:
        if isinstance(raw, bool) or not isinstance(raw, str):
            return raw if isinstance(raw, int | float) and fits_excel(raw) else str(raw)
        if raw.strip().casefold() in BLANK_WORDS:
            return None
        found = parse_number(raw, self.decimal)
        return raw if found is None else found

    def _time(self, raw: Any) -> Any:
        text = str(raw).strip()
        if text.casefold() in BLANK_WORDS:
            return None
        moment = parse_moment(text)
        if moment is None:
            day = parse_day(text, self.day_first)
            moment = None if day is None else datetime(day.year, day.month, day.day)
        if moment is None or moment.date() < FIRST_DAY:
            return raw if isinstance(raw, str) else text
        return moment.date() if self.kind == "day" else naive(moment)

    def _flag(self, raw: Any) -> Any:
        if isinstance(raw, bool):
            return raw
        text = str(raw).strip().casefold()
        return True if text in YES else False if text in NO else None if text in BLANK_WORDS else str(raw)

    def fits(self, value: Any) -> bool:
        """Whether a value of `value` is what the column is of."""
        match self.kind:
            case "number":
                return isinstance(value, int | float)
            case "day" | "moment":
                return isinstance(value, date)
            case "flag":
                return isinstance(value, bool)
        return True


def sheet_columns(sheet: SheetTemplate, profile: Profile, currency: str = "") -> tuple[Column, ...]:
    """The columns of a sheet, pictures first unless the template orders them."""
    listed = [_described(one, profile.columns.get(one.field, ColumnProfile()), currency) for one in sheet.columns]
    names = {one.field for one in sheet.columns}
    others = () if listed and not sheet.others else (name for name in profile.columns if name not in names)
    guessed = [inferred(name, profile.columns[name], currency) for name in others]
    if not listed:
        guessed.sort(key=lambda column: column.kind != "picture")
        guessed = _first_bar(guessed)
    return (*listed, *guessed)


def _first_bar(columns: Sequence[Column]) -> list[Column]:
    """A bar in the first column of sums: one helps, several are noise."""
    found = list(columns)
    for place, column in enumerate(found):
        if column.kind == "number" and column.total == "sum":
            found[place] = replace(column, highlight="bar")
            break
    return found


def _described(one: ColumnTemplate, profile: ColumnProfile, currency: str) -> Column:
    column = inferred(one.field, profile, currency)
    if one.format:
        column = _formatted(column, one.format, profile, currency)
    changes: dict[str, Any] = {
        "heading": one.heading or column.heading,
        "width": one.width or max(column.width, min(_WIDEST, _longest_word(one.heading) + 2.5)),
        "below": one.below,
        "above": one.above,
        "statistic": one.statistic,
    }
    for name in ("total", "highlight", "decimal", "day_first"):
        if getattr(one, name) is not None:
            changes[name] = getattr(one, name)
    if one.total is not None and one.total != "none" and column.kind not in ("number", "flag"):
        changes["total"] = "count"  # of what else could be no other total
    return replace(column, **changes)


def _formatted(column: Column, wanted: str, profile: ColumnProfile, currency: str) -> Column:
    kinds: dict[str, tuple[Kind, str]] = {
        "text": ("text", "General"),
        "number": ("number", _decimals(min(profile.decimals, 4) or 2)),
        "whole": ("number", WHOLE),
        "money": ("number", _money(currency or "".join(profile.units[:1]))),
        "percent": ("number", "0.0%"),
        "date": ("day", DAY),
        "time": ("moment", MOMENT),
        "yes-no": ("flag", "General"),
        "picture": ("picture", "General"),
    }
    if wanted in FORMATS:
        kind, style = kinds[wanted]
    else:
        kind, style = (column.kind if column.kind in ("number", "day", "moment") else "number"), wanted
    total: Total = (
        column.total if column.kind == kind else ("sum" if wanted in ("whole", "money", "number") else "none")
    )
    width = PICTURE_WIDTH if kind == "picture" else max(column.width, _kind_width(kind))
    mark = "," if profile.shape("decimal,") > profile.shape("decimal.") else "."
    return replace(column, kind=kind, format=style, total=total, width=width, decimal=mark)


# ── by the data ──────────────────────────────────────────────────────────────────────────────────


def inferred(field: str, profile: ColumnProfile, currency: str = "") -> Column:
    """The column as its cells and its name suggest (1)."""
    heading, words = heading_of(field), _words(field)
    base = Column(field, heading, width=_text_width(profile, heading))
    cells = profile.cells - profile.shape("blank")
    if not cells:
        return base

    def mostly(*shapes: str) -> bool:
        return profile.shape(*shapes) >= cells * _MOSTLY

    if mostly("picture"):
        return replace(base, kind="picture", width=PICTURE_WIDTH)
    if mostly("moment", "day") and profile.shape("moment"):
        zone = " (UTC)" if profile.shape("zone") else ""
        return replace(base, heading=heading + zone, kind="moment", format=MOMENT, width=_width(heading + zone, 17))
    if mostly("day", "slashed") and (not profile.shape("slashed") or max(profile.slashes) > 12):
        first = profile.slashes[0] > 12 if profile.shape("slashed") else None
        return replace(base, kind="day", format=DAY, width=_width(heading, 12), day_first=first)
    if mostly("flag"):
        return replace(base, kind="flag", width=_width(heading, 8), total="count")
    if mostly("number"):
        return _number_column(base, profile, words, currency)
    return replace(base, wraps=profile.longest > _WIDEST)


def _number_column(base: Column, profile: ColumnProfile, words: list[str], currency: str) -> Column:
    mark = "," if profile.shape("decimal,") > profile.shape("decimal.") else "."
    column = replace(base, kind="number", decimal=mark, width=_width(base.heading, max(10, profile.longest + 3)))
    whole = not profile.decimals
    is_year = whole and (profile.low or 0) >= 1900 and (profile.high or 0) <= 2100
    if (whole and _has(words, _NAMES)) or _has(words, _PLACES) or is_year:
        return replace(column, format="0" if whole else "General")
    if profile.shape("percent"):
        return replace(column, format="0.0%", total="average")
    total: Total = "average" if _has(words, _AVERAGED) else "sum"
    highlight: Highlight = "scale" if _has(words, _SCALED) else "none"
    is_money = bool(profile.units or _has(words, _MONEY_WORDS)) and (not whole or bool(profile.units))
    if is_money:
        style = _money(currency or "".join(profile.units[:1]) if len(profile.units) < 2 else "")
        if len(profile.units) > 1:  # several currencies have no sum
            total = "none"
    else:
        style = WHOLE if whole else _decimals(min(profile.decimals, 4))
    return replace(column, format=style, total=total, highlight=highlight)


def chart_templates(columns: Sequence[Column], profile: Profile) -> tuple[ChartTemplate, ...]:
    """Groups of the first column that has some, and months of the first day, with the first sum.

    Only money is summed up by month: of other things, such as a stock, such a sum means nothing.
    """
    sums = [one for one in columns if one.kind == "number" and one.total == "sum"]
    money = [one for one in sums if "0.00" in one.format]
    value = next((one.field for one in (*money, *sums)), "")
    found = []
    groups = [
        one for one in columns if one.kind in ("text", "flag") and _is_group(profile.columns.get(one.field), profile)
    ]
    if groups:
        found.append(ChartTemplate(by=groups[0].field, value=value))
    days = [one for one in columns if one.kind in ("day", "moment")]
    if days and profile.rows > 2:
        found.append(ChartTemplate(by=days[0].field, value=value if money else ""))
    return tuple(found)


def _is_group(column: ColumnProfile | None, profile: Profile) -> bool:
    if column is None or not 2 <= len(column.distinct) <= min(_MOST_GROUPS, MOST_DISTINCT):
        return False
    return len(column.distinct) <= max(3, profile.rows / 2) < profile.rows and column.longest <= _WIDEST


# ── names, formats, widths ───────────────────────────────────────────────────────────────────────


def heading_of(field: str) -> str:
    """`launchedAt` as people write it: Launched at. What has blanks or signs stays as it is."""
    if not re.fullmatch(r"[\w.]+", field) or (field.isupper() and len(field) > 1):
        return field
    words = _words(field)
    spelt = " ".join("ID" if word == "id" else "URL" if word == "url" else word for word in words)
    return spelt[:1].upper() + spelt[1:] if spelt else field


def _words(field: str) -> list[str]:
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", field)
    return [word.lower() for word in re.split(r"[\W_]+", parted) if word]


def _has(words: list[str], wanted: re.Pattern[str]) -> bool:
    return any(wanted.fullmatch(word) for word in words)


def _money(currency: str) -> str:
    if not currency:
        return MONEY
    sign = f'"{currency}"'.replace('""', '"')
    style = f"{sign}#,##0.00" if currency in "$£¥₹" else f"#,##0.00\u00a0{sign}"
    return f"{style};[Red]-{style}"


def _decimals(digits: int) -> str:
    style = f"#,##0.{'0' * digits}"
    return f"{style};[Red]-{style}"


def _kind_width(kind: Kind) -> float:
    return {"day": 12.0, "moment": 17.0, "number": 11.0}.get(kind, _NARROWEST)


def _longest_word(text: str) -> int:
    return max((len(word) for word in text.split()), default=0)


def _width(heading: str, least: float) -> float:
    """Room for a heading of two lines, with the button of its filter."""
    return max(_NARROWEST, least, min(_WIDEST, max(_longest_word(heading), len(heading) / 2) + 3.5))


def _text_width(profile: ColumnProfile, heading: str) -> float:
    usual = profile.characters / profile.cells if profile.cells else 0
    wanted = min(profile.longest, usual * 1.6 + 4) + 1.5
    return min(_WIDEST, _width(heading, wanted))
