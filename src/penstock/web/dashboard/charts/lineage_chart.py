"""The lineage of a pipeline's run as SVG: its inputs, then its steps, each to the right of what it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from markupsafe import Markup, escape

from penstock.pipelines.lineage import Lineage

_WIDE: Final = 128
_TALL: Final = 42
_LOW: Final = 26
_ACROSS: Final = 36
_DOWN: Final = 14
_MARGIN: Final = 2
_CHARACTERS: Final = 17
MOST_NODES: Final = 80


@dataclass(slots=True)
class Node:
    """A step, or an input of the run."""

    name: str
    is_step: bool
    outputs: list[str] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    """Each thing that it needs, with the node that it comes from."""
    is_current: bool = True
    column: int = 0
    x: float = 0.0
    y: float = 0.0

    @property
    def tall(self) -> int:
        return _TALL if self.is_step else _LOW


Unmade = Mapping[str, tuple[Sequence[str], Sequence[str]]]
"""Steps that have made nothing yet, because they failed, still run or have not begun: what each needs and makes."""
_NONE: Final[Unmade] = {}


def nodes_of(made: Lineage | None, unmade: Unmade) -> list[Node]:
    """Pure: the steps with what they need. Inputs that no step needs are left out."""
    origins = () if made is None else made.origins
    makers = {origin.name: f"step {origin.step}" if origin.step else f"given {origin.name}" for origin in origins}
    done = {origin.step for origin in origins}
    unmade = {step: found for step, found in unmade.items() if step not in done}
    makers |= {output: f"step {step}" for step, (_, outputs) in unmade.items() for output in outputs}
    nodes: dict[str, Node] = {}
    for origin in origins:
        node = nodes.setdefault(makers[origin.name], Node(origin.step or origin.name, bool(origin.step)))
        if origin.step:
            node.outputs.append(origin.name)
            node.sources |= {name: makers[name] for name in origin.inputs if name in makers}
            node.is_current = node.is_current and made is not None and made.is_current(origin.name)
    for step, (needs, _) in unmade.items():
        nodes[f"step {step}"] = Node(step, True, sources={name: makers[name] for name in needs if name in makers})
    needed = {source for node in nodes.values() for source in node.sources.values()}
    kept = {key: node for key, node in nodes.items() if node.is_step or key in needed}
    _place_columns(kept)
    return list(kept.values())[:MOST_NODES]


def _place_columns(nodes: Mapping[str, Node]) -> None:
    """A step is right of all that it needs; an input is just left of the first step that needs it."""
    for _ in range(len(nodes)):  # no chain is longer; a cycle, which is a mistake, stops moving here
        moved = False
        for node in nodes.values():
            behind = max((nodes[one].column for one in node.sources.values() if one in nodes), default=-1) + 1
            if node.is_step and max(1, behind) != node.column and behind <= len(nodes):
                node.column, moved = max(1, behind), True
        if not moved:
            break
    for key, node in nodes.items():
        users = [one.column for one in nodes.values() if key in one.sources.values()]
        if not node.is_step and users:
            node.column = min(users) - 1


def draw_lineage(made: Lineage | None, states: Mapping[str, str], unmade: Unmade = _NONE) -> Markup:
    """`states` is each step's outcome in the newest round: `ran`, `reused`, …"""
    nodes = nodes_of(made, {step: unmade.get(step, ((), ())) for step in states})
    behind = max((node.column for node in nodes), default=0) + 1
    for node in nodes:  # of a version that did not keep what its steps need
        if node.is_step and not node.outputs and not node.sources:
            node.column = behind
    if not nodes:
        return Markup("")
    width, height = _arrange(nodes)
    places = {(f"step {node.name}" if node.is_step else f"given {node.name}"): node for node in nodes}
    edges = [
        _edge(places[source], node, name)
        for node in nodes
        for name, source in node.sources.items()
        if source in places and places[source].column < node.column
    ]
    boxes = [_box(node, states.get(node.name, "")) for node in nodes]
    steps = sum(1 for node in nodes if node.is_step)
    label = f"{steps} steps and {len(nodes) - steps} inputs, from left to right"
    head = (
        f'<svg class="lineage" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'role="img" aria-label="{escape(label)}">'
    )
    return Markup(head + "".join(edges) + "".join(boxes) + "</svg>")  # noqa: S704 - of numbers and escaped texts


def _arrange(nodes: list[Node]) -> tuple[float, float]:
    columns: dict[int, list[Node]] = {}
    for node in nodes:
        columns.setdefault(node.column, []).append(node)
    heights = {number: sum(node.tall + _DOWN for node in column) - _DOWN for number, column in columns.items()}
    tallest = max(heights.values())
    for place, number in enumerate(sorted(columns)):
        top = _MARGIN + (tallest - heights[number]) / 2
        for node in columns[number]:
            node.x, node.y = _MARGIN + place * (_WIDE + _ACROSS), top
            top += node.tall + _DOWN
    return 2 * _MARGIN + len(columns) * (_WIDE + _ACROSS) - _ACROSS, tallest + 2 * _MARGIN


def _edge(source: Node, target: Node, name: str) -> str:
    x1, y1 = source.x + _WIDE, source.y + source.tall / 2
    x2, y2 = target.x, target.y + target.tall / 2
    bend = max(_ACROSS / 2, (x2 - x1) / 2)
    path = f"M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    title = escape(f"{name}: {source.name} → {target.name}")
    return f'<path class="edge" d="{path}"><title>{title}</title></path>'


def _box(node: Node, state: str) -> str:
    known = state if state in ("ran", "reused", "running", "failed", "pending") else ""
    classes = "node" + (f" node-{known}" if known else "") + ("" if node.is_step else " node-given")
    classes += "" if node.is_current else " node-old"
    place = f'x="{node.x:.1f}" y="{node.y:.1f}" width="{_WIDE}" height="{node.tall}" rx="{6 if node.is_step else 13}"'
    title = f"{node.name}: {known or ('step' if node.is_step else 'given')}"
    title += f"; makes {', '.join(node.outputs)}" if node.outputs else ""
    title += "" if node.is_current else "; made from what was there before"
    parts = [f'<rect class="{classes}" {place}><title>{escape(title)}</title></rect>']
    parts.append(f'<text x="{node.x + 10:.1f}" y="{node.y + 17:.1f}">{escape(_shorten(node.name))}</text>')
    if node.is_step:
        made = _shorten("→ " + ", ".join(node.outputs) if node.outputs else known)
        parts.append(f'<text class="small" x="{node.x + 10:.1f}" y="{node.y + 33:.1f}">{escape(made)}</text>')
    return "".join(parts)


def _shorten(text: str) -> str:
    return text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…"
