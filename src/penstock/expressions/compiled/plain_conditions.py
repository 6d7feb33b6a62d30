"""Conditions that compare attributes with values, or ask whether they are there, as most do.

Their closures take the item and the values, so that they are made once for a text and its names; a call has only to
bring its values. About such conditions nothing can be refused but the type of a value that `<` and the like compare
with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.expressions.compiled.comparison import ORDERED, order_key
from penstock.expressions.compiled.condition_closures import ORDERINGS, Predicate
from penstock.expressions.compiled.paths import Getter, bind_path, getter
from penstock.expressions.syntax.tree import And, Call, Comparison, Not, Or, Path, Term, Value
from penstock.wire.values import AttributeValue, Item, equal, type_of

Names = Mapping[str, str]
Values = Mapping[str, AttributeValue]
Test = Callable[[Item, Values], bool]


class PlainCondition:
    """`ordered` are the placeholders of values that must have an order."""

    __slots__ = ("_ordered", "_test")

    def __init__(self, test: Test, ordered: frozenset[str]) -> None:
        self._test = test
        self._ordered = ordered

    def bind(self, values: Values) -> Predicate | None:
        """The condition of these values, which must have been checked; None where one of them is to be refused."""
        for placeholder in self._ordered:
            if type_of(values[placeholder]) not in ORDERED:
                return None
        test = self._test
        return lambda item: test(item, values)


def plain_condition(term: Term, names: Names) -> PlainCondition | None:
    """The condition with its names put in, all of which must be defined; None where it is not so plain."""
    ordered: set[str] = set()
    test = _test_of(term, names, ordered)
    return None if test is None else PlainCondition(test, frozenset(ordered))


def _test_of(term: Term, names: Names, ordered: set[str]) -> Test | None:
    match term:
        case Comparison(operator, Path() as path, Value(placeholder)):
            get = getter(bind_path(path, names))
            if operator in ORDERINGS:
                ordered.add(placeholder)
                return _ordering(ORDERINGS[operator], get, placeholder)
            return _equality(get, placeholder) if operator == "=" else _not(_equality(get, placeholder))
        case Call("attribute_exists", (Path() as path,)):
            return _exists(getter(bind_path(path, names)))
        case Call("attribute_not_exists", (Path() as path,)):
            return _not(_exists(getter(bind_path(path, names))))
        case Not(inner):
            test = _test_of(inner, names, ordered)
            return None if test is None else _not(test)
        case And(terms) | Or(terms):
            tests = [_test_of(one, names, ordered) for one in terms]
            known = [test for test in tests if test is not None]
            return _joined(known, isinstance(term, And)) if len(known) == len(tests) else None
        case _:
            return None


def _equality(get: Getter, placeholder: str) -> Test:
    def same(item: Item, values: Values) -> bool:
        value, constant = get(item), values[placeholder]
        return value == constant or (value is not None and equal(value, constant))

    return same


def _ordering(compare: Callable[[object, object], bool], get: Getter, placeholder: str) -> Test:
    def in_order(item: Item, values: Values) -> bool:
        value = get(item)
        ((kind, data),) = values[placeholder].items()
        return value is not None and kind in value and compare(order_key(kind, value[kind]), order_key(kind, data))

    return in_order


def _exists(get: Getter) -> Test:
    return lambda item, values: get(item) is not None


def _not(test: Test) -> Test:
    return lambda item, values: not test(item, values)


def _joined(tests: list[Test], every: bool) -> Test:
    if len(tests) == 2:
        first, second = tests
        if every:
            return lambda item, values: first(item, values) and second(item, values)
        return lambda item, values: first(item, values) or second(item, values)

    def joined(item: Item, values: Values) -> bool:
        for test in tests:
            if test(item, values) is not every:
                return not every
        return every

    return joined
