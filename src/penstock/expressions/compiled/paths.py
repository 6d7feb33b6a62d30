"""Document paths with their #placeholders replaced: what they find, whether two of them clash, what they show.

A ProjectionExpression is a list of them: which parts of an item are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from penstock.expressions.syntax import error_wording
from penstock.expressions.syntax.checks import check_size, check_words, placeholders
from penstock.expressions.syntax.parser import parse_projection
from penstock.expressions.syntax.tree import Path, ProjectionTree
from penstock.wire.limits import PATH_ELEMENTS
from penstock.wire.values import AttributeValue, Item

CACHED = 1024
"""Compiled expressions that are kept of each kind: programs have few, and the largest takes some 50 KB."""

BoundPath = tuple[str | int, ...]
Getter = Callable[[Item], AttributeValue | None]
Shape = dict[str | int, Any]
"""What to keep of an item: name or index → None for all of it, or a Shape of its parts."""


def bind_path(path: Path, names: Mapping[str, str]) -> BoundPath:
    """The path with the names that its placeholders stand for."""
    parts = path.parts
    if len(parts) == 1:
        head = parts[0]
        return parts if head[0] != "#" else (_name_of(head, names),)  # type: ignore[index,arg-type]
    bound = tuple(_name_of(part, names) if isinstance(part, str) and part[0] == "#" else part for part in parts)
    if len(bound) > PATH_ELEMENTS:
        raise error_wording.too_deep(len(bound))
    return bound


def _name_of(placeholder: str, names: Mapping[str, str]) -> str:
    name = names.get(placeholder)
    if name is None:
        raise error_wording.undefined_name(placeholder)
    return name


def path_text(path: BoundPath) -> str:
    """The path as DynamoDB shows it: [a, b, [3]]."""
    return "[" + ", ".join(f"[{part}]" if isinstance(part, int) else part for part in path) + "]"


def find(path: BoundPath, item: Item) -> AttributeValue | None:
    """The value at this path, if there is one."""
    value: Any = item.get(path[0])  # type: ignore[arg-type]
    for part in path[1:]:
        if value is None:
            return None
        if isinstance(part, int):
            elements = value.get("L")
            value = elements[part] if elements is not None and part < len(elements) else None
        else:
            members = value.get("M")
            value = members.get(part) if members is not None else None
    found: AttributeValue | None = value
    return found


def getter(path: BoundPath) -> Getter:
    """`find` for this path, as fast as may be."""
    if len(path) > 1:
        return lambda item: find(path, item)
    name: Any = path[0]
    return lambda item: item.get(name)


# ── clashes ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Branch:
    """Paths that begin alike. `born` is the number of the first of them."""

    born: int
    part: str | int
    branches: dict[str | int, _Branch] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)

    def entries(self) -> list[tuple[int, _Branch | None]]:
        """Branches, and the paths that end here, the newest first."""
        found: list[tuple[int, _Branch | None]] = [(end, None) for end in self.ends]
        found += [(branch.born, branch) for branch in self.branches.values()]
        return sorted(found, key=lambda entry: -entry[0])

    def newest_end(self) -> int:
        number, branch = self.entries()[0]
        while branch is not None:
            number, branch = branch.entries()[0]
        return number


def refuse_clashes(paths: Sequence[BoundPath]) -> None:
    """Refuses a path that is, or lies within, another one, and an attribute that is both a list and a map.

    Where there are several clashes, DynamoDB reports the one that it meets first from the newest path back.
    """
    if len({path[0] for path in paths}) == len(paths):
        return
    root = _Branch(0, "")
    for number, path in enumerate(paths):
        branch = root
        for part in path:
            branch = branch.branches.setdefault(part, _Branch(number, part))
        branch.ends.append(number)
    _refuse_within(root, paths)


def _refuse_within(node: _Branch, paths: Sequence[BoundPath]) -> None:
    entries = node.entries()
    # Hundreds of paths side by side are looked at in pairs only where two of them do clash.
    kinds = {None if branch is None else isinstance(branch.part, int) for _, branch in entries}
    clash = len(kinds) > 1 or (None in kinds and len(entries) > 1)
    for number, branch in entries:
        if branch is not None:
            _refuse_within(branch, paths)
        for other_number, other in entries if clash else ():
            if other_number == number and other is branch:
                continue
            how = _clash(branch, other)
            if how is not None:
                ends = sorted(
                    (
                        number if branch is None else branch.newest_end(),
                        other_number if other is None else other.newest_end(),
                    )
                )
                raise error_wording.clashing_paths(how, path_text(paths[ends[0]]), path_text(paths[ends[1]]))


def _clash(one: _Branch | None, other: _Branch | None) -> str | None:
    if one is None or other is None:
        return "overlap"
    return "conflict" if isinstance(one.part, int) != isinstance(other.part, int) else None


# ── what paths show of an item ───────────────────────────────────────────────────────────────────


def shape_of(paths: Sequence[BoundPath]) -> Shape:
    """The paths as one tree."""
    shape: Shape = {}
    for path in paths:
        inner = shape
        for part in path[:-1]:
            inner = inner.setdefault(part, {})
        inner[path[-1]] = None
    return shape


def show(shape: Shape, item: Item) -> Item:
    """Only what the shape keeps: leaves inside their parents, lists closed up, nothing that is empty of them."""
    projected: Item = {}
    for name, inner in shape.items():
        value = item.get(name)  # type: ignore[arg-type]
        if value is not None:
            part = value if inner is None else _keep(inner, value)
            if part is not None:
                projected[name] = part  # type: ignore[index]
    return projected


def _keep(shape: Shape, value: AttributeValue) -> AttributeValue | None:
    ((kind, data),) = value.items()
    indexes = isinstance(next(iter(shape)), int)
    if kind == "M" and not indexes:
        members = show(shape, data)
        return {"M": members} if members else None
    if kind == "L" and indexes:
        elements = []
        for index in sorted(shape):
            if index < len(data):  # type: ignore[operator]
                inner = shape[index]
                part = data[index] if inner is None else _keep(inner, data[index])
                if part is not None:
                    elements.append(part)
        return {"L": elements} if elements else None
    return None


# ── ProjectionExpression ──────────────────────────────────────────────────────────────────────────


class Projector:
    """Shows the wanted parts of items.

    `attributes` are the top-level names it keeps something of, each once, in the order of the text; `nested` those of
    which it keeps parts only.
    """

    __slots__ = ("_names", "_shape", "attributes", "nested")

    def __init__(self, paths: tuple[BoundPath, ...]) -> None:
        self._shape = shape_of(paths)
        self.attributes = tuple(dict.fromkeys(str(path[0]) for path in paths))
        self.nested = frozenset(str(path[0]) for path in paths if len(path) > 1)
        self._names = None if self.nested else tuple(str(path[0]) for path in paths)

    def __call__(self, item: Item) -> Item:
        if self._names is None:
            return show(self._shape, item)
        return {name: item[name] for name in self._names if name in item}


class Projection:
    """A projection that is well formed; it may be bound any number of times."""

    __slots__ = ("_constant", "names", "tree", "values")

    def __init__(self, tree: ProjectionTree) -> None:
        self.tree = tree
        self.names, self.values = placeholders(tree.paths)
        self._constant: Projector | None = None

    def bind(self, names: Mapping[str, str]) -> Projector:
        """A function from an item to what is wanted of it; refuses paths that clash."""
        if self._constant is not None:
            return self._constant
        paths = tuple(bind_path(path, names) for path in self.tree.paths)
        refuse_clashes(paths)
        projector = Projector(paths)
        if not self.names:
            self._constant = projector
        return projector


@lru_cache(maxsize=CACHED)
def compile_projection(text: str) -> Projection:
    """The projection of this text; refused as DynamoDB refuses it."""
    check_size(text)
    tree = parse_projection(text)
    for path in tree.paths:
        check_words(path)
    return Projection(tree)
