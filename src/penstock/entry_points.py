"""The entry points of a group, as `importlib.metadata.entry_points(group=…)` finds them, in a tenth of its time.

importlib.metadata reads the metadata of every installed package, with a parser of e-mail: two thirds of what
`penstock --help` would take.

1. A folder on `sys.path` is looked through for `*.dist-info` and `*.egg-info`, and only a file that names the group is
   parsed. Of two versions of one distribution the first on the path counts.
2. What is on the path and is no folder (a zip file), and a path hook of somebody's, is importlib.metadata's to read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, NamedTuple


class EntryPoint(NamedTuple):
    """`name = module:attribute` under a group."""

    name: str
    value: str

    def load(self) -> Any:
        """The object. Raises what importing it raises."""
        module, _, attribute = self.value.partition("[")[0].strip().partition(":")
        found: Any = import_module(module)
        for part in filter(None, attribute.split(".")):
            found = getattr(found, part)
        return found


def entry_points(group: str, path: Iterable[str] | None = None) -> list[EntryPoint]:
    """Those of the group, in the order of the path."""
    found: list[EntryPoint] = []
    seen: set[str] = set()
    for place in sys.path if path is None else path:
        folder = place or "."
        if os.path.isdir(folder):  # noqa: PTH112 - pathlib's import takes longer than all of this
            for distribution, text in _texts(folder):
                if distribution not in seen:
                    seen.add(distribution)
                    found += _of_group(text, group)
        elif os.path.isfile(folder):  # noqa: PTH113
            found += _by_importlib(folder, group, seen)
    return found


def _texts(folder: str) -> Iterator[tuple[str, str]]:
    """Of each distribution in the folder: its normalized name, and its entry points."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith((".dist-info", ".egg-info")))
    except OSError:
        return
    for name in names:
        try:
            with open(f"{folder}/{name}/entry_points.txt", encoding="utf-8") as file:  # noqa: PTH123
                text = file.read()
        except (OSError, UnicodeDecodeError):
            text = ""
        yield _normalized(name.rpartition(".")[0].partition("-")[0]), text


def _of_group(text: str, group: str) -> Iterator[EntryPoint]:
    if group not in text:
        return
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line.strip("[]").strip()
        elif section == group and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield EntryPoint(name.strip(), value.strip())


def _by_importlib(file: str, group: str, seen: set[str]) -> Iterator[EntryPoint]:
    from importlib.metadata import distributions

    for one in distributions(path=[file]):
        name = _normalized(one.name or "")
        if name not in seen:
            seen.add(name)
            for point in one.entry_points:
                if point.group == group:
                    yield EntryPoint(point.name, point.value)


def _normalized(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")
