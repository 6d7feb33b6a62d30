"""What codes mean: the drawing's own legend, abbreviations in its notes, and what is usual in the trade.

1. An entry is a code, with or without an outline, and words to the right of it or in the same text. Entries stand
   below a title such as LEGEND, one under the other, in one column or in several.
2. A legend that counts its symbols has a number to the right of each description.
3. Where a drawing has a legend, only its codes are known, and those that its notes explain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.files.errors import BadKey
from penstock.files.keys import normalize_name
from penstock.systems.security_assistant.drawing.marks import LETTERS, Nearby, as_code, page_runs, tags_in
from penstock.systems.security_assistant.drawing.page import Drawing, Page, TextRun

CUSTOM: Final = {
    **dict.fromkeys(("D", "DR", "DOOR"), "Door"),
    **dict.fromkeys(("CR", "ACR", "PR"), "Card reader"),
    **dict.fromkeys(("RD", "RDR"), "Reader"),
    **dict.fromkeys(("EB", "PB", "PTE"), "Exit button"),
    **dict.fromkeys(("REX", "RTE", "RQE"), "Request to exit"),
    **dict.fromkeys(("CAM", "CCTV", "PTZ"), "Camera"),
    "ES": "Electric strike",
    **dict.fromkeys(("EL", "ELR"), "Electric lock"),
    **dict.fromkeys(("ML", "MLK", "MAG", "EML"), "Magnetic lock"),
    **dict.fromkeys(("DC", "DPS", "DMC", "RC", "MC", "MK"), "Door contact"),
    **dict.fromkeys(("PIR", "MD"), "Motion detector"),
    "KP": "Keypad",
    **dict.fromkeys(("BG", "BGU", "EDR"), "Break glass unit"),
    **dict.fromkeys(("IC", "VIC"), "Intercom"),
    "SIR": "Siren",
    **dict.fromkeys(("ACP", "DCU"), "Access control panel"),
}
"""What is usual, for drawings without a legend."""
DOOR_CODES: Final = frozenset({"D", "DR", "DOOR", "GATE", "TÜR", "PORTE", "PUERTA", "PORTA", "DEUR"})
"""Legends seldom explain doors."""
_DOOR_LETTERS: Final = (
    ("P", re.compile(r"\b(?:portes?|puertas?|porta)\b")),
    ("T", re.compile(r"\btür")),
    ("TÜ", re.compile(r"\btür")),
)
"""A legend that speaks of *porte* is of an office that writes P01 at a door."""

# The first that is found in a description decides, so the narrower ones stand first.
_TYPES: Final = (
    *((part, "door_contact") for part in ("door contact", "door position", "door monitor", "magnetic contact")),
    *((part, "door_contact") for part in ("magnetkontakt", "türkontakt", "reed", "contact de porte")),
    ("door controller", "panel"),
    *((part, "door_contact") for part in ("contatto magnetico", "contatto porta", "contacto de puerta")),
    *((part, "reader") for part in ("reader", "leser", "lecteur", "lector", "lettore", "leitor", "lezer", "czytnik")),
    *((part, "exit_button") for part in ("exit button", "request to exit", "push to exit", "exit push", "exit device")),
    *((part, "exit_button") for part in ("exit switch", "fluchttürtaster", "taster", "bouton", "pulsador", "pulsante")),
    *((part, "exit_button") for part in ("botón de salida", "botão", "drukknop", "uitgangsknop", "przycisk")),
    *((part, "break_glass") for part in ("break glass", "emergency release", "emergency door release")),
    *((part, "camera") for part in ("camera", "kamera", "caméra", "cámara", "câmera", "telecamera", "cctv")),
    *((part, "electric_strike") for part in ("strike", "türöffner", "gâche", "abrepuertas", "incontro")),
    *(
        (part, "magnetic_lock")
        for part in ("magnetic", "maglock", "electromagn", "elettromagn", "em lock", "haftmagnet", "ventouse")
    ),
    ("magneetslot", "magnetic_lock"),
    *((part, "electric_lock") for part in ("elektrisch slot", "motorslot")),
    *((part, "electric_lock") for part in ("electric lock", "motor lock", "motorschloss", "lock", "schloss")),
    *((part, "electric_lock") for part in ("serrure", "serratura", "cerradura")),
    *((part, "motion_detector") for part in ("motion", "passive infrared", " pir ", "bewegungsmelder", "mouvement")),
    *((part, "motion_detector") for part in ("movimiento", "movimento", "bewegingsmelder", "czujnik ruchu")),
    *((part, "door_contact") for part in ("contact", "kontakt", "contatto")),
    *((part, "door_holder") for part in ("hold-open", "hold open", "door holder", "feststell")),
    *((part, "keypad") for part in ("keypad", "codetastatur")),
    *((part, "intercom") for part in ("intercom", "sprechstelle", "interphone", "entry phone")),
    *((part, "siren") for part in ("siren", "sounder", "sirene")),
    ("panel", "panel"),
    *((part, "exit_button") for part in (" rex ", " rte ", "exit")),
    *((part, "door") for part in ("door", "gate", "tür", "porte", "puerta", " deur ")),
)
_AT_A_DOOR: Final = re.compile(
    r" (?:door|gate)s? (?:\w+ )?(?:closer|holder|operator|bell|terminal|alarm|interlock|release|unit|sounder|buzzer)s? "
    r"|tür(?!en\b|nummer|nr|blatt|flügel|anlage|typ)[a-zà-ÿ]{4}"
)
"""What is fitted to a door and is none itself: a door closer, a Türschließer."""
KNOWN_TYPES: Final = frozenset(kind for _, kind in _TYPES)
_TITLE: Final = re.compile(
    r"(?:\w+ ){0,3}(?:legend[ea]?|légende|leyenda|symbols?|abbreviations|key to symbols|zeichenerklärung|symbole|"
    r"simbolog[ií]a)"
    r"(?: list| schedule| key)?",
    re.I,
)
_ONE_TEXT: Final = re.compile(rf"([{LETTERS}]{{1,6}})(?:\s*[-–:=]\s*(\S.*)|\s+([{LETTERS}][a-zß-ÿ].*))")
"""With a sign between, or with words that are not in capitals: headings are."""
_CAPITALS: Final = re.compile(rf"([{LETTERS}]{{1,6}})\s+(\S.*)")
_ABBREVIATION: Final = re.compile(rf"(?:\d+[.)]\s*)?([{LETTERS}]{{1,6}})\s*=\s*(\S.*)")
_MOST_ENTRIES: Final = 200
_MOST_TITLES: Final = 20
"""Of legends on one page: under each, all runs of the page may be looked at."""
_ROW_HEIGHTS: Final = 5
_SHORTEST_WORD: Final = 4
_COLUMN: Final = 14.0
"""How far codes of one column may be out of line, in points."""


@dataclass(frozen=True, slots=True)
class Entry:
    """`count` is how many there shall be, or None; `runs` are the entry's texts."""

    code: str
    words: str
    y: float
    count: int | None = None
    runs: tuple[TextRun, ...] = field(default=(), compare=False)


def type_of(description: str) -> str:
    """`Card reader` → `reader`; a description that is not known is its own type."""
    words = f" {description.casefold()} "  # abbreviations are whole words: there is RTE in PORTE
    for part, kind in _TYPES:
        if part in words and not (kind == "door" and _AT_A_DOOR.search(words)):
            return kind
    try:
        return normalize_name(description)
    except BadKey:
        return "unknown"


def legend_of(drawing: Drawing) -> dict[str, str]:
    """Letters → description, as the drawing's own legends say; empty where it has none."""
    found: dict[str, str] = {}
    for page in drawing.pages:
        found |= {entry.code: entry.words for entry in page_legend(page) if entry.code not in found}
    return found


def door_letters(legend: Mapping[str, str]) -> frozenset[str]:
    """Codes of doors in the language of a legend, which it does not give another meaning."""
    words = " ".join(legend.values()).casefold()
    return frozenset(code for code, spoken in _DOOR_LETTERS if code not in legend and spoken.search(words))


def abbreviations_of(drawing: Drawing) -> dict[str, str]:
    """What notes explain: `ML = MAGNETIC LOCK`; only what names a type of component."""
    found: dict[str, str] = {}
    for page in drawing.pages:
        for run in page_runs(page):
            entry = _ABBREVIATION.fullmatch(run.text.strip())
            if entry is not None and type_of(entry.group(2)) in KNOWN_TYPES:
                found.setdefault(entry.group(1), entry.group(2).strip())
    return found


def page_legend(page: Page) -> list[Entry]:
    """The entries of all legends of a page (1)."""
    runs = [run for run in page_runs(page) if run.upright]
    titles = [run for run in runs if _TITLE.fullmatch(run.text.strip(" :"))][:_MOST_TITLES]
    if not titles:
        return []
    nearby = Nearby(runs)
    pairs = [(run, entry) for run in runs if (entry := _entry(run, nearby)) is not None]
    words = {id(entry.runs[1]) for run, entry in pairs if entry.runs[1:] and as_code(run)}
    pairs = [(run, entry) for run, entry in pairs if id(run) not in words]  # a description is no entry
    pairs = _nearest_codes(pairs)
    found: list[Entry] = []
    for title in titles:
        found += _under(title, pairs)
    return found


def _nearest_codes(pairs: Sequence[tuple[TextRun, Entry]]) -> list[tuple[TextRun, Entry]]:
    """Words explain the code right before them: one farther left is a mark of the plan beside the legend."""
    nearest: dict[int, float] = {}
    for run, entry in pairs:
        if as_code(run):
            words = id(entry.runs[1])
            nearest[words] = max(run.x, nearest.get(words, run.x))
    return [(run, entry) for run, entry in pairs if not as_code(run) or run.x == nearest[id(entry.runs[1])]]


def _under(title: TextRun, pairs: Sequence[tuple[TextRun, Entry]]) -> Iterator[Entry]:
    """Those below a title, column by column, each until a gap (1)."""
    left, right = title.x - title.length / 2 - 10 * title.size, title.x + title.length / 2 + 25 * title.size
    columns: list[tuple[float, list[Entry]]] = []
    for run, entry in sorted(pairs, key=lambda pair: pair[0].x):
        if not (left <= run.x <= right and run.y < title.y):
            continue
        if columns and run.x - columns[-1][0] < _COLUMN:
            columns[-1][1].append(entry)
        else:
            columns.append((run.x, [entry]))
    count = 0
    for _, entries in columns:
        last = title.y
        for entry in sorted(entries, key=lambda entry: -entry.y):
            if last - entry.y > _ROW_HEIGHTS * title.size or count == _MOST_ENTRIES:
                break
            yield entry
            last = entry.y
            count += 1


def _entry(run: TextRun, nearby: Nearby[TextRun]) -> Entry | None:
    text = run.text.strip()
    code = as_code(run)
    if code:
        words = _right_of(run, nearby)
        if words is None or (as_code(words) and not _is_one_word(words.text)):
            return None
        count, more = _count_after(words, nearby)
        return Entry(code, words.text.strip(), run.y, count, (run, words, *more))
    one = _ONE_TEXT.fullmatch(text) or _CAPITALS.fullmatch(text)
    if one is None or tags_in(text):  # `DPS-213` is a tag of the plan, wherever it stands
        return None
    words_text = next(group for group in one.groups()[1:] if group)
    if one.re is _CAPITALS and type_of(words_text) not in KNOWN_TYPES:
        return None
    count, more = _count_after(run, nearby)
    return Entry(one.group(1), words_text.strip(), run.y, count, (run, *more))


def _is_one_word(text: str) -> bool:
    """`DOOR`, `CAMERA`: a description as short as a code. `REX` beside another code is a code."""
    return len(text.strip()) >= _SHORTEST_WORD and type_of(text) in KNOWN_TYPES


def _right_of(run: TextRun, nearby: Nearby[TextRun], reach: float = 16) -> TextRun | None:
    """The nearest text in the same line to the right; a symbol's code may stand a little above or below its words."""
    begin = run.x + run.length / 2
    found = [
        (other.x - other.length / 2 - begin, abs(other.y - run.y), other)
        for other in nearby.within(begin + 400, run.y, 420, 1.1 * max(run.size, 6))
        if other is not run and -2 < other.x - other.length / 2 - begin < reach * run.size and len(other.text) > 2
    ]
    return min(found, key=lambda one: (one[0] // (2 * run.size), one[1]), default=(0, 0, None))[2]


def _count_after(words: TextRun, nearby: Nearby[TextRun]) -> tuple[int | None, tuple[TextRun, ...]]:
    begin = words.x + words.length / 2
    for other in nearby.within(begin + 200, words.y, 210, 0.5 * words.size):
        if other is not words and other.x > begin and other.text.strip().isdecimal() and len(other.text.strip()) <= 4:
            return int(other.text), (other,)
    return None, ()
