"""Outlines of a scanned page: what is drawn around texts.

An outline is known by the white in it: an area of paper that ink closes in, and that is small for a page. Lines that
are thin and slant have gaps in a scan; where a text has no outline, lines are made thicker and it is tried again.
"""

from __future__ import annotations

import math
from typing import Any, Final

from penstock.systems.security_assistant.drawing.page import Shape, TextRun

DARK: Final = 140
_FAINT: Final = 185
"""Thin lines are grey in a scan."""
_BUBBLE_HEIGHTS: Final = 9
"""What is around a tag is at most so many times as large as its letters."""
_BOX_FILL: Final = 0.83
_DISTANCES: Final = (0.62, 0.5, 0.75)
"""From the middle of a text to the white above and below it, in heights of its letters: these are rough."""


def white_areas(picture: Any, thicker: int) -> tuple[Any, Any]:
    """A label for each pixel, 0 for ink, and place and size of each label."""
    import cv2
    import numpy as np

    white = cv2.erode(picture, np.ones((3, 3), np.uint8)) >= _FAINT if thicker else picture >= DARK
    _, labels, stats, _ = cv2.connectedComponentsWithStats(white.astype(np.uint8), connectivity=4)
    return labels, stats


def find_outlines(picture: Any, found: list[TextRun]) -> list[Shape]:
    """What closed outline is around each text: the white around its letters, where that is small."""
    shapes: list[Shape] = []
    left = found
    for thicker in (0, 1):
        labels, stats = white_areas(picture, thicker)
        known: dict[int, Shape] = {}
        without = []
        for run in left:
            labels_of_run = _outlines_of(run, labels, stats)
            for label in labels_of_run - known.keys():
                known[label] = _shape(run, [int(one) for one in stats[label]], thicker)
            if not labels_of_run:
                without.append(run)
        shapes += known.values()
        left = without
    return shapes


def _outlines_of(run: TextRun, labels: Any, stats: Any) -> set[int]:
    reach = int(_BUBBLE_HEIGHTS * run.size)
    for distance in _DISTANCES:
        found = set()
        for label in _around(run, labels, distance):
            _, _, width, height, _ = (int(one) for one in stats[label])
            if run.size < height < reach and run.size < width < reach * 2:
                found.add(label)
        if found:
            return found
    return set()


def _shape(run: TextRun, of_label: list[int], thicker: int) -> Shape:
    left, top, width, height, area = of_label
    is_box = area / (width * height) > _BOX_FILL and abs(width - run.length) < _BUBBLE_HEIGHTS * run.size
    wide, high = float(width + 2 * thicker), float(height + 2 * thicker)
    return Shape("box" if is_box else "round", left + width / 2, top + height / 2, wide, high)


def _around(run: TextRun, labels: Any, distance: float) -> set[int]:
    """The white areas just above and just below a text."""
    high, wide = labels.shape
    found = set()
    for side in (-1, 1):
        cos, sin = math.cos(math.radians(run.angle)), math.sin(math.radians(run.angle))
        across = side * run.size * distance
        x, y = int(run.x + across * sin), int(run.y + across * cos)
        if 0 <= x < wide and 0 <= y < high:
            found.add(int(labels[y, x]))
    return found - {0}
