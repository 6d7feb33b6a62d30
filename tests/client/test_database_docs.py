"""The examples of docs/client.md and docs/batches.md run, and print what stands under them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
_EXAMPLE = re.compile(r"```python\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.DOTALL)
_MARK = "-- next --\n"


@pytest.mark.parametrize("page", ["client.md", "batches.md"])
def test_the_examples_print_what_the_page_says(page, tmp_path):
    examples = _EXAMPLE.findall((DOCS / page).read_text())
    assert len(examples) > 4
    script = tmp_path / "examples.py"
    script.write_text("".join(f"{code}\nprint({_MARK!r}, end='')\n" for code, _ in examples))
    ran = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split(_MARK)[:-1] == [expected for _, expected in examples]
