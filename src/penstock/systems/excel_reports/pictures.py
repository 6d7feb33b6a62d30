"""Pictures of products: small PNG files, painted from a name, so that reports have images with no network."""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import Final

SIDE: Final = 48
"""Pixels, in both directions."""
_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_CELLS: Final = 6


def painted(name: str) -> bytes:
    """A PNG that is the same for the same name: a symmetrical pattern in two colours."""
    digest = hashlib.sha256(name.encode()).digest()
    ink, paper = bytes(40 + value % 140 for value in digest[:3]), bytes(225 + value % 30 for value in digest[3:6])
    rows = [_row(digest[6 + place], ink, paper) for place in range(_CELLS)]
    height = SIDE // _CELLS
    return _png(b"".join((b"\0" + row) * height for row in rows))


def _row(bits: int, ink: bytes, paper: bytes) -> bytes:
    half = [bool(bits >> place & 1) for place in range(_CELLS // 2)]
    cells = half + half[::-1]
    return b"".join((ink if cell else paper) * (SIDE // _CELLS) for cell in cells)


def _png(pixels: bytes) -> bytes:
    """`pixels` are lines of RGB, each with its filter's byte before it."""
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(pixels, 9)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def size_of(png: bytes) -> tuple[int, int]:
    """Width and height. Raises ValueError for what is no PNG."""
    if not png.startswith(_SIGNATURE) or len(png) < 24:
        raise ValueError("it is no PNG")
    width, height = struct.unpack(">II", png[16:24])
    return width, height
