"""A drawing: what a PDF file has on its pages, as text with places, rows and tables.

1. A file that cannot be read is refused with what is wrong and what to do: not a PDF, broken, encrypted, without
   pages, too large. Nothing that pypdf or PDFium raises comes out of here.
2. Everything has a limit: bytes, pages, pieces of text, and what all of it unpacks to. What a page draws may be shared:
   five hundred pages can have one content, and a page can draw the same form a thousand times. So what is unpacked is
   counted each time it is read. pypdf bounds a single stream; this bounds their sum. Only then PDFium reads the file,
   in a process of its own, which is bounded too.
3. The same file gives the same drawing.
4. A page without text of its own that has pictures or lines is read as a picture (scans/), where that is installed.
"""

from __future__ import annotations

import io
import logging
import re
from collections import Counter
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.extras import extra
from penstock.files.keys import normalize
from penstock.systems.security_assistant.drawing.page import (
    Cell,
    Drawing,
    Page,
    Row,
    Shape,
    Table,
    TextRun,
    make_page,
    run_at,
)
from penstock.systems.security_assistant.drawing.pdfium import PdfiumError, TooManyPieces, read_pages
from penstock.systems.security_assistant.drawing.scans import scanned_page

__all__ = ["Cell", "Drawing", "Page", "Row", "Shape", "Table", "TextRun", "check_drawing", "read_drawing"]

BASE_BYTES: Final = 4 * 1024 * 1024
BYTES_PER_BYTE: Final = 40
"""Drawings unpack to three to ten times their size."""
MOST_BYTES: Final = 400 * 1024 * 1024


class TooMuchEffort(Exception):
    """The file asks for more reading than its size explains."""


class TooDeep(Exception):
    """What is drawn opens more than it closes: a parser would follow it down."""


_DRAWS: Final = re.compile(rb"/([^\s/\[\]<>(){}%]{1,200})\s{1,20}Do(?![A-Za-z])")
_OPENS: Final = re.compile(rb"\[|\(|<<|BI")
_NESTED: Final = re.compile(rb"(?:(?:\[|\(|<<|BI)\s{0,4})+")
_DEEPEST: Final = 200
"""Brackets that open, one after the other: no program writes that many."""


class Effort:
    """What is left to spend on a file of `file_bytes`."""

    def __init__(self, file_bytes: int) -> None:
        self.limit = min(MOST_BYTES, BASE_BYTES + BYTES_PER_BYTE * file_bytes)
        self._left = self.limit
        self._known: dict[int, tuple[Any, int]] = {}  # with the form, so that no other gets its id

    def spend(self, count: int) -> None:
        """Raises TooMuchEffort, and does so from then on."""
        self._left -= count
        if self._left < 0:
            raise TooMuchEffort

    def count_page(self, page: Any) -> None:
        """Counts what the page draws, its forms each time they are drawn. Raises TooMuchEffort, TooDeep."""
        contents = page.get_contents()
        if contents is not None:
            self.spend(self._cost(contents.get_data(), page.get("/Resources")))

    def _cost(self, drawn: bytes, resources: Any) -> int:
        """The bytes that are read when this is drawn. Forms that draw each other are told by RecursionError."""
        if any(len(_OPENS.findall(run)) >= _DEEPEST for run in _NESTED.findall(drawn)):
            raise TooDeep
        found = _resolve(resources)
        named = _resolve(found.get("/XObject")) if found is not None else None
        times = Counter(_name(one.group(1)) for one in _DRAWS.finditer(drawn)) if named else {}
        cost = len(drawn)
        for name, count in times.items():
            form = _resolve((named or {}).get(name))
            if form is None or form.get("/Subtype") != "/Form":
                continue
            if id(form) not in self._known:
                content = form.get_data()
                self.spend(len(content))
                self._known[id(form)] = (form, self._cost(content, form.get("/Resources", resources)))
            cost += count * self._known[id(form)][1]
        return cost


def _name(written: bytes) -> str:
    """`A#42` is `AB`."""
    plain = re.sub(rb"#([0-9A-Fa-f]{2})", lambda found: bytes([int(found.group(1), 16)]), written)
    return "/" + plain.decode("utf-8", "replace")


def _resolve(one: Any) -> Any:
    """The dictionary that is meant, or None: a broken file has anything anywhere."""
    found = None if one is None else one.get_object()
    return found if hasattr(found, "items") else None


DRAWING_BYTES: Final = 50 * 1024 * 1024
"""A set of drawings of a hospital has about half of it."""
MOST_PAGES: Final = 500
MOST_PIECES: Final = 200_000
_HEADER: Final = b"%PDF-"
_HEADER_WITHIN: Final = 1024
_FEW_LETTERS: Final = 80
"""A page with a picture on it that has less text than this is read as a picture: such text is a stamp or a title."""
_MOSTLY: Final = 0.5
"""Of a page under a picture, for it to be a scan."""
_MANY_PATHS: Final = 200
"""A page with more lines and no text has its text drawn as lines."""


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


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def check_drawing(data: bytes) -> int:
    """The number of its pages, if it can be read at all. Raises BadDrawing: no more than a glance at the file."""
    return len(_open_reader(data).pages)


def read_drawing(data: bytes) -> Drawing:
    """Raises BadDrawing."""
    reader = _open_reader(data)
    effort = Effort(len(data))
    try:
        for page in reader.pages:
            effort.count_page(page)
        found = read_pages(data, MOST_PIECES)
        if len(found) != len(reader.pages):
            raise BrokenDrawing("The PDF is broken: its pages cannot be counted. Export it again.")
        pages = tuple(_page(number, page, data) for number, page in enumerate(found, start=1))
    except (PenstockError, MemoryError):
        raise
    except TooMuchEffort:
        raise DrawingTooLarge(
            f"The drawing unpacks to more than {effort.limit:,} bytes, which is too much for a file of {len(data):,}. "
            "Split it, or export it again."
        ) from None
    except TooManyPieces:
        raise DrawingTooLarge(f"A page has more than {MOST_PIECES:,} pieces of text. Split the drawing.") from None
    except PdfiumError as error:
        raise BrokenDrawing(f"The PDF cannot be read: {error}. Export it again.") from None
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


def _page(number: int, found: dict[str, Any], data: bytes) -> Page:
    runs = [run_at(normalize("NFKC", text).strip(), *rest) for text, *rest in found["runs"]]  # no ligatures
    shapes = [Shape(*shape) for shape in found["shapes"]]
    size, images = tuple(found["size"]), found["images"]
    read_by = "text"
    if _is_picture(found):
        seen = scanned_page.read_page(data, number - 1, size)
        read_by = "nobody" if seen is None else "ocr"
        if seen is not None:
            runs, shapes = seen.runs, seen.shapes
    return make_page(number, size, [run for run in runs if run.text], shapes, images, read_by)


def _is_picture(found: dict[str, Any]) -> bool:
    """Whether what is to be read on the page is drawn, and not written (4)."""
    letters = sum(len(run[0]) for run in found["runs"])
    if letters == 0:
        return bool(found["images"]) or found["paths"] > _MANY_PATHS
    return letters < _FEW_LETTERS and found["covered"] > _MOSTLY


def _kind(pages: tuple[Page, ...]) -> str:
    scanned = sum(1 for page in pages if page.read_by != "text")
    with_text = sum(1 for page in pages if page.read_by == "text" and page.rows)
    if with_text == 0:
        return "scanned" if scanned else "blank"
    return "mixed" if scanned else "vector"
