"""UpdateExpression: what an update writes, and what it shows of the item before and after.

1. Every right-hand side reads the item as it was before the update.
2. The item that is given is never changed; what an update does not touch is shared between the two.
3. List elements are removed by their old places; elements set past the end are append in the order of their index.
4. Where several things are wrong, the error is the one that DynamoDB reports: a wrong type, then, from the last
   section back, a path that cannot be written and an attribute that is not there.
5. A right-hand side is a closure that reads the item as it was and gives the new value, or None where nothing is left.
6. What an update's text shows without an item (types that it will write, attributes it looks into, what it is charged)
   is looked at where it matters only: on tables with indexes, and where an update may be too large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from penstock.errors import ValidationException
from penstock.expressions.compiled.conditions import Scope, value_of
from penstock.expressions.compiled.paths import (
    CACHED,
    BoundPath,
    Getter,
    bind_path,
    find,
    getter,
    path_text,
    refuse_clashes,
    shape_of,
    show,
)
from penstock.expressions.syntax import error_wording
from penstock.expressions.syntax.checks import OPERAND_COUNTS, check_size, check_update, placeholders
from penstock.expressions.syntax.error_wording import ExpressionError
from penstock.expressions.syntax.parser import parse_update
from penstock.expressions.syntax.tree import (
    Action,
    AddAction,
    Arithmetic,
    Call,
    DeleteAction,
    Operand,
    Path,
    RemoveAction,
    SetAction,
    UpdateTree,
    Value,
    walk,
)
from penstock.wire import numbers
from penstock.wire.values import AttributeValue, Item, type_of, value_size

# ── right-hand sides (5) ──────────────────────────────────────────────────────────────────────────


Compute = Callable[[Item], AttributeValue | None]

SETS = frozenset({"SS", "NS", "BS"})
ADDABLE = SETS | {"N"}

_INTEGER_DIGITS = 18


def bind_action(action: Action, path: BoundPath, scope: Scope) -> Compute:
    """What stands at `path` after this action."""
    if isinstance(action, SetAction):
        return bind_value(action.value, scope)
    if isinstance(action, RemoveAction):
        return lambda item: None
    if isinstance(action, AddAction):
        return adder(path, _typed(action.value, scope, "ADD", ADDABLE))
    return deleter(path, _typed(action.value, scope, "DELETE", SETS))


def _typed(operand: Value, scope: Scope, keyword: str, allowed: frozenset[str]) -> AttributeValue:
    value = value_of(operand, scope.values)
    kind = next(iter(value))
    if kind not in allowed:
        raise error_wording.action_type(keyword, kind)
    return value


# ── SET ──────────────────────────────────────────────────────────────────────────────────────────


def bind_value(operand: Operand, scope: Scope) -> Compute:
    """What SET writes; a path that finds nothing is an error when the update is applied."""
    if isinstance(operand, Value):
        value = value_of(operand, scope.values)
        return lambda item: value
    if isinstance(operand, Path):
        return _required(getter(bind_path(operand, scope.names)))
    if isinstance(operand, Arithmetic):
        return _sum(operand, scope)
    return _if_not_exists(operand, scope) if operand.name == "if_not_exists" else _list_append(operand, scope)


def _required(get: Getter) -> Compute:
    def required(item: Item) -> AttributeValue:
        value = get(item)
        if value is None:
            raise ExpressionError(error_wording.MISSING_ATTRIBUTE, bare=True)
        return value

    return required


def _sum(operand: Arithmetic, scope: Scope) -> Compute:
    left, right = _two_of(operand.operator, operand.left, operand.right, "N", scope)
    combine = plus if operand.operator == "+" else minus

    def total(item: Item) -> AttributeValue:
        one = _data(left(item), "N")
        return {"N": combine(one, _data(right(item), "N"))}

    return total


def _list_append(call: Call, scope: Scope) -> Compute:
    if len(call.arguments) != OPERAND_COUNTS[call.name]:
        for argument in call.arguments:
            bind_value(argument, scope)
        _refuse_count(call)
    left, right = call.arguments
    first, second = _two_of(call.name, left, right, "L", scope)

    def append(item: Item) -> AttributeValue:
        start = _data(first(item), "L")
        return {"L": [*start, *_data(second(item), "L")]}

    return append


def _if_not_exists(call: Call, scope: Scope) -> Compute:
    operands = [bind_value(argument, scope) for argument in call.arguments]
    _refuse_count(call)
    first, second = call.arguments
    if not isinstance(first, Path):
        raise error_wording.needs_path(call.name)
    path = bind_path(first, scope.names)
    if isinstance(second, Path) and bind_path(second, scope.names) == path:
        raise error_wording.not_distinct(call.name, path_text(path))
    get, otherwise = getter(path), operands[1]

    def existing(item: Item) -> AttributeValue | None:
        value = get(item)
        return value if value is not None else otherwise(item)

    return existing


def _two_of(operator: str, left: Operand, right: Operand, kind: str, scope: Scope) -> tuple[Compute, Compute]:
    """Two operands, of which constants must be of this type."""
    bound = bind_value(left, scope), bind_value(right, scope)
    for operand in (left, right):
        if type(operand) is Value and kind not in scope.values[operand.name]:
            raise error_wording.operand_type(operator, next(iter(scope.values[operand.name])))
    return bound


def _refuse_count(call: Call) -> None:
    if len(call.arguments) != OPERAND_COUNTS[call.name]:
        raise error_wording.operand_count(call.name, len(call.arguments))


def _data(value: AttributeValue | None, kind: str) -> Any:
    if value is None or kind not in value:
        raise ExpressionError(error_wording.BAD_OPERAND, bare=True)
    return value[kind]


# ── ADD and DELETE ───────────────────────────────────────────────────────────────────────────────


def adder(path: BoundPath, operand: AttributeValue, mismatch: str = error_wording.BAD_OPERAND) -> Compute:
    """A number plus the operand, or a set (and, of old, a list) with the operand's members."""
    ((kind, data),) = operand.items()

    def added(item: Item) -> AttributeValue:
        value = find(path, item)
        if value is None:
            return operand
        if kind not in value:
            raise ExpressionError(mismatch, bare=True)
        if kind == "N":
            return {"N": plus(value["N"], data)}
        if kind == "L":
            return {"L": value["L"] + data}
        present = set(value[kind])
        return {kind: value[kind] + [member for member in data if member not in present]}

    return added


def deleter(path: BoundPath, operand: AttributeValue, mismatch: str = error_wording.BAD_OPERAND) -> Compute:
    """A set without the operand's members; nothing where none is left."""
    ((kind, data),) = operand.items()
    members = set(data)

    def delete_members(item: Item) -> AttributeValue | None:
        value = find(path, item)
        if value is None:
            return None
        if kind not in value:
            raise ExpressionError(mismatch, bare=True)
        rest = [member for member in value[kind] if member not in members]
        return {kind: rest} if rest else None

    return delete_members


def plus(left: str, right: str) -> str:
    """The sum of two normalised numbers."""
    if _is_small_integer(left) and _is_small_integer(right):
        return str(int(left) + int(right))
    return numbers.add(left, right)


def minus(left: str, right: str) -> str:
    """The difference of two normalised numbers."""
    if _is_small_integer(left) and _is_small_integer(right):
        return str(int(left) - int(right))
    return numbers.subtract(left, right)


def _is_small_integer(text: str) -> bool:
    return len(text) <= _INTEGER_DIGITS and (text.isdigit() or (text[0] == "-" and text[1:].isdigit()))


# ── updates ───────────────────────────────────────────────────────────────────────────────────────


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


# ── what the text shows (6) ───────────────────────────────────────────────────────────────────────


Names = Mapping[str, str]
Values = Mapping[str, AttributeValue]

# DynamoDB's charges in bytes, measured by others at the edge of the limit: they are written down nowhere.
_UPDATE, _WRITE, _REMOVAL = 3, 19, 1
_STEP = 4  # for each element of a path after the first, where it is written to
_READ, _READ_STEP = 1, 14
_OPERATORS = {"+": 34, "-": 37, "if_not_exists": 39, "list_append": 37}


def written_types(request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each top-level attribute whose type after the update is known beforehand, with that type."""
    if "UpdateExpression" not in request:
        for name, update in (request.get("AttributeUpdates") or {}).items():
            if update.get("Value"):
                yield name, type_of(update["Value"])
        return
    names, values = _maps(request)
    for action in compile_update(request["UpdateExpression"]).tree.actions:
        if isinstance(action, RemoveAction) or len(action.path.parts) > 1:
            continue
        kind = _type_of(action.value, values)
        if kind is not None:
            yield str(bind_path(action.path, names)[0]), kind


def looked_into(request: Mapping[str, Any]) -> frozenset[str]:
    """The top-level attributes of which a part is read or written."""
    text = request.get("UpdateExpression")
    if text is None or not ("." in text or "[" in text):
        return frozenset()
    names, _ = _maps(request)
    actions = compile_update(text).tree.actions
    paths = [bind_path(node, names) for node in walk(*actions) if isinstance(node, Path) and len(node.parts) > 1]
    return frozenset(str(path[0]) for path in paths)


def charge_of(text: str, names: Names, values: Values) -> int:
    """The bytes that DynamoDB counts for the statement: what it writes and a charge for each clause.

    Neither the key nor an attribute that is left alone is in it, nor a value that is read from the item.
    """
    update = compile_update(text)
    sizes = {name: value_size(values[name]) for name in update.values}  # once, however often it is written
    return _UPDATE + sum(_charge(action, names, sizes) for action in update.tree.actions)


def _charge(action: Action, names: Names, sizes: Mapping[str, int]) -> int:
    target = _target(action.path, names)
    if isinstance(action, RemoveAction | DeleteAction):
        return _REMOVAL + target
    assert isinstance(action, SetAction | AddAction)
    return _WRITE + target + _operand(action.value, names, sizes)


def _target(path: Path, names: Names) -> int:
    first, *rest = (_length(part) for part in bind_path(path, names))
    return first + sum(_STEP + length for length in rest)


def _operand(operand: Operand, names: Names, sizes: Mapping[str, int]) -> int:
    match operand:
        case Value(name):
            return sizes[name]
        case Path():
            return _READ + sum(_READ_STEP + _length(part) for part in bind_path(operand, names))
        case Arithmetic(operator, left, right):
            return _OPERATORS[operator] + _operand(left, names, sizes) + _operand(right, names, sizes)
        case Call(name, arguments):
            return _OPERATORS[name] + sum(_operand(one, names, sizes) for one in arguments)


def _type_of(operand: Operand, values: Values) -> str | None:
    """The operand's type, where no item is needed to know it."""
    match operand:
        case Value(name):
            return type_of(values[name])
        case Arithmetic():
            return "N"
        case Call("list_append"):
            return "L"
        case _:
            return None


def _length(part: str | int) -> int:
    return len(str(part).encode())


def _maps(request: Mapping[str, Any]) -> tuple[Names, Values]:
    return request.get("ExpressionAttributeNames") or {}, request.get("ExpressionAttributeValues") or {}
