"""`python -m trust.fuzz`, short: every reader takes its sound inputs and a little nonsense."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trust.fuzz", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)


def test_every_reader_takes_a_little_nonsense() -> None:
    done = run("--seconds", "0.1", "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("Nothing was found.")
    assert len(re.findall(r"^\w+ +[\d,]+ inputs", done.stdout, re.MULTILINE)) >= 31


def test_an_input_is_tried_again_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "kept.bin"
    path.write_bytes(b"9" * 5_000 + b" * * * *")
    done = run("--target", "cron", "--input", str(path))
    assert (done.returncode, done.stdout) == (0, "Nothing is wrong with it.\n")
