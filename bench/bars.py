"""Small bar charts as SVG: a panel a measurement, a bar a subject, each named and with its figure beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.drawing import moved, sheet, text

WIDTH = 420
COLUMNS = 2
_NAME, _FIGURE = 156, 66  # room left of the bars, and right of the longest
_TOP, _ROW, _BAR, _BOTTOM = 50, 21, 13, 14
_LEAST = 1.5  # a bar that is there can be seen


@dataclass(frozen=True)
class Bar:
    name: str
    value: float
    shown: str
    ours: bool = False


@dataclass(frozen=True)
class Panel:
    """One measurement; the bars share a scale from zero."""

    title: str
    hint: str  # the unit, and whether more or less is better
    bars: tuple[Bar, ...]

    @property
    def height(self) -> int:
        return _TOP + _ROW * len(self.bars) + _BOTTOM


def drawing(panels: tuple[Panel, ...], description: str) -> str:
    """The panels in two columns, as one SVG file."""
    rows = [panels[start : start + COLUMNS] for start in range(0, len(panels), COLUMNS)]
    parts, top = [], 0
    for row in rows:
        parts += [moved(place * WIDTH, top, _panel(panel)) for place, panel in enumerate(row)]
        top += max(panel.height for panel in row)
    return sheet(WIDTH * min(COLUMNS, len(panels)), top, description, parts)


def _panel(panel: Panel) -> Iterator[str]:
    yield text(14, 24, panel.title, "title")
    yield text(14, 40, panel.hint, "hint")
    longest = max(bar.value for bar in panel.bars) or 1.0
    room = WIDTH - _NAME - _FIGURE
    yield f'<line class="grid" x1="{_NAME}" x2="{_NAME}" y1="{_TOP}" y2="{panel.height - _BOTTOM}"/>'
    for place, bar in enumerate(panel.bars):
        y = _TOP + _ROW * place + (_ROW - _BAR) / 2
        width = max(_LEAST, bar.value / longest * room)
        weight = "ours" if bar.ours else ""
        yield text(_NAME - 6, y + _BAR - 2, bar.name, weight, "end")
        colour = "a" if bar.ours else "quiet"
        yield f'<rect class="bar {colour}" x="{_NAME}" y="{y:.1f}" width="{width:.1f}" height="{_BAR}" rx="2"/>'
        yield text(_NAME + width + 5, y + _BAR - 2, bar.shown, weight)
