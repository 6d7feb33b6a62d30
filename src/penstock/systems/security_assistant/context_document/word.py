"""A Word document (.docx) as Markdown text.

1. Paragraphs of a heading's style become `## …`, those of a list `- …`, rows of a table `| … | … |`.
2. Which style is a heading's is asked of the document's own styles: their ids differ with Word's language, the names of
   the built-in ones do not.
3. No tree is kept, and everything has a limit: what a small file unpacks to, and how deep its elements are nested.
"""

from __future__ import annotations

import io
import lzma
import re
import struct
import zipfile
import zlib
from typing import Any, Final
from xml.etree import ElementTree

from penstock.systems.security_assistant.drawing.context import BadContext
from penstock.systems.security_assistant.drawing.pdf import DrawingTooLarge

_XML_BYTES: Final = 20 * 1024 * 1024
_MOST_NESTED: Final = 200
"""Elements in elements: tables in cells of tables have some tens."""
_BROKEN_ARCHIVE: Final = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(LookupError, OSError, RuntimeError, EOFError, ValueError),
)
"""What zipfile raises of a file that is none, or was changed."""
_WORDS: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_HEADING: Final = re.compile(r"heading ([1-9])|(title)", re.I)
_LEVELS: Final = 6
_MOST_STYLES: Final = 10_000


def word_text(data: bytes) -> str:
    """Raises BadContext and DrawingTooLarge."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            document = _member(archive, "word/document.xml")
            styles = _member(archive, "word/styles.xml") if "word/styles.xml" in archive.namelist() else b""
    except _BROKEN_ARCHIVE as error:
        if isinstance(error, BadContext | DrawingTooLarge):
            raise
        raise BadContext(f"The context is no Word document ({type(error).__name__}). Save it as .docx again.") from None
    named = _Styles()
    if styles:
        _parse(styles, named)
    text = _Markdown(named.levels, named.lists)
    _parse(document, text)
    return "\n".join(text.lines)


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as member:
        data = member.read(_XML_BYTES + 1)
    if len(data) > _XML_BYTES:
        raise DrawingTooLarge(f"The context has more than {_XML_BYTES:,} bytes when it is unpacked. Shorten it.")
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise BadContext("The context defines entities of its own, which no Word document does. Save it again.")
    return data


def _parse(data: bytes, target: Any) -> None:
    parser = ElementTree.XMLParser(target=target)  # noqa: S314 - without entities: see _member
    try:
        parser.feed(data)
        parser.close()
    except ElementTree.ParseError as error:
        raise BadContext(f"The context is a broken Word document: {error}. Save it again.") from None


class _Styles:
    """What an XML parser calls: which styles are headings, of which level, and which are lists (2)."""

    def __init__(self) -> None:
        self.levels: dict[str, int] = {}
        self.lists: set[str] = set()
        self._style = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == f"{_WORDS}style":
            self._style = attributes.get(f"{_WORDS}styleId", "")
        elif self._style and len(self.levels) + len(self.lists) < _MOST_STYLES:
            value = attributes.get(f"{_WORDS}val", "")
            if tag == f"{_WORDS}name":
                found = _HEADING.fullmatch(value)
                if found is not None:
                    self.levels[self._style] = min(int(found.group(1) or 1), _LEVELS)
                elif value.lower().startswith("list"):
                    self.lists.add(self._style)
            elif tag == f"{_WORDS}outlineLvl" and value.isdecimal() and int(value) < _LEVELS:
                self.levels.setdefault(self._style, int(value) + 1)

    def data(self, text: str) -> None: ...
    def end(self, tag: str) -> None: ...
    def close(self) -> None: ...


class _Paragraph:
    __slots__ = ("level", "listed", "parts")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.level = 0
        self.listed = False


class _Markdown:
    """What an XML parser calls: keeps lines, each with the text of the innermost paragraph, and no tree (3)."""

    def __init__(self, levels: dict[str, int], lists: set[str]) -> None:
        self.lines: list[str] = []
        self._levels, self._lists = levels, lists
        self._open: list[_Paragraph] = []
        self._tables = 0
        self._row: list[list[str]] = []
        self._rows = 0
        self._in_text = False
        self._skipped = 0
        self._depth = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _MOST_NESTED:
            raise BadContext("The context is nested deeper than any Word document. Save it again.")
        self._in_text = tag == f"{_WORDS}t" and not self._skipped
        name = tag.removeprefix(_WORDS)
        if tag == _FALLBACK:
            self._skipped += 1  # the same text once more, for programs that do not know the other form
        elif name == "p":
            self._open.append(_Paragraph())
        elif name == "tbl":
            self._tables += 1
            self._rows = 0 if self._tables == 1 else self._rows
        elif name == "tr" and self._tables == 1:
            self._row = []
        elif name == "tc" and self._tables == 1:
            self._row.append([])
        elif self._open:
            self._format(name, attributes)

    def _format(self, name: str, attributes: dict[str, str]) -> None:
        value = attributes.get(f"{_WORDS}val", "")
        paragraph = self._open[-1]
        if name == "pStyle":
            paragraph.level = self._levels.get(value, paragraph.level)
            paragraph.listed |= value in self._lists
        elif name == "outlineLvl" and value.isdecimal() and int(value) < _LEVELS:
            paragraph.level = int(value) + 1
        elif name == "numPr":
            paragraph.listed = True
        elif name in ("tab", "br", "cr"):
            paragraph.parts.append(" ")

    def data(self, text: str) -> None:
        if self._in_text and self._open:
            self._open[-1].parts.append(text)

    def end(self, tag: str) -> None:
        self._depth -= 1
        self._in_text = False
        name = tag.removeprefix(_WORDS)
        if tag == _FALLBACK:
            self._skipped -= 1
        elif name == "p":
            self._end_paragraph(self._open.pop())
        elif name == "tr" and self._tables == 1:
            self._end_row()
        elif name == "tbl":
            self._tables -= 1
            if not self._tables:
                self.lines.append("")

    def _end_paragraph(self, paragraph: _Paragraph) -> None:
        text = " ".join("".join(paragraph.parts).split())
        if not text:
            return
        if self._tables:
            if self._row:
                self._row[-1].append(text)
        elif paragraph.level:
            self.lines += ["", f"{'#' * paragraph.level} {text}", ""]
        elif paragraph.listed:
            self.lines.append(f"- {text}")
        else:
            self.lines += [text, ""]

    def _end_row(self) -> None:
        cells = [" ".join(texts).replace("|", "\\|") for texts in self._row]
        if not any(cells):
            return
        if not self._rows:
            self.lines.append("")
        self.lines.append(f"| {' | '.join(cells)} |")
        self._rows += 1
        if self._rows == 1:
            self.lines.append(f"|{'---|' * len(cells)}")

    def close(self) -> None: ...
