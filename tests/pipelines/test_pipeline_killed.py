"""The whole of a killed pipeline is never redone: the finished steps are counted."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from five_steps import JOB, STEPS, run

PROGRAM = Path(__file__).with_name("five_steps.py")
KILLED = -9
LEASE_IS_OVER = 60.0


def process(folder: Path, where: str, ahead: float) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), str(folder), where, str(ahead)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def counts(folder: Path) -> Counter[str]:
    return Counter((folder / "counts.txt").read_text().split())


@pytest.mark.crash
@pytest.mark.parametrize("moment", ["in", "after"])
def test_killed_at_every_step_in_turn_the_finished_ones_never_run_again(tmp_path: Path, moment: str) -> None:
    """Killed within a step, that one alone runs again; killed after its checkpoint, none does."""
    for number, step in enumerate(STEPS):
        killed = process(tmp_path, f"{moment} {step}", number * LEASE_IS_OVER)
        assert killed.returncode == KILLED, killed.stderr
        done = STEPS[: number + 1]
        again = {} if moment == "after" else dict.fromkeys(done[:-1], 2)
        assert counts(tmp_path) == dict.fromkeys(done, 1) | again
    report = run(tmp_path, "nowhere", len(STEPS) * LEASE_IS_OVER)
    assert report.finished
    assert report["lengths"] == [2, 4, 7, 4]
    assert report["picture"].read().decode().splitlines()[2] == "#######"
    assert counts(tmp_path) == dict.fromkeys(STEPS, 1 if moment == "after" else 2)
    assert report.reused == (STEPS if moment == "after" else STEPS[:-1])
    assert report["picture"].key == f"{JOB}/draw/bars~{4 if moment == 'after' else 5}.txt"  # of that attempt
