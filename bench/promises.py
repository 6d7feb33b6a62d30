"""What Penstock promises, each judged by the measured figures: nothing here is typed in from a run.

A promise names its section and how its figure follows from the section's figures. Where one of those is absent, the
promise was not measured, and says so. What a test keeps, and not a benchmark, names the test.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from bench.report import Figures, Section, Table

Measure = Callable[[Figures], float]
Bound = Literal["≥", ">", "≤", "<", "="]
HOLDS: Mapping[Bound, Callable[[float, float], bool]] = {
    "≥": operator.ge,
    ">": operator.gt,
    "≤": operator.le,
    "<": operator.lt,
    "=": operator.eq,
}


class Absent(LookupError):
    """A figure that was not measured."""


@dataclass(frozen=True)
class Promise:
    """`text` holds if the measured figure and `asked` are as `bound` says."""

    room: str
    text: str
    section: str
    measure: Measure
    bound: Bound
    asked: float | Measure
    shown: Callable[[float], str]


@dataclass(frozen=True)
class Kept:
    """A promise that tests keep: files or tests below tests/."""

    room: str
    text: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    promise: Promise
    asked: str
    measured: str
    met: bool | None  # None: not measured
    when: str


# ── how figures are had ──────────────────────────────────────────────────────────────────────────


def value(key: str, scale: float = 1.0) -> Measure:
    def measure(figures: Figures) -> float:
        if key not in figures:
            raise Absent(key)
        return figures[key] * scale

    return measure


def ratio(above: str, below: str) -> Measure:
    return lambda figures: value(above)(figures) / value(below)(figures)


def most(*measures: Measure) -> Measure:
    return lambda figures: max(measure(figures) for measure in measures)


def least(*measures: Measure) -> Measure:
    return lambda figures: min(measure(figures) for measure in measures)


def beside_fastest(load: str) -> Measure:
    """Ours in terms of the fastest peer that was measured."""

    def measure(figures: Figures) -> float:
        peers = [rate for key, rate in figures.items() if key.startswith(f"{load}/") and not key.endswith("/penstock")]
        if not peers:
            raise Absent(f"{load}/any peer")
        return value(f"{load}/penstock")(figures) / max(peers)

    return measure


def beside_least(what: str) -> Measure:
    """Ours in terms of the least of the peers that were measured."""

    def measure(figures: Figures) -> float:
        peers = [one for key, one in figures.items() if key.startswith(f"{what}/") and not key.endswith("/penstock")]
        if not peers:
            raise Absent(f"{what}/any peer")
        return value(f"{what}/penstock")(figures) / min(peers)

    return measure


def as_where_huey_does(asked: float) -> Measure:
    """A rate asked of a machine where Huey executes 3,100 a second, for the machine where Huey ran beside it."""
    return lambda figures: asked * value("executed/huey")(figures) / 3_100


# ── how figures are shown ────────────────────────────────────────────────────────────────────────


def whole(unit: str = "") -> Callable[[float], str]:
    return lambda number: f"{number:,.0f}{' ' if unit else ''}{unit}"


def one_digit(unit: str) -> Callable[[float], str]:
    return lambda number: f"{number:,.1f} {unit}"


def percent(part: float) -> str:
    return f"{part:.1%}"


# ── judging ──────────────────────────────────────────────────────────────────────────────────────


def judged(sections: Mapping[str, Section], promises: Iterable[Promise] | None = None) -> list[Verdict]:
    from bench.promised import PROMISES

    return [judge(one, sections.get(one.section)) for one in (PROMISES if promises is None else promises)]


def judge(promise: Promise, section: Section | None) -> Verdict:
    figures = section.figures if section else {}
    when = section.measured if section else ""
    try:
        measured = promise.measure(figures)
        asked = promise.asked(figures) if callable(promise.asked) else promise.asked
    except (Absent, ZeroDivisionError):
        told = promise.shown(promise.asked) if not callable(promise.asked) else "see the text"
        return Verdict(promise, f"{promise.bound} {told}", "–", None, when)
    met = HOLDS[promise.bound](measured, asked)
    return Verdict(promise, f"{promise.bound} {promise.shown(asked)}", promise.shown(measured), met, when)


def markdown(verdicts: list[Verdict]) -> str:
    """The part at the top of RESULTS.md."""
    from bench.promised import KEPT_BY_TESTS

    parts = ["## Promises", summary(verdicts)]
    for room in dict.fromkeys(verdict.promise.room for verdict in verdicts):
        table = Table(room, ["promise", "asked", "measured", "", "section, date"])
        for one in verdicts:
            if one.promise.room == room:
                word = "not measured" if one.met is None else "met" if one.met else "**missed**"
                where = f"{one.promise.section}, {one.when[:10]}" if one.met is not None else one.promise.section
                table.rows.append([one.promise.text, one.asked, one.measured, word, where])
        parts.append(table.markdown())
    tests = Table("Kept by tests, which count instead of measuring time", ["promise", "test"])
    tests.rows = [[one.text, ", ".join(f"`tests/{test}`" for test in one.tests)] for one in KEPT_BY_TESTS]
    return "\n\n".join([*parts, tests.markdown()])


def summary(verdicts: list[Verdict]) -> str:
    met = sum(one.met is True for one in verdicts)
    missed = [one for one in verdicts if one.met is False]
    unknown = sum(one.met is None for one in verdicts)
    told = f"{met} of {len(verdicts)} promises met, {len(missed)} missed, {unknown} not measured."
    gaps = [f"- Missed: {one.promise.text}: {one.measured}, asked {one.asked} ({one.promise.room})." for one in missed]
    return "\n".join([told, *(["", *gaps] if gaps else [])])
