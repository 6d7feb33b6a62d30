"""Texts that people write: several statements, each with its place, and where one of them cannot be read.

1. A statement ends at a semicolon that is in no quotes and in no comment. Lines are fed as they come; each character
   is looked at once.
2. `failing_place` says where reading stopped. DynamoDB's own errors often do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.errors import ValidationException
from penstock.expressions.partiql import tokens
from penstock.expressions.partiql.parser import Reader, read_statement
from penstock.expressions.partiql.tokens import Place

_OPENS = re.compile(r"'|\"|--|/\*|;")
_CLOSES = {"'": re.compile("'"), '"': re.compile('"'), "--": re.compile("\n"), "/*": re.compile(r"\*/")}
_NAMES = {"'": "a text in '…'", '"': 'a name in "…"', "/*": "a comment /* … */"}
_NOTHING = re.compile(r"(?:\s|--[^\n]*|/\*.*?\*/)*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Written:
    """A statement without its semicolon, and the line on which it begins in the text that it is from."""

    text: str
    line: int = 1


class Splitter:
    """Gives the statements of the lines that it is fed (1)."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._open = ""  # what we are in: a quote, or the beginning of a comment
        self._open_line = 0
        self._line = 1
        self._first_line = 1
        self._has_words = False
        self.size = 0
        """Characters of the statement that has not ended."""

    @property
    def is_empty(self) -> bool:
        """Whether a new statement would begin here: nothing but blanks and whole comments is open."""
        return not self._has_words and not self.unfinished

    @property
    def unfinished(self) -> str:
        """What is open, in words: `a text in '…' that began on line 3`; else nothing."""
        name = _NAMES.get(self._open, "")
        return f"{name} that began on line {self._open_line}" if name else ""

    def feed(self, line: str) -> Iterator[Written]:
        """The statements that end on this line; it has its own line end."""
        at = start = 0
        while True:
            found = (_CLOSES[self._open] if self._open else _OPENS).search(line, at)
            if found is None:
                break
            at = found.end()
            if self._open:
                self._open = ""
            elif found[0] == ";":
                self._keep(line[start : found.start()])
                yield from self._take(line.count("\n", 0, at))
                start = at
            else:
                self._open, self._open_line = found[0], self._line + line.count("\n", 0, at)
        self._keep(line[start:])
        self._line += line.count("\n")
        if not self._has_words and not self.unfinished:
            self._drop_comments()

    def end(self) -> Iterator[Written]:
        """The last statement, which no semicolon ends."""
        yield from self._take(0)

    def clear(self) -> None:
        """Forgets what has not ended; lines are counted from 1 again."""
        self.__init__()  # type: ignore[misc]

    def _keep(self, text: str) -> None:
        if text:
            self._pieces.append(text)
            self.size += len(text)

    def _drop_comments(self) -> None:
        """What stands before a statement is no part of it."""
        self._has_words = not is_nothing("".join(self._pieces))
        if not self._has_words:
            self._pieces, self.size, self._first_line = [], 0, self._line

    def _take(self, lines: int) -> Iterator[Written]:
        text = "".join(self._pieces)
        self._pieces, self.size, self._has_words = [], 0, False
        first, self._first_line = self._first_line, self._line + lines
        body = text.lstrip()
        if not is_nothing(body):
            yield Written(body.rstrip(), first + text[: len(text) - len(body)].count("\n"))


def split(text: str) -> list[Written]:
    """The statements of a whole text; raises ValidationException where a quote or a comment is left open."""
    splitter = Splitter()
    found = list(splitter.feed(text))
    if splitter.unfinished:
        raise ValidationException(f"The statement does not end: {splitter.unfinished} is open")
    return [*found, *splitter.end()]


def is_nothing(text: str) -> bool:
    """Whether the text is blanks and comments only."""
    matched = _NOTHING.match(text)
    return matched is not None and matched.end() == len(text)


def failing_place(statement: str) -> Place | None:
    """Where a statement that is not well formed stops to make sense; None if it is well formed (2)."""
    place = tokens.unreadable_place(statement)
    if place is not None:
        return place
    try:
        reader = Reader(statement)
    except ValidationException:  # a number with an exponent that is too large
        return None
    try:
        read_statement(reader)
    except ValidationException as error:
        is_all_read = reader.kind == tokens.END and not error.message.startswith(tokens.malformed().message)
        if is_all_read or tokens.NO_OPERATION in error.message:
            return tokens.tokenize(statement)[0].place  # it is just no statement
        return reader.place
    return None
