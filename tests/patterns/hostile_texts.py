"""Texts that a pattern may find hard, derived from the pattern itself.

A backtracking matcher is superlinear exactly where some `prefix + pump * n + suffix` is: the prefix leads to a part of
the pattern that repeats, the pump can be read there in more than one way (for a search: from more than one start), and
the suffix makes it fail at the end. So these are tried: as prefixes, samples of what the pattern matches up to its
repeats; as pumps, short words over one character of each kind that the pattern tells apart, and samples of its repeats;
as suffixes, nothing and each kind of character.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from step_counter import Program, Single, TooManySteps, count_steps, subtrees

_CANDIDATES = " \t\r\n\x00\x1f\x7f059aszAEZ_-+.:;/=,'\"\\#%{}()[]<>@~!?*|&^é’€٣"
_SAMPLES = 12
_LONGEST_SAMPLE = 40
_PUMPS, _PREFIXES = 200, 8
_TRIAL_SIZES, _TRIAL_BUDGET = (6, 18), 20_000
_CHOSEN = 24  # of the trials, those whose cost for a character grows most are looked at closely
_SIZE = 48  # pumps; longer than any repeat that the step counter unrolls
_BUDGET = 400_000


class Hostile(NamedTuple):
    """A text of any size: the pump is what grows."""

    prefix: str
    pump: str
    suffix: str

    def text(self, size: int) -> str:
        return self.prefix + self.pump * size + self.suffix


class Growth(NamedTuple):
    """A text on which the steps of a pattern grow faster than its length."""

    hostile: Hostile
    steps: tuple[int, ...]


def find_growth(program: Program, use: str, extra: tuple[Hostile, ...] = ()) -> Growth | None:
    """The first hostile text found on which the steps are not linear, or None."""
    growths = {hostile: _trial_growth(program, use, hostile) for hostile in derive(program)}
    chosen = sorted(growths, key=lambda one: -growths[one])[:_CHOSEN]
    for hostile in (*extra, *chosen):
        steps = _steps(program, use, hostile)
        if not is_linear(steps):
            return Growth(hostile, steps)
    return None


def _trial_growth(program: Program, use: str, hostile: Hostile) -> float:
    """How many times the cost of a character grows from a small text to one three times as long."""
    costs = []
    for size in _TRIAL_SIZES:
        text = hostile.text(size)
        try:
            costs.append(count_steps(program, use, encoded(program, text), _TRIAL_BUDGET) / len(text))
        except TooManySteps:
            return float("inf")
    return costs[1] / costs[0]


def _steps(program: Program, use: str, hostile: Hostile) -> tuple[int, ...]:
    steps = []
    for times in (1, 2, 3):
        try:
            steps.append(count_steps(program, use, encoded(program, hostile.text(_SIZE * times)), _BUDGET))
        except TooManySteps:
            steps.append(_BUDGET)
            break
    return tuple(steps)


def is_linear(steps: tuple[int, ...]) -> bool:
    """Whether the counts at n, 2n and 3n lie on a line.

    A text that repeats costs each further repetition the same, once bounded repeats are full: the second difference is
    then next to nothing. Of quadratic steps it is a multiple of n squared.
    """
    if len(steps) < 3:
        return False
    return abs(steps[2] - 2 * steps[1] + steps[0]) <= 2 * _SIZE


def derive(program: Program) -> Iterator[Hostile]:
    """The texts for one pattern, each once."""
    kinds = characters(program)
    if not kinds:
        return
    samples = _Samples(program, kinds)
    pumps = _pumps(kinds, samples)
    suffixes = ["", *kinds][:12]
    seen: set[Hostile] = set()
    for prefix in samples.prefixes:
        for pump in pumps:
            # Most failures need no more than the end or a stranger; a particular ending is tried with single kinds.
            for suffix in suffixes if len(pump) == 1 else (suffixes[0], suffixes[1]):
                hostile = Hostile(prefix, pump, suffix)
                if hostile not in seen:
                    seen.add(hostile)
                    yield hostile


def characters(program: Program) -> list[str]:
    """One character of each kind that the pattern tells apart; first the kind that the fewest parts accept."""
    known: dict[tuple[bool, ...], str] = {}
    for character in dict.fromkeys(_literals(program.tree) + _CANDIDATES):
        if isinstance(program.pattern, bytes) and ord(character) > 255:
            continue
        kind = (*(_accepts(program, single, character) for single in program.singles), character.isalnum())
        known.setdefault(kind, character)
    return [known[kind] for kind in sorted(known, key=sum)]


def encoded(program: Program, text: str) -> str | bytes:
    return text.encode("latin-1", "replace") if isinstance(program.pattern, bytes) else text


def _accepts(program: Program, single: Single, character: str) -> bool:
    return single.accepts(encoded(program, character))


def _literals(tree: Any) -> str:
    """The characters that the pattern names, and those beside its ranges."""
    found = ""
    for operator, argument in tree:
        match str(operator):
            case "LITERAL" | "NOT_LITERAL":
                found += chr(argument)
            case "IN":
                found += _literals(one for one in argument if str(one[0]) in ("LITERAL", "RANGE"))
            case "RANGE":
                found += chr(argument[0]) + chr(argument[1])
            case _:
                found += "".join(_literals(part) for part in subtrees(argument))
    return found


def _pumps(kinds: list[str], samples: _Samples) -> list[str]:
    longest = 3 if len(kinds) <= 4 else 2
    words = ["".join(word) for length in range(1, longest + 1) for word in product(kinds, repeat=length)]
    singles = [word for word in words if len(word) == 1]
    rest = [word for word in words if len(word) > 1]
    random.Random(7).shuffle(rest)
    return list(dict.fromkeys([*singles, *samples.pumps, *rest]))[:_PUMPS]


class _Samples:
    """Random texts that the pattern matches, and what stands before and within its unbounded repeats."""

    def __init__(self, program: Program, kinds: list[str]) -> None:
        self._program, self._kinds, self._random = program, kinds, random.Random(11)
        self._turns: dict[int, int] = {}
        before: dict[int, set[str]] = {}
        bodies: set[str] = set()
        wholes: set[str] = set()
        for _ in range(_SAMPLES):
            self._before: list[tuple[int, str, str]] = []
            wholes.add(self._sequence(program.tree, program.flags, "")[:_LONGEST_SAMPLE])
            for repeat, prefix, body in self._before:
                before.setdefault(repeat, set()).add(prefix)
                bodies.add(body)
        shortest = [sorted(texts, key=lambda text: (len(text), text))[:2] for texts in before.values()]
        heads = list(dict.fromkeys(text for texts in shortest for text in texts))
        self.prefixes = list(dict.fromkeys(["", *heads]))[:_PREFIXES]
        pumps = {*bodies, *heads, *wholes, *(head + kind for head in heads for kind in kinds)}
        fitting = [pump for pump in pumps if 0 < len(pump) <= _LONGEST_SAMPLE]
        self.pumps = sorted(fitting, key=lambda text: (len(text), text))[:120]

    def _sequence(self, nodes: Any, flags: int, written: str) -> str:
        """A sample of the nodes, after what has been written."""
        begun = len(written)
        for node in nodes:
            written += self._node(node, flags, written)
        return written[begun:]

    def _node(self, node: tuple[Any, Any], flags: int, written: str) -> str:
        operator, argument = node
        match str(operator):
            case "LITERAL" | "NOT_LITERAL" | "IN" | "ANY":
                fitting = [one for one in self._kinds if _accepts(self._program, Single(node, flags), one)]
                return self._random.choice(fitting) if fitting else ""
            case "BRANCH":
                return self._sequence(self._next_way(argument[1]), flags, written)
            case "SUBPATTERN":
                return self._sequence(argument[3], (flags | argument[1]) & ~argument[2], written)
            case "ATOMIC_GROUP":
                return self._sequence(argument, flags, written)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                return self._repeat(argument, flags, written)
        return ""

    def _next_way(self, ways: list[Any]) -> Any:
        """The ways of a branch in turn, so that each is sampled."""
        turn = self._turns[id(ways)] = self._turns.get(id(ways), -1) + 1
        return ways[turn % len(ways)]

    def _repeat(self, argument: tuple[int, int, Any], flags: int, written: str) -> str:
        low, high, body = argument
        if high > 8:
            self._before.append((id(body), written[-_LONGEST_SAMPLE:], self._sequence(body, flags, written)))
        text = ""
        for _ in range(self._random.randint(low, min(high, low + 2))):
            text += self._sequence(body, flags, written + text)
        return text
