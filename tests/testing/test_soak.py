"""The soak in its short form: all shapes of jobs, faults, kills and jumps, on a file and over HTTP."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.crash
@pytest.mark.parametrize("over", ["file", "http"])
def test_a_short_soak_loses_doubles_and_reorders_nothing(over: str) -> None:
    options = ["--over", over, "--seconds", "1.5", "--seed", "3", "--workers", "1", "--rate", "20", "--jump", "1"]
    command = [sys.executable, "-m", "trust.soak", *options]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "seed 3" in ended.stdout
    assert "Nothing was lost, doubled or reordered." in ended.stdout
