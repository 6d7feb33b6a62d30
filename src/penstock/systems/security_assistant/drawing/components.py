"""Components of a drawing, counted by their designators (`CR-1.04` is a card reader).

1. A component is counted once, however often its designator stands on the drawing.
2. Only letters that the drawing's own legend knows (or custom, without one) make a designator.
3. What stands in a title block is none: numbers of drawings look like designators.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, Final

from penstock.files.errors import BadKey
from penstock.files.keys import normalize_name
from penstock.systems.security_assistant.drawing.pdf import Drawing, DrawingTooLarge, Page, Row

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
        return normalize_name(description)
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


_DESIGNATOR: Final = re.compile(r"(?<![A-Za-z0-9.-])([A-Z]{1,5})[-.]?(\d{1,4}(?:\.\d{1,4})?[A-Z]?)(?![A-Za-z0-9-])")
_TITLE_BLOCK: Final = re.compile(r"(drawing|dwg|sheet|rev(ision)?|project|job|client|scale|date|drawn|checked)\b", re.I)
# In a text with single blanks. It begins where a run of words begins, and looks first for the sign and the number at
# the run's end, so that each run is read once, however often it says "total".
_STATED: Final = re.compile(
    r"(?<![a-z ])(?=[a-z ]*+[:=] ?\d)[a-z ]*?total (?:number of )?([a-z ]+?)s? ?[:=] ?(\d{1,6})", re.I
)
_LEVEL: Final = re.compile(r"\b(?:level|floor|storey)\s+([A-Z]?\d{1,2}|[A-Z])\b", re.I)
_FLOOR: Final = re.compile(
    r"\b(?:(?:lower ground|ground|first|second|third|fourth|fifth|top)\s+(?:floor|level)|basement|mezzanine|roof)\b",
    re.I,
)
MOST_COMPONENTS: Final = 20_000
AT_DOORS: Final = (
    *("door", "reader", "keypad", "exit_button", "magnetic_lock", "electric_strike", "electric_lock"),
    *("door_contact", "break_glass", "intercom"),
)
"""Types of what belongs to a door, in the order of a schedule's columns. Cameras and detectors are numbered apart."""


@dataclass(frozen=True, slots=True)
class Component:
    """`door` is the designator of the door that it belongs to, "" for what belongs to none."""

    designator: str
    type: str
    description: str
    pages: tuple[int, ...]
    door: str = ""
    location: str = ""
    level: str = ""
    on_plan: bool = False
    in_schedule: bool = False


@dataclass(frozen=True, slots=True)
class Components:
    found: tuple[Component, ...]
    legend: dict[str, str] = field(default_factory=dict)
    stated: dict[str, int] = field(default_factory=dict)
    """Totals that the drawing itself states, by type."""

    @property
    def by_type(self) -> dict[str, int]:
        """The most frequent first."""
        counted = Counter(one.type for one in self.found)
        return dict(sorted(counted.items(), key=lambda pair: (-pair[1], pair[0])))

    def summary(self) -> dict[str, Any]:
        return {"total_components": len(self.found), "by_type": self.by_type}

    def form(self) -> dict[str, Any]:
        return {"legend": self.legend, "stated": self.stated, "components": [asdict(one) for one in self.found]}

    @classmethod
    def of(cls, form: dict[str, Any]) -> Components:
        found = (Component(**{**one, "pages": tuple(one["pages"])}) for one in form["components"])
        return cls(tuple(found), form["legend"], form["stated"])


@dataclass(slots=True)
class _Seen:
    code: str
    number: str
    plans: set[int] = field(default_factory=set)
    schedules: set[int] = field(default_factory=set)
    row: dict[str, str] = field(default_factory=dict)
    level: str = ""


def count_components(drawing: Drawing) -> Components:
    """All components, in the order of type and number."""
    legend = legend_of(drawing)
    meanings = legend or CUSTOM
    seen: dict[str, _Seen] = {}
    for page in drawing.pages:
        _look(page, meanings, seen)
    doors = {one.number: name for name, one in seen.items() if type_of(meanings[one.code]) == "door"}
    rows = {number: seen[name] for number, name in doors.items()}
    found = [_component(name, one, meanings, doors, rows) for name, one in seen.items()]
    found.sort(key=lambda one: (one.type, _order(one.designator)))
    if len(found) > MOST_COMPONENTS:
        raise DrawingTooLarge(
            f"The drawing has {len(found):,} components; {MOST_COMPONENTS:,} are the limit. Split it."
        )
    return Components(tuple(found), legend, _stated_counts(drawing))


def _look(page: Page, meanings: dict[str, str], seen: dict[str, _Seen]) -> None:
    level = _level(page)
    scheduled = {line for table in page.tables for line in table.lines}
    for line, text in _texts(page):
        for name, code, number in _designators(text, meanings):
            one = seen.setdefault(name, _Seen(code, number))
            if line in scheduled:
                one.schedules.add(page.number)
            else:
                one.plans.add(page.number)
                one.level = one.level or level
    for table in page.tables:
        for row in table.rows:
            for text in row.values():
                for name, _, _ in _designators(text, meanings):
                    if name in seen:  # what stands only in a title block is not (3)
                        seen[name].row = seen[name].row or row


def _texts(page: Page) -> Iterator[tuple[int, str]]:
    """The texts of a page but for its title block (3), each with the number of its row."""
    for line, row in enumerate(page.rows):
        for at, cell in enumerate(row.cells):
            label = row.cells[at - 1].text if at else ""
            if not _TITLE_BLOCK.match(cell.text) and not (_TITLE_BLOCK.match(label) and len(label.split()) <= 2):
                yield line, cell.text


def _designators(text: str, meanings: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    for found in _DESIGNATOR.finditer(text):
        code, number = found.groups()
        if code in meanings:
            yield f"{code}-{number}", code, number


def _level(page: Page) -> str:
    numbered = _LEVEL.search(page.title)
    if numbered is not None:
        return f"Level {numbered.group(1)}"
    named = _FLOOR.search(page.title)
    return "" if named is None else named.group().capitalize()


def _component(
    name: str, one: _Seen, meanings: dict[str, str], doors: dict[str, str], rows: dict[str, _Seen]
) -> Component:
    kind = type_of(meanings[one.code])
    # What has the number of a door is at that door: so drawings are numbered.
    door = doors.get(one.number, "") if kind in AT_DOORS else ""
    row = one.row or (rows[one.number].row if door else {})
    level = _cell(row, "level", "floor") or one.level or (rows[one.number].level if door else "")
    return Component(
        designator=name,
        type=kind,
        description=meanings[one.code],
        pages=tuple(sorted(one.plans | one.schedules)),
        door=door,
        location=_cell(row, "location", "room", "area", "description"),
        level=level,
        on_plan=bool(one.plans),
        in_schedule=bool(one.schedules),
    )


def _cell(row: dict[str, str], *names: str) -> str:
    return next((row[name] for name in names if row.get(name, "-") not in ("", "-")), "")


def _order(designator: str) -> tuple[str, list[int], str]:
    code, _, number = designator.partition("-")
    return code, [int(part) for part in re.findall(r"\d+", number)], number


def _stated_counts(drawing: Drawing) -> dict[str, int]:
    rows: Iterator[Row] = (row for page in drawing.pages for row in page.rows)
    found = (_STATED.search(" ".join(cell.text.split())) for row in rows for cell in row.cells)
    return {type_of(one.group(1)): int(one.group(2)) for one in found if one is not None}
