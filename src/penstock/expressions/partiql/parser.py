"""PartiQL's statements, text to tree, a function for each rule; `parse` is the door.

    statement = select | insert | update | delete | from_first | EXISTS "(" select ")"
    select    = SELECT (* | expression ("," expression)*) FROM source [WHERE expression] [ORDER BY …]
    insert    = INSERT INTO source VALUE expression
    update    = UPDATE source clause+ [WHERE expression] [returning]
    from_first = FROM source [WHERE expression] clause+ [returning]
    delete    = DELETE FROM source [WHERE expression] [returning]
    clause    = SET path "=" expression ("," …)* | REMOVE path ("," path)*
    returning = RETURNING (ALL | MODIFIED) (OLD | NEW) *

As in the parser that DynamoDB uses, a statement is a term: it may stand where any expression may, and is refused
afterwards. That decides which error a misspelt statement gets.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from penstock.errors import ValidationException
from penstock.expressions.partiql import tokens
from penstock.expressions.partiql.expressions import Reader
from penstock.expressions.partiql.tokens import END, NAME, QUOTED
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
    grammar = _Grammar(Reader(text))
    try:
        return Parsed(grammar.statement(), grammar.reader.parameters)
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
