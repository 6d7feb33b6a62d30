"""Reads or renders a PDF with PDFium, in a process of its own. It is run as a file, and imports nothing of Penstock.

    python pdfium_child.py read MOST_PIECES MEMORY_BYTES SECONDS < drawing.pdf > pages.json
    python pdfium_child.py render PAGE DPI MOST_PIXELS MEMORY_BYTES SECONDS < drawing.pdf > pixels

1. The process limits its own memory and time before it looks at the file. PDFium is C++, and drawings come from
   strangers: what such a file can break is this process and no other.
2. `read` answers JSON: for each page its size, its runs of text, its closed outlines, how many paths it draws, and how
   much of it pictures cover. Places are points from the lower left corner of the page as it is shown.
3. `render` answers a line with width and height, and then one grey byte for each pixel.
4. Exit code 3 says that a page has too many pieces, 1 that PDFium cannot read the file.
"""

from __future__ import annotations

import ctypes
import json
import math
import sys
from collections.abc import Iterator
from typing import Any

TOO_MANY_PIECES = 3
_SMALLEST, _LARGEST = 4.0, 170.0
"""Points: what is drawn around a tag is larger than a letter, and smaller than a room."""
_MOST_SHAPES = 20_000
_MOST_SEGMENTS = 400
"""Of one outline; a circle of a CAD program has a hundred."""
_MOST_DEPTH = 12
_JOIN_EMS, _BLANK_EMS, _CELL_EMS = 0.12, 0.45, 1.5
"""A smaller gap is none; a larger one is a blank; from the second on, text without a blank between is another cell."""
_ASKEW = 0.25
_F = ord("f")
"""The only letter that a ligature doubles; another one that comes twice at a place was printed twice."""
_MOST_LETTERS = 500
"""Of one run: a line of notes has two hundred."""
Place = tuple[float, float]


class TooManyPieces(Exception):
    pass


def limit_process(memory: int, seconds: int) -> None:
    try:
        import resource
    except ImportError:  # Windows: the parent's time limit is left
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


class Frame:
    """Turns a page's own coordinates into those of the page as it is shown."""

    def __init__(self, page: Any) -> None:
        left, bottom, right, top = page.get_cropbox(fallback_ok=True)
        self.left, self.bottom = left, bottom
        self.turn = page.get_rotation() % 360
        self.own = (right - left, top - bottom)
        self.size = self.own if self.turn % 180 == 0 else (self.own[1], self.own[0])

    def place(self, x: float, y: float) -> Place:
        x, y = x - self.left, y - self.bottom
        wide, high = self.own
        if self.turn == 90:
            return y, wide - x
        if self.turn == 180:
            return wide - x, high - y
        if self.turn == 270:
            return high - y, x
        return x, y


def runs_of(page: Any, raw: Any, frame: Frame, most: int) -> list[list[Any]]:
    """Runs of characters that stand in one line: text, x and y of the baseline's begin, length, size, angle."""
    runs: list[list[Any]] = []
    blank = False
    for letter, x, y, angle, size, advance in _letters(page, raw, frame):
        if letter.isspace():
            blank = True
            continue
        if not (runs and _append(runs[-1], letter, x, y, angle, size, advance, blank)):
            if len(runs) >= most:
                raise TooManyPieces
            runs.append([letter, x, y, advance, size, angle])
        blank = False
    return runs


def _append(
    run: list[Any], letter: str, x: float, y: float, angle: float, size: float, advance: float, blank: bool
) -> bool:
    """Whether the letter goes on where the run ends; then it does."""
    text, x0, y0, length, own, turn = run
    if len(text) >= _MOST_LETTERS or abs((angle - turn + 180) % 360 - 180) > 3 or not 0.7 < size / own < 1.4:
        return False
    cos, sin = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    along, across = (x - x0) * cos + (y - y0) * sin, (y - y0) * cos - (x - x0) * sin
    gap = (along - length) / own
    if abs(across) > 0.25 * own or not -0.5 < gap < (_CELL_EMS if blank else _BLANK_EMS):
        return False
    # How wide a letter is that stands at 45 degrees is not known: only a blank is a blank there.
    join = _BLANK_EMS if abs(cos * cos - sin * sin) <= _ASKEW else _JOIN_EMS
    run[0] += (" " if blank or gap > join else "") + letter
    run[3] = max(length, along + advance)
    return True


def _letters(page: Any, raw: Any, frame: Frame) -> Iterator[tuple[str, float, float, float, float, float]]:
    text = page.get_textpage()
    handle = text.raw
    matrix, box = raw.FS_MATRIX(), raw.FS_RECTF()
    x, y = ctypes.c_double(), ctypes.c_double()
    last, end = 0, (0.0, 0.0)
    before: tuple[float, ...] = ()
    for at in range(text.count_chars()):
        code = raw.FPDFText_GetUnicode(handle, at)
        if code < 32 or code == 0xFFFE or raw.FPDFText_IsGenerated(handle, at) == 1 or code > 0x10FFFF:
            continue
        raw.FPDFText_GetMatrix(handle, at, matrix)
        raw.FPDFText_GetCharOrigin(handle, at, x, y)
        raw.FPDFText_GetLooseCharBox(handle, at, box)
        angle = math.degrees(math.atan2(matrix.b, matrix.a))
        size = raw.FPDFText_GetFontSize(handle, at) * math.hypot(matrix.c, matrix.d)
        values = (x.value, y.value, angle, size, box.right, box.left, box.top, box.bottom)
        if not all(map(math.isfinite, values)) or not 0.5 < size < 2_000:
            continue
        wide = _advance(box.right - box.left, abs(box.top - box.bottom), angle, size)
        turn = (angle - frame.turn) % 360
        shown = frame.place(x.value, y.value)
        if values[:2] == before[:2] and (values != before or code != last or code == _F):  # letters of a ligature
            shown, wide = end, wide if values != before else 0.0
        across, up = math.cos(math.radians(turn)), math.sin(math.radians(turn))
        last, before, end = code, values, (shown[0] + wide * across, shown[1] + wide * up)
        yield chr(code), *shown, turn, size, wide


def _advance(width: float, height: float, angle: float, size: float) -> float:
    """How far a letter goes on, of the upright box around it: that box is larger when the letter is turned."""
    cos, sin = abs(math.cos(math.radians(angle))), abs(math.sin(math.radians(angle)))
    square = cos * cos - sin * sin
    wide = (width * cos - height * sin) / square if abs(square) > _ASKEW else 0.58 * size
    return wide if 0 < wide < 3 * size else 0.58 * size


def shapes_of(page: Any, raw: Any, frame: Frame) -> dict[str, Any]:
    """Closed outlines of the size of a tag's, how many paths and pictures, and the share of the page under these."""
    shapes: list[list[Any]] = []
    paths, images, covered = 0, 0, 0.0
    area = max(1.0, frame.size[0] * frame.size[1])
    for one in page.get_objects(max_depth=_MOST_DEPTH):
        if one.type == raw.FPDF_PAGEOBJ_IMAGE:
            images += 1
            left, bottom, right, top = one.get_bounds()
            covered += (right - left) * (top - bottom) / area
        elif one.type == raw.FPDF_PAGEOBJ_PATH:
            paths += 1
            if len(shapes) < _MOST_SHAPES:
                shapes.extend(_outlines(one, raw, frame))
    return {"shapes": shapes, "paths": paths, "images": images, "covered": min(1.0, covered)}


def _outlines(one: Any, raw: Any, frame: Frame) -> Iterator[list[Any]]:
    """The closed parts of a path: corners or round, the middle, width and height."""
    matrix = one.get_matrix()
    points: list[Place] = []
    curves = 0
    x, y = ctypes.c_float(), ctypes.c_float()
    for at in range(raw.FPDFPath_CountSegments(one.raw)):
        segment = raw.FPDFPath_GetPathSegment(one.raw, at)
        kind = raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_MOVETO:
            points, curves = [], 0
        if len(points) > _MOST_SEGMENTS:
            continue
        raw.FPDFPathSegment_GetPoint(segment, x, y)
        points.append(frame.place(*matrix.on_point(x.value, y.value)))
        curves += kind == raw.FPDF_SEGMENT_BEZIERTO
        if len(points) > 3 and (raw.FPDFPathSegment_GetClose(segment) or math.dist(points[0], points[-1]) < 0.2):
            shape = _shape(points, curves)
            if shape is not None:
                yield shape
            points, curves = [points[-1]], 0


def _shape(points: list[Place], curves: int) -> list[Any] | None:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    wide, high = max(xs) - min(xs), max(ys) - min(ys)
    if not (_SMALLEST < wide < _LARGEST and _SMALLEST < high < _LARGEST):
        return None
    corners = len({(round(x, 1), round(y, 1)) for x, y in points})
    upright = corners == 4 and _area(points) > 0.9 * wide * high
    kind = "round" if curves >= 6 or corners > 10 else "box" if upright else "polygon"
    return [kind, round((max(xs) + min(xs)) / 2, 2), round((max(ys) + min(ys)) / 2, 2), round(wide, 2), round(high, 2)]


def _area(points: list[Place]) -> float:
    pairs = zip(points, [*points[1:], points[0]], strict=True)
    return abs(sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in pairs)) / 2


def read(data: bytes, most: int) -> list[dict[str, Any]]:
    import pypdfium2
    import pypdfium2.raw as raw

    pages = []
    document = pypdfium2.PdfDocument(data)
    for number in range(len(document)):
        page = document[number]
        frame = Frame(page)
        runs = [[text, *(round(value, 2) for value in values)] for text, *values in runs_of(page, raw, frame, most)]
        pages.append({"size": frame.size, "runs": runs} | shapes_of(page, raw, frame))
        page.close()
    return pages


def render(data: bytes, number: int, dpi: float, most_pixels: int, longest_side: int) -> bytes:
    """Grey, or in colours where the longest side is given."""
    import pypdfium2

    page = pypdfium2.PdfDocument(data)[number]
    width, height = page.get_size()
    scale = min(dpi / 72, math.sqrt(most_pixels / max(1.0, width * height)))
    if longest_side:
        scale = min(scale, longest_side / max(width, height, 1.0))
    bitmap = page.render(scale=scale, grayscale=not longest_side, rev_byteorder=bool(longest_side))
    pixels, long = bytes(bitmap.buffer), bitmap.width * bitmap.n_channels
    rows = (pixels[at * bitmap.stride : at * bitmap.stride + long] for at in range(bitmap.height))
    return f"{bitmap.width} {bitmap.height} {bitmap.n_channels}\n".encode() + b"".join(rows)


def main(arguments: list[str]) -> int:
    mode, *numbers, memory, seconds = arguments
    limit_process(int(memory), int(seconds))
    data = sys.stdin.buffer.read()
    try:
        if mode == "read":
            sys.stdout.buffer.write(json.dumps(read(data, int(numbers[0]))).encode())
        else:
            number, dpi, most, side = numbers
            sys.stdout.buffer.write(render(data, int(number), float(dpi), int(most), int(side)))
    except TooManyPieces:
        return TOO_MANY_PIECES
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
