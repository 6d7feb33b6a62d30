"""KeyConditionExpression: a condition of which DynamoDB allows few forms, taken apart into a term a key attribute."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from penstock.expressions.compiled.conditions import (
    ORDERED,
    Bound,
    Scope,
    bind_operand,
    bind_term,
    refuse_bounds,
    value_of,
)
from penstock.expressions.compiled.paths import CACHED, bind_path
from penstock.expressions.syntax import error_wording
from penstock.expressions.syntax.checks import check_condition, check_size, placeholders
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
)
from penstock.wire.values import AttributeValue

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


class KeyCondition:
    """A key condition that is well formed; it may be bound any number of times."""

    __slots__ = ("_plain", "names", "tree", "values")

    def __init__(self, tree: Term) -> None:
        self.tree = tree
        self.names, self.values = placeholders((tree,))
        plain = [_plain(term) for term in _factors(tree)]
        self._plain = None if None in plain else [term for term in plain if term is not None]

    def check(self, names: Mapping[str, str], values: Mapping[str, AttributeValue]) -> tuple[KeyTerm, ...] | None:
        """What is checked of it as of any condition: placeholders and operands. Gives what `terms` needs."""
        scope = Scope(names, values)
        if self._plain is not None:
            return tuple(_bind_plain(term, scope) for term in self._plain)
        bind_term(self.tree, scope)
        return None

    def terms(
        self,
        names: Mapping[str, str],
        values: Mapping[str, AttributeValue],
        checked: tuple[KeyTerm, ...] | None,
    ) -> tuple[KeyTerm, ...]:
        """Its terms, as they are written; refuses what a key condition may not have. `check` comes first."""
        scope = Scope(names, values)
        terms = checked or tuple(_key_term(term, scope) for term in _factors(self.tree))
        if len({term.attribute for term in terms}) != len(terms):
            raise error_wording.repeated_key_condition()
        return terms

    def bind(self, names: Mapping[str, str], values: Mapping[str, AttributeValue]) -> tuple[KeyTerm, ...]:
        """Its terms, checked."""
        return self.terms(names, values, self.check(names, values))


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


def _bind_plain(term: _Plain, scope: Scope) -> KeyTerm:
    """The term of these names and values, with the checks that `bind_term` makes of it."""
    path, written, operator, wanted = term
    # A value that stands first is looked up first.
    if operator != written:
        operands = _values(wanted, scope)
        attribute = bind_path(path, scope.names)[0]
    else:
        attribute = bind_path(path, scope.names)[0]
        operands = _values(wanted, scope)
    if written != "=":
        allowed = _PREFIXES if written == "begins_with" else ORDERED
        for operand in operands:
            kind = next(iter(operand))
            if kind not in allowed:
                raise error_wording.operand_type(written, kind)
        if written == "BETWEEN":
            refuse_bounds(*operands)
    return KeyTerm(str(attribute), operator, operands)


def _values(wanted: tuple[Value, ...], scope: Scope) -> tuple[AttributeValue, ...]:
    return tuple([value_of(value, scope.values) for value in wanted])


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
