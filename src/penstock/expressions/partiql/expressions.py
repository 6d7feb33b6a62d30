"""PartiQL's expressions, text to tree: operators by precedence, then terms, a function for each rule.

    expression = unary (INFIX expression | IS [NOT] type | [NOT] IN …| [NOT] BETWEEN unary AND unary)*
    unary      = NOT expression | ("+" | "-") unary | path
    path       = term ("." name | "[" expression "]")*
    term       = literal | "?" | name | call | "(" expression ")" | "[" … "]" | "<<" … ">>" | "{" … "}"

1. A statement is read once, from left to right; chains of AND and OR are one node, however long they are.
2. Nesting is bounded by `NESTING`, far under Python's own stack.
"""

from __future__ import annotations

from collections.abc import Callable

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
    Sequence,
    Struct,
    Text,
)

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
