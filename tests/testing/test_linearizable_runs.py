"""`python -m trust.linearizable`, short: sound databases pass, broken ones are found."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trust.linearizable", "--seed", "1", "--processes", "2", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)


@pytest.mark.crash
@pytest.mark.parametrize("over", [(), ("--http",)], ids=["on one file", "over HTTP"])
def test_clients_that_are_killed_agree_on_an_order(over: tuple[str, ...]) -> None:
    done = run("--kill", "--seconds", "1", *over)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "linearizable (every call at one moment" in done.stdout


def test_a_broken_database_is_found_and_its_history_kept() -> None:
    done = run("--memory", "--processes", "1", "--calls", "800", "--seconds", "120", "--break", "stale")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "<- nothing explains this" in done.stdout
    kept = Path(done.stdout.strip().rpartition("The histories are in ")[2].rstrip("."))
    assert list(kept.glob("*.history"))
    shutil.rmtree(kept)


def test_a_memory_of_many_processes_is_refused_with_what_to_do() -> None:
    done = run("--memory")
    assert done.returncode == 2
    assert "add --processes 1" in done.stderr
