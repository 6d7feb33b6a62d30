"""Expressions as tokens, each with its place in the text.

One set of tokens for all five kinds of expression, as in DynamoDB: AND, OR, NOT, BETWEEN, IN, SET, REMOVE, ADD and
DELETE are keywords everywhere, in any case. A character that no token begins with is a token of its own, which no
rule of the grammar accepts.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from penstock.expressions.syntax import error_wording
from penstock.expressions.syntax.error_wording import ExpressionError

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
