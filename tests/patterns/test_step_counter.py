"""The checker itself: it matches what `re` matches, and finds what is known to be slow (step_counter.py, 1 and 2)."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from hostile_texts import Hostile, find_growth, is_linear
from step_counter import Counter, Program, TooManySteps, count_steps

LETTERS = ("a", "b", ".", "[ab]", "[^a]", r"\w", r"\s", "(?i:A)")
PLACES = (r"\b", "^", "$", r"\Z", "(?=a)", "(?!b)", "(?<=a)", "(?<!b)")
REPEATS = ("", "*", "+", "?", "*?", "+?", "??", "*+", "++", "?+", "{2}", "{1,3}", "{0,2}?", "{1,2}+")


def random_pattern(chance: random.Random, depth: int = 2) -> str:
    parts = []
    for _ in range(chance.randint(1, 3)):
        if depth and chance.random() < 0.35:
            inner = random_pattern(chance, depth - 1)
            atom = chance.choice(("({})", "(?:{})", "(?>{})", "(?:{}|b)")).format(inner)
        else:
            atom = chance.choice((*LETTERS, *PLACES))
        parts.append(atom + ("" if atom in PLACES else chance.choice(REPEATS)))
    return "".join(parts)


def span(found: re.Match[Any] | None) -> tuple[int, int] | None:
    return None if found is None else found.span()


def test_it_matches_what_re_matches() -> None:
    chance = random.Random(20)
    for _ in range(1500):
        pattern = random_pattern(chance)
        compiled, program = re.compile(pattern), Program(pattern)
        for _ in range(6):
            text = "".join(chance.choices("ab A\n", k=chance.randint(0, 7)))
            try:
                ours = Counter(program, text, 20_000).match(), Counter(program, text, 20_000).search()
                whole = Counter(program, text, 20_000).match(whole=True)
            except TooManySteps:
                continue
            theirs = compiled.match(text)
            assert ours[0] == (None if theirs is None else theirs.end()), (pattern, text)
            assert ours[1] == span(compiled.search(text)), (pattern, text)
            assert (whole is None) == (compiled.fullmatch(text) is None), (pattern, text)


def test_it_matches_bytes_and_groups_that_are_referred_to() -> None:
    assert Counter(Program(r"([$%])\1\{"), "a$${").search() == (1, 4)
    assert Counter(Program(r"([$%])\1\{"), "a$%{").search() is None
    assert Counter(Program(rb"\d+\s"), b"ab12 ").search() == (2, 5)
    assert Counter(Program("É", re.I), "é").match() == 1


def test_steps_are_the_same_each_time() -> None:
    program = Program(r"(\w+)\s*=\s*(.*)")
    assert count_steps(program, "match", "name = value" * 10) == count_steps(program, "match", "name = value" * 10)


SLOW = (
    (rb'"[^"\\]*(?:\\.[^"\\]*)*"', 0, "all"),  # quadratic: from each quote to the end of a string that has none
    (r".+:.+:.+:.+:.+:.+/.+", 0, "fullmatch"),  # to the sixth power of the colons
    (r"(a+)+b", 0, "match"),  # exponential
    (r"total\s+(?:number\s+of\s+)?([a-z ]+?)s?\s*[:=]\s*(\d{1,6})", re.I, "search"),  # cubic in blanks
    (r"\s*[-*•]?\s*([A-Za-z][A-Za-z /_-]{1,60}?)\s*[:=]\s*(\S.{0,500})", 0, "fullmatch"),
    (rb"(?<![A-Za-z])BI\s.{1,500}?\sID\s", re.S, "all"),  # bounded, by far too much
    (rb"[0-9A-Za-z-]+\Z", 0, "search"),
    (r"(?P<job>.+)_seq(?P<number>[0-9]{3,12})_.+_[0-9a-z]+", 0, "fullmatch"),
    (r"[+-]|\blist_append\b|\bREMOVE\b[^\[]*\[", re.I, "search"),
    (r"{[^}]*}", 0, "all"),
    (r"\s+$", 0, "search"),
    (r"(?:a|a)*$", 0, "match"),
    (r"(?:a|ab|b)*c", 0, "match"),
    (r"(\w+\s?)+$", 0, "match"),
    (r"<!--.*?-->", re.S, "all"),
    (rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)', 0, "all"),  # possessive, and yet: a last backslash fails from each quote
    (r"/\*.*?\*/|.", re.S, "tokens"),
)
FAST = (
    (r"(?:.[^:\n]*+:){5}.[^/\n]*+/.+", 0, "fullmatch"),
    (r"(?:a++)++b", 0, "match"),
    (r"[0-9A-Za-z-]+\Z", 0, "match"),
    (r"\s++$", 0, "match"),
    (r"(?<!\s)\s++$", 0, "search"),
    (r"(?:[^,]*,)*[^,]*", 0, "fullmatch"),
    (r"'(?:[^']|'')*+'", 0, "tokens"),
    (rb'"(?:[^"\\]++|\\[\s\S])*+(?:"|\\?\Z)', 0, "all"),
    (r"[a-z]{1,20}-[a-z]{1,20}", 0, "search"),  # a bound of a few letters is a factor, no power
)


@pytest.mark.parametrize(("pattern", "flags", "use"), SLOW)
def test_slow_patterns_are_found(pattern: str | bytes, flags: int, use: str) -> None:
    assert find_growth(Program(pattern, flags), use) is not None


@pytest.mark.parametrize(("pattern", "flags", "use"), FAST)
def test_linear_patterns_are_left_alone(pattern: str | bytes, flags: int, use: str) -> None:
    assert find_growth(Program(pattern, flags), use) is None


def test_a_text_given_by_hand_is_tried_too() -> None:
    pattern = r"begin[^;]*;|[^b]"
    assert find_growth(Program(pattern), "all", (Hostile("", "begin", ""),)) is not None


def test_counts_on_a_line_are_linear_and_those_above_are_not() -> None:
    assert is_linear((1000, 2000, 3000))
    assert is_linear((1020, 2010, 3007))
    assert not is_linear((1000, 2500, 4500))
    assert not is_linear((400_000,))
