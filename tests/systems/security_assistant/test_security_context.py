"""Requirements of documents that other people wrote: in headings, lists and tables of .docx, .md and .txt."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest
from security_world import docx, made, storage_of

from penstock.systems.security_assistant.context_document.document import document_text
from penstock.systems.security_assistant.context_document.requirements import context_of
from penstock.systems.security_assistant.drawing.context import BadContext
from penstock.systems.security_assistant.drawing.pdf import DrawingTooLarge
from penstock.systems.security_assistant.jobs.processor import Processor

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'

BRIEF = """
# Emergency Wing: security brief
Standard: EN 60839
**Client:** St. Mary's

## Access control requirements
- Card readers on both sides of D-1.04
- [ ] Doors fail *safe* on fire alarm
  and report to the panel
1. Exit buttons are green

### Locks
Magnetic locks of at least 500 kg.

## Cameras must cover every entrance
Images are kept 30 days. Recordings shall be encrypted. See [the guide](https://example.org).

## Schedule

| ID | Requirement | Priority |
|----|-------------|----------|
| R1 | Every reader is **flush** | high |
| R2 | Contacts on all doors | low |

| Parameter | Value |
|---|---|
| Voltage | 24 V DC |

Each door shall:
- close by itself
- report its state

Other notes
- nice to have a logo

```
the code must not be read
```
"""

KONZEPT = """SICHERHEITSKONZEPT

1. ALLGEMEINES
Objekt: Rathaus Süd
Das Gebäude hat drei Geschosse.

2. ANFORDERUNGEN
a) Zutritt nur mit Karte
b) Türen schließen selbsttätig und sind
   im Brandfall offen
2.1 Kameras an allen Eingängen

3. SONSTIGES
Die Türen müssen überwacht werden. Farbe nach Wahl.
Nr.\tAnforderung\tOrt
1\tLeser bündig\tEG
2\tTaster grün\t1. OG
"""


def test_requirements_of_markdown_are_found_in_headings_lists_and_tables() -> None:
    found = context_of(document_text("brief.md", BRIEF.encode()))
    assert found.facts == {"Standard": "EN 60839", "Client": "St. Mary's", "Voltage": "24 V DC"}
    assert found.requirements == (
        "Card readers on both sides of D-1.04",
        "Doors fail safe on fire alarm and report to the panel",
        "Exit buttons are green",
        "Magnetic locks of at least 500 kg.",
        "Cameras must cover every entrance",
        "Recordings shall be encrypted.",
        "R1: Every reader is flush",
        "R2: Contacts on all doors",
        "Each door shall: close by itself",
        "Each door shall: report its state",
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_requirements_of_a_german_text_file_are_found(encoding: str) -> None:
    found = context_of(document_text("Konzept.TXT", KONZEPT.replace("\n", "\r\n").encode(encoding)))
    assert found.facts == {"Objekt": "Rathaus Süd"}
    assert found.requirements == (
        "Zutritt nur mit Karte",
        "Türen schließen selbsttätig und sind im Brandfall offen",
        "Kameras an allen Eingängen",
        "Die Türen müssen überwacht werden.",
        "1: Leser bündig",
        "2: Taster grün",
    )


@pytest.mark.parametrize(
    "sentence",
    [
        "Chaque porte doit avoir un contact.",
        "Todas las puertas deben cerrarse.",
        "Ogni porta deve chiudersi.",
        "Elke deur moet sluiten.",
        "Der Zugang darf nur mit Karte möglich sein.",
        "Readers are to be flush.",
    ],
)
def test_what_must_be_is_known_in_several_languages(sentence: str) -> None:
    assert context_of(f"Une phrase. {sentence} Nothing else.").requirements == (sentence,)


def word(body: str, styles: str = "") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", f"<w:document {W}><w:body>{body}</w:body></w:document>")
        if styles:
            archive.writestr("word/styles.xml", f"<w:styles {W}>{styles}</w:styles>")
    return stream.getvalue()


def paragraph(text: str, style: str = "", more: str = "") -> str:
    named = f'<w:pStyle w:val="{style}"/>' if style else ""
    return f"<w:p><w:pPr>{named}{more}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def table(*rows: tuple[str, ...]) -> str:
    cells = ("".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in row) for row in rows)
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>"


GERMAN_STYLES = (
    '<w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>'
    '<w:style w:styleId="Listenabsatz"><w:name w:val="List Paragraph"/></w:style>'
    '<w:style w:styleId="Eigene"><w:name w:val="Kapitel"/><w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>'
)
NUMBERED = '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>'


def test_requirements_of_word_are_found_in_headings_lists_and_tables() -> None:
    body = "".join(
        (
            paragraph("Allgemeines", "berschrift1"),
            paragraph("Das Haus ist alt."),
            table(("Norm", "EN 60839"), ("Spannung", "24 V")),
            paragraph("Anforderungen an Türen", "berschrift1"),
            paragraph("Leser bündig", "Listenabsatz"),
            paragraph("Taster grün", more=NUMBERED),
            paragraph("Besonderes", "Eigene"),
            paragraph("Glas im Flur."),
            paragraph("Anhang", "berschrift1"),
            paragraph("Nur zur Ansicht.", "Listenabsatz"),
            table(("Nr.", "Anforderung"), ("7", "Kamera | Eingang"), ("8", "Sirene")),
        )
    )
    text = document_text("a.docx", word(body, GERMAN_STYLES))
    assert "# Anforderungen an Türen" in text.splitlines()
    found = context_of(text)
    assert found.facts == {"Norm": "EN 60839", "Spannung": "24 V"}
    assert found.requirements == ("Leser bündig", "Taster grün", "Glas im Flur.", "7: Kamera | Eingang", "8: Sirene")


def test_a_word_document_is_limited_as_every_upload_is() -> None:
    nested = "<w:p>" * 300 + "</w:p>" * 300
    assert document_text("a.docx", docx("one", "two")).split() == ["one", "two"]
    for data, told in (
        (b"no archive", "no Word document"),
        (word(nested), "nested deeper"),
        (docx("x", head='<!DOCTYPE x [<!ENTITY a "b">]>'), "entities"),
        (word("<w:p>"), "broken Word document"),
    ):
        with pytest.raises(BadContext, match=told):
            document_text("a.docx", data)
    with pytest.raises(DrawingTooLarge, match="unpacked"):
        document_text("a.docx", word(" " * 21_000_000))
    with pytest.raises(BadContext, match="UTF-8"):
        document_text("a.txt", "für".encode("cp1252"))


def test_a_text_of_one_endless_line_is_read_in_no_time() -> None:
    for text in ("a " * 2_000_000, "must " * 500_000, "|" * 3_000_000, "#" * 1_000_000, "- " * 1_000_000):
        assert len(context_of(text).requirements) <= 1


def test_a_job_finds_the_requirements_of_its_own_document(tmp_path: Path) -> None:
    with storage_of("local", tmp_path) as storage:
        done = Processor(storage).process(made(storage, context_name="Konzept.txt", context=KONZEPT.encode()))
        assert done is not None
        point = done.checkpoints["context_extracted"]
        assert point.summary == {"lines": 14, "facts": 1, "requirements": 6}
        assert "1: Leser bündig" in json.loads(storage.get(point.data_key))["requirements"]
