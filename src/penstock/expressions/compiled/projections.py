"""ProjectionExpression: which parts of an item are wanted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from penstock.expressions.compiled.conditions import CACHED
from penstock.expressions.compiled.paths import BoundPath, bind_path, refuse_clashes, shape_of, show
from penstock.expressions.syntax.checks import check_size, check_words, placeholders
from penstock.expressions.syntax.parser import parse_projection
from penstock.expressions.syntax.tree import ProjectionTree
from penstock.wire.values import Item


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
