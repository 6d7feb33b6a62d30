"""KeyConditionExpression: a condition of which DynamoDB allows few forms, taken apart into a term a key attribute."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from penstock.expressions import wording
from penstock.expressions.checks import check_condition, check_size, placeholders
from penstock.expressions.conditions import CACHED
from penstock.expressions.evaluate import Bound, Scope, bind_operand, bind_term
from penstock.expressions.parser import parse_condition
from penstock.expressions.tree import (
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
)
from penstock.wire.values import AttributeValue

_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class KeyTerm(NamedTuple):
    """What is asked of one key attribute: "=", "<", "<=", ">", ">=", "BETWEEN" (two operands) or "begins_with".

    From the legacy KeyConditions also NE, IN, CONTAINS, NOT_CONTAINS, NULL and NOT_NULL, which no key supports.
    """

    attribute: str
    operator: str
    operands: tuple[AttributeValue, ...]


class KeyCondition:
    """A key condition that is well formed; it may be bound any number of times."""

    __slots__ = ("names", "tree", "values")

    def __init__(self, tree: Term) -> None:
        self.tree = tree
        self.names, self.values = placeholders((tree,))

    def check(self, names: Mapping[str, str], values: Mapping[str, AttributeValue]) -> None:
        """What is checked of it as of any condition: placeholders and operands."""
        bind_term(self.tree, Scope(names, values))

    def terms(self, names: Mapping[str, str], values: Mapping[str, AttributeValue]) -> tuple[KeyTerm, ...]:
        """Its terms, as they are written; refuses what a key condition may not have. `check` comes first."""
        found: dict[str, KeyTerm] = {}
        scope = Scope(names, values)
        for term in _factors(self.tree):
            key_term = _key_term(term, scope)
            if key_term.attribute in found:
                raise wording.key_conditions("must only contain one condition per key")
            found[key_term.attribute] = key_term
        return tuple(found.values())

    def bind(self, names: Mapping[str, str], values: Mapping[str, AttributeValue]) -> tuple[KeyTerm, ...]:
        """Its terms, checked."""
        self.check(names, values)
        return self.terms(names, values)


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


def _key_term(term: Term, scope: Scope) -> KeyTerm:
    operator, operands = _parts(term)
    if operator in ("BETWEEN", "begins_with") and not isinstance(operands[0], Path):
        raise wording.key_condition(f"{operator} operator must have the key attribute as its first operand")
    attribute: str | None = None
    first = True
    constants: list[AttributeValue] = []
    for operand in operands:
        bound = _plain(operand, scope)
        if bound.path is None:
            constants.append(bound.constant or {})
            first = first and attribute is not None
        elif attribute is not None:
            raise wording.key_condition("Multiple attribute names used in one condition")
        elif len(bound.path) > 1:
            raise wording.key_conditions("cannot have conditions on nested attributes")
        else:
            attribute = str(bound.path[0])
    if attribute is None:
        raise wording.key_condition("No key attribute specified")
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
            raise wording.key_operator(name)
        case In():
            raise wording.key_operator("IN")
        case Not():
            raise wording.key_operator("NOT")
        case Or() | And():
            raise wording.key_operator("OR")


def _plain(operand: Operand, scope: Scope) -> Bound:
    if isinstance(operand, Call | Arithmetic):
        raise wording.key_conditions("cannot contain nested operations")
    return bind_operand(operand, scope)
