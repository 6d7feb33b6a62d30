"""Drawings in the styles of other people: what is found on them, and whether the evaluation sees what is missing."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from bench.drawings import held_out, tuned
from bench.drawings.score import score
from bench.drawings.sheet import Drawing as Drawn
from bench.drawings.sheet import Sheet, Truth, pdf_of, scan_of

from penstock.systems.security_assistant.drawing.components import Component, Components, count_components
from penstock.systems.security_assistant.drawing.drawing_check import (
    DRAWING_CHECKS,
    check_against,
    check_drawing_marks,
)
from penstock.systems.security_assistant.drawing.legend import type_of
from penstock.systems.security_assistant.drawing.marks import Mark, unread_outlines
from penstock.systems.security_assistant.drawing.page import Drawing, Page, Shape, TextRun
from penstock.systems.security_assistant.drawing.pdf import read_drawing
from penstock.systems.security_assistant.drawing.schedule import Evaluation

STYLES = tuned.STYLES | held_out.STYLES
SEED = 11


@pytest.fixture(scope="module")
def read() -> dict[str, tuple[Drawn, Drawing, Components]]:
    """Every style once: each is a process of PDFium's."""
    found = {}
    for name, style in STYLES.items():
        drawn = style(SEED)
        drawing = read_drawing(drawn.pdf())
        found[name] = (drawn, drawing, count_components(drawing))
    return found


@pytest.mark.parametrize("style", STYLES)
def test_S2_16_devices_of_every_style_are_found(style: str, read: dict[str, tuple[Drawn, Drawing, Components]]) -> None:
    drawn, _, components = read[style]
    found = score(drawn.truth, components.found)
    assert found.recall > 0.95 and found.precision > 0.95, found
    assert found.typed >= 0.95 * found.right


@pytest.mark.parametrize("style", STYLES)
def test_S2_16_the_score_falls_when_devices_are_missing(
    style: str, read: dict[str, tuple[Drawn, Drawing, Components]]
) -> None:
    _, drawing, components = read[style]
    devices = [one for one in components.found if one.type != "door"]
    doors = [one for one in components.found if one.type == "door"]
    random.Random(SEED).shuffle(devices)
    scores = [
        check_drawing_marks(drawing, replace(components, found=(*doors, *devices[count:]))).score
        for count in (0, 1, len(devices) // 3, len(devices))
    ]
    assert scores[0] >= 95 and scores[0] > scores[1] > scores[2] >= scores[3], scores
    assert scores[3] < 60


def test_S2_16_a_judge_that_likes_everything_does_not_pass_what_lacks_devices(
    read: dict[str, tuple[Drawn, Drawing, Components]],
) -> None:
    _, drawing, components = read["bubbles"]
    kind = Evaluation(100, ("it looks nice",), ())
    assert check_against(drawing, components, kind).passed
    few = replace(components, found=components.found[:3])
    judged = check_against(drawing, few, kind)
    assert not judged.passed and judged.score < 30
    assert set(judged.checks) == {"it looks nice", *DRAWING_CHECKS}


def test_S2_16_a_row_without_a_mark_was_made_up(read: dict[str, tuple[Drawn, Drawing, Components]]) -> None:
    _, drawing, components = read["bubbles"]
    more = replace(components, found=(*components.found, Component("CR-777", "reader", "Card reader", (1,))))
    found = check_drawing_marks(drawing, more).findings
    assert [(one.check, one.severity, one.designators) for one in found] == [(DRAWING_CHECKS[1], "error", ("CR-777",))]
    assert found[0].message == "1 row has no mark on the drawing: CR-777."


def test_S2_16_a_legend_that_counts_is_compared(read: dict[str, tuple[Drawn, Drawing, Components]]) -> None:
    _, drawing, components = read["bare_codes"]
    assert components.legend_counts["DP"] == sum(one.designator == "DP" for one in components.found)
    short = [one for one in components.found if one.designator != "DP"]
    checks = {one.check for one in check_drawing_marks(drawing, replace(components, found=tuple(short))).findings}
    assert DRAWING_CHECKS[2] in checks


def test_S2_16_a_schedule_row_without_its_reader_is_told(read: dict[str, tuple[Drawn, Drawing, Components]]) -> None:
    _, drawing, components = read["schedule_sheet"]
    reader = next(one for one in components.found if one.type == "reader")
    rest = tuple(one for one in components.found if one != reader)
    found = check_drawing_marks(drawing, replace(components, found=rest)).findings
    assert [(one.check, one.severity, one.designators) for one in found] == [
        (DRAWING_CHECKS[3], "error", (f"{reader.door} reader",))
    ]


def test_S2_16_a_page_that_is_turned_is_turned_back() -> None:
    """A sheet that was plotted upright, though it lies: all its text stands at 90 degrees."""
    sheet = Sheet((400, 600))
    truth = []
    for at in range(4):
        sheet.circle(100, 100 + 80 * at, 10)
        sheet.text(96.2, 100 + 80 * at, "CR", 6.5, angle=90)
        sheet.text(103.8, 100 + 80 * at, str(at + 1), 6.5, angle=90)
        truth.append(Truth("reader", f"CR {at + 1}"))
    sheet.text(300, 300, "ALL READERS ARE MOUNTED AT A HEIGHT OF ONE METRE", 7, angle=90)
    found = score(truth, count_components(read_drawing(pdf_of([sheet.content()], [sheet.size]))).found)
    assert (found.recall, found.precision) == (1, 1)


@pytest.fixture(scope="module")
def scanned() -> tuple[list[Truth], Drawing]:
    """A small sheet, at 150 dpi, laid askew by two degrees."""
    sheet = Sheet((420, 300))
    truth = []
    for at in range(4):
        x = 60 + 95 * at
        sheet.circle(x, 240, 13)
        sheet.text(x, 245, "CR", 8)
        sheet.text(x, 235, str(at + 11), 8)
        sheet.text(x, 190, f"DC-{at + 11}", 8)
        sheet.text(x, 140, f"ES-{at + 11}", 8, angle=90)
        truth += [
            Truth("reader", f"CR {at + 11}"),
            Truth("contact", f"DC-{at + 11}"),
            Truth("lock", f"ES-{at + 11}"),
        ]
    sheet.text(210, 60, "READERS ARE MOUNTED AT ONE METRE", 8)
    return truth, read_drawing(scan_of(pdf_of([sheet.content()], [sheet.size]), 150, 2.0, random.Random(1)))


def test_S2_16_a_scan_is_read(scanned: tuple[list[Truth], Drawing]) -> None:
    truth, drawing = scanned
    components = count_components(drawing)
    found = score(truth, components.found)
    assert drawing.kind == "scanned" and drawing.pages[0].read_by == "ocr"
    assert found.recall > 0.85 and found.precision > 0.85, components.found
    assert all(0.5 <= one.confidence < 1 for one in components.found)


def test_S2_16_a_scan_is_kept_as_json(scanned: tuple[list[Truth], Drawing]) -> None:
    assert Drawing.of(scanned[1].form()) == scanned[1]


def test_S2_16_numbers_of_a_scan_that_read_from_both_ends_are_read_from_the_right_one() -> None:
    pytest.importorskip("rapidocr")
    sheet = Sheet((420, 300))
    truth = []
    for at, angle in enumerate((0, 90, 45)):
        for row, number in enumerate(("01", "10")):
            sheet.text(80 + 120 * at, 80 + 110 * row, f"CR-{number}{at}", 9, angle=angle)
            truth.append(Truth("reader", f"CR-{number}{at}"))
    sheet.text(210, 30, "READERS ARE MOUNTED AT ONE METRE", 8)
    pdf = scan_of(pdf_of([sheet.content()], [sheet.size]), 200, 1.0, random.Random(1))
    found = score(truth, count_components(read_drawing(pdf)).found)
    assert (found.recall, found.precision) == (1, 1)


@pytest.mark.parametrize("turn", [180, 90])
def test_S2_16_a_scanned_page_that_lies_the_wrong_way_is_turned(turn: int) -> None:
    pytest.importorskip("rapidocr")
    sheet = Sheet((420, 420))
    cos, sin = {180: (-1, 0), 90: (0, 1)}[turn]

    def put(x: float, y: float, text: str) -> None:
        u, v = x - 210, y - 210
        sheet.text(210 + u * cos - v * sin, 210 + u * sin + v * cos, text, 9, angle=turn)

    tags = [f"CR-{number}" for number in ("01", "10", "12", "45")]
    for at, tag in enumerate(tags):
        put(60 + 95 * at, 240, tag)
    put(210, 100, "READERS ARE MOUNTED AT ONE METRE")
    put(210, 60, "SEE THE SPECIFICATION FOR CABLES")
    pdf = scan_of(pdf_of([sheet.content()], [sheet.size]), 200, 1.0, random.Random(1))
    found = score([Truth("reader", tag) for tag in tags], count_components(read_drawing(pdf)).found)
    assert (found.recall, found.precision) == (1, 1)


def test_S2_16_letters_and_digits_alone_in_thin_outlines_of_a_scan_are_read() -> None:
    """The recognition overlooks them; the outline says where to look."""
    pytest.importorskip("rapidocr")
    sheet = Sheet((420, 300))
    sheet.text(30, 280, "LEGEND", 9, anchor="start")
    words = {"X": "EXIT BUTTON", "S": "ELECTRIC STRIKE", "M": "MAGNETIC LOCK", "CR": "CARD READER", "P": "DOOR"}
    for at, (code, meaning) in enumerate(words.items()):
        sheet.rect(38, 262 - 14 * at, 14, 11, 0.35)
        sheet.text(38, 262 - 14 * at, code, 6)
        sheet.text(52, 262 - 14 * at, meaning, 6, anchor="start")
    truth = []
    for at in range(4):
        for row, (code, kind) in enumerate((("X", "exit button"), ("S", "lock"), ("M", "lock"))):
            x, y = 180 + 60 * at, 260 - 40 * row
            sheet.rect(x, y, 11, 11, 0.35)
            sheet.text(x, y, code, 6)
            truth.append(Truth(kind, code))
        sheet.circle(180 + 60 * at, 130, 10.5, 0.4)  # cut in two: the code above, a digit below
        sheet.lines([(169.5 + 60 * at, 130), (190.5 + 60 * at, 130)], 0.4)
        sheet.text(180 + 60 * at, 134.2, "CR", 5.5)
        sheet.text(180 + 60 * at, 125.8, str(at + 3), 5.5)
        truth.append(Truth("reader", f"CR {at + 3}"))
    sheet.text(210, 40, "READERS ARE MOUNTED AT ONE METRE", 8)
    pdf = scan_of(pdf_of([sheet.content()], [sheet.size]), 200, 1.0, random.Random(1))
    found = score(truth, count_components(read_drawing(pdf)).found)
    assert found.recall >= 0.93 and found.precision >= 0.93, found


def test_S2_16_a_line_of_a_scan_that_lies_across_two_tiles_is_read_whole() -> None:
    """Legends end with their nouns: without the end, *Contact de porte* was no contact, and no P01 was a door."""
    pytest.importorskip("rapidocr")
    sheet = Sheet((620, 200))
    lines = (
        "Contact de porte encastré et câblé",
        "Ventouse électromagnétique de porte",
        "Lecteur de badge de proximité",
    )
    for at, line in enumerate(lines):  # the first tile of 1,200 pixels ends at 432 points
        sheet.text(330, 160 - 40 * at, line, 9, anchor="start")
    pdf = scan_of(pdf_of([sheet.content()], [sheet.size]), 200, 0.5, random.Random(1))
    read = [run.text.replace(" ", "").casefold() for run in read_drawing(pdf).pages[0].runs]
    assert read == [line.replace(" ", "").casefold() for line in lines]


def test_S2_16_a_legend_explains_a_code_with_one_short_word() -> None:
    """`P  PORTE`, `K  CAMERA`: the word is no longer than a code, and there is RTE in PORTE."""
    sheet = Sheet((420, 300))
    sheet.text(30, 280, "LEGENDE", 9, anchor="start")
    for at, (code, meaning) in enumerate((("P", "PORTE"), ("K", "CAMERA"), ("LB", "LECTEUR DE BADGES"))):
        sheet.text(30, 260 - 14 * at, code, 6, anchor="start")
        sheet.text(60, 260 - 14 * at, meaning, 6, anchor="start")
    tags = {"P01": "door", "P02": "door", "K-1": "camera", "LB-7": "reader"}
    for at, tag in enumerate(tags):
        sheet.text(120 + 70 * at, 120, tag, 7)
    found = {
        one.designator: one.type
        for one in count_components(read_drawing(pdf_of([sheet.content()], [sheet.size]))).found
    }
    assert found == tags


def test_S2_16_a_french_legend_says_that_p_is_a_door() -> None:
    """Nothing on the sheet explains P01; its legend speaks of a porte."""
    sheet = Sheet((420, 300))
    sheet.text(30, 280, "LÉGENDE", 9, anchor="start")
    words = {"LB": "Lecteur de badge", "CP": "Contact de porte", "DM": "Détecteur de mouvement"}
    for at, (code, meaning) in enumerate(words.items()):
        sheet.text(30, 260 - 14 * at, code, 6, anchor="start")
        sheet.text(60, 260 - 14 * at, meaning, 6, anchor="start")
    tags = {"P01": "door", "P02": "door", "LB-1": "reader", "CP-1": "door_contact", "DM-1": "motion_detector"}
    for at, tag in enumerate(tags):
        sheet.text(60 + 70 * at, 120, tag, 7)
    assert types_on(sheet) == tags


def test_S2_16_the_letters_of_a_ligature_are_of_one_word() -> None:
    """Browsers and office programs write ff and fi as one glyph: `Türöff ner` was no electric strike."""
    sheet = Sheet((420, 300))
    sheet.text(30, 280, "LEGENDE", 9, anchor="start")
    words = {"EO": "Türö\x01ner", "KL": "Ausweisleser, zerti\x02ziert"}
    for at, (code, meaning) in enumerate(words.items()):
        sheet.text(30, 260 - 14 * at, code, 6, anchor="start")
        sheet.text(60, 260 - 14 * at, meaning, 6, anchor="start")
    sheet.text(120, 120, "EO-1", 7)
    sheet.text(200, 120, "KL-1", 7)
    sheet.text(280, 120, "TÜ-101", 7)
    glyphs = b"<< /BaseEncoding /WinAnsiEncoding /Differences [ 1 /ff 2 /fi ] >>"
    pdf = pdf_of([sheet.content()], [sheet.size]).replace(b"/WinAnsiEncoding", glyphs)
    found = count_components(read_drawing(pdf))
    assert found.legend == {"EO": "Türöffner", "KL": "Ausweisleser, zertifiziert"}
    kinds = {one.designator: one.type for one in found.found}
    assert kinds == {"EO-1": "electric_strike", "KL-1": "reader", "TÜ-101": "door"}


def test_S2_16_doors_and_devices_of_one_number_are_not_all_doors() -> None:
    """Without a legend that is known: numbers in boxes are the doors, codes beside them are told as unknown."""
    sheet = Sheet((420, 300))
    for at in range(3):
        x = 80 + 120 * at
        sheet.rect(x, 200, 30, 14)
        sheet.text(x, 200, f"0.{at + 1:02}", 7)
        for row, code in enumerate(("ZQ", "XJ", "DC")):
            sheet.circle(x, 150 - 40 * row, 13)
            sheet.text(x, 155 - 40 * row, code, 7)
            sheet.text(x, 145 - 40 * row, f"0.{at + 1:02}", 7)
    drawing = read_drawing(pdf_of([sheet.content()], [sheet.size]))
    found = count_components(drawing)
    assert found.by_type == {"door": 3, "door_contact": 3}
    checked = check_drawing_marks(drawing, found)
    assert checked.score < 80 and "ZQ 0.01" in checked.findings[0].message


def test_S2_16_marks_of_the_plan_beside_a_legend_are_none_of_its_entries() -> None:
    """`DPS-213` in the legend's column is a tag, and a mark in the line of an entry is not what that explains."""
    sheet = Sheet((420, 300))
    sheet.text(250, 280, "LEGENDA", 9, anchor="start")
    for at, (code, meaning) in enumerate((("KL", "Kaartlezer"), ("DK", "Drukknop"), ("DC", "Deurcontact"))):
        sheet.text(260, 260 - 14 * at, code, 6)
        sheet.text(280, 260 - 14 * at, meaning, 6, anchor="start")
    for at, code in enumerate(("KL", "DC", "DK")):  # beside the lines of other entries
        sheet.circle(210, 257 - 20 * at, 9)
        sheet.text(210, 260 - 20 * at, code, 6)
        sheet.text(210, 253 - 20 * at, "13", 6)
    sheet.text(205, 180, "DC-14", 7)
    assert types_on(sheet) == {
        "KL 13": "reader",
        "DK 13": "exit_button",
        "DC 13": "door_contact",
        "DC-14": "door_contact",
    }


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("Détecteur de mouvement", "motion_detector"),
        ("Kaartlezer", "reader"),
        ("Drukknop uitgang", "exit_button"),
        ("Magneetslot", "magnetic_lock"),
        ("Contatto magnetico", "door_contact"),
        ("Lettore di badge", "reader"),
        ("Elettroserratura", "electric_lock"),
        ("Cerradura electromagnética", "magnetic_lock"),
        ("Pulsador de salida", "exit_button"),
        ("Elektroschloss", "electric_lock"),
    ],
)
def test_S2_16_devices_are_known_by_their_words_in_several_languages(words: str, kind: str) -> None:
    assert type_of(words) == kind


def types_on(sheet: Sheet) -> dict[str, str]:
    """Designator → type of everything that is found."""
    found = count_components(read_drawing(pdf_of([sheet.content()], [sheet.size]))).found
    return {one.designator: one.type for one in found}


def test_S2_16_devices_that_are_counted_through_are_at_the_nearest_door_and_others_at_that_of_their_number() -> None:
    sheet = Sheet((1190.6, 841.9))
    for at in range(8):
        x = 100 + 130 * at
        sheet.rect(x, 400, 40, 14)
        sheet.text(x, 400, f"D{at + 1:02d}", 8)
        sheet.text(x, 430, f"CR{at + 1:02d}", 8)
        sheet.text(x, 450, f"ML{at + 1:02d}/A", 8)
        sheet.text(x, 465, f"ML{at + 1:02d}/B", 8)
        if at >= 3:
            sheet.text(x, 370, f"DC{at - 2:02d}", 8)  # the first contact is at the fourth door
    components = count_components(read_drawing(pdf_of([sheet.content()], [sheet.size])))
    doors = {one.designator: one.door for one in components.found}
    for at in range(8):
        assert doors[f"CR{at + 1:02d}"] == f"D{at + 1:02d}"
        assert doors[f"ML{at + 1:02d}/A"] == doors[f"ML{at + 1:02d}/B"] == f"D{at + 1:02d}"
        if at >= 3:
            assert doors[f"DC{at - 2:02d}"] == f"D{at + 1:02d}"


def test_S2_16_a_text_that_runs_through_two_boxes_is_read_in_both() -> None:
    shapes = [Shape("box", 100 + 40 * at + side, 200, 16, 12) for at in range(4) for side in (-8, 8)]
    runs = [TextRun(f"CR {at:02d}", 100 + 40 * at, 200, 28, 7) for at in range(4)]
    page = Page(1, (), runs=tuple(runs), shapes=tuple(shapes))
    marks = [Mark("CR", run.text[-2:], run.text, run.x, run.y, 7, 1, "box", 16, 12, runs=(run,)) for run in runs]
    assert unread_outlines(page, marks) == []
    assert len(unread_outlines(replace(page, runs=page.runs[:3]), marks)) == 2
    broken = replace(page, runs=(*page.runs[:3], replace(page.runs[3], text="CR)03")))
    assert len(unread_outlines(broken, marks)) == 2
