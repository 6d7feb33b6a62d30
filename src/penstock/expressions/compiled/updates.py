"""UpdateExpression: what an update writes, and what it shows of the item before and after.

1. Every right-hand side reads the item as it was before the update.
2. The item that is given is never changed; what an update does not touch is shared between the two.
3. List elements are removed by their old places; elements set past the end are appended in the order of their index.
4. Where several things are wrong, the error is the one that DynamoDB reports: a wrong type, then, from the last
   section back, a path that cannot be written and an attribute that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from penstock.errors import ValidationException
from penstock.expressions.compiled.condition_closures import Scope
from penstock.expressions.compiled.conditions import CACHED
from penstock.expressions.compiled.paths import BoundPath, bind_path, find, refuse_clashes, shape_of, show
from penstock.expressions.compiled.update_closures import Compute, bind_action
from penstock.expressions.syntax import error_wording
from penstock.expressions.syntax.checks import check_size, check_update, placeholders
from penstock.expressions.syntax.error_wording import ExpressionError
from penstock.expressions.syntax.parser import parse_update
from penstock.expressions.syntax.tree import DeleteAction, Path, RemoveAction, UpdateTree, walk
from penstock.wire.values import AttributeValue, Item

_REMOVED: Any = None


class Write(NamedTuple):
    """One action: `compute` gives what stands at `path` afterwards, None for nothing."""

    path: BoundPath
    compute: Compute
    section: int = 0
    removes: bool = False  # REMOVE and DELETE only take away


class BoundUpdate:
    """An update whose placeholders are known."""

    __slots__ = ("_flat", "_shape", "_writes", "charge")

    def __init__(self, writes: Sequence[Write], nested: bool = False) -> None:
        self._writes = writes
        self.charge = 0  # what DynamoDB counts for the statement itself, where that may be too much
        self._flat: list[tuple[Any, Compute]] | None = None
        if not nested:
            self._flat = [(write[0][0], write[1]) for write in writes]
        self._shape: dict[str | int, Any] | None = None

    @property
    def attributes(self) -> frozenset[str]:
        """The top-level attributes that are written."""
        return frozenset([str(write[0][0]) for write in self._writes])

    @property
    def nested(self) -> frozenset[str]:
        """Those of which a part is written."""
        return frozenset([str(write[0][0]) for write in self._writes if len(write[0]) > 1])

    @property
    def creates(self) -> bool:
        """Whether DynamoDB makes an item of this update where there is none: not if it only takes away."""
        return not all(write.removes for write in self._writes)

    def apply(self, item: Item) -> Item:
        """The item as the update leaves it; a ValidationException where it cannot be done to this item."""
        try:
            return self._apply_nested(item) if self._flat is None else _apply_flat(self._flat, item)
        except ExpressionError as problem:
            raise ValidationException((self._first_problem(item) or problem).message) from None

    def project(self, item: Item) -> Item:
        """What UPDATED_OLD and UPDATED_NEW show of `item`: what stands at the paths that are written."""
        if self._flat is not None:
            return {name: item[name] for name, _ in self._flat if name in item}
        if self._shape is None:
            self._shape = shape_of([write.path for write in self._writes])
        return show(self._shape, item)

    def _apply_nested(self, item: Item) -> Item:
        values = [write.compute(item) for write in self._writes]
        return _write_members(_write_tree(self._writes), item, values)

    def _first_problem(self, item: Item) -> ExpressionError | None:
        missing: dict[int, ExpressionError] = {}
        for write in self._writes:
            if _misfit(write.path, item):
                return ExpressionError(error_wording.BAD_PATH, bare=True)
        for write in self._writes:
            try:
                write.compute(item)
            except ExpressionError as problem:
                if problem.message != error_wording.MISSING_ATTRIBUTE:
                    return problem
                missing.setdefault(write.section, problem)
        for section in sorted({write.section for write in self._writes}, reverse=True):
            if any(not _writable(write.path, item) for write in self._writes if write.section == section):
                return ExpressionError(error_wording.BAD_PATH, bare=True)
            if section in missing:
                return missing[section]
        return None


class Update:
    """An update that is well formed; it may be bound any number of times."""

    __slots__ = ("_actions", "_nested", "names", "tree", "values")

    def __init__(self, tree: UpdateTree) -> None:
        self.tree = tree
        self.names, self.values = placeholders(tree.actions)
        # DynamoDB looks at the actions from the last to the first.
        self._actions = [
            (action, number, isinstance(action, RemoveAction | DeleteAction))
            for number, section in enumerate(tree.sections)
            for action in section.actions
        ][::-1]
        self._nested = any(len(action.path.parts) > 1 for action in tree.actions)

    def bind(self, names: Mapping[str, str], values: Mapping[str, AttributeValue]) -> BoundUpdate:
        """The update of these names and values; refuses paths that clash and operands of a wrong type."""
        paths = self.paths(names)
        if self.names and not self.names <= names.keys():
            self._refuse_unknown_names(names)
        return self.bind_at(paths, names, values)

    def paths(self, names: Mapping[str, str]) -> list[BoundPath]:
        """What the actions write, in their order; refused where they clash."""
        paths = [bind_path(action.path, names) for action, _, _ in reversed(self._actions)]
        if len(paths) > 1:
            refuse_clashes(paths)
        return paths

    def bind_at(
        self, paths: Sequence[BoundPath], names: Mapping[str, str], values: Mapping[str, AttributeValue]
    ) -> BoundUpdate:
        """The rest of `bind`, where `paths` are known."""
        scope = Scope(names, values)
        writes = []
        for (action, section, removes), path in zip(self._actions, reversed(paths), strict=True):
            writes.append(Write(path, bind_action(action, path, scope), section, removes))
        writes.reverse()
        return BoundUpdate(writes, self._nested)

    def _refuse_unknown_names(self, names: Mapping[str, str]) -> None:
        """All names of all actions come before any of their values."""
        for action, _, _ in self._actions:
            for node in walk(action):
                if isinstance(node, Path):
                    bind_path(node, names)


@lru_cache(maxsize=CACHED)
def compile_update(text: str) -> Update:
    """The update of this text; refused as DynamoDB refuses it."""
    check_size(text)
    tree = parse_update(text)
    check_update(tree)
    return Update(tree)


def _apply_flat(writes: list[tuple[Any, Compute]], item: Item) -> Item:
    """The same for an update of top-level attributes only, as nearly all are."""
    updated = dict(item)
    for name, compute in writes:
        value = compute(item)
        if value is not None:
            updated[name] = value
        else:
            updated.pop(name, None)
    return updated


# ── writing ──────────────────────────────────────────────────────────────────────────────────────

WriteTree = dict[str | int, Any]
"""Name or index → the number of the write that ends here, or the writes further in."""


def _write_tree(writes: Sequence[Write]) -> WriteTree:
    tree: WriteTree = {}
    for number, write in enumerate(writes):
        inner = tree
        for part in write.path[:-1]:
            inner = inner.setdefault(part, {})
        inner[write.path[-1]] = number
    return tree


def _write_members(tree: WriteTree, members: Item, values: list[AttributeValue | None]) -> Item:
    written = dict(members)
    for name, inner in tree.items():
        assert isinstance(name, str)
        if not isinstance(inner, int):
            written[name] = _write_within(inner, members.get(name), values)
        elif (value := values[inner]) is not None:
            written[name] = value
        else:
            written.pop(name, None)
    return written


def _write_within(tree: WriteTree, value: AttributeValue | None, values: list[AttributeValue | None]) -> AttributeValue:
    indexes = isinstance(next(iter(tree)), int)
    if value is not None and indexes and "L" in value:
        return {"L": _write_elements(tree, value["L"], values)}
    if value is not None and not indexes and "M" in value:
        return {"M": _write_members(tree, value["M"], values)}
    raise ExpressionError(error_wording.BAD_PATH, bare=True)


def _write_elements(
    tree: WriteTree, elements: list[AttributeValue], values: list[AttributeValue | None]
) -> list[AttributeValue]:
    written: list[Any] = list(elements)
    for index in sorted(tree):
        assert isinstance(index, int)
        inner = tree[index]
        inside = index < len(elements)
        if not isinstance(inner, int):
            written[index : index + 1] = [_write_within(inner, elements[index] if inside else None, values)]
        elif inside:
            written[index] = values[inner]
        elif values[inner] is not None:
            written.append(values[inner])
    return [element for element in written if element is not _REMOVED]


def _misfit(path: BoundPath, item: Item) -> bool:
    """Whether the path's parent is there and is not of the kind that the path needs."""
    return len(path) > 1 and find(path[:-1], item) is not None and not _writable(path, item)


def _writable(path: BoundPath, item: Item) -> bool:
    """Whether something can stand at this path: its parent is a map before a name, a list before an index."""
    if len(path) == 1:
        return True
    parent = find(path[:-1], item)
    return parent is not None and ("L" if isinstance(path[-1], int) else "M") in parent
