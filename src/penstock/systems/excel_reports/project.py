"""Where products and users come from. The source that ships makes a project up: the same one for the same name.

Texts that a spreadsheet could take for formulas are among them, as they are in any real list.
"""

from __future__ import annotations

import hashlib
import random
import struct
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

from penstock.systems.excel_reports.options import ReportOptions

Row = dict[str, Any]


class Source(Protocol):
    """A project's data. Rows are JSON; a product's `image` names its picture."""

    def products(self, id_project: str, options: ReportOptions) -> Iterator[Row]: ...
    def users(self, id_project: str, options: ReportOptions) -> Iterator[Row]: ...
    def image(self, id_project: str, name: str) -> bytes: ...


class MadeUpProject:
    """Any project's name will do."""

    def products(self, id_project: str, options: ReportOptions) -> Iterator[Row]:
        chance = random.Random(f"{id_project}/{options.seed}/products")
        for number in range(1, options.products + 1):
            kind, category = chance.choice(_KINDS)
            scent, size = chance.choice(_SCENTS), chance.choice(_SIZES)
            yield {
                "productId": f"p{number:06d}",
                "sku": f"{category[:2].upper()}-{chance.randrange(10_000, 99_999)}",
                "name": f"{scent} {kind} {size} ml",
                "category": category,
                "price": round(chance.uniform(1.5, 40), 2),
                "stock": int(chance.paretovariate(1.1) * 20) % 5_000,
                "rating": round(min(5.0, chance.gauss(3.9, 0.6)), 1),
                "launchedAt": _day(chance),
                "note": chance.choice(_NOTES),
                "image": f"{category[:2].lower()}-{scent.lower()}.png",
            }

    def users(self, id_project: str, options: ReportOptions) -> Iterator[Row]:
        chance = random.Random(f"{id_project}/{options.seed}/users")
        for number in range(1, options.users + 1):
            first, last = chance.choice(_FIRST_NAMES), chance.choice(_LAST_NAMES)
            joined = _day(chance)
            yield {
                "userId": f"u{number:06d}",
                "name": f"{first} {last}",
                "email": f"{first}.{last}.{number}@example.org".lower(),
                "role": chance.choices(("panellist", "editor", "owner"), (20, 3, 1))[0],
                "country": chance.choice(_COUNTRIES),
                "joinedAt": joined,
                "lastSeenAt": f"{joined}T{chance.randrange(24):02d}:{chance.randrange(60):02d}:00",
                "reviews": int(chance.expovariate(0.1)),
                "isActive": chance.random() < 0.8,
            }

    def image(self, id_project: str, name: str) -> bytes:
        return paint(f"{id_project}/{name}")


def _day(chance: random.Random) -> str:
    return (_FIRST_DAY + timedelta(days=chance.randrange(_DAYS))).date().isoformat()


_FIRST_DAY: Final = datetime(2022, 1, 1, tzinfo=UTC)
_DAYS: Final = 1_200
_KINDS: Final = (
    ("body wash", "Bath & Shower"),
    ("shower oil", "Bath & Shower"),
    ("bath salt", "Bath & Shower"),
    ("shampoo", "Hair/Scalp: daily"),
    ("conditioner", "Hair/Scalp: daily"),
    ("face cream", "Face [sensitive]"),
    ("serum", "Face [sensitive]"),
    ("hand balm", "Hands"),
)
_SCENTS: Final = ("Almond", "Birch", "Cedar", "Fig", "Lavender", "Linden", "Mint", "Sea", "Verbena", "Yuzu")
_SIZES: Final = (50, 100, 150, 200, 250, 400)
_NOTES: Final = (
    "",
    "",
    "refill available",
    "-10 % until spring",
    "+ pump",
    "@home edition",
    "=) approved by the panel",
    "new recipe, ask before comparing",
)
_FIRST_NAMES: Final = (
    "Ada",
    "Ben",
    "Chloé",
    "Dmitri",
    "Elif",
    "Fatou",
    "Goran",
    "Hana",
    "Ines",
    "Jörg",
    "Kofi",
    "Lena",
)
_LAST_NAMES: Final = ("Almeida", "Berg", "Costa", "Diallo", "Eriksen", "Fontaine", "Gupta", "Horvat", "Ito", "Jansen")
_COUNTRIES: Final = ("BR", "DE", "ES", "FR", "GB", "IN", "JP", "SE", "SN", "US")


# ── pictures ─────────────────────────────────────────────────────────────────────────────────────

SIDE: Final = 48
"""Pixels, in both directions."""
_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_CELLS: Final = 6


def paint(name: str) -> bytes:
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
