"""A floor: rooms on both sides of a corridor, their doors, and what stands on a drawing beside its devices.

The things that are no devices are the test of precision: grid bubbles, section marks, dimensions, room names and
numbers, notes that speak of devices, and a title block with a drawing number.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from bench.drawings.sheet import Sheet

ROOMS = [
    "OFFICE",
    "STORE",
    "PLANT ROOM",
    "MEETING",
    "SERVER ROOM",
    "LOBBY",
    "KITCHEN",
    "WC",
    "RISER",
    "LAB",
    "POST ROOM",
]
ZIMMER = [
    "BÜRO",
    "LAGER",
    "TECHNIK",
    "BESPRECHUNG",
    "SERVERRAUM",
    "EMPFANG",
    "TEEKÜCHE",
    "WC",
    "ARCHIV",
    "LABOR",
    "POST",
]


@dataclass(frozen=True)
class Opening:
    """A door's place. `up` is 1 when its room lies above the wall and -1 when it lies below."""

    x: float
    y: float
    up: int
    number: int
    room: str


def floor(
    sheet: Sheet,
    rng: random.Random,
    box: tuple[float, float, float, float],
    columns: int,
    first: int,
    rooms: list[str] = ROOMS,
    label: float = 7,
) -> list[Opening]:
    """Draws two rows of rooms with a corridor between them into left, bottom, width, height; gives their doors."""
    left, bottom, width, height = box
    low, high = bottom + height * 0.42, bottom + height * 0.58
    for shift in (0.0, 3.0):
        sheet.lines(
            [
                (left - shift, bottom - shift),
                (left + width + shift, bottom - shift),
                (left + width + shift, bottom + height + shift),
                (left - shift, bottom + height + shift),
            ],
            0.9,
            closed=True,
        )
    step = width / columns
    openings: list[Opening] = []
    for row, wall in ((0, high), (1, low)):
        up = 1 if row == 0 else -1
        for column in range(columns):
            x = left + step * column
            gap = x + step * 0.45
            sheet.lines([(x, wall), (gap - 9, wall)], 0.9)
            sheet.lines([(gap + 9, wall), (x + step, wall)], 0.9)
            sheet.lines([(gap - 9, wall), (gap - 9, wall + up * 18)], 0.5)
            sheet.arc(gap - 9, wall, 18, 0, 90 * up)
            if column:
                sheet.lines([(x, wall), (x, bottom + height if up > 0 else bottom)], 0.9)
            number = first + row * columns + column
            room = rng.choice(rooms)
            deep = wall + up * height * 0.36
            sheet.text(x + step / 2, deep, room, label)
            sheet.text(x + step / 2, deep - label * 1.4, str(number), label)
            openings.append(Opening(gap, wall, up, number, room))
    return openings


def grid(sheet: Sheet, box: tuple[float, float, float, float], columns: int, rows: int, radius: float = 9) -> None:
    """Grid lines with a number or a letter in a circle at their ends."""
    left, bottom, width, height = box
    for i in range(columns + 1):
        x = left + width * i / columns
        sheet.lines([(x, bottom - 12), (x, bottom + height + 22)], 0.2, dash="8 3 2 3")
        sheet.circle(x, bottom + height + 22 + radius, radius)
        sheet.text(x, bottom + height + 22 + radius, str(i + 1), radius)
    for i in range(rows + 1):
        y = bottom + height * i / rows
        sheet.lines([(left - 22, y), (left + width + 12, y)], 0.2, dash="8 3 2 3")
        sheet.circle(left - 22 - radius, y, radius)
        sheet.text(left - 22 - radius, y, "ABCDEFGH"[i], radius)


def dimensions(sheet: Sheet, rng: random.Random, box: tuple[float, float, float, float], columns: int) -> None:
    left, bottom, width, height = box
    for i in range(columns):
        x = left + width * (i + 0.5) / columns
        sheet.text(x, bottom - 16, str(rng.randrange(2400, 7200, 50)), 5)
    sheet.lines([(left, bottom - 20), (left + width, bottom - 20)], 0.2)
    sheet.text(left + width + 18, bottom + height / 2, str(rng.randrange(9000, 15000, 50)), 5, angle=90)


def section_mark(sheet: Sheet, x: float, y: float, number: int, target: str) -> None:
    """A circle cut in two: the section's number above, the sheet where it is drawn below."""
    sheet.circle(x, y, 12)
    sheet.lines([(x - 12, y), (x + 12, y)])
    sheet.text(x, y + 5, str(number), 7)
    sheet.text(x, y - 5, target, 5)


def title_block(sheet: Sheet, lines: list[str], drawing: str, revision: str, x: float, y: float, w: float) -> None:
    """A frame around the page and a block of lines, the last with the drawing's number and revision."""
    width, height = sheet.size
    sheet.rect(width / 2, height / 2, width - 30, height - 30, 1.2)
    rows = [*lines, f"DRAWING No. {drawing}", f"REV {revision}"]
    for i, line in enumerate(rows):
        top = y + (len(rows) - i) * 16
        sheet.rect(x + w / 2, top - 8, w, 16)
        sheet.text(x + 5, top - 8, line, 6.5, anchor="start")


def notes(sheet: Sheet, x: float, y: float, heading: str, lines: list[str], size: float = 6) -> None:
    sheet.text(x, y, heading, size + 1, anchor="start", font="bold")
    for i, line in enumerate(lines, 1):
        sheet.text(x, y - i * size * 1.7, f"{i}. {line}", size, anchor="start")
