"""Calls that a page names inside a sentence exist: no block runs these."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import penstock

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CALL = re.compile(r"(?<![\w./-])(db|app)\.([A-Za-z_]\w*)\(")


def named_calls() -> Iterator[tuple[str, str, str]]:
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for code in re.findall(r"`([^`\n]+)`", text):
            for who, name in CALL.findall(code):
                yield page.name, who, name


def test_a_method_that_is_named_in_a_sentence_is_there() -> None:
    with penstock.connect(":memory:") as db:
        app = penstock.App(db)
        kinds = {"db": db, "app": app}
        found = list(named_calls())
        assert len(found) > 20
        assert [one for one in found if not hasattr(kinds[one[1]], one[2])] == []
        app.close()


def test_what_the_table_of_trust_names_is_there() -> None:
    """Each program of `python -m trust` is in the table, and each test that the table names exists."""
    table = (ROOT / "trust" / "README.md").read_text()
    listed = subprocess.run(
        [sys.executable, "-m", "trust"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    programs = set(re.findall(r"^`(python -m trust\.\w+)", listed, re.MULTILINE))
    assert programs == set(re.findall(r"`(python -m trust\.\w+)`", table))
    tests = re.findall(r"`(tests/[\w/]+\.py)`", table)
    assert len(tests) > 15
    assert [
        name for name in tests if not re.search(r"^(async )?def test_", (ROOT / name).read_text(), re.MULTILINE)
    ] == []
