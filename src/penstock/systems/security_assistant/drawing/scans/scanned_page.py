"""Scanned pages: text recognised in a picture of the page, with its places, and the outlines around it.

1. The picture is made by PDFium's process (pdfium.py); the recognition (rapidocr) sees pixels only. Its models are in
   its wheel: nothing is downloaded.
2. A page is read in tiles, so that a large sheet takes no more memory than a small one. Tiles overlap by more than a
   tag's length, and what two of them have seen is kept once. A longer line that the edge of a tile cuts is read once
   more, as a whole.
3. Codes that stand alone are looked at again, enlarged: a digit above or below them is easily overlooked. So are short
   texts that are doubtful, turned by a quarter both ways too.
4. Texts in outlines that are not clear then are read line by line, without their outline (outlined_text.py).
5. A page that was laid askew is set straight: by the angle that most of its text has.
6. A page that lies on its side or upside down is turned before it is read. Its lines decide that, all together: which
   way round do they make sense? A single word that stands on its head stays as it is.
7. Without the extra `ocr` a page is not read, and `read_page` gives None: whoever needs it tells so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median
from typing import Any, Final

from penstock.extras import missing
from penstock.systems.security_assistant.drawing.page import Shape, TextRun
from penstock.systems.security_assistant.drawing.pdfium import PdfiumError, render_page
from penstock.systems.security_assistant.drawing.scans.outlined_text import read_outlined
from penstock.systems.security_assistant.drawing.scans.outlines import DARK, find_outlines

MODULES: Final = ("rapidocr", "onnxruntime")
_DPI: Final = 200
"""Letters of 1.8 mm are 14 pixels high, which is what the recognition likes."""
_MOST_PIXELS: Final = 64_000_000
"""An A0 sheet at that resolution."""
_TILE: Final = 1_200
_OVERLAP: Final = 160
_CUT_OFF: Final = 2
"""Heights of letters: a line that ends so near the edge of a tile may be cut, as its last letter is often not seen."""
_FEWEST_DARK: Final = 40
"""Pixels: a tile with fewer is paper."""
_LEAST_CONFIDENCE: Final = 0.5
_MOST_SURE: Final = 0.999
"""1 is for what nobody had to recognise."""
_MOST_SKEW: Final = 8.0
_LONGEST_CODE: Final = 9
"""In heights of its letters."""
_SQUARES: Final = 6
_MARGIN: Final = 12
_AROUND: Final = 2.3
"""Half of the square that is read again, in heights of the code's letters: what is right above and below it."""
_DOUBTFUL: Final = 0.92
_CODE: Final = re.compile(r"[A-Z#]{1,6}")
_LEVEL: Final = 20.0
"""Degrees: text that is turned by less is not upside down."""
_CLEAR: Final = 0.1
_TURN_TILES: Final = 3
_MOST_VOTES: Final = 16
_VOTING_LENGTH: Final = 3.0
"""In heights of letters: a line that is shorter does not say how the page stands."""
_ALONE: Final = {letter: letter.upper() for letter in "cosuvwxz"} | {"×": "X"}
"""Alone, such a letter is taken for a small one as often as for a capital; tags have capitals."""
_AMBIGUOUS: Final = re.compile(r"[0168 9IOXHNSZo|l.-]{1,4}")
"""What can be read from both ends."""
_DASHES: Final = re.compile("[‐‑‒–—―一－]")


@dataclass(frozen=True, slots=True)
class Seen:
    runs: list[TextRun]
    shapes: list[Shape]


def read_page(data: bytes, number: int, size: tuple[float, float]) -> Seen | None:
    """What stands on a page, counted from 0; None where the extra `ocr` is not installed. Raises PdfiumError."""
    if missing(*MODULES):
        return None
    import numpy as np

    width, height, pixels = render_page(data, number, _DPI, _MOST_PIXELS)
    if len(pixels) != width * height:
        raise PdfiumError("its picture is not whole")
    picture = np.frombuffer(pixels, dtype=np.uint8).reshape(height, width)
    scale = size[0] / width
    turn, known = _main_turn(picture)
    if turn:
        picture, known = np.ascontiguousarray(np.rot90(picture, -turn // 90)), {}
        height = picture.shape[0]
    found = _look_again(picture, _once(_whole_lines(picture, list(_boxes(picture, known)))))
    skew = _skew(found)
    usual = median([run.size for run in found]) if found else 0.0
    found = _once(read_outlined(picture, found, usual, skew, _read_lines))
    shapes = find_outlines(picture, found)
    return Seen(
        [_straight(run, skew, scale, height) for run in found],
        [_straight_shape(one, skew, scale, height) for one in shapes],
    )


@lru_cache(maxsize=1)
def _engine() -> Any:
    from rapidocr import RapidOCR

    # One thread: a job has a worker's thread, and those of several jobs would wait for each other.
    return RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.text_score": 0.0,  # what is upside down is read badly, and is a place to be read from its other end
            "Global.use_cls": False,
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )


@lru_cache(maxsize=1)
def _line_reader() -> Any:
    """Reads a picture of one line. An engine of its own: an engine keeps the options of its last call."""
    from rapidocr import RapidOCR

    return RapidOCR(
        params={
            "Global.log_level": "critical",
            "Global.text_score": 0.0,
            "Global.use_det": False,
            "Global.use_cls": False,
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )


def _read_line(line: Any) -> tuple[str, float]:
    import numpy as np

    answer = _line_reader()(np.repeat(line[:, :, None], 3, axis=2))
    return (_clean(answer.txts[0]), float(answer.scores[0])) if answer.txts else ("", 0.0)


def _read_lines(lines: list[Any]) -> list[tuple[str, float]]:
    return [(text, min(score, _MOST_SURE)) for text, score in map(_read_line, lines)]


def _boxes(picture: Any, known: dict[tuple[int, int], list[TextRun]]) -> Iterator[TextRun]:
    """The runs of text of all tiles, in pixels, y downwards; `known` are lines of tiles that were read already."""
    for top, left in _inked_tiles(picture):
        tile = picture[top : top + _TILE, left : left + _TILE]
        lines = known.get((top, left))
        yield from _chosen(tile, _lines(tile, left, top) if lines is None else lines, left, top)


def _whole_lines(picture: Any, found: list[TextRun]) -> list[TextRun]:
    """The same, where level lines that the edge of a tile cuts are read as a whole (2)."""
    level = [run for run in found if _is_level(run)]
    others = [run for run in found if not _is_level(run)]
    for left in _tiles(picture.shape[1])[1:]:
        edge = left + _OVERLAP  # where the tile before this one ends
        ended = [run for run in level if -_CUT_OFF * run.size < _ends(run)[1][0] - edge < run.size]
        begun = [run for run in level if left - run.size < _ends(run)[0][0] < edge]
        for run in ended:
            rest = next((other for other in begun if _goes_on(run, other)), None)
            whole = None if rest is None else _read_whole(picture, run, rest)
            if rest is not None and whole is not None:
                begun.remove(rest)
                level = [one for one in level if one is not run and one is not rest] + [whole]
    return others + level


def _ends(run: TextRun) -> tuple[tuple[float, float], tuple[float, float]]:
    """Where a run begins and where it ends."""
    along = run.length / 2 * math.cos(math.radians(run.angle)), -run.length / 2 * math.sin(math.radians(run.angle))
    return (run.x - along[0], run.y - along[1]), (run.x + along[0], run.y + along[1])


def _goes_on(run: TextRun, rest: TextRun) -> bool:
    """Whether the rest is of the same line: as high, and at its height where the two meet."""
    (first, end), (begin, last) = _ends(run), _ends(rest)
    if begin[0] <= first[0] or last[0] <= end[0]:
        return False
    rise = -math.tan(math.radians(run.angle)) * (begin[0] - end[0])
    return 0.6 < rest.size / run.size < 1.6 and abs(end[1] + rise - begin[1]) < 0.5 * run.size


def _read_whole(picture: Any, run: TextRun, rest: TextRun) -> TextRun | None:
    """The line from the run's begin to the end of the rest; None where it makes less sense than its parts."""
    (x0, y0), (x1, y1) = _ends(run)[0], _ends(rest)[1]
    angle = -math.degrees(math.atan2(y1 - y0, x1 - x0)) % 360
    size = max(run.size, rest.size)
    whole = replace(run, x=(x0 + x1) / 2, y=(y0 + y1) / 2, length=math.hypot(x1 - x0, y1 - y0), size=size, angle=angle)
    text, score = _read_line(_cut(picture, whole))
    if len(text) <= max(len(run.text), len(rest.text)) or score < _LEAST_CONFIDENCE:
        return None
    return replace(whole, text=text, confidence=min(score, _MOST_SURE))


def _inked_tiles(picture: Any) -> list[tuple[int, int]]:
    """The upper left corners of the tiles that are not only paper, those with the most ink first."""
    height, width = picture.shape
    ink = {
        (top, left): int((picture[top : top + _TILE, left : left + _TILE] < DARK).sum())
        for top in _tiles(height)
        for left in _tiles(width)
    }
    return sorted((place for place in ink if ink[place] >= _FEWEST_DARK), key=lambda place: -ink[place])


def _lines(tile: Any, left: int = 0, top: int = 0) -> list[TextRun]:
    """All that looks like a line of text, read well or badly."""
    import numpy as np

    answer = _engine()(np.repeat(tile[:, :, None], 3, axis=2))
    if answer.boxes is None:
        return []
    found = (
        _run(box, text, float(score), left, top)
        for box, text, score in zip(answer.boxes, answer.txts, answer.scores, strict=True)
    )
    return [run for run in found if run is not None]


def _chosen(tile: Any, lines: list[TextRun], left: int = 0, top: int = 0) -> Iterator[TextRun]:
    """The lines that make sense, each from the end from which it does."""
    pairs = [(run, None if _is_level(run) else _other_way(tile, run, left, top)) for run in lines]
    return (run for run in _directed(pairs) if run.text and run.confidence >= _LEAST_CONFIDENCE)


def _main_turn(picture: Any) -> tuple[int, dict[tuple[int, int], list[TextRun]]]:
    """0, 90, 180 or 270: how most lines of the page stand (6); and the lines of the tiles that were read for it."""
    known: dict[tuple[int, int], list[TextRun]] = {}
    weights = dict.fromkeys((0, 90, 180, 270), 0.0)
    votes = 0
    for place in _inked_tiles(picture)[:_TURN_TILES]:
        top, left = place
        tile = picture[top : top + _TILE, left : left + _TILE]
        known[place] = _lines(tile, left, top)
        for run in sorted(known[place], key=lambda run: -run.length / run.size):
            if run.length < _VOTING_LENGTH * run.size or votes >= _MOST_VOTES:
                break
            pair = run, _other_way(tile, run, left, top)
            best = max(pair, key=lambda one: one.confidence)
            if best.confidence < _DOUBTFUL or abs(pair[0].confidence - pair[1].confidence) < _CLEAR:
                continue
            votes += 1
            weights[round(best.angle / 90) % 4 * 90] += best.length / best.size
        if votes >= _MOST_VOTES:
            break
    turn = max(weights, key=lambda one: weights[one])
    return (turn if weights[turn] > 2 * weights[0] else 0), known


def _is_level(run: TextRun) -> bool:
    return abs((run.angle + 180) % 360 - 180) < _LEVEL


def _other_way(tile: Any, run: TextRun, left: int, top: int) -> TextRun:
    """The same place, read from its other end."""
    angle = (run.angle + 180) % 360
    text, score = _read_line(_cut(tile, replace(run, x=run.x - left, y=run.y - top, angle=angle)))
    return replace(run, text=text, confidence=min(score, _MOST_SURE), angle=angle)


def _cut(picture: Any, run: TextRun) -> Any:
    """The part of the picture that a run stands in, set upright."""
    import cv2
    import numpy as np

    wide, high = max(4, round(run.length)), max(4, round(run.size / 0.9))
    cos, sin = math.cos(math.radians(run.angle)), math.sin(math.radians(run.angle))
    move = np.array(
        [
            [cos, sin, run.x - (wide * cos + high * sin) / 2],
            [-sin, cos, run.y - (-wide * sin + high * cos) / 2],
        ]
    )
    return cv2.warpAffine(
        picture, move, (wide, high), flags=cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP, borderMode=cv2.BORDER_REPLICATE
    )


def _directed(pairs: list[tuple[TextRun, TextRun | None]]) -> Iterator[TextRun]:
    """Of each two readings the better; where that is not clear, the one that goes as the nearest clear one does."""
    clear: list[TextRun] = []
    open_pairs: list[tuple[TextRun, TextRun]] = []
    for run, other in pairs:
        if other is None:
            yield run
            continue
        best = max(run, other, key=lambda one: one.confidence)
        if abs(run.confidence - other.confidence) > _CLEAR and not _AMBIGUOUS.fullmatch(best.text):
            clear.append(best)
            yield best
        else:
            open_pairs.append((run, other))
    for pair in open_pairs:
        run = pair[0]
        along = [one for one in clear if abs((one.angle - run.angle + 90) % 180 - 90) < _LEVEL]
        near = min(along, key=lambda one: math.hypot(one.x - run.x, one.y - run.y), default=None)
        if near is not None and math.hypot(near.x - run.x, near.y - run.y) < 12 * run.size:
            best = max(pair, key=lambda one: math.cos(math.radians(one.angle - near.angle)))
        elif abs(pair[0].confidence - pair[1].confidence) > _CLEAR:
            best = max(pair, key=lambda one: one.confidence)
        else:
            best = max(pair, key=lambda one: math.cos(math.radians(one.angle - 45)))  # as people write on walls
        if best.text and best.confidence >= _LEAST_CONFIDENCE:
            yield best


@dataclass(frozen=True, slots=True)
class _Square:
    """A part of the picture that is read again: its corner, its side, and by how many quarters it is turned."""

    left: int
    top: int
    side: int
    turns: int

    def back(self, run: TextRun, x0: float, y0: float, scale: float) -> TextRun:
        """A run of the mosaic, where the square is at x0, y0, as a run of the picture."""
        x, y = (run.x - x0) / scale, (run.y - y0) / scale
        if self.turns == 1:
            x, y = self.side - y, x
        elif self.turns == 3:
            x, y = y, self.side - x
        angle = (run.angle - 90 * self.turns) % 360
        return TextRun(
            run.text, x + self.left, y + self.top, run.length / scale, run.size / scale, angle, run.confidence
        )


def _look_again(picture: Any, found: list[TextRun]) -> list[TextRun]:
    """The same, where squares around codes and around doubtful texts were read once more (3)."""
    usual = median([run.size for run in found]) if found else 0.0
    looks: list[list[_Square]] = []
    for run in found:
        if _is_doubtful(run, usual):  # of a stack that is turned, the lines are taken for one
            looks.append([_square(run, usual, turns) for turns in (0, 1, 3)])
        elif _CODE.fullmatch(run.text) and run.length < _LONGEST_CODE * run.size:
            looks.append([_square(run, run.size, 0)])
    squares = [square for look in looks for square in look]
    read: dict[_Square, list[TextRun]] = {}
    for at in range(0, len(squares), _SQUARES * _SQUARES):
        read |= _read_squares(picture, squares[at : at + _SQUARES * _SQUARES])
    for look in looks:
        best = max(look, key=lambda square: _sense(read[square]))
        if read[best] and (len(look) == 1 or _sense(read[best])[0]):
            found = [run for run in found if not _is_within(run, best.left, best.top, best.side)] + read[best]
    return _once(found)


def _is_doubtful(run: TextRun, usual: float) -> bool:
    short = len(run.text) <= 4 and run.size < 3 * usual
    return short and (run.confidence < _DOUBTFUL or (run.size > 1.35 * usual and run.length < 1.8 * run.size))


def _sense(runs: list[TextRun]) -> tuple[bool, float]:
    """Whether there is a code and a number, and how sure that is."""
    code = any(_CODE.fullmatch(run.text) for run in runs)
    number = any(run.text.isdigit() for run in runs)
    return code and number, sum(run.confidence for run in runs) / len(runs) if runs else 0.0


def _square(run: TextRun, size: float, turns: int) -> _Square:
    half = max(4, int(_AROUND * size))
    return _Square(max(0, int(run.x) - half), max(0, int(run.y) - half), 2 * half, turns)


def _read_squares(picture: Any, squares: list[_Square]) -> dict[_Square, list[TextRun]]:
    """What stands in each, all of them enlarged in one tile; what the edge of a square cuts is left out."""
    import cv2
    import numpy as np

    side = _TILE // _SQUARES
    mosaic = np.full((_TILE, _TILE), 255, dtype=np.uint8)
    for place, one in enumerate(squares):
        row, column = divmod(place, _SQUARES)
        part = np.full((one.side, one.side), 255, dtype=np.uint8)
        seen = picture[one.top : one.top + one.side, one.left : one.left + one.side]
        part[: seen.shape[0], : seen.shape[1]] = seen
        enlarged = cv2.resize(np.rot90(part, one.turns), (side - _MARGIN,) * 2, interpolation=cv2.INTER_CUBIC)
        mosaic[row * side : (row + 1) * side - _MARGIN, column * side : (column + 1) * side - _MARGIN] = enlarged
    again = list(_chosen(mosaic, _lines(mosaic)))
    read: dict[_Square, list[TextRun]] = {}
    for place, one in enumerate(squares):
        row, column = divmod(place, _SQUARES)
        x0, y0, scale = column * side, row * side, (side - _MARGIN) / one.side
        inside = [run for run in again if _is_within(run, x0, y0, side - _MARGIN)]
        read[one] = [one.back(run, x0, y0, scale) for run in inside]
    return read


def _is_within(run: TextRun, left: float, top: float, side: float) -> bool:
    """Whether the whole run is in the square."""
    cos, sin = abs(math.cos(math.radians(run.angle))), abs(math.sin(math.radians(run.angle)))
    wide, high = (run.length * cos + run.size * sin) / 2, (run.length * sin + run.size * cos) / 2
    return left < run.x - wide and run.x + wide < left + side and top < run.y - high and run.y + high < top + side


def _tiles(length: int) -> list[int]:
    step = _TILE - _OVERLAP
    return list(range(0, max(1, length - _OVERLAP), step))


def _clean(text: str) -> str:
    clean = _DASHES.sub("-", text).replace("：", ":").strip()
    return _ALONE.get(clean, clean)


def _run(box: Any, text: str, score: float, left: int, top: int) -> TextRun | None:
    clean = _clean(text)
    if not clean:
        return None
    (x0, y0), (x1, y1), _, (x3, y3) = ((float(x) + left, float(y) + top) for x, y in box)
    wide, high = math.hypot(x1 - x0, y1 - y0), math.hypot(x3 - x0, y3 - y0)
    middle = sum(float(x) for x, _ in box) / 4 + left, sum(float(y) for _, y in box) / 4 + top
    angle = -math.degrees(math.atan2(y1 - y0, x1 - x0))
    if high > 1.5 * wide and len(clean) > 1:  # turned by a quarter: the recognition has turned it to read it
        wide, high, angle = high, wide, angle + 270
    return TextRun(clean, *middle, wide, high * 0.9, angle % 360, min(score, _MOST_SURE))


def _once(found: list[TextRun]) -> list[TextRun]:
    """Of what two tiles have seen, the longer text (2)."""
    kept: list[TextRun] = []
    cells: dict[tuple[int, int], list[TextRun]] = {}
    for run in sorted(found, key=lambda run: (-len(run.text), -run.confidence)):
        column, row = int(run.x // _OVERLAP), int(run.y // _OVERLAP)
        near = (one for dx in (-1, 0, 1) for dy in (-1, 0, 1) for one in cells.get((column + dx, row + dy), ()))
        if any(_covers(one, run) for one in near):
            continue
        kept.append(run)
        for step in range(int(run.length // _OVERLAP) + 1):  # a long one is found from all along it
            along = -run.length / 2 + step * _OVERLAP
            x = run.x + along * math.cos(math.radians(run.angle))
            y = run.y - along * math.sin(math.radians(run.angle))
            cells.setdefault((int(x // _OVERLAP), int(y // _OVERLAP)), []).append(run)
    return kept


def _covers(one: TextRun, other: TextRun) -> bool:
    cos, sin = math.cos(math.radians(one.angle)), -math.sin(math.radians(one.angle))
    along = (other.x - one.x) * cos + (other.y - one.y) * sin
    across = (other.y - one.y) * cos - (other.x - one.x) * sin
    return abs(along) < one.length / 2 and abs(across) < one.size / 2


def _skew(found: list[TextRun]) -> float:
    """By how many degrees most of the text is off the next quarter turn (5)."""
    angles = [(run.angle + 45) % 90 - 45 for run in found if run.length > 4 * run.size]
    near = [angle for angle in angles if abs(angle) < _MOST_SKEW]
    return median(near) if len(near) >= 5 else 0.0


def _straight(run: TextRun, skew: float, scale: float, height: int) -> TextRun:
    x, y = _place(run.x, run.y, skew, scale, height)
    angle = (run.angle - skew) % 360
    quarter = round(angle / 90) * 90
    if abs(angle - quarter) < _MOST_SKEW:  # boxes of short texts are rough
        angle = quarter % 360
    return replace(run, x=x, y=y, length=run.length * scale, size=run.size * scale, angle=float(angle))


def _straight_shape(shape: Shape, skew: float, scale: float, height: int) -> Shape:
    x, y = _place(shape.x, shape.y, skew, scale, height)
    return Shape(shape.kind, x, y, shape.width * scale, shape.height * scale)


def _place(x: float, y: float, skew: float, scale: float, height: int) -> tuple[float, float]:
    """Points from the lower left corner, turned back by the skew."""
    cos, sin = math.cos(math.radians(-skew)), math.sin(math.radians(-skew))
    x, y = x * scale, (height - y) * scale
    return x * cos - y * sin, x * sin + y * cos
