"""Facts and requirements of a document, by the form of its blocks. It needs no model, and reads six languages.

A requirement is

1. a sentence, a heading or an item that says that something must be (`shall`, `muss`, `doit`, …);
2. an item, a row or a paragraph under a heading that announces requirements, until the next heading as high as that;
3. an item under a line that asks for what follows (`Every door shall:`), together with that line;
4. a row of a table that has a column of requirements, with its number if the table has a column of them.

A fact is `Name: value`, or a row of a table with two columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from penstock.systems.security_assistant.context_document.document import (
    Block,
    Heading,
    ListItem,
    Paragraph,
    TableRow,
    blocks_of,
    chapter_level,
)
from penstock.systems.security_assistant.drawing.context import Context

MOST_REQUIREMENTS: Final = 1_000
_MUST: Final = re.compile(
    r"\b(?:shall|must|required|requires?|ensure|mandatory|(?:is|are) to be|needs? to|ha(?:s|ve) to"
    r"|muss|müssen|soll(?:en|te|ten)?|erforderlich|zwingend|sicherzustellen|vorzusehen|d(?:arf|ürfen) (?:nicht|nur)"
    r"|doit|doivent|devra|devront|obligatoires?|exigée?s?|requise?s?"
    r"|deben?|deberán?|obligatori[oa]s?|requerid[oa]s?"
    r"|deve|devono|devem|dovr(?:à|anno)|deverá|deverão|obbligatori[oae]"
    r"|moet(?:en)?|dien(?:t|en) te|verplicht|vereist)\b",
    re.I,
)
_ANNOUNCES: Final = re.compile(
    r"\b(?:requirements?|acceptance criteria|must[- ]haves?|\w*anforderung(?:en)?|vorgaben|exigences?|prescriptions?"
    r"|requisitos?|requisiti|vereisten|eisen)\b",
    re.I,
)
_NUMBER: Final = re.compile(r"(?:id|no|nr|ref|reference|number|nummer|item|pos|#|n°|nº)\.?", re.I)
_FACT: Final = re.compile(r"([^\W\d_][\w\s/().&'-]{0,60})[:=]\s*(\S.{0,500})")
_SENTENCE: Final = re.compile(r"(?<=[.!?])(?<!\b[A-Za-z]\.)(?<!\be\.g\.)(?<!\bi\.e\.)(?<!z\. B\.)\s+(?=[^\W\d_])")
_COLUMNS: Final = frozenset(
    ("parameter", "name", "item", "property", "value", "description", "wert", "eigenschaft", "bezeichnung", "valeur")
)


@dataclass(slots=True)
class _Reader:
    """What was found so far, and where the text is."""

    facts: dict[str, str] = field(default_factory=dict)
    requirements: dict[str, None] = field(default_factory=dict)
    section: int | None = None
    """The level of the heading that announced requirements (2)."""
    lead: str = ""
    """The line that asks for the items that follow it (3)."""
    lead_depth: int = -1

    def read(self, block: Block) -> None:
        match block:
            case Heading(level, text):
                self._heading(level, text)
            case Paragraph(text):
                self._paragraph(text)
            case ListItem(depth, text, chapter):
                self._item(depth, text, chapter)
            case TableRow(cells, header):
                self.lead = ""
                self._row(cells, header)

    def _heading(self, level: int, text: str) -> None:
        self.lead = ""
        if self.section is not None and level <= self.section:
            self.section = None
        if _ANNOUNCES.search(text) and not text.endswith("."):
            self.section = level if self.section is None else self.section
        elif _MUST.search(text):
            self._require(text)

    def _paragraph(self, text: str) -> None:
        self.lead, self.lead_depth = "", -1
        if text.endswith(":"):
            if self.section is not None or _MUST.search(text) or _ANNOUNCES.search(text):
                self.lead = text
            return
        self._fact(text)
        asking = [sentence for sentence in _SENTENCE.split(text) if _MUST.search(sentence)]
        for sentence in asking or ([text] if self.section is not None else []):
            self._require(sentence)

    def _item(self, depth: int, text: str, chapter: str) -> None:
        if chapter and self.section is None and _ANNOUNCES.search(text) and not _MUST.search(text):
            self._heading(chapter_level(chapter), text)  # `2. Requirements` is a heading, whatever it looks like
            return
        if self.lead_depth >= depth:
            self.lead, self.lead_depth = "", -1
        if text.endswith(":"):
            if self.section is not None or _MUST.search(text):
                self.lead, self.lead_depth = text, depth
            return
        self._fact(text)
        if self.lead and _MUST.search(self.lead) and not _MUST.search(text):
            self._require(f"{self.lead} {text}")
        elif self.lead or self.section is not None or _MUST.search(text):
            self._require(text)

    def _row(self, cells: tuple[str, ...], header: tuple[str, ...]) -> None:
        asked = next((at for at, name in enumerate(header) if _ANNOUNCES.search(name) and len(name) < 40), None)
        if cells is header or cells == header:
            if asked is None and len(cells) == 2 and not {cell.casefold() for cell in cells} & _COLUMNS:
                self._fact(": ".join(cells))
            return
        if asked is not None and asked < len(cells) and cells[asked]:
            numbered = next((at for at, name in enumerate(header) if at != asked and _NUMBER.fullmatch(name)), None)
            number = cells[numbered] if numbered is not None and numbered < len(cells) else ""
            self._require(f"{number}: {cells[asked]}" if number else cells[asked])
            return
        text = " – ".join(cell for cell in cells if cell)
        if self.section is not None or _MUST.search(text):
            self._require(text)
        elif len(cells) == 2 and all(cells):
            self._fact(": ".join(cells))

    def _fact(self, text: str) -> None:
        fact = _FACT.fullmatch(text)
        if fact is not None:
            self.facts.setdefault(fact.group(1).strip(), fact.group(2).strip())

    def _require(self, text: str) -> None:
        if len(self.requirements) < MOST_REQUIREMENTS:
            self.requirements.setdefault(text)


def context_of(text: str) -> Context:
    """What the text says and asks for."""
    reader = _Reader()
    for block in blocks_of(text):
        reader.read(block)
    return Context(reader.facts, tuple(reader.requirements), sum(1 for _ in _lines(text)))


def _lines(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if line.strip())
