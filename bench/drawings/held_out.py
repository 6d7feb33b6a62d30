"""Four styles that were drawn before the reader was read or written, in one commit. Do not tune the reader on them.

hexagons        A1, a consultant's plan: code over number in hexagons with leaders, a legend with quantities
wall_text       ANSI B, no legend: tags along the walls at 0, 90 and 270 degrees, a wing at 30 degrees, stacked lists
german_boxes    A3, every glyph placed alone: German codes that only the legend explains, number beside the circle
schedule_sheet  A3, a door schedule on the sheet with columns for reader, button, lock and contact, and cameras
"""

from __future__ import annotations

import math
import random

from bench.drawings.plan import ZIMMER, Opening, dimensions, floor, grid, notes, section_mark, title_block
from bench.drawings.sheet import A1, A3, ANSI_B, Drawing, Sheet, Truth


def hexagons(seed: int) -> Drawing:
    """Hexagons cut in two by a line: the code above it, the number below it, a leader to a filled square."""
    rng = random.Random(seed)
    sheet = Sheet(A1)
    box = (190.0, 520.0, 1640.0, 980.0)
    grid(sheet, box, 5, 3, radius=16)
    doors = floor(sheet, rng, box, 6, 201, label=13)
    dimensions(sheet, rng, box, 6)
    truth: list[Truth] = []
    serial = dict.fromkeys(("ACR", "REX", "DMC", "EML", "CCTV", "PIR"), 0)
    kinds = {
        "ACR": "reader",
        "REX": "exit button",
        "DMC": "contact",
        "EML": "lock",
        "CCTV": "camera",
        "PIR": "detector",
    }

    def hexagon(code: str, x: float, y: float, to: tuple[float, float], door: str = "") -> None:
        serial[code] += 1
        number = f"{serial[code]:03d}"
        sheet.polygon(x, y, 19, 6)
        sheet.lines([(x - 19, y), (x + 19, y)])
        sheet.text(x, y + 7.5, code, 9)
        sheet.text(x, y - 7.5, number, 9)
        sheet.lines([(x, y - 16.5 if to[1] < y else y + 16.5), to])
        sheet.rect(*to, 6, 6, fill=True)
        truth.append(Truth(kinds[code], f"{code} {number}", door))

    for door in doors:
        tag = f"D.2.{door.number - 200:02d}"
        sheet.rect(door.x + 42, door.y + door.up * 14, 50, 16)
        sheet.text(door.x + 42, door.y + door.up * 14, tag, 9)
        truth.append(Truth("door", tag))
        if rng.random() < 0.85:
            hexagon("ACR", door.x - 60, door.y - door.up * 50, (door.x - 22, door.y - door.up * 6), tag)
            hexagon("EML", door.x + 5, door.y + door.up * 66, (door.x + 2, door.y + door.up * 5), tag)
        if rng.random() < 0.6:
            hexagon("REX", door.x - 72, door.y + door.up * 66, (door.x - 26, door.y + door.up * 6), tag)
        if rng.random() < 0.7:
            hexagon("DMC", door.x + 80, door.y + door.up * 66, (door.x + 12, door.y + door.up * 4), tag)
        if rng.random() < 0.4:
            hexagon("PIR", door.x + 100, door.y + door.up * 240, (door.x + 150, door.y + door.up * 290))
    for x in (400.0, 900.0, 1500.0):
        hexagon("CCTV", x, 1010, (x + 50, 1020))
    section_mark(sheet, 120, 430, 3, "A-501")
    section_mark(sheet, 1950, 1000, 4, "A-502")
    sheet.text(1900, 1540, "SECURITY LEGEND", 14, anchor="start", font="bold")
    words = {
        "ACR": "Access control card reader",
        "REX": "Request to exit push button",
        "DMC": "Door monitoring contact",
        "EML": "Electromagnetic lock",
        "CCTV": "Fixed dome camera",
        "PIR": "Passive infrared detector",
    }
    sheet.text(2250, 1510, "QTY", 9)
    for i, (code, meaning) in enumerate(words.items()):
        y = 1480 - i * 46
        sheet.polygon(1920, y, 19, 6)
        sheet.lines([(1901, y), (1939, y)])
        sheet.text(1920, y + 7.5, code, 9)
        sheet.text(1960, y, meaning, 10, anchor="start")
        sheet.text(2250, y, str(serial[code]), 10)
    notes(
        sheet,
        1900,
        1150,
        "NOTES",
        [
            "ALL ACR UNITS AT 1100 mm AFFL UNLESS NOTED.",
            "EACH EML SHALL FAIL UNLOCKED ON FIRE ALARM.",
            "READ WITH DRAWINGS SEC-200 TO SEC-209.",
            "FOR CONTAINMENT SEE E-401 AND E-402.",
            "DO NOT SCALE. PHASE 2 WORKS SHOWN ONLY.",
        ],
        9,
    )
    title_block(
        sheet, ["NORTHGATE HOUSE", "LEVEL 2 SECURITY LAYOUT", "SCALE 1:100 @ A1"], "SEC-202", "C02", 1890, 60, 440
    )
    return Drawing("hexagons", [sheet], truth)


def wall_text(seed: int) -> Drawing:
    """Tags written along the walls. Device numbers are the door's number, with a hyphen or with a blank."""
    rng = random.Random(seed)
    sheet = Sheet(ANSI_B, font="mono")
    truth: list[Truth] = []
    kinds = {"CR": "reader", "RTE": "exit button", "DPS": "contact", "ES": "lock", "KP": "keypad", "IC": "intercom"}
    doors = floor(sheet, rng, (60, 330, 800, 400), 6, 101)
    dimensions(sheet, rng, (60, 330, 800, 400), 6)

    def tag(code: str, number: str, x: float, y: float, angle: float, blank: bool = False) -> None:
        drawn = f"{code}{' ' if blank else '-'}{number}"
        sheet.text(x, y, drawn, 5.5, angle=angle)
        truth.append(Truth(kinds[code], drawn, number))

    def door_mark(number: str, x: float, y: float, angle: float = 0) -> None:
        sheet.ellipse(x, y, 15, 7)
        sheet.text(x, y, number, 6, angle=angle)
        truth.append(Truth("door", number))

    for i, door in enumerate(doors):
        number = f"{door.number}{rng.choice('AB')}"
        door_mark(number, door.x + 34, door.y - door.up * 10)
        style = i % 4
        if style == 0:
            tag("CR", number, door.x - 18, door.y - door.up * 8, 0)
            tag("ES", number, door.x - 14, door.y + door.up * 42, 90)
            tag("DPS", number, door.x - 4, door.y + door.up * 42, 90)
        elif style == 1:
            tag("CR", number, door.x - 18, door.y + door.up * 40, 270, blank=True)
            tag("RTE", number, door.x - 30, door.y + door.up * 40, 270, blank=True)
        elif style == 2:
            x, y = door.x + 16, door.y + door.up * 60
            sheet.lines([(door.x, door.y), (x - 2, y - 2)], 0.3)
            for k, code in enumerate(("CR", "ES", "DPS", "RTE")):
                drawn = f"{code}-{number}"
                sheet.text(x, y - k * 7.5, drawn, 5.5, anchor="start")
                truth.append(Truth(kinds[code], drawn, number))
        elif rng.random() < 0.5:
            tag("KP", number, door.x - 28, door.y - door.up * 8, 0)
            tag("IC", number, door.x - 28, door.y - door.up * 16, 0)
    _wing(sheet, truth, kinds)
    notes(
        sheet,
        60,
        250,
        "GENERAL NOTES",
        [
            "CR = BY OWNER, FURNISHED AND INSTALLED BY CONTRACTOR.",
            "PROVIDE 3/4 IN CONDUIT FROM EACH CR TO PANEL ACP-1 IN ROOM 104.",
            "SEE SPEC 28 13 00 AND DETAIL 5 ON SHEET T-601.",
            "REFER TO ASTM F-1233 FOR GLAZING.",
        ],
    )
    section_mark(sheet, 560, 270, 5, "T-601")
    title_block(
        sheet, ["RIVER BEND MIDDLE SCHOOL", "FIRST FLOOR ACCESS CONTROL", "1/8 IN = 1 FT"], "T-201", "2", 940, 30, 250
    )
    return Drawing("wall_text", [sheet], truth)


def _wing(sheet: Sheet, truth: list[Truth], kinds: dict[str, str]) -> None:
    """A wing of the building that lies at 30 degrees, with all its text."""
    cos, sin = math.cos(math.radians(30)), math.sin(math.radians(30))

    def at(u: float, v: float) -> tuple[float, float]:
        return 930 + u * cos - v * sin, 480 + u * sin + v * cos

    sheet.lines([at(0, 0), at(230, 0), at(230, 110), at(0, 110)], 0.9, closed=True)
    for k in range(3):
        number = f"12{k + 1}"
        u = 40 + 75 * k
        sheet.lines([at(u + 37, 0), at(u + 37, 110)], 0.9)
        x, y = at(u, -9)
        sheet.ellipse(x, y, 13, 7)
        sheet.text(x, y, number, 6, angle=30)
        truth.append(Truth("door", number))
        for j, code in enumerate(("CR", "ES", "RTE")):
            drawn = f"{code}-{number}"
            sheet.text(*at(u, 14 + 10 * j), drawn, 5.5, angle=30)
            truth.append(Truth(kinds[code], drawn, number))
        sheet.text(*at(u, 70), "CLASSROOM", 6, angle=30)


def german_boxes(seed: int) -> Drawing:
    """A code in a circle, its number to the right of it; the codes are German and stand in the legend only."""
    rng = random.Random(seed)
    sheet = Sheet(A3, glyphs=True)
    box = (90.0, 300.0, 780.0, 430.0)
    grid(sheet, box, 4, 2)
    doors = floor(sheet, rng, box, 5, 1, rooms=ZIMMER)
    words = {
        "ZKL": ("Zutrittskontrollleser (Kartenleser)", "reader"),
        "TMK": ("Magnetkontakt Tür", "contact"),
        "EÖ": ("Elektrischer Türöffner", "lock"),
        "FT": ("Fluchttürtaster", "exit button"),
        "VK": ("Videokamera", "camera"),
        "SPR": ("Sprechstelle", "intercom"),
    }
    truth: list[Truth] = []
    kamera = 0

    def circle(code: str, number: str, x: float, y: float, door: str = "") -> None:
        sheet.circle(x, y, 9)
        sheet.text(x, y, code, 6)
        sheet.text(x + 12, y, number, 6.5, anchor="start")
        truth.append(Truth(words[code][1], f"{code} {number}", door))

    for door in doors:
        number = f"1.{door.number:02d}"
        tag = f"T {number}"
        sheet.rect(door.x + 36, door.y + door.up * 9, 34, 11)
        sheet.text(door.x + 36, door.y + door.up * 9, tag, 7)
        truth.append(Truth("door", tag))
        if rng.random() < 0.8:
            circle("ZKL", number, door.x - 32, door.y - door.up * 13, tag)
            circle("EÖ", number, door.x + 26, door.y + door.up * 36, tag)
            circle("TMK", number, door.x - 36, door.y + door.up * 36, tag)
        if rng.random() < 0.5:
            circle("FT", number, door.x - 36, door.y + door.up * 62, tag)
        if rng.random() < 0.3:
            circle("SPR", number, door.x + 26, door.y - door.up * 13, tag)
        if rng.random() < 0.5:
            kamera += 1
            circle("VK", f"{kamera:02d}", door.x + 26, door.y + door.up * 80)
    dimensions(sheet, rng, box, 5)
    sheet.text(920, 780, "LEGENDE", 9, anchor="start", font="bold")
    for i, (code, (meaning, _)) in enumerate(words.items()):
        y = 750 - i * 26
        sheet.circle(930, y, 9)
        sheet.text(930, y, code, 6)
        sheet.text(950, y, meaning, 7, anchor="start")
    notes(
        sheet,
        90,
        220,
        "HINWEISE",
        ["Montagehöhe ZKL 1,10 m über OKFF.", "Fluchtwege nach ASR A2.3.", "Brandschutztüren T30 siehe Plan B-104."],
    )
    title_block(sheet, ["KLINIKUM SÜD", "1. OBERGESCHOSS", "MASSSTAB 1:100"], "SI-101", "b", 920, 40, 240)
    return Drawing("german_boxes", [sheet], truth)


def schedule_sheet(seed: int) -> Drawing:
    """A door schedule under the plan. Some columns have tags, some ticks, some lock codes; cameras are on the plan."""
    rng = random.Random(seed)
    sheet = Sheet(A3)
    box = (60.0, 470.0, 820.0, 310.0)
    doors = floor(sheet, rng, box, 5, 11)
    truth: list[Truth] = []
    for i, door in enumerate(doors):
        sheet.circle(door.x + 24, door.y - door.up * 12, 8)
        sheet.text(door.x + 24, door.y - door.up * 12, f"{i + 1:02d}", 6.5)
        truth.append(Truth("door", f"{i + 1:02d}"))
    for i, x in enumerate((220.0, 400.0, 720.0), 1):
        sheet.polygon(x, 618, 5, 3, turn=90)
        sheet.text(x + 18, 618, f"CAM {i}", 6)
        truth.append(Truth("camera", f"CAM {i}"))
    _schedule(sheet, rng, doors, truth)
    notes(
        sheet,
        920,
        780,
        "NOTES",
        [
            "ML = MAGNETIC LOCK",
            "ES = ELECTRIC STRIKE",
            "Y = REQUIRED",
            "CARD READERS BY OTHERS WHERE NOTED",
        ],
    )
    title_block(sheet, ["HARBOUR TERMINAL", "DOOR SECURITY SCHEDULE", "NTS"], "A-610", "P1", 920, 40, 240)
    return Drawing("schedule_sheet", [sheet], truth)


def _schedule(sheet: Sheet, rng: random.Random, doors: list[Opening], truth: list[Truth]) -> None:
    heads = ["DOOR No.", "LOCATION", "READER", "EXIT BUTTON", "LOCK", "DOOR CONTACT", "REMARKS"]
    wide = [60.0, 110.0, 110.0, 90.0, 80.0, 100.0, 150.0]
    lefts = [60 + sum(wide[:i]) for i in range(len(wide) + 1)]
    top = 410.0
    sheet.text(60, top + 12, "DOOR SECURITY SCHEDULE", 9, anchor="start", font="bold")
    reader = 0
    rows: list[list[str]] = [heads]
    for i, door in enumerate(doors):
        mark = f"{i + 1:02d}"
        cells = [mark, door.room, "-", "-", "-", "-", rng.choice(["", "", "FIRE DOOR", "BY OTHERS", "NEW FRAME"])]
        count = rng.choice([0, 1, 1, 1, 2])
        tags = [f"CR-{reader + k + 1:02d}" for k in range(count)]
        reader += count
        truth.extend(Truth("reader", tag, mark) for tag in tags)
        if tags:
            cells[2] = " / ".join(tags)
            cells[4] = rng.choice(["ML", "ES"])
            truth.append(Truth("lock", cells[4], mark))
        if tags and rng.random() < 0.7:
            cells[3] = "Y"
            truth.append(Truth("exit button", "", mark))
        if rng.random() < 0.6:
            cells[5] = "Y"
            truth.append(Truth("contact", "", mark))
        rows.append(cells)
    for r, cells in enumerate(rows):
        y = top - 22 * r
        sheet.lines([(lefts[0], y), (lefts[-1], y)], 0.6)
        for c, cell in enumerate(cells):
            if cell:
                sheet.text((lefts[c] + lefts[c + 1]) / 2, y - 11, cell, 7 if r else 7.5, font="sans" if r else "bold")
    bottom = top - 22 * len(rows)
    sheet.lines([(lefts[0], bottom), (lefts[-1], bottom)], 0.6)
    for x in lefts:
        sheet.lines([(x, top), (x, bottom)], 0.6)


STYLES = {"hexagons": hexagons, "wall_text": wall_text, "german_boxes": german_boxes, "schedule_sheet": schedule_sheet}
