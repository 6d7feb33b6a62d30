"""Consumers in processes that are killed and frozen: the short form of `python -m trust.streams`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from trust.streams import problems, trial


@pytest.mark.crash
def test_processes_that_are_killed_and_frozen_lose_no_change(tmp_path: Path) -> None:
    wrong, summary = trial(tmp_path / "orders.db", changes=1_500, processes=2, kills=4, seed=7)
    assert not wrong, f"{wrong[:5]}\n{summary}"


def test_the_ledger_checker_finds_what_is_lost_out_of_order_and_repeated_for_nothing() -> None:
    written = Counter({"a": 3})
    assert problems([(1, "a", 0), (1, "a", 1), (1, "a", 2)], written, set()) == ([], 0)
    assert problems([(1, "a", 0), (1, "a", 1), (2, "a", 1), (2, "a", 2)], written, {1}) == ([], 1)
    for lines in (
        [(1, "a", 0), (1, "a", 1)],
        [(1, "a", 0), (1, "a", 2), (1, "a", 1)],
        [(1, "a", 0), (1, "a", 1), (2, "a", 1), (2, "a", 2)],
    ):
        assert problems(lines, written, set())[0]
