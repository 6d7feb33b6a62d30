"""Marks: what on a page looks like the tag of a device or of a door, whatever its code may mean.

1. A tag is a code and a number: in one text (`CR-101`, `CR 101`), one above the other or side by side in an outline, or
   a code in an outline with its number beside or below it. A code alone is a mark too; so is a number in an outline.
2. It stands alone or among other tags. What stands in a sentence, under a label of the title block, in a legend or in a
   table is no mark.
3. A number above a reference to a sheet is a section mark, and numbers in a line at the plan's edge are its grid.
4. What is drawn is kept: `tag` is the text as it stands there, with one blank between parts that stand apart.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, Generic, Protocol, TypeVar

from penstock.systems.security_assistant.drawing.page import Page, Shape, TextRun

LETTERS: Final = "A-ZÀ-ÖØ-Þ"
_PART: Final = r"[A-Z]?\d{1,4}[A-Za-z]?"
_SIDE: Final = r"(?:[-./_](?:IN|OUT|[A-Za-z]))?"
"""Of two devices at one door: `CR-101/A`, `CR-101-OUT`."""
_NUMBER_TEXT: Final = rf"{_PART}(?:[-./_]{_PART}){{0,3}}{_SIDE}"
CODE: Final = re.compile(rf"[{LETTERS}]{{1,6}}")
NUMBER: Final = re.compile(rf"#?({_NUMBER_TEXT})")
_WHOLE: Final = re.compile(rf"([{LETTERS}]{{1,6}})([-–. _:/#]{{0,3}})({_NUMBER_TEXT})")
_TAG: Final = re.compile(
    rf"(?<![\w.-])([{LETTERS}]{{1,6}})([-–._]?)(\d{{1,4}}[A-Za-z]?(?:[-._][A-Z]?\d{{1,4}}[A-Za-z]?){{0,3}}{_SIDE})(?![\w-]|\.\d)"
)
_MOST_WORDS: Final = 3
"""Beside tags in one text, as in `CR-12 (EXISTING)`; more are a sentence."""
_REFERENCE: Final = re.compile(
    r"\b(see|refer|dwg|drawing|sheet|detail|section|rev(ision)?|spec(ification)?|plan|scale|project|job|client|date|"
    r"drawn|checked|issue|to|with|page|zeichnung|blatt|plan-?nr|siehe|projekt)\b",
    re.I,
)
LABEL: Final = re.compile(
    r"(drawing|dwg|sheet|rev(ision)?|project|job|client|scale|date|drawn|checked|approved|title|plan-?nr|zeichnung|"
    r"blatt|projekt)\b",
    re.I,
)
_SHEET: Final = re.compile(r"[A-Z]{1,4}[-. ]?\d{1,4}(?:[.-]\d{1,3})?|-{1,3}")
_OUTLINE_HEIGHTS: Final = (1.05, 9.0)
"""Of what is around a tag, by the height of its letters."""
_MOST_IN_OUTLINE: Final = 4
_LETTER_PAIR: Final = re.compile(rf"[{LETTERS}]{{2}}")
_GRID_SAME: Final = 3.0
_LONGEST: Final = 100.0
"""Points from a text's middle to an outline that it runs through."""


@dataclass(frozen=True, slots=True)
class Mark:
    """`code` or `number` is empty where only the other is drawn. `outline` is "" for plain text."""

    code: str
    number: str
    tag: str
    x: float
    y: float
    size: float
    page: int
    outline: str = ""
    width: float = 0.0
    height: float = 0.0
    confidence: float = 1.0
    runs: tuple[TextRun, ...] = field(default=(), compare=False)

    @property
    def key(self) -> str:
        return tag_key(self.code, self.number)


def tag_key(code: str, number: str) -> str:
    """The same for `CR-101`, `CR 101` and `CR101`."""
    return f"{code.upper()}|{number.upper().replace('_', '-')}"


def without_side(number: str) -> str:
    """`101` of `101/A`, `101-OUT` and `101A`."""
    return re.sub(rf"{_SIDE[:-1]}$|(?<=\d)[A-Za-z]$", "", number)


def key_of(designator: str) -> str:
    """The key of a designator that somebody wrote."""
    whole = _WHOLE.fullmatch(designator.strip())
    if whole is not None:
        return tag_key(whole.group(1), whole.group(3))
    number = NUMBER.fullmatch(designator.strip())
    return tag_key("", number.group(1)) if number else tag_key(designator.strip(), "")


def page_runs(page: Page) -> Sequence[TextRun]:
    """The page's runs; of what an older version has kept, its cells."""
    if page.runs:
        return page.runs
    return [
        TextRun(cell.text, cell.x + 0.3 * row.size * len(cell.text), row.y, 0.6 * row.size * len(cell.text), row.size)
        for row in page.rows
        for cell in row.cells
    ]


def tags_in(text: str, *, read: bool = False) -> list[tuple[str, str, str]]:
    """Code, number and tag of each tag in a text that has tags and little else (2); `read` says that OCR read it."""
    whole = _WHOLE.fullmatch(_mended(text) if read else text)
    if whole is not None:
        code, between, number = whole.groups()
        return [] if _REFERENCE.fullmatch(code) else [(code, number, f"{code}{between}{number}")]
    found = list(_TAG.finditer(text))
    rest = _TAG.sub(" ", text)
    if not found or len(re.findall(r"\w+", rest)) > _MOST_WORDS or _REFERENCE.search(rest):
        return []
    return [(one.group(1), one.group(3), one.group()) for one in found]


def _mended(text: str) -> str:
    """What OCR takes for letters among digits: `CR-1O1`, `CR-I2`."""
    text = re.sub(r"(?<=[\d.-])[Oo](?=[\dOo]|$)|(?<=\d)[Oo]|\b[Oo](?=\d)", "0", text)
    return re.sub(r"(?<=[\d.-])[Il|](?=[\dIl|]|$)|(?<![A-Za-z])[Il|](?=\d)", "1", text)


def as_number(run: TextRun) -> str:
    text = _mended(run.text) if run.confidence < 1 else run.text
    found = NUMBER.fullmatch(text.strip())
    return found.group(1) if found else ""


def as_code(run: TextRun) -> str:
    found = CODE.fullmatch(run.text.strip(" #"))
    return found.group() if found else ""


class Placed(Protocol):
    @property
    def x(self) -> float: ...
    @property
    def y(self) -> float: ...


Thing = TypeVar("Thing", bound=Placed)


class Nearby(Generic[Thing]):
    """Runs or marks by their places. Of what is heaped up in one place, some only: each is compared with few."""

    _STEP: Final = 40.0
    _MOST: Final = 60
    """In a square of that many points: small print has thirty words in it."""

    def __init__(self, things: Iterable[Thing]) -> None:
        self._cells: dict[tuple[int, int], list[Thing]] = defaultdict(list)
        for one in things:
            cell = self._cells[int(one.x // self._STEP), int(one.y // self._STEP)]
            if len(cell) < self._MOST:
                cell.append(one)

    def within(self, x: float, y: float, across: float, up: float) -> Iterator[Thing]:
        """Those whose middle is in the box of that half width and half height."""
        step = self._STEP
        for column in range(int((x - across) // step), int((x + across) // step) + 1):
            for row in range(int((y - up) // step), int((y + up) // step) + 1):
                for run in self._cells.get((column, row), ()):
                    if abs(run.x - x) <= across and abs(run.y - y) <= up:
                        yield run


def page_marks(page: Page, taken: Iterable[TextRun] = ()) -> list[Mark]:
    """All marks of a page. `taken` are runs that are something else: a legend's, a table's."""
    used = {id(run) for run in taken}
    runs = [run for run in page_runs(page) if id(run) not in used]
    nearby = Nearby(runs)
    marks: list[Mark] = []
    for shape, inside in _outlined(page.shapes, nearby):
        mark, is_closed = _of_outline(page.number, shape, inside)
        if mark is not None or is_closed:
            used |= {id(run) for run in inside}
        if mark is not None:
            marks.append(mark)
    for run in runs:
        if id(run) not in used and not _under_label(run, nearby):
            marks += _of_text(page.number, run)
    marks = _side_by_side(marks)
    plain_codes = [mark for mark in marks if not mark.number]
    numbers = [run for run in runs if id(run) not in used and as_number(run)]
    paired = _with_numbers(plain_codes, numbers)
    return _without_grid([paired.get(id(mark), mark) for mark in marks])


def _side_by_side(marks: list[Mark]) -> list[Mark]:
    """A code in an outline that touches one with a number is one mark: a box with a line in its middle."""
    numbers = Nearby([mark for mark in marks if mark.outline and not mark.code])
    found: list[Mark] = []
    gone: set[int] = set()
    for mark in marks:
        if not (mark.outline and mark.code and not mark.number):
            found.append(mark)
            continue
        reach = mark.width + mark.height
        near = [
            one for one in numbers.within(mark.x, mark.y, reach, reach) if id(one) not in gone and _touch(mark, one)
        ]
        other = min(near, key=lambda one: math.dist((one.x, one.y), (mark.x, mark.y)), default=None)
        if other is None:
            found.append(mark)
            continue
        gone.add(id(other))
        sure = min(mark.confidence, other.confidence)
        tag = f"{mark.code} {other.number}"
        found.append(replace(mark, number=other.number, tag=tag, confidence=sure, runs=(*mark.runs, *other.runs)))
    return [mark for mark in found if id(mark) not in gone]


def _touch(code: Mark, number: Mark) -> bool:
    """Whether the number's outline begins where the code's ends, after it or below it."""
    along, up = code.runs[0].offset(number.runs[0].x, number.runs[0].y)
    turned = 45 < code.runs[0].angle % 180 < 135
    wide = [one.height if turned else one.width for one in (code, number)]
    high = [one.width if turned else one.height for one in (code, number)]
    slack = 0.5 * code.size
    beside = abs(up) < slack and 0 < along < sum(wide) / 2 + slack
    below = abs(along) < slack and 0 < -up < sum(high) / 2 + slack
    return beside or below


def _outlined(shapes: Iterable[Shape], nearby: Nearby[TextRun]) -> Iterator[tuple[Shape, list[TextRun]]]:
    """Each run with the smallest outline that holds it."""
    seen: set[int] = set()
    for shape in sorted(shapes, key=lambda shape: shape.width * shape.height):
        found = [
            run
            for run in nearby.within(shape.x, shape.y, shape.width / 2, shape.height / 2)
            if id(run) not in seen and shape.holds(run.x, run.y)
        ]
        if not 0 < len(found) <= _MOST_IN_OUTLINE:
            continue
        size = max(run.size for run in found)
        least, most = _OUTLINE_HEIGHTS
        if least * size < min(shape.width, shape.height) < most * size:
            seen |= {id(run) for run in found}
            yield shape, found


def _of_outline(page: int, shape: Shape, inside: list[TextRun]) -> tuple[Mark | None, bool]:
    """The mark in an outline, and whether its texts are spoken for without one (3)."""
    first = max(inside, key=lambda run: run.size)

    def order(run: TextRun) -> tuple[int, float]:
        along, up = first.offset(run.x, run.y)
        return -round(up / (0.6 * first.size)), along

    lines = sorted(inside, key=order)
    sure = min(run.confidence for run in inside)

    def mark(code: str, number: str, tag: str) -> Mark:
        return Mark(
            code,
            number,
            tag,
            shape.x,
            shape.y,
            first.size,
            page,
            shape.kind,
            shape.width,
            shape.height,
            sure,
            tuple(lines),
        )

    for run in lines:
        tags = tags_in(run.text.strip(), read=run.confidence < 1)
        if len(tags) == 1 and not (len(lines) > 1 and as_number(lines[0])):
            return mark(*tags[0]), True
    codes = [as_code(run) for run in lines]
    numbers = [as_number(run) for run in lines]
    if numbers[0]:
        if any(_SHEET.fullmatch(run.text.strip()) or as_code(run) for run in lines[1:]):
            return None, True
        return mark("", numbers[0], numbers[0]), True
    if not codes[0]:
        return None, False
    number = next((one for one in numbers if one), "")
    return mark(codes[0], number, f"{codes[0]} {number}".strip()), True


def _of_text(page: int, run: TextRun) -> Iterator[Mark]:
    text = run.text.strip()
    for code, number, tag in tags_in(text, read=run.confidence < 1):
        yield Mark(code, number, tag, run.x, run.y, run.size, page, confidence=run.confidence, runs=(run,))
    code = as_code(run)
    if code:
        yield Mark(code, "", code, run.x, run.y, run.size, page, confidence=run.confidence, runs=(run,))


def _under_label(run: TextRun, nearby: Nearby[TextRun]) -> bool:
    """Whether a label of the title block stands above the run or before it, and begins where it does."""
    reach = max(120.0, run.length)
    for other in nearby.within(run.x, run.y, reach, 3 * run.size):
        if other is run or not LABEL.match(other.text) or len(other.text.split()) > 2 or not other.upright:
            continue
        same_begin = abs((other.x - other.length / 2) - (run.x - run.length / 2)) < 2 * run.size
        before = abs(other.y - run.y) < 0.6 * run.size and other.x < run.x
        if before or (same_begin and run.y < other.y):
            return True
    return False


def _with_numbers(marks: list[Mark], numbers: Sequence[TextRun]) -> dict[int, Mark]:
    """Codes with the numbers that stand below or beside them, if at least half of a code's marks have one."""
    nearby = Nearby(numbers)
    pairs: list[tuple[float, int, Mark, TextRun]] = []
    for mark in marks:
        if not mark.code:
            continue
        wide, high = mark.width / 2, mark.height / 2
        turn = mark.runs[0]
        reach = max(wide, high, turn.length / 2) + 5 * mark.size
        for run in nearby.within(mark.x, mark.y, reach, reach):
            distance = _apart(mark, turn, run)
            if distance < math.inf:
                pairs.append((distance, id(mark), mark, run))
    found: dict[int, Mark] = {}
    used: set[int] = set()
    for _, name, mark, run in sorted(pairs, key=lambda pair: pair[:2]):
        if name in found or id(run) in used:
            continue
        used.add(id(run))
        number = as_number(run)
        sure = min(mark.confidence, run.confidence)
        found[name] = replace(mark, number=number, tag=f"{mark.code} {number}", confidence=sure, runs=(*mark.runs, run))
    all_of = Counter(mark.code for mark in marks)
    with_one = Counter(mark.code for mark in found.values())
    return {name: mark for name, mark in found.items() if with_one[mark.code] * 2 >= all_of[mark.code]}


def _apart(mark: Mark, turn: TextRun, run: TextRun) -> float:
    """How far a number is from the edge of a code's outline or text; infinite where it is not beside or below it."""
    if abs((run.angle - turn.angle + 180) % 360 - 180) > 12 or not 0.6 < run.size / mark.size < 1.6:
        return math.inf
    along, up = replace(turn, x=mark.x, y=mark.y).offset(run.x, run.y)
    half = (mark.width / 2) if mark.outline else turn.length / 2
    high = (mark.height / 2) if mark.outline else mark.size / 2
    beside = abs(along) - half - run.length / 2
    above = abs(up) - high - run.size / 2
    if abs(up) < 0.6 * mark.size and -0.3 * mark.size < beside < 1.6 * mark.size:
        return beside + (0.5 * mark.size if along < 0 else 0)
    if abs(along) < max(half, run.length / 2, mark.size) and -0.3 * mark.size < above < 1.2 * mark.size:
        return above + (0.5 * mark.size if up > 0 else 0)
    return math.inf


def _without_grid(marks: list[Mark]) -> list[Mark]:
    """Without the bubbles of the plan's grid (3): short, in one line, counted from one end to the other."""
    short = [
        mark for mark in marks if mark.outline and len(mark.code + mark.number) <= 2 and not (mark.code and mark.number)
    ]
    dropped: set[int] = set()
    for axis in ("x", "y"):
        lines: dict[int, list[Mark]] = defaultdict(list)
        for mark in short:
            lines[round(getattr(mark, axis) / _GRID_SAME)].append(mark)
        for line in lines.values():
            names = [mark.code or mark.number for mark in line]
            if len(set(names)) == len(names) >= 3 and _counts_up(line, "y" if axis == "x" else "x"):
                dropped |= {id(mark) for mark in line}
    return [mark for mark in marks if id(mark) not in dropped]


def _counts_up(line: list[Mark], axis: str) -> bool:
    names = [mark.code or mark.number for mark in sorted(line, key=lambda mark: float(getattr(mark, axis)))]
    values = [int(name) if name.isdigit() else ord(name[0]) * 100 + ord(name[-1]) for name in names]
    if any(name.startswith("0") for name in names):
        return False
    steps = {after - before for before, after in pairwise(values)}
    # A step of two is a letter that is left out: I and O are.
    return steps <= {1, 2} or steps <= {-1, -2} or steps <= {101, 202} or steps <= {-101, -202}


def unread_outlines(page: Page, marks: Sequence[Mark]) -> list[Shape]:
    """Outlines that are drawn as those of tags are, at least three times, and in which nothing was read.

    What looks like a tag and became no mark, as `CR)101`, is as good as nothing.
    """
    used = {id(run) for mark in marks for run in mark.runs}
    alike = Counter(
        (mark.outline, round(mark.width), round(mark.height)) for mark in marks if mark.outline and mark.code
    )
    nearby = Nearby(page_runs(page))
    boxes = {name for name, count in alike.items() if count >= 3}
    return [
        shape
        for shape in page.shapes
        if (shape.kind, round(shape.width), round(shape.height)) in boxes
        and not any(
            _is_in(run, shape) and (id(run) in used or not _is_like_a_tag(run.text))
            for run in nearby.within(shape.x, shape.y, _LONGEST, _LONGEST)
        )
    ]


def _is_like_a_tag(text: str) -> bool:
    letters = _LETTER_PAIR.search(text)
    return letters is not None and any(letter.isdigit() for letter in text[letters.end() :])


def _is_in(run: TextRun, shape: Shape) -> bool:
    """Whether a text stands in an outline, or runs through its middle: one of two boxes that share a text."""
    if abs(run.x - shape.x) <= shape.width / 2 and abs(run.y - shape.y) <= shape.height / 2:
        return True
    along, up = run.offset(shape.x, shape.y)
    return abs(along) <= run.length / 2 and abs(up) <= run.size / 2
