"""Expressions as trees: one frozen class a case.

Brackets are not kept. `render` puts them back only where the tree needs them: `parse(render(tree)) == tree`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never, dataclass_transform


@dataclass_transform(frozen_default=True)
class _Node:
    """A node is as a frozen data class: made of its fields in their order, equal by class and fields, never changed.

    A data class compiles its methods. Sixteen of them would be a twelfth of what it takes to open a database.
    """

    def __init_subclass__(cls) -> None:
        cls.__match_args__ = tuple(cls.__annotations__)  # type: ignore[attr-defined,misc]

    def __init__(self, *fields: object) -> None:
        self.__dict__.update(zip(self.__match_args__, fields, strict=True))  # type: ignore[attr-defined]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


class Path(_Node):
    """`a.#b[3]` is ("a", "#b", 3): names, #placeholders and list indexes."""

    parts: tuple[str | int, ...]


class Value(_Node):
    """A :placeholder."""

    name: str


class Call(_Node):
    """A function with its arguments; a condition where DynamoDB's function is one."""

    name: str
    arguments: tuple[Operand, ...]


class Arithmetic(_Node):
    """`left + right` or `left - right`, in updates only."""

    operator: str
    left: Operand
    right: Operand


Operand = Path | Value | Call | Arithmetic


class Comparison(_Node):
    operator: str
    left: Operand
    right: Operand


class Between(_Node):
    operand: Operand
    low: Operand
    high: Operand


class In(_Node):
    operand: Operand
    candidates: tuple[Operand, ...]


class Not(_Node):
    term: Term


class And(_Node):
    """Two terms or more."""

    terms: tuple[Term, ...]


class Or(_Node):
    """Two terms or more."""

    terms: tuple[Term, ...]


Term = Comparison | Between | In | Call | Not | And | Or


class SetAction(_Node):
    path: Path
    value: Operand


class RemoveAction(_Node):
    path: Path


class AddAction(_Node):
    path: Path
    value: Value


class DeleteAction(_Node):
    path: Path
    value: Value


Action = SetAction | RemoveAction | AddAction | DeleteAction


class Section(_Node):
    """One of SET, REMOVE, ADD and DELETE with its actions."""

    keyword: str
    actions: tuple[Action, ...]


class UpdateTree(_Node):
    sections: tuple[Section, ...]

    @property
    def actions(self) -> tuple[Action, ...]:
        """All actions, in the order in which they are written."""
        return tuple(action for section in self.sections for action in section.actions)


class ProjectionTree(_Node):
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


# ── trees as text ──────────────────────────────────────────────────────────────────────────────────


def render(tree: Term | UpdateTree | ProjectionTree) -> str:
    """The text of a whole expression."""
    if isinstance(tree, UpdateTree):
        return " ".join(
            f"{section.keyword} {', '.join(map(render_action, section.actions))}" for section in tree.sections
        )
    if isinstance(tree, ProjectionTree):
        return ", ".join(map(render_path, tree.paths))
    return render_term(tree)


def render_term(term: Term) -> str:
    """The text of a condition."""
    match term:
        case Comparison(operator, left, right):
            return f"{render_operand(left)} {operator} {render_operand(right)}"
        case Between(operand, low, high):
            return f"{render_operand(operand)} BETWEEN {render_operand(low)} AND {render_operand(high)}"
        case In(operand, candidates):
            return f"{render_operand(operand)} IN ({', '.join(map(render_operand, candidates))})"
        case Call():
            return render_operand(term)
        case Not(inner):
            return f"NOT {_bracketed(inner, And | Or)}"
        case And(terms):
            return " AND ".join(_bracketed(inner, And | Or) for inner in terms)
        case Or(terms):
            return " OR ".join(_bracketed(inner, Or) for inner in terms)
        case _:
            assert_never(term)


def _bracketed(term: Term, kinds: type | object) -> str:
    text = render_term(term)
    return f"({text})" if isinstance(term, kinds) else text  # type: ignore[arg-type]


def render_operand(operand: Operand) -> str:
    """The text of an operand."""
    match operand:
        case Path():
            return render_path(operand)
        case Value(name):
            return name
        case Call(name, arguments):
            return f"{name}({', '.join(map(_argument, arguments))})"
        case Arithmetic(operator, left, right):
            return f"{_argument(left)} {operator} {_argument(right)}"
        case _:
            assert_never(operand)


def _argument(operand: Operand) -> str:
    text = render_operand(operand)
    return f"({text})" if isinstance(operand, Arithmetic) else text


def render_path(path: Path) -> str:
    """The text of a document path."""
    head, *rest = path.parts
    return str(head) + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in rest)


def render_action(action: Action) -> str:
    """The text of one action of an update, without its keyword."""
    match action:
        case SetAction(path, value):
            return f"{render_path(path)} = {render_operand(value)}"
        case RemoveAction(path):
            return render_path(path)
        case AddAction(path, value) | DeleteAction(path, value):
            return f"{render_path(path)} {render_operand(value)}"
        case _:
            assert_never(action)
