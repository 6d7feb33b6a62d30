"""A DynamoDB made of a dict: the plainest program that gives the same answers, for the engine to be compared with.

Nothing here is shared with the engine: values are compared as Python's own (str, Decimal, bytes), and every query
looks at every item. Conditions and updates are data (`Op` tuples); `render` writes them as expressions.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from copy import deepcopy
from decimal import Context, Decimal
from typing import Any

Value = dict[str, Any]
Item = dict[str, Value]
Op = tuple[Any, ...]

_EXACT = Context(prec=400)


class Refused(Exception):
    """DynamoDB would refuse this with a ValidationException."""


class ConditionFailed(Exception):
    pass


def plain_number(text: str) -> str:
    """The one text of a number."""
    plain = format(Decimal(text), "f")
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    plain = plain.lstrip("+")
    return "0" if plain in ("-0", "0", "") else plain


def normal(value: Value) -> Value:
    """The value as it is answered."""
    ((kind, data),) = value.items()
    if kind == "N":
        return {"N": plain_number(data)}
    if kind == "NS":
        return {"NS": [plain_number(one) for one in data]}
    if kind == "L":
        return {"L": [normal(one) for one in data]}
    if kind == "M":
        return {"M": {name: normal(one) for name, one in data.items()}}
    return value


def comparable(value: Value) -> Any:
    """Something that is equal where DynamoDB's values are, and ordered as they are."""
    ((kind, data),) = value.items()
    if kind == "S":
        return (kind, data.encode())
    if kind == "N":
        return (kind, Decimal(data))
    if kind == "B":
        return (kind, b64decode(data))
    if kind in ("SS", "BS"):
        return (kind, frozenset(data))
    if kind == "NS":
        return (kind, frozenset(map(Decimal, data)))
    if kind == "L":
        return (kind, tuple(map(comparable, data)))
    if kind == "M":
        return (kind, frozenset((name, comparable(one)) for name, one in data.items()))
    return (kind, data)


def same(item: Item) -> Any:
    """An item in a form in which the order of sets and members does not matter."""
    return comparable({"M": item})


class ModelTable:
    """A table: its items by key."""

    def __init__(self, definition: dict[str, Any]) -> None:
        self.types = {one["AttributeName"]: one["AttributeType"] for one in definition["AttributeDefinitions"]}
        self.key = [one["AttributeName"] for one in definition["KeySchema"]]
        self.indexes = {
            one["IndexName"]: one
            for member in ("LocalSecondaryIndexes", "GlobalSecondaryIndexes")
            for one in definition.get(member, ())
        }
        self.items: dict[Any, Item] = {}

    def place(self, item: Item) -> Any:
        return tuple(comparable(item[name]) for name in self.key)

    def key_of(self, item: Item) -> Item:
        return {name: item[name] for name in self.key}

    # ── writes ───────────────────────────────────────────────────────────────────────────────────

    def put(self, item: Item, condition: Op | None = None) -> None:
        item = {name: normal(value) for name, value in item.items()}
        self._refuse_index_keys(item)
        self._check(item, condition)
        self.items[self.place(item)] = item

    def delete(self, key: Item, condition: Op | None = None) -> None:
        self._check(key, condition)
        self.items.pop(self.place(key), None)

    def update(self, key: Item, actions: list[Op], condition: Op | None = None) -> None:
        self._refuse_types(actions)
        self._check(key, condition)
        place = self.place(key)
        if place not in self.items and all(action[0] in REMOVALS for action in actions) and actions:
            return  # What only removes makes no item of nothing.
        before = self.items.get(place, {name: normal(value) for name, value in key.items()})
        after = deepcopy(before)
        for action in actions:
            _UPDATES[action[0]](before, after, *action[1:])
        self._refuse_index_keys(after)
        self.items[place] = after

    def _check(self, key: Item, condition: Op | None) -> None:
        if condition is not None and not holds(condition, self.items.get(self.place(key), {})):
            raise ConditionFailed

    def _refuse_types(self, actions: list[Op]) -> None:
        """A type that will be written whatever the item is, and that an index cannot hold, is refused first."""
        keys = {part["AttributeName"] for one in self.indexes.values() for part in one["KeySchema"]}
        for kind, name, *rest in actions:
            if name in keys and kind in WRITTEN_TYPES:
                written = WRITTEN_TYPES[kind] or next(iter(rest[0]))
                if written != self.types[name]:
                    raise Refused(f"{name} would be {written}")

    def _refuse_index_keys(self, item: Item) -> None:
        for one in self.indexes.values():
            for part in one["KeySchema"]:
                name = part["AttributeName"]
                if name in item and not item[name].get(self.types[name]):
                    raise Refused(f"{name} does not fit index {one['IndexName']}")

    # ── reads ────────────────────────────────────────────────────────────────────────────────────

    def schema(self, index: str | None) -> tuple[list[str], list[str]]:
        """Names of the hash and the range attributes."""
        parts = self.indexes[index]["KeySchema"] if index else None
        if parts is None:
            return self.key[:1], self.key[1:]
        return (
            [one["AttributeName"] for one in parts if one["KeyType"] == "HASH"],
            [one["AttributeName"] for one in parts if one["KeyType"] == "RANGE"],
        )

    def view(self, index: str | None, keep: Callable[[Item], bool] = lambda item: True) -> list[Item]:
        """Every item that the index holds, as it shows them. A filter sees what is held."""
        if index is None:
            return [item for item in self.items.values() if keep(item)]
        hashes, ranges = self.schema(index)
        held = [item for item in self.items.values() if all(name in item for name in hashes + ranges)]
        return [shown for item in held if keep(shown := self._held(index, item))]

    def _held(self, index: str, item: Item) -> Item:
        return {name: value for name, value in item.items() if self.holds(index, name)}

    def holds(self, index: str | None, name: str) -> bool:
        """Whether the table or the index has the attribute `name` of its items."""
        projection = self.indexes[index]["Projection"] if index else {"ProjectionType": "ALL"}
        if projection["ProjectionType"] == "ALL":
            return True
        hashes, ranges = self.schema(index)
        return name in {*hashes, *ranges, *self.key, *projection.get("NonKeyAttributes", ())}

    def query(
        self,
        index: str | None,
        terms: list[Op],
        keep: Callable[[Item], bool] = lambda item: True,
        *,
        forward: bool = True,
    ) -> list[Item]:
        """Items that meet every term, in order of the sort attributes."""
        _, ranges = self.schema(index)
        found = [item for item in self.view(index, keep) if all(holds(term, item) for term in terms)]
        return sorted(found, key=lambda item: [comparable(item[name]) for name in ranges], reverse=not forward)


# ── conditions ───────────────────────────────────────────────────────────────────────────────────


def holds(condition: Op, item: Item) -> bool:
    """Whether the item meets the condition."""
    kind, *rest = condition
    if kind == "AND":
        return all(holds(one, item) for one in rest)
    if kind == "OR":
        return any(holds(one, item) for one in rest)
    if kind == "NOT":
        return not holds(rest[0], item)
    name, *operands = rest
    value = item.get(name)
    if kind == "exists":
        return value is not None
    if kind == "missing":
        return value is None
    if kind == "type":
        return value is not None and operands[0]["S"] in value
    if kind == "<>":
        return value is None or comparable(value) != comparable(operands[0])
    return value is not None and _TESTS[kind](value, *operands)


def _compare(test: Callable[[Any, Any], bool]) -> Callable[..., bool]:
    def compare(value: Value, operand: Value) -> bool:
        left, right = comparable(value), comparable(operand)
        return left[0] == right[0] and test(left[1], right[1])

    return compare


def _begins(value: Value, operand: Value) -> bool:
    left, right = comparable(value), comparable(operand)
    return left[0] == right[0] and left[0] in "SB" and left[1].startswith(right[1])


def _contains(value: Value, operand: Value) -> bool:
    ((kind, data),) = value.items()
    wanted = comparable(operand)
    if kind in ("S", "B"):
        return wanted[0] == kind and wanted[1] in comparable(value)[1]
    if kind in ("SS", "NS", "BS"):
        return wanted[0] == kind[0] and wanted in [comparable({kind[0]: one}) for one in data]
    return kind == "L" and wanted in map(comparable, data)


def _between(value: Value, low: Value, high: Value) -> bool:
    one, two, three = comparable(value), comparable(low), comparable(high)
    return one[0] == two[0] == three[0] and two[1] <= one[1] <= three[1]


_TESTS: dict[str, Callable[..., bool]] = {
    "=": lambda value, operand: comparable(value) == comparable(operand),
    "<": _compare(lambda left, right: left < right),
    "<=": _compare(lambda left, right: left <= right),
    ">": _compare(lambda left, right: left > right),
    ">=": _compare(lambda left, right: left >= right),
    "BETWEEN": _between,
    "begins_with": _begins,
    "contains": _contains,
    "IN": lambda value, *operands: comparable(value) in map(comparable, operands),
}


# ── updates ──────────────────────────────────────────────────────────────────────────────────────


def _set(before: Item, after: Item, name: str, value: Value) -> None:
    after[name] = normal(value)


def _default(before: Item, after: Item, name: str, value: Value) -> None:
    after[name] = before.get(name, normal(value))


def _plus(before: Item, after: Item, name: str, value: Value) -> None:
    if "N" not in before.get(name, {}):
        raise Refused("an operand is no number")
    after[name] = {"N": _sum(before[name]["N"], value["N"])}


def _sum(left: str, right: str) -> str:
    total = _EXACT.add(Decimal(left), Decimal(right))
    if len(total.normalize(_EXACT).as_tuple().digits) > 38:
        raise Refused("more than 38 digits")
    return plain_number(str(total))


def _minus(before: Item, after: Item, name: str, value: Value) -> None:
    _plus(before, after, name, {"N": str(-Decimal(value["N"]))})


def _append(before: Item, after: Item, name: str, value: Value) -> None:
    if "L" not in before.get(name, {}):
        raise Refused("an operand is no list")
    after[name] = {"L": before[name]["L"] + normal(value)["L"]}


def _remove(before: Item, after: Item, name: str) -> None:
    after.pop(name, None)


def _remove_element(before: Item, after: Item, name: str, position: int) -> None:
    value = after.get(name)
    if value is None or "L" not in value:
        # REMOVE of a path that leads nowhere does nothing if its root exists and is a list.
        raise Refused("the path does not lead to a list")
    if position < len(value["L"]):
        del value["L"][position]


def _add(before: Item, after: Item, name: str, value: Value) -> None:
    ((kind, data),) = normal(value).items()
    old = before.get(name)
    if old is None:
        after[name] = {kind: data}
    elif kind not in old:
        raise Refused("types differ")
    elif kind == "N":
        after[name] = {"N": _sum(old["N"], data)}
    else:
        after[name] = {kind: old[kind] + [one for one in data if one not in old[kind]]}


def _delete(before: Item, after: Item, name: str, value: Value) -> None:
    ((kind, data),) = normal(value).items()
    old = before.get(name)
    if old is None:
        return
    if kind not in old:
        raise Refused("types differ")
    left = [one for one in old[kind] if one not in data]
    if left:
        after[name] = {kind: left}
    else:
        del after[name]


WRITTEN_TYPES = {"set": "", "add": "", "delete": "", "plus": "N", "minus": "N", "append": "L"}
"""The type that an action writes; "" for its value's."""

REMOVALS = ("remove", "remove element", "delete")

_UPDATES: dict[str, Callable[..., None]] = {
    "set": _set,
    "default": _default,
    "plus": _plus,
    "minus": _minus,
    "append": _append,
    "remove": _remove,
    "remove element": _remove_element,
    "add": _add,
    "delete": _delete,
}


# ── the same as expressions ──────────────────────────────────────────────────────────────────────


class Placeholders:
    """Names and values of a request, as its expressions come to need them."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, Value] = {}

    def name(self, name: str) -> str:
        for placeholder, known in self.names.items():
            if known == name:
                return placeholder
        placeholder = f"#n{len(self.names)}"
        self.names[placeholder] = name
        return placeholder

    def value(self, value: Value) -> str:
        placeholder = f":v{len(self.values)}"
        self.values[placeholder] = value
        return placeholder

    def members(self) -> dict[str, Any]:
        """ExpressionAttributeNames and -Values."""
        members: dict[str, Any] = {}
        if self.names:
            members["ExpressionAttributeNames"] = self.names
        if self.values:
            members["ExpressionAttributeValues"] = self.values
        return members


def render_condition(condition: Op, use: Placeholders) -> str:
    kind, *rest = condition
    if kind in ("AND", "OR"):
        return f" {kind} ".join(f"({render_condition(one, use)})" for one in rest)
    if kind == "NOT":
        return f"NOT ({render_condition(rest[0], use)})"
    name = use.name(rest[0])
    values = [use.value(one) for one in rest[1:]]
    match kind:
        case "exists":
            return f"attribute_exists({name})"
        case "missing":
            return f"attribute_not_exists({name})"
        case "type":
            return f"attribute_type({name}, {values[0]})"
        case "contains" | "begins_with":
            return f"{kind}({name}, {values[0]})"
        case "BETWEEN":
            return f"{name} BETWEEN {values[0]} AND {values[1]}"
        case "IN":
            return f"{name} IN ({', '.join(values)})"
    return f"{name} {kind} {values[0]}"


def render_update(actions: list[Op], use: Placeholders) -> str:
    clauses: dict[str, list[str]] = {}
    for kind, name, *rest in actions:
        clause, text = _render_action(kind, use.name(name), rest, use)
        clauses.setdefault(clause, []).append(text)
    return " ".join(f"{clause} {', '.join(texts)}" for clause, texts in clauses.items())


def _render_action(kind: str, name: str, rest: list[Any], use: Placeholders) -> tuple[str, str]:
    match kind:
        case "remove":
            return "REMOVE", name
        case "remove element":
            return "REMOVE", f"{name}[{rest[0]}]"
    value = use.value(rest[0])
    match kind:
        case "set":
            return "SET", f"{name} = {value}"
        case "default":
            return "SET", f"{name} = if_not_exists({name}, {value})"
        case "plus":
            return "SET", f"{name} = {name} + {value}"
        case "minus":
            return "SET", f"{name} = {name} - {value}"
        case "append":
            return "SET", f"{name} = list_append({name}, {value})"
        case "add":
            return "ADD", f"{name} {value}"
    return "DELETE", f"{name} {value}"
