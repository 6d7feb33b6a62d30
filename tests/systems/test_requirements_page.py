"""docs/requirements.md names every capability, and tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAST = {0: 13, 1: 21, 2: 17, 3: 13, 4: 20}
ROW = re.compile(r"^\| S(\d)\.(\d+) \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs" / "requirements.md").read_text())


def test_every_requirement_has_its_row() -> None:
    assert [(int(system), int(number)) for system, number, *_ in ROWS] == [
        (system, number) for system, last in LAST.items() for number in range(1, last + 1)
    ]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"S{row[0]}.{row[1]}")
def test_its_tests_are_where_the_row_says(row: tuple[str, str, str, str, str]) -> None:
    system, number, _, files, by_hand = row
    assert by_hand.strip()
    for file in re.findall(r"`([^`]+)`", files):
        names = re.findall(r"def test_S\d_[\w]+", (ROOT / "tests" / file).read_text())
        assert any(_is_about(name, int(system), int(number)) for name in names), file


def _is_about(name: str, system: int, number: int) -> bool:
    """`test_S1_8_…`, `test_S1_8_and_14_…`, `test_S3_1_to_5_…`."""
    found = re.match(r"def test_S(\d)_(\d+)(?:_(and|to)_(\d+))?_", name)
    if found is None or int(found[1]) != system:
        return False
    first, last = int(found[2]), int(found[4] or found[2])
    return first <= number <= last if found[3] == "to" else number in (first, last)
