"""Small log-log plots as SVG: how something grows. Lines are named where they end."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from bench.drawing import moved, sheet, text

WIDTH, HEIGHT = 400, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 110, 40, 46
_APART = 14.0  # between two names, so that both can be read


@dataclass(frozen=True)
class Series:
    """A line: its name, its class of colour (a to d), and its points."""

    name: str
    colour: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Panel:
    title: str
    series: tuple[Series, ...]
    horizontal: str
    unit: str = ""


def drawing(panels: tuple[Panel, ...], description: str) -> str:
    """The panels beside each other, as one SVG file."""
    parts = [moved(place * WIDTH, 0, _panel(panel)) for place, panel in enumerate(panels)]
    return sheet(WIDTH * len(panels), HEIGHT, description, parts)


def _panel(panel: Panel) -> Iterator[str]:
    points = [point for series in panel.series for point in series.points]
    across = _Axis([x for x, _ in points], _LEFT, WIDTH - _RIGHT)
    up = _Axis([y for _, y in points], HEIGHT - _BOTTOM, _TOP)
    yield text(_LEFT - 48, 22, panel.title, "title")
    for power in up.powers:
        y = up.place(10.0**power)
        yield f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield text(_LEFT - 6, y + 4, f"{_number(power)}{panel.unit}", anchor="end")
    for power in across.powers:
        x = across.place(10.0**power)
        yield f'<line class="grid" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}" x1="{x:.1f}" x2="{x:.1f}"/>'
        yield text(x, HEIGHT - _BOTTOM + 17, _number(power), anchor="middle")
    yield text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 10, panel.horizontal, anchor="middle")
    ends = spread([up.place(series.points[-1][1]) for series in panel.series])
    for series, end in zip(panel.series, ends, strict=True):
        yield _line(series, across, up, end)


def _line(series: Series, across: _Axis, up: _Axis, end: float) -> str:
    places = [(across.place(x), up.place(y)) for x, y in series.points]
    path = " ".join(f"{'L' if number else 'M'}{x:.1f} {y:.1f}" for number, (x, y) in enumerate(places))
    dots = "".join(f'<circle class="dot {series.colour}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in places)
    name = text(places[-1][0] + 9, end + 4, series.name, f"name {series.colour}")
    return f'<path class="line {series.colour}" d="{path}"/>{dots}{name}'


def spread(places: list[float], apart: float = _APART) -> list[float]:
    """The same places, moved as little as needed so that no two are nearer than `apart`; their order stays."""
    order = sorted(range(len(places)), key=lambda one: places[one])
    blocks: list[list[int]] = []
    for one in order:
        blocks.append([one])
        while len(blocks) > 1 and _top(blocks[-1], places, apart) < _top(blocks[-2], places, apart) + apart * len(
            blocks[-2]
        ):
            last = blocks.pop()
            blocks[-1] += last
    moved_to = list(places)
    for block in blocks:
        for place, one in enumerate(block):
            moved_to[one] = _top(block, places, apart) + place * apart
    return moved_to


def _top(block: list[int], places: list[float], apart: float) -> float:
    """Where the first of names that stand together goes, so that their middle is the middle of their places."""
    return sum(places[one] for one in block) / len(block) - apart * (len(block) - 1) / 2


class _Axis:
    """Whole powers of ten, from the one below the smallest value to the one above the largest."""

    def __init__(self, values: list[float], start: float, end: float) -> None:
        low, high = math.floor(math.log10(min(values)) + 1e-9), math.ceil(math.log10(max(values)) - 1e-9)
        self.powers = range(low, max(high, low + 1) + 1)
        self._start, self._length = start, end - start

    def place(self, value: float) -> float:
        part = (math.log10(value) - self.powers[0]) / (self.powers[-1] - self.powers[0])
        return self._start + part * self._length


def _number(power: int) -> str:
    """1, 10, 100, 1,000, 10⁴ …"""
    if power < 0:
        return f"{10.0**power:g}"
    return f"{10**power:,}" if power <= 3 else "10" + str(power).translate(_SUPERSCRIPTS)


_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
