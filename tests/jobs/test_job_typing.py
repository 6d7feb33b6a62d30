"""Jobs are typed: a task's arguments are checked where it is enqueued."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sample_app

SAMPLE = Path(sample_app.__file__)
ROOT = SAMPLE.parents[2]


def mypy(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache"), str(path)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=240)


def test_the_sample_runs() -> None:
    assert sample_app.main() == 15
    sample_app.app.close()


def test_the_sample_is_typed() -> None:
    pytest.importorskip("mypy")
    checked = mypy(SAMPLE)
    assert checked.returncode == 0, checked.stdout


def test_mistakes_are_found(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        SAMPLE.read_text()
        + "\nsquare.enqueue(number='four')\nsquare.enqueue()\ntotal.enqueue(begin=1)\n"
        + "square.options(priority='high').enqueue(number=1)\n"
        + "add.enqueue()\nadd.enqueue(1, c=2)\nadd_async.enqueue(a='x')\nadd.enqueue(1).is_old\n"
        + "text: str = square.result('job_1')\n"
        + "t = app.store.db.transaction()\nt.enqueue(add, a='x')\nt.enqueue(square)\nt.enqueue(add, a=1).is_old\n"
    )
    checked = mypy(wrong)
    lines = len(SAMPLE.read_text().splitlines())
    found = {int(line.split(":")[1]) - lines for line in checked.stdout.splitlines() if ": error:" in line}
    assert found == {2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14}, checked.stdout
