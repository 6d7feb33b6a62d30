"""Pages of a PDF as PNG pictures, for models that see: drawn by PDFium in its own bounded process."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any, Final

from penstock.systems.security_assistant.drawing.pdf import BrokenDrawing
from penstock.systems.security_assistant.drawing.pdfium import PdfiumError, render_colours

LONGEST_SIDE: Final = 2_048
"""Pixels: endpoints make larger pictures smaller themselves, and every pixel is sent."""
_MOST_DPI: Final = 288
"""A small page is not blown up for nothing."""


def page_image(pdf: bytes, number: int, *, longest_side: int = LONGEST_SIDE) -> bytes:
    """Page `number` (from 1) as a PNG. Raises BrokenDrawing for what PDFium cannot read within its bounds."""
    try:
        if number < 1:
            raise PdfiumError("pages are counted from 1")
        return _png(*render_colours(pdf, number - 1, _MOST_DPI, longest_side))
    except PdfiumError as error:
        raise BrokenDrawing(
            f"Page {number} cannot be shown to the model ({error}). Export the drawing again, or give "
            "--no-model-images."
        ) from error


def data_url(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _png(width: int, height: int, channels: int, pixels: bytes) -> bytes:
    """A PNG of 8-bit RGB: a fourth channel is left out, as it holds nothing on a white page."""
    stride = width * channels
    lines = (pixels[at * stride : (at + 1) * stride] for at in range(height))
    if channels == 4:
        lines = (_without_fourth(line) for line in lines)
    kind = 0 if channels == 1 else 2
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + line for line in lines), 6)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def _without_fourth(line: bytes) -> bytes:
    kept = bytearray(len(line) // 4 * 3)
    kept[0::3], kept[1::3], kept[2::3] = line[0::4], line[1::4], line[2::4]
    return bytes(kept)


def _chunk(name: bytes, data: bytes) -> bytes:
    check: Any = zlib.crc32(name + data)
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", check)
