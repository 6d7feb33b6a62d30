"""How much of a drawing's truth was found: recall, precision, and of what was found how much has its type and door."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, dataclass

from bench.drawings.sheet import Truth
from penstock.systems.security_assistant.drawing.components import Component

_KINDS = {
    "door": "door",
    "reader": "reader",
    "exit_button": "exit button",
    "door_contact": "contact",
    "magnetic_lock": "lock",
    "electric_strike": "lock",
    "electric_lock": "lock",
    "camera": "camera",
    "motion_detector": "detector",
    "keypad": "keypad",
    "intercom": "intercom",
}


@dataclass(frozen=True)
class Score:
    """`right` of `found` are true; `typed` of these have the right type, and `placed` of `doors` the right door."""

    truth: int = 0
    found: int = 0
    right: int = 0
    typed: int = 0
    placed: int = 0
    doors: int = 0

    @property
    def recall(self) -> float:
        return self.right / self.truth if self.truth else 1.0

    @property
    def precision(self) -> float:
        return self.right / self.found if self.found else 1.0

    def __add__(self, other: Score) -> Score:
        return Score(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


def plain(tag: str) -> str:
    """Blanks and hyphens do not count: `CR 1` is `CR-1`."""
    return re.sub(r"[\s–-]", "", tag).upper()


def score(truth: Iterable[Truth], found: Iterable[Component]) -> Score:
    """Tags are matched by their text, ticks of a schedule by type and door; each thing found is right once."""
    wanted = list(truth)
    left = list(found)
    everything = len(left)
    right = typed = placed = doors = 0
    for one in sorted(wanted, key=lambda one: not one.tag):
        matches = [other for other in left if _matches(one, other)]
        if not matches:
            continue
        # Codes without a number are many of one tag: the one at the right door is meant, if it is there.
        match = max(matches, key=lambda other: plain(other.door) == plain(one.door))
        left.remove(match)
        right += 1
        typed += _KINDS.get(match.type) == one.kind
        if one.door and one.kind != "door":
            doors += 1
            placed += plain(match.door) == plain(one.door)
    return Score(len(wanted), everything, right, typed, placed, doors)


def _matches(one: Truth, other: Component) -> bool:
    if one.tag:
        return plain(one.tag) == plain(other.designator)
    return _KINDS.get(other.type) == one.kind and plain(one.door) == plain(other.door)


def differences(truth: Iterable[Truth], found: Iterable[Component]) -> tuple[list[str], list[str]]:
    """What was missed, and what is not there."""
    wanted = Counter(plain(one.tag) for one in truth if one.tag)
    got = Counter(plain(one.designator) for one in found)
    return sorted((wanted - got).elements()), sorted((got - wanted).elements())
