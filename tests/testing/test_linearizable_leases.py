"""The rules of leases: each is found broken where it is, and sound leases pass."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # trust/ lies beside tests/, and is not installed

from trust.lease_rules import Fact, broken_lease_rules

MS = 1_000_000
LEASE = 0.5


def grant(token: int, began: int, ended: int, who: str = "a") -> Fact:
    return Fact("grant", "job", token, who, began * MS, ended * MS)


def write(token: int, number: int, began: int, ended: int, who: str = "a") -> Fact:
    return Fact("write", "job", token, who, began * MS, ended * MS, number)


def returned(token: int, began: int) -> Fact:
    return Fact("return", "job", token, "a", began * MS, began * MS)


def end(who: str, began: int, ended: int) -> Fact:
    """Of a process, and so of all that it held."""
    return Fact("end", "", 0, who, began * MS, ended * MS)


SOUND = [
    grant(1, 0, 10),
    write(1, 1, 20, 30),
    returned(1, 40),
    grant(2, 41, 50, "b"),
    write(2, 2, 60, 70, "b"),
    grant(3, 600, 610, "c"),  # b's lease has run out
    write(2, 3, 605, 608, "b"),  # before the grant had ended
    end("c", 620, 630),
    grant(4, 631, 640, "d"),  # c's process has ended
]


def test_sound_leases_break_no_rule() -> None:
    assert broken_lease_rules(SOUND, LEASE) == []


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ([grant(1, 0, 10), grant(1, 700, 710, "b")], "one token was granted twice (1)"),
        ([grant(2, 0, 10), grant(1, 20, 30, "b")], "the larger of two numbers came first"),
        ([grant(1, 0, 10), grant(2, 700, 710, "b"), write(1, 1, 720, 730)], "a write was not fenced off (2)"),
        ([grant(1, 0, 10), grant(2, 100, 110, "b")], "a lease was taken before it ran out (3)"),
        ([grant(1, 0, 10), grant(2, 100, 110, "b"), end("a", 120, 130)], "a lease was taken before it ran out (3)"),
        ([grant(1, 0, 10), end("b", 20, 30), grant(2, 100, 110, "c")], "a lease was taken before it ran out (3)"),
        (
            [grant(1, 0, 10), write(1, 1, 400, 410), grant(2, 700, 710, "b")],
            "a lease was taken before it ran out (3)",
        ),
        ([grant(1, 0, 10), write(1, 1, 20, 30), write(1, 1, 40, 50)], "one number was written twice (4)"),
        ([grant(1, 0, 10), write(1, 2, 20, 30), write(1, 1, 40, 50)], "the larger of two numbers came first"),
    ],
)
def test_each_rule_that_is_broken_is_told_with_who_and_when(facts: list[Fact], told: str) -> None:
    found, *_ = broken_lease_rules(facts, LEASE)
    assert found.startswith(f"job: {told}: ")
    assert " ms)" in found
