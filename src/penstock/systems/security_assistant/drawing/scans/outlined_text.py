"""Texts in outlines that the first look has overlooked, or has read with doubt: a digit in a bubble, a letter in a box.

1. The recognition finds lines of text badly where a line has one or two letters and a circle is around them. Here the
   outline says where to look: what is dark in it and does not touch it is a text.
2. Only that text is shown to the recognition, without the outline, line by line; turned by a quarter both ways too,
   where it makes no sense as it stands.
3. Where a clear text covers all that is dark in an outline, nothing is read again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from penstock.systems.security_assistant.drawing.page import TextRun
from penstock.systems.security_assistant.drawing.scans.outlines import white_areas

Reader = Callable[[list[Any]], list[tuple[str, float]]]
"""Reads pictures of one line each: the text, and how sure it is."""

CLEAR: Final = 0.92
_SMALLEST, _TALLEST, _WIDEST = 1.1, 7.0, 12.0
"""Of an outline with a tag in it, in heights of the page's usual letters."""
_LEAST_FILL: Final = 0.3
_LEAST_INK: Final = 0.35
"""Of the usual height: smaller is dust, or the dash of a line."""
_MOST_OUTLINES: Final = 1_500
"""Of one page; a sheet of a thousand tags has fewer that are doubtful."""
_MOST_AREAS: Final = 20_000
"""Hatching and noise make many that are empty."""
_MOST_LETTERS: Final = 24
_MARGIN: Final = 0.35
_AS_BOXED: Final = 1.4
"""The recognition's own boxes are so much higher than the letters in them."""
_TAG: Final = re.compile(r"[A-ZÀ-Þ#]{1,6}|#?\d{1,4}[A-Za-z]?|[A-ZÀ-Þ]{1,6}[-. ]?\d[\dA-Z./-]{0,11}|\d[\dA-Z./-]{1,11}")
_LEVEL_BONUS: Final = 0.08
_TAG_BONUS: Final = 0.3
_LEAST_SURE: Final = 0.55


@dataclass(frozen=True, slots=True)
class _Outline:
    """A part of the picture: its corner, and the mask of what is dark inside of the outline."""

    left: int
    top: int
    ink: Any
    letters: list[tuple[int, int, int, int]]
    """Left, top, right, bottom of each dark piece, from the corner."""


def read_outlined(picture: Any, found: list[TextRun], usual: float, skew: float, read: Reader) -> list[TextRun]:
    """`found`, where the texts of outlines were read again that were not clear. `usual` is the height of letters."""
    if usual <= 0:
        return found
    runs = _Runs(found, _WIDEST * usual)
    done: set[tuple[int, int]] = set()
    for thicker in (0, 1):
        for outline in _outlines(picture, thicker, usual):
            high, wide = outline.ink.shape
            place = (int((outline.left + wide / 2) // usual), int((outline.top + high / 2) // usual))
            if place in done or len(done) >= _MOST_OUTLINES:
                continue
            inside = runs.within(outline.left, outline.top, wide, high)
            if _is_clear(outline, inside):
                continue
            done.add(place)
            again = _read(picture, outline, skew, read)
            if again and _is_better(again, inside):
                runs.replace(inside, again)
    return runs.all()


class _Runs:
    """Texts by their places, in squares as large as the largest outline."""

    def __init__(self, runs: list[TextRun], side: float) -> None:
        self._side = side
        self._cells: dict[tuple[int, int], list[TextRun]] = {}
        self.replace([], runs)

    def within(self, left: int, top: int, wide: int, high: int) -> list[TextRun]:
        columns = range(int(left // self._side), int((left + wide) // self._side) + 1)
        rows = range(int(top // self._side), int((top + high) // self._side) + 1)
        near = (run for column in columns for row in rows for run in self._cells.get((column, row), ()))
        return [run for run in near if left <= run.x < left + wide and top <= run.y < top + high]

    def replace(self, gone: list[TextRun], new: list[TextRun]) -> None:
        for run in gone:
            self._cells[self._cell(run)].remove(run)
        for run in new:
            self._cells.setdefault(self._cell(run), []).append(run)

    def all(self) -> list[TextRun]:
        return [run for cell in self._cells.values() for run in cell]

    def _cell(self, run: TextRun) -> tuple[int, int]:
        return int(run.x // self._side), int(run.y // self._side)


def _outlines(picture: Any, thicker: int, usual: float) -> Iterator[_Outline]:
    """Those of the size of a tag's that have something in them."""
    import cv2
    import numpy as np

    labels, stats = white_areas(picture, thicker)
    least, tallest, widest = _SMALLEST * usual, _TALLEST * usual, _WIDEST * usual
    wide, high, area = stats[:, 2], stats[:, 3], stats[:, 4]
    fits = (wide > least) & (high > least) & (np.minimum(wide, high) < tallest) & (np.maximum(wide, high) < widest)
    fits &= area > _LEAST_FILL * wide * high
    fits[0] = False
    for label in np.flatnonzero(fits)[:_MOST_AREAS]:
        left, top, width, height = (int(one) for one in stats[label][:4])
        white = (labels[top : top + height, left : left + width] == label).astype(np.uint8)
        edges, _ = cv2.findContours(white, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        filled = cv2.drawContours(np.zeros_like(white), edges, -1, 1, thickness=cv2.FILLED)
        ink = cv2.subtract(filled, white)
        _, _, pieces, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
        letters = [
            (int(x), int(y), int(x + w), int(y + h)) for x, y, w, h, _ in pieces[1:] if max(w, h) > _LEAST_INK * usual
        ]
        if 0 < len(letters) <= _MOST_LETTERS:
            yield _Outline(left, top, ink, letters)


def _is_clear(outline: _Outline, inside: list[TextRun]) -> bool:
    """Whether every piece is of a text that is clear (3)."""
    return all(
        any(
            run.confidence >= CLEAR and _holds(run, outline.left + (left + right) / 2, outline.top + (top + bottom) / 2)
            for run in inside
        )
        for left, top, right, bottom in outline.letters
    )


def _holds(run: TextRun, x: float, y: float) -> bool:
    cos, sin = math.cos(math.radians(run.angle)), -math.sin(math.radians(run.angle))
    along, across = (x - run.x) * cos + (y - run.y) * sin, (y - run.y) * cos - (x - run.x) * sin
    return abs(along) < run.length / 2 and abs(across) < run.size * 0.6


def _is_better(again: list[TextRun], before: list[TextRun]) -> bool:
    letters = sum(len(run.text) for run in before)
    if letters > sum(len(run.text) for run in again) + 1:
        return False
    mean = sum(run.confidence for run in before) / len(before) if before else 0.0
    return sum(run.confidence for run in again) / len(again) >= min(mean, CLEAR) - 0.05


def _read(picture: Any, outline: _Outline, skew: float, read: Reader) -> list[TextRun]:
    """The lines in an outline, as they make the most sense (2)."""
    best: tuple[float, list[TextRun]] = (0.0, [])
    for turn in (0, 90, 270):
        pictures, places = _lines(picture, outline, turn + skew)
        texts = read(pictures)
        if not texts or not all(text for text, _ in texts):
            continue
        sure = min(score for _, score in texts)
        is_tag = all(_TAG.fullmatch(text) for text, _ in texts)
        worth = sure + (_TAG_BONUS if is_tag else 0.0) + (0.0 if turn else _LEVEL_BONUS)
        runs = [
            TextRun(text, x, y, length, size, (turn + skew) % 360, score)
            for (text, score), (x, y, length, size) in zip(texts, places, strict=True)
        ]
        if sure >= _LEAST_SURE and worth > best[0]:
            best = worth, runs
        if turn == 0 and is_tag and (sure >= CLEAR or len(outline.letters) == 1):  # a letter alone stands upright
            break
    return best[1]


def _lines(picture: Any, outline: _Outline, angle: float) -> tuple[list[Any], list[tuple[float, float, float, float]]]:
    """Pictures of the lines of an outline whose text stands at `angle`, and their places, lengths and sizes."""
    import cv2
    import numpy as np

    high, wide = outline.ink.shape
    part = picture[outline.top : outline.top + high, outline.left : outline.left + wide]
    shown = cv2.dilate(outline.ink, np.ones((3, 3), np.uint8))
    part = np.where(shown > 0, part, 255).astype(np.uint8)
    side = math.ceil(math.hypot(wide, high)) + 2
    # Text that stands at an angle is made level by turning it back: clockwise, as y goes down.
    move = cv2.getRotationMatrix2D((wide / 2, high / 2), -angle, 1.0)
    move[:, 2] += (side - wide) / 2, (side - high) / 2
    level = cv2.warpAffine(part, move, (side, side), flags=cv2.INTER_CUBIC, borderValue=255)
    ink = cv2.warpAffine(outline.ink, move, (side, side), flags=cv2.INTER_NEAREST)
    back = cv2.invertAffineTransform(move)
    pictures, places = [], []
    for left, top, right, bottom in _rows(ink):
        tall = bottom - top
        edge = max(2, round(_MARGIN * tall))
        framed = cv2.copyMakeBorder(
            level[top:bottom, left:right], edge, edge, edge, edge, cv2.BORDER_CONSTANT, value=255
        )
        pictures.append(framed)
        x, y = back @ np.array([(left + right) / 2, (top + bottom) / 2, 1.0])
        places.append((float(x) + outline.left, float(y) + outline.top, right - left + 0.5 * tall, tall * _AS_BOXED))
    return pictures, places


def _rows(ink: Any) -> list[tuple[int, int, int, int]]:
    """Left, top, right and bottom of each row of letters, from above."""
    import cv2

    _, _, pieces, _ = cv2.connectedComponentsWithStats(ink, connectivity=8)
    rows: list[list[int]] = []
    tallest = max((int(piece[3]) for piece in pieces[1:]), default=0)
    for x, y, w, h, area in sorted((tuple(int(one) for one in piece) for piece in pieces[1:]), key=lambda one: one[1]):
        if area < 3:
            continue
        if rows and min(rows[-1][3], y + h) - max(rows[-1][1], y) > 0.4 * min(h, rows[-1][3] - rows[-1][1]):
            last = rows[-1]
            rows[-1] = [min(last[0], x), min(last[1], y), max(last[2], x + w), max(last[3], y + h)]
        else:
            rows.append([x, y, x + w, y + h])
    return [(left, top, right, bottom) for left, top, right, bottom in rows if bottom - top > 0.45 * tallest]
