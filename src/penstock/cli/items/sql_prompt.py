"""The prompt of `penstock sql`: lines with history and completion, where Python has `readline`; plain lines elsewhere.

1. History is a file of the user's own (mode 0600), a line for each statement, `MOST_LINES` of them. A statement is
   added as soon as it is entered, so that two shells lose none of each other's.
2. A history that cannot be read or written is no reason to stop.
3. Completion never fails: on an error it completes nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from penstock.expressions.partiql.tokens import KEYWORDS

MOST_LINES = 1_000
COMMANDS = (".help", ".quit", ".table", ".tables")

_OFFERED = tuple(
    """
    SELECT FROM WHERE ORDER BY ASC DESC AND OR NOT IN BETWEEN IS MISSING NULL INSERT INTO VALUE UPDATE SET REMOVE DELETE
    RETURNING ALL MODIFIED OLD NEW TRUE FALSE begins_with( contains( size( attribute_type( attribute_exists(
    attribute_not_exists( list_append( set_add( set_delete(
    """.split()  # noqa: SIM905 - a text of words reads better than a list of strings
)
_DELIMITERS = " \t\n'(),;=<>[]{}"
_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_BEFORE_TABLE = re.compile(r"(?:\b(?:from|into|update)|^\s*(?:\.table|\\d))\s+$", re.IGNORECASE)
_SOURCE = re.compile(r"\b(?:from|into|update)\s+(?:\"((?:[^\"]|\"\")+)\"|([A-Za-z_$][\w$]*))", re.IGNORECASE)


def quoted(name: str) -> str:
    """A name as it is written in a statement: in quotes where it must be."""
    if _PLAIN.fullmatch(name) and name.lower() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


# ── completion ───────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Completer:
    """What may stand where the cursor is: a pure function of the line, given the names."""

    tables: Callable[[], Iterable[str]]
    indexes: Callable[[str], Iterable[str]]
    """Of a table."""
    attributes: Callable[[str | None], Iterable[str]]
    """Of the statement's table, and those seen."""

    def complete(self, before: str, word: str, statement: str = "") -> list[str]:
        """The words that may replace `word`, after the line's `before`; `statement` are the lines above."""
        if not before.strip() and word[:1] in (".", "\\") and not statement.strip():
            return [one for one in COMMANDS if one.startswith(word)]
        head, quote, part = _parts(word)
        if _BEFORE_TABLE.search(statement + before):
            if head:
                return _names(head, quote, part, self.indexes(_unquoted(head[:-1])))
            return _names("", quote, part, self.tables())
        if head:
            return []
        source = _SOURCE.search(statement + before)
        table = None if source is None else (source[1] or source[2]).replace('""', '"')
        names = _names("", quote, part, self.attributes(table))
        return names if quote else [*_keywords(part), *names]


def _parts(word: str) -> tuple[str, str, str]:
    """`"orders"."by-d` is the table and its dot, a quote that is open, and what is to be completed."""
    if word.count('"') % 2:
        head, _, part = word.rpartition('"')
        return head, '"', part
    head, dot, part = word.rpartition(".")
    return head + dot, "", part


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _names(head: str, quote: str, part: str, names: Iterable[str]) -> list[str]:
    found = sorted({name for name in names if name.startswith(part)})
    return [head + (f'"{name}"' if quote else quoted(name)) for name in found]


def _keywords(part: str) -> list[str]:
    """In the case that the user writes."""
    is_lower = part.islower()
    found = [word for word in _OFFERED if part and word.lower().startswith(part.lower())]
    return [word if word.endswith("(") else (word.lower() if is_lower else word) + " " for word in found]


# ── history ──────────────────────────────────────────────────────────────────────────────────────


def history_file() -> Path:
    """`sql_history` in the user's folder for state; XDG says that a relative one is to be ignored."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    base = given if given.is_absolute() else Path.home() / ".local" / "state"
    return base / "penstock" / "sql_history"


@dataclass(slots=True)
class History:
    path: Path

    def load(self) -> list[str]:
        """The newest lines; older ones go from the file as well (1)."""
        try:
            with self.path.open(encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
        except OSError:
            return []
        if len(lines) > MOST_LINES:
            with suppress(OSError):
                self._replace(lines[-MOST_LINES:])
        return lines[-MOST_LINES:]

    def add(self, line: str) -> None:
        with suppress(OSError):  # (2)
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            place = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(place, "w", encoding="utf-8", errors="replace") as file:
                self.path.chmod(0o600)  # of a file that was there already
                file.write(line + "\n")

    def _replace(self, lines: list[str]) -> None:
        """As a whole: a shell that is killed meanwhile leaves the old file. A temporary file has mode 0600."""
        with NamedTemporaryFile(
            "w", encoding="utf-8", errors="replace", dir=self.path.parent, prefix=".sql_history", delete=False
        ) as file:
            file.write("".join(f"{line}\n" for line in lines))
        Path(file.name).replace(self.path)


def history_line(statement: str) -> str | None:
    """A statement on one line; None where a comment to the end of a line makes that impossible."""
    if "\n" in statement and "--" in statement:
        return None
    return " ".join(line.strip() for line in statement.splitlines())


# ── lines ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Prompt:
    """Reads lines from a terminal."""

    completer: Completer
    history: History
    statement: str = ""
    """The lines of the statement that has not ended, for completion."""
    _readline: Any = None
    _found: list[str] = field(default_factory=list)

    def __enter__(self) -> Prompt:
        try:
            import readline
        except ImportError:  # a Python without it: lines are plain
            return self
        self._readline = readline
        readline.set_auto_history(False)
        readline.set_completer_delims(_DELIMITERS)
        readline.set_completer(self._complete)
        is_libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
        readline.clear_history()
        for line in self.history.load():
            readline.add_history(line)
        return self

    def __exit__(self, *_: object) -> None:
        if self._readline is not None:
            self._readline.set_completer(None)
            self.history.load()  # which cuts what is too long

    def read(self, prompt: str) -> str:
        """A line without its end. Raises EOFError and KeyboardInterrupt."""
        return input(prompt)

    def remember(self, statement: str) -> None:
        line = history_line(statement)
        if line and self._readline is not None:
            self._readline.add_history(line)
            self.history.add(line)

    def _complete(self, word: str, number: int) -> str | None:
        """readline's: the `number`-th word, asked for until it is None."""
        try:
            if number == 0:
                before = self._readline.get_line_buffer()[: self._readline.get_begidx()]
                self._found = self.completer.complete(before, word, self.statement)
            return self._found[number] if number < len(self._found) else None
        except Exception:  # (3)
            return None
