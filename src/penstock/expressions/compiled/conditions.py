"""ConditionExpression and FilterExpression."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from penstock.expressions.compiled.condition_closures import Predicate, Scope, bind_term
from penstock.expressions.compiled.paths import bind_path
from penstock.expressions.syntax.checks import check_condition, check_size, placeholders
from penstock.expressions.syntax.parser import parse_condition
from penstock.expressions.syntax.tree import Path, Term, walk
from penstock.wire.values import AttributeValue

CACHED = 1024
"""Compiled expressions that are kept of each kind: programs have few, and the largest takes some 50 KB."""


class Condition:
    """A condition that is well formed; it may be bound any number of times."""

    __slots__ = ("_constant", "names", "tree", "values")

    def __init__(self, tree: Term) -> None:
        self.tree = tree
        self.names, self.values = placeholders((tree,))
        self._constant: Predicate | None = None

    def bind(self, names: Mapping[str, str], values: Mapping[str, AttributeValue]) -> Predicate:
        """A function of an item; operands are checked here, before any item is seen."""
        if self._constant is not None:
            return self._constant
        predicate = bind_term(self.tree, Scope(names, values))
        if not self.names and not self.values:
            self._constant = predicate
        return predicate

    def attributes(self, names: Mapping[str, str]) -> tuple[str, ...]:
        """The top-level attributes that it reads, each once, in the order of the text."""
        return tuple(dict.fromkeys(str(bind_path(path, names)[0]) for path in self._paths()))

    def nested_attributes(self, names: Mapping[str, str]) -> frozenset[str]:
        """The top-level attributes that it looks into."""
        bound = (bind_path(path, names) for path in self._paths())
        return frozenset(str(path[0]) for path in bound if len(path) > 1)

    def _paths(self) -> list[Path]:
        return [node for node in walk(self.tree) if isinstance(node, Path)]


@lru_cache(maxsize=CACHED)
def compile_condition(text: str) -> Condition:
    """The condition of this text; refused as DynamoDB refuses it."""
    check_size(text, tell=True)
    tree = parse_condition(text)
    check_condition(tree)
    return Condition(tree)
