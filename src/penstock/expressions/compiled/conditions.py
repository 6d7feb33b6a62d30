"""ConditionExpression, FilterExpression and KeyConditionExpression: a tree and its placeholders become functions.

1. Every check that needs no item is made here, in DynamoDB's order: for each function or operator its operands
   first (are their placeholders defined?), then how many they are, that they are distinct, and their types.
2. An attribute that is missing compares as nothing: `<>` is true of it, every other comparison is false.
3. Values of two types are never equal and have no order.
4. A key condition has one of few forms; it is taken apart into a term for each key attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

from penstock.expressions.compiled.paths import CACHED, BoundPath, Getter, bind_path, getter, path_text
from penstock.expressions.syntax import error_wording
from penstock.expressions.syntax.checks import OPERAND_COUNTS, check_condition, check_size, placeholders
from penstock.expressions.syntax.parser import parse_condition
from penstock.expressions.syntax.tree import (
    And,
    Arithmetic,
    Between,
    Call,
    Comparison,
    In,
    Not,
    Operand,
    Or,
    Path,
    Term,
    Value,
    walk,
)
from penstock.wire.limits import EXPRESSION_IN_OPERANDS
from penstock.wire.values import TYPES, AttributeValue, Item, binary, equal

# ── values against values: both must be checked ───────────────────────────────────────────────────


ORDERED = frozenset({"S", "N", "B"})
SCALARS = frozenset({"S", "N", "B", "BOOL", "NULL"})
SIZED = frozenset({"S", "B", "SS", "NS", "BS", "L", "M"})


def order_key(kind: str, data: Any) -> Any:
    """What values of one type are ordered by; text is ordered as its UTF-8 is."""
    if kind == "S":
        return data
    return Decimal(data) if kind == "N" else binary(data)


def size_of(value: AttributeValue) -> int | None:
    """DynamoDB's size(): characters, bytes or elements; None for a type that has none."""
    ((kind, data),) = value.items()
    if kind == "S":
        # Characters are counted as UTF-16 has them.
        return len(data) if data.isascii() else len(data.encode("utf-16-le", "surrogatepass")) // 2
    if kind == "B":
        return len(binary(data))
    return len(data) if kind in SIZED else None


def begins_with(value: AttributeValue, prefix: AttributeValue) -> bool:
    """Of two texts or two binaries, whether the first starts with the second."""
    if "S" in value and "S" in prefix:
        return bool(value["S"].startswith(prefix["S"]))
    if "B" in value and "B" in prefix:
        return binary(value["B"]).startswith(binary(prefix["B"]))
    return False


def contains(value: AttributeValue, part: AttributeValue) -> bool:
    """A part of a text or binary, a member of a set, or an element of a list."""
    ((kind, data),) = value.items()
    ((part_kind, part_data),) = part.items()
    if kind == "L":
        if part_kind in SCALARS:
            return part in data  # checked scalars are written one way
        return any(equal(element, part) for element in data)
    if kind == "S" or kind in ("SS", "NS", "BS"):
        return part_kind == kind[0] and part_data in data
    return kind == "B" and part_kind == "B" and binary(part_data) in binary(data)


def refuse_bounds(low: AttributeValue, high: AttributeValue) -> None:
    """Refuses bounds of two types and a lower bound above the upper one."""
    ((kind, data),) = low.items()
    if kind not in high:
        raise error_wording.bounds_of_two_types(low, high)
    if order_key(kind, data) > order_key(kind, high[kind]):
        raise error_wording.bounds_out_of_order(low, high)


# ── closures ──────────────────────────────────────────────────────────────────────────────────────


Predicate = Callable[[Item], bool]


ORDERINGS: dict[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


class Scope(NamedTuple):
    """What placeholders stand for."""

    names: Mapping[str, str]
    values: Mapping[str, AttributeValue]


class Bound:
    """An operand. `kind` is its type where it is known without an item."""

    __slots__ = ("constant", "get", "kind", "path")

    def __init__(
        self,
        get: Getter,
        kind: str | None = None,
        path: BoundPath | None = None,
        constant: AttributeValue | None = None,
    ) -> None:
        self.get = get
        self.kind = kind
        self.path = path
        self.constant = constant


def bind_term(term: Term, scope: Scope) -> Predicate:
    """The condition as a function."""
    return _TERMS[type(term)](term, scope)


Binder = Callable[[Mapping[str, AttributeValue]], Predicate]


def prepare_term(term: Term, names: Mapping[str, str]) -> Binder:
    """`bind_term` in two steps: the names are bound now, once for many calls, and each call binds its values only.

    A refusal that needs no values is raised now, before others that may come first in DynamoDB's order.
    """
    match term:
        case Not(inner):
            bind = prepare_term(inner, names)
            return lambda values: _not(bind(values))
        case And(terms) | Or(terms):
            join = all_of if isinstance(term, And) else any_of
            binders = [prepare_term(one, names) for one in terms]
            return lambda values: join([bind(values) for bind in binders])
        case Comparison(operator, Path() as path, Value() as value):
            left = bind_operand(path, Scope(names, {}))
            if operator == "=":
                return _equality_binder(left, value)
            return lambda values: _compare(operator, left, _bound_value(value_of(value, values)))
        case _ if not any(isinstance(node, Value) for node in walk(term)):
            predicate = bind_term(term, Scope(names, {}))
            return lambda values: predicate
        case _:
            return lambda values: bind_term(term, Scope(names, values))


def _not(inner: Predicate) -> Predicate:
    return lambda item: not inner(item)


def all_of(predicates: list[Predicate]) -> Predicate:
    """Whether every one holds."""
    if len(predicates) == 1:
        return predicates[0]
    if len(predicates) == 2:
        first, second = predicates
        return lambda item: first(item) and second(item)

    def every(item: Item) -> bool:
        for predicate in predicates:  # noqa: SIM110 - a generator costs more than the loop
            if not predicate(item):
                return False
        return True

    return every


def any_of(predicates: list[Predicate]) -> Predicate:
    """Whether one holds."""
    if len(predicates) == 1:
        return predicates[0]
    if len(predicates) == 2:
        first, second = predicates
        return lambda item: first(item) or second(item)

    def some(item: Item) -> bool:
        for predicate in predicates:  # noqa: SIM110
            if predicate(item):
                return True
        return False

    return some


# ── operands ─────────────────────────────────────────────────────────────────────────────────────


def bind_operand(operand: Operand, scope: Scope) -> Bound:
    """An operand of a condition, checked."""
    if isinstance(operand, Path):
        path = bind_path(operand, scope.names)
        return Bound(getter(path), None, path)
    if isinstance(operand, Value):
        return _bound_value(value_of(operand, scope.values))
    if isinstance(operand, Call):
        return _size([bind_operand(argument, scope) for argument in operand.arguments])
    raise error_wording.misplaced_function(operand.operator)


def _bound_value(value: AttributeValue) -> Bound:
    return Bound(lambda item: value, next(iter(value)), None, value)


def value_of(operand: Value, values: Mapping[str, AttributeValue]) -> AttributeValue:
    """What a :placeholder stands for."""
    value = values.get(operand.name)
    if value is None:
        raise error_wording.undefined_value(operand.name)
    return value


def _size(arguments: list[Bound]) -> Bound:
    _refuse_count("size", arguments)
    (argument,) = arguments
    if argument.kind is not None and argument.kind not in SIZED:
        raise error_wording.operand_type("size", argument.kind)
    get = argument.get

    def size(item: Item) -> AttributeValue | None:
        value = get(item)
        length = None if value is None else size_of(value)
        return None if length is None else {"N": str(length)}

    return Bound(size, "N")


def _refuse_count(operator: str, operands: list[Bound]) -> None:
    if len(operands) != OPERAND_COUNTS[operator]:
        raise error_wording.operand_count(operator, len(operands))


def _refuse_same(operator: str, first: Bound, *others: Bound) -> None:
    if first.path is not None and any(other.path == first.path for other in others):
        raise error_wording.not_distinct(operator, path_text(first.path))


def _refuse_types(operator: str, allowed: frozenset[str], *operands: Bound) -> None:
    for operand in operands:
        if operand.kind is not None and operand.kind not in allowed:
            raise error_wording.operand_type(operator, operand.kind)


# ── comparisons ──────────────────────────────────────────────────────────────────────────────────


def _comparison(term: Comparison, scope: Scope) -> Predicate:
    return _compare(term.operator, bind_operand(term.left, scope), bind_operand(term.right, scope))


def _equality_binder(left: Bound, operand: Value) -> Binder:
    """`_compare` of "=", of which nothing can be refused where a path is compared with a value."""
    path, get = left.path, left.get
    name: Any = path[0] if path is not None and len(path) == 1 else None

    def bind(values: Mapping[str, AttributeValue]) -> Predicate:
        value = value_of(operand, values)
        if next(iter(value)) not in SCALARS:
            return _equality(left, _bound_value(value))
        if name is None:
            return lambda item: get(item) == value
        return lambda item: item.get(name) == value

    return bind


def _compare(operator: str, left: Bound, right: Bound) -> Predicate:
    _refuse_same(operator, left, right)
    if operator == "=":
        return _equality(left, right)
    if operator == "<>":
        return _not(_equality(left, right))
    _refuse_types(operator, ORDERED, left, right)
    return _ordering(ORDERINGS[operator], left, right)


def _equality(left: Bound, right: Bound) -> Predicate:
    if left.constant is not None:
        left, right = right, left
    if right.constant is not None and right.kind in SCALARS:
        return _equal_scalar(left.path, left.get, right.constant)
    get_left, get_right = left.get, right.get

    def same(item: Item) -> bool:
        one, other = get_left(item), get_right(item)
        return one is not None and other is not None and equal(one, other)

    return same


def _equal_scalar(path: BoundPath | None, get: Getter, constant: AttributeValue) -> Predicate:
    """Stored values are normalised: scalars are equal where their JSON is."""
    if path is not None and len(path) == 1:
        name: Any = path[0]
        return lambda item: item.get(name) == constant
    return lambda item: get(item) == constant


def _ordering(compare: Callable[[Any, Any], bool], left: Bound, right: Bound) -> Predicate:
    get_left, get_right = left.get, right.get
    if right.constant is not None:
        ((kind, data),) = right.constant.items()
        bound = order_key(kind, data)

        def against_constant(item: Item) -> bool:
            value = get_left(item)
            if value is None or kind not in value:
                return False
            return compare(order_key(kind, value[kind]), bound)

        return against_constant

    def against_operand(item: Item) -> bool:
        return _in_order(compare, get_left(item), get_right(item))

    return against_operand


def _in_order(compare: Callable[[Any, Any], bool], one: AttributeValue | None, other: AttributeValue | None) -> bool:
    if one is None or other is None:
        return False
    ((kind, data),) = one.items()
    if kind not in other or kind not in ORDERED:
        return False
    return compare(order_key(kind, data), order_key(kind, other[kind]))


def _between(term: Between, scope: Scope) -> Predicate:
    operand, low, high = (bind_operand(one, scope) for one in (term.operand, term.low, term.high))
    _refuse_same("BETWEEN", operand, low, high)
    _refuse_types("BETWEEN", ORDERED, operand, low, high)
    if low.constant is not None and high.constant is not None:
        refuse_bounds(low.constant, high.constant)
    at_least, at_most = _ordering(ge, operand, low), _ordering(le, operand, high)
    return lambda item: at_least(item) and at_most(item)


def _in(term: In, scope: Scope) -> Predicate:
    operand = bind_operand(term.operand, scope)
    candidates = [bind_operand(candidate, scope) for candidate in term.candidates]
    if len(candidates) > EXPRESSION_IN_OPERANDS:
        raise error_wording.too_many_candidates(len(candidates))
    _refuse_same("IN", operand, *candidates)
    get = operand.get
    constants = [candidate.constant for candidate in candidates if candidate.kind in SCALARS]
    if len(constants) == len(candidates) and None not in constants:
        return lambda item: get(item) in constants
    getters = [candidate.get for candidate in candidates]

    def among(item: Item) -> bool:
        value = get(item)
        if value is None:
            return False
        return any(other is not None and equal(value, other) for other in (one(item) for one in getters))

    return among


# ── functions ────────────────────────────────────────────────────────────────────────────────────


def _call(term: Call, scope: Scope) -> Predicate:
    name = term.name
    arguments = [bind_operand(argument, scope) for argument in term.arguments]
    _refuse_count(name, arguments)
    _refuse_same(name, *arguments)
    if name == "attribute_exists":
        return _exists(name, arguments[0])
    if name == "attribute_not_exists":
        return _not_exists(name, arguments[0])
    first, second = arguments
    if name == "attribute_type":
        return _has_type(first, second)
    if name == "begins_with":
        _refuse_types(name, frozenset({"S", "B"}), first, second)
        return _pairwise(begins_with, first, second)
    return _pairwise(contains, first, second)


def _path_of(function: str, operand: Bound) -> BoundPath:
    if operand.path is None:
        raise error_wording.needs_path(function)
    return operand.path


def _exists(function: str, operand: Bound) -> Predicate:
    path = _path_of(function, operand)
    if len(path) == 1:
        name = path[0]
        return lambda item: name in item
    get = operand.get
    return lambda item: get(item) is not None


def _not_exists(function: str, operand: Bound) -> Predicate:
    path = _path_of(function, operand)
    if len(path) == 1:
        name = path[0]
        return lambda item: name not in item
    get = operand.get
    return lambda item: get(item) is None


def _has_type(operand: Bound, wanted: Bound) -> Predicate:
    if wanted.constant is None or wanted.kind != "S":
        raise error_wording.operand_type("attribute_type", wanted.kind or error_wording.ANY_TYPE)
    kind = wanted.constant["S"]
    if kind not in TYPES:
        raise error_wording.unknown_type(kind)
    get = operand.get

    def is_of_type(item: Item) -> bool:
        value = get(item)
        return value is not None and kind in value

    return is_of_type


def _pairwise(holds: Callable[[AttributeValue, AttributeValue], bool], first: Bound, second: Bound) -> Predicate:
    get_first, get_second = first.get, second.get

    def both(item: Item) -> bool:
        one, other = get_first(item), get_second(item)
        return one is not None and other is not None and holds(one, other)

    return both


_TERMS: dict[type, Callable[[Any, Scope], Predicate]] = {
    Call: _call,
    Comparison: _comparison,
    Between: _between,
    In: _in,
    Not: lambda term, scope: _not(bind_term(term.term, scope)),
    And: lambda term, scope: all_of([bind_term(one, scope) for one in term.terms]),
    Or: lambda term, scope: any_of([bind_term(one, scope) for one in term.terms]),
}


# ── conditions ────────────────────────────────────────────────────────────────────────────────────


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


# ── key conditions ─────────────────────────────────────────────────────────────────────────────────


_PREFIXES = frozenset({"S", "B"})
_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class KeyTerm(NamedTuple):
    """What is asked of one key attribute: "=", "<", "<=", ">", ">=", "BETWEEN" (two operands) or "begins_with".

    From the legacy KeyConditions also NE, IN, CONTAINS, NOT_CONTAINS, NULL and NOT_NULL, which no key supports.
    """

    attribute: str
    operator: str
    operands: tuple[AttributeValue, ...]


class _Plain(NamedTuple):
    """A term of the form that nearly all have: one attribute against values. `written` is its operator in the text."""

    path: Path
    written: str
    operator: str
    values: tuple[Value, ...]


KeyBinder = Callable[[Mapping[str, AttributeValue]], tuple[KeyTerm, ...]]


class KeyCondition:
    """A key condition that is well formed; it may be bound any number of times."""

    __slots__ = ("_plain", "names", "tree", "values")

    def __init__(self, tree: Term) -> None:
        self.tree = tree
        self.names, self.values = placeholders((tree,))
        plain = [_plain(term) for term in _factors(tree)]
        self._plain = None if None in plain else [term for term in plain if term is not None]

    def check(self, names: Mapping[str, str], values: Mapping[str, AttributeValue]) -> None:
        """What is checked of it as of any condition: placeholders and operands."""
        bind_term(self.tree, Scope(names, values))

    def terms(self, names: Mapping[str, str], values: Mapping[str, AttributeValue]) -> tuple[KeyTerm, ...]:
        """Its terms, as they are written; refuses what a key condition may not have. `check` comes first."""
        scope = Scope(names, values)
        terms = tuple(_key_term(term, scope) for term in _factors(self.tree))
        if len({term.attribute for term in terms}) != len(terms):
            raise error_wording.repeated_key_condition()
        return terms

    def equalities(self, names: Mapping[str, str], values: Mapping[str, AttributeValue]) -> tuple[KeyTerm, ...]:
        """The same of a search condition, which may have nothing but attributes that equal values."""
        terms = []
        for term in _factors(self.tree):
            match term:
                case Comparison("=", Path() as path, Value() as value):
                    pass
                case Comparison("=", Value() as value, Path() as path):
                    pass
                case _:
                    raise error_wording.search_condition("Invalid comparator used in SearchConditionExpression")
            bound = bind_path(path, names)
            if len(bound) > 1:
                raise error_wording.search_condition(
                    "SearchConditionExpression cannot have conditions on nested attributes"
                )
            terms.append(KeyTerm(str(bound[0]), "=", (value_of(value, values),)))
        if len({term.attribute for term in terms}) != len(terms):
            raise error_wording.search_condition(
                "SearchConditionExpression must only contain one condition per attribute"
            )
        return tuple(terms)

    def bind(self, names: Mapping[str, str], values: Mapping[str, AttributeValue]) -> tuple[KeyTerm, ...]:
        """Its terms, checked."""
        self.check(names, values)
        return self.terms(names, values)

    def prepare(self, names: Mapping[str, str]) -> KeyBinder | None:
        """`bind` in two steps, as `prepare_term`; None where a term is not plain, or an attribute has two."""
        if self._plain is None:
            return None
        plain = {str(bind_path(term.path, names)[0]): term for term in self._plain}
        if len(plain) != len(self._plain):
            return None
        return lambda values: tuple([_bind_plain(name, term, values) for name, term in plain.items()])


@lru_cache(maxsize=CACHED)
def compile_key_condition(text: str) -> KeyCondition:
    """The key condition of this text; refused as DynamoDB refuses it."""
    check_size(text)
    tree = parse_condition(text)
    check_condition(tree)
    return KeyCondition(tree)


def _factors(tree: Term) -> list[Term]:
    """The terms that AND joins, brackets or none."""
    if not isinstance(tree, And):
        return [tree]
    return [factor for term in tree.terms for factor in _factors(term)]


def _plain(term: Term) -> _Plain | None:
    """The term, if it is plain."""
    match term:
        case Comparison(operator, Path(parts) as path, Value() as value) if operator != "<>" and len(parts) == 1:
            return _Plain(path, operator, operator, (value,))
        case Comparison(operator, Value() as value, Path(parts) as path) if operator != "<>" and len(parts) == 1:
            return _Plain(path, operator, _MIRRORED[operator], (value,))
        case Between(Path(parts) as path, Value() as low, Value() as high) if len(parts) == 1:
            return _Plain(path, "BETWEEN", "BETWEEN", (low, high))
        case Call("begins_with", (Path(parts) as path, Value() as value)) if len(parts) == 1:
            return _Plain(path, "begins_with", "begins_with", (value,))
        case _:
            return None


def _bind_plain(attribute: str, term: _Plain, values: Mapping[str, AttributeValue]) -> KeyTerm:
    """The attribute's term with these values, with the checks that `bind_term` makes of it."""
    _, written, operator, wanted = term
    operands = tuple([value_of(value, values) for value in wanted])
    if written != "=":
        allowed = _PREFIXES if written == "begins_with" else ORDERED
        for operand in operands:
            kind = next(iter(operand))
            if kind not in allowed:
                raise error_wording.operand_type(written, kind)
        if written == "BETWEEN":
            refuse_bounds(*operands)
    return KeyTerm(attribute, operator, operands)


def _key_term(term: Term, scope: Scope) -> KeyTerm:
    operator, operands = _parts(term)
    if operator in ("BETWEEN", "begins_with") and not isinstance(operands[0], Path):
        raise error_wording.key_condition(f"{operator} operator must have the key attribute as its first operand")
    attribute: str | None = None
    first = True
    constants: list[AttributeValue] = []
    for operand in operands:
        bound = _bind_side(operand, scope)
        if bound.path is None:
            constants.append(bound.constant or {})
            first = first and attribute is not None
        elif attribute is not None:
            raise error_wording.key_condition("Multiple attribute names used in one condition")
        elif len(bound.path) > 1:
            raise error_wording.key_conditions("cannot have conditions on nested attributes")
        else:
            attribute = str(bound.path[0])
    if attribute is None:
        raise error_wording.key_condition("No key attribute specified")
    return KeyTerm(attribute, operator if first else _MIRRORED[operator], tuple(constants))


def _parts(term: Term) -> tuple[str, tuple[Operand, ...]]:
    match term:
        case Comparison(operator, left, right) if operator != "<>":
            return operator, (left, right)
        case Between(operand, low, high):
            return "BETWEEN", (operand, low, high)
        case Call("begins_with", arguments):
            return "begins_with", arguments
        case Comparison(name) | Call(name):
            raise error_wording.key_operator(name)
        case In():
            raise error_wording.key_operator("IN")
        case Not():
            raise error_wording.key_operator("NOT")
        case Or() | And():
            raise error_wording.key_operator("OR")


def _bind_side(operand: Operand, scope: Scope) -> Bound:
    if isinstance(operand, Call | Arithmetic):
        raise error_wording.key_conditions("cannot contain nested operations")
    return bind_operand(operand, scope)
