"""A small writer of PDF files: text, lines and shapes on pages. The same drawing is the same bytes each time.

It makes the drawings that the demo and the tests read; it is no general PDF library.
"""

from __future__ import annotations

import zlib
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

    def centred(self, x: float, y: float, text: str, *, size: float = 9, font: Font = PLAIN) -> None:
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
