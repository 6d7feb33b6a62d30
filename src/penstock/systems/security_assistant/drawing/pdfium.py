"""PDFium's reading of a file, from a process of its own (pdfium_child.py) that is bounded in memory and in time.

What goes wrong there, a crash too, is a `PdfiumError` here and nothing more.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import orjson

from penstock.extras import require

MEMORY_BYTES: Final = 3 * 1024**3
"""Of address space. A page of a hundred thousand paths takes a tenth of it."""
SECONDS: Final = 120
"""For the whole file. Five hundred usual pages take a third of it."""
_CHILD: Final = str(Path(__file__).with_name("pdfium_child.py"))
_TOO_MANY_PIECES: Final = 3


class PdfiumError(Exception):
    """PDFium could not read the file within its bounds."""


class TooManyPieces(PdfiumError):
    pass


def read_pages(data: bytes, most_pieces: int) -> list[dict[str, Any]]:
    """What pdfium_child.py promises of `read`."""
    found: list[dict[str, Any]] = orjson.loads(_run(data, "read", str(most_pieces)))
    return found


def render_page(data: bytes, number: int, dpi: float, most_pixels: int) -> tuple[int, int, bytes]:
    """Width, height and the grey pixels of a page, which is counted from 0."""
    width, height, _, pixels = _rendered(data, number, dpi, most_pixels, 0)
    return width, height, pixels


def render_colours(data: bytes, number: int, dpi: float, longest_side: int) -> tuple[int, int, int, bytes]:
    """Width, height, channels (1: grey, 3 or 4: red, green, blue first) and the pixels of a page, counted from 0."""
    return _rendered(data, number, dpi, longest_side * longest_side, longest_side)


def _rendered(data: bytes, number: int, dpi: float, most_pixels: int, side: int) -> tuple[int, int, int, bytes]:
    head, _, pixels = _run(data, "render", str(number), str(dpi), str(most_pixels), str(side)).partition(b"\n")
    width, height, channels = (int(one) for one in head.split())
    return width, height, channels, pixels


def _run(data: bytes, *arguments: str) -> bytes:
    require("pypdfium2", extra="systems", what="The security assistant")
    command = [sys.executable, "-P", _CHILD, *arguments, str(MEMORY_BYTES), str(SECONDS)]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=2 * SECONDS, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise PdfiumError(f"it was not read within {2 * SECONDS} seconds") from None
    if done.returncode == _TOO_MANY_PIECES:
        raise TooManyPieces
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1]
        raise PdfiumError(said[:200] or f"its reader ended with {done.returncode}")
    return done.stdout
