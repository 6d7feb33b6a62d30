"""The map as a picture: a dot for each comment, a colour and a name for each topic of a layer.

`svg` needs no library, and a browser shows a comment when the pointer is on its dot; `png` is drawn by matplotlib.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import PurePath
from typing import Final

from penstock.systems.delphi.analysis.clusters import OUTLIER, Layers
from penstock.systems.delphi.analysis.conversation import Conversation
from penstock.systems.delphi.analysis.libraries import library
from penstock.systems.delphi.analysis.projection import Projection
from penstock.systems.delphi.analysis.topics import Topic
from penstock.systems.delphi.analysis.votes import CommentVotes, Opinions

WIDTH: Final = 1200
HEIGHT: Final = 800
_MARGIN: Final = 70
_LINE: Final = 22
"""Labels are at least so far apart."""
_ABOVE: Final = 11
_CROWD: Final = 40
_LABEL_CHARACTERS: Final = 46
_GREY: Final = "#b8b8b8"
_COLOURS: Final = (
    "#4269d0", "#c9760a", "#d6404d", "#2f8f83", "#3c8a40", "#d1559a", "#8a5fc4", "#1f7fae", "#7d5a36", "#6b7785",
    "#8f8a00", "#a03e7e",
)  # fmt: skip
_DPI: Final = 100
_OWN_FONT: Final = "DejaVu Sans"
_MOST_FONTS: Final = 300
"""Of a machine's fonts, so many are looked at."""


@dataclass(frozen=True, slots=True)
class Dot:
    x: float
    y: float
    colour: str
    text: str


@dataclass(frozen=True, slots=True)
class Label:
    x: float
    y: float
    colour: str
    text: str


@dataclass(frozen=True, slots=True)
class Scene:
    """What is drawn, in pixels from the upper left corner."""

    title: str
    lines: tuple[tuple[float, float, float, float], ...]
    dots: tuple[Dot, ...]
    labels: tuple[Label, ...]


def arrange(
    conversation: Conversation,
    opinions: Opinions,
    projection: Projection,
    layers: Layers,
    topics: Sequence[Topic],
    names: Mapping[str, str],
) -> Scene:
    """Puts everything in its place."""
    places = _scale(projection.positions)
    layer = _shown_layer(layers)
    colours = [_colour(label) for label in layers.labels[layer]]
    shown = [topic for topic in topics if topic.layer == layer]
    dots = tuple(
        Dot(*places[row], colours[row], f"{comment.id}: {comment.text}{_told(opinions.comments[row])}")
        for row, comment in enumerate(conversation.comments)
    )
    lines = tuple((*places[edge.first], *places[edge.second]) for edge in projection.edges if edge.is_nearest)
    title = f"{len(dots):,} comments, {len(shown)} topics (layer {layer} of {len(layers.labels)}, 0 is the finest)"
    return Scene(title, lines, dots, _labels(shown, places, names))


def _told(votes: CommentVotes) -> str:
    """Behind a comment: how people voted on it."""
    if not votes.voters:
        return ""
    shared = f", {votes.consensus} in every group" if votes.consensus and votes.group_agreement else ""
    return f" ({votes.agreement:.0%} of {votes.voters:,} agree{shared})"


def svg(scene: Scene) -> str:
    """A picture by itself: nothing in it is loaded from elsewhere, and text is text."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'role="img" font-family="system-ui, sans-serif">',
        f"<title>{escape(scene.title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        '<g stroke="#e4e4e4" stroke-width="0.7">',
        *(f'<line x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}"/>' for a, b, c, d in scene.lines),
        '</g><g stroke="white" stroke-width="0.6">',
        *(
            f'<circle cx="{dot.x:.1f}" cy="{dot.y:.1f}" r="4.5" fill="{dot.colour}">'
            f"<title>{escape(dot.text)}</title></circle>"
            for dot in scene.dots
        ),
        '</g><g font-size="15" font-weight="600" text-anchor="middle" stroke="white" stroke-width="4" '
        'paint-order="stroke" stroke-linejoin="round">',
        *(
            f'<text x="{label.x:.1f}" y="{label.y:.1f}" fill="{label.colour}">{escape(label.text)}</text>'
            for label in scene.labels
        ),
        f'</g><text x="{_MARGIN // 2}" y="{HEIGHT - 16}" font-size="13" fill="#555">{escape(scene.title)}</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def png(scene: Scene) -> bytes:
    """The same as pixels. A letter that no font of the machine has is drawn as a box; the SVG has it."""
    figure = library("matplotlib.figure").Figure(figsize=(WIDTH / _DPI, HEIGHT / _DPI), dpi=_DPI)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(HEIGHT, 0)
    axes.set_axis_off()
    segments = [((a, b), (c, d)) for a, b, c, d in scene.lines]
    axes.add_collection(library("matplotlib.collections").LineCollection(segments, colors="#e4e4e4", linewidths=0.6))
    axes.scatter(
        [dot.x for dot in scene.dots],
        [dot.y for dot in scene.dots],
        s=34,
        c=[dot.colour for dot in scene.dots],
        edgecolors="white",
        linewidths=0.5,
        zorder=2,
    )
    families = _families("".join(label.text for label in scene.labels))
    halo = [library("matplotlib.patheffects").withStroke(linewidth=3.5, foreground="white")]
    for label in scene.labels:
        axes.text(
            label.x, label.y, label.text.replace("$", r"\$"), color=label.colour, fontsize=11, fontweight="bold",
            fontfamily=families, ha="center", va="baseline", path_effects=halo, zorder=3,
        )  # fmt: skip
    axes.text(_MARGIN // 2, HEIGHT - 16, scene.title, color="#555555", fontsize=9)
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that the font has not
        figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def _families(text: str) -> list[str]:
    """matplotlib's own font, and those of the machine that have the letters which it has not: 計程車."""
    manager, ft2font = library("matplotlib.font_manager"), library("matplotlib.ft2font")
    own = manager.findfont(_OWN_FONT)
    missing = {ord(letter) for letter in text if not letter.isspace()} - set(ft2font.FT2Font(own).get_charmap())
    families = [_OWN_FONT]
    if not missing:
        return families
    for path in sorted(manager.findSystemFonts(), key=_font_rank)[:_MOST_FONTS]:
        try:
            found = missing & set(ft2font.FT2Font(path).get_charmap())
        except (OSError, RuntimeError):  # a bitmap font, or a damaged one
            continue
        if found:
            manager.fontManager.addfont(path)
            families.append(manager.FontProperties(fname=path).get_name())
            missing -= found
        if not missing:
            break
    return families


def _font_rank(path: str) -> tuple[bool, bool, bool, str]:
    """Upright fonts without serifs first; of these the bold ones, as the labels are."""
    name = PurePath(path).name.lower()
    return "italic" in name or "oblique" in name, "serif" in name or "mono" in name, "bold" not in name, name


def _shown_layer(layers: Layers) -> int:
    """The finest that has a colour for each topic; else the coarsest."""
    fitting = (layer for layer in range(len(layers.labels)) if layers.count(layer) <= len(_COLOURS))
    return next(fitting, len(layers.labels) - 1)


def _scale(positions: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Into the picture, with a margin; each direction by itself, so that the picture is used."""
    columns = []
    for axis, size in ((0, WIDTH), (1, HEIGHT)):
        values = [position[axis] for position in positions]
        low, span = min(values), (max(values) - min(values)) or 1.0
        columns.append([_MARGIN + (value - low) / span * (size - 2 * _MARGIN) for value in values])
    return [(x, HEIGHT - y) for x, y in zip(*columns, strict=True)]


def _labels(
    topics: Sequence[Topic], places: Sequence[tuple[float, float]], names: Mapping[str, str]
) -> tuple[Label, ...]:
    """Above the middle of each topic's dots; where two would lie on each other, the lower one goes lower."""
    found: list[Label] = []
    middles = [(topic, *_middle([places[row] for row in topic.rows])) for topic in topics]
    for topic, x, y in sorted(middles, key=lambda one: (one[2], one[1])):
        text = names[topic.key]
        text = text if len(text) <= _LABEL_CHARACTERS else text[: _LABEL_CHARACTERS - 1].rstrip(" ,") + "…"
        half = len(text) * 4.3
        # Over a few dots it would hide them; in the middle of a crowd it is where one looks.
        near = topic.rows if topic.size <= _CROWD else ()
        covered = [dot[1] for dot in (places[row] for row in near) if abs(dot[0] - x) < half and dot[1] <= y + 5]
        y = max(min(covered, default=y + _ABOVE) - _ABOVE, _LINE)
        x = min(max(x, half + 8), WIDTH - half - 8)
        while any(abs(other.y - y) < _LINE and abs(other.x - x) < half + len(other.text) * 4.3 for other in found):
            y += _LINE / 2
        found.append(Label(x, min(y, HEIGHT - _LINE * 2), _colour(topic.cluster), text))
    return tuple(found)


def _middle(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points)


def _colour(cluster: int) -> str:
    return _GREY if cluster == OUTLIER else _COLOURS[cluster % len(_COLOURS)]
