"""The parameters that came before expressions, turned into the same closures.

KeyConditions, QueryFilter, ScanFilter and Expected hold conditions on attributes; AttributeUpdates holds actions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import ge, gt, le, lt
from typing import Any

from penstock.errors import ValidationException
from penstock.expressions.compiled.conditions import (
    ORDERED,
    KeyTerm,
    Predicate,
    all_of,
    any_of,
    begins_with,
    contains,
    order_key,
)
from penstock.expressions.compiled.updates import ADDABLE, SETS, BoundUpdate, Compute, Write, adder, deleter
from penstock.expressions.syntax import error_wording
from penstock.wire.values import AttributeValue, Item, check_names, check_value, equal, type_of

INVALID = "One or more parameter values were invalid: "

_ONE = (1, 1)
_COUNTS = {
    "NULL": (0, 0),
    "NOT_NULL": (0, 0),
    "EQ": _ONE,
    "NE": _ONE,
    "LE": _ONE,
    "LT": _ONE,
    "GE": _ONE,
    "GT": _ONE,
    "CONTAINS": _ONE,
    "NOT_CONTAINS": _ONE,
    "BEGINS_WITH": _ONE,
    "IN": (1, None),
    "BETWEEN": (2, 2),
}
_ORDERINGS: dict[str, Callable[[Any, Any], bool]] = {"LT": lt, "LE": le, "GT": gt, "GE": ge}
_MEMBERS = ORDERED | {"BOOL", "NULL"}
_TYPES = {
    **dict.fromkeys((*_ORDERINGS, "IN", "BETWEEN"), ORDERED),
    "CONTAINS": _MEMBERS,
    "NOT_CONTAINS": _MEMBERS,
    "BEGINS_WITH": frozenset({"S", "B"}),
}
_KEY_OPERATORS = {
    "EQ": "=",
    "LT": "<",
    "LE": "<=",
    "GT": ">",
    "GE": ">=",
    "BETWEEN": "BETWEEN",
    "BEGINS_WITH": "begins_with",
}


def invalid(why: str) -> ValidationException:
    return ValidationException(INVALID + why)


# ── conditions ───────────────────────────────────────────────────────────────────────────────────


def filter_of(conditions: Mapping[str, Any], operator: str | None) -> Predicate | None:
    """QueryFilter or ScanFilter; None where it asks nothing."""
    checked = {name: _comparison_of(condition) for name, condition in conditions.items()}
    predicates = [_predicate(name, comparison, values) for name, (comparison, values) in checked.items()]
    return _join(predicates, operator)


def key_terms_of(conditions: Mapping[str, Any]) -> tuple[KeyTerm, ...]:
    """KeyConditions; an operator that no key supports keeps its legacy name."""
    checked = {name: _comparison_of(condition) for name, condition in conditions.items()}
    return tuple(
        KeyTerm(name, _KEY_OPERATORS.get(comparison, comparison), values)
        for name, (comparison, values) in checked.items()
    )


def expected_of(expected: Mapping[str, Any], operator: str | None) -> Predicate | None:
    """Expected; None where it asks nothing."""
    check_names(expected)
    predicates = [_expectation(name, condition) for name, condition in expected.items()]
    return _join(predicates, operator)


def _join(predicates: list[Predicate], operator: str | None) -> Predicate | None:
    if not predicates:
        return None
    return any_of(predicates) if operator == "OR" else all_of(predicates)


def _comparison_of(condition: Mapping[str, Any]) -> tuple[str, tuple[AttributeValue, ...]]:
    comparison: str = condition["ComparisonOperator"]
    values = tuple(check_value(value) for value in condition.get("AttributeValueList") or ())
    _refuse_arguments(comparison, values)
    return comparison, values


def _refuse_arguments(comparison: str, values: tuple[AttributeValue, ...]) -> None:
    least, most = _COUNTS[comparison]
    if len(values) < least or (most is not None and len(values) > most):
        raise invalid(f"Invalid number of argument(s) for the {comparison} ComparisonOperator")
    if len({type_of(value) for value in values}) > 1:
        raise invalid("AttributeValues inside AttributeValueList must be of same type")
    for value in values:
        if comparison in _TYPES and type_of(value) not in _TYPES[comparison]:
            raise invalid(f"ComparisonOperator {comparison} is not valid for {type_of(value)} AttributeValue type")
    if comparison == "BETWEEN" and _ordered(gt, values[0], values[1]):
        raise ValidationException(
            "The BETWEEN condition was provided a range where the lower bound is greater than the upper bound"
        )


def _expectation(name: str, condition: Mapping[str, Any]) -> Predicate:
    given = {key for key, value in condition.items() if value is not None}
    if {"AttributeValueList", "Value"} <= given:
        raise invalid(f"Value and AttributeValueList cannot be used together for Attribute: {name}")
    if "ComparisonOperator" in given:
        return _expected_comparison(name, condition, given)
    if "AttributeValueList" in given:
        raise invalid(f"AttributeValueList can only be used with a ComparisonOperator for Attribute: {name}")
    return _expected_existence(name, condition)


def _expected_comparison(name: str, condition: Mapping[str, Any], given: set[str]) -> Predicate:
    comparison = condition["ComparisonOperator"]
    if "Exists" in given:
        raise invalid(f"Exists and ComparisonOperator cannot be used together for Attribute: {name}")
    if comparison not in ("NULL", "NOT_NULL") and not given & {"AttributeValueList", "Value"}:
        raise invalid(
            f"Value or AttributeValueList must be used with ComparisonOperator: {comparison} for Attribute: {name}"
        )
    listed = [condition["Value"]] if "Value" in given else condition.get("AttributeValueList") or ()
    values = tuple(check_value(value) for value in listed)
    _refuse_arguments(comparison, values)
    return _predicate(name, comparison, values)


def _expected_existence(name: str, condition: Mapping[str, Any]) -> Predicate:
    exists, value = condition.get("Exists"), condition.get("Value")
    if exists is False:
        if value is not None:
            raise invalid(f"Value cannot be used when Exists is false for Attribute: {name}")
        return _predicate(name, "NULL", ())
    if value is None:
        exists_text = "null" if exists is None else "true"
        raise invalid(f"Value must be provided when Exists is {exists_text} for Attribute: {name}")
    return _predicate(name, "EQ", (check_value(value),))


def _predicate(name: str, comparison: str, values: tuple[AttributeValue, ...]) -> Predicate:
    """Whether the attribute compares so; what a missing one gives is said case by case."""
    if comparison == "NULL":
        return lambda item: name not in item
    if comparison == "NOT_NULL":
        return lambda item: name in item
    if comparison == "NE":
        is_equal = _predicate(name, "EQ", values)
        return lambda item: not is_equal(item)
    holds = _comparison(comparison, values)

    def compares(item: Item) -> bool:
        value = item.get(name)
        return value is not None and holds(value)

    return compares


def _comparison(comparison: str, values: tuple[AttributeValue, ...]) -> Callable[[AttributeValue], bool]:
    first = values[0]
    if comparison == "EQ":
        return lambda value: equal(value, first)
    if comparison == "CONTAINS":
        return lambda value: contains(value, first)
    if comparison == "NOT_CONTAINS":
        return lambda value: not contains(value, first)
    if comparison == "BEGINS_WITH":
        return lambda value: begins_with(value, first)
    if comparison == "IN":
        return lambda value: any(equal(value, one) for one in values)
    if comparison == "BETWEEN":
        return lambda value: _ordered(ge, value, first) and _ordered(le, value, values[1])
    ordering = _ORDERINGS[comparison]
    return lambda value: _ordered(ordering, value, first)


def _ordered(ordering: Callable[[Any, Any], bool], value: AttributeValue, other: AttributeValue) -> bool:
    ((kind, data),) = other.items()
    if kind not in value:
        return False
    return ordering(order_key(kind, value[kind]), order_key(kind, data))


# ── updates ──────────────────────────────────────────────────────────────────────────────────────


def updates_of(updates: Mapping[str, Any]) -> BoundUpdate | None:
    """AttributeUpdates; None where it asks nothing."""
    check_names(updates)
    writes = [
        Write((name,), _action(name, update), removes=update.get("Action") == "DELETE")
        for name, update in updates.items()
    ]
    return BoundUpdate(writes) if writes else None


def _action(name: str, update: Mapping[str, Any]) -> Compute:
    action = update.get("Action") or "PUT"
    given = update.get("Value")
    if given is None:
        if action != "DELETE":
            raise invalid("Only DELETE action is allowed when no attribute value is specified")
        return lambda item: None
    value = check_value(given)
    kind = type_of(value)
    if action == "DELETE":
        if kind not in SETS:
            raise invalid(f"DELETE action with value is not supported for the type {kind}")
        return deleter((name,), value, error_wording.TYPE_MISMATCH)
    if action == "ADD":
        if kind not in ADDABLE and kind != "L":
            raise invalid(f"ADD action is not supported for the type {kind}")
        return adder((name,), value, error_wording.TYPE_MISMATCH)
    return lambda item: value


def refuse_duplicates(names: list[str]) -> None:
    """Refuses AttributesToGet that names an attribute twice, or none."""
    check_names(names)
    if len(set(names)) != len(names):
        seen: set[str] = set()
        for name in names:
            if name in seen:
                raise invalid(f"Duplicate value in attribute name: {name}")
            seen.add(name)
