"""Text to tree: the grammar of all expressions, a function for each rule.

    condition  = term ((AND | OR) term)*                AND before OR
    term       = NOT* ( "(" condition ")" | comparison )
    comparison = operand COMPARATOR operand
               | operand BETWEEN operand AND operand
               | operand IN "(" operand ("," operand)* ")"
               | call
    operand    = path | VALUE | call | "(" operand ")"
    call       = NAME "(" operand ("," operand)* ")"
    path       = name ("." name | "[" INDEX "]")*       name = NAME | PLACEHOLDER
    update     = section+
    section    = SET set ("," set)* | REMOVE path ("," path)* | (ADD | DELETE) path VALUE ("," path VALUE)*
    set        = path "=" operand (("+" | "-") operand)?
    projection = path ("," path)*

1. An expression is read once, from left to right, in linear time.
2. Depth costs no stack: open brackets are kept in lists, so 4,096 of them are a syntax error like any other.
3. All kinds of expression have the same tokens, as in DynamoDB: AND, OR, NOT, BETWEEN, IN, SET, REMOVE, ADD and DELETE
   are keywords everywhere, in any case. A character that no token begins with is a token that no rule accepts.
4. Two brackets directly around one thing are refused when the outer one is closed, as DynamoDB does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.expressions.syntax import error_wording
from penstock.expressions.syntax.error_wording import ExpressionError
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
    Section,
    SetAction,
    Term,
    UpdateTree,
    Value,
)

# ── tokens ─────────────────────────────────────────────────────────────────────────────────────────


END = "<EOF>"
NAME = "name"
PLACEHOLDER = "#name"
VALUE = ":value"
INDEX = "index"
BAD = "bad"

KEYWORDS = frozenset({"AND", "OR", "NOT", "BETWEEN", "IN", "SET", "REMOVE", "ADD", "DELETE"})
COMPARATORS = frozenset({"=", "<>", "<", "<=", ">", ">="})

# Blanks are no token: the search passes over them. A pattern that began with them would try each run of blanks
# from each of its characters, and a text of 4 KB would take seconds.
_TOKEN = re.compile(
    r"""
        (?P<word>[A-Za-z][A-Za-z0-9_]*)
      | (?P<placeholder>\#[A-Za-z0-9_]+)
      | (?P<value>:[A-Za-z0-9_]+)
      | (?P<index>0|[1-9][0-9]*)
      | (?P<mark><>|<=|>=|[=<>()\[\],.+-])
      | (?P<bad>[^ \t\r\n])
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    """`kind` is a keyword in capitals, a mark as it is written, or one of the names above."""

    kind: str
    text: str
    start: int
    end: int


class Tokens:
    """The tokens of one expression and the one to be read next."""

    __slots__ = ("_all", "_source", "position")

    def __init__(self, source: str) -> None:
        self._source = source
        self._all = _tokenize(source)
        self.position = 0

    @property
    def kind(self) -> str:
        """The kind of the next token."""
        return self._all[self.position].kind

    def ahead(self, distance: int) -> str:
        """The kind of the token that many places after the next one; END past the end."""
        place = self.position + distance
        return self._all[place].kind if place < len(self._all) else END

    def take(self) -> Token:
        """The next token, which is now read."""
        token = self._all[self.position]
        if token.kind != END:
            self.position += 1
        return token

    def expect(self, kind: str) -> Token:
        """The next token, which must be of this kind."""
        if self.kind != kind:
            raise self.error()
        return self.take()

    def error(self) -> ExpressionError:
        """A syntax error at the next token, shown between its neighbours as DynamoDB shows it."""
        here = self.position
        token = self._all[here]
        start = self._all[here - 1].start if here else 0
        end = self._all[here + 1].end if here + 1 < len(self._all) else token.end
        return error_wording.syntax(token.text, self._source[start:end])


def _tokenize(source: str) -> list[Token]:
    tokens = []
    for match in _TOKEN.finditer(source):
        group = match.lastgroup or BAD
        text = match[group]
        tokens.append(Token(_kind(group, text), text, match.start(group), match.end(group)))
    end = tokens[-1].end if tokens else 0
    tokens.append(Token(END, END, end, end))
    return tokens


def _kind(group: str, text: str) -> str:
    if group == "mark":
        return text
    if group == "word":
        upper = text.upper()
        return upper if upper in KEYWORDS else NAME
    return {"placeholder": PLACEHOLDER, "value": VALUE, "index": INDEX}.get(group, BAD)


# ── grammar ───────────────────────────────────────────────────────────────────────────────────────


_OPERAND_FOLLOWERS = COMPARATORS | {"BETWEEN", "IN"}


def parse_condition(text: str) -> Term:
    """condition, and nothing after it."""
    return _Conditions(Tokens(text)).condition()


def parse_update(text: str) -> UpdateTree:
    """update = section+."""
    tokens = Tokens(text)
    sections = [_section(tokens)]
    while tokens.kind != END:
        sections.append(_section(tokens))
    return UpdateTree(tuple(sections))


def parse_projection(text: str) -> ProjectionTree:
    """projection = path ("," path)*."""
    tokens = Tokens(text)
    paths = [_path(tokens)]
    while tokens.kind == ",":
        tokens.take()
        paths.append(_path(tokens))
    tokens.expect(END)
    return ProjectionTree(tuple(paths))


# ── updates ──────────────────────────────────────────────────────────────────────────────────────


def _section(tokens: Tokens) -> Section:
    """section = SET set ("," set)* | REMOVE path ("," path)* | (ADD | DELETE) path VALUE ("," path VALUE)*."""
    keyword = tokens.kind
    if keyword not in ("SET", "REMOVE", "ADD", "DELETE"):
        raise tokens.error()
    tokens.take()
    actions = [_action(tokens, keyword)]
    while tokens.kind == ",":
        tokens.take()
        actions.append(_action(tokens, keyword))
    return Section(keyword, tuple(actions))


def _action(tokens: Tokens, keyword: str) -> Action:
    """set = path "=" operand (("+" | "-") operand)? | path | path VALUE."""
    path = _path(tokens)
    if keyword == "SET":
        tokens.expect("=")
        return SetAction(path, _operand(tokens, arithmetic=True))
    if keyword == "REMOVE":
        return RemoveAction(path)
    value = Value(tokens.expect(VALUE).text)
    return AddAction(path, value) if keyword == "ADD" else DeleteAction(path, value)


# ── operands ─────────────────────────────────────────────────────────────────────────────────────


def _path(tokens: Tokens) -> Path:
    """path = name ("." name | "[" INDEX "]")*."""
    parts: list[str | int] = [_name(tokens)]
    while tokens.kind in (".", "["):
        if tokens.take().kind == ".":
            parts.append(_name(tokens))
        else:
            parts.append(int(tokens.expect(INDEX).text))
            tokens.expect("]")
    return Path(tuple(parts))


def _name(tokens: Tokens) -> str:
    """name = NAME | PLACEHOLDER."""
    if tokens.kind not in (NAME, PLACEHOLDER):
        raise tokens.error()
    return tokens.take().text


@dataclass(slots=True)
class _Open:
    """A bracket, a call or a sum that waits for its (next) operand."""

    kind: str  # "(" for a bracket, "+" or "-" for a sum, the function's name for a call
    operands: list[Operand] = field(default_factory=list)

    @property
    def is_sum(self) -> bool:
        return self.kind in ("+", "-")

    @property
    def is_call(self) -> bool:
        return self.kind not in ("(", "+", "-")


def _operand(tokens: Tokens, *, arithmetic: bool = False) -> Operand:
    """operand = path | VALUE | call | "(" operand ")"; with `arithmetic`, a sum stands alone or in a bracket."""
    opened: list[_Open] = []
    while True:
        _open_all(tokens, opened)
        operand = _atom(tokens)
        bracketed = False
        addable = arithmetic
        while True:
            if addable and tokens.kind in ("+", "-") and (not opened or opened[-1].kind == "("):
                opened.append(_Open(tokens.take().kind, [operand]))
                break
            if not opened:
                return operand
            innermost = opened[-1]
            innermost.operands.append(operand)
            if innermost.is_call and tokens.kind == ",":
                tokens.take()
                break
            opened.pop()
            operand, bracketed = _close(tokens, innermost, bracketed)
            addable = arithmetic and not innermost.is_sum


def _open_all(tokens: Tokens, opened: list[_Open]) -> None:
    while True:
        if tokens.kind == "(":
            tokens.take()
            opened.append(_Open("("))
        elif tokens.kind == NAME and tokens.ahead(1) == "(":
            opened.append(_Open(tokens.take().text))
            tokens.take()
        else:
            return


def _atom(tokens: Tokens) -> Operand:
    """path | VALUE."""
    return Value(tokens.take().text) if tokens.kind == VALUE else _path(tokens)


def _close(tokens: Tokens, opened: _Open, bracketed: bool) -> tuple[Operand, bool]:
    """The operand that ends here, and whether it is a bracket."""
    if opened.is_sum:
        left, right = opened.operands
        return Arithmetic(opened.kind, left, right), False
    tokens.expect(")")
    if opened.is_call:
        return Call(opened.kind, tuple(opened.operands)), False
    if bracketed:
        raise ExpressionError(error_wording.REDUNDANT_PARENTHESES)
    return opened.operands[0], True


# ── conditions ───────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Level:
    """What was read since a bracket was opened."""

    alternatives: list[Term] = field(default_factory=list)
    factors: list[Term] = field(default_factory=list)
    nots: int = 0
    only_bracket: bool = False

    def add(self, term: Term, *, bracketed: bool) -> None:
        self.only_bracket = bracketed and not self.nots and not self.factors and not self.alternatives
        for _ in range(self.nots):
            term = Not(term)
        self.nots = 0
        self.factors.append(term)

    def next_alternative(self) -> None:
        self.alternatives.append(_join(And, self.factors))
        self.factors = []

    def result(self) -> Term:
        self.next_alternative()
        return _join(Or, self.alternatives)


def _join(kind: type[And] | type[Or], terms: list[Term]) -> Term:
    return terms[0] if len(terms) == 1 else kind(tuple(terms))


class _Conditions:
    """condition = term ((AND | OR) term)*, with the open brackets in a list."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._levels = [_Level()]

    def condition(self) -> Term:
        while True:
            term = self._term()
            self._levels[-1].add(term, bracketed=False)
            self._close_brackets()
            if self._tokens.kind not in ("AND", "OR"):
                break
            if self._tokens.take().kind == "OR":
                self._levels[-1].next_alternative()
        self._tokens.expect(END)
        return self._levels[0].result()

    def _close_brackets(self) -> None:
        while len(self._levels) > 1 and self._tokens.kind not in ("AND", "OR"):
            self._tokens.expect(")")
            level = self._levels.pop()
            if level.only_bracket:
                raise ExpressionError(error_wording.REDUNDANT_PARENTHESES)
            self._levels[-1].add(level.result(), bracketed=True)

    def _term(self) -> Term:
        """term = NOT* ( "(" condition ")" | comparison ): opens the brackets, gives the first comparison in them."""
        tokens = self._tokens
        while True:
            while tokens.kind == "NOT":
                tokens.take()
                self._levels[-1].nots += 1
            brackets = 0
            while tokens.kind == "(":
                tokens.take()
                brackets += 1
            if tokens.kind != "NOT":
                return self._bracketed(brackets)
            self._open(brackets)

    def _open(self, brackets: int) -> None:
        self._levels.extend(_Level() for _ in range(brackets))

    def _bracketed(self, brackets: int) -> Term:
        """A comparison after so many brackets: those that close right after its first operand are the operand's."""
        tokens = self._tokens
        left = _operand(tokens)
        closing = 0
        while closing < brackets and tokens.ahead(closing) == ")":
            closing += 1
        follower = tokens.ahead(closing)
        if follower not in _OPERAND_FOLLOWERS and isinstance(left, Call):
            self._open(brackets)
            return left
        if closing > 1:
            raise ExpressionError(error_wording.REDUNDANT_PARENTHESES)
        tokens.position += closing
        self._open(brackets - closing)
        return self._comparison(left)

    def _comparison(self, left: Operand) -> Term:
        """comparison, of which the first operand is read."""
        tokens = self._tokens
        if tokens.kind in COMPARATORS:
            return Comparison(tokens.take().kind, left, _operand(tokens))
        if tokens.kind == "BETWEEN":
            tokens.take()
            low = _operand(tokens)
            tokens.expect("AND")
            return Between(left, low, _operand(tokens))
        if tokens.kind == "IN":
            tokens.take()
            return In(left, self._candidates())
        raise tokens.error()

    def _candidates(self) -> tuple[Operand, ...]:
        """ "(" operand ("," operand)* ")"."""
        tokens = self._tokens
        tokens.expect("(")
        candidates = [_operand(tokens)]
        while tokens.kind == ",":
            tokens.take()
            candidates.append(_operand(tokens))
        tokens.expect(")")
        return tuple(candidates)
