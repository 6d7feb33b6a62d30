"""Small log-log plots as SVG, readable on light and on dark pages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 380, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 84, 40, 46

_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 13px }
.page { fill: #ffffff; stroke: #d0d7de }
.grid { stroke: #d8dee4; stroke-width: 1 }
.line { fill: none; stroke-width: 2.5 }
.a { stroke: #0969da } .dot.a, .name.a { fill: #0969da }
.b { stroke: #bc4c00 } .dot.b, .name.b { fill: #bc4c00 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .page { fill: #0d1117; stroke: #30363d } .grid { stroke: #30363d }
  .a { stroke: #58a6ff } .dot.a, .name.a { fill: #58a6ff }
  .b { stroke: #f0883e } .dot.b, .name.b { fill: #f0883e }
}
.dot, .name { stroke: none }
"""


@dataclass(frozen=True)
class Series:
    """A line: its name, its class of colour (a or b), and its points."""

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
    width = WIDTH * len(panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}" height="{HEIGHT}"'
        f' role="img" aria-label="{escape(description)}">',
        f"<title>{escape(description)}</title><style>{_STYLE}</style>",
        f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{HEIGHT - 1}" rx="6"/>',
    ]
    for place, panel in enumerate(panels):
        parts.append(f'<g transform="translate({place * WIDTH} 0)">{_panel(panel)}</g>')
    return "\n".join((*parts, "</svg>\n"))


def _panel(panel: Panel) -> str:
    points = [point for series in panel.series for point in series.points]
    across = _Axis([x for x, _ in points], _LEFT, WIDTH - _RIGHT)
    up = _Axis([y for _, y in points], HEIGHT - _BOTTOM, _TOP)
    parts = [f'<text class="title" x="{_LEFT - 40}" y="22">{escape(panel.title)}</text>']
    for power in up.powers:
        y = up.place(10.0**power)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        label = f"{_number(power)}{panel.unit}"
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for power in across.powers:
        x = across.place(10.0**power)
        parts.append(f'<line class="grid" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}" x1="{x:.1f}" x2="{x:.1f}"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - _BOTTOM + 17}" text-anchor="middle">{_number(power)}</text>')
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{escape(panel.horizontal)}</text>')
    parts += [_line(series, across, up) for series in panel.series]
    return "".join(parts)


def _line(series: Series, across: _Axis, up: _Axis) -> str:
    places = [(across.place(x), up.place(y)) for x, y in series.points]
    path = " ".join(f"{'L' if number else 'M'}{x:.1f} {y:.1f}" for number, (x, y) in enumerate(places))
    dots = "".join(f'<circle class="dot {series.colour}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in places)
    x, y = places[-1]
    name = f'<text class="name {series.colour}" x="{x + 9:.1f}" y="{y + 4:.1f}">{escape(series.name)}</text>'
    return f'<path class="line {series.colour}" d="{path}"/>{dots}{name}'


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
