"""What commands print, made harmless: stored text cannot speak to the terminal.

A terminal obeys control characters: they move its cursor, hide what follows, change its title, write to the clipboard.
Names, errors and log lines come from jobs and items, so from whoever could write one.

1. Of control characters, only line ends and tabs get through, the colours that `click.style` makes, and a CR at either
   end of what is written, which our own progress lines have. All others are written as JSON writes them: `\\u001b`.
2. Nor do characters get through that turn the direction of writing, or that no encoding has.
3. Bytes (`penstock files get`) are left alone: they were asked for.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

_HARMFUL = re.compile(
    r"\x1b\[(?:0|1|3[0-7]|9[0-7])m"  # let through: see `_shown`
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_LINE_ENDS = re.compile(r"[\n\u2028\u2029]")


def printable(text: str) -> str:
    """The text without anything that a terminal would obey (1, 2)."""
    return _HARMFUL.sub(_shown, text)


def one_line(text: str) -> str:
    """The same for a text that is part of a line: it ends no line, and begins none of its own."""
    return _LINE_ENDS.sub(_escaped, printable(text))


def _shown(found: re.Match[str]) -> str:
    return found[0] if len(found[0]) > 1 else _escaped(found)


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


class Harmless:
    """A text stream whose writes are `printable`. Everything else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        inner = text.strip("\r")
        if not inner:
            return self._stream.write(text)
        before, after = text.startswith("\r"), text.endswith("\r")
        return self._stream.write("\r" * before + printable(inner) + "\r" * after)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def harmless_output() -> Iterator[None]:
    """Both streams, for the length of a block."""
    before = sys.stdout, sys.stderr
    if not isinstance(sys.stdout, Harmless):
        sys.stdout, sys.stderr = (cast(TextIO, Harmless(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
