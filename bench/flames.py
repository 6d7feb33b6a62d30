"""`python -m bench.flames STACKS OUT.svg [--from NAME]`: a flame graph of a profile, for docs/performance.md.

STACKS is what `py-spy record --format raw` writes: a line for each stack, its frames from the outermost, and how often
it was seen. A box is a function, as wide as its share of the time; what it called stands on it. Boxes are coloured by
the room of the code that they belong to.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from bench.drawing import sheet, text

WIDTH, ROW, TOP, EDGE = 960, 17, 58, 10
_LEAST = 0.004
"""Boxes that are narrower than this share are left out: nobody could read them."""
_LETTER = 6.4
_ROOMS = {"jobs": "a", "records": "a", "engine": "b", "wire": "c", "expressions": "c", "client": "d"}
_LEGEND = {"a": "jobs, records", "b": "engine and SQLite", "c": "wire, expressions", "d": "client", "quiet": "others"}
_FRAME = re.compile(r"(?P<name>.+?) \((?P<file>[^():]+)(:\d+)?\)?$")


@dataclass
class Box:
    """A function as it was called from those below it."""

    name: str
    room: str
    seen: int = 0
    callees: dict[str, Box] = field(default_factory=dict)


def boxes(lines: Iterable[str], start: str | None = None) -> Box:
    """The stacks put together; with `start`, of those that have such a function, from it on."""
    root = Box("all", "quiet")
    for line in lines:
        stack, _, count = line.rpartition(" ")
        frames = [_frame(one) for one in stack.split(";")]
        if start is not None:
            names = [name for name, _ in frames]
            if start not in names:
                continue
            frames = frames[names.index(start) :]
        box = root
        box.seen += int(count)
        for name, room in frames:
            box = box.callees.setdefault(name, Box(name, room))
            box.seen += int(count)
    return root


def _frame(frame: str) -> tuple[str, str]:
    found = _FRAME.match(frame)
    if found is None:
        return frame, "quiet"
    room = re.search(r"penstock/(\w+)/", found["file"])
    return found["name"], _ROOMS.get(room[1], "quiet") if room else "quiet"


def drawing(root: Box, title: str) -> str:
    """The graph as SVG, the outermost function at the bottom."""
    height = TOP + ROW * _depth(root, root.seen) + 2 * EDGE
    parts = [text(EDGE, 22, title, "title"), *_legend(), *_drawn(root, 0.0, 0, root.seen, height - EDGE - ROW)]
    return sheet(WIDTH, height, title, parts)


def _depth(box: Box, total: int) -> int:
    return 1 + max((_depth(one, total) for one in _shown(box, total)), default=0)


def _shown(box: Box, total: int) -> list[Box]:
    wide = [one for one in box.callees.values() if one.seen >= _LEAST * total]
    return sorted(wide, key=lambda one: -one.seen)


def _legend() -> Iterator[str]:
    x = float(EDGE)
    for colour, name in _LEGEND.items():
        yield f'<rect class="bar {colour}" x="{x:.0f}" y="34" width="10" height="10" rx="2"/>'
        yield text(x + 15, 43, name, "hint")
        x += 30 + len(name) * _LETTER


def _drawn(box: Box, left: float, level: int, total: int, bottom: float) -> Iterator[str]:
    scale = (WIDTH - 2 * EDGE) / total
    width, y = box.seen * scale, bottom - level * ROW
    share = f"{box.name}: {100 * box.seen / total:.1f} %"
    yield (
        f'<g><title>{escape(share)}</title><rect class="bar {box.room}" opacity="0.55" rx="1.5" '
        f'x="{EDGE + left:.1f}" y="{y:.1f}" width="{max(width - 0.6, 0.4):.1f}" height="{ROW - 1}"/>'
    )
    room = int((width - 6) / _LETTER)
    if room >= 3:
        words = box.name if len(box.name) <= room else box.name[: room - 1] + "…"
        yield text(EDGE + left + 3, y + ROW - 5, words, "hint ours")
    yield "</g>"
    for one in _shown(box, total):
        yield from _drawn(one, left, level + 1, total, bottom)
        left += one.seen * scale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stacks", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--from", dest="start", help="only what this function did")
    parser.add_argument("--title", default="Where the time goes")
    options = parser.parse_args()
    root = boxes(options.stacks.read_text(encoding="utf-8").splitlines(), options.start)
    if not root.seen:
        sys.exit(f"{options.stacks}: no stack" + (f" has {options.start}." if options.start else "."))
    options.out.write_text(drawing(root, options.title), encoding="utf-8")
    sys.stdout.write(f"{options.out}: {root.seen:,} samples\n")


if __name__ == "__main__":
    main()
