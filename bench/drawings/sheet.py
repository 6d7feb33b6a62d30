"""A page of a drawing: text, lines and circles at places, as a PDF, or as a scan of that PDF.

Coordinates are points from the lower left corner, as in a PDF. Angles are degrees, counter-clockwise.
"""

from __future__ import annotations

import io
import math
import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Anchor = Literal["start", "middle", "end"]
Point = tuple[float, float]

# Advance widths of Helvetica for the characters 32 to 126, in thousandths of the size.
_WIDTHS = [
    *(278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278),
    *(556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556),
    *(1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778),
    *(667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556),
    *(333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556),
    *(556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584),
]
_FONTS = {"sans": "Helvetica", "bold": "Helvetica-Bold", "mono": "Courier", "serif": "Times-Roman"}

A3 = (1190.6, 841.9)
A1 = (2383.9, 1683.8)
ANSI_B = (1224.0, 792.0)


@dataclass(frozen=True)
class Truth:
    """One thing that a person who reads the drawing would put into the schedule.

    `tag` is the designator as drawn, code and number with one blank between them when they stand apart. It is empty
    for a device that is told only by a tick in a schedule's column: `door` says whose it is. `kind` is a plain word.
    """

    kind: str
    tag: str
    door: str = ""
    page: int = 1


@dataclass
class Drawing:
    """The pages of a drawing with the truth about them."""

    style: str
    pages: list[Sheet]
    truth: list[Truth]

    def pdf(self) -> bytes:
        return pdf_of([page.content() for page in self.pages], [page.size for page in self.pages])


@dataclass
class Sheet:
    """One page. With `glyphs`, every character is placed alone, as many CAD programs write text."""

    size: tuple[float, float] = A3
    font: str = "sans"
    glyphs: bool = False
    _out: list[str] = field(default_factory=list)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = 7,
        angle: float = 0,
        anchor: Anchor = "middle",
        font: str | None = None,
    ) -> None:
        """Writes `text`; y is the middle of its capitals' height."""
        name = font or self.font
        width = text_width(text, size, name)
        back = {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        down = size * 0.36
        x0, y0 = x - back * cos + down * sin, y - back * sin - down * cos
        pieces = [text] if not self.glyphs else list(text)
        for piece in pieces:
            if piece.strip():
                matrix = f"{cos:.5f} {sin:.5f} {-sin:.5f} {cos:.5f} {x0:.2f} {y0:.2f}"
                self._out.append(f"BT /{name} {size:g} Tf {matrix} Tm ({_escaped(piece)}) Tj ET")
            advance = text_width(piece, size, name)
            x0, y0 = x0 + advance * cos, y0 + advance * sin

    def lines(self, points: Sequence[Point], width: float = 0.5, closed: bool = False, dash: str = "") -> None:
        path = " ".join(f"{x:.2f} {y:.2f} {'m' if i == 0 else 'l'}" for i, (x, y) in enumerate(points))
        self._stroke(path + (" h" if closed else ""), width, dash)

    def rect(self, x: float, y: float, w: float, h: float, width: float = 0.5, fill: bool = False) -> None:
        """A rectangle whose centre is x, y."""
        path = f"{x - w / 2:.2f} {y - h / 2:.2f} {w:.2f} {h:.2f} re"
        if fill:
            self._out.append(f"{path} f")
        else:
            self._stroke(path, width, "")

    def polygon(self, x: float, y: float, radius: float, corners: int, turn: float = 0, width: float = 0.5) -> None:
        angles = [math.radians(turn + 360 * i / corners) for i in range(corners)]
        self.lines([(x + radius * math.cos(a), y + radius * math.sin(a)) for a in angles], width, closed=True)

    def ellipse(self, x: float, y: float, rx: float, ry: float, width: float = 0.5, dash: str = "") -> None:
        kx, ky = rx * 0.5523, ry * 0.5523
        path = (
            f"{x + rx:.2f} {y:.2f} m "
            f"{x + rx:.2f} {y + ky:.2f} {x + kx:.2f} {y + ry:.2f} {x:.2f} {y + ry:.2f} c "
            f"{x - kx:.2f} {y + ry:.2f} {x - rx:.2f} {y + ky:.2f} {x - rx:.2f} {y:.2f} c "
            f"{x - rx:.2f} {y - ky:.2f} {x - kx:.2f} {y - ry:.2f} {x:.2f} {y - ry:.2f} c "
            f"{x + kx:.2f} {y - ry:.2f} {x + rx:.2f} {y - ky:.2f} {x + rx:.2f} {y:.2f} c h"
        )
        self._stroke(path, width, dash)

    def circle(self, x: float, y: float, radius: float, width: float = 0.5, dash: str = "") -> None:
        self.ellipse(x, y, radius, radius, width, dash)

    def arc(self, x: float, y: float, radius: float, start: float, end: float, width: float = 0.3) -> None:
        steps = [math.radians(start + (end - start) * i / 8) for i in range(9)]
        self.lines([(x + radius * math.cos(a), y + radius * math.sin(a)) for a in steps], width)

    def content(self) -> bytes:
        return "\n".join(self._out).encode("cp1252")

    def _stroke(self, path: str, width: float, dash: str) -> None:
        style = f"{width:g} w " + (f"[{dash}] 0 d " if dash else "[] 0 d ")
        self._out.append(f"{style}{path} S")


def text_width(text: str, size: float, font: str = "sans") -> float:
    if font == "mono":
        return len(text) * 0.6 * size
    return sum(_WIDTHS[ord(c) - 32] if 32 <= ord(c) <= 126 else 667 for c in text) * size / 1000


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def pdf_of(contents: Sequence[bytes], sizes: Sequence[tuple[float, float]]) -> bytes:
    """A PDF with these content streams as pages, in the fonts that every reader has."""
    fonts = " ".join(
        f"/{name} << /Type /Font /Subtype /Type1 /BaseFont /{base} /Encoding /WinAnsiEncoding >>"
        for name, base in _FONTS.items()
    )
    objects: list[bytes] = []
    kids = " ".join(f"{3 + 2 * i} 0 R" for i in range(len(contents)))
    objects.append(b"<< /Type /Catalog /Pages 2 0 R >>")
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} >>".encode())
    for i, (content, (w, h)) in enumerate(zip(contents, sizes, strict=True)):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {w:g} {h:g}] /Contents {4 + 2 * i} 0 R "
            f"/Resources << /Font << {fonts} >> >> >>".encode()
        )
        packed = zlib.compress(content)
        objects.append(f"<< /Length {len(packed)} /Filter /FlateDecode >>\nstream\n".encode() + packed + b"\nendstream")
    return _file_of(objects)


def _file_of(objects: Sequence[bytes]) -> bytes:
    out = io.BytesIO()
    out.write(b"%PDF-1.5\n")
    places = []
    for number, body in enumerate(objects, 1):
        places.append(out.tell())
        out.write(f"{number} 0 obj\n".encode() + body + b"\nendobj\n")
    start = out.tell()
    out.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode())
    for place in places:
        out.write(f"{place:010d} 00000 n \n".encode())
    out.write(f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode())
    return out.getvalue()


def scan_of(pdf: bytes, dpi: int, skew: float, rng: random.Random) -> bytes:
    """The same pages as a scanner gives them: grey pictures, turned by `skew` degrees, with noise and JPEG's marks."""
    import pypdfium2
    from PIL import Image, ImageFilter

    objects: list[bytes] = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    kids = []
    document = pypdfium2.PdfDocument(pdf)
    for page in document:
        width, height = page.get_size()
        picture = page.render(scale=dpi / 72, grayscale=True).to_pil().convert("L")
        picture = picture.rotate(skew, resample=Image.Resampling.BICUBIC, fillcolor=255)
        picture = picture.filter(ImageFilter.GaussianBlur(dpi / 500))
        noise = Image.frombytes("L", (256, 256), rng.randbytes(65536))
        noise = noise.resize((picture.width, picture.height), Image.Resampling.BILINEAR)
        picture = Image.blend(picture, noise, 0.06)
        data = io.BytesIO()
        picture.save(data, "JPEG", quality=60)
        number = len(objects) + 1
        kids.append(f"{number} 0 R")
        draw = zlib.compress(f"q {width:g} 0 0 {height:g} 0 0 cm /Scan Do Q".encode())
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width:g} {height:g}] /Contents {number + 1} 0 R "
            f"/Resources << /XObject << /Scan {number + 2} 0 R >> >> >>".encode()
        )
        objects.append(f"<< /Length {len(draw)} /Filter /FlateDecode >>\nstream\n".encode() + draw + b"\nendstream")
        head = (
            f"<< /Type /XObject /Subtype /Image /Width {picture.width} /Height {picture.height} "
            f"/ColorSpace /DeviceGray /BitsPerComponent 8 /Filter /DCTDecode /Length {data.tell()} >>\nstream\n"
        )
        objects.append(head.encode() + data.getvalue() + b"\nendstream")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>".encode()
    return _file_of(objects)
