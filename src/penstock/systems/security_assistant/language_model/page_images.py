"""Pages of a PDF as PNG pictures, for models that see."""

from __future__ import annotations

import base64
import struct
import threading
import zlib
from typing import Any, Final

from penstock.extras import extra
from penstock.systems.security_assistant.drawing.pdf import BrokenDrawing

LONGEST_SIDE: Final = 2_048
"""Pixels: endpoints make larger pictures smaller themselves, and every pixel is sent."""
_MOST_SCALE: Final = 4.0
"""288 dpi: a small page is not blown up for nothing."""
_LOCK: Final = threading.Lock()
"""PDFium is not made for several threads."""


def page_image(pdf: bytes, number: int, *, longest_side: int = LONGEST_SIDE) -> bytes:
    """Page `number` (from 1) as a PNG. Raises BrokenDrawing for what PDFium cannot read."""
    with extra("models", "Showing pages to a model"):
        import pypdfium2

    with _LOCK:
        try:
            document = pypdfium2.PdfDocument(pdf)
            try:
                page = document[number - 1]
                scale = min(_MOST_SCALE, longest_side / max(*page.get_size(), 1.0))
                bitmap = page.render(scale=scale, rev_byteorder=True)
                return _png(bitmap.width, bitmap.height, bitmap.stride, bitmap.n_channels, bytes(bitmap.buffer))
            finally:
                document.close()
        except (pypdfium2.PdfiumError, IndexError, ValueError) as error:
            raise BrokenDrawing(
                f"Page {number} cannot be shown to the model ({type(error).__name__}). Export the drawing again, or "
                "give --no-model-images."
            ) from error


def data_url(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _png(width: int, height: int, stride: int, channels: int, pixels: bytes) -> bytes:
    """A PNG of 8-bit RGB: a fourth channel is left out, as it holds nothing on a white page."""
    lines = (pixels[at * stride : at * stride + width * channels] for at in range(height))
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
