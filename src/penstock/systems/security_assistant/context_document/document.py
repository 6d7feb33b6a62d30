"""A document (.docx, .md, .txt) as text, and a text as blocks: headings, paragraphs, items of lists, rows of tables.

A text file has no marks for them. A line in capitals is a heading, and so is one that is underlined or numbered as
chapters are; lines with tabs are rows.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from penstock.systems.security_assistant.context_document.word import word_text
from penstock.systems.security_assistant.drawing.context import CONTEXT_BYTES, BadContext, ending_of
from penstock.systems.security_assistant.drawing.pdf import DrawingTooLarge

MOST_LINES: Final = 20_000
LINE_CHARACTERS: Final = 4_000
"""What a line has beyond that is not read: every expression below looks at one line."""
_LONGEST_TITLE: Final = 80
_CHAPTER_LEVELS: Final = 6
_WRAPPED: Final = 60
"""Characters of a line that an editor may have broken: shorter ones were meant to end there."""


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str


@dataclass(frozen=True, slots=True)
class ListItem:
    """`depth` is how far it is indented; `chapter` is the number of one that could be a heading too (`2.1`)."""

    depth: int
    text: str
    chapter: str = ""


@dataclass(frozen=True, slots=True)
class TableRow:
    """`header` has the cells of the table's first row, which is given as a row of its own first."""

    cells: tuple[str, ...]
    header: tuple[str, ...]


Block = Heading | Paragraph | ListItem | TableRow


def document_text(file_name: str, data: bytes) -> str:
    """The document's text, with Markdown's marks where it has headings, lists and tables. Raises BadContext."""
    if len(data) > CONTEXT_BYTES:
        raise DrawingTooLarge(f"The context has {len(data):,} bytes; {CONTEXT_BYTES:,} are the limit. Shorten it.")
    if ending_of(file_name) == ".docx":
        return word_text(data)
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        raise BadContext("The context is no UTF-8 text. Save it as UTF-8.") from None


_FENCE: Final = re.compile(r"\s*(?:```|~~~)")
_ATX: Final = re.compile(r"\s{0,3}(#{1,6})\s+(\S.*)")
_UNDERLINE: Final = re.compile(r"\s*(=|-|~){3,}\s*")
_RULE: Final = re.compile(r"[\s:|]*-[\s:|-]*")
_ITEM: Final = re.compile(
    r"(\s*)(?:[-*+•–▪◦‣·●○]|(\d{1,3}|[a-zA-Z])[.)]|\((?:\d{1,3}|[a-z])\))\s+(?:\[[ xX]\]\s+)?(\S.*)"
)
_CHAPTER: Final = re.compile(r"\s*(\d{1,3}(?:\.\d{1,3})+)\.?\s+(\S.*)")
_MARKUP: Final = re.compile(r"\*\*|__|`|(?<![\w*])\*(?=\S)|(?<=\S)\*(?![\w*])")
_LINK: Final = re.compile(r"!?\[([^\]\[]{1,500})\]\([^()\s]{1,2000}\)")
_CELL: Final = re.compile(r"(?<!\\)\|")


def blocks_of(text: str) -> Iterator[Block]:
    """The blocks of a text, in order. Lines of one paragraph, and of one item, are one text."""
    return _Blocks(line[:LINE_CHARACTERS].rstrip() for line in text.splitlines()[:MOST_LINES]).blocks()


class _Blocks:
    """Reads lines; `_open` is the paragraph or item that the next line may continue."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = list(lines)
        self._open: Paragraph | ListItem | None = None
        self._header: tuple[str, ...] = ()

    def blocks(self) -> Iterator[Block]:
        fenced = False
        for at, line in enumerate(self._lines):
            if _FENCE.match(line):
                fenced = not fenced
            elif not fenced:
                yield from self._line(at, line)
        yield from self._close()

    def _line(self, at: int, line: str) -> Iterator[Block]:
        following = self._lines[at + 1] if at + 1 < len(self._lines) else ""
        if not line.strip() or self._is_rule(at, line):
            if not (self._header and _RULE.fullmatch(line) and line.strip()):
                self._header = ()
            yield from self._close()
            return
        cells = _cells(line, following, inside=bool(self._header))
        if cells:
            yield from self._close()
            self._header = self._header or cells
            yield TableRow(cells, self._header)
            return
        self._header = ()
        heading = _heading(line, following)
        item = None if heading is not None else _item(line)
        if heading is not None or item is not None:
            yield from self._close()
            if heading is not None:
                yield heading
            self._open = item
        elif self._open is not None and self._continues(at):
            self._open = replace(self._open, text=f"{self._open.text} {plain(line)}")
        else:
            yield from self._close()
            self._open = Paragraph(plain(line))

    def _continues(self, at: int) -> bool:
        """Whether a line goes on with the one before it, which was too long for one line."""
        before, line = self._lines[at - 1].rstrip(), self._lines[at]
        if isinstance(self._open, ListItem) and line[:1].isspace():
            return True
        ended = before.endswith((".", "!", "?", ":", ";"))
        return not ended and (line.lstrip()[:1].islower() or len(before) >= _WRAPPED)

    def _is_rule(self, at: int, line: str) -> bool:
        """A line of signs: it underlines what is above it, or parts a table's header from its rows."""
        return bool(_UNDERLINE.fullmatch(line)) or ("|" in line and bool(_RULE.fullmatch(line)))

    def _close(self) -> Iterator[Block]:
        if self._open is not None:
            yield self._open
            self._open = None


def _heading(line: str, following: str) -> Heading | None:
    atx = _ATX.fullmatch(line)
    if atx is not None:
        return Heading(len(atx.group(1)), plain(atx.group(2).rstrip().rstrip("#")))
    text = plain(line)
    short = len(text) <= _LONGEST_TITLE and not text.endswith((".", ";", ","))
    if short and _UNDERLINE.fullmatch(following) and "|" not in line:
        return Heading(1 if "=" in following else 2, text)
    letters = [letter for letter in text if letter.isalpha()]
    if short and len(letters) > 3 and all(letter.isupper() for letter in letters) and ":" not in text[:-1]:
        found = re.fullmatch(r"(?:(\d{1,3}(?:\.\d{1,3})*)[.)]?\s+)?(.*?):?", text)
        assert found is not None  # every part of it may be empty
        return Heading(1 + (found.group(1) or "").count("."), found.group(2))
    return None


def _item(line: str) -> ListItem | None:
    chapter = _CHAPTER.fullmatch(line)
    if chapter is not None:
        return ListItem(0, plain(chapter.group(2)), chapter.group(1))
    found = _ITEM.fullmatch(line)
    if found is None:
        return None
    number = found.group(2) or ""
    return ListItem(len(found.group(1).expandtabs()), plain(found.group(3)), number if number.isdecimal() else "")


def _cells(line: str, following: str, *, inside: bool) -> tuple[str, ...]:
    """The cells of a row of a table; empty if the line is none."""
    stripped = line.strip()
    if "\t" in stripped and "|" not in stripped:
        cells = [plain(cell) for cell in stripped.split("\t") if cell.strip()]
        rows = inside or "\t" in following.strip()
        return tuple(cells) if len(cells) > 1 and rows else ()
    if "|" not in stripped or not (
        stripped.startswith("|") or inside or ("|" in following and _RULE.fullmatch(following))
    ):
        return ()
    cells = [plain(cell.replace("\\|", "|")) for cell in _CELL.split(stripped.removeprefix("|").removesuffix("|"))]
    return tuple(cells) if len(cells) > 1 else ()


def plain(text: str) -> str:
    """Words without Markdown's emphasis and links."""
    return " ".join(_MARKUP.sub("", _LINK.sub(r"\1", text)).split())


def chapter_level(chapter: str) -> int:
    return min(chapter.count(".") + 1, _CHAPTER_LEVELS)
