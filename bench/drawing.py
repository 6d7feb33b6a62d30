"""The sheet that every plot is drawn on: one SVG file that is readable on light and on dark pages.

Colours are classes: a, b, c and d are lines or bars of their own, `quiet` is what stands beside them. An SVG shown by
an <img> follows the reader's own setting, so one file serves both.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_LIGHT = {"a": "#0969da", "b": "#bc4c00", "c": "#1a7f37", "d": "#8250df", "quiet": "#8c959f"}
_DARK = {"a": "#58a6ff", "b": "#f0883e", "c": "#3fb950", "d": "#bc8cff", "quiet": "#6e7681"}


def _colours(colours: dict[str, str]) -> str:
    return " ".join(
        f".line.{name} {{ stroke: {colour} }} .bar.{name}, .dot.{name}, .name.{name} {{ fill: {colour} }}"
        for name, colour in colours.items()
    )


STYLE = f"""
text {{ font: 12px system-ui, sans-serif; fill: #24292f }}
.title {{ font-weight: 600; font-size: 13px }}
.hint {{ fill: #57606a; font-size: 11px }}
.ours {{ font-weight: 600 }}
.page {{ fill: #ffffff; stroke: #d0d7de }}
.grid {{ stroke: #d8dee4; stroke-width: 1 }}
.line {{ fill: none; stroke-width: 2.5 }}
{_colours(_LIGHT)}
@media (prefers-color-scheme: dark) {{
text {{ fill: #e6edf3 }} .hint {{ fill: #9198a1 }}
.page {{ fill: #0d1117; stroke: #30363d }} .grid {{ stroke: #30363d }}
{_colours(_DARK)}
}}
"""


def sheet(width: int, height: int, description: str, parts: Iterable[str]) -> str:
    """An SVG file of this size; `description` is read to those who cannot see it."""
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            f' role="img" aria-label="{escape(description)}">',
            f"<title>{escape(description)}</title><style>{STYLE}</style>",
            f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6"/>',
            *parts,
            "</svg>\n",
        )
    )


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    classes = f' class="{kind}"' if kind else ""
    place = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text{classes} x="{x:.1f}" y="{y:.1f}"{place}>{escape(words)}</text>'


def moved(x: float, y: float, parts: Iterable[str]) -> str:
    return f'<g transform="translate({x:g} {y:g})">{"".join(parts)}</g>'
