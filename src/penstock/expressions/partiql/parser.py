"""PartiQL's statements, text to tree, a function for each rule; `parse` is the door.

    statement = select | insert | update | delete | from_first | EXISTS "(" select ")"
    select    = SELECT (* | expression ("," expression)*) FROM source [WHERE expression] [ORDER BY …]
    insert    = INSERT INTO source VALUE expression
    update    = UPDATE source clause+ [WHERE expression] [returning]
    from_first = FROM source [WHERE expression] clause+ [returning]
    delete    = DELETE FROM source [WHERE expression] [returning]
    clause    = SET path "=" expression ("," …)* | REMOVE path ("," path)*
    returning = RETURNING (ALL | MODIFIED) (OLD | NEW) *

    expression = unary (INFIX expression | IS [NOT] type | [NOT] IN …| [NOT] BETWEEN unary AND unary)*
    unary      = NOT expression | ("+" | "-") unary | path
    path       = term ("." name | "[" expression "]")*
    term       = literal | "?" | name | call | "(" expression ")" | "[" … "]" | "<<" … ">>" | "{" … "}"

1. A statement is read once, from left to right; chains of AND and OR are one node, however long they are.
2. Nesting is bounded by `NESTING`, far under Python's own stack.

As in the parser that DynamoDB uses, a statement is a term: it may stand where any expression may, and is refused
afterwards. That decides which error a misspelt statement gets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from penstock.errors import ValidationException
from penstock.expressions.partiql import tokens
from penstock.expressions.partiql.tokens import (
    CALLABLE,
    END,
    KEYWORDS,
    NAME,
    NUMBER,
    PARAMETER,
    QUOTED,
    STRING,
    TYPES,
    Place,
    Token,
    tokenize,
)
from penstock.expressions.partiql.tree import (
    And,
    Bag,
    Between,
    Binary,
    Boolean,
    Call,
    Delete,
    Exists,
    In,
    Insert,
    Is,
    Missing,
    Node,
    Not,
    Null,
    Number,
    Or,
    OrderTerm,
    Parameter,
    Path,
    RemoveClause,
    Select,
    Sequence,
    SetClause,
    Source,
    Statement,
    Struct,
    Text,
    Update,
    place_of,
)

CACHED = 1024
"""Parsed statements that are kept: programs have few, and parameters keep them few."""


@dataclass(frozen=True, slots=True)
class Parsed:
    statement: Statement
    parameters: int
    """How many question marks it has."""


@lru_cache(maxsize=CACHED)
def parse(text: str) -> Parsed:
    """The statement of this text; refused as DynamoDB refuses it."""
    return read_statement(Reader(text))


def read_statement(reader: Reader) -> Parsed:
    """The same of its tokens; where it is refused, `reader.place` is where reading stopped."""
    grammar = _Grammar(reader)
    try:
        return Parsed(grammar.statement(), reader.parameters)
    finally:
        del grammar.reader  # each knows the other: apart, they go at once, without the collector


class _Grammar:
    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        reader.statement_term = self._statement_term

    def statement(self) -> Statement:
        """statement, and nothing after it but one semicolon."""
        node = self.reader.expression()
        self.reader.take_if(";")
        if self.reader.kind != END:
            raise tokens.malformed(tokens.LEFTOVER)
        return _accepted(node)

    def _statement_term(self) -> Node | None:
        reader = self.reader
        if reader.take_if("select"):
            return self._select()
        if reader.take_if("insert", "into"):
            return self._insert()
        if reader.take_if("update"):
            return self._update()
        if reader.take_if("delete"):
            return self._delete()
        if reader.take_if("from"):
            return self._from_first()
        if reader.kind in ("set", "remove"):
            return self._orphan()
        return None

    def _orphan(self) -> Node:
        """SET or REMOVE without a table: it is read, and then there is nothing to do it to."""
        self._clauses()
        raise ValidationException(tokens.NEEDS_KEY)

    # ── SELECT ───────────────────────────────────────────────────────────────────────────────────

    def _select(self) -> Select:
        reader = self.reader
        unsupported = None
        if reader.kind == "distinct":
            reader.take()
            unsupported = "DISTINCT"
        elif reader.kind == "all":
            reader.take()
        projection = None if reader.take_if("*") else self._projection()
        if not reader.take_if("from"):
            raise tokens.malformed("Expected FROM after SELECT list")
        source = self._from_source()
        where = self._where()
        order = self._order()
        return Select(projection, source, where, order, unsupported or self._unsupported_clause())

    def _projection(self) -> tuple[Node, ...]:
        reader = self.reader
        if reader.kind == "from":
            raise tokens.malformed("Cannot have empty SELECT list")
        chosen = [self._projected()]
        while reader.take_if(","):
            chosen.append(self._projected())
        return tuple(chosen)

    def _projected(self) -> Node:
        node = self.reader.expression()
        if self._alias():
            raise ValidationException(tokens.ALIASING)
        return node

    def _from_source(self) -> Source:
        """What is read: any expression for PartiQL, a name or two for DynamoDB."""
        node = self.reader.path()
        aliased = self._alias()
        if not isinstance(node, Path):
            raise ValidationException("Unexpected from source")
        if self.reader.kind in (",", "join", "cross", "inner", "left", "right", "full", "natural"):
            raise ValidationException(tokens.ONE_TABLE)
        return Source(node.parts, aliased)

    def _alias(self) -> bool:
        reader = self.reader
        if reader.take_if("as"):
            if reader.kind not in (NAME, QUOTED):
                raise tokens.malformed("Expected identifier for alias")
            reader.take()
            return True
        if reader.kind in (NAME, QUOTED):
            reader.take()
            return True
        return False

    def _where(self) -> Node | None:
        return self.reader.expression() if self.reader.take_if("where") else None

    def _order(self) -> tuple[OrderTerm, ...]:
        if not self.reader.take_if("order"):
            return ()
        self.reader.expect_keyword("by")
        terms = [self._order_term()]
        while self.reader.take_if(","):
            terms.append(self._order_term())
        return tuple(terms)

    def _order_term(self) -> OrderTerm:
        path = self.reader.expression()
        descending = self.reader.take_if("desc")
        if not descending:
            self.reader.take_if("asc")
        return OrderTerm(path, descending)

    def _unsupported_clause(self) -> str | None:
        """GROUP BY, HAVING, LIMIT and OFFSET: in PartiQL's grammar, not in DynamoDB's."""
        found = None
        for keyword in ("group", "having", "limit", "offset"):
            if not self.reader.take_if(keyword):
                continue
            if keyword == "group":
                self.reader.expect_keyword("by")
            place = self.reader.place
            self.reader.expression()
            name = "GROUP BY" if keyword == "group" else keyword.upper()
            found = found or f"{name} at {place}"
        return found

    # ── INSERT, UPDATE, DELETE ───────────────────────────────────────────────────────────────────

    def _insert(self) -> Insert:
        source = Source(self.reader.simple_path().parts)
        if self.reader.take_if("value"):
            return Insert(source, self.reader.expression())
        self.reader.expression()
        return Insert(source, None)

    def _update(self) -> Update:
        source = self._written_source()
        clauses = self._clauses()
        where = self._where()
        return Update(source, clauses, where, self._returning())

    def _from_first(self) -> Update:
        source = self._from_source()
        where = self._where()
        clauses = self._clauses()
        return Update(source, clauses, where, self._returning())

    def _delete(self) -> Delete:
        self.reader.expect_keyword("from")
        source = self._written_source()
        where = self._where()
        return Delete(source, where, self._returning())

    def _written_source(self) -> Source:
        parts = self.reader.simple_path().parts
        return Source(parts, self._alias())

    def _clauses(self) -> tuple[SetClause | RemoveClause, ...]:
        """clause+ = (SET path "=" expression ("," …)* | REMOVE path ("," path)*)+."""
        reader = self.reader
        clauses: list[SetClause | RemoveClause] = []
        while reader.kind in ("set", "remove"):
            keyword = reader.take().kind
            clauses.append(self._clause(keyword))
            while reader.take_if(","):
                clauses.append(self._clause(keyword))
        if not clauses:
            raise tokens.malformed(tokens.NO_OPERATION)
        return tuple(clauses)

    def _clause(self, keyword: str) -> SetClause | RemoveClause:
        path = self.reader.simple_path()
        if keyword == "remove":
            return RemoveClause(path)
        if not self.reader.take_if("="):
            raise tokens.malformed("Expected '=' for SET assignment")
        return SetClause(path, self.reader.expression())

    def _returning(self) -> str | None:
        """returning = RETURNING (ALL | MODIFIED) (OLD | NEW) *."""
        reader = self.reader
        if not reader.take_if("returning"):
            return None
        if reader.kind not in ("all", "modified") or reader.ahead() not in ("old", "new"):
            raise tokens.malformed("Expected ( MODIFIED | ALL ) ( NEW | OLD ) in each returning element.")
        what = f"{reader.take().kind} {reader.take().kind}".upper()
        if not reader.take_if("*"):
            raise tokens.malformed("Expected STAR")
        return what


# ── what DynamoDB accepts of what PartiQL can say ────────────────────────────────────────────────

_NODE_NAMES: dict[type, str] = {
    Path: "Id",
    Text: "Lit",
    Number: "Lit",
    Boolean: "Lit",
    Null: "Lit",
    Missing: "Missing",
    Parameter: "Parameter",
    Sequence: "List",
    Bag: "Bag",
    Struct: "Struct",
    Call: "Call",
    Between: "Between",
    In: "InCollection",
    Is: "IsType",
    Not: "Not",
    And: "And",
    Or: "Or",
}
_OPERATOR_NAMES = {
    "=": "Eq",
    "<>": "Ne",
    "<": "Lt",
    "<=": "Lte",
    ">": "Gt",
    ">=": "Gte",
    "+": "Plus",
    "-": "Minus",
    "*": "Times",
    "/": "Divide",
    "%": "Modulo",
    "||": "Concat",
    "like": "Like",
}


def _accepted(node: Node) -> Statement:
    if isinstance(node, Call) and node.name == "exists" and len(node.arguments) == 1:
        (inner,) = node.arguments
        if isinstance(inner, Select):
            _check_select(inner)
            return Exists(inner)
    match node:
        case Select():
            _check_select(node)
        case Insert():
            _check_written(node.source, tokens.ONE_TABLE)
            if node.value is None:
                raise ValidationException("Unsupported operation: InsertOp")
        case Update() | Delete():
            _check_written(node.source, tokens.NOT_ON_INDEX)
            _check_returning(node)
        case _:
            raise unsupported(node)
    return node


def unsupported(node: Node) -> ValidationException:
    """An expression of PartiQL's that DynamoDB has no use for here."""
    if isinstance(node, Binary):
        return ValidationException(f"Unsupported operation: {_OPERATOR_NAMES[node.operator]}")
    return ValidationException(f"Unsupported operation: {_NODE_NAMES.get(type(node), type(node).__name__)}")


def _check_select(select: Select) -> None:
    _check_source(select.source)
    if select.unsupported is not None:
        raise ValidationException(f"Unsupported clause: {select.unsupported}")


def projection_problem(select: Select) -> ValidationException | None:
    """What is wrong with a SELECT that shows something else than paths, for example COUNT(*)."""
    for chosen in select.projection or ():
        if not isinstance(chosen, Path):
            return ValidationException(f"Unexpected path component at {place_of(chosen)}")
    return None


def _check_written(source: Source, refusal: str) -> None:
    _check_source(source)
    if source.index is not None:
        raise ValidationException(refusal)


def _check_source(source: Source) -> None:
    if source.aliased:
        raise ValidationException(tokens.ALIASING)
    if len(source.parts) > 2:
        raise ValidationException(tokens.TOO_MANY_COMPONENTS)
    if "" in source.parts:
        raise ValidationException(tokens.EMPTY_COMPONENT)
    if not all(isinstance(part, str) for part in source.parts):
        raise ValidationException("Unexpected from source")


def _check_returning(statement: Update | Delete) -> None:
    if isinstance(statement, Delete) and statement.returning not in (None, "ALL OLD"):
        raise ValidationException(
            f"Invalid returning clause: RETURNING {statement.returning} *. "
            "Only RETURNING ALL OLD * is allowed in DELETE statements."
        )


# ── expressions: operators by precedence, then terms ───────────────────────────────────────────────


NESTING = 64
"""Brackets, NOTs and literals within each other; items nest to 32."""

_PRECEDENCE = {
    "or": 1,
    "and": 2,
    "is": 4,
    "in": 5,
    "between": 6,
    "like": 6,
    "<": 7,
    "<=": 7,
    ">": 7,
    ">=": 7,
    "=": 7,
    "<>": 7,
    "||": 8,
    "+": 9,
    "-": 9,
    "*": 10,
    "/": 10,
    "%": 10,
}
_NOT_PRECEDENCE = 3
_OPERATORS = frozenset(_PRECEDENCE) | {"not", "@", ":"}

_TWO_WORD_TYPES = {"double": "precision", "character": "varying"}

_TOKEN_NAMES = {")": "RIGHT_PAREN", "]": "RIGHT_BRACKET", "}": "RIGHT_CURLY", ">>": "RIGHT_DOUBLE_ANGLE_BRACKET"}


class Reader:
    """The tokens of one statement, the one to be read next, and how deep it lies."""

    def __init__(self, statement: str) -> None:
        self._tokens = tokenize(statement)
        self._position = 0
        self._depth = 0
        self.parameters = 0
        self.statement_term: Callable[[], Node | None] = lambda: None
        """A statement where a term may stand; given by the statements' grammar."""

    @property
    def kind(self) -> str:
        return self._tokens[self._position].kind

    @property
    def place(self) -> Place:
        return self._tokens[self._position].place

    def ahead(self, distance: int = 1) -> str:
        place = self._position + distance
        return self._tokens[place].kind if place < len(self._tokens) else END

    def take(self) -> Token:
        token = self._tokens[self._position]
        if token.kind != END:
            self._position += 1
        return token

    def take_if(self, *kinds: str) -> bool:
        """Whether these tokens come next; they are then read."""
        if any(self.ahead(distance) != kind for distance, kind in enumerate(kinds)):
            return False
        self._position += len(kinds)
        return True

    def expect_mark(self, mark: str) -> None:
        if not self.take_if(mark):
            raise tokens.expected(_TOKEN_NAMES.get(mark, mark))

    def expect_keyword(self, keyword: str) -> None:
        if not self.take_if(keyword):
            raise tokens.expected(f"{keyword.upper()} keyword")

    # ── operators ────────────────────────────────────────────────────────────────────────────────

    def expression(self, above: int = 0) -> Node:
        """expression, of operators that bind more tightly than `above`."""
        self._depth += 1
        if self._depth > NESTING:
            raise tokens.malformed(tokens.TOO_DEEP)
        left = self._unary()
        links = 0
        while (binding := self._infix()) > above:
            # Each link but AND and OR puts what stands before it one level deeper into the tree.
            links += binding > _PRECEDENCE["and"]
            if links > NESTING:
                raise tokens.malformed(tokens.TOO_DEEP)
            left = self._after(left, binding)
        self._depth -= 1
        return left

    def _infix(self) -> int:
        """How tightly the next token binds what stands before it; 0 if it is no infix operator."""
        if self.kind == "not" and self.ahead() in ("in", "between", "like"):
            return _PRECEDENCE[self.ahead()]
        return _PRECEDENCE.get(self.kind, 0)

    def _after(self, left: Node, binding: int) -> Node:
        place = self.place
        negated = self.take_if("not")
        operator = self.take()
        if operator.kind == "is":
            negated = self.take_if("not")
            node: Node = Is(left, self._type(), place)
        elif operator.kind == "between":
            low = self._right(binding)
            self.expect_keyword("and")
            node = Between(left, low, self._right(binding), place)
        elif operator.kind == "in":
            node = In(left, self._candidates(binding), place)
        elif operator.kind in ("and", "or"):
            return self._chain(operator.kind, left, binding, place)
        else:
            node = Binary(operator.kind, left, self._right(binding), place)
        return Not(node, place) if negated else node

    def _right(self, binding: int) -> Node:
        if self.kind == END:
            raise tokens.malformed(tokens.NO_RIGHT_SIDE)
        return self.expression(binding)

    def _candidates(self, binding: int) -> Node:
        """After IN a bracket is a list, also of one."""
        place = self.place
        if self.kind == "(" and self.ahead() != "select":
            self.take()
            return Sequence(self._members(")"), place)
        return self._right(binding)

    def _chain(self, keyword: str, left: Node, binding: int, place: Place) -> Node:
        terms = [left, self._right(binding)]
        while self.take_if(keyword):
            terms.append(self._right(binding))
        return And(tuple(terms), place) if keyword == "and" else Or(tuple(terms), place)

    def _type(self) -> str:
        """The name of a type, after IS."""
        kind = self.kind
        second = _TWO_WORD_TYPES.get(kind)
        if second is not None and self.ahead() == second:
            self.take()
            self.take()
            return f"{kind}_{second}"
        if kind not in TYPES:
            raise tokens.malformed(tokens.NO_TYPE)
        self.take()
        return kind

    def _unary(self) -> Node:
        """unary = NOT expression | ("+" | "-") unary | path."""
        place = self.place
        if self.take_if("not"):
            return Not(self.expression(_NOT_PRECEDENCE), place)
        signs = ""
        while self.kind in ("+", "-"):
            signs += self.take().kind
        term = self.path()
        if not signs:
            return term
        if not isinstance(term, Number):
            raise ValidationException(f"Unsupported operation: {'Neg' if '-' in signs else 'Pos'}")
        negative = signs.count("-") % 2
        return Number(f"-{term.text}", term.place) if negative else term

    # ── paths and terms ──────────────────────────────────────────────────────────────────────────

    def path(self) -> Node:
        """path = term ("." name | "[" expression "]")*."""
        term = self._term()
        if self.kind not in (".", "["):
            return term
        if not isinstance(term, Path):
            raise ValidationException(f"Unexpected path component at {self.place}")
        return self._steps(term)

    def simple_path(self) -> Path:
        """A path that begins with a name: what can be written to."""
        if self.kind not in (NAME, QUOTED):
            raise tokens.malformed(tokens.NO_SIMPLE_PATH)
        token = self.take()
        return self._steps(Path((token.text,), token.place))

    def _steps(self, head: Path) -> Path:
        parts = list(head.parts)
        while self.kind in (".", "["):
            if self.take().kind == "[":
                parts.append(self._index())
            elif self.kind in (NAME, QUOTED):
                parts.append(self.take().text)
            else:
                raise tokens.malformed(tokens.BAD_DOT)
        return Path(tuple(parts), head.place)

    def _index(self) -> int | str:
        place = self.place
        index = self.expression()
        self.expect_mark("]")
        if isinstance(index, Text):
            return index.text
        if not isinstance(index, Number) or not index.text.lstrip("-").isdigit():
            raise ValidationException(f"Unexpected path component at {place}")
        if index.text.startswith("-") and index.text.strip("-0"):
            raise _index_error(index)
        digits = index.text.lstrip("-0") or "0"
        if len(digits) > 10 or int(digits) > 2**31 - 1:
            raise _index_error(index)
        return int(digits)

    def _term(self) -> Node:
        """term = literal | "?" | name | call | "(" … ")" | "[" … "]" | "<<" … ">>" | "{" … "}"."""
        statement = self.statement_term()
        if statement is not None:
            return statement
        kind, place = self.kind, self.place
        opened = {"(": self._group, "[": self._sequence, "<<": self._bag, "{": self._struct}.get(kind)
        if opened is not None:
            self.take()
            return opened(place)
        if kind in (NAME, QUOTED) or (kind in CALLABLE and self.ahead() == "("):
            return self._name()
        return self._literal(place)

    def _literal(self, place: Place) -> Node:
        token = self.take()
        kind = token.kind
        if kind == STRING:
            return Text(token.text, place)
        if kind == NUMBER:
            return Number(token.text, place)
        if kind == PARAMETER:
            self.parameters += 1
            return Parameter(self.parameters - 1, place)
        if kind in ("true", "false"):
            return Boolean(kind == "true", place)
        if kind in ("null", "missing"):
            return Null(place) if kind == "null" else Missing(place)
        self._position -= kind != END  # `place` is where reading stopped
        raise _unexpected(token)

    def _name(self) -> Node:
        """name | name "(" … ")"."""
        token = self.take()
        if not self.take_if("("):
            return Path((token.text,), token.place)
        if token.text.lower() == "count" and self.take_if("*", ")"):
            return Call("count", (), token.place)
        return Call(token.text.lower(), self._members(")"), token.place)

    def _group(self, place: Place) -> Node:
        members = self._members(")")
        if not members:
            raise tokens.malformed("Expression group cannot be empty")
        return members[0] if len(members) == 1 else Sequence(members, place)

    def _sequence(self, place: Place) -> Node:
        return Sequence(self._members("]"), place)

    def _bag(self, place: Place) -> Node:
        return Bag(self._members(">>"), place)

    def _struct(self, place: Place) -> Node:
        members: list[tuple[Node, Node]] = []
        while not self.take_if("}"):
            if members and not self.take_if(","):
                raise tokens.expected("RIGHT_CURLY")
            name = self.expression()
            if not self.take_if(":"):
                raise tokens.expected("COLON")
            members.append((name, self.expression()))
        return Struct(tuple(members), place)

    def _members(self, closing: str) -> tuple[Node, ...]:
        """expression ("," expression)* and the mark that closes it; or the mark alone."""
        if self.take_if(closing):
            return ()
        members = [self.expression()]
        while self.take_if(","):
            members.append(self.expression())
        self.expect_mark(closing)
        return tuple(members)


def _unexpected(token: Token) -> ValidationException:
    if token.kind in _OPERATORS:
        return tokens.malformed(tokens.UNEXPECTED_OPERATOR)
    return tokens.malformed(tokens.UNEXPECTED_KEYWORD if token.kind in KEYWORDS else tokens.UNEXPECTED_TERM)


def _index_error(index: Number) -> ValidationException:
    return ValidationException(f"List index is not within the allowable range; index: [{index.text}] at {index.place}")
