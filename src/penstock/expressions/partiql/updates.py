"""SET and REMOVE as an update of `penstock.expressions`."""

from __future__ import annotations

from penstock.errors import ValidationException
from penstock.expressions.compiled.updates import BoundUpdate
from penstock.expressions.compiled.updates import Update as CompiledUpdate
from penstock.expressions.partiql.conditions import Translator, unrecognized, unsupported_operand
from penstock.expressions.partiql.keys import nested_attributes
from penstock.expressions.partiql.tree import (
    Binary,
    Call,
    Node,
    Parameter,
    Path,
    RemoveClause,
    SetClause,
    Update,
)
from penstock.expressions.partiql.values import LITERALS, Parameters, value_of
from penstock.expressions.syntax import tree as target
from penstock.expressions.syntax.error_wording import ExpressionError
from penstock.wire.values import Item

_SETS = frozenset({"SS", "NS", "BS"})
_SET_FUNCTIONS: dict[str, type[target.AddAction] | type[target.DeleteAction]] = {
    "set_add": target.AddAction,
    "set_delete": target.DeleteAction,
}


class StatementUpdate:
    """What a statement writes: a BoundUpdate whose errors are DynamoDB's answers.

    `nested` are the top-level attributes of which a part is written or read.
    """

    def __init__(self, bound: BoundUpdate, nested: frozenset[str]) -> None:
        self._bound = bound
        self.attributes = bound.attributes
        self.nested = nested
        self.project = bound.project

    def apply(self, item: Item) -> Item:
        """The item as the update leaves it."""
        try:
            return self._bound.apply(item)
        except ExpressionError as problem:
            raise ValidationException(problem.message) from None


def update_of(statement: Update, parameters: Parameters) -> StatementUpdate:
    """The statement's clauses, bound; refuses paths that clash and operands of a wrong type."""
    translator = Translator(parameters)
    actions = [_action(clause, translator) for clause in statement.clauses]
    sections = tuple(target.Section(_keyword(action), (action,)) for action in actions)
    try:
        bound = CompiledUpdate(target.UpdateTree(sections)).bind(translator.names, translator.values)
    except ExpressionError as problem:
        raise ValidationException(problem.message) from None
    values = (clause.value for clause in statement.clauses if isinstance(clause, SetClause))
    return StatementUpdate(bound, nested_attributes(*(clause.path for clause in statement.clauses), *values))


def _keyword(action: target.Action) -> str:
    return type(action).__name__.removesuffix("Action").upper()


def _action(clause: SetClause | RemoveClause, translator: Translator) -> target.Action:
    if isinstance(clause, RemoveClause):
        return target.RemoveAction(translator.path(clause.path))
    value = clause.value
    if isinstance(value, Call) and value.name in _SET_FUNCTIONS:
        return _set_action(clause.path, value, translator)
    return target.SetAction(translator.path(clause.path), _assigned(value, translator))


def _set_action(path: Path, call: Call, translator: Translator) -> target.Action:
    """`a = set_add(a, <<…>>)` is ADD, `a = set_delete(a, <<…>>)` is DELETE."""
    name = call.name.upper()
    if len(call.arguments) != 2:
        raise ValidationException(f"{name} must have exactly two arguments at {call.place}")
    first, second = call.arguments
    if not isinstance(first, Path) or first.parts != path.parts:
        raise ValidationException(f"The first argument to {name} must equal the assignment value at {call.place}")
    members = value_of(second, translator.parameters) if isinstance(second, LITERALS) else {}
    if members.keys().isdisjoint(_SETS):
        raise ValidationException(f"The second argument to {name} must be a value with type SET at {first.place}")
    return _SET_FUNCTIONS[call.name](translator.path(path), translator.value(members))


def _assigned(node: Node, translator: Translator) -> target.Operand:
    """The right-hand side of SET."""
    if isinstance(node, Binary) and node.operator in ("+", "-"):
        left, right = (_assigned(one, translator) for one in (node.left, node.right))
        return target.Arithmetic(node.operator, left, right)
    if isinstance(node, Path):
        return translator.path(node)
    if isinstance(node, LITERALS | Parameter):
        return translator.value(value_of(node, translator.parameters))
    if isinstance(node, Call):
        if node.name not in ("list_append", "if_not_exists"):
            raise unrecognized(node)
        return target.Call(node.name, tuple(_assigned(one, translator) for one in node.arguments))
    raise unsupported_operand(node, "Update")
