"""Whether a schedule has what is on the drawing: the drawing is read again, for marks, without the schedule's eyes.

1. A mark looks like a device whatever its code means. One that is in no row is a finding: an error if its code is known
   to the legend, a warning if not.
2. A row must have a mark, or a place in a table of the drawing. One that has none was made up: an error.
3. A legend that counts its symbols, and a door schedule that asks for a device, are held against the rows.
4. The score is the share of marks that are in rows, less for each finding. It falls with every device that is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from penstock.systems.security_assistant.drawing.components import (
    AT_DOORS,
    Component,
    Components,
    count_components,
    plan_marks,
    type_of,
)
from penstock.systems.security_assistant.drawing.legend import CUSTOM, DOOR_CODES, abbreviations_of, legend_of
from penstock.systems.security_assistant.drawing.marks import Mark, key_of, page_runs, tag_key, unread_outlines
from penstock.systems.security_assistant.drawing.page import Drawing
from penstock.systems.security_assistant.drawing.schedule import Evaluation, Finding, Severity, counted, shown_finding

DRAWING_CHECKS: Final = (
    "every mark that looks like a device is in a row",
    "every row has a mark on the drawing",
    "the legend's counts are right",
    "every device that the drawing's schedule asks for is in a row",
    "every page was read",
)
_FULL: Final = 100
_COST: Final = {"error": 10, "warning": 3}
_SERIES: Final = 2
"""Of an unknown code: devices are numbered one after the other, what stands there once is a reference."""
_UNSURE: Final = 0.8
"""A tag of a scan that was read with less confidence should be looked at."""


@dataclass(frozen=True, slots=True)
class DrawingCheck:
    score: int
    findings: tuple[Finding, ...]


def check_against(drawing: Drawing, components: Components, judged: Evaluation) -> Evaluation:
    """The evaluation of whoever judged, with what the drawing says: a schedule that lacks marks does not pass."""
    found = check_drawing_marks(drawing, components)
    score = max(0, judged.score - (_FULL - found.score))
    return replace(
        judged, score=score, checks=(*judged.checks, *DRAWING_CHECKS), findings=(*judged.findings, *found.findings)
    )


def check_drawing_marks(drawing: Drawing, components: Components) -> DrawingCheck:
    own = count_components(drawing)
    known = {**(legend_of(drawing) or CUSTOM), **abbreviations_of(drawing)}
    pages = [(page, *plan_marks(page)) for page in drawing.pages]
    marks = [mark for _, found, _ in pages for mark in found if mark.code]
    missing, strange = _missing(marks, components.found, known)
    unread = sum(len(unread_outlines(page, found)) for page, found, _ in pages)
    asked, unanswered = _unscheduled(own, components)
    findings = [
        *_finding(0, "error", "mark[s] with a code of the legend [is|are] in no row", missing),
        *_finding(
            0,
            "warning",
            "mark[s] look[s|] like [a device|devices], and [its code is|their codes are] not known",
            strange,
        ),
        *_unread(unread),
        *_finding(1, "error", "row[s] [has|have] no mark on the drawing", _made_up(drawing, components, marks, own)),
        *_legend(components, known),
        *_finding(3, "error", "device[s] of the drawing's schedule [is|are] in no row", unanswered),
        *_pages(drawing),
        *_unsure(components),
    ]
    lacking = len(missing) + len(strange) + unread + len(unanswered)
    return DrawingCheck(_score(len(marks) + unread + asked, lacking, findings), tuple(findings))


def _score(marks: int, missing: int, findings: Iterable[Finding]) -> int:
    share = 1 - missing / marks if marks else 1.0
    return max(0, int(_FULL * share) - sum(_COST[finding.severity] for finding in findings))


def _missing(marks: list[Mark], rows: Iterable[Component], known: dict[str, str]) -> tuple[list[str], list[str]]:
    """The tags of marks that are in no row: of known codes, and of others. A code alone is in as many rows as it is."""
    numbered = {key_of(one.designator) for one in rows}
    bare = Counter(key_of(one.designator) for one in rows)
    missing, strange = [], []
    different = {mark.key: mark for mark in marks if mark.number}.values()
    series = Counter(mark.code for mark in different if mark.outline or " " not in mark.tag)
    for mark in different:
        is_door = mark.code in DOOR_CODES or type_of(known.get(mark.code, "")) == "door"
        if mark.key in numbered or (is_door and tag_key("", mark.number) in numbered):
            continue
        if mark.code in known:
            missing.append(mark.tag)
        elif series[mark.code] >= _SERIES and (mark.outline or " " not in mark.tag):
            strange.append(mark.tag)
    outlined = {mark.key for mark in marks if mark.outline}
    for key, count in Counter(mark.key for mark in marks if not mark.number).items():
        code = key.partition("|")[0]
        if code in known and (key in outlined or len(code) > 1) and type_of(known[code]) != "door":
            missing += [code] * (count - bare[key])
        elif code not in known and key in outlined and count >= _SERIES:
            strange += [code] * (count - bare[key])
    return missing, strange


def _made_up(drawing: Drawing, components: Components, marks: list[Mark], counted: Components) -> list[str]:
    """Designators that stand nowhere on the drawing (2)."""
    drawn = {mark.key for mark in marks} | {tag_key("", mark.number) for mark in marks}
    texts = {_plain(run.text) for page in drawing.pages for run in page_runs(page)}
    texts |= {_plain(one.designator) for one in counted.found}
    return [
        one.designator
        for one in components.found
        if key_of(one.designator) not in drawn and _plain(one.designator) not in texts
    ]


def _plain(text: str) -> str:
    return "".join(letter for letter in text.upper() if letter.isalnum())


def _legend(components: Components, known: dict[str, str]) -> Iterator[Finding]:
    counted = Counter(key_of(one.designator).partition("|")[0] for one in components.found)
    for code, stated in components.legend_counts.items():
        found = counted[code]
        if found != stated and code in known:
            severity: Severity = "error" if found < stated else "warning"
            message = f"The legend counts {stated} of {code}, and {found} are in rows."
            yield Finding(DRAWING_CHECKS[2], severity, message, abs(found - stated), (code,))


def _unscheduled(counted: Components, components: Components) -> tuple[int, list[str]]:
    """How many devices the drawing's own tables ask for at doors, and those that no row has (3)."""
    has = Counter((_plain(one.door), one.type) for one in components.found)
    wants = Counter(
        (one.door, one.type)
        for one in counted.found
        if one.in_schedule and one.type in AT_DOORS and one.type != "door" and one.door
    )
    lacking = [
        f"{door} {kind}" for (door, kind), count in wants.items() for _ in range(count - has[_plain(door), kind])
    ]
    return sum(wants.values()), lacking


def _pages(drawing: Drawing) -> Iterator[Finding]:
    unread = [str(page.number) for page in drawing.pages if page.read_by == "nobody"]
    if unread:
        read = counted(len(unread), "page[s] [is a picture and was|are pictures and were] not read")
        message = f"{read}: {', '.join(unread[:20])}. Install text recognition: pip install 'penstock[ocr]'."
        yield Finding(DRAWING_CHECKS[4], "error", message, len(unread), tuple(unread[:20]))


def _unread(count: int) -> Iterator[Finding]:
    if count:
        words = "outline[s] [is|are] drawn as those of tags are, and no tag was read in [it|them]."
        message = counted(count, words)
        yield Finding(DRAWING_CHECKS[0], "warning", message, count)


def _unsure(components: Components) -> Iterator[Finding]:
    unsure = [one.designator for one in components.found if one.confidence < _UNSURE]
    yield from _finding(4, "warning", "tag[s] [was|were] hard to read", unsure)


def _finding(check: int, severity: Severity, words: str, names: list[str]) -> Iterator[Finding]:
    if names:
        yield shown_finding(DRAWING_CHECKS[check], severity, words, names)
