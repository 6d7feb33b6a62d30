"""The walks in docs/architecture.md, from tools/walk.py.

They stand between two comments of the page. `--check` does not ask for them: a walk takes seconds, and the event loop's
part of one differs by a hop or two from run to run. tests/docs checks that the files exist.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PLACE = re.compile(r"(<!-- walks: begin[^>]*-->\n).*?(<!-- walks: end -->)", re.DOTALL)
_CALLS = {
    "put-item": "PutItem over HTTP",
    "enqueue": "`task.enqueue`",
    "work": "a worker runs one job",
    "apply": "`penstock tables apply`",
}
BEFORE: Mapping[str, tuple[int, int, int]] = {
    "put-item": (29, 63, 34),
    "enqueue": (46, 89, 43),
    "work": (62, 437, 375),
    "apply": (61, 340, 279),
}
"""Files, hops and returns in version 0.1, by the same tool. They do not change any more."""


def with_walks(page: str) -> str:
    """The page with the walks as they are now."""
    sys.path.insert(0, str(ROOT))
    from tools.walk import walk_of

    walks = {name: walk_of(name).hops for name in _CALLS}
    text = "\n".join([*_figures(walks), "", *(line for name in _CALLS for line in _files(name, walks[name]))])
    return _PLACE.sub(lambda place: f"{place[1]}{text}\n{place[2]}", page)


def _figures(walks: Mapping[str, list[str]]) -> list[str]:
    lines = ["| walk | files: version 0.1 → now | hops | returns |", "|---|---|---|---|"]
    for name, title in _CALLS.items():
        files = len(set(walks[name]))
        now = (files, len(walks[name]), len(walks[name]) - files)
        pairs = [f"{old} → {new}" for old, new in zip(BEFORE[name], now, strict=True)]
        lines.append(f"| {title} (`{name}`) | {' | '.join(pairs)} |")
    return lines


def _files(name: str, hops: list[str]) -> list[str]:
    """A row for each package, in the order of the first visits; how often a file is visited, where more than once."""
    lines = [f"### {_CALLS[name]}", "", "| package | files, in the order of their first visit |", "|---|---|"]
    for folder, paths in groupby(dict.fromkeys(hops), key=lambda path: path.rpartition("/")[0]):
        texts = []
        for path in paths:
            visits = hops.count(path)
            texts.append(f"`{path.rpartition('/')[2]}`" + (f" ×{visits}" if visits > 1 else ""))
        lines.append(f"| `{folder or '.'}/` | {', '.join(texts)} |")
    return [*lines, ""]
