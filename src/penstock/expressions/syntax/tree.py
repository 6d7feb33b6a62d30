"""Expressions as trees: one frozen class a case.

Brackets are not kept; `render` puts them back where they are needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Path:
    """`a.#b[3]` is ("a", "#b", 3): names, #placeholders and list indexes."""

    parts: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A :placeholder."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function with its arguments; a condition where DynamoDB's function is one."""

    name: str
    arguments: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left + right` or `left - right`, in updates only."""

    operator: str
    left: Operand
    right: Operand


Operand = Path | Value | Call | Arithmetic


@dataclass(frozen=True, slots=True)
class Comparison:
    operator: str
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Between:
    operand: Operand
    low: Operand
    high: Operand


@dataclass(frozen=True, slots=True)
class In:
    operand: Operand
    candidates: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Not:
    term: Term


@dataclass(frozen=True, slots=True)
class And:
    """Two terms or more."""

    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Two terms or more."""

    terms: tuple[Term, ...]


Term = Comparison | Between | In | Call | Not | And | Or


@dataclass(frozen=True, slots=True)
class SetAction:
    path: Path
    value: Operand


@dataclass(frozen=True, slots=True)
class RemoveAction:
    path: Path


@dataclass(frozen=True, slots=True)
class AddAction:
    path: Path
    value: Value


@dataclass(frozen=True, slots=True)
class DeleteAction:
    path: Path
    value: Value


Action = SetAction | RemoveAction | AddAction | DeleteAction


@dataclass(frozen=True, slots=True)
class Section:
    """One of SET, REMOVE, ADD and DELETE with its actions."""

    keyword: str
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class UpdateTree:
    sections: tuple[Section, ...]

    @property
    def actions(self) -> tuple[Action, ...]:
        """All actions, in the order in which they are written."""
        return tuple(action for section in self.sections for action in section.actions)


@dataclass(frozen=True, slots=True)
class ProjectionTree:
    paths: tuple[Path, ...]


Node = Operand | Term | Action


def children(node: Node) -> tuple[Node, ...]:
    """What a node holds, in the order in which it is written."""
    match node:
        case Path() | Value():
            return ()
        case Call(_, arguments):
            return arguments
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            return (left, right)
        case Between(operand, low, high):
            return (operand, low, high)
        case In(operand, candidates):
            return (operand, *candidates)
        case Not(term):
            return (term,)
        case And(terms) | Or(terms):
            return terms
        case RemoveAction(path):
            return (path,)
        case SetAction(path, value) | AddAction(path, value) | DeleteAction(path, value):
            return (path, value)


def walk(*nodes: Node) -> Iterator[Node]:
    """Each node before what it holds, in the order of the text. Depth costs no stack."""
    pending = list(reversed(nodes))
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(children(node)))
