"""PartiQL's tokens, each with its place in the statement.

A word is a keyword wherever it stands, in any case: an attribute of that name must be "quoted". Keywords and their
spelling are SQL-92's and PartiQL's own.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from penstock.errors import ValidationException

# ── what DynamoDB says about a statement that it refuses ──────────────────────────────────────────


NEEDS_KEY = "Where clause does not contain a mandatory equality on all key attributes"
ALIASING = "Aliasing is not supported"
OVERLAP = "Overlapping conditions with range keys are not supported in where clause"
NOT_ON_INDEX = "This operation is not supported on an index"
EMPTY_COMPONENT = "Path component cannot be an empty string"
TOO_MANY_COMPONENTS = "A path may contain at most 2 components in the FROM clause"
ONE_TABLE = "FROM clause may only contain a single table name"
PARAMETER_COUNT = "Number of parameters in request and statement don't match."
EMPTY_BAG = "Empty bags are not supported"
MIXED_BAG = "Unsupported data type in Bag. DynamoDB only supports either numbers or strings in bags"
NO_TUPLE = (
    "Unsupported format in item expression. Please use struct format {...} to express item values for insert statement."
)
BAD_IN = (
    "IN operator must have a left hand argument of type Variable Reference and right hand argument of type Seq with at "
    "least one member"
)
NO_TERM = "The arguments to AND/OR must be Expressions"
NO_NEGATED_TERM = "The argument to NOT must be a Type or Expression"
MISSING_VALUE = "MISSING must be compared using IS operator"
EXISTS_OUTSIDE = "EXISTS can only be used in ExecuteTransaction write requests."
EXISTS_CONDITION = "EXISTS() must contain a single item read with additional condition"
MULTI_ATTRIBUTE = (
    "PartiQL statements cannot be executed on tables with multi-attribute HASH keys or multi-attribute RANGE keys."
)

UNEXPECTED_TERM = "Unexpected term"
UNEXPECTED_KEYWORD = "Unexpected keyword"
UNEXPECTED_OPERATOR = "Unexpected operator"
LEFTOVER = "Unexpected token after expression"
NO_RIGHT_SIDE = "Missing right-hand side expression of infix operator"
NO_OPERATION = "Expected data manipulation"
NO_TYPE = "Expected type name"
NO_SIMPLE_PATH = "Expected identifier for simple path"
BAD_DOT = "Invalid path dot component"
TOO_DEEP = "Statement is nested too deeply"


def malformed(detail: str = "") -> ValidationException:
    """A statement that cannot be read; a literal that cannot be converted has no detail."""
    return ValidationException(f"Statement wasn't well formed, can't be processed: {detail}")


def expected(what: str) -> ValidationException:
    return malformed(f"Expected {what}")


# ── keywords ──────────────────────────────────────────────────────────────────────────────────────


KEYWORDS = frozenset(
    """
    absolute action add all allocate alter and any are as asc assertion at authorization avg bag begin between
    bigint bit bit_length blob bool boolean by can_cast can_lossless_cast cascade cascaded case cast catalog
    char char_length character character_length check clob close coalesce collate collation column commit connect
    connection constraint constraints continue convert corresponding count create cross current current_date
    current_time current_timestamp current_user cursor date date_add date_diff deallocate dec decimal declare
    default deferrable deferred delete desc describe descriptor diagnostics disconnect distinct domain double drop
    else end escape except exception exec execute exists external extract false fetch first float for
    foreign found from full get global go goto grant group having identity immediate in index indicator initially
    inner input insensitive insert int int2 int4 int8 integer integer2 integer4 integer8 intersect interval into is
    isolation join key language last left let level like limit list local lower match max min missing
    modified module names national natural nchar new next no not null nullif numeric octet_length of offset old on
    only open option or order outer output overlaps pad partial pivot position precision prepare preserve primary
    prior privileges procedure public read real references relative remove restrict returning revoke right rollback
    rows schema scroll section select session session_user set sexp size smallint some space sql sqlcode sqlerror
    sqlstate string struct substring sum symbol system_user table temporary then time timestamp to
    transaction translate translation trim true tuple union unique unknown unpivot update upper usage user using
    value values varchar varying view when whenever where with work write zone
    """.split()  # noqa: SIM905 - a text of words reads better than a list of strings
)

CALLABLE = frozenset(
    """
    exists char_length character_length octet_length bit_length lower upper size coalesce nullif substring trim
    extract date_add date_diff cast can_cast can_lossless_cast count avg max min sum position convert
    """.split()  # noqa: SIM905
)
"""Keywords that are functions before a bracket."""

TYPES = frozenset(
    """
    missing null boolean bool smallint integer2 int2 integer int integer4 int4 integer8 int8 bigint float real
    decimal dec numeric timestamp date time character char varchar string symbol clob blob struct tuple list sexp bag
    """.split()  # noqa: SIM905
)
"""Types of one word."""


# ── tokens ────────────────────────────────────────────────────────────────────────────────────────


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
            raise malformed()
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


def unreadable_place(statement: str) -> Place | None:
    """Where `tokenize` meets what is no token: an odd character, or a quote that is not closed."""
    position = 0
    while position < len(statement):
        match = _TOKEN.match(statement, position)
        if match is None:
            line_start = statement.rfind("\n", 0, position) + 1
            return Place(statement.count("\n", 0, position) + 1, position - line_start + 1, 1)
        position = match.end()
    return None


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
        raise malformed()
