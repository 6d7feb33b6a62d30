"""A drawing: what a PDF file has on its pages, as text with places, rows and tables.

1. A file that cannot be read is refused with what is wrong and what to do: not a PDF, broken, encrypted, without
   pages, too large. Nothing that pypdf raises comes out of here.
2. Everything has a limit: bytes, pages, pieces of text, and what all of it unpacks to. What a page draws may be shared:
   five hundred pages can have one content, and a page can draw the same form a thousand times. So what is unpacked is
   counted each time it is read. pypdf bounds a single stream; this bounds their sum.
3. The same file gives the same drawing.
"""

from __future__ import annotations

import io
import logging
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.extras import extra
from penstock.files.keys import normalize

BASE_BYTES: Final = 4 * 1024 * 1024
BYTES_PER_BYTE: Final = 40
"""Drawings unpack to three to ten times their size."""
MOST_BYTES: Final = 400 * 1024 * 1024


class TooMuchEffort(Exception):
    """The file asks for more reading than its size explains."""


class Effort:
    """What is left to spend on a file of `file_bytes`."""

    def __init__(self, file_bytes: int) -> None:
        self.limit = min(MOST_BYTES, BASE_BYTES + BYTES_PER_BYTE * file_bytes)
        self._left = self.limit
        self._forms: dict[str, int] = {}
        self._known: dict[int, tuple[Any, int]] = {}  # with the form, so that no other gets its id

    def spend(self, count: int) -> None:
        """Raises TooMuchEffort, and does so from then on."""
        self._left -= count
        if self._left < 0:
            raise TooMuchEffort

    def open_page(self, page: Any) -> bytes:
        """What the page draws, counted; its forms are known from now on."""
        contents = page.get_contents()
        drawn: bytes = b"" if contents is None else contents.get_data()
        self.spend(len(drawn))
        self._learn_forms(page.get("/Resources"))
        return drawn

    def before_operator(self, operator: bytes, operands: Any, *_: Any) -> None:
        """pypdf's `visitor_operand_before`: a form is counted each time it is drawn, before it is read.

        What is raised inside of a form pypdf swallows; the next operator outside raises again.
        """
        if operator == b"Do" and operands:
            self.spend(self._forms.get(str(operands[0]), 0))
        elif self._left < 0:
            raise TooMuchEffort

    def _learn_forms(self, resources: Any) -> None:
        """By name: of several forms of one name, the largest counts."""
        left = [resources]
        while left:
            found = _resolve(left.pop())
            named = _resolve(found.get("/XObject")) if found is not None else None
            for name, reference in (named or {}).items():
                form = _resolve(reference)
                if form is None or form.get("/Subtype") != "/Form":
                    continue
                if id(form) not in self._known:
                    self._known[id(form)] = (form, len(form.get_data()))
                    self.spend(self._known[id(form)][1])
                    left.append(form.get("/Resources"))
                self._forms[str(name)] = max(self._forms.get(str(name), 0), self._known[id(form)][1])


def _resolve(one: Any) -> Any:
    """The dictionary that is meant, or None: a broken file has anything anywhere."""
    found = None if one is None else one.get_object()
    return found if hasattr(found, "items") else None


DRAWING_BYTES: Final = 50 * 1024 * 1024
"""A set of drawings of a hospital has about half of it."""
MOST_PAGES: Final = 500
MOST_PIECES: Final = 200_000
_SAME_LINE_EMS: Final = 0.5
_GAP_EMS: Final = 0.45
"""Pieces of a line that are farther apart are cells of their own; a space has about 0.28."""
_NARROW: Final = frozenset("fijlrtI.,:;'|!()[] -")
_WIDE: Final = frozenset("mwMW@%")
_HEADER: Final = b"%PDF-"
_HEADER_WITHIN: Final = 1024
_COLUMN_LETTERS: Final = 24
_INLINE_IMAGE: Final = re.compile(rb"(?<![A-Za-z])BI\s")
_IMAGE_DATA: Final = re.compile(rb"\s(?=ID\s)")
_MOST_KEY_BYTES: Final = 500


class BadDrawing(PenstockError, ValueError):
    """A file that no schedule can be made of; `status` is what HTTP says of it."""

    status = 422


class NotPdf(BadDrawing):
    status = 400


class DrawingTooLarge(BadDrawing):
    status = 413


class BrokenDrawing(BadDrawing):
    pass


class EncryptedDrawing(BadDrawing):
    pass


class EmptyDrawing(BadDrawing):
    pass


@dataclass(frozen=True, slots=True)
class Cell:
    """Text and where it begins."""

    x: float
    text: str


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


@dataclass(frozen=True, slots=True)
class Page:
    number: int
    rows: tuple[Row, ...]
    tables: tuple[Table, ...] = ()
    images: int = 0

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


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Piece:
    x: float
    y: float
    size: float
    text: str


@dataclass(slots=True)
class _Pieces:
    """What the visitor of a page has seen."""

    found: list[_Piece] = field(default_factory=list)

    def see(self, text: str, matrix: Any, text_matrix: Any, font: Any, size: Any) -> None:
        words = normalize("NFKC", text).strip()  # ligatures are letters again
        if not words:
            return
        if len(self.found) >= MOST_PIECES:
            raise DrawingTooLarge(f"A page has more than {MOST_PIECES:,} pieces of text. Split the drawing.")
        a, b, c, d, e, f = (float(one) for one in matrix)
        x, y = float(text_matrix[4]), float(text_matrix[5])
        scale = abs(d * float(text_matrix[3])) or 1.0
        self.found.append(_Piece(a * x + c * y + e, b * x + d * y + f, float(size or 1) * scale, words))


def check_drawing(data: bytes) -> int:
    """The number of its pages, if it can be read at all. Raises BadDrawing: no more than a glance at the file."""
    return len(_open_reader(data).pages)


def read_drawing(data: bytes) -> Drawing:
    """Raises BadDrawing."""
    reader = _open_reader(data)
    effort = Effort(len(data))
    try:
        pages = tuple(_page(number, page, effort) for number, page in enumerate(reader.pages, start=1))
    except BadDrawing:
        raise
    except TooMuchEffort:
        raise DrawingTooLarge(
            f"The drawing unpacks to more than {effort.limit:,} bytes, which is too much for a file of {len(data):,}. "
            "Split it, or export it again."
        ) from None
    except Exception as error:  # pypdf raises what it meets: KeyError, RecursionError, zlib.error, …
        raise BrokenDrawing(f"The PDF is broken: {_error_text(error)}. Export it again.") from error
    return Drawing(pages, _kind(pages))


def _open_reader(data: bytes) -> Any:
    if len(data) > DRAWING_BYTES:
        raise DrawingTooLarge(
            f"The drawing has {len(data):,} bytes; {DRAWING_BYTES:,} are the limit. Split it, or leave pictures out."
        )
    if _HEADER not in data[:_HEADER_WITHIN]:
        raise NotPdf("The file is empty. Send a PDF." if not data else "This is no PDF file. Send a PDF.")
    with extra("systems", "The security assistant"):
        from pypdf import PdfReader  # a tenth of a second, which other commands need not pay

    logging.getLogger("pypdf").setLevel(logging.ERROR)
    try:
        reader = PdfReader(io.BytesIO(data))
        encrypted = reader.is_encrypted
        count = 0 if encrypted else len(reader.pages)
    except Exception as error:
        raise BrokenDrawing(f"The PDF is broken: {_error_text(error)}. Export it again.") from error
    if encrypted:
        raise EncryptedDrawing("The PDF is encrypted. Save it without a password.")
    if count == 0:
        raise EmptyDrawing("The PDF has no pages. Export it again.")
    if count > MOST_PAGES:
        raise DrawingTooLarge(f"The drawing has {count:,} pages; {MOST_PAGES} are the limit. Split it.")
    return reader


def _error_text(error: Exception) -> str:
    text = str(error).strip().rstrip(".")
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def _page(number: int, page: Any, effort: Effort) -> Page:
    pieces = _Pieces()
    drawn = effort.open_page(page)
    page.extract_text(visitor_operand_before=effort.before_operator, visitor_text=pieces.see)
    rows = tuple(_rows(pieces.found))
    return Page(number, rows, tuple(_tables(rows)), _images(page, drawn))


def _images(page: Any, drawn: bytes) -> int:
    resources = page.get("/Resources")
    found: Any = resources.get_object().get("/XObject") if resources is not None else None
    forms = [one.get_object() for one in found.get_object().values()] if found is not None else []
    named = sum(1 for one in forms if one.get("/Subtype") == "/Image")
    return named + _inline_images(drawn)


def _inline_images(drawn: bytes) -> int:
    """How often `BI`, up to `_MOST_KEY_BYTES` of keys and values, and `ID` begin a picture within what is drawn."""
    data = (found.start() for found in _IMAGE_DATA.finditer(drawn))
    count = end = 0
    begins = next(data, len(drawn))
    for image in _INLINE_IMAGE.finditer(drawn):
        while begins <= image.end() and begins < len(drawn):
            begins = next(data, len(drawn))
        # One that begins within the picture before is a part of that.
        if image.start() >= end and image.end() < begins <= min(image.end() + _MOST_KEY_BYTES, len(drawn) - 1):
            count += 1
            end = begins + len(b" ID ")
    return count


def _rows(pieces: list[_Piece]) -> Iterator[Row]:
    """Pieces of one height are a row; in it, those that touch are one cell."""
    line: list[_Piece] = []
    for piece in sorted(pieces, key=lambda piece: (-piece.y, piece.x)):
        if line and line[0].y - piece.y > _SAME_LINE_EMS * min(line[0].size, piece.size):
            yield _row(line)
            line = []
        line.append(piece)
    if line:
        yield _row(line)


def _row(line: list[_Piece]) -> Row:
    cells: list[tuple[float, list[str]]] = []
    end = 0.0
    for piece in sorted(line, key=lambda piece: piece.x):
        if cells and piece.x - end < _GAP_EMS * piece.size:
            cells[-1][1].append(piece.text)
        else:
            cells.append((piece.x, [piece.text]))
        end = piece.x + _width_ems(piece.text) * piece.size
    return Row(line[0].y, line[0].size, tuple(Cell(x, " ".join(texts)) for x, texts in cells))


def _width_ems(text: str) -> float:
    """About how wide it is: the fonts of drawings are much alike, and their widths are not always told."""
    return sum(map(_letter_ems, text))


def _letter_ems(letter: str) -> float:
    if letter in _NARROW:
        return 0.28
    if letter in _WIDE:
        return 0.85
    return 0.67 if letter.isupper() else 0.53


# ── tables ───────────────────────────────────────────────────────────────────────────────────────

_HEADER_WORDS: Final = re.compile(
    r"(door|tag|ref(erence)?|no\.?|number|location|level|floor|room|reader|exit|rex|lock|contact|"
    r"break glass|camera|type|description|remarks|hardware|keypad|designator|device|area|qty)\b",
    re.I,
)
_FEWEST_COLUMNS: Final = 3
_ROW_HEIGHTS: Final = 4
"""A row that is farther below the last is not in its table."""


def _tables(rows: tuple[Row, ...]) -> Iterator[Table]:
    at = 0
    while at < len(rows):
        header = rows[at]
        if not _is_header(header):
            at += 1
            continue
        below = _below(rows, at)
        if below:
            names = tuple(cell.text.casefold() for cell in header.cells)
            lines = tuple(range(at + 1, at + 1 + len(below)))
            yield Table(names, tuple(_by_column(header, row) for row in below), lines)
        at += len(below) + 1


def _is_header(row: Row) -> bool:
    words = sum(1 for cell in row.cells if len(cell.text) <= _COLUMN_LETTERS and _HEADER_WORDS.match(cell.text))
    return len(row.cells) >= _FEWEST_COLUMNS and words * 2 > len(row.cells)


def _below(rows: tuple[Row, ...], at: int) -> list[Row]:
    found: list[Row] = []
    last = rows[at]
    for below in range(at + 1, len(rows)):  # a copy of the rest for each header would be quadratic
        row = rows[below]
        if last.y - row.y > _ROW_HEIGHTS * last.size or len(row.cells) * 2 < len(rows[at].cells) or _is_header(row):
            break
        found.append(row)
        last = row
    return found


def _by_column(header: Row, row: Row) -> dict[str, str]:
    """Each cell goes to the column whose beginning is nearest; of two, to the left one."""
    names = [cell.text.casefold() for cell in header.cells]
    begins = [cell.x for cell in header.cells]  # from left to right
    cells: dict[str, list[str]] = {name: [] for name in names}
    for cell in row.cells:
        cells[names[_nearest(begins, cell.x)]].append(cell.text)
    return {name: " ".join(texts).strip() for name, texts in cells.items()}


def _nearest(begins: list[float], x: float) -> int:
    """The first of those that are nearest to x, of places in order."""
    right = bisect_left(begins, x)
    if right == len(begins) or (right and x - begins[right - 1] <= begins[right] - x):
        return bisect_left(begins, begins[right - 1])
    return right


def _kind(pages: tuple[Page, ...]) -> str:
    with_text = sum(1 for page in pages if page.rows)
    scanned = sum(1 for page in pages if not page.rows and page.images)
    if with_text == 0:
        return "scanned" if scanned else "blank"
    return "mixed" if scanned else "vector"


# ── as JSON ──────────────────────────────────────────────────────────────────────────────────────


def _page_form(page: Page) -> dict[str, Any]:
    return {
        "number": page.number,
        "images": page.images,
        "rows": [[row.y, row.size, [[cell.x, cell.text] for cell in row.cells]] for row in page.rows],
        "tables": [
            {"header": list(table.header), "rows": list(table.rows), "lines": list(table.lines)}
            for table in page.tables
        ],
    }


def _page_of(form: dict[str, Any]) -> Page:
    rows = tuple(Row(y, size, tuple(Cell(x, text) for x, text in cells)) for y, size, cells in form["rows"])
    tables = tuple(Table(tuple(one["header"]), tuple(one["rows"]), tuple(one["lines"])) for one in form["tables"])
    return Page(form["number"], rows, tables, form["images"])
