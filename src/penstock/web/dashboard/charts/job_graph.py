"""The jobs around a job as SVG: what it depends on to its left, what waits for it and its children to its right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from markupsafe import Markup, escape

_WIDE: Final = 150
_TALL: Final = 40
_ACROSS: Final = 44
_DOWN: Final = 10
_MARGIN: Final = 3
_CHARACTERS: Final = 19
MOST_IN_A_COLUMN: Final = 12


@dataclass(frozen=True, slots=True)
class JobNode:
    """A job of the graph. `column` is 0 for the job itself, negative for what it needs, positive for what needs it."""

    job_id: str
    task: str
    state: str
    column: int


@dataclass(frozen=True, slots=True)
class JobEdge:
    """From what is needed, or the parent, to the other."""

    source: str
    target: str
    how: str


@dataclass(frozen=True, slots=True)
class JobGraph:
    nodes: tuple[JobNode, ...]
    edges: tuple[JobEdge, ...]
    left_out: int = 0
    """Jobs that have no room."""


def draw_graph(graph: JobGraph) -> Markup:
    """Each job is a link. Nothing if the job stands alone."""
    if len(graph.nodes) < 2:
        return Markup("")
    places = _arrange(graph.nodes)
    width = max(x for x, _ in places.values()) + _WIDE + _MARGIN
    height = max(y for _, y in places.values()) + _TALL + _MARGIN
    edges = [_edge(places[one.source], places[one.target], one.how) for one in graph.edges if _has_both(one, places)]
    boxes = [_box(node, *places[node.job_id]) for node in graph.nodes]
    before = sum(1 for node in graph.nodes if node.column < 0)
    label = f"{before} jobs before this one, {len(graph.nodes) - before - 1} after it, from left to right"
    head = f'<svg class="lineage" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    # A group, not a picture: its links can be reached.
    return Markup(f'{head} role="group" aria-label="{label}">{"".join(edges)}{"".join(boxes)}</svg>')  # noqa: S704


def _has_both(edge: JobEdge, places: Mapping[str, object]) -> bool:
    return edge.source in places and edge.target in places


def _arrange(nodes: Sequence[JobNode]) -> dict[str, tuple[float, float]]:
    columns: dict[int, list[JobNode]] = {}
    for node in nodes:
        columns.setdefault(node.column, []).append(node)
    tallest = max(len(column) for column in columns.values())
    places: dict[str, tuple[float, float]] = {}
    for number, column in enumerate(sorted(columns)):
        top = _MARGIN + (tallest - len(columns[column])) * (_TALL + _DOWN) / 2
        for row, node in enumerate(columns[column]):
            places[node.job_id] = (_MARGIN + number * (_WIDE + _ACROSS), top + row * (_TALL + _DOWN))
    return places


def _edge(source: tuple[float, float], target: tuple[float, float], how: str) -> str:
    x1, y1, x2, y2 = source[0] + _WIDE, source[1] + _TALL / 2, target[0], target[1] + _TALL / 2
    bend = max(_ACROSS / 2, (x2 - x1) / 2)
    path = f"M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    return f'<path class="edge edge-{escape(how)}" d="{path}"/>'


def _box(node: JobNode, x: float, y: float) -> str:
    title = escape(f"{node.task} {node.job_id}: {node.state}")
    here = " node-here" if node.column == 0 else ""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{_WIDE}" height="{_TALL}" rx="6"'
    rect = f'<rect class="node job-{escape(node.state)}{here}" {place}><title>{title}</title></rect>'
    name = f'<text x="{x + 10:.1f}" y="{y + 17:.1f}">{escape(_shorten(node.task))}</text>'
    state = f'<text class="small" x="{x + 10:.1f}" y="{y + 32:.1f}">{escape(node.state)}</text>'
    inner = f"{rect}{name} {state}"
    # A link's name is the text that is seen (WCAG 2.5.3), so it has no label of its own.
    return inner if node.column == 0 else f'<a href="/jobs/{quote(node.job_id, safe="")}" class="to">{inner}</a>'


def _shorten(text: str) -> str:
    return text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…"
