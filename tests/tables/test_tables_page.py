"""docs/tables.md says what is so: its examples run, one after another, and print what stands below each."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"


def test_the_page_prints_what_it_says() -> None:
    blocks = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    names: dict[str, Any] = {}
    for code, printed in blocks:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(code, str(PAGE), "exec"), names)
        assert output.getvalue() == printed
    assert len(blocks) == 8
