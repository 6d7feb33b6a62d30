"""The source that ships makes a project up: the same one for the same name.

Texts that a spreadsheet could take for formulas are among them, as they are in any real list.
"""

from __future__ import annotations

import hashlib
import random
import struct
import zlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from penstock.systems.excel_reports.book.template import ChartTemplate, ColumnTemplate, SheetTemplate, Template
from penstock.systems.excel_reports.options import ReportOptions
from penstock.systems.excel_reports.sources.source import Dataset, Row


class MadeUpProject:
    """Any project's name will do."""

    def __init__(self, id_project: str, options: ReportOptions) -> None:
        self._id_project = id_project
        self._options = options

    @property
    def template(self) -> Template:
        """As the report of a project has always looked."""
        split = "category" if self._options.by_category else ""
        pictures = (_PICTURE,) if self._options.images and self._options.products else ()
        products = SheetTemplate(
            name="Products", dataset="products", columns=(*pictures, *_PRODUCTS), split=split, charts=_PRODUCT_CHARTS
        )
        return Template(
            sheets=(products, SheetTemplate(name="Users", dataset="users", columns=_USERS, charts=_USER_CHARTS))
        )

    def datasets(self) -> Sequence[Dataset]:
        return [Dataset("products", self.products), Dataset("users", self.users)]

    def products(self) -> Iterator[Row]:
        chance = random.Random(f"{self._id_project}/{self._options.seed}/products")
        for number in range(1, self._options.products + 1):
            kind, category = chance.choice(_KINDS)
            scent, size = chance.choice(_SCENTS), chance.choice(_SIZES)
            sku = f"{category[:2].upper()}-{chance.randrange(10_000, 99_999)}"
            price = round(chance.uniform(1.5, 40), 2)
            stock = int(chance.paretovariate(1.1) * 20) % 5_000
            yield {
                "image": f"{category[:2].lower()}-{scent.lower()}.png",
                "productId": f"p{number:06d}",
                "sku": sku,
                "name": f"{scent} {kind} {size} ml",
                "category": category,
                "price": price,
                "stock": stock,
                "value": round(price * stock, 2),
                "rating": round(min(5.0, chance.gauss(3.9, 0.6)), 1),
                "launchedAt": _day(chance),
                "note": chance.choice(_NOTES),
            }

    def users(self) -> Iterator[Row]:
        chance = random.Random(f"{self._id_project}/{self._options.seed}/users")
        for number in range(1, self._options.users + 1):
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

    def picture(self, name: str) -> bytes:
        return paint(f"{self._id_project}/{name}")


_PICTURE: Final = ColumnTemplate(field="image", heading="Picture", format="picture")
_PRODUCTS: Final = (
    ColumnTemplate(field="productId", heading="Product", format="text", width=11),
    ColumnTemplate(field="sku", heading="SKU", format="text", width=11),
    ColumnTemplate(field="name", heading="Name", format="text", width=30),
    ColumnTemplate(field="category", heading="Category", format="text", width=19),
    ColumnTemplate(field="price", heading="Price (€)", format="money", width=11, total="average"),
    ColumnTemplate(
        field="stock", heading="Stock", format="whole", width=10, total="sum", highlight="bar", statistic="totalStock"
    ),
    ColumnTemplate(field="value", heading="Value (€)", format="money", width=14, total="sum", statistic="stockValue"),
    ColumnTemplate(field="rating", heading="Rating", format="0.0", width=9, total="average", highlight="scale"),
    ColumnTemplate(field="launchedAt", heading="Launched", format="date", width=12),
    ColumnTemplate(field="note", heading="Note", format="text", width=32),
)
_USERS: Final = (
    ColumnTemplate(field="userId", heading="User", format="text", width=11),
    ColumnTemplate(field="name", heading="Name", format="text", width=22),
    ColumnTemplate(field="email", heading="E-mail", format="text", width=34),
    ColumnTemplate(field="role", heading="Role", format="text", width=11),
    ColumnTemplate(field="country", heading="Country", format="text", width=10),
    ColumnTemplate(field="joinedAt", heading="Joined", format="date", width=12),
    ColumnTemplate(field="lastSeenAt", heading="Last seen", format="time", width=17),
    ColumnTemplate(field="reviews", heading="Reviews", format="whole", width=10, total="sum", highlight="bar"),
    ColumnTemplate(
        field="isActive", heading="Active", format="yes-no", width=9, total="count", statistic="activeUsers"
    ),
)
_PRODUCT_CHARTS: Final = (
    ChartTemplate(by="category", value="value", title="Stock value by category (€)"),
    ChartTemplate(by="launchedAt", title="Products by their launch"),
)
_USER_CHARTS: Final = (ChartTemplate(by="country", title="Users by country"),)


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
