"""A security drawing of a building that there is not: plans of its levels, a legend and a schedule of doors.

For the demo, the tests and `penstock security sample`. What is on it is known, so that what is found can be compared.
The PDF writer knows text, lines and shapes; the same drawing is the same bytes each time.
"""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Literal

A3_LANDSCAPE: Final = (1190.55, 841.89)
Font = Literal["F1", "F2"]
PLAIN: Final[Font] = "F1"
BOLD: Final[Font] = "F2"

# The widths of Helvetica's letters differ; this is their mean, in ems.
_LETTER_EMS: Final = 0.52
# Four curves make a circle: how far their control points are out, for a radius of 1.
_ROUND: Final = 0.5523


class PdfPage:
    """What is drawn on a page. The origin is the lower left corner; units are points."""

    def __init__(self, size: tuple[float, float] = A3_LANDSCAPE) -> None:
        self.size = size
        self._operations: list[str] = []

    def text(self, x: float, y: float, text: str, *, size: float = 9, font: Font = PLAIN) -> None:
        escaped = text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
        self._add(f"BT /{font} {size:g} Tf {x:.2f} {y:.2f} Td ({escaped}) Tj ET")

    def centred_text(self, x: float, y: float, text: str, *, size: float = 9, font: Font = PLAIN) -> None:
        self.text(x - len(text) * size * _LETTER_EMS / 2, y, text, size=size, font=font)

    def line(self, x1: float, y1: float, x2: float, y2: float, *, width: float = 0.7) -> None:
        self._add(f"{width:g} w {x1:.2f} {y1:.2f} m {x2:.2f} {y2:.2f} l S")

    def rectangle(self, x: float, y: float, width: float, height: float, *, pen: float = 0.7, grey: float = -1) -> None:
        """Filled if `grey` is 0 (black) to 1 (white)."""
        fill = f"q {grey:g} g {x:.2f} {y:.2f} {width:.2f} {height:.2f} re f Q " if grey >= 0 else ""
        self._add(f"{fill}{pen:g} w {x:.2f} {y:.2f} {width:.2f} {height:.2f} re S")

    def circle(self, x: float, y: float, radius: float, *, pen: float = 0.7) -> None:
        r, k = radius, radius * _ROUND
        self._add(
            f"{pen:g} w {x + r:.2f} {y:.2f} m "
            f"{x + r:.2f} {y + k:.2f} {x + k:.2f} {y + r:.2f} {x:.2f} {y + r:.2f} c "
            f"{x - k:.2f} {y + r:.2f} {x - r:.2f} {y + k:.2f} {x - r:.2f} {y:.2f} c "
            f"{x - r:.2f} {y - k:.2f} {x - k:.2f} {y - r:.2f} {x:.2f} {y - r:.2f} c "
            f"{x + k:.2f} {y - r:.2f} {x + r:.2f} {y - k:.2f} {x + r:.2f} {y:.2f} c S"
        )

    def quarter(self, x: float, y: float, radius: float) -> None:
        """The swing of a door that hangs at (x, y)."""
        k = radius * _ROUND
        self._add(
            f"0.5 w {x + radius:.2f} {y:.2f} m {x + radius:.2f} {y + k:.2f} "
            f"{x + k:.2f} {y + radius:.2f} {x:.2f} {y + radius:.2f} c S"
        )

    def image(self, x: float, y: float, width: float, height: float) -> None:
        """A small grey picture, inline: what a page that was scanned has in place of text."""
        self._add(
            f"q {width:.2f} 0 0 {height:.2f} {x:.2f} {y:.2f} cm BI /W 2 /H 2 /CS /G /BPC 8 /F /AHx ID D0B0B0D0> EI Q"
        )

    @property
    def content(self) -> bytes:
        # WinAnsi, the encoding of the fonts; what it has not is shown as a question mark.
        return "\n".join(self._operations).encode("cp1252", "replace")

    def _add(self, operation: str) -> None:
        self._operations.append(operation)


def pdf(pages: list[PdfPage], *, title: str = "") -> bytes:
    """The whole file. Content is compressed."""
    objects: list[bytes] = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"",  # the pages' parent, which has to know them
        _font("Helvetica"),
        _font("Helvetica-Bold"),
        f"<< /Producer (Penstock) /Title ({_plain(title)}) >>".encode("ascii"),
    ]
    kids = []
    for page in pages:
        kids.append(len(objects) + 1)
        objects += [_page(page, contents=len(objects) + 2), _stream(page.content)]
    listed = " ".join(f"{number} 0 R" for number in kids)
    objects[1] = f"<< /Type /Pages /Count {len(kids)} /Kids [{listed}] >>".encode()
    return _file(objects)


def _page(page: PdfPage, contents: int) -> bytes:
    width, height = page.size
    return (
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width:g} {height:g}] "
        f"/Resources << /Font << /F1 3 0 R /F2 4 0 R >> >> /Contents {contents} 0 R >>"
    ).encode()


def _font(name: str) -> bytes:
    return f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>".encode()


def _stream(content: bytes) -> bytes:
    data = zlib.compress(content, 9)
    return f"<< /Length {len(data)} /Filter /FlateDecode >>\nstream\n".encode() + data + b"\nendstream"


def _file(objects: list[bytes]) -> bytes:
    parts, offsets, at = [b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"], [], 15
    for number, content in enumerate(objects, start=1):
        part = b"%d 0 obj\n%b\nendobj\n" % (number, content)
        offsets.append(at)
        parts.append(part)
        at += len(part)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    count = len(objects) + 1
    parts.append(b"xref\n0 %d\n0000000000 65535 f \n%b" % (count, table))
    parts.append(b"trailer\n<< /Size %d /Root 1 0 R /Info 5 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (count, at))
    return b"".join(parts)


def _plain(text: str) -> str:
    return "".join(letter for letter in text if letter.isascii() and letter not in "()\\")


LEGEND: Final = {
    "D": "Access controlled door",
    "CR": "Card reader",
    "EB": "Exit button",
    "ES": "Electric strike",
    "ML": "Magnetic lock",
    "DC": "Door contact",
    "CAM": "Dome camera",
    "PIR": "Motion detector",
    "BG": "Break glass unit",
}
TYPES: Final = {
    "D": "door",
    "CR": "reader",
    "EB": "exit_button",
    "ES": "electric_strike",
    "ML": "magnetic_lock",
    "DC": "door_contact",
    "CAM": "camera",
    "PIR": "motion_detector",
    "BG": "break_glass",
}
_ROOMS: Final = (
    *("Triage", "Resuscitation", "Staff base", "Pharmacy", "Plant room", "Imaging", "Waiting", "Stores"),
    *("Consultation", "Comms room", "Isolation", "Reception"),
)
_COLUMNS: Final = ("DOOR", "LOCATION", "LEVEL", "READER", "EXIT", "LOCK", "CONTACT", "BREAK GLASS")
_COLUMN_WIDTHS: Final = (90, 190, 80, 110, 110, 110, 110, 130)
_ROWS_A_PAGE: Final = 24
_MOST_DOORS: Final = 16


@dataclass(frozen=True, slots=True)
class Door:
    """A door and what belongs to it, each by its designator; "" where it has none."""

    number: str
    room: str
    level: str
    reader: str
    exit: str
    lock: str
    contact: str
    glass: str

    @property
    def designators(self) -> list[str]:
        found = (f"D-{self.number}", self.reader, self.exit, self.lock, self.contact, self.glass)
        return [one for one in found if one]


@dataclass
class Building:
    """`levels` plans with `doors` doors each; every fifth door has no reader."""

    client: str = "St. Mary's Hospital"
    project: str = "Emergency Wing Expansion"
    levels: int = 2
    doors: int = 12
    number: str = "SEC-201"
    extra: list[str] = field(default_factory=list)
    """Lines of text to stand on the first page."""

    def __post_init__(self) -> None:
        if not (1 <= self.levels <= 40 and 2 <= self.doors <= _MOST_DOORS):
            raise ValueError(f"a building has 1 to 40 levels of 2 to {_MOST_DOORS} doors")

    def all_doors(self) -> list[Door]:
        return [door for level in range(self.levels) for door in self._level(level)]

    def counts(self) -> dict[str, int]:
        """How many of each type are on the drawing."""
        found = Counter(TYPES[one.partition("-")[0]] for door in self.all_doors() for one in door.designators)
        found["camera"] += self.levels * 3
        found["motion_detector"] += self.levels
        return dict(found)

    def pdf(self) -> bytes:
        pages = [self._cover(), *(self._plan(level) for level in range(self.levels)), *self._schedule()]
        for number, page in enumerate(pages, start=1):
            self._title_block(page, number, len(pages))
        return pdf(pages, title=self.project)

    def _level(self, level: int) -> list[Door]:
        return [self._door(level, place) for place in range(1, self.doors + 1)]

    def _door(self, level: int, place: int) -> Door:
        number = f"{level}.{place:02d}"
        has_reader = place % 5 != 0
        lock = "ML" if place % 2 else "ES"
        return Door(
            number=number,
            room=_ROOMS[(place - 1) % len(_ROOMS)],
            level=f"Level {level}",
            reader=f"CR-{number}" if has_reader else "",
            exit=f"EB-{number}" if has_reader else "",
            lock=f"{lock}-{number}" if has_reader else "",
            contact=f"DC-{number}",
            glass=f"BG-{number}" if has_reader and lock == "ML" else "",
        )

    # ── pages ────────────────────────────────────────────────────────────────────────────────────

    def _cover(self) -> PdfPage:
        page = PdfPage()
        page.text(60, 760, "SECURITY SYSTEMS: GENERAL ARRANGEMENT", size=22, font=BOLD)
        page.text(60, 734, f"{self.client}, {self.project}", size=14)
        page.text(60, 690, "LEGEND", size=14, font=BOLD)
        for line, (code, words) in enumerate(LEGEND.items()):
            y = 664 - 22 * line
            page.circle(72, y + 3, 8)
            page.text(100, y, code, size=11, font=BOLD)
            page.text(170, y, words, size=11)
        page.text(520, 690, "NOTES", size=14, font=BOLD)
        doors = len(self.all_doors())
        notes = (
            "1. Readers are mounted 1,050 mm above finished floor level.",
            "2. Every door with a reader has an exit button on the secure side.",
            "3. Doors with magnetic locks have a break glass unit.",
            f"4. TOTAL DOORS: {doors}",
            "5. Read with sheet A-100 and the specification E20.",
            *self.extra,
        )
        for line, words in enumerate(notes):
            page.text(520, 664 - 20 * line, words, size=11)
        return page

    def _plan(self, level: int) -> PdfPage:
        page = PdfPage()
        page.text(60, 790, f"LEVEL {level} PLAN", size=16, font=BOLD)
        doors = self._level(level)
        upper = doors[: (len(doors) + 1) // 2]
        for row, (some, bottom, door_y) in enumerate(((upper, 520, 520), (doors[len(upper) :], 170, 400))):
            width = 1070 / len(some)
            for place, door in enumerate(some):
                self._room(page, door, 60 + place * width, bottom, width, 230, door_y, below=row == 0)
        page.text(70, 455, "CORRIDOR", size=8)
        for place in range(3):
            x = 250 + place * 330
            page.rectangle(x, 456, 10, 7, grey=0.4)
            page.text(x + 14, 456, f"CAM-{level}.{place + 1:02d}", size=7)
        page.circle(1085, 460, 5)
        page.text(1092, 456, f"PIR-{level}.01", size=7)
        return page

    def _room(
        self, page: PdfPage, door: Door, x: float, y: float, width: float, height: float, door_y: float, *, below: bool
    ) -> None:
        page.rectangle(x, y, width, height, pen=1.6)
        page.centred_text(x + width / 2, y + (height - 40 if below else 30), door.room.upper(), size=8)
        page.rectangle(x + width / 2 - 12, door_y - 2, 24, 4, pen=0.5, grey=1)
        page.quarter(x + width / 2 - 12, door_y if below else door_y - 24, 24)
        inside = door_y + 40 if below else door_y - 90
        for line, designator in enumerate(door.designators):
            page.text(x + width / 2 - 22, inside + 11 * line, designator, size=7, font=BOLD if line == 0 else "F1")

    def _schedule(self) -> list[PdfPage]:
        doors = self.all_doors()
        return [self._table(doors[at : at + _ROWS_A_PAGE]) for at in range(0, len(doors), _ROWS_A_PAGE)]

    def _table(self, doors: list[Door]) -> PdfPage:
        page = PdfPage()
        page.text(60, 790, "DOOR SCHEDULE", size=16, font=BOLD)
        edges = [60.0]
        for width in _COLUMN_WIDTHS:
            edges.append(edges[-1] + width)
        rows = [_COLUMNS, *(_cells(door) for door in doors)]
        for line, cells in enumerate(rows):
            y = 750 - 22 * line
            page.line(edges[0], y - 7, edges[-1], y - 7)
            for edge, cell in zip(edges, cells, strict=False):
                page.text(edge + 5, y, cell, size=9, font=BOLD if line == 0 else "F1")
        for edge in edges:
            page.line(edge, 765, edge, 750 - 22 * (len(rows) - 1) - 7)
        page.line(edges[0], 765, edges[-1], 765)
        return page

    def _title_block(self, page: PdfPage, number: int, pages: int) -> None:
        page.rectangle(20, 20, 1150, 802, pen=2)
        page.rectangle(770, 20, 400, 96, pen=1.2)
        lines = (
            ("CLIENT", self.client),
            ("PROJECT", self.project),
            ("DRAWING NO", f"{self.number} D-{number:03d}"),
            ("SHEET", f"{number} of {pages}"),
            ("REV", "P02"),
        )
        for line, (name, value) in enumerate(lines):
            y = 100 - 18 * line
            page.text(780, y, name, size=7, font=BOLD)
            page.text(860, y, value, size=9)


def _cells(door: Door) -> tuple[str, ...]:
    found = (f"D-{door.number}", door.room, door.level, door.reader, door.exit, door.lock, door.contact, door.glass)
    return tuple(one or "-" for one in found)
