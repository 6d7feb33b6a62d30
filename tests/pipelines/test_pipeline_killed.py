"""The whole of a killed pipeline is never redone: the finished steps are counted."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import five_steps
import pytest
from five_steps import JOB, LEASE_IS_OVER, STEPS, run

KILLED = "-9"


@pytest.mark.crash
@pytest.mark.parametrize("moment", ["in", "after"])
def test_killed_at_every_step_in_turn_the_finished_ones_never_run_again(tmp_path: Path, moment: str) -> None:
    """Killed within a step, that one alone runs again; killed after its checkpoint, none does."""
    command = [sys.executable, five_steps.__file__, str(tmp_path), moment]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120)
    lines = [line.split() for line in told.stdout.splitlines()]
    assert [line[0] for line in lines] == [KILLED] * len(STEPS), told.stderr
    for number, line in enumerate(lines):
        done = STEPS[: number + 1]
        again = {} if moment == "after" else dict.fromkeys(done[:-1], 2)
        assert Counter(line[1:]) == dict.fromkeys(done, 1) | again
    report = run(tmp_path, "nowhere", len(STEPS) * LEASE_IS_OVER)
    assert report.finished
    assert report["lengths"] == [2, 4, 7, 4]
    assert report["picture"].read().decode().splitlines()[2] == "#######"
    assert report["picture"].key == f"{JOB}/draw/bars~{4 if moment == 'after' else 5}.txt"  # of that attempt
    assert report.reused == (STEPS if moment == "after" else STEPS[:-1])
    counts = Counter((tmp_path / "counts.txt").read_text().split())
    assert counts == dict.fromkeys(STEPS, 1 if moment == "after" else 2)
