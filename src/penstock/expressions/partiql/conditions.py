"""WHERE as a condition: PartiQL's tree becomes a tree of `penstock.expressions`, which evaluates both alike."""

from __future__ import annotations

from penstock.errors import ValidationException
from penstock.expressions.compiled.condition_closures import Predicate, Scope, bind_term
from penstock.expressions.partiql import wording
from penstock.expressions.partiql.parser import unsupported
from penstock.expressions.partiql.tree import (
    And,
    Bag,
    Between,
    Binary,
    Boolean,
    Call,
    In,
    Is,
    Missing,
    Node,
    Not,
    Or,
    Path,
    Sequence,
)
from penstock.expressions.partiql.values import LITERALS, Parameters, value_of
from penstock.expressions.syntax import tree as target
from penstock.expressions.syntax.checks import PREDICATES
from penstock.expressions.syntax.error_wording import ExpressionError
from penstock.wire.values import TYPES, AttributeValue

COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})

# What each type of PartiQL's is among DynamoDB's; DynamoDB tests for no other.
_TYPES = {
    "null": ("NULL",),
    "bool": ("BOOL",),
    "boolean": ("BOOL",),
    "string": ("S",),
    "varchar": ("S",),
    "char": ("S",),
    "character": ("S",),
    "character_varying": ("S",),
    "int": ("N",),
    "integer": ("N",),
    "decimal": ("N",),
    "numeric": ("N",),
    "float": ("N",),
    "real": ("N",),
    "double_precision": ("N",),
    "list": ("L",),
    "struct": ("M",),
    "tuple": ("M",),
    "blob": ("B",),
    "bag": ("SS", "NS", "BS"),
}
_TYPE_NAMES = "{N,BS,L,B,NULL,M,S,SS,NS,BOOL}"


class Translator:
    """Gathers the names and values of one statement under placeholders, so that no name is taken for a keyword."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.names: dict[str, str] = {}
        self.values: dict[str, AttributeValue] = {}

    def path(self, path: Path) -> target.Path:
        if "" in path.parts:
            raise ValidationException(wording.EMPTY_COMPONENT)
        return target.Path(tuple(part if isinstance(part, int) else self._name(part) for part in path.parts))

    def value(self, value: AttributeValue) -> target.Value:
        placeholder = f":{len(self.values)}"
        self.values[placeholder] = value
        return target.Value(placeholder)

    def _name(self, name: str) -> str:
        placeholder = f"#{len(self.names)}"
        self.names[placeholder] = name
        return placeholder

    # ── conditions ───────────────────────────────────────────────────────────────────────────────

    def predicate(self, node: Node) -> Predicate:
        """The condition as a function of an item; operands are checked here, before any item is seen."""
        try:
            return bind_term(self.term(node), Scope(self.names, self.values))
        except ExpressionError as problem:
            raise ValidationException(problem.message) from None

    def term(self, node: Node) -> target.Term:
        match node:
            case And(terms):
                return target.And(tuple(self._inner(term, wording.NO_TERM) for term in terms))
            case Or(terms):
                return target.Or(tuple(self._inner(term, wording.NO_TERM) for term in terms))
            case Not(term):
                return target.Not(self._inner(term, wording.NO_NEGATED_TERM))
            case Between(operand, low, high):
                return target.Between(self.operand(operand), self.operand(low), self.operand(high))
            case In(operand, candidates):
                return target.In(self.operand(operand), self._candidates(candidates))
            case Binary():
                return self._comparison(node)
            case Is():
                return self._type_test(node)
            case Call():
                return self._call(node)
        raise unsupported(node)

    def _inner(self, node: Node, refusal: str) -> target.Term:
        """A term of AND, OR or NOT."""
        if isinstance(node, Path | LITERALS):
            raise ValidationException(refusal)
        return self.term(node)

    def _comparison(self, node: Binary) -> target.Term:
        if node.operator not in COMPARISONS:
            raise unsupported_operand(node, "Condition")
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(one, Call) and one.name in PREDICATES and isinstance(other, Boolean):
                holds = self._call(one)
                return holds if other.value == (node.operator == "=") else target.Not(holds)
        return target.Comparison(node.operator, self.operand(node.left), self.operand(node.right))

    def _candidates(self, node: Node) -> tuple[target.Operand, ...]:
        if not isinstance(node, Sequence | Bag) or not node.members:
            raise ValidationException(wording.BAD_IN)
        return tuple(self.operand(member) for member in node.members)

    def _type_test(self, node: Is) -> target.Term:
        operand = self.operand(node.operand)
        if node.type == "missing":
            return target.Call("attribute_not_exists", (operand,))
        kinds = _TYPES.get(node.type)
        if kinds is None:
            raise unsupported(node)
        tests = tuple(target.Call("attribute_type", (operand, self.value({"S": kind}))) for kind in kinds)
        return tests[0] if len(tests) == 1 else target.Or(tests)

    def _call(self, node: Call) -> target.Call:
        if node.name not in PREDICATES:
            raise unrecognized(node)
        arguments = tuple(self.operand(argument) for argument in node.arguments)
        if node.name == "attribute_type" and len(arguments) == 2:
            self._check_type_name(arguments[1])
        return target.Call(node.name, arguments)

    def _check_type_name(self, operand: target.Operand) -> None:
        if not isinstance(operand, target.Value):
            return
        name = self.values[operand.name].get("S")
        if name is not None and name not in TYPES:
            raise ValidationException(f"Invalid attribute type name found; type: {name}, valid types: {_TYPE_NAMES}")

    def operand(self, node: Node) -> target.Operand:
        if isinstance(node, Path):
            return self.path(node)
        if isinstance(node, LITERALS):
            return self.value(value_of(node, self.parameters))
        if isinstance(node, Call):
            if node.name != "size":
                raise unrecognized(node)
            return target.Call("size", tuple(self.operand(argument) for argument in node.arguments))
        raise unsupported_operand(node, "Condition")


def unsupported_operand(node: Node, where: str) -> ValidationException:
    """An operand of PartiQL's that DynamoDB has not; `where` is the kind of expression in which it stands."""
    if isinstance(node, Binary):
        return ValidationException(f"Unsupported operator in {where} Expression. Operator: {node.operator}")
    return ValidationException(wording.MISSING_VALUE) if isinstance(node, Missing) else unsupported(node)


def unrecognized(node: Call) -> ValidationException:
    """A function that DynamoDB has not, or not here."""
    return ValidationException(f"Unrecognized function: {node.name} at {node.place}")
