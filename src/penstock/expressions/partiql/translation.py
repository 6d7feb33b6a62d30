"""A statement's parts as trees of `penstock.expressions`, which evaluates both alike.

Literals and parameters become attribute values, a WHERE becomes a condition, SET and REMOVE an update. What a WHERE
says about a key is decided from the tree and the key's names, before anything is read.

DynamoDB says where in a value a number is wrong: `… under root.x[1]`; the root is the attribute, or the operand. A
parameter is a whole value: none may stand within a list, a set or a tuple.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Members
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from penstock.errors import ValidationException
from penstock.expressions.compiled.conditions import KeyTerm, Predicate, Scope, bind_term
from penstock.expressions.compiled.updates import BoundUpdate
from penstock.expressions.compiled.updates import Update as CompiledUpdate
from penstock.expressions.partiql import tokens
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
    Null,
    Number,
    Or,
    Parameter,
    Path,
    RemoveClause,
    Sequence,
    SetClause,
    Struct,
    Text,
    Update,
    place_of,
)
from penstock.expressions.syntax import tree as target
from penstock.expressions.syntax.checks import PREDICATES
from penstock.expressions.syntax.error_wording import ExpressionError
from penstock.wire import numbers
from penstock.wire.limits import NESTING
from penstock.wire.values import TYPES, AttributeValue, Item, check_value, equal

# ── literals and parameters ───────────────────────────────────────────────────────────────────────


Parameters = Members[AttributeValue]

LITERALS = Text | Number | Boolean | Null | Parameter | Sequence | Bag | Struct
"""Nodes that are values whatever the item is."""

ROOT = "root"
_TYPE_NAMES: dict[type, str] = {
    Parameter: "Parameter",
    Path: "VariableReference",
    Sequence: "Seq",
    Bag: "Seq",
    Struct: "Struct",
    Null: "NULL",
    Boolean: "BOOL",
    Missing: "LiteralMissing",
}
_INVALID = "One or more parameter values were invalid: "
_TOO_DEEP = (
    "Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit"
)


def value_of(node: Node, parameters: Parameters, under: str = ROOT) -> AttributeValue:
    """The value that a literal or parameter means."""
    match node:
        case Text(text):
            return {"S": text}
        case Number(text):
            return {"N": _number(text, under)}
        case Boolean(flag):
            return {"BOOL": flag}
        case Null():
            return {"NULL": True}
        case Parameter(number) if under == ROOT:
            return parameters[number]
        case Sequence(members):
            return {"L": [value_of(one, parameters, f"{under}[{i}]") for i, one in enumerate(members)]}
        case Bag():
            return _set_of(node, parameters, under)
        case Struct():
            return {"M": members_of(node, parameters, under)}
    name = _written_name(node) if under == ROOT else _type_name(node)
    raise ValidationException(f"Unsupported data type: {name} under key {under} at {place_of(node)}")


def members_of(struct: Struct, parameters: Parameters, under: str | None = None) -> Item:
    """A struct's members. Without `under` it is an item: each attribute is then a root of its own."""
    members: Item = {}
    for name, node in struct.members:
        if not isinstance(name, Text):
            raise ValidationException(
                f"Tuple keys must be of type String. Actual type: {_type_name(name)} under {under or ROOT} at "
                f"{place_of(name)}"
            )
        value = value_of(node, parameters, ROOT if under is None else f"{under}.{name.text}")
        if name.text in members:
            place = place_of(name if under is None else struct)
            raise ValidationException(f"Duplicate keys in tuple. Key: {name.text} under {under or ROOT} at {place}")
        members[name.text] = value
    return members


def _number(text: str, under: str) -> str:
    try:
        return numbers.normalise(text)
    except ValidationException as error:
        raise ValidationException(f"{error.message} under {under}") from None


def _set_of(bag: Bag, parameters: Parameters, under: str) -> AttributeValue:
    if not bag.members:
        raise ValidationException(tokens.EMPTY_BAG)
    if any(isinstance(node, Parameter) for node in bag.members):
        raise ValidationException(tokens.MIXED_BAG)
    members = [value_of(node, parameters, under) for node in bag.members]
    for kind in ("S", "N"):
        if all(kind in member for member in members):
            data = [member[kind] for member in members]
            if len(set(data)) != len(data):
                raise _duplicates(bag, data, kind, under)
            return {kind + "S": data}
    raise ValidationException(tokens.MIXED_BAG)


def _duplicates(bag: Bag, data: list[str], kind: str, under: str) -> ValidationException:
    if kind == "S":
        return ValidationException(f"{_INVALID}Input collection [{', '.join(data)}] contains duplicates.")
    written = [_number_text(node, text) for node, text in zip(bag.members, data, strict=True)]
    return ValidationException(f"{_INVALID}Input collection [{', '.join(written)}] contains duplicates! under {under}")


def _number_text(node: Node, normalised: str) -> str:
    """A number of a set as DynamoDB shows it: with the zeros that it was written with."""
    return str(Decimal(node.text)) if isinstance(node, Number) else normalised


def _written_name(node: Node) -> str:
    """What is no value, as it is written."""
    match node:
        case Path(parts):
            return str(parts[0])
        case Binary(operator):
            return operator
        case Call(name):
            return name
        case Missing():
            return "MISSING"
    return _type_name(node)


def _type_name(node: Node) -> str:
    """DynamoDB's name for a kind of node."""
    if isinstance(node, Number):
        return "DECIMAL" if set(node.text) & set(".eE") else "INT"
    return _TYPE_NAMES.get(type(node), "NAry")


# ── parameters ───────────────────────────────────────────────────────────────────────────────────


def checked_parameters(given: Members[AttributeValue] | None) -> list[AttributeValue]:
    """The request's Parameters, normalised; DynamoDB looks at them before it reads the statement."""
    checked: list[AttributeValue] = []
    for value in given or ():
        try:
            checked.append(check_value(value))
        except ValidationException:
            _raise_first_problem(value, 0)
            raise
    return checked


def _raise_first_problem(value: Any, depth: int) -> None:
    """Raises what is wrong with a number or with the nesting, in the order of the document."""
    for kind, data in value.items():
        if kind == "N":
            numbers.normalise(data)
        elif kind == "NS":
            for number in data:
                numbers.normalise(number)
        elif kind in ("L", "M"):
            if depth >= NESTING:
                raise ValidationException(_TOO_DEEP)
            for member in data if kind == "L" else data.values():
                _raise_first_problem(member, depth + 1)


# ── WHERE as a condition ──────────────────────────────────────────────────────────────────────────


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
_TYPES_OF_ATTRIBUTES = "{N,BS,L,B,NULL,M,S,SS,NS,BOOL}"


class Translator:
    """Gathers the names and values of one statement under placeholders, so that no name is taken for a keyword."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.names: dict[str, str] = {}
        self.values: dict[str, AttributeValue] = {}

    def path(self, path: Path) -> target.Path:
        if "" in path.parts:
            raise ValidationException(tokens.EMPTY_COMPONENT)
        return target.Path(tuple(part if isinstance(part, int) else self.name(part) for part in path.parts))

    def value(self, value: AttributeValue) -> target.Value:
        placeholder = f":{len(self.values)}"
        self.values[placeholder] = value
        return target.Value(placeholder)

    def name(self, name: str) -> str:
        """The placeholder of a name."""
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
                return target.And(tuple(self._inner(term, tokens.NO_TERM) for term in terms))
            case Or(terms):
                return target.Or(tuple(self._inner(term, tokens.NO_TERM) for term in terms))
            case Not(term):
                return target.Not(self._inner(term, tokens.NO_NEGATED_TERM))
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
            raise ValidationException(tokens.BAD_IN)
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
            raise ValidationException(
                f"Invalid attribute type name found; type: {name}, valid types: {_TYPES_OF_ATTRIBUTES}"
            )

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
    return ValidationException(tokens.MISSING_VALUE) if isinstance(node, Missing) else unsupported(node)


def unrecognized(node: Call) -> ValidationException:
    """A function that DynamoDB has not, or not here."""
    return ValidationException(f"Unrecognized function: {node.name} at {node.place}")


# ── what a WHERE says about a key ─────────────────────────────────────────────────────────────────


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


def pinned(where: Node | None, names: Members[str], parameters: Parameters) -> Pinned:
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
    branches = [branch for branch in found if branch is not None]
    return branches if branches and len(branches) == len(found) else None


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
    if not isinstance(node, Sequence | Bag) or not all(isinstance(member, LITERALS) for member in node.members):
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


# ── SET and REMOVE as an update ───────────────────────────────────────────────────────────────────


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


def update_tree(statement: Update, translator: Translator) -> target.UpdateTree:
    """The statement's clauses, a section each."""
    actions = [_action(clause, translator) for clause in statement.clauses]
    return target.UpdateTree(tuple(target.Section(_keyword(action), (action,)) for action in actions))


def update_of(statement: Update, parameters: Parameters) -> StatementUpdate:
    """The statement's clauses, bound; refuses paths that clash and operands of a wrong type."""
    translator = Translator(parameters)
    tree = update_tree(statement, translator)
    try:
        bound = CompiledUpdate(tree).bind(translator.names, translator.values)
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
