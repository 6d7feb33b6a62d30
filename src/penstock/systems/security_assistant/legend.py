"""What the letters of designators mean: by the drawing's own legend, and by custom where it has none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from penstock.files.errors import BadKey
from penstock.files.keys import normalized
from penstock.systems.security_assistant.drawing import Drawing, Page, Row

CUSTOM: Final = {
    "D": "Door",
    "DR": "Door",
    "CR": "Card reader",
    "RD": "Reader",
    "EB": "Exit button",
    "REX": "Request to exit",
    "CAM": "Camera",
    "CCTV": "Camera",
    "ES": "Electric strike",
    "EL": "Electric lock",
    "ML": "Magnetic lock",
    "DC": "Door contact",
    "PIR": "Motion detector",
    "KP": "Keypad",
    "BG": "Break glass unit",
    "IC": "Intercom",
    "SIR": "Siren",
    "ACP": "Access control panel",
}
"""What is usual, for drawings without a legend."""

# The first that is found in a description decides, so the narrower ones stand first.
_TYPES: Final = (
    ("door contact", "door_contact"),
    ("door controller", "panel"),
    ("reader", "reader"),
    ("exit button", "exit_button"),
    ("request to exit", "exit_button"),
    ("push to exit", "exit_button"),
    ("exit push", "exit_button"),
    ("break glass", "break_glass"),
    ("emergency release", "break_glass"),
    ("camera", "camera"),
    ("strike", "electric_strike"),
    ("magnetic", "magnetic_lock"),
    ("maglock", "magnetic_lock"),
    ("electric lock", "electric_lock"),
    ("motion", "motion_detector"),
    ("contact", "door_contact"),
    ("keypad", "keypad"),
    ("intercom", "intercom"),
    ("siren", "siren"),
    ("sounder", "siren"),
    ("panel", "panel"),
    ("door", "door"),
    ("gate", "door"),
)
_TITLE: Final = re.compile(r"(symbol )?legend|symbols|key to symbols|abbreviations", re.I)
_CODE: Final = re.compile(r"[A-Z]{1,5}")
_ONE_CELL: Final = re.compile(r"([A-Z]{1,5})(?:\s*[-–:=]\s*(\S.*)|\s+([A-Z][a-z].*))")
"""With a sign between, or with words that are not in capitals: headings are."""
_MOST_ENTRIES: Final = 200
_MOST_TITLES: Final = 20
"""Of legends on one page: under each, all rows of the page may be looked at."""
_ROW_HEIGHTS: Final = 5


def type_of(description: str) -> str:
    """`Card reader` → `reader`; a description that is not known is its own type."""
    words = description.casefold()
    for part, kind in _TYPES:
        if part in words:
            return kind
    try:
        return normalized(description)
    except BadKey:
        return "unknown"


def legend_of(drawing: Drawing) -> dict[str, str]:
    """Letters → description, as the drawing's own legends say; empty where it has none."""
    found: dict[str, str] = {}
    for page in drawing.pages:
        found |= {code: words for code, words in _entries(page) if code not in found}
    return found


def _entries(page: Page) -> list[tuple[str, str]]:
    entries: list[tuple[str, str]] = []
    titles = ((at, cell) for at, row in enumerate(page.rows) for cell in row.cells if _is_title(cell.text))
    for at, cell in islice(titles, _MOST_TITLES):
        entries += _under(islice(page.rows, at + 1, None), page.rows[at], cell.x)
    return entries


def _is_title(text: str) -> bool:
    return _TITLE.fullmatch(text.strip(" :")) is not None


def _under(rows: Iterator[Row], title: Row, x: float) -> list[tuple[str, str]]:
    """The entries under a title: a code and words, at its left edge, until a gap."""
    found: list[tuple[str, str]] = []
    last = title.y
    for row in rows:
        if len(found) == _MOST_ENTRIES or last - row.y > _ROW_HEIGHTS * title.size:
            break
        entry = _entry(row, x - title.size)
        if entry is not None:
            found.append(entry)
            last = row.y
    return found


def _entry(row: Row, left: float) -> tuple[str, str] | None:
    cells = [cell.text for cell in row.cells if cell.x >= left]
    if len(cells) >= 2 and _CODE.fullmatch(cells[0]):
        return cells[0], cells[1]
    one = _ONE_CELL.fullmatch(cells[0]) if cells else None
    return None if one is None else (one.group(1), one.group(2) or one.group(3))
