"""What DynamoDB checks in an expression before it looks at any placeholder: size, words, functions, operators.

The checks go through the expression in the order in which it is written and stop at the first problem.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.expressions.syntax import error_wording
from penstock.expressions.syntax.error_wording import ExpressionError
from penstock.expressions.syntax.reserved_words import is_reserved
from penstock.expressions.syntax.tree import (
    And,
    Arithmetic,
    Between,
    Call,
    Comparison,
    In,
    Node,
    Not,
    Or,
    Path,
    Term,
    UpdateTree,
    Value,
    children,
    walk,
)
from penstock.wire.limits import EXPRESSION_BYTES, EXPRESSION_OPERATORS

PREDICATES = {
    "attribute_exists": 1,
    "attribute_not_exists": 1,
    "attribute_type": 2,
    "begins_with": 2,
    "contains": 2,
}
OPERAND_FUNCTIONS = {"size": 1}
UPDATE_FUNCTIONS = {"if_not_exists": 2, "list_append": 2}
OPERAND_COUNTS = PREDICATES | OPERAND_FUNCTIONS | UPDATE_FUNCTIONS

_LIST_INDEX_MAX = 2**31 - 1


def check_size(text: str, *, tell: bool = False) -> None:
    """Refuses an empty expression and one of more than 4 KB; DynamoDB tells the size of conditions only."""
    if not text:
        raise ExpressionError(error_wording.EMPTY)
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > EXPRESSION_BYTES:
        raise ExpressionError(error_wording.TOO_LARGE + (f" expression size: {size}" if tell else ""))


def check_condition(tree: Term) -> None:
    """Words, functions and the number of operators of a condition."""
    count = 0
    pending: list[tuple[Node, bool]] = [(tree, True)]
    while pending:
        node, is_term = pending.pop()
        if isinstance(node, Call):
            _check_condition_function(node.name, is_term)
        elif isinstance(node, Path):
            check_words(node)
        count += _operators(node)
        if count > EXPRESSION_OPERATORS:
            raise error_wording.too_many_operators(EXPRESSION_OPERATORS + 1)
        holds_terms = isinstance(node, Not | And | Or)
        pending.extend((child, holds_terms) for child in reversed(children(node)))


def check_update(tree: UpdateTree) -> None:
    """Words, functions, operators and sections, a section at a time in the order of their first appearance."""
    count = 0
    for keyword in dict.fromkeys(section.keyword for section in tree.sections):
        sections = [section for section in tree.sections if section.keyword == keyword]
        for node in walk(*(action for section in sections for action in section.actions)):
            if isinstance(node, Call):
                _check_update_function(node.name)
            elif isinstance(node, Path):
                check_words(node)
            _refuse_inner_append(node)
            count += _operators(node)
            if count > EXPRESSION_OPERATORS:
                raise error_wording.too_many_operators(EXPRESSION_OPERATORS + 1)
        if len(sections) > 1:
            raise error_wording.repeated_section(keyword)


def check_words(path: Path) -> None:
    """Reserved words and list indexes of a path."""
    for part in path.parts:
        if isinstance(part, int):
            if part > _LIST_INDEX_MAX:
                raise error_wording.index_out_of_range(part)
        elif is_reserved(part):
            raise error_wording.reserved(part)


def placeholders(nodes: Iterable[Node]) -> tuple[frozenset[str], frozenset[str]]:
    """The #names and the :values that stand in these trees."""
    names: set[str] = set()
    values: set[str] = set()
    for node in walk(*nodes):
        if isinstance(node, Value):
            values.add(node.name)
        elif isinstance(node, Path):
            names.update(part for part in node.parts if isinstance(part, str) and part[0] == "#")
    return frozenset(names), frozenset(values)


def _operators(node: Node) -> int:
    """How many operators and functions this node counts as; brackets and commas are none."""
    if isinstance(node, And | Or):
        return len(node.terms) - 1
    return int(isinstance(node, Comparison | Between | In | Not | Call | Arithmetic))


def _check_condition_function(name: str, is_term: bool) -> None:
    if name not in OPERAND_COUNTS:
        raise error_wording.unknown_function(name)
    if name in UPDATE_FUNCTIONS:
        raise error_wording.forbidden_function(name, "a condition")
    if is_term != (name in PREDICATES):
        raise error_wording.misplaced_function(name)


def _refuse_inner_append(node: Node) -> None:
    """Of the functions of an update only if_not_exists may be another's operand."""
    if isinstance(node, Call | Arithmetic) and any(
        isinstance(child, Call) and child.name == "list_append" for child in children(node)
    ):
        raise error_wording.misplaced_function("list_append")


def _check_update_function(name: str) -> None:
    if name not in OPERAND_COUNTS:
        raise error_wording.unknown_function(name)
    if name not in UPDATE_FUNCTIONS:
        raise error_wording.forbidden_function(name, "an update")
