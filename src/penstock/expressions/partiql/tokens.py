"""PartiQL's tokens, each with its place in the statement.

A word is a keyword wherever it stands, in any case: an attribute of that name must be "quoted". Keywords and their
spelling are SQL-92's and PartiQL's own.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from penstock.expressions.partiql import wording
from penstock.expressions.partiql.keywords import KEYWORDS

END = "<end>"
NAME = "name"
QUOTED = '"name"'
STRING = "'text'"
NUMBER = "number"
PARAMETER = "?"

_EXPONENT_MAX = 2**31 - 1  # the parser that DynamoDB uses keeps exponents and scales in 32 bits

_TOKEN = re.compile(
    r"""
      (?P<space>[\s]+ | --[^\n\r]* | /\*.*?\*/ )
    | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_$]))
    | (?P<word>[A-Za-z_$][A-Za-z0-9_$]*)
    | (?P<string>'(?:[^']|'')*+')
    | (?P<quoted>"(?:[^"]|"")*+")
    | (?P<mark><<|>>|<>|<=|>=|!=|\|\||/(?!\*)|[=<>+\-*%@:()\[\]{},.;?])
    """,
    re.VERBOSE | re.DOTALL,
)


class Place(NamedTuple):
    """Where a token stands: `1:8:5` is line 1, column 8, five characters long."""

    line: int
    column: int
    length: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}:{self.length}"


class Token(NamedTuple):
    """`kind` is a keyword in small letters, a mark as it is written, or one of the names above.

    `text` is what is meant: a string without its quotes, a name as it is written.
    """

    kind: str
    text: str
    place: Place


def tokenize(statement: str) -> list[Token]:
    """The statement's tokens and an END."""
    tokens: list[Token] = []
    position, line, line_start = 0, 1, 0
    while position < len(statement):
        match = _TOKEN.match(statement, position)
        if match is None:
            raise wording.malformed()
        group = match.lastgroup or ""
        text = match[0]
        if group != "space":
            tokens.append(_token(group, text, Place(line, position - line_start + 1, len(text))))
        breaks = text.count("\n")
        if breaks:
            line += breaks
            line_start = position + text.rindex("\n") + 1
        position = match.end()
    tokens.append(Token(END, "", Place(line, position - line_start + 1, 0)))
    return tokens


def _token(group: str, text: str, place: Place) -> Token:
    if group == "word":
        lower = text.lower()
        return Token(lower if lower in KEYWORDS else NAME, text, place)
    if group == "string":
        return Token(STRING, text[1:-1].replace("''", "'"), place)
    if group == "quoted":
        return Token(QUOTED, text[1:-1].replace('""', '"'), place)
    if group == "number":
        _check_exponent(text)
        return Token(NUMBER, text, place)
    return Token("<>" if text == "!=" else text, text, place)


def _check_exponent(number: str) -> None:
    mantissa, _, exponent = number.lower().partition("e")
    _, _, fraction = mantissa.partition(".")
    if not exponent:
        return
    # Eleven characters hold every 32-bit integer; int() of more would be work without use.
    digits = exponent.lstrip("+-").lstrip("0")
    power = int(exponent) if len(digits) <= 10 else _EXPONENT_MAX + 1
    if not -_EXPONENT_MAX - 1 <= power <= _EXPONENT_MAX or len(fraction) - power > _EXPONENT_MAX:
        raise wording.malformed()
