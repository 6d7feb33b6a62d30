"""What a WHERE says about a key: decided from the tree and the key's names, before anything is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from penstock.expressions.compiled.key_conditions import KeyTerm
from penstock.expressions.partiql.tree import (
    And,
    Bag,
    Between,
    Binary,
    Call,
    In,
    Is,
    Node,
    Not,
    Or,
    Path,
)
from penstock.expressions.partiql.tree import Sequence as Literals
from penstock.expressions.partiql.values import LITERALS, Parameters, value_of
from penstock.wire.values import AttributeValue, Item, equal

_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(slots=True)
class Pinned:
    """A key given by equality, and the rest of the WHERE: a condition on the item."""

    key: Item = field(default_factory=dict)
    rest: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Branch:
    """One alternative of a SELECT's WHERE: whole partitions, or a range of each."""

    hashes: list[AttributeValue]
    sort: KeyTerm | None = None
    sort_negated: bool = False


def conjuncts(where: Node | None) -> list[Node]:
    """The terms that must all hold; brackets around ANDs are gone through."""
    if where is None:
        return []
    if not isinstance(where, And):
        return [where]
    return [term for part in where.terms for term in conjuncts(part)]


def pinned(where: Node | None, names: Sequence[str], parameters: Parameters) -> Pinned:
    """The equalities on these attributes; a second one that says the same is dropped."""
    found = Pinned()
    for term in conjuncts(where):
        comparison = _on_attribute(term, parameters)
        if comparison is None or comparison.operator != "=" or comparison.attribute not in names:
            found.rest.append(term)
            continue
        (value,) = comparison.operands
        if comparison.attribute not in found.key:
            found.key[comparison.attribute] = value
        elif not equal(found.key[comparison.attribute], value):
            found.rest.append(term)
    return found


def branches(where: Node | None, hash_name: str, sort_name: str | None, parameters: Parameters) -> list[Branch] | None:
    """The alternatives, if each of them names its partitions; None if something must be scanned."""
    alternatives = list(_alternatives(where)) if where is not None else []
    found = [_branch(alternative, hash_name, sort_name, parameters) for alternative in alternatives]
    kept = [branch for branch in found if branch is not None]
    return kept if kept and len(kept) == len(found) else None


def _alternatives(where: Node) -> Iterator[Node]:
    if isinstance(where, Or):
        for term in where.terms:
            yield from _alternatives(term)
    else:
        yield where


def _branch(where: Node, hash_name: str, sort_name: str | None, parameters: Parameters) -> Branch | None:
    hashes: list[AttributeValue] | None = None
    sort: KeyTerm | None = None
    negated = False
    for term in conjuncts(where):
        if hashes is None:
            hashes = _hash_values(term, hash_name, parameters)
        if sort_name is None:
            continue
        comparison = _on_attribute(term, parameters)
        if comparison is not None and comparison.attribute == sort_name and comparison.operator != "<>":
            sort = sort or comparison
        elif sort_name in attributes(term):
            negated = negated or isinstance(term, Not) or comparison is not None
    return None if hashes is None else Branch(hashes, sort, negated)


def _hash_values(term: Node, hash_name: str, parameters: Parameters) -> list[AttributeValue] | None:
    comparison = _on_attribute(term, parameters)
    if comparison is not None and comparison.attribute == hash_name and comparison.operator == "=":
        return [comparison.operands[0]]
    if isinstance(term, In) and isinstance(term.operand, Path) and term.operand.parts == (hash_name,):
        return _candidates(term.candidates, parameters)
    return None


def _candidates(node: Node, parameters: Parameters) -> list[AttributeValue] | None:
    if not isinstance(node, Literals | Bag) or not all(isinstance(member, LITERALS) for member in node.members):
        return None
    values = [value_of(member, parameters) for member in node.members]
    distinct: list[AttributeValue] = []
    for value in values:
        if not any(equal(value, other) for other in distinct):
            distinct.append(value)
    return distinct


def _on_attribute(term: Node, parameters: Parameters) -> KeyTerm | None:
    """A term that compares a top-level attribute with constants, as a key condition has it."""
    match term:
        case Binary(operator, Path((str(name),)), right) if operator in _FLIPPED and isinstance(right, LITERALS):
            return KeyTerm(name, operator, (value_of(right, parameters),))
        case Binary(operator, left, Path((str(name),))) if operator in _FLIPPED and isinstance(left, LITERALS):
            return KeyTerm(name, _FLIPPED[operator], (value_of(left, parameters),))
        case Between(Path((str(name),)), low, high) if isinstance(low, LITERALS) and isinstance(high, LITERALS):
            return KeyTerm(name, "BETWEEN", (value_of(low, parameters), value_of(high, parameters)))
        case Call("begins_with", (Path((str(name),)), prefix)) if isinstance(prefix, LITERALS):
            return KeyTerm(name, "begins_with", (value_of(prefix, parameters),))
    return None


def attributes(node: Node) -> list[str]:
    """The top-level attributes that a condition reads, each once; of an AND, those of its groups come first."""
    return list(dict.fromkeys(str(path.parts[0]) for path in _paths(node)))


def nested_attributes(*nodes: Node | None) -> frozenset[str]:
    """The top-level attributes that expressions look into."""
    found = (path for node in nodes if node is not None for path in _paths(node))
    return frozenset(str(path.parts[0]) for path in found if len(path.parts) > 1)


def _paths(node: Node) -> Iterator[Path]:
    match node:
        case Path():
            yield node
        case And(terms):
            for term in sorted(terms, key=lambda term: not isinstance(term, And | Or | Not)):
                yield from _paths(term)
        case Or(terms):
            for term in terms:
                yield from _paths(term)
        case Not(term):
            yield from _paths(term)
        case Binary(_, left, right):
            yield from _paths(left)
            yield from _paths(right)
        case Between(operand, low, high):
            for one in (operand, low, high):
                yield from _paths(one)
        case In(operand):
            yield from _paths(operand)
        case Is(operand):
            yield from _paths(operand)
        case Call(_, arguments):
            for argument in arguments:
                yield from _paths(argument)
