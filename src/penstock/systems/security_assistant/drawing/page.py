"""The pages of a drawing as they were read: runs of text with places, outlines around them, rows and tables.

1. A run is text that stands in one line, at any angle, with the confidence of whoever read it: 1 for a PDF's own text.
2. Rows and tables are made of the runs that stand upright. A page most of whose text is turned is turned back first.
3. What is kept as JSON by an older version is read: it has rows and tables, and no runs.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, Final

_SAME_LINE_EMS: Final = 0.5
_GAP_EMS: Final = 0.45
"""Runs of a line that are farther apart are cells of their own; a space has about 0.28."""
_COLUMN_LETTERS: Final = 24
MOST_LETTERS: Final = 500
"""Of one run: a line of notes has two hundred."""
_UPRIGHT_DEGREES: Final = 5
_CAPITAL_EMS: Final = 0.36
"""From the baseline to the middle of a capital letter."""


@dataclass(frozen=True, slots=True)
class TextRun:
    """x and y are its middle, `length` how far it goes on, `angle` in degrees, counter-clockwise."""

    text: str
    x: float
    y: float
    length: float
    size: float
    angle: float = 0.0
    confidence: float = 1.0

    @property
    def upright(self) -> bool:
        return abs((self.angle + 180) % 360 - 180) <= _UPRIGHT_DEGREES

    def offset(self, x: float, y: float) -> tuple[float, float]:
        """How far a place is along the run and above it, from its middle."""
        cos, sin = math.cos(math.radians(self.angle)), math.sin(math.radians(self.angle))
        return (x - self.x) * cos + (y - self.y) * sin, (y - self.y) * cos - (x - self.x) * sin


@dataclass(frozen=True, slots=True)
class Shape:
    """A closed outline: `round`, `box` (upright) or `polygon`; its middle, width and height."""

    kind: str
    x: float
    y: float
    width: float
    height: float

    def holds(self, x: float, y: float) -> bool:
        u, v = abs(x - self.x) * 2 / self.width, abs(y - self.y) * 2 / self.height
        return u <= 1 and v <= 1 and (self.kind == "box" or u * u + v * v <= 1.3)


@dataclass(frozen=True, slots=True)
class Cell:
    """Text and where it begins."""

    x: float
    text: str
    end: float = 0.0
    """Where it ends; 0 where that is not known."""


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of one line of a page, from left to right."""

    y: float
    size: float
    cells: tuple[Cell, ...]

    @property
    def text(self) -> str:
        return "  ".join(cell.text for cell in self.cells)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a header, each by the header's words; "" where a row has nothing there."""

    header: tuple[str, ...]
    rows: tuple[dict[str, str], ...]
    lines: tuple[int, ...] = ()
    """Which of the page's rows those are."""
    left: float = -1e9
    right: float = 1e9


@dataclass(frozen=True, slots=True)
class Page:
    """`read_by` is `text` for a PDF's own text, `ocr` for a picture that was read, `nobody` for one that was not."""

    number: int
    rows: tuple[Row, ...]
    tables: tuple[Table, ...] = ()
    images: int = 0
    runs: tuple[TextRun, ...] = ()
    shapes: tuple[Shape, ...] = ()
    read_by: str = "text"

    @property
    def title(self) -> str:
        """What it is called: its largest line, of several the highest."""
        return max(self.rows, key=lambda row: row.size).cells[0].text if self.rows else ""


@dataclass(frozen=True, slots=True)
class Drawing:
    pages: tuple[Page, ...]
    kind: str
    """`vector` if its pages have text, `scanned` if they have pictures only, `mixed`, or `blank`."""

    def form(self) -> dict[str, Any]:
        """As JSON, for a checkpoint."""
        return {"kind": self.kind, "pages": [_page_form(page) for page in self.pages]}

    @classmethod
    def of(cls, form: dict[str, Any]) -> Drawing:
        return cls(tuple(_page_of(page) for page in form["pages"]), form["kind"])


def run_at(text: str, x: float, y: float, length: float, size: float, angle: float, confidence: float = 1.0) -> TextRun:
    """A run of which the begin of its baseline is known."""
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    half, up = length / 2, size * _CAPITAL_EMS
    return TextRun(text, x + half * cos - up * sin, y + half * sin + up * cos, length, size, angle, confidence)


def make_page(
    number: int,
    size: tuple[float, float],
    runs: Sequence[TextRun],
    shapes: Sequence[Shape],
    images: int = 0,
    read_by: str = "text",
) -> Page:
    """The page with its rows and tables (2)."""
    turn = _main_angle(runs)
    if turn:
        runs, shapes = _turn(turn, size, runs, shapes)
    joined = tuple(_join(runs))
    rows = tuple(_rows([run for run in joined if run.upright]))
    return Page(number, rows, tuple(_tables(rows)), images, joined, tuple(shapes), read_by)


def _main_angle(runs: Iterable[TextRun]) -> int:
    """0, 90, 180 or 270: how most of a page's letters stand. Sentences say it, tags along walls do not."""
    letters: Counter[int] = Counter()
    for run in runs:
        letters[round(run.angle / 90) % 4 * 90] += len(run.text) * (3 if " " in run.text else 1)
    found, most = max(letters.items(), key=lambda pair: pair[1], default=(0, 0))
    return found if most > 2 * letters[0] else 0


def _turn(
    turn: int, size: tuple[float, float], runs: Iterable[TextRun], shapes: Iterable[Shape]
) -> tuple[list[TextRun], list[Shape]]:
    wide, high = size
    cos, sin = {90: (0, -1), 180: (-1, 0), 270: (0, 1)}[turn]
    right, up = {90: (0.0, wide), 180: (wide, high), 270: (high, 0.0)}[turn]

    def place(x: float, y: float) -> tuple[float, float]:
        return x * cos - y * sin + right, x * sin + y * cos + up

    turned = []
    for run in runs:
        x, y = place(run.x, run.y)
        turned.append(replace(run, x=x, y=y, angle=(run.angle - turn) % 360))
    outlines = []
    for shape in shapes:
        x, y = place(shape.x, shape.y)
        across = turn % 180 != 0
        size_now = (shape.height, shape.width) if across else (shape.width, shape.height)
        outlines.append(Shape(shape.kind, x, y, *size_now))
    return turned, outlines


def _join(runs: Iterable[TextRun]) -> Iterator[TextRun]:
    """Runs of one angle that touch are one; the same text at the same place is there once."""
    lines: dict[int, list[tuple[float, float, TextRun]]] = {}
    for run in runs:
        # A place along and across the direction of all runs of that angle.
        turn = round(run.angle / 5) % 72 * 5
        along, across = TextRun("", 0, 0, 0, 0, turn).offset(run.x, run.y)
        lines.setdefault(turn, []).append((across, along, run))
    for found in lines.values():
        for line in _lines(found):
            last: TextRun | None = None
            for _, _, run in sorted(line, key=lambda entry: entry[1] - entry[2].length / 2):
                after = None if last is None else _joined(last, run)
                if after is None and last is not None:
                    yield last
                last = after or run
            if last is not None:
                yield last


def _lines(found: list[tuple[float, float, TextRun]]) -> Iterator[list[tuple[float, float, TextRun]]]:
    line: list[tuple[float, float, TextRun]] = []
    for entry in sorted(found, key=lambda entry: (-entry[0], entry[1])):
        if line and line[0][0] - entry[0] > _CAPITAL_EMS * min(line[0][2].size, entry[2].size):
            yield line
            line = []
        line.append(entry)
    if line:
        yield line


def _joined(left: TextRun, right: TextRun) -> TextRun | None:
    along, across = left.offset(right.x, right.y)
    gap = along - (left.length + right.length) / 2
    size = max(left.size, right.size)
    if left.text == right.text and math.hypot(along, across) < 0.3 * size:
        return left
    if len(left.text) + len(right.text) > MOST_LETTERS:
        return None
    if not -0.2 * size < gap < _GAP_EMS * min(left.size, right.size) or not 0.75 < left.size / right.size < 1.33:
        return None
    blank = " " if gap > 0.12 * size else ""
    length = left.length + right.length + max(gap, 0.0)
    shift = (length - left.length) / 2
    cos, sin = math.cos(math.radians(left.angle)), math.sin(math.radians(left.angle))
    return TextRun(
        left.text + blank + right.text,
        left.x + shift * cos,
        left.y + shift * sin,
        length,
        size,
        left.angle,
        min(left.confidence, right.confidence),
    )


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────


def _rows(runs: list[TextRun]) -> Iterator[Row]:
    """Runs of one height are a row."""
    line: list[TextRun] = []
    for run in sorted(runs, key=lambda run: (-run.y, run.x)):
        if line and line[0].y - run.y > _SAME_LINE_EMS * min(line[0].size, run.size):
            yield _row(line)
            line = []
        line.append(run)
    if line:
        yield _row(line)


def _row(line: list[TextRun]) -> Row:
    cells = (Cell(run.x - run.length / 2, run.text, run.x + run.length / 2) for run in line)
    return Row(line[0].y, line[0].size, tuple(sorted(cells, key=lambda cell: cell.x)))


# ── tables ───────────────────────────────────────────────────────────────────────────────────────

_HEADER_WORDS: Final = re.compile(
    r"(?<![a-z])(doors?|tag|ref(erence)?|no\.?|number|mark|location|level|floor|readers?|exit|rex|rte|locks?|strike|"
    r"contacts?|switch|sensor|button|break glass|cameras?|type|description|remarks|comments|notes|hardware|keypad|"
    r"intercom|designator|device|area|qty|dps|dc|cr|tür|leser|schloss|kontakt|taster|porte|lecteur)(?![a-z])",
    re.I,
)
_ROOM: Final = re.compile(r"room(?: (?:name|no\.?|number))?|raum", re.I)
"""Names of rooms stand in a line on a plan, and have such words too."""
_KEY: Final = re.compile(
    r"(?<![a-z])(doors?(?! (?:contact|sensor|switch|pos))|tag|ref(erence)?|mark|opening|designator|device|item|tür|"
    r"porte)(?![a-z])",
    re.I,
)
_FEWEST_COLUMNS: Final = 3
_ROW_HEIGHTS: Final = 4
"""A row that is farther below the last is not in its table."""


def _tables(rows: tuple[Row, ...]) -> Iterator[Table]:
    at = 0
    while at < len(rows):
        header = _header(rows[at])
        if header is None:
            at += 1
            continue
        left, right = _edges(header)
        below = list(_below(rows, at, header, left, right))
        if below:
            names = tuple(cell.text.casefold() for cell in header.cells)
            found = tuple(_by_column(header, row) for _, row in below)
            yield Table(names, found, tuple(line for line, _ in below), left, right)
        at = below[-1][0] + 1 if below else at + 1


def _header(row: Row) -> Row | None:
    """The cells of a row that are headings of columns; a note beside the table is none."""
    named = [at for at, cell in enumerate(row.cells) if _is_heading(cell.text)]
    if len(named) < _FEWEST_COLUMNS or len({row.cells[at].text for at in named}) < len(named):
        return None  # the same code again and again is a row of devices
    cells = row.cells[named[0] : named[-1] + 1]
    if len(named) * 2 <= len(cells) or key_column([cell.text for cell in cells]) is None:
        return None
    return Row(row.y, row.size, cells)


def _is_heading(text: str) -> bool:
    if len(text) > _COLUMN_LETTERS or any(map(str.isdigit, text)):
        return False
    return _HEADER_WORDS.search(text) is not None or _ROOM.fullmatch(text) is not None


def key_column(header: Sequence[str]) -> int | None:
    """The column that says which door or device a row is of: the first that names doors, or else tags."""
    keys = [at for at, name in enumerate(header) if _KEY.search(name)]
    return next((at for at in keys if "door" in header[at].casefold()), keys[0] if keys else None)


def _edges(header: Row) -> tuple[float, float]:
    """How far to both sides the cells of a table may stand: half a column out."""
    begins = [cell.x for cell in header.cells]
    half = (begins[-1] - begins[0]) / (len(begins) - 1) / 2
    return begins[0] - half, max(begins[-1], header.cells[-1].end) + 2 * half


def _below(rows: tuple[Row, ...], at: int, header: Row, left: float, right: float) -> Iterator[tuple[int, Row]]:
    """The rows under a header whose key column has a number; a line that only goes on is passed over."""
    last = rows[at]
    columns = _Columns(header)
    key = key_column([cell.text for cell in header.cells])
    for below in range(at + 1, len(rows)):  # a copy of the rest for each header would be quadratic
        row = rows[below]
        if last.y - row.y > _ROW_HEIGHTS * last.size:
            return
        cells = tuple(cell for cell in row.cells if left <= cell.x <= right)
        if not cells:
            continue
        is_keyed = any(columns.of(cell) == key and any(map(str.isdigit, cell.text)) for cell in cells)
        if not is_keyed and _header(Row(row.y, row.size, cells)) is not None:
            return
        if is_keyed and len(cells) >= 2:
            last = Row(row.y, row.size, cells)
            yield below, last


def _by_column(header: Row, row: Row) -> dict[str, str]:
    names = [cell.text.casefold() for cell in header.cells]
    cells: dict[str, list[str]] = {name: [] for name in names}
    columns = _Columns(header)
    for cell in row.cells:
        cells[names[columns.of(cell)]].append(cell.text)
    return {name: " ".join(texts).strip() for name, texts in cells.items()}


class _Columns:
    """The columns of a header. A cell is in the one whose begin or whose middle is nearest to its own."""

    def __init__(self, header: Row) -> None:
        self._begins = [cell.x for cell in header.cells]  # from left to right
        ended = all(cell.end for cell in header.cells)
        self._middles = [(cell.x + cell.end) / 2 for cell in header.cells] if ended else []

    def of(self, cell: Cell) -> int:
        by_begin = _nearest(self._begins, cell.x)
        if not cell.end or not self._middles:
            return by_begin
        middle = (cell.x + cell.end) / 2
        by_middle = _nearest(self._middles, middle)
        nearer = abs(self._middles[by_middle] - middle) < abs(self._begins[by_begin] - cell.x)
        return by_middle if nearer else by_begin


def _nearest(places: list[float], x: float) -> int:
    """The first of those that are nearest to x, of places in order."""
    right = bisect_left(places, x)
    if right == len(places) or (right and x - places[right - 1] <= places[right] - x):
        return bisect_left(places, places[right - 1])
    return right


# ── as JSON ──────────────────────────────────────────────────────────────────────────────────────


def _page_form(page: Page) -> dict[str, Any]:
    return {
        "number": page.number,
        "images": page.images,
        "read_by": page.read_by,
        "runs": [astuple(run) for run in page.runs],
        "shapes": [astuple(shape) for shape in page.shapes],
        "rows": [[row.y, row.size, [[cell.x, cell.text, cell.end] for cell in row.cells]] for row in page.rows],
        "tables": [
            {"header": table.header, "rows": table.rows, "lines": table.lines, "edges": [table.left, table.right]}
            for table in page.tables
        ],
    }


def _page_of(form: dict[str, Any]) -> Page:
    rows = tuple(Row(y, size, tuple(Cell(*cell) for cell in cells)) for y, size, cells in form["rows"])
    tables = tuple(
        Table(tuple(one["header"]), tuple(one["rows"]), tuple(one["lines"]), *one.get("edges", ()))
        for one in form["tables"]
    )
    runs = tuple(TextRun(*run) for run in form.get("runs", ()))
    shapes = tuple(Shape(*shape) for shape in form.get("shapes", ()))
    return Page(form["number"], rows, tables, form["images"], runs, shapes, form.get("read_by", "text"))
