"""The context of a drawing: a document beside it (.docx, .txt, .md) that says what is meant."""

from __future__ import annotations

import io
import lzma
import re
import struct
import zipfile
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final
from xml.etree import ElementTree

from penstock.systems.security_assistant.drawing.pdf import BadDrawing, DrawingTooLarge

CONTEXT_BYTES: Final = 10 * 1024 * 1024
ENDINGS: Final = (".docx", ".txt", ".md")
_XML_BYTES: Final = 20 * 1024 * 1024
"""Of a document when it is unpacked: a small file can hold very much of the same."""
_BROKEN_ARCHIVE: Final = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(LookupError, OSError, RuntimeError, EOFError, ValueError),
)
"""What zipfile raises of a file that is none, or was changed."""
_MOST_NESTED: Final = 200
"""Elements in elements: tables in cells of tables have some tens."""
_WORDS: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
# Each part ends where the next begins, and is never tried again: a line may have megabytes of blanks.
_FACT: Final = re.compile(r"\s*+(?:[-*•]\s*+)?([A-Za-z][A-Za-z /_-]++)\s*+[:=]\s*+(\S.{0,500})")
_NAME_LETTERS: Final = 61
_REQUIREMENT: Final = re.compile(r"\b(shall|must|required|requires?|ensure)\b", re.I)
_MOST_LINES: Final = 1_000


class BadContext(BadDrawing):
    """A document that cannot be read."""


@dataclass(frozen=True, slots=True)
class Context:
    """Facts (`Standard: EN 60839`), and sentences that ask for something."""

    facts: dict[str, str] = field(default_factory=dict)
    requirements: tuple[str, ...] = ()
    lines: int = 0

    def summary(self) -> dict[str, Any]:
        return {"lines": self.lines, "facts": len(self.facts), "requirements": len(self.requirements)}

    def form(self) -> dict[str, Any]:
        return asdict(self) | {"requirements": list(self.requirements)}

    @classmethod
    def of(cls, form: dict[str, Any]) -> Context:
        return cls(form["facts"], tuple(form["requirements"]), form["lines"])


def ending_of(file_name: str) -> str:
    """`.docx`; raises BadContext for a kind that is not read."""
    ending = PurePosixPath(file_name).suffix.lower()
    if ending not in ENDINGS:
        raise BadContext(f"A context is {', '.join(ENDINGS)}, not {file_name[:100]!r}. Save it as one of them.")
    return ending


def check_context(file_name: str, data: bytes) -> None:
    """Raises BadContext."""
    context_text(file_name, data)


def context_text(file_name: str, data: bytes) -> str:
    """The document's text. Raises BadContext."""
    if len(data) > CONTEXT_BYTES:
        raise DrawingTooLarge(f"The context has {len(data):,} bytes; {CONTEXT_BYTES:,} are the limit. Shorten it.")
    if ending_of(file_name) == ".docx":
        return _docx(data)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadContext("The context is no UTF-8 text. Save it as UTF-8.") from None


def read_context(text: str) -> Context:
    """What the text says, by its form: `name: value`, and sentences with shall or must."""
    lines = [line.strip() for line in text.splitlines() if line.strip()][:_MOST_LINES]
    facts: dict[str, str] = {}
    requirements = []
    for line in lines:
        fact = _FACT.fullmatch(line)
        name = "" if fact is None else fact.group(1).strip()
        if fact is not None and len(name) <= _NAME_LETTERS:
            facts.setdefault(name, fact.group(2).strip())
        if _REQUIREMENT.search(line):
            requirements.append(line)
    return Context(facts, tuple(requirements), len(lines))


def _docx(data: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open("word/document.xml") as member:
            document = member.read(_XML_BYTES + 1)
    except _BROKEN_ARCHIVE as error:
        raise BadContext(f"The context is no Word document ({type(error).__name__}). Save it as .docx again.") from None
    if len(document) > _XML_BYTES:
        raise DrawingTooLarge(f"The context has more than {_XML_BYTES:,} bytes when it is unpacked. Shorten it.")
    if b"<!DOCTYPE" in document or b"<!ENTITY" in document:
        raise BadContext("The context defines entities of its own, which no Word document does. Save it again.")
    texts = _Texts()
    parser = ElementTree.XMLParser(target=texts)  # noqa: S314 - see above
    try:
        parser.feed(document)
        parser.close()
    except ElementTree.ParseError as error:
        raise BadContext(f"The context is a broken Word document: {error}. Save it again.") from None
    return "\n".join(texts.paragraphs)


class _Texts:
    """What an XML parser calls: keeps the texts of the paragraphs, each with the innermost one, and no tree."""

    def __init__(self) -> None:
        self.paragraphs: list[str] = []
        self._open: list[list[str]] = []
        self._in_text = False
        self._depth = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _MOST_NESTED:
            raise BadContext("The context is nested deeper than any Word document. Save it again.")
        self._in_text = tag == f"{_WORDS}t"
        if tag == f"{_WORDS}p":
            self._open.append([])

    def data(self, text: str) -> None:
        if self._in_text and self._open:
            self._open[-1].append(text)

    def end(self, tag: str) -> None:
        self._depth -= 1
        self._in_text = False
        if tag == f"{_WORDS}p":
            self.paragraphs.append("".join(self._open.pop()))

    def close(self) -> None: ...
