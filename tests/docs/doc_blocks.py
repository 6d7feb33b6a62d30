"""The blocks of the documentation's pages, and what the pages say of them.

A comment that stands right before a block, and that no reader sees, tells what running it needs:

    <!-- not run: why -->           it is not run; the reasons are counted by a test
    <!-- run by: tests/… -->        that file of tests runs it
    <!-- run: code -->              this code runs first, with the same names
    <!-- output: like -->           what the block shows is an example of the output, and is not compared
    <!-- output: compared -->       before a console: its commands are run, and must print what stands under them

A page's Python blocks share their names; one whose first line is `# name.py` is that file too, for those after it.
A block without a language, or of `text`, right after a Python block is what that block prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>[\w-]*)[^`]*$")
_COMMENT = re.compile(r"<!-- *(?P<word>not run|run by|run|output): *(?P<text>.*?) *-->", re.DOTALL)


def pages() -> list[Path]:
    """Every page that a reader is sent to."""
    found = [ROOT.glob("*.md"), (ROOT / "docs").rglob("*.md"), (ROOT / "bench").glob("README.md")]
    more = [(ROOT / "trust").glob("*.md"), (ROOT / "examples").rglob("*.md")]
    return sorted({page for some in (*found, *more) for page in some})


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@dataclass(frozen=True)
class Block:
    """One fenced block: where it is, what it holds, and the comments before it by their word."""

    line: int
    language: str
    text: str
    near: bool
    """Nothing but blank lines and comments stands between it and the block before it."""
    says: dict[str, str] = field(default_factory=dict)

    @property
    def lines(self) -> range:
        """The numbers of its own lines, counted from 0: what is between its fences."""
        return range(self.line, self.line + len(self.text.splitlines()))

    @property
    def is_output(self) -> bool:
        return self.language in ("", "text") and not self.is_console

    @property
    def is_console(self) -> bool:
        return self.language in ("console", "sh", "bash", "shell") or (
            self.language == "" and self.text.startswith("$ ")
        )


def blocks_of(text: str) -> list[Block]:
    """A page's fenced blocks, in order."""
    return list(_read(text.splitlines(keepends=True)))


def _read(lines: list[str]) -> Iterator[Block]:
    between: list[str] = []
    number = 0
    while number < len(lines):
        opening = _FENCE.match(lines[number].rstrip("\n"))
        if opening is None:
            between.append(lines[number])
            number += 1
            continue
        end = next(
            at for at in range(number + 1, len(lines)) if lines[at].strip() == opening["fence"]
        )  # a fence that is never closed is an error of the page
        indent = len(opening["indent"])
        said = "".join(between)
        yield Block(
            line=number + 1,
            language=opening["language"],
            text="".join(line[indent:] if line.strip() else line for line in lines[number + 1 : end]),
            near=not _COMMENT.sub("", said).strip(),
            says=_said(said),
        )
        between, number = [], end + 1


def _said(text: str) -> dict[str, str]:
    """What the comments at the end of a text say: those that nothing but blanks stands after."""
    said: dict[str, str] = {}
    for found in _COMMENT.finditer(text):
        if not _COMMENT.sub("", text[found.end() :]).strip():
            said[found["word"]] = found["text"]
    return said


def _unfenced(text: str) -> Iterator[str]:
    """The lines that are in no fenced block."""
    fence = ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        if fence:
            fence = "" if line.strip() == fence else fence
        elif found:
            fence = found["fence"]
        else:
            yield line


def prose_of(text: str) -> str:
    """The page without its fenced and indented blocks."""
    return "\n".join(line for line in _unfenced(text) if not line.startswith("    "))


def indented_lines(text: str) -> list[str]:
    """The lines of blocks that are set in by four blanks, joined where a backslash ends one."""
    lines = (line[4:] for line in _unfenced(text) if line.startswith("    "))
    return "\n".join(lines).replace("\\\n", " ").splitlines()
