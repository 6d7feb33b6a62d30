"""Components of a drawing: its marks (marks.py) and the rows of its schedules, with what its legend says of them.

1. A component with a number is counted once, however often its tag stands on the drawing. One without a number is
   counted as often as its code is drawn.
2. Only letters that the drawing's own legend knows (or custom, without one) make a designator. Doors are an exception:
   legends seldom explain them.
3. What stands in a title block is none: numbers of drawings look like designators.
4. A designator is kept as it is drawn. What a schedule's column only ticks has none: it is named by its door.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from penstock.systems.security_assistant.drawing.legend import (
    CUSTOM,
    DOOR_CODES,
    KNOWN_TYPES,
    Entry,
    abbreviations_of,
    door_letters,
    legend_of,
    page_legend,
    type_of,
)
from penstock.systems.security_assistant.drawing.marks import (
    CODE,
    NUMBER,
    Mark,
    Nearby,
    page_marks,
    page_runs,
    tag_key,
    tags_in,
    without_side,
)
from penstock.systems.security_assistant.drawing.page import Drawing, Page, Row, Table, TextRun, key_column
from penstock.systems.security_assistant.drawing.pdf import DrawingTooLarge

__all__ = ["AT_DOORS", "CUSTOM", "Component", "Components", "count_components", "legend_of", "type_of"]

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
    confidence: float = 1.0
    """Of whoever read its tag: 1 for the PDF's own text, less for a scan's."""


@dataclass(frozen=True, slots=True)
class Components:
    found: tuple[Component, ...]
    legend: dict[str, str] = field(default_factory=dict)
    stated: dict[str, int] = field(default_factory=dict)
    """Totals that the drawing itself states, by type."""
    legend_counts: dict[str, int] = field(default_factory=dict)
    """How many of each code the legend says there are."""

    @property
    def by_type(self) -> dict[str, int]:
        """The most frequent first."""
        counted = Counter(one.type for one in self.found)
        return dict(sorted(counted.items(), key=lambda pair: (-pair[1], pair[0])))

    def summary(self) -> dict[str, Any]:
        return {"total_components": len(self.found), "by_type": self.by_type}

    def form(self) -> dict[str, Any]:
        return {
            "legend": self.legend,
            "stated": self.stated,
            "legend_counts": self.legend_counts,
            "components": [asdict(one) for one in self.found],
        }

    @classmethod
    def of(cls, form: dict[str, Any]) -> Components:
        found = (Component(**{**one, "pages": tuple(one["pages"])}) for one in form["components"])
        return cls(tuple(found), form["legend"], form["stated"], form.get("legend_counts", {}))


@dataclass(slots=True)
class Sighting:
    """A component, and where it was seen."""

    code: str
    number: str
    tag: str
    type: str
    description: str
    plans: set[int] = field(default_factory=set)
    schedules: set[int] = field(default_factory=set)
    row: dict[str, str] = field(default_factory=dict)
    level: str = ""
    door: str = ""
    confidence: float = 1.0
    places: list[Mark] = field(default_factory=list)


class _Count:
    """The sightings of a drawing, by key; those without a number by key and place."""

    def __init__(self, drawing: Drawing) -> None:
        self.drawing = drawing
        self.legend = legend_of(drawing)
        self.meanings = {**(self.legend or CUSTOM), **abbreviations_of(drawing)}
        self.door_codes = DOOR_CODES | door_letters(self.legend)
        self.seen: dict[str, Sighting] = {}
        self.scheduled: dict[str, str] = {}  # number of a door in a schedule → its key

    def meaning(self, code: str) -> str:
        return self.meanings.get(code) or ("Door" if code in self.door_codes else "")

    def run(self) -> None:
        pages = [(page, *plan_marks(page)) for page in self.drawing.pages]
        for page, _, _ in pages:
            for table in page.tables:
                self._read_table(page, table)
        marks = [mark for _, found, _ in pages for mark in found]
        self._learn_doors(marks)
        for page, found, _ in pages:
            level = _level(page)
            for mark in found:
                self._see(mark, level)
        self._link_doors()
        self._drop_repeated_ticks()

    # ── marks ────────────────────────────────────────────────────────────────────────────────────

    def _learn_doors(self, marks: list[Mark]) -> None:
        """Which marks are doors though nothing says so: their numbers are those of devices, or of a schedule's rows."""
        devices = {
            mark.number
            for mark in marks
            if mark.code and mark.number and self.meaning(mark.code) and len(mark.number) > 1
        }
        devices |= set(self.scheduled)
        unknown = [mark for mark in marks if mark.number and mark.outline and not self.meaning(mark.code)]
        self.doors: set[int] = set()
        taken: set[str] = set()
        for found in sorted(_alike(unknown), key=lambda group: bool(group[0].code)):  # numbers alone first
            numbers = {mark.number for mark in found}
            shared = sum(mark.number in devices for mark in found)
            long = len(found) > 1 and not found[0].code and len(found[0].number) >= _LONG_NUMBER
            if found[0].code and len(numbers & taken) * 2 >= len(numbers):
                continue  # the doors of these numbers are known: this code is a device's that nothing explains
            if shared * 2 >= len(found) or (long and found[0].outline != "box"):
                self.doors |= {id(mark) for mark in found}
                taken |= numbers

    def _is_door(self, mark: Mark) -> bool:
        return id(mark) in self.doors

    def _see(self, mark: Mark, level: str) -> None:
        words = self.meaning(mark.code)
        if not words and mark.outline and mark.number and self._is_door(mark):
            words = "Door"
        if not words or (not mark.number and not self._is_bare(mark)):
            return
        kind = type_of(words)
        key = mark.key if mark.number else f"{mark.key}{mark.page}:{mark.x:.0f}:{mark.y:.0f}"
        if kind == "door":
            key = self.scheduled.get(mark.number, key) if not mark.code else key
        one = self.seen.setdefault(key, Sighting(mark.code, mark.number, mark.tag, kind, words))
        one.plans.add(mark.page)
        one.level = one.level or level
        one.confidence = min(one.confidence, mark.confidence)
        one.places.append(mark)

    def _is_bare(self, mark: Mark) -> bool:
        """A code without a number: a letter alone has an outline, and doors have numbers."""
        if type_of(self.meaning(mark.code)) == "door":
            return False
        return bool(mark.outline) or len(mark.code) > 1

    # ── schedules ────────────────────────────────────────────────────────────────────────────────

    def _read_table(self, page: Page, table: Table) -> None:
        kinds = {name: _column_type(name) for name in table.header}
        first = table.header[key_column(table.header) or 0]
        has_doors = kinds[first] == "door" or any(kind in AT_DOORS[1:] for kind in kinds.values())
        for row in table.rows:
            door = self._row_door(page, row, row.get(first, "")) if has_doors else ""
            for name in table.header:
                if name == first and door:
                    continue
                self._read_cell(page, row, name, kinds[name], door)

    def _row_door(self, page: Page, row: dict[str, str], text: str) -> str:
        """The key of the row's door, seen from now on; "" where the cell names none."""
        tags = tags_in(text)
        if len(tags) == 1 and type_of(self.meaning(tags[0][0]) or "door") == "door":
            code, number, tag = tags[0]
        elif NUMBER.fullmatch(text.strip()):
            code, number, tag = "", text.strip(), text.strip()
        else:
            return ""
        key = tag_key(code, number)
        one = self.seen.setdefault(key, Sighting(code, number, tag, "door", self.meaning(code) or "Door"))
        one.schedules.add(page.number)
        one.row = one.row or row
        self.scheduled.setdefault(number, key)
        return key

    def _read_cell(self, page: Page, row: dict[str, str], name: str, kind: str, door: str) -> None:
        text = row.get(name, "").strip()
        tags = [one for one in tags_in(text) if self.meaning(one[0]) or kind in AT_DOORS or _row_type(row)]
        if tags:
            for code, number, tag in tags:
                words = self.meaning(code) or (name.capitalize() if kind in AT_DOORS else _row_type(row))
                self._see_scheduled(
                    page, row, tag_key(code, number), Sighting(code, number, tag, type_of(words), words), door
                )
        elif door and kind in AT_DOORS[1:] and not _NOTHING.fullmatch(text):
            for at in range(_count_of(text)):
                code = text if CODE.fullmatch(text) and self.meaning(text) else ""
                words = self.meaning(code) or (text if type_of(text) in KNOWN_TYPES else name.capitalize())
                tag = code or " ".join(filter(None, (self.seen[door].tag, name, str(at + 1) if at else "")))
                key = f"{door}/{name}/{at}"
                self._see_scheduled(page, row, key, Sighting(code, "", tag, type_of(words), words), door)

    def _see_scheduled(self, page: Page, row: dict[str, str], key: str, new: Sighting, door: str) -> None:
        one = self.seen.setdefault(key, new)
        one.schedules.add(page.number)
        one.row = one.row or row
        one.door = one.door or (door if one.type in AT_DOORS else "")

    # ── doors ────────────────────────────────────────────────────────────────────────────────────

    def _link_doors(self) -> None:
        """What has the number of a door is at that door, where a code is numbered so. The rest is at the nearest."""
        doors = {one.number: key for key, one in self.seen.items() if one.type == "door"}
        keys = {id(place): key for key, one in self.seen.items() if one.type == "door" for place in one.places}
        by_page: dict[int, list[Mark]] = defaultdict(list)
        for one in self.seen.values():
            if one.type == "door":
                for place in one.places:
                    by_page[place.page].append(place)
        nearby = {page: Nearby(places) for page, places in by_page.items()}
        loose = [one for one in self.seen.values() if not one.door and one.type in AT_DOORS]
        counted = self._counted_codes(loose, doors, nearby)
        for one in loose:
            named = doors.get(one.number) or doors.get(without_side(one.number), "") if one.number else ""
            nearest = _nearest_door(one.places[0], nearby) if one.places else None
            if named and not (nearest is not None and one.code in counted):
                one.door = named
            elif nearest is not None:
                one.door = keys[id(nearest)]

    def _counted_codes(
        self, found: Iterable[Sighting], doors: dict[str, str], nearby: dict[int, Nearby[Mark]]
    ) -> set[str]:
        """Codes whose devices are counted through: that number 7 of them has the number of a door says nothing.

        Most of those that could be at the door of their number stand at another one.
        """
        votes: Counter[str] = Counter()
        for one in found:
            named = self.seen.get(doors.get(one.number, ""))
            nearest = _nearest_door(one.places[0], nearby) if one.places else None
            if named is None or nearest is None:
                continue
            place = one.places[0]
            distances = [math.dist((place.x, place.y), (to.x, to.y)) for to in named.places if to.page == place.page]
            if distances:
                away = math.dist((place.x, place.y), (nearest.x, nearest.y))
                votes[one.code] += 1 if min(distances) > _NOT_AT * away + place.size else -1
        return {code for code, count in votes.items() if count > 0}

    def _drop_repeated_ticks(self) -> None:
        """A tick in a schedule says that there is one of that type at the door; the plan may have drawn it."""
        drawn: dict[tuple[str, str], list[Sighting]] = defaultdict(list)
        for one in self.seen.values():
            if one.plans:
                drawn[one.door, one.type].append(one)
        for key, one in list(self.seen.items()):
            if "/" in key and not one.plans and drawn[one.door, one.type]:
                drawn[one.door, one.type].pop().schedules |= one.schedules
                del self.seen[key]


def _alike(marks: list[Mark]) -> Iterator[list[Mark]]:
    """Marks of one code, with short or with long numbers, in outlines of one kind and width (a scan's differ)."""
    group: list[Mark] = []
    kinds = {id(mark): (mark.code, mark.outline, len(mark.number) >= _LONG_NUMBER) for mark in marks}
    for mark in sorted(marks, key=lambda mark: (kinds[id(mark)], mark.width)):
        if group and kinds[id(mark)] == kinds[id(group[-1])] and mark.width < _AS_WIDE * group[-1].width:
            group.append(mark)
            continue
        if group:
            yield group
        group = [mark]
    if group:
        yield group


def plan_marks(page: Page) -> tuple[list[Mark], list[TextRun]]:
    """The marks of a page outside of its legends and tables, and the runs of these."""
    taken = [run for entry in page_legend(page) for run in entry.runs]
    taken += _table_runs(page)
    return page_marks(page, taken), taken


def _table_runs(page: Page) -> Iterator[TextRun]:
    bounds = [
        (page.rows[line].y, 0.6 * page.rows[line].size, table.left, table.right)
        for table in page.tables
        for line in table.lines
    ]
    if not bounds:
        return
    by_height: dict[int, list[tuple[float, float, float, float]]] = defaultdict(list)
    for bound in bounds:
        for step in (-1, 0, 1):
            by_height[int(bound[0] // _BAND) + step].append(bound)
    for run in page_runs(page):
        for y, half, left, right in by_height.get(int(run.y // _BAND), ()):
            if abs(run.y - y) <= half and left <= run.x <= right:
                yield run
                break


_BAND: Final = 20.0
_AS_WIDE: Final = 1.12
_LONG_NUMBER: Final = 3
_NOTHING: Final = re.compile(r"|[-–—./]+|n|no|none|n/?a|nil|0|nein|non", re.I)
_DOOR_REACH: Final = 22.0
"""How far a door's tag may be from what is at it, in heights of letters."""


_NOT_AT: Final = 2.0
"""What is twice as far from the door of its number as from the nearest one is not at it."""


def _column_type(name: str) -> str:
    """The type of component that a column has, or "" for a column of words."""
    kind = type_of(name)
    words = re.search(r"location|room|remark|comment|note|level|floor|description|hardware|type|raum|size|finish", name)
    return "" if words or kind not in KNOWN_TYPES else kind


def _row_type(row: dict[str, str]) -> str:
    """What a row of a table of devices says that its device is."""
    words = next((row[name] for name in row if re.search(r"type|description|device", name)), "")
    return words if type_of(words) in KNOWN_TYPES else ""


def _count_of(text: str) -> int:
    return min(int(text), 20) if text.isdecimal() and len(text) <= 2 else 1


def _nearest_door(mark: Mark, doors: dict[int, Nearby[Mark]]) -> Mark | None:
    if mark.page not in doors:
        return None
    reach = _DOOR_REACH * mark.size
    found = doors[mark.page].within(mark.x, mark.y, reach, reach)
    return min(found, key=lambda door: (door.x - mark.x) ** 2 + (door.y - mark.y) ** 2, default=None)


def count_components(drawing: Drawing) -> Components:
    """All components, in the order of type and number."""
    count = _Count(drawing)
    count.run()
    seen = count.seen
    if len(seen) > MOST_COMPONENTS:
        raise DrawingTooLarge(f"The drawing has {len(seen):,} components; {MOST_COMPONENTS:,} are the limit. Split it.")
    found = [_component(one, seen) for one in seen.values()]
    found.sort(key=lambda one: (one.type, _order(one.designator)))
    return Components(tuple(found), count.legend, _stated_counts(drawing), _legend_counts(drawing))


def _component(one: Sighting, seen: dict[str, Sighting]) -> Component:
    door = seen.get(one.door)
    row = one.row or (door.row if door else {})
    return Component(
        designator=one.tag,
        type=one.type,
        description=one.description,
        pages=tuple(sorted(one.plans | one.schedules)),
        door=door.tag if door else one.tag if one.type == "door" else "",
        location=_cell(row, "location", "room", "area", "description"),
        level=_cell(row, "level", "floor") or one.level or (door.level if door else ""),
        on_plan=bool(one.plans),
        in_schedule=bool(one.schedules),
        confidence=round(one.confidence, 3),
    )


def _level(page: Page) -> str:
    numbered = _LEVEL.search(page.title)
    if numbered is not None:
        return f"Level {numbered.group(1)}"
    named = _FLOOR.search(page.title)
    return "" if named is None else named.group().capitalize()


def _cell(row: dict[str, str], *names: str) -> str:
    return next((row[name] for name in names if row.get(name, "-") not in ("", "-")), "")


def _order(designator: str) -> tuple[str, list[int], str]:
    code = re.match(r"[^\d]*", designator)
    return code.group() if code else "", [int(part) for part in re.findall(r"\d+", designator)], designator


def _legend_counts(drawing: Drawing) -> dict[str, int]:
    """By code; where a legend counts, it counts at least half of its entries."""
    entries: list[Entry] = [entry for page in drawing.pages for entry in page_legend(page)]
    counted = {entry.code: entry.count for entry in entries if entry.count is not None}
    return counted if len(counted) * 2 >= len(entries) else {}


def _stated_counts(drawing: Drawing) -> dict[str, int]:
    rows: Iterator[Row] = (row for page in drawing.pages for row in page.rows)
    found = (_STATED.search(" ".join(cell.text.split())) for row in rows for cell in row.cells)
    return {type_of(one.group(1)): int(one.group(2)) for one in found if one is not None}
