"""Patterns that were made linear accept what they accepted before: both are asked about random texts."""

from __future__ import annotations

import random
import re
from typing import Any

from penstock.client.wrappers import retries
from penstock.engine.operations import resources
from penstock.server import known_heads
from penstock.systems.excel_reports.records import RecordId, parse_record_id
from penstock.systems.security_assistant.drawing import components, page


def texts(words: tuple[str, ...], count: int, longest: int) -> list[str]:
    """Random texts of the words that matter to a pattern."""
    chance = random.Random(len(words) * longest)
    return ["".join(chance.choices(words, k=chance.randint(0, longest))) for _ in range(count)]


def groups(found: re.Match[Any] | None) -> Any:
    return None if found is None else found.groups()


def test_what_looks_like_an_arn() -> None:
    before = re.compile(r".+:.+:.+:.+:.+:.+/.+")
    for text in texts((":", ":", ":", "/", "a", "\n"), 8_000, 16):
        assert (resources._ANY_ARN.fullmatch(text) is None) == (before.fullmatch(text) is None), text


def test_where_the_changing_part_of_a_header_begins() -> None:
    before = re.compile(rb"[0-9A-Za-z-]+\Z")
    for text in texts(("a", "Z", "9", "-", " ", "=", "\n"), 5_000, 9):
        ours, theirs = known_heads.ENDING.search(text.encode()), before.search(text.encode())
        assert (ours and ours.span()) == (theirs and theirs.span()), text


def test_which_record_an_id_names() -> None:
    main = re.compile(r"job_(?P<job>.+)_[0-9]{1,16}_[0-9a-z]+")
    numbered = re.compile(r"(?P<job>.+)_seq(?P<number>[0-9]{3,12})_.+_[0-9a-z]+")

    def before(text: str) -> RecordId | None:
        if (found := numbered.fullmatch(text)) is not None:
            return RecordId(found["job"], int(found["number"]))
        return None if (found := main.fullmatch(text)) is None else RecordId(found["job"], 0)

    named = 0
    for text in texts(("job_", "_", "_seq", "_seq000_", "_123_", "a", "Z", "_x", "\n"), 20_000, 9):
        assert parse_record_id(text) == before(text), text
        named += before(text) is not None
    assert named > 300


def test_which_statements_remove_elements() -> None:
    before = re.compile(r"[+-]|\blist_append\b|\bREMOVE\b[^\[]*\[", re.IGNORECASE)
    for text in texts(("REMOVE", "remove", " ", "[", "a", "+", "list_append"), 8_000, 7):
        now = bool(retries._BUILDS_ON_OLD.search(text)) or retries._removes_elements(text)
        assert now is (before.search(text) is not None), text


def test_which_totals_a_drawing_states() -> None:
    before = re.compile(r"total\s+(?:number\s+of\s+)?([a-z ]+?)s?\s*[:=]\s*(\d{1,6})", re.I)
    words = ("total ", "Total", " ", "number of ", "cameras", "s", ": ", "=", "7", "٣", "total number of", "é")
    stated = 0
    for text in texts(words, 30_000, 9):
        plain = " ".join(text.split())  # a run of blanks is one now, which is what a reader of the drawing sees
        assert groups(components._STATED.search(plain)) == groups(before.search(plain)), text
        stated += before.search(plain) is not None
    assert stated > 150


def test_which_column_a_cell_is_nearest_to() -> None:
    chance = random.Random(5)
    for _ in range(3_000):
        begins = sorted(float(chance.randint(0, 12)) for _ in range(chance.randint(1, 6)))
        x = chance.randint(-2, 28) / 2
        assert page._nearest(begins, x) == min(range(len(begins)), key=lambda at: abs(begins[at] - x))
