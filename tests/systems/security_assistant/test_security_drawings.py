"""Drawings: what is read of a PDF, what is counted, what stands in the workbook, and what is told of bad files."""

from __future__ import annotations

import io
import zipfile
from contextlib import suppress

import pytest
from openpyxl import load_workbook
from pypdf import PdfReader, PdfWriter
from security_world import docx

from penstock.systems.security_assistant.context_document.document import document_text
from penstock.systems.security_assistant.context_document.requirements import context_of
from penstock.systems.security_assistant.drawing import agents, pdfium
from penstock.systems.security_assistant.drawing import pdf as drawings
from penstock.systems.security_assistant.drawing.agents import ComponentCounter, NothingFound
from penstock.systems.security_assistant.drawing.components import (
    Component,
    Components,
    count_components,
    legend_of,
    type_of,
)
from penstock.systems.security_assistant.drawing.context import BadContext, Context
from penstock.systems.security_assistant.drawing.pdf import (
    BadDrawing,
    BrokenDrawing,
    Drawing,
    DrawingTooLarge,
    EmptyDrawing,
    EncryptedDrawing,
    NotPdf,
    check_drawing,
    read_drawing,
)
from penstock.systems.security_assistant.drawing.sample import LEGEND, Building, PdfPage, pdf
from penstock.systems.security_assistant.drawing.scans import scanned_page
from penstock.systems.security_assistant.drawing.schedule import (
    CHECKS,
    Heading,
    evaluate,
    read_schedule,
    schedule_sheets,
    workbook,
)

HEADING = Heading("7central", "St. Mary's", "Wing", "job_1", "a.pdf", "2030-01-15T10:00:00.000Z")


def drawn(*lines: tuple[float, float, str]) -> Drawing:
    page = PdfPage()
    for x, y, text in lines:
        page.text(x, y, text)
    return read_drawing(pdf([page]))


def xlsx(components: Components) -> bytes:
    return workbook(schedule_sheets(components, None, HEADING), HEADING)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("levels", "doors"), [(1, 2), (2, 12), (3, 16)])
def test_S2_16_every_component_of_a_drawing_is_counted_once(levels: int, doors: int) -> None:
    building = Building(levels=levels, doors=doors)
    found = count_components(read_drawing(building.pdf()))
    assert found.by_type == building.counts()
    assert found.stated == {"door": levels * doors}
    assert found.legend == LEGEND
    assert all(one.on_plan for one in found.found)
    assert all(one.in_schedule for one in found.found if one.type not in ("camera", "motion_detector"))


def test_S2_16_a_drawing_is_the_same_bytes_each_time_and_a_whole_pdf() -> None:
    assert Building().pdf() == Building().pdf()
    reader = PdfReader(io.BytesIO(Building().pdf()), strict=True)
    assert len(reader.pages) == 4 and "LEVEL 0 PLAN" in reader.pages[1].extract_text()


def test_S2_16_doors_know_their_rooms_and_what_is_at_them() -> None:
    found = {one.designator: one for one in count_components(read_drawing(Building().pdf())).found}
    reader = found["CR-1.04"]
    assert (reader.type, reader.door, reader.location, reader.level) == ("reader", "D-1.04", "Pharmacy", "Level 1")
    assert reader.pages == (3, 4)
    assert found["CAM-0.01"].door == "" and found["CAM-0.01"].level == "Level 0"


def test_S2_16_a_table_is_read_by_its_columns() -> None:
    table = read_drawing(Building().pdf()).pages[-1].tables[0]
    assert table.header[:4] == ("door", "location", "level", "reader")
    assert table.rows[4]["door"] == "D-0.05" and table.rows[4]["reader"] == "-"
    assert table.rows[4]["contact"] == "DC-0.05"


def test_S2_16_the_drawings_own_legend_goes_before_custom() -> None:
    own = drawn((60, 700, "LEGEND"), (60, 680, "X"), (120, 680, "Turnstile reader"), (60, 300, "X-1 CR-1 X-2"))
    assert legend_of(own) == {"X": "Turnstile reader"}
    assert [one.designator for one in count_components(own).found] == ["X-1", "X-2"]
    without = drawn((60, 300, "CR-1"), (60, 280, "CAM-7"), (60, 260, "ZZ-1"))
    assert count_components(without).by_type == {"camera": 1, "reader": 1}


def test_S2_16_legends_may_have_code_and_words_in_one_text() -> None:
    own = drawn((60, 700, "SYMBOL LEGEND"), (60, 685, "QR = Card reader"), (60, 670, "QB: Exit push button"))
    assert legend_of(own) == {"QR": "Card reader", "QB": "Exit push button"}
    plain = drawn((60, 700, "LEGEND:"), (60, 685, "QR Card reader"), (60, 670, "DOOR SCHEDULE"), (60, 655, "Words"))
    assert legend_of(plain) == {"QR": "Card reader"}


def test_S2_16_a_plan_and_a_table_on_one_page_are_told_apart() -> None:
    head = [(60, 700, "Door"), (150, 700, "Location"), (260, 700, "Reader")]
    rows = [(60, 680, "D-1"), (150, 680, "Main entrance lobby"), (260, 680, "CR-1")]
    rows += [(60, 660, "D-2"), (150, 660, "Stores"), (260, 660, "CR-2")]
    found = {one.designator: one for one in count_components(drawn(*head, *rows, (60, 300, "D-1"))).found}
    assert (found["D-1"].on_plan, found["D-1"].in_schedule) == (True, True)
    assert (found["D-2"].on_plan, found["D-2"].in_schedule) == (False, True)
    assert (found["CR-1"].location, found["CR-2"].location) == ("Main entrance lobby", "Stores")


@pytest.mark.parametrize(
    ("title", "level"),
    [
        ("LEVEL 02 PLAN", "Level 02"),
        ("Floor B", "Level B"),
        ("Ground floor security layout", "Ground floor"),
        ("BASEMENT PLAN", "Basement"),
        ("DOOR SCHEDULE", ""),
    ],
)
def test_S2_16_the_level_is_in_the_largest_line_of_a_page(title: str, level: str) -> None:
    page = PdfPage()
    page.text(60, 800, "11/16/26", size=8)
    page.text(60, 760, title, size=20)
    page.text(60, 300, "CR-1", size=8)
    assert count_components(read_drawing(pdf([page]))).found[0].level == level


def test_S2_16_cells_that_are_close_together_are_cells() -> None:
    """The places are those of a page that a browser printed: headings are centred, cells are half a letter apart."""
    page = PdfPage()
    page.text(33.75, 736.5, "Ground floor security layout", size=24)
    page.text(33.75, 698.25, "Legend", size=18)
    for y, code, words in (
        (666, "D", "Door, access controlled"),
        (649.5, "CR", "Card reader"),
        (633, "REX", "Exit button"),
    ):
        page.text(36, y, code, size=12)
        page.text(65.67, y, words, size=12)
    for x, words in ((43.59, "Door"), (114.96, "Location"), (206.33, "Reader"), (272.7, "Exit")):
        page.text(x, 542.25, words, size=12)
    for x, words in ((41.25, "D-101"), (85.93, "Main entrance lobby"), (206, "CR-101"), (259.36, "REX-101")):
        page.text(x, 516.75, words, size=12)
    drawing = read_drawing(pdf([page]))
    assert legend_of(drawing) == {"D": "Door, access controlled", "CR": "Card reader", "REX": "Exit button"}
    assert drawing.pages[0].tables[0].rows == (
        {"door": "D-101", "location": "Main entrance lobby", "reader": "CR-101", "exit": "REX-101"},
    )


def test_S2_16_numbers_of_drawings_are_no_designators() -> None:
    assert count_components(drawn((60, 60, "DRAWING NO"), (160, 60, "D-201"), (60, 40, "SHEET D-9"))).found == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("CR-101", ["CR-101"]),
        ("CR101", ["CR101"]),
        ("CR-1.04A", ["CR-1.04A"]),
        ("CR-1, CR-2/CR-3", ["CR-1", "CR-2", "CR-3"]),
        ("CR-02-014", ["CR-02-014"]),
        ("CR 7", ["CR 7"]),
        ("CR-1.04/A", ["CR-1.04/A"]),
        ("CR-104-IN, CR-104-OUT", ["CR-104-IN", "CR-104-OUT"]),
        ("XCR-1 CR-1-2-3-4-5 CR-12345 aCR-1 CR-", []),
    ],
)
def test_S2_16_designators(text: str, found: list[str]) -> None:
    assert [one.designator for one in count_components(drawn((60, 300, text))).found] == found


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("Proximity card READER", "reader"),
        ("Request to exit", "exit_button"),
        ("Door contact", "door_contact"),
        ("Access controlled door", "door"),
        ("Fixed dome camera", "camera"),
        ("Smoke detector", "smoke_detector"),
        ("Door closer", "door_closer"),
        ("Fluchttürterminal", "fluchttürterminal"),
        ("Door hold-open magnet", "door_holder"),
        ("Brandschutztür", "door"),
        ("Türen", "door"),
        ("Tür mit Nummer", "door"),
        ("?", "unknown"),
    ],
)
def test_S2_16_types_by_their_description(words: str, kind: str) -> None:
    assert type_of(words) == kind


# ── files that cannot be used ────────────────────────────────────────────────────────────────────


def encrypted() -> bytes:
    writer = PdfWriter()
    writer.append(io.BytesIO(Building(levels=1, doors=2).pdf()))
    writer.encrypt("secret", algorithm="RC4-128")
    stream = io.BytesIO()
    writer.write(stream)
    return stream.getvalue()


BAD_FILES = {
    "empty": (b"", NotPdf, 400),
    "workbook": (b"PK\x03\x04 a workbook", NotPdf, 400),
    "page": (b"<html>not found</html>", NotPdf, 400),
    "head": (b"%PDF-1.7\nand nothing else", BrokenDrawing, 422),
    "cut": (Building(levels=1, doors=2).pdf()[:600], BrokenDrawing, 422),
    "encrypted": (encrypted(), EncryptedDrawing, 422),
    "no pages": (pdf([]), EmptyDrawing, 422),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_S2_17_a_file_that_cannot_be_read_is_told_so(name: str) -> None:
    data, error, status = BAD_FILES[name]
    with pytest.raises(error) as told:
        check_drawing(data)
    assert told.value.status == status and str(told.value).endswith(".")


def test_S2_17_every_cut_and_every_changed_byte_is_an_error_of_ours_or_is_read() -> None:
    whole = Building(levels=1, doors=2).pdf()
    for at in range(0, len(whole), 97):
        for data in (whole[:at], whole[:at] + b"\xff" + whole[at + 1 :]):
            with suppress(BadDrawing):
                # Every sixth as far as PDFium: that is another process each time.
                read_drawing(data) if at % (6 * 97) == 0 else check_drawing(data)


def test_S2_17_a_huge_drawing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DrawingTooLarge, match="52,428,801 bytes"):
        check_drawing(b"%PDF-" + b"\0" * (50 * 1024 * 1024 - 4))
    with pytest.raises(DrawingTooLarge, match="501 pages"):
        check_drawing(pdf([PdfPage() for _ in range(501)]))
    monkeypatch.setattr(drawings, "MOST_PIECES", 10)
    with pytest.raises(DrawingTooLarge, match="more than 10 pieces"):
        read_drawing(Building(levels=1, doors=2).pdf())


def test_S2_17_scanned_and_blank_drawings_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no text recognition is installed."""
    monkeypatch.setattr(scanned_page, "MODULES", ("no_such_library",))
    monkeypatch.setattr(agents, "OCR_MODULES", ("no_such_library",))
    picture, text, blank = PdfPage(), PdfPage(), PdfPage()
    picture.image(0, 0, 1190, 841)
    text.text(60, 60, "no designator")
    for pages, kind, words in (
        ([picture], "scanned", r"is scanned.*penstock\[ocr\]"),
        ([blank], "blank", "are blank"),
        ([text], "vector", "No component"),
        ([picture, text], "mixed", "No component"),
    ):
        data = pdf(pages)
        drawing = read_drawing(data)
        assert drawing.kind == kind
        with pytest.raises(NothingFound, match=words):
            ComponentCounter().components(drawing, data, None)


def test_S2_17_what_pdfium_cannot_read_within_its_bounds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdfium, "MEMORY_BYTES", 15_000_000)
    with pytest.raises(BrokenDrawing, match="cannot be read"):
        read_drawing(Building(levels=1, doors=2).pdf())


# ── the context ──────────────────────────────────────────────────────────────────────────────────


def test_S2_16_a_context_is_read_from_word_and_from_text() -> None:
    lines = ("Standard: EN 60839", "Every reader shall be flush mounted.", "Just words")
    for text in (document_text("brief.docx", docx(*lines)), document_text("brief.TXT", "\n".join(lines).encode())):
        found = context_of(text)
        assert found.facts == {"Standard": "EN 60839"} and found.requirements == (lines[1],) and found.lines == 3


BAD_CONTEXTS = {
    "a PDF": ("a.pdf", b"%PDF-"),
    "without an ending": ("a", b""),
    "no text": ("a.txt", b"\xff\xfe\x00"),
    "no archive": ("a.docx", b"no archive"),
    "cut": ("a.docx", docx("x")[:60]),
    "entities": ("a.docx", docx("x", head='<!DOCTYPE x [<!ENTITY a "b">]>')),
    "no XML": ("a.docx", docx("<oops>")),
}


@pytest.mark.parametrize("kind", BAD_CONTEXTS)
def test_S2_17_a_context_that_cannot_be_read_is_told_so(kind: str) -> None:
    with pytest.raises(BadContext):
        document_text(*BAD_CONTEXTS[kind])


def test_S2_17_a_context_that_unpacks_to_very_much_is_refused() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * (21 * 1024 * 1024))
    with pytest.raises(DrawingTooLarge, match="unpacked"):
        document_text("a.docx", stream.getvalue())


# ── the workbook and its evaluation ──────────────────────────────────────────────────────────────


def test_S2_16_the_workbook_has_doors_components_and_a_summary() -> None:
    components = count_components(read_drawing(Building().pdf()))
    context = Context({"Standard": "EN 60839"}, ("Every reader shall be flush.",), 2)
    sheets = read_schedule(workbook(schedule_sheets(components, context, HEADING), HEADING))
    assert list(sheets) == ["Schedule", "Components", "Summary"]
    assert sheets["Schedule"][0][:5] == ("Door", "Location", "Level", "Reader", "Exit button")
    assert sheets["Schedule"][1][:5] == ("D-0.01", "Triage", "Level 0", "CR-0.01", "EB-0.01")
    assert len(sheets["Schedule"]) == 25 and len(sheets["Components"]) == 127
    summary = dict(sheets["Summary"][1:])
    assert (summary["Components"], summary["Door"], summary["Reader"]) == (126, 24, 20)
    assert summary["Standard"] == "EN 60839" and summary["Requirement"] == "Every reader shall be flush."


def test_S2_16_what_a_drawing_says_is_never_a_formula() -> None:
    evil = Component("=1+1", "door", "@SUM(A1)", (1,), "=1+1", '=HYPERLINK("http://x","y")', "+1", True, True)
    book = load_workbook(
        io.BytesIO(xlsx(Components((evil, Component("D-\x001", "door", "-1", (1,), level="x" * 40_000)))))
    )
    cells = [cell for sheet in book.worksheets for row in sheet.iter_rows() for cell in row]
    assert all(cell.data_type != "f" for cell in cells)
    assert {"=1+1", "@SUM(A1)", "+1", "-1", "D-1"} <= {cell.value for cell in cells}
    assert max(len(cell.value) for cell in cells if isinstance(cell.value, str)) == 32_767


def test_S2_16_a_good_drawing_has_the_full_score() -> None:
    components = count_components(read_drawing(Building().pdf()))
    found = evaluate(components, xlsx(components))
    assert (found.score, found.passed, found.findings) == (100, True, ())


def test_S2_16_a_fact_of_the_context_is_not_taken_for_a_count() -> None:
    components = count_components(read_drawing(Building(levels=1, doors=2).pdf()))
    context = Context({"Door": "oak", "Reader": "flush"}, (), 2)
    book = workbook(schedule_sheets(components, context, HEADING), HEADING)
    assert evaluate(components, book).score == 100


def test_S2_16_doors_that_another_agent_has_not_linked_are_no_error() -> None:
    alone = Components((Component("D-1", "door", "Door", (1,)), Component("CR-1", "reader", "Reader", (1,))))
    assert evaluate(alone, xlsx(alone)).passed


def test_S2_16_what_does_not_agree_is_found() -> None:
    def one(name: str, kind: str, door: str = "", *, plan: bool = True, table: bool = True) -> Component:
        return Component(name, kind, kind, (1,), door, "", "", plan, table)

    components = Components(
        (
            one("D-1", "door", "D-1"),
            one("D-2", "door", "D-2", plan=False),
            one("CR-1", "reader", "D-1", table=False),
            one("CR-9", "reader"),
            one("ML-2", "magnetic_lock", "D-2"),
        ),
        stated={"door": 3},
    )
    found = evaluate(components, xlsx(components))
    assert {finding.check for finding in found.findings} == set(CHECKS[2:])
    assert found.passed and found.score == 100 - 4 * len(found.findings)


def test_S2_16_a_workbook_that_lacks_a_component_does_not_pass() -> None:
    components = count_components(read_drawing(Building(levels=1, doors=2).pdf()))
    short = Components(components.found[1:], components.legend, components.stated)
    found = evaluate(components, xlsx(short))
    assert not found.passed
    assert [finding.check for finding in found.findings if finding.severity == "error"] == list(CHECKS[:2])
