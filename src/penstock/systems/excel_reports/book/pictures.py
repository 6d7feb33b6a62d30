"""Pictures, fitted: turned as the camera was held, made small, and never stretched.

Pictures come from strangers: only common formats are read, and only so many pixels.
"""

from __future__ import annotations

import io
import struct
import warnings
from dataclasses import dataclass
from typing import Final

from penstock.extras import extra
from penstock.systems.excel_reports.sources.errors import BadData

BOX_PIXELS: Final = 64
"""The square on the sheet that a picture is fitted into."""
_SHARP: Final = 2
"""Pixels of the file for each of the sheet: enough for a screen of high density, and for paper."""
_MOST_PIXELS: Final = 64_000_000
"""Of a picture as it comes: more are a mistake, or an attack on memory."""
_FORMATS: Final = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF")
_PLAIN_MODES: Final = ("1", "L", "RGB")


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG or JPEG file, and its size on the sheet in pixels."""

    data: bytes
    width: int
    height: int

    @property
    def scale(self) -> float:
        """What its pixels are multiplied with, so that it fits into the box; never enlarged."""
        return min(1.0, BOX_PIXELS / self.width, BOX_PIXELS / self.height)


def fitted(data: bytes) -> Picture:
    """A small picture like this one. Raises BadData for what is no picture, or too large a one."""
    with extra("systems", "A picture in a report"):
        from PIL import Image, ImageOps
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of damaged metadata, which are not used
            with Image.open(io.BytesIO(data), formats=_FORMATS) as opened:
                if opened.width * opened.height > _MOST_PIXELS:
                    raise BadData(f"it has {opened.width:,} × {opened.height:,} pixels, which are too many")
                opened.draft("RGB", (BOX_PIXELS * _SHARP * 2, BOX_PIXELS * _SHARP * 2))
                image = ImageOps.exif_transpose(opened)
                image.thumbnail((BOX_PIXELS * _SHARP, BOX_PIXELS * _SHARP))
                return _encoded(image, is_photograph=opened.format == "JPEG")
    except (OSError, ValueError, SyntaxError, EOFError, struct.error, Image.DecompressionBombError) as error:
        raise BadData("it is no PNG, JPEG, GIF, BMP, WebP or TIFF picture, or damaged") from error


def _encoded(image: object, *, is_photograph: bool) -> Picture:
    from PIL import Image

    assert isinstance(image, Image.Image)
    file = io.BytesIO()
    if is_photograph:
        image.convert("RGB").save(file, "JPEG", quality=85)
    else:
        image.convert("RGB" if image.mode in _PLAIN_MODES else "RGBA").save(file, "PNG", optimize=True)
    return Picture(file.getvalue(), image.width, image.height)


def stored(data: bytes) -> Picture:
    """A picture that `fitted` made."""
    from PIL import Image

    with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
        return Picture(data, image.width, image.height)
