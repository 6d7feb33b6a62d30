"""A user's module is checked strictly, and does what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sample_user_code

SAMPLE = Path(sample_user_code.__file__)
ROOT = SAMPLE.parents[2]


def mypy(path: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--python-version", "3.11", "--cache-dir", cache, path]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_the_sample_runs(tmp_path):
    assert sample_user_code.main(str(tmp_path / "companies.db")) == ["c1", "c2", "c3", "c5", "c9"]


def test_the_sample_is_typed(tmp_path):
    pytest.importorskip("mypy")
    # The usual cache where there is one: from nothing it takes half a minute.
    checked = mypy(SAMPLE, ROOT / ".mypy_cache")
    assert checked.returncode == 0, checked.stdout


def test_mistakes_are_found(tmp_path):
    pytest.importorskip("mypy")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import penstock\n"
        "db = penstock.connect()\n"
        "table = db.table('companies')\n"
        "table.get('c1')\n"
        "table.put({'id': 1}, if_=True)\n"
        "item: dict[str, int] = table.get({'id': 1})\n"
        "table.scan(limit='3')\n"
        "table.batch(duplicates='first')\n"
        "penstock.F('a').type('X')\n"
    )
    checked = mypy(wrong, ROOT / ".mypy_cache")
    found = {int(line.split(":")[1]) for line in checked.stdout.splitlines() if ": error:" in line}
    assert found == {4, 5, 6, 7, 8, 9}, checked.stdout
