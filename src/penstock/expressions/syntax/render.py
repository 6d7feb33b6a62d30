"""Tree to text: `parse(render(tree)) == tree`, with brackets only where the tree needs them."""

from __future__ import annotations

from typing import assert_never

from penstock.expressions.syntax.tree import (
    Action,
    AddAction,
    And,
    Arithmetic,
    Between,
    Call,
    Comparison,
    DeleteAction,
    In,
    Not,
    Operand,
    Or,
    Path,
    ProjectionTree,
    RemoveAction,
    SetAction,
    Term,
    UpdateTree,
    Value,
)


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
