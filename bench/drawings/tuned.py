"""Six styles that the reader was made with.

bubbles        A3: code over number in circles, some turned by 90 degrees, doors in boxes, a legend of circles
turned_tags    A3, no legend: number with a blank, tags at any angle, code beside number in one box, doors in diamonds
bare_codes     A3: codes without numbers in squares and circles, a legend that counts them, doors by name
tagged_table   A3, two pages: tags on the plan, a ruled table with tags, crosses and counts, doors of three parts
split_circles  ANSI B: circles cut in two, code above and number below, doors in ovals, small print, a legend of words
split_boxes    A3, French: boxes of two cells, code and number, some of them upright, squares with one letter, doors
               without an outline
"""

from __future__ import annotations

import math
import random

from bench.drawings.plan import dimensions, floor, grid, notes, section_mark, title_block
from bench.drawings.sheet import A3, ANSI_B, Drawing, Sheet, Truth

_BOX = (90.0, 260.0, 800.0, 480.0)


def bubbles(seed: int) -> Drawing:
    rng = random.Random(seed)
    sheet = Sheet(A3)
    grid(sheet, _BOX, 4, 2)
    doors = floor(sheet, rng, _BOX, 5, 101)
    dimensions(sheet, rng, _BOX, 5)
    words = {
        "CR": ("CARD READER", "reader"),
        "PB": ("EXIT PUSH BUTTON", "exit button"),
        "DC": ("DOOR CONTACT", "contact"),
        "ML": ("MAGNETIC LOCK", "lock"),
        "C": ("FIXED CAMERA", "camera"),
    }
    truth: list[Truth] = []
    serial = dict.fromkeys(words, 0)

    def bubble(code: str, x: float, y: float, door: str = "", turned: bool = False) -> None:
        serial[code] += 1
        number = str(serial[code])
        sheet.circle(x, y, 10)
        if turned:
            sheet.text(x - 3.8, y, code, 6.5, angle=90)
            sheet.text(x + 3.8, y, number, 6.5, angle=90)
        else:
            sheet.text(x, y + 3.8, code, 6.5)
            sheet.text(x, y - 3.8, number, 6.5)
        truth.append(Truth(words[code][1], f"{code} {number}", door))

    for i, door in enumerate(doors):
        tag = f"D{door.number}"
        sheet.rect(door.x + 32, door.y + door.up * 10, 28, 11)
        sheet.text(door.x + 32, door.y + door.up * 10, tag, 7)
        truth.append(Truth("door", tag))
        if rng.random() < 0.8:
            bubble("CR", door.x - 30, door.y - door.up * 16, tag, turned=i % 3 == 2)
            bubble("ML", door.x + 12, door.y + door.up * 40, tag)
        if rng.random() < 0.6:
            bubble("PB", door.x - 34, door.y + door.up * 40, tag)
        if rng.random() < 0.6:
            bubble("DC", door.x + 40, door.y + door.up * 40, tag, turned=i % 4 == 1)
        if rng.random() < 0.5:
            bubble("C", door.x + 60, door.y + door.up * 110)
    section_mark(sheet, 960, 500, 2, "A-301")
    sheet.text(930, 790, "LEGEND", 9, anchor="start", font="bold")
    for i, (code, (meaning, _)) in enumerate(words.items()):
        y = 765 - i * 27
        sheet.circle(942, y, 10)
        sheet.text(942, y + 3.8, code, 6.5)
        sheet.text(942, y - 3.8, "#", 6.5)
        sheet.text(965, y, meaning, 7, anchor="start")
    notes(
        sheet,
        90,
        190,
        "NOTES:",
        [
            "CR TO BE MOUNTED 1050 AFFL.",
            "REFER TO DRAWING SK-12 FOR RISER.",
            "ALL ML FAIL SAFE. CABLES IN CONTAINMENT TYPE C 50 WIDE.",
            "CAT 6 TO EACH C IN CORRIDOR.",
        ],
    )
    title_block(sheet, ["ALDER COURT", "GROUND FLOOR SECURITY", "1:100"], "D-1001", "A", 930, 40, 230)
    return Drawing("bubbles", [sheet], truth)


def turned_tags(seed: int) -> Drawing:
    rng = random.Random(seed)
    sheet = Sheet(A3, font="serif")
    doors = floor(sheet, rng, _BOX, 4, 1)
    truth: list[Truth] = []
    kinds = {"RDR": "reader", "EB": "exit button", "DC": "contact", "MLK": "lock", "CAM": "camera", "PIR": "detector"}
    serial = 0

    def tag(code: str, number: str, x: float, y: float, angle: float, door: str, boxed: bool) -> None:
        cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        if boxed:
            corners = [(-19, -5.5), (19, -5.5), (19, 5.5), (-19, 5.5)]
            sheet.lines([(x + u * cos - v * sin, y + u * sin + v * cos) for u, v in corners], 0.4, closed=True)
            sheet.lines([(x + v * -sin, y + v * cos) for v in (-5.5, 5.5)], 0.4)
            sheet.text(x - 9.5 * cos, y - 9.5 * sin, code, 6.5, angle=angle)
            sheet.text(x + 9.5 * cos, y + 9.5 * sin, number, 6.5, angle=angle)
        else:
            sheet.text(x, y, f"{code} {number}", 7, angle=angle)
        truth.append(Truth(kinds[code], f"{code} {number}", door))

    for i, door in enumerate(doors):
        mark = f"{door.number:03d}"
        sheet.polygon(door.x + 36, door.y - door.up * 15, 13, 4)
        sheet.text(door.x + 36, door.y - door.up * 15, mark, 6.5)
        truth.append(Truth("door", mark))
        angle = (0, 90, 270, 45, 15, 120)[i % 6]
        if rng.random() < 0.85:
            serial += 1
            number = f"{serial:02d}"
            tag("RDR", number, door.x - 42, door.y + door.up * 40, angle, mark, boxed=i % 2 == 0)
            tag("MLK", number, door.x + 20, door.y + door.up * 52, angle, mark, boxed=i % 2 == 0)
            if rng.random() < 0.6:
                tag("EB", number, door.x - 42, door.y + door.up * 90, angle, mark, boxed=False)
        if rng.random() < 0.5:
            tag("DC", mark, door.x + 72, door.y + door.up * 52, 0, mark, boxed=False)
        if rng.random() < 0.4:
            tag("PIR", f"{i + 1}", door.x + 72, door.y + door.up * 120, angle, "", boxed=True)
    for i, x in enumerate((330.0, 730.0), 1):
        tag("CAM", str(i), x, 500, 0, "", boxed=False)
    dimensions(sheet, rng, _BOX, 4)
    notes(
        sheet,
        920,
        780,
        "GENERAL",
        ["SUPPLY RDR 40 SERIES READERS.", "PANEL IN ROOM 3.", "ALLOW 2 m SPARE AT CAM AND PIR.", "SEE DETAIL 7."],
    )
    title_block(sheet, ["MILL LANE DEPOT", "SECURITY SERVICES", "1:50"], "E-950", "T2", 920, 40, 240)
    return Drawing("turned_tags", [sheet], truth)


def bare_codes(seed: int) -> Drawing:
    rng = random.Random(seed)
    sheet = Sheet(A3)
    grid(sheet, _BOX, 5, 3)
    doors = floor(sheet, rng, _BOX, 5, 30)
    words = {
        "R": ("Proximity card reader", "reader"),
        "K": ("Reader with keypad", "reader"),
        "X": ("Request to exit device", "exit button"),
        "M": ("Magnetic door lock", "lock"),
        "S": ("Electric strike", "lock"),
        "V": ("Video camera, fixed", "camera"),
        "DP": ("Door position switch", "contact"),
    }
    truth: list[Truth] = []
    count = dict.fromkeys(words, 0)

    def mark(code: str, x: float, y: float, door: str = "") -> None:
        count[code] += 1
        if code in "RKMS":
            sheet.rect(x, y, 12, 12)
        else:
            sheet.circle(x, y, 7)
        sheet.text(x, y, code, 6.5)
        truth.append(Truth(words[code][1], code, door))

    for i, door in enumerate(doors, 1):
        name = f"DOOR {i}"
        sheet.text(door.x + 32, door.y - door.up * 8, name, 6.5)
        truth.append(Truth("door", name))
        if rng.random() < 0.85:
            mark(rng.choice("RRK"), door.x - 20, door.y - door.up * 12, name)
            mark(rng.choice("MS"), door.x + 4, door.y + door.up * 30, name)
            mark("DP", door.x + 22, door.y + door.up * 30, name)
        if rng.random() < 0.6:
            mark("X", door.x - 24, door.y + door.up * 30, name)
        if rng.random() < 0.5:
            mark("V", door.x + 70, door.y + door.up * 130)
    sheet.text(920, 790, "SYMBOLS", 9, anchor="start", font="bold")
    sheet.text(1130, 775, "No. OFF", 6.5)
    for i, (code, (meaning, _)) in enumerate(words.items()):
        y = 755 - i * 22
        if code in "RKMS":
            sheet.rect(932, y, 12, 12)
        else:
            sheet.circle(932, y, 7)
        sheet.text(932, y, code, 6.5)
        sheet.text(950, y, meaning, 7, anchor="start")
        sheet.text(1130, y, str(count[code]), 7)
    notes(
        sheet,
        90,
        190,
        "NOTES",
        ["INSTALL R AND K AT 1.1 m.", "M TO BS EN 13637.", "COORDINATE WITH SHEET M-100."],
    )
    title_block(sheet, ["FERRY HOUSE", "LEVEL 3 ACCESS CONTROL", "SCALE 1:100"], "AC-3", "0", 920, 40, 240)
    return Drawing("bare_codes", [sheet], truth)


def tagged_table(seed: int) -> Drawing:
    rng = random.Random(seed)
    plan, table = Sheet(A3), Sheet(A3)
    doors = floor(plan, rng, (60.0, 230.0, 860.0, 540.0), 5, 1)
    truth: list[Truth] = []
    rows: list[list[str]] = []
    for door in doors:
        mark = f"D-02-{door.number:03d}"
        plan.text(door.x + 34, door.y - door.up * 9, mark, 7)
        truth.append(Truth("door", mark))
        cells = [mark, door.room.title(), "", "", "", ""]
        if rng.random() < 0.8:
            tag = f"CR-02-{door.number:03d}"
            cells[2] = tag
            truth.append(Truth("reader", tag, mark))
            if rng.random() < 0.7:
                plan.text(door.x - 30, door.y + door.up * 34, tag, 6.5)
            cells[3] = "X"
            truth.append(Truth("exit button", "", mark))
            cells[4] = rng.choice(["EM lock", "Strike"])
            truth.append(Truth("lock", "", mark))
        if rng.random() < 0.6:
            cells[5] = rng.choice(["1", "2"])
            truth.extend([Truth("contact", "", mark)] * int(cells[5]))
        rows.append(cells)
    for i in range(1, 4):
        plan.text(120 + i * 200, 500, f"CAM-02-{i:03d}", 6.5)
        truth.append(Truth("camera", f"CAM-02-{i:03d}"))
    section_mark(plan, 980, 300, 1, "A-401")
    notes(plan, 950, 760, "NOTES", ["FOR CR SEE TABLE ON NEXT SHEET.", "NUMBERS ARE LEVEL-ROOM."])
    heads = ["Door", "Location", "Card reader", "Exit button", "Lock", "Door contacts"]
    _ruled(table, heads, rows)
    for page, number in ((plan, "1"), (table, "2")):
        title_block(page, ["QUAY STREET 4", f"SHEET {number} OF 2", "AS BUILT"], "CR-9001", "1", 930, 40, 230)
    return Drawing("tagged_table", [plan, table], truth)


def _ruled(sheet: Sheet, heads: list[str], rows: list[list[str]]) -> None:
    lefts = [80.0, 200.0, 380.0, 500.0, 600.0, 720.0, 830.0]
    sheet.text(80, 780, "DOOR SCHEDULE", 11, anchor="start", font="bold")
    for r, cells in enumerate([heads, *rows]):
        y = 760.0 - 20 * r
        sheet.lines([(lefts[0], y), (lefts[-1], y)])
        for c, cell in enumerate(cells):
            if cell:
                sheet.text(lefts[c] + 4, y - 10, cell, 7.5, anchor="start", font="bold" if r == 0 else None)
    for x in lefts:
        sheet.lines([(x, 760), (x, 760 - 20 * (len(rows) + 1))])


def split_circles(seed: int) -> Drawing:
    rng = random.Random(seed)
    sheet = Sheet(ANSI_B)
    box = (90.0, 250.0, 780.0, 450.0)
    grid(sheet, box, 4, 2)
    doors = floor(sheet, rng, box, 5, 201)
    words = {
        "AR": ("ACCESS CARD READER", "reader"),
        "RX": ("REQUEST TO EXIT SENSOR", "exit button"),
        "DS": ("DOOR CONTACT SWITCH", "contact"),
        "EM": ("ELECTROMAGNETIC LOCK", "lock"),
        "VC": ("VIDEO CAMERA", "camera"),
        "IC": ("INTERCOM STATION", "intercom"),
    }
    truth: list[Truth] = []
    serial = dict.fromkeys(words, 0)

    def bubble(code: str, x: float, y: float, door: str = "") -> None:
        serial[code] += 1
        number = f"{serial[code]:02d}"
        sheet.circle(x, y, 10.5, 0.4)
        sheet.lines([(x - 10.5, y), (x + 10.5, y)], 0.4)
        sheet.text(x, y + 4.2, code, 5.5)
        sheet.text(x, y - 4.2, number, 5.5)
        truth.append(Truth(words[code][1], f"{code} {number}", door))

    for door in doors:
        tag = str(door.number)
        sheet.ellipse(door.x + 34, door.y + door.up * 10, 14, 7, 0.4)
        sheet.text(door.x + 34, door.y + door.up * 10, tag, 6)
        truth.append(Truth("door", tag))
        if rng.random() < 0.85:
            bubble("AR", door.x - 28, door.y - door.up * 16, tag)
            bubble("EM", door.x + 12, door.y + door.up * 42, tag)
        if rng.random() < 0.6:
            bubble("RX", door.x - 32, door.y + door.up * 42, tag)
        if rng.random() < 0.6:
            bubble("DS", door.x + 40, door.y + door.up * 42, tag)
        if rng.random() < 0.4:
            bubble(rng.choice(["VC", "IC"]), door.x + 52, door.y + door.up * 115)
    section_mark(sheet, 960, 420, 4, "E-502")
    sheet.text(920, 740, "SYMBOL LEGEND", 8, anchor="start", font="bold")
    for i, (code, (meaning, _)) in enumerate(words.items()):
        sheet.text(925, 722 - i * 14, code, 6, anchor="start")
        sheet.text(955, 722 - i * 14, meaning, 6, anchor="start")
    notes(
        sheet,
        90,
        190,
        "KEYED NOTES",
        ["MOUNT AR AT 42 INCHES AFF.", "SEE SHEET E-601 FOR RISER.", "VC TO BE IP67. COORDINATE WITH DIV 27."],
        5.5,
    )
    title_block(sheet, ["CEDAR CLINIC", "LEVEL 2 SECURITY PLAN", "1/8 IN = 1 FT"], "E-202", "3", 920, 40, 260)
    return Drawing("split_circles", [sheet], truth)


def split_boxes(seed: int) -> Drawing:
    rng = random.Random(seed)
    sheet = Sheet(A3)
    doors = floor(sheet, rng, _BOX, 5, 1)
    dimensions(sheet, rng, _BOX, 5)
    words = {
        "LB": ("LECTEUR DE BADGES", "reader"),
        "BP": ("BOUTON POUSSOIR DE SORTIE", "exit button"),
        "CP": ("CONTACT DE PORTE", "contact"),
        "VM": ("VENTOUSE", "lock"),
        "C": ("CAMÉRA FIXE", "camera"),
    }
    truth: list[Truth] = []

    def cells(code: str, number: str, x: float, y: float, door: str, upright: bool) -> None:
        wide, high, turn = (12.0, 24.0, 90) if upright else (24.0, 12.0, 0)
        sheet.rect(x, y, wide, high, 0.35)
        if upright:
            sheet.lines([(x - 6, y), (x + 6, y)], 0.35)
            sheet.text(x, y - 6, code, 6, angle=turn)
            sheet.text(x, y + 6, number, 6, angle=turn)
        else:
            sheet.lines([(x, y - 6), (x, y + 6)], 0.35)
            sheet.text(x - 6, y, code, 6)
            sheet.text(x + 6, y, number, 6)
        truth.append(Truth(words[code][1], f"{code} {number}", door))

    for i, door in enumerate(doors, 1):
        tag = f"P{door.number:02d}"
        sheet.text(door.x + 30, door.y + door.up * 9, tag, 6.5)
        truth.append(Truth("door", tag))
        number = f"{i:02d}"
        if rng.random() < 0.85:
            cells("LB", number, door.x - 30, door.y - door.up * 14, tag, upright=i % 3 == 0)
            cells("VM", number, door.x + 8, door.y + door.up * 40, tag, upright=i % 3 == 0)
        if rng.random() < 0.6:
            cells("BP", number, door.x - 34, door.y + door.up * 40, tag, upright=False)
        if rng.random() < 0.6:
            cells("CP", number, door.x + 44, door.y + door.up * 40, tag, upright=i % 4 == 1)
        if rng.random() < 0.4:
            x, y = door.x + 55, door.y + door.up * 120
            sheet.rect(x, y, 11, 11, 0.35)
            sheet.text(x, y, "C", 6)
            truth.append(Truth("camera", "C"))
    sheet.text(920, 780, "LÉGENDE", 9, anchor="start", font="bold")
    for i, (code, (meaning, _)) in enumerate(words.items()):
        sheet.rect(932, 757 - i * 20, 14, 12, 0.35)
        sheet.text(932, 757 - i * 20, code, 6)
        sheet.text(950, 757 - i * 20, meaning, 6.5, anchor="start")
    sheet.text(932, 757 - len(words) * 20, "P", 6)
    sheet.text(950, 757 - len(words) * 20, "PORTE", 6.5, anchor="start")
    notes(sheet, 90, 190, "NOTES", ["HAUTEUR DES LECTEURS 1,10 m.", "VOIR PLAN SU-14 POUR LE LOCAL."])
    title_block(sheet, ["LYCEE DU PARC", "SURETE NIVEAU 0", "ECHELLE 1:100"], "SU-12", "C", 920, 40, 240)
    return Drawing("split_boxes", [sheet], truth)


STYLES = {
    "bubbles": bubbles,
    "turned_tags": turned_tags,
    "bare_codes": bare_codes,
    "tagged_table": tagged_table,
    "split_circles": split_circles,
    "split_boxes": split_boxes,
}
