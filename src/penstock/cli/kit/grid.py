"""Rows in columns that fit a terminal.

1. No line is wider than the terminal. A cell that was cut ends with `…`; columns that have no room are named.
2. A character counts as wide as a terminal draws it: CJK and emoji two, combining marks none.
3. Columns are measured on the first rows; later rows keep them, so that rows can be printed as they come.
"""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Sequence

from penstock.cli.kit.output import one_line

_GAP = "  "
_NARROWEST = 6
_WIDEST = 60
CUT = "…"


def text_width(text: str) -> int:
    """The columns of a terminal that the text takes (2)."""
    if text.isascii():
        return len(text)
    return sum(_width(character) for character in text)


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def fit(text: str, width: int, *, right: bool = False) -> str:
    """The text in exactly `width` columns: padded, or cut with a mark."""
    taken = text_width(text)
    if taken > width:
        kept, used = "", 0
        for character in text:
            if used + _width(character) > width - 1:
                break
            kept, used = kept + character, used + _width(character)
        text, taken = kept + CUT, used + 1
    pad = " " * (width - taken)
    return pad + text if right else text + pad


class Grid:
    """Columns that were measured on sample rows."""

    def __init__(
        self,
        names: Sequence[str],
        sample: Sequence[Sequence[str]],
        *,
        width: int | None = None,
        numbers: Sequence[bool] = (),
    ) -> None:
        width = width or shutil.get_terminal_size((100, 24)).columns
        clean = [[one_line(cell) for cell in row] for row in sample]
        titles = [one_line(name) for name in names]
        wanted = [
            min(_WIDEST, max([text_width(title), *(text_width(row[at]) for row in clean)]))
            for at, title in enumerate(titles)
        ]
        self.widths = _share(wanted, max(width - 1, _NARROWEST))
        self.shown = len(self.widths)
        self.hidden = list(names[self.shown :])
        self._titles = titles
        self._right = [*numbers, *([False] * (len(titles) - len(numbers)))]

    def header(self) -> str:
        rule = _GAP.join("─" * width for width in self.widths)
        return f"{self._line(self._titles)}\n{rule}"

    def row(self, cells: Sequence[str]) -> str:
        return self._line([one_line(cell) for cell in cells])

    def _line(self, cells: Sequence[str]) -> str:
        each = zip(cells, self.widths, self._right, strict=False)
        return _GAP.join(fit(cell, width, right=right) for cell, width, right in each).rstrip()


def _share(wanted: Sequence[int], width: int) -> list[int]:
    """The widths of as many leading columns as have room: wide ones give way first (1)."""
    count = len(wanted)
    while count > 1 and sum(min(one, _NARROWEST) + len(_GAP) for one in wanted[:count]) - len(_GAP) > width:
        count -= 1
    room = width - len(_GAP) * (count - 1)
    widths = list(wanted[:count])
    while sum(widths) > room and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    return widths
