"""What a spreadsheet can hold, and what it must not take for something else.

1. Text is text: what begins with = + - @ (or a tab or return before them) is stored as text and marked so, and stays
   text when somebody edits it.
2. A cell has at most 32,767 UTF-16 units; longer text is cut, and ends with "…".
3. Characters that XML cannot hold are replaced.
4. A sheet's name has 1 to 31 of them, none of [ ] : * ? / \\, no ' at its ends, and no other sheet has it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

CELL_UNITS: Final = 32_767
NAME_UNITS: Final = 31
_FORMULA: Final = re.compile(r"\s*[=+\-@]")
_ILLEGAL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_NOT_IN_NAMES: Final = re.compile(r"[\[\]:*?/\\\x00-\x1f]")


def looks_like_formula(text: str) -> bool:
    return _FORMULA.match(text) is not None


def cell_text(text: str) -> str:
    """The text as a cell can hold it (2, 3)."""
    return _cut(_ILLEGAL.sub("\ufffd", text), CELL_UNITS)


def sheet_name(wanted: str, taken: Collection[str] = ()) -> str:
    """A name like the wanted one that a sheet may have (4)."""
    name = _ILLEGAL.sub("", _NOT_IN_NAMES.sub("-", wanted)).strip().strip("'") or "Sheet"
    others = {one.casefold() for one in taken} | {"history"}  # Excel keeps that one for itself
    found, number = _cut(name, NAME_UNITS), 1
    while found.casefold() in others:
        number += 1
        ending = f" ({number})"
        found = _cut(name, NAME_UNITS - len(ending)) + ending
    return found


def _cut(text: str, units: int) -> str:
    if len(text) * 2 <= units or _units(text) <= units:
        return text
    kept = text.encode("utf-16-le")[: (units - 1) * 2]
    return kept.decode("utf-16-le", "ignore") + "…"  # half a pair is left out


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2
